//! Memory of a function's turn.

use std::ops::Range;

use warpline_launch::Scratch;
use warpline_nf::{Cause, Emit, Emits, Passage};
use warpline_packet::{Batch, KeptRows, SHARDS, Shard};

use super::Rooms;

/// Memory that a function's turn needs besides the batch; used again for the next.
pub(crate) struct TurnScratch {
    /// Packets made, put in their order when the turn is over.
    pub(super) made: Batch,
    /// Packets that were `Forward` when the turn began, grouped by shard.
    pub(super) picks: Vec<u16>,
    ends: [u16; SHARDS],
    /// The same packets for a function that makes packets of them.
    causes: Vec<Cause>,
    /// Their verdicts and frames, where these are kept.
    pub(super) kept: KeptRows,
    /// Packets that were `Forward` when the turn began.
    pub(super) on_turn: u64,
}

impl TurnScratch {
    /// For packets made in `made`; with `keeps` dropped packets are shown as they were.
    pub(crate) fn new(made: Batch, keeps: bool) -> Self {
        let slots = made.slots();
        let kept = if keeps { slots } else { 0 };
        let (picks, causes) = (Vec::with_capacity(slots), Vec::with_capacity(slots));
        let kept = KeptRows::with_capacity(kept);
        Self { made, picks, ends: [0; SHARDS], causes, kept, on_turn: 0 }
    }

    /// Groups what is `Forward` in `batch` by shard.
    pub(super) fn fill(&mut self, batch: &Batch, makes: bool) {
        batch.group_by_shard(&mut self.picks, &mut self.ends);
        self.causes.clear();
        if makes {
            let number = |&pick: &u16| batch.packet(usize::from(pick)).ingress();
            self.causes.extend(self.picks.iter().map(|pick| Cause::new(number(pick))));
        }
    }

    /// Whether there are packets of `shard`.
    pub(super) fn has(&self, shard: Shard) -> bool {
        !range_of(&self.ends, shard).is_empty()
    }

    /// The packets of `shard`.
    pub(super) fn picks(&self, shard: Shard) -> &[u16] {
        &self.picks[range_of(&self.ends, shard)]
    }

    /// The packets of `shard`, and where what they make goes.
    pub(super) fn of<'a>(
        &'a mut self,
        shard: Shard,
        (emits, passage): (Emits, &'a Passage),
        rooms: &'a mut Rooms,
    ) -> (&'a [u16], Emit<'a>) {
        let range = range_of(&self.ends, shard);
        let causes = self.causes.get_mut(range.clone()).unwrap_or(&mut []);
        let Rooms { placer, hasher, .. } = rooms;
        let emit = Emit::new(&mut self.made, placer, hasher, emits, shard, causes);
        (&self.picks[range], emit.passing(passage))
    }
}

/// No shard's state sees packets that left the picks.
impl Scratch for Box<TurnScratch> {
    fn forget_dropped(&mut self, batch: &Batch) {
        let (mut from, mut kept) = (0, 0);
        for end in &mut self.ends {
            for at in from..usize::from(*end) {
                if batch.is_forward(usize::from(self.picks[at])) {
                    self.picks.swap(kept, at);
                    if at < self.causes.len() {
                        self.causes.swap(kept, at);
                    }
                    kept += 1;
                }
            }
            from = usize::from(*end);
            *end = kept as u16;
        }
        self.picks.truncate(kept);
        self.causes.truncate(kept);
    }

    fn forget(&mut self) {
        self.picks.clear();
        self.ends.fill(0);
        self.causes.clear();
    }

    fn forget_frames(&mut self) {
        self.kept.clear();
    }
}

fn range_of(ends: &[u16; SHARDS], shard: Shard) -> Range<usize> {
    let index = shard.index();
    let start = if index == 0 { 0 } else { ends[index - 1] };
    usize::from(start)..usize::from(ends[index])
}
