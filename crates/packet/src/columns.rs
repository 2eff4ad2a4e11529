//! The columns of packets' tables that a device needs, those it may change, and their positions in
//! a launch's table.
//!
//! A table is an array per column, in the order of `columns!` (`arena/columns.rs`). First come
//! columns for the host only, then those that kernels read, those they write, and scratch words. So
//! mostly one range of bytes goes to a device, and another comes back.

use core::fmt;
use core::ops::Range;

use crate::arena::{
    COLUMNS, Column, DroppedBy, Flagged, FlowHash, HeadersOf, Ingress, Interface, Left, Link,
    Mirrored, NextHop, ROW_LEN, ReasonOf, ShardOf, Timestamp, VerdictOf, WIDTHS, WireLen,
};
use crate::{Field, FieldSet, ReadWrite, SCRATCH_WORDS, Table};

/// A set of columns, one bit each, followed by scratch words.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Columns(u64);

/// Columns that every kernel reads: places of frame and headers, and whether the kernel has to
/// process the packet.
const ALWAYS_READ: Columns = Columns::EMPTY
    .and(ROOM)
    .and(START)
    .and(FRAME_LEN)
    .with(HeadersOf)
    .with(Link)
    .with(VerdictOf)
    .with(Left);

const ROOM: usize = Table::FRAME_PLACE[0];
const ROOM_LEN: usize = Table::FRAME_PLACE[1];
const START: usize = Table::FRAME_PLACE[2];
const FRAME_LEN: usize = Table::FRAME_PLACE[3];

/// The columns that packed rows contain.
const PACKED: Columns = ALWAYS_READ
    .and(ROOM_LEN)
    .with(WireLen)
    .with(NextHop)
    .with(ReasonOf)
    .with(DroppedBy)
    .with(Flagged);

/// Columns that a kernel may write for any packet.
const ALWAYS_WRITTEN: Columns =
    Columns::EMPTY.with(VerdictOf).with(ReasonOf).with(DroppedBy).with(Left);

/// Bytes of a row that a stretch takes along rather than that there are two.
const GAP: usize = 4;

impl Columns {
    const EMPTY: Self = Self(0);

    /// Columns needed on the device before kernels with this access run. Written ones are included,
    /// since kernels may leave the old value.
    pub fn read_by(access: ReadWrite) -> Self {
        let all = access.reads | access.writes;
        let own = ALWAYS_READ.union(Self::of(all));
        // Code that moves a frame requires its room.
        if all.contains(Field::Start) { own.and(ROOM_LEN) } else { own }
    }

    /// Additional columns for kernels that copy rooms: the ends of rooms, and with `leaves_out` the
    /// mirrors that have each packet.
    pub fn of_rooms(leaves_out: bool) -> Self {
        let rooms = Self::EMPTY.and(ROOM).and(ROOM_LEN);
        if leaves_out { rooms.with(Mirrored) } else { rooms }
    }

    /// Columns to take back from kernels that write these fields.
    pub fn written_by(writes: FieldSet) -> Self {
        ALWAYS_WRITTEN.union(Self::of(writes))
    }

    /// The columns of fields; fields of frames have none. A verdict is written whole or not at all,
    /// so its old value is not needed.
    pub fn of(fields: FieldSet) -> Self {
        fields.iter().fold(Self::EMPTY, |all, field| match field {
            Field::Start => all.and(START),
            Field::Len => all.and(FRAME_LEN).with(WireLen),
            Field::L3Offset | Field::L4Offset | Field::PayloadOffset | Field::Kind => {
                all.with(HeadersOf)
            }
            Field::Timestamp => all.with(Timestamp),
            Field::Ingress => all.with(Ingress).with(Interface),
            Field::Verdict => all.with(VerdictOf),
            Field::NextHop => all.with(NextHop),
            Field::FlowHash => all.with(FlowHash),
            Field::Shard => all.with(ShardOf),
            Field::Flagged => all.with(Flagged),
            other => match (0..SCRATCH_WORDS).find(|&word| Field::scratch(word) == Some(other)) {
                Some(word) => all.and(COLUMNS.len() + word),
                // In the frame.
                None => all,
            },
        })
    }

    /// The columns copied beside packed rows ([`crate::RowPacker`]), which contain the others.
    #[must_use]
    pub fn beside_packed(self) -> Self {
        Self(self.0 & !PACKED.0)
    }

    /// Whether the column is among them.
    pub(crate) const fn has<C: Column>(self, _: C) -> bool {
        self.0 >> C::INDEX & 1 == 1
    }

    /// Whether the lengths of rooms are.
    pub(crate) const fn has_room_len(self) -> bool {
        self.0 >> ROOM_LEN & 1 == 1
    }

    const fn with<C: Column>(self, _: C) -> Self {
        self.and(C::INDEX)
    }

    /// With the column, or the scratch word, of this number.
    const fn and(self, index: usize) -> Self {
        Self(self.0 | 1 << index)
    }

    /// Both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among them.
    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Bytes of a row in the stretches in which they lie ([`Columns::stretches`]).
    pub fn stretched_len(self) -> usize {
        let columns = self.iter().fold((0, None), |(sum, behind), (before, width)| match behind {
            Some(behind) if before <= behind + GAP => {
                (sum + before + width - behind, Some(before + width))
            }
            _ => (sum + width, Some(before + width)),
        });
        columns.0
    }

    /// Of each column the bytes of a row before it, and its width.
    pub fn iter(self) -> impl Iterator<Item = (usize, usize)> {
        let columns = COLUMNS.iter().zip(WIDTHS).map(|(&(_, before), &width)| (before, width));
        let words = (0..SCRATCH_WORDS).map(|word| (ROW_LEN + 4 * word, 4));
        let numbered = columns.chain(words).enumerate();
        numbered.filter(move |(index, _)| self.0 >> index & 1 == 1).map(|(_, column)| column)
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Columns({:#x})", self.0)
    }
}

impl Columns {
    /// Visits the bytes of a launch's table that these columns have, in as few ranges as possible.
    /// Columns have `rows` rows. Ranges may include other columns.
    pub fn stretches(self, rows: usize, mut visit: impl FnMut(Range<usize>)) {
        // The bytes of a row before the first column and after the last.
        let mut open: Option<(usize, usize)> = None;
        for (before, width) in self.iter() {
            open = match open {
                Some((first, behind)) if before <= behind + GAP => Some((first, before + width)),
                done => {
                    done.into_iter().for_each(|(first, behind)| visit(first * rows..behind * rows));
                    Some((before, before + width))
                }
            };
        }
        open.into_iter().for_each(|(first, behind)| visit(first * rows..behind * rows));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Arena, ArenaLayout, Arrival, Batch, Headers, HeapMemory, Instant, LaunchRows, LinkType,
        Reason,
    };

    const SLOTS: usize = 64;

    /// Two batches with `packets` packets each in tables with two scratch words. Every byte of a
    /// row identifies the packet.
    fn batches(packets: usize) -> [Batch; 2] {
        let layout = ArenaLayout {
            slabs: 1,
            emit_slabs: 0,
            tables: 2,
            slots: SLOTS,
            scratch_words: 2,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).unwrap();
        let mut arena = Arena::new(Box::new(memory), &layout).unwrap();
        let tables: Vec<Table> = arena.tables.drain(..).collect();
        let mut batches = tables.into_iter().map(Batch::new);
        [0, 1].map(|index: u64| {
            let mut batch = batches.next().unwrap();
            for number in 0..packets as u64 {
                let mark = (number + 100 * index + 1) * 0x0101_0101_0101_0101;
                let arrival = Arrival {
                    timestamp: Instant::from_nanos(mark),
                    captured: Instant::from_nanos(mark),
                    ingress: mark,
                    wire_len: mark as u32,
                    link: LinkType(mark as u16),
                    interface: mark as u16,
                    shard: 0,
                    flow_hash: mark as u32,
                };
                batch.push(&[7; 60], &Headers::default(), &arrival, &mut arena.ingress).unwrap();
            }
            batch
        })
    }

    fn stretches(columns: Columns, rows: usize) -> Vec<Range<usize>> {
        let mut all = Vec::new();
        columns.stretches(rows, |bytes| all.push(bytes));
        all
    }

    /// Bytes of a row before the last column of a stretch, and that column's.
    type Bytes = (usize, usize);

    /// The access of several kinds of functions, and the bytes copied to a device and to the host.
    fn kinds() -> [(ReadWrite, Bytes, Bytes); 3] {
        let verdict = FieldSet::of(&[Field::Verdict]);
        let words = FieldSet::of(&[Field::Scratch0, Field::Scratch1]);
        let route = verdict.with(Field::NextHop).with(Field::Flagged) | FieldSet::FRAME;
        let scan = verdict.with(Field::Flagged) | words;
        let seal = FieldSet::GEOMETRY | FieldSet::FRAME | scan;
        [
            (ReadWrite::new(FieldSet::HEADERS, route), (38, 1), (6, 1)),
            (ReadWrite::new(FieldSet::HEADERS, scan), (43, 4), (9, 4)),
            (ReadWrite::new(FieldSet::HEADERS | FieldSet::FRAME, seal), (47, 4), (37, 4)),
        ]
    }

    #[test]
    fn either_way_is_one_stretch() {
        for (access, read, written) in kinds() {
            for (columns, (before, last)) in
                [(Columns::read_by(access), read), (Columns::written_by(access.writes), written)]
            {
                let all = stretches(columns, 64);
                assert_eq!(all.len(), 1, "{all:?}");
                assert_eq!(all[0].len(), (before + last) * 64, "{access:?}");
                assert_eq!(columns.stretched_len(), before + last, "{access:?}");
            }
        }
    }

    /// The host decides where rooms are, whatever kernels write: the copies back never include
    /// those columns.
    #[test]
    fn rooms_never_come_back() {
        let writes = Field::ALL.iter().copied().filter(|field| !FieldSet::FRAME.contains(*field));
        let columns: Vec<Field> =
            writes.filter(|field| Field::scratch(2) != Some(*field)).take(16).collect();
        let rooms = Columns::of_rooms(false);
        for bits in 0..1u32 << columns.len() {
            let some = columns.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            let back = Columns::written_by(some.map(|(_, field)| *field).collect());
            for bytes in stretches(back, 64) {
                let mut own =
                    rooms.iter().map(|(before, width)| before * 64..(before + width) * 64);
                assert!(
                    own.all(|own| own.end <= bytes.start || bytes.end <= own.start),
                    "{back:?}"
                );
            }
        }
    }

    #[test]
    fn rooms_add_a_word_to_what_kernels_read() {
        let read = Columns::read_by(ReadWrite::NONE);
        let len = |more: Columns| read.union(more).stretched_len() - read.stretched_len();
        assert_eq!([false, true].map(|leaves_out| len(Columns::of_rooms(leaves_out))), [4, 5]);
    }

    /// Exactly the forwarded packets of two batches, by the bits of two numbers, are adjacent in
    /// the launch's table.
    #[test]
    fn a_launch_has_the_columns_of_what_is_forwarded_and_nothing_else() {
        for round in 0..1u64 << 9 {
            let number = |salt: u64| (round ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
            let columns = Columns(number(1) & 0x1f_ffff);
            let dropped = match round % 4 {
                0 => [0, 0],
                1 => [!0, number(2)],
                _ => [number(2), number(3)],
            };
            let mut batches = batches(9);
            let mut rows = LaunchRows::with_capacity(2, 18);
            for (batch, dropped) in batches.iter_mut().zip(dropped) {
                let own = (0..9).filter(|row| dropped >> row & 1 == 1);
                own.for_each(|row| batch.packet_mut(row).drop(Reason(0)));
                rows.add(batch);
            }
            let count = dropped.iter().map(|own: &u64| (!own & 511).count_ones() as usize).sum();
            assert_eq!((rows.count(), rows.rows()), (count, usize::next_multiple_of(count, 4)));
            let row_len = ROW_LEN + 8;
            let mut table = vec![0; row_len * rows.rows()];
            for (index, batch) in batches.iter().enumerate() {
                batch.copy_columns(columns, rows.of(index), &mut table);
            }
            let all = stretches(columns, rows.rows());
            assert!(all.is_sorted_by(|one, next| one.end <= next.start), "{all:?}");
            let holds = |at: usize| all.iter().any(|one| one.contains(&at));
            let mut expected = vec![0; table.len()];
            for (before, width) in columns.iter() {
                let forwarded = batches.iter().zip(dropped).flat_map(|(batch, dropped)| {
                    (0..9).filter(move |row| dropped >> row & 1 == 0).map(move |row| (batch, row))
                });
                for (at, (batch, row)) in forwarded.enumerate() {
                    let start = before * rows.rows() + width * at;
                    let own = &mut expected[start..start + width];
                    batch.table.copy_cells(before, width, row..row + 1, own);
                    assert!(holds(start) && holds(start + width - 1), "{columns:?}, {all:?}");
                }
            }
            assert!(table == expected, "{columns:?}, {dropped:?}");
        }
    }

    #[test]
    fn cells_that_are_not_there_are_not_copied() {
        let [batch, _] = batches(9);
        let mut to = [5; 8];
        batch.table.copy_cells(0, 8, SLOTS..SLOTS + 1, &mut to);
        batch.table.copy_cells(0, 4, 0..1, &mut to);
        batch.table.copy_cells(ROW_LEN + 8, 8, SLOTS - 1..SLOTS, &mut to);
        assert_eq!(to, [5; 8]);
    }
}
