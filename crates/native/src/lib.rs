//! Safe interfaces to native libraries loaded at run time. The build needs none of them. A missing
//! library, or one of an untested version, is a [`Missing`] with its reason.
//!
//! PCRE2 ([`regex`]) is the exception: its C source comes with the crate `pcre2-sys` and is built
//! in unless the system has it. So it is never missing.
//!
//! All `unsafe` code is in `sys/`, in one file or folder for each library.

use core::fmt;

pub mod hyperscan;
pub mod ipsec_mb;
pub mod packet_filter;
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
