//! The work of a chain's threads: reading, that of each lane, and sending.

use std::time::Duration;

use crate::build::OwnBell;
use crate::idle::Idle;
use crate::ingress::{Ingress, IngressStep};
use crate::lane::Lane;
use crate::merge::Merge;
use crate::one_thread::{Reader, Work};
use crate::reports::Ended;
use crate::snapshots::{Thread, ThreadSlot};
use crate::stats::ThreadStats;
use crate::sys::wake_on_time;
use crate::{Chain, Control};

/// The reading thread. `alarm` ends its sleep while it is paused.
pub(crate) fn read(
    mut ingress: Ingress,
    mut works: Reader<'_, '_>,
    (busy, alarm): (bool, OwnBell),
    control: &Control,
) -> ThreadStats {
    let _guard = control.guard();
    let mut place = control.snapshots.join(Thread::Reader);
    let is_paced = ingress.is_paced();
    let mut idle = Idle::of_reader(is_paced, alarm).busy(busy);
    if is_paced {
        wake_on_time();
    }
    works.rested(false);
    while !control.has_failed() {
        let began = works.now();
        let step = ingress.step(control);
        let has_read = matches!(step, IngressStep::Worked | IngressStep::Emptied(_));
        let worked = works.round(control) | has_read;
        works.adapt(began, worked);
        match step {
            IngressStep::Finished => break,
            IngressStep::Emptied(_) if idle.is_woken() => {
                idle.reset();
                // The works may have something left.
                if !works.round(control) && idle.naps(works.rest(false), ingress.take_frames()) {
                    works.rested(true);
                }
            }
            _ if worked => idle.reset(),
            IngressStep::Idle(limit) => {
                let is_long = idle.take_long();
                let nap = works.rest(is_long);
                rest(&mut ingress, &mut idle, (limit.min(nap), nap, is_long), control);
                works.rested(true);
            }
            IngressStep::Blocked(limit) => {
                let is_long = idle.take_long();
                let limit = limit.min(works.rest(is_long));
                wait(&mut ingress, &mut idle, (limit, is_long), control);
                works.rested(false);
            }
            IngressStep::Worked | IngressStep::Emptied(_) => {}
        }
        control.snapshots.answer(&mut place, || ingress.counts());
    }
    ingress.end(control);
    control.snapshots.leave(&place, ingress.counts());
    ingress.finish()
}

/// Waits for frames, at most `limit`. A nap for several of them lasts `nap` at most.
fn rest(
    ingress: &mut Ingress,
    idle: &mut Idle,
    (limit, nap, is_long): (Duration, Duration, bool),
    control: &Control,
) {
    if !idle.is_woken() {
        wait(ingress, idle, (limit, is_long), control);
    } else if !idle.naps(nap, ingress.take_frames()) {
        ingress.wait(limit, control);
    }
}

/// Looks again soon, after `limit` at most. Examines the interfaces now and then if that `is_long`.
fn wait(
    ingress: &mut Ingress,
    idle: &mut Idle,
    (limit, is_long): (Duration, bool),
    control: &Control,
) {
    if is_long {
        ingress.look(control);
    }
    idle.wait(limit);
}

/// A lane's work.
pub(crate) struct LaneWork<'a> {
    lane: Lane,
    place: ThreadSlot,
    chain: &'a Chain,
}

impl<'a> LaneWork<'a> {
    pub(crate) fn new(number: usize, lane: Lane, chain: &'a Chain, control: &Control) -> Self {
        Self { lane, place: control.snapshots.join(Thread::Lane(number)), chain }
    }
}

impl Work for LaneWork<'_> {
    fn round(&mut self, control: &Control) -> bool {
        self.lane.breathe(control)
    }

    fn is_finished(&self) -> bool {
        self.lane.is_finished()
    }

    fn rest(&mut self, _: bool) -> Duration {
        self.lane.rest_at_most()
    }

    fn answer(&mut self, control: &Control) {
        control.snapshots.answer(&mut self.place, || self.lane.counts(self.chain));
    }

    fn polls(&self) -> bool {
        self.lane.polls()
    }

    fn end(self: Box<Self>, control: &Control) -> Ended {
        control.snapshots.leave(&self.place, self.lane.counts(self.chain));
        self.lane.finish(self.chain)
    }
}

/// The sender's work.
pub(crate) struct SenderWork {
    merge: Merge,
    place: ThreadSlot,
}

impl SenderWork {
    pub(crate) fn new(merge: Merge, control: &Control) -> Self {
        Self { merge, place: control.snapshots.join(Thread::Sender) }
    }
}

impl Work for SenderWork {
    fn round(&mut self, control: &Control) -> bool {
        let worked = self.merge.step(control);
        if self.merge.is_sink_closed() {
            control.stop();
        }
        worked
    }

    fn is_finished(&self) -> bool {
        self.merge.is_finished()
    }

    fn rest(&mut self, is_long: bool) -> Duration {
        if is_long {
            self.merge.rest();
        }
        self.merge.rest_at_most()
    }

    fn answer(&mut self, control: &Control) {
        control.snapshots.answer(&mut self.place, || self.merge.counts());
    }

    fn end(mut self: Box<Self>, control: &Control) -> Ended {
        control.snapshots.leave(&self.place, self.merge.counts());
        self.merge.finish()
    }
}
