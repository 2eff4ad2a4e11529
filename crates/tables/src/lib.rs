//! Tables that functions share: a keyed index of flows, a slab of entries that expire, lists
//! through slabs, fair shares of a full table, a packet classifier, and TCP conversations as
//! entries.

#![forbid(unsafe_code)]

pub mod classifier;
mod fullest;
pub mod index;
pub mod keyed;
pub mod list;
mod shares;
mod slab;
mod sources;
pub mod tcp;

pub use fullest::fullest;
pub use index::Index;
pub use keyed::HashKey;
pub use shares::{Owner, Shares};
pub use slab::{Slab, Timed};
pub use sources::Sources;
