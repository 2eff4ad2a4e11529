//! Tests of all views together: random bytes, setters against their fields, packets by hand.

mod icmp_error;
mod ingress;
mod packets;
mod random;
mod setters;
