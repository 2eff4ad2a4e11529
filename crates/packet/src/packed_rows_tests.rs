use proptest::prelude::*;

use super::*;
use crate::{
    Arena, ArenaLayout, Arrival, Field, FieldSet, Flags, Headers, HeapMemory, Instant, LaunchRows,
    LinkType, ReadWrite, Reason,
};

/// A packet: the makeup of its shape, its length, and the bytes after its IP packet.
#[derive(Clone, Debug)]
struct Frame {
    shape: u8,
    len: usize,
    behind: u32,
    is_dropped: bool,
    is_flagged: bool,
}

fn frame() -> impl Strategy<Value = Frame> {
    let len = prop_oneof![8 => 60..2000usize, 1 => 65_500..65_600usize];
    let behind = prop_oneof![8 => 0..50u32, 1 => 250..260u32];
    (any::<u8>(), len, behind, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        |(shape, len, behind, is_dropped, is_flagged)| {
            let behind = behind.min(len as u32);
            Frame { shape, len, behind, is_dropped, is_flagged }
        },
    )
}

fn headers(frame: &Frame) -> Headers {
    let mut headers = Headers::default();
    headers.end = frame.len as u32 - frame.behind;
    headers.l3 = 14;
    headers.l4 = 34 + 4 * u16::from(frame.shape % 4);
    headers.payload = 42 + 4 * u16::from(frame.shape / 4);
    headers.flags = Flags(frame.shape.into());
    headers.version = [0, 4, 6][usize::from(frame.shape % 3)];
    headers.protocol = frame.shape;
    headers
}

fn batch(frames: &[Frame], shapes: u8) -> Batch {
    let layout = ArenaLayout {
        slabs: 8,
        emit_slabs: 0,
        tables: 1,
        slots: 256,
        scratch_words: 1,
        headroom: 40,
        tailroom: 30,
    };
    let memory = HeapMemory::new(layout.memory_len()).unwrap();
    let mut arena = Arena::new(Box::new(memory), &layout).unwrap();
    let mut batch = Batch::new(arena.tables.remove(0));
    for (number, frame) in frames.iter().enumerate() {
        let frame = Frame { shape: frame.shape % shapes, ..frame.clone() };
        let arrival = Arrival {
            timestamp: Instant::ZERO,
            captured: Instant::ZERO,
            ingress: number as u64,
            wire_len: frame.len as u32 + u32::from(frame.shape % 2),
            link: LinkType(u16::from(frame.shape)),
            interface: 0,
            shard: 0,
            flow_hash: 0,
        };
        let bytes = vec![7; frame.len];
        batch.push(&bytes, &headers(&frame), &arrival, &mut arena.ingress).unwrap();
        let mut packet = batch.packet_mut(number);
        if frame.is_flagged {
            packet.flag();
        }
        if frame.is_dropped {
            packet.drop(Reason(1));
        }
    }
    batch
}

/// The columns of a packet as the packed rows encode them, decoded by the layout in the module's
/// head.
fn unpacked(packed: &[u8], rows: usize, at: usize) -> Vec<(&'static str, u64)> {
    let number = |from: usize, len: usize| {
        let bytes = &packed[from..from + len];
        bytes.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte))
    };
    let row = 8 * at;
    let (place, len) = (number(row, 4), number(row + 4, 2));
    let (behind, shape) = (number(row + 6, 1), 8 * rows + 32 * number(row + 7, 1) as usize);
    let start = number(shape + 14, 2);
    let held = (start + len).div_ceil(64) * 64;
    vec![
        ("room", place / 64 * 64),
        ("room len", held + place % 64 * 64),
        ("len", len),
        ("end", len - behind),
        ("start", start),
        ("l3", number(shape, 2)),
        ("l4", number(shape + 2, 2)),
        ("payload", number(shape + 4, 2)),
        ("flags", number(shape + 6, 2)),
        ("version", number(shape + 8, 1)),
        ("protocol", number(shape + 9, 1)),
        ("lie", number(shape + 10, 1)),
        ("link", number(shape + 12, 2)),
        ("wire len", (len + number(shape + 16, 4)) & 0xffff_ffff),
        ("next hop", number(shape + 20, 2)),
        ("left", number(shape + 24, 1)),
        ("verdict", number(shape + 25, 1)),
        ("flagged", number(shape + 28, 1)),
    ]
}

fn reported(batch: &Batch, row: usize) -> Vec<(&'static str, u64)> {
    let (table, headers) = (&batch.table, batch.headers(row));
    vec![
        ("room", table.room(row).start as u64),
        ("room len", table.room(row).len() as u64),
        ("len", table.frame_len(row) as u64),
        ("end", headers.end.into()),
        ("start", table.start(row) as u64),
        ("l3", headers.l3.into()),
        ("l4", headers.l4.into()),
        ("payload", headers.payload.into()),
        ("flags", headers.flags.0.into()),
        ("version", headers.version.into()),
        ("protocol", headers.protocol.into()),
        ("lie", headers.lie().into()),
        ("link", table.column(Link)[row].into()),
        ("wire len", table.column(WireLen)[row].into()),
        ("next hop", table.column(NextHop)[row].into()),
        ("left", table.column(Left)[row].into()),
        ("verdict", table.column(VerdictOf)[row].into()),
        ("flagged", table.column(Flagged)[row].into()),
    ]
}

fn all_columns() -> Columns {
    Columns::read_by(ReadWrite::new(FieldSet::ALL, FieldSet::ALL))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Packed rows hold each packet's row of the table. Only rows that don't fit are refused.
    #[test]
    fn packed_rows_say_what_the_table_says(
        frames in prop::collection::vec(frame(), 1..150),
        shapes in prop_oneof![Just(2u8), Just(9), Just(255)],
    ) {
        let batch = batch(&frames, shapes);
        let mut rows = LaunchRows::with_capacity(1, 256);
        rows.add(&batch);
        let mut packer = RowPacker::new(all_columns());
        // Bytes of an earlier launch do not matter.
        packer.clear();
        let mut to = vec![0xee; RowPacker::len_max(rows.rows())];
        let forwarded: Vec<usize> = batch.forward_rows().collect();
        let fits = |row: &usize| frames[*row].len <= 0xffff && frames[*row].behind <= 0xff;
        let mut seen: Vec<_> = forwarded.iter().map(|&row| shape(&batch, row)).collect();
        seen.sort_unstable();
        seen.dedup();
        let can = forwarded.iter().all(fits) && seen.len() <= SHAPES_MAX;
        let is_packed = packer.pack(&batch, rows.of(0), &mut to);
        prop_assert_eq!(is_packed, can);
        if is_packed {
            let len = packer.finish(rows.rows(), &mut to);
            prop_assert_eq!(len, 8 * rows.rows() + 32 * seen.len());
            for (at, &row) in forwarded.iter().enumerate() {
                prop_assert_eq!(unpacked(&to[..len], rows.rows(), at), reported(&batch, row));
            }
        }
    }
}

/// Columns that a device doesn't read make no shapes.
#[test]
fn next_hops_that_no_kernel_reads_are_no_shapes() {
    let frame = Frame { shape: 2, len: 100, behind: 0, is_dropped: false, is_flagged: false };
    let mut batch = batch(&vec![frame; 140], 9);
    (0..140).for_each(|row| batch.packet_mut(row).set_next_hop(row as u16));
    let mut rows = LaunchRows::with_capacity(1, 256);
    rows.add(&batch);
    let mut to = vec![0; RowPacker::len_max(rows.rows())];
    let hops = FieldSet::of(&[Field::NextHop]);
    for (reads, expected) in [(FieldSet::EMPTY, true), (hops, false)] {
        let columns = Columns::read_by(ReadWrite::new(reads, FieldSet::EMPTY));
        let mut packer = RowPacker::new(columns);
        assert_eq!(packer.pack(&batch, rows.of(0), &mut to), expected, "{reads}");
    }
}
