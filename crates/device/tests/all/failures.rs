//! Failures, on the scripted device and by injection on the devices present.

use std::sync::{Arc, Mutex};

use crate::common::{bytes, call, devices, source, words};
use warpline_device::fake::{Fake, Fate, Value};
use warpline_device::faulty::{Fault, Faulty};
use warpline_device::{Argument, Device, Failure, Part, Step, Stream, Work};

use Argument::{Reads, U32, U64, Writes};

/// Work with one piece of eight bytes that hold its number.
fn numbered(device: &dyn Device, number: u64) -> Work {
    let mut piece = device.host_memory(8).expect("memory");
    piece.copy_from_slice(&number.to_le_bytes());
    Work::new(vec![piece], Vec::new())
}

fn number_of(work: &Work) -> u64 {
    u64::from_le_bytes(work.pieces[0][..].try_into().expect("eight"))
}

/// Finished works of a stream, in order: number and outcome, until no more finish.
fn drain(stream: &mut dyn Stream) -> Vec<(u64, Result<(), Failure>)> {
    std::iter::from_fn(|| stream.poll()).map(|done| (number_of(&done.work), done.outcome)).collect()
}

#[test]
fn streams_finish_by_the_script_and_each_in_its_own_order() {
    let takes = [100, 10, 10, 5];
    let fake = Fake::new(move |number| Fate::done_after(takes[number as usize]));
    let mut streams = [fake.stream().unwrap(), fake.stream().unwrap()];
    for number in 0..4 {
        streams[number % 2].submit(numbered(&fake, number as u64)).unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..12 {
        fake.advance(10);
        streams
            .iter_mut()
            .for_each(|stream| seen.extend(drain(&mut **stream).iter().map(|done| done.0)));
    }
    // 0 then 2 on the first stream, 1 then 3 on the second; done at 100, 110 and 10, 15.
    assert_eq!(seen, [1, 3, 0, 2]);
}

#[test]
fn a_fake_runs_closures_over_the_same_work() {
    let fake = Fake::new(|_| Fate::done_after(1)).with_kernel("scale", |groups, values| {
        assert_eq!(groups, 1);
        let [Value::Reads(from), Value::Writes(to), Value::Number(count), _, Value::Number(add)] =
            values
        else {
            panic!("{values:?}");
        };
        let sums: Vec<u32> =
            words(from).iter().take(*count as usize).map(|word| word + *add as u32).collect();
        to[..4 * sums.len()].copy_from_slice(&bytes(&sums));
    });
    let module = fake.compile(&source()).unwrap();
    let (from, to) = (fake.allocate(16).unwrap(), fake.allocate(16).unwrap());
    let arguments = vec![Reads(from.whole()), Writes(to.whole()), U32(3), U64(1), U32(5)];
    let mut piece = fake.host_memory(16).unwrap();
    piece.copy_from_slice(&bytes(&[1, 2, 3, 4]));
    let part = Part { piece: 0, range: 0..16 };
    let steps = vec![
        Step::CopyIn { from: part.clone(), to: from.whole() },
        Step::Call(call(&module.kernel("scale").unwrap(), 1, arguments)),
        Step::CopyOut { from: to.whole(), to: part },
    ];
    let mut stream = fake.stream().unwrap();
    let done = crate::common::do_now(&mut *stream, Work::new(vec![piece], steps));
    assert_eq!(words(&done.work.pieces[0]), [6, 7, 8, 0]);
}

#[test]
fn a_lost_fake_gives_everything_back_as_lost() {
    let lost = Failure::Lost("unplugged".into());
    let fate = lost.clone();
    let fake = Fake::new(move |number| match number {
        1 => Fate::fails_after(5, fate.clone()),
        2 => Fate::hangs(),
        _ => Fate::done_after(5),
    });
    let (mut first, mut second) = (fake.stream().unwrap(), fake.stream().unwrap());
    first.submit(numbered(&fake, 0)).unwrap();
    first.submit(numbered(&fake, 1)).unwrap();
    second.submit(numbered(&fake, 2)).unwrap();
    fake.advance(9);
    assert_eq!(drain(&mut *first), [(0, Ok(()))]);
    assert!(second.poll().is_none());
    fake.advance(1);
    assert_eq!(drain(&mut *first), [(1, Err(lost.clone()))]);
    assert_eq!(drain(&mut *second), [(2, Err(lost.clone()))]);
    let late = Work::default();
    assert_eq!(first.submit(late).unwrap_err().why, lost);
    assert_eq!(fake.allocate(1).unwrap_err(), lost);
    assert_eq!(fake.compile(&source()).unwrap_err(), lost);
}

#[test]
fn a_fake_runs_out_of_memory_and_fails_to_compile() {
    let fake = Fake::new(|_| Fate::done_after(0)).with_memory(100);
    assert!(fake.allocate(60).is_ok());
    let why = fake.allocate(60).unwrap_err();
    assert_eq!(why.to_string(), "out of memory: 60 bytes wanted, 40 are free");
    fake.fail_compiling(Failure::Compile { log: "x.cl:3: no".into() });
    let why = fake.compile(&source()).unwrap_err().to_string();
    assert_eq!(why, "the kernel text does not compile:\nx.cl:3: no");
}

#[test]
fn injected_failures_come_in_their_turn_on_every_device() {
    let mut all = devices();
    all.push(Arc::new(Fake::new(|_| Fate::done_after(0))));
    for device in all {
        println!("{}", device.description().id);
        failures_in_turn(device.clone());
        a_hang_holds_its_stream_only(device.clone());
        late_work_completes(device.clone());
        failures_before_work(device);
    }
}

fn failures_in_turn(device: Arc<dyn Device>) {
    let (bad, full) = (Failure::Work("bad".into()), Failure::OutOfMemory { wanted: 1, free: None });
    let lost = Failure::Lost("gone".into());
    let script = [
        None,
        Some(Fault::Fail(bad.clone())),
        Some(Fault::Refuse(full.clone())),
        None,
        Some(Fault::Fail(lost.clone())),
        None,
    ];
    let faulty = Faulty::new(device, move |number| script[number as usize].clone());
    let mut stream = faulty.stream().unwrap();
    for number in 0..6 {
        let outcome = stream.submit(numbered(&faulty, number));
        match number {
            2 => {
                let refused = outcome.unwrap_err();
                assert_eq!((number_of(&refused.work), refused.why), (2, full.clone()));
            }
            _ => outcome.unwrap(),
        }
    }
    let mut got = Vec::new();
    while let Some(done) = stream.wait() {
        got.push((number_of(&done.work), done.outcome));
    }
    let want =
        [(0, Ok(())), (1, Err(bad)), (3, Ok(())), (4, Err(lost.clone())), (5, Err(lost.clone()))];
    assert_eq!(got, want);
    assert_eq!(stream.submit(Work::default()).unwrap_err().why, lost);
}

fn a_hang_holds_its_stream_only(device: Arc<dyn Device>) {
    let faulty = Faulty::new(device, |number| (number == 0).then_some(Fault::Hang));
    let (mut held, mut free) = (faulty.stream().unwrap(), faulty.stream().unwrap());
    held.submit(numbered(&faulty, 0)).unwrap();
    held.submit(numbered(&faulty, 1)).unwrap();
    free.submit(numbered(&faulty, 2)).unwrap();
    assert_eq!(number_of(&free.wait().unwrap().work), 2);
    assert!(held.poll().is_none() && held.in_flight() == 2);
}

fn late_work_completes(device: Arc<dyn Device>) {
    let faulty = Faulty::new(device, |number| (number == 0).then_some(Fault::Late(100)));
    let (mut late, mut soon) = (faulty.stream().unwrap(), faulty.stream().unwrap());
    late.submit(numbered(&faulty, 0)).unwrap();
    soon.submit(numbered(&faulty, 1)).unwrap();
    assert_eq!(number_of(&soon.wait().unwrap().work), 1);
    assert!((0..100).all(|_| late.poll().is_none()));
    let done = late.wait().unwrap();
    assert_eq!((number_of(&done.work), done.outcome), (0, Ok(())));
}

fn failures_before_work(device: Arc<dyn Device>) {
    let faulty = Faulty::new(device, |_| None);
    faulty.fail_compiling(Failure::NoCompiler("none".into()));
    faulty.fail_allocating(Failure::OutOfMemory { wanted: 5, free: Some(4) });
    assert_eq!(faulty.compile(&source()).unwrap_err(), Failure::NoCompiler("none".into()));
    assert!(matches!(faulty.allocate(5), Err(Failure::OutOfMemory { .. })));
}

/// A thread may hold a device's memory while another asks for the state of a fake.
#[test]
fn devices_and_streams_go_between_threads() {
    let fake = Fake::new(|_| Fate::done_after(1));
    let stream = Mutex::new(fake.stream().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| stream.lock().unwrap().submit(numbered(&fake, 9)).unwrap());
    });
    let done = stream.lock().unwrap().wait().unwrap();
    assert_eq!(number_of(&done.work), 9);
}
