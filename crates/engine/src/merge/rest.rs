//! The merge while no lane has anything for it.

use std::time::Duration;

use warpline_io::neighbours::NeighbourTable;

use super::Merge;

/// How often packets that wait for a neighbour are looked at.
const HELD_LOOK: Duration = Duration::from_millis(1);

impl Merge {
    /// The input pauses: flushes the output, so that readers get what was sent.
    pub(crate) fn rest(&mut self) {
        self.reports.rest();
        if std::mem::take(&mut self.unflushed)
            && self.sink_open
            && let Err(error) = self.sink.flush()
        {
            self.close_sink(&error);
        }
    }

    /// How long it may rest when no lane has anything for it.
    pub(crate) fn rest_at_most(&self) -> Duration {
        let holds = self.neighbours.as_ref().is_some_and(NeighbourTable::holds_packets);
        if holds { HELD_LOOK } else { Duration::MAX }
    }
}
