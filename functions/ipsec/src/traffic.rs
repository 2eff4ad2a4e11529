//! The kinds of packets at a gateway: protected by ESP and addressed to it, a fragment of such a
//! one, or in the clear.

use core::net::{IpAddr, Ipv4Addr};
use core::ops::Range;

use warpline_packet::wire::{esp, icmpv4, ip_protocol, ipv4, ipv6, udp};
use warpline_packet::{Flags, Headers};

use super::sa::Selector;

/// The port of ESP in UDP (RFC 3948, 4).
pub(super) const NAT_T_PORT: u16 = 4500;
/// Protocol number of SCTP, whose ports lie where those of UDP do.
const SCTP: u8 = 132;

/// A port, or in its place: there is none, or it can't be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// A port; of ICMP the type or the code.
    Is(u16),
    /// The protocol has none.
    None,
    /// It lies in another fragment.
    Hidden,
}

/// The selectors of a packet (RFC 4301, 4.4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// `None`: hidden in another fragment.
    pub(super) protocol: Option<u8>,
    pub(super) src_port: Port,
    pub(super) dst_port: Port,
}

impl Traffic {
    /// Of the packet with these headers; `None` where it is not IP or cut inside its header.
    #[inline(always)]
    pub(super) fn of(frame: &[u8], headers: &Headers) -> Option<Self> {
        let (src, dst) = addresses(frame, headers)?;
        let is_later = headers.flags.has(Flags::LATER_FRAGMENT);
        let protocol = headers.protocol;
        // The walk over the headers of IPv6 ends at an extension header only in a later fragment
        // and if the capture cut it: the content of that header is hidden.
        let is_hidden = headers.version == 6 && ip_protocol::is_extension(protocol);
        let (at, end) = (usize::from(headers.l4), (headers.end as usize).min(frame.len()));
        let seen = if is_later { &[] } else { frame.get(at..end).unwrap_or(&[]) };
        let (src_port, dst_port) = match (protocol, seen) {
            (ip_protocol::TCP | ip_protocol::UDP | SCTP, [a, b, c, d, ..]) => {
                (Port::Is(u16::from_be_bytes([*a, *b])), Port::Is(u16::from_be_bytes([*c, *d])))
            }
            (ip_protocol::ICMP | ip_protocol::ICMPV6, seen) if seen.len() >= icmpv4::HEADER_LEN => {
                (Port::Is(seen[0].into()), Port::Is(seen[1].into()))
            }
            (ip_protocol::TCP | ip_protocol::UDP | SCTP, _)
            | (ip_protocol::ICMP | ip_protocol::ICMPV6, _) => (Port::Hidden, Port::Hidden),
            _ if is_hidden => (Port::Hidden, Port::Hidden),
            _ => (Port::None, Port::None),
        };
        Some(Self { src, dst, protocol: (!is_hidden).then_some(protocol), src_port, dst_port })
    }

    /// The traffic of the reverse direction.
    pub(super) fn reversed(&self) -> Self {
        let Self { src, dst, protocol, src_port, dst_port } = *self;
        let is_icmp = matches!(protocol, Some(ip_protocol::ICMP | ip_protocol::ICMPV6));
        // For ICMP they are type and code: an answer has others, and hardly any policy checks them.
        let (src_port, dst_port) =
            if is_icmp { (src_port, dst_port) } else { (dst_port, src_port) };
        Self { src: dst, dst: src, protocol, src_port, dst_port }
    }

    /// Whether `selector` is for it; what can't be seen matches no more than "any".
    pub(super) fn is_of(&self, selector: &Selector) -> bool {
        let of_port = |port: Port, range: &core::ops::RangeInclusive<u16>| match port {
            Port::Is(port) => range.contains(&port),
            Port::None | Port::Hidden => *range == ANY_PORT,
        };
        selector.src.contains(self.src)
            && selector.dst.contains(self.dst)
            && selector.protocol.is_none_or(|protocol| self.protocol == Some(protocol))
            && of_port(self.src_port, &selector.src_ports)
            && of_port(self.dst_port, &selector.dst_ports)
    }
}

/// Every port, and none.
pub(super) const ANY_PORT: core::ops::RangeInclusive<u16> = 0..=u16::MAX;

/// Source and destination of an IP packet.
#[inline(always)]
pub(super) fn addresses(frame: &[u8], headers: &Headers) -> Option<(IpAddr, IpAddr)> {
    match headers.version {
        4 => addresses_v4(frame, headers).map(|(src, dst)| {
            (IpAddr::V4(Ipv4Addr::from_bits(src)), IpAddr::V4(Ipv4Addr::from_bits(dst)))
        }),
        6 => {
            let packet = frame.get(usize::from(headers.l3)..)?;
            let header: &[u8; ipv6::HEADER_LEN] = packet.first_chunk()?;
            let at = |range| header.get(range).and_then(|bytes: &[u8]| bytes.first_chunk());
            let src: [u8; 16] = *at(ipv6::field::SRC_ADDR)?;
            let dst: [u8; 16] = *at(ipv6::field::DST_ADDR)?;
            Some((src.into(), dst.into()))
        }
        _ => None,
    }
}

/// Source and destination of an IPv4 packet, as numbers.
#[inline(always)]
pub(super) fn addresses_v4(frame: &[u8], headers: &Headers) -> Option<(u32, u32)> {
    let packet = frame.get(usize::from(headers.l3)..).filter(|_| headers.version == 4)?;
    let header: &[u8; ipv4::HEADER_LEN] = packet.first_chunk()?;
    let at = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    Some((at(ipv4::field::SRC_ADDR.start), at(ipv4::field::DST_ADDR.start)))
}

/// Where ESP stands in a packet, and what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EspPlace {
    /// Offset of the SPI from the frame's first byte.
    pub(super) at: usize,
    /// Bytes from there to the end of the ICV.
    pub(super) len: usize,
    pub(super) spi: u32,
    /// The low half of the sequence number.
    pub(super) low: u32,
    /// Whether it is in UDP.
    pub(super) in_udp: bool,
}

/// The ESP of a packet that is no fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Esp {
    /// None.
    None,
    /// A header is there, perhaps without the rest.
    At(EspPlace),
    /// It is cut off inside its header.
    Cut,
    /// One byte of 0xff that keeps a NAT's binding alive (RFC 3948, 2.3).
    Keepalive,
}

impl Esp {
    /// In the packet with these headers.
    #[inline(always)]
    pub(super) fn find(frame: &[u8], headers: &Headers) -> Self {
        let end = (headers.end as usize).min(frame.len());
        match headers.protocol {
            ip_protocol::ESP => Self::read(frame, headers.l4.into()..end, false),
            ip_protocol::UDP => Self::find_in_udp(frame, headers.l4.into(), end),
            _ => Self::None,
        }
    }

    #[inline(never)]
    fn find_in_udp(frame: &[u8], l4: usize, end: usize) -> Self {
        if udp_word(frame, l4, udp::field::DST_PORT) != Some(NAT_T_PORT) {
            return Self::None;
        }
        // RFC 768: the datagram may end before its packet does.
        let len = udp_word(frame, l4, udp::field::LENGTH).unwrap_or(0);
        let place = l4 + udp::HEADER_LEN..end.min(l4 + usize::from(len));
        match frame.get(place.clone()) {
            Some([0xff]) => Self::Keepalive,
            // RFC 3948, 2.2: four bytes of zero stand before IKE.
            Some([0, 0, 0, 0, ..]) => Self::None,
            _ => Self::read(frame, place, true),
        }
    }

    #[inline(always)]
    fn read(frame: &[u8], place: Range<usize>, in_udp: bool) -> Self {
        match frame.get(place.clone()) {
            Some([a, b, c, d, e, f, g, h, ..]) => Self::At(EspPlace {
                at: place.start,
                len: place.len(),
                spi: u32::from_be_bytes([*a, *b, *c, *d]),
                low: u32::from_be_bytes([*e, *f, *g, *h]),
                in_udp,
            }),
            _ => Self::Cut,
        }
    }
}

const _: () = assert!(esp::HEADER_LEN == 8);

fn udp_word(frame: &[u8], l4: usize, field: Range<usize>) -> Option<u16> {
    let bytes = frame.get(l4..)?.get(field)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}
