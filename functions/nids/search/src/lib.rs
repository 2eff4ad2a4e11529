//! Multi-pattern search: which of a list of byte strings occur in a payload.
//!
//! [`build`] makes a [`Matcher`] of [`Pattern`]s, and every matcher gives the same [`Hits`].
//! Hyperscan is the fastest and is used if it is installed; a glance spares it most short
//! payloads. [`Dense`] is an automaton for small sets, with a table that grows with the bytes of
//! the patterns. [`Compact`] first filters by grams and takes a tenth of the memory. The tables of
//! [`Dense`] and [`Compact`] are flat arrays.
//!
//! [`Placed`] looks for patterns at their places alone.
//!
//! The search folds ASCII letters to lower case. A case-sensitive pattern is compared again at each
//! match of its folded bytes.

#![forbid(unsafe_code)]

use core::fmt;
use std::sync::Arc;

use warpline_native::Missing;
use warpline_native::hyperscan::CompileError;

mod anchors;
mod compact;
mod dense;
mod double_array;
mod flat;
mod glance;
mod gram_tables;
mod grams;
mod hits;
mod hyperscan;
mod literals;
mod placed;
mod trie;

pub use compact::Compact;
pub use dense::Dense;
pub use flat::Flat;
pub use gram_tables::GramTables;
pub use hits::Hits;
pub use hyperscan::Hyperscan;
pub use placed::{Placed, PlacedPattern};
pub use warpline_native::hyperscan::Cache;

/// The longest pattern, in bytes.
pub const PATTERN_LEN_MAX: usize = warpline_native::hyperscan::LITERAL_LEN_MAX;
/// Bytes of a dense table up to which [`Choice::Auto`] takes it, where Hyperscan is missing.
const DENSE_AUTO_LEN_MAX: usize = 2 << 20;

/// A literal; its id is its place in the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// 1 to [`PATTERN_LEN_MAX`] bytes.
    pub bytes: Arc<[u8]>,
    /// Letters of ASCII match whichever case they are in.
    pub is_nocase: bool,
}

/// Finds literals. Threads share it, each with its own hits.
pub trait Matcher: Send + Sync {
    /// Adds the ids of all patterns that occur in `bytes` to `hits`, which are in order afterwards.
    fn scan(&self, bytes: &[u8], hits: &mut Hits);

    /// Bytes that its tables take up.
    fn memory_len(&self) -> usize;

    /// Its name.
    fn name(&self) -> &'static str;
}

/// Which matcher is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Hyperscan where it is installed, or else a dense automaton where it is small, or else a
    /// compact one.
    #[default]
    Auto,
    /// Hyperscan.
    Hyperscan,
    /// [`Dense`].
    Dense,
    /// [`Compact`].
    Compact,
}

/// Why there is no matcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Hyperscan was asked for and can't be used.
    Missing(Missing),
    /// Hyperscan doesn't take the patterns.
    Refused(CompileError),
    /// The pattern with this id is empty or too long.
    Pattern(u32),
    /// The patterns' tables would be too long.
    TooLong,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(missing) => missing.fmt(f),
            Self::Refused(error) => error.fmt(f),
            Self::Pattern(id) => write!(f, "pattern {id} is not of 1 to {PATTERN_LEN_MAX} bytes"),
            Self::TooLong => f.write_str("the patterns' tables would be too long"),
        }
    }
}

impl core::error::Error for Error {}

/// Makes the matcher of `patterns`. Databases of Hyperscan's are kept in `cache`, where there is
/// one.
///
/// # Errors
///
/// See [`Error`]. [`Choice::Auto`] falls back where Hyperscan is missing or refuses.
pub fn build(
    choice: Choice,
    patterns: &[Pattern],
    cache: Option<&Cache>,
) -> Result<Box<dyn Matcher>, Error> {
    check(patterns)?;
    match choice {
        Choice::Auto => auto(patterns, cache),
        Choice::Hyperscan => Ok(Box::new(Hyperscan::new(patterns, cache)?)),
        Choice::Dense => Ok(Box::new(Dense::new(patterns)?)),
        Choice::Compact => Ok(Box::new(Compact::new(patterns)?)),
    }
}

fn check(patterns: &[Pattern]) -> Result<(), Error> {
    if u32::try_from(patterns.len()).is_err() {
        return Err(Error::TooLong);
    }
    let is_bad = |pattern: &Pattern| !(1..=PATTERN_LEN_MAX).contains(&pattern.bytes.len());
    match patterns.iter().position(is_bad) {
        Some(place) => Err(Error::Pattern(place as u32)),
        None => Ok(()),
    }
}

fn auto(patterns: &[Pattern], cache: Option<&Cache>) -> Result<Box<dyn Matcher>, Error> {
    if let Ok(hyperscan) = Hyperscan::new(patterns, cache) {
        return Ok(Box::new(hyperscan));
    }
    match Dense::new_within(patterns, DENSE_AUTO_LEN_MAX) {
        Ok(dense) => Ok(Box::new(dense)),
        Err(_) => Ok(Box::new(Compact::new(patterns)?)),
    }
}

#[cfg(test)]
mod tests;
