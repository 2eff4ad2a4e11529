//! A stage: functions between two queues, with their state for the shards of one lane.
//!
//! Batches go through function by function, in three phases. A stage of one function may take several
//! batches through each phase together; `before` of the last then comes before `run` of the first.

use std::sync::Arc;

use warpline_nf::{Emit, Function, State};
use warpline_packet::{Access, Batch, Kind, Placer, ReadWrite, SHARDS, Shard};

use crate::clock::Clock;
use crate::stats::FunctionStats;
use crate::{Chain, StagePlan};

/// A function on one lane.
struct Slot {
    place: u8,
    function: Arc<dyn Function>,
    access: Access,
    states: Vec<(Shard, State)>,
    has_before: bool,
    has_after: bool,
    per_packet: usize,
    stats: FunctionStats,
}

/// What a function's turn needs besides the batch; used again for the next.
pub(crate) struct Bench {
    /// Packets made, put in their places when the turn is over.
    made: Batch,
    /// Packets that were `Forward` when the turn began, grouped by shard.
    picks: Vec<u16>,
    ends: [u16; SHARDS],
}

impl Bench {
    pub(crate) fn new(made: Batch) -> Self {
        let picks = Vec::with_capacity(made.slots());
        Self { made, picks, ends: [0; SHARDS] }
    }
}

/// A batch on its way through a stage.
pub(crate) struct Flight {
    pub(crate) batch: Batch,
    pub(crate) bench: Bench,
}

/// Functions between two queues.
pub(crate) struct Stage {
    slots: Vec<Slot>,
    pub(crate) launch_batches: usize,
    order: Vec<u16>,
}

impl Stage {
    /// The functions of `plan`, with state for `shards`.
    pub(crate) fn new(chain: &Chain, plan: &StagePlan, shards: &[Shard], slots: usize) -> Self {
        let places = plan.first..plan.first + plan.count;
        Self {
            slots: places.map(|place| Slot::new(chain, place, shards)).collect(),
            launch_batches: plan.launch_batches,
            order: Vec::with_capacity(slots),
        }
    }

    /// Whether it may make packets.
    pub(crate) fn makes(&self) -> bool {
        self.slots.iter().any(|slot| slot.per_packet > 0)
    }

    /// Takes `flights` through every function: batches of packets, or one tick or end of input.
    pub(crate) fn work(&mut self, flights: &mut [Flight], placer: &mut Placer, clock: &Clock) {
        let mut then = clock.now();
        for slot in &mut self.slots {
            slot.work(flights, placer, &mut self.order);
            let now = clock.now();
            slot.stats.busy_ns += now - then;
            then = now;
        }
    }

    /// What its functions did, by their place in the chain.
    pub(crate) fn finish(mut self) -> impl Iterator<Item = (usize, FunctionStats)> {
        for slot in &mut self.slots {
            slot.collect_counters();
        }
        self.slots.into_iter().map(|slot| (usize::from(slot.place), slot.stats))
    }
}

impl Slot {
    fn new(chain: &Chain, place: usize, shards: &[Shard]) -> Self {
        let function = Arc::clone(&chain.instances[place].function);
        let states: Vec<_> = shards.iter().map(|&shard| (shard, function.state(shard))).collect();
        Self {
            place: place as u8,
            access: *function.access(),
            has_before: states.iter().any(|(_, state)| state.before.is_some()),
            has_after: states.iter().any(|(_, state)| state.after.is_some()),
            per_packet: function.emits().per_packet,
            function,
            states,
            stats: FunctionStats::default(),
        }
    }

    fn work(&mut self, flights: &mut [Flight], placer: &mut Placer, order: &mut Vec<u16>) {
        for flight in flights.iter_mut() {
            flight.batch.enter(self.place);
            flight.batch.take_settled();
            self.begin(flight, placer);
        }
        for flight in flights.iter_mut() {
            flight.batch.set_phase(self.access.run);
            self.function.run(&mut flight.batch);
        }
        for flight in flights.iter_mut() {
            self.end(flight, placer);
            self.account(flight, order);
        }
    }

    /// Time, end of input, and `before`.
    fn begin(&mut self, flight: &mut Flight, placer: &mut Placer) {
        self.stats.packets_in += flight.batch.forward_count() as u64;
        if self.has_before || self.has_after {
            flight.batch.group_by_shard(&mut flight.bench.picks, &mut flight.bench.ends);
        }
        if flight.batch.kind() != Kind::Packets {
            self.tell_time(flight, placer);
        }
        if !self.has_before {
            return;
        }
        flight.batch.set_phase(self.access.before);
        let mut emit = Emit::new(&mut flight.bench.made, placer, self.per_packet);
        for (shard, state) in &mut self.states {
            let picks = picks_of(&flight.bench.picks, &flight.bench.ends, *shard);
            if let Some(before) = &mut state.before
                && !picks.is_empty()
            {
                before.before(&mut flight.batch, picks, &mut emit);
            }
        }
    }

    fn end(&mut self, flight: &mut Flight, placer: &mut Placer) {
        if self.has_after {
            let (all, flagged) = (self.access.after, self.access.after_flagged);
            flight.batch.set_phase(ReadWrite {
                reads: all.reads | flagged.reads,
                writes: all.writes | flagged.writes,
            });
            let mut emit = Emit::new(&mut flight.bench.made, placer, self.per_packet);
            for (shard, state) in &mut self.states {
                let picks = picks_of(&flight.bench.picks, &flight.bench.ends, *shard);
                if let Some(after) = &mut state.after
                    && !picks.is_empty()
                {
                    after.after(&mut flight.batch, picks, &mut emit);
                }
            }
        }
        flight.batch.leave_phase();
    }

    fn tell_time(&mut self, flight: &mut Flight, placer: &mut Placer) {
        let number = flight.batch.last_ingress();
        for (shard, state) in &mut self.states {
            let mut emit = Emit::at_tick(&mut flight.bench.made, placer, number, *shard);
            match flight.batch.kind() {
                Kind::Packets => {}
                Kind::Tick(now) => {
                    state.before.iter_mut().for_each(|half| half.handle_timeout(now, &mut emit));
                    state.after.iter_mut().for_each(|half| half.handle_timeout(now, &mut emit));
                }
                Kind::Finish => {
                    state.before.iter_mut().for_each(|half| half.finish(&mut emit));
                    state.after.iter_mut().for_each(|half| half.finish(&mut emit));
                }
            }
        }
    }

    /// Counts what left the way, then puts what was made in its place.
    fn account(&mut self, flight: &mut Flight, order: &mut Vec<u16>) {
        if flight.batch.take_settled() > 0 {
            self.stats.tally(&flight.batch, self.place);
        }
        if !flight.bench.made.is_empty() {
            self.stats.generated += flight.bench.made.len() as u64;
            let fits = flight.batch.merge(&mut flight.bench.made, order);
            debug_assert!(fits, "a batch has slots for all that its chain may make of it");
        }
        flight.bench.made.clear();
    }

    fn collect_counters(&mut self) {
        let counters = &mut self.stats.counters;
        let mut add = |name: &'static str, n: u64| *counters.entry(name).or_default() += n;
        for (_, state) in &self.states {
            state.before.iter().for_each(|half| half.counters(&mut add));
            state.after.iter().for_each(|half| half.counters(&mut add));
        }
        let stats = &mut self.stats;
        stats.packets_out = stats.packets_in - stats.dropped() - stats.rejected() - stats.absorbed;
    }
}

fn picks_of<'a>(picks: &'a [u16], ends: &[u16; SHARDS], shard: Shard) -> &'a [u16] {
    let index = shard.index();
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &picks[usize::from(start)..usize::from(ends[index])]
}
