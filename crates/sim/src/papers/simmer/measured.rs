//! The record of `tools/bench.sh simmer`.

use serde_json::Value;

use crate::papers::measured::Runs;
use crate::papers::shape::{Rule, never_below, within};
use crate::papers::{ItemResult, Series};

const GAIN: &str =
    "See the simulated entry: the costs of table 1 explain 4 % at the load of table 2.";

/// By threshold: rate, gain and percent dropped at each function.
fn by_mark(record: &Value, chain: &str, gain: f64) -> Option<ItemResult> {
    let runs = Runs::of(record, "simmer")?;
    let mut rate = Series::new("throughput", "threshold", "Mpps");
    let mut inside = Series::new("dropped inside", "threshold", "%");
    let (mut is_dropless, mut vanilla, mut gained) = (true, None, None);
    for run in runs.with(&[("figure", "by threshold"), ("chain", chain)]) {
        let (mpps, all) = (run.number("mpps")?, run.sum("drops_percent")?);
        let lost = all - run.number("drops_at_first_percent")?;
        let Some(mark) = run.number("mark") else {
            rate.add("vanilla", None, mpps);
            inside.add("vanilla", None, lost);
            vanilla = Some(mpps);
            continue;
        };
        let is_printed = (2.0..=2.8).contains(&mark);
        rate.add(mark, None, mpps);
        inside.add(mark, is_printed.then_some(0.0), lost);
        is_dropless &= !is_printed || lost == 0.0;
        if mark == 2.8 {
            gained = vanilla.map(|vanilla| 100.0 * (mpps / vanilla - 1.0));
        }
    }
    let mut series = Series::new("gain", "threshold", "%");
    series.add(2.8, Some(gain), gained?);
    let rules = vec![
        Rule::new("no drop inside from 2 to 2.8 launches", is_dropless),
        within("the gain at 2.8 launches, in percent,", gained?, gain / 2.0..=gain * 1.5)
            .because(GAIN),
    ];
    Some(ItemResult { series: vec![rate, inside, series], rules })
}

pub(super) fn figure_6(record: &Value) -> Option<ItemResult> {
    by_mark(record, "three kinds", 29.0)
}

pub(super) fn figure_7(record: &Value) -> Option<ItemResult> {
    by_mark(record, "NF-2 three times", 13.0)
}

pub(super) fn figure_7_nf1(record: &Value) -> Option<ItemResult> {
    by_mark(record, "NF-1 three times", 13.0)
}

pub(super) fn figure_7_nf3(record: &Value) -> Option<ItemResult> {
    by_mark(record, "NF-3 three times", 13.0)
}

/// By size: rates without and with pauses.
fn by_len(record: &Value, figure: &str, gains: [(&str, f64); 2]) -> Option<ItemResult> {
    let runs = Runs::of(record, "simmer")?;
    let mut found = ItemResult::default();
    for (name, gain) in gains {
        let mut vanilla = Series::new(format!("{name}, vanilla"), "bytes", "Mpps");
        let mut paused = Series::new(format!("{name}, with pauses"), "bytes", "Mpps");
        let mut most = f64::MIN;
        for run in runs.with(&[("figure", figure), ("chain", name)]) {
            let len = run.number("bytes")?;
            let (before, after) = (run.number("vanilla_mpps")?, run.number("paused_mpps")?);
            vanilla.add(len, None, before);
            paused.add(len, None, after);
            most = most.max(100.0 * (after / before - 1.0));
        }
        if vanilla.points.is_empty() {
            return None;
        }
        let rule = never_below(
            &format!("{name}: with pauses not below vanilla"),
            &paused.ours(),
            &vanilla.ours(),
            0.02,
        );
        found.rules.push(rule.because(
            "The record explains it: with short kernels the host is the limit, and a paused stage \
             closes partial launches.",
        ));
        let name = format!("{name}: the greatest gain, in percent,");
        found.rules.push(within(&name, most, gain / 2.0..=gain * 1.5).because(GAIN));
        found.series.extend([vanilla, paused]);
    }
    Some(found)
}

pub(super) fn figure_9(record: &Value) -> Option<ItemResult> {
    by_len(record, "figure 9", [("three kinds", 29.0), ("NF-2 three times", 13.0)])
}

pub(super) fn figure_10(record: &Value) -> Option<ItemResult> {
    by_len(record, "figure 10", [("three kinds", 23.0), ("NF-2 three times", 13.0)])
}
