//! How many launches are in flight: a fixed number, or one found by measuring.
//!
//! The gain of overlapping launches depends on the device, the kernels and the sizes (vGPU study,
//! section IV). Copies and kernels may also share a link. So each number, doubled from one to the
//! maximum, is tried for some launches. The smallest number that is hardly slower than the best is
//! kept. After a while all are tried again, since traffic changes. Only a device that falls behind
//! is measured. Any other keeps the last number, at first the maximum: there only the delay
//! matters.
//!
//! ```
//! use warpline_sched::StreamCount;
//!
//! // A device that does one thing at a time: the second stream brings nothing.
//! let mut streams = StreamCount::measured(2);
//! let mut now_ns = 0;
//! for _ in 0..1_000 {
//!     now_ns += 1_000;
//!     streams.handle_done(1_500, now_ns);
//! }
//! assert_eq!(streams.count(), 1);
//! ```

/// Launches that a measurement takes.
const LAUNCHES: u32 = 32;
/// Measurements for which a number is kept before all are tried again.
const KEPT: u32 = 256;
/// A number that gives less than the best by no more than one in so many is as good.
const LIKE: u64 = 20;

/// How many launches are in flight; see the module.
#[derive(Debug)]
pub struct StreamCount {
    count: usize,
    /// Where it is found by measuring.
    tuning: Option<Tuning>,
}

#[derive(Debug)]
struct Tuning {
    most: usize,
    phase: Phase,
    window: Window,
    /// The number that was kept last.
    kept: usize,
    /// Bytes a second that numbers gave, in the order in which they were tried.
    rates: Vec<u64>,
}

#[derive(Debug)]
enum Phase {
    /// For so many measurements more.
    Keeping(u32),
    Trying,
}

impl StreamCount {
    /// Always `count`.
    pub fn fixed(count: usize) -> Self {
        Self { count: count.max(1), tuning: None }
    }

    /// From one to `most`, as measured.
    pub fn measured(most: usize) -> Self {
        let most = most.max(1);
        let tries = most.next_power_of_two().ilog2() as usize + 1;
        let (phase, window) = (Phase::Keeping(0), Window::default());
        let rates = Vec::with_capacity(tries);
        let tuning = Tuning { most, phase, window, kept: most, rates };
        Self { count: most, tuning: Some(tuning) }
    }

    /// How many launches may be in flight now.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A launch of `bytes` is done; another waited for it.
    pub fn handle_done(&mut self, bytes: usize, now_ns: u64) {
        let Some(tuning) = &mut self.tuning else { return };
        if let Some(rate) = tuning.window.add(bytes, now_ns, self.count) {
            self.count = tuning.next(rate, self.count);
        }
    }

    /// A stream is free and no launch waits for it, so the measurement is not about the device.
    pub fn handle_idle(&mut self) {
        let Some(tuning) = &mut self.tuning else { return };
        tuning.window = Window::default();
        if matches!(tuning.phase, Phase::Trying) {
            (tuning.phase, self.count) = (Phase::Keeping(0), tuning.kept);
        }
    }
}

impl Tuning {
    /// The number from here on, where `count` gave `rate`.
    fn next(&mut self, rate: u64, count: usize) -> usize {
        self.window = Window::default();
        match &mut self.phase {
            Phase::Keeping(0) => {
                self.phase = Phase::Trying;
                self.rates.clear();
                return 1;
            }
            Phase::Keeping(left) => {
                *left -= 1;
                return count;
            }
            Phase::Trying => self.rates.push(rate),
        }
        if count < self.most {
            return (2 * count).min(self.most);
        }
        let best = self.rates.iter().copied().max().unwrap_or(0);
        let fewest = self.rates.iter().position(|&rate| rate >= best - best / LIKE).unwrap_or(0);
        (self.phase, self.kept) = (Phase::Keeping(KEPT), (1 << fewest).min(self.most));
        self.kept
    }
}

/// Consecutive launches by a device that always had more to do.
#[derive(Debug, Default)]
struct Window {
    /// Launches done that began before the number was what it is.
    skipped: usize,
    since_ns: u64,
    bytes: u64,
    launches: u32,
}

impl Window {
    /// Takes a launch; gives bytes a second once there are enough.
    fn add(&mut self, bytes: usize, now_ns: u64, count: usize) -> Option<u64> {
        if self.skipped <= 2 * count {
            (self.skipped, self.since_ns) = (self.skipped + 1, now_ns);
            return None;
        }
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.launches = self.launches.saturating_add(1);
        let nanos = now_ns.saturating_sub(self.since_ns);
        if self.launches < LAUNCHES || nanos == 0 {
            return None;
        }
        let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(nanos);
        Some(rate.min(u64::MAX.into()) as u64)
    }
}

#[cfg(test)]
mod tests;
