//! The function's stateful work on one packet: its flow, the candidate rules, and their decisions.

mod act;
mod app;
mod ask;
mod dropped;
mod end;
mod find;
mod notes;
mod reporting;

use core::cell::RefCell;
use core::net::IpAddr;
use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;

use warpline_packet::{Found, Headers, Instant, Packet, Shard, prefetch};

use super::asked::Asked;
use super::counts::Counts;
use super::detect::{FlowFacts, Nets, Passer, Scratch, Subject, XBits};
use super::flow_state::{Fate, FlowState};
use super::limits;
use super::report::{Decision, Rejecter, Thresholds};
use super::tables::Tables;
use super::waiting::Pool;
pub(super) use notes::NOTES_MAX;
use notes::Notes;
use warpline_nf::{Emit, PeakHistory};
use warpline_streams::flows::{self, Direction, FlowPacket, FlowSlot, Flows, Stream, Tracked, Why};

/// ICMP errors and resets that a shard sends in a second of packet time.
const REJECTS_PER_SECOND: u64 = 100;

thread_local! {
    static ASKED: RefCell<Asked> = RefCell::new(Asked::new());
}

/// A packet to inspect: one of a batch, or one reassembled from fragments; then `packet` is one of
/// these.
pub(super) struct InspectedPacket<'a> {
    pub(super) packet: Packet<'a>,
    pub(super) frame: &'a [u8],
    pub(super) headers: Headers,
    pub(super) is_reassembled: bool,
}

/// The verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Forward,
    /// A rule dropped it.
    ByRule,
    /// A rule dropped its flow before.
    ByFlow,
    /// It has urgent data.
    Urgent,
}

/// State of one shard.
pub(super) struct Inspector {
    tables: Arc<Tables>,
    generation: u32,
    flows: Flows<FlowState>,
    memory_peaks: PeakHistory,
    waiting: Pool,
    xbits: XBits,
    thresholds: Option<Thresholds>,
    rejecter: Rejecter,
    scratch: Scratch,
    note: Box<[u8]>,
    notes: Notes,
    /// Matches of the packet at hand, noted once all rules were asked.
    unreported: Vec<Unreported>,
    pub(super) counts: Counts,
}

/// The packet at hand, with the facts about it.
struct At<'a> {
    /// Nothing where a flow ended.
    seen: Option<&'a InspectedPacket<'a>>,
    /// The number of the packet that makes it be looked at.
    ingress: u64,
    subject: Subject<'a>,
    tracked: Option<Tracked>,
    /// Known once a rule is asked.
    facts: FlowFacts,
    /// New bytes of the stream: from where to where.
    grew: Option<(u64, u64)>,
    /// Whether rules on streams are asked on the packet.
    is_alone: bool,
    /// Whether the data is not that of the packet, but data that a gap held back.
    is_behind_gap: bool,
    /// Whether the data went in the other direction than the packet, which closed a gap of its
    /// peer's.
    is_against: bool,
    now: Instant,
}

/// A match and the decision on it.
#[derive(Clone, Copy)]
struct Unreported {
    matched: Matched,
    is_first: bool,
    decision: Option<Decision>,
    verdict: Verdict,
}

/// A rule that matched.
#[derive(Clone, Copy)]
struct Matched {
    rule: u32,
    is_stream: bool,
    /// Where in the stream what it matched in before ends, if it did.
    before: Option<u64>,
}

impl Inspector {
    /// Of a shard. Where there is no memory for expressions it ends the program, as any other
    /// allocation does: a shard that looks into nothing would let all pass.
    pub(super) fn new(tables: &Arc<Tables>, shard: Shard) -> Self {
        let config = &tables.config;
        let share = |total: usize| shard.share(total).max(1);
        let decides = tables.known.iter().any(|known| known.decides);
        Self {
            generation: tables.generation.number(),
            memory_peaks: PeakHistory::new(),
            flows: Flows::new(&limits::flows(config, shard), tables.seed)
                .unless(tables.offload.clone())
                .reporting_ends_of(FlowState::has_shared),
            waiting: Pool::new(limits::waiting(config, shard)),
            xbits: XBits::new(share(config.xbits)),
            thresholds: decides.then(|| {
                let policies = tables.reported().iter().map(|rule| &rule.policy);
                Thresholds::new(share(config.thresholds)).reserved(policies)
            }),
            rejecter: Rejecter::new(REJECTS_PER_SECOND),
            scratch: Scratch::new().unwrap_or_else(|| handle_alloc_error(Layout::new::<Scratch>())),
            note: vec![0; tables.config.note_len()].into(),
            notes: Notes::default(),
            unreported: Vec::with_capacity(NOTES_MAX),
            counts: Counts::default(),
            tables: Arc::clone(tables),
        }
    }

    /// Asks for a packet's headers and for the memory of its flow.
    #[inline]
    pub(super) fn fetch(&self, packet: &Packet<'_>) {
        packet.into_frame().first().into_iter().for_each(prefetch);
        self.flows.fetch(packet.flow_hash());
    }

    /// Other rules, for packets from here on.
    pub(super) fn reload(&mut self, tables: &Arc<Tables>) {
        self.tables = Arc::clone(tables);
        self.generation = tables.generation.number();
    }

    /// The history of stream memory, and the most of it since the last tick.
    pub(super) fn memory_peaks(&self) -> (&PeakHistory, u64) {
        (&self.memory_peaks, self.flows.stream_memory_peak())
    }

    pub(super) fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.counts.visit(visit);
        self.flows.counters().visit(visit);
        visit("step-limit", self.scratch.step_limit_hits);
        visit("regex-limit", self.scratch.regex_limit_hits);
        visit("xbits-evicted", self.xbits.evicted());
        self.rejecter.counters(visit);
    }

    /// Looks into a packet, of which `run` found `found`.
    pub(super) fn inspect(
        &mut self,
        seen: &InspectedPacket<'_>,
        found: Found<'_>,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        self.counts.inspected += 1;
        if !seen.is_reassembled {
            self.notes = Notes::default();
        }
        let times = [seen.packet.timestamp(), seen.packet.captured()];
        let hint = seen.packet.flow_hash();
        let by_vlan = self.tables.config.by_vlan;
        let packet = FlowPacket::new(seen.frame, &seen.headers, by_vlan, times, hint);
        if let (None, Found::Numbers(found)) = (&packet, &found)
            && self.matches_no_rule_without_flow(seen, found)
        {
            return Verdict::Forward;
        }
        let expected = packet.as_ref().and_then(|packet| self.flows.take_expected(packet));
        if let (Some(packet), Some(expected), Found::Numbers(found)) = (&packet, &expected, &found)
            && self.matches_no_rule(packet, expected, found)
        {
            return Verdict::Forward;
        }
        let tracked = match expected {
            Some(expected) => Some(expected.into()),
            None => {
                let tracked = packet.as_ref().map(|packet| self.take(packet, seen, emit));
                if self.is_idle(packet.as_ref(), tracked.as_ref(), &found) {
                    return before_rules(tracked.as_ref());
                }
                tracked
            }
        };
        self.inspect_tracked(seen, tracked, found, emit)
    }

    /// [`Self::matches_no_rule`] of a packet that was not as expected.
    fn is_idle(
        &mut self,
        packet: Option<&FlowPacket<'_>>,
        tracked: Option<&Tracked>,
        found: &Found<'_>,
    ) -> bool {
        let (Some(packet), Found::Numbers(found)) = (packet, found) else { return false };
        let unchanged = tracked.and_then(Tracked::unchanged).filter(|_| !packet.has_syn());
        unchanged.is_some_and(|unchanged| self.matches_no_rule(packet, &unchanged, found))
    }

    /// [`Self::inspect`] of a packet that was taken into its flow, where there is something to look
    /// into.
    #[inline(never)]
    fn inspect_tracked(
        &mut self,
        seen: &InspectedPacket<'_>,
        tracked: Option<Tracked>,
        found: Found<'_>,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let place = tracked.as_ref().and_then(|tracked| tracked.place);
        match place.map(|place| self.flows.vars(place).fate) {
            Some(Fate::Dropped) => return Verdict::ByFlow,
            Some(Fate::Passed) => return Verdict::Forward,
            _ => {}
        }
        let mut at = at(seen, tracked, seen.packet.timestamp());
        ASKED.with_borrow_mut(|asked| {
            asked.fit(self.tables.known.len(), self.tables.groups.patterns_max());
            let apps = self.note_app(&at);
            self.find_rules(&at, found, asked);
            let before = before_rules(at.tracked.as_ref());
            let verdict = self.ask_all(&mut at, asked, before, emit);
            if verdict == Verdict::ByRule {
                self.take_back(&at, asked);
                self.forget_app(&at, apps);
            }
            let verdict = self.inspect_gaps(&at, asked, verdict, emit);
            asked.clear();
            verdict
        })
    }

    /// Takes a packet into its flow, when the flows that end with it were looked into for the last
    /// time.
    #[inline]
    fn take(
        &mut self,
        packet: &FlowPacket<'_>,
        seen: &InspectedPacket<'_>,
        emit: &mut Emit<'_>,
    ) -> Tracked {
        loop {
            match self.flows.try_take(packet) {
                Ok(tracked) => return tracked,
                Err(ended) => self.end(ended, seen.packet.ingress(), emit),
            }
        }
    }

    /// Gives up the gaps that nothing will close now, as their receiver acknowledged them or the
    /// packet reset the connection. Inspects the data after them as if a packet of their own
    /// direction had brought it.
    fn inspect_gaps(
        &mut self,
        at: &At<'_>,
        asked: &mut Asked,
        so_far: Verdict,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let tracked = at.tracked.as_ref().filter(|tracked| tracked.gaps != [false; 2]);
        let Some((place, tracked)) = tracked.and_then(|tracked| Some((tracked.place?, tracked)))
        else {
            return so_far;
        };
        let mut verdict = so_far;
        for direction in [Direction::ToServer, Direction::ToClient] {
            while tracked.gaps[direction as usize]
                && let Some(gap) = self.flows.next_gap(place, direction)
            {
                if self.flows.vars(place).fate == Fate::Open {
                    asked.clear_unmatched();
                    let mut behind = behind_gap(at, tracked, direction, gap);
                    self.note_app(&behind);
                    self.find_rules(&behind, Found::Numbers(&[]), asked);
                    verdict = self.ask_all(&mut behind, asked, verdict, emit);
                }
            }
        }
        verdict
    }
}

/// Whether a direction was asked the rules on addresses of this rule set; from here on it was. A
/// packet of no flow never was.
fn was_asked(flows: &mut Flows<FlowState>, tracked: &Tracked, generation: u16) -> bool {
    tracked.place.is_some_and(|place| {
        let (state, direction) = (flows.vars(place), tracked.direction as usize);
        let was_asked =
            core::mem::replace(&mut state.asked_once[direction], generation) == generation;
        if !was_asked {
            state.is_bare.remove(tracked.direction);
        }
        was_asked
    })
}

/// The verdict on a packet without any rule.
fn before_rules(tracked: Option<&Tracked>) -> Verdict {
    match tracked.map(|tracked| &tracked.stream) {
        Some(Stream::Refused(Why::Urgent)) => Verdict::Urgent,
        _ => Verdict::Forward,
    }
}

/// The facts about a packet before any rule is evaluated.
fn at<'a>(seen: &'a InspectedPacket<'a>, tracked: Option<Tracked>, now: Instant) -> At<'a> {
    let (grew, is_alone) = match tracked.as_ref().map(|tracked| &tracked.stream) {
        Some(Stream::Grew { from, to, changed, .. }) => {
            let from = changed.as_ref().map_or(*from, |changed| changed.start.min(*from));
            (Some((from, *to)), false)
        }
        Some(Stream::Gap(gap)) => (Some((gap.from, gap.to)), gap.packet == flows::Fate::Alone),
        // A receiver may accept data that the stream refuses; this cannot be known for certain.
        Some(Stream::None | Stream::Untracked | Stream::Refused(_)) | None => (None, true),
        Some(Stream::Held | Stream::Old) => (None, false),
    };
    At {
        seen: Some(seen),
        ingress: seen.packet.ingress(),
        subject: Subject::new(seen.frame, &seen.headers),
        tracked,
        facts: FlowFacts::default(),
        grew,
        is_alone,
        is_behind_gap: false,
        is_against: false,
        now,
    }
}

/// The data that a gap of a direction held back.
fn behind_gap<'a>(at: &At<'a>, tracked: &Tracked, direction: Direction, gap: flows::Gap) -> At<'a> {
    let is_own = direction == tracked.direction;
    let tracked = Tracked {
        direction,
        is_first_of_direction: false,
        stream: Stream::Gap(gap),
        ..tracked.clone()
    };
    let subject = if is_own { at.subject } else { at.subject.reversed() };
    let is_against = !is_own;
    let grew = Some((gap.from, gap.to));
    let tracked = Some(tracked);
    At { subject, tracked, grew, is_alone: false, is_behind_gap: true, is_against, ..*at }
}

impl At<'_> {
    fn place(&self) -> Option<FlowSlot> {
        self.tracked.as_ref().and_then(|tracked| tracked.place)
    }

    /// The facts about it that gates check.
    fn passer(&self, nets: &Nets) -> Passer {
        let tracked = self.tracked.as_ref();
        let direction = tracked.and_then(|tracked| tracked.place.map(|_| tracked.direction));
        let to_server = direction.map(|direction| direction == Direction::ToServer);
        let is_established = tracked.is_some_and(|tracked| tracked.is_established);
        let Subject { src, dst, ports, payload, .. } = self.subject;
        Passer::new(to_server, is_established, ports.map(|(src, dst)| [src, dst]))
            .between(nets, [src, dst])
            .with_payload(payload.len())
    }

    fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        (self.subject.version != 0).then_some((self.subject.src, self.subject.dst))
    }
}
