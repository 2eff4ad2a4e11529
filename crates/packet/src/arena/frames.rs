//! The frames that a table's rows name, each in its room.
//!
//! Safety: the placer guarantees that a room belongs to one row. It is in a slab that counts this
//! table, so it is not handed out again before the table is cleared. Only the placer and `merge`
//! write the columns that name rooms. The columns with a frame's position change here only, and
//! only to values within the room. So a frame is reached like its row: through `&` and `&mut` of
//! the table.

#![allow(unsafe_code)]

use core::ops::Range;
use core::slice;

use super::columns::*;
use super::table::Table;

impl Table {
    /// Where the frame starts in its room.
    #[inline(always)]
    pub(crate) fn start(&self, row: usize) -> usize {
        self.column(Start)[row] as usize
    }

    /// Length of the frame in bytes.
    #[inline(always)]
    pub(crate) fn frame_len(&self, row: usize) -> usize {
        self.column(FrameLen)[row] as usize
    }

    /// Lengths of all frames.
    pub(crate) fn frame_lens(&self) -> &[u32] {
        self.column(FrameLen)
    }

    /// Offset of the frame in the arena.
    pub(crate) fn offset(&self, row: usize) -> usize {
        self.column(RoomAt)[row] as usize + self.start(row)
    }

    /// The frame's bytes.
    #[inline(always)]
    pub(crate) fn frame(&self, row: usize) -> &[u8] {
        let (at, len) = (self.offset(row), self.frame_len(row));
        // SAFETY: the frame is in its room (`Placer`, `set_frame`, `reshape`), which no other row
        // has.
        unsafe { slice::from_raw_parts(self.slabs.base.as_ptr().add(at), len) }
    }

    /// The frame's bytes, to write.
    #[inline(always)]
    pub(crate) fn frame_mut(&mut self, row: usize) -> &mut [u8] {
        let (at, len) = (self.offset(row), self.frame_len(row));
        // SAFETY: as in `frame`; `&mut self` is the only way to the row.
        unsafe { slice::from_raw_parts_mut(self.slabs.base.as_ptr().add(at), len) }
    }

    /// The frames of rows `rows`, cut to those that there are.
    #[inline(always)]
    pub(crate) fn frames(&self, rows: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let base = self.slabs.base.as_ptr();
        // SAFETY: as in `frame`.
        self.spans(rows).map(move |(at, len)| unsafe { slice::from_raw_parts(base.add(at), len) })
    }

    /// The frames of rows `rows`, to write, each with its row of column `C`.
    #[inline(always)]
    pub(crate) fn frames_mut<C: Column>(
        &mut self,
        rows: Range<usize>,
        _: C,
    ) -> impl Iterator<Item = (&mut [u8], &mut C::Value)> {
        let base = self.slabs.base.as_ptr();
        let rows = rows.start.min(self.len)..rows.end.min(self.len);
        let column = self.start_of::<C>();
        let spans = self.spans(rows.clone());
        // SAFETY: as in `frame_mut` and `column_mut`: `&mut self` is the only way to the rows, and
        // no two rows share a room or a value. The columns that `spans` reads are never handed out
        // for writing.
        rows.zip(spans).map(move |(row, (at, len))| unsafe {
            (slice::from_raw_parts_mut(base.add(at), len), &mut *column.add(row))
        })
    }

    /// The frames of `rows`, in ascending order, for writing. Indices without a row are skipped,
    /// and so is everything after one that is not larger than its predecessor.
    pub(crate) fn frames_at_mut(
        &mut self,
        rows: impl Iterator<Item = usize>,
    ) -> impl Iterator<Item = &mut [u8]> {
        let (base, len) = (self.slabs.base.as_ptr(), self.len);
        let mut least = 0;
        let own = rows.take_while(move |&row| {
            let grows = row >= least && row < len;
            least = row.saturating_add(1);
            grows
        });
        let spans: &Self = self;
        let spans = own.map(move |row| (spans.offset(row), spans.frame_len(row)));
        // SAFETY: as in `frame_mut`: `&mut self`, which the iterator keeps borrowed, is the only
        // way to the rows, and no row comes twice. The columns that `offset` and `frame_len` read
        // cannot be written meanwhile.
        spans.map(move |(at, len)| unsafe { slice::from_raw_parts_mut(base.add(at), len) })
    }

    /// Where the frames of `rows` lie in the arena, and how long they are.
    #[inline(always)]
    fn spans(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
        let rows = rows.start.min(self.len)..rows.end.min(self.len);
        let (room, start, len) =
            (self.start_of::<RoomAt>(), self.start_of::<Start>(), self.start_of::<FrameLen>());
        // SAFETY: the rows are below `len`.
        rows.map(move |row| unsafe {
            let at = room.add(row).read() as usize + start.add(row).read() as usize;
            (at, len.add(row).read() as usize)
        })
    }

    /// The bytes of the arena that are the row's room; no other row has them.
    pub(crate) fn room(&self, row: usize) -> Range<usize> {
        let at = self.column(RoomAt)[row] as usize;
        at..at + self.column(RoomLen)[row] as usize
    }

    /// Sets where the frame is in its room. Returns whether it fits; otherwise nothing changed.
    pub(crate) fn set_frame(&mut self, row: usize, start: u16, len: u32) -> bool {
        let fits = usize::from(start) + len as usize <= self.column(RoomLen)[row] as usize;
        if fits {
            self.column_mut(Start)[row] = start;
            self.column_mut(FrameLen)[row] = len;
        }
        fits
    }

    /// Where the columns that [`Table::set_frame`] writes lie: start and length.
    pub(crate) const FRAME_COLUMNS: (usize, usize) = (Start::BEFORE, FrameLen::BEFORE);

    /// The columns with a frame's place: start and length of its room, then start of the frame in
    /// the room and its length.
    pub(crate) const FRAME_PLACE: [usize; 4] =
        [RoomAt::INDEX, RoomLen::INDEX, Start::INDEX, FrameLen::INDEX];

    /// Moves the frame's start by `head` and its end by `tail` bytes within its room: negative
    /// `head` grows at the front, positive `tail` at the back. The part of its length on the wire
    /// that the frame lacks stays the same. Returns whether there was room.
    #[inline(always)]
    pub(crate) fn reshape(&mut self, row: usize, head: isize, tail: isize) -> bool {
        assert!(row < self.len);
        // SAFETY: the row is one of the table, as in `column_mut`.
        let (start_at, len_at, wire_at, room) = unsafe {
            (
                &mut *self.start_of::<Start>().add(row),
                &mut *self.start_of::<FrameLen>().add(row),
                &mut *self.start_of::<WireLen>().add(row),
                self.start_of::<RoomLen>().add(row).read() as isize,
            )
        };
        let (start, len) = (*start_at as isize, *len_at as isize);
        let new_start = start.saturating_add(head);
        let new_end = (start + len).saturating_add(tail);
        if new_start < 0 || new_end < new_start || new_end > room || new_start > u16::MAX as isize {
            return false;
        }
        let new_len = (new_end - new_start) as u32;
        *wire_at = new_len.saturating_add(wire_at.saturating_sub(*len_at));
        (*start_at, *len_at) = (new_start as u16, new_len);
        true
    }
}
