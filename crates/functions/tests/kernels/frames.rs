//! Frames for kernels: IPv4 and IPv6 written by hand, and random ones that are mostly but not
//! always what they seem.

use warpline_packet::LinkType;
use warpline_packet::hash::mix32;
use warpline_verify::Input;

pub(crate) const LINK: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
pub(crate) const TCP: [u8; 20] = [0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 16, 1, 0, 0, 0, 0, 0];

/// Numbers that follow from a seed.
pub(crate) struct Random(u32);

impl Random {
    pub(crate) fn new(seed: u32) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9);
        mix32(self.0)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// An IPv4 packet of `protocol` with a right checksum; `options` are whole words.
pub(crate) fn ipv4(dst: [u8; 4], ttl: u8, protocol: u8, options: &[u8], body: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(((header_len + body.len()) as u16).to_be_bytes());
    packet.extend([0x12, 0x34, 0, 0, ttl, protocol, 0, 0, 198, 51, 100, 7]);
    packet.extend(dst);
    packet.extend(options);
    let sum = packet
        .chunks(2)
        .fold(0u32, |sum, word| sum + u32::from(word[0]) * 256 + u32::from(word[1]));
    let sum = (sum >> 16) + (sum & 0xffff);
    packet[10..12].copy_from_slice(&(!(sum + (sum >> 16)) as u16).to_be_bytes());
    packet.extend(body);
    packet
}

/// An IPv6 packet whose first header after the fixed one is `next`.
pub(crate) fn ipv6(dst: [u8; 16], hop_limit: u8, next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend([next, hop_limit]);
    packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    packet.extend(dst);
    packet.extend(body);
    packet
}

pub(crate) fn udp(payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![4, 210, 0, 53];
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

/// The packet in Ethernet, after VLAN `tags`.
pub(crate) fn ethernet(tags: &[u8], packet: &[u8]) -> Input {
    let kind: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    Input::at(0, &[&LINK[..], tags, &kind, packet].concat())
}

/// The packet on another link; cooked headers say that it is IPv4 or IPv6.
pub(crate) fn on_link(link: LinkType, packet: &[u8]) -> Input {
    let kind: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    let header = match link {
        LinkType::LINUX_SLL => [&[0; 14][..], &kind].concat(),
        LinkType::LINUX_SLL2 => [&kind[..], &[0; 18]].concat(),
        _ => Vec::new(),
    };
    Input { link, ..Input::at(0, &[header, packet.to_vec()].concat()) }
}

/// The frame cut to `len` bytes, as by a capture.
pub(crate) fn snapped(input: &Input, len: usize) -> Input {
    Input { bytes: input.bytes[..len.min(input.bytes.len())].to_vec(), ..input.clone() }
}

/// A packet to one of the destinations, or some changed or cut one.
pub(crate) fn random(random: &mut Random, v4: &[[u8; 4]], v6: &[[u8; 16]]) -> Input {
    let len = random.pick(&[0, 1, 18, 47, 48, 55, 56, 63, 64, 65, 119, 120, 128, 500, 1400]);
    let payload = random.bytes(len);
    let (protocol, body) = match random.below(5) {
        0 | 1 => (17, udp(&payload)),
        2 => (6, [&TCP, &payload[..]].concat()),
        3 => (50, [&[0, 0, 1, 1, 0, 0, 0, 9], &payload[..]].concat()),
        _ => (99, [&[0], &payload[..]].concat()),
    };
    let ttl = random.pick(&[0, 1, 2, 64, 255]);
    let packet = if random.below(3) > 0 {
        let options = random.pick(&[0, 0, 0, 4, 40]);
        ipv4(random.pick(v4), ttl, protocol, &vec![1; options], &body)
    } else if random.below(4) > 0 {
        ipv6(random.pick(v6), ttl, protocol, &body)
    } else {
        // Behind an extension header of options, one of them padding.
        ipv6(random.pick(v6), ttl, 60, &[&[protocol, 0, 1, 4, 0, 0, 0, 0], &body[..]].concat())
    };
    let links = [LinkType::RAW, LinkType::LINUX_SLL, LinkType::LINUX_SLL2];
    let mut input = match random.below(10) {
        0 => on_link(random.pick(&links), &packet),
        1 => ethernet(&[0x81, 0, 0, 9], &packet),
        2 => ethernet(&[0x88, 0xa8, 0, 8, 0x81, 0, 0, 9], &packet),
        _ => ethernet(&[], &packet),
    };
    match random.below(10) {
        0 => input = snapped(&input, random.below(120)),
        1 => {
            // The headers may lie now.
            let at = random.below(input.bytes.len().min(60));
            input.bytes[at] ^= 1 << random.below(8);
        }
        2 => {
            let padding = random.below(40);
            input.bytes.extend(vec![7; padding]);
            input.wire_len = input.bytes.len() as u32;
        }
        _ => {}
    }
    input
}
