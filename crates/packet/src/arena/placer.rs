//! A placer: it copies frames into slabs, each into a room of its own, and fills a table with their rows.
//!
//! Safety: this file keeps that a room is handed to one row only. A placer hands out the bytes of a slab from the front on, each
//! once, and starts a slab anew only when [`Slabs`] says that no table has a piece of it; no two placers of an arena have a slab in common, and a table
//! that gets a room is counted with its slab before anybody can ask. Rooms end where their slab does, or before.

#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use std::sync::Arc;

use super::columns::{FrameLen, RoomAt, RoomLen, Start};
use super::layout::{ALIGN, ArenaLayout, Full, SLAB_LEN, frame_start};
use super::slabs::Slabs;
use super::table::Table;
use super::tray::{Room, Row, TRAY_ROWS, Tray};

/// Copies frames into slabs, each into a room of its own.
pub struct Placer {
    slabs: Arc<Slabs>,
    /// The arena's first byte.
    base: NonNull<u8>,
    first: u32,
    count: u32,
    /// The slab being filled, if it holds one.
    slab: u32,
    /// Where it lies in the arena.
    slab_at: usize,
    holds: bool,
    /// Where the next room starts in it; its end while it holds none.
    cursor: usize,
    /// Where rooms have to end: the slab's end; 0 while the tray is empty.
    limit: usize,
    headroom: usize,
    /// Head- and tailroom, and what rounds a room up.
    around: usize,
    /// Rows placed and not yet settled, all of rooms in the current slab.
    tray: Box<Tray>,
    /// Rows that the tray may take: no more than the table has.
    tray_rows: usize,
}

// SAFETY: the address is that of the shared memory, which may be sent and shared.
unsafe impl Send for Placer {}

impl Placer {
    /// One that fills `count` slabs from `first` on.
    pub(super) fn new(
        slabs: &Arc<Slabs>,
        layout: &ArenaLayout,
        first: usize,
        count: usize,
    ) -> Self {
        let headroom = frame_start(layout.headroom);
        Self {
            slabs: Arc::clone(slabs),
            base: slabs.base,
            first: first as u32,
            count: count as u32,
            slab: first as u32,
            slab_at: 0,
            holds: false,
            cursor: SLAB_LEN,
            headroom,
            around: headroom + layout.tailroom + ALIGN - 1,
            limit: 0,
            tray_rows: 0,
            tray: Box::new(Tray::new()),
        }
    }

    /// Places `bytes` as the next row of `table`, which says `row` besides. The row is `table`'s when it is
    /// settled, and has to be before rows of another table are placed.
    #[inline(always)]
    pub(crate) fn place(&mut self, table: &mut Table, bytes: &[u8], row: &Row) -> Result<(), Full> {
        let need = (bytes.len() + self.around) & !(ALIGN - 1);
        if self.cursor + need > self.limit {
            self.make_room(table, need)?;
        }
        let at = self.slab_at + self.cursor;
        self.cursor += need;
        let (start, frame) = (self.headroom as u16, bytes.len() as u32);
        let room = Room { at: at as u32, len: need as u32, start, frame };
        // SAFETY: the tray has a row: `make_room` left it empty, and it is emptied when it is full.
        let rows = unsafe { self.tray.push(room, row) };
        // Last, as a long copy is a call that would have all of the above put aside.
        // SAFETY: the room ends before `limit`, so it lies in a slab that only this placer hands out, behind
        // all rooms handed out before; `need` holds the frame behind its headroom.
        unsafe {
            copy_frame(bytes, self.base.as_ptr().add(at + self.headroom));
        }
        if rows == self.tray_rows {
            self.settle(table);
        }
        Ok(())
    }

    /// Makes the rows on the tray the last ones of `table`.
    #[inline(never)]
    pub(crate) fn settle(&mut self, table: &mut Table) {
        // The next row asks for room anew, in whatever table.
        self.limit = 0;
        if self.tray.len == 0 {
            return;
        }
        // A room of another arena would lie outside of this table's memory.
        assert!(Arc::ptr_eq(&self.slabs, &table.slabs), "placer and table of one arena");
        assert!(table.len + self.tray.len <= table.slots, "rows are placed for one table");
        // All of them lie in the current slab: they are settled before another is opened.
        if table.pieces.last() != Some(&self.slab) {
            self.take_piece(table);
        }
        table.append(&mut self.tray);
    }

    /// Gives `table` a piece of the current slab.
    fn take_piece(&self, table: &mut Table) {
        self.slabs.count_piece(self.slab);
        table.pieces.push(self.slab);
    }

    /// Gives row `row` of `table` another room, with `bytes` as its frame, and says nothing else of it. Where there is no
    /// room, nothing changed.
    pub(crate) fn replace(
        &mut self,
        table: &mut Table,
        row: usize,
        bytes: &[u8],
    ) -> Result<(), Full> {
        // A room of another arena would lie outside of this table's memory.
        assert!(Arc::ptr_eq(&self.slabs, &table.slabs), "placer and table of one arena");
        // Those on the tray have rooms in the current slab and no piece of it yet.
        assert!(self.tray.len == 0, "rows are settled before one is replaced");
        assert!(row < table.len);
        let need = (bytes.len() + self.around) & !(ALIGN - 1);
        self.rewind();
        if self.cursor + need > SLAB_LEN {
            self.open(need)?;
        }
        let at = self.slab_at + self.cursor;
        self.cursor += need;
        // SAFETY: the room ends within a slab that only this placer hands out, behind all rooms that it handed out of it
        // since it was free; `need` holds the frame behind its headroom.
        unsafe {
            copy_frame(bytes, self.base.as_ptr().add(at + self.headroom));
        }
        // One piece a slab, so that there are no more than slabs besides those of rows that were placed.
        if !table.pieces.contains(&self.slab) {
            self.take_piece(table);
        }
        table.column_mut(RoomAt)[row] = at as u32;
        table.column_mut(RoomLen)[row] = need as u32;
        table.column_mut(Start)[row] = self.headroom as u16;
        table.column_mut(FrameLen)[row] = bytes.len() as u32;
        Ok(())
    }

    /// Makes room for a frame that needs `need` bytes, and for its row in an empty tray.
    #[inline(never)]
    fn make_room(&mut self, table: &mut Table, need: usize) -> Result<(), Full> {
        self.settle(table);
        if table.len == table.slots {
            return Err(Full::Table);
        }
        self.tray_rows = TRAY_ROWS.min(table.slots - table.len);
        if table.len == 0 {
            self.rewind();
        }
        if self.cursor + need > SLAB_LEN {
            self.open(need)?;
        }
        self.limit = SLAB_LEN;
        Ok(())
    }

    /// Whether at least `slabs` slabs are free besides the current one.
    pub fn has_free(&self, slabs: usize) -> bool {
        self.slabs.has_free(self.first..self.first + self.count, slabs)
    }

    /// Starts the current slab anew where every piece of it came back: it is still in the cache.
    fn rewind(&mut self) {
        if self.holds && self.slabs.has_no_pieces(self.slab) {
            self.cursor = 0;
        }
    }

    #[cold]
    fn open(&mut self, need: usize) -> Result<(), Full> {
        if need > SLAB_LEN {
            return Err(Full::Frame);
        }
        // The lowest free one: what is used stays small, and in the cache.
        for slab in self.first..self.first + self.count {
            if self.slabs.take(slab) {
                self.close();
                (self.slab, self.holds, self.cursor) = (slab, true, 0);
                self.slab_at = self.slabs.at(slab);
                return Ok(());
            }
        }
        Err(Full::Arena)
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.holds) {
            self.slabs.give_back(self.slab);
            self.cursor = SLAB_LEN;
        }
    }
}

impl Drop for Placer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Copies a frame to `to`. Small ones, of which there are most, by two pieces that may overlap: a call
/// costs more than they do.
///
/// # Safety
/// `to` must be valid for writes of as many bytes as `bytes` has, none of them in `bytes`.
#[inline(always)]
unsafe fn copy_frame(bytes: &[u8], to: *mut u8) {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: each piece is not longer than the frame, and ends where it ends or before.
    unsafe {
        match len {
            32..=64 => {
                ptr::copy_nonoverlapping(from, to, 32);
                ptr::copy_nonoverlapping(from.add(len - 32), to.add(len - 32), 32);
            }
            65..=128 => {
                ptr::copy_nonoverlapping(from, to, 64);
                ptr::copy_nonoverlapping(from.add(len - 64), to.add(len - 64), 64);
            }
            _ => ptr::copy_nonoverlapping(from, to, len),
        }
    }
}
