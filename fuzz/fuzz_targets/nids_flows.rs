//! Flow tracking of fuzzed packets: never a panic, memory within its bounds, streams that only go
//! forward, and windows that end where their stream does.
//!
//! The first byte has the limits and whether packets follow as they are or as steps of eight bytes:
//! flags and direction, sequence and acknowledgement number (16 bits each), length, window, port.

#![no_main]

use std::collections::{HashMap, HashSet};

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::frames::{self, STEPS};
use warpline_packet::wire::{ip_protocol, ipv4, tcp};
use warpline_packet::{Headers, Instant, LinkType};
use warpline_streams::flows::{Direction, FlowPacket, FlowSlot, Flows, Limits, Overlap, Stream};

const OVERLAPS: [&str; 6] = ["first", "last", "bsd", "linux", "old-linux", "solaris"];
const MEMORY: [usize; 4] = [0, 3 << 9, 16 << 10, 1 << 20];

fuzz_target!(|data: &[u8]| {
    let Some((&first, data)) = data.split_first() else { return };
    let limits = Limits {
        flows: 3,
        window_len: [1, 600][usize::from(first >> 1 & 1)],
        hold_len: 4000,
        stream_memory: MEMORY[usize::from(first >> 2 & 3)],
        held_segments: 6,
        overlap: Overlap::named(OVERLAPS[usize::from(first >> 4) % OVERLAPS.len()])
            .expect("a name"),
        midstream: first >> 7 == 1,
        ..Limits::default()
    };
    let mut listener = Listener {
        flows: Flows::new(&limits, warpline_packet::Seed::default()),
        ends: HashMap::new(),
        established: HashSet::new(),
    };
    if first & 1 == 0 {
        for cut in frames::cut(data, 0) {
            let input = cut.input(None);
            listener.take(&input.bytes, input.link, input.wire_len as usize, input.timestamp);
        }
    } else {
        let mut now = 0;
        for step in data.chunks_exact(8) {
            now += STEPS[usize::from(step[7] >> 5)] / 8;
            let frame = segment(step);
            listener.take(&frame, LinkType::RAW, frame.len(), Instant::from_nanos(now));
        }
    }
    assert!(listener.flows.stream_memory_peak() <= limits.stream_memory as u64);
});

/// The TCP segment that a step stands for.
fn segment(step: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from(step[at]) | u32::from(step[at + 1]) << 8;
    let mut body = vec![0; tcp::HEADER_LEN];
    body.extend((0..usize::from(step[5]) * 4).map(|at| at as u8 ^ step[1]));
    let to_client = step[0] & 1 == 1;
    let ports = [40_000 + u16::from(step[7] & 3), 80];
    let mut view = tcp::Tcp::new_unchecked(&mut body[..]);
    view.set_src_port(ports[usize::from(to_client)]);
    view.set_dst_port(ports[usize::from(!to_client)]);
    // Around the end of the numbers.
    view.set_seq(word(1).wrapping_sub(0x8000));
    view.set_ack(word(3).wrapping_sub(0x8000));
    view.set_header_len(tcp::HEADER_LEN);
    view.set_flags(u16::from(step[0] >> 1));
    view.set_window(u16::from(step[6]) << 8);
    let mut packet = vec![0; ipv4::HEADER_LEN];
    packet[0] = 0x45;
    packet[9] = ip_protocol::TCP;
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 1]);
    packet[15 + 4 * usize::from(to_client)] = 2;
    packet.extend(body);
    frames::repair(&mut packet, LinkType::RAW);
    packet
}

struct Listener {
    flows: Flows<u64>,
    /// Where the stream of a flow and direction ended.
    ends: HashMap<(u64, u8), u64>,
    /// Flows whose handshake is over.
    established: HashSet<u64>,
}

impl Listener {
    fn take(&mut self, frame: &[u8], link: LinkType, wire_len: usize, now: Instant) {
        let headers = Headers::parse(frame, link, wire_len);
        let hint = wire_len as u32 % 3;
        let Some(packet) = FlowPacket::new(frame, &headers, true, [now; 2], hint) else {
            return;
        };
        self.flows.fetch(wire_len as u32 % 3);
        self.flows.handle_timeout(now);
        let tracked = self.flows.take(&packet);
        let Some(place) = tracked.place else { return };
        if tracked.is_new {
            // The same addresses and ports have the same number again.
            let id = self.flows.id(place);
            self.established.remove(&id);
            self.ends.retain(|(own, _), _| *own != id);
        }
        if let Stream::Grew { from, to, .. } = tracked.stream {
            assert!(from <= to && to == self.end(place, tracked.direction));
        }
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.check(place, direction);
            while let Some(gap) = self.flows.next_gap(place, direction) {
                assert!(gap.from < gap.to && gap.to == self.end(place, direction));
                self.check(place, direction);
            }
        }
    }

    fn end(&self, place: FlowSlot, direction: Direction) -> u64 {
        self.flows.facts(place).stream_len[direction as usize]
    }

    fn check(&mut self, place: FlowSlot, direction: Direction) {
        let (end, facts) = (self.end(place, direction), self.flows.facts(place));
        let id = self.flows.id(place);
        let window = self.flows.window(place, direction);
        assert_eq!(window.start + window.bytes.len() as u64, end);
        let before = self.ends.insert((id, direction as u8), end).unwrap_or(0);
        // Until the handshake is over a stream may begin anew.
        let was_established = self.established.contains(&id);
        assert!(end >= before || !was_established);
        if facts.is_established {
            self.established.insert(id);
        }
    }
}
