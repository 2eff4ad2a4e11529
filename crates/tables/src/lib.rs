//! Tables that functions share: a keyed index of flows, fair shares of a full table, and a packet
//! classifier.

#![forbid(unsafe_code)]

pub mod classifier;
mod fullest;
pub mod index;
pub mod keyed;
mod shares;
mod sources;

pub use fullest::fullest;
pub use index::Index;
pub use keyed::HashKey;
pub use shares::{Owner, Shares};
pub use sources::Sources;
