//! Tables I and II, and figures 4 to 6: the ways that the planner of `sched` takes.

use std::collections::BTreeMap;

use warpline_packet::FieldSet;
use warpline_sched::{Crossing, Mode, Plan, Way};

use super::chains::{C1, C2, C3, C4, C5, LENS, POINTER, plan, writes};
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
    ItemResult { series: vec![series], rules }
}

pub(super) fn table_1() -> Result {
    Ok(table(&ways(|step| step.to_device)?))
}

pub(super) fn table_2() -> Result {
    let mut found = table(&ways(|step| step.to_host)?);
    // The row `last GPU NF`: the mirror is given up after the last function on the device.
    for (name, names) in [("C1", C1), ("C2", C2), ("C3", C3), ("C4", C4), ("C5", C5)] {
        found.rules.push(host_has_all(name, names, &plan(names, LEN, Mode::Adaptive)?));
    }
    Ok(found)
}

/// After the last function on the GPU the host has all fields that functions there wrote: each came
/// back after its last writer.
fn host_has_all(name: &str, names: &[&str], plan: &Plan) -> Rule {
    let mut lacks = FieldSet::EMPTY;
    for step in &plan.steps {
        lacks = (lacks | writes(names[step.function])) & !step.to_host.fields;
    }
    let text = format!("{name}: after the last function on the GPU the host lacks no field");
    Rule::new(text, lacks.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_sched::PlanStep;

    /// The texts of rules that do not hold.
    fn broken(rules: &[Rule]) -> Vec<&str> {
        rules.iter().filter(|rule| !rule.holds).map(|rule| rule.text.as_str()).collect()
    }

    #[test]
    fn plans_without_a_way_or_without_a_copy_to_the_host_break_rules() {
        let all = ways(|step| step.to_device).expect("plans");
        assert_eq!(broken(&table(&all).rules), [""; 0]);
        for way in [Way::Fields, Way::Frame, Way::Direct] {
            let mut without = all.clone();
            without.remove(way.name());
            assert_eq!(broken(&table(&without).rules).len(), 1, "{}", way.name());
        }
        for names in [C1, C2, C3, C4, C5] {
            let mut plan = plan(names, LEN, Mode::Adaptive).expect("a plan");
            assert!(host_has_all("", names, &plan).holds);
            let brings = |step: &&mut PlanStep| !(step.to_host.fields & FieldSet::FRAME).is_empty();
            let last = plan.steps.iter_mut().rfind(brings);
            last.expect("IPsec writes").to_host.fields = FieldSet::EMPTY;
            assert!(!host_has_all("", names, &plan).holds, "{names:?}");
        }
    }
}
