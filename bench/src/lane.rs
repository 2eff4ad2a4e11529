//! A lane without an engine: batches that lie ready, and a function's state that works on them, so
//! that a bench can time the parts of a function's turn one by one.

use std::hint::black_box;

use warpline_engine::sys::gather;
use warpline_nf::{Emit, Function, State};
use warpline_packet::{
    Arena, ArenaLayout, Arrival, BATCH_DEFAULT, Batch, FlowHasher, Headers, Instant, LinkType,
    SHARDS, SLAB_LEN, Shard, Steering,
};

use crate::sys::Reached;

/// A function's state on one lane, and batches of the usual size for it.
pub struct Lane {
    /// The batches, all full but the last.
    pub batches: Vec<Batch>,
    /// Notes made so far.
    pub noted: u64,
    states: Vec<State>,
    function: Box<dyn Function>,
    steering: Steering,
    made: Batch,
    arena: Arena,
    layout: ArenaLayout,
    reached: Reached,
    order: Vec<u16>,
    ends: [u16; SHARDS],
}

/// A part of the turn of one half of a state.
enum TurnPart<'e, 'm> {
    Fetch,
    FetchNext,
    Work(&'e mut Emit<'m>),
}

impl Lane {
    /// Of `function`, which was handed `scratch_words` scratch words, with Ethernet `frames` that
    /// all come in the same second. The function makes no packets. This calls it for the start of a
    /// run.
    pub fn new(function: Box<dyn Function>, scratch_words: usize, frames: &[Vec<u8>]) -> Self {
        let count = frames.len().div_ceil(BATCH_DEFAULT);
        let growth = function.growth();
        let place_len = |len: usize| (growth.head + len + growth.tail).next_multiple_of(64) + 64;
        let bytes: usize = frames.iter().map(|frame| place_len(frame.len())).sum();
        let layout = ArenaLayout {
            slabs: 2 + bytes / (SLAB_LEN - 2048),
            emit_slabs: 1,
            tables: count + 1,
            slots: BATCH_DEFAULT,
            scratch_words,
            headroom: growth.head,
            tailroom: growth.tail,
        };
        let (reached, memory) = Reached::new(layout.memory_len()).expect("memory");
        let mut arena = Arena::new(memory, &layout).expect("a layout that fits");
        let mut made = Batch::new(arena.tables.remove(0));
        let emits = function.emits();
        let notes = BATCH_DEFAULT * emits.notes_per_packet;
        made.take_notes(notes, notes * emits.note_len_max);
        let batches = arena.tables.drain(..).map(|table| {
            let mut batch = Batch::new(table);
            batch.take_findings_room(BATCH_DEFAULT * emits.findings_per_packet);
            batch
        });
        let batches = batches.collect();
        let states =
            gather(|| (0..SHARDS).map(|shard| function.state(Shard::new(shard))).collect());
        let steering = Steering::serving(function.state_key());
        let (order, ends) = (Vec::new(), [0; SHARDS]);
        let mut lane = Self {
            batches,
            noted: 0,
            states,
            function,
            steering,
            made,
            arena,
            layout,
            reached,
            order,
            ends,
        };
        lane.fill(frames);
        lane
    }

    /// Replaces the frames in the batches with `frames`: no more of them than at first, and none
    /// longer.
    pub fn fill(&mut self, frames: &[Vec<u8>]) {
        self.batches.iter_mut().for_each(Batch::clear);
        for (number, frame) in frames.iter().enumerate() {
            let headers = Headers::parse(frame, LinkType::ETHERNET, frame.len());
            let steered = self.steering.steer(&FlowHasher::SEED_0, frame, &headers);
            let arrival = Arrival {
                timestamp: Instant::from_secs(1),
                captured: Instant::from_secs(1),
                ingress: number as u64,
                wire_len: frame.len() as u32,
                link: LinkType::ETHERNET,
                interface: 0,
                shard: steered.shard,
                flow_hash: steered.flow_hash,
            };
            let batch = &mut self.batches[number / BATCH_DEFAULT];
            batch.push(frame, &headers, &arrival, &mut self.arena.ingress).expect("room");
        }
    }

    /// All three phases of each batch, one batch after another, as a stage does them: frames are
    /// asked for, packets are grouped once, and all shards are asked to fetch before the first
    /// works.
    pub fn phases(&mut self) {
        for at in 0..self.batches.len() {
            self.batches[at].group_by_shard(&mut self.order, &mut self.ends);
            self.begin(at);
            self.function.run(&mut self.batches[at]);
            self.half(at, |state, batch, picks, part| match (&mut state.after, part) {
                (Some(half), TurnPart::Work(emit)) => half.after(batch, picks, emit),
                (Some(half), TurnPart::Fetch) => half.fetch(batch, picks),
                _ => {}
            });
        }
    }

    /// The phase before the pure work, of every batch. Nothing is left to the CPU, as at the start
    /// of a launch.
    pub fn before(&mut self) {
        for at in 0..self.batches.len() {
            self.batches[at].group_by_shard(&mut self.order, &mut self.ends);
            self.begin(at);
            self.batches[at].leave_none();
        }
    }

    fn begin(&mut self, at: usize) {
        self.ask_for_frames(at);
        self.half(at, |state, batch, picks, part| match (&mut state.before, part) {
            (Some(half), TurnPart::Work(emit)) => half.before(batch, picks, emit),
            (Some(half), TurnPart::Fetch) => half.fetch(batch, picks),
            (Some(half), TurnPart::FetchNext) => half.fetch_next(batch, picks),
            _ => {}
        });
    }

    /// The function.
    pub fn function(&self) -> &dyn Function {
        &*self.function
    }

    /// How its memory is laid out.
    pub fn layout(&self) -> &ArenaLayout {
        &self.layout
    }

    /// All of its memory, as it is now.
    pub fn image(&mut self) -> Vec<u8> {
        let mut image = vec![0; self.reached.len()];
        let mut all: Vec<&mut Batch> = self.batches.iter_mut().chain([&mut self.made]).collect();
        self.reached.copy_to(&mut image, &mut all, &mut self.arena);
        image
    }

    /// Has one half of the state of each shard that has packets in batch `at` fetch what it will
    /// read, then work on them.
    fn half(&mut self, at: usize, work: impl Fn(&mut State, &mut Batch, &[u16], TurnPart<'_, '_>)) {
        let batch = &mut self.batches[at];
        let starts = std::iter::once(0).chain(self.ends);
        let ranges = starts.zip(self.ends).map(|(from, to)| usize::from(from)..usize::from(to));
        let ranges = ranges.enumerate().filter(|(_, range)| !range.is_empty());
        for fetch in [|| TurnPart::Fetch, || TurnPart::FetchNext] {
            for (shard, range) in ranges.clone() {
                work(&mut self.states[shard], batch, &self.order[range], fetch());
            }
        }
        let emits = self.function.emits();
        for (shard, range) in ranges {
            let (made, placer) = (&mut self.made, &mut self.arena.emit);
            let emit = &mut Emit::new(
                made,
                placer,
                &FlowHasher::SEED_0,
                emits,
                Shard::new(shard),
                &mut [],
            );
            work(&mut self.states[shard], batch, &self.order[range], TurnPart::Work(emit));
        }
    }

    /// The function's pure work on every batch.
    pub fn run(&mut self) {
        self.batches.iter_mut().for_each(|batch| self.function.run(batch));
    }

    /// Reads a byte of every packet, as ingress leaves it in the cache.
    pub fn touch(&mut self) {
        self.batches.iter().for_each(touch);
    }

    /// Groups each batch by shard.
    pub fn group(&mut self) {
        for batch in &self.batches {
            batch.group_by_shard(&mut self.order, &mut self.ends);
            black_box(&self.order);
        }
    }

    /// Groups each batch by shard and lets the state work on it.
    pub fn state(&mut self) {
        for at in 0..self.batches.len() {
            self.turn(at);
        }
    }

    /// The whole turn of each batch, whose packets are in the cache.
    pub fn all(&mut self) {
        for at in 0..self.batches.len() {
            touch(&self.batches[at]);
            self.function.run(&mut self.batches[at]);
            self.turn(at);
        }
    }

    /// As the first stage of a lane does.
    fn ask_for_frames(&self, at: usize) {
        let has_before = self.states.iter().any(|state| state.before.is_some());
        if has_before && self.function.access().looks_before() {
            self.batches[at].fetch_frames();
        }
    }

    fn turn(&mut self, at: usize) {
        self.ask_for_frames(at);
        let batch = &mut self.batches[at];
        batch.group_by_shard(&mut self.order, &mut self.ends);
        let order = &self.order;
        let starts = std::iter::once(0).chain(self.ends);
        let ranges = starts.zip(self.ends).map(|(from, to)| usize::from(from)..usize::from(to));
        let picks = ranges.map(|range| &order[range]);
        for (state, picks) in self.states.iter().zip(picks.clone()) {
            state.before.iter().for_each(|half| half.fetch(batch, picks));
            state.after.iter().for_each(|half| half.fetch(batch, picks));
        }
        for (state, picks) in self.states.iter().zip(picks.clone()) {
            state.before.iter().for_each(|half| half.fetch_next(batch, picks));
        }
        let emits = self.function.emits();
        for (shard, (state, picks)) in self.states.iter_mut().zip(picks).enumerate() {
            if picks.is_empty() {
                continue;
            }
            let (shard, placer) = (Shard::new(shard), &mut self.arena.emit);
            let emit =
                &mut Emit::new(&mut self.made, placer, &FlowHasher::SEED_0, emits, shard, &mut []);
            state.before.iter_mut().for_each(|half| half.before(batch, picks, emit));
            state.after.iter_mut().for_each(|half| half.after(batch, picks, emit));
        }
        self.made.notes_mut().sort();
        self.noted += self.made.notes().iter().count() as u64;
        self.made.notes_mut().clear();
    }

    /// The sum over the shards of the counter called `name`.
    pub fn counter(&self, name: &str) -> u64 {
        let mut sum = 0;
        let mut add = |own: &'static str, value| sum += if own == name { value } else { 0 };
        for state in &self.states {
            state.before.iter().for_each(|half| half.counters(&mut add));
            state.after.iter().for_each(|half| half.counters(&mut add));
        }
        sum
    }
}

fn touch(batch: &Batch) {
    let sum: u32 = batch.forward().map(|packet| u32::from(packet.frame()[14])).sum();
    black_box(sum);
}
