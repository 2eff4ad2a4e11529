//! Packet time while a source has no packets, and packets without room.

use std::time::Duration;

use warpline_packet::{BatchKind, Instant};

use super::super::RING_QUEUE;
use super::super::lane_writer::LaneWriter;
use super::{OVERLOAD_QUEUE, Steerer};
use crate::pressure::OUTPUT;

/// Since when a source has no packets: the host's clock in nanoseconds, and the packet time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence(Option<(u64, Instant)>);

impl Silence {
    /// The packet time at `clock` if it passes as the clock does. `last` is that of the last
    /// packet.
    fn time(&mut self, clock: u64, last: Instant) -> Instant {
        let (since, start) = *self.0.get_or_insert((clock, last));
        last.max(start.after(Duration::from_nanos(clock - since)))
    }
}

impl Steerer {
    /// Gives up fragments that waited too long for the first of their packet while the source has
    /// nothing. Returns whether there was room for all.
    pub(in super::super) fn expire_fragments(&mut self) -> bool {
        let Some(fragments) = self.fragments.as_mut().filter(|own| !own.is_empty()) else {
            return true;
        };
        let now = self.silence.time(self.clock.now(), self.last_time);
        if fragments.expire_after(self.last_time, now) {
            fragments.move_ready(&mut self.kept);
        }
        self.take_kept()
    }

    /// Moves the clock to `now`, at which a live source has no packet. Returns whether there was
    /// room for a tick that is due.
    pub(in super::super) fn pass(&mut self, now: Instant) -> bool {
        if !self.held.is_empty() {
            return true;
        }
        let Some(time) = self.time.pass(now) else { return true };
        self.last_time = self.last_time.max(time);
        if self.tick.is_none() {
            return true;
        }
        if self.next_tick == Instant::ZERO {
            self.set_next_tick(time);
        }
        if time >= self.next_tick {
            self.start_announcement(BatchKind::Tick { now: time, captured: now });
            self.set_next_tick(time);
        }
        self.announce()
    }

    /// Packets without room so far.
    pub(in super::super) fn lost(&self) -> u64 {
        let queues = [OVERLOAD_QUEUE, RING_QUEUE].map(|queue| self.part.overload.get(queue));
        queues.into_iter().flatten().sum()
    }

    /// The stage that a lane waits for. The output only if no lane waits for another one: packets
    /// leave in order, so the output also waits for a slow lane.
    pub(in super::super) fn held_by(&self) -> Option<usize> {
        let places = || self.writers.iter().filter_map(LaneWriter::held_by);
        places().find(|&place| place != OUTPUT).or_else(|| places().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_time_passes_in_silence_as_the_clock_does() {
        let at = |seconds| Instant::from_secs(seconds);
        let mut silence = Silence::default();
        assert_eq!(silence.time(7_000_000_000, at(100)), at(100));
        assert_eq!(silence.time(67_000_000_000, at(100)), at(160));
        // A live source has a clock of its own.
        assert_eq!(silence.time(67_000_000_000, at(170)), at(170));
    }
}
