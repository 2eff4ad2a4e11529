//! Modes without a way back: a packet is carried to its backend in another one (IP in IP, RFC 2003
//! and RFC 2473), or as it is, in a frame to the backend's Ethernet address.

use warpline_packet::wire::{checksum, ip_protocol, ipv4, ipv6};
use warpline_packet::{Batch, Flags, PacketMut, Reason};

use super::Refusal;
use warpline_rewrite::Endpoint;
use warpline_rewrite::translate::Words;

/// The source of outer headers, where it is not derived from the flow's hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) v4: Option<u32>,
    pub(super) v6: Option<u128>,
}

/// 172.16.0.0/16, and 100::/64, which leads nowhere (RFC 6666): what Katran derives sources in, so
/// that backends spread tunnels over their queues.
pub(super) const DERIVED_V4: u32 = 0xac10_0000;
pub(super) const DERIVED_V6: u128 = 0x0100 << 112;

/// The TTL or hop limit of outer headers.
pub(super) const HOPS: u8 = 64;

/// Bytes by which a tunnel of IP version 4 or 6 makes a packet longer.
pub(super) const fn outer_len(version: u8) -> usize {
    if version == 4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}

/// Whether a packet can be carried in one of `version`, and if not, why.
pub(super) fn check(packet: &PacketMut<'_>, version: u8) -> Result<(), Refusal> {
    let link = packet.link();
    if !link.takes(version) {
        return Err(Refusal::Link);
    }
    let inner = inner_len(packet);
    let whole = if version == 4 { inner + ipv4::HEADER_LEN } else { inner };
    if whole > usize::from(u16::MAX) { Err(Refusal::TooLong) } else { Ok(()) }
}

/// Bytes of a packet with its IP header, whatever was captured.
fn inner_len(packet: &PacketMut<'_>) -> usize {
    packet.ip_wire_len()
}

/// Puts every packet that has a backend in its words in a packet to that: the tag is the IP
/// version. Answers to such packets stay as they are.
pub(super) fn tunnel(batch: &mut Batch, words: &Words, source: Source) {
    batch.for_each_forward(|packet| {
        if packet.has(Flags::ANSWER) {
            return;
        }
        let (version, backend) = words.take(packet);
        let done = match version {
            4 => wrap(packet, &outer_v4(packet, source, backend), 4),
            6 => wrap(packet, &outer_v6(packet, source, backend), 6),
            _ => true,
        };
        if !done {
            packet.drop(Reason(Refusal::TooLong as u8));
        }
    });
}

fn protocol(packet: &PacketMut<'_>) -> u8 {
    if packet.version() == 4 { ip_protocol::IPV4 } else { ip_protocol::IPV6 }
}

/// RFC 2003, 3.1. DSCP and ECN are the inner packet's (RFC 6040, 4.1).
fn outer_v4(packet: &PacketMut<'_>, source: Source, backend: Endpoint) -> [u8; ipv4::HEADER_LEN] {
    use ipv4::field;
    let mut header = [0; ipv4::HEADER_LEN];
    let src = source.v4.unwrap_or(DERIVED_V4 | packet.flow_hash() & 0xffff);
    let mut put =
        |range: core::ops::Range<usize>, bytes: &[u8]| header[range].copy_from_slice(bytes);
    put(field::VER_IHL, &[0x45]);
    put(field::DSCP_ECN, &[packet.traffic_class()]);
    put(field::TOTAL_LEN, &((inner_len(packet) + ipv4::HEADER_LEN) as u16).to_be_bytes());
    // Fragments of a packet need outer packets that differ (RFC 6864, 4).
    let offset = packet.ip_fragment() & ipv4::OFFSET_MASK;
    put(field::IDENT, &packet.ip_ident().wrapping_add(offset).to_be_bytes());
    // "Copied from the corresponding field in the inner IP header": may it be fragmented on its
    // way?
    let fragment = packet.ip_fragment() & ipv4::DONT_FRAGMENT;
    put(field::FLAGS_FRAGMENT, &fragment.to_be_bytes());
    put(field::TTL, &[HOPS]);
    put(field::PROTOCOL, &[protocol(packet)]);
    put(field::SRC_ADDR, &src.to_be_bytes());
    put(field::DST_ADDR, &(backend.address as u32).to_be_bytes());
    let sum = checksum::checksum(&header);
    header[field::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    header
}

/// RFC 2473, 3. The flow label is part of the flow's hash (RFC 6438).
fn outer_v6(packet: &PacketMut<'_>, source: Source, backend: Endpoint) -> [u8; ipv6::HEADER_LEN] {
    use ipv6::field;
    let mut header = [0; ipv6::HEADER_LEN];
    let hash = packet.flow_hash();
    let src = source.v6.unwrap_or(DERIVED_V6 | u128::from(hash));
    let first = 6 << 28 | u32::from(packet.traffic_class()) << 20 | hash & 0xf_ffff;
    let mut put =
        |range: core::ops::Range<usize>, bytes: &[u8]| header[range].copy_from_slice(bytes);
    put(field::VER_TC_FLOW, &first.to_be_bytes());
    put(field::PAYLOAD_LEN, &(inner_len(packet) as u16).to_be_bytes());
    put(field::NEXT_HEADER, &[protocol(packet)]);
    put(field::HOP_LIMIT, &[HOPS]);
    put(field::SRC_ADDR, &src.to_be_bytes());
    put(field::DST_ADDR, &backend.address.to_be_bytes());
    header
}

/// Puts `header`, of an IP version, between the link header and the packet. Says whether there was
/// room.
fn wrap(packet: &mut PacketMut<'_>, header: &[u8], version: u8) -> bool {
    let (link, l3, inner) = (packet.link(), packet.l3_offset(), packet.version());
    if !packet.reshape(-(header.len() as isize), 0) {
        return false;
    }
    let frame = packet.frame_mut();
    frame.copy_within(header.len()..header.len() + l3, 0);
    frame[l3..l3 + header.len()].copy_from_slice(header);
    if version != inner {
        link.announce(&mut frame[..l3], version);
    }
    packet.reparse();
    packet.set_wrapped(true);
    true
}

/// The tag of a packet that goes to an Ethernet address.
pub(super) const TO_MAC: u16 = 1;

/// Notes the Ethernet address of a packet's backend in its words.
pub(super) fn note_mac(packet: &mut PacketMut<'_>, words: &Words, [a, b, rest @ ..]: [u8; 6]) {
    let address = u128::from(u32::from_be_bytes(rest));
    words.put(packet, TO_MAC, Endpoint { address, port: u16::from_be_bytes([a, b]) });
}

/// Sends every packet that has a backend in its words to that, from `own`. Answers to such packets
/// stay as they are.
pub(super) fn readdress(batch: &mut Batch, words: &Words, own: [u8; 6]) {
    batch.for_each_forward(|packet| {
        let (tag, Endpoint { address, port }) = words.take(packet);
        if tag == TO_MAC && !packet.has(Flags::ANSWER) {
            let [a, b] = port.to_be_bytes();
            let [c, d, e, f] = (address as u32).to_be_bytes();
            packet.set_eth_addresses([a, b, c, d, e, f], own);
        }
    });
}
