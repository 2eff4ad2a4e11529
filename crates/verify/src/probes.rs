//! Packets that make functions read fields that are rare in captures: options, extension headers,
//! fragments, ICMP errors with quotes, traffic classes, tunnels, ports of IKE, frames with trailers
//! and tags. Some go to each host, for functions that read a packet only at their own address.
//!
//! [`Hosts`] are the addresses and ports that a chain's files and packets name, so that
//! translators, balancers and policies recognise some. [`probes`] makes the packets. [`answers()`]
//! makes the packets that return for those that a function let through: replies, and errors that
//! quote them. The results depend on the arguments alone.

mod answers;
mod build;
mod each_host;
mod hosts;

use warpline_packet::wire::ip_protocol as ip;
use warpline_packet::{Instant, LinkType};

pub use self::answers::answers;
use self::build::{Packet, framed, icmp, tcp, udp, without_len};
use self::hosts::Choices;
pub use self::hosts::Hosts;
use super::Input;

/// Between two packets.
const STEP_NANOS: u64 = 100_000;

/// About `rounds` times a hundred packets between `hosts`, from `start` on.
pub fn probes(hosts: &Hosts, rounds: usize, start: Instant) -> Vec<Input> {
    let mut maker = Maker {
        choices: hosts.ends(),
        random: Random(0x9e37_79b9 + rounds as u64),
        nanos: start.as_nanos(),
        made: Vec::new(),
    };
    for round in 0..rounds {
        maker.round(round % 3 == 2);
    }
    [false, true].into_iter().for_each(|is_v6| maker.probe_each_host(is_v6));
    maker.made
}

struct Maker {
    choices: Choices,
    random: Random,
    nanos: u64,
    made: Vec<Input>,
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }

    fn payload(&mut self) -> Vec<u8> {
        let len = self.one_of(&[0, 1, 20, 64, 200, 500, 1400]);
        let noise = self.next().is_multiple_of(3);
        let letters = b"the same words to everyone, GET / HTTP/1.1\r\n";
        let byte = |at: usize| if noise { self.next() as u8 } else { letters[at % letters.len()] };
        (0..len).map(byte).collect()
    }
}

impl Maker {
    fn round(&mut self, is_v6: bool) {
        self.tcp_flows(is_v6);
        self.udp_flows(is_v6);
        self.messages(is_v6);
        self.options(is_v6);
        self.fragments(is_v6);
        self.without_length(is_v6);
        self.others(is_v6);
        let random = self.random.0;
        self.tcp_windows(is_v6);
        self.random.0 = random;
    }

    /// A packet between two hosts, with a class, a TTL and an identification of its own.
    fn packet(&mut self, is_v6: bool) -> Packet {
        let all = if is_v6 { &self.choices.v6 } else { &self.choices.v4 };
        let (src, dst) = (self.random.one_of(all), self.random.one_of(all));
        let mut packet = Packet::between(src, dst);
        packet.class = self.random.one_of(&[0, 1, 2, 3, 0xb8, 0x2a, 0xff]);
        packet.ttl = self.random.one_of(&[64, 64, 64, 255, 2, 1, 0]);
        packet.ident = self.random.next() as u16;
        packet.word = self.random.one_of(&[0, 0, 0x4000]);
        packet
    }

    fn ports(&mut self) -> [u16; 2] {
        let near = 1024 + (self.random.next() % 60_000) as u16;
        let far = self.random.one_of(&self.choices.ports);
        if self.random.next().is_multiple_of(4) { [far, near] } else { [near, far] }
    }

    fn push(&mut self, packet: &Packet) {
        self.push_bytes(&packet.bytes());
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let link = self.random.one_of(&[
            LinkType::ETHERNET,
            LinkType::ETHERNET,
            LinkType::ETHERNET,
            LinkType::LINUX_SLL,
            LinkType::RAW,
        ]);
        let mut frame = framed(link, self.random.next().is_multiple_of(4), bytes);
        if link == LinkType::LINUX_SLL {
            // To this host, to all, to a group, to another host, from this one.
            frame[1] = self.random.one_of(&[0, 1, 2, 3, 4]);
        }
        if link == LinkType::ETHERNET && self.random.next().is_multiple_of(3) {
            let trailer = self.random.next().to_be_bytes();
            frame.extend(&trailer[..1 + trailer[0] as usize % 7]);
        }
        self.push_frame(frame, link);
    }

    fn push_frame(&mut self, bytes: Vec<u8>, link: LinkType) {
        let wire_len = bytes.len();
        self.push_cut(bytes, link, wire_len);
    }

    /// A frame that had so many bytes on the wire.
    fn push_cut(&mut self, bytes: Vec<u8>, link: LinkType, wire_len: usize) {
        self.nanos += STEP_NANOS;
        let (timestamp, wire_len) = (Instant::from_nanos(self.nanos), wire_len as u32);
        self.made.push(Input { bytes, timestamp, wire_len, link });
    }

    /// Connections: opened, used, closed or reset; and what belongs to none.
    fn tcp_flows(&mut self, is_v6: bool) {
        for flags in [&[0x02, 0x10, 0x18, 0x11][..], &[0x02, 0x04], &[0x18], &[0x12], &[0x29]] {
            let (mut packet, ports) = (self.packet(is_v6), self.ports());
            packet.ttl = packet.ttl.max(2);
            let mut seq = self.random.next() as u32;
            for &flags in flags {
                let payload = if flags & 2 != 0 { Vec::new() } else { self.random.payload() };
                let options = if flags & 2 != 0 { &[2, 4, 5, 180][..] } else { &[1, 1, 1, 0] };
                let urgent = if flags & 0x20 != 0 { 5 } else { 0 };
                packet.protocol = ip::TCP;
                packet.body = tcp(ports, [seq, 7], flags, urgent, options, &payload);
                seq = seq.wrapping_add(payload.len() as u32 + u32::from(flags & 3 != 0));
                packet.finish();
                self.push(&packet);
            }
        }
    }

    /// Connections in which the answering side sends within its scaled window, and far after it.
    fn tcp_windows(&mut self, is_v6: bool) {
        const SCALE_BY_7: &[u8] = &[3, 3, 7, 1];
        let segments = [
            (true, 0x02, [100, 0], SCALE_BY_7),
            (false, 0x12, [500, 101], SCALE_BY_7),
            (true, 0x10, [101, 501], &[]),
            (false, 0x10, [300_501, 101], &[]),
            (false, 0x10, [5_000_501, 101], &[]),
        ];
        for _ in 0..4 {
            let (mut forth, [near, far]) = (self.packet(is_v6), self.ports());
            (forth.ttl, forth.protocol) = (64, ip::TCP);
            let mut back = forth.clone();
            (back.src, back.dst) = (forth.dst, forth.src);
            for (is_forth, flags, numbers, options) in segments {
                let (packet, ports) =
                    if is_forth { (&mut forth, [near, far]) } else { (&mut back, [far, near]) };
                packet.body = tcp(ports, numbers, flags, 0, options, &[]);
                packet.finish();
                let packet = packet.clone();
                self.push(&packet);
            }
        }
    }

    /// Datagrams, of IKE and of ESP in UDP among them, with a checksum and without.
    fn udp_flows(&mut self, is_v6: bool) {
        for kind in 0..10 {
            let (mut packet, mut ports) = (self.packet(is_v6), self.ports());
            let mut payload = self.random.payload();
            match kind {
                0 | 1 => ports[1] = 4500,
                2 => ports = [4500, 4500],
                3 => ports = [500, 500],
                _ => {}
            }
            // Four zeros say that IKE follows (RFC 3948, 2.2).
            let marker = self.random.one_of(&[[0; 4], [0, 0, 0x10, 1], [0, 0, 0, 9]]);
            if kind < 3 {
                payload.splice(0..0, [marker, [0, 0, 0, 1]].concat());
            }
            packet.protocol = ip::UDP;
            packet.body = udp(ports, &payload);
            packet.finish();
            if kind == 9 && !is_v6 {
                packet.body[6..8].fill(0);
            }
            self.push(&packet);
        }
    }

    /// Echoes, other messages, and errors that quote what the other end might have sent.
    fn messages(&mut self, is_v6: bool) {
        let kinds: &[[u8; 2]] = match is_v6 {
            true => {
                &[[128, 0], [129, 0], [1, 0], [1, 4], [2, 0], [3, 0], [4, 1], [135, 0], [200, 0]]
            }
            false => &[[8, 0], [0, 0], [3, 0], [3, 4], [3, 13], [11, 0], [12, 0], [13, 0], [40, 0]],
        };
        for kind in kinds.iter().chain(kinds) {
            let mut packet = self.packet(is_v6);
            packet.protocol = if is_v6 { ip::ICMPV6 } else { ip::ICMP };
            let rest = [self.random.next() as u16, 576 + self.random.next() as u16 % 900];
            let payload = self.random.payload();
            packet.body = icmp(*kind, rest, &payload);
            packet.finish();
            self.push(&packet);
            if is_error(packet.protocol, kind[0]) {
                let quoted = self.quoted(&packet);
                let quoted = self.cut(quoted);
                packet.body = icmp(*kind, rest, &quoted);
                packet.finish();
                self.push(&packet);
            }
        }
    }

    /// A packet that the receiver of `about` might have sent.
    fn quoted(&mut self, about: &Packet) -> Vec<u8> {
        let mut inner = self.packet(about.dst.is_ipv6());
        inner.src = about.dst;
        let (ports, payload) = (self.ports(), self.random.payload());
        (inner.protocol, inner.body) = match self.random.next() % 5 {
            0 => (ip::UDP, udp(ports, &payload)),
            1 => (about.protocol, icmp([if inner.is_v6() { 128 } else { 8 }, 0], ports, &payload)),
            2 => (ip::ESP, [&[0, 0, 0x10, 1, 0, 0, 0, 1][..], &payload].concat()),
            _ => (ip::TCP, tcp(ports, [1, 2], 0x10, 0, &[], &payload)),
        };
        inner.finish();
        inner.bytes()
    }

    fn cut(&mut self, mut quoted: Vec<u8>) -> Vec<u8> {
        quoted.truncate(self.random.one_of(&[28, 48, 80, 576, 1200, 9]));
        quoted
    }

    /// Options of IPv4, extension headers of IPv6, before each transport.
    fn options(&mut self, is_v6: bool) {
        const OF_V4: [&[u8]; 5] =
            [&[1, 1, 1, 0], &[148, 4, 0, 0], &[7, 7, 4, 0, 0, 0, 0], &[131, 3, 4], &[68, 4, 5, 0]];
        const OF_V6: [&[u8]; 6] =
            [&[ip::HOP_BY_HOP], &[60], &[ip::ROUTING], &[ip::AH], &[ip::HOP_BY_HOP, 60], &[59]];
        let all: &[&[u8]] = if is_v6 { &OF_V6 } else { &OF_V4 };
        for &options in all {
            for kind in 0..4 {
                let (mut packet, ports) = (self.packet(is_v6), self.ports());
                let payload = self.random.payload();
                packet.options = options.to_vec();
                (packet.protocol, packet.body) = match kind {
                    0 => (ip::TCP, tcp(ports, [1, 2], 0x02, 0, &[], &payload)),
                    1 => (ip::UDP, udp(ports, &payload)),
                    2 if is_v6 => (ip::ICMPV6, icmp([128, 0], ports, &payload)),
                    2 => (ip::ICMP, icmp([8, 0], ports, &payload)),
                    _ => (ip::ESP, [&[0, 0, 0x10, 1, 0, 0, 0, 1][..], &payload].concat()),
                };
                packet.finish();
                self.push(&packet);
            }
        }
    }

    /// Datagrams in pieces: in order, the last one first, and such as begin within a header.
    fn fragments(&mut self, is_v6: bool) {
        for kind in 0..8 {
            let (mut packet, ports) = (self.packet(is_v6), self.ports());
            packet.word = 0;
            let payload: Vec<u8> = (0..120).map(|_| self.random.next() as u8).collect();
            (packet.protocol, packet.body) = match kind % 4 {
                0 => (ip::TCP, tcp(ports, [1, 2], 0x02, 0, &[], &payload)),
                1 => (ip::UDP, udp(ports, &payload)),
                2 if is_v6 => (ip::ICMPV6, icmp([128, 0], ports, &payload)),
                2 => (ip::ICMP, icmp([8, 0], ports, &payload)),
                _ => (ip::ESP, [&[0, 0, 0x10, 1, 0, 0, 0, 1][..], &payload].concat()),
            };
            packet.finish();
            let mut pieces = [packet.piece(0..48), packet.piece(48..80), packet.piece(80..999)];
            if kind >= 4 {
                pieces.reverse();
            }
            pieces.iter().for_each(|piece| self.push(piece));
            for at in [8, 16] {
                let piece = packet.piece(at..40);
                self.push(&piece);
            }
        }
    }

    /// Packets whose IP header lacks their length: it comes from the frame, or a jumbo payload
    /// option.
    fn without_length(&mut self, is_v6: bool) {
        for kind in 0..12 {
            let (mut packet, ports) = (self.packet(is_v6), self.ports());
            packet.ttl = packet.ttl.max(2);
            let payload = self.random.payload();
            (packet.protocol, packet.body) = match kind % 2 {
                0 => (ip::TCP, tcp(ports, [1, 2], 0x02, 0, &[], &payload)),
                _ => (ip::UDP, udp(ports, &payload)),
            };
            if is_v6 && kind >= 6 {
                packet.options = vec![ip::HOP_BY_HOP];
            }
            packet.finish();
            let bytes = without_len(&packet, is_v6 && kind >= 6);
            self.push_bytes(&bytes);
        }
    }

    /// Other protocols, packets in packets, frames that are no IP, cut or malformed.
    fn others(&mut self, is_v6: bool) {
        for protocol in [ip::ESP, ip::AH, ip::GRE, 132, 108, 33, 250, 253] {
            let mut packet = self.packet(is_v6);
            packet.protocol = protocol;
            packet.body = [&[0, 0, 0x10, 1][..], &self.random.payload(), &[0; 24]].concat();
            self.push(&packet);
        }
        for is_v6_inside in [false, true] {
            let mut inner = self.packet(is_v6_inside);
            let ports = self.ports();
            (inner.protocol, inner.body) = (ip::UDP, udp(ports, b"inside"));
            inner.finish();
            let mut packet = self.packet(is_v6);
            packet.protocol = if is_v6_inside { ip::IPV6 } else { ip::IPV4 };
            packet.body = inner.bytes();
            self.push(&packet);
        }
        let mut last = self.made.last().expect("there are packets").clone();
        last.bytes.truncate(last.bytes.len() / 2);
        self.push_frame(last.bytes, last.link);
        let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[3; 20]];
        self.push_frame(arp.concat(), LinkType::ETHERNET);
    }
}

fn is_error(protocol: u8, kind: u8) -> bool {
    match protocol {
        ip::ICMPV6 => kind < 128,
        _ => matches!(kind, 3 | 4 | 5 | 11 | 12),
    }
}

#[cfg(test)]
#[path = "probes/tests.rs"]
mod tests;
