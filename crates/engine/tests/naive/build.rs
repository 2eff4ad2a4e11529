//! Packets and frames, made whole: headers, lengths and checksums as the RFCs have them.

use std::net::IpAddr;

use crate::router_errors::octets;
use crate::sums::sum;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, link};

/// An IP packet.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) ttl: u8,
    /// DSCP and ECN.
    pub(crate) class: u8,
    pub(crate) ident: u16,
    pub(crate) protocol: u8,
    /// Options of IPv4, or extension headers of IPv6 with the number of the first.
    pub(crate) options: Option<(u8, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Packet {
    pub(crate) fn version(&self) -> u8 {
        if self.src.is_ipv4() { 4 } else { 6 }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.wrap(&self.body, 0, false)
    }

    /// In two fragments, cut at a multiple of eight.
    pub(crate) fn fragments(&self, at: usize) -> Vec<Vec<u8>> {
        let at = (at & !7).min(self.body.len());
        let (one, other) = self.body.split_at(at);
        vec![self.wrap(one, 0, true), self.wrap(other, at, false)]
    }

    fn wrap(&self, part: &[u8], at: usize, more: bool) -> Vec<u8> {
        match self.version() {
            4 => self.wrap_v4(part, at, more),
            _ => self.wrap_v6(part, at, more),
        }
    }

    fn wrap_v4(&self, part: &[u8], at: usize, more: bool) -> Vec<u8> {
        let options = self.options.as_ref().map_or(&[][..], |(_, options)| options);
        let header_len = 20 + options.len();
        let len = (header_len + part.len()) as u16;
        // Don't Fragment is said by half of all that is whole.
        let whole = at == 0 && !more && self.ident % 2 == 1;
        let word = (at / 8) as u16 | u16::from(more) << 13 | u16::from(whole) << 14;
        let first = 0x4000 + ((header_len as u16 / 4) << 8) + u16::from(self.class);
        let words = [first, len, self.ident, word].map(u16::to_be_bytes).concat();
        let rest = [self.ttl, self.protocol, 0, 0];
        let mut header =
            [&words[..], &rest, &octets(self.src), &octets(self.dst), options].concat();
        let check = !sum(&[&header]);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        [&header[..], part].concat()
    }

    fn wrap_v6(&self, part: &[u8], at: usize, more: bool) -> Vec<u8> {
        let (mut next, mut between) = (self.protocol, Vec::new());
        if at > 0 || more {
            let word = ((at as u16) | u16::from(more)).to_be_bytes();
            between = [&[next, 0][..], &word, &u32::from(self.ident).to_be_bytes()].concat();
            next = 44;
        }
        if let Some((first, headers)) = &self.options {
            let mut headers = headers.clone();
            headers[0] = next;
            between = [headers, between].concat();
            next = *first;
        }
        let len = ((between.len() + part.len()) as u16).to_be_bytes();
        let header =
            [0x60 | self.class >> 4, self.class << 4, 0, 0, len[0], len[1], next, self.ttl];
        [&header[..], &octets(self.src), &octets(self.dst), &between, part].concat()
    }

    /// Writes the transport checksum (RFC 9293, 768, 792, 4443), where there is one.
    pub(crate) fn with_checksum(mut self) -> Self {
        let at = match (self.protocol, self.version()) {
            (TCP, _) => 16,
            (UDP, _) => 6,
            (ICMP, 4) | (ICMPV6, 6) => 2,
            _ => return self,
        };
        let Some(field) = self.body.get_mut(at..at + 2) else { return self };
        field.fill(0);
        let len = (self.body.len() as u32).to_be_bytes();
        let pseudo =
            [&octets(self.src)[..], &octets(self.dst), &len, &[0, 0, 0, self.protocol]].concat();
        let pseudo = if self.protocol == ICMP { &[][..] } else { &pseudo };
        let check = match !sum(&[pseudo, &self.body]) {
            0 if self.protocol == UDP => 0xffff,
            check => check,
        };
        self.body[at..at + 2].copy_from_slice(&check.to_be_bytes());
        self
    }
}

pub(crate) fn tcp(src: u16, dst: u16, flags: u8, numbers: &Numbers, payload: &[u8]) -> Vec<u8> {
    let Numbers { seq, ack, window, options } = *numbers;
    let ports = [src, dst].map(u16::to_be_bytes).concat();
    let numbers = [seq, ack].map(u32::to_be_bytes).concat();
    let header_len = 20 + options.len() as u8;
    let rest = [(header_len / 4) << 4, flags, (window >> 8) as u8, window as u8, 0, 0, 0, 0];
    [&ports[..], &numbers, &rest, options, payload].concat()
}

/// A segment besides ports and flags. Options fill whole words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) options: &'static [u8],
}

impl Numbers {
    /// The same in every segment.
    pub(crate) const PLAIN: Self = Self { seq: 9, ack: 7, window: 256, options: &[] };
}

pub(crate) fn udp(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let words = [src, dst, 8 + payload.len() as u16, 0].map(u16::to_be_bytes).concat();
    [&words[..], payload].concat()
}

/// An ICMP message with the four bytes after its checksum.
pub(crate) fn icmp(kind: u8, code: u8, rest: [u8; 4], payload: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0][..], &rest, payload].concat()
}

/// Puts IP packets after the frame at `at`, at its time and by its port.
pub(crate) fn insert_after(frames: &mut Vec<Frame>, at: usize, pieces: &[Vec<u8>]) {
    let Frame { nanos, interface, .. } = frames[at];
    for piece in pieces {
        let bytes = frame(link::ETHERNET, &[], To::Us, piece);
        let (wire_len, link) = (bytes.len(), link::ETHERNET);
        let own = Frame { wire_len, bytes, nanos, link, interface, ..Frame::default() };
        frames.insert(at + 1, own);
    }
}

/// The frame around a packet: `tags` are VLAN tags of Ethernet, `to` is the kind of its
/// destination.
pub(crate) fn frame(kind: u16, tags: &[u16], to: To, packet: &[u8]) -> Vec<u8> {
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    let ethertype: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
    let header = match kind {
        link::ETHERNET => ethernet(tags, to, ethertype),
        link::SLL => [&[0, to as u8, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &ethertype].concat(),
        link::SLL2 => {
            [&ethertype[..], &[0, 0, 0, 0, 0, 3, 0, 1, to as u8, 6, 2, 0, 0, 0, 0, 1, 0, 0]]
                .concat()
        }
        link::NULL => vec![if is_v6 { 30 } else { 2 }, 0, 0, 0],
        _ => Vec::new(),
    };
    [&header, packet].concat()
}

/// The kind of a frame's destination in the link header; the numbers are those of cooked captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Us = 0,
    All = 1,
    Group = 2,
}

fn ethernet(tags: &[u16], to: To, ethertype: [u8; 2]) -> Vec<u8> {
    let dst = match to {
        To::Us => [2, 0, 0, 0, 0, 2],
        To::All => [0xff; 6],
        To::Group => [1, 0, 0x5e, 0, 0, 5],
    };
    let mut header = [&dst[..], &[2, 0, 0, 0, 0, 1]].concat();
    for tag in tags {
        header.extend([0x81, 0]);
        header.extend(tag.to_be_bytes());
    }
    header.extend(ethertype);
    header
}
