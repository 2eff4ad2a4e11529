//! A tray: rows on their way into a table.
//!
//! Safety: a tray is memory of its own, an array of [`TRAY_ROWS`] rows. Its columns lie in it as `columns!` says, and whoever writes a row
//! keeps to that number; any bytes are values of a column.

#![allow(unsafe_code)]

use core::slice;

use super::columns::*;
use crate::{Arrival, Headers};

/// What a row says besides where its frame lies.
pub(crate) struct Row<'a> {
    pub(crate) headers: &'a Headers,
    pub(crate) arrival: &'a Arrival,
}

/// A frame's room, and where the frame lies in it.
pub(super) struct Room {
    pub(super) at: u32,
    pub(super) len: u32,
    pub(super) start: u16,
    pub(super) frame: u32,
}

/// Rows of a tray.
pub(crate) const TRAY_ROWS: usize = 32;

/// Rows on their way into a table: columns at fixed places, so that a row is written with one instruction a
/// column, and copied to the table many at once.
#[repr(C, align(64))]
pub(super) struct Tray {
    columns: [u8; ROW_LEN * TRAY_ROWS],
    /// Never more than [`TRAY_ROWS`].
    pub(super) len: usize,
}

impl Tray {
    pub(super) fn new() -> Self {
        Self { len: 0, columns: [0; _] }
    }

    #[inline(always)]
    pub(super) fn start_of<C: Column>(&mut self) -> *mut C::Value {
        // `BEFORE` bytes a row times all rows lie before the column, which the alignment and the order of
        // the columns keep aligned.
        self.columns[C::BEFORE * TRAY_ROWS..].as_mut_ptr().cast()
    }

    /// The rows of a column. All are read through `&`: a second `start_of` would end what the first may do.
    #[inline(always)]
    pub(super) fn rows<C: Column>(&self, _: C) -> &[C::Value] {
        let start = self.columns[C::BEFORE * TRAY_ROWS..].as_ptr().cast();
        // SAFETY: the column has `TRAY_ROWS` values, aligned as in `start_of`, and no more rows were written.
        unsafe { slice::from_raw_parts(start, self.len) }
    }

    /// # Safety
    /// `row` must be below `TRAY_ROWS`.
    #[inline(always)]
    unsafe fn put<C: Column>(&mut self, _: C, row: usize, value: C::Value) {
        // SAFETY: the column has `TRAY_ROWS` values.
        unsafe { self.start_of::<C>().add(row).write(value) }
    }

    /// Writes the next row and gives how many there are now; the columns that are not named stay zero.
    ///
    /// # Safety
    /// There must be fewer than `TRAY_ROWS`.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, room: Room, row: &Row) -> usize {
        let (at, arrival) = (self.len, row.arrival);
        debug_assert!(at < TRAY_ROWS);
        // SAFETY: `at` is a row.
        unsafe {
            self.put(HeadersOf, at, *row.headers);
            self.put(Timestamp, at, arrival.timestamp.as_nanos());
            self.put(Captured, at, arrival.captured.as_nanos());
            self.put(Ingress, at, arrival.ingress);
            self.put(RoomAt, at, room.at);
            self.put(RoomLen, at, room.len);
            self.put(FrameLen, at, room.frame);
            self.put(WireLen, at, arrival.wire_len);
            self.put(FlowHash, at, arrival.flow_hash);
            self.put(Start, at, room.start);
            self.put(Interface, at, arrival.interface);
            self.put(Link, at, arrival.link.0);
            self.put(ShardOf, at, arrival.shard);
        }
        self.len = at + 1;
        self.len
    }
}
