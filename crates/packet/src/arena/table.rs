//! A table of descriptors: its rows, column by column.
//!
//! Safety: a table has memory of the arena that no other table has (the layout gives each its own),
//! zeroed when it was made. It is reached through `&` and `&mut` of the value alone, which is moved
//! and never copied. Only rows below its length are reached, and every column has memory for more.
//! The frames that rows name are in `frames.rs`.

#![allow(unsafe_code)]

use core::ops::Range;
use core::ptr::{self, NonNull};
use core::{array, fmt, slice};
use std::sync::Arc;

use super::columns::*;
use super::layout::ArenaLayout;
use super::slabs::Slabs;
use crate::Headers;

/// A table of descriptors: a row a packet, a column a property, owned by move.
pub struct Table {
    pub(super) slabs: Arc<Slabs>,
    pub(super) base: NonNull<u8>,
    /// Where each column starts.
    starts: [NonNull<u8>; WIDTHS.len()],
    pub(super) slots: usize,
    /// Rows that every column has memory for.
    pub(super) rows: usize,
    pub(super) scratch_words: usize,
    pub(super) len: usize,
    /// Headers and link of the first row, and whether all rows agree with them as [`Table::alike`]
    /// defines it.
    pub(super) first: (Headers, u16),
    pub(super) alike: bool,
    /// Rows that were looked at for that.
    pub(super) compared: usize,
    /// Slabs of which this table has a piece: at most the rows, plus slabs where rows got other
    /// rooms.
    pub(super) pieces: Vec<u32>,
}

// SAFETY: a table is the only handle to its rows and their rooms.
unsafe impl Send for Table {}
// SAFETY: `&Table` only reads.
unsafe impl Sync for Table {}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.len).field("slots", &self.slots).finish()
    }
}

impl Table {
    pub(super) fn new(slabs: &Arc<Slabs>, layout: &ArenaLayout, index: usize) -> Self {
        // SAFETY: the layout keeps `tables` times this length before the first slab.
        let base = unsafe { slabs.base.add(layout.table_len() * index) };
        let rows = layout.rows();
        // SAFETY: `BEFORE` bytes per row times all rows are before the column, all in the table.
        // The product is a multiple of 64, so the column is aligned.
        let starts = array::from_fn(|index| unsafe { base.add(BEFORE[index] * rows) });
        Self {
            slabs: Arc::clone(slabs),
            base,
            starts,
            slots: layout.slots(),
            rows,
            scratch_words: layout.scratch_words,
            len: 0,
            first: (Headers::default(), 0),
            alike: false,
            compared: 0,
            pieces: Vec::with_capacity(layout.slots() + layout.emit_slabs),
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    #[inline(always)]
    pub(super) fn start_of<C: Column>(&self) -> *mut C::Value {
        self.starts[C::INDEX].as_ptr().cast()
    }

    /// Headers and link of the first row, if all rows agree with them: the same link and IP
    /// version, the same start of the IP header, and the same error or none.
    #[inline]
    pub(crate) fn alike(&self) -> Option<(&Headers, u16)> {
        let alike = self.alike && self.compared == self.len;
        alike.then_some((&self.first.0, self.first.1))
    }

    /// A row's headers are about to change.
    #[inline(always)]
    pub(crate) fn set_unalike(&mut self) {
        self.alike = false;
    }

    /// The rows of a column.
    #[inline(always)]
    pub(crate) fn column<C: Column>(&self, _: C) -> &[C::Value] {
        // SAFETY: the column has `slots >= len` initialised values (zeroed memory, plain integers).
        unsafe { slice::from_raw_parts(self.start_of::<C>(), self.len) }
    }

    /// The rows of a column, to write.
    #[inline(always)]
    pub(crate) fn column_mut<C: Column>(&mut self, _: C) -> &mut [C::Value] {
        // SAFETY: as in `column`; `&mut self` is the only way to the rows.
        unsafe { slice::from_raw_parts_mut(self.start_of::<C>(), self.len) }
    }

    /// The rows of a scratch word; none where the chain handed out fewer words.
    #[inline(always)]
    pub(crate) fn scratch(&self, word: usize) -> &[u32] {
        let len = if word < self.scratch_words { self.len } else { 0 };
        // SAFETY: the scratch columns follow the others, `4 * rows` bytes each.
        unsafe { slice::from_raw_parts(self.scratch_start(word), len) }
    }

    /// The rows of a scratch word, to write.
    #[inline(always)]
    pub(crate) fn scratch_mut(&mut self, word: usize) -> &mut [u32] {
        let len = if word < self.scratch_words { self.len } else { 0 };
        // SAFETY: as in `scratch`.
        unsafe { slice::from_raw_parts_mut(self.scratch_start(word), len) }
    }

    #[inline(always)]
    fn scratch_start(&self, word: usize) -> *mut u32 {
        let word = word.min(self.scratch_words);
        // SAFETY: at most one past the last word's column.
        unsafe { self.base.as_ptr().add((ROW_LEN + 4 * word) * self.rows).cast() }
    }

    /// The start of its arena.
    pub(crate) fn arena(&self) -> NonNull<u8> {
        self.slabs.base
    }

    /// The bytes of the arena that the table has, including rows after the last used one.
    pub(crate) fn range(&self) -> Range<usize> {
        let start = self.base.as_ptr() as usize - self.slabs.base.as_ptr() as usize;
        start..start + (ROW_LEN + 4 * self.scratch_words) * self.rows
    }

    /// Copies the cells of some rows of a column to `to`. The column has `width` bytes, with
    /// `before` bytes of a row before it. Copies nothing if the rows don't exist or `to` has
    /// another length.
    #[inline(always)]
    pub(crate) fn copy_cells(
        &self,
        before: usize,
        width: usize,
        rows: Range<usize>,
        to: &mut [u8],
    ) {
        let end = before * self.rows + width * rows.end;
        let is_there = rows.end <= self.rows && end <= self.range().len();
        if is_there && rows.start <= rows.end && to.len() == width * rows.len() {
            // SAFETY: the table's bytes are initialised integers within the arena and only read;
            // `to` is other memory.
            unsafe {
                let from = self.base.as_ptr().add(end - to.len());
                ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
            }
        }
    }

    /// Clears the rows. Scratch words of new ones are zero, and so are the columns for verdicts.
    pub(super) fn reset(&mut self) {
        self.column_mut(Mirrored).fill(0);
        self.column_mut(NextHop).fill(0);
        self.column_mut(Left).fill(0);
        self.column_mut(VerdictOf).fill(0);
        self.column_mut(ReasonOf).fill(0);
        self.column_mut(DroppedBy).fill(0);
        self.column_mut(Flagged).fill(0);
        for word in 0..self.scratch_words {
            self.scratch_mut(word).fill(0);
        }
        (self.len, self.compared) = (0, 0);
    }

    /// Forgets which slabs it has pieces of, so that they are never given back.
    pub(crate) fn abandon(&mut self) {
        self.pieces.clear();
    }

    /// Forgets every row and gives its pieces of slabs back.
    pub(crate) fn clear(&mut self) {
        self.reset();
        for slab in self.pieces.drain(..) {
            self.slabs.give_back(slab);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.clear();
    }
}
