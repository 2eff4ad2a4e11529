//! Batches that a lane takes from the queues before its stages.

use warpline_packet::{Batch, BatchKind};

use super::{Lane, Moving};
use crate::Control;
use crate::memory::StageRoom;
use crate::stage::{BatchInFlight, Launches};

impl Lane {
    /// Whether `stage` may take a batch. If that waits for launches, these stop waiting for more.
    pub(super) fn may_take(&mut self, stage: usize) -> bool {
        if self.pressure.is_paused(stage) || !self.has_room_after(stage) {
            return false;
        }
        if !self.scratches.is_empty() && self.has_slabs(stage, 0) {
            return true;
        }
        if self.is_waited_for(stage) {
            let launches = self.stages.iter_mut().filter_map(|stage| stage.launches.as_mut());
            launches.for_each(Launches::flush);
        }
        false
    }

    /// Whether a batch waits before `stage`.
    pub(super) fn is_waited_for(&self, stage: usize) -> bool {
        let queued = match stage.checked_sub(1) {
            None => self.input.len(),
            Some(_) => self.inlets[stage].queue.batches.len(),
        };
        queued > 0 || self.inlets[stage].held.is_some()
    }

    /// Whether the output holds up the last stage: it has batches, and no room for those that the
    /// stage may place. A slow device alone leaves it empty.
    pub(super) fn is_output_full(&self) -> bool {
        let last = self.stages.len().checked_sub(1);
        let is_short = last.is_some_and(|last| self.output.room() < self.placed_by(last));
        is_short && self.output.len() > 0
    }

    /// Batches that `stage` may place without another look at the room.
    fn placed_by(&self, stage: usize) -> usize {
        let held = self.stages[stage].launches.as_ref().map_or(0, Launches::batches);
        held + self.stages[stage].launch_batches
    }

    fn has_room_after(&self, stage: usize) -> bool {
        let room = match self.inlets.get(stage + 1) {
            // A full queue drops instead.
            Some(_) if self.pressure.is_off() => usize::MAX,
            Some(next) => self.queue_room.saturating_sub(next.queue.batches.len()),
            None => self.output.room(),
        };
        let has = self.stages[stage].launches.as_ref();
        if has.is_some_and(|launches| !launches.has_room()) {
            return false;
        }
        room >= self.placed_by(stage)
    }

    /// Whether `stage` may take another batch besides `taken`: in the worst case everything that it
    /// and later stages place must fit. Otherwise it waits for slabs to return.
    fn has_slabs(&self, stage: usize, taken: usize) -> bool {
        let StageRoom { each, free, .. } = self.inlets[stage].room;
        each == 0 || self.rooms.placer.has_free(free + self.promised + taken * each)
    }

    /// Takes a launch for `stage`: batches of packets, or one tick or end.
    pub(super) fn take(&mut self, stage: usize, control: &Control) -> bool {
        while self.flights.len() < self.stages[stage].launch_batches
            && !self.scratches.is_empty()
            && (self.flights.is_empty() || self.has_slabs(stage, self.flights.len()))
        {
            let Some(batch) = self.inlets[stage].held.take().or_else(|| self.pop(stage)) else {
                break;
            };
            let alone = batch.kind() != BatchKind::Packets;
            if stage == 0
                && batch.kind() == BatchKind::Reload
                && let Some(lanes) = control.reloads.lanes()
            {
                self.moving = Some(Moving { marker: batch, lanes, since: self.clock.now() });
                break;
            }
            if alone && !self.is_drained(stage) {
                self.inlets[stage].held = Some(batch);
                break;
            }
            let Some(scratch) = self.scratches.pop() else { unreachable!("one is idle") };
            self.flights.push(BatchInFlight { batch, scratch });
            if alone {
                break;
            }
        }
        !self.flights.is_empty()
    }

    /// Whether nothing that a tick or an end may not overtake is in `stage`.
    fn is_drained(&mut self, stage: usize) -> bool {
        let Some(launches) = &mut self.stages[stage].launches else {
            return self.flights.is_empty();
        };
        if launches.batches() > 0 {
            launches.flush();
        }
        launches.batches() == 0 && self.flights.is_empty()
    }

    fn pop(&mut self, stage: usize) -> Option<Box<Batch>> {
        match stage.checked_sub(1) {
            None => {
                if self.moving.is_some() {
                    return None;
                }
                let mut batch = self.input.pop()?;
                self.entered += batch.len() as u64;
                self.rooms.versions.iter_mut().for_each(|versions| versions.arrive(&batch));
                if let Some(routing) = &self.routes.from_ingress {
                    self.routes.unrouted += routing.enter(&mut batch);
                }
                Some(batch)
            }
            Some(_) => self.inlets[stage].queue.pop(),
        }
    }
}
