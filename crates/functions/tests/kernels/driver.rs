//! Runs the kernels of a function as an engine would, and compares what they leave with `run`.
//!
//! [`compare`] is all that a function's tests need: it places frames in an arena, does what comes
//! before `run`, copies the arena to the device and back, processes packets that the kernels left
//! on the CPU, and requires every packet to be as after `run` alone. Several batches share a
//! launch, and the kernels skip some packets in it.

use core::ops::Range;
use std::sync::Arc;

pub(crate) use warpline_device::devices_for_tests as devices;
use warpline_device::{Argument, Buffer, Device, Kernel, Part, Source, Step, Work};
use warpline_nf::{Function, KernelParameter, Kernels};
use warpline_packet::{
    ArenaLayout, Binding, Columns, Field, FieldSet, FoundLists, Headers, LaunchRows, ReadWrite,
    Returned,
};
use warpline_verify::Input;

use crate::side::{FILLED, PACKETS_MAX, PLACE, Side, WORKED, layout};
use crate::staged::Staging;
use crate::sys::POISON;
use crate::sys::vouched::{Given, call, source};

/// The devices for one of several cases that differ little. OpenCL's programs take a second each to
/// compile, so it has one case in three.
pub(crate) fn devices_of_case(number: usize) -> Vec<Arc<dyn Device>> {
    let has_opencl = number.is_multiple_of(3);
    let mut all = devices();
    all.retain(|device| has_opencl || !device.description().id.starts_with("opencl"));
    all
}

/// How many packets were compared, and how many of them the kernels left to the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) packets: usize,
    pub(crate) left: usize,
}

impl Tally {
    /// Wants `packets` to have been compared, and none to have been left but those of `inputs` that
    /// the function's manual names.
    pub(crate) fn is_of(&self, inputs: &[Input], may_be_left: impl Fn(&Headers) -> bool) {
        let parse = |input: &&Input| {
            may_be_left(&Headers::parse(&input.bytes, input.link, input.wire_len as usize))
        };
        let most = inputs.iter().filter(parse).count();
        assert_eq!(self.packets, inputs.len());
        assert!(self.left <= most, "{} left, of {most} that may be", self.left);
    }
}

/// Sends `inputs` through the function's kernels on `device` and through `run`; panics where a
/// packet differs. `scratch_words` is what `harness::build` gave with the function. Each side has a
/// state of its own, whose first half works before `run` as in a lane.
pub(crate) fn compare(
    function: &dyn Function,
    scratch_words: usize,
    inputs: &[Input],
    device: &dyn Device,
) -> Tally {
    compare_twins([function, function], scratch_words, inputs, device)
}

/// The same for a function that gives its state once: two of them that were built alike, for `run`
/// and for the kernels.
pub(crate) fn compare_twins(
    twins: [&dyn Function; 2],
    scratch_words: usize,
    inputs: &[Input],
    device: &dyn Device,
) -> Tally {
    compare_staged(twins, scratch_words, inputs, device, FieldSet::EMPTY)
}

/// Fields that kernels of `function` are to find in columns, one set after the other: none, all
/// that they touch, and those of functions that share launches, where all can have some.
pub(crate) fn bindings(function: &dyn Function) -> Vec<FieldSet> {
    let access = function.kernel_access();
    let all = (access.reads | access.writes) & FieldSet::FRAME;
    let none = FieldSet::EMPTY;
    if Binding::stageable().covers(all) {
        vec![none, all, Binding::stageable()]
    } else {
        vec![none]
    }
}

/// The same where kernels find `fields` in columns.
pub(crate) fn compare_staged(
    [ours_of, function]: [&dyn Function; 2],
    scratch_words: usize,
    inputs: &[Input],
    device: &dyn Device,
    fields: FieldSet,
) -> Tally {
    let len_max = inputs.iter().map(|input| input.bytes.len()).max().unwrap_or(0);
    let layout = layout(function, scratch_words, len_max);
    let staging = Staging::new(fields, &layout);
    let program = Program::load(function, &layout, staging, device);
    let (mut ours, mut theirs) = (Side::new(ours_of, &layout), Side::new(function, &layout));
    let mut tally = Tally::default();
    let mut rest = inputs;
    while !rest.is_empty() {
        let taken = ours.fill(rest);
        assert_eq!(taken, theirs.fill(rest));
        FILLED.for_each(|batch| ours.run(batch));
        let left = program.process(&mut theirs, function);
        let free = program.word.filter(|_| left > 0);
        tally.left += left;
        tally.packets += taken;
        let said = device.description();
        for batch in FILLED {
            let (ours_of, theirs_of) = (ours.seen(batch, free), theirs.seen(batch, free));
            assert_eq!(ours_of.len(), theirs_of.len());
            for (row, pair) in ours_of.iter().zip(&theirs_of).enumerate() {
                let place = tally.packets - taken + row;
                assert!(
                    pair.0 == pair.1,
                    "{said}: batch {batch}, packet {row}, from input {place} on: run gives\n{:?}\n\
                     and kernels\n{:?}",
                    pair.0,
                    pair.1,
                );
            }
            let settled = ours.batch(batch).take_settled();
            assert_eq!(theirs.batch(batch).take_settled(), settled, "{said}: batch {batch}");
        }
        rest = &rest[taken..];
    }
    tally
}

/// Numbers of findings that a launch has room for.
pub(crate) const FINDINGS_ROOM: usize = 1 << 14;

/// A function's kernels and tables on a device.
pub(crate) struct Program<'a> {
    device: &'a dyn Device,
    staging: Staging,
    /// Each with the work-items that a packet gets.
    kernels: Vec<(Kernel, u32)>,
    parameters: Vec<KernelParameter>,
    tables: Vec<Buffer>,
    arena: Buffer,
    /// The launch's table.
    table: Buffer,
    /// Memory of the findings, and the field that points to them.
    findings: Buffer,
    word: Option<Field>,
}

impl<'a> Program<'a> {
    fn load(
        function: &dyn Function,
        layout: &ArenaLayout,
        staging: Staging,
        device: &'a dyn Device,
    ) -> Self {
        let kernels = function.kernels().expect("kernels");
        let source = source(&kernels, &staging.binding);
        Self::new(&kernels, &source, layout, staging, device)
    }

    /// With the text of `source` in place of that of `kernels`.
    pub(crate) fn new(
        kernels: &Kernels,
        source: &Source,
        layout: &ArenaLayout,
        staging: Staging,
        device: &'a dyn Device,
    ) -> Self {
        let module = device.compile(source).expect("kernels compile");
        let steps = kernels.steps().iter();
        let with_items =
            steps.map(|step| (module.kernel(step.name).expect("a kernel"), step.items_per_packet));
        let allocate = |len| device.allocate(len).expect("memory");
        let rows = LaunchRows::rows_for(PACKETS_MAX * layout.slots / 256);
        let program = Self {
            device,
            kernels: with_items.collect(),
            parameters: kernels.parameters(),
            tables: kernels.tables().iter().map(|table| allocate(table.bytes.len())).collect(),
            arena: allocate(layout.memory_len()),
            table: allocate(staging.row_len * rows),
            findings: allocate(FoundLists::HEAD_LEN + 4 * FINDINGS_ROOM),
            word: kernels.findings(),
            staging,
        };
        for (table, buffer) in kernels.tables().iter().zip(&program.tables) {
            program.copy_in(&table.bytes, buffer);
        }
        program
    }

    /// The kernels on all batches of a side, and the CPU on what they leave. Gives how many packets
    /// were left, of the batches that the device was to do.
    fn process(&self, side: &mut Side<'_>, function: &dyn Function) -> usize {
        let access = function.kernel_access();
        let writes = access.writes;
        let rows = rows_of(side, FILLED);
        let after = self.left_of(side, Columns::read_by(access));
        let found = self.word.map(|word| FoundLists::new(&after.found, word));
        let mut table = vec![POISON; after.table.len()];
        Columns::written_by(writes).stretches(rows.rows(), |bytes| {
            table[bytes.clone()].copy_from_slice(&after.table[bytes]);
        });
        let mut left = 0;
        for index in FILLED {
            let frames = side.frames(index);
            side.reached.take_rooms(index, &after.arena);
            let batch = side.batch(index);
            let returned = Returned::new(&table, rows.of(index));
            batch.check_returned(&returned, writes).expect("a table that makes sense");
            batch.accept_left(&returned);
            if let Some(found) = &found {
                batch.check_found(&returned, found).expect("lists that were kept");
            }
            batch.accept_returned(&returned, writes, found.as_ref());
            if batch.hold_done() {
                for packet in batch.forward() {
                    let row = packet.index();
                    assert!(packet.frame() == frames[row], "packet {row} was changed and left");
                    left += usize::from(WORKED.contains(&index));
                }
                side.run(index);
            }
            side.batch(index).release();
        }
        left
    }

    /// Memories after the kernels ran on all batches of a side. The launch's table receives
    /// `columns` of the batches' tables.
    pub(crate) fn left_of(&self, side: &mut Side<'_>, columns: Columns) -> Memories {
        let rows = rows_of(side, FILLED);
        let mut arena = vec![0; side.reached.len()];
        side.reached.copy_to(&mut arena);
        let mut table = vec![POISON; self.staging.row_len * rows.rows()];
        for index in FILLED {
            side.batch(index).copy_columns(columns, rows.of(index), &mut table);
            self.staging.gather((side, index), &rows, &mut arena, &mut table);
        }
        let mut after = self.launch(&arena, &table, rows.count());
        check_the_rest(&self.staging, side, &rows, (&arena, &table), &after);
        for index in FILLED {
            let Memories { arena, table, .. } = &mut after;
            self.staging.scatter((side, index), &rows, arena, table);
        }
        after
    }

    /// The kernels on `count` packets of an arena that have rows in `table`, and what they leave.
    pub(crate) fn launch(&self, arena: &[u8], table: &[u8], count: usize) -> Memories {
        self.copy_in(arena, &self.arena);
        self.copy_in(table, &self.table);
        let mut findings = vec![POISON; self.findings.len()];
        findings[..FoundLists::HEAD_LEN].fill(0);
        self.copy_in(&findings, &self.findings);
        let count = count as u32;
        let steps = self.kernels.iter().map(|(kernel, items)| {
            let given = Given {
                arena: Argument::Writes(self.arena.whole()),
                host: None,
                packets: Argument::Writes(self.table.whole()),
                tables: &self.tables,
                findings: Some(Argument::Writes(self.findings.whole())),
                findings_room: FINDINGS_ROOM as u32,
                count,
                place: PLACE,
                without: 0,
            };
            let groups = (count * items).div_ceil(kernel.spec().group);
            Step::Call(call(kernel, groups, given.arguments(&self.parameters)))
        });
        let all = [(&self.arena, arena.len()), (&self.table, table.len())];
        let all = [all[0], all[1], (&self.findings, self.findings.len())];
        let pieces = all.map(|(_, len)| self.device.host_memory(len).expect("host memory"));
        let back = all.iter().enumerate().map(|(piece, (buffer, len))| Step::CopyOut {
            from: buffer.at(0..*len),
            to: Part { piece, range: 0..*len },
        });
        let steps = steps.chain(back).collect();
        let done = self.finish(Work::new(pieces.into(), steps));
        let [arena, table, found] =
            [0, 1, 2].map(|piece| done.pieces[piece][..all[piece].1].to_vec());
        Memories { arena, table, found }
    }

    fn copy_in(&self, bytes: &[u8], buffer: &Buffer) {
        let mut piece = self.device.host_memory(bytes.len()).expect("host memory");
        piece[..bytes.len()].copy_from_slice(bytes);
        let from = Part { piece: 0, range: 0..bytes.len() };
        let steps = vec![Step::CopyIn { from, to: buffer.at(0..bytes.len()) }];
        self.finish(Work::new(vec![piece], steps));
    }

    fn finish(&self, work: Work) -> Work {
        let mut stream = self.device.stream().expect("a stream");
        stream.submit(work).expect("work that is taken");
        let done = stream.wait().expect("work that is given back");
        done.outcome.expect("work that is done");
        done.work
    }
}

/// The output of kernels.
pub(crate) struct Memories {
    pub(crate) arena: Vec<u8>,
    /// The launch's table.
    pub(crate) table: Vec<u8>,
    /// Findings of the kernels.
    pub(crate) found: Vec<u8>,
}

/// A launch's packets: every row of these batches, as if earlier functions dropped or skipped some
/// packets.
pub(crate) fn rows_of(side: &mut Side<'_>, batches: Range<usize>) -> LaunchRows {
    let mut rows = LaunchRows::with_capacity(batches.len(), usize::from(u16::MAX));
    batches.for_each(|index| rows.add_all(side.batch(index)));
    rows
}

/// All columns that kernels may access.
pub(crate) fn all_columns() -> Columns {
    Columns::read_by(ReadWrite::new(FieldSet::ALL, FieldSet::ALL))
}

/// Wants kernels to have written in the rows and rooms of their packets only.
fn check_the_rest(
    staging: &Staging,
    side: &mut Side<'_>,
    rows: &LaunchRows,
    (arena, table): (&[u8], &[u8]),
    after: &Memories,
) {
    let mut own = Vec::new();
    for index in WORKED {
        side.batch(index).spans(|span| own.push(span));
    }
    own.push(arena.len()..arena.len());
    own.sort_by_key(|range| range.start);
    let mut at = 0;
    for range in own {
        assert!(arena[at..range.start] == after.arena[at..range.start], "written outside of rooms");
        at = range.end;
    }
    let fields = staging.binding.columns().iter().map(|column| (column.before, column.width));
    let own_len = staging.row_len - staging.binding.row_len();
    let own = all_columns().iter().filter(|(before, width)| before + width <= own_len);
    for (before, width) in own.chain(fields) {
        for index in FILLED.filter(|index| !WORKED.contains(index)) {
            for (_, row) in rows.of(index).each() {
                let at = before * rows.rows() + width * row;
                let is_same = table[at..at + width] == after.table[at..at + width];
                assert!(is_same, "written to a packet that is none of its business");
            }
        }
    }
}
