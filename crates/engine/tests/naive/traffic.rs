//! Random traffic by a seed: conversations both ways, errors about them, fragments, repeats, and
//! all that is odd.

use std::net::IpAddr;

use crate::build::{Numbers, Packet, To, frame, icmp, tcp, udp};
use crate::draw::{Draw, address};
use crate::odd::{non_ip, spoil};
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, link, view};

const START: u64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
/// Bytes of payloads that are not noise.
pub(crate) const LETTERS: [u8; 4] = *b"abAB";

/// Two hosts that talk.
#[derive(Clone, Debug)]
struct Talk {
    link: u16,
    tags: Vec<u16>,
    protocol: u8,
    ends: [(IpAddr, u16); 2],
    /// Packets so far.
    step: usize,
    /// The next sequence number of each side.
    next: [u32; 2],
    /// TCP of a fixed number, from both sides.
    is_plain: bool,
}

/// Traffic being made.
struct Traffic {
    draw: Draw,
    /// Of the numbers of TCP.
    tcp: Draw,
    /// Whether few hosts have all the talks, by few ports.
    few: bool,
    talks: Vec<Talk>,
    nanos: u64,
    /// IP packets of late, with their talks.
    late: Vec<(Packet, Talk)>,
    payloads: Vec<Vec<u8>>,
    frames: Vec<Frame>,
}

/// `count` frames or a few more.
pub(crate) fn traffic(seed: u64, count: usize) -> Vec<Frame> {
    let mut draw = Draw::new(seed);
    let mut tcp = Draw::new(!seed);
    let few = draw.percent(50);
    let talks = (0..1 + draw.below(12)).map(|_| Talk::new(&mut draw, &mut tcp, few)).collect();
    let payloads = (0..8).map(|_| draw.below(120)).collect::<Vec<_>>();
    let payloads = payloads.into_iter().map(|len| payload(&mut draw, len)).collect();
    let nanos = START + if draw.percent(50) { 0 } else { draw.word() % SECOND };
    let mut traffic =
        Traffic { draw, tcp, few, talks, nanos, late: Vec::new(), payloads, frames: Vec::new() };
    while traffic.frames.len() < count {
        traffic.step();
    }
    set_clock(&mut traffic.frames);
    traffic.frames
}

/// Noise, or a few letters.
fn payload(draw: &mut Draw, len: usize) -> Vec<u8> {
    match draw.percent(50) {
        true => draw.bytes(len),
        false => (0..len.min(48)).map(|_| draw.of(&LETTERS)).collect(),
    }
}

/// The time that state ages by: it follows the packets' own, and stands still where that steps back
/// a little.
pub(crate) fn set_clock(frames: &mut [Frame]) {
    let mut now = 0;
    for frame in frames {
        now = now.max(frame.nanos);
        frame.now = now;
    }
}

impl Talk {
    fn new(draw: &mut Draw, tcp: &mut Draw, few: bool) -> Self {
        let version = draw.version();
        let icmp = if version == 4 { ICMP } else { ICMPV6 };
        let mut protocol = draw.of(&[TCP, TCP, TCP, UDP, UDP, icmp, icmp, 47, 50, 108]);
        if few && draw.percent(50) {
            protocol = TCP;
        }
        let link = draw.of(&[
            link::ETHERNET,
            link::ETHERNET,
            link::ETHERNET,
            link::SLL,
            link::SLL2,
            link::RAW,
            link::NULL,
        ]);
        let tags = draw.of(&[vec![], vec![], vec![7], vec![3, 0x2004], vec![1, 2, 3]]);
        let ports = [1024 + draw.below(5) as u16, draw.of(&[53, 80, 443, 2000])];
        let mut other = draw.outside(version);
        if draw.percent(10) {
            other = draw.inside(version);
        }
        let mut ends = [(draw.inside(version), ports[0]), (other, ports[1])];
        if few {
            let host = |draw: &mut Draw, net| address(version, net, 1 + draw.below(2) as u16);
            let ports = [draw.of(&[1024, 1024, 1024, 1025]), draw.of(&[53, 53, 80])];
            ends = [(host(draw, [10, 1, 0]), ports[0]), (host(draw, [198, 51, 100]), ports[1])];
        }
        let start = |draw: &mut Draw| draw.of(&[9, 9, u32::MAX, u32::MAX - 90, 1 << 31]);
        let next = [start(tcp), start(tcp)];
        Self { link, tags, protocol, ends, step: 0, next, is_plain: tcp.percent(20) }
    }

    fn packet(
        &mut self,
        draw: &mut Draw,
        numbers: &mut Draw,
        forth: bool,
        payload: &[u8],
    ) -> Packet {
        let [one, other] = self.ends;
        let ((src, from), (dst, to)) = if forth { (one, other) } else { (other, one) };
        let body = match self.protocol {
            TCP => {
                let flags = self.flags(draw, forth);
                tcp(from, to, flags, &self.numbers(numbers, forth, flags, payload.len()), payload)
            }
            UDP => udp(from, to, payload),
            ICMP | ICMPV6 => self.echo(draw, forth, payload),
            _ => [&[0, 0, 1, 0, 0, 0, 0, 1][..], payload].concat(),
        };
        let packet = Packet {
            src,
            dst,
            ttl: 64,
            class: 0,
            ident: draw.word() as u16,
            protocol: self.protocol,
            options: None,
            body,
        };
        packet.with_checksum()
    }

    /// Mostly those that come next; sometimes old ones, or ones that lie far off.
    fn numbers(&mut self, draw: &mut Draw, forth: bool, flags: u8, len: usize) -> Numbers {
        if self.is_plain {
            return Numbers::PLAIN;
        }
        let off = |draw: &mut Draw| match draw.below(20) {
            0 => draw.of(&[1, 100, 5000, 70_000, 1 << 20, 1 << 31]),
            1 | 2 => 0u32.wrapping_sub(draw.of(&[1, 1, 40, 5000, 66_001, 70_000])),
            _ => 0,
        };
        let [own, other] = if forth { [0, 1] } else { [1, 0] };
        let seq = self.next[own].wrapping_add(off(draw));
        let ack = self.next[other].wrapping_add(off(draw));
        let controls = u32::from(flags & 1) + u32::from(flags >> 1 & 1);
        self.next[own] = seq.wrapping_add(len as u32 + controls);
        let options: &[&[u8]] = match flags & 2 {
            0 => &[
                &[],
                &[],
                &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
                &[1, 1, 5, 10, 0, 0, 0, 10, 0, 0, 0, 60],
                &[1, 1, 5, 18, 0, 0, 0, 10, 0, 0, 0, 60, 0, 0, 0, 90, 0, 0, 1, 0],
                &[5, 10, 0, 0],
            ],
            _ => &[&[], &[3, 3, 7, 1], &[2, 4, 5, 0xb4, 4, 2, 3, 3, 2, 0, 0, 0], &[3, 3, 15, 3]],
        };
        let window = draw.of(&[0, 1, 256, 256, 5000, 65_535]);
        let ack = if flags & 16 == 0 && draw.percent(90) { 0 } else { ack };
        Numbers { seq, ack, window, options: draw.of(options) }
    }

    /// Mostly those that come next.
    fn flags(&self, draw: &mut Draw, forth: bool) -> u8 {
        let all = [0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x14, 0x00, 0x03, 0x06, 0x29, 0x01];
        match self.step % 9 {
            _ if draw.percent(12) => draw.of(&all),
            0 => 0x02,
            1 if !forth => 0x12,
            8 => draw.of(&[0x11, 0x04]),
            7 => 0x11,
            _ => draw.of(&[0x10, 0x18]),
        }
    }

    fn echo(&self, draw: &mut Draw, forth: bool, payload: &[u8]) -> Vec<u8> {
        let version = if self.protocol == ICMP { 4 } else { 6 };
        let [request, reply] = if version == 4 { [8, 0] } else { [128, 129] };
        let other = if version == 4 { [3, 5, 13, 4] } else { [135, 137, 143, 1] };
        let [high, low] = (self.ends[0].1 % 4).to_be_bytes();
        let kind = match forth {
            _ if draw.percent(8) => draw.of(&other),
            forth if draw.percent(93) == forth => request,
            _ => reply,
        };
        icmp(kind, 0, [high, low, 0, self.step as u8], payload)
    }

    /// Which side sends next.
    fn goes_forth(&self, draw: &mut Draw) -> bool {
        match self.step % 9 {
            0 | 2 => draw.percent(92),
            1 => draw.percent(10),
            _ => draw.percent(55),
        }
    }
}

impl Traffic {
    fn step(&mut self) {
        self.pass_time();
        match self.draw.below(100) {
            0..7 => self.error(),
            7..13 => self.repeat(),
            13..17 => {
                let frame = non_ip(&mut self.draw);
                self.push(frame);
            }
            17..20 => self.renew(),
            _ => self.talk(),
        }
    }

    /// Often not at all, sometimes to a whole second, sometimes so far that state expires, now and
    /// then back.
    fn pass_time(&mut self) {
        self.nanos += match self.draw.below(40) {
            0..3 => SECOND - self.nanos % SECOND,
            3..6 => SECOND * self.draw.below(10) as u64,
            6 => SECOND * (11 + self.draw.below(60) as u64),
            7..20 => self.draw.word() % (SECOND / 2),
            20..30 => self.draw.word() % 1000,
            _ => 0,
        };
        if self.draw.percent(2) {
            self.nanos -= self.draw.word() % (3 * SECOND);
        }
    }

    fn talk(&mut self) {
        let which = self.draw.below(self.talks.len());
        let mut payload = self.draw.of(&self.payloads);
        if self.draw.percent(4) {
            let len = self.draw.below(1500);
            payload = self.draw.bytes(len);
        }
        let mut talk = self.talks[which].clone();
        let forth = talk.goes_forth(&mut self.draw);
        let mut packet = talk.packet(&mut self.draw, &mut self.tcp, forth, &payload);
        talk.step += 1;
        self.talks[which] = talk.clone();
        self.vary(&mut packet);
        self.late.push((packet.clone(), talk.clone()));
        if self.draw.percent(7) {
            let at = self.draw.below(packet.body.len() + 8);
            for piece in packet.fragments(at.max(8)) {
                self.send(&talk, &piece);
            }
            return;
        }
        self.send(&talk, &packet.bytes());
    }

    fn vary(&mut self, packet: &mut Packet) {
        if self.draw.percent(8) {
            packet.ttl = self.draw.of(&[0, 1, 1, 2]);
        }
        if self.draw.percent(4) && packet.protocol == UDP && packet.version() == 4 {
            packet.body[6..8].fill(0);
        }
        if self.draw.percent(20) {
            packet.class = self.draw.word() as u8;
        }
        if self.draw.percent(8) {
            packet.options = Some(self.options(packet.version()));
        }
    }

    /// Options of IPv4, or some extension headers; the numbers of the first and, within, of the
    /// next.
    fn options(&mut self, version: u8) -> (u8, Vec<u8>) {
        if version == 4 {
            return (0, self.draw.of(&[vec![1; 4], vec![7, 7, 4, 0, 0, 0, 0, 0], vec![0; 40]]));
        }
        let first = self.draw.of(&[0, 43, 60, 51]);
        let header = match first {
            51 => vec![0, 4, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            _ => vec![0, 0, 1, 4, 0, 0, 0, 0],
        };
        (first, header)
    }

    /// An ICMP error about a packet of late, from a router or who got it, mostly to who sent it.
    fn error(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let last = self.late.len() - 1;
        let which = if self.draw.percent(60) { last } else { self.draw.below(last) };
        let (about, talk) = self.late[which].clone();
        let version = about.version();
        let router = address(version, [192, 0, 2], 9);
        let src = self.draw.of(&[router, about.dst]);
        let dst = if self.draw.percent(80) { about.src } else { self.draw.inside(version) };
        let (protocol, kinds) =
            if version == 4 { (ICMP, [3, 11, 12, 5]) } else { (ICMPV6, [1, 2, 3, 4]) };
        let quote = about.bytes();
        let most = self.draw.of(&[1500, 1500, quote.len(), 28, 48, 24, 60]);
        let body = icmp(self.draw.of(&kinds), 0, [0; 4], &quote[..quote.len().min(most)]);
        let error = Packet { src, dst, ttl: 60, class: 0, ident: 0, protocol, options: None, body };
        self.send(&talk, &error.with_checksum().bytes());
    }

    fn repeat(&mut self) {
        if !self.frames.is_empty() {
            let earlier = self.draw.of(&self.frames);
            // Whether the first fragment is still known then depends on what else was put in its
            // place.
            if view(&earlier).later() {
                return;
            }
            self.frames.push(Frame { nanos: self.nanos, ..earlier });
        }
    }

    /// Two other hosts talk, maybe by the same ports.
    fn renew(&mut self) {
        let which = self.draw.below(self.talks.len());
        self.talks[which] = Talk::new(&mut self.draw, &mut self.tcp, self.few);
    }

    fn send(&mut self, talk: &Talk, packet: &[u8]) {
        let to =
            self.draw.of(&[To::Us, To::Us, To::Us, To::Us, To::Us, To::Us, To::All, To::Group]);
        let to = if self.draw.percent(80) { To::Us } else { to };
        let mut bytes = frame(talk.link, &talk.tags, to, packet);
        if self.draw.percent(20) && talk.link == link::ETHERNET {
            bytes.resize(bytes.len().max(60), 0);
        }
        self.push((talk.link, bytes));
    }

    fn push(&mut self, (link, bytes): (u16, Vec<u8>)) {
        let interface = self.draw.below(2) as u16;
        let (wire_len, nanos) = (bytes.len(), self.nanos);
        let mut frame = Frame { wire_len, bytes, nanos, link, interface, ..Frame::default() };
        if self.draw.percent(6) {
            spoil(&mut self.draw, &mut frame);
        }
        self.frames.push(frame);
    }
}
