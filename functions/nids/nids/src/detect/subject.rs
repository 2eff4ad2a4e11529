//! A packet as rules see it: [`Subject`].
//!
//! The payload is defined as in Suricata. For TCP, UDP, SCTP and ESP it follows the header. For
//! ICMP it follows 8 bytes, or the 20 of timestamps and the addresses of a router advertisement.
//! Other protocols, and fragments that were not reassembled, have none.

use core::net::{IpAddr, Ipv4Addr};

use warpline_packet::wire::{Malformed, icmpv4, icmpv6, ip_protocol, ipv4, ipv6, tcp, udp};
use warpline_packet::{Flags, Headers};

/// Bytes of the common header of SCTP (RFC 9260, 3.1).
const SCTP_HEADER_LEN: usize = 12;

/// A packet as rules see it, one of a batch or one put together of fragments.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Source; 0.0.0.0 where it is not IP.
    pub src: IpAddr,
    /// Destination; 0.0.0.0 where it is not IP.
    pub dst: IpAddr,
    /// 4, 6, or 0 for what is not IP.
    pub version: u8,
    /// The protocol after the last IP header.
    pub protocol: u8,
    /// Source and destination port; `None` where the protocol has none, or the packet lacks its
    /// header.
    pub ports: Option<(u16, u16)>,
    /// The bytes that rules search for contents.
    pub payload: &'a [u8],
    /// Part of a packet that was fragmented.
    pub is_fragment: bool,
    /// A header up to that of IP is malformed, so no field can be trusted. If only the next header
    /// is malformed, the packet has neither that header nor a payload.
    pub is_malformed: bool,
    ip: &'a [u8],
    transport: &'a [u8],
}

impl<'a> Subject<'a> {
    /// The packet in `frame`, whose headers were found to be `headers`.
    pub fn new(frame: &'a [u8], headers: &Headers) -> Self {
        let end = frame.len().min(headers.end as usize);
        let from = |at: u16| frame.get(usize::from(at)..end).unwrap_or(&[]);
        let is_malformed = headers.malformed().is_some_and(|lie| !is_behind_ip(lie));
        let is_fragment = headers.flags.has(Flags::FRAGMENT);
        let is_whole = headers.version != 0 && headers.malformed().is_none() && !is_fragment;
        let transport = if is_whole { from(headers.l4) } else { &[] };
        let ip = if headers.version == 0 { &[] } else { from(headers.l3) };
        let (src, dst) = addresses(ip, headers.version);
        let mut subject = Self {
            src,
            dst,
            version: headers.version,
            protocol: headers.protocol,
            ports: None,
            payload: &[],
            is_fragment,
            is_malformed,
            ip,
            transport: &[],
        };
        subject.take_transport(transport, headers);
        subject
    }

    /// Of what came from no packet at hand, between these ends: it has neither headers nor a
    /// payload of its own.
    pub fn between(protocol: u8, [src, dst]: [IpAddr; 2], [src_port, dst_port]: [u16; 2]) -> Self {
        Self {
            src,
            dst,
            version: if src.is_ipv4() { 4 } else { 6 },
            protocol,
            ports: Some((src_port, dst_port)),
            payload: &[],
            is_fragment: false,
            is_malformed: false,
            ip: &[],
            transport: &[],
        }
    }

    /// As if it went the other way.
    #[must_use]
    pub fn reversed(self) -> Self {
        let ports = self.ports.map(|(src, dst)| (dst, src));
        Self { src: self.dst, dst: self.src, ports, ..self }
    }

    fn take_transport(&mut self, bytes: &'a [u8], headers: &Headers) {
        let is_sctp = headers.protocol == ip_protocol::SCTP && bytes.len() >= SCTP_HEADER_LEN;
        if !is_sctp && !headers.flags.has(Flags::TRANSPORT) {
            return;
        }
        self.transport = bytes;
        if matches!(self.protocol, ip_protocol::TCP | ip_protocol::UDP | ip_protocol::SCTP) {
            self.ports = be16(bytes, 0).zip(be16(bytes, 2));
        }
        let header_len = usize::from(headers.payload.saturating_sub(headers.l4));
        let payload = match self.protocol {
            ip_protocol::SCTP => SCTP_HEADER_LEN..bytes.len(),
            ip_protocol::UDP => header_len..udp_end(bytes),
            ip_protocol::ICMP => icmp_header_len(bytes)..bytes.len(),
            _ => header_len..bytes.len(),
        };
        self.payload = bytes.get(payload).unwrap_or(&[]);
    }

    /// The IPv4 header, options in it.
    pub fn ipv4_header(&self) -> Option<&'a [u8]> {
        let header = if self.version == 4 { self.ip } else { return None };
        let len = usize::from(header.first()? & 0x0f) * 4;
        header.get(..len).filter(|header| header.len() >= ipv4::HEADER_LEN)
    }

    /// The IPv6 header, without what extends it.
    pub fn ipv6_header(&self) -> Option<&'a [u8]> {
        if self.version == 6 { self.ip.get(..ipv6::HEADER_LEN) } else { None }
    }

    /// The IPv6 packet as far as its headers were found to be true.
    pub(super) fn ipv6_packet(&self) -> Option<&'a [u8]> {
        if self.version == 6 { Some(self.ip) } else { None }
    }

    /// The TCP header, options in it.
    pub fn tcp_header(&self) -> Option<&'a [u8]> {
        if self.protocol != ip_protocol::TCP {
            return None;
        }
        let len = usize::from(self.transport.get(tcp::field::OFFSET_FLAGS.start)? >> 4) * 4;
        self.transport.get(..len).filter(|header| header.len() >= tcp::HEADER_LEN)
    }

    /// Whether it is a TCP packet with SYN.
    pub fn is_syn(&self) -> bool {
        let flags =
            self.tcp_header().and_then(|header| be16(header, tcp::field::OFFSET_FLAGS.start));
        flags.is_some_and(|flags| flags & tcp::flags::SYN != 0)
    }

    /// The first 8 bytes of an ICMP message.
    pub fn icmpv4_header(&self) -> Option<&'a [u8]> {
        let is_icmp = self.version == 4 && self.protocol == ip_protocol::ICMP;
        if is_icmp { self.transport.get(..icmpv4::HEADER_LEN) } else { None }
    }

    /// The first 8 bytes of an ICMPv6 message.
    pub fn icmpv6_header(&self) -> Option<&'a [u8]> {
        let is_icmp = self.version == 6 && self.protocol == ip_protocol::ICMPV6;
        if is_icmp { self.transport.get(..icmpv6::HEADER_LEN) } else { None }
    }
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

fn addresses(ip: &[u8], version: u8) -> (IpAddr, IpAddr) {
    let found = match version {
        4 => array::<4>(ip, ipv4::field::SRC_ADDR.start)
            .zip(array::<4>(ip, ipv4::field::DST_ADDR.start))
            .map(|(src, dst)| (src.into(), dst.into())),
        6 => array::<16>(ip, ipv6::field::SRC_ADDR.start)
            .zip(array::<16>(ip, ipv6::field::DST_ADDR.start))
            .map(|(src, dst)| (src.into(), dst.into())),
        _ => None,
    };
    let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    found.unwrap_or((none, none))
}

/// Whether only the header after that of IP is malformed, so that the addresses are valid.
fn is_behind_ip(lie: Malformed) -> bool {
    use Malformed::{
        EspTruncated, IcmpTruncated, TcpHeaderLen, TcpTruncated, UdpLength, UdpTruncated,
    };
    let behind = [TcpTruncated, TcpHeaderLen, UdpTruncated, UdpLength, IcmpTruncated, EspTruncated];
    behind.contains(&lie)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Where the datagram ends by its own length, as far as it was captured.
fn udp_end(datagram: &[u8]) -> usize {
    let len = be16(datagram, udp::field::LENGTH.start).unwrap_or(0);
    datagram.len().min(usize::from(len))
}

/// Bytes of an ICMP message before what rules take as its payload: the three timestamps (RFC 792)
/// and the addresses of a router advertisement (RFC 1256) are header, if all of them are there.
fn icmp_header_len(message: &[u8]) -> usize {
    const ROUTER_ADVERTISEMENT: u8 = 9;
    const TIMESTAMPS: [u8; 2] = [13, 14];
    let more = match message {
        [kind, ..] if TIMESTAMPS.contains(kind) => 12,
        [ROUTER_ADVERTISEMENT, _, _, _, count, words, ..] => {
            usize::from(*count) * usize::from(*words) * 4
        }
        _ => 0,
    };
    let len = icmpv4::HEADER_LEN + more;
    if len <= message.len() { len } else { icmpv4::HEADER_LEN }
}
