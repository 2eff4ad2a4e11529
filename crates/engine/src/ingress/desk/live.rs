//! Packet time while interfaces have no packets, and packets without room.

use warpline_packet::{Instant, Kind};

use super::super::RING_QUEUE;
use super::super::feed::Feed;
use super::{Desk, OVERLOAD_QUEUE};

impl Desk {
    /// Moves the clock to `now`, at which a live source has no packet. Returns whether there was
    /// room for a tick that is due.
    pub(in super::super) fn pass(&mut self, now: Instant) -> bool {
        if !self.held.is_empty() {
            return true;
        }
        let Some(time) = self.time.pass(now) else { return true };
        if self.tick.is_none() {
            return true;
        }
        if self.next_tick == Instant::ZERO {
            self.set_next_tick(time);
        }
        if time >= self.next_tick {
            self.start_announcement(Kind::Tick { now: time, captured: now });
            self.set_next_tick(time);
        }
        self.announce()
    }

    /// Packets without room so far.
    pub(in super::super) fn lost(&self) -> u64 {
        let queues = [OVERLOAD_QUEUE, RING_QUEUE].map(|queue| self.part.overload.get(queue));
        queues.into_iter().flatten().sum()
    }

    /// The stage that a lane waits for.
    pub(in super::super) fn held_by(&self) -> Option<usize> {
        self.feeds.iter().find_map(Feed::held_by)
    }
}
