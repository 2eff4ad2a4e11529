//! Packets as the tests mean them, and as bytes; rules drawn at random, and as text.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::Prefix;

use super::Draw;
use warpline_rule_files::{Action, EndMatch, Message, Rule, SegmentFlags};
use warpline_verify::Input;

/// The form of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Whole,
    FirstFragment,
    /// With its offset in units of 8 bytes.
    LaterFragment(u16),
    /// The transport header ends too early, by the packet's own length.
    Malformed,
    /// The capture ends after the IP header.
    Snapped,
    Arp,
}

/// A segment of TCP besides ports and flags.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) window: u16,
    pub(super) options: &'static [u8],
    /// Bytes of data.
    pub(super) len: usize,
}

impl Numbers {
    /// Mostly those of a conversation in which little was said.
    pub(super) fn drawn(draw: &mut Draw, flags: u8) -> Self {
        let is_syn = flags & 2 != 0;
        let seq = draw.pick(&[0, 1, 1, 1, 1, 1, 2, 101, 70_001, u32::MAX, 1 << 31]);
        let acks = [0, 1, 1, 1, 1, 1, 2, 101, 70_001, 1 << 31];
        let options: &[&[u8]] = if is_syn {
            &[&[], &[3, 3, 7, 1], &[4, 2, 3, 3, 2, 1, 1, 1], &[4, 2, 0, 0], &[3, 9]]
        } else {
            &[&[], &[], &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], &[5, 10, 0, 0, 0, 1, 0, 0, 0, 101]]
        };
        Self {
            seq: if is_syn && !draw.one_in(4) { 0 } else { seq },
            ack: if flags & 16 == 0 { 0 } else { draw.pick(&acks) },
            window: draw.pick(&[0, 1, 1000, 1000, 65_535]),
            options: draw.pick(options),
            len: draw.pick(&[0, 0, 0, 1, 100]),
        }
    }

    /// Of the segment with these flags in a conversation of which both sides begin with 0.
    pub(super) fn plain(flags: u8) -> Self {
        let [seq, ack] = [u32::from(flags & 2 == 0), u32::from(flags & 16 != 0)];
        Self { seq, ack, window: 1000, ..Self::default() }
    }
}

/// A packet.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) version: u8,
    pub(super) src: u128,
    pub(super) dst: u128,
    pub(super) protocol: u8,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) flags: u8,
    /// Of TCP.
    pub(super) numbers: Numbers,
    pub(super) message_type: u8,
    pub(super) code: u8,
    pub(super) ident: u16,
    pub(super) quoted: Vec<u8>,
    pub(super) vlan: bool,
    pub(super) shape: Shape,
}

impl Sent {
    pub(super) fn drawn(draw: &mut Draw) -> Self {
        let version = draw.pick(&[4, 4, 6]);
        let icmp = if version == 4 { 1 } else { 58 };
        let shape = match draw.below(20) {
            0 => Shape::FirstFragment,
            1 | 2 => Shape::LaterFragment(draw.pick(&[1, 2, 3, 100])),
            3 => Shape::Malformed,
            4 => Shape::Snapped,
            5 => Shape::Arp,
            _ => Shape::Whole,
        };
        let protocol = draw.pick(&[6, 6, 6, 17, 17, icmp, icmp, 47, 1, 58, 50, 200]);
        let flags = draw.next() as u8;
        Self {
            version,
            src: address(draw, version),
            dst: address(draw, version),
            protocol,
            src_port: draw.pick(PORTS),
            dst_port: draw.pick(PORTS),
            flags,
            numbers: Numbers::drawn(draw, flags),
            message_type: draw.pick(&[0, 3, 8, 128, 129, 135, 255]),
            code: draw.pick(&[0, 1, 2, 255]),
            ident: draw.below(3) as u16,
            quoted: Vec::new(),
            vlan: draw.one_in(5),
            shape,
        }
    }

    /// Whether it has a header of TCP, UDP, or its version's ICMP.
    pub(super) fn has_known_transport(&self) -> bool {
        let icmp = if self.version == 4 { 1 } else { 58 };
        matches!(self.protocol, 6 | 17) || self.protocol == icmp
    }

    pub(super) fn input(&self, nanos: u64) -> Input {
        let mut frame = vec![2; 12];
        if self.vlan {
            frame.extend([0x81, 0, 0, 7]);
        }
        if self.shape == Shape::Arp {
            frame.extend([8, 6]);
            frame.extend([0; 46]);
            return Input::at(nanos, &frame);
        }
        frame.extend(if self.version == 4 { [8, 0] } else { [0x86, 0xdd] });
        let ip = frame.len();
        frame.extend(self.packet());
        let header_len = if self.version == 4 { 20 } else { 40 };
        let mut input = Input::at(nanos, &frame);
        if self.shape == Shape::Snapped && self.has_known_transport() {
            input.bytes.truncate(ip + header_len + 3);
        }
        input
    }

    /// From its IP header on.
    pub(super) fn packet(&self) -> Vec<u8> {
        let mut body = self.body();
        if self.shape == Shape::Malformed && self.has_known_transport() {
            body.truncate(5);
        }
        let (offset, more) = match self.shape {
            Shape::FirstFragment => (0, true),
            Shape::LaterFragment(offset) => (offset, false),
            _ => (0, false),
        };
        let mut packet = Vec::new();
        if self.version == 4 {
            packet.extend([0x45, 0]);
            packet.extend((20 + body.len() as u16).to_be_bytes());
            packet.extend([0, 1]);
            packet.extend((offset | u16::from(more) << 13).to_be_bytes());
            packet.extend([64, self.protocol, 0, 0]);
            packet.extend((self.src as u32).to_be_bytes());
            packet.extend((self.dst as u32).to_be_bytes());
        } else {
            let fragment = offset > 0 || more;
            let len = body.len() as u16 + if fragment { 8 } else { 0 };
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(len.to_be_bytes());
            packet.extend([if fragment { 44 } else { self.protocol }, 64]);
            packet.extend(self.src.to_be_bytes());
            packet.extend(self.dst.to_be_bytes());
            if fragment {
                packet.extend([self.protocol, 0]);
                packet.extend((offset << 3 | u16::from(more)).to_be_bytes());
                packet.extend([0, 0, 0, 9]);
            }
        }
        packet.extend(body);
        packet
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self.protocol {
            6 => {
                body.extend(self.src_port.to_be_bytes());
                body.extend(self.dst_port.to_be_bytes());
                let Numbers { seq, ack, window, options, len } = self.numbers;
                body.extend(seq.to_be_bytes());
                body.extend(ack.to_be_bytes());
                let padded = options.len().next_multiple_of(4);
                body.extend([((20 + padded as u8) / 4) << 4, self.flags]);
                body.extend(window.to_be_bytes());
                body.extend([0; 4]);
                body.extend(options);
                body.resize(20 + padded + len, 0);
            }
            17 => {
                body.extend(self.src_port.to_be_bytes());
                body.extend(self.dst_port.to_be_bytes());
                body.extend([0, 24, 0, 0]);
                body.extend([0; 16]);
            }
            1 | 58 => {
                body.extend([self.message_type, self.code, 0, 0]);
                body.extend(self.ident.to_be_bytes());
                body.extend([0, 1]);
                body.extend(&self.quoted);
            }
            _ => body.extend([7; 32]),
        }
        body
    }
}

pub(super) const PORTS: &[u16] = &[0, 1, 53, 79, 80, 81, 443, 1024, 65534, 65535];

/// One of few addresses, so that rules and packets meet.
fn address(draw: &mut Draw, version: u8) -> u128 {
    if draw.one_in(20) {
        let any = u128::from(draw.next()) << 64 | u128::from(draw.next());
        return if version == 4 { any & 0xffff_ffff } else { any };
    }
    let low = draw.pick(&[0, 1, 2, 3, 0x80, 0xff]) | draw.pick(&[0, 0x100, 0x8000]);
    if version == 4 {
        draw.pick(&[0x0a00_0000, 0x0a01_0000, 0xc0a8_0000]) | low
    } else {
        draw.pick(&[0x2001_0db8 << 96, 0x2001_0db8_0001 << 80, 0xfe80 << 112]) | low
    }
}

pub(super) fn prefix(draw: &mut Draw, version: u8) -> Prefix {
    let address = address(draw, version);
    let (address, lens): (IpAddr, &[u8]) = if version == 4 {
        (Ipv4Addr::from_bits(address as u32).into(), &[0, 7, 8, 15, 16, 17, 24, 25, 31, 32])
    } else {
        (Ipv6Addr::from_bits(address).into(), &[0, 10, 32, 47, 48, 64, 112, 120, 127, 128])
    };
    Prefix::new(address, draw.pick(lens)).unwrap()
}

fn side(draw: &mut Draw, version: u8, ports: bool) -> EndMatch {
    let mut side = EndMatch::default();
    if !draw.one_in(3) {
        side.prefixes = (0..=draw.below(2)).map(|_| prefix(draw, version)).collect();
    }
    if ports && draw.one_in(2) {
        let range = |draw: &mut Draw| {
            let (a, b) = (draw.pick(PORTS), draw.pick(PORTS));
            if draw.one_in(2) { a..=a } else { a.min(b)..=a.max(b) }
        };
        side.ports = (0..=draw.below(2)).map(|_| range(draw)).collect();
    }
    side
}

/// A rule in line `line`.
pub(super) fn rule(draw: &mut Draw, line: usize, established: bool) -> Rule {
    let mut rule = Rule::new(draw.pick(&[Action::Accept, Action::Drop]), line);
    rule.established = established && draw.one_in(4);
    let mut version = draw.pick(&[4, 4, 6]);
    rule.protocols = draw.pick(&[
        vec![],
        vec![6],
        vec![6],
        vec![17],
        vec![6, 17],
        vec![1],
        vec![58],
        vec![6, 47, 58],
        vec![50],
    ]);
    match rule.protocols[..] {
        [6] if draw.one_in(2) => {
            let mask = draw.next() as u8 & 0x3f | 2;
            rule.flags = Some(SegmentFlags { value: draw.next() as u8 & mask, mask });
        }
        [1 | 58] => {
            version = if rule.protocols == [1] { 4 } else { 6 };
            let codes = draw.pick(&[vec![], vec![0..=1], vec![1..=1, 255..=255]]);
            let types = draw.pick(&[vec![3..=3, 8..=8], vec![0..=10], vec![128..=135]]);
            rule.message = (!draw.one_in(3)).then_some(Message { types, codes });
        }
        _ => {}
    }
    let ports = rule.protocols.iter().all(|p| matches!(p, 6 | 17));
    rule.src = side(draw, version, ports);
    rule.dst = side(draw, version, ports);
    rule
}

fn ranges<T: PartialEq + core::fmt::Display>(of: &[core::ops::RangeInclusive<T>]) -> String {
    let one = |r: &core::ops::RangeInclusive<T>| {
        if r.start() == r.end() {
            r.start().to_string()
        } else {
            format!("{}-{}", r.start(), r.end())
        }
    };
    of.iter().map(one).collect::<Vec<_>>().join(",")
}

/// A rule in the readable form.
pub(super) fn text(rule: &Rule) -> String {
    let mut text = if rule.action == Action::Accept { "accept" } else { "drop" }.to_owned();
    let mut add = |word: &str| text = format!("{text} {word}");
    if rule.established {
        add("established");
    }
    let names: Vec<String> = rule.protocols.iter().map(|p| p.to_string()).collect();
    add(if names.is_empty() { "any".to_owned() } else { names.join(", ") }.as_str());
    if let Some(message) = &rule.message {
        add(&format!("type {}", ranges(&message.types)));
        if !message.codes.is_empty() {
            add(&format!("code {}", ranges(&message.codes)));
        }
    }
    if let Some(flags) = rule.flags {
        let names = |bits: u8| {
            let names = ["fin", "syn", "rst", "psh", "ack", "urg"];
            let set: Vec<&str> = (0..6).filter(|i| bits >> i & 1 == 1).map(|i| names[i]).collect();
            if set.is_empty() { "none".to_owned() } else { set.join(",") }
        };
        add(&format!("flags {}/{}", names(flags.value), names(flags.mask)));
    }
    for (word, side) in [("from", &rule.src), ("to", &rule.dst)] {
        let prefixes: Vec<String> = side.prefixes.iter().map(|p| p.to_string()).collect();
        let prefixes = if prefixes.is_empty() { "any".to_owned() } else { prefixes.join(",") };
        add(&format!("{word} {prefixes}"));
        if !side.ports.is_empty() {
            add(&format!("port {}", ranges(&side.ports)));
        }
    }
    text
}
