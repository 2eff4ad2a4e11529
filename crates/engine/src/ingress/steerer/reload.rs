//! Announces reloads and moves.

use warpline_packet::BatchKind;

use super::Steerer;
use crate::Control;

impl Steerer {
    /// Announces to the lanes that functions were built anew. Returns whether all lanes have it.
    #[cold]
    pub(in super::super) fn announce_reload(&mut self, control: &Control) -> bool {
        self.reloads = control.reloads.asked();
        if let Some(deployment) = control.reloads.deployment() {
            self.steering = deployment.chain().steering.clone();
            if let Some(lanes) = control.reloads.lanes() {
                self.batch_packets = lanes.settings().batch_packets;
                let first = self.own.map_or(0, |(own, _)| own);
                let writers = (first..).zip(&mut self.writers);
                writers.for_each(|(lane, writer)| writer.prepare_move(lane, &lanes));
            }
            self.start_announcement(BatchKind::Reload);
        }
        self.announce()
    }
}
