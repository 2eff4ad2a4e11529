//! Takes in the rows of another table, in ingress order.
//!
//! Safety: rows move with their rooms. Whole rows are copied, from below the other table's length
//! to below this one's, in columns that both have. The other table drops its rows and gives its
//! pieces of slabs to this one, so each room still belongs to one row.

#![allow(unsafe_code)]

use core::ptr;
use std::sync::Arc;

use super::columns::*;
use super::table::Table;

impl Table {
    /// Takes every row of `made`, each placed after the rows of this table whose ingress number is
    /// not larger. This table is in ingress order, and so is the result. `order` is room to sort
    /// in. Returns whether all of them fit; otherwise nothing moved.
    pub(crate) fn merge(&mut self, made: &mut Self, order: &mut Vec<u16>) -> bool {
        let (mut ours, mut theirs) = (self.len, made.len);
        if ours + theirs > self.slots
            || !Arc::ptr_eq(&self.slabs, &made.slabs)
            || self.scratch_words != made.scratch_words
        {
            return false;
        }
        self.alike &= theirs == 0;
        order.clear();
        order.extend(0..theirs as u16);
        let numbers = made.column(Ingress);
        order.sort_unstable_by_key(|&row| (numbers[usize::from(row)], row));
        self.len += theirs;
        let mut to = self.len;
        while theirs > 0 {
            to -= 1;
            let next = usize::from(order[theirs - 1]);
            let own_last = ours > 0 && self.column(Ingress)[ours - 1] > made.column(Ingress)[next];
            if own_last {
                ours -= 1;
                self.copy_row(None, ours, to);
            } else {
                theirs -= 1;
                self.copy_row(Some(made), next, to);
            }
        }
        self.pieces.append(&mut made.pieces);
        made.reset();
        true
    }

    /// Copies row `from` (of `other`, or of this table) over row `to`. Both rows exist in their
    /// tables.
    fn copy_row(&mut self, other: Option<&Self>, from: usize, to: usize) {
        assert!(to < self.len && from < other.map_or(self.len, |o| o.len));
        let (source, source_rows) = other.map_or((self.base, self.rows), |o| (o.base, o.rows));
        let mut before = 0;
        let scratch = core::iter::repeat_n(&4usize, self.scratch_words);
        for width in WIDTHS.iter().chain(scratch) {
            // SAFETY: both rows lie in their tables' columns (both are below their lengths); the
            // widths are those of the columns; `copy` allows the same row twice.
            unsafe {
                ptr::copy(
                    source.as_ptr().add(before * source_rows + width * from),
                    self.base.as_ptr().add(before * self.rows + width * to),
                    *width,
                );
            }
            before += width;
        }
    }
}
