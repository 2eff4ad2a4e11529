//! The first work of a launch: its copies to the mirror, its kernels, and the copies of its table.

use std::ops::Range;

use warpline_device::{Argument, Buffer, Failure, Part, Piece, Rows, Step, Work};
use warpline_packet::{Batch, BatchRows, FieldSet, FoundLists, Stretch, mirror_bit};

use super::streams::Has;
use super::{Executor, PULL, PUT, TABLE, TAKE, first_found_len, found, found_len, no_buffers};
use crate::crossings::{Crossings, RoomsThere};
use crate::flight::Flight;
use crate::launch_buffers::There;
use crate::launch_stage::Member;
use crate::loaded::LaunchData;
use crate::prediction::FrameBytes;
use crate::sys::lane_memory::{Extent, Lent, lend_rooms};
use crate::versions::trace::Act;

impl Executor {
    /// Starts the first work of a launch, with the memory of `slot`. The batches must not be
    /// accessed until it is done or given up. Returns whether there was anything to do.
    ///
    /// # Errors
    /// The device's; then nothing is in flight.
    pub(crate) fn start<T>(&mut self, slot: usize, flights: &[Flight<T>]) -> Result<bool, Failure> {
        if !flights.iter().all(|flight| self.mirror.memory.has(&flight.batch)) {
            return Err(Failure::Refused("a batch of another arena".into()));
        }
        let on = self.idle()?;
        let none = || Failure::Refused("the launch before it has its memory".into());
        let (fields, there) = (&self.fields, self.crossings.there);
        let gather = |batch: &Batch, rows: BatchRows<'_>, to: &mut [u8]| {
            if !there.is_empty() {
                batch.gather(fields, there, rows, to);
            }
        };
        let own = &mut self.slots[slot];
        let count = own.fill(flights, gather).ok_or_else(none)?;
        own.acts.iter_mut().for_each(|acts| acts.push(Act::Filled(there)));
        if count == 0 {
            return Ok(false);
        }
        let mut work = std::mem::take(&mut self.streams[on].spare);
        work.items = count as u64;
        work.pieces.extend(own.table.take().into_iter().chain(own.findings.take()));
        let frames = match self.mirror.copy {
            Some(_) => self.add_copied(&mut work, slot, flights, count)?,
            None => self.add_in_place(&mut work, slot, flights, count)?,
        };
        let predicted = self.prediction.of_launch(flights, &self.laid(slot), self.extent);
        let carried = if self.carrier.is_some() { frames.rooms_there } else { 0 };
        self.submit(on, (slot, Has::All), work, [carried, 0])?;
        if !self.is_in_place() {
            predicted.count(&mut self.transfers, frames);
        }
        self.transfers.launches += 1;
        Ok(true)
    }

    /// Adds the kernels' work on packets that are copied to the mirror, with the copies before and
    /// after. Returns the bytes of frames among these.
    fn add_copied<T>(
        &self,
        work: &mut Work,
        slot: usize,
        flights: &[Flight<T>],
        count: usize,
    ) -> Result<FrameBytes, Failure> {
        let on = self.data(slot, count)?;
        let There::Copied { table, findings, .. } = &self.slots[slot].there else {
            return Err(no_buffers());
        };
        let Crossings { there, back, .. } = self.crossings;
        let room = self.by.findings_room(count);
        if let Some(findings) = findings {
            // Its head is that of an empty list.
            let head = 0..FoundLists::HEAD_LEN;
            work.steps.push(Step::CopyIn { from: found(head.clone()), to: findings.at(head) });
        }
        let copy_in = |bytes: Range<usize>| Step::CopyIn {
            from: Part { piece: TABLE, range: bytes.clone() },
            to: table.at(bytes),
        };
        let columns = self.slots[slot].columns;
        let fields_there = self.copy_table(work, (slot, flights), (columns, there), copy_in);
        self.add_packed(work, slot, &on);
        let rooms_there = self.lend(work, flights)?;
        if rooms_there > 0 {
            self.add_carrying(work, &on, PULL);
        }
        self.add_copies(work, &on, PUT, there);
        self.add_kernels(work, &on);
        self.add_copies(work, &on, TAKE, back);
        let copy_out = |bytes: Range<usize>| Step::CopyOut {
            from: table.at(bytes.clone()),
            to: Part { piece: TABLE, range: bytes },
        };
        let fields_back = self.copy_table(work, (slot, flights), (self.written, back), copy_out);
        if let Some(findings) = findings {
            let first = 0..first_found_len(count).min(found_len(room));
            work.steps.push(Step::CopyOut { from: findings.at(first.clone()), to: found(first) });
        }
        Ok(FrameBytes { fields_there, rooms_there, fields_back })
    }

    /// The data that kernels get of the launch of `slot`, whose packets are copied.
    pub(super) fn data(&self, slot: usize, count: usize) -> Result<LaunchData, Failure> {
        let (There::Copied { table, findings, .. }, Some(copy)) =
            (&self.slots[slot].there, &self.mirror.copy)
        else {
            return Err(no_buffers());
        };
        let room = self.by.findings_room(count);
        let is_missing = self.crossings.rooms_there == RoomsThere::Missing;
        Ok(LaunchData {
            arena: Argument::Writes(copy.whole()),
            host: self.carrier.as_ref().map(|(_, region)| Argument::Mapped(region.clone())),
            packets: Argument::Writes(table.at(0..self.table_len(slot))),
            findings: findings.as_ref().map(|all| Argument::Writes(all.at(0..found_len(room)))),
            findings_room: room,
            count: count as u32,
            without: if is_missing { mirror_bit(self.mirror.number) } else { 0 },
        })
    }

    /// Adds the kernels' work on packets in place. Nothing is copied.
    fn add_in_place<T>(
        &self,
        work: &mut Work,
        slot: usize,
        flights: &[Flight<T>],
        count: usize,
    ) -> Result<FrameBytes, Failure> {
        self.lend(work, flights)?;
        let room = self.by.findings_room(count);
        let table = Part { piece: TABLE, range: 0..self.table_len(slot) };
        let on = LaunchData {
            arena: Argument::InPlace(self.mirror.region.clone()),
            host: None,
            packets: Argument::HostWrites(table),
            findings: self
                .by
                .has_findings()
                .then(|| Argument::HostWrites(found(0..found_len(room)))),
            findings_room: room,
            count: count as u32,
            without: 0,
        };
        self.add_kernels(work, &on);
        Ok(FrameBytes::default())
    }

    /// Bytes of the table of the launch of `slot`.
    fn table_len(&self, slot: usize) -> usize {
        self.by.row_len() * self.slots[slot].rows.rows()
    }

    /// Lends rooms of the packets to `work`: all of them for work in place, otherwise those that it
    /// copies to the mirror. Returns their bytes.
    fn lend<T>(&self, work: &mut Work, flights: &[Flight<T>]) -> Result<u64, Failure> {
        let which = match self.crossings.rooms_there {
            _ if self.is_in_place() => (Lent::All, Extent::Rooms),
            RoomsThere::None => return Ok(0),
            RoomsThere::Missing => (Lent::Without(self.mirror.number), self.extent),
            RoomsThere::All => (Lent::All, self.extent),
        };
        let Work { pieces, steps, .. } = work;
        let mut bytes = 0;
        let mut copy = |piece: Piece, stretch: Stretch| {
            bytes += stretch.crossing_len() as u64;
            if let Some(mirror) = self.mirror.copy.as_ref().filter(|_| self.carrier.is_none()) {
                steps.push(copy_in(pieces.len(), stretch, mirror));
            }
            pieces.push(piece);
        };
        let mut batches = flights.iter().map(|flight| &flight.batch);
        match batches.all(|batch| lend_rooms(&self.mirror.region, batch, which, &mut copy)) {
            true => Ok(bytes),
            false => Err(Failure::Refused("a batch of another arena".into())),
        }
    }

    /// The kernels of the segment, one after the other.
    fn add_kernels(&self, work: &mut Work, on: &LaunchData) {
        for Member { position, loaded, .. } in &self.segment {
            let call = |kernel| Step::Call(loaded.call(kernel, on, *position));
            work.steps.extend(loaded.kernels.iter().map(call));
        }
    }

    /// A kernel that copies `fields` between columns and the mirror, where there are such.
    fn add_copies(&self, work: &mut Work, on: &LaunchData, kernel: usize, fields: FieldSet) {
        if let Some(copier) = self.copier.as_ref().filter(|_| !fields.is_empty()) {
            work.steps.push(Step::Call(copier.call(&copier.kernels[kernel], on, 0)));
        }
    }

    /// A kernel that carries rooms, where kernels do.
    pub(super) fn add_carrying(&self, work: &mut Work, on: &LaunchData, kernel: usize) {
        if let Some((carrier, _)) = &self.carrier {
            work.steps.push(Step::Call(carrier.call(&carrier.kernels[kernel], on, 0)));
        }
    }
}

/// Copies a stretch, the work's piece of that number, to the mirror.
fn copy_in(piece: usize, Stretch { bytes, rows }: Stretch, mirror: &Buffer) -> Step {
    let (from, to) = (Part { piece, range: 0..bytes.len() }, mirror.at(bytes));
    match rows {
        Some((width, pitch)) => Step::RowsIn { from, to, rows: Rows { width, pitch } },
        None => Step::CopyIn { from, to },
    }
}
