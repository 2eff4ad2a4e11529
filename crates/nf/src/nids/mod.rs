//! Intrusion detection by rules.

pub mod flows;
pub mod rules;
