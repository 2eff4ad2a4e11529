//! The launch batcher: collects batches into launches for a device and keeps their order. It
//! follows the packet buffer and stream pool of the GPU IDS framework (section 4) and Simmer's
//! batch_size. Unlike in the framework, no CPU thread waits.
//!
//! A launch is closed when it is full: the next batch would exceed `bytes_max`, `packets_max` or
//! `batches_max`, or one is reached. [`Batcher::handle_flush`] closes it too, and so does a wait of
//! `delay_max_ns` by its oldest packet. A full launch waits for a stream as it is. A launch that is
//! due while every stream is busy stays open. Closing it would not start it earlier, and it can
//! take more until then. So launches become larger, not more numerous, when the device falls
//! behind.
//!
//! No batch is dropped: the caller hands one over only while [`Batcher::has_room`] is true. When it
//! is false and a stream is free, the forming launch starts as it is. So a caller without room
//! never waits for a launch that waits for the caller.
//!
//! The caller keeps batches in a queue, in the order it handed them over, and takes as many from
//! the front as a launch names. It keeps its data of a launch in an array by [`Launch::slot`] until
//! the release.
//!
//! ```
//! use warpline_sched::{Batcher, LaunchLimits, Load};
//!
//! let limits = LaunchLimits { bytes_max: 2_000, delay_max_ns: 50, ..LaunchLimits::default() };
//! let mut batcher = Batcher::new(&limits);
//! batcher.handle_batch(&Load { packets: 1, bytes: 1_500, oldest_ns: 10 });
//! assert_eq!(batcher.poll_launch(20), None);
//! assert_eq!(batcher.poll_timeout(), Some(60));
//!
//! // One that does not fit any more closes it, and is the first of the next.
//! batcher.handle_batch(&Load { packets: 1, bytes: 1_500, oldest_ns: 20 });
//! let first = batcher.poll_launch(20).expect("a full one");
//! let second = batcher.poll_launch(70).expect("one that is due");
//! assert_eq!((first.batches, second.batches), (1, 1));
//!
//! // Completed in any order, released in this one.
//! batcher.handle_done(second.id, 80);
//! assert_eq!(batcher.poll_release(), None);
//! batcher.handle_done(first.id, 90);
//! assert_eq!(batcher.poll_release(), Some(first));
//! assert_eq!(batcher.poll_release(), Some(second));
//! assert!(batcher.is_empty());
//! ```

mod flights;
mod forming;
mod limits;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use flights::Flights;
use forming::Forming;
use pace::Pace;

use crate::StreamCount;

pub use forming::{Closed, Launch, LaunchId, Load};
pub use limits::LaunchLimits;

/// How long a lane sleeps at most while a device works: completions are asked for. In nanoseconds.
pub const LOOK_NS: u64 = 50_000;

/// Collects batches into launches; see the crate for how to drive it. Allocates nothing after
/// [`Batcher::new`].
#[derive(Debug)]
pub struct Batcher {
    limits: LaunchLimits,
    /// The limits by which launches are closed: `limits`, or a target below them.
    closing: LaunchLimits,
    forming: Forming,
    pace: Pace,
    /// Closed, waiting for a stream.
    closed: VecDeque<Launch>,
    flights: Flights,
    streams: StreamCount,
    closed_ever: u64,
    held_batches: usize,
    held_bytes: usize,
}

impl Batcher {
    /// An empty one.
    pub fn new(limits: &LaunchLimits) -> Self {
        let limits = limits.fit();
        Self {
            forming: Forming::default(),
            pace: Pace::default(),
            // Each has a batch at least.
            closed: VecDeque::with_capacity(limits.waiting_batches_max),
            flights: Flights::new(limits.launches_max),
            streams: match limits.measures {
                true => StreamCount::measured(limits.launches_max),
                false => StreamCount::fixed(limits.launches_max),
            },
            closed_ever: 0,
            held_batches: 0,
            held_bytes: 0,
            closing: limits,
            limits,
        }
    }

    /// Closes launches at so many bytes, and at a wait of `delay_ns` by their oldest packet. No
    /// launch has more bytes than [`LaunchLimits::bytes_max`].
    pub fn handle_target(&mut self, bytes: usize, delay_ns: u64) {
        self.closing.bytes_max = bytes.clamp(1, self.limits.bytes_max);
        self.closing.delay_max_ns = delay_ns;
    }

    /// Its bounds, as they are kept.
    pub fn limits(&self) -> &LaunchLimits {
        &self.limits
    }

    /// Places that launches take in turn, twice `launches_max`: every [`Launch::slot`] is below.
    pub fn slots(&self) -> usize {
        self.flights.slots()
    }

    /// Whether it takes another batch, of any size.
    pub fn has_room(&self) -> bool {
        self.held_batches < self.limits.waiting_batches_max
            && self.held_bytes < self.limits.waiting_bytes_max
    }

    /// Whether every batch was released.
    pub fn is_empty(&self) -> bool {
        self.held_batches == 0
    }

    /// Batches taken and not released.
    pub fn held_batches(&self) -> usize {
        self.held_batches
    }

    /// Bytes taken and not released.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether a closed launch waits for a stream.
    pub fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Launches given out and not done.
    pub fn in_flight(&self) -> usize {
        self.flights.in_flight()
    }

    /// Launches that may be in flight together, as things are.
    pub fn streams(&self) -> usize {
        self.streams.count()
    }

    /// Takes a batch; only when there is room.
    pub fn handle_batch(&mut self, load: &Load) {
        debug_assert!(self.has_room(), "room was asked for");
        if !self.forming.fits(load, &self.closing) {
            self.close(Closed::Full);
        }
        self.forming.add(load);
        self.pace.handle_batch(load.oldest_ns);
        self.held_batches += 1;
        self.held_bytes = self.held_bytes.saturating_add(load.bytes);
        if self.forming.is_full(&self.closing) {
            self.close(Closed::Full);
        }
    }

    /// Closes the forming launch, because the next event must not overtake it: a tick, a reload,
    /// the end. Everything has left when [`Batcher::is_empty`] is true.
    pub fn handle_flush(&mut self) {
        if self.forming.batches > 0 {
            self.close(Closed::Flushed);
        }
    }

    /// A launch is complete, or was given up and done by other means: its stream is free. Returns
    /// false and does nothing if the launch isn't in flight.
    pub fn handle_done(&mut self, id: LaunchId, now_ns: u64) -> bool {
        let done = self.flights.complete(id);
        if let Some(launch) = &done {
            self.streams.handle_done(launch.bytes, now_ns);
        }
        done.is_some()
    }

    /// A launch continues with a second work on its stream; the watchdog starts anew.
    pub fn handle_next_work(&mut self, id: LaunchId, now_ns: u64) {
        self.flights.watch(id, now_ns.saturating_add(self.limits.timeout_ns));
    }

    /// A launch that [`Batcher::poll_expired`] returned is not to blame: the watchdog starts anew.
    pub fn handle_excuse(&mut self, id: LaunchId, now_ns: u64) {
        self.flights.watch_again(id, now_ns.saturating_add(self.limits.timeout_ns));
    }

    /// The next launch that finds a stream, in the order of closing.
    pub fn poll_launch(&mut self, now_ns: u64) -> Option<Launch> {
        if !self.has_stream() {
            return None;
        }
        if self.closed.is_empty()
            && let Some(why) = self.ripe(now_ns)
        {
            self.close(why);
        }
        let Some(launch) = self.closed.pop_front() else {
            self.streams.handle_idle();
            return None;
        };
        self.flights.add(launch, now_ns.saturating_add(self.limits.timeout_ns));
        Some(launch)
    }

    /// A launch that started at least `timeout_ns` ago and isn't done. Each is returned once,
    /// unless it is excused ([`Batcher::handle_excuse`]), and stays in flight until
    /// [`Batcher::handle_done`].
    pub fn poll_expired(&mut self, now_ns: u64) -> Option<Launch> {
        self.flights.expire(now_ns)
    }

    /// The next launch in the order of closing, if it is done.
    pub fn poll_release(&mut self) -> Option<Launch> {
        let launch = self.flights.release()?;
        self.held_batches -= launch.batches;
        self.held_bytes = self.held_bytes.saturating_sub(launch.bytes);
        Some(launch)
    }

    /// When to poll again if nothing happens before: the time when a launch is due, or the
    /// watchdog's. It is 0 while there is something to poll already.
    pub fn poll_timeout(&self) -> Option<u64> {
        let next_ns = match self.has_stream() {
            _ if self.flights.has_release() => 0,
            true if !self.closed.is_empty() => 0,
            true => self.ripe_ns().min(self.flights.expires_ns()),
            false => self.flights.expires_ns(),
        };
        (next_ns < u64::MAX).then_some(next_ns)
    }

    /// Whether one more may be in flight.
    fn has_stream(&self) -> bool {
        self.flights.has_room() && self.flights.in_flight() < self.streams.count()
    }

    /// Why what is forming should go now, if it should.
    fn ripe(&self, now_ns: u64) -> Option<Closed> {
        match self.forming.batches {
            0 => None,
            _ if !self.has_room() => Some(Closed::NoRoom),
            _ if self.forming.due_ns(&self.closing) <= now_ns => Some(Closed::Due),
            _ => self.waits_in_vain().then_some(Closed::Foreseen),
        }
    }

    /// When what is forming should go, as things are; `u64::MAX` is never.
    fn ripe_ns(&self) -> u64 {
        if self.forming.batches > 0 && (!self.has_room() || self.waits_in_vain()) {
            return 0;
        }
        self.forming.due_ns(&self.closing)
    }

    /// Whether what is forming would be due before the next batch comes.
    fn waits_in_vain(&self) -> bool {
        self.limits.foresees && self.pace.is_next_after(self.forming.due_ns(&self.closing))
    }

    fn close(&mut self, why: Closed) {
        let id = LaunchId(self.closed_ever);
        let slot = (self.closed_ever % self.flights.slots() as u64) as usize;
        self.closed_ever += 1;
        self.closed.push_back(self.forming.close(id, slot, why));
    }
}
