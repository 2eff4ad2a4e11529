//! The packet that an ICMP error quotes: read in `before`, rewritten in `run` (RFC 5508, 4).
//!
//! A quote may end anywhere after the ports. The bytes that are present are rewritten, including
//! quoted checksums. The error's own checksum is updated for every word that changes.

use warpline_packet::wire::{
    Ipv4, Ipv6, checksum, icmpv4, icmpv6, ip_protocol, ipv4, ipv6, ipv6_ext, tcp, udp,
};

use crate::Endpoint;
use crate::translate;
use crate::{Protocol, is_portless};

/// Which end of the quoted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuoteEnd {
    /// The source of the quoted packet.
    Source,
    /// The destination of the quoted packet.
    Destination,
}

/// A quoted packet. The identifier of an echo stands for both ports, and so does the number of a
/// protocol without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The protocol of the quoted packet.
    pub protocol: Protocol,
    /// Its source.
    pub src: Endpoint,
    /// Its destination.
    pub dst: Endpoint,
    /// Whether it is an echo request.
    pub asks: bool,
    /// Where its transport header starts.
    l4: usize,
}

impl Quote {
    /// Reads a quoted packet of the error's own version; `None` where it doesn't show its ports:
    /// too short, a later fragment, another ICMP message than an echo, or a protocol whose checksum
    /// covers addresses.
    pub fn read(quote: &[u8], version: u8) -> Option<Self> {
        let (src, dst, protocol, l4) = match version {
            4 => header_v4(quote)?,
            _ => header_v6(quote)?,
        };
        let word = |at: usize| get16(quote, l4 + at);
        let mut asks = false;
        let (protocol, src_port, dst_port) = match (protocol, version) {
            (ip_protocol::TCP, _) => (Protocol::Tcp, word(0)?, word(2)?),
            (ip_protocol::UDP, _) => (Protocol::Udp, word(0)?, word(2)?),
            (ip_protocol::ICMP, 4) | (ip_protocol::ICMPV6, 6) => {
                let (kind, ident) = (*quote.get(l4)?, word(icmpv4::field::IDENT.start)?);
                asks = is_echo_request(version, kind);
                is_echo(version, kind).then_some((Protocol::Icmp, ident, ident))?
            }
            (other, _) if is_portless(version, other) && l4 <= quote.len() => {
                (Protocol::Other, other.into(), other.into())
            }
            _ => return None,
        };
        let src = Endpoint { address: src, port: src_port };
        let dst = Endpoint { address: dst, port: dst_port };
        Some(Self { protocol, src, dst, asks, l4 })
    }
}

/// Source, destination and protocol of a quoted packet of the error's own version, also where
/// [`Quote::read`] finds no ports.
pub fn addresses(quote: &[u8], version: u8) -> Option<(u128, u128, u8)> {
    match version {
        4 => {
            let ip = Ipv4::new_unchecked(quote);
            ip.check_start().ok()?;
            Some((ip.src_addr().to_bits().into(), ip.dst_addr().to_bits().into(), ip.protocol()))
        }
        _ => {
            let ip = Ipv6::new_unchecked(quote);
            ip.check_start().ok()?;
            let [src, dst] = [ip.src_addr(), ip.dst_addr()].map(|address| address.to_bits());
            let chain = ipv6_ext::of_quote(ip.next_header(), quote);
            Some((src, dst, chain.map_or(ip.next_header(), |chain| chain.protocol)))
        }
    }
}

/// Whether an ICMP message is an echo request or reply.
pub fn is_echo(version: u8, kind: u8) -> bool {
    match version {
        4 => matches!(kind, icmpv4::message::ECHO_REQUEST | icmpv4::message::ECHO_REPLY),
        _ => matches!(kind, icmpv6::message::ECHO_REQUEST | icmpv6::message::ECHO_REPLY),
    }
}

/// Whether a packet of this protocol is an ICMP error of its version.
pub fn is_error(version: u8, protocol: u8, kind: u8) -> bool {
    match (version, protocol) {
        (4, ip_protocol::ICMP) => icmpv4::message::is_error(kind),
        (6, ip_protocol::ICMPV6) => icmpv6::message::is_error(kind),
        _ => false,
    }
}

/// Whether an ICMP message is an echo request.
pub fn is_echo_request(version: u8, kind: u8) -> bool {
    match version {
        4 => kind == icmpv4::message::ECHO_REQUEST,
        _ => kind == icmpv6::message::ECHO_REQUEST,
    }
}

fn header_v4(quote: &[u8]) -> Option<(u128, u128, u8, usize)> {
    let ip = Ipv4::new_unchecked(quote);
    ip.check_start().ok()?;
    let [src, dst] = [ip.src_addr(), ip.dst_addr()].map(|address| address.to_bits().into());
    (ip.fragment_offset() == 0).then(|| (src, dst, ip.protocol(), ip.header_len()))
}

fn header_v6(quote: &[u8]) -> Option<(u128, u128, u8, usize)> {
    let ip = Ipv6::new_unchecked(quote);
    ip.check_start().ok()?;
    let [src, dst] = [ip.src_addr(), ip.dst_addr()].map(|address| address.to_bits());
    let chain = ipv6_ext::of_quote(ip.next_header(), quote)?;
    (!chain.is_later_fragment()).then_some((src, dst, chain.protocol, chain.offset))
}

fn get16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Rewrites one end of the quoted packet. `outer` is the checksum of the error that quotes it;
/// gives that after the change.
pub fn rewrite(bytes: &mut [u8], version: u8, side: QuoteEnd, to: Endpoint, outer: u16) -> u16 {
    let Some(quote) = Quote::read(bytes, version) else { return outer };
    let mut patch = Patch { bytes, outer };
    let mut change = Change::default();
    let (width, at) = match (version, side) {
        (4, QuoteEnd::Source) => (4, ipv4::field::SRC_ADDR.start),
        (4, QuoteEnd::Destination) => (4, ipv4::field::DST_ADDR.start),
        (_, QuoteEnd::Source) => (16, ipv6::field::SRC_ADDR.start),
        (_, QuoteEnd::Destination) => (16, ipv6::field::DST_ADDR.start),
    };
    for word in 0..width / 2 {
        let shift = 8 * width - 16 * (word + 1);
        patch.put(at + 2 * word, (to.address >> shift) as u16, &mut change);
    }
    if version == 4 {
        patch.update(ipv4::field::CHECKSUM.start, &change, |_, new| new);
    }
    patch.transport(&quote, version, side, to.port, change);
    patch.outer
}

/// The quoted bytes, and the checksum that covers them.
struct Patch<'a> {
    bytes: &'a mut [u8],
    outer: u16,
}

/// Words that changed, as a sum: adding it to a checksum's complement updates that (RFC 1624).
#[derive(Clone, Copy, Default)]
struct Change(u32);

impl Change {
    fn apply(self, sum: u16) -> u16 {
        !checksum::fold(u32::from(!sum) + self.0)
    }
}

impl Patch<'_> {
    /// Writes a word, where the quote has it, and adds to `change` what changed.
    fn put(&mut self, at: usize, new: u16, change: &mut Change) {
        let Some(old) = get16(self.bytes, at) else { return };
        self.bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        self.outer = checksum::update16(self.outer, old, new);
        change.0 += u32::from(!old) + u32::from(new);
    }

    /// Updates a checksum, where the quote has it; `form` gives its last form from its old and its
    /// new value.
    fn update(&mut self, at: usize, change: &Change, form: fn(u16, u16) -> u16) {
        if let Some(old) = get16(self.bytes, at) {
            self.put(at, form(old, change.apply(old)), &mut Change::default());
        }
    }

    fn transport(
        &mut self,
        quote: &Quote,
        version: u8,
        side: QuoteEnd,
        port: u16,
        address: Change,
    ) {
        let port_at =
            |ports: [usize; 2]| quote.l4 + ports[usize::from(side == QuoteEnd::Destination)];
        let mut change = address;
        match quote.protocol {
            Protocol::Tcp => {
                let at = [tcp::field::SRC_PORT.start, tcp::field::DST_PORT.start];
                self.put(port_at(at), port, &mut change);
                self.update(quote.l4 + tcp::field::CHECKSUM.start, &change, |_, new| new);
            }
            Protocol::Udp => {
                let at = [udp::field::SRC_PORT.start, udp::field::DST_PORT.start];
                self.put(port_at(at), port, &mut change);
                self.update(quote.l4 + udp::field::CHECKSUM.start, &change, translate::udp);
            }
            Protocol::Icmp => {
                // ICMPv4 has no pseudo-header.
                change = if version == 4 { Change::default() } else { change };
                self.put(quote.l4 + icmpv4::field::IDENT.start, port, &mut change);
                self.update(quote.l4 + icmpv4::field::CHECKSUM.start, &change, |_, new| new);
            }
            Protocol::Other => {}
        }
    }
}
