//! Tables that functions share: a keyed index of flows, fair shares of a full table, a packet
//! classifier, and TCP conversations as entries of a table.

#![forbid(unsafe_code)]

pub mod classifier;
mod fullest;
pub mod index;
pub mod keyed;
mod shares;
mod sources;
pub mod tcp;

pub use fullest::fullest;
pub use index::Index;
pub use keyed::HashKey;
pub use shares::{Owner, Shares};
pub use sources::Sources;
