//! The report of a match: a note.

use warpline_packet::wire::{ethernet, vlan};
use warpline_packet::{Flags, LinkType};

use super::super::apps::Apps;
use super::super::detect::{FlowVars, Subject};
use super::super::report::{Alert, FlowAt, Source};
use super::{At, InspectedPacket, Inspector, Unreported, Verdict};
use warpline_nf::Emit;

impl Inspector {
    /// Notes all matches of a packet, with the flow's variables after all rules.
    pub(super) fn report_all(&mut self, at: &At<'_>, emit: &mut Emit<'_>) {
        let mut unreported = core::mem::take(&mut self.unreported);
        unreported.drain(..).for_each(|unreported| self.report(at, unreported, emit));
        self.unreported = unreported;
    }

    fn report(&mut self, at: &At<'_>, unreported: Unreported, emit: &mut Emit<'_>) {
        let Unreported { matched, is_first, decision, verdict } = unreported;
        let Self { flows, note, generation, tables, .. } = self;
        let [payload_max, frame_max] = tables.config.reported.reported_len();
        let frame = at.seen.map_or(&[][..], |seen| seen.frame);
        let captured = flows.captured();
        let flow = at.place().map(|place| (flows.id(place), flows.facts(place)));
        let (vars, apps) = at.place().map_or((FlowVars::EMPTY, Apps::default()), |place| {
            let state = flows.vars(place);
            (state.vars, state.apps.unpack())
        });
        let side =
            at.tracked.as_ref().and_then(|tracked| Some((tracked.place?, tracked.direction)));
        let window = side
            .filter(|_| matched.is_stream)
            .map(|(place, direction)| flows.window(place, direction));
        let payload = window.map_or(at.subject.payload, |window| window.bytes);
        let (src_port, dst_port) = at.subject.ports.or_else(|| icmp(&at.subject)).unwrap_or((0, 0));
        let alert = Alert {
            rule: matched.rule,
            generation: *generation,
            captured: at.seen.map_or(captured, |seen| seen.packet.captured()),
            now: at.now,
            ends: at.ends(),
            protocol: at.subject.protocol,
            src_port,
            dst_port,
            vlans: at.seen.map_or([None; 3], vlans),
            flow: flow.map(|(id, facts)| FlowAt {
                id,
                to_server: at.facts.to_server == Some(true),
                packets_to_server: facts.packets[0],
                packets_to_client: facts.packets[1],
                bytes_to_server: facts.bytes[0],
                bytes_to_client: facts.bytes[1],
                start: facts.started,
                apps,
            }),
            vars,
            is_blocked: verdict != Verdict::Forward,
            is_stream: matched.is_stream,
            is_first,
            decision,
            payload_len: payload.len() as u32,
            payload: payload.get(..payload_max).unwrap_or(payload),
            source: match at.seen {
                None => Source::FlowEnd,
                Some(seen) if seen.is_reassembled => Source::Fragments,
                Some(_) => Source::Wire,
            },
            link: at.seen.map_or(LinkType::RAW, |seen| seen.packet.link()),
            ether: at.seen.filter(|seen| seen.packet.link() == LinkType::ETHERNET).and_then(header),
            frame: frame.get(..frame_max).unwrap_or(frame),
        };
        let len = alert.encode(note);
        if !emit.note(at.ingress, &note[..len]) {
            self.counts.alerts_over += 1;
        }
    }
}

/// Type and code of an ICMP message.
fn icmp(subject: &Subject<'_>) -> Option<(u16, u16)> {
    let header = subject.icmpv4_header().or_else(|| subject.icmpv6_header())?;
    Some((u16::from(header[0]), u16::from(header[1])))
}

/// The head of an Ethernet frame.
fn header(seen: &InspectedPacket<'_>) -> Option<[u8; ethernet::HEADER_LEN]> {
    seen.frame.first_chunk().copied()
}

/// The identifiers of a packet's VLAN tags, from the outside in.
fn vlans(seen: &InspectedPacket<'_>) -> [Option<u16>; 3] {
    if !seen.headers.flags.has(Flags::VLAN) {
        return [None; 3];
    }
    let len = usize::from(seen.headers.l3).saturating_sub(ethernet::HEADER_LEN);
    let ids = seen.headers.vlan_ids(seen.frame);
    core::array::from_fn(|at| {
        (at < len / vlan::HEADER_LEN).then_some((ids >> (12 * at)) as u16 & 0x0fff)
    })
}
