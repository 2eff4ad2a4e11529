//! Reassembly of fuzzed packets: never a panic, every frame put together is a whole IP packet no
//! longer than allowed, with its lengths and checksum right, and holds the data of its last
//! fragment, unless a policy gave them to others.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::{frames, sum16};
use warpline_packet::{Arena, ArenaLayout, Arrival, Batch, Flags, Headers, HeapMemory, Instant};
use warpline_packet::{LinkType, Malformed, Packet};
use warpline_streams::reassembly::{Overlap, Reassembly, Taken};

const DATAGRAMS: usize = 3;
const LEN_MAX: usize = 3000;

fuzz_target!(|data: &[u8]| {
    use Overlap::{Bsd, First, Last, Linux, Refuse};
    for overlap in [Refuse, First, Last, Bsd, Linux] {
        reassemble(data, overlap);
    }
});

fn reassemble(data: &[u8], overlap: Overlap) {
    let mut reassembly = Reassembly::new(DATAGRAMS, LEN_MAX).with_overlap(overlap);
    let (mut batch, mut arena) = batch();
    let cuts = frames::cut(data, 0);
    // Otherwise the first fragment's link header may be of another type than the last one's.
    let is_ethernet = cuts.iter().all(|cut| cut.link == LinkType::ETHERNET);
    for cut in cuts {
        let input = cut.input(None);
        let headers = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
        let arrival = Arrival {
            timestamp: input.timestamp,
            captured: input.timestamp,
            ingress: 0,
            wire_len: input.wire_len,
            link: input.link,
            interface: 0,
            shard: 0,
            flow_hash: 0,
        };
        batch.clear();
        batch.push(&input.bytes, &headers, &arrival, &mut arena.ingress).expect("room for one");
        let packet = batch.packet(0);
        match reassembly.take(&packet) {
            Taken::Whole => assert!(!packet.has(Flags::FRAGMENT)),
            Taken::Complete(frame) if is_ethernet => check(&packet, frame, overlap),
            Taken::Complete(frame) => assert!(frame.len() <= LEN_MAX),
            Taken::Stored => assert!(packet.has(Flags::FRAGMENT)),
            Taken::Refused(_) => {
                let is_beyond = packet.malformed() == Some(Malformed::FragmentBounds);
                assert!(packet.has(Flags::FRAGMENT) || is_beyond);
            }
        }
    }
    reassembly.expire(Instant::MAX);
    let counters = reassembly.counters();
    assert!(counters.complete + counters.expired + counters.evicted <= counters.fragments);
}

fn batch() -> (Batch, Arena) {
    let layout = ArenaLayout {
        slabs: 2,
        emit_slabs: 0,
        tables: 1,
        slots: 1,
        scratch_words: 0,
        headroom: 0,
        tailroom: 0,
    };
    let memory = HeapMemory::new(layout.memory_len()).expect("memory");
    let mut arena = Arena::new(Box::new(memory), &layout).expect("a layout that fits");
    (Batch::new(arena.tables.remove(0)), arena)
}

fn check(last: &Packet<'_>, frame: &[u8], overlap: Overlap) {
    assert!(last.has(Flags::FRAGMENT) && frame.len() <= LEN_MAX);
    let headers = Headers::parse(frame, LinkType::ETHERNET, frame.len());
    assert_eq!(headers.version, last.version());
    assert!(!headers.flags.has(Flags::FRAGMENT));
    assert_eq!(headers.end as usize, frame.len());
    let packet = &frame[usize::from(headers.l3)..];
    if headers.version == 4 {
        assert_eq!(sum16(&packet[..usize::from(packet[0] & 15) * 4], 0), 0xffff);
    }
    let data = &last.frame()[last.l4_offset()..last.ip_end()];
    assert!(
        overlap != Overlap::Refuse || frame.windows(data.len().max(1)).any(|window| window == data)
    );
}
