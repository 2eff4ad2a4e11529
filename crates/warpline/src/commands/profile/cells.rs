//! The list of measurements of a run.

use std::time::Duration;

use warpline_nf::Definition;

use super::measure::ROUNDS_LEAST;
use super::work::{Where, chain};

/// One measurement to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// The function and the device, as the profile numbers them.
    pub(super) pair: (usize, usize),
    pub(super) launch_packets: u32,
    pub(super) packet_len: u32,
    /// A function and how many instances of it run on the device at the same time.
    pub(super) beside: Option<(usize, u32)>,
    /// Another one beside them.
    pub(super) third: Option<usize>,
}

/// The sizes and times of a run.
pub(super) struct Extent {
    pub(super) name: &'static str,
    pub(super) launches: &'static [u32],
    /// Packets of small batches of the CPU.
    pub(super) batches: &'static [u32],
    pub(super) lens: &'static [u32],
    /// Numbers of co-runners.
    pub(super) beside: &'static [u32],
    /// Of each measurement at most.
    pub(super) rounds: usize,
    pub(super) round_ms: u64,
    /// No measurement begins after so long. Times of threads come after it.
    pub(super) seconds_max: u64,
}

/// The sizes at which functions are measured beside others.
const BESIDE_LAUNCH: u32 = 1024;
const BESIDE_LEN: u32 = 1024;
/// The largest batch of the CPU.
const BATCH_MAX: u32 = 1024;

pub(super) const QUICK: Extent = Extent {
    name: "quick",
    launches: &[256, 1024],
    batches: &[],
    lens: &[64, 1024],
    beside: &[],
    rounds: 3,
    round_ms: 40,
    seconds_max: 75,
};
pub(super) const FULL: Extent = Extent {
    name: "full",
    launches: &[256, 1024, 4096, 64],
    batches: &[16, 1],
    lens: &[64, 256, 1024, 1500],
    beside: &[1, 3],
    rounds: 5,
    round_ms: 300,
    seconds_max: 7000,
};

/// The time that a chain takes to be built and started, about.
const BUILD: Duration = Duration::from_millis(250);
/// Measurements after which the estimate is mostly that of the run itself.
const GUESSED: u32 = 8;

impl Extent {
    /// The time that `left` measurements take, after so many in `elapsed`.
    pub(super) fn time_left(&self, done: usize, elapsed: Duration, left: usize) -> Duration {
        // Half a round warms up, and one shows the latency.
        let rounds = self.rounds.min(ROUNDS_LEAST) as u32;
        let guess = Duration::from_millis(self.round_ms) * (2 * rounds + 3) / 2 + BUILD;
        let each = (elapsed + guess * GUESSED) / (done as u32 + GUESSED);
        (each * left as u32).min(Duration::from_secs(self.seconds_max).saturating_sub(elapsed))
    }

    /// The measurements, in a fixed order. All functions come with their first sizes, then with
    /// others, then beside each other, so the part that a run has made serves all functions.
    pub(super) fn cells(&self, functions: usize, runs: &[(usize, usize)]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &launch_packets in self.launches.iter().chain(self.batches) {
            let is_small = self.batches.contains(&launch_packets);
            for &packet_len in self.lens {
                let fits = |pair: &&(usize, usize)| match pair.1 {
                    0 => launch_packets <= BATCH_MAX,
                    _ => !is_small,
                };
                for &pair in runs.iter().filter(fits) {
                    cells.push(Cell {
                        pair,
                        launch_packets,
                        packet_len,
                        beside: None,
                        third: None,
                    });
                }
            }
        }
        for &pair in runs {
            let others = (0..functions).filter(|&other| runs.contains(&(other, pair.1)));
            for beside in others.flat_map(|other| self.beside.iter().map(move |&n| (other, n))) {
                cells.push(Cell {
                    pair,
                    launch_packets: BESIDE_LAUNCH,
                    packet_len: BESIDE_LEN,
                    beside: Some(beside),
                    third: None,
                });
            }
        }
        if !self.beside.is_empty() {
            cells.extend(runs.iter().filter_map(|&pair| triple(pair, runs)));
        }
        cells
    }

    /// The name of this list of measurements.
    pub(super) fn plan(&self, functions: &[&str], devices: &[&str], cells: &[Cell]) -> String {
        let (functions, devices) = (functions.join(" "), devices.join(" "));
        format!("{}: {} of {functions} on {devices}", self.name, cells.len())
    }
}

/// A function beside the next two on its device, in turn.
fn triple(pair: (usize, usize), runs: &[(usize, usize)]) -> Option<Cell> {
    let here: Vec<usize> = runs.iter().filter(|run| run.1 == pair.1).map(|run| run.0).collect();
    let own = here.iter().position(|&function| function == pair.0)?;
    let next = |steps: usize| here[(own + steps) % here.len()];
    (here.len() > 1).then(|| Cell {
        pair,
        launch_packets: BESIDE_LAUNCH,
        packet_len: BESIDE_LEN,
        beside: Some((next(1), 1)),
        third: Some(next(2)),
    })
}

/// The pairs of function and device that can run, and the reasons of the others.
pub(super) fn pairs(
    functions: &[&'static Definition],
    devices: &[&str],
) -> (Vec<(usize, usize)>, Vec<String>) {
    let (mut runs, mut skipped) = (Vec::new(), Vec::new());
    for (function, definition) in functions.iter().enumerate() {
        for (at, &device) in devices.iter().enumerate() {
            let sizes = Where { device, launch_packets: 256, packet_len: 64, streams: 1 };
            let name = definition.name;
            if at > 0 && !definition.has_kernels {
                skipped.push(format!("{name} on {device}: it has no kernels"));
                continue;
            }
            match chain(functions, definition, sizes) {
                Ok(_) => runs.push((function, at)),
                Err(why) => skipped.push(format!("{name} on {device}: {why}")),
            }
        }
    }
    (runs, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_run() {
        let seconds = Duration::from_secs;
        let left = |done, elapsed, left| FULL.time_left(done, seconds(elapsed), left).as_secs();
        // 1.6 s each, at first.
        assert_eq!(left(0, 0, 100), 160);
        // A run whose measurements take 3 s each, from wherever it continues.
        assert!((280..300).contains(&left(100, 300, 100)), "{}", left(100, 300, 100));
        assert_eq!(left(100, 300, 0), 0);
        assert_eq!(left(1000, 3000, 100_000), 4000, "the run ends then");
    }

    #[test]
    fn runs_cover_all_sizes_and_pairs() {
        // Two functions on the CPU, one of them also on a device.
        let runs = [(0, 0), (1, 0), (1, 1)];
        assert_eq!(QUICK.cells(2, &runs).len(), 2 * 2 * 3);
        let cells = FULL.cells(2, &runs);
        let alone = cells.iter().filter(|cell| cell.beside.is_none());
        // The CPU has batches of 1 to 1024 packets.
        assert_eq!(alone.clone().count(), 4 * (5 * 2 + 4));
        let small = alone.filter(|cell| cell.launch_packets < 64);
        assert!(
            small.clone().count() == 4 * 2 * 2 && small.into_iter().all(|cell| cell.pair.1 == 0)
        );
        let beside = |device| {
            let pairs = cells.iter().filter(|cell| cell.third.is_none());
            let own = pairs.filter(move |cell| cell.pair.1 == device);
            own.filter_map(|cell| Some((cell.pair.0, cell.beside?))).collect::<Vec<_>>()
        };
        assert_eq!(beside(1), [(1, (1, 1)), (1, (1, 3))], "function 0 cannot be there");
        assert_eq!(beside(0).len(), 2 * 2 * 2);
        let triples = cells.iter().filter_map(|cell| Some((cell.pair, cell.beside?, cell.third?)));
        let expected = [((0, 0), (1, 1), 0), ((1, 0), (0, 1), 1)];
        assert_eq!(triples.collect::<Vec<_>>(), expected, "alone on a device it has no triple");
        let four: Vec<_> = (0..4).map(|function| (function, 0)).collect();
        let last = triple((3, 0), &four).and_then(|cell| Some((cell.beside?.0, cell.third?)));
        assert_eq!(last, Some((0, 1)));
        let first: Vec<_> = cells[..3].iter().map(|cell| cell.pair).collect();
        assert_eq!(first, runs, "the first measurements are of all functions");
    }
}
