//! The output of `tools/bench.sh vgpu`.

use super::model::BOTH;
use crate::papers::measured::rows;
use crate::papers::shape::{does_not_fall, never_below, within};
use crate::papers::{ItemResult, Series};

const OWN_STREAMS: &str = "The record explains it: four streams of one tenant already overlap \
     copies with kernels here.";

/// Of one to four tenants, with four streams: Gb/s, each followed by its percent of one.
pub(super) fn figure_3(text: &str) -> Option<ItemResult> {
    let mut found = ItemResult::default();
    for nf in BOTH {
        let all = rows(text, &format!("{}, figure 3", nf.name));
        let mut by_policy = Vec::new();
        for (policy, printed) in [("equal_share", nf.four[0]), ("best_effort", nf.four[1])] {
            let own = all.iter().find(|row| {
                row.numbers.first() == Some(&4.0)
                    && row.numbers.len() == 9
                    && row.words.contains(policy)
            })?;
            let mut percent = Series::new(format!("{}, {policy}", nf.name), "tenants", "% of one");
            for (at, pair) in own.numbers[1..].chunks(2).enumerate() {
                percent.add(at + 1, (at == 3).then_some(printed), pair[1]);
            }
            let name = format!("{} with {policy} and four tenants, percent of one,", nf.name);
            let rule = within(&name, percent.ours()[3], printed * 0.75..=printed * 1.25);
            found.rules.push(rule.because(OWN_STREAMS));
            by_policy.push(own.numbers[1..].iter().step_by(2).copied().collect::<Vec<f64>>());
            found.series.push(percent);
        }
        let name = format!("{}: best effort is not below equal share", nf.name);
        let rule = never_below(&name, &by_policy[1], &by_policy[0], 0.05);
        found.rules.push(rule.because(OWN_STREAMS));
    }
    Some(found)
}

/// By profile: its name, tenants and Gb/s.
pub(super) fn figure_4(text: &str) -> Option<ItemResult> {
    let mut found = ItemResult::default();
    for nf in BOTH {
        let mut series = Series::new(nf.name, "tenants", "Gb/s");
        for row in rows(text, &format!("{}, figure 4", nf.name)) {
            if let [_, tenants, gbps] = row.numbers[..] {
                series.add(tenants, None, gbps);
            }
        }
        if series.points.is_empty() {
            return None;
        }
        let rates = series.ours();
        found.rules.push(does_not_fall(&format!("{} by tenants", nf.name), &rates, 0.05));
        found.series.push(series);
    }
    Some(found)
}
