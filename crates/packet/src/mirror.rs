//! A batch and its copy on a device: which bytes go there, and what is taken back.
//!
//! A device's mirror has an arena's size and layout, so that one offset names a packet on both sides. What comes back
//! of a launch's table is not written over those of its batches: it lies beside them, *returned*, and is taken column by column as far as the
//! function said that it writes, and only where it makes sense. So no device can have a frame reach out of its room.
//!
//! A device may leave a packet alone, from some function of its segment on ([`Batch::hold_done`]). The CPU then does what was left.

mod left;

use core::fmt;
use core::ops::Range;

pub use left::LeftPackets;

use crate::arena::{
    Column, DroppedBy, Flagged, HeadersOf, Left, Mirrored, NextHop, ROW_LEN, ReasonOf, VerdictOf,
    WireLen,
};
use crate::{
    Batch, BatchRows, Field, FieldSet, FoundLists, Headers, Placer, Reason, SCRATCH_WORDS, Table,
    Verdict,
};

/// Stretches of memory that [`Batch::spans`] keeps open at once: packets from outside and packets that functions made lie
/// in different ones.
const SPANS_OPEN: usize = 2;

/// Rows that are taken over together, column by column.
const BLOCK: usize = 64;

/// The verdict of a packet that is kept out of a function's sight for a while.
const HELD: u8 = 7;

/// What a device said of a packet makes no sense: which row, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The packet's place in its batch.
    pub row: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {}: {}", self.row, self.what)
    }
}

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

    /// Notes that no mirror has its packets: their work was done on the CPU, where a device was to do it.
    pub fn forget_mirrors(&mut self) {
        self.table.column_mut(Mirrored).fill(0);
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

    /// Looks at what a device left of the table.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn check_returned(&self, returned: &Returned<'_>, writes: FieldSet) -> Result<(), Broken> {
        if returned.bytes.len() < ROW_LEN * returned.rows.rows {
            return Err(Broken { row: 0, what: "the table came back shorter than it went there" });
        }
        if !moves(writes) && !reparses(writes) {
            return Ok(());
        }
        for (row, at) in returned.rows.each().filter(|(row, _)| self.is_forward(*row)) {
            let (start, len) = match moves(writes) {
                true => returned.frame(at),
                false => (self.table.start(row) as u16, self.table.frame_len(row) as u32),
            };
            if usize::from(start) + len as usize > self.table.room(row).len() {
                return Err(Broken { row, what: "its frame would reach out of its room" });
            }
            let headers = match reparses(writes) {
                true => Headers::from_bytes(returned.get(HeadersOf, at)),
                false => self.table.column(HeadersOf)[row],
            };
            if headers.end > len {
                return Err(Broken { row, what: "its headers end behind it" });
            }
        }
        Ok(())
    }

    /// Looks at the words by which packets that a device did say where their findings are.
    ///
    /// # Errors
    /// One names a list that is not there.
    pub fn check_found(
        &self,
        returned: &Returned<'_>,
        found: &FoundLists<'_>,
    ) -> Result<(), Broken> {
        for (rows, at) in returned.rows.stretches(usize::MAX) {
            let there = at..at + rows.len();
            let left = returned.column(Left, there.clone());
            let words = returned.word(word_of(found), there);
            for ((row, [left]), word) in rows.zip(left).zip(words) {
                let is_done = self.is_forward(row) && *left == 0;
                if is_done && !found.makes_sense(u32::from_ne_bytes(*word)) {
                    return Err(Broken {
                        row,
                        what: "its findings are not among those that were kept",
                    });
                }
            }
        }
        Ok(())
    }

    /// Takes from `returned`, which was looked at, what was left to the CPU.
    pub fn accept_left(&mut self, returned: &Returned<'_>) {
        for (rows, at) in returned.rows.stretches(usize::MAX) {
            let left = returned.column(Left, at..at + rows.len());
            let own = self.table.column_mut(Left)[rows].iter_mut();
            own.zip(left).for_each(|(own, [left])| *own = *left);
        }
    }

    /// Takes from `returned`, which was looked at, where frames and their headers lie, as far as kernels that write the fields `writes` say so:
    /// fields that come back by themselves go there.
    pub fn accept_shapes(&mut self, returned: &Returned<'_>, writes: FieldSet) {
        if moves(writes) || reparses(writes) {
            for (row, at) in returned.rows.each() {
                if self.is_forward(row) {
                    self.accept_shape(returned, (row, at), writes);
                }
            }
        }
    }

    /// Takes from `returned`, which was looked at, the fields `writes` of packets for which the device did the work of the
    /// function whose turn it is, its verdicts, and from `found` their findings.
    pub fn accept_returned(
        &mut self,
        returned: &Returned<'_>,
        writes: FieldSet,
        found: Option<&FoundLists<'_>>,
    ) {
        for (rows, at) in returned.rows.stretches(BLOCK) {
            let taken = self.done_there(rows.clone());
            self.accept_columns(returned, (rows.clone(), at), &taken, writes);
            if moves(writes) || reparses(writes) {
                let own = rows.clone().zip(at..).zip(taken).filter(|(_, taken)| *taken);
                own.for_each(|((row, at), _)| self.accept_shape(returned, (row, at), writes));
            }
            found.into_iter().for_each(|found| self.accept_found(rows.clone(), &taken, found));
            self.accept_verdicts(returned, (rows, at), &taken);
        }
    }

    /// Which of the rows are forwarded and had the work of the function whose turn it is done by the device.
    fn done_there(&self, rows: Range<usize>) -> [bool; BLOCK] {
        let mut done = [false; BLOCK];
        let left = &self.table.column(Left)[rows.clone()];
        let columns = self.table.column(VerdictOf)[rows].iter().zip(left);
        for (done, (&verdict, &left)) in done.iter_mut().zip(columns) {
            *done = verdict == Verdict::Forward as u8 && !self.is_left(left);
        }
        done
    }

    fn accept_columns(
        &mut self,
        returned: &Returned<'_>,
        (rows, at): (Range<usize>, usize),
        taken: &[bool; BLOCK],
        writes: FieldSet,
    ) {
        let there = at..at + rows.len();
        if writes.contains(Field::NextHop) {
            let own = &mut self.table.column_mut(NextHop)[rows.clone()];
            take(own, returned.column(NextHop, there.clone()), taken, u16::from_ne_bytes);
        }
        for word in 0..SCRATCH_WORDS {
            if Field::scratch(word).is_some_and(|field| writes.contains(field))
                && let Some(own) = self.table.scratch_mut(word).get_mut(rows.clone())
            {
                take(own, returned.word(word, there.clone()), taken, u32::from_ne_bytes);
            }
        }
        if writes.contains(Field::Flagged) {
            let flags = returned.column(Flagged, there).iter().zip(taken);
            // A kernel says whose flag it is, as several functions may flag packets of one launch.
            let (name, mut any) = (self.function.saturating_add(1), 0);
            for (own, ([flag], taken)) in self.table.column_mut(Flagged)[rows].iter_mut().zip(flags)
            {
                let flag = u8::from(*taken && *flag == name);
                (*own, any) = (*own | flag, any | flag);
            }
            self.has_flagged |= any != 0;
        }
    }

    /// Keeps the findings of rows whose words were taken, in their order.
    fn accept_found(&mut self, rows: Range<usize>, taken: &[bool; BLOCK], found: &FoundLists<'_>) {
        let mut findings = self.take_findings();
        if let Some(words) = self.table.scratch_mut(word_of(found)).get_mut(rows) {
            let own = words.iter_mut().zip(taken).filter(|(_, taken)| **taken);
            own.for_each(|(word, _)| *word = findings.keep_of(found, *word));
        }
        self.set_findings(findings);
    }

    fn accept_shape(
        &mut self,
        returned: &Returned<'_>,
        (row, at): (usize, usize),
        writes: FieldSet,
    ) {
        if moves(writes) {
            let (start, len) = returned.frame(at);
            if self.table.set_frame(row, start, len) {
                self.table.column_mut(WireLen)[row] = u32::from_ne_bytes(returned.get(WireLen, at));
            }
        }
        if reparses(writes) {
            self.set_headers(row, &Headers::from_bytes(returned.get(HeadersOf, at)));
        }
    }

    fn accept_verdicts(
        &mut self,
        returned: &Returned<'_>,
        (rows, at): (Range<usize>, usize),
        taken: &[bool; BLOCK],
    ) {
        let verdicts = returned.column(VerdictOf, at..at + rows.len());
        // Mostly all go on.
        if verdicts.iter().all(|[verdict]| *verdict == Verdict::Forward as u8) {
            return;
        }
        let own = rows.zip(at..).zip(verdicts).zip(taken).filter(|(_, taken)| **taken);
        for (((row, at), [verdict]), _) in own {
            let (verdict, [by]) = (Verdict::from_u8(*verdict), returned.get(DroppedBy, at));
            if verdict != Verdict::Forward && by == self.function {
                self.settled += 1;
                self.table.column_mut(VerdictOf)[row] = verdict as u8;
                self.table.column_mut(DroppedBy)[row] = by;
                let [reason] = returned.get(ReasonOf, at);
                self.table.column_mut(ReasonOf)[row] = reason;
            }
        }
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

/// The number of the scratch word.
fn word_of(found: &FoundLists<'_>) -> usize {
    found.word as usize - Field::Scratch0 as usize
}

/// Takes what is returned of the rows that are to be taken.
fn take<T: Copy, const N: usize>(
    own: &mut [T],
    returned: &[[u8; N]],
    taken: &[bool],
    value: impl Fn([u8; N]) -> T,
) {
    for ((own, returned), &taken) in own.iter_mut().zip(returned).zip(taken) {
        *own = if taken { value(*returned) } else { *own };
    }
}

fn moves(writes: FieldSet) -> bool {
    writes.contains(Field::Start) || writes.contains(Field::Len)
}

fn reparses(writes: FieldSet) -> bool {
    writes.contains(Field::PayloadOffset)
}

/// A launch's table as a device left it, and which rows of it are of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Returned<'a> {
    bytes: &'a [u8],
    rows: BatchRows<'a>,
}

impl<'a> Returned<'a> {
    /// Of the batch that has `rows` in the table with these `bytes`.
    pub fn new(bytes: &'a [u8], rows: BatchRows<'a>) -> Self {
        Self { bytes, rows }
    }

    /// The table's bytes, and the rows.
    pub fn parts(&self) -> (&'a [u8], BatchRows<'a>) {
        (self.bytes, self.rows)
    }

    /// Column `C` of a row; zeroes where there is no such row.
    fn get<C: Column, const N: usize>(&self, _: C, row: usize) -> [u8; N] {
        const { assert!(N == size_of::<C::Value>()) };
        self.at(C::BEFORE * self.rows.rows + N * row)
    }

    fn frame(&self, row: usize) -> (u16, u32) {
        let (start, len) = Table::FRAME_COLUMNS;
        let start = self.at(start * self.rows.rows + size_of::<u16>() * row);
        let len = self.at(len * self.rows.rows + size_of::<u32>() * row);
        (u16::from_ne_bytes(start), u32::from_ne_bytes(len))
    }

    /// Column `C` of these rows; none where there are no such.
    fn column<C: Column, const N: usize>(&self, _: C, rows: Range<usize>) -> &'a [[u8; N]] {
        const { assert!(N == size_of::<C::Value>()) };
        self.values(C::BEFORE, rows)
    }

    /// A scratch word of these rows.
    fn word(&self, word: usize, rows: Range<usize>) -> &'a [[u8; 4]] {
        self.values(ROW_LEN + 4 * word, rows)
    }

    fn values<const N: usize>(&self, before: usize, rows: Range<usize>) -> &'a [[u8; N]] {
        let start = before * self.rows.rows;
        let own = self.bytes.get(start + N * rows.start..start + N * rows.end);
        own.map_or(&[], |own| own.as_chunks().0)
    }

    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
