//! A batch and its copy on a device: which bytes cross, which packets are there, and what is taken
//! back ([`Returned`]).
//!
//! A device's mirror has an arena's size and layout, so one offset names a packet on both sides.
//! The table of a launch comes back beside those of its batches: it is *returned*. The batch takes
//! only the columns that the function declares as written, and only after checks. So no device can
//! make a frame extend beyond its room.
//!
//! A device may leave a packet to the CPU, from some function of its segment on
//! ([`Batch::hold_done`]). The CPU then does the rest.

mod left;
mod returned;
mod stretches;

use core::ops::Range;
use core::ptr::NonNull;

pub use left::LeftPackets;
pub use returned::{Broken, Returned};
pub use stretches::{Stretch, crossing_width, frame_extent, lengthened};

use crate::arena::{Flagged, Left, Mirrored, VerdictOf};
use crate::{Batch, Flags, Headers, Placer, Reason, Verdict};

/// Ranges of memory that [`Batch::spans`] keeps open at once: received packets and made packets are
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

    /// The bytes of the arena with the room of packet `index`. Panics if there is no such packet.
    pub fn room(&self, index: usize) -> Range<usize> {
        self.table.room(index)
    }

    /// Whether packet `index` is marked as present in a mirror of `bits` ([`mirror_bit`]). Panics
    /// if there is no such packet.
    pub fn is_mirrored(&self, index: usize, bits: u8) -> bool {
        self.table.column(Mirrored)[index] & bits != 0
    }

    /// Whether its packets are in the arena that begins at `base`.
    pub fn is_in(&self, base: NonNull<u8>) -> bool {
        self.table.arena() == base
    }

    /// Bytes of the rooms of its packets that are still forwarded.
    pub fn rooms_len(&self) -> usize {
        self.forward_rows().map(|row| self.table.room(row).len()).sum()
    }

    /// Visits the ranges of the arena with the rooms of its packets that are still forwarded, and
    /// no other room.
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
            // Mostly it comes right after the one before.
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

    /// Marks the packets that are still forwarded as present in mirror `number`, except those left
    /// to the CPU ([`Batch::accept_left`]). Function `last` is the last one that worked there.
    /// Unless `keeps_flagged`, the host changes packets that these functions flagged, and no mirror
    /// has them from then on. Packets that are routed past the functions keep their marks.
    pub fn set_mirrored(&mut self, number: u8, last: u8, keeps_flagged: bool) {
        // Only later functions are left for those.
        let flagged = last.saturating_add(2);
        let (own, others) =
            (mirror_bit(number), if keeps_flagged { !mirror_bit(number) } else { 0 });
        for start in (0..self.len()).step_by(BLOCK) {
            let rows = start..self.len().min(start + BLOCK);
            let mut is_there = [false; BLOCK];
            let left = self.table.column(Left)[rows.clone()].iter();
            let verdicts = self.table.column(VerdictOf)[rows.clone()].iter();
            // Flags set by `before`; those of kernels are in `Left`.
            let flags = self.table.column(Flagged)[rows.clone()].iter();
            let all = left.zip(verdicts).zip(flags);
            for (is_there, ((&left, &verdict), &flag)) in is_there.iter_mut().zip(all) {
                let is_done = left == 0 || (left == flagged && keeps_flagged);
                let is_changed = flag != 0 && !keeps_flagged;
                *is_there = verdict == Verdict::Forward as u8 && is_done && !is_changed;
            }
            let is_past = self.routed_past(rows.clone());
            let marks = is_there.into_iter().zip(is_past);
            let mirrored = self.table.column_mut(Mirrored)[rows].iter_mut().zip(marks);
            mirrored.for_each(|(mirrored, (is_there, is_past))| {
                let others = if is_past { u8::MAX } else { others };
                *mirrored = if is_there { *mirrored | own } else { *mirrored & others };
            });
        }
    }

    /// Drops the packets that are still forwarded and present in mirror `number`, for `reason` and
    /// by the current function: some of their fields are there alone. Returns whether there were
    /// any.
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

    /// Removes the marks of all mirrors except `kept` ([`mirror_bit`]), because the CPU did the
    /// work of a device, or a mirror is given up. Packets that are routed past the function keep
    /// theirs.
    pub fn keep_mirrors(&mut self, kept: u8) {
        for start in (0..self.len()).step_by(BLOCK) {
            let rows = start..self.len().min(start + BLOCK);
            let is_past = self.routed_past(rows.clone());
            let own = self.table.column_mut(Mirrored)[rows].iter_mut().zip(is_past);
            own.for_each(|(mirrored, is_past)| *mirrored &= if is_past { u8::MAX } else { kept });
        }
    }

    /// Of up to [`BLOCK`] rows those that are routed past the function whose turn it is.
    fn routed_past(&self, rows: Range<usize>) -> [bool; BLOCK] {
        let mut is_past = [false; BLOCK];
        let verdicts = &self.table.column(VerdictOf)[rows];
        for (is_past, &verdict) in is_past.iter_mut().zip(verdicts) {
            *is_past = verdict == Verdict::Bypass as u8;
        }
        is_past
    }

    /// Says of its packets that no function is left to the CPU.
    pub fn leave_none(&mut self) {
        self.table.column_mut(Left).fill(0);
    }

    /// Marks all its packets as left to the CPU from function `first` on.
    pub fn leave_from(&mut self, first: u8) {
        self.table.column_mut(Left).fill(first.saturating_add(1));
    }

    /// Drops all packets that are still forwarded, for `reason` and by the current function. The
    /// contents of their frames are unknown, so they have none from here on.
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
        let mut headers = Headers::default();
        headers.flags.set(self.headers(row).flags.0 & Flags::KEPT);
        self.set_headers(row, &headers);
        self.packet_mut(row).drop(reason);
    }

    /// Gives its packets' rooms up permanently, since a device may still write there. Their slabs
    /// are not used again.
    pub fn abandon(&mut self) {
        self.table.abandon();
    }

    /// Moves its packets that are still forwarded to other rooms with the same frames. Gives all
    /// their old rooms up permanently, since a device may still read there. Returns whether
    /// `placer` had room for all.
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

    /// Whether `left` means that the work of the current function was left to the CPU.
    #[inline(always)]
    fn is_left(&self, left: u8) -> bool {
        (1..=self.function.saturating_add(1)).contains(&left)
    }

    /// Hides the packets for which the device did the work of the current function, until
    /// [`Batch::release`]. Returns whether any other is left; if not, nothing is hidden.
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

    /// Keeps every packet out of sight that is `Forward`, until [`Batch::release`].
    pub(crate) fn hold_forward(&mut self) {
        for verdict in self.table.column_mut(VerdictOf) {
            if *verdict == Verdict::Forward as u8 {
                *verdict = HELD;
            }
        }
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

/// The bit of a mirror's number in the column of mirrors that have a packet. From the ninth mirror
/// on there is none.
pub fn mirror_bit(number: u8) -> u8 {
    1u8.checked_shl(number.into()).unwrap_or(0)
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
