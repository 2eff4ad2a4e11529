//! The size and the deadline of launches, as a stage on a device closes them while it runs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use warpline_sched::{Batcher, LaunchLimits};

/// Nothing was set.
const UNSET: u64 = u64::MAX;

/// See the module. All lanes read one target. Its size and its deadline may come from two
/// decisions for one batch.
#[derive(Debug)]
pub struct LaunchTarget {
    bytes: AtomicUsize,
    delay_ns: AtomicU64,
}

impl Default for LaunchTarget {
    fn default() -> Self {
        Self { bytes: AtomicUsize::new(usize::MAX), delay_ns: AtomicU64::new(UNSET) }
    }
}

impl LaunchTarget {
    /// Launches of so many bytes, each closed at the latest after `delay`.
    pub fn set(&self, bytes: usize, delay: Duration) {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(UNSET).min(UNSET - 1);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.delay_ns.store(delay_ns, Ordering::Relaxed);
    }

    /// The bytes and the delay that were set.
    pub fn get(&self) -> Option<(usize, Duration)> {
        let delay_ns = self.delay_ns.load(Ordering::Relaxed);
        (delay_ns != UNSET)
            .then(|| (self.bytes.load(Ordering::Relaxed), Duration::from_nanos(delay_ns)))
    }

    /// Hands the target to `batcher`, whose launches began with these limits.
    pub(crate) fn apply(&self, batcher: &mut Batcher) {
        let LaunchLimits { bytes_max, delay_max_ns, .. } = *batcher.limits();
        let delay_ns = self.delay_ns.load(Ordering::Relaxed);
        let delay_ns = if delay_ns == UNSET { delay_max_ns } else { delay_ns };
        batcher.handle_target(self.bytes.load(Ordering::Relaxed).min(bytes_max), delay_ns);
    }
}
