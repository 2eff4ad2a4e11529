//! Intrusion detection by rules.

pub mod detect;
pub mod rules;
