//! The memory of flows, and floods.

use super::super::table::Table;
use super::super::{Fate, Flows, Gap, Limits, Stream};
use super::Listener;
use super::frames::{ACK, Frame, SYN};
use warpline_packet::Seed;

/// 760 bytes a flow, beside what is buffered, with 232 of the caller's: most where there is room
/// for one more than a power of
/// two.
#[test]
fn a_flow_is_small() {
    for capacity in (0..20).flat_map(|power| [1 << power, (1 << power) + 1]) {
        let len = Table::<[u64; 29]>::memory_len(capacity);
        assert!(len <= 760 * capacity, "{len} for {capacity}");
    }
}

/// Half-open connections, each from other ports and addresses; `PROPTEST_CASES` sets their number.
#[test]
fn half_open_connections() {
    let cases: Option<u32> =
        std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let count = if cases.is_some_and(|cases| cases > 1000) { 1_000_000 } else { 60_000_u32 };
    let mut listener = Listener::new(&Limits { flows: 1000, ..Limits::default() });
    for number in 0..count {
        let ports = [number as u16, (number >> 16) as u16];
        let frame = Frame { ports, ..Frame::to_server() }.seq(number).flags(SYN);
        assert!(listener.take(&frame).is_new);
    }
    let counters = listener.flows.counters();
    assert_eq!(listener.flows.len(), 1000);
    assert_eq!(counters.flows_evicted, u64::from(count) - 1000);
    assert_eq!(counters.flows_evicted_half_open, counters.flows_evicted);
    assert_eq!(listener.flows.stream_memory_peak(), 0);
}

/// Many flows of a packet each share what a few long windows would take.
#[test]
fn small_flows_take_small_blocks() {
    let limits =
        Limits { flows: 2000, stream_memory: 1000 * 512, midstream: true, ..Limits::default() };
    let mut listener = Listener::new(&limits);
    let frame = |port| Frame::to_server().port(port).seq(1).ack(1).data(&[1; 500]);
    let is_tracked = |stream: Stream| matches!(stream, Stream::Grew { .. });
    let tracked = (0..2000).filter(|&port| port != 80 && is_tracked(listener.stream(&frame(port))));
    assert_eq!(tracked.count(), 1000);
    let counters = listener.flows.counters();
    assert_eq!(counters.stream_memory_exhausted, 999);
    assert_eq!(listener.flows.stream_memory_peak(), 1000 * 512);
}

/// Segments ahead of a gap that never closes, as far as allowed and beyond.
#[test]
fn waiting_data_are_bounded() {
    let limits = Limits { flows: 2, hold_len: 5000, held_segments: 10, ..Limits::default() };
    let mut listener = Listener::new(&limits);
    listener.open(0, 0);
    let frame = |at: u32| Frame::to_server().seq(1 + at).ack(1).data(b"xyz");
    for at in 1..=10 {
        assert_eq!(listener.stream(&frame(at * 100)), Stream::Held);
    }
    // No more nodes: the first gap is given up, and its node is free again.
    let Stream::Gap(gap) = listener.stream(&frame(2000)) else { panic!("no gap") };
    assert_eq!((gap.lost, gap.from, gap.to, gap.packet), (100, 100, 103, Fate::Held));
    let Stream::Gap(gap) = listener.stream(&frame(9000)) else { panic!("no gap") };
    assert_eq!((gap.lost, gap.from, gap.to, gap.packet), (97, 200, 203, Fate::Alone));
    assert_eq!(listener.flows.counters().gaps_no_room, 2);
    // Far ahead, with nothing in between.
    let mut listener = Listener::new(&limits);
    listener.open(0, 0);
    let Stream::Gap(gap) = listener.stream(&frame(9000)) else { panic!("no gap") };
    assert_eq!((gap.lost, gap.from, gap.to, gap.packet), (9000, 9000, 9003, Fate::Delivered));
    // The segment that fills it is too late to be joined.
    assert_eq!(listener.stream(&frame(0)), Stream::Untracked);
    assert_eq!(listener.stream(&frame(8999).data(b"uvwxyz")), LATE);
    assert_eq!(listener.flows.counters().segments_late, 2);
    assert_eq!(listener.seen(&frame(9005)).1, 9000);
}

const LATE: Stream = Stream::Gap(Gap { lost: 0, from: 9003, to: 9005, packet: Fate::Alone });

/// Waiting bytes are delivered if there is no memory to join them with the bytes before.
#[test]
fn waiting_data_survive_a_lack_of_memory() {
    let limits = Limits { stream_memory: 512, ..Limits::default() };
    for (first, waits) in [(0, 400), (101, 100)] {
        let mut listener = Listener::new(&limits);
        listener.open(0, 0);
        let frame = |at: u32| Frame::to_server().seq(1 + at).ack(1);
        assert_eq!(listener.stream(&frame(waits).data(b"xyz")), Stream::Held);
        let (from, to) = (u64::from(waits), u64::from(waits) + 3);
        let gap = Stream::Gap(Gap { lost: from, from, to, packet: Fate::Alone });
        assert_eq!(listener.stream(&frame(first).data(&[b'a'; 600])), gap, "{first}");
        let counters = listener.flows.counters();
        assert_eq!(
            (counters.stream_memory_exhausted, listener.flows.stream_memory_peak()),
            (1, 512)
        );
    }
}

/// Whatever a flow did, its memory is free when it is gone.
#[test]
fn memory_comes_back() {
    let limits =
        Limits { flows: 1, stream_memory: 64 << 10, held_segments: 8, ..Limits::default() };
    let mut listener = Listener::new(&limits);
    for port in 100..600 {
        let client = |seq, ack, flags| Frame::to_server().port(port).seq(seq).ack(ack).flags(flags);
        listener.take(&client(0, 0, SYN));
        listener.take(&Frame::to_client().port(port).seq(0).ack(1).flags(SYN | ACK));
        assert!(matches!(
            listener.stream(&client(1, 1, ACK).data(&[3; 1000])),
            Stream::Grew { .. }
        ));
        for at in 0..8 {
            let ahead = client(2000 + 10 * at, 1, ACK).data(&[3; 9]);
            assert_eq!(listener.stream(&ahead), Stream::Held);
        }
    }
    let counters = listener.flows.counters();
    assert_eq!((counters.stream_memory_exhausted, counters.gaps_no_room), (0, 0));
    assert!(listener.flows.stream_memory_peak() <= 8 << 10);
}

/// The same packets give the same, whatever the seeds of the tables.
#[test]
fn results_do_not_depend_on_seeds() {
    let limits =
        Limits { flows: 50, stream_memory: 20 * 512, midstream: true, ..Limits::default() };
    let mut flows: [Flows<u64>; 2] = [(); 2].map(|()| Flows::new(&limits, Seed::new(1)));
    for number in 0..5000_u32 {
        let step = number.wrapping_mul(2_654_435_761) >> 16;
        let frame = Frame::to_server().port(100 + (step % 80) as u16).seq(number / 40).ack(1);
        let frame = frame.data(&vec![0; (step / 80 % 900) as usize]).seconds(u64::from(number / 9));
        let bytes = frame.bytes();
        let packet = frame.packet(&bytes).expect("a packet");
        let [first, second] = &mut flows;
        assert_eq!(first.take(&packet), second.take(&packet));
    }
    assert_eq!(flows[0].counters(), flows[1].counters());
}
