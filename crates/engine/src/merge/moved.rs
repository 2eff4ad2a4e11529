//! The merge follows lanes to other queues.

use super::Merge;
use crate::Control;

impl Merge {
    /// Of lane `lane` alone.
    pub(crate) fn of_lane(self, lane: usize) -> Self {
        Self { first_lane: lane, ..self }
    }

    /// Every lane came to a reload. If functions moved, lanes continue at other queues.
    pub(super) fn follow(&mut self, control: &Control) {
        if let Some(lanes) = control.reloads.lanes() {
            for (lane, exit) in (self.first_lane..).zip(&mut self.exits) {
                lanes.swap_exit(lane, &mut exit.queue, &mut exit.pool);
            }
        }
        self.reloaded = control.reloads.passed();
    }
}
