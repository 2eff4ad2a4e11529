//! Which packets go where the other end is: only those are compressed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use warpline_packet::{Packet, Prefix};

use super::place::{self, UpperLayer};
use warpline_nf::Section;

/// Prefixes that are reached through the other end.
#[derive(Clone, Debug)]
pub(super) struct Destinations {
    /// `None` for everywhere.
    prefixes: Option<Arc<[Prefix]>>,
}

impl Destinations {
    /// Reads the table's key `to`.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let list: Vec<Prefix> = section.parsed_list("to");
        Self { prefixes: section.has("to").then(|| list.into()) }
    }

    /// Where to compress a packet that goes to one of them and whose payload has at least `min_len`
    /// bytes; `None` where it is to be left alone.
    pub(super) fn compressible(&self, packet: &Packet<'_>, min_len: usize) -> Option<UpperLayer> {
        let place = super::eligible(packet, min_len, place::to_compress)?;
        self.hold(packet).then_some(place)
    }

    /// Whether an IP packet goes there.
    fn hold(&self, packet: &Packet<'_>) -> bool {
        let Some(prefixes) = &self.prefixes else { return true };
        let address = match packet.version() {
            4 => IpAddr::V4(Ipv4Addr::from_bits(packet.dst_v4())),
            _ => IpAddr::V6(Ipv6Addr::from_bits(packet.dst_v6())),
        };
        prefixes.iter().any(|prefix| prefix.contains(address))
    }
}
