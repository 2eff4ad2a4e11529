//! Packets as bytes: made from their meaning, answered, and quoted in ICMP errors.

use std::net::IpAddr;

use warpline_packet::{Flags, Headers, LinkType};

pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const FIN: u8 = 0x01;
pub(crate) const RST: u8 = 0x04;

/// The payload of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Tcp { src: u16, dst: u16, flags: u8, seq: u32 },
    Udp { src: u16, dst: u16 },
    Echo { ident: u16 },
    Other(u8),
}

/// An IP packet.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) ident: u16,
    pub(crate) body: Body,
    pub(crate) payload: Vec<u8>,
}

impl Packet {
    fn protocol(&self) -> u8 {
        match self.body {
            Body::Tcp { .. } => 6,
            Body::Udp { .. } => 17,
            Body::Echo { .. } if self.src.is_ipv6() => 58,
            Body::Echo { .. } => 1,
            Body::Other(protocol) => protocol,
        }
    }

    /// The transport header, its checksum any number, and the payload.
    fn transport(&self) -> Vec<u8> {
        let mut bytes = match self.body {
            Body::Tcp { src, dst, flags, seq } => {
                let ports = [src, dst].map(u16::to_be_bytes).concat();
                // The other side has sent as much before; it had all of that, and the SYN.
                let ack = seq + u32::from(flags & SYN != 0);
                let numbers = [seq, ack].map(u32::to_be_bytes).concat();
                [&ports[..], &numbers, &[0x50, flags, 16, 0, 0x12, 0x34, 0, 0]].concat()
            }
            Body::Udp { src, dst } => {
                [src, dst, 8 + self.payload.len() as u16, 0x1234].map(u16::to_be_bytes).concat()
            }
            Body::Echo { ident } => {
                let kind = if self.src.is_ipv6() { 128 } else { 8 };
                [u16::from_be_bytes([kind, 0]), 0x1234, ident, 1].map(u16::to_be_bytes).concat()
            }
            Body::Other(_) => Vec::new(),
        };
        bytes.extend(&self.payload);
        bytes
    }

    /// The IP packet around a part of the transport bytes: where it begins, and whether more
    /// follow.
    fn wrap(&self, part: &[u8], at: usize, more: bool) -> Vec<u8> {
        if self.src.is_ipv6() {
            let fragment = at > 0 || more;
            let extra = [self.protocol(), 0, (at >> 8) as u8, at as u8 | u8::from(more), 0, 0];
            let extra = [&extra[..], &self.ident.to_be_bytes()].concat();
            let extra = if fragment { &extra[..] } else { &[] };
            let next = if fragment { 44 } else { self.protocol() };
            let [high, low] = ((extra.len() + part.len()) as u16).to_be_bytes();
            let header = [0x60, 0, 0, 0, high, low, next, self.ttl];
            return [&header[..], &octets(self.src), &octets(self.dst), extra, part].concat();
        }
        let len = (20 + part.len()) as u16;
        let word = (at / 8) as u16 | u16::from(more) << 13;
        let words = [0x4500, len, self.ident, word].map(u16::to_be_bytes).concat();
        let rest = [self.ttl, self.protocol(), 0, 0];
        let mut header = [&words[..], &rest, &octets(self.src), &octets(self.dst)].concat();
        let sum = checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        [&header[..], part].concat()
    }

    /// The packet whole.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.wrap(&self.transport(), 0, false)
    }

    /// The packet in two fragments, the first with 64 bytes, where it is longer than that.
    pub(crate) fn fragments(&self) -> Vec<Vec<u8>> {
        let whole = self.transport();
        match whole.split_at_checked(64) {
            Some((first, rest)) if !rest.is_empty() => {
                vec![self.wrap(first, 0, true), self.wrap(rest, 64, false)]
            }
            _ => vec![self.bytes()],
        }
    }
}

/// The two fragments that a router makes of an IPv4 packet of ESP without options, in a frame of
/// `link`. Other frames are returned unchanged.
pub(crate) fn pieces_of_esp(frame: &[u8], link: LinkType) -> Vec<Vec<u8>> {
    let l3 = match link {
        LinkType::ETHERNET if frame.get(12..14) == Some(&[0x81, 0]) => 18,
        LinkType::ETHERNET => 14,
        LinkType::LINUX_SLL => 16,
        _ => 0,
    };
    let Some((head, body)) = frame.split_at_checked(l3 + 20) else { return vec![frame.to_vec()] };
    if head[l3] != 0x45 || head[l3 + 9] != 50 || body.len() < 64 {
        return vec![frame.to_vec()];
    }
    let piece = |part: &[u8], word: usize| {
        let (link_header, mut header) = (&head[..l3], head[l3..].to_vec());
        header[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(word as u16).to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        [link_header, &header, part].concat()
    };
    let at = body.len() / 16 * 8;
    vec![piece(&body[..at], 1 << 13), piece(&body[at..], at / 8)]
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// RFC 1071, word by word.
fn checksum(data: &[u8]) -> u16 {
    let words = data.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// The frame around an IP packet; a VLAN tag in Ethernet where asked for.
pub(crate) fn frame(link: LinkType, vlan: bool, packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    match link {
        LinkType::ETHERNET if vlan => [&macs[..], &[0x81, 0, 0, 42], &kind[..], packet].concat(),
        LinkType::ETHERNET => [&macs[..], &kind[..], packet].concat(),
        LinkType::LINUX_SLL => {
            [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &kind[..], packet].concat()
        }
        _ => packet.to_vec(),
    }
}

/// The answer to a frame, sent from its destination: addresses and ports swapped. `None` if no host
/// would answer.
pub(crate) fn answer(frame: &[u8], link: LinkType) -> Option<Vec<u8>> {
    let headers = Headers::parse(frame, link, frame.len());
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    let unfit = Flags::FRAGMENT | Flags::LATER_FRAGMENT | Flags::SNAPPED;
    if headers.malformed().is_some()
        || headers.flags.has(unfit)
        || !headers.flags.has(Flags::TRANSPORT)
    {
        return None;
    }
    let mut answer = frame.to_vec();
    turn_link(&mut answer, link);
    let (at, len) = if headers.version == 4 { (l3 + 12, 4) } else { (l3 + 8, 16) };
    swap(&mut answer, at, len);
    answer[if headers.version == 4 { l3 + 8 } else { l3 + 7 }] = 63;
    match headers.protocol {
        6 => {
            swap(&mut answer, l4, 2);
            let flags = &mut answer[l4 + 13];
            *flags = match *flags {
                flags if flags & RST != 0 => return None,
                flags => flags & (SYN | FIN) | ACK,
            };
        }
        17 => swap(&mut answer, l4, 2),
        1 if answer[l4] == 8 => answer[l4] = 0,
        58 if answer[l4] == 128 => answer[l4] = 129,
        _ => return None,
    }
    Some(answer)
}

/// An ICMP error about a frame, from `router`: unreachable. It quotes `quote` bytes.
pub(crate) fn error(
    frame_: &[u8],
    link: LinkType,
    router: IpAddr,
    quote: usize,
) -> Option<Vec<u8>> {
    let headers = Headers::parse(frame_, link, frame_.len());
    let l3 = usize::from(headers.l3);
    let packet = frame_.get(l3..headers.end as usize)?;
    let src = match (headers.version, router) {
        (4, IpAddr::V4(_)) => IpAddr::from(*packet.get(12..)?.first_chunk::<4>()?),
        (6, IpAddr::V6(_)) => IpAddr::from(*packet.get(8..)?.first_chunk::<16>()?),
        _ => return None,
    };
    let (protocol, kind) = if headers.version == 4 { (1, [3, 1]) } else { (58, [1, 0]) };
    let quote = &packet[..quote.min(packet.len())];
    let payload = [&kind[..], &[0x12, 0x34, 0, 0, 0, 0], quote].concat();
    let (ttl, ident) = (64, 0);
    let error = Packet { src: router, dst: src, ttl, ident, body: Body::Other(protocol), payload };
    let mut bytes = frame_[..l3].to_vec();
    turn_link(&mut bytes, link);
    bytes.extend(error.bytes());
    Some(bytes)
}

fn turn_link(frame: &mut [u8], link: LinkType) {
    if link == LinkType::ETHERNET {
        swap(frame, 0, 6);
    }
}

/// Swaps two neighbours of `len` bytes.
fn swap(bytes: &mut [u8], at: usize, len: usize) {
    let (one, other) = bytes[at..at + 2 * len].split_at_mut(len);
    one.swap_with_slice(other);
}
