//! Packets of one launch and a function's kernels on a device, without an engine: what each part of
//! a launch takes.

use std::ops::Range;
use std::time::Instant;

use warpline_device::{
    Argument, Buffer, Device, Failure, Kernel, Part, Piece, Slice, Step, Stream, Work,
};
use warpline_launch::{Given, kernel_source};
use warpline_nf::KernelParameter;
use warpline_packet::{
    Binding, Columns, Field, FieldSet, Found, FoundLists, LaunchRows, kernel_layout,
};

use super::Bench;
use super::cases::Case;
use crate::lane::Lane;
use crate::sys;

/// See the module.
pub struct Resident {
    lane: Lane,
    stream: Box<dyn Stream>,
    /// Each with the work-items that a packet gets.
    kernels: Vec<(Kernel, u32)>,
    parameters: Vec<KernelParameter>,
    tables: Vec<Buffer>,
    /// The lane's memory before the kernels run, then the launch's table, then findings. `None`
    /// while a copy uses it.
    image: Option<Piece>,
    /// Destination of copies to the host.
    back: Option<Piece>,
    arena: Buffer,
    /// The launch's table, and which packets have which rows of it.
    table: Buffer,
    rows: LaunchRows,
    /// Findings of the kernels, for functions that keep findings.
    findings: Option<Buffer>,
    /// The scratch word with their place.
    word: Option<Field>,
    /// Packets.
    pub count: u64,
    /// Columns of the table that kernels read, and those that they write.
    read: Columns,
    written: Columns,
    writes_frames: bool,
}

impl Resident {
    /// As many packets of `case` with payloads of `len` bytes as have `bytes` bytes of frames, at
    /// least one, on the device.
    ///
    /// # Errors
    /// Failures of the device; it may have too little memory.
    pub fn new(bench: &Bench, case: Case, len: usize, bytes: usize) -> Result<Self, Failure> {
        let device = &*bench.device;
        let (function, words) = bench.cases.build(case);
        let frame_len = case.frames(len, 1)[0].len();
        let frames = case.frames(len, (bytes / frame_len).max(1));
        let mut lane = Lane::new(function, words, &frames);
        lane.before();
        let image = lane.image();
        let mut rows = LaunchRows::with_capacity(lane.batches.len(), frames.len());
        lane.batches.iter().for_each(|batch| rows.add_all(batch));
        let access = lane.function().kernel_access();
        let table = table_of(&lane, &rows, Columns::read_by(access));
        let kernels = lane.function().kernels().expect("a function with kernels");
        let module = device.compile(&kernel_source(&kernels, &Binding::MIRROR))?;
        let with_items =
            |step: &warpline_nf::KernelStep| Ok((module.kernel(step.name)?, step.items_per_packet));
        let found_len = match kernels.findings() {
            Some(_) => {
                FoundLists::HEAD_LEN
                    + 4 * frames.len() * lane.function().emits().findings_per_packet
            }
            None => 0,
        };
        let findings = (found_len > 0).then(|| device.allocate(found_len)).transpose()?;
        let all_len = image.len() + table.len() + found_len;
        let mut own = Self {
            stream: device.stream()?,
            kernels: kernels.steps().iter().map(with_items).collect::<Result<_, Failure>>()?,
            parameters: kernels.parameters(),
            tables: Vec::new(),
            image: None,
            back: Some(device.host_memory(all_len)?),
            findings,
            word: kernels.findings(),
            arena: device.allocate(image.len())?,
            table: device.allocate(table.len())?,
            rows,
            count: frames.len() as u64,
            read: Columns::read_by(access),
            written: Columns::written_by(access.writes),
            writes_frames: !(access.writes & FieldSet::FRAME).is_empty(),
            lane,
        };
        own.tables = kernels
            .tables()
            .iter()
            .map(|table| own.there(device, &table.bytes))
            .collect::<Result<_, Failure>>()?;
        let mut piece = device.host_memory(all_len)?;
        let (arena, rest) = piece.split_at_mut(image.len());
        let (own_table, found) = rest.split_at_mut(table.len());
        arena.copy_from_slice(&image);
        own_table.copy_from_slice(&table);
        // The head is that of an empty list.
        found.fill(0);
        own.image = Some(piece);
        // Some compilers do the rest of their work at the first launch.
        own.copy_in()?;
        own.run()?;
        Ok(own)
    }

    /// A copy of `bytes` on the device.
    fn there(&mut self, device: &dyn Device, bytes: &[u8]) -> Result<Buffer, Failure> {
        let buffer = device.allocate(bytes.len())?;
        let mut piece = device.host_memory(bytes.len())?;
        piece.copy_from_slice(bytes);
        let step = Step::CopyIn { from: part(0..bytes.len()), to: buffer.whole() };
        self.finish(Work::new(vec![piece], vec![step])).map(|_| buffer)
    }

    /// Copies the packets in as they are before the kernels run, and returns the seconds.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn copy_in(&mut self) -> Result<f64, Failure> {
        let steps = self.copies_in();
        let pieces = self.image.take().into_iter().collect();
        let (work, [_, seconds]) = self.finish(Work::new(pieces, steps))?;
        self.image = work.pieces.into_iter().next();
        Ok(seconds)
    }

    /// Runs the kernels, and returns the seconds.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn run(&mut self) -> Result<f64, Failure> {
        let steps = self.launches();
        let (_, [_, seconds]) = self.finish(Work::new(Vec::new(), steps))?;
        Ok(seconds)
    }

    fn copies_in(&self) -> Vec<Step> {
        let copy = |(to, at): (Slice, usize)| Step::CopyIn { from: part(at..at + to.len()), to };
        let head =
            self.findings.iter().map(|found| (found.at(0..FoundLists::HEAD_LEN), self.found_at()));
        self.places(self.read, true).chain(head).map(copy).collect()
    }

    fn launches(&self) -> Vec<Step> {
        let count = self.count as u32;
        let step = |(kernel, items): &(Kernel, u32)| {
            let given = Given {
                arena: Argument::Writes(self.arena.whole()),
                host: None,
                packets: Argument::Writes(self.table.whole()),
                tables: &self.tables,
                findings: self.findings.as_ref().map(|findings| Argument::Writes(findings.whole())),
                findings_room: self.findings.as_ref().map_or(0, room_of),
                count,
                place: 0,
                without: 0,
            };
            let groups =
                (u64::from(count) * u64::from(*items)).div_ceil(kernel.spec().group.into());
            Step::Call(sys::call(kernel, groups as u32, given.arguments(&self.parameters)))
        };
        self.kernels.iter().map(step).collect()
    }

    /// Copies what the function writes to the host, as the engine does, and returns the seconds.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn copy_out(&mut self) -> Result<f64, Failure> {
        let steps = self.copies_out(0);
        let pieces = self.back.take().into_iter().collect();
        let (work, [_, seconds]) = self.finish(Work::new(pieces, steps))?;
        self.back = work.pieces.into_iter().next();
        Ok(seconds)
    }

    fn copies_out(&self, piece: usize) -> Vec<Step> {
        let copy = |(from, at): (Slice, usize)| {
            let range = at..at + from.len();
            Step::CopyOut { from, to: Part { piece, range } }
        };
        let found = self.findings.iter().map(|found| (found.whole(), self.found_at()));
        self.places(self.written, self.writes_frames).chain(found).map(copy).collect()
    }

    /// Gives works to `device`, where it is, as graphs from here on.
    ///
    /// # Errors
    /// Failures of the device; it may have no graphs.
    pub fn use_graphs(&mut self, device: &dyn Device) -> Result<(), Failure> {
        self.stream = device.graph_stream()?;
        Ok(())
    }

    /// Does all of it as one work, and returns the seconds that submitting took and those until it
    /// was done.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn launch(&mut self) -> Result<[f64; 2], Failure> {
        let steps = [self.copies_in(), self.launches(), self.copies_out(1)].concat();
        let pieces = self.image.take().into_iter().chain(self.back.take()).collect();
        let (work, seconds) = self.finish(Work::new(pieces, steps))?;
        let mut pieces = work.pieces.into_iter();
        (self.image, self.back) = (pieces.next(), pieces.next());
        Ok(seconds)
    }

    /// Steps of such a work.
    pub fn steps(&self) -> usize {
        self.copies_in().len() + self.kernels.len() + self.copies_out(0).len()
    }

    /// Whether the output of the kernels, which was copied to the host, equals the CPU's output for
    /// the same packets. Call it once: it runs the function on the CPU's packets.
    pub fn is_right(&mut self) -> bool {
        self.lane.run();
        let ours = self.lane.image();
        let mut table = table_of(&self.lane, &self.rows, self.written);
        self.leave_flagged(&mut table);
        let Some(back) = self.back.as_deref() else { return false };
        let (frames, theirs) = back.split_at(self.arena.len());
        let (theirs, found) = theirs.split_at(self.table.len());
        if !self.finds_the_same(&mut table, theirs, found) {
            return false;
        }
        let rows = self.rows.rows();
        let has_same = |(before, width): (usize, usize)| {
            let column = before * rows..before * rows + width * self.rows.count();
            table[column.clone()] == theirs[column]
        };
        let mut rooms = self.rooms(self.writes_frames);
        self.written.iter().all(has_same) && rooms.all(|room| ours[room.clone()] == frames[room])
    }

    /// Whether each packet's list of findings is the same. Its position is not compared: `ours`
    /// takes it from `theirs`.
    fn finds_the_same(&self, ours: &mut [u8], theirs: &[u8], found: &[u8]) -> bool {
        let Some(word) = self.word else { return true };
        let lists = FoundLists::new(found, word);
        let number = word as usize - Field::Scratch0 as usize;
        let column = (column("COLUMN_SCRATCH") + 4 * number) * self.rows.rows();
        self.lane.batches.iter().enumerate().all(|(index, batch)| {
            self.rows.of(index).each().all(|(_, row)| {
                let at = column + 4 * row..column + 4 * row + 4;
                let [own, other] = [&ours[at.clone()], &theirs[at.clone()]]
                    .map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
                ours[at.clone()].copy_from_slice(&theirs[at]);
                let other = if other == 0 { Some(&[][..]) } else { lists.list(other) };
                match (batch.findings().get(own), other) {
                    (Found::Numbers(own), Some(other)) => {
                        own.iter().map(|number| number.to_ne_bytes()).eq(other.iter().copied())
                    }
                    (Found::NoRoom, None) => true,
                    _ => false,
                }
            })
        })
    }

    /// Marks flagged packets in `table`, so that later functions get them from the CPU. Kernels set
    /// this mark, and the CPU needn't.
    fn leave_flagged(&self, table: &mut [u8]) {
        let rows = self.rows.rows();
        let [flagged, left] = ["COLUMN_FLAGGED", "COLUMN_LEFT"].map(|name| column(name) * rows);
        for row in 0..self.rows.count() {
            if table[flagged + row] != 0 {
                table[left + row] = SECOND_LEFT;
            }
        }
    }

    /// The parts of the table and of rooms that are copied, and their places in the pieces.
    fn places(&self, columns: Columns, with_rooms: bool) -> impl Iterator<Item = (Slice, usize)> {
        let mut all = Vec::new();
        columns.stretches(self.rows.rows(), |bytes| {
            all.push((self.table.at(bytes.clone()), self.arena.len() + bytes.start));
        });
        let rooms = self.rooms(with_rooms).map(|room| (self.arena.at(room.clone()), room.start));
        all.extend(rooms);
        all.into_iter()
    }

    /// Where rooms lie; none unless they are asked for.
    fn rooms(&self, with_rooms: bool) -> impl Iterator<Item = Range<usize>> {
        let mut all = Vec::new();
        if with_rooms {
            self.lane.batches.iter().for_each(|batch| batch.spans(|span| all.push(span)));
        }
        all.into_iter()
    }

    /// Where findings lie in the pieces.
    fn found_at(&self) -> usize {
        self.arena.len() + self.table.len()
    }

    /// Waits as the engine does in `sync`: it asks again and again. Gives the seconds that
    /// submitting took, and all.
    fn finish(&mut self, work: Work) -> Result<(Work, [f64; 2]), Failure> {
        let start = Instant::now();
        self.stream.submit(work).map_err(|refused| refused.why)?;
        let submitted = start.elapsed().as_secs_f64();
        loop {
            if let Some(done) = self.stream.poll() {
                let seconds = [submitted, start.elapsed().as_secs_f64()];
                return done.outcome.map(|()| (done.work, seconds));
            }
            std::thread::yield_now();
        }
    }
}

/// `columns` of a launch's table with all packets of a lane.
fn table_of(lane: &Lane, rows: &LaunchRows, columns: Columns) -> Vec<u8> {
    let mut table = vec![0; lane.layout().row_len() * rows.rows()];
    for (index, batch) in lane.batches.iter().enumerate() {
        batch.copy_columns(columns, rows.of(index), &mut table);
    }
    table
}

/// Bytes of a row before a column.
fn column(name: &str) -> usize {
    let all = kernel_layout();
    all.iter().find(|(own, _)| own == name).map_or(0, |(_, before)| *before as usize)
}

/// The count of numbers that fit into findings after their head.
fn room_of(findings: &Buffer) -> u32 {
    ((findings.len() - FoundLists::HEAD_LEN) / 4) as u32
}

/// Means "the second function of the chain and those after it are left to the CPU"; kernels run as
/// the first here.
const SECOND_LEFT: u8 = 2;

/// Of a work's first piece.
fn part(range: Range<usize>) -> Part {
    Part { piece: 0, range }
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;

    /// The output of each function's kernels on the host's device, if there is a compiler for it.
    fn left() -> Vec<Resident> {
        let Ok(bench) = Bench::open(Some("host"), 0.01, 1) else {
            println!("skipped: no C compiler");
            return Vec::new();
        };
        let with = |case| {
            let mut resident = Resident::new(&bench, case, 100, 60_000).expect("memory");
            resident.copy_in().expect("copied in");
            resident.run().expect("kernels run");
            resident.copy_out().expect("copied out");
            resident
        };
        cases::ALL.map(with).into()
    }

    #[test]
    fn kernels_leave_what_the_cpu_makes() {
        for mut resident in left() {
            assert!(resident.count > 256 && resident.is_right());
            // Functions that write frames have changed some.
            let [before, behind] = [&resident.image, &resident.back].map(|piece| piece.as_deref());
            let (before, behind) = before.zip(behind).expect("both are back");
            let is_changed = |place: Range<usize>| before[place.clone()] != behind[place];
            assert!(!resident.writes_frames || resident.rooms(true).any(is_changed));
        }
    }

    #[test]
    fn one_work_leaves_the_same() {
        for mut resident in left() {
            resident.back.as_mut().expect("it is back").fill(0);
            resident.launch().expect("it is done");
            assert!(resident.is_right());
        }
    }

    #[test]
    fn errors_are_detected() {
        for mut resident in left() {
            let last = resident.rooms(resident.writes_frames).last();
            // Of a packet: its frame, or its verdict.
            let verdict = resident.arena.len() + column("COLUMN_VERDICT_OF") * resident.rows.rows();
            let at = last.map_or(verdict, |room| room.start + 64);
            resident.back.as_mut().expect("it is back")[at] ^= 1;
            assert!(!resident.is_right());
        }
    }

    #[test]
    fn a_wrong_finding_is_seen() {
        let mut with_findings = left();
        with_findings.retain(|resident| resident.word.is_some());
        for mut resident in with_findings {
            // The first number of the first list.
            let at = resident.found_at() + FoundLists::HEAD_LEN + 4;
            resident.back.as_mut().expect("it is back")[at] ^= 1;
            assert!(!resident.is_right());
        }
    }
}
