//! A lane whose functions move to other devices: it finishes all packets before the move, then
//! continues as the lane that was built for it.

use std::sync::Arc;

use super::{Lane, Moving};
use crate::Control;
use crate::stage::{Launches, Stage};

impl Lane {
    /// Continues on other devices, if nothing is on its way any more. Otherwise launches stop
    /// waiting for more packets. Returns whether it moved.
    pub(super) fn move_on(&mut self, control: &Control) -> bool {
        if !self.is_empty() {
            let launches = self.stages.iter_mut().filter_map(|stage| stage.launches.as_mut());
            launches.for_each(Launches::flush);
            return false;
        }
        if self.output.room() == 0 {
            return false;
        }
        let Some(Moving { marker, lanes, since }) = self.moving.take() else { return false };
        let Some((mut next, mut memory)) = lanes.take_lane(self.number) else { return false };
        next.take_over(self, control, since);
        std::mem::swap(self, &mut *next);
        if let Some(builder) = control.builder() {
            builder.swap(self.number, &mut memory);
        }
        let output = Arc::clone(&next.output);
        lanes.leave_lane(self.number, (next, memory));
        // The caller of the move frees it, once this is at the end.
        drop(lanes);
        let pushed = output.push(marker);
        debug_assert!(pushed.is_ok(), "room was asked for");
        true
    }

    /// Whether no batch is on its way through it, besides those before its first stage.
    fn is_empty(&self) -> bool {
        self.flights.is_empty()
            && self
                .inlets
                .iter()
                .all(|inlet| inlet.held.is_none() && inlet.queue.batches.is_empty())
            && self
                .stages
                .iter()
                .all(|stage| stage.launches.as_ref().is_none_or(|launches| launches.batches() == 0))
    }

    /// Takes functions and counts from `old`, which started to move at `since`.
    fn take_over(&mut self, old: &mut Self, control: &Control, since: u64) {
        old.close_versions();
        let mut earlier = std::mem::take(&mut old.earlier);
        for launches in old.stages.iter_mut().filter_map(|stage| stage.launches.as_mut()) {
            launches.take_messages().into_iter().for_each(|message| control.report(message));
            earlier.warnings.extend(launches.warnings());
        }
        for launches in self.stages.iter().filter_map(|stage| stage.launches.as_ref()) {
            launches.continue_lane();
        }
        let now = self.clock.now();
        let own = (&self.plans[..], &mut self.pressure.counts[..]);
        let earlier_counts = (&old.pressure.counts[..], now);
        let transfers = Stage::take_over(&mut self.stages, &mut old.stages, own, earlier_counts);
        earlier.transfers.add(&transfers);
        self.routes.paths = std::mem::take(&mut old.routes.paths);
        self.routes.unrouted = old.routes.unrouted;
        self.pressure.take_over(&mut old.pressure, self.plans == old.plans, now);
        earlier.moves.count += 1;
        let stall = now.saturating_sub(since);
        earlier.moves.stall_ns_max = earlier.moves.stall_ns_max.max(stall);
        self.earlier = earlier;
    }

    /// Notes the versions of fields that were followed.
    pub(super) fn close_versions(&mut self) {
        if let Some(versions) = self.rooms.versions.take() {
            self.earlier.followed.add(versions.into_followed());
        }
    }
}
