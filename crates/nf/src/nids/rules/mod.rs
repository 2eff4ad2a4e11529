//! The rule language: what people write, read into [`Rule`]s.

mod rule;
mod threshold_file;

pub use rule::*;
pub use threshold_file::*;
