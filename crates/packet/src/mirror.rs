//! A batch and its copy on a device: which bytes go there, which packets are there, and what is taken back ([`Returned`]).
//!
//! A device's mirror has an arena's size and layout, so that one offset names a packet on both sides. What comes back
//! of a launch's table is not written over those of its batches: it lies beside them, *returned*, and is taken column by column as far as the
//! function said that it writes, and only where it makes sense. So no device can have a frame reach out of its room.
//!
//! A device may leave a packet alone, from some function of its segment on ([`Batch::hold_done`]). The CPU then does what was left.

mod left;
mod returned;
mod stretches;

use core::ops::Range;

pub use left::LeftPackets;
pub use returned::{Broken, Returned};
pub use stretches::{Stretch, crossing_width, frame_extent, lengthened};

use crate::arena::{Flagged, Left, Mirrored, VerdictOf};
use crate::{Batch, Headers, Placer, Reason, Verdict};

/// Stretches of memory that [`Batch::spans`] keeps open at once: packets from outside and packets that functions made lie
/// in different ones.
const SPANS_OPEN: usize = 2;

/// Rows that are taken over together, column by column.
const BLOCK: usize = 64;

/// The verdict of a packet that is kept out of a function's sight for a while.
const HELD: u8 = 7;

impl Batch {
    /// Bytes of the arena in which its table lies.
    pub fn table_range(&self) -> Range<usize> {
        self.table.range()
    }

    /// The rows of its packets that are still forwarded.
    pub fn forward_rows(&self) -> impl Iterator<Item = usize> {
        let verdicts = self.table.column(VerdictOf).iter().enumerate();
        verdicts.filter(|(_, verdict)| **verdict == Verdict::Forward as u8).map(|(row, _)| row)
    }

    /// Bytes of the arena in which the room of packet `index` lies; panics where there is no such packet.
    pub fn room(&self, index: usize) -> Range<usize> {
        self.table.room(index)
    }

    /// Whether a mirror of `bits` ([`mirror_bit`]) is marked as having packet `index`; panics where there is no such packet.
    pub fn is_mirrored(&self, index: usize, bits: u8) -> bool {
        self.table.column(Mirrored)[index] & bits != 0
    }

    /// Bytes of the rooms of its packets that are still forwarded.
    pub fn rooms_len(&self) -> usize {
        self.forward_rows().map(|row| self.table.room(row).len()).sum()
    }

    /// Names the stretches of the arena in which the rooms of its packets lie that are still forwarded, nobody else's among them.
    pub fn spans(&self, visit: impl FnMut(Range<usize>)) {
        self.spans_of(self.forward_rows(), visit);
    }

    /// The same of those that mirror `number` does not have.
    pub fn spans_without(&self, number: u8, visit: impl FnMut(Range<usize>)) {
        let mirrored = self.table.column(Mirrored);
        let lacks = |row: &usize| mirrored[*row] & mirror_bit(number) == 0;
        self.spans_of(self.forward_rows().filter(lacks), visit);
    }

    pub(crate) fn spans_of(
        &self,
        rows: impl Iterator<Item = usize>,
        mut visit: impl FnMut(Range<usize>),
    ) {
        let mut open: [Range<usize>; SPANS_OPEN] = Default::default();
        let mut oldest = 0;
        let mut newest = 0;
        for row in rows {
            let room = self.table.room(row);
            let follows = |span: &Range<usize>| span.end == room.start && !span.is_empty();
            // Mostly it lies behind the one before it.
            if follows(&open[newest]) {
                open[newest].end = room.end;
                continue;
            }
            match open.iter().position(follows) {
                Some(at) => (newest, open[at].end) = (at, room.end),
                None => {
                    newest = oldest;
                    let done = core::mem::replace(&mut open[oldest], room);
                    oldest = (oldest + 1) % SPANS_OPEN;
                    Some(done).filter(|span| !span.is_empty()).into_iter().for_each(&mut visit);
                }
            }
        }
        open.into_iter().filter(|span| !span.is_empty()).for_each(visit);
    }

    /// Notes that mirror `number` has the packets that are still forwarded, besides those of which something is left to the CPU
    /// ([`Batch::accept_left`]). Function `last` is the last of those that worked there. Where `keeps_flagged` is not so, the host changes
    /// packets that these flagged, and no mirror has those from here on.
    pub fn set_mirrored(&mut self, number: u8, last: u8, keeps_flagged: bool) {
        // What is left of those is left to functions behind.
        let flagged = last.saturating_add(2);
        let (own, others) =
            (mirror_bit(number), if keeps_flagged { !mirror_bit(number) } else { 0 });
        for start in (0..self.len()).step_by(BLOCK) {
            let rows = start..self.len().min(start + BLOCK);
            let mut is_there = [false; BLOCK];
            let left = self.table.column(Left)[rows.clone()].iter();
            let verdicts = self.table.column(VerdictOf)[rows.clone()].iter();
            // By `before`; of kernels' flags `Left` says.
            let flags = self.table.column(Flagged)[rows.clone()].iter();
            let all = left.zip(verdicts).zip(flags);
            for (is_there, ((&left, &verdict), &flag)) in is_there.iter_mut().zip(all) {
                let is_done = left == 0 || (left == flagged && keeps_flagged);
                let is_changed = flag != 0 && !keeps_flagged;
                *is_there = verdict == Verdict::Forward as u8 && is_done && !is_changed;
            }
            let mirrored = self.table.column_mut(Mirrored)[rows].iter_mut().zip(is_there);
            mirrored.for_each(|(mirrored, is_there)| {
                *mirrored = if is_there { *mirrored | own } else { *mirrored & others };
            });
        }
    }

    /// Drops, for `reason` and by the function whose turn it is, the packets that are still forwarded and that mirror `number` has: of what
    /// they hold something is there alone. Says whether there were such.
    pub fn lose_mirrored(&mut self, number: u8, reason: Reason) -> bool {
        let mut any = false;
        for row in 0..self.len() {
            if self.is_forward(row) && self.table.column(Mirrored)[row] & mirror_bit(number) != 0 {
                self.lose_row(row, reason);
                any = true;
            }
        }
        any
    }

    /// Notes that no mirror has its packets but those whose bits are in `kept` ([`mirror_bit`]): the CPU did their work, where a device
    /// was to do it.
    pub fn keep_mirrors(&mut self, kept: u8) {
        self.table.column_mut(Mirrored).iter_mut().for_each(|mirrored| *mirrored &= kept);
    }

    /// Says of its packets that no function is left to the CPU.
    pub fn leave_none(&mut self) {
        self.table.column_mut(Left).fill(0);
    }

    /// Says of all its packets that function `first` and those behind it are left to the CPU.
    pub fn leave_from(&mut self, first: u8) {
        self.table.column_mut(Left).fill(first.saturating_add(1));
    }

    /// Drops, for `reason` and by the function whose turn it is, all packets that are still forwarded: nobody knows what their frames
    /// hold, so they have none from here on.
    pub fn lose(&mut self, reason: Reason) {
        for row in 0..self.len() {
            if self.is_forward(row) {
                self.lose_row(row, reason);
            }
        }
    }

    fn lose_row(&mut self, row: usize, reason: Reason) {
        let start = self.table.start(row) as u16;
        self.table.set_frame(row, start, 0);
        self.set_headers(row, &Headers::default());
        self.packet_mut(row).drop(reason);
    }

    /// Gives its packets' rooms up for good: somebody may still write there. The slabs that they lie in are not used again.
    pub fn abandon(&mut self) {
        self.table.abandon();
    }

    /// Gives its packets that are still forwarded other rooms with the same frames, and all their old ones up for good: somebody may
    /// still read there. Says whether `placer` had room for all.
    pub fn move_out(&mut self, placer: &mut Placer) -> bool {
        self.abandon();
        let mut frame = Vec::new();
        for row in 0..self.len() {
            if self.is_forward(row) {
                frame.clear();
                frame.extend_from_slice(self.table.frame(row));
                if placer.replace(&mut self.table, row, &frame).is_err() {
                    return false;
                }
            }
        }
        true
    }

    /// Whether `left` of a packet says that the work of the function whose turn it is was left to the CPU.
    #[inline(always)]
    fn is_left(&self, left: u8) -> bool {
        (1..=self.function.saturating_add(1)).contains(&left)
    }

    /// Keeps out of sight the packets for which the device did the work of the function whose turn it is, until
    /// [`Batch::release`]. Says whether any is left; where none is, nothing is held.
    pub fn hold_done(&mut self) -> bool {
        // Mostly none is.
        let left = self.table.column(Left);
        let is_none = left.iter().all(|&left| left == 0);
        if is_none || !self.forward_rows().any(|row| self.is_left(left[row])) {
            return false;
        }
        for start in (0..self.len()).step_by(BLOCK) {
            let rows = start..self.len().min(start + BLOCK);
            let done = self.done_there(rows.clone());
            let own = self.table.column_mut(VerdictOf)[rows].iter_mut().zip(done);
            own.filter(|(_, done)| *done).for_each(|(verdict, _)| *verdict = HELD);
        }
        true
    }

    /// Ends [`Batch::hold_done`].
    pub fn release(&mut self) {
        for verdict in self.table.column_mut(VerdictOf) {
            if *verdict == HELD {
                *verdict = Verdict::Forward as u8;
            }
        }
    }
}

/// The bit of a mirror's number in the column that says which mirrors have a packet; that of a ninth and further one stands for nothing.
pub fn mirror_bit(number: u8) -> u8 {
    1u8.checked_shl(number.into()).unwrap_or(0)
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
