//! Where the IPComp header stands, or would stand, in a packet (RFC 3173, 3.1 and 3.2).

use warpline_packet::Packet;
use warpline_packet::wire::{ip_protocol, ipv4, ipv6, ipv6_ext};

/// Bytes of the IPComp header.
pub(super) const HEADER_LEN: usize = 4;

/// Where each field of the IPComp header is.
pub(super) mod field {
    use core::ops::Range;

    /// The protocol of what is compressed.
    pub(in crate::ipcomp) const NEXT_HEADER: Range<usize> = 0..1;
    /// Compression parameter index.
    pub(in crate::ipcomp) const CPI: Range<usize> = 2..4;
}

/// What is compressed, or is to be. Offsets are from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The byte that names what is at `body`: IPv4 protocol, or next header of the IPv6 header or of the last
    /// extension header before `body`.
    pub(super) next_at: usize,
    /// Where the payload that is compressed starts, or the IPComp header that stands before it.
    pub(super) body: usize,
    /// What `next_at` says.
    pub(super) protocol: u8,
}

/// What of a whole, well-formed packet is compressed; `None` where RFC 3173 keeps it from being.
pub(super) fn to_compress(packet: &Packet<'_>) -> Option<Place> {
    let place = match packet.version() {
        4 => of_v4(packet),
        6 => of_v6(packet)?,
        _ => return None,
    };
    let taken = matches!(
        place.protocol,
        // Compressed, encrypted, or signed as it is: a change would break what the receiver checks first.
        ip_protocol::IPCOMP
            | ip_protocol::ESP
            | ip_protocol::AH
            | ip_protocol::NO_NEXT_HEADER
            | ip_protocol::FRAGMENT
    );
    (!taken).then_some(place)
}

/// Where the IPComp header of a whole, well-formed packet stands, if it has one; `None` also behind AH, which
/// is checked before it is decompressed (RFC 3173, 2): it signs the packet as it is.
pub(super) fn to_decompress(packet: &Packet<'_>) -> Option<Place> {
    if packet.protocol() != ip_protocol::IPCOMP {
        return None;
    }
    match packet.version() {
        4 => Some(of_v4(packet)),
        6 if chain(packet).any(|place| place.protocol == ip_protocol::AH) => None,
        6 => chain(packet).last().filter(|place| place.protocol == ip_protocol::IPCOMP),
        _ => None,
    }
}

fn of_v4(packet: &Packet<'_>) -> Place {
    let next_at = packet.l3_offset() + ipv4::field::PROTOCOL.start;
    Place { next_at, body: packet.l4_offset(), protocol: packet.ip_protocol() }
}

/// RFC 3173, 3.2: the IPComp header follows hop-by-hop, routing and fragment headers. Destination options
/// stay before it only where a routing header follows them, which says that they are read on the way.
fn of_v6(packet: &Packet<'_>) -> Option<Place> {
    let mut found = None;
    let mut before = None;
    for place in chain(packet) {
        if matches!(before, None | Some(ip_protocol::HOP_BY_HOP | ip_protocol::ROUTING)) {
            found = Some(place);
        }
        if matches!(place.protocol, ip_protocol::AH | ip_protocol::FRAGMENT) {
            return None;
        }
        before = Some(place.protocol);
    }
    found
}

/// What each header of an IPv6 packet names, from the fixed one on. Well-formed packets only: their chain ends.
fn chain<'a>(packet: &Packet<'a>) -> impl Iterator<Item = Place> + use<'a> {
    let (frame, l3) = (packet.into_frame(), packet.l3_offset());
    let next_at = l3 + ipv6::field::NEXT_HEADER.start;
    let first = frame.get(next_at).map(|&protocol| Place {
        next_at,
        body: l3 + ipv6::HEADER_LEN,
        protocol,
    });
    let next = move |place: &Place| {
        if !ip_protocol::is_extension(place.protocol) {
            return None;
        }
        let header = frame.get(place.body..)?;
        let len = usize::from(*header.get(ipv6_ext::field::LEN.start)?);
        let len = match place.protocol {
            ip_protocol::FRAGMENT => ipv6_ext::HEADER_LEN,
            // RFC 4302, 2.2: 32-bit words minus 2.
            ip_protocol::AH => 4 * (len + 2),
            _ => 8 * (len + 1),
        };
        let protocol = *header.first()?;
        Some(Place { next_at: place.body, body: place.body + len, protocol })
    };
    core::iter::successors(first, next)
}
