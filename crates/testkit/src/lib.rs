//! Frames and functions that several crates' tests share.

#![forbid(unsafe_code)]

pub mod finder;
pub mod frames;
