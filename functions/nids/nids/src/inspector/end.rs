//! The end of a flow: data that wait after gaps are inspected when nothing can close these any
//! more.
//!
//! A flow ends when its time is over, when a new connection takes its ports, when it makes room for
//! another, and with the input. There is no packet to decide on then: rules see the stream and the
//! endpoints, and alert.

use warpline_packet::{Found, Instant};

use super::super::detect::{FlowFacts, Subject};
use super::{ASKED, At, Fate, Inspector, Notes, Verdict};
use warpline_nf::Emit;
use warpline_streams::flows::{Direction, FlowSlot, Gap, Stream, Tracked};

impl Inspector {
    /// Frees flows whose time is over.
    pub(in super::super) fn handle_timeout(&mut self, now: Instant, emit: &mut Emit<'_>) {
        self.flows.set_time(now, emit.captured().unwrap_or(now));
        self.memory_peaks.end_part(now, self.flows.stream_memory_peak());
        let mut left = self.flows.begin_sweep(now);
        while let Some(ended) = self.flows.next_over(&mut left) {
            self.notes = Notes::default();
            self.end(ended, 0, emit);
        }
        self.flows.begin_peak();
    }

    /// The input ended, and all flows with it.
    pub(in super::super) fn finish(&mut self, emit: &mut Emit<'_>) {
        let mut from = 0;
        while let Some(ended) = self.flows.next_waiting(&mut from) {
            self.notes = Notes::default();
            self.end(ended, 0, emit);
        }
    }

    /// Looks into what waits in a flow, and forgets the flow. `ingress` is the number of the packet
    /// at hand, if any.
    pub(super) fn end(&mut self, place: FlowSlot, ingress: u64, emit: &mut Emit<'_>) {
        ASKED.with_borrow_mut(|asked| {
            asked.fit(self.tables.known.len(), self.tables.groups.patterns_max());
            for direction in [Direction::ToServer, Direction::ToClient] {
                while let Some(gap) = self.flows.next_gap_at_end(place, direction) {
                    if self.flows.vars(place).fate == Fate::Open {
                        asked.clear_unmatched();
                        let mut at = self.at_end(place, direction, gap, ingress);
                        self.note_app(&at);
                        self.find_rules(&at, Found::Numbers(&[]), asked);
                        self.ask_all(&mut at, asked, Verdict::Forward, emit);
                    }
                }
            }
            asked.clear();
        });
        self.flows.vars(place).release(&mut self.waiting);
        self.flows.end(place);
    }

    fn at_end(&self, place: FlowSlot, direction: Direction, gap: Gap, ingress: u64) -> At<'static> {
        let ends = self.flows.ends(place, direction);
        At {
            seen: None,
            ingress,
            subject: Subject::between(ends.protocol, ends.addresses, ends.ports),
            grew: Some((gap.from, gap.to)),
            tracked: Some(Tracked {
                place: Some(place),
                direction,
                is_new: false,
                is_first_of_direction: false,
                is_established: self.flows.facts(place).is_established,
                stream: Stream::Gap(gap),
                is_error: false,
                gaps: [false; 2],
            }),
            facts: FlowFacts::default(),
            is_alone: false,
            is_behind_gap: true,
            is_against: false,
            now: self.flows.now(),
        }
    }
}
