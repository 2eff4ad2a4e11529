//! Perl regular expressions over bytes, by PCRE2 (<https://www.pcre.org/current/doc/html/>),
//! version 10.42 or later.
//!
//! Threads share a [`Regex`]; each has its own [`Match`], made once. A search allocates nothing if
//! the expression was compiled to machine code ([`Regex::is_jit`]). Otherwise it allocates only
//! until `Match` is as large as the deepest search needed.
//!
//! Limits: bytes, never UTF-8; captures are not reported. An expression that would take too long
//! gives [`RegexResult::Limit`].

use core::ops::Range;

use core::fmt;

use crate::sys::pcre2::{Code, Data, SearchOutcome};

/// The options of an expression, as the letters after it in Perl.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `i`: letters match whichever case they are in.
    pub caseless: bool,
    /// `s`: `.` matches line ends too.
    pub dotall: bool,
    /// `m`: `^` and `$` match at line ends too.
    pub multiline: bool,
    /// `x`: white space and comments in the expression are left out.
    pub extended: bool,
    /// `A`: it matches where the search starts only.
    pub anchored: bool,
    /// `$` matches at the very end only, never before a line end there.
    pub dollar_endonly: bool,
    /// Quantifiers are lazy unless followed by `?`.
    pub ungreedy: bool,
}

/// How much work a search may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls of the inner matcher, about one for each choice. Machine code counts more coarsely.
    pub match_limit: u32,
    /// How deep choices may nest. Machine code has a stack of 32 KiB instead.
    pub depth_limit: u32,
}

/// Those that Suricata has by default.
impl Default for Limits {
    fn default() -> Self {
        Self { match_limit: 3500, depth_limit: 1500 }
    }
}

/// An error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Where, in bytes from its start.
    pub offset: usize,
    /// What, in words of PCRE2.
    pub message: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset)
    }
}

impl core::error::Error for PatternError {}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegexResult {
    /// A match. If the expression moves its start (`\K`), the start may be after the end.
    Match(Range<usize>),
    /// None.
    None,
    /// The search was given up: it reached a limit, or memory was short.
    Limit,
}

/// An expression, compiled.
#[derive(Debug)]
pub struct Regex {
    code: Code,
    is_jit: bool,
}

impl Regex {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// [`PatternError`] where PCRE2 does not take it.
    pub fn new(pattern: &[u8], flags: Flags, limits: Limits) -> Result<Self, PatternError> {
        // Without captures it is faster; an expression that refers back needs them.
        let mut code = Code::compile(pattern, flags, true, limits)
            .or_else(|_| Code::compile(pattern, flags, false, limits))?;
        let is_jit = code.compile_to_machine_code();
        Ok(Self { code, is_jit })
    }

    /// Whether it runs as machine code.
    pub fn is_jit(&self) -> bool {
        self.is_jit
    }

    /// The first match in `subject` that starts at byte `start` or later. Assertions see the bytes
    /// before it.
    pub fn find_at(&self, memory: &mut Match, subject: &[u8], start: usize) -> RegexResult {
        if start > subject.len() {
            return RegexResult::None;
        }
        match self.code.search(&mut memory.0, subject, start) {
            SearchOutcome::Match(range) => RegexResult::Match(range),
            SearchOutcome::None => RegexResult::None,
            SearchOutcome::GivenUp => RegexResult::Limit,
        }
    }
}

/// The memory that a search writes to.
#[derive(Debug)]
pub struct Match(Data);

impl Match {
    /// For any expression; `None` where there is no memory.
    pub fn new() -> Option<Self> {
        Data::new().map(Self)
    }
}

#[cfg(test)]
mod tests;
