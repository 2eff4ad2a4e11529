use super::*;
use crate::arena::{HeapMemory, Placer};
use crate::{Arena, ArenaLayout, Arrival, Instant, LinkType, Reason};

const SLOTS: usize = 8;

fn arena() -> Arena {
    let layout = ArenaLayout {
        slabs: 2,
        emit_slabs: 1,
        tables: 2,
        slots: SLOTS,
        scratch_words: 1,
        headroom: 64,
        tailroom: 0,
    };
    let memory = HeapMemory::new(layout.memory_len()).unwrap();
    Arena::new(Box::new(memory), &layout).unwrap()
}

fn push(batch: &mut Batch, placer: &mut Placer, number: u64, len: usize) {
    let frame = vec![number as u8; len];
    let headers = Headers::parse(&frame, LinkType::ETHERNET, len);
    let arrival = Arrival {
        timestamp: Instant::ZERO,
        captured: Instant::ZERO,
        ingress: number,
        wire_len: len as u32,
        link: LinkType::ETHERNET,
        interface: 0,
        shard: 0,
        flow_hash: 0,
    };
    batch.push(&frame, &headers, &arrival, placer).unwrap();
}

/// What a device would see of the table, for a test to change as a device would.
fn table_of(batch: &Batch) -> Vec<u8> {
    let mut bytes = vec![0; batch.table_range().len()];
    let rows = batch.table.rows();
    for row in 0..batch.len() {
        let (start, len) = Table::FRAME_COLUMNS;
        let own = [
            (start * rows + 2 * row, (batch.table.start(row) as u16).to_ne_bytes().to_vec()),
            (len * rows + 4 * row, (batch.table.frame_len(row) as u32).to_ne_bytes().to_vec()),
            (HeadersOf::BEFORE * rows + 16 * row, (frame_end(batch, row)).to_vec()),
        ];
        own.into_iter().for_each(|(at, own)| bytes[at..at + own.len()].copy_from_slice(&own));
    }
    bytes
}

fn frame_end(batch: &Batch, row: usize) -> [u8; 4] {
    (batch.table.frame_len(row) as u32).to_ne_bytes()
}

fn put<C: Column>(batch: &Batch, returned: &mut [u8], _: C, row: usize, value: &[u8]) {
    let at = C::BEFORE * batch.table.rows() + value.len() * row;
    returned[at..at + value.len()].copy_from_slice(value);
}

#[test]
fn spans_are_the_rooms_and_nothing_else() {
    let mut arena = arena();
    let (mut batch, mut made) =
        (Batch::new(arena.tables.remove(0)), Batch::new(arena.tables.remove(0)));
    for number in [1, 3, 5] {
        push(&mut batch, &mut arena.ingress, number, 100);
    }
    for number in [1, 3] {
        push(&mut made, &mut arena.emit, number, 60);
    }
    assert!(batch.merge(&mut made, &mut Vec::new()));
    let mut spans = Vec::new();
    batch.spans(|span| spans.push(span));
    let rooms: Vec<_> = (0..batch.len()).map(|row| batch.table.room(row)).collect();
    // Three rooms side by side, and two in another slab.
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert_eq!(spans.iter().map(Range::len).sum::<usize>(), rooms.iter().map(Range::len).sum());
    for room in rooms {
        assert!(spans.iter().any(|span| span.start <= room.start && room.end <= span.end));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut arena = arena();
    let mut batch = Batch::new(arena.tables.remove(0));
    push(&mut batch, &mut arena.ingress, 0, 100);
    let fine = table_of(&batch);
    assert_eq!(batch.check_returned(&fine, FieldSet::ALL), Ok(()));
    assert!(batch.check_returned(&fine[1..], FieldSet::ALL).is_err());
    let rows = batch.table.rows();
    let cases: [(usize, &[u8]); 3] = [
        (Table::FRAME_COLUMNS.0 * rows, &u16::MAX.to_ne_bytes()),
        (Table::FRAME_COLUMNS.1 * rows, &u32::MAX.to_ne_bytes()),
        (HeadersOf::BEFORE * rows, &101u32.to_ne_bytes()),
    ];
    for (at, value) in cases {
        let mut returned = fine.clone();
        returned[at..at + value.len()].copy_from_slice(value);
        assert!(batch.check_returned(&returned, FieldSet::ALL).is_err(), "{at}");
        // Who does not write it is not asked.
        assert_eq!(batch.check_returned(&returned, FieldSet::of(&[Field::Verdict])), Ok(()));
    }
}

#[test]
fn each_function_takes_what_is_its_own() {
    let mut arena = arena();
    let mut batch = Batch::new(arena.tables.remove(0));
    (0..4).for_each(|number| push(&mut batch, &mut arena.ingress, number, 100));
    let mut returned = table_of(&batch);
    // Function 0 drops packet 1 and flags packet 3, which is left to the CPU from function 1 on; that drops packet 2 and flags packet 0.
    let by = |row: usize| [if row == 1 { 0 } else { 1 }];
    for row in [1, 2] {
        put(&batch, &mut returned, VerdictOf, row, &[Dropped as u8]);
        put(&batch, &mut returned, DroppedBy, row, &by(row));
        put(&batch, &mut returned, ReasonOf, row, &[7]);
    }
    put(&batch, &mut returned, Left, 3, &[2]);
    put(&batch, &mut returned, Flagged, 3, &[1]);
    put(&batch, &mut returned, Flagged, 0, &[2]);
    for row in 0..4 {
        put(&batch, &mut returned, NextHop, row, &(10 + row as u16).to_ne_bytes());
    }
    let writes = FieldSet::of(&[Field::Verdict, Field::NextHop, Field::Flagged]);
    batch.accept_left(&returned);
    let verdicts =
        |batch: &Batch| -> Vec<_> { (0..4).map(|i| batch.packet(i).verdict()).collect() };
    let flags =
        |batch: &Batch| -> Vec<_> { (0..4).map(|i| batch.packet(i).is_flagged()).collect() };
    use Verdict::{Dropped, Forward};

    batch.enter(0);
    batch.accept_returned(&returned, FieldSet::of(&[Field::Verdict, Field::Flagged]), None);
    assert_eq!(verdicts(&batch), [Forward, Dropped, Forward, Forward]);
    assert_eq!(flags(&batch), [false, false, false, true]);
    assert_eq!((batch.take_settled(), batch.packet(1).reason()), (1, Reason(7)));
    assert!(!batch.hold_done(), "the device did all of function 0");
    batch.release();
    assert_eq!(verdicts(&batch), [Forward, Dropped, Forward, Forward]);

    batch.enter(1);
    batch.accept_returned(&returned, writes, None);
    assert_eq!(verdicts(&batch), [Forward, Dropped, Dropped, Forward]);
    assert_eq!(flags(&batch), [true, false, false, false]);
    let hops: Vec<u16> = (0..4).map(|i| batch.packet(i).next_hop()).collect();
    assert_eq!(hops, [10, 0, 12, 0], "neither what was dropped before nor what was left");
    assert!(batch.hold_done());
    let seen: Vec<u64> = batch.forward().map(|packet| packet.ingress()).collect();
    assert_eq!(seen, [3]);
    batch.release();
    assert_eq!(batch.forward_count(), 2);
}
