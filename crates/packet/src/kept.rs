//! Frames as a function got them, for sinks that show dropped packets: a function may change a
//! frame before it drops it.

use crate::arena::{VerdictOf, WireLen};
use crate::{Batch, Headers, Verdict};

/// Room for the frames of all packets of an arena, each at its own offset. It is as long as the
/// arena, but only the bytes of frames are ever touched.
#[derive(Debug)]
pub struct KeptFrames(Vec<u8>);

impl KeptFrames {
    /// For an arena of `len` bytes; `None` where there is no memory for it.
    pub fn new(len: usize) -> Option<Self> {
        let mut bytes = Vec::<u8>::new();
        bytes.try_reserve_exact(len).ok()?;
        // The reservation was a test: zeroed memory from the system is untouched until it is used.
        drop(bytes);
        Some(Self(vec![0; len]))
    }
}

/// Per row: the facts about a packet besides its kept frame.
#[derive(Debug, Default)]
pub struct KeptRows(Vec<Option<KeptRow>>);

#[derive(Clone, Copy, Debug)]
struct KeptRow {
    /// Where the frame lay in the arena.
    at: u32,
    len: u32,
    wire_len: u32,
    headers: Headers,
}

impl KeptRows {
    /// For batches of up to `slots` packets.
    pub fn with_capacity(slots: usize) -> Self {
        Self(Vec::with_capacity(slots))
    }

    /// Forgets them all: nothing is given back.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Batch {
    /// Keeps the frames of packets that still go to the next function.
    pub fn keep_frames(&self, frames: &mut KeptFrames, rows: &mut KeptRows) {
        rows.0.clear();
        rows.0.extend((0..self.len()).map(|row| {
            let (at, frame) = (self.table.offset(row), self.table.frame(row));
            let room = frames.0.get_mut(at..at + frame.len());
            let room = room.filter(|_| self.is_forward(row))?;
            room.copy_from_slice(frame);
            Some(KeptRow {
                at: at as u32,
                len: frame.len() as u32,
                wire_len: self.table.column(WireLen)[row],
                headers: *self.headers(row),
            })
        }));
    }

    /// Restores the kept frames of packets that were dropped or rejected since. Rows are the same
    /// as then; a packet may have another room.
    pub fn restore_dropped(&mut self, frames: &KeptFrames, rows: &mut KeptRows) {
        for (row, kept) in rows.0.drain(..).enumerate() {
            let verdict = self.table.column(VerdictOf).get(row).copied().map(Verdict::from_u8);
            if let (Some(kept), Some(Verdict::Dropped | Verdict::Malformed)) = (kept, verdict) {
                self.restore(row, &kept, frames);
            }
        }
    }

    fn restore(&mut self, row: usize, kept: &KeptRow, frames: &KeptFrames) {
        let KeptRow { at, len, wire_len, headers } = *kept;
        let (at, room) = (at as usize, self.table.room(row));
        // In another room the frame begins at the room's start. The packet goes no further, and
        // needs no headroom.
        let start = at.checked_sub(room.start).filter(|start| start + len as usize <= room.len());
        let Some(bytes) = frames.0.get(at..at + len as usize) else { return };
        if self.table.set_frame(row, start.unwrap_or(0) as u16, len) {
            self.table.frame_mut(row).copy_from_slice(bytes);
            self.table.column_mut(WireLen)[row] = wire_len;
            self.set_headers(row, &headers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, ArenaLayout, Arrival, HeapMemory, Instant, LinkType, Placer, Reason};

    const LAYOUT: ArenaLayout = ArenaLayout {
        slabs: 2,
        emit_slabs: 2,
        tables: 1,
        slots: 8,
        scratch_words: 0,
        headroom: 64,
        tailroom: 32,
    };

    fn batch(frames: usize) -> (Batch, Placer, KeptFrames) {
        let len = LAYOUT.memory_len();
        let memory = HeapMemory::new(len).expect("memory");
        let mut arena = Arena::new(Box::new(memory), &LAYOUT).expect("an arena");
        let mut batch = Batch::new(arena.tables.pop().expect("a table"));
        for number in 0..frames {
            let bytes = [number as u8 + 1; 100];
            let headers = Headers::parse(&bytes, LinkType::ETHERNET, bytes.len());
            let arrival = Arrival {
                timestamp: Instant::ZERO,
                captured: Instant::ZERO,
                ingress: number as u64,
                wire_len: 120,
                link: LinkType::ETHERNET,
                interface: 0,
                shard: 0,
                flow_hash: number as u32,
            };
            batch.push(&bytes, &headers, &arrival, &mut arena.ingress).expect("room");
        }
        (batch, arena.emit, KeptFrames::new(len).expect("memory"))
    }

    /// Restores exactly the dropped packets, whatever happened to their frames, even if they got
    /// others.
    #[test]
    fn dropped_packets_get_their_frames_back() {
        let (mut batch, mut emit, mut frames) = batch(6);
        let mut rows = KeptRows::with_capacity(8);
        batch.packet_mut(0).drop(Reason(1));
        let before: Vec<_> = (0..6).map(|row| *batch.headers(row)).collect();
        batch.keep_frames(&mut frames, &mut rows);
        for row in 0..6 {
            let packet = &mut batch.packet_mut(row);
            packet.frame_mut().fill(0xee);
            assert!(packet.reshape(-64, 32 * (row as isize % 2)));
            packet.frame_mut()[12..14].copy_from_slice(&[8, 0]);
            packet.reparse();
        }
        assert!(
            batch.replace(4, &[0xdd; 3000], &mut emit) && batch.replace(5, &[0xdd; 10], &mut emit)
        );
        for row in [1, 2, 4, 5] {
            batch.packet_mut(row).drop(Reason(2));
        }
        batch.restore_dropped(&frames, &mut rows);
        for (row, was) in before.iter().enumerate() {
            let packet = batch.packet(row);
            let is_back = packet.len() == 100 && packet.frame() == [row as u8 + 1; 100];
            assert_eq!(is_back, [1, 2, 4, 5].contains(&row), "packet {row}");
            assert_eq!(is_back, packet.wire_len() == 120, "packet {row}");
            assert!(!is_back || packet.headers() == *was, "packet {row}");
        }
    }
}
