//! Runs one function without an engine, for the tests and benches of functions.
//!
//! It treats a batch as a lane does: `before` by shard, insertion of made packets, `run`, `after`
//! by shard. In a debug build it checks every access against the declaration.
//!
//! ```no_run
//! use warpline_verify::{Harness, Input, build};
//! # fn example(router: &warpline_nf::Definition) {
//! let (function, scratch_words) = build(router, "routes = \"routes.txt\"", ".".as_ref());
//! let mut harness = Harness::new(function, scratch_words);
//! let out = harness.process(&[Input::at(0, &[0; 60])]);
//! assert_eq!(out.len(), 1);
//! # }
//! ```

#![forbid(unsafe_code)]

mod build;
pub mod exact;
mod pair;
pub mod probes;

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_packet::{
    Arena, ArenaLayout, Arrival, Batch, FlowHasher, Headers, HeapMemory, Instant, LinkType, Phase,
    SHARDS, Seed, Shard, Steering, Verdict,
};

pub use build::{build, build_pair, build_pair_with, build_with, try_build, try_build_pair};
pub use pair::Carried;

use warpline_nf::{
    Before, Cause, Emit, Function, PeakHistory, PeakSum, Report, State, TICK_NOTES_MAX,
};

/// A frame to process.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its time.
    pub timestamp: Instant,
    /// Its length on the wire.
    pub wire_len: u32,
    /// The type of its first header.
    pub link: LinkType,
}

impl Input {
    /// An Ethernet frame at `nanos`.
    pub fn at(nanos: u64, bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            timestamp: Instant::from_nanos(nanos),
            wire_len: bytes.len() as u32,
            link: LinkType::ETHERNET,
        }
    }
}

/// The outcome of a packet: one entry for each that came in or was made, in the order of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its bytes now.
    pub bytes: Vec<u8>,
    /// How it left the function.
    pub verdict: Verdict,
    /// The place of its drop reason in the function's list, where it was dropped.
    pub reason: u8,
    /// The next hop it was given.
    pub next_hop: u16,
    /// Its number in the input.
    pub ingress: u64,
    /// Whether the function made it.
    pub made: bool,
}

/// When a phase is looked at from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It is about to begin.
    Begins,
    /// It is over.
    Ended,
}

/// One function with its state, and an arena to run it in.
pub struct Harness {
    function: Arc<dyn Function>,
    steering: Steering,
    hasher: FlowHasher,
    /// The shard of packets instead of the one from `steering`.
    steered_to: Option<u8>,
    shards: usize,
    states: Vec<State>,
    arena: Arena,
    batch: Batch,
    made: Batch,
    order: Vec<u16>,
    notes: Vec<Vec<u8>>,
    ingress: u64,
    comes: Comes,
    scratch_words: usize,
}

/// The interface by which a packet of this number comes, and the next hop that it has.
type Comes = fn(u64) -> [u16; 2];

/// The sizes of a harness.
struct Room {
    shards: usize,
    /// Of a batch.
    packets: usize,
    slabs: usize,
    emit_slabs: usize,
}

impl Harness {
    /// Around `function`, which was handed `scratch_words` scratch words.
    pub fn new(function: impl Into<Arc<dyn Function>>, scratch_words: usize) -> Self {
        let room = Room { shards: SHARDS, packets: 1024, slabs: 80, emit_slabs: 8 };
        Self::with_room(function.into(), scratch_words, &room)
    }

    /// The same with little memory and made quickly: for batches of up to 256 frames of at most 4
    /// KiB, all in shard 0, the only one.
    pub fn small(function: impl Into<Arc<dyn Function>>, scratch_words: usize) -> Self {
        let room = Room { shards: 1, packets: 256, slabs: 4, emit_slabs: 4 };
        let mut harness = Self::with_room(function.into(), scratch_words, &room);
        harness.steer_to(Some(0));
        harness
    }

    /// The same with addresses hashed by `seed`, that of the function's chain: IPsec finds the
    /// shard of an SA with it.
    #[must_use]
    pub fn with_seed(mut self, seed: Seed) -> Self {
        self.hasher = FlowHasher::new(seed);
        self
    }

    fn with_room(function: Arc<dyn Function>, scratch_words: usize, room: &Room) -> Self {
        let growth = function.growth();
        let layout = ArenaLayout {
            slabs: room.slabs,
            emit_slabs: room.emit_slabs,
            tables: 2,
            slots: room.packets * (1 + function.emits().per_packet),
            scratch_words,
            headroom: growth.head,
            tailroom: growth.tail,
        };
        let memory = HeapMemory::new(layout.memory_len()).expect("memory for a test arena");
        let mut arena = Arena::new(Box::new(memory), &layout).expect("a layout that fits");
        let steering = Steering::serving(function.state_key());
        let mut batch = Batch::new(arena.tables.remove(0));
        let mut made = Batch::new(arena.tables.remove(0));
        let emits = function.emits();
        let notes = (layout.slots * emits.notes_per_packet).max(SHARDS * TICK_NOTES_MAX);
        for batch in [&mut batch, &mut made] {
            batch.take_notes(notes, notes * emits.note_len_max);
            batch.take_findings_room(layout.slots * emits.findings_per_packet);
        }
        let mut harness = Self {
            function,
            steering,
            hasher: FlowHasher::default(),
            steered_to: None,
            shards: room.shards,
            states: Vec::new(),
            arena,
            batch,
            made,
            order: Vec::new(),
            notes: Vec::new(),
            ingress: 0,
            comes: |_| [0, 0],
            scratch_words,
        };
        harness.restart();
        harness
    }

    /// Forgets all state, and what was counted, as if the function had just been built.
    pub fn restart(&mut self) {
        self.states.clear();
        self.states.extend(match self.steering {
            Steering::Single => vec![self.function.state(Shard::WHOLE)],
            _ => (0..self.shards).map(|s| self.function.state(Shard::new(s))).collect(),
        });
        self.notes.clear();
        self.ingress = 0;
    }

    /// The function.
    pub fn function(&self) -> &dyn Function {
        &*self.function
    }

    /// Sends frames to `shard`, as if an earlier function changed what was steered; `None`: to
    /// their own.
    pub fn steer_to(&mut self, shard: Option<u8>) {
        self.steered_to = shard;
    }

    /// Gives packet `n` of the input interface and next hop `comes(n)`; they are 0 otherwise.
    pub fn set_comes(&mut self, comes: fn(u64) -> [u16; 2]) {
        self.comes = comes;
    }

    /// Sends up to 1024 frames through the function as one batch.
    pub fn process(&mut self, inputs: &[Input]) -> Vec<Outcome> {
        self.fill(inputs);
        self.work();
        self.take_outcomes()
    }

    /// Sends packets through the function as one batch, with `watch` around the phases: see
    /// [`Harness::work_watched`].
    pub fn process_watched(
        &mut self,
        carried: &[Carried],
        watch: &mut dyn FnMut(Phase, Moment, &mut Batch),
    ) -> Vec<Outcome> {
        self.fill_carried(carried);
        self.work_watched(watch);
        self.take_outcomes()
    }

    /// The batch as it was filled last.
    pub fn batch_mut(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Places frames in the batch, without working on them.
    pub fn fill(&mut self, inputs: &[Input]) -> &mut Batch {
        self.place(inputs.iter());
        &mut self.batch
    }

    /// Places frames in the batch.
    fn place<'a>(&mut self, inputs: impl Iterator<Item = &'a Input>) {
        self.batch.clear();
        for input in inputs {
            let headers = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
            let steered = self.steering.steer(&self.hasher, &input.bytes, &headers);
            let [interface, next_hop] = (self.comes)(self.ingress);
            let arrival = Arrival {
                timestamp: input.timestamp,
                captured: input.timestamp,
                ingress: self.ingress,
                wire_len: input.wire_len,
                link: input.link,
                interface,
                shard: self.steered_to.unwrap_or(steered.shard),
                flow_hash: steered.flow_hash,
            };
            self.ingress += 1;
            let placed = self.batch.push(&input.bytes, &headers, &arrival, &mut self.arena.ingress);
            let at = placed.expect("a batch that holds the frames");
            self.batch.packet_mut(at).set_next_hop(next_hop);
        }
    }

    /// The three phases on what the batch holds.
    pub fn work(&mut self) {
        self.work_watched(&mut |_, _, _| {});
    }

    /// The same, with `watch` called before and after each phase. It may read and change the batch,
    /// unchecked.
    pub fn work_watched(&mut self, watch: &mut dyn FnMut(Phase, Moment, &mut Batch)) {
        let picks = self.picks();
        let cause = |&pick: &u16| Cause::new(self.batch.packet(usize::from(pick)).ingress());
        let mut causes: Vec<Vec<Cause>> =
            picks.iter().map(|picks| picks.iter().map(cause).collect()).collect();
        let (access, name) = (*self.function.access(), self.function.type_name());
        for phase in [Phase::Before, Phase::Run, Phase::After] {
            watch(phase, Moment::Begins, &mut self.batch);
            self.batch.set_phase(access.of(phase, name));
            match phase {
                Phase::Before => self.before(&picks, &mut causes),
                Phase::Run => self.function.run(&mut self.batch),
                Phase::After => self.after(&picks, &mut causes),
            }
            self.batch.leave_phase();
            watch(phase, Moment::Ended, &mut self.batch);
        }
        self.put_made();
    }

    /// The packets of each shard.
    fn picks(&self) -> Vec<Vec<u16>> {
        let mut order = Vec::new();
        let mut ends = [0; SHARDS];
        self.batch.group_by_shard(&mut order, &mut ends);
        let starts = std::iter::once(0).chain(ends).map(usize::from);
        starts.zip(ends).map(|(start, end)| order[start..usize::from(end)].to_vec()).collect()
    }

    fn before(&mut self, picks: &[Vec<u16>], causes: &mut [Vec<Cause>]) {
        for fetch in [<dyn Before>::fetch, <dyn Before>::fetch_next] {
            for (state, picks) in self.states.iter().zip(picks) {
                state.before.iter().for_each(|half| fetch(&**half, &self.batch, picks));
            }
        }
        let emits = self.function.emits();
        let by_shard = self.states.iter_mut().zip(picks).zip(causes).enumerate();
        for (shard, ((state, picks), causes)) in by_shard {
            let (made, placer) = (&mut self.made, &mut self.arena.emit);
            let emit = &mut Emit::new(made, placer, &self.hasher, emits, Shard::new(shard), causes);
            if let Some(before) = &mut state.before {
                before.before(&mut self.batch, picks, emit);
            }
        }
    }

    fn after(&mut self, picks: &[Vec<u16>], causes: &mut [Vec<Cause>]) {
        for (state, picks) in self.states.iter().zip(picks) {
            state.after.iter().for_each(|half| half.fetch(&self.batch, picks));
        }
        let emits = self.function.emits();
        let by_shard = self.states.iter_mut().zip(picks).zip(causes).enumerate();
        for (shard, ((state, picks), causes)) in by_shard {
            let (made, placer) = (&mut self.made, &mut self.arena.emit);
            let emit = &mut Emit::new(made, placer, &self.hasher, emits, Shard::new(shard), causes);
            if let Some(after) = &mut state.after {
                after.after(&mut self.batch, picks, emit);
            }
        }
    }

    /// Puts what was made in its place, and keeps the notes.
    fn put_made(&mut self) {
        self.batch.suspend_answers();
        assert!(self.batch.merge(&mut self.made, &mut self.order), "made packets fit");
        self.made.clear();
        self.batch.notes_mut().sort();
        self.notes.extend(self.batch.notes().iter().map(|note| note.bytes.to_vec()));
        self.batch.notes_mut().clear();
    }

    /// The notes made since this was last asked, in the order in which a report gets them.
    pub fn take_notes(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.notes)
    }

    /// Replaces the running function by `function` and keeps its state; or returns why not.
    pub fn reload(&mut self, function: Box<dyn Function>) -> Result<(), String> {
        function.succeeds(&*self.function)?;
        for state in &mut self.states {
            state.before.iter_mut().for_each(|half| half.reload(&*function));
            state.after.iter_mut().for_each(|half| half.reload(&*function));
        }
        self.steering = Steering::serving(function.state_key());
        self.function = function.into();
        Ok(())
    }

    /// Ends the run: the rest of the state goes to `report`, after the notes that were not taken
    /// yet.
    pub fn close(&mut self, report: &mut dyn Report) -> Result<(), String> {
        self.take_notes().iter().for_each(|note| report.note(note));
        for state in &mut self.states {
            state.before.iter_mut().for_each(|half| half.close(report));
            state.after.iter_mut().for_each(|half| half.close(report));
        }
        report.finish()
    }

    /// Tells every shard's state the time.
    pub fn tick(&mut self, now: Instant) -> Vec<Outcome> {
        self.without_packets(&mut |state, emit| {
            state.before.iter_mut().for_each(|half| half.handle_timeout(now, emit));
            state.after.iter_mut().for_each(|half| half.handle_timeout(now, emit));
        })
    }

    /// Tells every shard's state that the input ended.
    pub fn finish(&mut self) -> Vec<Outcome> {
        self.without_packets(&mut |state, emit| {
            state.before.iter_mut().for_each(|half| half.finish(emit));
            state.after.iter_mut().for_each(|half| half.finish(emit));
        })
    }

    /// The results of `work` with every shard's state.
    fn without_packets(&mut self, work: &mut dyn FnMut(&mut State, &mut Emit<'_>)) -> Vec<Outcome> {
        let (emits, number) = (self.function.emits(), self.ingress);
        let is_whole = self.steering == Steering::Single;
        for (shard, state) in self.states.iter_mut().enumerate() {
            let (made, placer) = (&mut self.made, &mut self.arena.emit);
            let shard = if is_whole { Shard::WHOLE } else { Shard::new(shard) };
            work(state, &mut Emit::at_tick(made, placer, &self.hasher, emits, number, shard));
        }
        self.batch.clear();
        self.put_made();
        self.take_outcomes()
    }

    /// The sum over the shards of the counter called `name`.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters().get(name).copied().unwrap_or(0)
    }

    /// All counters, summed over the shards.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        let mut add = |name, value| *sums.entry(name).or_default() += value;
        let mut peaks: BTreeMap<_, PeakSum> = BTreeMap::new();
        let mut add_peak = |name, history: &PeakHistory, newest| {
            peaks.entry(name).or_default().add(history, newest);
        };
        for State { before, after } in &self.states {
            before.iter().for_each(|half| half.counters(&mut add));
            after.iter().for_each(|half| half.counters(&mut add));
            before.iter().for_each(|half| half.peaks(&mut add_peak));
            after.iter().for_each(|half| half.peaks(&mut add_peak));
        }
        sums.extend(peaks.into_iter().map(|(name, peak)| (name, peak.highest())));
        sums
    }

    /// The outcome of the packets of the batch, which is empty then.
    fn take_outcomes(&mut self) -> Vec<Outcome> {
        let of = |index| {
            let packet = self.batch.packet(index);
            Outcome {
                bytes: packet.frame().to_vec(),
                verdict: packet.verdict(),
                reason: packet.reason().0,
                next_hop: packet.next_hop(),
                ingress: packet.ingress(),
                made: packet.has(warpline_packet::Flags::GENERATED),
            }
        };
        let outcomes = (0..self.batch.len()).map(of).collect();
        self.batch.clear();
        outcomes
    }
}
