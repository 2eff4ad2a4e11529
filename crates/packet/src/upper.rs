//! The start of an IP packet's content, after its headers: where compression and encryption insert
//! their own.

use crate::wire::{ip_protocol, ipv4, ipv6, ipv6_ext};
use crate::{Field, FieldSet, Packet};

/// The content of an IP packet. Offsets are from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// The byte that names the header at `body`: the IPv4 protocol, or the next header of the IPv6
    /// header or of the last extension header before `body`.
    pub next_at: usize,
    /// Where it begins.
    pub body: usize,
    /// The protocol at `next_at`.
    pub protocol: u8,
}

impl UpperLayer {
    /// The part of a whole, well-formed packet that only its receiver reads. `None` if it is not
    /// IP, and after AH and fragment headers.
    pub fn end_to_end(packet: &Packet<'_>) -> Option<Self> {
        match packet.version() {
            4 => Some(of_v4(packet)),
            6 => of_v6(packet),
            _ => None,
        }
    }

    /// The part of a well-formed packet after the last IP header.
    pub fn last(packet: &Packet<'_>) -> Option<Self> {
        match packet.version() {
            4 => Some(of_v4(packet)),
            6 => chain(packet).last(),
            _ => None,
        }
    }
}

fn of_v4(packet: &Packet<'_>) -> UpperLayer {
    let next_at = packet.l3_offset() + ipv4::field::PROTOCOL.start;
    UpperLayer { next_at, body: packet.l4_offset(), protocol: packet.ip_protocol() }
}

/// RFC 3173, 3.2 and RFC 4303, 3.1.1: after hop-by-hop, routing and fragment headers. Destination
/// options stay before it only if a routing header follows them, since they are then read on the
/// way.
fn of_v6(packet: &Packet<'_>) -> Option<UpperLayer> {
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

/// The content named by each header of an IPv6 packet, from the fixed one on. For well-formed
/// packets only: their chain ends.
pub fn chain<'a>(packet: &Packet<'a>) -> impl Iterator<Item = UpperLayer> + use<'a> {
    let fields = FieldSet::of(&[Field::IpProtocol, Field::IpOptions]);
    let (frame, l3) = (packet.into_frame_for(fields), packet.l3_offset());
    let next_at = l3 + ipv6::field::NEXT_HEADER.start;
    let first = frame.get(next_at).map(|&protocol| UpperLayer {
        next_at,
        body: l3 + ipv6::HEADER_LEN,
        protocol,
    });
    let next = move |place: &UpperLayer| {
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
        Some(UpperLayer { next_at: place.body, body: place.body + len, protocol })
    };
    core::iter::successors(first, next)
}
