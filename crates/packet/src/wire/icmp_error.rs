//! ICMP errors, built whole: IP header, ICMP header, and the start of the packet at fault.
//!
//! The builders write into memory from the caller and return `None` where the standards forbid an
//! error. The caller must check three facts itself:
//! - whether the frame came as a link-layer broadcast;
//! - whether the destination is a subnet's broadcast address;
//! - how many errors were sent lately (RFC 1812, 4.3.2.8; RFC 4443, 2.4 (f)).

use super::{Icmpv4, Icmpv6, Ipv4, Ipv6, checksum, icmpv4, icmpv6, ip_protocol, ipv4, ipv6};
use core::net::{Ipv4Addr, Ipv6Addr};

/// The most bytes of an ICMPv4 error (RFC 1812, 4.3.2.3).
pub const MAX_LEN_V4: usize = 576;
/// The most bytes of an ICMPv6 error: the least MTU of IPv6 (RFC 4443, 2.4 (c)).
pub const MAX_LEN_V6: usize = 1280;

/// Time to live or hop limit of an error, the usual default of hosts.
const HOPS: u8 = 64;
/// RFC 1812, 4.3.2.5: precedence 6, internetwork control.
const CONTROL: u8 = 6 << 5;

/// An ICMPv4 error (RFC 792, RFC 1812, RFC 1191).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv4Error {
    /// Time to live exceeded in transit.
    TtlExceeded,
    /// No route to the network.
    NetUnreachable,
    /// The host can't be reached.
    HostUnreachable,
    /// The port is closed.
    PortUnreachable,
    /// Larger than the next hop takes and not to be fragmented.
    FragmentationNeeded {
        /// Bytes that the next hop takes.
        mtu: u16,
    },
    /// A filter forbids it.
    AdminProhibited,
}

impl Icmpv4Error {
    /// Type, code and second word.
    const fn parts(self) -> (u8, u8, u32) {
        match self {
            Self::TtlExceeded => (icmpv4::message::TIME_EXCEEDED, 0, 0),
            Self::NetUnreachable => (icmpv4::message::UNREACHABLE, 0, 0),
            Self::HostUnreachable => (icmpv4::message::UNREACHABLE, 1, 0),
            Self::PortUnreachable => (icmpv4::message::UNREACHABLE, 3, 0),
            Self::FragmentationNeeded { mtu } => (icmpv4::message::UNREACHABLE, 4, mtu as u32),
            Self::AdminProhibited => (icmpv4::message::UNREACHABLE, 13, 0),
        }
    }
}

/// An ICMPv6 error (RFC 4443).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv6Error {
    /// Hop limit exceeded in transit.
    HopLimitExceeded,
    /// No route to the destination.
    NoRoute,
    /// A filter forbids it.
    AdminProhibited,
    /// The address can't be reached.
    AddressUnreachable,
    /// The port is closed.
    PortUnreachable,
    /// Larger than the next hop takes.
    PacketTooBig {
        /// Bytes that the next hop takes.
        mtu: u32,
    },
}

impl Icmpv6Error {
    /// Type, code and second word.
    const fn parts(self) -> (u8, u8, u32) {
        match self {
            Self::HopLimitExceeded => (icmpv6::message::TIME_EXCEEDED, 0, 0),
            Self::NoRoute => (icmpv6::message::UNREACHABLE, 0, 0),
            Self::AdminProhibited => (icmpv6::message::UNREACHABLE, 1, 0),
            Self::AddressUnreachable => (icmpv6::message::UNREACHABLE, 3, 0),
            Self::PortUnreachable => (icmpv6::message::UNREACHABLE, 4, 0),
            Self::PacketTooBig { mtu } => (icmpv6::message::PACKET_TOO_BIG, 0, mtu),
        }
    }
}

/// Writes an ICMPv4 error from `src` to the sender of `original`, which begins at its IP header,
/// and gives its length, at most [`MAX_LEN_V4`]. As much of the original is quoted as fits in that.
///
/// `None`: an error is forbidden (RFC 1122, 3.2.2; RFC 1812, 4.3.2.7), the original isn't a whole
/// IPv4 packet, or `out` is too small ([`MAX_LEN_V4`] bytes never are).
pub fn icmpv4_error(
    out: &mut [u8],
    kind: Icmpv4Error,
    src: Ipv4Addr,
    original: &[u8],
) -> Option<usize> {
    let packet = Ipv4::new_checked(original).ok()?;
    if !permits_error_v4(&packet) {
        return None;
    }
    let headers = ipv4::HEADER_LEN + icmpv4::HEADER_LEN;
    let quoted = packet.packet_len(original.len()).min(MAX_LEN_V4 - headers);
    let out = out.get_mut(..headers + quoted)?;

    let mut ip = Ipv4::new_unchecked(&mut *out);
    ip.set_header_len(ipv4::HEADER_LEN);
    ip.set_dscp_ecn(CONTROL);
    ip.set_total_len((headers + quoted) as u16);
    // RFC 6864: what is never fragmented needs no identification.
    ip.set_ident(0);
    ip.set_flags_fragment(ipv4::DONT_FRAGMENT);
    ip.set_ttl(HOPS);
    ip.set_protocol(ip_protocol::ICMP);
    ip.set_src_addr(src);
    ip.set_dst_addr(packet.src_addr());
    ip.fill_checksum();

    let (message_type, code, rest) = kind.parts();
    let mut icmp = Icmpv4::new_unchecked(&mut out[ipv4::HEADER_LEN..]);
    icmp.set_message_type(message_type);
    icmp.set_code(code);
    icmp.set_rest(rest);
    icmp.payload_mut().copy_from_slice(&original[..quoted]);
    icmp.fill_checksum();
    Some(headers + quoted)
}

/// Writes an ICMPv6 error from `src` to the sender of `original`, which begins at its IPv6 header,
/// and gives its length, at most [`MAX_LEN_V6`]. As much of the original is quoted as fits in that.
///
/// `None`: an error is forbidden (RFC 4443, 2.4 (e)), the original isn't a whole IPv6 packet, or
/// `out` is too small ([`MAX_LEN_V6`] bytes never are).
pub fn icmpv6_error(
    out: &mut [u8],
    kind: Icmpv6Error,
    src: Ipv6Addr,
    original: &[u8],
) -> Option<usize> {
    let packet = Ipv6::new_checked(original).ok()?;
    if !permits_error_v6(&packet, kind) {
        return None;
    }
    let headers = ipv6::HEADER_LEN + icmpv6::HEADER_LEN;
    let quoted = packet.packet_len(original.len()).min(MAX_LEN_V6 - headers);
    let out = out.get_mut(..headers + quoted)?;

    let len = icmpv6::HEADER_LEN + quoted;
    let mut ip = Ipv6::new_unchecked(&mut *out);
    ip.set_class_and_flow(0, 0);
    ip.set_payload_len(len as u16);
    ip.set_next_header(ip_protocol::ICMPV6);
    ip.set_hop_limit(HOPS);
    ip.set_src_addr(src);
    ip.set_dst_addr(packet.src_addr());

    let (message_type, code, rest) = kind.parts();
    let mut icmp = Icmpv6::new_unchecked(&mut out[ipv6::HEADER_LEN..]);
    icmp.set_message_type(message_type);
    icmp.set_code(code);
    icmp.set_rest(rest);
    icmp.payload_mut().copy_from_slice(&original[..quoted]);
    let pseudo = checksum::pseudo_v6(src, packet.src_addr(), ip_protocol::ICMPV6, len as u32);
    icmp.fill_checksum(pseudo);
    Some(headers + quoted)
}

fn permits_error_v4(packet: &Ipv4<&[u8]>) -> bool {
    // "A datagram whose source address does not define a single host": zero, loopback, broadcast,
    // multicast, class E.
    let src = packet.src_addr();
    let first = src.octets()[0];
    if first == 0 || src.is_loopback() || first >= 224 {
        return false;
    }
    // "A datagram destined to an IP broadcast or IP multicast address", "a non-initial fragment".
    let dst = packet.dst_addr();
    if dst.is_multicast() || dst.is_broadcast() || packet.fragment_offset() != 0 {
        return false;
    }
    // "An ICMP error message". Without a type it can't be recognized.
    packet.protocol() != ip_protocol::ICMP
        || packet.payload().first().is_some_and(|&kind| !icmpv4::message::is_error(kind))
}

fn permits_error_v6(packet: &Ipv6<&[u8]>, kind: Icmpv6Error) -> bool {
    // (e.6) "A packet whose source address does not uniquely identify a single node."
    let src = packet.src_addr();
    if src.is_unspecified() || src.is_loopback() || src.is_multicast() {
        return false;
    }
    // (e.3) A multicast destination, but for "packet too big", which path MTU discovery needs.
    let too_big = matches!(kind, Icmpv6Error::PacketTooBig { .. });
    if packet.dst_addr().is_multicast() && !too_big {
        return false;
    }
    let Ok(chain) = packet.extensions() else {
        return false;
    };
    // RFC 4443 allows errors about later fragments: path MTU discovery needs those too.
    let later = chain.fragment.is_some_and(|fragment| fragment.offset != 0);
    if later || chain.protocol != ip_protocol::ICMPV6 {
        return true;
    }
    // (e.1) "An ICMPv6 error message", (e.2) "an ICMPv6 redirect message".
    let message = packet.payload().get(chain.offset - ipv6::HEADER_LEN);
    message
        .is_some_and(|&kind| !icmpv6::message::is_error(kind) && kind != icmpv6::message::REDIRECT)
}
