//! Where the IPComp header stands, or would stand, in a packet (RFC 3173, 3.1 and 3.2).

use warpline_packet::Packet;
use warpline_packet::wire::ip_protocol;

pub(super) use warpline_packet::upper::UpperLayer;
use warpline_packet::upper::chain;

/// Bytes of the IPComp header.
pub(super) const HEADER_LEN: usize = 4;

/// Where each field of the IPComp header is.
pub(super) mod field {
    use core::ops::Range;

    /// The protocol of the compressed payload.
    pub(crate) const NEXT_HEADER: Range<usize> = 0..1;
    /// Compression parameter index.
    pub(crate) const CPI: Range<usize> = 2..4;
}

/// The part of a whole, well-formed packet to compress; `None` if RFC 3173 forbids compression.
pub(super) fn to_compress(packet: &Packet<'_>) -> Option<UpperLayer> {
    let place = UpperLayer::end_to_end(packet)?;
    let taken = matches!(
        place.protocol,
        // Compressed, encrypted, or signed as it is: a change would break what the receiver checks
        // first.
        ip_protocol::IPCOMP | ip_protocol::ESP | ip_protocol::AH | ip_protocol::NO_NEXT_HEADER
    );
    // In IPv4 its number is a protocol like any other.
    let taken = taken || place.protocol == ip_protocol::FRAGMENT && packet.version() == 6;
    (!taken).then_some(place)
}

/// Where the IPComp header of a whole, well-formed packet stands, if it has one. `None` also after
/// AH: AH signs the packet as it is and is checked before decompression (RFC 3173, 2).
pub(super) fn to_decompress(packet: &Packet<'_>) -> Option<UpperLayer> {
    if packet.protocol() != ip_protocol::IPCOMP {
        return None;
    }
    if packet.version() == 6 && chain(packet).any(|place| place.protocol == ip_protocol::AH) {
        return None;
    }
    UpperLayer::last(packet).filter(|place| place.protocol == ip_protocol::IPCOMP)
}
