//! Intrusion detection by rules.

pub mod rules;
