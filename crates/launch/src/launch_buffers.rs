//! The memory of a launch until it is released: the table of its packets, and their findings.

use std::ops::Range;

use warpline_device::{Buffer, Device, Failure, Piece};
use warpline_packet::{
    ALIGN, ArenaLayout, Batch, BatchRows, Columns, FieldSet, FoundLists, LaunchRows, Returned,
    RowPacker,
};
use warpline_sched::{Batcher, LaunchLimits};

use super::mirror::Mirror;
use crate::flight::Flight;
use crate::versions::trace::{Act, fields_of};

/// How many launches there are, and how large.
#[derive(Clone, Copy, Debug)]
pub struct Dimensions {
    pub(super) streams: usize,
    /// Launches that are under way or wait for their turn to continue.
    pub(super) slots: usize,
    /// Batches of a launch at most, and packets.
    batches: usize,
    packets: usize,
    /// Bytes of a row of a launch's table.
    row_len: usize,
    /// Numbers of findings for each packet.
    findings: usize,
    /// Bytes of a launch's findings.
    findings_len: usize,
    /// Bytes that may be kept of a packet while it is fetched.
    kept: usize,
}

impl Dimensions {
    /// For a stage with these launches in arenas of `layout`. Each packet has this many bytes in
    /// `columns` and this many `findings`; this many bytes are `kept` while it is fetched.
    pub fn new(
        limits: &LaunchLimits,
        layout: &ArenaLayout,
        (columns, findings, kept): (usize, usize, usize),
    ) -> Self {
        let packets = LaunchRows::rows_for(limits.batches_max * layout.rows());
        let findings_len = match findings {
            0 => 0,
            _ => FoundLists::HEAD_LEN + 4 * findings * packets,
        };
        Self {
            streams: limits.launches_max,
            slots: Batcher::new(limits).slots(),
            batches: limits.batches_max,
            packets,
            row_len: layout.row_len() + columns,
            findings,
            findings_len: findings_len.next_multiple_of(ALIGN),
            kept,
        }
    }

    /// Bytes of a row of a launch's table.
    pub(super) fn row_len(&self) -> usize {
        self.row_len
    }

    /// Bytes of a launch's table.
    fn table_len(&self) -> usize {
        (self.packets * self.row_len).next_multiple_of(ALIGN)
    }

    /// Bytes of its packed rows.
    fn packed_len(&self) -> usize {
        RowPacker::len_max(self.packets).next_multiple_of(ALIGN)
    }

    /// Whether a function keeps findings.
    pub(super) fn has_findings(&self) -> bool {
        self.findings_len > 0
    }

    /// For how many numbers a launch of `count` packets has room.
    pub(super) fn findings_room(&self, count: usize) -> u32 {
        (self.findings as u32).saturating_mul(count as u32)
    }

    /// Bytes that its launches need besides their packets' rooms.
    pub fn launches_len(&self) -> usize {
        self.slots * (self.table_len() + self.packed_len() + self.findings_len)
    }
}

/// See the module.
pub(super) struct LaunchBuffers {
    /// The table: as it was when the launch began, then as the device left it. A stream that was
    /// given up may use it while the batches' own tables are in use. `None` while a stream has it.
    pub(super) table: Option<Piece>,
    /// The findings, if a function has any. `None` while a stream has them.
    pub(super) findings: Option<Piece>,
    pub(super) there: There,
    /// Which packets have which rows of the table.
    pub(super) rows: LaunchRows,
    /// Bytes of a row of the table.
    row_len: usize,
    /// The columns that kernels read.
    read: Columns,
    /// The columns that cross as they lie.
    pub(super) columns: Columns,
    /// Finds packed rows, where they may cross so; with columns that the host keeps beside.
    packer: Option<(Box<RowPacker>, Columns)>,
    /// Where packed rows follow the table, if this launch has such: they hold the other columns.
    pub(super) packed: Option<Range<usize>>,
    /// The host's newer fields of packets while these are fetched.
    pub(super) kept: Vec<u8>,
    /// Copies and kernels of the launch, where versions of fields are followed.
    pub(super) acts: Option<Vec<Act>>,
}

/// Where kernels find the table and findings: in buffers, or in place.
pub(super) enum There {
    Copied {
        /// The table.
        table: Buffer,
        /// Its rows, packed.
        packed: Buffer,
        findings: Option<Buffer>,
    },
    InPlace,
}

impl LaunchBuffers {
    /// On `device`, where `mirror` is.
    ///
    /// # Errors
    /// The device's: it may have too little memory.
    pub(super) fn new(
        device: &dyn Device,
        mirror: &Mirror,
        by: &Dimensions,
        (read, packs): (Columns, Option<Columns>),
        follows: bool,
    ) -> Result<Self, Failure> {
        let findings_len = by.has_findings().then_some(by.findings_len);
        let (table, findings, there) = if mirror.copy.is_some() {
            let host = |len| device.host_memory(len);
            // Rows that no packet has come back, too, and cells that kernels leave.
            let there = |len| device.allocate_zeroed(len);
            // Packed rows follow the table.
            let table = host(by.table_len() + by.packed_len())?;
            let (packed, found) = (there(by.packed_len())?, findings_len.map(there).transpose()?);
            let copied = There::Copied { table: there(by.table_len())?, packed, findings: found };
            (table, findings_len.map(host).transpose()?, copied)
        } else {
            let none = || Failure::OutOfMemory { wanted: by.launches_len(), free: None };
            let spare = |len| mirror.memory.spare(&mirror.region, len).ok_or_else(none);
            let table = spare(by.table_len())?;
            (table, findings_len.map(spare).transpose()?, There::InPlace)
        };
        Ok(Self {
            table: Some(table),
            findings,
            there,
            rows: LaunchRows::with_capacity(by.batches, by.packets),
            row_len: by.row_len,
            read,
            columns: read,
            packer: packs.map(|kept| (Box::new(RowPacker::new(read)), kept)),
            packed: None,
            kept: Vec::with_capacity(by.packets * by.kept),
            acts: follows.then(Vec::new),
        })
    }

    /// Writes the launch's table: the columns that kernels read, for packets that are still
    /// forwarded, and those that `gather` adds. Clears earlier findings. Returns the number of
    /// packets; `None` while a stream has the memory.
    pub(super) fn fill<T>(
        &mut self,
        flights: &[Flight<T>],
        gather: impl Fn(&Batch, BatchRows<'_>, &mut [u8]),
    ) -> Option<usize> {
        self.rows.clear();
        self.acts.iter_mut().for_each(Vec::clear);
        flights.iter().for_each(|Flight { batch, .. }| self.rows.add(batch));
        self.packed = self.pack(flights);
        self.columns = match self.packed {
            Some(_) => self.read.beside_packed(),
            None => self.read,
        };
        let kept = match (&self.packed, &self.packer) {
            (Some(_), Some((_, kept))) => *kept,
            _ => Columns::default(),
        };
        let table = self.table.as_mut()?;
        if let Some(findings) = &mut self.findings {
            findings[..FoundLists::HEAD_LEN].fill(0);
        }
        for (index, Flight { batch, .. }) in flights.iter().enumerate() {
            let rows = self.rows.of(index);
            batch.copy_columns(self.columns.union(kept), rows, table);
            gather(batch, rows, table);
        }
        if let Some(acts) = &mut self.acts {
            acts.push(Act::Filled(fields_of(self.columns.union(kept))));
        }
        Some(self.rows.count())
    }

    /// Packs the rows after the table, if that is allowed, they fit, and they take fewer bytes than
    /// their columns.
    fn pack<T>(&mut self, flights: &[Flight<T>]) -> Option<Range<usize>> {
        let ((packer, _), table) = (self.packer.as_mut()?, self.table.as_mut()?);
        let rows = self.rows.rows();
        let first = rows * self.row_len;
        let to = table.get_mut(first..)?;
        packer.clear();
        let mut all = flights.iter().enumerate();
        if !all.all(|(index, flight)| packer.pack(&flight.batch, self.rows.of(index), to)) {
            return None;
        }
        let len = packer.finish(rows, to);
        let instead = self.read.stretched_len() - self.read.beside_packed().stretched_len();
        (len < rows * instead).then_some(first..first + len)
    }

    /// The fields in packed rows, if this launch has such rows.
    pub(super) fn packed_fields(&self) -> FieldSet {
        match self.packed {
            Some(_) => fields_of(self.read) & !fields_of(self.columns),
            None => FieldSet::EMPTY,
        }
    }

    /// The device's output for batch `index`.
    pub(super) fn returned(&self, index: usize) -> Returned<'_> {
        Returned::new(self.table.as_deref().unwrap_or(&[]), self.rows.of(index))
    }
}
