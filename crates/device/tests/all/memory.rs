//! Copies, and kernels on memory of every kind: buffers, host memory, regions.

use crate::common::{bytes, call, do_now, in_place_piece, refused, source, words};
use crate::devices::{part, piece_of};
use warpline_device::host::Host;
use warpline_device::{Argument, Device, Module, Piece, Rows, Step, Work};

use Argument::{HostReads, HostWrites, InPlace, Mapped, Reads, U32, U64, Writes};

pub(crate) fn copies_keep_to_their_ranges(device: &dyn Device) {
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
    let done = do_now(&mut *stream, Work::new(pieces, steps));
    assert_eq!(done.outcome, Ok(()));
    let mut want = vec![0xee; 1000];
    want[3..21].copy_from_slice(&from[499..517]);
    want[5..18].copy_from_slice(&from[1..14]);
    assert_eq!(&done.work.pieces[1][..], &want[..]);
    assert_eq!(&done.work.pieces[0][..], &from[..]);
}

/// Rows of 5 at every 8 and one alone, with the memory around and between them left as it was.
pub(crate) fn rows_keep_to_their_widths(device: &dyn Device) {
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
    let done = do_now(&mut *stream, Work::new(pieces, steps));
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

pub(crate) fn parts_of_buffers(device: &dyn Device) {
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
    let done = do_now(&mut *stream, Work::new(pieces, steps));
    assert_eq!(done.outcome, Ok(()));
    let mut want: Vec<u32> = input.iter().map(|&word| scaled(word).wrapping_add(7)).collect();
    want[99] = 0xeeee_eeee;
    assert_eq!(words(&done.work.pieces[1]), want);
}

pub(crate) fn host_memory_in_place(device: &dyn Device) {
    let module = device.compile(&source()).expect("it compiles");
    let mut stream = device.stream().expect("a stream");
    let input: Vec<u32> = (0..64).map(|i| i << 24 | i).collect();
    // Both pieces are cut off a longer one: they don't begin where their region does.
    let mut all = piece_of(device, &[bytes(&input), bytes(&input), vec![0xee; 512]].concat());
    let mut from = all.split_off(256);
    let to = from.split_off(256);
    let pieces = vec![from, to];
    let steps = vec![scale(&module, 60, HostReads(part(0, 0..256)), HostWrites(part(1, 256..512)))];
    let work = Work::new(pieces, steps);
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

/// Of a region the kernel gets the first byte, and the work the piece that it writes; the rest is
/// the program's meanwhile.
pub(crate) fn region_in_place(device: &dyn Device) {
    let module = device.compile(&source()).expect("it compiles");
    let mut stream = device.stream().expect("a stream");
    let input: Vec<u32> = (0..64).map(|i| i << 24 | i).collect();
    let mut to = in_place_piece(device, 4096);
    let (region, mut from) = (to.region().clone(), to.split_off(256));
    let mut ours = from.split_off(256);
    from.copy_from_slice(&bytes(&input));
    to.fill(0xee);
    let step = scale(&module, 60, HostReads(part(0, 0..256)), InPlace(region.clone()));
    let work = Work::new(vec![from, to], vec![step]);
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

/// The same of a region that kernels reach, whatever made its memory, and of one that the device
/// does not know.
pub(crate) fn region_mapped(device: &dyn Device) {
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
        let work = Work::new(vec![own, foreign], vec![step]);
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
    let work = Work::new(vec![to], steps);
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
