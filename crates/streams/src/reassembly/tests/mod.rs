//! Reassembly: cases by hand, and random traffic against a model that keeps bytes in maps.

mod cases;
mod fragments;
mod linux;
mod model;
mod overlap;
mod random;

use warpline_packet::{
    Arena, ArenaLayout, Arrival, Batch, Headers, HeapMemory, Instant, LinkType, Packet,
};

use super::{Reassembly, Taken};

/// The result for a packet, with borrowed data copied.
type Reported = Result<Option<Vec<u8>>, super::Why>;

/// Packets one at a time, as ingress would give them.
struct Ingress {
    arena: Arena,
    batch: Batch,
}

impl Ingress {
    fn new() -> Self {
        let layout = ArenaLayout {
            slabs: 2,
            emit_slabs: 0,
            tables: 1,
            slots: 1,
            scratch_words: 0,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).unwrap();
        let mut arena = Arena::new(Box::new(memory), &layout).unwrap();
        let batch = Batch::new(arena.tables.remove(0));
        Self { arena, batch }
    }

    fn packet(&mut self, frame: &[u8], link: LinkType, nanos: u64, cut: usize) -> Packet<'_> {
        let kept = &frame[..frame.len() - cut];
        let headers = Headers::parse(kept, link, frame.len());
        let timestamp = Instant::from_nanos(nanos);
        let arrival = Arrival {
            timestamp,
            captured: timestamp,
            ingress: 0,
            wire_len: frame.len() as u32,
            link,
            interface: 0,
            shard: 0,
            flow_hash: 0,
        };
        self.batch.clear();
        self.batch.push(kept, &headers, &arrival, &mut self.arena.ingress).unwrap();
        self.batch.packet(0)
    }
}

/// The answer of `reassembly` to a fragment.
fn take(reassembly: &mut Reassembly, packet: &Packet<'_>) -> Reported {
    match reassembly.take(packet) {
        Taken::Whole => panic!("a fragment was taken for whole"),
        Taken::Stored => Ok(None),
        Taken::Complete(frame) => Ok(Some(frame.to_vec())),
        Taken::Refused(why) => Err(why),
    }
}
