//! Batches that a lane passes from a stage to the next, or to egress.

use warpline_packet::{Batch, BatchKind};

use super::Lane;
use crate::stage::BatchInFlight;

impl Lane {
    pub(super) fn pass_on(&mut self, stage: usize) {
        let next = stage + 1;
        let mut flights = std::mem::take(&mut self.flights);
        for BatchInFlight { mut batch, scratch } in flights.drain(..) {
            self.scratches.push(scratch);
            if self.pressure.is_off()
                && batch.kind() == BatchKind::Packets
                && next < self.stages.len()
            {
                self.drop_if_full(next, &mut batch);
            }
            if self.pressure.is_off()
                && let Some(inlet) = self.inlets.get_mut(next)
            {
                let (left, is_absorbed) = inlet.queue.absorb(batch, &mut self.order);
                if is_absorbed {
                    self.release(left);
                    continue;
                }
                batch = left;
            }
            match self.inlets.get_mut(next) {
                Some(inlet) => inlet.queue.push(batch),
                None => {
                    if self.routes.from_ingress.is_some() {
                        batch.end_ways(|path| self.routes.paths[path as usize] += 1);
                    }
                    self.rooms.versions.iter_mut().for_each(|versions| versions.leave(&batch));
                    self.finished |= batch.kind() == BatchKind::Finish;
                    let pushed = self.output.push(batch);
                    debug_assert!(pushed.is_ok(), "room was asked for");
                }
            }
        }
        self.flights = flights;
        if next < self.stages.len() {
            self.gauge(next);
        }
    }

    /// Gives an empty batch back to ingress.
    fn release(&self, mut batch: Box<Batch>) {
        batch.clear();
        let returned = self.pool.push(batch);
        debug_assert!(returned.is_ok(), "a pool has room for all its batches");
    }

    /// Drops the packets of `batch` if the queue before `stage` is full. The batch itself
    /// continues.
    fn drop_if_full(&mut self, stage: usize, batch: &mut Batch) {
        let waiting = self.waiting(stage);
        if self.pressure.drops(stage, waiting) {
            let dropped = batch.overload(self.stages[stage].first());
            self.pressure.count_drops(stage, dropped);
            let launches = self.stages[stage].launches.as_mut();
            launches.into_iter().for_each(|launches| launches.drop_packets(dropped));
        }
    }
}
