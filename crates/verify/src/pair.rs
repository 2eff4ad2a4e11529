//! Packets on their way through a chain, as a second place gets them: with the words that the first
//! place wrote, and answers among them.

use core::time::Duration;
use std::net::{Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::icmp_error::{Icmpv4Error, Icmpv6Error, icmpv4_error, icmpv6_error};
use warpline_packet::wire::ip_protocol;
use warpline_packet::{Flags, Instant, Packet, ScratchWord, Verdict};

use super::{Harness, Input, Outcome};

/// One of so many packets that the first place changed becomes an answer to it.
const ANSWERED: usize = 3;

/// Senders of ICMP errors.
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe);

/// A packet between two functions of a chain.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The packet.
    pub input: Input,
    /// The chain's scratch words, from the first on.
    pub words: Vec<u32>,
    /// Whether it is an answer to a packet with these words.
    pub is_answer: bool,
    /// Whether a function put an outer header before its own.
    pub is_wrapped: bool,
    /// Whether a function opened it.
    pub is_opened: bool,
}

/// As it comes to the first function.
impl From<Input> for Carried {
    fn from(input: Input) -> Self {
        Self { input, words: Vec::new(), is_answer: false, is_wrapped: false, is_opened: false }
    }
}

/// The ticks of a function, by the times of packets.
pub(super) struct Clock {
    every: Option<Duration>,
    last: Option<Instant>,
    now: Instant,
}

impl Clock {
    pub(super) fn of(harness: &Harness) -> Self {
        Self { every: harness.function().tick(), last: None, now: Instant::ZERO }
    }

    /// The time of a tick that is due before this batch.
    pub(super) fn tick(&mut self, batch: &[Carried]) -> Option<Instant> {
        self.now = self.now.max(batch[0].input.timestamp);
        let last = *self.last.get_or_insert(self.now);
        let is_due = self.every.is_some_and(|every| self.now.since(last) >= every);
        is_due.then(|| *self.last.insert(self.now))
    }
}

/// A packet that leaves a function.
struct Left {
    /// The row of its cause in the batch that entered.
    cause: usize,
    packet: Carried,
    /// An answer to it, if the function changed it.
    answer: Option<Vec<u8>>,
}

impl Harness {
    /// Sends packets through the function as one batch.
    pub fn process_carried(&mut self, carried: &[Carried]) -> Vec<Outcome> {
        self.fill_carried(carried);
        self.work();
        self.take_outcomes()
    }

    /// Places packets in the batch with their words. Answers are `Forward`, as at their turn.
    pub(super) fn fill_carried(&mut self, carried: &[Carried]) {
        self.place(carried.iter().map(|one| &one.input));
        for (row, one) in carried.iter().enumerate() {
            let mut packet = self.batch.packet_mut(row);
            for (word, value) in words().zip(&one.words) {
                packet.set_scratch(word, *value);
            }
            packet.set_wrapped(one.is_wrapped);
            packet.set_opened(one.is_opened);
            if one.is_answer {
                packet.send_back();
            }
        }
        self.batch.resume_answers();
        self.batch.take_settled();
    }

    /// Sends packets through the function, `batch` at a time. Returns those that continue, with
    /// those that it made, and answers.
    pub fn pass(&mut self, carried: &[Carried], batch: usize) -> Vec<Carried> {
        let mut clock = Clock::of(self);
        let left = carried.chunks(batch).flat_map(|batch| self.leave(batch, &mut clock));
        left.map(|left| left.packet).collect()
    }

    /// Sends packets through this first place, `batch` at a time. Returns them for the second: some
    /// that it changed replaced by answers, and every other one of the rest with an outer header. A
    /// packet that it dropped comes as it was, without words.
    pub fn pass_first(&mut self, carried: &[Carried], batch: usize) -> Vec<Carried> {
        let (mut all, mut clock) = (Vec::new(), Clock::of(self));
        for batch in carried.chunks(batch) {
            let mut left = self.leave(batch, &mut clock).into_iter().peekable();
            for (row, came) in batch.iter().enumerate() {
                let before = all.len();
                while let Some(left) = left.next_if(|left| left.cause == row) {
                    all.push(at_second(left, all.len()));
                }
                if all.len() == before {
                    all.push(Carried { words: Vec::new(), ..came.clone() });
                }
            }
        }
        all
    }

    fn leave(&mut self, carried: &[Carried], clock: &mut Clock) -> Vec<Left> {
        if let Some(now) = clock.tick(carried) {
            self.tick(now);
        }
        let first = self.ingress as usize;
        self.fill_carried(carried);
        self.work();
        let change = self.function.change_words().first().copied();
        let (mut all, mut words) = (Vec::new(), Vec::new());
        for row in 0..self.batch.len() {
            let packet = self.batch.packet(row);
            // A made packet comes right after its cause, whose words it has.
            if !packet.has(Flags::GENERATED) {
                words = self::words().take(self.scratch_words).map(|w| packet.scratch(w)).collect();
            }
            if !matches!(packet.verdict(), Verdict::Forward | Verdict::Return) {
                continue;
            }
            let cause = packet.ingress() as usize - first;
            let is_changed = change.is_some_and(|word| packet.scratch(word) != 0);
            let answer = if is_changed { answer(&packet, cause.is_multiple_of(2)) } else { None };
            let packet = on_its_way(&packet, &carried[cause].input, words.clone());
            all.push(Left { cause, packet, answer });
        }
        self.batch.clear();
        all
    }
}

/// A packet that leaves a function with `words`, where `came` entered.
fn on_its_way(packet: &Packet<'_>, came: &Input, words: Vec<u32>) -> Carried {
    let is_made = packet.has(Flags::GENERATED);
    let cut = came.wire_len.saturating_sub(came.bytes.len() as u32);
    let cut = if is_made { 0 } else { cut };
    let bytes = packet.frame().to_vec();
    Carried {
        input: Input { wire_len: bytes.len() as u32 + cut, bytes, ..came.clone() },
        words,
        is_answer: packet.has(Flags::ANSWER),
        is_wrapped: packet.has(Flags::WRAPPED),
        is_opened: packet.has(Flags::OPENED),
    }
}

/// Packet `number` of those that reach a second place.
fn at_second(left: Left, number: usize) -> Carried {
    let Left { packet, answer, .. } = left;
    match answer.filter(|_| number.is_multiple_of(ANSWERED)) {
        Some(bytes) => {
            let input = Input { wire_len: bytes.len() as u32, bytes, ..packet.input };
            Carried { input, is_answer: true, is_wrapped: false, ..packet }
        }
        None => Carried { is_wrapped: packet.is_wrapped || !number.is_multiple_of(2), ..packet },
    }
}

fn words() -> impl Iterator<Item = ScratchWord> {
    (0..).map_while(ScratchWord::new)
}

/// The frame of an answer to `packet`: from its receiver, or an ICMP error about it.
fn answer(packet: &Packet<'_>, from_receiver: bool) -> Option<Vec<u8>> {
    let l3 = packet.l3_offset();
    let has_ports = matches!(packet.protocol(), ip_protocol::TCP | ip_protocol::UDP)
        && packet.has(Flags::TRANSPORT);
    if from_receiver && has_ports {
        let mut bytes = packet.frame().to_vec();
        let (at, len) = if packet.version() == 4 { (l3 + 12, 4) } else { (l3 + 8, 16) };
        swap(&mut bytes, at, len);
        swap(&mut bytes, packet.l4_offset(), 2);
        return Some(bytes);
    }
    let mut out = vec![0; 2048];
    let original = packet.ip_packet();
    let len = match packet.version() {
        4 => icmpv4_error(&mut out, Icmpv4Error::TtlExceeded, ROUTER_V4, original),
        6 => icmpv6_error(&mut out, Icmpv6Error::HopLimitExceeded, ROUTER_V6, original),
        _ => None,
    };
    Some([&packet.frame()[..l3], &out[..len?]].concat())
}

/// Swaps the two values of `len` bytes that begin at `at`.
fn swap(bytes: &mut [u8], at: usize, len: usize) {
    if let Some(both) = bytes.get_mut(at..at + 2 * len) {
        both.rotate_left(len);
    }
}
