//! Tests the candidate rules of a packet in their order, until one lets the packet pass.

use super::super::asked::{Asked, FRESH, PACKET, STREAM};
use super::super::detect::{Buffer, FlowFacts, FlowVars, Reach};
use super::super::report::Decision;
use super::notes::Treatment;
use super::{At, Inspector, Matched, Unreported, Verdict};
use warpline_nf::Emit;
use warpline_nids_rules::Action;
use warpline_streams::flows::{Direction, FlowSlot};

impl Inspector {
    /// The facts that rules test about the packet's flow.
    fn facts(&self, at: &At<'_>) -> FlowFacts {
        let tracked = at.tracked.as_ref();
        let known = at.place().map(|place| self.flows.facts(place));
        let [client_bytes, server_bytes] = known.map_or([0; 2], |known| known.sequence_len);
        let direction = tracked.filter(|tracked| tracked.place.is_some()).map(|t| t.direction);
        FlowFacts {
            to_server: direction.map(|direction| direction == Direction::ToServer),
            is_established: tracked.is_some_and(|tracked| tracked.is_established),
            client_bytes,
            server_bytes,
            is_reassembled: at.seen.is_some_and(|seen| seen.is_reassembled),
        }
    }

    /// Asks the rules in their order.
    pub(super) fn ask_all(
        &mut self,
        at: &mut At<'_>,
        asked: &mut Asked,
        so_far: Verdict,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        if asked.is_empty() {
            return so_far;
        }
        asked.sort();
        at.facts = self.facts(at);
        let (mut verdict, mut next) = (so_far, 0);
        while let Some((rule, how)) = asked.get(next) {
            next += 1;
            let Some(matched) = self.ask(at, rule, how) else { continue };
            asked.set_matched(rule, matched.before);
            let (decision, action) = self.decide(at, rule);
            self.apply(at, &matched);
            let acts = decision != Some(Decision::Nothing);
            if acts {
                verdict = self.act(at, &matched, action, verdict, emit);
            }
            self.note(at, matched, (decision, action), verdict);
            if acts && action == Action::Pass {
                self.counts.passed_by_rule += 1;
                break;
            }
        }
        self.report_all(at, emit);
        verdict
    }

    /// Notes a match for the report, together with the decision on it.
    fn note(
        &mut self,
        at: &At<'_>,
        matched: Matched,
        (decision, action): (Option<Decision>, Action),
        verdict: Verdict,
    ) {
        let Some(reported) = self.tables.reported().get(matched.rule as usize) else { return };
        let is_pass = action == Action::Pass;
        let treatment = Treatment::of(&reported.policy, decision, is_pass, at);
        let is_first = self.notes.is_empty();
        match (self.notes.take(treatment), treatment) {
            (true, _) => self.unreported.push(Unreported { matched, is_first, decision, verdict }),
            (false, Treatment::Silent) => self.counts.matches_over += 1,
            (false, _) => self.counts.alerts_over += 1,
        }
    }

    /// Whether a rule matches.
    fn ask(&mut self, at: &At<'_>, rule: u32, how: u8) -> Option<Matched> {
        let is_stream_only = self.tables.known.get(rule as usize)?.is_stream_only;
        let how = if is_stream_only { how & !PACKET } else { how };
        self.counts.rules_asked += 1;
        let tracked = at.tracked.as_ref();
        let side = tracked.and_then(|tracked| Some((tracked.place?, tracked.direction)));
        match side {
            Some(side) => self.ask_in_flow(at, rule, how, side),
            None => self.ask_without_flow(at, rule, how),
        }
    }

    fn ask_without_flow(&mut self, at: &At<'_>, rule: u32, how: u8) -> Option<Matched> {
        let Self { tables, xbits, scratch, .. } = self;
        let (detector, number) = (&tables.detector, rule as usize);
        let At { subject, facts, now, .. } = at;
        let holds = detector.header_matches(number, subject, facts, &FlowVars::EMPTY, xbits, *now)
            && how & PACKET != 0
            && detector.payload_matches(number, Buffer::packet(subject.payload), scratch);
        holds.then_some(Matched { rule, is_stream: false, before: None })
    }

    fn ask_in_flow(
        &mut self,
        at: &At<'_>,
        rule: u32,
        how: u8,
        (place, direction): (FlowSlot, Direction),
    ) -> Option<Matched> {
        let Self { tables, flows, waiting: pool, xbits, scratch, counts, .. } = self;
        let (known, number) = (tables.known.get(rule as usize)?, rule as usize);
        let (start, state) = flows.window_start_and_vars(place, direction);
        let At { subject, facts, now, .. } = at;
        if !tables.detector.header_matches(number, subject, facts, &state.vars, xbits, *now) {
            return None;
        }
        counts.candidates += 1;
        let reach = known.reach;
        let on_packet = how & PACKET != 0 && (reach != Reach::Stream || at.is_alone);
        let on_stream = how & STREAM != 0 && matches!(reach, Reach::Stream | Reach::Both);
        let grew = at.grew.filter(|_| on_stream);
        let waiting = &state.waiting[direction as usize];
        let kept = waiting.kept(rule, start, pool);
        let matched_len = kept.matched_len;
        let before = matched_len.map(|len| start + len as u64);
        if on_packet
            && tables.detector.payload_matches(number, Buffer::packet(subject.payload), scratch)
        {
            // The packet is in the stream as well, where the rule would match again.
            let waiting = &mut state.waiting[direction as usize];
            let was_full = grew.is_some_and(|(_, to)| waiting.matched(rule, kept, to, pool));
            counts.waiting_full += u64::from(was_full);
            return Some(Matched { rule, is_stream: false, before });
        }
        let (_, to) = grew?;
        // Bytes of an earlier match are skipped, except those in which the literal at hand may have
        // begun.
        if known.literal.is_none() && matched_len.is_some() {
            return None;
        }
        let (window, state) = flows.window_and_vars(place, direction);
        let waiting = &mut state.waiting[direction as usize];
        let old = matched_len.map_or(0, |len| known.old_len(window.bytes, len));
        let bytes = window.bytes.get(old..).unwrap_or(&[]);
        let buffer = Buffer { bytes, start: window.start + old as u64 };
        let holds = tables.detector.payload_matches(number, buffer, scratch);
        let was_full = match holds {
            true => waiting.matched(rule, kept, to, pool),
            false => how & FRESH != 0 && waiting.wait(rule, kept, to, pool),
        };
        counts.waiting_full += u64::from(was_full);
        holds.then_some(Matched { rule, is_stream: true, before })
    }
}
