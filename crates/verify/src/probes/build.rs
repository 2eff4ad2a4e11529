//! Packets as bytes, with right lengths and checksums.

use core::ops::Range;
use std::net::IpAddr;

use warpline_packet::LinkType;
use warpline_packet::wire::{checksum, ip_protocol as ip};

/// An IP packet.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) class: u8,
    pub(super) ttl: u8,
    pub(super) ident: u16,
    /// Flags and fragment offset, as in IPv4.
    pub(super) word: u16,
    /// Of IPv4 the options' bytes, of IPv6 the extension headers' numbers.
    pub(super) options: Vec<u8>,
    pub(super) protocol: u8,
    /// From the transport header on.
    pub(super) body: Vec<u8>,
}

impl Packet {
    pub(super) fn between(src: IpAddr, dst: IpAddr) -> Self {
        Self {
            src,
            dst,
            class: 0,
            ttl: 64,
            ident: 0,
            word: 0,
            options: Vec::new(),
            protocol: ip::NO_NEXT_HEADER,
            body: Vec::new(),
        }
    }

    pub(super) fn is_v6(&self) -> bool {
        self.src.is_ipv6()
    }

    /// Writes the transport header's checksum.
    pub(super) fn finish(&mut self) {
        let at = match self.protocol {
            ip::TCP => 16,
            ip::UDP => 6,
            ip::ICMP | ip::ICMPV6 => 2,
            _ => return,
        };
        let pseudo = match self.protocol {
            ip::ICMP => 0,
            protocol => self.pseudo(protocol),
        };
        let Some(field) = self.body.get_mut(at..at + 2) else { return };
        field.fill(0);
        let sum = !checksum::fold(pseudo + checksum::sum(&self.body));
        let sum = if sum == 0 && self.protocol == ip::UDP { 0xffff } else { sum };
        self.body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    fn pseudo(&self, protocol: u8) -> u32 {
        let len = self.body.len();
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                checksum::pseudo_v4(src, dst, protocol, len as u16)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                checksum::pseudo_v6(src, dst, protocol, len as u32)
            }
            _ => 0,
        }
    }

    /// A fragment that has these bytes of the body, as many of them as there are.
    pub(super) fn piece(&self, bytes: Range<usize>) -> Self {
        let end = bytes.end.min(self.body.len());
        let more = u16::from(end < self.body.len()) << 13;
        let body = self.body[bytes.start..end].to_vec();
        Self { word: more | (bytes.start / 8) as u16, body, ..self.clone() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.v4(src.octets(), dst.octets()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.v6(src.octets(), dst.octets()),
            _ => Vec::new(),
        }
    }

    fn v4(&self, src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let header_len = 20 + options.len();
        let first = [0x40 | (header_len / 4) as u8, self.class];
        let words = [(header_len + self.body.len()) as u16, self.ident, self.word];
        let words = words.map(u16::to_be_bytes).concat();
        let rest = [self.ttl, self.protocol, 0, 0];
        let mut all = [&first[..], &words, &rest, &src, &dst, &options].concat();
        let sum = checksum::checksum(&all).to_be_bytes();
        all[10..12].copy_from_slice(&sum);
        all.extend(&self.body);
        all
    }

    fn v6(&self, src: [u8; 16], dst: [u8; 16]) -> Vec<u8> {
        let mut kinds = self.options.clone();
        let is_piece = self.word & 0x3fff != 0;
        if is_piece {
            kinds.push(ip::FRAGMENT);
        }
        let last =
            if kinds.last() == Some(&ip::NO_NEXT_HEADER) { None } else { Some(self.protocol) };
        let nexts: Vec<u8> = kinds.iter().copied().skip(1).chain(last).collect();
        let mut behind = Vec::new();
        for (kind, next) in kinds.iter().zip(&nexts) {
            behind.extend(self.extension(*kind, *next));
        }
        behind.extend(&self.body);
        let first = 6u32 << 28 | u32::from(self.class) << 20 | u32::from(self.ident);
        let next = kinds.first().copied().unwrap_or(self.protocol);
        let len = (behind.len() as u16).to_be_bytes();
        [&first.to_be_bytes()[..], &len, &[next, self.ttl], &src, &dst, &behind].concat()
    }

    fn extension(&self, kind: u8, next: u8) -> Vec<u8> {
        let [high, low] = self.ident.to_be_bytes();
        match kind {
            ip::FRAGMENT => {
                let offset = self.word << 3 | self.word >> 13 & 1;
                [&[next, 0][..], &offset.to_be_bytes(), &[0, 0, high, low]].concat()
            }
            ip::AH => [&[next, 4, 0, 0, 0, 0, 0x20, 1, 0, 0, 0, 7][..], &[high; 12]].concat(),
            ip::ROUTING => vec![next, 0, 253, 0, 0, 0, high, low],
            // PadN (RFC 8200, 4.2).
            _ => vec![next, 0, 1, 4, 0, 0, 0, 0],
        }
    }
}

/// The packet with a length of 0; with `is_jumbo` its hop-by-hop header has the length (RFC 2675,
/// 2).
pub(super) fn without_len(packet: &Packet, is_jumbo: bool) -> Vec<u8> {
    let mut bytes = packet.bytes();
    if packet.is_v6() {
        let len = (bytes.len() - 40) as u32;
        bytes[4..6].fill(0);
        if is_jumbo {
            bytes[42..44].copy_from_slice(&[194, 4]);
            bytes[44..48].copy_from_slice(&len.to_be_bytes());
        }
        return bytes;
    }
    with_len(bytes, 0)
}

/// An IPv4 packet whose header says another length.
pub(super) fn with_len(mut bytes: Vec<u8>, len: u16) -> Vec<u8> {
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[10..12].fill(0);
    let header_len = usize::from(bytes[0] & 15) * 4;
    let sum = checksum::checksum(&bytes[..header_len]).to_be_bytes();
    bytes[10..12].copy_from_slice(&sum);
    bytes
}

pub(super) fn tcp(
    ports: [u16; 2],
    numbers: [u32; 2],
    flags: u8,
    urgent: u16,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let (ports, numbers) = (ports.map(u16::to_be_bytes), numbers.map(u32::to_be_bytes));
    let offset = (((20 + options.len()) / 4) << 4) as u8;
    let rest = [u16::from_be_bytes([offset, flags]), 4096, 0, urgent].map(u16::to_be_bytes);
    [ports.as_flattened(), numbers.as_flattened(), rest.as_flattened(), options, payload].concat()
}

pub(super) fn udp([src, dst]: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let header = [src, dst, 8 + payload.len() as u16, 0].map(u16::to_be_bytes);
    [header.as_flattened(), payload].concat()
}

/// `rest` are the two words after the checksum.
pub(super) fn icmp(kind: [u8; 2], rest: [u16; 2], payload: &[u8]) -> Vec<u8> {
    [&kind[..], &[0, 0], rest.map(u16::to_be_bytes).as_flattened(), payload].concat()
}

/// The frame around an IP packet; in Ethernet with a tag where `is_tagged`.
pub(super) fn framed(link: LinkType, is_tagged: bool, packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let addresses = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    match link {
        LinkType::ETHERNET if is_tagged => {
            [&addresses[..], &[0x81, 0, 0x60, 42], &kind, packet].concat()
        }
        LinkType::ETHERNET => [&addresses[..], &kind, packet].concat(),
        LinkType::LINUX_SLL => {
            [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &kind, packet].concat()
        }
        _ => packet.to_vec(),
    }
}
