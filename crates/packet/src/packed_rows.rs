//! Packed rows of a launch's table, as they cross to a device. Each has eight bytes: a packet's
//! place, its length and the number of its *shape*. A shape is everything else that the table has
//! about a packet. Most packets of a launch share it, so a launch has few shapes.
//!
//! The shapes follow the rows. A kernel (`kernels/packed_rows.cl` of `warpline-launch`) writes the
//! table's columns from both, before any other kernel runs. A launch whose packets don't fit
//! crosses column by column.

use crate::arena::{DroppedBy, Flagged, Left, Link, NextHop, ReasonOf, VerdictOf, WireLen};
use crate::{ALIGN, Batch, BatchRows, Columns};

/// Bytes of a packed row.
pub const PACKED_ROW_LEN: usize = 8;
/// Bytes of a shape.
const SHAPE_LEN: usize = 32;
/// Shapes of a launch.
const SHAPES_MAX: usize = 128;
const SLOTS: usize = 256;

/// The part that all packets of a shape share: the table's columns but for places and lengths.
type Shape = [u64; SHAPE_LEN / 8];

/// Finds the shapes of a launch's packets. Allocates nothing once made.
#[derive(Clone, Debug)]
pub struct RowPacker {
    /// The bits of a shape that devices look at.
    mask: Shape,
    needs_room_len: bool,
    shapes: Vec<Shape>,
    /// By hash the number of a shape, from 1; 0 is free.
    slots: [u8; SLOTS],
    /// The shape of the packet before, and its number.
    last: (Shape, u8),
}

impl RowPacker {
    /// For launches of which devices look at these columns.
    pub fn new(columns: Columns) -> Self {
        let bits = |is_there: bool, bits: u64| if is_there { bits } else { 0 };
        let mask = [
            !0,
            !0,
            bits(columns.has(WireLen), 0xffff_ffff) | bits(columns.has(NextHop), 0xffff << 32),
            0xffff
                | bits(columns.has(ReasonOf), 0xff << 16)
                | bits(columns.has(DroppedBy), 0xff << 24)
                | bits(columns.has(Flagged), 0xff << 32),
        ];
        let needs_room_len = columns.has_room_len();
        let shapes = Vec::with_capacity(SHAPES_MAX);
        Self { mask, needs_room_len, shapes, slots: [0; SLOTS], last: ([0; 4], 0) }
    }

    /// Bytes that packed rows of a launch of so many packets take at most.
    pub const fn len_max(rows: usize) -> usize {
        rows * PACKED_ROW_LEN + SHAPES_MAX * SHAPE_LEN
    }

    /// Forgets the launch before.
    pub fn clear(&mut self) {
        self.shapes.clear();
        self.slots = [0; SLOTS];
        self.last = ([0; 4], 0);
    }

    /// Packs the packets of `batch` that are in `rows`, into `to`. Returns whether they fit;
    /// otherwise the launch can't be packed.
    pub fn pack(&mut self, batch: &Batch, rows: BatchRows<'_>, to: &mut [u8]) -> bool {
        rows.each().all(|(row, at)| {
            let cell = to.get_mut(at * PACKED_ROW_LEN..).and_then(<[u8]>::first_chunk_mut);
            let packed = self.row(batch, row).map(u64::to_le_bytes);
            cell.zip(packed).map(|(cell, packed)| *cell = packed).is_some()
        })
    }

    /// Writes the shapes after `rows` rows; returns the bytes of both.
    pub fn finish(&self, rows: usize, to: &mut [u8]) -> usize {
        let first = rows * PACKED_ROW_LEN;
        let cells = to[first..].chunks_exact_mut(SHAPE_LEN);
        for (cell, shape) in cells.zip(&self.shapes) {
            for (to, word) in cell.chunks_exact_mut(8).zip(shape) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        }
        first + self.shapes.len() * SHAPE_LEN
    }

    #[inline(always)]
    fn row(&mut self, batch: &Batch, row: usize) -> Option<u64> {
        let table = &batch.table;
        let (room, start) = (table.room(row), table.start(row));
        let (len, end) = (table.frame_len(row), batch.headers(row).end as usize);
        let behind = u8::try_from(len.checked_sub(end)?).ok()?;
        let len = u16::try_from(len).ok()?;
        let spare = match self.needs_room_len {
            true => {
                let held = (start + usize::from(len)).next_multiple_of(ALIGN);
                room.len().checked_sub(held)? / ALIGN
            }
            false => 0,
        };
        if spare >= ALIGN {
            return None;
        }
        let shape = self.shape_of(batch, row)?;
        let at = (room.start | spare) as u32;
        Some(
            u64::from(at) | u64::from(len) << 32 | u64::from(behind) << 48 | u64::from(shape) << 56,
        )
    }

    #[inline(always)]
    fn shape_of(&mut self, batch: &Batch, row: usize) -> Option<u8> {
        let mut shape = shape(batch, row);
        shape.iter_mut().zip(self.mask).for_each(|(word, mask)| *word &= mask);
        if self.last.1 == 0 || self.last.0 != shape {
            self.last = (shape, self.find(shape)?);
        }
        Some(self.last.1 - 1)
    }

    fn find(&mut self, shape: Shape) -> Option<u8> {
        let mixed = shape.iter().fold(0u64, |mixed, word| {
            (mixed.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let mut at = (mixed >> 56) as usize;
        loop {
            match self.slots[at] {
                0 if self.shapes.len() == SHAPES_MAX => return None,
                0 => {
                    self.shapes.push(shape);
                    self.slots[at] = self.shapes.len() as u8;
                    return Some(self.slots[at]);
                }
                number if self.shapes[usize::from(number) - 1] == shape => return Some(number),
                _ => at = (at + 1) % SLOTS,
            }
        }
    }
}

/// The shape of a packet, as the kernel takes it apart.
#[inline(always)]
fn shape(batch: &Batch, row: usize) -> Shape {
    let (table, headers) = (&batch.table, batch.headers(row));
    let at = |value: u16, shift: u32| u64::from(value) << shift;
    let byte = |value: u8, shift: u32| u64::from(value) << shift;
    let cut = table.column(WireLen)[row].wrapping_sub(table.frame_len(row) as u32);
    [
        at(headers.l3, 0) | at(headers.l4, 16) | at(headers.payload, 32) | at(headers.flags.0, 48),
        byte(headers.version, 0)
            | byte(headers.protocol, 8)
            | byte(headers.lie(), 16)
            | at(table.column(Link)[row], 32)
            | at(table.start(row) as u16, 48),
        u64::from(cut) | at(table.column(NextHop)[row], 32),
        byte(table.column(Left)[row], 0)
            | byte(table.column(VerdictOf)[row], 8)
            | byte(table.column(ReasonOf)[row], 16)
            | byte(table.column(DroppedBy)[row], 24)
            | byte(table.column(Flagged)[row], 32),
    ]
}

#[cfg(test)]
#[path = "packed_rows_tests.rs"]
mod tests;
