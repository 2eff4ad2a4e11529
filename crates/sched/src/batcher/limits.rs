//! How large launches are, how long packets wait for one, and how much may be under way.

/// Bounds of a [`Batcher`](super::Batcher). What is 0 counts as 1, but for the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// Bytes of a launch. One batch that is larger alone makes a launch of its own.
    pub bytes_max: usize,
    /// Packets of a launch. One batch that has more alone makes a launch of its own.
    pub packets_max: usize,
    /// Batches of a launch.
    pub batches_max: usize,
    /// Nanoseconds from the arrival of a launch's oldest packet until it is due, full or not. At 0 each batch is
    /// due at once; at `u64::MAX` none ever is.
    pub delay_max_ns: u64,
    /// Launches in flight together: the streams of the pool, up to 256.
    pub launches_max: usize,
    /// Whether fewer may be better, and how many is found by measuring ([`StreamCount`](crate::StreamCount)).
    pub measures: bool,
    /// Bytes taken and not released, whether they wait, are in flight or are done out of turn. A batch is taken
    /// while fewer are there, so the last may go over it.
    pub waiting_bytes_max: usize,
    /// Batches taken and not released, up to 65,536.
    pub waiting_batches_max: usize,
    /// Nanoseconds from giving out a launch until the watchdog names it; `u64::MAX` is never.
    pub timeout_ns: u64,
}

const LAUNCHES_MAX: usize = 256;
const WAITING_BATCHES_MAX: usize = 65_536;

impl Default for LaunchLimits {
    /// For a GPU behind PCIe 5: a launch of 2 MiB is copied in some 40 us, so that what it costs to submit it, 2 to
    /// 6 us, is small beside that; 16 MiB under way are four launches in flight and four that fill or wait, and
    /// stay in the GPU's second-level cache. 16,384 packets are 2 MiB of short ones.
    fn default() -> Self {
        Self {
            bytes_max: 2 << 20,
            packets_max: 16_384,
            batches_max: 64,
            delay_max_ns: 100_000,
            launches_max: 4,
            measures: false,
            waiting_bytes_max: 16 << 20,
            waiting_batches_max: 512,
            timeout_ns: 2_000_000_000,
        }
    }
}

impl LaunchLimits {
    /// The same with every bound where it can be kept.
    pub(super) fn fit(&self) -> Self {
        Self {
            bytes_max: self.bytes_max.max(1),
            packets_max: self.packets_max.max(1),
            batches_max: self.batches_max.max(1),
            launches_max: self.launches_max.clamp(1, LAUNCHES_MAX),
            waiting_bytes_max: self.waiting_bytes_max.max(1),
            waiting_batches_max: self.waiting_batches_max.clamp(1, WAITING_BATCHES_MAX),
            ..*self
        }
    }
}
