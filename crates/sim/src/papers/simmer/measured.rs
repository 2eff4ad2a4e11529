//! The output of `tools/bench.sh simmer`.

use crate::papers::measured::{Row, rows};
use crate::papers::shape::{Rule, never_below, within};
use crate::papers::{ItemResult, Series};

const GAIN: &str =
    "See the simulated entry: the costs of table 1 explain 4 % at the load of table 2.";

/// By threshold: mark, rate, gain and percent dropped at each function.
fn by_mark(text: &str, title: &str, gain: f64) -> Option<ItemResult> {
    let all = rows(text, title);
    let mut rate = Series::new("throughput", "threshold", "Mpps");
    let mut inside = Series::new("dropped inside", "threshold", "%");
    let (mut is_dropless, mut gained) = (true, None);
    for Row { label, numbers, .. } in &all {
        match (label.as_str(), &numbers[..]) {
            ("vanilla", [mpps, _, drops @ ..]) => {
                rate.add("vanilla", None, *mpps);
                inside.add("vanilla", None, drops.iter().sum());
            }
            ("", [mark, mpps, percent, _, drops @ ..]) => {
                let lost: f64 = drops.iter().sum();
                let is_printed = (2.0..=2.8).contains(mark);
                rate.add(mark, None, *mpps);
                inside.add(mark, is_printed.then_some(0.0), lost);
                is_dropless &= !is_printed || lost == 0.0;
                gained = gained.or((*mark == 2.8).then_some(*percent));
            }
            _ => {}
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

pub(super) fn figure_6(text: &str) -> Option<ItemResult> {
    by_mark(text, "figure 6: three kinds", 29.0)
}

pub(super) fn figure_7(text: &str) -> Option<ItemResult> {
    by_mark(text, "figure 7: NF-2", 13.0)
}

pub(super) fn figure_7_nf1(text: &str) -> Option<ItemResult> {
    by_mark(text, "section 4.2: NF-1", 13.0)
}

pub(super) fn figure_7_nf3(text: &str) -> Option<ItemResult> {
    by_mark(text, "section 4.2: NF-3", 13.0)
}

/// By size: bytes, offered, vanilla, with pauses, gain.
fn by_len(text: &str, figure: &str, gains: [(&str, f64); 2]) -> Option<ItemResult> {
    let mut found = ItemResult::default();
    for (name, gain) in gains {
        let all = rows(text, &format!("{figure}, {name}"));
        let mut vanilla = Series::new(format!("{name}, vanilla"), "bytes", "Mpps");
        let mut paused = Series::new(format!("{name}, with pauses"), "bytes", "Mpps");
        let mut most = f64::MIN;
        for row in &all {
            let [len, _, before, after, percent] = row.numbers[..] else { continue };
            vanilla.add(len, None, before);
            paused.add(len, None, after);
            most = most.max(percent);
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

pub(super) fn figure_9(text: &str) -> Option<ItemResult> {
    by_len(text, "figure 9", [("three kinds", 29.0), ("NF-2 three times", 13.0)])
}

pub(super) fn figure_10(text: &str) -> Option<ItemResult> {
    by_len(text, "figure 10", [("three kinds", 23.0), ("NF-2 three times", 13.0)])
}
