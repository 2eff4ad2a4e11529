//! The facts about a frame that its batch gets from ingress.

use crate::{Instant, LinkType};

/// Facts from the source and ingress about a frame, besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its time, made monotone: what functions go by.
    pub timestamp: Instant,
    /// Its own time, as it was captured: what it is sent with.
    pub captured: Instant,
    /// Its number in the chain's input.
    pub ingress: u64,
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// The type of its first header.
    pub link: LinkType,
    /// The interface it came in on.
    pub interface: u16,
    /// The shard that serves it.
    pub shard: u8,
    /// The flow's name.
    pub flow_hash: u32,
}
