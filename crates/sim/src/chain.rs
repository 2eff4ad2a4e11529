//! A chain while it runs: its queues, batchers and pauses. The decisions are those of `sched`.

mod rest;
mod stage;

use warpline_sched::{Admission, Arrived, Backpressure, EdgeId, NodeId, StageGraph};

use crate::device::Ticket;
use crate::histogram::Histogram;
use crate::model::{BusyReader, ChainModel};
use crate::outcome::ChainCounts;
use crate::random::Random;
use crate::traffic::{Batch, Source};
pub(crate) use rest::{LaneRest, ReaderRest, State};
pub(crate) use stage::{Stage, Working};

/// See the module.
pub(crate) struct Chain<'a> {
    pub(crate) model: &'a ChainModel,
    pub(crate) source: Source,
    pub(crate) stages: Vec<Stage>,
    pub(crate) counts: ChainCounts,
    /// A batch that the source keeps until there is room.
    pub(crate) kept: Option<Batch>,
    pub(crate) source_ended: bool,
    /// Launches that are done, which its lane has not seen yet.
    pub(crate) unseen: Vec<Ticket>,
    /// How its lane and its reader rest, if they do.
    pub(crate) lane: LaneRest,
    pub(crate) reader: ReaderRest,
    /// The next wake-up that is in the heap.
    pub(crate) wakes_ns: u64,
    pub(crate) delay: Histogram,
    pub(crate) is_measured: bool,
    /// The part of a packet without a route that is not counted yet.
    unrouted: f64,
    packets_inside: u64,
    /// When the last packet left it.
    pub(crate) left_ns: u64,
    packet_ns: u128,
    counted_ns: u64,
    pressure: Backpressure,
    /// By edge: the newest state that its feeder received, if signals take time.
    received: Vec<(u64, bool)>,
}

impl<'a> Chain<'a> {
    /// Of a run that ends at `ends_ns`, or after `events`.
    pub(crate) fn new(
        model: &'a ChainModel,
        (ends_ns, events): (u64, u64),
        random: Random,
    ) -> Self {
        let graph = StageGraph::list(model.stages.len())
            .unwrap_or_else(|_| unreachable!("scenarios are checked"));
        let batch = (model.batch_packets, model.batch_delay_ns);
        let stages = vec![Default::default(); model.stages.len()];
        Self {
            model,
            source: Source::new(&model.traffic, batch, ends_ns, random).limited(events),
            stages: model.stages.iter().map(Stage::new).collect(),
            counts: ChainCounts { stages, ..ChainCounts::default() },
            kept: None,
            source_ended: false,
            unseen: Vec::new(),
            lane: LaneRest::default(),
            reader: ReaderRest::default(),
            wakes_ns: u64::MAX,
            delay: Histogram::default(),
            is_measured: false,
            unrouted: 0.0,
            packets_inside: 0,
            left_ns: 0,
            packet_ns: 0,
            counted_ns: 0,
            pressure: Backpressure::new(&graph, model.pressure, 0),
            received: vec![(0, false); model.stages.len()],
        }
    }

    /// Whether node `node` may take nothing; node 0 is the source.
    pub(crate) fn is_paused(&self, node: usize) -> bool {
        match self.model.signal_ns {
            0 => self.pressure.is_paused(NodeId(node)),
            _ => self.received.get(node).is_some_and(|(_, held)| *held),
        }
    }

    /// The costs of a reader that has not rested for long.
    pub(crate) fn busy(&self, now_ns: u64) -> Option<BusyReader> {
        let busy = self.model.reader.and_then(|reader| reader.busy);
        busy.filter(|busy| now_ns - self.reader.rested_ns >= busy.after_ns)
    }

    /// The factor by which a batch of `stage` on the CPU then takes longer.
    pub(crate) fn lane_factor(&self, stage: usize, now_ns: u64) -> f64 {
        let busy = self.busy(now_ns).filter(|_| stage == 0);
        busy.map_or(1.0, |busy| busy.lane_factor)
    }

    /// Reports how full the queue of `stage` is. Returns signals that arrive later.
    pub(crate) fn report(
        &mut self,
        stage: usize,
        now_ns: u64,
        signals: &mut Vec<(usize, u64, bool)>,
    ) {
        let milli = self.stages[stage].waiting_milli();
        self.pressure.handle_occupancy(EdgeId(stage), milli, now_ns);
        while let Some(signal) = self.pressure.poll_signal() {
            if self.model.signal_ns > 0 {
                signals.push((signal.edge.0, signal.sequence, signal.pause));
            }
        }
    }

    /// A signal arrives. Older ones than the last change nothing.
    pub(crate) fn receive(&mut self, (edge, sequence, pause): (usize, u64, bool)) {
        if sequence > self.received[edge].0 {
            self.received[edge] = (sequence, pause);
        }
    }

    /// Puts a batch into the queue of `stage`, or lets it leave the chain. Returns false if it must
    /// wait.
    pub(crate) fn push(&mut self, stage: usize, batch: Batch, now_ns: u64) -> bool {
        if stage == self.stages.len() {
            self.send(batch, now_ns);
            return true;
        }
        let milli = self.stages[stage].waiting_milli();
        let waits = stage > 0 || self.source_waits();
        match self.pressure.admits(EdgeId(stage), milli, self.model.queue) {
            Admission::Taken => self.stages[stage].queue(batch),
            Admission::Waits if waits && !self.model.full_drops => return false,
            Admission::Waits | Admission::Dropped => self.drop(stage, batch, now_ns),
        }
        true
    }

    fn drop(&mut self, stage: usize, batch: Batch, now_ns: u64) {
        self.counts.stages[stage].drops += batch.packets;
        for earlier in &mut self.counts.stages[..stage] {
            earlier.wasted += batch.packets;
        }
        self.leave(batch.packets, now_ns);
    }

    /// Counts a batch that the source offers.
    pub(crate) fn offer(&mut self, batch: &Batch, now_ns: u64) {
        self.counts.offered += batch.packets;
        self.integrate(now_ns);
        self.packets_inside += batch.packets;
    }

    /// The packets that came for the device of `stage` since the last call, whether it is paused
    /// or not.
    pub(crate) fn arrivals(&mut self, stage: usize) -> u64 {
        let [first, own] = [0, stage].map(|stage| &self.counts.stages[stage]);
        let (offered, entered) = (self.counts.offered, first.processed + first.drops);
        let reached = own.processed + own.drops;
        self.stages[stage].arrivals.handle(Arrived { offered, entered, reached })
    }

    /// Whether its source waits for room.
    pub(crate) fn source_waits(&self) -> bool {
        self.model.source_waits || self.model.ring.is_some()
    }

    /// Loses packets for which the ring before the source has no room.
    pub(crate) fn lose_beyond_ring(&mut self, now_ns: u64) {
        let Some(ring) = self.model.ring else { return };
        let lost = self.source.lose(ring, now_ns);
        self.counts.offered += lost;
        self.counts.held_back += lost;
    }

    /// A paused source loses a batch.
    pub(crate) fn hold_back(&mut self, batch: &Batch, now_ns: u64) {
        self.counts.held_back += batch.packets;
        self.leave(batch.packets, now_ns);
    }

    /// A batch leaves the chain.
    pub(crate) fn send(&mut self, batch: Batch, now_ns: u64) {
        self.leave(batch.packets, now_ns);
        let batch = self.without_unrouted(batch);
        self.counts.sent += batch.packets;
        self.counts.sent_bytes += batch.bytes;
        if self.is_measured {
            self.add_delays(&batch, now_ns);
        }
    }

    /// The packets of a batch that have a route to its end.
    fn without_unrouted(&mut self, batch: Batch) -> Batch {
        self.unrouted += batch.packets as f64 * self.model.unrouted;
        let unrouted = (self.unrouted.floor() as u64).min(batch.packets);
        self.unrouted -= unrouted as f64;
        self.counts.unrouted += unrouted;
        let packets = batch.packets - unrouted;
        Batch { packets, bytes: batch.bytes * packets / batch.packets.max(1), ..batch }
    }

    /// Packets of a batch count as evenly spaced between its first and last. These count alone, and
    /// the others in up to 30 groups.
    fn add_delays(&mut self, batch: &Batch, now_ns: u64) {
        const GROUPS: u64 = 30;
        let Some(last) = batch.packets.checked_sub(1) else { return };
        let spread_ns = batch.newest_ns - batch.oldest_ns;
        let mut add = |from: u64, to: u64| {
            let middle = (from + to - 1) as f64 / 2.0 / last.max(1) as f64;
            let at_ns = batch.oldest_ns + (spread_ns as f64 * middle) as u64;
            self.delay.add(now_ns.saturating_sub(at_ns), to - from);
        };
        add(0, 1);
        let others = last.saturating_sub(1);
        let groups = others.min(GROUPS);
        for group in 0..groups {
            add(1 + group * others / groups, 1 + (group + 1) * others / groups);
        }
        if last > 0 {
            add(last, last + 1);
        }
    }

    fn leave(&mut self, packets: u64, now_ns: u64) {
        self.integrate(now_ns);
        self.packets_inside -= packets;
        self.left_ns = now_ns;
    }

    fn integrate(&mut self, now_ns: u64) {
        if self.is_measured {
            let passed_ns = u128::from(now_ns - self.counted_ns);
            self.packet_ns += u128::from(self.packets_inside) * passed_ns;
        }
        self.counted_ns = now_ns;
    }

    /// Begins or ends the measured time. Returns the counts, with packets that wait before the
    /// source as offered, and the integral of packets inside so far.
    pub(crate) fn measure(&mut self, is_measured: bool, now_ns: u64) -> (ChainCounts, u128) {
        self.integrate(now_ns);
        self.is_measured = is_measured;
        self.lose_beyond_ring(now_ns);
        let mut counts = self.counts.clone();
        if now_ns > 0 && !self.model.source_waits {
            counts.offered += self.source.waiting(now_ns);
        }
        (counts, self.packet_ns)
    }

    pub(crate) fn pauses(&self, now_ns: u64) -> warpline_sched::PauseEvidence {
        self.pressure.evidence(now_ns)
    }
}
