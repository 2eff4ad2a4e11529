//! Frames for the engine's tests: seeded, well-formed or not, with the flow and its order inside.

use memchr::memmem;
use warpline_packet::LinkType;

/// A frame as a source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) bytes: Vec<u8>,
    pub(crate) nanos: u64,
    pub(crate) wire_len: u32,
    pub(crate) link: LinkType,
    pub(crate) interface: u16,
}

/// Begins the payload of every packet of a flow; flow and sequence number follow.
pub(crate) const MAGIC: &[u8; 4] = b"WARP";

/// When everything begins.
pub(crate) const START_NANOS: u64 = 1_700_000_000_000_000_000;

/// The flow and the sequence number in a frame, wherever they are by now.
pub(crate) fn flow_of(frame: &[u8]) -> Option<(u16, u32)> {
    let at = memmem::find(frame, MAGIC)? + MAGIC.len();
    let rest = frame.get(at..at + 6)?;
    Some((
        u16::from_be_bytes([rest[0], rest[1]]),
        u32::from_be_bytes([rest[2], rest[3], rest[4], rest[5]]),
    ))
}

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Traffic being made.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    random: Random,
    sequence: Vec<u32>,
    nanos: u64,
    /// Percent of frames that are odd in some way.
    odd_percent: usize,
    payload_max: usize,
}

impl Traffic {
    pub(crate) fn new(seed: u64, flows: usize, odd_percent: usize, payload_max: usize) -> Self {
        let (random, sequence) = (Random(seed), vec![0; flows]);
        Self { random, sequence, nanos: START_NANOS, odd_percent, payload_max }
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<Input> {
        (0..count).map(|_| self.frame()).collect()
    }

    fn frame(&mut self) -> Input {
        self.nanos += self.random.next() % 40_000;
        let odd = self.random.below(100) < self.odd_percent;
        let mut input = self.flow_packet();
        if odd {
            spoil(&mut self.random, &mut input);
        }
        input
    }

    /// A packet of a flow: UDP or TCP over IPv4 or IPv6, in either direction.
    fn flow_packet(&mut self) -> Input {
        let flow = self.random.below(self.sequence.len());
        let sequence = self.sequence[flow];
        self.sequence[flow] += 1;
        let size = match self.random.below(10) {
            0 => self.payload_max,
            1..4 => self.payload_max / 4,
            _ => 64,
        };
        let mut payload =
            [&MAGIC[..], &(flow as u16).to_be_bytes(), &sequence.to_be_bytes()].concat();
        let filler = 4 + self.random.below(size.max(1));
        payload.extend(std::iter::repeat_n(sequence as u8, filler));
        let back = self.random.below(3) == 0;
        let packet = ip_packet(flow, back, &payload);
        let (link, bytes) = match flow % 8 {
            0 => (LinkType::IPV4, packet),
            5 => (LinkType::LINUX_SLL, cooked(&packet)),
            _ => (LinkType::ETHERNET, ethernet(&packet)),
        };
        Input {
            wire_len: bytes.len() as u32,
            bytes,
            nanos: self.nanos,
            link,
            interface: (flow % 3) as u16,
        }
    }
}

/// Makes a frame's headers wrong, or leaves little of it. A frame whose bytes change belongs to no
/// flow any more.
pub(crate) fn spoil(random: &mut Random, input: &mut Input) {
    let len = input.bytes.len();
    let way = random.below(8);
    if way < 4
        && let Some(at) = input.bytes.windows(4).position(|window| window == MAGIC)
    {
        input.bytes[at..at + 4].fill(0);
    }
    match way {
        0 => {
            input.bytes.truncate(random.below(len + 1));
        }
        1 => {
            input.bytes.truncate(random.below(len));
            input.wire_len = input.bytes.len() as u32;
        }
        2 => {
            let at = random.below(len.min(60));
            input.bytes[at] ^= 1 << random.below(8);
        }
        3 => {
            let size = random.below(100);
            input.bytes = random.bytes(size);
            input.wire_len = size as u32;
        }
        4 => {
            input.bytes.clear();
            input.wire_len = 0;
        }
        5 => input.link = LinkType([0, 1, 101, 113, 147, 228, 229, 276][random.below(8)]),
        6 => input.nanos -= 5_000_000,
        _ => input.nanos = 0,
    }
}

fn ip_packet(flow: usize, back: bool, payload: &[u8]) -> Vec<u8> {
    let tcp = flow % 2 == 1;
    let (near, far) = (40_000 + flow as u16, if tcp { 443 } else { 53 });
    let (src, dst) = if back { (far, near) } else { (near, far) };
    let segment =
        if tcp { tcp_segment(src, dst, payload) } else { udp_datagram(src, dst, payload) };
    let protocol = if tcp { 6 } else { 17 };
    if flow % 8 == 3 || flow % 8 == 6 {
        ipv6(flow, back, protocol, &segment)
    } else {
        ipv4(flow, back, protocol, &segment)
    }
}

fn ipv4(flow: usize, back: bool, protocol: u8, segment: &[u8]) -> Vec<u8> {
    let (near, far) = ([10, 0, (flow >> 8) as u8, flow as u8], [203, 0, 113, (flow % 5) as u8]);
    let (src, dst) = if back { (far, near) } else { (near, far) };
    let [high, low] = (20 + segment.len() as u16).to_be_bytes();
    let header = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    let mut packet = [&header[..], &src, &dst, segment].concat();
    let words = packet[..20].chunks_exact(2);
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn ipv6(flow: usize, back: bool, protocol: u8, segment: &[u8]) -> Vec<u8> {
    let mut near = [0; 16];
    near[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    let mut far = near;
    near[14..].copy_from_slice(&(flow as u16).to_be_bytes());
    far[4] = 1;
    let (src, dst) = if back { (far, near) } else { (near, far) };
    let [high, low] = (segment.len() as u16).to_be_bytes();
    let header = [0x60, 0, 0, 0, high, low, protocol, 64];
    [&header[..], &src, &dst, segment].concat()
}

fn udp_datagram(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let words = [src, dst, len, 0].map(u16::to_be_bytes).concat();
    [&words[..], payload].concat()
}

fn tcp_segment(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let ports = [src, dst].map(u16::to_be_bytes).concat();
    let rest = [0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0];
    [&ports[..], &rest, payload].concat()
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &kind, packet].concat()
}

fn cooked(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &kind, packet].concat()
}
