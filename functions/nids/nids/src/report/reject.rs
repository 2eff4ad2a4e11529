//! Answers to rejected packets: TCP resets, and ICMP or ICMPv6 unreachables for all others.
//!
//! A reset to the source is what a host without the connection answers (RFC 9293, 3.10.7.1). One to
//! the destination takes the place of the packet, which it doesn't get: it has the packet's
//! sequence number, the next expected one (RFC 5961, 3.2). An ICMP error is about packets that its
//! receiver sent, so the destination never gets one. There is no answer to a fragment, a reset, an
//! ICMP error, a packet to many receivers, and a packet without a single sender.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::icmp_error::{
    Icmpv4Error, Icmpv6Error, MAX_LEN_V4, MAX_LEN_V6, icmpv4_error, icmpv6_error,
};
use warpline_packet::wire::{Ipv4, Ipv6, Tcp, checksum, ip_protocol, ipv4, ipv6, tcp};
use warpline_packet::{Flags, Headers, LinkType, Packet};

use warpline_nf::Emit;
use warpline_nids_rules::Rejected;
use warpline_rewrite::icmp_errors::{Bucket, LINK_LEN_MAX, link_back};

/// Bytes of the longest answer.
pub const FRAME_LEN_MAX: usize = LINK_LEN_MAX + MAX_LEN_V6;
/// Time to live or hop limit of an answer.
const HOPS: u8 = 64;

/// One shard's answers.
pub struct Rejecter {
    bucket: Bucket,
    frame: [u8; FRAME_LEN_MAX],
    resets: u64,
    unreachables: u64,
    limited: u64,
    withheld: u64,
}

impl Rejecter {
    /// With at most so many ICMP errors a second of packet time (RFC 4443, 2.4 (f)).
    pub fn new(icmp_rate_pps: u64) -> Self {
        Self {
            bucket: Bucket::new(icmp_rate_pps),
            frame: [0; FRAME_LEN_MAX],
            resets: 0,
            unreachables: 0,
            limited: 0,
            withheld: 0,
        }
    }

    /// Sends notice to `whom` that `packet` was rejected: at most two packets of at most
    /// [`FRAME_LEN_MAX`] bytes. The source's is sent back, the destination's continues to the next
    /// function.
    pub fn reject(&mut self, packet: &Packet<'_>, whom: Rejected, emit: &mut Emit<'_>) {
        let headers = packet.headers();
        let (to_source, to_destination) = match whom {
            Rejected::Source => (true, false),
            Rejected::Destination => (false, true),
            Rejected::Both => (true, true),
        };
        let subject = Subject { frame: packet.frame(), headers: &headers, link: packet.link() };
        let mut reported = false;
        if to_source && let Some(len) = subject.reset_to_source(&mut self.frame) {
            reported = emit.send_back(packet, &self.frame[..len]);
            self.resets += u64::from(reported);
        } else if to_source && let Some(len) = subject.unreachable(&mut self.frame) {
            if self.bucket.take(packet.timestamp()) {
                reported = emit.send_back(packet, &self.frame[..len]);
                self.unreachables += u64::from(reported);
            } else {
                self.limited += 1;
                return;
            }
        }
        if to_destination && let Some(len) = subject.reset_to_destination(&mut self.frame) {
            let is_made = emit.forward(packet, &self.frame[..len]);
            self.resets += u64::from(is_made);
            reported |= is_made;
        }
        self.withheld += u64::from(!reported);
    }

    /// Visits its counters.
    pub fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("reject-resets", self.resets);
        visit("reject-unreachables", self.unreachables);
        visit("reject-rate-limited", self.limited);
        visit("reject-withheld", self.withheld);
    }
}

/// Source and destination.
type Ends = (IpAddr, IpAddr);

/// A rejected packet.
pub(super) struct Subject<'a> {
    pub(super) frame: &'a [u8],
    pub(super) headers: &'a Headers,
    pub(super) link: LinkType,
}

/// The fields of a reset.
struct Reset {
    ends: Ends,
    ports: (u16, u16),
    seq: u32,
    ack: Option<u32>,
}

impl<'a> Subject<'a> {
    /// The reset that the source gets, in `out`; its length.
    pub(super) fn reset_to_source(&self, out: &mut [u8]) -> Option<usize> {
        let (segment, (src, dst), len) = self.segment()?;
        let ports = (segment.dst_port(), segment.src_port());
        let (seq, ack) = if segment.has(tcp::flags::ACK) {
            (segment.ack(), None)
        } else {
            (0, Some(segment.seq().wrapping_add(len)))
        };
        link_back(out, self.link_header()?, self.link)?;
        self.write(out, &Reset { ends: (dst, src), ports, seq, ack })
    }

    /// Writes the reset for the destination to `out`; returns its length. The first packet of a
    /// connection causes none, as the destination has no connection yet.
    pub(super) fn reset_to_destination(&self, out: &mut [u8]) -> Option<usize> {
        let (segment, ends, _) = self.segment()?;
        if segment.has(tcp::flags::SYN) && !segment.has(tcp::flags::ACK) {
            return None;
        }
        let link = self.link_header()?;
        // A packet to many receivers is refused here as well.
        link_back(out, link, self.link)?;
        out.get_mut(..link.len())?.copy_from_slice(link);
        let ack = segment.has(tcp::flags::ACK).then(|| segment.ack());
        let ports = (segment.src_port(), segment.dst_port());
        self.write(out, &Reset { ends, ports, seq: segment.seq(), ack })
    }

    /// The ICMP error that the source gets, in `out`; its length.
    pub(super) fn unreachable(&self, out: &mut [u8]) -> Option<usize> {
        if self.headers.protocol == ip_protocol::TCP || self.headers.flags.has(Flags::FRAGMENT) {
            return None;
        }
        let (_, dst) = self.ends()?;
        let link = self.link_header()?;
        link_back(out, link, self.link)?;
        let (rest, packet) = (out.get_mut(link.len()..)?, self.ip_packet()?);
        let len = match dst {
            IpAddr::V4(dst) => {
                let room = rest.len().min(MAX_LEN_V4);
                icmpv4_error(&mut rest[..room], Icmpv4Error::AdminProhibited, dst, packet)
            }
            IpAddr::V6(dst) => icmpv6_error(rest, Icmpv6Error::AdminProhibited, dst, packet),
        };
        Some(link.len() + len?)
    }

    fn link_header(&self) -> Option<&'a [u8]> {
        self.frame.get(..usize::from(self.headers.l3)).filter(|link| link.len() <= LINK_LEN_MAX)
    }

    fn ip_packet(&self) -> Option<&'a [u8]> {
        self.frame.get(usize::from(self.headers.l3)..self.headers.end as usize)
    }

    /// Its addresses, where both are of single hosts.
    fn ends(&self) -> Option<Ends> {
        let packet = self.ip_packet().filter(|_| self.headers.malformed().is_none())?;
        match self.headers.version {
            4 => {
                let packet = Ipv4::new_unchecked(packet.get(..ipv4::HEADER_LEN)?);
                let ends = (packet.src_addr(), packet.dst_addr());
                (is_host_v4(ends.0) && is_host_v4(ends.1)).then_some((ends.0.into(), ends.1.into()))
            }
            6 => {
                let packet = Ipv6::new_unchecked(packet.get(..ipv6::HEADER_LEN)?);
                let ends = (packet.src_addr(), packet.dst_addr());
                (is_host_v6(ends.0) && is_host_v6(ends.1)).then_some((ends.0.into(), ends.1.into()))
            }
            _ => None,
        }
    }

    /// Its TCP header, addresses, and the sequence numbers that it takes, whatever the capture cut
    /// off; `None` where it may not be answered.
    fn segment(&self) -> Option<(Tcp<&'a [u8]>, Ends, u32)> {
        let Headers { flags, protocol, l3, l4, payload, .. } = *self.headers;
        if protocol != ip_protocol::TCP
            || !flags.has(Flags::TRANSPORT)
            || flags.has(Flags::FRAGMENT)
        {
            return None;
        }
        let ends = self.ends()?;
        let segment = Tcp::new_unchecked(self.frame.get(usize::from(l4)..usize::from(payload))?);
        if segment.has(tcp::flags::RST) {
            return None;
        }
        let packet = self.ip_packet()?;
        let packet_len = match self.headers.version {
            4 => Ipv4::new_unchecked(packet).packet_len(packet.len()),
            _ => Ipv6::new_unchecked(packet).packet_len(packet.len()),
        };
        let data_len = (usize::from(l3) + packet_len).saturating_sub(usize::from(payload));
        let controls = [tcp::flags::SYN, tcp::flags::FIN].map(|flag| u32::from(segment.has(flag)));
        Some((segment, ends, data_len as u32 + controls[0] + controls[1]))
    }

    /// Writes a reset after the link header that is in `out` already.
    fn write(&self, out: &mut [u8], reset: &Reset) -> Option<usize> {
        let at = usize::from(self.headers.l3);
        let rest = out.get_mut(at..)?;
        let (ip_len, pseudo) = match reset.ends {
            (IpAddr::V4(src), IpAddr::V4(dst)) => ip_v4(rest, src, dst)?,
            (IpAddr::V6(src), IpAddr::V6(dst)) => ip_v6(rest, src, dst)?,
            _ => return None,
        };
        let header = rest.get_mut(ip_len..ip_len + tcp::HEADER_LEN)?;
        header.fill(0);
        let mut segment = Tcp::new_unchecked(header);
        segment.set_src_port(reset.ports.0);
        segment.set_dst_port(reset.ports.1);
        segment.set_seq(reset.seq);
        segment.set_ack(reset.ack.unwrap_or(0));
        segment.set_header_len(tcp::HEADER_LEN);
        let ack = if reset.ack.is_some() { tcp::flags::ACK } else { 0 };
        segment.set_flags(tcp::flags::RST | ack);
        segment.fill_checksum(pseudo);
        Some(at + ip_len + tcp::HEADER_LEN)
    }
}

/// Writes the IPv4 header of a reset; gives its length and the sum of the pseudo-header.
fn ip_v4(out: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr) -> Option<(usize, u32)> {
    let header = out.get_mut(..ipv4::HEADER_LEN)?;
    header.fill(0);
    let mut ip = Ipv4::new_unchecked(header);
    ip.set_header_len(ipv4::HEADER_LEN);
    ip.set_total_len((ipv4::HEADER_LEN + tcp::HEADER_LEN) as u16);
    // RFC 6864: what is never fragmented needs no identification.
    ip.set_flags_fragment(ipv4::DONT_FRAGMENT);
    ip.set_ttl(HOPS);
    ip.set_protocol(ip_protocol::TCP);
    ip.set_src_addr(src);
    ip.set_dst_addr(dst);
    ip.fill_checksum();
    let pseudo = checksum::pseudo_v4(src, dst, ip_protocol::TCP, tcp::HEADER_LEN as u16);
    Some((ipv4::HEADER_LEN, pseudo))
}

/// The same of IPv6.
fn ip_v6(out: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) -> Option<(usize, u32)> {
    let mut ip = Ipv6::new_unchecked(out.get_mut(..ipv6::HEADER_LEN)?);
    ip.set_class_and_flow(0, 0);
    ip.set_payload_len(tcp::HEADER_LEN as u16);
    ip.set_next_header(ip_protocol::TCP);
    ip.set_hop_limit(HOPS);
    ip.set_src_addr(src);
    ip.set_dst_addr(dst);
    let pseudo = checksum::pseudo_v6(src, dst, ip_protocol::TCP, tcp::HEADER_LEN as u32);
    Some((ipv6::HEADER_LEN, pseudo))
}

/// Whether an address is of a single host (RFC 1122, 3.2.1.3).
fn is_host_v4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first < 224 && !address.is_loopback()
}

fn is_host_v6(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}
