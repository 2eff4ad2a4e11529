//! The outcome of each packet, as `run` leaves it for `after`, and the counters made of that.

use warpline_packet::{Batch, ScratchWord};

use warpline_nf::{After, Emit, StateHalf};

/// The outcome of a packet: the kind in the upper eight bits of a word, bytes in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompOutcome(u32);

const BYTES: u32 = (1 << 24) - 1;
const KINDS: usize = 4;

impl CompOutcome {
    /// It was none of the function's business, or dropped.
    pub(super) const LEFT: Self = Self(0);
    /// It was not worth a try.
    pub(super) const SKIPPED: Self = Self(1 << 24);
    /// It did not become smaller.
    pub(super) const INCOMPRESSIBLE: Self = Self(2 << 24);

    /// It was compressed or decompressed, by which it became so many bytes shorter or longer.
    pub(super) fn reshaped(bytes: usize) -> Self {
        Self(3 << 24 | (bytes as u32).min(BYTES))
    }

    pub(super) fn word(self) -> u32 {
        self.0
    }
}

/// Counts outcomes.
pub(super) struct Counter {
    word: ScratchWord,
    /// The names of outcomes, by kind; none has no counter.
    names: [Option<&'static str>; KINDS],
    bytes_name: &'static str,
    counts: [u64; KINDS],
    bytes: u64,
}

impl Counter {
    pub(super) fn compressing(word: ScratchWord) -> Self {
        let names = [Some("left"), Some("skipped"), Some("incompressible"), Some("compressed")];
        Self { word, names, bytes_name: "saved-bytes", counts: [0; KINDS], bytes: 0 }
    }

    pub(super) fn decompressing(word: ScratchWord) -> Self {
        let names = [Some("left"), None, None, Some("decompressed")];
        Self { word, names, bytes_name: "added-bytes", counts: [0; KINDS], bytes: 0 }
    }
}

impl After for Counter {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &pick in picks {
            let word = batch.packet(usize::from(pick)).scratch(self.word);
            self.counts[(word >> 24) as usize % KINDS] += 1;
            self.bytes += u64::from(word & BYTES);
        }
    }
}

impl StateHalf for Counter {
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        for (name, count) in self.names.iter().zip(self.counts) {
            if let Some(name) = name {
                visit(name, count);
            }
        }
        visit(self.bytes_name, self.bytes);
    }
}
