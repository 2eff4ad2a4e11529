//! The later works of a launch: they bring back more findings, whole frames, or the frames of
//! packets left to the CPU.

use std::ops::Range;

use warpline_device::{Failure, Part, Step, Work};
use warpline_packet::{Columns, LeftPackets};

use super::streams::{Has, NONE_CARRIED};
use super::{Executor, PUSH, TABLE, copy_out, first_found_len, found_len};
use crate::flight::Flight;
use crate::launch_buffers::There;
use crate::sys::lane_memory::{Extent, Lent, lend_rooms};
use crate::versions::trace::Act;

impl Executor {
    /// Starts the work that brings back the findings of the launch of `slot` that the first work
    /// did not bring. Returns whether there are any.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn fetch_found(&mut self, slot: usize) -> Result<bool, Failure> {
        let There::Copied { findings: Some(there), .. } = &self.slots[slot].there else {
            return Ok(false);
        };
        let count = self.slots[slot].rows.count();
        let room = found_len(self.by.findings_room(count));
        let (first, kept) =
            (first_found_len(count), self.found(slot).map_or(0, |all| all.kept_len()));
        let rest = first..kept.min(room);
        if rest.is_empty() {
            return Ok(false);
        }
        let step = Step::CopyOut { from: there.at(rest.clone()), to: found_alone(rest) };
        let on = self.idle()?;
        let mut work = std::mem::take(&mut self.streams[on].spare);
        work.pieces.extend(self.slots[slot].findings.take());
        work.steps.push(step);
        let [_, back] = self.submit(on, (slot, Has::Findings), work, NONE_CARRIED)?;
        // Plans can't predict the size of findings.
        self.transfers.besides_to_host_bytes += back;
        Ok(true)
    }

    /// Starts the last work of the launch of `slot`: frames are copied back.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn copy_back<T>(
        &mut self,
        slot: usize,
        flights: &[Flight<T>],
    ) -> Result<(), Failure> {
        let on = self.idle()?;
        if self.carrier.is_some() {
            return self.push_back(on, slot, flights);
        }
        let Some(mirror) = &self.mirror.copy else { return Ok(()) };
        let mut work = std::mem::take(&mut self.streams[on].spare);
        let Work { pieces, steps, .. } = &mut work;
        for (index, flight) in flights.iter().enumerate() {
            let which = Lent::Back(self.returned(slot, index), self.writes);
            let lent = (which, self.extent);
            lend_rooms(&self.mirror.region, &flight.batch, lent, |piece, stretch| {
                steps.push(copy_out(pieces.len(), stretch, mirror));
                pieces.push(piece);
            });
        }
        let [_, back] = self.submit(on, (slot, Has::Nothing), work, NONE_CARRIED)?;
        self.transfers.frames_to_host_bytes += back;
        self.transfers.rooms_to_host_bytes += back;
        Ok(())
    }

    /// The same by a kernel. The host sends the places of rooms again, so no memory is named by a
    /// table that kernels may have changed.
    fn push_back<T>(
        &mut self,
        on: usize,
        slot: usize,
        flights: &[Flight<T>],
    ) -> Result<(), Failure> {
        let data = self.data(slot, self.slots[slot].rows.count())?;
        let mut work = std::mem::take(&mut self.streams[on].spare);
        let own = &mut self.slots[slot];
        work.pieces.extend(own.table.take().into_iter().chain(own.findings.take()));
        if let There::Copied { table, .. } = &own.there {
            Columns::of_rooms(false).stretches(own.rows.rows(), |bytes| {
                let from = Part { piece: TABLE, range: bytes.clone() };
                work.steps.push(Step::CopyIn { from, to: table.at(bytes) });
            });
        }
        let mut carried = 0;
        for Flight { batch, .. } in flights {
            let lent = (Lent::All, Extent::Rooms);
            lend_rooms(&self.mirror.region, batch, lent, |piece, stretch| {
                carried += stretch.crossing_len() as u64;
                work.pieces.push(piece);
            });
        }
        self.add_carrying(&mut work, &data, PUSH);
        let [there, back] = self.submit(on, (slot, Has::All), work, [0, carried])?;
        self.transfers.besides_to_device_bytes += there;
        self.transfers.frames_to_host_bytes += back;
        self.transfers.rooms_to_host_bytes += back;
        Ok(())
    }

    /// The packets of batch `index` to fetch from the mirror: they are left to the CPU, and the
    /// mirror alone has some of their fields.
    fn fetched(&self, slot: usize, index: usize) -> LeftPackets<'_> {
        let with_flagged = self.crossings.left_there.fetches_flagged;
        LeftPackets::new(self.returned(slot, index), self.last_position(), with_flagged)
    }

    /// Starts the work that fetches such packets of the launch of `slot`. Returns whether there are
    /// any.
    ///
    /// # Errors
    /// As for `start`. Also if the mirror was given up: then nothing may stay there.
    pub(crate) fn fetch_left<T>(
        &mut self,
        slot: usize,
        flights: &[Flight<T>],
    ) -> Result<bool, Failure> {
        let newer = self.crossings.left_there.newer_here;
        let Some(mirror) = self.mirror.copy.clone().filter(|_| self.leaves_fields_there()) else {
            return Ok(false);
        };
        if let Some(why) = self.failed() {
            return Err(Failure::Lost(why.into()));
        }
        let on = self.idle()?;
        let mut work = std::mem::take(&mut self.streams[on].spare);
        let mut kept = std::mem::take(&mut self.slots[slot].kept);
        kept.clear();
        self.slots[slot].acts.iter_mut().for_each(|acts| acts.push(Act::Kept(newer)));
        for (index, Flight { batch, .. }) in flights.iter().enumerate() {
            let left = self.fetched(slot, index);
            batch.keep_fields(left, newer, &mut kept);
            let Work { pieces, steps, .. } = &mut work;
            let lent = (Lent::Left(left), Extent::Rooms);
            lend_rooms(&self.mirror.region, batch, lent, |piece, stretch| {
                steps.push(copy_out(pieces.len(), stretch, &mirror));
                pieces.push(piece);
            });
        }
        self.slots[slot].kept = kept;
        if work.steps.is_empty() {
            self.streams[on].spare = work;
            return Ok(false);
        }
        let [_, back] = self.submit(on, (slot, Has::Nothing), work, NONE_CARRIED)?;
        self.transfers.frames_to_host_bytes += back;
        self.transfers.fetched_bytes += back;
        Ok(true)
    }

    /// The fetched frames have arrived: puts back the fields for which the host had newer values.
    pub(crate) fn restore_newer<T>(&mut self, slot: usize, flights: &mut [Flight<T>]) {
        let newer = self.crossings.left_there.newer_here;
        self.slots[slot].acts.iter_mut().for_each(|acts| acts.push(Act::Restored(newer)));
        let mut kept = &self.slots[slot].kept[..];
        for (index, Flight { batch, .. }) in flights.iter_mut().enumerate() {
            batch.restore_fields(self.fetched(slot, index), newer, &mut kept);
        }
    }

    /// Whether the mirror alone has some fields of packets after a launch.
    fn leaves_fields_there(&self) -> bool {
        !self.crossings.left_there.fields.is_empty() && !self.is_in_place()
    }
}

/// Bytes of the findings of a work that has these alone.
fn found_alone(range: Range<usize>) -> Part {
    Part { piece: 0, range }
}
