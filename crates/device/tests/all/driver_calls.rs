//! CUDA's device over a stub of the driver that behaves as a driver does: several devices,
//! integrated ones, memory that can't be locked, streams that stay busy, losses, and failures of
//! every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use core::ptr::NonNull;

use warpline_device::{
    Argument, Device, Failure, HostMemory, Piece, Step, Stream, Work, find, open,
};

use crate::common::{call, do_now, source};
use crate::devices::{CASES, order_in_a_stream, part, piece_of, submit_value};
use crate::driver::{called, count, fail, fail_at, hold, live, lose, times};
use crate::stub::Stubs;

/// Set in the program that runs over the stubs, to the case.
const ROLE: &str = "WARPLINE_STUB_DRIVER_ROLE";
const HERE: &str = "driver_calls::a_driver_is_used_as_it_wants";

type Case = (&'static str, &'static [(&'static str, &'static str)], fn());

const ROLES: &[Case] = &[
    (
        "contexts of used devices only",
        &[("STUB_DEVICES", "discrete,discrete,integrated")],
        contexts,
    ),
    ("two devices share memory", &[("STUB_DEVICES", "discrete,discrete")], shared_registration),
    ("an integrated device", &[("STUB_DEVICES", "integrated")], integrated),
    ("a device without mapped memory", &[("STUB_DEVICES", "unmapped")], every_case),
    (
        "memory that can't be locked",
        &[("STUB_FAIL", "cuMemHostRegister_v2:-1:801")],
        unlocked_through_blocks,
    ),
    (
        "memory that can't be locked, beside a driver without other memory",
        &[("STUB_FAIL", "cuMemHostRegister_v2:-1:801"), ("STUB_MAY_WAIT", "1")],
        unlocked_without_blocks,
    ),
    ("what is dropped waits for streams", &[], dropped_while_busy),
    ("a busy stream is dropped", &[], busy_stream_dropped),
    ("memory that is not given back yet", &[], memory_runs_out),
    ("memory is given back beside busy streams", &[], memory_beside_busy_streams),
    ("a loss of a kind that is not known", &[], unknown_loss),
    ("every call fails once", &[], every_call_fails),
];

#[test]
fn a_driver_is_used_as_it_wants() {
    if let Ok(role) = std::env::var(ROLE) {
        let (_, _, case) = ROLES.iter().find(|(name, ..)| *name == role).unwrap();
        return case();
    }
    let Some(stubs) = Stubs::build() else { return };
    for (role, environment, _) in ROLES {
        println!("{role}");
        let mut extra = environment.to_vec();
        extra.push((ROLE, role));
        stubs.again(&["--exact", HERE], &extra);
    }
    for call in START {
        let fault = format!("{call}:1:999");
        let here = ["--exact", "driver_calls::a_start_fails"];
        stubs.again(&here, &[(ROLE, call), ("STUB_FAIL", &fault)]);
    }
}

/// Calls that are made once in a process.
const START: [&str; 10] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetUuid_v2",
    "cuDeviceTotalMem_v2",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
];

/// One call fails while devices are looked for: there is a reason, or a device that works.
#[test]
fn a_start_fails() {
    let Ok(call) = std::env::var(ROLE) else { return };
    let found = find();
    assert!(found.devices.iter().any(|device| device.description().id == "host"));
    let Ok(device) = found.open("cuda:0") else {
        assert!(found.missing.iter().any(|(_, why)| why.0.contains("says the stub")), "{call}");
        return;
    };
    if call == "cuDevicePrimaryCtxRetain" {
        let why = device.allocate(1).unwrap_err();
        assert!(matches!(&why, Failure::Refused(why) if why.contains("no context")), "{why:?}");
    }
    order_in_a_stream(&*device);
}

fn every_case() {
    let device = open("cuda:0").unwrap();
    CASES.iter().for_each(|(name, case)| {
        println!("{name}");
        case(&*device);
    });
}

fn integrated() {
    let device = open("cuda:0").unwrap();
    assert!(device.description().shares_host_memory);
    assert!(piece_of(&*device, &[1]).region().is_in_place());
    every_case();
}

fn contexts() {
    let found = find();
    assert_eq!((found.devices.len(), count(c"stub_contexts")), (4, 0));
    let device = found.open("cuda:1").unwrap();
    order_in_a_stream(&*device);
    assert_eq!(count(c"stub_contexts"), 1);
}

/// A page of the tests' own.
#[repr(align(4096))]
struct Page([u8; 4096]);

struct Pages(Box<Page>);

// SAFETY: the block stays where it is while the value lives, and is initialised; the tests touch it
// by pieces only.
unsafe impl HostMemory for Pages {
    fn base(&self) -> NonNull<u8> {
        NonNull::from(&self.0.0[0])
    }
    fn len(&self) -> usize {
        self.0.0.len()
    }
}

/// All of `memory` as `device` knows it.
fn piece_in(device: &dyn Device, memory: &Arc<dyn HostMemory>) -> Piece {
    let region = device.register(Arc::clone(memory)).unwrap();
    // SAFETY: the tests use pieces of one memory one after the other.
    unsafe { region.piece(0..memory.len()) }.unwrap()
}

fn shared_registration() {
    let devices = ["cuda:0", "cuda:1"].map(|id| open(id).unwrap());
    let before = live();
    for round in 0..3_u8 {
        let memory: Arc<dyn HostMemory> = Arc::new(Pages(Box::new(Page([7; 4096]))));
        let mut regions = Vec::new();
        for (number, device) in devices.iter().enumerate() {
            let mut piece = piece_in(&**device, &memory);
            assert!(piece.region().is_mapped() && piece.region().shortcoming().is_none());
            piece.fill(round + number as u8);
            let buffer = device.allocate(4096).unwrap();
            let there = Step::CopyIn { from: part(0, 0..4096), to: buffer.whole() };
            let back = Step::CopyOut { from: buffer.whole(), to: part(1, 0..4096) };
            let pieces = vec![piece, device.host_memory(4096).unwrap()];
            let work = Work::new(pieces, vec![there, back]);
            let mut done = do_now(&mut *device.stream().unwrap(), work);
            assert_eq!(done.outcome, Ok(()));
            assert_eq!(done.work.pieces[1][..], [round + number as u8; 4096]);
            regions.push(done.work.pieces.remove(0));
        }
        // One device goes, and the other still has its memory locked.
        drop(regions.remove(usize::from(round % 2)));
        assert!(piece_in(&*devices[usize::from(round % 2)], &memory).region().is_mapped());
    }
    settled(before);
    assert_eq!(count(c"stub_misuses"), 0);
}

/// Waits until as many things are there as `before`.
fn settled(before: [i32; 8]) {
    for _ in 0..10_000 {
        if live() == before {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!(
        "streams, events, modules, functions, graphs, executables, allocations, ranges: \
         {:?}, before {before:?}",
        live()
    );
}

fn unlocked() {
    let device = open("cuda:0").unwrap();
    let piece = piece_of(&*device, &[1; 10]);
    let why = piece.region().shortcoming().unwrap();
    assert!(why.contains("can't be locked") && why.contains("other memory"), "{why}");
    assert!(!piece.region().is_mapped());
    for (name, case) in CASES {
        // Kernels don't reach such memory.
        if !name.contains("host memory") && !name.contains("region") {
            println!("{name}");
            case(&*device);
        }
    }
    drop(piece);
    assert_eq!(times("cuMemHostUnregister"), 0);
    let mut most = live();
    most[7] = 0;
    settled_at_most(most);
}

/// Copies pass through memory of the driver's own: the stub counts each that waits.
fn unlocked_through_blocks() {
    unlocked();
    assert!(times("cuMemHostAlloc") > 0);
}

/// Copies wait for the device, and are right.
fn unlocked_without_blocks() {
    let device = open("cuda:0").unwrap();
    back_and_there_again(&*device);
    assert_eq!(times("cuMemHostAlloc"), 0);
    fail_at("cuMemHostAlloc", -1, 2);
    unlocked();
}

/// A copy from memory to which the same work copied before.
fn back_and_there_again(device: &dyn Device) {
    let [one, other] = [0, 1].map(|_| device.allocate(256).unwrap());
    let pieces = [7, 8, 9].map(|value| piece_of(device, &[value; 256]));
    let steps = vec![
        Step::CopyIn { from: part(0, 0..256), to: one.whole() },
        Step::CopyOut { from: one.whole(), to: part(1, 0..256) },
        Step::CopyIn { from: part(1, 0..256), to: other.whole() },
        Step::CopyOut { from: other.whole(), to: part(2, 0..256) },
    ];
    let done = do_now(&mut *device.stream().unwrap(), Work::new(pieces.into(), steps));
    assert_eq!(done.work.pieces[2][..256], [7; 256]);
}

/// A buffer, pages and kernels are dropped while a stream is busy with others: this thread doesn't
/// wait, and all is given back later.
fn dropped_while_busy() {
    let device = open("cuda:0").unwrap();
    let busy = device.allocate(256).unwrap();
    let mut stream = device.stream().unwrap();
    submit_value(&mut *stream, &*device, &busy, 1);
    stream.wait().unwrap();
    let mut before = live();
    // The work that is done has no memory any more.
    before[7] = 0;
    settled(before);
    let module = device.compile(&source()).unwrap();
    let buffer = device.allocate(4096).unwrap();
    let piece = piece_of(&*device, &[9; 4096]);
    hold(true);
    submit_value(&mut *stream, &*device, &busy, 2);
    drop((module, buffer, piece));
    thread::sleep(Duration::from_millis(20));
    assert_eq!(times("cuMemFree_v2") + times("cuModuleUnload"), 0, "while a stream is busy");
    hold(false);
    assert_eq!(stream.wait().unwrap().work.pieces[1][..], [2; 256]);
    // Functions go with their module.
    before[3] = live()[3];
    settled(before);
    assert_eq!(count(c"stub_stalls"), 0);
}

/// The context stays usable, and the buffer is zeroed when the stream is done.
fn busy_stream_dropped() {
    let device = open("cuda:0").unwrap();
    drop(device.stream().unwrap());
    let before = live();
    let buffer = device.allocate(256).unwrap();
    let mut stream = device.stream().unwrap();
    hold(true);
    submit_value(&mut *stream, &*device, &buffer, 0x5e);
    drop((stream, buffer));
    thread::sleep(Duration::from_millis(20));
    assert_eq!((times("cuMemFree_v2"), times("cuStreamDestroy_v2")), (0, 1));
    hold(false);
    settled(before);
    assert_eq!((times("cuMemFree_v2"), count(c"stub_unwiped")), (1, 0));
    order_in_a_stream(&*device);
    settled(before);
}

/// A buffer that was dropped while a stream is busy is freed when an allocation finds no memory.
fn memory_runs_out() {
    let device = open("cuda:0").unwrap();
    let (buffer, busy) = (device.allocate(1 << 20).unwrap(), device.allocate(256).unwrap());
    let mut stream = device.stream().unwrap();
    hold(true);
    submit_value(&mut *stream, &*device, &busy, 1);
    drop(buffer);
    fail("cuMemAlloc_v2", 2);
    assert!(device.allocate(1 << 20).is_ok());
    hold(false);
    assert_eq!(stream.wait().unwrap().outcome, Ok(()));
    drop((stream, busy));
    // With nothing to give back it is a value.
    settled([0; 8]);
    fail("cuMemAlloc_v2", 2);
    let why = device.allocate(1 << 20).unwrap_err();
    assert!(matches!(why, Failure::OutOfMemory { wanted: 1_048_576, free: Some(_) }), "{why:?}");
}

/// A buffer that was dropped is freed although some stream always has work.
fn memory_beside_busy_streams() {
    let device = open("cuda:0").unwrap();
    let buffer = device.allocate(1 << 20).unwrap();
    let is_over = AtomicBool::new(false);
    let keep_busy = || {
        let (mut stream, busy) = (device.stream().unwrap(), device.allocate(256).unwrap());
        while !is_over.load(Ordering::Relaxed) {
            let pieces = vec![piece_of(&*device, &[1; 256])];
            let copy = || Step::CopyIn { from: part(0, 0..256), to: busy.whole() };
            let steps = (0..64).map(|_| copy()).collect();
            stream.submit(Work::new(pieces, steps)).expect("taken");
            if stream.in_flight() > 8 {
                assert_eq!(stream.wait().unwrap().outcome, Ok(()));
            }
        }
        while stream.in_flight() > 0 {
            stream.wait().unwrap();
        }
    };
    thread::scope(|scope| {
        (0..3).for_each(|_| _ = scope.spawn(keep_busy));
        thread::sleep(Duration::from_millis(50));
        drop(buffer);
        fail("cuMemAlloc_v2", 2);
        let found = device.allocate(1 << 20);
        is_over.store(true, Ordering::Relaxed);
        assert!(found.is_ok(), "{:?}", found.err());
    });
}

fn unknown_loss() {
    let device = open("cuda:0").unwrap();
    let buffer = device.allocate(256).unwrap();
    let mut stream = device.stream().unwrap();
    // An error of one call is no loss, whatever it is.
    fail("cuMemcpyHtoDAsync_v2", 950);
    submit_value(&mut *stream, &*device, &buffer, 1);
    assert!(matches!(stream.wait().unwrap().outcome, Err(Failure::Work(_))));
    submit_value(&mut *stream, &*device, &buffer, 1);
    assert_eq!(stream.wait().unwrap().outcome, Ok(()));
    let pieces = vec![piece_of(&*device, &[1; 256])];
    let steps = vec![Step::CopyIn { from: part(0, 0..256), to: buffer.whole() }];
    lose(950);
    let refused = stream.submit(Work::new(pieces, steps));
    let why = refused.map_err(|refused| refused.why).err();
    let why = why.or_else(|| stream.wait().and_then(|done| done.outcome.err()));
    assert!(matches!(why, Some(Failure::Lost(_))), "{why:?}");
    assert!(matches!(device.allocate(1), Err(Failure::Lost(_))));
}

/// One use of everything that a device has. Gives the words that a kernel made of ones, or why
/// there are none.
fn use_all(device: &dyn Device) -> Result<Vec<u8>, Failure> {
    let module = device.compile(&source())?;
    let buffer = device.allocate_zeroed(256)?;
    let mut piece = device.host_memory(256)?;
    piece.fill(1);
    let mut back = Vec::new();
    for mut stream in [device.stream()?, device.graph_stream()?] {
        for _ in 0..2 {
            let arguments = vec![Argument::Writes(buffer.whole()), Argument::U32(1)];
            let steps = vec![
                Step::CopyIn { from: part(0, 0..256), to: buffer.whole() },
                Step::Call(call(&module.kernel("stir")?, 2, arguments)),
                Step::CopyOut { from: buffer.whole(), to: part(1, 0..256) },
            ];
            let work = Work::new(vec![piece, device.host_memory(256)?], steps);
            let done = finish(&mut *stream, work)?;
            back = done.pieces[1].to_vec();
            piece = done.pieces.into_iter().next().unwrap();
        }
    }
    Ok(back)
}

fn finish(stream: &mut dyn Stream, work: Work) -> Result<Work, Failure> {
    stream.submit(work).map_err(|refused| refused.why)?;
    let done = stream.wait().unwrap();
    assert_eq!(stream.in_flight(), 0);
    done.outcome.map(|()| done.work)
}

/// Calls that give something back. One that fails leaves what it was for.
const RELEASES: [&str; 7] = [
    "cuMemFree_v2",
    "cuMemHostUnregister",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
];

/// Fails each call of a use, one after the other, by an error that concerns the call alone. Then
/// the use fails or is right, the next one is right, and nothing is leaked.
fn every_call_fails() {
    const CODE: i32 = 1;
    let device = open("cuda:0").unwrap();
    let right = use_all(&*device).unwrap();
    settled_but_functions([0; 8]);
    let calls: Vec<String> = called();
    let before: Vec<i32> = calls.iter().map(|name| times(name)).collect();
    assert_eq!(use_all(&*device).unwrap(), right);
    settled_but_functions([0; 8]);
    let (mut failed, mut left) = (0, [0; 8]);
    for (name, before) in calls.iter().zip(before) {
        // Waiting asks as often as it takes.
        let of_one = (times(name) - before).clamp(1, 12);
        for number in 1..=of_one {
            fail_at(name, number, CODE);
            match use_all(&*device) {
                Ok(words) => assert_eq!(words, right, "{name}, call {number}"),
                Err(Failure::Lost(why)) => panic!("{name}, call {number}: lost: {why}"),
                Err(_) => failed += 1,
            }
            fail_at(name, 0, 0);
            let again = use_all(&*device);
            assert_eq!(again.as_ref(), Ok(&right), "after {name}, call {number}");
            println!("{name}, call {number}");
            if RELEASES.contains(&name.as_str()) {
                left = left.map(|count| count + 1);
                settled_at_most(left);
                left = live();
            }
            settled_at_most(left);
        }
    }
    assert!(failed > 20, "{failed} uses failed");
}

/// Waits as `settled`. Functions go with their modules, and are not counted.
fn settled_but_functions(mut before: [i32; 8]) {
    before[3] = live()[3];
    settled(before);
}

/// Waits until no more things are there than in `most`. Functions go with their modules, and are
/// not counted.
fn settled_at_most(most: [i32; 8]) {
    let is_more = |number: usize| number != 3 && live()[number] > most[number];
    for _ in 0..10_000 {
        if !(0..8).any(is_more) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("left: {:?}, at most {most:?}", live());
}
