//! Tables 2 and 3.

use warpline_sched::monitor::{AutoBatch, LaunchSize, Wait};

use super::model::{KIB, MBPS, grid};
use crate::ScenarioError;
use crate::papers::shape::{Rule, within};
use crate::papers::{ItemResult, Series};

type Result = std::result::Result<ItemResult, ScenarioError>;

/// Table 2: speed-ups by buffer and traffic.
pub(super) const TABLE_2: [[f64; 7]; 8] = [
    [0.27, 1.29, 2.60, 0.40, 0.39, 0.43, 0.43],
    [0.14, 1.03, 551.90, 811.14, 0.94, 1.18, 1.09],
    [0.08, 0.62, 375.37, 651.16, 1023.40, 1.88, 2.19],
    [0.08, 0.33, 208.11, 388.74, 687.53, 6.91, 18.11],
    [0.08, 0.19, 107.66, 206.29, 380.90, 794.35, 930.03],
    [0.08, 0.20, 62.74, 105.21, 197.24, 419.72, 494.75],
    [0.08, 0.20, 62.86, 62.16, 99.90, 214.41, 252.58],
    [0.08, 0.20, 63.23, 61.95, 60.64, 107.92, 127.07],
];
const DELAYS_MS: [f64; 4] = [50.0, 100.0, 250.0, 500.0];
/// Table 3 in KiB; 0 is the CPU.
const TABLE_3: [[u64; 4]; 7] = [
    [0, 0, 0, 2048],
    [256, 1024, 2048, 4096],
    [1024, 2048, 4096, 8192],
    [2048, 4096, 8192, 16384],
    [4096, 8192, 16384, 32768],
    [8192, 16384, 32768, 32768],
    [8192, 16384, 32768, 32768],
];
/// A speed-up above it means that the buffer drops nothing while the CPU drops.
const NO_DROP: f64 = 20.0;

pub(super) fn table_2() -> Result {
    let grid = grid()?;
    let mut found = ItemResult::default();
    let mut speed_ups = vec![Vec::new(); KIB.len()];
    for (at, kib) in KIB.iter().enumerate() {
        let mut series = Series::new(format!("{kib} KiB"), "Mb/s", "speed-up");
        for (column, mbps) in MBPS.iter().enumerate() {
            let row = &grid[column];
            let speed_up = row[0].delay_ns / row[at + 1].delay_ns;
            series.add(mbps, Some(TABLE_2[at][column]), speed_up);
            speed_ups[at].push(speed_up);
        }
        found.series.push(series);
    }
    let cells = || (0..KIB.len()).flat_map(|at| (0..MBPS.len()).map(move |column| (at, column)));
    let paper = |(at, column): (usize, usize)| TABLE_2[at][column];
    let ours = |(at, column): (usize, usize)| speed_ups[at][column];
    let agree = cells().filter(|&cell| (paper(cell) > NO_DROP) == (ours(cell) > NO_DROP)).count();
    let both = cells().filter(|&cell| paper(cell) > NO_DROP && ours(cell) > NO_DROP);
    let ratios: Vec<f64> = both.map(|cell| ours(cell) / paper(cell)).collect();
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let most = ratios.iter().copied().fold(f64::MIN, f64::max);
    let slower = cells().filter(|&cell| (paper(cell) < 1.0) == (ours(cell) < 1.0)).count();
    found.rules = vec![
        Rule::new(format!("drops in the same cells, {agree} of 56"), agree == 56).because(
            "2 MiB carry 800 Mb/s with launches of 20 ms, which the paper's do not; with 21 ms \
                 512 KiB would not carry 200 Mb/s, which they do there.",
        ),
        within("the least ratio to the paper without drops", least, 0.4..=1.0),
        within("the greatest ratio to the paper without drops", most, 1.0..=2.0),
        Rule::new(format!("slower than the CPU in the same cells, {slower} of 56"), slower == 56)
            .because(
                "At 50 Mb/s the CPU's delay is 54 ms by the paper; packets at equal distances \
                     wait less. Where both versions drop, the ratio is that of their rates.",
            ),
    ];
    Ok(found)
}

/// The launch sizes that carry at most so much.
fn sizes() -> Vec<LaunchSize> {
    let carried = |at: usize| {
        let drops = (2..MBPS.len()).find(|&column| TABLE_2[at][column] < NO_DROP);
        drops.map_or(1000, |column| MBPS[column - 1])
    };
    let size = |(at, &kib): (usize, &u64)| LaunchSize {
        bytes: kib << 10,
        bits_per_s: f64::from(carried(at)) * 1e6,
        latency_ns: 0.0,
    };
    KIB.iter().enumerate().map(size).collect()
}

/// The decision of `sched` for the rates that the buffers of table 2 carry.
pub(super) fn table_3() -> Result {
    let sizes = sizes();
    let mut found = ItemResult::default();
    let mut differences = Vec::new();
    for (row, mbps) in TABLE_3.iter().zip(MBPS) {
        let mut series = Series::new(format!("{mbps} Mb/s"), "delay in ms", "KiB; 0 is the CPU");
        for (&paper, delay_ms) in row.iter().zip(DELAYS_MS) {
            let wait = Wait::Mean;
            #[cfg(test)]
            let wait = crate::papers::mutated::wait(wait);
            let mut batch = AutoBatch::new(sizes.clone(), delay_ms * 1e6, wait);
            let own = batch.handle_rate(f64::from(mbps) * 1e6);
            let own = own.map_or(0, |one| sizes[one.size].bytes >> 10);
            series.add(delay_ms, Some(paper as f64), own as f64);
            if own != paper {
                differences.push(format!("{own} KiB for {paper} at {mbps} Mb/s and {delay_ms} ms"));
            }
        }
        found.series.push(series);
    }
    let text = format!("all 28 choices are the paper's; others: {}", differences.join(", "));
    let rule = Rule::new(text, differences.is_empty()).because(
        "By the paper's own rule, the mean wait within the delay: 512 KiB wait 210 ms at 10 Mb/s \
             and 42 ms at 50 Mb/s, and 2 MiB wait 839 ms at 10 Mb/s.",
    );
    let few = Rule::new("at most three choices differ", differences.len() <= 3);
    found.rules = vec![rule, few];
    Ok(found)
}
