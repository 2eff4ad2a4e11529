//! What tests share: frames made by hand, and functions that exist for tests only.

#![forbid(unsafe_code)]

pub mod finder;
pub mod frames;
