//! A stage: functions between two queues, with their state for the shards of one lane.
//!
//! Batches go through function by function, in three phases. A stage of one function may take several
//! batches through each phase together; `before` of the last then comes before `run` of the first.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use warpline_nf::{Before, Cause, Emit, Emits, Function};
use warpline_packet::{
    Access, Allowed, Batch, Field, FieldSet, FlowHasher, FoundLists, Instant, KeptFrames, KeptRows,
    Kind, Phase, Placer, Returned, SHARDS, Shard,
};

use crate::clock::Clock;
use crate::device::{DEVICE_LOST, Finished, How, Launches};
use crate::reports::States;
use crate::stats::{FunctionStats, Transfers};
use crate::sys::{gather, naming};
use crate::versions::{Reader, Versions};
use crate::{Chain, Control, Instance, StagePlan};

/// A function on one lane.
struct Slot {
    position: u8,
    function: Arc<dyn Function>,
    access: Access,
    /// Whether its state is the first on this core to look into frames, and not in the order in which they lie.
    asks_for_frames: bool,
    states: States,
    has_before: bool,
    has_after: bool,
    emits: Emits,
    tick: Option<Duration>,
    /// Its next tick, at the earliest.
    tick_due: Instant,
    stats: FunctionStats,
}

/// What a function's turn needs besides the batch; used again for the next.
pub(crate) struct Bench {
    /// Packets made, put in their order when the turn is over.
    made: Batch,
    /// Packets that were `Forward` when the turn began, grouped by shard.
    picks: Vec<u16>,
    ends: [u16; SHARDS],
    /// The same packets for a function that makes packets of them.
    causes: Vec<Cause>,
    /// What they were, where that is kept.
    kept: KeptRows,
}

impl Bench {
    /// For what is made in `made`; `keeps` says whether dropped packets are shown as they were.
    pub(crate) fn new(made: Batch, keeps: bool) -> Self {
        let slots = made.slots();
        let kept = if keeps { slots } else { 0 };
        let (picks, causes) = (Vec::with_capacity(slots), Vec::with_capacity(slots));
        Self { made, picks, ends: [0; SHARDS], causes, kept: KeptRows::with_capacity(kept) }
    }

    /// Groups what is `Forward` in `batch` by shard.
    fn fill(&mut self, batch: &Batch, makes: bool) {
        batch.group_by_shard(&mut self.picks, &mut self.ends);
        self.causes.clear();
        if makes {
            let number = |&pick: &u16| batch.packet(usize::from(pick)).ingress();
            self.causes.extend(self.picks.iter().map(|pick| Cause::new(number(pick))));
        }
    }

    /// Has no shard's state hear of the packets.
    fn forget(&mut self) {
        self.picks.clear();
        self.ends.fill(0);
        self.causes.clear();
    }

    /// Has no shard's state hear of packets that are dropped.
    fn forget_dropped(&mut self, batch: &Batch) {
        let (mut from, mut kept) = (0, 0);
        for end in &mut self.ends {
            for at in from..usize::from(*end) {
                if batch.is_forward(usize::from(self.picks[at])) {
                    self.picks.swap(kept, at);
                    if at < self.causes.len() {
                        self.causes.swap(kept, at);
                    }
                    kept += 1;
                }
            }
            from = usize::from(*end);
            *end = kept as u16;
        }
        self.picks.truncate(kept);
        self.causes.truncate(kept);
    }

    /// Whether there are packets of `shard`.
    fn has(&self, shard: Shard) -> bool {
        !range_of(&self.ends, shard).is_empty()
    }

    /// The packets of `shard`.
    fn picks(&self, shard: Shard) -> &[u16] {
        &self.picks[range_of(&self.ends, shard)]
    }

    /// The packets of `shard`, and where what they make goes.
    fn of<'a>(
        &'a mut self,
        shard: Shard,
        emits: Emits,
        rooms: &'a mut Rooms,
    ) -> (&'a [u16], Emit<'a>) {
        let range = range_of(&self.ends, shard);
        let causes = self.causes.get_mut(range.clone()).unwrap_or(&mut []);
        let Rooms { placer, hasher, .. } = rooms;
        (&self.picks[range], Emit::new(&mut self.made, placer, hasher, emits, shard, causes))
    }
}

/// Where a lane's functions place frames.
pub(crate) struct Rooms {
    pub(crate) placer: Placer,
    /// Names the flows of what they make.
    pub(crate) hasher: FlowHasher,
    /// Frames as they were when a function's turn began, where dropped packets are shown.
    pub(crate) kept: Option<KeptFrames>,
    /// Versions of the lane's packets' fields, where they are followed.
    pub(crate) versions: Option<Box<Versions>>,
}

/// A batch on its way through a stage.
pub(crate) struct Flight {
    pub(crate) batch: Box<Batch>,
    pub(crate) bench: Box<Bench>,
}

/// Functions between two queues.
pub(crate) struct Stage {
    slots: Vec<Slot>,
    pub(crate) launch_batches: usize,
    order: Vec<u16>,
    /// Where its functions are on a device.
    pub(crate) launches: Option<Launches>,
    /// Where they were to be and are not, the bits of mirrors that have packets all the same.
    kept_mirrors: Option<u8>,
}

impl Stage {
    /// The functions of `plan`, with state for `shards`.
    pub(crate) fn new(
        chain: &Chain,
        plan: &StagePlan,
        shards: &[Shard],
        slots: usize,
        on: Result<Option<Launches>, u8>,
    ) -> Self {
        let (launches, kept_mirrors) = match on {
            Ok(launches) => (launches, None),
            Err(kept) => (None, Some(kept)),
        };
        let positions = plan.first..plan.first + plan.count;
        Self {
            slots: positions.map(|position| Slot::new(chain, position, shards)).collect(),
            // Launches for a device are collected batch by batch.
            launch_batches: if launches.is_some() { 1 } else { plan.launch_batches },
            order: Vec::with_capacity(slots),
            kept_mirrors,
            launches,
        }
    }

    /// Takes `flights` through every function: batches of packets, or one tick or end of input.
    pub(crate) fn work(&mut self, flights: &mut [Flight], rooms: &mut Rooms, clock: &Clock) {
        let mut then = clock.now();
        if let Some(kept) = self.kept_mirrors {
            flights.iter_mut().for_each(|flight| flight.batch.keep_mirrors(kept));
        }
        for slot in &mut self.slots {
            slot.work(flights, rooms, &mut self.order);
            let now = clock.now();
            slot.stats.busy_ns += now - then;
            then = now;
        }
    }

    /// Takes a batch of packets through `before` and hands it to the launches.
    pub(crate) fn admit(&mut self, mut flight: Flight, rooms: &mut Rooms, clock: &Clock) {
        let (Some(launches), Some(slot)) = (&mut self.launches, self.slots.first_mut()) else {
            return;
        };
        let then = clock.now();
        slot.enter(&mut flight);
        slot.begin(&mut flight, rooms);
        flight.batch.leave_phase();
        launches.push(flight);
        let spent = clock.now() - then;
        slot.stats.busy_ns += spent;
        slot.stats.before_ns += spent;
    }

    /// Takes the batches of a launch, of which the device or nobody did the work, through the rest of their turns.
    pub(crate) fn settle(&mut self, finished: &mut Finished, rooms: &mut Rooms, clock: &Clock) {
        let mut flights = std::mem::take(&mut finished.flights);
        for (index, flight) in flights.iter_mut().enumerate() {
            let returned = self.launches.as_ref().and_then(|all| all.returned(finished, index));
            let found = self.launches.as_ref().and_then(|all| all.found(finished));
            if let Some(launches) = &self.launches {
                match finished.how {
                    How::Done => {
                        let versions = rooms.versions.as_deref_mut();
                        launches.accept(finished, index, &mut flight.batch, versions);
                    }
                    _ => {
                        if launches.lose_mirrored(&mut flight.batch) {
                            flight.bench.forget_dropped(&flight.batch);
                        }
                        flight.batch.keep_mirrors(launches.kept_mirrors());
                    }
                }
            }
            match (finished.how, returned) {
                (How::Done, Some(_)) => {}
                (How::Lost { is_used }, _) => lose(flight, is_used),
                (How::OnCpu { is_used: true }, _) if !move_out(flight, rooms) => {
                    lose(flight, true);
                }
                _ => flight.batch.leave_from(self.slots.first().map_or(0, |slot| slot.position)),
            }
            let mut then = clock.now();
            for (at, slot) in self.slots.iter_mut().enumerate() {
                if at > 0 {
                    slot.enter(flight);
                    slot.begin(flight, rooms);
                }
                let left = returned.as_ref().map(|returned| (returned, found.as_ref()));
                slot.finish(flight, left, rooms, &mut self.order);
                let now = clock.now();
                slot.stats.busy_ns += now - then;
                then = now;
            }
        }
        finished.flights = flights;
    }

    /// Puts the functions that were built anew where the old ones were.
    pub(crate) fn reload(&mut self, control: &Control) {
        if let Some(chain) = control.reloads.chain() {
            self.launches.iter_mut().for_each(|launches| launches.reload(&chain));
            self.slots.iter_mut().for_each(|slot| slot.reload(&chain));
        }
    }

    /// Notes what crossed for its launches.
    pub(crate) fn set_transfers(&mut self, transfers: Transfers) {
        self.slots.iter_mut().take(1).for_each(|slot| slot.stats.transfers = transfers);
    }

    /// What its functions did and their state, by their position in the chain.
    pub(crate) fn finish(self) -> impl Iterator<Item = (usize, FunctionStats, States)> {
        self.slots.into_iter().map(|mut slot| {
            let stats = &mut slot.stats;
            let left = stats.dropped() + stats.rejected() + stats.absorbed;
            stats.packets_out = stats.packets_in.saturating_sub(left);
            (usize::from(slot.position), slot.stats, slot.states)
        })
    }
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
    fn new(chain: &Chain, position: usize, shards: &[Shard]) -> Self {
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
            tick: function.tick(),
            tick_due: Instant::ZERO,
            function,
            states,
            stats: FunctionStats::default(),
        }
    }

    fn work(&mut self, flights: &mut [Flight], rooms: &mut Rooms, order: &mut Vec<u16>) {
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

    fn run(&self, flight: &mut Flight, rooms: &mut Rooms) {
        if let Some(versions) = &mut rooms.versions {
            let rows: Vec<usize> = flight.batch.forward_rows().collect();
            versions.begin(&mut flight.batch, (self.position, Reader::Run), rows.into_iter());
        }
        flight.batch.set_phase(self.allowed(Phase::Run));
        self.function.run(&mut flight.batch);
        rooms.versions.iter_mut().for_each(|versions| versions.end(&mut flight.batch));
    }

    /// A phase of its state begins for the packets that were picked.
    fn begin_phase(&self, reader: Reader, flight: &mut Flight, rooms: &mut Rooms) {
        if let Some(versions) = &mut rooms.versions {
            let rows = flight.bench.picks.iter().map(|&pick| usize::from(pick));
            versions.begin(&mut flight.batch, (self.position, reader), rows);
        }
        let phase = if reader == Reader::Before { Phase::Before } else { Phase::After };
        flight.batch.set_phase(self.allowed(phase));
    }

    fn allowed(&self, phase: Phase) -> Allowed {
        self.access.of(phase, self.function.type_name())
    }

    fn enter(&self, flight: &mut Flight) {
        flight.batch.enter(self.position);
        flight.bench.made.enter(self.position);
        flight.batch.take_settled();
    }

    /// The rest of a turn of which a device did what it `left` in the table's copy and found; what it didn't do, and all where there is no
    /// such, the CPU does.
    fn finish(
        &mut self,
        flight: &mut Flight,
        left: Option<(&Returned<'_>, Option<&FoundLists<'_>>)>,
        rooms: &mut Rooms,
        order: &mut Vec<u16>,
    ) {
        if let Some((returned, found)) = left {
            let writes = self.function.kernel_access().writes;
            if let Some(versions) = &mut rooms.versions {
                versions.accepted(&flight.batch, returned, self.position, writes);
            }
            flight.batch.accept_returned(returned, writes, found);
        }
        if flight.batch.hold_done() {
            self.run(flight, rooms);
            flight.batch.release();
        }
        self.end(flight, rooms);
        // What is made here goes on by the CPU alone, up to the end of the stage.
        flight.bench.made.leave_from(self.position + 1);
        self.account(flight, rooms, order);
    }

    /// Time, and `before`.
    fn begin(&mut self, flight: &mut Flight, rooms: &mut Rooms) {
        self.stats.packets_in += flight.batch.forward_count() as u64;
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
            flight.bench.fill(&flight.batch, self.emits.per_packet > 0);
        }
        if let Some(frames) = &mut rooms.kept {
            flight.batch.keep_frames(frames, &mut flight.bench.kept);
        }
        if let Kind::Tick { now, .. } = flight.batch.kind()
            && self.is_tick_due(now)
        {
            self.tell_time(flight, rooms);
        }
        if !self.has_before {
            return;
        }
        self.begin_phase(Reader::Before, flight, rooms);
        for fetch in [<dyn Before>::fetch, <dyn Before>::fetch_next] {
            for (shard, state) in &self.states {
                if let Some(before) = &state.before
                    && flight.bench.has(*shard)
                {
                    fetch(&**before, &flight.batch, flight.bench.picks(*shard));
                }
            }
        }
        for (shard, state) in &mut self.states {
            if let Some(before) = &mut state.before
                && flight.bench.has(*shard)
            {
                let (picks, mut emit) = flight.bench.of(*shard, self.emits, rooms);
                before.before(&mut flight.batch, picks, &mut emit);
            }
        }
        rooms.versions.iter_mut().for_each(|versions| versions.end(&mut flight.batch));
    }

    fn end(&mut self, flight: &mut Flight, rooms: &mut Rooms) {
        if self.has_after {
            self.begin_phase(Reader::After, flight, rooms);
            for (shard, state) in &self.states {
                if let Some(after) = &state.after
                    && flight.bench.has(*shard)
                {
                    after.fetch(&flight.batch, flight.bench.picks(*shard));
                }
            }
            for (shard, state) in &mut self.states {
                if let Some(after) = &mut state.after
                    && flight.bench.has(*shard)
                {
                    let (picks, mut emit) = flight.bench.of(*shard, self.emits, rooms);
                    after.after(&mut flight.batch, picks, &mut emit);
                }
            }
            rooms.versions.iter_mut().for_each(|versions| versions.end(&mut flight.batch));
        }
        flight.batch.leave_phase();
        // The end comes behind the last packets: those that functions before this one still made.
        if flight.batch.kind() == Kind::Finish {
            self.tell_time(flight, rooms);
        }
    }

    /// Whether the function hears of this tick: a chain's ticks are as short as any function asks for.
    fn is_tick_due(&mut self, now: Instant) -> bool {
        let due = self.tick.filter(|_| now >= self.tick_due);
        if let Some(every) = due {
            self.tick_due = now.after(every);
        }
        due.is_some()
    }

    fn tell_time(&mut self, flight: &mut Flight, rooms: &mut Rooms) {
        let number = flight.batch.last_ingress();
        for (shard, state) in &mut self.states {
            let made = &mut flight.bench.made;
            let Rooms { placer, hasher, .. } = rooms;
            let mut emit = Emit::at_tick(made, placer, hasher, self.emits, number, *shard);
            match flight.batch.kind() {
                Kind::Packets | Kind::Reload => {}
                Kind::Tick { now, captured } => {
                    emit.set_captured(captured);
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

    /// Counts what left the way, then puts what was made behind its cause.
    fn account(&mut self, flight: &mut Flight, rooms: &mut Rooms, order: &mut Vec<u16>) {
        if flight.batch.take_settled() > 0 {
            if let Some(frames) = &rooms.kept {
                flight.batch.restore_dropped(frames, &mut flight.bench.kept);
            }
            self.stats.tally(&flight.batch, self.position);
        }
        if !flight.bench.made.is_empty() || !flight.bench.made.notes().is_empty() {
            self.stats.generated += flight.bench.made.len() as u64;
            rooms.versions.iter_mut().for_each(|versions| versions.made(&flight.bench.made));
            let fits = flight.batch.merge(&mut flight.bench.made, order);
            debug_assert!(fits, "a batch has slots for all that its chain may make of it");
        }
        flight.bench.made.clear();
    }

    fn reload(&mut self, chain: &Chain) {
        let function = &chain.instances[usize::from(self.position)].function;
        if Arc::ptr_eq(function, &self.function) {
            return;
        }
        for (_, state) in &mut self.states {
            state.before.iter_mut().for_each(|half| half.reload(&**function));
            state.after.iter_mut().for_each(|half| half.reload(&**function));
        }
        self.function = Arc::clone(function);
    }
}

/// What the packets of a launch hold is not known: they are dropped, and no state hears of them.
fn lose(flight: &mut Flight, is_used: bool) {
    flight.batch.lose(DEVICE_LOST);
    if is_used {
        // Somebody may write to their rooms.
        flight.bench.kept.clear();
        flight.batch.abandon();
    }
    flight.bench.forget();
}

/// Gives the packets of a launch other rooms. Says whether there were enough.
fn move_out(flight: &mut Flight, rooms: &mut Rooms) -> bool {
    let from = rooms.versions.is_some().then(|| Versions::rooms(&flight.batch));
    let fits = flight.batch.move_out(&mut rooms.placer);
    if let (Some(versions), Some(from)) = (&mut rooms.versions, from) {
        versions.moved(&from, &flight.batch);
    }
    fits
}

fn range_of(ends: &[u16; SHARDS], shard: Shard) -> Range<usize> {
    let index = shard.index();
    let start = if index == 0 { 0 } else { ends[index - 1] };
    usize::from(start)..usize::from(ends[index])
}
