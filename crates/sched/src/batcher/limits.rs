//! Limits: the size of launches, how long packets wait for one, and how many are in flight.

/// Limits of a [`Batcher`](super::Batcher). A value of 0 counts as 1, except for the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// Bytes of a launch. One batch that is larger alone makes a launch of its own.
    pub bytes_max: usize,
    /// Packets of a launch. One batch that has more alone makes a launch of its own.
    pub packets_max: usize,
    /// Batches of a launch.
    pub batches_max: usize,
    /// Nanoseconds from the arrival of a launch's oldest packet until it is due, full or not. With
    /// 0 each batch is due at once, with `u64::MAX` none ever is.
    pub delay_max_ns: u64,
    /// Whether a launch starts at once if no batch would come before it is due, by the distances of
    /// the last ones. Waiting would only delay it.
    pub foresees: bool,
    /// Launches in flight together: the streams of the pool, up to 256.
    pub launches_max: usize,
    /// Whether the number in flight is measured, since fewer may be better
    /// ([`StreamCount`](crate::StreamCount)).
    pub measures: bool,
    /// Bytes taken and not released: waiting, in flight, or done out of turn. A batch is taken
    /// while there are fewer, so the last one may exceed the limit.
    pub waiting_bytes_max: usize,
    /// Batches taken and not released, up to 65,536.
    pub waiting_batches_max: usize,
    /// Nanoseconds from giving out a launch until the watchdog names it; `u64::MAX` is never.
    pub timeout_ns: u64,
}

const LAUNCHES_MAX: usize = 256;
const WAITING_BATCHES_MAX: usize = 65_536;

impl Default for LaunchLimits {
    /// For a GPU on PCIe 5. Copying a launch of 2 MiB takes about 40 us, so the 2 to 6 us to submit
    /// it are small. 16 MiB are four launches in flight and four that form or wait, and they fit
    /// the GPU's L2 cache. 16,384 packets are 2 MiB of short ones.
    fn default() -> Self {
        Self {
            bytes_max: 2 << 20,
            packets_max: 16_384,
            batches_max: 64,
            delay_max_ns: 100_000,
            foresees: false,
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
