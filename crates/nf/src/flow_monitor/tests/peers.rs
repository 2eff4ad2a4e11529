//! Collectors of others read what is exported: nfdump and tshark.
