//! A function with all three phases, with several batches between `before` and `after`.

use warpline_nf::{After, Before, Emit, Function, State, StateHalf};
use warpline_packet::{
    Access, Batch, Field, FieldSet, ReadWrite, Reason, ScratchWord, Shard, StateKey, Verdict,
};

/// Drop reason of `run`.
pub(crate) const ELEVENTH: usize = 0;
/// Drop reason of `after`.
pub(crate) const SEVENTH: usize = 1;

/// `before` numbers the packets of a shard, `run` writes the number over the end of the payload and
/// drops every eleventh, `after` checks the numbers and drops every seventh that is left.
pub(crate) struct ThreePhase {
    access: Access,
    word: ScratchWord,
}

impl ThreePhase {
    pub(crate) fn new(word: ScratchWord) -> Self {
        let number = FieldSet::EMPTY.with(word.field());
        let access = Access {
            before: ReadWrite::new(FieldSet::EMPTY, number),
            run: ReadWrite::new(
                number.with(Field::PayloadOffset),
                FieldSet::of(&[Field::Payload, Field::Verdict, Field::Flagged]),
            ),
            after: ReadWrite::new(
                number.with(Field::Verdict).with(Field::Flagged),
                FieldSet::of(&[Field::Verdict]),
            ),
            after_flagged: ReadWrite::new(
                FieldSet::of(&[Field::Payload, Field::PayloadOffset]),
                FieldSet::EMPTY,
            ),
            flagged_share: 0.2,
        };
        Self { access, word }
    }
}

impl Function for ThreePhase {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        batch.for_each_forward(|packet| {
            let number = packet.scratch(self.word);
            if let Some(end) = packet.payload_mut().last_chunk_mut::<4>() {
                *end = number.to_be_bytes();
            }
            if number % 11 == 10 {
                packet.drop(Reason(ELEVENTH as u8));
            } else if number.is_multiple_of(5) {
                packet.flag();
            }
        });
    }

    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }

    fn state(&self, shard: Shard) -> State {
        let first = (shard.index() as u32) << 24;
        let checker = Checker { next: first, word: self.word, ..Checker::default() };
        State {
            before: Some(Box::new(Counter { next: first, word: self.word })),
            after: Some(Box::new(checker)),
        }
    }
}

struct Counter {
    next: u32,
    word: ScratchWord,
}

impl Before for Counter {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &index in picks {
            batch.packet_mut(usize::from(index)).set_scratch(self.word, self.next);
            self.next += 1;
        }
    }
}

impl StateHalf for Counter {}

struct Checker {
    next: u32,
    word: ScratchWord,
    left: u64,
    flagged: u64,
    mismatches: u64,
}

impl Default for Checker {
    fn default() -> Self {
        let word = ScratchWord::new(0).expect("a word");
        Self { next: 0, word, left: 0, flagged: 0, mismatches: 0 }
    }
}

impl After for Checker {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &index in picks {
            let mut packet = batch.packet_mut(usize::from(index));
            let number = packet.scratch(self.word);
            self.mismatches += u64::from(number != self.next);
            self.next += 1;
            if packet.is_flagged() {
                self.flagged += 1;
                self.mismatches += u64::from(!number.is_multiple_of(5));
                let payload = packet.payload();
                let end = payload.last_chunk::<4>().is_none_or(|end| *end == number.to_be_bytes());
                self.mismatches += u64::from(!end);
            }
            let was_dropped = packet.verdict() != Verdict::Forward;
            self.mismatches += u64::from(was_dropped != (number % 11 == 10));
            if !was_dropped {
                self.left += 1;
                if self.left.is_multiple_of(7) {
                    packet.drop(Reason(SEVENTH as u8));
                }
            }
        }
    }
}

impl StateHalf for Checker {
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("left", self.left);
        visit("flagged", self.flagged);
        visit("mismatches", self.mismatches);
    }
}
