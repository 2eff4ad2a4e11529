//! Packets on routes: each has its next function, and the number of its path so far.
//!
//! Both are in one scratch word of the chain, the *way*. A packet that is routed past functions is
//! `Bypass` until the turn of its next one. Of packets that continue with the next function of the
//! list the way may still name an earlier function.

use crate::arena::{DroppedBy, HeadersOf, ReasonOf, VerdictOf};
use crate::{Batch, Flags, Packet, Reason, ScratchWord, Verdict};

/// The next place of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// The function at this position of the chain.
    Function(u8),
    /// The end of the chain.
    Egress,
    /// There is no route.
    None,
}

/// A packet's way: the next function in the upper 8 bits, one more than the number of its path in
/// the others. It is 0 before the first route.
#[derive(Clone, Copy)]
struct PathWord(u32);

/// The next place of a packet that leaves the chain.
const EGRESS: u8 = u8::MAX;
/// The place that drops a packet without a route from ingress; no function has this position.
const INGRESS: u8 = u8::MAX;
const PATH: u32 = (1 << 24) - 1;

impl PathWord {
    fn new(next: u8, path: u32) -> Self {
        Self(u32::from(next) << 24 | path.saturating_add(1).min(PATH))
    }

    fn next(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// `None` before the first route.
    fn path(self) -> Option<u32> {
        (self.0 & PATH).checked_sub(1)
    }
}

impl Batch {
    /// Makes `word` the way of its packets: the chain has routes.
    pub fn set_way(&mut self, word: ScratchWord) {
        self.way = Some(word);
    }

    /// Whether a packet was sent back since the batch was cleared.
    pub fn has_answers(&self) -> bool {
        self.has_answers
    }

    fn way(&self, row: usize) -> PathWord {
        let words = self.way.map_or(&[][..], |word| self.table.scratch(word.0.into()));
        PathWord(words.get(row).copied().unwrap_or_default())
    }

    fn set_way_of(&mut self, row: usize, way: PathWord) {
        let Some(word) = self.way else { return };
        if let Some(own) = self.table.scratch_mut(word.0.into()).get_mut(row) {
            *own = way.0;
        }
    }

    /// Sends packets on their first way, or on from function `from`: those that continue, and
    /// answers that were made there. `hop` gives the next place of a packet, with the number that
    /// the hop adds to its path; its second argument is true for an answer. Packets without a next
    /// place are dropped for `no_route`. Returns how many.
    pub fn route(
        &mut self,
        from: Option<u8>,
        no_route: Reason,
        mut hop: impl FnMut(&Packet<'_>, bool) -> (Hop, u32),
    ) -> u32 {
        let (forward, answer) = (Verdict::Forward as u8, Verdict::Return as u8);
        let mut dropped = 0;
        for row in 0..self.len() {
            let verdict = self.table.column(VerdictOf)[row];
            let way = self.way(row);
            let is_here = from.is_none_or(|from| way.next() <= from);
            if verdict != forward && (verdict != answer || !is_here) {
                continue;
            }
            let (hop, step) = hop(&Packet::new(self, row), verdict == answer);
            let path = way.path().unwrap_or_default() + step;
            let next = match hop {
                Hop::Function(next) => next,
                Hop::Egress => EGRESS,
                Hop::None => {
                    self.drop_unrouted(row, from.unwrap_or(INGRESS), no_route);
                    dropped += 1;
                    continue;
                }
            };
            self.set_way_of(row, PathWord::new(next, path));
            if verdict == forward && next != from.map_or(0, |from| from + 1) {
                self.table.column_mut(VerdictOf)[row] = Verdict::Bypass as u8;
                self.has_bypass = true;
            }
        }
        dropped
    }

    fn drop_unrouted(&mut self, row: usize, from: u8, reason: Reason) {
        self.table.column_mut(VerdictOf)[row] = Verdict::Dropped as u8;
        self.table.column_mut(ReasonOf)[row] = reason.0;
        self.table.column_mut(DroppedBy)[row] = from;
    }

    /// Gives packets without a way the path that begins with number `start`.
    pub fn start_paths(&mut self, start: u32) {
        for row in 0..self.len() {
            if self.way(row).path().is_none() {
                self.set_way_of(row, PathWord::new(0, start));
            }
        }
    }

    /// Makes packets with verdict `from` `Forward` whose next function has its turn.
    pub(crate) fn resume_routed(&mut self, from: Verdict) {
        for row in 0..self.len() {
            let verdict = self.table.column(VerdictOf)[row];
            if verdict == from as u8 && self.way(row).next() == self.function {
                self.table.column_mut(VerdictOf)[row] = Verdict::Forward as u8;
            }
        }
    }

    /// Ends the ways of its packets after the last function, and gives `count` the number of the
    /// path of each that leaves.
    pub fn end_ways(&mut self, mut count: impl FnMut(u32)) {
        for row in 0..self.len() {
            let verdict = self.table.column(VerdictOf)[row];
            let is_answer = self.table.column(HeadersOf)[row].flags.has(Flags::ANSWER);
            if verdict == Verdict::Bypass as u8 {
                self.table.column_mut(VerdictOf)[row] = Verdict::Forward as u8;
            } else if !Verdict::from_u8(verdict).is_sent() {
                continue;
            }
            if !is_answer && let Some(path) = self.way(row).path() {
                count(path);
            }
        }
        self.has_bypass = false;
    }
}
