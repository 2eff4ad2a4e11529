//! The metadata of a packet, field by field as a number, for checks that bypass the accessors.

use crate::arena::{
    Captured, DroppedBy, Flagged, FlowHash, HeadersOf, Ingress, Interface, Link, NextHop, ReasonOf,
    ShardOf, Timestamp, VerdictOf, WireLen,
};
use crate::{Batch, Field, SCRATCH_WORDS};

/// Numbers as one, the first with its lowest bit at bit 0, the others at the bits that are named.
macro_rules! packed {
    ($first:expr $(, $at:literal: $next:expr)*) => {
        u128::from($first) $(| u128::from($next) << $at)*
    };
}

impl Batch {
    /// The value of `field` of packet `index` as a number. If the field has several parts, the
    /// first is in the lowest bits. `None` for a field of the frame, and for a scratch word that
    /// the chain did not hand out. Panics if there is no such packet.
    pub fn metadata(&self, index: usize, field: Field) -> Option<u128> {
        let (table, headers) = (&self.table, self.headers(index));
        Some(match field {
            Field::Start => packed!(table.start(index) as u16, 16: table.room(index).start as u64),
            Field::Len => packed!(table.column(WireLen)[index], 32: table.frame_len(index) as u32),
            Field::L3Offset => headers.l3.into(),
            Field::L4Offset => headers.l4.into(),
            Field::PayloadOffset => packed!(headers.payload, 16: headers.end),
            Field::Kind => packed!(table.column(Link)[index], 16: headers.kind()),
            Field::Timestamp => {
                packed!(table.column(Timestamp)[index], 64: table.column(Captured)[index])
            }
            Field::Ingress => {
                packed!(table.column(Ingress)[index], 64: table.column(Interface)[index])
            }
            Field::Verdict => packed!(
                table.column(VerdictOf)[index],
                8: table.column(ReasonOf)[index],
                16: table.column(DroppedBy)[index]
            ),
            Field::NextHop => table.column(NextHop)[index].into(),
            Field::FlowHash => table.column(FlowHash)[index].into(),
            Field::Shard => table.column(ShardOf)[index].into(),
            Field::Flagged => table.column(Flagged)[index].into(),
            other => (*table.scratch(word_of(other)?).get(index)?).into(),
        })
    }

    /// Writes a value from [`Batch::metadata`]. The frame's place in memory stays: its start and
    /// its length. Derived facts stay too: whether a packet was flagged, how many left, whether all
    /// are alike.
    pub fn set_metadata(&mut self, index: usize, field: Field, value: u128) {
        let table = &mut self.table;
        let headers = &mut table.column_mut(HeadersOf)[index];
        match field {
            Field::L3Offset => headers.l3 = value as u16,
            Field::L4Offset => headers.l4 = value as u16,
            Field::PayloadOffset => {
                (headers.payload, headers.end) = (value as u16, (value >> 16) as u32);
            }
            Field::Kind => {
                headers.set_kind((value >> 16) as u64);
                table.column_mut(Link)[index] = value as u16;
            }
            Field::Len => table.column_mut(WireLen)[index] = value as u32,
            Field::Timestamp => {
                table.column_mut(Timestamp)[index] = value as u64;
                table.column_mut(Captured)[index] = (value >> 64) as u64;
            }
            Field::Ingress => {
                table.column_mut(Ingress)[index] = value as u64;
                table.column_mut(Interface)[index] = (value >> 64) as u16;
            }
            Field::Verdict => {
                table.column_mut(VerdictOf)[index] = value as u8;
                table.column_mut(ReasonOf)[index] = (value >> 8) as u8;
                table.column_mut(DroppedBy)[index] = (value >> 16) as u8;
            }
            Field::NextHop => table.column_mut(NextHop)[index] = value as u16,
            Field::FlowHash => table.column_mut(FlowHash)[index] = value as u32,
            Field::Shard => table.column_mut(ShardOf)[index] = value as u8,
            Field::Flagged => table.column_mut(Flagged)[index] = value as u8,
            other => {
                let words = word_of(other).map(|word| table.scratch_mut(word));
                if let Some(word) = words.and_then(|words| words.get_mut(index)) {
                    *word = value as u32;
                }
            }
        }
    }
}

fn word_of(field: Field) -> Option<usize> {
    let word = (field as usize).checked_sub(Field::Scratch0 as usize)?;
    (word < SCRATCH_WORDS).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Arena, ArenaLayout, Arrival, FieldSet, Headers, HeapMemory, Instant, LinkType, ScratchWord,
    };

    const LAYOUT: ArenaLayout = ArenaLayout {
        slabs: 1,
        emit_slabs: 0,
        tables: 1,
        slots: 8,
        scratch_words: 2,
        headroom: 64,
        tailroom: 32,
    };

    /// Each field is a number of its own, apart from memory and from all other packets.
    #[test]
    fn writes_are_read_and_change_nothing_else() {
        let memory = HeapMemory::new(LAYOUT.memory_len()).expect("memory");
        let mut arena = Arena::new(Box::new(memory), &LAYOUT).expect("an arena");
        let mut batch = Batch::new(arena.tables.remove(0));
        let arrival = Arrival {
            timestamp: Instant::from_nanos(7),
            captured: Instant::from_nanos(8),
            ingress: 9,
            wire_len: 70,
            link: LinkType::ETHERNET,
            interface: 3,
            shard: 4,
            flow_hash: 5,
        };
        let headers = Headers::parse(&[0; 60], LinkType::ETHERNET, 70);
        for _ in 0..2 {
            batch.push(&[0; 60], &headers, &arrival, &mut arena.ingress).expect("room");
        }
        assert_eq!(batch.metadata(1, Field::Timestamp), Some(8 << 64 | 7));
        assert_eq!(batch.metadata(1, Field::Ingress), Some(3 << 64 | 9));
        assert_eq!(batch.metadata(1, Field::Len), Some(60 << 32 | 70));
        assert_eq!(batch.metadata(1, Field::Ttl), None);
        assert_eq!(batch.metadata(1, Field::Scratch2), None);
        let all = |batch: &Batch, index| -> Vec<(Field, u128)> {
            let of = |field| Some((field, batch.metadata(index, field)?));
            FieldSet::ALL.iter().filter_map(of).collect()
        };
        assert_eq!(all(&batch, 1).len(), 15);
        let other = all(&batch, 0);
        let before = all(&batch, 1);
        for &(field, was) in &before {
            batch.set_metadata(1, field, !was);
            let own = |one: &&(Field, u128)| one.0 != field;
            assert!(all(&batch, 1).iter().filter(own).eq(before.iter().filter(own)));
            let is = batch.metadata(1, field).expect("a value");
            let width = match field {
                Field::Start => 0,
                Field::Kind => 56,
                Field::PayloadOffset => 48,
                Field::Ingress => 80,
                Field::Timestamp => 128,
                Field::Verdict => 24,
                Field::Flagged | Field::Shard => 8,
                Field::L3Offset | Field::L4Offset | Field::NextHop => 16,
                _ => 32,
            };
            let all_bits = u128::MAX.checked_shr(128 - width).unwrap_or(0);
            assert_eq!(is ^ was, all_bits, "{}", field.name());
            batch.set_metadata(1, field, was);
            assert_eq!(batch.metadata(1, field), Some(was), "{}", field.name());
            assert_eq!(all(&batch, 0), other);
        }
        let packet = batch.packet(1);
        assert_eq!((packet.captured(), packet.wire_len()), (arrival.captured, 70));
        assert_eq!(packet.headers(), headers);
        assert_eq!(packet.scratch(ScratchWord(1)), 0);
    }
}
