//! A TCP conversation as seen on the link: handshake, data in flights that grow, acknowledgments,
//! and an end. Nothing is lost or comes out of order.

use core::time::Duration;

use warpline_packet::Instant;
use warpline_packet::wire::tcp::{flags, option};

use super::capture::{START, Trace};
use super::frame::{self, Path, Segment};
use super::hosts::Host;
use super::rng::Rng;
use super::summary::Kind;

/// One side of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// What a conversation is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) kind: Kind,
    /// From client to server.
    pub(super) path: Path,
    pub(super) server_port: u16,
    /// Whether segments carry the timestamps option (RFC 7323).
    pub(super) timestamps: bool,
    /// Time between two segments of a flight.
    pub(super) gap: Duration,
    /// Who answers, and from which port, where it is not the one that was asked: a balancer is
    /// between them, and what is seen here has not passed it.
    pub(super) backend: Option<(Host, u16)>,
}

/// A conversation in the making.
pub(super) struct Conversation<'t> {
    trace: &'t mut Trace,
    manner: Manner,
    client: End,
    server: End,
    /// When what was said last passed the link.
    now: Instant,
}

/// What one end knows and says.
#[derive(Clone, Debug)]
struct End {
    port: u16,
    /// Sequence number of what it sends next.
    next: u32,
    /// Sequence number that it expects: what it acknowledges.
    expected: u32,
    /// Value of its timestamp clock, in milliseconds, at the start of the capture.
    clock: u32,
    /// The last timestamp that it got.
    echoed: u32,
    window: u16,
    /// Time from a packet to it on the link until its answer is there.
    turn: Duration,
}

impl<'t> Conversation<'t> {
    /// One that begins at `now`, not yet with its first packet.
    pub(super) fn new(trace: &'t mut Trace, manner: Manner, rng: &mut Rng, now: Instant) -> Self {
        let port = trace.port();
        Self::from_port(port, trace, manner, rng, now)
    }

    /// The same from a client's port that no other conversation has.
    pub(super) fn from_port(
        port: u16,
        trace: &'t mut Trace,
        manner: Manner,
        rng: &mut Rng,
        now: Instant,
    ) -> Self {
        let client = End::new(port, manner.path.from.mac, rng);
        let server = End::new(manner.server_port, manner.path.to.mac, rng);
        Self { trace, manner, client, server, now }
    }

    /// The handshake.
    pub(super) fn open(&mut self) {
        self.say(Side::Client, flags::SYN, &[]);
        self.wait(self.server.turn);
        self.say(Side::Server, flags::SYN | flags::ACK, &[]);
        self.wait(self.client.turn);
        self.say(Side::Client, flags::ACK, &[]);
    }

    /// Sends `data` from one side, in flights that double (RFC 5681) up to a bound, each after the
    /// last acknowledgment of the one before.
    pub(super) fn send(&mut self, from: Side, data: &[u8]) {
        let mut flight = FLIGHT_FIRST;
        let mut rest = data;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.len().min(flight * self.segment_len()));
            self.wait(self.manner.gap);
            self.fly(from, part, behind.is_empty());
            let turn = self.end(from).turn;
            self.wait(turn);
            rest = behind;
            flight = (flight * 2).min(FLIGHT_MAX);
        }
    }

    /// Lets time pass.
    pub(super) fn wait(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// Ends it from one side, and at once from the other too.
    pub(super) fn finish(mut self, first: Side) {
        let second = first.other();
        self.say(first, flags::FIN | flags::ACK, &[]);
        self.wait(self.end(second).turn);
        self.say(second, flags::FIN | flags::ACK, &[]);
        self.wait(self.end(first).turn);
        self.say(first, flags::ACK, &[]);
    }

    /// Breaks it off.
    pub(super) fn reset(mut self, by: Side) {
        self.say(by, flags::RST | flags::ACK, &[]);
    }

    /// One flight: segments at the pace of the link; the other end acknowledges every second one
    /// and the last (RFC 1122, 4.2.3.2).
    fn fly(&mut self, from: Side, data: &[u8], is_end: bool) {
        let count = data.len().div_ceil(self.segment_len());
        let mut acks = Vec::new();
        for (index, chunk) in data.chunks(self.segment_len()).enumerate() {
            let is_last = index + 1 == count;
            let push = if is_last && is_end { flags::PSH } else { 0 };
            if index > 0 {
                self.wait(self.manner.gap);
            }
            self.put(from, self.now, flags::ACK | push, chunk);
            let sender = self.end_mut(from);
            sender.next = sender.next.wrapping_add(chunk.len() as u32);
            if index % 2 == 1 || is_last {
                acks.push((self.now, self.end(from).next));
            }
        }
        let to = from.other();
        for (arrival, expected) in acks {
            let echoed = self.end(from).clock_at(arrival);
            let receiver = self.end_mut(to);
            receiver.expected = expected;
            receiver.echoed = echoed;
            self.now = arrival.after(receiver.turn);
            self.put(to, self.now, flags::ACK, &[]);
            self.end_mut(from).echoed = self.end(to).clock_at(self.now);
        }
    }

    /// One segment of a kind that the other side notes at once.
    fn say(&mut self, from: Side, what: u16, data: &[u8]) {
        self.put(from, self.now, what, data);
        let phantom = u32::from(what & (flags::SYN | flags::FIN) != 0);
        let (now, sender) = (self.now, self.end_mut(from));
        sender.next = sender.next.wrapping_add(phantom);
        let (next, echoed) = (sender.next, sender.clock_at(now));
        let receiver = self.end_mut(from.other());
        receiver.expected = next;
        receiver.echoed = echoed;
    }

    /// Adds a segment to the capture, if it can be seen there.
    fn put(&mut self, from: Side, at: Instant, what: u16, data: &[u8]) {
        let (path, port) = self.origin(from);
        let ident = self.trace.ident();
        if !path.to.is_reachable() {
            return;
        }
        let (end, other) = (self.end(from), self.end(from.other()));
        let header = Segment {
            ports: (port, other.port),
            seq: end.next,
            ack: if what & flags::ACK != 0 { end.expected } else { 0 },
            flags: what,
            window: end.window_with(what),
            options: self.options(end, what, at),
        };
        let upper = frame::segment(&path, &header, data);
        self.trace.add(at, self.manner.kind, &frame::whole(&path, ident, &upper));
    }

    /// The way of what a side sends, and the port that it sends from.
    fn origin(&self, from: Side) -> (Path, u16) {
        let (path, port) = (self.manner.path, self.end(from).port);
        match (from, self.manner.backend) {
            (Side::Client, _) => (path, port),
            (Side::Server, None) => (path.back(), port),
            (Side::Server, Some((backend, port))) => (Path { from: backend, ..path.back() }, port),
        }
    }

    fn options(&self, end: &End, what: u16, at: Instant) -> Vec<u8> {
        let mut options = Vec::new();
        // RFC 9293, 3.10.7.1: a reset that answers what has no connection carries none.
        if what & flags::RST != 0 {
            return options;
        }
        if what & flags::SYN != 0 {
            let [high, low] = self.mss().to_be_bytes();
            options.extend([option::MAX_SEGMENT_SIZE, 4, high, low]);
            options.extend([option::SACK_PERMITTED, 2]);
        } else if self.manner.timestamps {
            options.extend([1, 1]);
        }
        if self.manner.timestamps {
            options.extend([option::TIMESTAMPS, 10]);
            options.extend(end.clock_at(at).to_be_bytes());
            options.extend(end.echoed.to_be_bytes());
        }
        if what & flags::SYN != 0 {
            options.extend([1, option::WINDOW_SCALE, 3, WINDOW_SHIFT]);
            options.resize(options.len().next_multiple_of(4), 0);
        }
        options
    }

    /// What fits behind the IP and TCP headers in 1500 bytes (RFC 9293, 3.7.1).
    const fn mss(&self) -> u16 {
        if self.manner.path.from.is_v4() { 1460 } else { 1440 }
    }

    fn segment_len(&self) -> usize {
        usize::from(self.mss()) - if self.manner.timestamps { 12 } else { 0 }
    }

    const fn end(&self, side: Side) -> &End {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    const fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl End {
    fn new(port: u16, mac: [u8; 6], rng: &mut Rng) -> Self {
        // Who is at the site answers in less than a millisecond.
        let is_far = mac == super::hosts::PROVIDER;
        let (low, high) = if is_far { (8_000, 60_000) } else { (150, 700) };
        Self {
            port,
            next: rng.bits() as u32,
            expected: 0,
            clock: rng.bits() as u32,
            echoed: 0,
            window: rng.between(400, 600) as u16,
            turn: Duration::from_micros(rng.between(low, high)),
        }
    }

    /// The window as a segment with these flags says it: a SYN doesn't scale it (RFC 7323, 2.2).
    const fn window_with(&self, what: u16) -> u16 {
        match what & (flags::SYN | flags::RST) {
            0 => self.window,
            flags::SYN => 64_240,
            _ => 0,
        }
    }

    fn clock_at(&self, at: Instant) -> u32 {
        self.clock.wrapping_add(at.since(START).as_millis() as u32)
    }
}

/// Segments of the first flight (RFC 6928), and the most.
const FLIGHT_FIRST: usize = 10;
const FLIGHT_MAX: usize = 32;
/// Windows count in units of 2^7 bytes.
const WINDOW_SHIFT: u8 = 7;
