//! Packets cut from a fuzzer's input.
//!
//! Each packet is four bytes and then its own: length (11 bits, little endian) and a bit for each
//! of the flags below; the time since the packet before (3 bits) and the bytes that the capture cut
//! off (5 bits); the link type.

use warpline_packet::wire::{checksum, ipv6};
use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol, ipv4, tcp, udp};
use warpline_packet::{Headers, Instant, LinkType};
use warpline_verify::Input;

/// The packet answers the last one that was sent on, of the same input; its bytes are changes to
/// that answer: a place (16 bits) and a value each.
pub const ANSWER: u8 = 0x08;
/// The same with an ICMP error that quotes the last one.
pub const QUOTE: u8 = 0x10;
/// Lengths and checksums are put right before the packet is sent.
pub const REPAIR: u8 = 0x20;
/// The function gets a tick before the packet.
pub const TICK: u8 = 0x40;
/// The batch is processed before the packet.
pub const FLUSH: u8 = 0x80;

/// Packets that are cut from one input.
pub const PACKETS_MAX: usize = 200;

const SECOND: u64 = 1_000_000_000;
/// Time between packets: around the timeouts that functions have.
pub const STEPS: [u64; 8] =
    [0, 1_000, 1_000_000, SECOND, 31 * SECOND, 61 * SECOND, 301 * SECOND, 7_441 * SECOND];
/// The link type by number; Ethernet most of the time.
pub const LINKS: [LinkType; 16] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType(9999),
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::ETHERNET,
    LinkType::ETHERNET,
    LinkType::ETHERNET,
    LinkType::ETHERNET,
    LinkType::ETHERNET,
    LinkType::ETHERNET,
    LinkType::ETHERNET,
];

/// How many of them there are, without those that come again.
pub const LINK_TYPES: usize = 9;

/// A packet and what is done before it.
pub struct Cut {
    /// Its bytes, or changes to an answer.
    pub bytes: Vec<u8>,
    /// The flags.
    pub flags: u8,
    /// When it comes, in nanoseconds.
    pub nanos: u64,
    /// Its link type, where it is no answer.
    pub link: LinkType,
    /// Bytes that the capture cut off.
    pub cut: u32,
}

impl Cut {
    /// Whether it has any of these flags.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// The packet, where `last` was the last that was sent on.
    pub fn input(self, last: Option<(&[u8], LinkType)>) -> Input {
        let made = last.filter(|_| self.has(ANSWER | QUOTE)).and_then(|(bytes, link)| {
            let made = if self.has(QUOTE) { quote(bytes, link) } else { answer(bytes, link) };
            Some((patched(made?, &self.bytes), link))
        });
        let (flags, nanos, cut) = (self.flags, self.nanos, self.cut);
        let (mut bytes, link) = made.unwrap_or((self.bytes, self.link));
        if flags & REPAIR != 0 {
            repair(&mut bytes, link);
        }
        let wire_len = bytes.len() as u32 + cut;
        Input { bytes, timestamp: Instant::from_nanos(nanos), wire_len, link }
    }
}

fn patched(mut bytes: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        let at = usize::from(change[0]) | usize::from(change[1]) << 8;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = change[2];
        }
    }
    bytes
}

/// The packet that goes back the way of `frame`: addresses and ports swapped, a reply for a
/// request.
fn answer(frame: &[u8], link: LinkType) -> Option<Vec<u8>> {
    let mut bytes = frame.to_vec();
    let l3 = l3_of(link)?;
    if link == LinkType::ETHERNET {
        swap(&mut bytes, 0, 6, 6)?;
    }
    let first = *bytes.get(l3)?;
    let (l4, protocol) = if first >> 4 == 4 {
        swap(&mut bytes, l3 + 12, l3 + 16, 4)?;
        (l3 + usize::from(first & 15) * 4, *bytes.get(l3 + 9)?)
    } else {
        swap(&mut bytes, l3 + 8, l3 + 24, 16)?;
        (l3 + ipv6::HEADER_LEN, *bytes.get(l3 + 6)?)
    };
    match protocol {
        ip_protocol::TCP | ip_protocol::UDP => swap(&mut bytes, l4, l4 + 2, 2)?,
        ip_protocol::ICMP => *bytes.get_mut(l4)? ^= icmpv4::message::ECHO_REQUEST,
        ip_protocol::ICMPV6 => *bytes.get_mut(l4)? ^= 1,
        _ => {}
    }
    Some(bytes)
}

/// Swaps `len` bytes at `first` with those at `second`, which come later.
fn swap(bytes: &mut [u8], first: usize, second: usize, len: usize) -> Option<()> {
    let (before, behind) = bytes.split_at_mut_checked(second)?;
    before.get_mut(first..first + len)?.swap_with_slice(behind.get_mut(..len)?);
    Some(())
}

/// An ICMP error about `frame`, on its way back.
fn quote(frame: &[u8], link: LinkType) -> Option<Vec<u8>> {
    let l3 = l3_of(link)?;
    let packet = frame.get(l3..)?;
    let back = answer(frame, link)?;
    let four = packet.first()? >> 4 == 4;
    let (header_len, protocol_at, protocol, kind) = if four {
        (ipv4::HEADER_LEN, 9, ip_protocol::ICMP, 3)
    } else {
        (ipv6::HEADER_LEN, 6, ip_protocol::ICMPV6, 1)
    };
    let mut bytes = back.get(..l3 + header_len)?.to_vec();
    bytes[l3 + protocol_at] = protocol;
    if four {
        bytes[l3] = 0x45;
        // Whatever it was, the error is no fragment.
        bytes[l3 + 6..l3 + 8].fill(0);
    }
    bytes.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&packet[..packet.len().min(500)]);
    Some(bytes)
}

/// Cuts `data` into packets, the first of them at `start` nanoseconds.
pub fn cut(mut data: &[u8], start: u64) -> Vec<Cut> {
    let mut now = start;
    let mut found = Vec::new();
    while let Some((&[low, high, step, link], rest)) = data.split_first_chunk::<4>()
        && found.len() < PACKETS_MAX
    {
        let len = usize::from(low) | usize::from(high & 7) << 8;
        let (bytes, rest) = rest.split_at(len.min(rest.len()));
        data = rest;
        now = now.saturating_add(STEPS[usize::from(step & 7)]);
        let link = LINKS[usize::from(link) % LINKS.len()];
        let (flags, cut) = (high & !7, u32::from(step >> 3));
        found.push(Cut { bytes: bytes.to_vec(), flags, nanos: now, link, cut });
    }
    found
}

/// Writes a packet as [`cut`] reads it.
pub fn put(to: &mut Vec<u8>, bytes: &[u8], flags: u8, step: u8, link: u8) {
    let bytes = &bytes[..bytes.len().min(0x7ff)];
    to.extend([bytes.len() as u8, (bytes.len() >> 8) as u8 | flags, step, link]);
    to.extend_from_slice(bytes);
}

/// Where the IP header would be, by the link type alone.
pub fn l3_of(link: LinkType) -> Option<usize> {
    Some(match link {
        LinkType::ETHERNET => 14,
        LinkType::LINUX_SLL => 16,
        LinkType::LINUX_SLL2 => 20,
        LinkType::NULL | LinkType::LOOP => 4,
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => 0,
        _ => return None,
    })
}

/// Puts the lengths and checksums of an IP packet right, so that mutations get past them.
pub fn repair(frame: &mut [u8], link: LinkType) {
    let Some(packet) = l3_of(link).and_then(|l3| frame.get_mut(l3..)) else { return };
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= ipv4::HEADER_LEN => repair_v4(packet),
        Some(6) if packet.len() >= ipv6::HEADER_LEN => repair_v6(packet),
        _ => {}
    }
}

/// Writes the length of an IP packet whose own field is zero, as functions that resize packets do.
pub fn set_len(frame: &mut [u8], headers: &Headers) {
    let l3 = usize::from(headers.l3);
    let (len, packet) = (headers.end as usize - l3, &mut frame[l3..]);
    match headers.version {
        4 if packet[2..4] == [0, 0] => {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            // RFC 1624: a sum that was wrong stays so.
            let old = u32::from(!u16::from_be_bytes([packet[10], packet[11]]));
            let sum = old + len as u32;
            let sum = !((sum + (sum >> 16)) as u16);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        6 if packet[4..6] == [0, 0] => {
            let own = len - ipv6::HEADER_LEN;
            packet[4..6].copy_from_slice(&(own as u16).to_be_bytes());
        }
        _ => {}
    }
}

fn repair_v4(packet: &mut [u8]) {
    let len = packet.len().min(0xffff);
    let mut ip = ipv4::Ipv4::new_unchecked(&mut *packet);
    if ip.header_len() < ipv4::HEADER_LEN || ip.header_len() > len {
        ip.set_header_len(ipv4::HEADER_LEN);
    }
    ip.set_total_len(len as u16);
    ip.fill_checksum();
    if ip.is_fragment() {
        return;
    }
    let (protocol, start) = (ip.protocol(), ip.header_len());
    let pseudo = checksum::pseudo_v4(ip.src_addr(), ip.dst_addr(), protocol, (len - start) as u16);
    repair_transport(&mut packet[start..len], protocol, pseudo, protocol == ip_protocol::ICMP);
}

fn repair_v6(packet: &mut [u8]) {
    let len = (packet.len() - ipv6::HEADER_LEN).min(0xffff);
    let mut ip = ipv6::Ipv6::new_unchecked(&mut *packet);
    ip.set_payload_len(len as u16);
    let protocol = ip.next_header();
    let pseudo = checksum::pseudo_v6(ip.src_addr(), ip.dst_addr(), protocol, len as u32);
    let body = &mut packet[ipv6::HEADER_LEN..][..len];
    repair_transport(body, protocol, pseudo, false);
}

fn repair_transport(body: &mut [u8], protocol: u8, pseudo: u32, icmp: bool) {
    let len = body.len() as u16;
    match protocol {
        ip_protocol::TCP => {
            if let Ok(mut segment) = tcp::Tcp::new_checked(body) {
                segment.fill_checksum(pseudo);
            }
        }
        ip_protocol::UDP if body.len() >= udp::HEADER_LEN => {
            let mut datagram = udp::Udp::new_unchecked(body);
            datagram.set_length(len);
            datagram.fill_checksum(pseudo);
        }
        ip_protocol::ICMP if icmp => {
            if let Ok(mut message) = icmpv4::Icmpv4::new_checked(body) {
                message.fill_checksum();
            }
        }
        ip_protocol::ICMPV6 => {
            if let Ok(mut message) = icmpv6::Icmpv6::new_checked(body) {
                message.fill_checksum(pseudo);
            }
        }
        _ => {}
    }
}
