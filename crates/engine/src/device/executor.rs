//! What a launch is made of: copies to the mirror, the kernels of a segment, and copies back. One executor a lane and stage.
//!
//! A launch goes in two works. The first copies tables and rooms to the mirror, runs the kernels, and copies the tables back beside
//! the host's. The second, where the segment writes frames, copies rooms back over the host's.

use std::sync::Arc;

use warpline_device::{Buffer, Device, Failure, Part, Piece, Refused, Slice, Step, Stream, Work};
use warpline_packet::Batch;

use super::Loaded;
use super::mirror::Mirror;
use crate::stage::Flight;
use crate::stats::Transfers;
use crate::sys::lane_memory::lend_rooms;

/// Bytes by which a launch's list names a packet: where its table lies, and the row.
pub(super) const NAME_LEN: usize = 8;

/// A function of a segment.
pub(crate) struct Placed {
    /// Its place in the chain.
    pub(crate) place: u8,
    pub(crate) loaded: Arc<Loaded>,
}

/// What an executor is dimensioned for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimensions {
    pub(crate) streams: usize,
    /// Launches that are under way or wait for their turn to go on.
    pub(crate) lots: usize,
    /// Batches of a launch.
    pub(crate) batches: usize,
    /// Packets of a batch.
    pub(crate) slots: usize,
    /// Bytes of a batch's table.
    pub(crate) table_len: usize,
}

/// See the module.
pub(crate) struct Executor {
    segment: Vec<Placed>,
    /// Whether any of them writes frames.
    writes_frames: bool,
    mirror: Mirror,
    table_len: usize,
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

/// What a launch needs of its own until it is released.
struct Lot {
    /// Names of packets, on the host and on the device. Not here while a stream has it.
    list: Option<Piece>,
    list_there: Buffer,
    /// What the device left of the tables. Not here while a stream has it.
    staged: Option<Piece>,
    /// The tables as they were when the launch began: a stream that was given up may read them when they are used again. Not
    /// here while a stream has it.
    tables: Option<Piece>,
}

impl Executor {
    /// For `segment` on `device`, where `mirror` is.
    ///
    /// # Errors
    /// What the device says: it may have too little memory.
    pub(crate) fn new(
        device: &dyn Device,
        mirror: Mirror,
        segment: Vec<Placed>,
        writes_frames: bool,
        by: Dimensions,
    ) -> Result<Self, Failure> {
        let names_len = by.batches * by.slots * NAME_LEN;
        let own =
            |_| Ok(Own { stream: Some(device.stream()?), busy_with: None, spare: Work::default() });
        let lot = |_| {
            Ok(Lot {
                list: Some(device.host_memory(names_len)?),
                list_there: device.allocate(names_len)?,
                staged: Some(device.host_memory(by.batches * by.table_len)?),
                tables: Some(device.host_memory(by.batches * by.table_len)?),
            })
        };
        Ok(Self {
            segment,
            writes_frames,
            mirror,
            table_len: by.table_len,
            streams: (0..by.streams).map(own).collect::<Result<_, Failure>>()?,
            lots: (0..by.lots).map(lot).collect::<Result<_, Failure>>()?,
            transfers: Transfers::default(),
        })
    }

    /// Why nothing may be started on the lane's mirror any more, where that is so.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.mirror.failed.get().map(String::as_str)
    }

    /// Starts nothing on the lane's mirror from here on, by any stage: what was given up may still use it.
    pub(crate) fn fail(&self, why: String) {
        let _ = self.mirror.failed.set(why);
        self.segment.iter().for_each(|placed| placed.loaded.set_given_up());
    }

    /// Whether frames have to be copied back.
    pub(crate) fn writes_frames(&self) -> bool {
        self.writes_frames
    }

    /// The functions, for those that are reloaded.
    pub(crate) fn segment_mut(&mut self) -> &mut [Placed] {
        &mut self.segment
    }

    /// Starts the first work of a launch, with what `lot` has. The batches are left alone until it is done or given up. Says whether
    /// there was anything to do.
    ///
    /// # Errors
    /// What the device says; then nothing is under way.
    pub(crate) fn start(&mut self, lot: usize, flights: &[Flight]) -> Result<bool, Failure> {
        let own = &mut self.lots[lot];
        let pieces = (own.list.take(), own.staged.take(), own.tables.take());
        let (Some(mut list), Some(staged), Some(mut tables)) = pieces else {
            return Err(Failure::Refused("the launch before it has its memory".into()));
        };
        let count = name_packets(&mut list, flights);
        if count == 0 {
            (own.list, own.staged, own.tables) = (Some(list), Some(staged), Some(tables));
            return Ok(false);
        }
        let names = own.list_there.at(0..NAME_LEN * count as usize);
        let on = self.idle()?;
        let mut work = std::mem::take(&mut self.streams[on].spare);
        let from = Part { piece: LIST, range: 0..names.len() };
        for (flight, to) in flights.iter().zip(tables.chunks_exact_mut(self.table_len)) {
            flight.batch.copy_table(to);
        }
        work.pieces.extend([list, staged, tables]);
        work.steps.push(Step::CopyIn { from, to: names.clone() });
        for (index, flight) in flights.iter().enumerate() {
            let (at, to) = (index * self.table_len, flight.batch.table_place());
            let from = Part { piece: TABLES, range: at..at + self.table_len };
            work.steps.push(Step::CopyIn { from, to: self.mirror.buffer.at(to) });
            lend(&mut work, &self.mirror, &flight.batch)?;
        }
        self.add_kernels(&mut work, &names, count);
        for (index, flight) in flights.iter().enumerate() {
            let at = index * self.table_len;
            let to = Part { piece: STAGED, range: at..at + self.table_len };
            let from = self.mirror.buffer.at(flight.batch.table_place());
            work.steps.push(Step::CopyOut { from, to });
        }
        self.submit(on, lot, work)?;
        self.transfers.launches += 1;
        Ok(true)
    }

    fn idle(&self) -> Result<usize, Failure> {
        let is_idle = |own: &Own| own.busy_with.is_none() && own.stream.is_some();
        let idle = self.streams.iter().position(is_idle);
        idle.ok_or_else(|| Failure::Refused("no stream is idle".into()))
    }

    /// The kernels of the segment, one after the other, for the packets that `names` names.
    fn add_kernels(&self, work: &mut Work, names: &Slice, count: u32) {
        for Placed { place, loaded } in &self.segment {
            for kernel in &loaded.kernels {
                let mirror = self.mirror.buffer.whole();
                let launch = loaded.launch(kernel, mirror, names.clone(), count, *place);
                work.steps.push(Step::Launch(launch));
            }
        }
    }

    /// Starts the second work of the launch of `lot`: frames are copied back.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn copy_back(&mut self, lot: usize, flights: &[Flight]) -> Result<(), Failure> {
        let on = self.idle()?;
        let mut work = std::mem::take(&mut self.streams[on].spare);
        let Work { pieces, steps } = &mut work;
        for flight in flights {
            lend_rooms(&self.mirror.region, &flight.batch, |piece, place| {
                let to = Part { piece: pieces.len(), range: 0..place.len() };
                pieces.push(piece);
                steps.push(Step::CopyOut { from: self.mirror.buffer.at(place), to });
            });
        }
        self.submit(on, lot, work)
    }

    fn submit(&mut self, on: usize, lot: usize, work: Work) -> Result<(), Failure> {
        let (mut there, mut here) = (0, 0);
        for step in &work.steps {
            match step {
                Step::CopyIn { to, .. } => there += to.len() as u64,
                Step::CopyOut { from, .. } => here += from.len() as u64,
                Step::Launch(_) => {}
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
        Ok(())
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
            (lot.list, lot.staged, lot.tables) = (pieces.next(), pieces.next(), pieces.next());
        }
        drop(pieces);
        own.spare = work;
    }

    /// What the device left of the table of batch `index` of the launch of `lot`.
    pub(crate) fn staged(&self, lot: usize, index: usize) -> &[u8] {
        let at = index * self.table_len;
        let staged = self.lots[lot].staged.as_deref().unwrap_or(&[]);
        staged.get(at..at + self.table_len).unwrap_or(&[])
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

/// Places of a first work's own pieces.
const LIST: usize = 0;
const STAGED: usize = 1;
const TABLES: usize = 2;

/// Writes the names of the packets that are still forwarded. Gives how many there are.
fn name_packets(list: &mut [u8], flights: &[Flight]) -> u32 {
    let mut names = list.chunks_exact_mut(NAME_LEN);
    let mut count = 0;
    for Flight { batch, .. } in flights {
        let table = batch.table_place().start as u32;
        for row in (0..batch.len()).filter(|&row| batch.is_forward(row)) {
            let Some(name) = names.next() else { return count };
            name[..4].copy_from_slice(&table.to_ne_bytes());
            name[4..].copy_from_slice(&(row as u32).to_ne_bytes());
            count += 1;
        }
    }
    count
}

/// Lends a batch's rooms to `work`, which copies them to the mirror.
fn lend(work: &mut Work, mirror: &Mirror, batch: &Batch) -> Result<(), Failure> {
    let Work { pieces, steps } = work;
    let copy = |piece: Piece, place: core::ops::Range<usize>| {
        let from = Part { piece: pieces.len(), range: 0..place.len() };
        pieces.push(piece);
        steps.push(Step::CopyIn { from, to: mirror.buffer.at(place) });
    };
    match lend_rooms(&mirror.region, batch, copy) {
        true => Ok(()),
        false => Err(Failure::Refused("a batch of another arena".into())),
    }
}
