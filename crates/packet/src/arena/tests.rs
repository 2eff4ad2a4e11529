//! Tests of the arena: rooms never overlap, slabs come back, merges keep ingress order.

use super::*;
use crate::{Arrival, Headers, Instant, LinkType};

/// Places `bytes` with nothing said besides.
fn place(placer: &mut Placer, table: &mut Table, bytes: &[u8]) -> Result<usize, Full> {
    let arrival = Arrival {
        timestamp: Instant::ZERO,
        captured: Instant::ZERO,
        ingress: 0,
        wire_len: bytes.len() as u32,
        link: LinkType::ETHERNET,
        interface: 0,
        shard: 0,
        flow_hash: 0,
    };
    let row = (bytes, Row { headers: &Headers::default(), arrival });
    assert_eq!(placer.place(table, core::iter::once(row))?, 1);
    Ok(table.len() - 1)
}

/// Where frames start after the headroom of [`arena`].
const START: usize = 18;

fn arena(slabs: usize, slots: usize) -> Arena {
    let layout = ArenaLayout {
        slabs,
        emit_slabs: 1,
        tables: 3,
        slots,
        scratch_words: 2,
        headroom: 10,
        tailroom: 4,
    };
    let memory = Box::new(HeapMemory::new(layout.memory_len()).unwrap());
    Arena::new(memory, &layout).unwrap()
}

#[test]
fn too_little_memory_is_refused() {
    let layout = ArenaLayout {
        slabs: 1,
        emit_slabs: 0,
        tables: 1,
        slots: 64,
        scratch_words: 0,
        headroom: 0,
        tailroom: 0,
    };
    let memory = Box::new(HeapMemory::new(layout.memory_len() - 1).unwrap());
    assert!(matches!(Arena::new(memory, &layout), Err(ArenaError::TooSmall { .. })));
}

#[test]
fn a_layout_beyond_all_bounds_is_refused() {
    let layout = ArenaLayout {
        slabs: 1,
        emit_slabs: 1,
        tables: 1,
        slots: 64,
        scratch_words: 0,
        headroom: 0,
        tailroom: 0,
    };
    let huge = [
        ArenaLayout { slabs: (1 << 44) + 1, ..layout },
        ArenaLayout { tables: usize::MAX, ..layout },
        ArenaLayout { slots: usize::MAX, ..layout },
        ArenaLayout { scratch_words: 1 << 62, ..layout },
        ArenaLayout { headroom: 1 << 32, ..layout },
    ];
    for layout in huge {
        let memory = Box::new(HeapMemory::new(4 << 20).unwrap());
        assert!(matches!(Arena::new(memory, &layout), Err(ArenaError::TooLarge)), "{layout:?}");
    }
    assert!(HeapMemory::new(usize::MAX).is_none());
}

#[test]
#[should_panic(expected = "placer and table of one arena")]
fn a_frame_goes_to_no_other_arena() {
    let (mut one, mut other) = (arena(1, 64), arena(1, 64));
    let _ = place(&mut one.ingress, &mut other.tables[0], b"x");
}

#[test]
fn frames_are_aligned_and_keep_their_bytes() {
    let mut arena = arena(2, 256);
    let table = &mut arena.tables[0];
    let mut seed = 1u32;
    let frames: Vec<Vec<u8>> = (0..200)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (0..seed % 1600).map(|i| (i ^ seed) as u8).collect()
        })
        .collect();
    for frame in &frames {
        place(&mut arena.ingress, table, frame).unwrap();
    }
    for (row, frame) in frames.iter().enumerate() {
        assert_eq!(table.frame(row), &frame[..]);
        assert_eq!(table.offset(row) % ALIGN, START % ALIGN);
        assert_eq!(table.start(row), START);
    }
}

#[test]
fn frames_start_behind_their_headroom_with_their_ip_headers_aligned() {
    let starts = [(0, 0), (1, 2), (2, 2), (3, 18), (44, 50), (50, 50), (51, 66), (64, 66)];
    for (headroom, start) in starts {
        assert_eq!(frame_start(headroom), start);
        assert!(start >= headroom && (headroom == 0 || (start + 14) % 16 == 0));
    }
}

#[test]
fn frames_of_every_small_length_keep_their_bytes() {
    let mut arena = arena(1, 256);
    let table = &mut arena.tables[0];
    let frames: Vec<Vec<u8>> =
        (0..200u8).map(|len| (0..len).map(|i| i.wrapping_mul(31) ^ len).collect()).collect();
    for frame in &frames {
        place(&mut arena.ingress, table, frame).unwrap();
    }
    for (row, frame) in frames.iter().enumerate() {
        assert_eq!(table.frame(row), &frame[..]);
    }
}

#[test]
fn rooms_bound_reshaping() {
    let mut arena = arena(1, 64);
    let table = &mut arena.tables[0];
    place(&mut arena.ingress, table, &[7; 100]).unwrap();
    place(&mut arena.ingress, table, &[9; 100]).unwrap();
    assert!(table.reshape(0, -18, 4), "head- and tailroom are there");
    assert_eq!(table.frame_len(0), 122);
    assert!(!table.reshape(0, -1, 0), "no more headroom");
    assert!(!table.reshape(0, 0, 1000), "not into the next room");
    assert!(!table.reshape(0, 200, 0), "not beyond its own end");
    for far in [isize::MIN, isize::MAX] {
        assert!(!table.reshape(0, far, 0) && !table.reshape(0, 0, far), "nor beyond all numbers");
    }
    assert!(table.reshape(0, 122, 0), "an empty frame is one");
    table.frame_mut(0).fill(0);
    assert_eq!(table.frame(1), &[9; 100]);
    // A capture may say any length.
    for (wire_len, then) in [(100, 122), (300, 322), (u32::MAX, u32::MAX)] {
        table.column_mut(WireLen)[1] = wire_len;
        assert!(table.reshape(1, -18, 4));
        assert_eq!(table.column(WireLen)[1], then);
        assert!(table.reshape(1, 18, -4));
    }
}

#[test]
fn a_replaced_row_has_another_room_and_stays_what_it_was() {
    let mut arena = arena(1, 64);
    let table = &mut arena.tables[0];
    for byte in 0..3 {
        let row = place(&mut arena.ingress, table, &[byte; 100]).unwrap();
        table.column_mut(Ingress)[row] = u64::from(byte) + 40;
        table.scratch_mut(1)[row] = u32::from(byte) + 50;
    }
    let rooms = [0, 2].map(|row| table.room(row));
    arena.emit.replace(table, 1, &[7; 3000]).unwrap();
    assert_eq!((table.frame(1), table.start(1)), (&[7; 3000][..], START));
    assert_eq!(table.room(1).len(), (START + 3000 + 4).next_multiple_of(ALIGN));
    assert_eq!((table.len(), table.column(Ingress)[1], table.scratch(1)[1]), (3, 41, 51));
    assert!(table.reshape(1, -18, 4), "head- and tailroom are there");
    table.frame_mut(1).fill(9);
    assert_eq!([0, 2].map(|row| table.room(row)), rooms);
    assert_eq!([table.frame(0), table.frame(2)], [[0; 100], [2; 100]]);
    // Twice in one slab: two rooms.
    arena.emit.replace(table, 0, &[5; 10]).unwrap();
    assert!(table.room(0).start >= table.room(1).end);
    assert_eq!((table.frame(0), table.frame(1)), (&[5; 10][..], &[9; 18 + 3000 + 4][..]));
}

#[test]
fn slabs_of_replaced_rows_return_with_the_table() {
    let mut arena = arena(1, 64);
    let (first, rest) = arena.tables.split_at_mut(1);
    let (a, b) = (&mut first[0], &mut rest[0]);
    let half = vec![1; SLAB_LEN / 2 - 2 * ALIGN];
    for table in [&mut *a, &mut *b] {
        place(&mut arena.ingress, table, &[2; 100]).unwrap();
        assert!(arena.emit.replace(table, 0, &half).is_ok());
    }
    let room = a.room(0);
    assert_eq!(arena.emit.replace(a, 0, &half), Err(Full::Arena), "each has half of the only slab");
    assert_eq!((a.room(0), a.frame(0)), (room, &half[..]), "nothing changed");
    assert_eq!(arena.emit.replace(a, 0, &[0; SLAB_LEN]), Err(Full::Frame));
    assert!(!arena.emit.has_free(1));
    a.clear();
    place(&mut arena.ingress, a, &[3; 100]).unwrap();
    assert_eq!(arena.emit.replace(a, 0, &half), Err(Full::Arena), "b still has its half");
    b.clear();
    assert!(arena.emit.replace(a, 0, &half).is_ok());
    // Of two pieces, one by a replaced row, none is left when the table is cleared.
    a.clear();
    assert_eq!(place(&mut arena.ingress, a, &vec![0; SLAB_LEN - 2 * ALIGN]), Ok(0));
    assert!(arena.emit.replace(a, 0, &vec![0; SLAB_LEN - 2 * ALIGN]).is_ok());
}

#[test]
#[should_panic(expected = "placer and table of one arena")]
fn a_row_gets_no_room_of_another_arena() {
    let (mut one, mut other) = (arena(1, 64), arena(1, 64));
    place(&mut other.ingress, &mut other.tables[0], b"x").unwrap();
    let _ = one.emit.replace(&mut other.tables[0], 0, b"y");
}

#[test]
fn slabs_return_when_the_last_piece_is_cleared() {
    let mut arena = arena(2, 64);
    let big = vec![1u8; 400_000];
    let (first, rest) = arena.tables.split_at_mut(1);
    let (a, b) = (&mut first[0], &mut rest[0]);
    for _ in 0..2 {
        place(&mut arena.ingress, a, &big).unwrap();
        place(&mut arena.ingress, b, &big).unwrap();
    }
    assert_eq!(place(&mut arena.ingress, a, &big), Err(Full::Arena));
    a.clear();
    assert_eq!(place(&mut arena.ingress, a, &big), Err(Full::Arena), "b still holds both slabs");
    b.clear();
    assert!(place(&mut arena.ingress, a, &big).is_ok());
    assert_eq!(place(&mut arena.ingress, a, &vec![0; SLAB_LEN]), Err(Full::Frame));
}

#[test]
fn rows_bound_a_table() {
    let mut arena = arena(1, 64);
    let table = &mut arena.tables[0];
    for _ in 0..64 {
        place(&mut arena.ingress, table, b"x").unwrap();
    }
    assert_eq!(place(&mut arena.ingress, table, b"x"), Err(Full::Table));
}

#[test]
fn merge_keeps_ingress_order_and_every_column() {
    let mut arena = arena(1, 64);
    let (first, rest) = arena.tables.split_at_mut(1);
    let (own, made) = (&mut first[0], &mut rest[0]);
    for (table, numbers) in [(&mut *own, &[1u64, 2, 4, 9][..]), (&mut *made, &[9, 2, 0, 2])] {
        for &number in numbers {
            let row = place(&mut arena.ingress, table, &[number as u8; 3]).unwrap();
            table.column_mut(Ingress)[row] = number;
            table.scratch_mut(1)[row] = number as u32 * 10;
            table.column_mut(Flagged)[row] = u8::from(table.len() % 2 == 0);
        }
    }
    assert!(own.merge(made, &mut Vec::new()));
    assert_eq!(own.column(Ingress), [0, 1, 2, 2, 2, 4, 9, 9]);
    for row in 0..own.len() {
        assert_eq!(own.scratch(1)[row] as u64, own.column(Ingress)[row] * 10);
        assert_eq!(own.frame(row), [own.column(Ingress)[row] as u8; 3]);
    }
    assert_eq!(made.len(), 0);
    made.clear();
    assert_eq!(own.frame(0), [0; 3], "the rooms went along");
}

#[test]
fn a_merge_that_does_not_fit_moves_nothing() {
    let mut arena = arena(1, 64);
    let (first, rest) = arena.tables.split_at_mut(1);
    let (own, made) = (&mut first[0], &mut rest[0]);
    for _ in 0..40 {
        place(&mut arena.ingress, own, b"a").unwrap();
        place(&mut arena.ingress, made, b"b").unwrap();
    }
    assert!(!own.merge(made, &mut Vec::new()));
    assert_eq!((own.len(), made.len()), (40, 40));
}

#[test]
fn pieces_freed_on_another_thread_come_back() {
    let mut arena = arena(2, 64);
    let (send, receive) = std::sync::mpsc::channel::<Table>();
    let (back, returned) = std::sync::mpsc::channel::<Table>();
    let worker = std::thread::spawn(move || {
        for mut table in receive {
            let sum: usize = (0..table.len()).map(|row| table.frame(row)[0] as usize).sum();
            assert_eq!(sum, table.len() * 5);
            table.clear();
            back.send(table).unwrap();
        }
    });
    let mut free = arena.tables;
    for _ in 0..200 {
        let mut table = free.pop().unwrap_or_else(|| returned.recv().unwrap());
        let mut placed = 0;
        while placed < 3 {
            match place(&mut arena.ingress, &mut table, &[5; 100_000]) {
                Ok(_) => placed += 1,
                Err(Full::Arena) => free.push(returned.recv().unwrap()),
                Err(other) => panic!("{other:?}"),
            }
        }
        send.send(table).unwrap();
    }
    drop(send);
    worker.join().unwrap();
}
