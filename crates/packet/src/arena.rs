//! The arena: one lane's packets in memory it was given. Only its files have `unsafe` code in this
//! crate.
//!
//! A [`Memory`] is divided once, when the chain is built: first the tables of descriptors
//! (structure of arrays, no pointers), then slabs of 1 MiB. A [`Placer`] copies frames into its
//! current slab, 64 B aligned, each into a *room* of its own. The descriptor that names the room is
//! in a [`Table`], which is moved, never shared. A row may get another room; its old one is not
//! reused before the table is cleared. A slab is free again when the last table with a piece of it
//! is cleared. That count is the only thing that threads share.
//!
//! Safety rests on four facts. The head of each file states which of them it relies on and which it
//! guarantees:
//!
//! - a room belongs to one row only (`placer.rs`, by the counts of `slabs.rs`; `merge.rs` where
//!   rows move);
//! - only the placer and `merge` write the columns that name rooms, always within the slab;
//! - only `frames.rs` changes where a frame is in its room, always within the room;
//! - a table's rows (`table.rs`) and rooms (`frames.rs`) are reached through `&` and `&mut` of the
//!   table alone.
//!
//! Sizes are computed in `layout.rs`, positions of columns in `columns.rs`.

mod columns;
mod frames;
mod layout;
mod memory;
mod merge;
mod placer;
mod prefetch;
mod rows;
mod slabs;
mod table;

use core::fmt;
use std::sync::Arc;

use slabs::Slabs;

pub(crate) use columns::{
    COLUMNS, Captured, Column, DroppedBy, Flagged, FlowHash, HeadersOf, Ingress, Interface, Left,
    Link, Mirrored, NextHop, ROW_LEN, ReasonOf, ShardOf, Timestamp, VerdictOf, WIDTHS, WireLen,
};
pub use layout::{ALIGN, ArenaError, ArenaLayout, Full, ROOM_LEN_MAX, SLAB_LEN, frame_start};
pub use memory::{HeapMemory, Memory};
pub use placer::Placer;
pub use prefetch::{prefetch, prefetch_all};
pub(crate) use rows::Row;
pub use table::Table;

/// The parts of an arena: the tables, and the two placers that fill them.
pub struct Arena {
    /// Places packets from outside.
    pub ingress: Placer,
    /// Places packets that functions make, in slabs of its own.
    pub emit: Placer,
    /// The tables, all empty.
    pub tables: Vec<Table>,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("tables", &self.tables.len()).finish_non_exhaustive()
    }
}

impl Arena {
    /// Divides `memory` by `layout`.
    pub fn new(memory: Box<dyn Memory>, layout: &ArenaLayout) -> Result<Self, ArenaError> {
        let needed = layout.memory_len();
        if needed > u32::MAX as usize {
            return Err(ArenaError::TooLarge);
        }
        if memory.len() < needed {
            return Err(ArenaError::TooSmall { needed, given: memory.len() });
        }
        if !(memory.base().as_ptr() as usize).is_multiple_of(ALIGN) {
            return Err(ArenaError::Unaligned);
        }
        let count = layout.slabs + layout.emit_slabs;
        let slabs = Arc::new(Slabs::new(memory, layout.slabs_at(), count));
        Ok(Self {
            ingress: Placer::new(&slabs, layout, 0, layout.slabs),
            emit: Placer::new(&slabs, layout, layout.slabs, layout.emit_slabs),
            tables: (0..layout.tables).map(|i| Table::new(&slabs, layout, i)).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
