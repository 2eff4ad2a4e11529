//! Intrusion detection by rules.

pub mod matcher;
pub mod rules;
