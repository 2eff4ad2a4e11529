//! One table of cases for every device of this machine.

use crate::common::{broken, bytes, call, devices, do_now, in_place_piece, refused, source, words};
use warpline_device::host::Host;
use warpline_device::{
    Argument, Device, Failure, Module, Part, Piece, Rows, Slice, Step, Stream, Work,
    compile_cuda_for, open, self_test,
};

use Argument::{HostReads, HostWrites, InPlace, Mapped, Reads, U32, U64, Writes};

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
    ("work of a stream is done in its order", order_in_a_stream),
    ("streams don't disturb each other", many_streams),
    ("a kernel starts with more groups while it runs on other streams", wider_meanwhile),
    ("a stream goes while work is in flight", stream_dropped),
    ("text that does not compile shows its line", compile_failure),
    ("a define with a line's end is refused", bad_define),
    ("what makes no sense is refused", nonsense),
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

/// PoCL starts a command only where a thread is idle. It reads this when it is loaded, so that only a new process can say it.
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

fn copies_keep_to_their_ranges(device: &dyn Device) {
    let mut stream = device.stream().expect("a stream");
    let buffer = device.allocate(1000).expect("memory");
    let from: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    let pieces = vec![piece_of(device, &from), piece_of(device, &[0xee; 1000])];
    let steps = vec![
        Step::CopyIn { from: part(0, 0..1000), to: buffer.whole() },
        Step::CopyIn { from: part(0, 1..14), to: buffer.at(501..514) },
        Step::CopyOut { from: buffer.at(499..517), to: part(1, 3..21) },
        Step::CopyOut { from: buffer.at(7..7), to: part(1, 30..30) },
    ];
    let done = do_now(&mut *stream, Work { pieces, steps });
    assert_eq!(done.outcome, Ok(()));
    let mut want = vec![0xee; 1000];
    want[3..21].copy_from_slice(&from[499..517]);
    want[5..18].copy_from_slice(&from[1..14]);
    assert_eq!(&done.work.pieces[1][..], &want[..]);
    assert_eq!(&done.work.pieces[0][..], &from[..]);
}

/// Rows of 5 at every 8 and one alone, with the memory around and between them left as it was.
fn rows_keep_to_their_widths(device: &dyn Device) {
    let mut stream = device.stream().expect("a stream");
    let buffer = device.allocate(1000).expect("memory");
    let from: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
    let pieces = vec![
        piece_of(device, &from),
        piece_of(device, &[0xee; 1000]),
        piece_of(device, &[1; 1000]),
    ];
    let rows = |width| Rows { width, pitch: 8 };
    let steps = vec![
        Step::CopyIn { from: part(2, 0..1000), to: buffer.whole() },
        Step::RowsIn { from: part(0, 3..800), to: buffer.at(11..808), rows: rows(5) },
        Step::RowsIn { from: part(0, 0..8), to: buffer.at(900..908), rows: rows(8) },
        Step::RowsOut { from: buffer.at(8..804), to: part(1, 16..812), rows: rows(4) },
        Step::RowsOut { from: buffer.at(898..910), to: part(1, 900..912), rows: rows(4) },
        Step::CopyOut { from: buffer.whole(), to: part(2, 0..1000) },
    ];
    let done = do_now(&mut *stream, Work { pieces, steps });
    assert_eq!(done.outcome, Ok(()));
    let mut there = [1; 1000];
    (0..100).for_each(|row| {
        let (to, at) = (11 + 8 * row, 3 + 8 * row);
        there[to..to + 5].copy_from_slice(&from[at..at + 5]);
    });
    there[900..908].copy_from_slice(&from[..8]);
    let mut back = [0xee; 1000];
    for (at, to, count) in [(8, 16, 100), (898, 900, 2)] {
        for row in (0..count).map(|row| 8 * row) {
            back[to + row..to + row + 4].copy_from_slice(&there[at + row..at + row + 4]);
        }
    }
    assert_eq!(&done.work.pieces[2][..], &there[..]);
    assert_eq!(&done.work.pieces[1][..], &back[..]);
    assert_eq!(&done.work.pieces[0][..], &from[..]);
}

fn scaled(word: u32) -> u32 {
    ((u64::from(word) * (1 << 33)) >> 8) as u32
}

fn scale(module: &Module, count: u32, from: Argument, to: Argument) -> Step {
    let arguments = vec![from, to, U32(count), U64(1 << 33), U32(7)];
    Step::Call(call(&module.kernel("scale").expect("it is there"), count.div_ceil(32), arguments))
}

fn parts_of_buffers(device: &dyn Device) {
    let module = device.compile(&source()).expect("it compiles");
    let mut stream = device.stream().expect("a stream");
    let buffer = device.allocate(4096).expect("memory");
    let input: Vec<u32> = (0..100).map(|i| i * 0x0101_0101).collect();
    let pieces = vec![piece_of(device, &bytes(&input)), piece_of(device, &[0xee; 400])];
    let steps = vec![
        Step::CopyIn { from: part(0, 0..400), to: buffer.at(1024..1424) },
        Step::CopyIn { from: part(1, 0..400), to: buffer.at(2048..2448) },
        scale(&module, 99, Reads(buffer.at(1024..1424)), Writes(buffer.at(2048..2448))),
        Step::CopyOut { from: buffer.at(2048..2448), to: part(1, 0..400) },
    ];
    let done = do_now(&mut *stream, Work { pieces, steps });
    assert_eq!(done.outcome, Ok(()));
    let mut want: Vec<u32> = input.iter().map(|&word| scaled(word).wrapping_add(7)).collect();
    want[99] = 0xeeee_eeee;
    assert_eq!(words(&done.work.pieces[1]), want);
}

fn host_memory_in_place(device: &dyn Device) {
    let module = device.compile(&source()).expect("it compiles");
    let mut stream = device.stream().expect("a stream");
    let input: Vec<u32> = (0..64).map(|i| i << 24 | i).collect();
    // Both pieces are cut off a longer one: they don't begin where their region does.
    let mut all = piece_of(device, &[bytes(&input), bytes(&input), vec![0xee; 512]].concat());
    let mut from = all.split_off(256);
    let to = from.split_off(256);
    let pieces = vec![from, to];
    let steps = vec![scale(&module, 60, HostReads(part(0, 0..256)), HostWrites(part(1, 256..512)))];
    let work = Work { pieces, steps };
    if !device.description().reaches_host_memory {
        let why = refused(&mut *stream, work);
        assert_eq!(why, "step 1: the device does not reach host memory");
        return;
    }
    let done = do_now(&mut *stream, work);
    assert_eq!(done.outcome, Ok(()));
    assert_eq!(words(&all), input);
    let mut want: Vec<u32> = vec![0xeeee_eeee; 64];
    want.extend(input.iter().map(|&word| scaled(word).wrapping_add(7)));
    want[124..].fill(0xeeee_eeee);
    assert_eq!(words(&done.work.pieces[1]), want);
}

/// Of a region the kernel gets the first byte, and the work the piece that it writes; the rest is the program's meanwhile.
fn region_in_place(device: &dyn Device) {
    let module = device.compile(&source()).expect("it compiles");
    let mut stream = device.stream().expect("a stream");
    let input: Vec<u32> = (0..64).map(|i| i << 24 | i).collect();
    let mut to = in_place_piece(device, 4096);
    let (region, mut from) = (to.region().clone(), to.split_off(256));
    let mut ours = from.split_off(256);
    from.copy_from_slice(&bytes(&input));
    to.fill(0xee);
    let step = scale(&module, 60, HostReads(part(0, 0..256)), InPlace(region.clone()));
    let work = Work { pieces: vec![from, to], steps: vec![step] };
    if !region.is_in_place() {
        let why = match device.description().reaches_host_memory {
            true => "step 1: the device does not work in the region in place",
            false => "step 1: the device does not reach host memory",
        };
        assert_eq!(refused(&mut *stream, work), why);
        return;
    }
    stream.submit(work).expect("taken");
    ours.fill(0x22);
    let done = stream.wait().expect("work");
    assert_eq!(done.outcome, Ok(()));
    let mut want: Vec<u32> = input.iter().map(|&word| scaled(word).wrapping_add(7)).collect();
    want[60..].fill(0xeeee_eeee);
    assert_eq!(words(&done.work.pieces[1]), want);
    assert_eq!(words(&done.work.pieces[0]), input);
    assert!(ours.iter().all(|&byte| byte == 0x22));
}

/// The same of a region that kernels reach, whatever made its memory; and of what nobody told the device of.
fn region_mapped(device: &dyn Device) {
    let made = [in_place_piece(device, 4096), device.host_memory(4096).expect("memory")];
    for piece in made {
        mapped_piece(device, piece);
    }
    let foreign = Host::open().map(|host| host.host_memory(4096).expect("memory"));
    if let Ok(foreign) = foreign {
        let why = match device.description().reaches_host_memory {
            true => "step 1: the device does not reach the region",
            false => "step 1: the device does not reach host memory",
        };
        let region = foreign.region().clone();
        assert!(region.is_mapped());
        let module = device.compile(&source()).expect("it compiles");
        let step = scale(&module, 1, HostReads(part(0, 0..256)), Mapped(region));
        let own = device.host_memory(256).expect("memory");
        let work = Work { pieces: vec![own, foreign], steps: vec![step] };
        assert_eq!(refused(&mut *device.stream().expect("a stream"), work), why);
    }
}

fn mapped_piece(device: &dyn Device, mut to: Piece) {
    let module = device.compile(&source()).expect("it compiles");
    let mut stream = device.stream().expect("a stream");
    let input: Vec<u32> = (0..64).map(|i| i << 24 | i).collect();
    let (region, mut ours) = (to.region().clone(), to.split_off(256));
    ours.fill(0x22);
    let there = device.allocate(256).expect("memory");
    // From the region, and back to it.
    let [double, back] = [Writes(there.whole()), Mapped(region.clone())];
    to.copy_from_slice(&bytes(&input));
    let steps = vec![
        scale(&module, 64, HostReads(part(0, 0..256)), double),
        scale(&module, 60, Reads(there.whole()), back),
    ];
    let work = Work { pieces: vec![to], steps };
    if !region.is_mapped() {
        let why = match device.description().reaches_host_memory {
            true => "step 2: the device does not reach the region",
            false => "step 1: the device does not reach host memory",
        };
        assert_eq!(refused(&mut *stream, work), why);
        return;
    }
    stream.submit(work).expect("taken");
    ours.fill(0x33);
    let done = stream.wait().expect("work");
    assert_eq!(done.outcome, Ok(()));
    let step = |word: &u32| scaled(*word).wrapping_add(7);
    let mut want: Vec<u32> = input.iter().map(|word| step(&step(word))).collect();
    want[60..].copy_from_slice(&input[60..]);
    assert_eq!(words(&done.work.pieces[0]), want);
    assert!(ours.iter().all(|&byte| byte == 0x33));
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
    let done = do_now(&mut *stream, Work { pieces, steps });
    assert_eq!(done.outcome, Ok(()));
    let want: Vec<u32> = input.chunks(32).map(|group| group.iter().sum()).collect();
    assert_eq!(words(&done.work.pieces[0][..20]), want);
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
    stream.submit(Work { pieces, steps }).expect("taken");
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

/// The widest call starts last and ends last. Without turns PoCL before 7.0 ends the process here, most of the time.
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
        stream.submit(Work { pieces, steps }).expect("taken");
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
        let work = Work { pieces: vec![piece_of(device, &[0; 256])], steps: vec![step] };
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

/// Every architecture that is in use, with no GPU at hand. NVRTC comes with CUDA, or as a wheel of that name.
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
