//! A launch from its first batch until it is closed.

use super::LaunchLimits;

/// A batch, as the batcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its packets.
    pub packets: usize,
    /// Its bytes, in whatever measure `bytes_max` is meant: the frames', or what is copied of them.
    pub bytes: usize,
    /// When its oldest packet arrived, in nanoseconds of the caller's clock.
    pub oldest_ns: u64,
}

/// Names a launch: counted from 0 in the order of closing, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaunchId(pub u64);

/// Batches that are submitted together, in the order in which they were handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Its name.
    pub id: LaunchId,
    /// Its index in an array of [`Batcher::slots`](super::Batcher::slots), reserved from start to
    /// release. Launches take the indices in turn.
    pub slot: usize,
    /// How many batches: the next so many of those not given out yet.
    pub batches: usize,
    /// Packets of all of them.
    pub packets: usize,
    /// Bytes of all of them.
    pub bytes: usize,
    /// When the oldest packet of all arrived.
    pub oldest_ns: u64,
    /// Why it was closed.
    pub closed: Closed,
}

/// Why a launch was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It is as large as launches may be, or the next batch would not fit.
    Full,
    /// Its oldest packet waited for as long as it may.
    Due,
    /// The next batch would come after the time at which it is due
    /// ([`LaunchLimits::foresees`](super::LaunchLimits::foresees)).
    Foreseen,
    /// No more batches are taken before something is released, so it would not fill.
    NoRoom,
    /// The caller wanted it: what comes next must not overtake it.
    Flushed,
}

/// Sums of the batches of a launch that may take more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forming {
    pub(super) batches: usize,
    packets: usize,
    bytes: usize,
    oldest_ns: u64,
}

impl Forming {
    /// Whether `load` can be added without going over a limit.
    pub(super) fn fits(&self, load: &Load, limits: &LaunchLimits) -> bool {
        let within = |sum: usize, more: usize, max| sum.saturating_add(more) <= max;
        self.batches == 0
            || (within(self.bytes, load.bytes, limits.bytes_max)
                && within(self.packets, load.packets, limits.packets_max)
                && within(self.batches, 1, limits.batches_max))
    }

    pub(super) fn add(&mut self, load: &Load) {
        let first = self.batches == 0;
        self.oldest_ns = if first { load.oldest_ns } else { self.oldest_ns.min(load.oldest_ns) };
        self.batches += 1;
        self.packets = self.packets.saturating_add(load.packets);
        self.bytes = self.bytes.saturating_add(load.bytes);
    }

    /// Whether a limit is reached.
    pub(super) fn is_full(&self, limits: &LaunchLimits) -> bool {
        self.bytes >= limits.bytes_max
            || self.packets >= limits.packets_max
            || self.batches >= limits.batches_max
    }

    /// When it is due; never if it is empty.
    pub(super) fn due_ns(&self, limits: &LaunchLimits) -> u64 {
        if self.batches == 0 {
            return u64::MAX;
        }
        self.oldest_ns.saturating_add(limits.delay_max_ns)
    }

    /// Makes it a launch, and begins anew.
    pub(super) fn close(&mut self, id: LaunchId, slot: usize, closed: Closed) -> Launch {
        let Self { batches, packets, bytes, oldest_ns } = std::mem::take(self);
        Launch { id, slot, batches, packets, bytes, oldest_ns, closed }
    }
}
