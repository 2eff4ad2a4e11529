//! One table of cases for every device of this machine.

use crate::common::{broken, bytes, call, devices, do_now, refused, source, words};
use crate::memory::{
    copies_keep_to_their_ranges, host_memory_in_place, parts_of_buffers, region_in_place,
    region_mapped, rows_keep_to_their_widths,
};
use warpline_device::{
    Argument, Device, Failure, Matmul, Part, Piece, Rows, Slice, Step, Stream, Work,
    compile_cuda_for, open, self_test,
};

use Argument::{Reads, U32, Writes};

pub(crate) type Case = (&'static str, fn(&dyn Device));

pub(crate) const CASES: &[Case] = &[
    ("the self-test passes", |device| self_test(device).expect("right results")),
    ("copies keep to their ranges", copies_keep_to_their_ranges),
    ("copies of rows keep to their widths", rows_keep_to_their_widths),
    ("a kernel works on parts of buffers", parts_of_buffers),
    ("a kernel works in host memory in place", host_memory_in_place),
    ("a kernel works in pieces of a region in place", region_in_place),
    ("a kernel works in pieces of a region that it reaches", region_mapped),
    ("groups see their shared memory", shared_memory),
    ("matrices are multiplied", product_of_matrices),
    ("work of a stream is done in its order", order_in_a_stream),
    ("streams don't disturb each other", many_streams),
    ("a kernel starts with more groups while it runs on other streams", wider_meanwhile),
    ("a stream goes while work is in flight", stream_dropped),
    ("text that does not compile shows its line", compile_failure),
    ("a define with a line's end is refused", bad_define),
    ("invalid arguments are refused", nonsense),
    ("too much memory is a value", out_of_memory),
];

#[test]
fn every_case_on_every_device() {
    for device in devices() {
        for (name, case) in CASES {
            println!("{}: {name}", device.description().id);
            case(&*device);
        }
    }
}

/// PoCL starts a command only where a thread is idle. It reads this variable when it is loaded, so
/// only a new process can set it.
#[test]
fn every_case_with_more_threads_than_processors() {
    let mut again = std::process::Command::new(std::env::current_exe().expect("this test"));
    let again = again.env("POCL_MAX_PTHREAD_COUNT", "8");
    let again = again.args(["--exact", "devices::every_case_on_every_device", "--nocapture"]);
    assert!(again.status().expect("a test that starts").success());
}

pub(crate) fn part(piece: usize, range: core::ops::Range<usize>) -> Part {
    Part { piece, range }
}

pub(crate) fn piece_of(device: &dyn Device, bytes: &[u8]) -> Piece {
    let mut piece = device.host_memory(bytes.len()).expect("memory");
    piece.copy_from_slice(bytes);
    piece
}

fn shared_memory(device: &dyn Device) {
    let module = device.compile(&source()).expect("it compiles");
    let mut stream = device.stream().expect("a stream");
    let input: Vec<u32> = (0..5 * 32).map(|i| i * i).collect();
    let (from, to) = (device.allocate(640).expect("memory"), device.allocate(20).expect("memory"));
    let kernel = module.kernel("sum_groups").expect("it is there");
    let pieces = vec![piece_of(device, &bytes(&input))];
    let steps = vec![
        Step::CopyIn { from: part(0, 0..640), to: from.whole() },
        Step::Call(call(&kernel, 5, vec![Reads(from.whole()), Writes(to.whole())])),
        Step::CopyOut { from: to.whole(), to: part(0, 0..20) },
    ];
    let done = do_now(&mut *stream, Work::new(pieces, steps));
    assert_eq!(done.outcome, Ok(()));
    let want: Vec<u32> = input.chunks(32).map(|group| group.iter().sum()).collect();
    assert_eq!(words(&done.work.pieces[0][..20]), want);
}

fn product_of_matrices(device: &dyn Device) {
    const SIDE: usize = 256;
    let matmul = Matmul::new(device).expect("a kernel");
    assert_eq!(Matmul::ELEMENTS as usize, SIDE * SIDE);
    let mut stream = device.stream().expect("a stream");
    let fill = matmul.fill(device).expect("matrices");
    assert_eq!(do_now(&mut *stream, fill).outcome, Ok(()));
    // More than a matrix has: some are computed again.
    let step = matmul.step(Matmul::ELEMENTS + 100).expect("a call");
    let len = matmul.product().len();
    let back = Step::CopyOut { from: matmul.product().whole(), to: part(0, 0..len) };
    let piece = device.host_memory(len).expect("memory");
    let done = do_now(&mut *stream, Work::new(vec![piece], vec![step, back]));
    assert_eq!(done.outcome, Ok(()));
    let element = |at: usize| (at % 7) as u32;
    let of = |row: usize, column: usize| -> u32 {
        (0..SIDE).map(|k| element(row * SIDE + k) * element(k * SIDE + column)).sum()
    };
    for (at, bytes) in done.work.pieces[0][..len].chunks_exact(4).enumerate() {
        assert_eq!(words(bytes), [of(at / SIDE, at % SIDE)], "element {at}");
    }
}

/// Submits work that writes `value` into the buffer and reads it back.
pub(crate) fn submit_value(
    stream: &mut dyn Stream,
    device: &dyn Device,
    buffer: &warpline_device::Buffer,
    value: u8,
) {
    let pieces = vec![piece_of(device, &[value; 256]), piece_of(device, &[0; 256])];
    let steps = vec![
        Step::CopyIn { from: part(0, 0..256), to: buffer.whole() },
        Step::CopyOut { from: buffer.whole(), to: part(1, 0..256) },
    ];
    stream.submit(Work::new(pieces, steps)).expect("taken");
}

pub(crate) fn order_in_a_stream(device: &dyn Device) {
    let mut stream = device.stream().expect("a stream");
    let buffer = device.allocate(256).expect("memory");
    assert!(stream.poll().is_none() && stream.wait().is_none());
    (0..50).for_each(|value| submit_value(&mut *stream, device, &buffer, value));
    assert_eq!(stream.in_flight(), 50);
    for value in 0..50 {
        let done = stream.wait().expect("work");
        assert_eq!(done.outcome, Ok(()));
        assert_eq!(done.work.pieces[1][..], [value; 256]);
    }
    assert_eq!(stream.in_flight(), 0);
}

fn many_streams(device: &dyn Device) {
    std::thread::scope(|scope| {
        for base in [0, 100, 200] {
            scope.spawn(move || {
                let mut stream = device.stream().expect("a stream");
                let buffer = device.allocate(256).expect("memory");
                (0..20).for_each(|value| submit_value(&mut *stream, device, &buffer, base + value));
                for value in 0..20 {
                    assert_eq!(
                        stream.wait().expect("work").work.pieces[1][..],
                        [base + value; 256]
                    );
                }
            });
        }
    });
}

/// The widest call starts last and ends last. Without turns PoCL before 7.0 ends the process here,
/// most of the time.
fn wider_meanwhile(device: &dyn Device) {
    const ROUNDS: u32 = 1_000_000;
    let module = device.compile(&source()).expect("it compiles");
    let kernel = module.kernel("stir").expect("it is there");
    let shapes = [(1, ROUNDS); 6].into_iter().chain([(2, 3 * ROUNDS)]);
    let submit = |(groups, rounds)| {
        let mut stream = device.stream().expect("a stream");
        let all = 0..groups as usize * 32 * 4;
        let buffer = device.allocate(all.len()).expect("memory");
        let arguments = vec![Writes(buffer.whole()), U32(rounds)];
        let steps = vec![
            Step::CopyIn { from: part(0, all.clone()), to: buffer.whole() },
            Step::Call(call(&kernel, groups, arguments)),
            Step::CopyOut { from: buffer.whole(), to: part(0, all.clone()) },
        ];
        let pieces = vec![piece_of(device, &vec![0x11; all.len()])];
        stream.submit(Work::new(pieces, steps)).expect("taken");
        (stream, rounds)
    };
    let calls = shapes.map(submit).collect::<Vec<_>>();
    let step = |word: u32, _| word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    for (mut stream, rounds) in calls {
        let done = stream.wait().expect("work");
        assert_eq!(done.outcome, Ok(()));
        let want = (0..rounds).fold(0x1111_1111, step);
        assert!(words(&done.work.pieces[0]).iter().all(|&word| word == want));
    }
}

fn stream_dropped(device: &dyn Device) {
    let buffer = device.allocate(256).expect("memory");
    for value in 0..10 {
        let mut stream = device.stream().expect("a stream");
        submit_value(&mut *stream, device, &buffer, value);
    }
    order_in_a_stream(device);
}

fn compile_failure(device: &dyn Device) {
    match device.compile(&broken()) {
        Err(Failure::Compile { log }) => {
            assert!(log.contains("broken.cl") && log.contains('3'), "{log}")
        }
        other => panic!("{other:?}"),
    }
}

fn bad_define(device: &dyn Device) {
    let source = source().define("MORE", "1\n#include <stdio.h>");
    assert!(matches!(device.compile(&source), Err(Failure::Refused(_))));
}

fn rows_in(from: core::ops::Range<usize>, to: Slice, width: usize, pitch: usize) -> Step {
    Step::RowsIn { from: part(0, from), to, rows: Rows { width, pitch } }
}

fn nonsense(device: &dyn Device) {
    let module = device.compile(&source()).expect("it compiles");
    let other = warpline_device::fake::Fake::new(|_| warpline_device::fake::Fate::done_after(0));
    let foreign = other.allocate(256).expect("memory");
    let buffer = device.allocate(256).expect("memory");
    let sum = module.kernel("sum_groups").expect("it is there");
    let cases = [
        (Step::CopyIn { from: part(0, 0..8), to: buffer.at(0..9) }, "a copy between 8 and 9 bytes"),
        (Step::CopyIn { from: part(0, 0..257), to: buffer.whole() }, "bytes 0..257 of 256"),
        (Step::CopyIn { from: part(1, 0..8), to: buffer.at(0..8) }, "piece 1 of 1"),
        (Step::CopyOut { from: buffer.at(250..260), to: part(0, 0..10) }, "bytes 250..260 of 256"),
        (Step::CopyIn { from: part(0, 0..8), to: foreign.at(0..8) }, "a buffer of another device"),
        (rows_in(0..8, buffer.at(0..9), 8, 8), "a copy between 8 and 9 bytes"),
        (rows_in(0..12, buffer.at(0..12), 8, 8), "12 bytes are no rows of 8 at every 8"),
        (rows_in(0..16, buffer.at(0..16), 0, 8), "16 bytes are no rows of 0 at every 8"),
        (rows_in(0..16, buffer.at(0..16), 12, 4), "16 bytes are no rows of 12 at every 4"),
        (rows_in(0..4, buffer.at(0..4), 8, 8), "4 bytes are no rows of 8 at every 8"),
        (rows_in(0..8, foreign.at(0..8), 8, 8), "a buffer of another device"),
        (
            Step::Call(call(&sum, 1, vec![Reads(buffer.at(0..128))])),
            "kernel sum_groups takes [Reads, Writes]",
        ),
        (
            Step::Call(call(&sum, 1, vec![Writes(buffer.at(0..128)), Reads(buffer.at(128..256))])),
            "kernel sum_groups takes [Reads, Writes]",
        ),
        (
            Step::Call(call(&sum, 0, vec![Reads(buffer.at(0..128)), Writes(buffer.at(128..132))])),
            "kernel sum_groups without a group",
        ),
        (
            Step::Call(call(&sum, 1, vec![Reads(buffer.at(0..128)), Writes(buffer.at(120..132))])),
            "argument 2 is written and overlaps another",
        ),
        (
            Step::Call(call(&sum, 1, vec![Reads(buffer.at(0..128)), Writes(buffer.at(256..256))])),
            "an argument without a byte",
        ),
        (
            Step::Call(call(&sum, 1, vec![Reads(buffer.at(0..128)), Writes(buffer.at(200..300))])),
            "bytes 200..300 of 256",
        ),
    ];
    let mut stream = device.stream().expect("a stream");
    for (step, why) in cases {
        let work = Work::new(vec![piece_of(device, &[0; 256])], vec![step]);
        assert_eq!(refused(&mut *stream, work), format!("step 1: {why}"));
    }
    assert!(matches!(module.kernel("none"), Err(Failure::Refused(_))));
    assert_eq!(stream.in_flight(), 0);
}

fn out_of_memory(device: &dyn Device) {
    let got = device.allocate(1 << 50).map(|_| ());
    assert!(
        matches!(got, Err(Failure::OutOfMemory { wanted, .. }) if wanted == 1 << 50),
        "{got:?}"
    );
}

#[test]
fn an_unknown_device_is_refused_with_the_known() {
    let why = |id| open(id).map(|_| ()).expect_err("unknown").to_string();
    assert!(why("abacus").starts_with("no device \"abacus\"; devices here: "));
    assert!(why("cuda:99").starts_with("no device \"cuda:99\""));
}

/// Every architecture that is in use, with no GPU at hand. NVRTC comes with CUDA, or as a wheel of
/// that name.
#[test]
fn cubins_are_made_without_a_gpu() {
    for arch in [80, 90, 100] {
        match compile_cuda_for(&source(), arch) {
            Ok(cubin) => assert_eq!(&cubin[..4], b"\x7fELF"),
            Err(Failure::NoCompiler(why)) => {
                assert!(std::env::var_os("WARPLINE_REQUIRE_NVRTC").is_none(), "{why}");
                println!("skipped: {why}");
                return;
            }
            Err(other) => panic!("{other}"),
        }
        match compile_cuda_for(&broken(), arch) {
            Err(Failure::Compile { log }) => assert!(log.contains("broken.cl(3)"), "{log}"),
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
    assert!(matches!(compile_cuda_for(&source(), 1), Err(Failure::NoCompiler(_))));
}
