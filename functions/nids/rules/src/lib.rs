//! The rule language: parses rules into [`Rule`]s. Start at [`read()`].
//!
//! `lines` splits a file, `header` and `option` a line. The file for an option's kind parses it
//! into part of a rule, or refuses it: as wrong, or as not supported.

#![forbid(unsafe_code)]

mod about;
mod address;
mod byte_option;
mod configs;
mod content;
mod draft;
mod flow_option;
mod flow_test;
mod group;
mod header;
mod held;
mod keywords;
mod lines;
mod need;
mod number;
mod option;
mod packet_option;
mod payload_test;
mod pcre;
mod piece;
mod ranges;
mod rate;
mod read;
mod requires;
mod rule;
#[cfg(test)]
mod tests;
mod threshold_file;

pub use configs::{Class, Configs};
pub use flow_test::*;
pub use group::{VariableKind, VariableMistake, Variables};
pub use held::{Held, HeldRule};
pub use need::Need;
pub use payload_test::*;
pub use read::grouped;
pub use read::{Dialect, RuleFile, RuleSet, read};
pub use rule::*;
pub use threshold_file::*;
