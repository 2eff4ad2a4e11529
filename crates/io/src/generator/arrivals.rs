//! When packets arrive: evenly, at random, or in bursts, all at the same mean rate.
//!
//! Time here is the packets' own, counted from the first one; nothing reads a clock.

use core::time::Duration;

use super::rates::Rates;
use super::rng::Rng;

/// The process by which packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Process {
    /// Each frame takes its own length at the given rate.
    Constant,
    /// Independent, exponentially distributed gaps.
    Poisson,
    /// Bursts at [`PEAK`] times the rate, of geometrically distributed length, with exponentially
    /// distributed silence between them.
    OnOff,
}

/// How much faster than the mean a burst is.
const PEAK: f64 = 10.0;

/// Mean packets of a burst.
const BURST_PACKETS: f64 = 32.0;

/// The clock of the arriving packets.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    process: Process,
    rates: Rates,
    mean_len: f64,
    /// The number of the present step of the rates, and when it ends.
    step: usize,
    step_end_ns: u64,
    nanos_per_byte: f64,
    /// Mean nanoseconds from one packet to the next.
    mean_gap: f64,
    elapsed_ns: u64,
    /// Fraction of a nanosecond by which `elapsed_ns` falls short, in [0, 1).
    fraction: f64,
}

impl Arrivals {
    /// `mean_len` is the mean frame length in bytes; rates count frame bytes.
    pub(super) fn new(process: Process, rates: Rates, mean_len: f64) -> Self {
        let mut new = Self {
            process,
            rates,
            mean_len,
            step: 0,
            step_end_ns: 0,
            nanos_per_byte: 0.0,
            mean_gap: 0.0,
            elapsed_ns: 0,
            fraction: 0.0,
        };
        new.enter(0);
        new
    }

    /// Begins a step of the rates.
    fn enter(&mut self, step: usize) {
        let own = self.rates.step(step);
        let time_ns = u64::try_from(own.time.as_nanos()).unwrap_or(u64::MAX);
        self.step = step;
        self.step_end_ns = self.step_end_ns.saturating_add(time_ns);
        self.nanos_per_byte = 8.0 / own.gbps;
        self.mean_gap = self.nanos_per_byte * self.mean_len;
    }

    /// A gap at the present rate, as long as it is over steps of other rates. Enters the last of
    /// them.
    #[cold]
    fn stretched(&mut self, mut gap_ns: f64) -> f64 {
        let mut passed_ns = 0.0;
        loop {
            let left_ns = (self.step_end_ns - self.elapsed_ns) as f64 - passed_ns;
            if gap_ns < left_ns || self.is_steady() {
                return passed_ns + gap_ns;
            }
            passed_ns += left_ns;
            let before = self.nanos_per_byte;
            self.enter(self.step + 1);
            gap_ns = (gap_ns - left_ns) * self.nanos_per_byte / before;
        }
    }

    /// Whether the present step has no end.
    #[inline]
    fn is_steady(&self) -> bool {
        self.step_end_ns == u64::MAX
    }

    /// When the next packet arrives, in nanoseconds since the first one did.
    #[inline]
    pub(super) fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// When the next packet arrives, since the first one did.
    #[inline]
    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }

    /// About how many packets arrive within `time` at the present rate.
    #[inline]
    pub(super) fn count_within(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.mean_gap
    }

    /// A gap of one of the random processes; `own` is that of the constant one.
    #[inline(never)]
    fn random(&self, own: f64, rng: &mut Rng) -> f64 {
        match self.process {
            Process::Constant => own,
            Process::Poisson => self.mean_gap * exponential(rng),
            Process::OnOff if rng.chance(1.0 / BURST_PACKETS) => {
                // Makes up for what the burst was ahead of the mean rate.
                let silence = self.mean_gap * BURST_PACKETS * (1.0 - 1.0 / PEAK);
                own / PEAK + silence * exponential(rng)
            }
            Process::OnOff => own / PEAK,
        }
    }

    /// Continues from a frame of `len` bytes to the one after it.
    #[inline]
    pub(super) fn advance(&mut self, len: u32, rng: &mut Rng) {
        let own = self.nanos_per_byte * f64::from(len);
        let gap = if self.process == Process::Constant { own } else { self.random(own, rng) };
        let gap = self.fraction + if self.is_steady() { gap } else { self.stretched(gap) };
        let whole = gap.trunc();
        self.fraction = gap - whole;
        // The conversion to a signed number is the faster one.
        self.elapsed_ns = self.elapsed_ns.saturating_add(whole as i64 as u64);
    }
}

/// An exponentially distributed number of mean 1.
#[inline]
fn exponential(rng: &mut Rng) -> f64 {
    -libm::log(1.0 - rng.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: usize = 200_000;

    /// The gaps in nanoseconds between packets of 125 bytes at 1 Gb/s: 1000 each on average.
    fn gaps(process: Process) -> Vec<f64> {
        let mut arrivals = Arrivals::new(process, Rates::steady(1.0), 125.0);
        let mut rng = Rng::stream(42, 2);
        let mut last = arrivals.elapsed();
        assert_eq!(last, Duration::ZERO);
        let step = |_| {
            arrivals.advance(125, &mut rng);
            let gap = arrivals.elapsed() - last;
            last = arrivals.elapsed();
            gap.as_nanos() as f64
        };
        (0..PACKETS).map(step).collect()
    }

    fn mean_and_deviation(gaps: &[f64]) -> (f64, f64) {
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn constant_keeps_the_rate_to_the_nanosecond() {
        assert!(gaps(Process::Constant).iter().all(|&gap| gap == 1000.0));
        let mut arrivals = Arrivals::new(Process::Constant, Rates::steady(100.0), 60.0);
        let mut rng = Rng::stream(0, 0);
        (0..1_000_000).for_each(|_| arrivals.advance(60, &mut rng));
        // 4.8 ns each: fractions are carried, not lost.
        assert!(arrivals.elapsed().as_nanos().abs_diff(4_800_000) <= 1);
    }

    #[test]
    fn rates_take_turns() {
        let rates = Rates::parse("1@0.001|2@0.002").expect("two steps");
        let mut arrivals = Arrivals::new(Process::Constant, rates, 125.0);
        let mut rng = Rng::stream(0, 0);
        let mut counts = [0; 4];
        while let Some(count) = counts.get_mut(arrivals.elapsed().as_millis() as usize) {
            *count += 1;
            arrivals.advance(125, &mut rng);
        }
        assert_eq!(counts, [1000, 2000, 2000, 1000]);
        // A packet of 1,000 us at the first rate has 500 us of it when 1 us of the second begins.
        let rates = Rates::parse("0.001@0.0015|1@0.001").expect("two steps");
        let mut arrivals = Arrivals::new(Process::Constant, rates, 125.0);
        let mut times = vec![];
        for _ in 0..4 {
            times.push(arrivals.elapsed().as_nanos());
            arrivals.advance(125, &mut rng);
        }
        assert_eq!(times, [0, 1_000_000, 1_500_500, 1_501_500]);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let gaps = gaps(Process::Poisson);
        let (mean, deviation) = mean_and_deviation(&gaps);
        assert!((mean - 1000.0).abs() < 12.0, "{mean}");
        assert!((deviation - 1000.0).abs() < 25.0, "{deviation}");
        // P(gap > t) = e^(-t / mean).
        for t in [100.0, 500.0, 1000.0, 3000.0] {
            let share = gaps.iter().filter(|&&gap| gap >= t).count() as f64 / PACKETS as f64;
            assert!((share - (-t / 1000.0f64).exp()).abs() < 0.006, "{t}: {share}");
        }
    }

    #[test]
    fn bursts_keep_the_mean_rate() {
        let gaps = gaps(Process::OnOff);
        let (mean, deviation) = mean_and_deviation(&gaps);
        assert!((mean - 1000.0).abs() < 75.0, "{mean}");
        assert!(deviation > 5000.0, "{deviation}");
        let inside = gaps.iter().filter(|&&gap| gap == 100.0).count() as f64 / PACKETS as f64;
        assert!((inside - 31.0 / 32.0).abs() < 0.003, "{inside}");
    }
}
