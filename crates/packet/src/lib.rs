//! Bytes and their meaning: header views, the one table of fields, access, batches and arenas.

#![deny(unsafe_code)]

mod link;
mod time;
pub mod wire;

pub use link::LinkType;
pub use time::Instant;
