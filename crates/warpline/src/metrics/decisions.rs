//! The decisions of the monitor of placements.

use prometheus_client::registry::Unit;
use warpline_sched::monitor::Decision;

use super::family::{Families, FamilyKind, Value};
use crate::placement::{Proposal, Proposals};

/// Adds the families; none without a monitor.
pub(super) fn add(all: &mut Families, proposals: &Proposals) {
    let Some(counts) = proposals.counts() else { return };
    let help = "Decisions about where functions run, by reason and result";
    let family = all.counter("warpline_placement_decisions", help);
    for (reason, counts) in counts {
        for (result, count) in ["done", "refused"].into_iter().zip(counts) {
            let labels = [("reason", reason), ("result", result)];
            let labels = labels.map(|(name, value)| (name, value.to_owned()));
            family.add(labels.into(), Value::Count(count));
        }
    }
    let Some(Proposal { seconds, decision, refused, .. }) = proposals.last() else { return };
    let result = if refused.is_some() { "refused" } else { "done" };
    let labels = [("reason", decision.reason.name()), ("result", result)];
    let labels: Vec<_> = labels.map(|(name, value)| (name, value.to_owned())).into();
    let name = ("warpline_placement_last_decision", Some(Unit::Seconds));
    let help = "Time of the last decision since the chains started";
    all.family(name, FamilyKind::Gauge, help).add(labels, Value::Number(seconds));
    loads(all, &decision);
}

/// Both loads of a decision.
fn loads(all: &mut Families, decision: &Decision) {
    let name = ("warpline_placement_load_ratio", None);
    let help = "Highest load of a device at a tenth more, before and after the last decision";
    let family = all.family(name, FamilyKind::Gauge, help);
    let before = decision.before.as_ref();
    for (placement, figures) in [("before", before), ("after", Some(&decision.after))] {
        if let Some(figures) = figures {
            family.add(vec![("placement", placement.into())], Value::Number(figures.load));
        }
    }
}
