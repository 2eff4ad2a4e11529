//! Launches from plain data alone, without an engine: a scripted device, an arena and batches.

use std::sync::Arc;
use std::time::Duration;

use warpline_device::fake::{Fake, Fate, Value};
use warpline_device::{Device, Failure};
use warpline_launch::{
    Clock, Crossings, Dimensions, FailedDevices, Flight, LaneMemory, LaunchOptions, LaunchStage,
    Launches, Lengthened, Member, Mirrors, OnDevice, Scratch, Streams, Transport, load,
};
use warpline_nf::{KernelStep, Kernels};
use warpline_packet::{
    Access, Arena, ArenaLayout, Arrival, Batch, Binding, Field, FieldSet, Headers, Instant,
    LinkType, ReadWrite,
};
use warpline_sched::LaunchLimits;

const LAYOUT: ArenaLayout =
    ArenaLayout { slabs: 2, emit_slabs: 1, tables: 2, slots: 8, ..ArenaLayout::NONE };
const LIMITS: LaunchLimits = LaunchLimits {
    bytes_max: 1 << 20,
    packets_max: 64,
    batches_max: 1,
    delay_max_ns: 1 << 40,
    foresees: false,
    launches_max: 2,
    measures: false,
    waiting_bytes_max: 4 << 20,
    waiting_batches_max: 4,
    timeout_ns: 1 << 40,
};
const FRAME: [u8; 64] = [7; 64];

/// Counts the calls of each kind.
#[derive(Default)]
struct Counts {
    forgotten: u32,
    frames_forgotten: u32,
}

impl Scratch for Counts {
    fn forget_dropped(&mut self, _: &Batch) {}

    fn forget(&mut self) {
        self.forgotten += 1;
    }

    fn forget_frames(&mut self) {
        self.frames_forgotten += 1;
    }
}

/// A device whose kernel adds one to every byte of the mirror.
fn adds_one(script: impl FnMut(u64) -> Fate + Send + 'static) -> Fake {
    Fake::new(script).with_kernel("add_one", |_, values| {
        let [Value::Writes(arena), ..] = values else { return };
        arena.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    })
}

fn payload() -> ReadWrite {
    let payload = FieldSet::of(&[Field::Payload]);
    ReadWrite::new(payload, payload)
}

/// A stage of one function, loaded on `device`.
fn stage(device: &Arc<dyn Device>) -> Result<LaunchStage, Failure> {
    const STEPS: &[KernelStep] =
        &[KernelStep { name: "add_one", group: 64, shared_big: 0, items_per_packet: 1 }];
    let kernels = Kernels::builder("add_one.cl", "", STEPS).build().declaring(payload());
    let member = Member {
        position: 0,
        access: Access::run_only(payload()),
        kernels: payload(),
        loaded: Arc::new(load(device, &kernels, &Binding::MIRROR)?),
    };
    let crossings = Crossings::whole(payload());
    let columns = crossings.columns(0).row_len();
    Ok(LaunchStage {
        names: "one".into(),
        members: vec![member],
        transport: Transport::default(),
        dimensions: Dimensions::new(&LIMITS, &LAYOUT, (columns, 0, crossings.kept_len())),
        crossings,
        scratch_words: 0,
        lengthened: Lengthened::default(),
        limits: LIMITS,
        target: Arc::default(),
        mates: vec![0],
        is_first: true,
        is_routed: false,
        is_alone: true,
        follows_versions: false,
    })
}

fn memory() -> LaneMemory {
    LaneMemory::new(LAYOUT.memory_len(), 0, std::iter::empty()).expect("memory")
}

fn arena(memory: &LaneMemory) -> Arena {
    let part = memory.take_arena().expect("the first arena");
    Arena::new(Box::new(part), &LAYOUT).expect("a layout that fits")
}

/// A batch of one packet, in the function's turn.
fn flight(arena: &mut Arena) -> Flight<Counts> {
    let mut batch = Box::new(Batch::new(arena.tables.remove(0)));
    let headers = Headers::parse(&FRAME, LinkType::ETHERNET, FRAME.len());
    let arrival = Arrival {
        timestamp: Instant::ZERO,
        captured: Instant::ZERO,
        ingress: 0,
        wire_len: FRAME.len() as u32,
        link: LinkType::ETHERNET,
        interface: 0,
        shard: 0,
        flow_hash: 0,
    };
    batch.push(&FRAME, &headers, &arrival, &mut arena.ingress).expect("room");
    batch.enter(0);
    batch.leave_phase();
    Flight { batch, scratch: Counts::default() }
}

fn open(fake: &Fake, memory: &LaneMemory) -> Result<Launches<Counts>, Failure> {
    open_with(fake, memory, LIMITS)
}

fn open_with(
    fake: &Fake,
    memory: &LaneMemory,
    limits: LaunchLimits,
) -> Result<Launches<Counts>, Failure> {
    let device: Arc<dyn Device> = Arc::new(fake.clone());
    let launches = LaunchOptions { streams: Streams::Count(2), ..LaunchOptions::default() };
    let on = OnDevice { device: Arc::clone(&device), launches, is_required: true };
    let failures = FailedDevices::default();
    let stage = LaunchStage { limits, ..stage(&device)? };
    Launches::open(stage, &on, &mut Mirrors::new(memory, &failures, 0))
}

/// The end of a packet: its first byte, whether the device did its work, whether it is still
/// forwarded, and how often all packets and their kept frames were forgotten.
type End = (Option<u8>, bool, bool, [u32; 2]);

/// Takes the launches that are over.
fn taken(launches: &mut Launches<Counts>, arena: &mut Arena) -> Vec<End> {
    let mut all = Vec::new();
    launches.advance(&Clock::start());
    while let Some(mut finished) = launches.take_finished() {
        for index in 0..finished.flights.len() {
            let output = launches.apply(&mut finished, index, &mut arena.emit, None);
            let Flight { batch, scratch } = &mut finished.flights[index];
            if let Some(output) = &output {
                batch.accept_returned(&output.returned, payload().writes, None);
            }
            let first = batch.packet(0).frame().first().copied();
            let forgotten = [scratch.forgotten, scratch.frames_forgotten];
            all.push((first, output.is_some(), batch.is_forward(0), forgotten));
        }
        finished.flights.clear();
        launches.recycle(finished);
    }
    all
}

/// The same until two launches are over, while time passes.
fn both(fake: &Fake, launches: &mut Launches<Counts>, arena: &mut Arena) -> [End; 2] {
    let mut all = Vec::new();
    for _ in 0..100 {
        all.extend(taken(launches, arena));
        if let [first, second] = all[..] {
            return [first, second];
        }
        fake.advance(10);
    }
    panic!("launches that do not end: {all:?}");
}

/// Pushes two batches, each a launch of its own, whose packets start with 7 and 8.
fn pushed(launches: &mut Launches<Counts>, arena: &mut Arena) {
    let clock = Clock::start();
    for first in [7, 8] {
        let mut one = flight(arena);
        one.batch.packet_mut(0).frame_mut()[0] = first;
        launches.push(one, &clock);
    }
    assert!(launches.begin(&clock) && launches.batches() == 2);
}

const ON_CPU: [End; 2] = [(Some(7), false, true, [0; 2]), (Some(8), false, true, [0; 2])];
const DONE: [End; 2] = [(Some(8), true, true, [0; 2]), (Some(9), true, true, [0; 2])];

#[test]
fn launches_leave_in_their_order_however_they_complete() {
    // Loading, both launches, and the copies of their frames to the host.
    let fake = adds_one(|number| Fate::done_after([0, 50, 10, 20, 10][number as usize]));
    let memory = memory();
    let (mut arena, mut launches) = (arena(&memory), open(&fake, &memory).expect("a device"));
    pushed(&mut launches, &mut arena);
    fake.advance(20);
    assert_eq!(taken(&mut launches, &mut arena), [], "the first is not over");
    assert_eq!(both(&fake, &mut launches, &mut arena), DONE);
    assert_eq!((launches.batches(), launches.take_messages()), (0, None));
}

#[test]
fn failures_leave_the_work_to_the_cpu_or_lose_the_packets() {
    let broken = || Failure::Work("broken".into());
    let lost = |frames| [(None, false, false, [1, frames]), DONE[1]];
    // The number of the work that fails: the kernels of the first launch, or its copy of frames.
    for (failing, why, expected) in [
        (1, broken(), [ON_CPU[0], DONE[1]]),
        (3, broken(), lost(0)),
        (3, Failure::Lost("broken".into()), [(None, false, false, [1, 1]); 2]),
    ] {
        let fate = why.clone();
        let fake = adds_one(move |number| match number {
            0 => Fate::done_after(0),
            _ if number == failing => Fate::fails_after(5, fate.clone()),
            _ => Fate::done_after(5),
        });
        let memory = memory();
        let (mut arena, mut launches) = (arena(&memory), open(&fake, &memory).expect("a device"));
        pushed(&mut launches, &mut arena);
        assert_eq!(both(&fake, &mut launches, &mut arena), expected, "work {failing}: {why:?}");
        let message = launches.take_messages().expect("a message");
        assert!(message.starts_with("one fell back to the CPU: "), "{message}");
        assert!(message.contains("broken"), "{message}");
    }
}

#[test]
fn launches_have_time_anew_once_functions_are_loaded() {
    let fake = adds_one(|number| if number == 0 { Fate::done_after(0) } else { Fate::hangs() });
    let memory = memory();
    let limits = LaunchLimits { timeout_ns: 5_000_000, ..LIMITS };
    let mut arena = arena(&memory);
    let mut launches = open_with(&fake, &memory, limits).expect("a device");
    let clock = Clock::start();
    pushed(&mut launches, &mut arena);
    let mut message_later = || {
        std::thread::sleep(Duration::from_millis(6));
        launches.advance(&clock);
        launches.take_messages()
    };
    let loading = fake.loads().expect("loads of a fake").begin();
    assert_eq!(message_later(), None, "a load is in progress");
    drop(loading);
    assert_eq!(message_later(), None, "a load has just ended");
    let message = message_later().expect("a message");
    assert!(message.contains("`launch_timeout_ms`"), "{message}");
}

#[test]
fn batches_of_another_arena_reach_no_device() {
    let fake = adds_one(|number| Fate::done_after(5 * number.min(1)));
    let (own, other) = (memory(), memory());
    let mut launches = open(&fake, &own).expect("a device");
    let mut arena = arena(&other);
    pushed(&mut launches, &mut arena);
    assert_eq!(both(&fake, &mut launches, &mut arena), ON_CPU);
    let message = launches.take_messages().expect("a message");
    assert!(message.contains("a batch of another arena"), "{message}");
}

#[test]
fn memory_is_one_arenas_and_has_to_suffice() {
    let memory = memory();
    assert!(memory.take_arena().is_some());
    assert!(memory.clone().take_arena().is_none(), "two arenas in the same bytes");
    let short = adds_one(|_| Fate::done_after(0)).with_memory(LAYOUT.memory_len() - 1);
    assert!(matches!(open(&short, &memory), Err(Failure::OutOfMemory { .. })));
}
