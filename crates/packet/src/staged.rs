//! Fields of frames in columns of their own ([`Binding`]), for devices without the frames: gathered
//! from frames, and put back.
//!
//! These columns follow those of the launch's table. Positions in frames are found as for the
//! accessors. Consecutive frames mostly have their headers in the same places, which are then found
//! once.

use core::ops::Range;

use crate::arena::{HeadersOf, Link};
use crate::{Batch, BatchRows, Binding, FieldSet, Headers, Packet, StagedColumn};

/// Rows whose frames are found together.
const BLOCK: usize = 64;

/// Most columns that a table may have after its own.
const COLUMNS_MAX: usize = 48;

/// Where a frame's fields lie in it and in their columns.
struct Places {
    /// Rows that a column has.
    rows: usize,
    /// Headers and link of the frame that they were found for.
    of: Option<(Headers, u16)>,
    found: [StagedField; COLUMNS_MAX],
    len: usize,
}

/// Where a field lies in a frame, and where its column begins.
#[derive(Clone, Copy, Default)]
struct StagedField {
    at: u16,
    len: u8,
    width: u8,
    start: u32,
}

impl StagedField {
    /// Copies the field of consecutive frames to its column, from row `at` on. A frame that lacks
    /// it leaves its cell.
    fn gather(&self, frames: &[&[u8]], at: usize, to: &mut [u8]) {
        match self.len {
            1 => self.gather_each::<1>(frames, at, to),
            2 => self.gather_each::<2>(frames, at, to),
            4 => self.gather_each::<4>(frames, at, to),
            6 => self.gather_each::<6>(frames, at, to),
            16 => self.gather_each::<16>(frames, at, to),
            _ => {
                for (row, frame) in (at..).zip(frames) {
                    let cell = to.get_mut(self.in_column(row));
                    if let (Some(from), Some(to)) = (frame.get(self.in_frame()), cell) {
                        to.copy_from_slice(from);
                    }
                }
            }
        }
    }

    /// The same for one of `LEN` bytes.
    #[inline(always)]
    fn gather_each<const LEN: usize>(&self, frames: &[&[u8]], at: usize, to: &mut [u8]) {
        let (width, first) = (usize::from(self.width), self.in_column(at).start);
        let Some(cells) = to.get_mut(first..first + width * frames.len()) else { return };
        for (frame, cell) in frames.iter().zip(cells.chunks_exact_mut(width.max(1))) {
            let from = frame.get(usize::from(self.at)..).and_then(<[u8]>::first_chunk::<LEN>);
            if let (Some(from), Some(cell)) = (from, cell.first_chunk_mut::<LEN>()) {
                *cell = *from;
            }
        }
    }

    fn in_frame(&self) -> Range<usize> {
        let at = usize::from(self.at);
        at..at + usize::from(self.len)
    }

    fn in_column(&self, row: usize) -> Range<usize> {
        let start = self.start as usize + usize::from(self.width) * row;
        start..start + usize::from(self.len)
    }
}

impl Places {
    /// None yet, in a table whose columns have `rows` rows.
    fn new(rows: usize) -> Self {
        let nowhere = StagedField { at: 0, len: 0, width: 0, start: 0 };
        Self { rows, of: None, found: [nowhere; COLUMNS_MAX], len: 0 }
    }

    /// Those of row `row` of `batch` that have columns among `columns`.
    fn of(
        &mut self,
        batch: &Batch,
        row: usize,
        columns: &[StagedColumn],
        fields: FieldSet,
    ) -> &[StagedField] {
        let headers = batch.table.column(HeadersOf)[row];
        let link = batch.table.column(Link)[row];
        if !self.of.is_some_and(|(own, on)| on == link && own.is_like(&headers)) {
            self.of = Some((headers, link));
            self.find(&batch.packet(row), columns, fields);
        }
        &self.found[..self.len]
    }

    fn find(&mut self, packet: &Packet<'_>, columns: &[StagedColumn], fields: FieldSet) {
        self.len = 0;
        let version = packet.headers().version;
        let own = columns.iter().filter(|one| fields.contains(one.field) && one.is_of(version));
        for column in own {
            let place = packet.locate(column.field);
            let place = place.filter(|place| place.len() <= column.width);
            if let (Some(place), Some(slot)) = (place, self.found.get_mut(self.len)) {
                let [at, len, width] = [place.start, place.len(), column.width];
                *slot = StagedField {
                    at: at as u16,
                    len: len as u8,
                    width: width as u8,
                    start: (column.before * self.rows) as u32,
                };
                self.len += 1;
            }
        }
    }
}

impl Batch {
    /// Copies `fields` of the frames of packets in `rows` to their columns in `to`, the launch's
    /// table. Cells of fields that a frame lacks stay as they are.
    pub fn gather(&self, binding: &Binding, fields: FieldSet, rows: BatchRows<'_>, to: &mut [u8]) {
        let mut places = Places::new(rows.rows);
        for (own, at) in rows.stretches(BLOCK) {
            let mut frames: [&[u8]; BLOCK] = [&[]; BLOCK];
            let all = frames.iter_mut().zip(own.clone());
            all.for_each(|(frame, row)| *frame = self.table.frame(row));
            let mut done = 0;
            while done < own.len() {
                // As many as have their headers in the same places, field by field.
                let first = own.start + done;
                let found = places.of(self, first, binding.columns(), fields);
                let count = self.like(first..own.end);
                for place in found {
                    place.gather(&frames[done..done + count], at + done, to);
                }
                done += count;
            }
        }
    }

    /// How many of these rows have headers in the places of the first one's; at least that one.
    fn like(&self, rows: Range<usize>) -> usize {
        let headers = &self.table.column(HeadersOf)[rows.clone()];
        let links = &self.table.column(Link)[rows.clone()];
        let (Some(first), Some(link)) = (headers.first(), links.first()) else { return 1 };
        let mut all = headers.iter().zip(links);
        let other = all.position(|(own, on)| on != link || !first.is_like(own));
        other.unwrap_or(rows.len())
    }

    /// Whether any of its packets has this IP version, for each of some; 0 stands for all packets.
    pub fn versions_present<const N: usize>(&self, versions: [u8; N]) -> [bool; N] {
        let headers = self.table.column(HeadersOf);
        versions
            .map(|version| version == 0 || headers.iter().any(|headers| headers.version == version))
    }

    /// Copies `fields` from their columns in `from`, the launch's table as a device left it, to the
    /// frames of packets that are in `rows` and still forwarded.
    pub fn scatter(
        &mut self,
        binding: &Binding,
        fields: FieldSet,
        rows: BatchRows<'_>,
        from: &[u8],
    ) {
        let mut places = Places::new(rows.rows);
        for (row, at) in rows.each() {
            if !self.is_forward(row) {
                continue;
            }
            let own = places.of(self, row, binding.columns(), fields);
            let frame = self.table.frame_mut(row);
            for place in own {
                if let (Some(from), Some(to)) =
                    (from.get(place.in_column(at)), frame.get_mut(place.in_frame()))
                {
                    copy_short(from, to);
                }
            }
        }
    }
}

/// Copies a field; most have one of these lengths.
#[inline(always)]
fn copy_short(from: &[u8], to: &mut [u8]) {
    match from.len() {
        1 => to.copy_from_slice(&from[..1]),
        2 => to.copy_from_slice(&from[..2]),
        4 => to.copy_from_slice(&from[..4]),
        6 => to.copy_from_slice(&from[..6]),
        _ => to.copy_from_slice(from),
    }
}
