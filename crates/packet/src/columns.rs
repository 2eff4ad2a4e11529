//! Which columns of a batch's table a device has to have, which it may leave changed, and where they lie.
//!
//! A table is an array a column, in the order of `columns!` (`arena/columns.rs`): what only the host needs, what kernels read, what they
//! write, and scratch words. So what goes to a device is mostly one stretch of bytes, and what comes back another.

use core::fmt;
use core::ops::Range;

use crate::arena::{
    COLUMNS, Column, DroppedBy, Flagged, FlowHash, HeadersOf, Ingress, Interface, Left, Link,
    NextHop, ROW_LEN, ReasonOf, ShardOf, Timestamp, VerdictOf, WIDTHS, WireLen,
};
use crate::{Batch, Field, FieldSet, ReadWrite, SCRATCH_WORDS, Table};

/// A set of columns, one bit each, and scratch words behind them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Columns(u64);

/// What every kernel looks at: where the frame and its headers lie, and whether the packet is its business.
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

/// What a kernel may say of any packet.
const ALWAYS_WRITTEN: Columns =
    Columns::EMPTY.with(VerdictOf).with(ReasonOf).with(DroppedBy).with(Left);

/// Bytes of a row that a stretch takes along rather than that there are two.
const GAP: usize = 4;

impl Columns {
    const EMPTY: Self = Self(0);

    /// What has to be there before kernels with this access work. What they write is, as they may leave it as it was.
    pub fn read_by(access: ReadWrite) -> Self {
        let all = access.reads | access.writes;
        let own = ALWAYS_READ.union(Self::of(all));
        // Who moves a frame has to know its room.
        if all.contains(Field::Start) { own.and(ROOM_LEN) } else { own }
    }

    /// What has to be taken back of kernels that write these fields.
    pub fn written_by(writes: FieldSet) -> Self {
        ALWAYS_WRITTEN.union(Self::of(writes))
    }

    /// Where fields lie. Verdicts are written whole or not at all, and so needn't be there before.
    fn of(fields: FieldSet) -> Self {
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

    const fn with<C: Column>(self, _: C) -> Self {
        self.and(C::INDEX)
    }

    /// With the column, or the scratch word, of this number.
    const fn and(self, index: usize) -> Self {
        Self(self.0 | 1 << index)
    }

    const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Bytes of a row in the stretches in which they lie ([`Batch::stretches`]).
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
    fn iter(self) -> impl Iterator<Item = (usize, usize)> {
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

impl Batch {
    /// Copies `columns` of its rows to where they lie in `to`, which is as long as its table.
    pub fn copy_columns(&self, columns: Columns, to: &mut [u8]) {
        let rows = self.table.rows();
        columns.iter().for_each(|(before, width)| {
            let start = before * rows;
            self.table.copy_bytes(start..start + width * self.len(), to);
        });
    }

    /// Names the bytes of its table in which `columns` of its rows lie, as few stretches as it can, from the table's first byte on.
    /// There may be others in them.
    pub fn stretches(&self, columns: Columns, mut visit: impl FnMut(Range<usize>)) {
        let rows = self.table.rows();
        // The bytes of a row before the first column and behind the last, and where the last ends.
        let mut open: Option<(usize, usize, usize)> = None;
        for (before, width) in columns.iter() {
            let end = before * rows + width * self.len();
            open = match open {
                Some((first, behind, _)) if before <= behind + GAP => {
                    Some((first, before + width, end))
                }
                done => {
                    done.into_iter().for_each(|(first, _, end)| visit(first * rows..end));
                    Some((before, before + width, end))
                }
            };
        }
        open.into_iter().for_each(|(first, _, end)| visit(first * rows..end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, ArenaLayout, Arrival, Headers, HeapMemory, Instant, LinkType};

    /// A batch of `packets` in a table with two scratch words.
    fn batch(packets: usize) -> Batch {
        let layout = ArenaLayout {
            slabs: 1,
            emit_slabs: 0,
            tables: 1,
            slots: 64,
            scratch_words: 2,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).unwrap();
        let mut arena = Arena::new(Box::new(memory), &layout).unwrap();
        let mut batch = Batch::new(arena.tables.remove(0));
        for number in 0..packets as u64 {
            let arrival = Arrival {
                timestamp: Instant::from_nanos(!0),
                captured: Instant::from_nanos(!0),
                ingress: !number,
                wire_len: !0,
                link: LinkType::ETHERNET,
                interface: 0,
                shard: 63,
                flow_hash: !0,
            };
            batch.push(&[7; 60], &Headers::default(), &arrival, &mut arena.ingress).unwrap();
        }
        batch
    }

    fn stretches(batch: &Batch, columns: Columns) -> Vec<Range<usize>> {
        let mut all = Vec::new();
        batch.stretches(columns, |bytes| all.push(bytes));
        all
    }

    /// Bytes of a row before the last column of a stretch, and that column's.
    type Bytes = (usize, usize);

    /// What kinds of functions read and write, and what goes to a device and comes back.
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
        let batch = batch(64);
        let rows = batch.table.rows();
        for (access, read, written) in kinds() {
            for (columns, (before, last)) in
                [(Columns::read_by(access), read), (Columns::written_by(access.writes), written)]
            {
                let all = stretches(&batch, columns);
                assert_eq!(all.len(), 1, "{all:?}");
                assert_eq!(all[0].len(), before * rows + last * 64, "{access:?}");
                assert_eq!(columns.stretched_len(), before + last, "{access:?}");
            }
        }
    }

    #[test]
    fn stretches_hold_the_columns_and_are_apart() {
        let batch = batch(9);
        let (rows, table_len) = (batch.table.rows(), batch.table_range().len());
        for bits in (0..1u64 << 12).map(|bits| bits.wrapping_mul(0x9e37_79b9) & 0x1f_ffff) {
            let columns = Columns(bits);
            let all = stretches(&batch, columns);
            assert!(all.is_sorted_by(|one, next| one.end <= next.start), "{all:?}");
            assert!(all.iter().all(|one| !one.is_empty() && one.end <= table_len), "{all:?}");
            let mut copied = vec![0; table_len];
            batch.copy_columns(columns, &mut copied);
            let holds = |at: usize| all.iter().any(|one| one.contains(&at));
            for (before, width) in columns.iter() {
                let own = before * rows..before * rows + 9 * width;
                assert!(holds(own.start) && holds(own.end - 1), "{own:?} in {all:?}");
                let mut whole = vec![0; table_len];
                batch.table.copy_bytes(0..table_len, &mut whole);
                assert_eq!(copied[own.clone()], whole[own.clone()]);
                copied[own].fill(0);
            }
            assert!(copied.iter().all(|&byte| byte == 0), "nothing else");
        }
    }
}
