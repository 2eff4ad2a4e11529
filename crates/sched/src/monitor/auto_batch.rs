//! Launch size and deadline by arrival rate and delay budget: table 3 of the GPU IDS framework as a
//! live decision.

/// A launch size with its measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchSize {
    /// Bytes of a launch.
    pub bytes: u64,
    /// Bits a second that the device carries with it.
    pub bits_per_s: f64,
    /// From the submission of a launch until it is done.
    pub latency_ns: f64,
}

/// The packets whose delay the budget bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The oldest of each launch.
    Oldest,
    /// The average, as in the framework's tables.
    Mean,
}

/// A launch size and how long its oldest packet waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchDecision {
    /// Index of the chosen size.
    pub size: usize,
    /// Time from the oldest packet until the launch is due.
    pub deadline_ns: f64,
}

/// Chooses among measured launch sizes.
#[derive(Clone, Debug)]
pub struct AutoBatch {
    sizes: Vec<LaunchSize>,
    budget_ns: f64,
    wait: Wait,
    chosen: Option<usize>,
}

/// A larger launch is chosen only if it fits at a rate lower by this part.
const MARGIN: f64 = 0.05;

impl AutoBatch {
    /// With these sizes, in any order, and a delay budget.
    pub fn new(mut sizes: Vec<LaunchSize>, budget_ns: f64, wait: Wait) -> Self {
        sizes.sort_by_key(|size| size.bytes);
        Self { sizes, budget_ns, wait, chosen: None }
    }

    /// Its sizes, from the smallest.
    pub fn sizes(&self) -> &[LaunchSize] {
        &self.sizes
    }

    /// The launch for a rate: the largest that fits the budget and carries the rate. If none
    /// carries it, the one that carries most. `None` if none fits: the CPU is faster.
    pub fn handle_rate(&mut self, bits_per_s: f64) -> Option<BatchDecision> {
        let best = self.largest(bits_per_s);
        let grows = matches!((self.chosen, best), (Some(old), Some(new)) if new > old);
        let is_certain = !grows || self.largest(bits_per_s * (1.0 - MARGIN)) >= best;
        let old = self.chosen.filter(|&old| self.fits(old, bits_per_s));
        self.chosen = if is_certain { best } else { old.or(best) };
        let size = self.chosen?;
        let deadline_ns = match self.wait {
            Wait::Oldest => self.budget_ns - self.sizes[size].latency_ns,
            Wait::Mean => 2.0 * (self.budget_ns - self.sizes[size].latency_ns),
        };
        Some(BatchDecision { size, deadline_ns })
    }

    fn largest(&self, bits_per_s: f64) -> Option<usize> {
        let fitting = || (0..self.sizes.len()).filter(|&at| self.fits(at, bits_per_s));
        let carries = |&at: &usize| self.sizes[at].bits_per_s >= bits_per_s;
        let rate = |at: usize| self.sizes[at].bits_per_s;
        let most = || fitting().max_by(|&a, &b| rate(a).total_cmp(&rate(b)));
        fitting().rfind(carries).or_else(most)
    }

    fn fits(&self, at: usize, bits_per_s: f64) -> bool {
        let size = &self.sizes[at];
        let fill_ns = size.bytes as f64 * 8e9 / bits_per_s.max(1.0);
        let wait_ns = match self.wait {
            Wait::Oldest => fill_ns,
            Wait::Mean => fill_ns / 2.0,
        };
        wait_ns + size.latency_ns <= self.budget_ns
    }
}
