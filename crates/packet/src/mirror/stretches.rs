//! The bytes of a batch's frames for copies: ranges of memory with the rooms of many packets. In
//! rooms of equal length only the bytes around frames cross ([`Stretch`]).

use core::ops::Range;

use super::{Returned, mirror_bit, returned::moves};
use crate::arena::Mirrored;
use crate::{Batch, FieldSet};

/// A crossing begins and ends at multiples of this in a frame's room: a kernel's item reads so many
/// bytes at once.
const EDGE: usize = 16;

/// Bytes that a copy more must save. A driver takes about a microsecond for it, in which a link of
/// sixteen lanes of PCIe 4 moves so many.
const COPY_WORTH: usize = 16 << 10;

/// Stretches of memory that are open at once: packets from outside and packets that functions made
/// lie in different ones.
const OPEN: usize = 2;

/// Memory of packets that one copy takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// From the first byte to the last.
    pub bytes: Range<usize>,
    /// Where only rows of it cross: bytes of each, and from the start of one to that of the next.
    /// The first begins where the bytes do, and the last ends there.
    pub rows: Option<(usize, usize)>,
}

impl Stretch {
    /// All of `bytes`.
    pub fn plain(bytes: Range<usize>) -> Self {
        Self { bytes, rows: None }
    }

    /// Bytes that cross.
    pub fn crossing_len(&self) -> usize {
        match self.rows {
            Some((width, pitch)) => ((self.bytes.len() - width) / pitch + 1) * width,
            None => self.bytes.len(),
        }
    }
}

/// The bytes of a room of `room_len` that cross with a frame of `len` bytes at byte `start` of it.
pub fn frame_extent(room_len: usize, start: usize, len: usize) -> Range<usize> {
    let end = (start + len.max(1)).next_multiple_of(EDGE).min(room_len);
    (start - start % EDGE).min(end)..end
}

/// Where a frame lies that was at `frame` of its room and got so many bytes at head and tail; fewer
/// where they are below 0.
pub fn lengthened(room_len: usize, frame: Range<usize>, [head, tail]: [i32; 2]) -> Range<usize> {
    let (start, end) = (frame.start as i64 - i64::from(head), frame.end as i64 + i64::from(tail));
    let end = end.clamp(0, room_len as i64);
    start.clamp(0, end) as usize..end as usize
}

/// Bytes that cross of each of many rooms of equal length, where the frame with its edges takes
/// `extent_len`. A device copies one range faster than rows that leave out less than a
/// thirty-second.
pub fn crossing_width(room_len: usize, extent_len: usize) -> usize {
    if room_len.saturating_sub(extent_len) * 32 < room_len { room_len } else { extent_len }
}

/// Rooms of equal length, one after the other.
#[derive(Clone, Debug)]
struct Run {
    /// The first room.
    at: usize,
    pitch: usize,
    count: usize,
    /// Where what crosses begins and ends in a room, at the widest.
    extent: Range<usize>,
}

impl Run {
    fn new(room: Range<usize>, extent: Range<usize>) -> Self {
        Self { at: room.start, pitch: room.len(), count: 1, extent }
    }

    fn end(&self) -> usize {
        self.at + self.pitch * self.count
    }

    fn bytes(&self) -> Range<usize> {
        self.at + self.extent.start..self.end() - self.pitch + self.extent.end
    }

    /// Bytes that rows save.
    fn saves(&self) -> usize {
        match self.count {
            1 => 0,
            _ => self.count * (self.pitch - crossing_width(self.pitch, self.extent.len())),
        }
    }

    fn stretch(&self) -> Stretch {
        let rows = (self.saves() > 0).then_some((self.extent.len(), self.pitch));
        Stretch { bytes: self.bytes(), rows }
    }
}

/// A stretch that may go on: rooms of any lengths, and a run after them.
#[derive(Clone, Debug)]
struct Open {
    mixed: Option<Range<usize>>,
    run: Run,
}

impl Open {
    fn new(room: Range<usize>, extent: Range<usize>) -> Self {
        Self { mixed: None, run: Run::new(room, extent) }
    }

    fn follow(
        &mut self,
        room: Range<usize>,
        extent: Range<usize>,
        visit: &mut impl FnMut(Stretch),
    ) {
        let run = &mut self.run;
        if run.pitch == room.len() {
            run.count += 1;
            run.extent = run.extent.start.min(extent.start)..run.extent.end.max(extent.end);
            return;
        }
        let next = Self::new(room, extent);
        if run.saves() >= COPY_WORTH {
            return core::mem::replace(self, next).close(visit);
        }
        let bytes = run.bytes();
        let start = self.mixed.as_ref().map_or(bytes.start, |mixed| mixed.start);
        *self = Self { mixed: Some(start..bytes.end), ..next };
    }

    fn close(self, visit: &mut impl FnMut(Stretch)) {
        let (bytes, saves) = (self.run.bytes(), self.run.saves());
        match self.mixed {
            Some(mixed) if saves < COPY_WORTH => visit(Stretch::plain(mixed.start..bytes.end)),
            mixed => {
                mixed.into_iter().for_each(|mixed| visit(Stretch::plain(mixed)));
                visit(self.run.stretch());
            }
        }
    }
}

impl Batch {
    /// Visits the ranges to copy for the frames of packets that are still forwarded, without bytes
    /// of other packets: for all of them, or for those that the mirror of that number lacks.
    pub fn stretches(&self, without: Option<u8>, visit: impl FnMut(Stretch)) {
        let bit = without.map_or(0, mirror_bit);
        let mirrored = self.table.column(Mirrored);
        let rows = self.forward_rows().filter(|&row| mirrored[row] & bit == 0);
        self.stretches_of(rows.map(|row| (row, self.extent(row))), visit);
    }

    /// The same for frames on their way back from kernels that write the fields `writes`, wherever
    /// these left them. `returned` was looked at.
    pub fn stretches_back(
        &self,
        returned: &Returned<'_>,
        writes: FieldSet,
        visit: impl FnMut(Stretch),
    ) {
        let is_moved = moves(writes);
        let rows = returned.rows.each().filter(|&(row, _)| self.is_forward(row));
        let extent = |(row, at)| {
            let own = self.extent(row);
            if !is_moved {
                return (row, own);
            }
            let (start, len) = returned.frame(at);
            let left = frame_extent(self.table.room(row).len(), start.into(), len as usize);
            (row, own.start.min(left.start)..own.end.max(left.end))
        };
        self.stretches_of(rows.map(extent), visit);
    }

    /// Bytes of [`Batch::stretches`] of all.
    pub fn frames_len(&self) -> usize {
        let mut sum = 0;
        self.stretches(None, |stretch| sum += stretch.crossing_len());
        sum
    }

    /// Bytes of [`Batch::stretches_back`] of all, if kernels make a frame of `len` bytes longer by
    /// `lengthens(len)`, at head and tail.
    pub fn frames_back_len(&self, lengthens: impl Fn(usize) -> [i32; 2]) -> usize {
        let extent = |row| {
            let (own, room) = (self.extent(row), self.table.room(row).len());
            let (start, len) = (self.table.start(row), self.table.frame_len(row));
            let left = lengthened(room, start..start + len, lengthens(len));
            let left = frame_extent(room, left.start, left.len());
            (row, own.start.min(left.start)..own.end.max(left.end))
        };
        let mut sum = 0;
        self.stretches_of(self.forward_rows().map(extent), |stretch| sum += stretch.crossing_len());
        sum
    }

    fn extent(&self, row: usize) -> Range<usize> {
        let table = &self.table;
        frame_extent(table.room(row).len(), table.start(row), table.frame_len(row))
    }

    fn stretches_of(
        &self,
        rows: impl Iterator<Item = (usize, Range<usize>)>,
        mut visit: impl FnMut(Stretch),
    ) {
        let mut open: [Option<Open>; OPEN] = Default::default();
        let (mut oldest, mut newest) = (0, 0);
        for (row, extent) in rows.filter(|(_, extent)| !extent.is_empty()) {
            let room = self.table.room(row);
            let follows =
                |open: &Option<Open>| open.as_ref().is_some_and(|one| one.run.end() == room.start);
            // Mostly it follows the one before it.
            let at = match follows(&open[newest]) {
                true => Some(newest),
                false => open.iter().position(follows),
            };
            newest = at.unwrap_or(oldest);
            match at.and_then(|at| open[at].as_mut()) {
                Some(one) => one.follow(room, extent, &mut visit),
                None => {
                    let done = open[oldest].replace(Open::new(room, extent));
                    oldest = (oldest + 1) % OPEN;
                    done.into_iter().for_each(|one| one.close(&mut visit));
                }
            }
        }
        open.into_iter().flatten().for_each(|one| one.close(&mut visit));
    }
}
