//! A function that makes packets and lets packets go into others, in every place where it may.
//!
//! Its action for a packet follows from the hash of its bytes, modulo 8:
//!
//! | hash | `before` | `after` |
//! |---|---|---|
//! | 0 | absorbed; kept, one a shard | |
//! | 1 | with one kept: absorbed, and both joined are sent on | |
//! | 2 | a copy is sent back | |
//! | 3 | two copies are sent on | |
//! | 4 | | a copy is sent on |
//! | 5 | | a copy is sent back, and the packet dropped |
//! | 6 | a copy is sent on, and | another |
//!
//! A tick sends on what was kept since the tick before, and a report by shard back; the end sends
//! what is still kept.

use core::time::Duration;

use warpline_nf::{After, Before, Emit, Emits, Function, State, StateHalf};
use warpline_packet::{
    Access, Arrival, Batch, FieldSet, Instant, LinkType, Packet, ReadWrite, Reason, Shard,
    StateKey, Verdict,
};

use super::fnv;

/// Bytes of the longest packet that it makes.
pub(crate) const MADE_LEN_MAX: usize = 512;
const KEPT_LEN_MAX: usize = 200;

/// The function.
pub(crate) struct EmitAbsorb {
    access: Access,
}

impl EmitAbsorb {
    pub(crate) fn new() -> Self {
        let all = ReadWrite::new(FieldSet::ALL, FieldSet::ALL);
        Self {
            access: Access {
                before: all,
                run: ReadWrite::NONE,
                after: all,
                after_flagged: ReadWrite::NONE,
                flagged_share: 0.0,
            },
        }
    }
}

impl Function for EmitAbsorb {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, _: &mut Batch) {}

    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }

    fn state(&self, shard: Shard) -> State {
        State {
            before: Some(Box::new(Keeper::default())),
            after: Some(Box::new(Answerer { shard, seen: 0, made: Made::default() })),
        }
    }

    fn emits(&self) -> Emits {
        Emits::packets(2, MADE_LEN_MAX)
    }

    fn tick(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
}

/// A buffer for the packets being made, and how many were.
struct Made {
    bytes: [u8; MADE_LEN_MAX],
    forward: u64,
    returned: u64,
    refused: u64,
}

impl Default for Made {
    fn default() -> Self {
        Self { bytes: [0; MADE_LEN_MAX], forward: 0, returned: 0, refused: 0 }
    }
}

impl Made {
    fn copy(&mut self, frame: &[u8], mark: &[u8]) -> usize {
        let len = frame.len().min(2 * KEPT_LEN_MAX);
        self.bytes[..len].copy_from_slice(&frame[..len]);
        self.bytes[len..len + mark.len()].copy_from_slice(mark);
        len + mark.len()
    }

    fn forward(&mut self, cause: &Packet<'_>, len: usize, emit: &mut Emit<'_>) {
        let made = emit.forward(cause, &self.bytes[..len]);
        self.forward += u64::from(made);
        self.refused += u64::from(!made);
    }

    fn send_back(&mut self, cause: &Packet<'_>, len: usize, emit: &mut Emit<'_>) {
        let made = emit.send_back(cause, &self.bytes[..len]);
        self.returned += u64::from(made);
        self.refused += u64::from(!made);
    }

    fn at_tick(&mut self, origin: &Arrival, len: usize, back: bool, emit: &mut Emit<'_>) {
        let bytes = &self.bytes[..len];
        let made = if back {
            emit.send_at_tick(origin, bytes)
        } else {
            emit.forward_at_tick(origin, bytes)
        };
        self.forward += u64::from(made && !back);
        self.returned += u64::from(made && back);
        self.refused += u64::from(!made);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("made-forward", self.forward);
        visit("returned", self.returned);
        visit("refused", self.refused);
    }
}

/// The half before: keeps a packet.
#[derive(Default)]
struct Keeper {
    kept: KeptFrame,
    made: Made,
}

struct KeptFrame {
    bytes: [u8; KEPT_LEN_MAX],
    len: Option<usize>,
    since: Instant,
}

impl Default for KeptFrame {
    fn default() -> Self {
        Self { bytes: [0; KEPT_LEN_MAX], len: None, since: Instant::ZERO }
    }
}

impl Keeper {
    fn packet(&mut self, batch: &mut Batch, index: usize, emit: &mut Emit<'_>) {
        let packet = batch.packet(index);
        let frame = packet.frame();
        match fnv(frame) % 8 {
            0 if self.kept.len.is_none() => {
                let len = frame.len().min(KEPT_LEN_MAX);
                // Every byte gets its upper bit, so that it isn't taken for a packet of its flow.
                let kept = self.kept.bytes.iter_mut().zip(&frame[..len]);
                kept.for_each(|(to, from)| *to = from | 0x80);
                (self.kept.len, self.kept.since) = (Some(len), packet.timestamp());
                batch.packet_mut(index).absorb();
            }
            1 => {
                let Some(kept) = self.kept.len.take() else { return };
                let own = frame.len().min(KEPT_LEN_MAX);
                self.made.bytes[..own].copy_from_slice(&frame[..own]);
                self.made.bytes[own..own + kept].copy_from_slice(&self.kept.bytes[..kept]);
                self.made.forward(&packet, own + kept, emit);
                batch.packet_mut(index).absorb();
            }
            2 => {
                let len = self.made.copy(frame, b"back");
                self.made.send_back(&packet, len, emit);
            }
            3 => {
                let len = self.made.copy(frame, b"copy-1");
                self.made.forward(&packet, len, emit);
                self.made.bytes[len - 1] = b'2';
                self.made.forward(&packet, len, emit);
            }
            6 => {
                let len = self.made.copy(frame, b"both-1");
                self.made.forward(&packet, len, emit);
            }
            _ => {}
        }
    }

    /// Sends on what is kept.
    fn send_kept(&mut self, now: Instant, emit: &mut Emit<'_>) {
        let Some(len) = self.kept.len.take() else { return };
        let Some(cause) = emit.tick_arrival(now, LinkType::ETHERNET) else { return };
        self.made.bytes[..len].copy_from_slice(&self.kept.bytes[..len]);
        self.made.at_tick(&cause, len, false, emit);
    }
}

impl Before for Keeper {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        picks.iter().for_each(|&index| self.packet(batch, usize::from(index), emit));
    }
}

impl StateHalf for Keeper {
    fn handle_timeout(&mut self, now: Instant, emit: &mut Emit<'_>) {
        if now.since(self.kept.since) >= Duration::from_millis(1) {
            self.send_kept(now, emit);
        }
    }

    fn finish(&mut self, emit: &mut Emit<'_>) {
        self.send_kept(self.kept.since, emit);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("kept", u64::from(self.kept.len.is_some()));
        self.made.counters(visit);
    }
}

/// The half after: answers, and reports by shard.
struct Answerer {
    shard: Shard,
    seen: u32,
    made: Made,
}

impl Answerer {
    fn packet(&mut self, batch: &mut Batch, index: usize, emit: &mut Emit<'_>) {
        self.seen += 1;
        let packet = batch.packet(index);
        if packet.verdict() != Verdict::Forward {
            return;
        }
        let frame = packet.frame();
        match fnv(frame) % 8 {
            4 => {
                let len = self.made.copy(frame, b"after");
                self.made.forward(&packet, len, emit);
            }
            5 => {
                let len = self.made.copy(frame, b"answer");
                self.made.send_back(&packet, len, emit);
                batch.packet_mut(index).drop(Reason(0));
            }
            6 => {
                let len = self.made.copy(frame, b"both-2");
                self.made.forward(&packet, len, emit);
            }
            _ => {}
        }
    }

    fn report(&mut self, now: Instant, back: bool, emit: &mut Emit<'_>) {
        let Some(cause) = emit.tick_arrival(now, LinkType::ETHERNET) else { return };
        if self.seen == 0 {
            return;
        }
        let len = self.made.copy(&[self.shard.index() as u8; 20], &self.seen.to_be_bytes());
        self.seen = 0;
        self.made.at_tick(&cause, len, back, emit);
    }
}

impl After for Answerer {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        picks.iter().for_each(|&index| self.packet(batch, usize::from(index), emit));
    }
}

impl StateHalf for Answerer {
    fn handle_timeout(&mut self, now: Instant, emit: &mut Emit<'_>) {
        self.report(now, true, emit);
    }

    fn finish(&mut self, emit: &mut Emit<'_>) {
        self.report(Instant::ZERO, false, emit);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.made.counters(visit);
    }
}
