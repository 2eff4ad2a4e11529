//! What a launch is made of: copies to the mirror, the kernels of a segment, and copies back. One executor a lane and stage.
//!
//! A launch goes in two works. The first copies tables, with fields in columns behind them, and rooms to the device, runs the kernels, and
//! copies tables and columns back beside the host's. The second, where whole frames come back, copies rooms back over the host's.
//! What of these there is the plan decides ([`Crossings`]).
//!
//! On a device that works in place there is one work, of kernels alone. They are given the rooms themselves, and tables of the
//! launch's own in the same memory.

use std::ops::Range;
use std::sync::Arc;

use warpline_device::{Argument, Buffer, Failure, Part, Piece, Refused, Slice, Step, Stream, Work};

use warpline_packet::{Batch, Binding, Columns, FieldSet, FoundLists, ReadWrite};

use super::crossings::{Crossings, RoomsThere};
use super::lot::{Dimensions, Lot, NAME_LEN, There};
use super::mirror::Mirror;
use super::prediction::{FrameBytes, Prediction};
use super::{LaunchData, Loaded, OnDevice};
use crate::stage::Flight;
use crate::stats::Transfers;
use crate::sys::lane_memory::lend_rooms;

/// A function of a segment.
pub(crate) struct Member {
    /// Its position in the chain.
    pub(crate) position: u8,
    /// Whether the CPU leaves frames of packets that it flagged as they are.
    pub(crate) keeps_flagged: bool,
    pub(crate) loaded: Arc<Loaded>,
}

/// See the module.
pub(crate) struct Executor {
    segment: Vec<Member>,
    /// Whether any of them writes frames.
    writes_frames: bool,
    /// What of frames crosses, the columns in which fields do, and the kernels that put them into frames and take them from there.
    crossings: Crossings,
    fields: Binding,
    copier: Option<Arc<Loaded>>,
    prediction: Prediction,
    /// What of tables is there before kernels, and what of them is taken back.
    read: Columns,
    written: Columns,
    mirror: Mirror,
    by: Dimensions,
    streams: Vec<Own>,
    lots: Vec<Lot>,
    pub(crate) transfers: Transfers,
}

/// A stream.
struct Own {
    /// Gone when it was given up.
    stream: Option<Box<dyn Stream>>,
    /// The lot whose work it does.
    busy_with: Option<usize>,
    /// Used again for the next work.
    spare: Work,
}

impl Executor {
    /// For `segment`, whose functions together have this `access`, on the device of `on`, where `mirror` is. `fields` are the columns of
    /// `crossings`.
    ///
    /// # Errors
    /// What the device says: it may have too little memory.
    pub(crate) fn new(
        on: &OnDevice,
        mirror: Mirror,
        (segment, copier): (Vec<Member>, Option<Arc<Loaded>>),
        access: ReadWrite,
        (crossings, fields): (Crossings, Binding),
        by: Dimensions,
    ) -> Result<Self, Failure> {
        let own =
            |_| Ok(Own { stream: Some(on.stream()?), busy_with: None, spare: Work::default() });
        let lot = |_| Lot::new(&*on.device, &mirror, &by);
        Ok(Self {
            segment,
            prediction: Prediction::of(&crossings, &fields),
            crossings,
            fields,
            copier,
            writes_frames: !(access.writes & FieldSet::FRAME).is_empty(),
            read: Columns::read_by(access),
            written: Columns::written_by(access.writes),
            streams: (0..by.streams).map(own).collect::<Result<_, Failure>>()?,
            lots: (0..by.lots).map(lot).collect::<Result<_, Failure>>()?,
            transfers: Transfers::default(),
            mirror,
            by,
        })
    }

    /// Why nothing may be started on the lane's mirror any more, where that is so.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.mirror.failed.get().map(String::as_str)
    }

    /// Starts nothing on the lane's mirror from here on, by any stage: what was given up may still use it.
    pub(crate) fn fail(&self, why: String) {
        let _ = self.mirror.failed.set(why);
        self.segment.iter().for_each(|member| member.loaded.set_given_up());
    }

    /// Whether frames have to be copied back.
    pub(crate) fn copies_back(&self) -> bool {
        self.crossings.rooms_back && !self.is_in_place()
    }

    /// Notes in a batch of a launch that is done which packets launches behind find in the mirror.
    pub(crate) fn note_mirrored(&self, batch: &mut Batch) {
        if let Some(last) = self.segment.last()
            && self.crossings.keeps_mirror
            && !self.is_in_place()
        {
            batch.set_mirrored(self.mirror.number, last.position, last.keeps_flagged);
        }
    }

    /// Fields of frames that come back in columns, and where those lie.
    pub(crate) fn fields_back(&self) -> (&Binding, FieldSet) {
        (&self.fields, self.crossings.back)
    }

    /// Whether kernels work on the packets themselves.
    pub(crate) fn is_in_place(&self) -> bool {
        self.mirror.copy.is_none()
    }

    /// Whether kernels that did not end well may have left frames half done.
    pub(crate) fn spoils_frames(&self) -> bool {
        self.writes_frames && self.is_in_place()
    }

    /// The functions, for those that are reloaded.
    pub(crate) fn segment_mut(&mut self) -> &mut [Member] {
        &mut self.segment
    }

    /// Starts the first work of a launch, with what `lot` has. The batches are left alone until it is done or given up. Says whether
    /// there was anything to do.
    ///
    /// # Errors
    /// What the device says; then nothing is under way.
    pub(crate) fn start(&mut self, lot: usize, flights: &[Flight]) -> Result<bool, Failure> {
        let on = self.idle()?;
        let none = || Failure::Refused("the launch before it has its memory".into());
        let (fields, there) = (&self.fields, self.crossings.there);
        let gather = |batch: &Batch, to: &mut [u8]| {
            if !there.is_empty() {
                batch.gather(fields, there, to);
            }
        };
        let own = &mut self.lots[lot];
        let count = own.fill(flights, self.read, self.by.stride(), gather).ok_or_else(none)?;
        if count == 0 {
            return Ok(false);
        }
        let mut work = std::mem::take(&mut self.streams[on].spare);
        let has_findings = own.findings.is_some();
        let pieces = [own.list.take(), own.tables.take(), own.findings.take()];
        work.pieces.extend(pieces.into_iter().flatten());
        let frames = match self.mirror.copy {
            Some(_) => self.add_copied(&mut work, lot, flights, count)?,
            None => self.add_in_place(&mut work, flights, count, has_findings)?,
        };
        let predicted = self.prediction.of_launch(flights);
        let all = self.submit(on, lot, work)?;
        if !self.is_in_place() {
            predicted.count(&mut self.transfers, all, frames);
        }
        self.transfers.launches += 1;
        Ok(true)
    }

    /// What kernels do with packets that are copied to the mirror, with what is copied before and behind. Gives the bytes of frames among
    /// these.
    fn add_copied(
        &self,
        work: &mut Work,
        lot: usize,
        flights: &[Flight],
        count: u32,
    ) -> Result<FrameBytes, Failure> {
        let (There::Copied(list, findings), Some(copy)) =
            (&self.lots[lot].there, &self.mirror.copy)
        else {
            return Err(Failure::Refused("the launch has no buffers".into()));
        };
        let Parts { names, found, findings_room } = self.parts(count);
        let Crossings { there, back, .. } = self.crossings;
        let to = list.at(names.range.clone());
        work.steps.push(Step::CopyIn { from: names, to: to.clone() });
        work.steps.extend(findings.as_ref().map(clear_findings));
        let findings = findings.as_ref().map(|there| there.at(found.range.clone()));
        let copy_in = |from, to| Step::CopyIn { from, to };
        let fields_there = self.copy_tables(work, lot, flights, (self.read, there), copy_in);
        let rooms_there = self.lend(work, flights)?;
        let on = LaunchData {
            arena: Argument::Writes(copy.buffer.whole()),
            packets: Argument::Reads(to),
            findings: findings.clone().map(Argument::Writes),
            findings_room,
            count,
        };
        self.add_copies(work, &on, PUT, there);
        self.add_kernels(work, &on);
        self.add_copies(work, &on, TAKE, back);
        let copy_out = |to, from| Step::CopyOut { from, to };
        let fields_back = self.copy_tables(work, lot, flights, (self.written, back), copy_out);
        work.steps.extend(findings.map(|from| Step::CopyOut { from, to: found }));
        Ok(FrameBytes { fields_there, rooms_there, fields_back })
    }

    /// What kernels do with packets in place. Nothing is copied.
    fn add_in_place(
        &self,
        work: &mut Work,
        flights: &[Flight],
        count: u32,
        has_findings: bool,
    ) -> Result<FrameBytes, Failure> {
        self.lend(work, flights)?;
        let Parts { names, found, findings_room } = self.parts(count);
        let on = LaunchData {
            arena: Argument::InPlace(self.mirror.region.clone()),
            packets: Argument::HostReads(names),
            findings: has_findings.then_some(Argument::HostWrites(found)),
            findings_room,
            count,
        };
        self.add_kernels(work, &on);
        Ok(FrameBytes::default())
    }

    /// Of a launch of `count` packets.
    fn parts(&self, count: u32) -> Parts {
        let findings_room = self.by.findings_room(count);
        let found_len = FoundLists::HEAD_LEN + 4 * findings_room as usize;
        Parts {
            names: Part { piece: LIST, range: 0..NAME_LEN * count as usize },
            found: Part { piece: FINDINGS, range: 0..found_len },
            findings_room,
        }
    }

    fn idle(&self) -> Result<usize, Failure> {
        let is_idle = |own: &Own| own.busy_with.is_none() && own.stream.is_some();
        let idle = self.streams.iter().position(is_idle);
        idle.ok_or_else(|| Failure::Refused("no stream is idle".into()))
    }

    /// Lends rooms of the packets to `work`: all, for it to work in them in place, or those that it is to copy to the mirror. Gives
    /// their bytes.
    fn lend(&self, work: &mut Work, flights: &[Flight]) -> Result<u64, Failure> {
        let without = match self.crossings.rooms_there {
            _ if self.is_in_place() => None,
            RoomsThere::None => return Ok(0),
            RoomsThere::Missing => Some(self.mirror.number),
            RoomsThere::All => None,
        };
        let Work { pieces, steps } = work;
        let mut bytes = 0;
        let mut copy = |piece: Piece, range: Range<usize>| {
            bytes += range.len() as u64;
            if let Some(mirror) = &self.mirror.copy {
                let from = Part { piece: pieces.len(), range: 0..range.len() };
                steps.push(Step::CopyIn { from, to: mirror.buffer.at(range) });
            }
            pieces.push(piece);
        };
        let mut batches = flights.iter().map(|flight| &flight.batch);
        match batches.all(|batch| lend_rooms(&self.mirror.region, batch, without, &mut copy)) {
            true => Ok(bytes),
            false => Err(Failure::Refused("a batch of another arena".into())),
        }
    }

    /// The kernels of the segment, one after the other.
    fn add_kernels(&self, work: &mut Work, on: &LaunchData) {
        for Member { position, loaded, .. } in &self.segment {
            let call = |kernel| Step::Call(loaded.call(kernel, on, *position));
            work.steps.extend(loaded.kernels.iter().map(call));
        }
    }

    /// A kernel that copies `fields` between columns and the mirror, where there are such.
    fn add_copies(&self, work: &mut Work, on: &LaunchData, kernel: usize, fields: FieldSet) {
        if let Some(copier) = self.copier.as_ref().filter(|_| !fields.is_empty()) {
            work.steps.push(Step::Call(copier.call(&copier.kernels[kernel], on, 0)));
        }
    }

    /// Copies columns of the table, and of fields of frames, between the launch's own memory and where its kernels find them. Gives the
    /// bytes of the latter.
    fn copy_tables(
        &self,
        work: &mut Work,
        lot: usize,
        flights: &[Flight],
        (columns, fields): (Columns, FieldSet),
        step: impl Fn(Part, Slice) -> Step,
    ) -> u64 {
        let Some(copy) = &self.mirror.copy else { return 0 };
        let mut field_bytes = 0;
        for (index, Flight { batch, .. }) in flights.iter().enumerate() {
            let here = index * self.by.stride();
            let there = self.lots[lot].tables_at + here;
            let mut add = |bytes: Range<usize>| {
                let own = Part { piece: TABLES, range: here + bytes.start..here + bytes.end };
                work.steps.push(step(own, copy.buffer.at(there + bytes.start..there + bytes.end)));
            };
            batch.stretches(columns, &mut add);
            batch.field_stretches(&self.fields, fields, |bytes| {
                field_bytes += bytes.len() as u64;
                add(bytes);
            });
        }
        field_bytes
    }

    /// Starts the second work of the launch of `lot`: frames are copied back.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn copy_back(&mut self, lot: usize, flights: &[Flight]) -> Result<(), Failure> {
        let on = self.idle()?;
        let Some(mirror) = &self.mirror.copy else { return Ok(()) };
        let mut work = std::mem::take(&mut self.streams[on].spare);
        let Work { pieces, steps } = &mut work;
        for flight in flights {
            lend_rooms(&self.mirror.region, &flight.batch, None, |piece, range| {
                let to = Part { piece: pieces.len(), range: 0..range.len() };
                pieces.push(piece);
                steps.push(Step::CopyOut { from: mirror.buffer.at(range), to });
            });
        }
        let [_, back] = self.submit(on, lot, work)?;
        self.transfers.frames_to_host_bytes += back;
        Ok(())
    }

    /// Gives the bytes that it copies, there and back.
    fn submit(&mut self, on: usize, lot: usize, work: Work) -> Result<[u64; 2], Failure> {
        let (mut there, mut here) = (0, 0);
        for step in &work.steps {
            match step {
                Step::CopyIn { to, .. } => there += to.len() as u64,
                Step::CopyOut { from, .. } => here += from.len() as u64,
                Step::Call(_) => {}
            }
        }
        let own = &mut self.streams[on];
        let Some(stream) = &mut own.stream else {
            return Err(Failure::Lost("its stream was given up".into()));
        };
        own.busy_with = Some(lot);
        if let Err(Refused { work, why }) = stream.submit(work) {
            self.take_back(on, work);
            return Err(why);
        }
        self.transfers.to_device_bytes += there;
        self.transfers.to_host_bytes += here;
        Ok([there, here])
    }

    /// A work that is over, the lot that it was done with, and what came of it.
    pub(crate) fn poll(&mut self) -> Option<(usize, Result<(), Failure>)> {
        for on in 0..self.streams.len() {
            let own = &mut self.streams[on];
            if let Some(lot) = own.busy_with
                && let Some(done) = own.stream.as_mut().and_then(|stream| stream.poll())
            {
                self.take_back(on, done.work);
                return Some((lot, done.outcome));
            }
        }
        None
    }

    /// Puts its own pieces of a work that is over back, drops what was lent, and keeps the rest for the next.
    fn take_back(&mut self, on: usize, mut work: Work) {
        let own = &mut self.streams[on];
        work.steps.clear();
        let mut pieces = work.pieces.drain(..);
        if let Some(lot) = own.busy_with.take().map(|lot| &mut self.lots[lot])
            && lot.list.is_none()
        {
            (lot.list, lot.tables) = (pieces.next(), pieces.next());
            lot.findings = pieces.next().filter(|_| self.by.has_findings());
        }
        drop(pieces);
        own.spare = work;
    }

    /// What the device left of the table of batch `index` of the launch of `lot`.
    pub(crate) fn returned(&self, lot: usize, index: usize) -> &[u8] {
        self.with_columns(lot, index).get(..self.by.table_len).unwrap_or(&[])
    }

    /// The same with the columns of fields behind it.
    pub(crate) fn with_columns(&self, lot: usize, index: usize) -> &[u8] {
        let at = index * self.by.stride();
        let returned = self.lots[lot].tables.as_deref().unwrap_or(&[]);
        returned.get(at..at + self.by.stride()).unwrap_or(&[])
    }

    /// What kernels found in the packets of the launch of `lot`, where the segment's function keeps such: it is alone there.
    pub(crate) fn found(&self, lot: usize) -> Option<FoundLists<'_>> {
        let word = self.segment.iter().find_map(|member| member.loaded.findings)?;
        Some(FoundLists::new(self.lots[lot].findings.as_deref()?, word))
    }

    /// Gives the stream up that has work of `lot`, with what it has: it may never be done.
    pub(crate) fn give_up(&mut self, lot: usize) {
        for own in &mut self.streams {
            if own.busy_with == Some(lot) {
                (own.stream, own.busy_with) = (None, None);
            }
        }
    }
}

/// What of a first work's own pieces is of a launch.
struct Parts {
    names: Part,
    found: Part,
    /// For how many numbers there is room.
    findings_room: u32,
}

/// Numbers of a first work's own pieces.
const LIST: usize = 0;
const TABLES: usize = 1;
const FINDINGS: usize = 2;

/// Numbers of the kernels that copy fields.
const PUT: usize = 0;
const TAKE: usize = 1;

/// Copies the head of a launch's findings, which says that there are none.
fn clear_findings(there: &Buffer) -> Step {
    let head = 0..FoundLists::HEAD_LEN;
    Step::CopyIn { from: Part { piece: FINDINGS, range: head.clone() }, to: there.at(head) }
}
