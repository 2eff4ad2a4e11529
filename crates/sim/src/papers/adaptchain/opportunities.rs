//! Tables I and II, and figures 4 to 6: the ways that the planner of `sched` takes.

use std::collections::BTreeMap;

use warpline_sched::{Crossing, Mode, Plan, Way};

use super::chains::{C1, C2, C3, C4, C5, LENS, POINTER, plan};
use crate::ScenarioError;
use crate::papers::shape::{Rule, within};
use crate::papers::{ItemResult, Series};

type Result = std::result::Result<ItemResult, ScenarioError>;

/// How often plans of all chains, lengths and modes take each way in one direction.
fn ways(
    crossing: impl Fn(&warpline_sched::PlanStep) -> Crossing,
) -> std::result::Result<BTreeMap<&'static str, usize>, ScenarioError> {
    let mut counts = BTreeMap::new();
    for names in [C1, C2, C3, C4, C5] {
        for len in LENS {
            for mode in Mode::ALL {
                for step in &plan(names, len, mode)?.steps {
                    *counts.entry(crossing(step).way.name()).or_default() += 1;
                }
            }
        }
    }
    Ok(counts)
}

fn table(counts: &BTreeMap<&'static str, usize>) -> ItemResult {
    let rows = [
        ("needed fields", Way::Fields),
        ("entire packet", Way::Frame),
        ("direct use", Way::Direct),
    ];
    let mut series = Series::new("plans of C1 to C5 that take it", "way", "steps");
    let mut rules = Vec::new();
    for (name, way) in rows {
        let count = counts.get(way.name()).copied().unwrap_or_default();
        series.add(name, None, count as f64);
        rules.push(Rule::new(format!("some plan takes the way {name:?}"), count > 0));
    }
    let others = counts
        .keys()
        .all(|name| rows.iter().any(|row| row.1.name() == *name) || *name == Way::Nothing.name());
    rules.push(Rule::new("no plan takes another way", others));
    ItemResult { series: vec![series], rules }
}

pub(super) fn table_1() -> Result {
    Ok(table(&ways(|step| step.to_device)?))
}

pub(super) fn table_2() -> Result {
    let mut found = table(&ways(|step| step.to_host)?);
    // The row `last GPU NF`: the mirror is given up after the last function on the device.
    let last = |names| -> std::result::Result<bool, ScenarioError> {
        let plan = plan(names, 1024, Mode::Adaptive)?;
        Ok(plan.steps.last().is_some_and(|step| !step.to_host.fields.is_empty()))
    };
    let all = [C2, C4, C5].into_iter().map(last).collect::<std::result::Result<Vec<_>, _>>()?;
    let rule = Rule::new("after the last function on the GPU the host gets what it lacks", {
        all.contains(&true)
    });
    found.rules.push(rule);
    Ok(found)
}

/// Bytes that a step copies besides the pointer.
fn bytes(plan: &Plan, step: usize) -> [f64; 2] {
    plan.steps
        .get(step)
        .map_or([f64::NAN; 2], |step| [step.to_device_bytes() - POINTER, step.to_host_bytes()])
}

const LEN: u32 = 1024;

pub(super) fn figure_4() -> Result {
    let a = plan(&["@nids", "nat"], LEN, Mode::Adaptive)?;
    let b = plan(&["@nids", "vpn", "@l4-router"], LEN, Mode::Adaptive)?;
    let mut series = Series::new("copied", "", "bytes a packet");
    series.add("(a) NIDS to the host", Some(0.0), bytes(&a, 0)[1]);
    series.add("(b) L4 router to the GPU", Some(0.0), bytes(&b, 1)[0]);
    let copied = series.ours();
    let rules = vec![
        within("(a): bytes that NIDS copies to the host", copied[0], 0.0..=0.0),
        within("(b): bytes that the router copies to the GPU", copied[1], 0.0..=0.0),
    ];
    Ok(ItemResult { series: vec![series], rules })
}

pub(super) fn figure_5() -> Result {
    let a = plan(&["wan-optimizer", "@ipsec"], LEN, Mode::Adaptive)?;
    let b = plan(&["@nids", "nat", "@ipsec"], LEN, Mode::Adaptive)?;
    let mut series = Series::new("IPsec to the GPU", "", "bytes a packet");
    series.add("(a) after a WAN optimizer", Some(f64::from(LEN)), bytes(&a, 0)[0]);
    series.add("(b) after NIDS and NAT", Some(12.0), bytes(&b, 1)[0]);
    let copied = series.ours();
    let saved = 100.0 * (1.0 - copied[1] / copied[0]);
    let rules = vec![
        within("(a): bytes", copied[0], f64::from(LEN)..=f64::from(LEN)),
        within("(b): percent saved, where the paper has more than 98,", saved, 98.0..=100.0),
    ];
    Ok(ItemResult { series: vec![series], rules })
}

pub(super) fn figure_6() -> Result {
    let chain = &["@firewall", "@ipsec", "@nids"][..];
    let adaptive = plan(chain, LEN, Mode::Adaptive)?;
    let local = plan(chain, LEN, Mode::Local)?;
    let b = plan(&["@nat", "wan-optimizer"], LEN, Mode::Adaptive)?;
    let mut series = Series::new("to the GPU", "", "bytes a packet");
    series.add("(a) firewall", Some(f64::from(LEN)), bytes(&adaptive, 0)[0]);
    series.add("(a) IPsec", Some(0.0), bytes(&adaptive, 1)[0]);
    series.add("(a) NIDS", Some(0.0), bytes(&adaptive, 2)[0]);
    series.add("(b) NAT", Some(12.0), bytes(&b, 0)[0]);
    let copied = series.ours();
    let saved = local.to_device_bytes() - adaptive.to_device_bytes();
    let rules = vec![
        within("(a): bytes of the firewall", copied[0], f64::from(LEN)..=f64::from(LEN)),
        within("(a): bytes of IPsec and NIDS", copied[1] + copied[2], 0.0..=0.0),
        within("(a): bytes of a 5-tuple saved", saved, 13.0..=13.0),
        within("(b): bytes of NAT, addresses and ports alone", copied[3], 12.0..=12.0),
    ];
    Ok(ItemResult { series: vec![series], rules })
}
