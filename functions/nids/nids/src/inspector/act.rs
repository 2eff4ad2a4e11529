//! The effects of a match: on the packet, on its flow, and on the state of both.

use super::super::report::{Decision, Match, RuleId};
use super::super::tables::Known;
use super::{At, Fate, Inspector, Matched, Verdict};
use warpline_nf::Emit;
use warpline_nids_rules::{Action, Rejected};

impl Inspector {
    /// The decision of a threshold, if the verdict depends on it, and the action of the rule.
    pub(super) fn decide(&mut self, at: &At<'_>, rule: u32) -> (Option<Decision>, Action) {
        let Self { tables, thresholds, flows, .. } = self;
        let Known { action, decides, .. } = tables.known[rule as usize];
        let reported = tables.reported().get(rule as usize);
        let (true, Some(thresholds), Some(reported)) = (decides, thresholds, reported) else {
            return (None, action);
        };
        let about = &reported.about;
        let flow = at.place().map(|place| flows.id(place));
        let what = Match {
            rule: RuleId { gid: about.gid, sid: about.sid, rev: about.rev },
            ends: at.ends(),
            ports: at.subject.ports.unwrap_or_default(),
            flow,
            now: at.now,
        };
        let (decision, action) = thresholds.decide(&reported.policy, action, &what);
        (Some(decision), action)
    }

    /// Applies the changes of a match to the flow and the hosts.
    pub(super) fn apply(&mut self, at: &At<'_>, matched: &Matched) {
        let Self { tables, flows, xbits, .. } = self;
        let vars = at.place().map(|place| &mut flows.vars(place).vars);
        tables.detector.apply(matched.rule as usize, &at.subject, vars, xbits, at.now);
    }

    /// Applies the action of a match to the packet. It also applies to the flow if the stream
    /// matched or the rule is about addresses alone.
    pub(super) fn act(
        &mut self,
        at: &At<'_>,
        matched: &Matched,
        action: Action,
        so_far: Verdict,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        if let Action::Reject(whom) = action
            && so_far == Verdict::Forward
        {
            self.reject(at, whom, emit);
        }
        let fate = match action {
            Action::Alert => return so_far,
            Action::Pass => Fate::Passed,
            Action::Drop | Action::Reject(_) => Fate::Dropped,
        };
        let is_error = at.tracked.as_ref().is_some_and(|tracked| tracked.is_error);
        let reach = self.tables.known[matched.rule as usize].reach;
        let is_of_flow = matched.is_stream || (!is_error && reach.is_about_addresses());
        if let Some(place) = at.place().filter(|_| is_of_flow) {
            self.flows.vars(place).fate = fate;
        }
        if fate == Fate::Dropped { Verdict::ByRule } else { so_far }
    }

    fn reject(&mut self, at: &At<'_>, whom: Rejected, emit: &mut Emit<'_>) {
        if let Some(seen) = at.seen.filter(|seen| !seen.is_reassembled) {
            let whom = if at.is_against { whom.reversed() } else { whom };
            self.rejecter.reject(&seen.packet, whom, emit);
        }
    }
}
