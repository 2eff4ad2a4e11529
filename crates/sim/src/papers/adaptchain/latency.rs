//! Figures 15 and 16: latency, and the size of a unit.

use warpline_sched::Mode;

use super::chains::{C1, C4};
use super::model::Case;
use crate::papers::shape::{Rule, within};
use crate::papers::{ItemResult, Series};
use crate::{Outcome, ScenarioError};

type Result = std::result::Result<ItemResult, ScenarioError>;

const UNITS: [u64; 5] = [4, 16, 64, 256, 1024];
const LEN: u32 = 1024;

fn ms(outcome: &Outcome, quantile: f64) -> f64 {
    outcome.chains[0].delay.quantile(quantile) as f64 / 1e6
}

pub(super) fn figure_15() -> Result {
    let mut found = ItemResult::default();
    for len in [64, LEN] {
        let mut rate = Series::new(format!("{len} bytes"), "packets of a unit", "Gb/s");
        for unit in UNITS {
            let lasts_ns = 5_000_000;
            let case = Case { unit, lasts_ns, ..Case::at_most(C4, Mode::Adaptive, len) };
            rate.add(unit, None, case.run()?.sent_bps(0) / 1e9);
        }
        let rates = rate.ours();
        let stable = rates[1..].iter().copied().fold(f64::MAX, f64::min) / rates[2];
        let name = format!("{len} bytes: the least from 16 to 1024, to that of 64,");
        found.rules.push(within(&name, stable, 0.8..=1.0));
        if len == 64 {
            let slower = 100.0 * (1.0 - rates[0] / rates[2]);
            let name = "64 bytes: percent less with 4, where the paper has up to 40,";
            found.rules.push(within(name, slower, 20.0..=60.0));
        }
        found.series.push(rate);
    }
    let mut p50 = Series::new("p50", "packets of a unit", "ms");
    let mut p95 = Series::new("p95", "packets of a unit", "ms");
    for (unit, printed) in [(4, [9.9, 11.1]), (16, [3.8, 5.5]), (1024, [4.6, 8.0])] {
        let outcome = Case { unit, ..Case::at_10_gbps(C4, Mode::Adaptive, LEN) }.run()?;
        p50.add(unit, Some(printed[0]), ms(&outcome, 0.5));
        p95.add(unit, Some(printed[1]), ms(&outcome, 0.95));
    }
    let (middle, high) = (p50.ours(), p95.ours());
    const LAUNCHES_FILL: &str = "A packet waits for its launch of 1024 packets to fill, 0.8 ms \
         at 10 Gb/s, whatever the unit; the paper's milliseconds have causes beyond these times.";
    for (name, own, printed) in [("p50", &middle, 1.2), ("p95", &high, 1.5)] {
        let name = format!("{name} with 1024 to that with 16, where the paper has {printed},");
        let more = within(&name, own[2] / own[1], (1.0 + printed) / 2.0..=1.5 * printed);
        found.rules.push(more.because(LAUNCHES_FILL));
    }
    found.rules.push(Rule::new("p50 with 4 is above that with 16", middle[0] > middle[1]).because(
        "At 10 Gb/s of 1024 bytes units of 4 packets are no limit here, so nothing waits for them.",
    ));
    found.series.extend([p50, p95]);
    Ok(found)
}

pub(super) fn figure_16() -> Result {
    /// Milliseconds of the baseline and of `AdaptChain`, p50 and p95.
    type Printed = [[f64; 2]; 2];
    const PRINTED: [(&str, &[&str], Printed); 2] =
        [("C1", C1, [[6.4, 4.5], [9.2, 5.6]]), ("C4", C4, [[10.2, 5.2], [13.2, 6.4]])];
    let mut found = ItemResult::default();
    let mut less = Vec::new();
    for (chain, names, printed) in PRINTED {
        for (row, quantile) in [0.5, 0.95].into_iter().enumerate() {
            let name = format!("{chain}, p{}", 100.0 * quantile);
            let mut series = Series::new(&name, "system", "ms");
            for (at, mode) in [Mode::PerNf, Mode::Adaptive].into_iter().enumerate() {
                let outcome = Case::at_10_gbps(names, mode, LEN).run()?;
                let system = if at == 0 { "baseline" } else { "AdaptChain" };
                series.add(system, Some(printed[row][at]), ms(&outcome, quantile));
            }
            let ours = series.ours();
            less.push(100.0 * (1.0 - ours[1] / ours[0]));
            let paper = 100.0 * (1.0 - printed[row][1] / printed[row][0]);
            let name = format!("{name}: percent less, where the paper has {paper:.0},");
            found.rules.push(
                within(&name, less[less.len() - 1], paper / 2.0..=paper * 1.5).because(
                    "At 10 Gb/s the simulated baseline is far from its limit, and a packet waits \
                         mostly for its launch to fill, in both systems alike.",
                ),
            );
            found.series.push(series);
        }
    }
    found.rules.push(Rule::new("C4 gains more than C1", less[2] > less[0]));
    found.rules.push(Rule::new("AdaptChain is never slower", less.iter().all(|one| *one > -2.0)));
    Ok(found)
}
