//! Calls to the operating system, and the only `unsafe` code of this crate.

#![allow(unsafe_code)]

mod affinity;
mod background;
mod huge_alloc;
mod out_of_memory;
mod shard_regions;
mod timers;

pub(crate) use affinity::pin;
pub use affinity::{allowed, leave};
pub use background::stand_back;
pub use huge_alloc::HugeAlloc;
pub use out_of_memory::end_when_out_of_memory;
pub(crate) use out_of_memory::naming;
pub use shard_regions::gather;
pub(crate) use timers::wake_on_time;
