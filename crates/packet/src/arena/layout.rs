//! How an arena divides its memory, and the errors if it cannot be made or is full.

use core::fmt;

use super::columns::ROW_LEN;
use crate::wire::ethernet;

/// Size of a slab in bytes.
pub const SLAB_LEN: usize = 1 << 20;
/// Rooms start and end at multiples of this many bytes: a cache line.
pub const ALIGN: usize = 64;
/// With headroom, the bytes after an Ethernet header start at multiples of this: the most that an
/// item of a kernel reads or writes at once. Without headroom, frames start where rooms do, to use
/// as few cache lines as possible.
const L3_ALIGN: usize = 16;
/// Most bytes a frame and its head- and tailroom may take.
pub const ROOM_LEN_MAX: usize = SLAB_LEN;

/// Rows of the largest table: places in it are 16-bit numbers.
const SLOTS_MAX: usize = 1 << 16;
/// The limit of any other number of a layout. 32-bit offsets allow fewer slabs, and a frame's start
/// has 16 bits.
const COUNT_MAX: usize = 1 << 15;

/// How an arena divides its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaLayout {
    /// Slabs for packets from outside.
    pub slabs: usize,
    /// Slabs for packets that functions make.
    pub emit_slabs: usize,
    /// Descriptor tables, one a batch.
    pub tables: usize,
    /// Rows of a table; rounded up to a multiple of 64.
    pub slots: usize,
    /// Scratch words a row has.
    pub scratch_words: usize,
    /// Bytes kept free before each frame; rounded up ([`frame_start`]).
    pub headroom: usize,
    /// Bytes kept free after each frame.
    pub tailroom: usize,
}

/// Where frames start in their rooms, with at least so much headroom.
pub fn frame_start(headroom: usize) -> usize {
    match headroom {
        0 => 0,
        _ => (headroom + ethernet::HEADER_LEN).next_multiple_of(L3_ALIGN) - ethernet::HEADER_LEN,
    }
}

impl ArenaLayout {
    /// Of nothing.
    pub const NONE: Self = Self {
        slabs: 0,
        emit_slabs: 0,
        tables: 0,
        slots: 0,
        scratch_words: 0,
        headroom: 0,
        tailroom: 0,
    };

    pub(crate) fn slots(&self) -> usize {
        self.slots.clamp(1, SLOTS_MAX).next_multiple_of(ALIGN)
    }

    /// Rows that a column has memory for.
    pub fn rows(&self) -> usize {
        self.slots()
    }

    /// Bytes of a row of a table.
    pub fn row_len(&self) -> usize {
        ROW_LEN + 4 * self.scratch_words
    }

    /// Bytes of a table.
    pub fn table_len(&self) -> usize {
        self.row_len() * self.rows()
    }

    pub(crate) fn slabs_at(&self) -> usize {
        (self.table_len() * self.tables).next_multiple_of(SLAB_LEN)
    }

    /// Bytes of memory that the arena needs; the largest number where it is beyond all bounds.
    pub fn memory_len(&self) -> usize {
        // Every number is small, so that no product wraps here or when the arena is divided.
        let counts = [self.slabs, self.emit_slabs, self.tables, self.scratch_words];
        if counts.into_iter().chain([self.headroom, self.tailroom]).any(|n| n > COUNT_MAX)
            || self.slots > SLOTS_MAX
        {
            return usize::MAX;
        }
        self.slabs_at() + (self.slabs + self.emit_slabs) * SLAB_LEN
    }
}

/// Why an arena can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaError {
    /// The memory given is smaller than the layout asks for.
    TooSmall {
        /// Bytes the layout asks for.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// Offsets are 32 bits: an arena holds at most 4 GiB.
    TooLarge,
    /// The memory is not aligned to 64 bytes.
    Unaligned,
}

impl fmt::Display for ArenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { needed, given } => {
                write!(f, "the arena needs {needed} bytes and was given {given}")
            }
            Self::TooLarge => f.write_str("an arena holds at most 4 GiB"),
            Self::Unaligned => f.write_str("the arena's memory is not aligned to 64 bytes"),
        }
    }
}

impl std::error::Error for ArenaError {}

/// Why a frame could not be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The table has no row left.
    Table,
    /// No slab is free.
    Arena,
    /// The frame and its rooms are larger than a slab.
    Frame,
}
