//! The table of a launch: a row for each packet of its batches that is still forwarded, across all
//! batches.
//!
//! It has the columns of a batch's table (`arena/columns.rs`), then those of fields that cross by
//! themselves ([`crate::Binding`]). A column starts at the bytes that a row has before it, times
//! the launch's rows. So a device mostly needs one range of bytes and writes another
//! ([`Columns::stretches`]). Packets outside the launch have no bytes in them.
//!
//! [`LaunchRows`] maps packets to rows. It is filled once per launch, and the results are taken
//! back by it.

use core::ops::Range;

use crate::{Batch, Columns};

/// Packets of a batch whose rows follow each other, in its own table and in the launch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first one's row in the batch's table.
    row: u16,
    len: u16,
    /// The first one's row in the launch's table.
    at: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct LaunchRows {
    runs: Vec<Run>,
    /// By batch, where its runs end.
    ends: Vec<usize>,
    count: usize,
}

/// Of one batch of a launch: which of its packets have which rows.
#[derive(Clone, Copy, Debug)]
pub struct BatchRows<'a> {
    runs: &'a [Run],
    /// Rows that a column of the launch's table has.
    pub(crate) rows: usize,
}

impl LaunchRows {
    /// A column has a multiple of so many rows, so that the next one is aligned.
    const ALIGN: usize = 4;

    /// For launches of so many batches and packets, more than which it has no room for.
    pub fn with_capacity(batches: usize, packets: usize) -> Self {
        // Between two runs of a batch there is a packet that is in none.
        let runs = packets.div_ceil(2) + batches;
        Self { runs: Vec::with_capacity(runs), ends: Vec::with_capacity(batches), count: 0 }
    }

    /// Rows that a column has for `packets` packets.
    pub const fn rows_for(packets: usize) -> usize {
        packets.next_multiple_of(Self::ALIGN)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.ends.clear();
        self.count = 0;
    }

    /// Adds the packets of a batch that are still forwarded.
    pub fn add(&mut self, batch: &Batch) {
        let first = self.runs.len();
        for row in batch.forward_rows() {
            self.add_row(first, row as u16);
        }
        self.ends.push(self.runs.len());
    }

    /// Adds all packets of a batch, whatever became of them.
    pub fn add_all(&mut self, batch: &Batch) {
        let first = self.runs.len();
        (0..batch.len()).for_each(|row| self.add_row(first, row as u16));
        self.ends.push(self.runs.len());
    }

    #[inline]
    fn add_row(&mut self, first: usize, row: u16) {
        let at = self.count as u32;
        self.count += 1;
        match self.runs[first..].last_mut() {
            Some(run)
                if run.len < u16::MAX && u32::from(run.row) + u32::from(run.len) == row.into() =>
            {
                run.len += 1;
            }
            _ => self.runs.push(Run { row, len: 1, at }),
        }
    }

    /// How many packets there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Rows that a column has.
    pub fn rows(&self) -> usize {
        Self::rows_for(self.count)
    }

    /// Of batch `index`, as they were added; none where there is no such.
    pub fn of(&self, index: usize) -> BatchRows<'_> {
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(index).copied().unwrap_or(0);
        let runs = self.runs.get(start.unwrap_or(0)..end).unwrap_or(&[]);
        BatchRows { runs, rows: self.rows() }
    }
}

impl<'a> BatchRows<'a> {
    /// Runs of at most `len` packets: their rows in the batch's table, and the first one's row in
    /// the launch's.
    pub(crate) fn stretches(self, len: usize) -> impl Iterator<Item = (Range<usize>, usize)> + 'a {
        self.runs.iter().flat_map(move |run| {
            let (row, count, at) = (usize::from(run.row), usize::from(run.len), run.at as usize);
            (0..count)
                .step_by(len)
                .map(move |from| (row + from..row + count.min(from + len), at + from))
        })
    }

    /// Each packet's row in the batch's table, and in the launch's.
    pub fn each(self) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.stretches(usize::MAX).flat_map(|(rows, at)| rows.clone().zip(at..at + rows.len()))
    }
}

impl Batch {
    /// Copies `columns` of the packets in `rows` to their places in `to`, the launch's table.
    pub fn copy_columns(&self, columns: Columns, rows: BatchRows<'_>, to: &mut [u8]) {
        for (before, width) in columns.iter() {
            for (own, at) in rows.stretches(usize::MAX) {
                let start = before * rows.rows + width * at;
                if let Some(to) = to.get_mut(start..start + width * own.len()) {
                    self.table.copy_cells(before, width, own, to);
                }
            }
        }
    }
}
