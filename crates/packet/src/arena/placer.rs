//! A placer: it copies frames into slabs, each into a room of its own, and fills a table with their
//! rows.
//!
//! Safety: this file guarantees that a room belongs to one row only. A placer hands out the bytes
//! of a slab in order, each once. It starts a slab anew only when [`Slabs`] finds that no table has
//! a piece of it. No two placers of an arena share a slab, and a table that gets a room is counted
//! with its slab before anyone can ask. Rooms end within their slab.

#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use std::sync::Arc;

use super::columns::{FrameLen, Mirrored, RoomAt, RoomLen, Start};
use super::layout::{ALIGN, ArenaLayout, Full, SLAB_LEN, frame_start};
use super::rows::Row;
use super::slabs::Slabs;
use super::table::Table;

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
    headroom: usize,
    /// Head- and tailroom, and what rounds a room up.
    around: usize,
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
        }
    }

    /// Places frames as the next rows of `table`, each with its other columns. Places as many as
    /// fit in one slab, at least one if there is any, and returns their number.
    ///
    /// Frames go first and columns after them, so that each loop needs few values at hand.
    #[inline(always)]
    pub(crate) fn place<'a>(
        &mut self,
        table: &mut Table,
        rows: impl Iterator<Item = (&'a [u8], Row<'a>)> + Clone,
    ) -> Result<usize, Full> {
        let Some((bytes, _)) = rows.clone().next() else { return Ok(0) };
        self.make_room(table, self.room_len(bytes))?;
        let count = self.place_frames(table, rows.clone().map(|(bytes, _)| bytes));
        if table.pieces.last() != Some(&self.slab) {
            self.take_piece(table);
        }
        table.append(count, rows.map(|(_, row)| row));
        Ok(count)
    }

    /// Gives frames rooms and writes their places after the last row of `table`, while it has rows
    /// and the current slab has room. Returns their number.
    #[inline(always)]
    fn place_frames<'a>(
        &mut self,
        table: &Table,
        frames: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> usize {
        let limit = self.slab_at + SLAB_LEN;
        let mut at = self.slab_at + self.cursor;
        let (rooms, frame_lens) = (table.start_of::<RoomAt>(), table.start_of::<FrameLen>());
        let (headroom, around, base) = (self.headroom, self.around, self.base.as_ptr());
        let mut end = table.len;
        for (row, bytes) in (table.len..table.slots).zip(frames) {
            let need = (bytes.len() + around) & !(ALIGN - 1);
            if at + need > limit {
                break;
            }
            // SAFETY: the row is below `slots` and unused. The room ends before `limit`, so it is
            // in a slab that only this placer hands out, after all rooms handed out before. `need`
            // includes the frame after its headroom.
            unsafe {
                rooms.add(row).write(at as u32);
                frame_lens.add(row).write(bytes.len() as u32);
                copy_frame(bytes, base.add(at + headroom));
            }
            at += need;
            end = row + 1;
        }
        self.cursor = at - self.slab_at;
        let (lens, starts) = (table.start_of::<RoomLen>(), table.start_of::<Start>());
        for row in table.len..end {
            // SAFETY: the row is below `slots`, and its frame's length was written above. The
            // room's length is what that frame needed.
            unsafe {
                lens.add(row).write((*frame_lens.add(row) + around as u32) & !(ALIGN as u32 - 1));
                starts.add(row).write(headroom as u16);
            }
        }
        end - table.len
    }

    /// Bytes of the room of a frame.
    #[inline(always)]
    fn room_len(&self, bytes: &[u8]) -> usize {
        (bytes.len() + self.around) & !(ALIGN - 1)
    }

    /// Gives `table` a piece of the current slab.
    fn take_piece(&self, table: &mut Table) {
        self.slabs.count_piece(self.slab);
        table.pieces.push(self.slab);
    }

    /// Gives row `row` of `table` another room with `bytes` as its frame, and changes no other
    /// column. Without room, nothing changed.
    pub(crate) fn replace(
        &mut self,
        table: &mut Table,
        row: usize,
        bytes: &[u8],
    ) -> Result<(), Full> {
        // A room of another arena would lie outside of this table's memory.
        assert!(Arc::ptr_eq(&self.slabs, &table.slabs), "placer and table of one arena");
        assert!(row < table.len);
        let need = self.room_len(bytes);
        self.rewind();
        if self.cursor + need > SLAB_LEN {
            self.open(need)?;
        }
        let at = self.slab_at + self.cursor;
        self.cursor += need;
        // SAFETY: the room ends within a slab that only this placer hands out, after all rooms
        // handed out since the slab was free. `need` includes the frame after its headroom.
        unsafe {
            copy_frame(bytes, self.base.as_ptr().add(at + self.headroom));
        }
        // One piece per slab, so the pieces are at most the slabs plus those of placed rows.
        if !table.pieces.contains(&self.slab) {
            self.take_piece(table);
        }
        table.column_mut(RoomAt)[row] = at as u32;
        table.column_mut(RoomLen)[row] = need as u32;
        table.column_mut(Start)[row] = self.headroom as u16;
        table.column_mut(FrameLen)[row] = bytes.len() as u32;
        // No mirror has anything there.
        table.column_mut(Mirrored)[row] = 0;
        Ok(())
    }

    /// Makes room for a frame that needs `need` bytes, and for its row.
    #[inline(always)]
    fn make_room(&mut self, table: &Table, need: usize) -> Result<(), Full> {
        // A room of another arena would lie outside of this table's memory.
        assert!(Arc::ptr_eq(&self.slabs, &table.slabs), "placer and table of one arena");
        if table.len == table.slots {
            return Err(Full::Table);
        }
        if table.len == 0 {
            self.rewind();
        }
        if self.cursor + need > SLAB_LEN {
            self.open(need)?;
        }
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

/// Copies a frame to `to`. Most frames are small and are copied in two pieces that may overlap,
/// which is cheaper than a call.
///
/// # Safety
/// `to` must be valid for writes of `bytes.len()` bytes and must not overlap `bytes`.
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
