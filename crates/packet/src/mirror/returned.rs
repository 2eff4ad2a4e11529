//! A launch's table as a device left it: the checks, and the columns that a batch takes, function
//! by function.

use core::fmt;
use core::ops::Range;

use super::BLOCK;
use crate::arena::{
    Column, DroppedBy, Flagged, HeadersOf, Left, NextHop, ROW_LEN, ReasonOf, VerdictOf, WireLen,
};
use crate::{
    Batch, BatchRows, Field, FieldSet, FoundLists, Headers, SCRATCH_WORDS, Table, Verdict,
};

/// Invalid output of a device for a packet: which row, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The packet's place in its batch.
    pub row: usize,
    /// The reason.
    pub what: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {}: {}", self.row, self.what)
    }
}

/// A launch's table as a device left it, and which rows of it are of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Returned<'a> {
    bytes: &'a [u8],
    pub(super) rows: BatchRows<'a>,
}

impl<'a> Returned<'a> {
    /// Of the batch that has `rows` in the table with these `bytes`.
    pub fn new(bytes: &'a [u8], rows: BatchRows<'a>) -> Self {
        Self { bytes, rows }
    }

    /// Whether the device did the work of `function`, by its position in the chain, for the packet
    /// in row `at` of the launch's table.
    pub fn did(&self, at: usize, function: u8) -> bool {
        let [left]: [u8; 1] = self.get(Left, at);
        left == 0 || left > function.saturating_add(1)
    }

    /// The table's bytes, and the rows.
    pub fn parts(&self) -> (&'a [u8], BatchRows<'a>) {
        (self.bytes, self.rows)
    }

    /// Column `C` of a row; zeroes where there is no such row.
    pub(super) fn get<C: Column, const N: usize>(&self, _: C, row: usize) -> [u8; N] {
        const { assert!(N == size_of::<C::Value>()) };
        self.at(C::BEFORE * self.rows.rows + N * row)
    }

    pub(super) fn frame(&self, row: usize) -> (u16, u32) {
        let (start, len) = Table::FRAME_COLUMNS;
        let start = self.at(start * self.rows.rows + size_of::<u16>() * row);
        let len = self.at(len * self.rows.rows + size_of::<u32>() * row);
        (u16::from_ne_bytes(start), u32::from_ne_bytes(len))
    }

    /// Column `C` of these rows; none where there are no such.
    pub(super) fn column<C: Column, const N: usize>(
        &self,
        _: C,
        rows: Range<usize>,
    ) -> &'a [[u8; N]] {
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

impl Batch {
    /// Checks the table that a device left.
    ///
    /// # Errors
    /// It is invalid.
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
                return Err(Broken { row, what: "its headers end after the frame" });
            }
        }
        Ok(())
    }

    /// Checks the words with which packets that a device processed name their findings.
    ///
    /// # Errors
    /// One names a list that doesn't exist.
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

    /// Takes the places of frames and headers from the checked `returned`, as far as kernels that
    /// write the fields `writes` may change them. Fields that come back alone are put there.
    pub fn accept_shapes(&mut self, returned: &Returned<'_>, writes: FieldSet) {
        if moves(writes) || reparses(writes) {
            for (row, at) in returned.rows.each() {
                if self.is_forward(row) {
                    self.accept_shape(returned, (row, at), writes);
                }
            }
        }
    }

    /// Takes the fields `writes` and the verdicts from the checked `returned`, and the findings
    /// from `found`, for packets for which the device did the work of the current function.
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

    /// Which of the rows are forwarded and had the work of the current function done by the device.
    pub(super) fn done_there(&self, rows: Range<usize>) -> [bool; BLOCK] {
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
            // A kernel's flag identifies its function, as several functions may flag packets of one
            // launch.
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

pub(super) fn moves(writes: FieldSet) -> bool {
    writes.contains(Field::Start) || writes.contains(Field::Len)
}

fn reparses(writes: FieldSet) -> bool {
    writes.contains(Field::PayloadOffset)
}
