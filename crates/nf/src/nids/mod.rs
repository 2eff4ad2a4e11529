//! Intrusion detection by rules.

pub mod report;
pub mod rules;
