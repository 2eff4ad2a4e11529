//! Memory that devices reach and kernels that are vouched for: the only `unsafe` code of this
//! crate.

#![allow(unsafe_code)]

pub(crate) mod lane_memory;
pub(crate) mod vouched;
