//! The decisions of a run's monitor: for its log, `ctl status` and statistics.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use warpline_sched::monitor::{Decision, Reason};

use super::launches::Launches;
use super::shown::{cost, figures};

/// Proposals that are kept.
const KEPT_MAX: usize = 32;

/// A decision.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    /// Since the start of the run.
    pub(crate) seconds: f64,
    pub(crate) decision: Decision,
    /// The functions that are elsewhere.
    pub(crate) moves: Vec<Move>,
    /// Why they did not move.
    pub(crate) refused: Option<Refusal>,
    /// The function whose measurements differ most, its bits a second as proposed and as before.
    pub(crate) deciding: Option<(String, f64, f64)>,
}

/// A move that was refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) why: String,
    /// When the monitor may choose the same devices again, in seconds from the decision.
    pub(crate) retry_s: f64,
}

/// A function that moves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Move {
    pub(crate) chain: String,
    pub(crate) function: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) launch_packets: u32,
    /// See [`Launches::packets_max`].
    pub(crate) launch_packets_max: u32,
    /// The longest wait for a launch.
    pub(crate) delay: Duration,
    /// See [`Launches::lanes`].
    pub(crate) lanes: usize,
}

impl Move {
    /// The lanes that use the device, if it isn't all of them or none.
    fn some_lanes(&self) -> Option<usize> {
        (self.lanes > 0 && self.lanes < usize::MAX).then_some(self.lanes)
    }

    /// The launches on the device that it moves to.
    pub(crate) fn launches(&self) -> Launches<'_> {
        Launches {
            device: &self.to,
            packets: self.launch_packets,
            packets_max: self.launch_packets_max,
            delay: self.delay,
            lanes: self.lanes,
        }
    }
}

/// The proposals of a process; none without a monitor.
#[derive(Default)]
pub(crate) struct Proposals(Mutex<Option<List>>);

struct List {
    policy: &'static str,
    total: u64,
    /// By reason, how many were carried out and refused.
    counts: [[u64; 2]; Reason::ALL.len()],
    last: VecDeque<Proposal>,
    /// Lines that were not printed yet.
    messages: VecDeque<String>,
}

impl Proposals {
    /// A monitor starts.
    pub(crate) fn start(&self, policy: &'static str) {
        let (last, messages) = (VecDeque::new(), VecDeque::new());
        *self.list() = Some(List { policy, total: 0, counts: Default::default(), last, messages });
    }

    /// The monitor has another policy.
    pub(crate) fn follow(&self, policy: &'static str) {
        self.list().iter_mut().for_each(|list| list.policy = policy);
    }

    /// Adds a proposal, unless it is to leave all functions where they are and none was before.
    pub(crate) fn add(&self, proposal: Proposal) {
        let mut list = self.list();
        let Some(list) = &mut *list else { return };
        let had_moves = list.last.back().is_some_and(|last| !last.moves.is_empty());
        if proposal.moves.is_empty() && !had_moves {
            return;
        }
        list.total += 1;
        let reasons = Reason::ALL.iter().zip(&mut list.counts);
        let own = reasons.into_iter().find(|(reason, _)| **reason == proposal.decision.reason);
        own.into_iter()
            .for_each(|(_, counts)| counts[usize::from(proposal.refused.is_some())] += 1);
        push(&mut list.messages, line(&proposal));
        push(&mut list.last, proposal);
    }

    /// By reason, how many were carried out and refused. None without a monitor.
    pub(crate) fn counts(&self) -> Option<Vec<(&'static str, [u64; 2])>> {
        let list = self.list();
        let counts = list.as_ref()?.counts;
        Some(Reason::ALL.iter().zip(counts).map(|(reason, own)| (reason.name(), own)).collect())
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<Proposal> {
        self.list().as_ref()?.last.back().cloned()
    }

    /// Lines about proposals since the last call.
    pub(crate) fn take_messages(&self) -> Vec<String> {
        self.list().as_mut().map_or(Vec::new(), |list| list.messages.drain(..).collect())
    }

    /// The last proposals; null without a monitor.
    pub(crate) fn json(&self) -> Value {
        let list = self.list();
        let Some(list) = &*list else { return Value::Null };
        json!({
            "policy": list.policy,
            "total": list.total,
            "proposals": list.last.iter().map(proposal_json).collect::<Vec<_>>(),
        })
    }

    fn list(&self) -> MutexGuard<'_, Option<List>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds to the newest, and drops the oldest if there are too many.
fn push<T>(all: &mut VecDeque<T>, new: T) {
    if all.len() == KEPT_MAX {
        all.pop_front();
    }
    all.push_back(new);
}

fn line(proposal: &Proposal) -> String {
    let Proposal { decision, moves, refused, deciding, .. } = proposal;
    let moves = moves.iter().map(|own| {
        let Move { chain, function, from, to, .. } = own;
        let lanes =
            own.some_lanes().map_or(String::new(), |lanes| format!(", {lanes} lanes of it"));
        format!("{function} of {chain:?} from {from} to {to}{lanes}")
    });
    let moves: Vec<String> = moves.collect();
    let text = match (moves.is_empty(), refused) {
        (true, _) => "leaves all functions where they are".to_owned(),
        (_, None) => format!("moved {}", moves.join(", ")),
        (_, Some(Refusal { why, retry_s })) => {
            let moves = moves.join(", ");
            format!("did not move {moves}, {why}; the next attempt is in {retry_s:.0} s at least")
        }
    };
    let mut text = format!(
        "{text} ({}, {:.3} Mpps): with 10 % more, {}",
        decision.reason.name(),
        decision.packets_per_s / 1e6,
        cost(&decision.after)
    );
    if let Some(before) = &decision.before {
        text += &format!("; before: {}", cost(before));
    }
    if let Some((function, gbps, before)) = deciding {
        let [gbps, before] = [gbps, before].map(|bits| bits / 1e9);
        text += &format!("; {function} has {gbps:.2} Gb/s there, {before:.2} before");
    }
    text
}

fn proposal_json(proposal: &Proposal) -> Value {
    let Proposal { seconds, decision, moves, refused, deciding } = proposal;
    let moves = moves.iter().map(|own| {
        json!({
            "chain": own.chain,
            "function": own.function,
            "from": own.from,
            "to": own.to,
            "launch_packets": own.launch_packets,
            "lanes": own.some_lanes(),
        })
    });
    let deciding = deciding.as_ref().map(|(function, gbps, before)| {
        json!({ "function": function, "gbps": gbps / 1e9, "before_gbps": before / 1e9 })
    });
    json!({
        "seconds": seconds,
        "reason": decision.reason.name(),
        "mpps": decision.packets_per_s / 1e6,
        "moves": moves.collect::<Vec<_>>(),
        "refused": refused.as_ref().map(|own| &own.why),
        "retry_seconds": refused.as_ref().map(|own| own.retry_s),
        "refusals": decision.refusals,
        "cost": figures(&decision.after),
        "cost_before": decision.before.as_ref().map(figures),
        "deciding": deciding,
    })
}

#[cfg(test)]
mod tests {
    use warpline_sched::placement::PlacementFigures;

    use super::*;

    fn proposal(seconds: u32, moves: usize) -> Proposal {
        let load = |load| PlacementFigures { load, ..PlacementFigures::default() };
        let decision = Decision {
            reason: Reason::Better,
            refusals: 0,
            packets_per_s: 2e6,
            after: load(0.5),
            before: Some(load(0.75)),
            deciding: None,
        };
        let one = Move {
            chain: "demo".into(),
            function: "router".into(),
            from: "cpu".into(),
            to: "cuda:0".into(),
            launch_packets: 256,
            launch_packets_max: 0,
            delay: Duration::ZERO,
            lanes: usize::MAX,
        };
        let deciding = Some(("router".into(), 8e9, 1e9));
        let (seconds, moves) = (f64::from(seconds), vec![one; moves]);
        Proposal { seconds, decision, moves, refused: None, deciding }
    }

    #[test]
    fn a_line_has_both_costs_and_is_given_once() {
        let proposals = Proposals::default();
        proposals.add(proposal(0, 1));
        assert_eq!((proposals.json(), proposals.take_messages()), (Value::Null, Vec::new()));
        proposals.start("latency");
        proposals.add(proposal(1, 1));
        let line = "moved router of \"demo\" from cpu to cuda:0 (better, 2.000 Mpps): \
            with 10 % more, load 0.500, delay 0 us, power unknown; \
            before: load 0.750, delay 0 us, power unknown; router has 8.00 Gb/s there, 1.00 before";
        assert_eq!(proposals.take_messages(), [line]);
        assert_eq!(proposals.take_messages(), Vec::<String>::new());
        let refused = Some(Refusal { why: "no memory".into(), retry_s: 20.0 });
        proposals.add(Proposal { refused, ..proposal(2, 1) });
        let line = "did not move router of \"demo\" from cpu to cuda:0, no memory; \
            the next attempt is in 20 s at least (better, ";
        assert!(proposals.take_messages()[0].starts_with(line));
        let counts = proposals.counts().expect("a monitor");
        let better = counts.iter().find(|(reason, _)| *reason == "better");
        assert_eq!((better, counts.len()), (Some(&("better", [1, 1])), 5));
    }

    #[test]
    fn leaving_all_where_they_are_is_reported_only_after_a_move() {
        let proposals = Proposals::default();
        proposals.start("latency");
        let total = || proposals.json()["total"].as_u64();
        proposals.add(proposal(1, 0));
        assert_eq!(total(), Some(0));
        proposals.add(proposal(2, 1));
        proposals.add(proposal(3, 0));
        proposals.add(proposal(4, 0));
        assert_eq!(total(), Some(2));
        assert!(proposals.take_messages()[1].starts_with("leaves all functions where they are"));
        for second in 5..100 {
            proposals.add(proposal(second, 1));
        }
        let json = proposals.json();
        let kept = json["proposals"].as_array().unwrap();
        assert_eq!((kept.len(), &kept[0]["seconds"], total()), (32, &json!(68.0), Some(97)));
        assert_eq!(proposals.take_messages().len(), 32);
    }
}
