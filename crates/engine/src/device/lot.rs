//! What each launch has of its own until it is released: the names of its packets, and their tables.

use warpline_device::{Buffer, Device, Failure, Piece};
use warpline_packet::{ALIGN, ArenaLayout, Batch, Columns};
use warpline_sched::{Batcher, LaunchLimits};

use super::mirror::Mirror;
use crate::stage::Flight;

/// Bytes by which a launch's list names a packet: where its table lies, and the row.
pub(super) const NAME_LEN: usize = 8;

/// How many launches there are, and how large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimensions {
    pub(super) streams: usize,
    /// Launches that are under way or wait for their turn to go on.
    pub(super) lots: usize,
    /// Bytes of a launch's list of names.
    names_len: usize,
    /// Bytes of a launch's tables.
    tables_len: usize,
    /// Bytes of a batch's table.
    pub(super) table_len: usize,
}

impl Dimensions {
    /// Of a stage with these launches in arenas of `layout`.
    pub(crate) fn new(limits: &LaunchLimits, layout: &ArenaLayout) -> Self {
        let (table_len, slots) = (layout.table_len(), layout.slots.next_multiple_of(ALIGN));
        Self {
            streams: limits.launches_max,
            lots: Batcher::new(limits).slots(),
            names_len: limits.batches_max * slots * NAME_LEN,
            tables_len: limits.batches_max * table_len,
            table_len,
        }
    }

    /// Bytes of the lists of names of all launches.
    pub(super) fn names_len(&self) -> usize {
        self.lots * self.names_len
    }

    /// Bytes that its launches need in the lane's memory, where the device works in place.
    pub(crate) fn spare_len(&self) -> usize {
        self.lots * (self.names_len + self.tables_len)
    }
}

/// See the module.
pub(super) struct Lot {
    /// Names of packets. Not here while a stream has it.
    pub(super) list: Option<Piece>,
    /// The tables: as they were when the launch began, then as the device left them. A stream that was given up may use them while
    /// the batches' own go on. Not here while a stream has it.
    pub(super) tables: Option<Piece>,
    pub(super) there: There,
}

/// Where kernels find names and tables.
pub(super) enum There {
    /// Names in this buffer, tables where the mirror has the batches'.
    Copied(Buffer),
    /// In place; the tables so far behind the start of the lane's memory.
    InPlace(usize),
}

impl Lot {
    /// On `device`, where `mirror` is.
    ///
    /// # Errors
    /// What the device says: it may have too little memory.
    pub(super) fn new(
        device: &dyn Device,
        mirror: &Mirror,
        by: &Dimensions,
    ) -> Result<Self, Failure> {
        if mirror.copy.is_some() {
            return Ok(Self {
                list: Some(device.host_memory(by.names_len)?),
                tables: Some(device.host_memory(by.tables_len)?),
                there: There::Copied(device.allocate(by.names_len)?),
            });
        }
        let none = || Failure::OutOfMemory { wanted: by.spare_len(), free: None };
        let spare = |len| mirror.memory.spare(&mirror.region, len).ok_or_else(none);
        let ((list, _), (tables, at)) = (spare(by.names_len)?, spare(by.tables_len)?);
        Ok(Self { list: Some(list), tables: Some(tables), there: There::InPlace(at) })
    }

    /// Writes `columns` of the tables of a launch and the names of its packets that are still forwarded. Gives how many there are; `None` while a
    /// stream has the memory.
    pub(super) fn fill(
        &mut self,
        flights: &[Flight],
        columns: Columns,
        table_len: usize,
    ) -> Option<u32> {
        let (list, tables) = (self.list.as_mut()?, self.tables.as_mut()?);
        let mut names = list.chunks_exact_mut(NAME_LEN);
        let mut count = 0;
        for (index, (Flight { batch, .. }, to)) in
            flights.iter().zip(tables.chunks_exact_mut(table_len)).enumerate()
        {
            batch.copy_columns(columns, to);
            let table = table_at(&self.there, index, batch, table_len) as u32;
            for (row, name) in batch.forward_rows().zip(&mut names) {
                name[..4].copy_from_slice(&table.to_ne_bytes());
                name[4..].copy_from_slice(&(row as u32).to_ne_bytes());
                count += 1;
            }
        }
        Some(count)
    }
}

/// Where kernels find the table of batch `index` of a launch.
fn table_at(there: &There, index: usize, batch: &Batch, table_len: usize) -> usize {
    match there {
        There::Copied(_) => batch.table_range().start,
        There::InPlace(at) => at + index * table_len,
    }
}
