//! Frames as the naive chain sees them. Every function reads them anew, byte by byte, by the RFCs
//! and the documented names of malformed headers. None of it is the packet crate's code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::second::Marks;

/// Numbers of link types, as the registry of pcap has them.
pub(crate) mod link {
    pub(crate) const NULL: u16 = 0;
    pub(crate) const ETHERNET: u16 = 1;
    pub(crate) const RAW: u16 = 101;
    pub(crate) const SLL: u16 = 113;
    pub(crate) const SLL2: u16 = 276;
}

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;
const ESP: u8 = 50;

/// Extension headers of IPv6 that are looked through.
const HOP_BY_HOP: u8 = 0;
const FRAGMENT: u8 = 44;
const AH: u8 = 51;
const EXTENSIONS: [u8; 5] = [HOP_BY_HOP, 43, FRAGMENT, AH, 60];

/// A frame on its way through the chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// The time in the capture, which it is sent with.
    pub(crate) nanos: u64,
    /// The time that state ages by.
    pub(crate) now: u64,
    pub(crate) wire_len: usize,
    pub(crate) link: u16,
    pub(crate) interface: u16,
    /// The port of its route.
    pub(crate) out: Option<u16>,
    /// Its number in the input.
    pub(crate) number: usize,
    /// Marks for second places.
    pub(crate) marks: Marks,
    /// Whether it was made for the sender of its cause.
    pub(crate) is_answer: bool,
    /// Whether a function that hides something changed it and has no place to come: it is not
    /// answered.
    pub(crate) closed: bool,
    /// Whether a function put an outer header before its own.
    pub(crate) wrapped: bool,
    /// Whether it was made to go on in the place of its cause.
    pub(crate) onward: bool,
    /// The packet that came sealed and of which this one is, or was made.
    pub(crate) secret: Vec<u8>,
    /// Whether a gateway sealed it.
    pub(crate) is_sealed: bool,
}

/// Positions and fields of a frame's headers. Places are counted from its first byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// 4, 6, or 0 if it is not IP.
    pub(crate) version: u8,
    pub(crate) l3: usize,
    pub(crate) l4: usize,
    pub(crate) payload: usize,
    /// The end of the IP packet, as far as captured.
    pub(crate) end: usize,
    /// The end of the IP packet on the wire.
    pub(crate) wire_end: usize,
    pub(crate) protocol: u8,
    /// Whether there is a whole header of TCP, UDP, ICMP or ESP.
    pub(crate) transport: bool,
    pub(crate) fragment: bool,
    /// Where a fragment's bytes belong; it is a later one where this is not 0.
    pub(crate) offset: usize,
    /// Where the fragment header of IPv6 is.
    pub(crate) fragment_at: usize,
    /// Whether the capture cut the frame.
    pub(crate) snapped: bool,
    /// Whether it cut a header.
    pub(crate) cut: bool,
    /// The name of the wrong header or field.
    pub(crate) lie: Option<&'static str>,
}

/// Why reading ends.
enum Flaw {
    /// The bytes end inside a header: no lie where the capture cut the frame.
    Short(&'static str),
    Lie(&'static str),
}

type Read<T = ()> = Result<T, Flaw>;

fn short<T>(found: Option<T>, name: &'static str) -> Read<T> {
    found.ok_or(Flaw::Short(name))
}

fn holds(found: bool, name: &'static str) -> Read {
    if found { Ok(()) } else { Err(Flaw::Lie(name)) }
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*bytes.get(at)?) << 8 | usize::from(*bytes.get(at + 1)?))
}

/// Reads the headers of `frame`.
pub(crate) fn view(frame: &Frame) -> View {
    let mut view = View { end: frame.bytes.len(), ..View::default() };
    view.snapped = frame.wire_len > frame.bytes.len();
    match view.read(frame) {
        Err(Flaw::Short(_)) if view.snapped => view.cut = true,
        Err(Flaw::Short(name) | Flaw::Lie(name)) => view.lie = Some(name),
        Ok(()) => {}
    }
    view
}

impl View {
    pub(crate) fn later(&self) -> bool {
        self.offset > 0
    }

    fn read(&mut self, frame: &Frame) -> Read {
        let kind = self.link(frame)?;
        match kind {
            0x0800 => self.ipv4(frame),
            0x86dd => self.ipv6(frame),
            _ => Ok(()),
        }
    }

    /// Goes over the link header; returns the ethertype of its payload, 0 if it has none.
    fn link(&mut self, frame: &Frame) -> Read<usize> {
        let bytes = &frame.bytes[..];
        let by_version = |at: usize| match bytes.get(at).map(|byte| byte >> 4) {
            Some(4) => Some(0x0800),
            Some(6) => Some(0x86dd),
            other => other.map(|_| 0),
        };
        let (len, kind) = match frame.link {
            link::ETHERNET => return self.ethernet(bytes),
            link::SLL => (16, be16(bytes, 14)),
            link::SLL2 => (20, be16(bytes, 0)),
            link::RAW => (0, by_version(0)),
            link::NULL => {
                (4, loopback(bytes).and_then(|ip| if ip { by_version(4) } else { Some(0) }))
            }
            _ => return Ok(0),
        };
        short(bytes.get(..len), "link-truncated")?;
        self.l3 = len;
        short(kind, "link-truncated")
    }

    fn ethernet(&mut self, bytes: &[u8]) -> Read<usize> {
        let mut kind = short(be16(bytes, 12), "link-truncated")?;
        let mut at = 14;
        while [0x8100, 0x88a8, 0x9100].contains(&kind) && at < 14 + 3 * 4 {
            kind = short(be16(bytes, at + 2), "vlan-truncated")?;
            at += 4;
        }
        self.l3 = at;
        Ok(kind)
    }

    /// RFC 791.
    fn ipv4(&mut self, frame: &Frame) -> Read {
        let (l3, packet) = (self.l3, &frame.bytes[self.l3..]);
        short(packet.get(..20), "ipv4-truncated")?;
        holds(packet[0] >> 4 == 4, "ipv4-version")?;
        let header_len = usize::from(packet[0] & 15) * 4;
        holds(header_len >= 20, "ipv4-header-len")?;
        // A length of 0 means a capture before a network card cut the packet (TSO): it ends with
        // its frame.
        let len = be16(packet, 2).filter(|&len| len > 0).unwrap_or(frame.wire_len - l3);
        holds((header_len..=frame.wire_len - l3).contains(&len), "ipv4-total-len")?;
        short(packet.get(..header_len), "ipv4-truncated")?;
        let word = be16(packet, 6).unwrap_or(0);
        let offset = (word & 0x1fff) * 8;
        let is_part = word & 0x3fff != 0;
        holds(!is_part || offset + len <= 65_535, "fragment-bounds")?;
        self.version = 4;
        self.protocol = packet[9];
        self.bounds(l3 + header_len, l3 + len, frame);
        (self.offset, self.fragment) = (offset, offset > 0 || word & 0x2000 != 0);
        self.upper(frame)
    }

    /// RFC 8200.
    fn ipv6(&mut self, frame: &Frame) -> Read {
        let (l3, packet) = (self.l3, &frame.bytes[self.l3..]);
        short(packet.get(..40), "ipv6-truncated")?;
        holds(packet[0] >> 4 == 6, "ipv6-version")?;
        let there = frame.wire_len - l3 - 40;
        let body = match be16(packet, 4) {
            Some(0) => jumbo(packet).unwrap_or(if there > 10 { there } else { 0 }),
            said => said.unwrap_or(0),
        };
        holds(body <= there, "ipv6-payload-len")?;
        self.version = 6;
        self.protocol = packet[6];
        self.bounds(l3 + 40, l3 + 40 + body, frame);
        let continues = body > 0 && self.extensions(frame)?;
        if continues { self.upper(frame) } else { Ok(()) }
    }

    fn bounds(&mut self, l4: usize, wire_end: usize, frame: &Frame) {
        (self.l4, self.payload, self.wire_end) = (l4, l4, wire_end);
        self.end = wire_end.min(frame.bytes.len());
    }

    /// Goes over extension headers; returns whether their payload was captured.
    fn extensions(&mut self, frame: &Frame) -> Read<bool> {
        let (mut next, mut at, mut count) = (self.protocol, self.l4, 0);
        let lie = "ipv6-extension";
        let mut seen = Self { fragment: false, ..self.clone() };
        let mut fragments = 0;
        while EXTENSIONS.contains(&next) && !seen.later() {
            holds(next != HOP_BY_HOP || count == 0, lie)?;
            holds(at + 8 <= self.wire_end, lie)?;
            let Some(header) = frame.bytes.get(at..at + 8) else {
                self.reach(next, at, &seen);
                return Ok(false);
            };
            if next == FRAGMENT {
                fragments += 1;
                holds(fragments == 1, lie)?;
                self.fragment_at = at;
                seen.fragment_header(header, at - self.l3 - 40, self.wire_end - at - 8)?;
            }
            let len = match next {
                FRAGMENT => 8,
                AH => (usize::from(header[1]) + 2) * 4,
                _ => (usize::from(header[1]) + 1) * 8,
            };
            holds(len >= if next == AH { 12 } else { 8 } && at + len <= self.wire_end, lie)?;
            (next, at, count) = (header[0], at + len, count + 1);
        }
        self.reach(next, at, &seen);
        Ok(at <= frame.bytes.len())
    }

    fn reach(&mut self, protocol: u8, at: usize, seen: &Self) {
        (self.protocol, self.l4, self.payload) = (protocol, at, at);
        (self.fragment, self.offset) = (seen.fragment, seen.offset);
    }

    fn fragment_header(&mut self, header: &[u8], before: usize, data: usize) -> Read {
        let word = be16(header, 2).unwrap_or(0);
        self.offset = word & !7;
        self.fragment = self.offset > 0 || word & 1 != 0;
        holds(before + self.offset + data <= 65_535, "fragment-bounds")
    }

    /// The transport header of a whole packet or a first fragment.
    fn upper(&mut self, frame: &Frame) -> Read {
        if self.later() {
            return Ok(());
        }
        let body = &frame.bytes[self.l4.min(self.end)..self.end];
        let wire_len = self.wire_end - self.l4;
        let len = match (self.protocol, self.version) {
            (TCP, _) => tcp(body, wire_len)?,
            (UDP, _) => udp(body, wire_len, self.fragment)?,
            (ICMP, 4) | (ICMPV6, 6) => short(body.get(..8).map(|_| 8), "icmp-truncated")?,
            (ESP, _) => short(body.get(..8).map(|_| 8), "esp-truncated")?,
            _ => return Ok(()),
        };
        self.transport = true;
        self.payload = self.l4 + len;
        Ok(())
    }

    /// Source and destination.
    pub(crate) fn addresses(&self, bytes: &[u8]) -> (IpAddr, IpAddr) {
        addresses(self.version, &bytes[self.l3..])
    }

    /// Source and destination port; `None` where they can't be seen.
    pub(crate) fn ports(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        let has = self.transport && (self.protocol == TCP || self.protocol == UDP);
        let port = |at: usize| be16(bytes, at).map(|port| port as u16);
        if has { Some((port(self.l4)?, port(self.l4 + 2)?)) } else { None }
    }

    /// Type and code of an ICMP message of the packet's own version.
    pub(crate) fn message(&self, bytes: &[u8]) -> Option<(u8, u8)> {
        let has = self.transport && (self.protocol == ICMP || self.protocol == ICMPV6);
        has.then(|| (bytes[self.l4], bytes[self.l4 + 1]))
    }
}

/// RFC 2675, 2: the length in the jumbo option of an IPv6 packet, if it has hop-by-hop options.
fn jumbo(packet: &[u8]) -> Option<usize> {
    let end = 40 + 8 * (1 + usize::from(*packet.get(41)?));
    let mut at = 42;
    while packet[6] == HOP_BY_HOP && at < end {
        let kind = *packet.get(at)?;
        let len = if kind == 0 { 0 } else { 1 + usize::from(*packet.get(at + 1)?) };
        if at + 1 + len > end.min(packet.len()) {
            return None;
        }
        if kind == 0xc2 {
            return Some(be16(packet, at + 2)? << 16 | be16(packet, at + 4)?).filter(|_| len == 5);
        }
        at += 1 + len;
    }
    None
}

/// RFC 9293: the length of the header.
fn tcp(body: &[u8], wire_len: usize) -> Read<usize> {
    short(body.get(..20), "tcp-truncated")?;
    let len = usize::from(body[12] >> 4) * 4;
    holds((20..=wire_len).contains(&len), "tcp-header-len")?;
    short(body.get(..len).map(|_| len), "tcp-truncated")
}

/// RFC 768. The length in a first fragment is that of the whole datagram.
fn udp(body: &[u8], wire_len: usize, fragment: bool) -> Read<usize> {
    short(body.get(..8), "udp-truncated")?;
    let len = be16(body, 4).unwrap_or(0);
    // RFC 2675, 4: the length of a jumbogram is 0.
    let jumbo = len == 0 && wire_len > 65_535 && !fragment;
    holds(jumbo || len >= 8 && (fragment || len <= wire_len), "udp-length")?;
    Ok(8)
}

/// Whether a loopback's header names IP, in either byte order.
fn loopback(bytes: &[u8]) -> Option<bool> {
    let family: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    let families = [2, 10, 24, 28, 30];
    let numbers = [u32::from_le_bytes(family), u32::from_be_bytes(family)];
    Some(numbers.iter().any(|number| families.contains(number)))
}

/// The addresses in an IP header.
pub(crate) fn addresses(version: u8, header: &[u8]) -> (IpAddr, IpAddr) {
    let four = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&header[at..at + 4]).expect("four"));
    let six = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&header[at..at + 16]).expect("16"));
    if version == 4 { (four(12).into(), four(16).into()) } else { (six(8).into(), six(24).into()) }
}
