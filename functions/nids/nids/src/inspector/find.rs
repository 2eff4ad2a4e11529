//! Finds the candidate rules of a packet: by literals found in its payload and in its stream, by
//! its addresses, and rules that wait.

use core::ops::Range;

use warpline_packet::Found;

use super::super::asked::{Asked, FRESH, PACKET, STREAM, WAITED};
use super::super::detect::{Passer, Subject};
use super::super::fast_pattern::LEN_MAX;
use super::super::flow_state::{Fate, FlowState};
use super::super::groups::{Group, When};
use super::{At, InspectedPacket, Inspector, was_asked};
use warpline_streams::flows::{Direction, Expected, FlowPacket, Flows, Grew, Stream, Tracked};

impl Inspector {
    /// Whether a packet that was as expected, or left its streams as they were, leaves no rule that
    /// may match, as most do: what [`Self::find_rules`] would find, in fewer steps. `run` found
    /// these literals.
    #[inline]
    pub(super) fn matches_no_rule(
        &mut self,
        packet: &FlowPacket<'_>,
        expected: &Expected,
        found: &[u32],
    ) -> bool {
        let &Expected { place, direction, is_established, grew } = expected;
        let Some((protocol, [src_port, dst_port])) = packet.ports() else { return false };
        let Self { tables, flows, generation, .. } = self;
        let group = || tables.groups.of(protocol, src_port, dst_port);
        let (generation, side) = (*generation as u16, direction as usize);
        let state = flows.vars(place);
        if state.fate != Fate::Open || state.asked_once[side] != generation {
            return false;
        }
        let ports = [src_port, dst_port];
        let to_server = direction == Direction::ToServer;
        let passer = Passer::new(Some(to_server), is_established, Some(ports));
        let passer = packet.payload_len().map_or(passer, |len| passer.with_payload(len));
        let addresses = || packet.addresses();
        let rules = found.iter().flat_map(|&id| group().rules(id)).copied();
        if tables.lets_any(rules, passer, addresses) {
            return false;
        }
        if !state.is_bare.has(direction) {
            let rules = tables.groups.unanchored(When::Packet, protocol, addresses(), ports);
            let mut rules = rules.peekable();
            if rules.peek().is_none() {
                state.is_bare.insert(direction);
            }
            if tables.lets_any(rules, passer, addresses) {
                return false;
            }
        }
        let Some(Grew { from, to, seam }) = grew else { return true };
        let is_new_app = !state.apps.is_settled(direction);
        let is_other_set = state.generations[side] != generation;
        if is_new_app || is_other_set || !state.waiting[side].is_empty() {
            return false;
        }
        let group = group();
        if seam.is_some_and(|seam| !group.may_span(seam)) {
            return true;
        }
        let mut room = [0; 2 * LEN_MAX];
        let ((bytes, border), _) =
            flows.seam_and_vars(place, direction, (to - from) as usize, LEN_MAX, &mut room);
        group.spanning(bytes, border).is_none()
    }

    /// The same of a packet that has no flow, such as a fragment.
    pub(super) fn matches_no_rule_without_flow(
        &self,
        seen: &InspectedPacket<'_>,
        found: &[u32],
    ) -> bool {
        let Self { tables, .. } = self;
        let subject = Subject::new(seen.frame, &seen.headers);
        if subject.is_syn() {
            return false;
        }
        let Subject { protocol, src, dst, ports, payload, .. } = subject;
        let ports = ports.map(|(src, dst)| [src, dst]);
        let passer = Passer::new(None, false, ports).with_payload(payload.len());
        let ports = ports.unwrap_or_default();
        let group = || tables.groups.of(protocol, ports[0], ports[1]);
        let of_addresses = |when: When| tables.groups.unanchored(when, protocol, [src, dst], ports);
        let found = found.iter().flat_map(|&id| group().rules(id)).copied();
        let rules = of_addresses(When::Packet).chain(of_addresses(When::Direction)).chain(found);
        !tables.lets_any(rules, passer, || [src, dst])
    }

    /// Finds the rules that are worth asking.
    pub(super) fn find_rules(&mut self, at: &At<'_>, found: Found<'_>, asked: &mut Asked) {
        let (src_port, dst_port) = at.subject.ports.unwrap_or((0, 0));
        let Self { tables, flows, waiting: pool, counts, generation, .. } = self;
        let group = tables.groups.of(at.subject.protocol, src_port, dst_port);
        let on_packet = if at.is_behind_gap { 0 } else { PACKET };
        let on_both = on_packet | if at.grew.is_some() { STREAM } else { 0 };
        let generation = *generation as u16;
        let is_first = !at.is_behind_gap && is_first_look(flows, at, generation);
        let passer = at.passer(&tables.nets);
        let may_match = |rule: &u32| tables.lets(*rule, passer);
        let mut ask = |when: When, how: u8| {
            let Subject { protocol, src, dst, .. } = at.subject;
            let rules = tables.groups.unanchored(when, protocol, [src, dst], [src_port, dst_port]);
            rules.filter(may_match).for_each(|rule| asked.ask(rule, how));
        };
        ask(When::Packet, on_both);
        if at.subject.is_syn() {
            ask(When::Syn, on_both);
        }
        if is_first {
            ask(When::Direction, PACKET);
        }
        let mut is_in_order = false;
        if let Some((place, Tracked { direction, stream, .. })) =
            at.tracked.as_ref().and_then(|t| Some((t.place?, t)))
            && let Some((from, to)) = at.grew
        {
            let (start, state) = flows.window_start_and_vars(place, *direction);
            let waiting = &mut state.waiting[*direction as usize];
            let known = &mut state.generations[*direction as usize];
            let is_new_set = core::mem::replace(known, generation) != generation;
            is_in_order = matches!(stream, Stream::Grew { is_packet: true, changed: None, .. })
                && !is_new_set;
            if is_new_set {
                waiting.clear(pool);
            }
            waiting.forget(start, pool);
            waiting.rules(pool).for_each(|rule| asked.ask(rule, STREAM | WAITED));
            if is_in_order {
                let (len, mut room) = ((to - from) as usize, [0; 2 * LEN_MAX]);
                let ((bytes, border), _) =
                    flows.seam_and_vars(place, *direction, len, LEN_MAX, &mut room);
                if let Some(stretch) = group.spanning(bytes, border) {
                    scan_behind(group, bytes, stretch, border, asked, may_match);
                }
            } else {
                counts.rescans += 1;
                let window = flows.window(place, *direction);
                let from = if is_new_set { window.start } else { from };
                let border = (from - window.start.min(from)) as usize;
                let first = (border + 1).saturating_sub(group.pattern_len_max());
                let stretch = first..(to - window.start) as usize;
                scan_behind(group, window.bytes, stretch, border, asked, may_match);
            }
        }
        let how = PACKET | if is_in_order { STREAM | FRESH } else { 0 };
        match found {
            Found::Numbers(ids) => {
                // Devices search for each literal everywhere.
                let ids = ids.iter().filter(|id| group.stands(**id, at.subject.payload));
                let rules = ids.flat_map(|&id| group.rules(id));
                rules.filter(|rule| may_match(rule)).for_each(|&rule| asked.ask(rule, how));
            }
            // Not counted: how much room there is depends on the batch.
            Found::NoRoom => scan_all(group, at.subject.payload, how, asked, may_match),
        }
    }
}

/// Whether rules that are asked once a direction are asked now, and notes it.
fn is_first_look(flows: &mut Flows<FlowState>, at: &At<'_>, generation: u16) -> bool {
    at.tracked.as_ref().is_none_or(|tracked| {
        // An error may come from anywhere.
        tracked.is_error || {
            let was_asked = was_asked(flows, tracked, generation);
            tracked.is_first_of_direction || !was_asked
        }
    })
}

/// Asks the rules of every literal in `stretch` of `bytes` that ends after place `border`, as far
/// as they may match.
fn scan_behind(
    group: &Group,
    bytes: &[u8],
    stretch: Range<usize>,
    border: usize,
    asked: &mut Asked,
    may_match: impl Fn(&u32) -> bool,
) {
    let Some(matcher) = group.matcher() else { return };
    let first = stretch.start;
    let Some(bytes) = bytes.get(first..stretch.end.min(bytes.len())) else { return };
    let mut hits = asked.take_hits();
    matcher.scan(bytes, &mut hits);
    let mut ask = |rules: &[u32]| {
        let rules = rules.iter().filter(|rule| may_match(rule));
        rules.for_each(|&rule| asked.ask(rule, STREAM | FRESH));
    };
    if hits.is_full() {
        ask(group.rules_all());
    }
    for &id in hits.ids() {
        let rules = group.rules(id);
        if rules.iter().any(&may_match) && group.ends_behind(id, bytes, border - first) {
            ask(rules);
        }
    }
    asked.set_hits(hits);
}

/// Asks the rules of every literal in `bytes`, as far as they may match.
fn scan_all(
    group: &Group,
    bytes: &[u8],
    how: u8,
    asked: &mut Asked,
    may_match: impl Fn(&u32) -> bool,
) {
    let mut hits = asked.take_hits();
    group.scan_packet(bytes, &mut hits);
    let all = if hits.is_full() { group.rules_all() } else { &[] };
    let rules = all.iter().chain(hits.ids().iter().flat_map(|&id| group.rules(id)));
    rules.filter(|rule| may_match(rule)).for_each(|&rule| asked.ask(rule, how));
    asked.set_hits(hits);
}
