//! Frames from the inside out: a transport message with its checksum, the IP packet around it, the
//! Ethernet frame around that.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::{
    Ethernet, Icmpv4, Icmpv6, Ipv4, Ipv6, Tcp, Udp, Vlan, checksum, ethernet, ethertype, icmpv4,
    icmpv6, ip_protocol, ipv4, ipv6, ipv6_ext, tcp, udp, vlan,
};

use super::hosts::{GATEWAY, Host};

/// The way of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) from: Host,
    pub(super) to: Host,
    pub(super) tags: &'static [Tag],
    /// Differentiated services (6 bits), shifted by 2.
    pub(super) class: u8,
}

impl Path {
    /// Without tags, best effort.
    pub(super) const fn new(from: Host, to: Host) -> Self {
        Self { from, to, tags: &[], class: 0 }
    }

    /// The way back.
    pub(super) const fn back(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }

    /// The sum of the pseudo-header for `len` bytes of `protocol`.
    fn pseudo(&self, protocol: u8, len: usize) -> u32 {
        match (self.from.ip, self.to.ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                checksum::pseudo_v4(src, dst, protocol, len as u16)
            }
            (src, dst) => checksum::pseudo_v6(v6(src), v6(dst), protocol, len as u32),
        }
    }
}

/// A VLAN tag: the EtherType that announces it, and its identifier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag(pub(super) u16, pub(super) u16);

/// What IP carries, with its checksum set.
#[derive(Clone, Debug)]
pub(super) struct Upper {
    pub(super) protocol: u8,
    pub(super) bytes: Vec<u8>,
}

/// A UDP datagram between two ports.
pub(super) fn datagram(path: &Path, ports: (u16, u16), data: &[u8]) -> Upper {
    let mut bytes = vec![0; udp::HEADER_LEN];
    bytes.extend_from_slice(data);
    let len = bytes.len();
    let mut udp = Udp::new_unchecked(&mut bytes[..]);
    udp.set_src_port(ports.0);
    udp.set_dst_port(ports.1);
    udp.set_length(len as u16);
    udp.fill_checksum(path.pseudo(ip_protocol::UDP, len));
    Upper { protocol: ip_protocol::UDP, bytes }
}

/// The header of a TCP segment, without its checksum.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    pub(super) ports: (u16, u16),
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u16,
    pub(super) window: u16,
    /// A multiple of 4 bytes.
    pub(super) options: Vec<u8>,
}

/// A TCP segment.
pub(super) fn segment(path: &Path, header: &Segment, data: &[u8]) -> Upper {
    let mut bytes = vec![0; tcp::HEADER_LEN];
    bytes.extend_from_slice(&header.options);
    let header_len = bytes.len();
    bytes.extend_from_slice(data);
    let pseudo = path.pseudo(ip_protocol::TCP, bytes.len());
    let mut tcp = Tcp::new_unchecked(&mut bytes[..]);
    tcp.set_src_port(header.ports.0);
    tcp.set_dst_port(header.ports.1);
    tcp.set_seq(header.seq);
    tcp.set_ack(header.ack);
    tcp.set_header_len(header_len);
    tcp.set_flags(header.flags);
    tcp.set_window(header.window);
    tcp.fill_checksum(pseudo);
    Upper { protocol: ip_protocol::TCP, bytes }
}

/// An ICMP or ICMPv6 echo message of `numbers` (identifier, sequence number).
pub(super) fn echo(path: &Path, is_request: bool, numbers: (u16, u16), data: &[u8]) -> Upper {
    let rest = u32::from(numbers.0) << 16 | u32::from(numbers.1);
    if path.from.is_v4() {
        use icmpv4::message::{ECHO_REPLY, ECHO_REQUEST};
        let mut bytes = vec![0; icmpv4::HEADER_LEN];
        bytes.extend_from_slice(data);
        let mut icmp = Icmpv4::new_unchecked(&mut bytes[..]);
        icmp.set_message_type(if is_request { ECHO_REQUEST } else { ECHO_REPLY });
        icmp.set_rest(rest);
        icmp.fill_checksum();
        return Upper { protocol: ip_protocol::ICMP, bytes };
    }
    use icmpv6::message::{ECHO_REPLY, ECHO_REQUEST};
    icmpv6(path, if is_request { ECHO_REQUEST } else { ECHO_REPLY }, rest, data)
}

/// An ICMPv6 message with code 0.
pub(super) fn icmpv6(path: &Path, message_type: u8, rest: u32, data: &[u8]) -> Upper {
    let mut bytes = vec![0; icmpv6::HEADER_LEN];
    bytes.extend_from_slice(data);
    let pseudo = path.pseudo(ip_protocol::ICMPV6, bytes.len());
    let mut icmp = Icmpv6::new_unchecked(&mut bytes[..]);
    icmp.set_message_type(message_type);
    icmp.set_rest(rest);
    icmp.fill_checksum(pseudo);
    Upper { protocol: ip_protocol::ICMPV6, bytes }
}

/// A frame with the whole message in one packet.
pub(super) fn whole(path: &Path, ident: u16, upper: &Upper) -> Vec<u8> {
    if !path.from.is_v4() {
        return packet_v6(path, upper.protocol, &upper.bytes);
    }
    // Path MTU discovery (RFC 1191): TCP does it, so it forbids fragments.
    let dont_fragment = upper.protocol == ip_protocol::TCP;
    let word = if dont_fragment { ipv4::DONT_FRAGMENT } else { 0 };
    packet_v4(path, ident, word, upper.protocol, &upper.bytes)
}

/// Frames with the message in fragments, which are as long as the link takes.
pub(super) fn fragments(path: &Path, ident: u16, upper: &Upper) -> Vec<Vec<u8>> {
    let len = if path.from.is_v4() { FRAGMENT_LEN_V4 } else { FRAGMENT_LEN_V6 };
    let last = (upper.bytes.len() - 1) / len;
    let piece = |(number, data): (usize, &[u8])| {
        let units = (number * len / 8) as u16;
        let more = number < last;
        if path.from.is_v4() {
            let word = units | if more { ipv4::MORE_FRAGMENTS } else { 0 };
            return packet_v4(path, ident, word, upper.protocol, data);
        }
        let word = units << 3 | u16::from(more);
        let header = fragment_header(upper.protocol, word, u32::from(ident));
        packet_v6(path, ip_protocol::FRAGMENT, &[&header, data].concat())
    };
    upper.bytes.chunks(len).enumerate().map(piece).collect()
}

/// A frame with an IPv6 packet that has these extension headers, in this order: options headers
/// that hold padding only, or a fragment header of a packet that is whole (RFC 6946).
pub(super) fn extended(path: &Path, headers: &[u8], upper: &Upper) -> Vec<u8> {
    let mut payload = Vec::new();
    for (index, &header) in headers.iter().enumerate() {
        let next = headers.get(index + 1).copied().unwrap_or(upper.protocol);
        payload.extend(match header {
            ip_protocol::FRAGMENT => fragment_header(next, 0, 0x00c0_ffee),
            // One PadN option of 6 bytes (RFC 8200, 4.2).
            _ => [next, 0, 1, 4, 0, 0, 0, 0],
        });
    }
    payload.extend_from_slice(&upper.bytes);
    packet_v6(path, headers.first().copied().unwrap_or(upper.protocol), &payload)
}

/// A frame of an EtherType, padded to Ethernet's least length.
pub(super) fn framed(src: [u8; 6], dst: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    let mut link = Ethernet::new_unchecked(&mut frame[..]);
    link.set_src(src);
    link.set_dst(dst);
    link.set_ethertype(ethertype);
    frame.extend_from_slice(payload);
    frame.resize(frame.len().max(FRAME_LEN_MIN), 0);
    frame
}

fn packet_v4(path: &Path, ident: u16, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    packet.extend_from_slice(payload);
    let total_len = packet.len() as u16;
    let mut ip = Ipv4::new_unchecked(&mut packet[..]);
    ip.set_header_len(ipv4::HEADER_LEN);
    ip.set_dscp_ecn(path.class);
    ip.set_total_len(total_len);
    ip.set_ident(ident);
    ip.set_flags_fragment(fragment);
    ip.set_ttl(path.from.hops);
    ip.set_protocol(protocol);
    ip.set_src_addr(v4(path.from.ip));
    ip.set_dst_addr(v4(path.to.ip));
    ip.fill_checksum();
    tagged(path, ethertype::IPV4, &packet)
}

fn packet_v6(path: &Path, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN];
    packet.extend_from_slice(payload);
    let (src, dst) = (v6(path.from.ip), v6(path.to.ip));
    let mut ip = Ipv6::new_unchecked(&mut packet[..]);
    // A flow label by address pair (RFC 6437 wants one by flow; what it is does not matter here).
    ip.set_class_and_flow(
        path.class,
        checksum::sum(&src.octets()) * 31 + u32::from(dst.octets()[15]),
    );
    ip.set_payload_len(payload.len() as u16);
    ip.set_next_header(next_header);
    ip.set_hop_limit(path.from.hops);
    ip.set_src_addr(src);
    ip.set_dst_addr(dst);
    tagged(path, ethertype::IPV6, &packet)
}

/// Puts the tags of the way before a packet, and the frame around them.
fn tagged(path: &Path, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (index, tag) in path.tags.iter().enumerate() {
        let mut bytes = [0; vlan::HEADER_LEN];
        let mut view = Vlan::new_unchecked(&mut bytes[..]);
        view.set_vid(tag.1);
        view.set_ethertype(path.tags.get(index + 1).map_or(ethertype, |next| next.0));
        payload.extend(bytes);
    }
    payload.extend_from_slice(packet);
    let ethertype = path.tags.first().map_or(ethertype, |tag| tag.0);
    framed(path.from.mac, GATEWAY, ethertype, &payload)
}

fn fragment_header(next: u8, word: u16, ident: u32) -> [u8; ipv6_ext::HEADER_LEN] {
    let mut header = [next, 0, 0, 0, 0, 0, 0, 0];
    header[ipv6_ext::field::OFFSET_FLAGS].copy_from_slice(&word.to_be_bytes());
    header[ipv6_ext::field::IDENT].copy_from_slice(&ident.to_be_bytes());
    header
}

/// The IPv4 address; paths between two versions don't exist.
fn v4(ip: IpAddr) -> Ipv4Addr {
    match ip {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// Without the frame check sequence.
const FRAME_LEN_MIN: usize = 60;
/// Data of a fragment on a link of 1500 bytes: a multiple of 8.
const FRAGMENT_LEN_V4: usize = 1480;
const FRAGMENT_LEN_V6: usize = 1448;
