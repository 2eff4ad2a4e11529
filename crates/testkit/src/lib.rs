//! Frames, functions, a device and an oracle of connection tracking that several crates' tests
//! share.

#![forbid(unsafe_code)]

pub mod busy;
pub mod conntrack;
pub mod finder;
pub mod frames;
