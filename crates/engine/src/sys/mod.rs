//! Calls to the operating system, and the only `unsafe` of this crate.

#![allow(unsafe_code)]

mod huge_alloc;

pub use huge_alloc::HugeAlloc;
