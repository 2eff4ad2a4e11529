//! Safe fronts of native libraries that are loaded at run time. None of them is needed to build; one that is
//! absent, or of a version that was not checked, is a [`Missing`] with its reason.
//!
//! The exception is PCRE2 ([`regex`]): its C source comes with the crate `pcre2-sys` and is built in, unless the system
//! has it, so that it is never missing.
//!
//! All `unsafe` lies in `sys/`, a file for each library.

use core::fmt;

pub mod hyperscan;
pub mod ipsec_mb;
pub mod regex;
mod sys;

/// Why a library can't be used, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Missing {}
