//! The rule language: what people write, read into [`Rule`]s.

mod rule;

pub use rule::*;
