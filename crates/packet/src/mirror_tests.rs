use super::*;
use crate::arena::{
    Column, DroppedBy, HeadersOf, HeapMemory, Mirrored, NextHop, Placer, ROW_LEN, ReasonOf,
};
use crate::{
    Arena, ArenaLayout, Arrival, Columns, Field, FieldSet, Instant, LaunchRows, LinkType,
    ReadWrite, Reason, Table,
};

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

/// All packets of a batch, as a launch of it alone has them.
fn rows_of(batch: &Batch) -> LaunchRows {
    let mut rows = LaunchRows::with_capacity(1, SLOTS);
    rows.add(batch);
    rows
}

/// The table as a device would see it, for a test to change as a device would.
fn table_of(batch: &Batch, rows: &LaunchRows) -> Vec<u8> {
    let mut bytes = vec![0; (ROW_LEN + 4) * rows.rows()];
    let access = ReadWrite::new(FieldSet::GEOMETRY, FieldSet::EMPTY);
    batch.copy_columns(Columns::read_by(access), rows.of(0), &mut bytes);
    bytes
}

/// Writes column `C` of row `at` of a launch's table.
fn put<C: Column>(rows: &LaunchRows, returned: &mut [u8], _: C, at: usize, value: &[u8]) {
    let at = C::BEFORE * rows.rows() + value.len() * at;
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
fn invalid_plans_are_refused() {
    let mut arena = arena();
    let mut batch = Batch::new(arena.tables.remove(0));
    push(&mut batch, &mut arena.ingress, 0, 100);
    let rows = rows_of(&batch);
    let fine = table_of(&batch, &rows);
    let check = |returned: &[u8], writes| {
        batch.check_returned(&Returned::new(returned, rows.of(0)), writes)
    };
    assert_eq!(check(&fine, FieldSet::ALL), Ok(()));
    assert!(check(&fine[..ROW_LEN], FieldSet::ALL).is_err());
    let count = rows.rows();
    let cases: [(usize, &[u8]); 3] = [
        (Table::FRAME_COLUMNS.0 * count, &u16::MAX.to_ne_bytes()),
        (Table::FRAME_COLUMNS.1 * count, &u32::MAX.to_ne_bytes()),
        (HeadersOf::BEFORE * count, &101u32.to_ne_bytes()),
    ];
    for (at, value) in cases {
        let mut returned = fine.clone();
        returned[at..at + value.len()].copy_from_slice(value);
        assert!(check(&returned, FieldSet::ALL).is_err(), "{at}");
        // Who does not write it is not asked.
        assert_eq!(check(&returned, FieldSet::of(&[Field::Verdict])), Ok(()));
    }
}

#[test]
fn each_function_takes_what_is_its_own() {
    let mut arena = arena();
    let mut batch = Batch::new(arena.tables.remove(0));
    (0..5).for_each(|number| push(&mut batch, &mut arena.ingress, number, 100));
    // It was dropped before, so that the launch lacks it.
    batch.packet_mut(2).drop(Reason(3));
    batch.take_settled();
    let rows = rows_of(&batch);
    assert_eq!(rows.of(0).each().collect::<Vec<_>>(), [(0, 0), (1, 1), (3, 2), (4, 3)]);
    let mut returned = table_of(&batch, &rows);
    // Function 0 drops packet 1 and flags packet 4, which is left to the CPU from function 1 on.
    // Function 1 drops packet 3 and flags packet 0.
    let by = |at: usize| [if at == 1 { 0 } else { 1 }];
    for at in [1, 2] {
        put(&rows, &mut returned, VerdictOf, at, &[Dropped as u8]);
        put(&rows, &mut returned, DroppedBy, at, &by(at));
        put(&rows, &mut returned, ReasonOf, at, &[7]);
    }
    put(&rows, &mut returned, Left, 3, &[2]);
    put(&rows, &mut returned, Flagged, 3, &[1]);
    put(&rows, &mut returned, Flagged, 0, &[2]);
    for at in 0..4 {
        put(&rows, &mut returned, NextHop, at, &(10 + at as u16).to_ne_bytes());
    }
    let writes = FieldSet::of(&[Field::Verdict, Field::NextHop, Field::Flagged]);
    let returned = Returned::new(&returned, rows.of(0));
    batch.accept_left(&returned);
    // Those of the launch.
    let own = [0, 1, 3, 4];
    let verdicts =
        |batch: &Batch| -> Vec<_> { own.iter().map(|&i| batch.packet(i).verdict()).collect() };
    let flags =
        |batch: &Batch| -> Vec<_> { own.iter().map(|&i| batch.packet(i).is_flagged()).collect() };
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
    let hops: Vec<u16> = own.iter().map(|&i| batch.packet(i).next_hop()).collect();
    assert_eq!(hops, [10, 0, 12, 0], "neither what was dropped before nor what was left");
    assert!(batch.hold_done());
    let seen: Vec<u64> = batch.forward().map(|packet| packet.ingress()).collect();
    assert_eq!(seen, [4]);
    batch.release();
    assert_eq!(batch.forward_count(), 2);
}

/// A launch whose kernels left packet 1 to the CPU, and whose function 0, the last there, flagged
/// packet 2.
fn left_by(batch: &Batch, rows: &LaunchRows) -> Vec<u8> {
    let mut returned = table_of(batch, rows);
    put(rows, &mut returned, Left, 1, &[1]);
    put(rows, &mut returned, Left, 2, &[2]);
    returned
}

#[test]
fn packets_left_to_the_cpu_are_fetched_and_keep_newer_fields() {
    let mut arena = arena();
    let mut batch = Batch::new(arena.tables.remove(0));
    (0..4).for_each(|number| push(&mut batch, &mut arena.ingress, number, 100));
    let rows = rows_of(&batch);
    let returned = left_by(&batch, &rows);
    let left =
        |with_flagged| LeftPackets::new(Returned::new(&returned, rows.of(0)), 0, with_flagged);
    for (with_flagged, own) in [(false, 1..2), (true, 1..3)] {
        let mut spans = Vec::new();
        batch.spans_left(left(with_flagged), |span| spans.push(span));
        let rooms: Vec<_> = own.map(|row| batch.table.room(row)).collect();
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0], rooms[0].start..rooms[rooms.len() - 1].end);
    }
    // A packet flagged before the launch counts as flagged too.
    batch.packet_mut(3).flag();
    let mut spans = Vec::new();
    batch.spans_left(left(true), |span| spans.push(span));
    let last = batch.table.room(3);
    assert_eq!(spans.last().map(|span| span.end), Some(last.end));
    batch.table.column_mut(Flagged)[3] = 0;
    // The rooms come back full of 0xee. Ethernet's source address, 6 bytes after the frame's start,
    // is the host's.
    let fields = FieldSet::of(&[Field::EthSrc]);
    let mut kept = Vec::new();
    batch.keep_fields(left(true), fields, &mut kept);
    assert_eq!(kept, [[1; 6], [2; 6]].concat());
    [1, 2].iter().for_each(|&row| batch.table.frame_mut(row).fill(0xee));
    let mut from = &kept[..];
    batch.restore_fields(left(true), fields, &mut from);
    assert!(from.is_empty());
    for row in 0..4 {
        let byte = if row == 1 || row == 2 { 0xee } else { row as u8 };
        let expected = [vec![byte; 6], vec![row as u8; 6], vec![byte; 88]].concat();
        assert_eq!(batch.packet(row).frame(), expected, "packet {row}");
    }
}

#[test]
fn only_functions_of_the_stage_leave_packets_to_the_cpu() {
    let mut arena = arena();
    let mut batch = Batch::new(arena.tables.remove(0));
    (0..4).for_each(|number| push(&mut batch, &mut arena.ingress, number, 100));
    let rows = rows_of(&batch);
    let returned = left_by(&batch, &rows);
    let check = |last| batch.check_left(&Returned::new(&returned, rows.of(0)), last);
    assert_eq!(check(0), Ok(()));
    let mut returned = returned.clone();
    put(&rows, &mut returned, Left, 3, &[3]);
    let check = |last| batch.check_left(&Returned::new(&returned, rows.of(0)), last);
    assert_eq!(check(0).map_err(|broken| broken.row), Err(3));
    assert_eq!(check(1), Ok(()));
}

#[test]
fn fields_that_only_a_mirror_has_are_lost_with_it() {
    let mut arena = arena();
    let mut batch = Batch::new(arena.tables.remove(0));
    (0..4).for_each(|number| push(&mut batch, &mut arena.ingress, number, 100));
    assert!(!batch.lose_mirrored(1, Reason(9)));
    let rows = rows_of(&batch);
    let returned = left_by(&batch, &rows);
    batch.accept_left(&Returned::new(&returned, rows.of(0)));
    batch.set_mirrored(1, 0, true);
    batch.packet_mut(0).drop(Reason(3));
    batch.leave_none();
    // Mirror 2 has them all, but for the one that is changed on the host.
    put_left(&mut batch, 3);
    batch.set_mirrored(2, 0, false);
    assert!(batch.lose_mirrored(1, Reason(9)));
    let reasons: Vec<_> =
        (0..4).map(|row| (batch.packet(row).verdict(), batch.packet(row).len())).collect();
    use Verdict::{Dropped, Forward};
    assert_eq!(reasons, [(Dropped, 100), (Forward, 100), (Dropped, 0), (Forward, 100)]);
}

/// Says of a packet that it was flagged by function 0, the last on its device.
fn put_left(batch: &mut Batch, row: usize) {
    batch.table.column_mut(Left)[row] = 2;
}

/// Random batches of equal and mixed lengths, some packets dropped, made or already in a mirror.
/// Stretches take every frame in question, nothing outside of its packets' rooms, and no byte
/// twice.
#[test]
fn stretches_take_all_frames_and_nothing_of_others() {
    let seed = std::env::var("STRETCHES_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut state: u64 = seed.unwrap_or(1);
    println!("STRETCHES_SEED={state}");
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for round in 0..150 {
        let (around, slots) = ([0, 40, 117][round % 3], 8 << (round % 7));
        let layout = ArenaLayout {
            slabs: 3,
            emit_slabs: 1,
            tables: 1,
            slots,
            scratch_words: 0,
            headroom: around,
            tailroom: around,
        };
        let memory = HeapMemory::new(layout.memory_len()).unwrap();
        let mut arena = Arena::new(Box::new(memory), &layout).unwrap();
        let mut batch = Batch::new(arena.tables.remove(0));
        let mixes = 1 + draw(40);
        let mut len = 60;
        for number in 0..1 + draw(slots as u64) {
            if draw(mixes) == 0 {
                len = 60 + draw(1400) as usize;
            }
            push(&mut batch, &mut arena.ingress, number, len);
        }
        let loses = 1 + draw(30);
        for row in 0..batch.len() {
            if draw(loses) == 0 && loses > 1 {
                batch.packet_mut(row).drop(Reason(0));
            } else if draw(4) == 0 {
                batch.table.column_mut(Mirrored)[row] = 2;
            }
        }
        for without in [None, Some(1)] {
            let [sum, rooms, count] = taken_once(&batch, without, layout.memory_len());
            assert!(sum <= rooms, "round {round}");
            if without.is_none() {
                assert_eq!(sum, batch.frames_len(), "round {round}");
            }
            // Where all are alike only edges cross besides.
            let extent = frame_extent(rooms / count.max(1), batch.table.start(0), len).len();
            if mixes == 40 && count > 1 && len == batch.table.frame_len(0) {
                assert!(
                    sum <= count * crossing_width(rooms / count, extent).max(extent),
                    "{round}"
                );
            }
        }
    }
}

/// Checks that stretches take each frame in question once, and nothing outside of their rooms.
/// Returns the bytes of stretches, those of rooms, and the number of frames.
fn taken_once(batch: &Batch, without: Option<u8>, memory_len: usize) -> [usize; 3] {
    let is_asked = |row: &usize| {
        batch.is_forward(*row) && (without.is_none() || batch.table.column(Mirrored)[*row] == 0)
    };
    let mut taken = vec![0u8; memory_len];
    let mut sum = 0;
    batch.stretches(without, |stretch| {
        let len = stretch.bytes.len();
        let (width, pitch) = stretch.rows.unwrap_or((len, len));
        assert!((len - width).is_multiple_of(pitch), "{stretch:?}");
        for start in stretch.bytes.clone().step_by(pitch) {
            taken[start..start + width].iter_mut().for_each(|times| *times += 1);
            sum += width;
        }
    });
    assert_eq!(sum, taken.iter().map(|times| usize::from(*times)).sum::<usize>());
    let (mut rooms, mut count) = (0, 0);
    for row in (0..batch.len()).filter(is_asked) {
        let (room, start) = (batch.table.room(row), batch.table.start(row));
        let frame = room.start + start..room.start + start + batch.table.frame_len(row);
        assert!(taken[frame].iter().all(|times| *times == 1), "row {row}");
        taken[room.clone()].fill(0);
        (rooms, count) = (rooms + room.len(), count + 1);
    }
    assert!(taken.iter().all(|times| *times == 0), "others' bytes");
    [sum, rooms, count]
}

/// Frames that kernels moved cross from where they were or are, whichever is farther out.
#[test]
fn frames_come_back_from_where_they_were_and_are() {
    let mut arena = arena();
    let mut batch = Batch::new(arena.tables.remove(0));
    (0..4).for_each(|number| push(&mut batch, &mut arena.ingress, number, 500));
    let rows = rows_of(&batch);
    let mut returned = table_of(&batch, &rows);
    let (start, room) = (batch.table.start(0), batch.table.room(0));
    let (start_at, len_at) = Table::FRAME_COLUMNS;
    let count = rows.rows();
    let new_start = (start - 10) as u16;
    returned[start_at * count + 2..][..2].copy_from_slice(&new_start.to_ne_bytes());
    returned[len_at * count + 4..][..4].copy_from_slice(&520u32.to_ne_bytes());
    let back = |writes: FieldSet| {
        let mut all = Vec::new();
        let returned = Returned::new(&returned, rows.of(0));
        batch.stretches_back(&returned, writes, |stretch| all.push(stretch));
        all
    };
    let old = frame_extent(room.len(), start, 500);
    let low = usize::from(new_start) / 16 * 16;
    let at = |low: usize| {
        let bytes = room.start + low..room.start + 3 * room.len() + old.end;
        [Stretch { bytes, rows: Some((old.end - low, room.len())) }]
    };
    assert_eq!(back(FieldSet::of(&[Field::Start, Field::Len])), at(low));
    assert_eq!(back(FieldSet::of(&[Field::SrcAddr])), at(old.start));
    // As they are expected to come back.
    assert_eq!(batch.frames_back_len(|_| [10, 10]), at(low)[0].crossing_len());
    assert_eq!(batch.frames_back_len(|_| [-10, -10]), at(old.start)[0].crossing_len());
}
