//! The kernel that writes a launch's table from packed rows, beside the copy of its columns.

use std::path::Path;

use warpline_device::{Argument, Device, Part, Step, Work};
use warpline_digest::DEFINITION;
use warpline_launch::packed_rows;
use warpline_packet::{Binding, Columns, LaunchRows, RowPacker};
use warpline_verify::{Input, build};

use crate::compiled::compile_all;
use crate::driver::{all_columns, devices};
use crate::frames::{Random, ethernet, ipv4, udp};
use crate::side::{FILLED, Side, layout};
use crate::sys::vouched::{Given, call, source};

/// Frames of many lengths and shapes.
fn packets() -> Vec<Input> {
    let mut random = Random::new(21);
    let lens = (0..240).chain([470, 982, 1472, 4000, 9000, 33_000]);
    let frame = |len: usize| {
        let tags: &[u8] = [&[][..], &[0x81, 0, 0, 9], &[0x88, 0xa8, 0, 8, 0x81, 0, 0, 9]][len % 3];
        ethernet(tags, &ipv4([10, 0, 0, 1], 9, 17, &[], &udp(&random.bytes(len))))
    };
    lens.map(frame).collect()
}

/// The table that the kernel unpacks, over memory that held other bytes.
fn unpacked(device: &dyn Device, packed: &[u8], (table, count): (&[u8], usize)) -> Vec<u8> {
    let kernels = packed_rows();
    let module = device.compile(&source(&kernels, &Binding::MIRROR)).expect("kernels compile");
    let step = kernels.steps()[0];
    let kernel = module.kernel(step.name).expect("a kernel");
    let own = |bytes: &[u8]| {
        let mut piece = device.host_memory(bytes.len()).expect("host memory");
        piece.copy_from_slice(bytes);
        (piece, device.allocate(bytes.len()).expect("memory"))
    };
    let [(rows, there), (image, all), (_, arena)] = [own(packed), own(table), own(&[0; 64])];
    let given = Given {
        arena: Argument::Writes(arena.whole()),
        host: Some(Argument::Writes(there.whole())),
        packets: Argument::Writes(all.whole()),
        tables: &[],
        findings: None,
        findings_room: 0,
        count: count as u32,
        place: 0,
        without: 0,
    };
    let groups = (count as u32).div_ceil(step.group);
    let arguments = given.arguments(&kernels.parameters());
    let part = |piece, len| Part { piece, range: 0..len };
    let steps = vec![
        Step::CopyIn { from: part(0, packed.len()), to: there.whole() },
        Step::CopyIn { from: part(1, table.len()), to: all.whole() },
        Step::Call(call(&kernel, groups, arguments)),
        Step::CopyOut { from: all.whole(), to: part(1, table.len()) },
    ];
    let mut stream = device.stream().expect("a stream");
    stream.submit(Work::new(vec![rows, image], steps)).expect("work that is taken");
    let done = stream.wait().expect("work that is given back");
    done.outcome.expect("work that is done");
    done.work.pieces[1][..table.len()].to_vec()
}

pub(crate) fn edges_on(device: &dyn Device) {
    let (function, words) = build(&DEFINITION, "", Path::new("."));
    let inputs = packets();
    let layout = layout(&*function, words, 34_000);
    let mut side = Side::new(&*function, &layout);
    assert_eq!(side.fill(&inputs), inputs.len());
    let mut rows = LaunchRows::with_capacity(FILLED.len(), usize::from(u16::MAX));
    FILLED.for_each(|index| rows.add(side.batch(index)));
    let read = all_columns();
    let mut packer = RowPacker::new(read);
    packer.clear();
    let mut packed = vec![0; RowPacker::len_max(rows.rows())];
    let table = Random::new(22).bytes(layout.row_len() * rows.rows());
    let mut expected = table.clone();
    for index in FILLED {
        assert!(packer.pack(side.batch(index), rows.of(index), &mut packed), "batch {index}");
        side.batch(index).copy_columns(read, rows.of(index), &mut expected);
    }
    let len = packer.finish(rows.rows(), &mut packed);
    let after = unpacked(device, &packed[..len], (&table, rows.count()));
    let mut compared = 0;
    // The table has fewer scratch words than there are fields for.
    let is_there = |(before, width): &(usize, usize)| before + width <= layout.row_len();
    for (before, width) in read.iter().filter(is_there) {
        let own = before * rows.rows()..before * rows.rows() + width * rows.count();
        // Columns that packed rows don't contain are unchanged.
        let is_packed = Columns::iter(read.beside_packed()).all(|(other, _)| other != before);
        let of = if is_packed { &expected } else { &table };
        let said = &device.description().id;
        assert_eq!(after[own.clone()], of[own], "{said}: the column behind {before} bytes");
        compared += usize::from(is_packed);
    }
    assert_eq!(compared, 11, "columns are packed");
}

#[test]
fn a_kernel_writes_the_table_from_packed_rows() {
    devices().iter().for_each(|device| edges_on(&**device));
}

#[test]
fn kernels_compile_for_gpus() {
    let kernels = packed_rows();
    compile_all(&kernels, &source(&kernels, &Binding::MIRROR));
}
