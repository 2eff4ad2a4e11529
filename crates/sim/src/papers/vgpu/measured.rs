//! The record of `tools/bench.sh vgpu`.

use serde_json::Value;

use super::model::BOTH;
use crate::papers::measured::Runs;
use crate::papers::shape::{does_not_fall, never_below, within};
use crate::papers::{ItemResult, Series};

const OWN_STREAMS: &str = "The record explains it: four streams of one tenant already overlap \
     copies with kernels here.";
/// Streams of a tenant in the paper's figure.
const STREAMS: f64 = 4.0;

/// Of one to four tenants: Gb/s, and percent of one.
pub(super) fn figure_3(record: &Value) -> Option<ItemResult> {
    let runs = Runs::of(record, "vgpu")?;
    let mut found = ItemResult::default();
    for nf in BOTH {
        let mut by_policy = Vec::new();
        for (policy, printed) in [("equal_share", nf.four[0]), ("best_effort", nf.four[1])] {
            let mut percent = Series::new(format!("{}, {policy}", nf.name), "tenants", "% of one");
            let mut rates = Vec::new();
            let meant = [("figure", "figure 3"), ("function", nf.name), ("policy", policy)];
            for run in runs.with(&meant).filter(|run| run.number("streams") == Some(STREAMS)) {
                let (tenants, gbps) = (run.number("tenants")?, run.number("gbps")?);
                rates.push(gbps);
                let printed = (tenants == 4.0).then_some(printed);
                percent.add(tenants, printed, (100.0 * gbps / rates[0]).round());
            }
            let name = format!("{} with {policy} and four tenants, percent of one,", nf.name);
            let four = *percent.ours().get(3)?;
            let rule = within(&name, four, printed * 0.75..=printed * 1.25);
            found.rules.push(rule.because(OWN_STREAMS));
            by_policy.push(rates);
            found.series.push(percent);
        }
        let name = format!("{}: best effort is not below equal share", nf.name);
        let rule = never_below(&name, &by_policy[1], &by_policy[0], 0.05);
        found.rules.push(rule.because(OWN_STREAMS));
    }
    Some(found)
}

/// With all slots of a profile in use.
pub(super) fn figure_4(record: &Value) -> Option<ItemResult> {
    let runs = Runs::of(record, "vgpu")?;
    let mut found = ItemResult::default();
    for nf in BOTH {
        let mut series = Series::new(nf.name, "tenants", "Gb/s");
        for run in runs.with(&[("figure", "figure 4"), ("function", nf.name)]) {
            series.add(run.number("tenants")?, None, run.number("gbps")?);
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
