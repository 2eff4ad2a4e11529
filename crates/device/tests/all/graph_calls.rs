//! Works as graphs, over stubs of the driver: the table of cases, which graphs are made and kept,
//! and what goes wrong.

use std::sync::Arc;

use warpline_device::host::Host;
use warpline_device::{
    Argument, Buffer, Description, Device, Done, Failure, HostMemory, Module, Piece, Region,
    Source, Step, Stream, Work, open,
};

use crate::common::{call, do_now, source};
use crate::devices::{CASES, order_in_a_stream, part, piece_of, submit_value};
use crate::driver::{fail, times};
use crate::stub::Stubs;

/// Set in the program that runs over the stubs; the value names its role.
const ROLE: &str = "WARPLINE_STUB_GRAPH_ROLE";

type Role = (&'static str, fn());

const ROLES: &[Role] = &[
    ("table", every_case),
    ("kept", graphs_are_kept_by_shape),
    ("stepwise", works_that_are_no_graphs),
    ("failures", a_failed_graph_fails_its_own_work_only),
    ("lost", a_lost_device_is_left_alone),
];

#[test]
fn graphs_pass_over_stubs() {
    if let Ok(role) = std::env::var(ROLE) {
        let known = ROLES.iter().find(|(name, _)| *name == role);
        return known.map_or_else(a_driver_without_graphs, |(_, what)| what());
    }
    let Some(stubs) = Stubs::build() else { return };
    let here = ["--exact", "graph_calls::graphs_pass_over_stubs"];
    ROLES.iter().for_each(|(role, _)| stubs.again(&here, &[(ROLE, role)]));
    let Some(older) = Stubs::build_with("-DWITHOUT_GRAPHS") else { return };
    older.again(&here, &[(ROLE, "older")]);
}

fn every_case() {
    let device = Graphs(open("cuda:0").unwrap());
    for (name, case) in CASES {
        println!("{name}");
        case(&device);
    }
    assert!(times("cuGraphLaunch") > 50, "{}", times("cuGraphLaunch"));
}

fn graphs_are_kept_by_shape() {
    let device = Graphs(open("cuda:0").unwrap());
    let buffer = device.allocate(256).unwrap();
    let mut stream = device.stream().unwrap();
    let made = |before: i32| times("cuGraphInstantiateWithFlags") - before;
    // The first of a shape makes a graph; others meanwhile, too, use it.
    (0..3).for_each(|value| submit_value(&mut *stream, &device, &buffer, value));
    (0..3).for_each(|value| assert_eq!(copied(stream.wait().unwrap()), [value; 256]));
    assert_eq!((made(0), times("cuGraphExecUpdate_v2"), times("cuGraphLaunch")), (1, 2, 3));
    let mut run = |copies| {
        let before = made(0);
        let done = do_now(&mut *stream, copies_in(&device, &buffer, copies));
        assert_eq!(copied(done), [copies as u8; 256]);
        made(before)
    };
    // Eight are kept: the ninth takes the place of the one used longest ago.
    assert_eq!((1..=9).map(&mut run).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!((2..=9).map(&mut run).sum::<i32>(), 0);
    assert_eq!([run(1), run(3), run(2), run(3)], [1, 0, 1, 0]);
    // Copies are not calls, and kernels are not each other.
    let module = device.compile(&source()).unwrap();
    let before = made(0);
    for (name, second) in [("stir", false), ("stir", true), ("sum_groups", true), ("stir", false)] {
        do_now(&mut *stream, stirred(&device, &module, name, second)).outcome.unwrap();
    }
    assert_eq!(made(before), 3);
    drop(stream);
    assert_all_gone();
}

fn works_that_are_no_graphs() {
    let device = Graphs(open("cuda:0").unwrap());
    let buffer = device.allocate(256).unwrap();
    let mut stream = device.stream().unwrap();
    let there = Step::CopyIn { from: part(0, 0..256), to: buffer.whole() };
    let nothing = Step::CopyOut { from: buffer.at(9..9), to: part(0, 3..3) };
    let back = Step::CopyOut { from: buffer.whole(), to: part(1, 0..256) };
    // Memory that another device registered, if any did.
    let foreign = |bytes: &[u8]| piece_of(&Host::open().unwrap(), bytes);
    let own = |bytes: &[u8]| piece_of(&device, bytes);
    let works: [(Vec<Piece>, Vec<&Step>); 5] = [
        (vec![], vec![]),
        (vec![own(&[1; 256])], vec![&there]),
        (vec![own(&[2; 256])], vec![&there, &nothing]),
        (vec![foreign(&[3; 256]), own(&[0; 256])], vec![&there, &back]),
        (vec![own(&[4; 256]), foreign(&[0; 256])], vec![&there, &back]),
    ];
    for (value, (pieces, steps)) in works.into_iter().enumerate() {
        let done = do_now(&mut *stream, Work::new(pieces, steps.into_iter().cloned().collect()));
        assert_eq!(done.outcome, Ok(()));
        assert!(done.work.pieces.iter().all(|piece| piece[..] == [value as u8; 256]));
    }
    assert_eq!(times("cuStreamBeginCapture_v2"), 0);
    // With copies of nothing between them, two steps are a graph of two.
    let steps = vec![nothing.clone(), there, nothing.clone(), back, nothing];
    let pieces = vec![own(&[5; 256]), own(&[0; 256])];
    assert_eq!(copied(do_now(&mut *stream, Work::new(pieces, steps))), [5; 256]);
    submit_value(&mut *stream, &device, &buffer, 6);
    assert_eq!(copied(stream.wait().unwrap()), [6; 256]);
    assert_eq!((times("cuGraphInstantiateWithFlags"), times("cuGraphLaunch")), (1, 2));
}

/// Calls that fail while a work is submitted, with the result that they return, whether the shape
/// has a graph already, and whether the work fails.
const FAILING: [(&str, i32, bool, bool); 8] = [
    ("cuStreamBeginCapture_v2", 1, false, true),
    ("cuMemcpyHtoDAsync_v2", 1, true, true),
    ("cuMemcpyDtoHAsync_v2", 1, false, true),
    ("cuStreamEndCapture", 901, true, true),
    ("cuGraphInstantiateWithFlags", 2, false, true),
    ("cuGraphExecUpdate_v2", 910, true, false),
    ("cuGraphLaunch", 1, false, true),
    ("cuGraphLaunch", 2, true, true),
];

fn a_failed_graph_fails_its_own_work_only() {
    let device = Graphs(open("cuda:0").unwrap());
    let buffer = device.allocate(256).unwrap();
    for (call, code, is_known, fails) in FAILING {
        println!("{call} gives {code}, known: {is_known}");
        let mut stream = device.stream().unwrap();
        if is_known {
            submit_value(&mut *stream, &device, &buffer, 7);
            assert_eq!(copied(stream.wait().unwrap()), [7; 256]);
        }
        fail(call, code);
        (8..10).for_each(|value| submit_value(&mut *stream, &device, &buffer, value));
        let [first, second] = [stream.wait().unwrap(), stream.wait().unwrap()];
        // Nothing of it was done, and its memory is back.
        assert_eq!(first.work.pieces[0][..], [8; 256]);
        let want = if fails { [0; 256] } else { [8; 256] };
        assert_eq!(first.work.pieces[1][..], want);
        let why = Failure::Work("CUDA_ERROR: says the stub".into());
        assert_eq!(first.outcome, if fails { Err(why) } else { Ok(()) });
        assert_eq!(copied(second), [9; 256]);
        assert!(stream.poll().is_none());
        drop(stream);
        assert_all_gone();
    }
}

/// After a kernel's bad address the context is lost: every call returns an error, no graph is made
/// instead, and nothing is destroyed.
fn a_lost_device_is_left_alone() {
    let device = Graphs(open("cuda:0").unwrap());
    let buffer = device.allocate(256).unwrap();
    let mut stream = device.stream().unwrap();
    submit_value(&mut *stream, &device, &buffer, 1);
    assert_eq!(copied(stream.wait().unwrap()), [1; 256]);
    fail("cuGraphExecUpdate_v2", 700);
    submit_value(&mut *stream, &device, &buffer, 2);
    let done = stream.wait().unwrap();
    let why = "CUDA_ERROR_ILLEGAL_ADDRESS: says the stub".into();
    assert_eq!(done.outcome, Err(Failure::Lost(why)));
    assert_eq!(done.work.pieces[0][..], [2; 256]);
    drop(stream);
    assert_eq!((times("cuGraphInstantiateWithFlags"), times("cuGraphExecDestroy")), (1, 0));
}

fn a_driver_without_graphs() {
    let device = open("cuda:0").unwrap();
    assert!(!device.description().has_graphs);
    let why = device.graph_stream().map(drop).unwrap_err().to_string();
    assert!(why.contains("no graphs") && why.contains("cuStreamBeginCapture_v2"), "{why}");
    order_in_a_stream(&*device);
}

/// A work of `copies` copies in and one back; each byte holds that number.
fn copies_in(device: &dyn Device, buffer: &Buffer, copies: usize) -> Work {
    let pieces = vec![piece_of(device, &[copies as u8; 256]), piece_of(device, &[0; 256])];
    let there = Step::CopyIn { from: part(0, 0..256), to: buffer.whole() };
    let mut steps = vec![there; copies];
    steps.push(Step::CopyOut { from: buffer.whole(), to: part(1, 0..256) });
    Work::new(pieces, steps)
}

/// A copy in and a call, and one more of `stir` where there is a `second`.
fn stirred(device: &dyn Device, module: &Module, name: &str, second: bool) -> Work {
    let buffer = device.allocate(256).unwrap();
    let words = buffer.at(0..128);
    let stir = || vec![Argument::Writes(words.clone()), Argument::U32(3)];
    let arguments = match name {
        "stir" => stir(),
        _ => vec![Argument::Reads(words.clone()), Argument::Writes(buffer.at(128..132))],
    };
    let mut steps = vec![
        Step::CopyIn { from: part(0, 0..256), to: buffer.whole() },
        Step::Call(call(&module.kernel(name).unwrap(), 1, arguments)),
    ];
    if second {
        steps.push(Step::Call(call(&module.kernel("stir").unwrap(), 1, stir())));
    }
    Work::new(vec![piece_of(device, &[1; 256])], steps)
}

/// The bytes that a finished work copied to the host.
fn copied(done: Done) -> Vec<u8> {
    assert_eq!(done.outcome, Ok(()));
    done.work.pieces[1].to_vec()
}

/// Every graph that was made is destroyed, executable or not.
fn assert_all_gone() {
    assert_eq!(times("cuStreamEndCapture"), times("cuGraphDestroy"));
    assert_eq!(times("cuGraphInstantiateWithFlags"), times("cuGraphExecDestroy"));
}

/// A device all of whose streams give works as graphs.
struct Graphs(Arc<dyn Device>);

impl Device for Graphs {
    fn description(&self) -> &Description {
        self.0.description()
    }
    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        self.0.compile(source)
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.0.allocate(bytes)
    }
    fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.0.allocate_zeroed(bytes)
    }
    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        self.0.register(memory)
    }
    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.0.graph_stream()
    }
}
