//! Configuration: TOML tables as typed values, and diagnostics with positions.
//!
//! A [`Section`] is one table of a chain file. This crate knows no packets and no functions.

#![forbid(unsafe_code)]

mod diagnostic;
mod folder;
mod keys;
mod section;
mod similar;
pub mod unpack;

pub use diagnostic::{Diagnostic, Diagnostics, LISTED_MAX, SourceText, is_deceptive};
pub use folder::{FILE_LEN_MAX, Folder, read_packed_text, read_text};
pub use keys::{COMMON_KEYS, Key};
pub use section::{Layer, NumberOrName, Section};
pub use similar::did_you_mean;
