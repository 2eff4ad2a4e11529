//! What each launch has of its own until it is released: the names of its packets, their tables, and what is found in them.

use warpline_device::{Buffer, Device, Failure, Piece};
use warpline_packet::{ALIGN, ArenaLayout, Batch, Columns, FoundLists};
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
    /// Batches of a launch at most.
    batches: usize,
    /// Bytes of the columns behind a batch's table.
    columns_len: usize,
    /// Numbers of findings for each packet.
    findings: usize,
    /// Bytes of a launch's findings.
    findings_len: usize,
    /// Bytes of a batch's table.
    pub(super) table_len: usize,
}

impl Dimensions {
    /// Of a stage with these launches in arenas of `layout`, whose packets have so many bytes of `columns` and whose functions keep so
    /// many `findings` of each.
    pub(crate) fn new(
        limits: &LaunchLimits,
        layout: &ArenaLayout,
        columns: usize,
        findings: usize,
    ) -> Self {
        let (table_len, slots) = (layout.table_len(), layout.slots.next_multiple_of(ALIGN));
        let findings_len = match findings {
            0 => 0,
            _ => FoundLists::HEAD_LEN + 4 * findings * limits.batches_max * slots,
        };
        Self {
            streams: limits.launches_max,
            lots: Batcher::new(limits).slots(),
            names_len: limits.batches_max * slots * NAME_LEN,
            batches: limits.batches_max,
            columns_len: columns * layout.rows(),
            findings,
            findings_len: findings_len.next_multiple_of(ALIGN),
            table_len,
        }
    }

    /// Bytes of a batch's table with the columns behind it.
    pub(super) fn stride(&self) -> usize {
        self.table_len + self.columns_len
    }

    /// Bytes of a launch's tables, with the columns behind each.
    fn tables_len(&self) -> usize {
        self.batches * self.stride()
    }

    /// Bytes of the tables of all launches.
    pub(crate) fn all_tables_len(&self) -> usize {
        self.lots * self.tables_len()
    }

    /// Bytes of the lists of names of all launches, and of their findings.
    pub(super) fn lists_len(&self) -> usize {
        self.lots * (self.names_len + self.findings_len)
    }

    /// Whether a function keeps findings.
    pub(super) fn has_findings(&self) -> bool {
        self.findings_len > 0
    }

    /// For how many numbers a launch of `count` packets has room.
    pub(super) fn findings_room(&self, count: u32) -> u32 {
        (self.findings as u32).saturating_mul(count)
    }

    /// Bytes that its launches need in the lane's memory, where the device works in place.
    pub(crate) fn spare_len(&self) -> usize {
        self.lots * (self.names_len + self.tables_len() + self.findings_len)
    }
}

/// See the module.
pub(super) struct Lot {
    /// Names of packets. Not here while a stream has it.
    pub(super) list: Option<Piece>,
    /// The tables: as they were when the launch began, then as the device left them. A stream that was given up may use them while
    /// the batches' own go on. Not here while a stream has it.
    pub(super) tables: Option<Piece>,
    /// What is found, where a function keeps such. Not here while a stream has it.
    pub(super) findings: Option<Piece>,
    pub(super) there: There,
    /// Where kernels find the tables: so many bytes behind the start of the lane's memory or its mirror.
    pub(super) tables_at: usize,
}

/// Where kernels find names and findings: in buffers, or in place.
pub(super) enum There {
    Copied(Buffer, Option<Buffer>),
    InPlace,
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
        let has_findings = by.findings_len > 0;
        let none = || Failure::OutOfMemory { wanted: by.spare_len(), free: None };
        if let Some(copy) = &mirror.copy {
            let host = |len| device.host_memory(len);
            let there = |len| device.allocate(len);
            let found = has_findings.then(|| there(by.findings_len)).transpose()?;
            return Ok(Self {
                list: Some(host(by.names_len)?),
                tables: Some(host(by.tables_len())?),
                findings: has_findings.then(|| host(by.findings_len)).transpose()?,
                there: There::Copied(there(by.names_len)?, found),
                tables_at: copy.spare(by.tables_len()).ok_or_else(none)?,
            });
        }
        let spare = |len| mirror.memory.spare(&mirror.region, len).ok_or_else(none);
        let ((list, _), (tables, tables_at)) = (spare(by.names_len)?, spare(by.tables_len())?);
        let findings = has_findings.then(|| spare(by.findings_len)).transpose()?;
        Ok(Self {
            list: Some(list),
            tables: Some(tables),
            findings: findings.map(|(findings, _)| findings),
            there: There::InPlace,
            tables_at,
        })
    }

    /// Writes `columns` of the tables of a launch with what `gather` adds behind each, and the names of its packets that are still
    /// forwarded, and keeps nothing of what was found before. Gives how many there are; `None` while a stream has the memory.
    pub(super) fn fill(
        &mut self,
        flights: &[Flight],
        columns: Columns,
        stride: usize,
        gather: impl Fn(&Batch, &mut [u8]),
    ) -> Option<u32> {
        let (list, tables) = (self.list.as_mut()?, self.tables.as_mut()?);
        if let Some(findings) = &mut self.findings {
            findings[..FoundLists::HEAD_LEN].fill(0);
        }
        let mut names = list.chunks_exact_mut(NAME_LEN);
        let mut count = 0;
        for (index, (Flight { batch, .. }, to)) in
            flights.iter().zip(tables.chunks_exact_mut(stride)).enumerate()
        {
            batch.copy_columns(columns, to);
            gather(batch, to);
            let table = (self.tables_at + index * stride) as u32;
            for (row, name) in batch.forward_rows().zip(&mut names) {
                name[..4].copy_from_slice(&table.to_ne_bytes());
                name[4..].copy_from_slice(&(row as u32).to_ne_bytes());
                count += 1;
            }
        }
        Some(count)
    }
}
