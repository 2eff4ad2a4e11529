//! Hyperscan 5.2 to 5.4, or Vectorscan 5.4, which has the same functions: searches many literals in
//! one pass.
//!
//! [`Library::load`] returns it, or the reason why it can't be used. [`Database::compile`] makes a
//! database of [`Literal`]s, which all threads can [`scan`](Database::scan) with. Each thread has
//! scratch memory of its own. It is made at the first scan, and again when new databases need more
//! or dropped ones let it shrink. Otherwise a scan neither allocates nor locks.
//!
//! Compiling takes seconds for many literals: a [`Cache`] keeps databases on disk for the next
//! process.
//!
//! Limits: Linux. Block mode; a literal is reported once per scan, without its position. A text has
//! at most [`TEXT_LEN_MAX`] bytes, a literal [`LITERAL_LEN_MAX`].

use core::fmt;

pub use self::cache::Cache;
pub use crate::sys::hyperscan::{Database, Library};

mod cache;
pub(crate) mod sealed;

/// The longest literal, in bytes.
pub const LITERAL_LEN_MAX: usize = 4096;
/// The longest text of one scan, in bytes.
pub const TEXT_LEN_MAX: usize = u32::MAX as usize;

/// A literal to search; its number is its index in the list.
#[derive(Clone, Copy, Debug)]
pub struct Literal<'a> {
    /// 1 to [`LITERAL_LEN_MAX`] bytes of any kind, zeros among them.
    pub bytes: &'a [u8],
    /// Letters of ASCII match whichever case they are in.
    pub is_caseless: bool,
}

/// Why the library does not take literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The library's message.
    pub message: String,
    /// Which literal it means, where it means one.
    pub literal: Option<usize>,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.literal {
            Some(literal) => write!(f, "Hyperscan, of literal {literal}: {}", self.message),
            None => write!(f, "Hyperscan: {}", self.message),
        }
    }
}

impl core::error::Error for CompileError {}

/// A scan was not done: there was no memory for scratch, the text was too long, or a callback of
/// the thread's own scan started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotScanned;

#[cfg(test)]
mod tests;
