//! Finished launches: the outcome for each batch, and the end of a stage's use of a device.

use std::sync::Arc;

use warpline_packet::{Batch, Placer, Returned};

use super::Launches;
use crate::flight::{Finished, Flight, How, LaunchState, Output, Scratch};
use crate::versions::Versions;
use crate::{DEVICE_LOST, FailedDevices, Loaded};

impl<T: Scratch> Launches<T> {
    /// The oldest launch, if it is over.
    pub fn take_finished(&mut self) -> Option<Finished<T>> {
        let slot = self.batcher.poll_release()?.slot;
        let one = &mut self.flying[slot];
        let LaunchState::Over(how) = one.state else { return None };
        Some(Finished { flights: std::mem::take(&mut one.flights), how, slot })
    }

    /// Applies the outcome of a launch to its batch `index`, whose turns may then continue. Returns
    /// the output that each function accepts in its turn. There is none if the CPU does the work,
    /// or if the packets are lost. Packets that a device may still read move to rooms of `placer`.
    pub fn apply(
        &self,
        finished: &mut Finished<T>,
        index: usize,
        placer: &mut Placer,
        versions: Option<&mut Versions>,
    ) -> Option<Output<'_>> {
        let (how, slot) = (finished.how, finished.slot);
        let flight = finished.flights.get_mut(index)?;
        if how == How::Done {
            let returned = self.executor.returned(slot, index);
            self.accept(slot, &returned, &mut flight.batch, versions);
            return Some(Output { returned, found: self.executor.found(slot) });
        }
        if self.executor.lose_mirrored(&mut flight.batch) {
            flight.scratch.forget_dropped(&flight.batch);
        }
        flight.batch.keep_mirrors(self.executor.kept_mirrors());
        match how {
            How::Lost { is_used } => lose(flight, is_used),
            How::OnCpu { is_used: true } if !move_out(&mut flight.batch, placer, versions) => {
                lose(flight, true);
            }
            _ => flight.batch.leave_from(self.executor.first_position()),
        }
        None
    }

    /// Takes the output of a launch for a batch besides its table: fields of frames, and the
    /// packets left to the CPU.
    fn accept(
        &self,
        slot: usize,
        returned: &Returned<'_>,
        batch: &mut Batch,
        mut versions: Option<&mut Versions>,
    ) {
        if let (Some(versions), Some(launched)) = (&mut versions, self.executor.launched(slot)) {
            versions.launched(&launched, batch, returned);
        }
        let (columns, fields) = self.executor.fields_back();
        if !fields.is_empty() && !self.executor.is_in_place() {
            batch.accept_shapes(returned, self.writes);
            let (bytes, rows) = returned.parts();
            batch.scatter(columns, fields, rows, bytes);
            versions.into_iter().for_each(|all| all.scattered(batch, returned, fields));
        }
        batch.accept_left(returned);
        self.executor.note_mirrored(batch);
    }

    /// Takes back the memory of a finished launch.
    pub fn recycle(&mut self, finished: Finished<T>) {
        self.flying[finished.slot].flights = finished.flights;
    }
}

/// Drops the packets of a launch, whose content is unknown. No function's state sees them.
fn lose<T: Scratch>(flight: &mut Flight<T>, is_used: bool) {
    flight.batch.lose(DEVICE_LOST);
    if is_used {
        // The device may still write to their rooms.
        flight.scratch.forget_frames();
        flight.batch.abandon();
    }
    flight.scratch.forget();
}

/// Gives the packets of a launch other rooms. Returns whether there were enough.
fn move_out(batch: &mut Batch, placer: &mut Placer, versions: Option<&mut Versions>) -> bool {
    let from = versions.is_some().then(|| Versions::rooms(batch));
    let fits = batch.move_out(placer);
    if let (Some(versions), Some(from)) = (versions, from) {
        versions.moved(&from, batch);
    }
    fits
}

impl<T> Launches<T> {
    /// Messages about the device: it failed at this stage, or other bytes crossed than planned.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let deviation = || self.transfers().deviation(&self.names).filter(|_| !self.is_routed);
        let failed = self.failed.clone().or_else(deviation);
        self.warning.clone().into_iter().chain(failed)
    }

    /// Later launches run the kernels that `loaded` has by position; no launch is under way. If one
    /// that shares the mirror is not on the device, no launch starts any more, in no lane of
    /// `failures`. Packets from before the reload then find all that they left there, and packets
    /// from after it leave nothing.
    pub fn reload<'a>(
        &mut self,
        loaded: impl Fn(usize) -> Option<&'a Arc<Loaded>>,
        failures: &FailedDevices,
    ) {
        for member in self.executor.segment_mut() {
            if let Some(loaded) = loaded(member.position.into()) {
                member.loaded = Arc::clone(loaded);
            }
        }
        let mut mates = self.mates.iter();
        if !self.is_retired && !mates.all(|&position| loaded(position).is_some()) {
            self.is_retired = true;
            self.failed.get_or_insert_with(|| {
                format!(
                    "{} fell back to the CPU: the reloaded tables are not on its device",
                    self.names
                )
            });
            self.executor.segment_mut().iter().for_each(|member| member.loaded.set_given_up());
            failures.retire(&self.device.description().id);
        }
    }

    /// The device may have failed in the lane that these launches continue.
    pub fn continue_lane(&self) {
        self.executor.note_failure();
    }
}
