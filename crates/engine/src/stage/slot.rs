//! One function of a stage: its state for the shards of a lane, and its turn, phase by phase.

use std::sync::Arc;
use std::time::Duration;

use warpline_launch::{Output, Reader};
use warpline_nf::{Before, Emit, Emits, Function, Passage};
use warpline_packet::{Access, Allowed, BatchKind, Field, FieldSet, Instant, Phase, Shard};

use super::{BatchInFlight, Rooms};
use crate::reports::States;
use crate::routing::Routing;
use crate::stats::FunctionStats;
use crate::sys::{gather, naming};
use crate::{Chain, Instance, Place};

/// A function on one lane.
pub(super) struct Slot {
    pub(super) position: u8,
    function: Arc<dyn Function>,
    access: Access,
    /// Whether its state is the first on this core to look into frames, and not in the order in
    /// which they lie.
    asks_for_frames: bool,
    pub(super) states: States,
    has_before: bool,
    has_after: bool,
    emits: Emits,
    /// How packets that it makes pass the rest of the chain.
    passage: Passage,
    /// Whether this is an instance's second place, which answers pass.
    takes_answers: bool,
    /// Where its packets go from here, in a chain with routes.
    routing: Option<Routing>,
    tick: Option<Duration>,
    /// Its next tick, at the earliest.
    tick_due: Instant,
    /// Packets whose turn has begun and not ended.
    on_turn: u64,
    pub(super) stats: FunctionStats,
}

/// An instance's tables, and how much each holds.
fn tables_of(instance: &Instance) -> String {
    let tables = instance.function.tables().into_iter();
    let tables: Vec<String> =
        tables.map(|table| format!("{} {}", table.total, table.name)).collect();
    match &tables[..] {
        [] => format!("the state of `{}`", instance.name),
        _ => format!("the tables of `{}` ({})", instance.name, tables.join(", ")),
    }
}

impl Slot {
    pub(super) fn new(chain: &Chain, position: usize, shards: &[Shard]) -> Self {
        let function = Arc::clone(&chain.instances[position].function);
        let states = shards.iter().map(|&shard| (shard, function.state(shard)));
        let purpose = tables_of(&chain.instances[position]);
        let states: States = naming(&purpose, || gather(|| states.collect()));
        let has_before = states.iter().any(|(_, state)| state.before.is_some());
        Self {
            position: position as u8,
            access: *function.access(),
            asks_for_frames: position == 0 && has_before && function.access().looks_before(),
            has_before,
            has_after: states.iter().any(|(_, state)| state.after.is_some()),
            emits: function.emits(),
            passage: chain.passage(position),
            takes_answers: chain.instances[position].place == Place::Second,
            routing: Routing::of(chain),
            tick: function.tick(),
            tick_due: Instant::ZERO,
            function,
            states,
            on_turn: 0,
            stats: FunctionStats::default(),
        }
    }

    pub(super) fn work(
        &mut self,
        flights: &mut [BatchInFlight],
        rooms: &mut Rooms,
        order: &mut Vec<u16>,
    ) {
        for flight in flights.iter_mut() {
            self.enter(flight);
            self.begin(flight, rooms);
        }
        for flight in flights.iter_mut() {
            self.run(flight, rooms);
        }
        for flight in flights.iter_mut() {
            self.end(flight, rooms);
            self.account(flight, rooms, order);
        }
    }

    fn run(&self, flight: &mut BatchInFlight, rooms: &mut Rooms) {
        if let Some(versions) = &mut rooms.versions {
            let rows: Vec<usize> = flight.batch.forward_rows().collect();
            versions.begin(&mut flight.batch, (self.position, Reader::Run), rows.into_iter());
        }
        flight.batch.set_phase(self.allowed(Phase::Run));
        self.function.run(&mut flight.batch);
        rooms.versions.iter_mut().for_each(|versions| versions.end(&mut flight.batch));
    }

    /// A phase of its state begins for the packets that were picked.
    fn begin_phase(&self, reader: Reader, flight: &mut BatchInFlight, rooms: &mut Rooms) {
        if let Some(versions) = &mut rooms.versions {
            let rows = flight.scratch.picks.iter().map(|&pick| usize::from(pick));
            versions.begin(&mut flight.batch, (self.position, reader), rows);
        }
        let phase = if reader == Reader::Before { Phase::Before } else { Phase::After };
        flight.batch.set_phase(self.allowed(phase));
    }

    fn allowed(&self, phase: Phase) -> Allowed {
        self.access.of(phase, self.function.type_name())
    }

    pub(super) fn enter(&self, flight: &mut BatchInFlight) {
        flight.batch.enter(self.position);
        flight.scratch.made.enter(self.position);
        flight.batch.take_settled();
        if self.takes_answers {
            flight.batch.resume_answers();
        }
    }

    /// The rest of a turn. A device did the work of its `output`. The CPU does the rest, and all if
    /// there is none.
    pub(super) fn finish(
        &mut self,
        flight: &mut BatchInFlight,
        output: Option<&Output<'_>>,
        rooms: &mut Rooms,
        order: &mut Vec<u16>,
    ) {
        if let Some(Output { returned, found }) = output {
            let writes = self.function.kernel_access().writes;
            if let Some(versions) = &mut rooms.versions {
                versions.accepted(&flight.batch, returned, self.position, writes);
            }
            flight.batch.accept_returned(returned, writes, found.as_ref());
        }
        if flight.batch.hold_done() {
            self.run(flight, rooms);
            flight.batch.release();
        }
        if self.takes_answers && flight.batch.hold_others() {
            self.run(flight, rooms);
            flight.batch.release();
        }
        self.end(flight, rooms);
        // The CPU alone takes packets that are made here to the end of the stage.
        flight.scratch.made.leave_from(self.position + 1);
        self.account(flight, rooms, order);
    }

    /// Time, and `before`, where a device does the rest. Answers wait: they have no rows in
    /// launches.
    pub(super) fn begin_apart(&mut self, flight: &mut BatchInFlight, rooms: &mut Rooms) {
        self.begin(flight, rooms);
        if self.takes_answers {
            flight.batch.suspend_answers();
        }
    }

    /// Time, and `before`.
    pub(super) fn begin(&mut self, flight: &mut BatchInFlight, rooms: &mut Rooms) {
        if let Some(observer) = &rooms.observer {
            observer.enters(rooms.lane, self.position.into(), &flight.batch);
        }
        flight.scratch.on_turn = flight.batch.forward_count() as u64;
        self.stats.packets_in += flight.scratch.on_turn;
        self.on_turn += flight.scratch.on_turn;
        if self.asks_for_frames {
            flight.batch.fetch_frames();
        }
        if let Some(versions) = &mut rooms.versions {
            let steers = FieldSet::of(&[Field::Shard, Field::Verdict]);
            versions.read(&flight.batch, (self.position, Reader::Lane), steers);
            if rooms.kept.is_some() {
                versions.read(&flight.batch, (self.position, Reader::Shown), FieldSet::FRAME);
            }
        }
        if self.has_before || self.has_after {
            flight.scratch.fill(&flight.batch, self.emits.per_packet > 0);
        }
        if let Some(frames) = &mut rooms.kept {
            flight.batch.keep_frames(frames, &mut flight.scratch.kept);
        }
        if let BatchKind::Tick { now, .. } = flight.batch.kind()
            && self.is_tick_due(now)
        {
            self.report_time(flight, rooms);
        }
        if !self.has_before {
            return;
        }
        self.begin_phase(Reader::Before, flight, rooms);
        for fetch in [<dyn Before>::fetch, <dyn Before>::fetch_next] {
            for (shard, state) in &self.states {
                if let Some(before) = &state.before
                    && flight.scratch.has(*shard)
                {
                    fetch(&**before, &flight.batch, flight.scratch.picks(*shard));
                }
            }
        }
        for (shard, state) in &mut self.states {
            if let Some(before) = &mut state.before
                && flight.scratch.has(*shard)
            {
                let (picks, mut emit) =
                    flight.scratch.of(*shard, (self.emits, &self.passage), rooms);
                before.before(&mut flight.batch, picks, &mut emit);
            }
        }
        rooms.versions.iter_mut().for_each(|versions| versions.end(&mut flight.batch));
    }

    fn end(&mut self, flight: &mut BatchInFlight, rooms: &mut Rooms) {
        if self.has_after {
            self.begin_phase(Reader::After, flight, rooms);
            for (shard, state) in &self.states {
                if let Some(after) = &state.after
                    && flight.scratch.has(*shard)
                {
                    after.fetch(&flight.batch, flight.scratch.picks(*shard));
                }
            }
            for (shard, state) in &mut self.states {
                if let Some(after) = &mut state.after
                    && flight.scratch.has(*shard)
                {
                    let (picks, mut emit) =
                        flight.scratch.of(*shard, (self.emits, &self.passage), rooms);
                    after.after(&mut flight.batch, picks, &mut emit);
                }
            }
            rooms.versions.iter_mut().for_each(|versions| versions.end(&mut flight.batch));
        }
        flight.batch.leave_phase();
        // The end comes after the last packets: those that functions before this one still made.
        if flight.batch.kind() == BatchKind::Finish {
            self.report_time(flight, rooms);
        }
    }

    /// Whether the function gets this tick: a chain's ticks are as short as any function asks for.
    fn is_tick_due(&mut self, now: Instant) -> bool {
        let due = self.tick.filter(|_| now >= self.tick_due);
        if let Some(every) = due {
            self.tick_due = now.after(every);
        }
        due.is_some()
    }

    fn report_time(&mut self, flight: &mut BatchInFlight, rooms: &mut Rooms) {
        let number = flight.batch.last_ingress();
        for (shard, state) in &mut self.states {
            let made = &mut flight.scratch.made;
            let Rooms { placer, hasher, .. } = rooms;
            let mut emit = Emit::at_tick(made, placer, hasher, self.emits, number, *shard);
            match flight.batch.kind() {
                BatchKind::Packets | BatchKind::Reload => {}
                BatchKind::Tick { now, captured } => {
                    emit.set_captured(captured);
                    state.before.iter_mut().for_each(|half| half.handle_timeout(now, &mut emit));
                    state.after.iter_mut().for_each(|half| half.handle_timeout(now, &mut emit));
                }
                BatchKind::Finish => {
                    state.before.iter_mut().for_each(|half| half.finish(&mut emit));
                    state.after.iter_mut().for_each(|half| half.finish(&mut emit));
                }
            }
        }
    }

    /// Counts the packets that left the way, then puts each made packet after its cause.
    fn account(&mut self, flight: &mut BatchInFlight, rooms: &mut Rooms, order: &mut Vec<u16>) {
        self.on_turn -= std::mem::take(&mut flight.scratch.on_turn);
        if flight.batch.take_settled() > 0 {
            if let Some(frames) = &rooms.kept {
                flight.batch.restore_dropped(frames, &mut flight.scratch.kept);
            }
            self.stats.tally(&flight.batch, self.position);
        }
        if !flight.scratch.made.is_empty() || !flight.scratch.made.notes().is_empty() {
            self.stats.generated += flight.scratch.made.len() as u64;
            if let Some(routing) = &self.routing {
                flight.scratch.made.start_paths(routing.start(self.position));
            }
            rooms.versions.iter_mut().for_each(|versions| versions.made(&flight.scratch.made));
            let fits = flight.batch.merge(&mut flight.scratch.made, order);
            debug_assert!(fits, "a batch has slots for all that its chain may make of it");
        }
        flight.scratch.made.clear();
        if self.takes_answers {
            flight.batch.suspend_answers();
        }
        if let Some(routing) = &self.routing {
            if let Some(versions) = &mut rooms.versions
                && routing.parts(self.position)
            {
                let reads = FieldSet::of(&[Field::DstAddr]);
                versions.read(&flight.batch, (self.position, Reader::Lane), reads);
            }
            self.stats.unrouted += routing.leave(self.position, &mut flight.batch);
        }
        if let Some(observer) = &rooms.observer {
            observer.leaves(rooms.lane, self.position.into(), &flight.batch);
        }
    }

    /// Its counts so far.
    pub(super) fn counts(&self) -> FunctionStats {
        let mut stats = self.stats.clone();
        let left = stats.dropped() + stats.rejected() + stats.absorbed;
        stats.packets_out = stats.packets_in.saturating_sub(left + self.on_turn);
        stats
    }

    pub(super) fn reload(&mut self, chain: &Chain) {
        let function = &chain.instances[usize::from(self.position)].function;
        if Arc::ptr_eq(function, &self.function) {
            return;
        }
        for (_, state) in &mut self.states {
            state.before.iter_mut().for_each(|half| half.reload(&**function));
            state.after.iter_mut().for_each(|half| half.reload(&**function));
        }
        self.access = *function.access();
        self.function = Arc::clone(function);
    }
}
