//! The kernels that copy rooms between the host's arena and the mirror: of all packets that a
//! launch has, or of those that a mirror lacks, and of no byte besides.

use std::path::Path;

use warpline_device::{Argument, Device, Part, Piece, Step, Work};
use warpline_digest::DEFINITION;
use warpline_launch::room_copies;
use warpline_packet::{Binding, Columns, LaunchRows, mirror_bit};
use warpline_verify::{Input, build};

use crate::compiled::compile_all;
use crate::driver::{all_columns, devices};
use crate::frames::{Random, ethernet, ipv4, udp};
use crate::side::{FILLED, Side, layout};
use crate::sys::vouched::{Given, call, source};

/// Frames of every length up to some lines, and of several turns of all items.
fn packets() -> Vec<Input> {
    let mut random = Random::new(11);
    let lens = (0..200).chain([470, 471, 982, 983, 1472, 1990, 2100, 4000, 9000, 33_000]);
    let frame = |len| ethernet(&[], &ipv4([10, 0, 0, 1], 9, 17, &[], &udp(&random.bytes(len))));
    lens.map(frame).collect()
}

/// Packets of one launch: the bytes of their arena, of a mirror that has others, and of the
/// launch's table.
struct Launch<'a> {
    side: Side<'a>,
    rows: LaunchRows,
    host: Vec<u8>,
    mirror: Vec<u8>,
    table: Vec<u8>,
}

/// Mirrors that have some of the packets.
const HAVE_SOME: [u8; 2] = [1, 6];

impl<'a> Launch<'a> {
    fn new(function: &'a dyn warpline_nf::Function, words: usize, inputs: &[Input]) -> Self {
        let len_max = inputs.iter().map(|input| input.bytes.len()).max().unwrap_or(0);
        let layout = layout(function, words, len_max);
        let mut side = Side::new(function, &layout);
        assert_eq!(side.fill(inputs), inputs.len());
        for index in FILLED {
            for (nth, number) in HAVE_SOME.into_iter().enumerate() {
                side.batch(index).set_mirrored(number, 0, true);
                // A changed payload is in no mirror.
                for row in (0..side.batch(index).len()).filter(|row| row % 3 == nth) {
                    let _ = side.batch(index).packet_mut(row).payload_mut();
                }
            }
        }
        let mut rows = LaunchRows::with_capacity(FILLED.len(), usize::from(u16::MAX));
        FILLED.for_each(|index| rows.add(side.batch(index)));
        let mut host = vec![0; side.reached.len()];
        side.reached.copy_to(&mut host);
        let mut random = Random::new(12);
        let mirror = random.bytes(host.len());
        let mut table = random.bytes(layout.row_len() * rows.rows());
        let columns = all_columns().union(Columns::of_rooms(true));
        for index in FILLED {
            side.batch(index).copy_columns(columns, rows.of(index), &mut table);
        }
        Self { side, rows, host, mirror, table }
    }

    /// `to` with the rooms of `from`: of all packets that are forwarded, or of those that a mirror
    /// lacks.
    fn copied(&mut self, to: &[u8], from: &[u8], lacking: Option<u8>) -> Vec<u8> {
        let mut to = to.to_vec();
        for index in FILLED {
            let copy = |span: core::ops::Range<usize>| {
                to[span.clone()].copy_from_slice(&from[span]);
            };
            match lacking {
                Some(number) => self.side.batch(index).spans_without(number, copy),
                None => self.side.batch(index).spans(copy),
            }
        }
        to
    }

    /// The host's arena and the mirror after kernel `name`.
    fn after(&self, device: &dyn Device, name: &str, without: u8) -> [Vec<u8>; 2] {
        let kernels = room_copies();
        let module = device.compile(&source(&kernels, &Binding::MIRROR)).expect("kernels compile");
        let kernel = module.kernel(name).expect("a kernel");
        let mut host = reached_memory(device, self.host.len());
        host.copy_from_slice(&self.host);
        let len = self.host.len();
        // Where no memory of the host's is reached, the kernels have to do with the device's own
        // all the same.
        let is_mapped = host.region().is_mapped();
        let region = host.region().clone();
        let own = |bytes: &[u8]| {
            let mut piece = device.host_memory(bytes.len()).expect("host memory");
            piece.copy_from_slice(bytes);
            (piece, device.allocate(bytes.len()).expect("memory"))
        };
        let [(image, mirror), (rows, table), (_, copy)] =
            [own(&self.mirror), own(&self.table), own(&[0; 64][..len.min(64)])];
        let copy = if is_mapped { copy } else { device.allocate(len).expect("memory") };
        let part = |piece, len| Part { piece, range: 0..len };
        let copies = |own: &warpline_device::Buffer, piece, is_in| {
            let (host, there) = (part(piece, own.len()), own.whole());
            match is_in {
                true => Step::CopyIn { from: host, to: there },
                false => Step::CopyOut { from: there, to: host },
            }
        };
        let given = Given {
            arena: Argument::Writes(mirror.whole()),
            host: Some(match is_mapped {
                true => Argument::Mapped(region),
                false => Argument::Writes(copy.whole()),
            }),
            packets: Argument::Writes(table.whole()),
            tables: &[],
            findings: None,
            findings_room: 0,
            count: self.rows.count() as u32,
            place: 0,
            without,
        };
        let step = kernels.steps().iter().find(|step| step.name == name).expect("a step");
        let items = self.rows.count() as u32 * step.items_per_packet;
        let arguments = given.arguments(&kernels.parameters());
        let mut steps = vec![copies(&mirror, 1, true), copies(&table, 2, true)];
        steps.extend((!is_mapped).then(|| copies(&copy, 0, true)));
        steps.push(Step::Call(call(&kernel, items.div_ceil(step.group), arguments)));
        steps.push(copies(&mirror, 1, false));
        steps.extend((!is_mapped).then(|| copies(&copy, 0, false)));
        let mut stream = device.stream().expect("a stream");
        stream.submit(Work::new(vec![host, image, rows], steps)).expect("work that is taken");
        let done = stream.wait().expect("work that is given back");
        done.outcome.expect("work that is done");
        let [host, mirror] = [0, 1].map(|piece| done.work.pieces[piece][..len].to_vec());
        [host, mirror]
    }
}

/// Memory that kernels of the device reach, where they reach any.
fn reached_memory(device: &dyn Device, len: usize) -> Piece {
    let Some(memory) = device.shared_memory(len) else {
        return device.host_memory(len).expect("host memory");
    };
    let region = device.register(memory).expect("a region");
    crate::sys::whole(&region, len)
}

/// Where the two differ first.
fn differs(one: &[u8], other: &[u8]) -> Option<usize> {
    one.iter().zip(other).position(|(a, b)| a != b)
}

pub(crate) fn edges_on(device: &dyn Device) {
    let (function, words) = build(&DEFINITION, "", Path::new("."));
    let mut launch = Launch::new(&*function, words, &packets());
    let (host, mirror) = (launch.host.clone(), launch.mirror.clone());
    let said = device.description().id.clone();
    let lacking = HAVE_SOME.map(Some).into_iter().chain([None, Some(3)]);
    let mut seen = Vec::new();
    for lacking in lacking {
        let expected = launch.copied(&mirror, &host, lacking);
        let [left, there] = launch.after(device, "pull_rooms", lacking.map_or(0, mirror_bit));
        assert_eq!(differs(&left, &host), None, "{said}: {lacking:?}, the host's");
        assert_eq!(differs(&there, &expected), None, "{said}: {lacking:?}, the mirror");
        seen.push(expected);
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2] && seen[2] == seen[3], "all are different");
    let expected = launch.copied(&host, &mirror, None);
    let [back, left] = launch.after(device, "push_rooms", !0);
    assert_eq!(differs(&left, &mirror), None, "{said}: the mirror is read");
    assert_eq!(differs(&back, &expected), None, "{said}: back");
}

#[test]
fn kernels_copy_rooms_between_the_host_and_the_mirror() {
    devices().iter().for_each(|device| edges_on(&**device));
}

#[test]
fn kernels_compile_for_gpus() {
    let kernels = room_copies();
    compile_all(&kernels, &source(&kernels, &Binding::MIRROR));
}
