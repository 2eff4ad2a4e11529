//! Bytes are delivered once, as they were sent, however they are cut, ordered and repeated.

use proptest::prelude::*;

use super::super::{Fate, Limits, Overlap, Stream, Why};
use super::frames::Frame;
use super::{BOTH, Listener};

/// A piece of the sender's bytes: where it starts, its length, and how many places later it comes.
type Piece = (usize, usize, usize);

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    prop::collection::vec((0..3000usize, 1..700usize, 0..12usize), 1..60)
}

/// The pieces in the order in which they come, and then all in order so that nothing is missing.
fn order(text: &[u8], pieces: &[Piece]) -> Vec<(usize, usize)> {
    let cut = |&(start, len, _): &Piece| {
        let start = start % text.len();
        (start, (start + len).min(text.len()))
    };
    let mut placed: Vec<(usize, (usize, usize))> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        placed.push((at + piece.2, cut(piece)));
    }
    placed.sort_by_key(|&(at, _)| at);
    let all = (0..text.len()).step_by(333).map(|at| (at, (at + 333).min(text.len())));
    placed.into_iter().map(|(_, bounds)| bounds).chain(all).collect()
}

fn text(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

fn limits(window_len: usize, overlap: Overlap) -> Limits {
    Limits { flows: 4, window_len, overlap, stream_memory: 1 << 20, ..Limits::default() }
}

const OVERLAPS: [Overlap; 6] = [
    Overlap::First,
    Overlap::Last,
    Overlap::Bsd,
    Overlap::Linux,
    Overlap::OldLinux,
    Overlap::Solaris,
];

proptest! {
    #[test]
    fn delivers_what_was_sent(
        pieces in pieces(),
        len in 1..3000usize,
        window_len in prop::sample::select(vec![0, 1, 7, 100, 511, 512, 3000]),
        isn in prop::sample::select(vec![0, 77, u32::MAX, u32::MAX - 1000]),
        overlap in prop::sample::select(OVERLAPS.to_vec()),
        way in 0..2usize,
    ) {
        let (text, direction) = (text(len), BOTH[way]);
        let mut listener = Listener::new(&limits(window_len, overlap));
        listener.open(isn, isn);
        let frame = Frame::to(direction).ack(isn.wrapping_add(1));
        let mut delivered = 0;
        for (start, end) in order(&text, &pieces) {
            let seq = isn.wrapping_add(1).wrapping_add(start as u32);
            let frame = frame.seq(seq).data(&text[start..end]);
            let tracked = listener.take(&frame);
            let place = tracked.place.expect("a flow");
            let window = listener.flows.window(place, direction);
            match tracked.stream {
                Stream::Grew { from, to, is_packet, changed } => {
                    prop_assert_eq!((from, changed), (delivered, None));
                    prop_assert!(to >= end as u64 && start as u64 <= from);
                    prop_assert!(!is_packet || (from, to) == (start as u64, end as u64));
                    prop_assert_eq!(window.start, from.saturating_sub(window_len as u64));
                    prop_assert_eq!(window.bytes, &text[window.start as usize..to as usize]);
                    delivered = to;
                }
                Stream::Held => prop_assert!(start as u64 > delivered),
                Stream::Old => prop_assert!(end as u64 <= delivered),
                other => prop_assert!(false, "{:?}", other),
            }
            prop_assert_eq!(window.start + window.bytes.len() as u64, delivered);
        }
        prop_assert_eq!(delivered, len as u64);
        let counters = listener.flows.counters();
        prop_assert_eq!((counters.gap_bytes, counters.stream_memory_exhausted), (0, 0));
    }

    /// With any amount of memory, reports are true, and nothing is delivered twice.
    #[test]
    fn stays_correct_without_memory(
        pieces in pieces(),
        units in 0..7usize,
        held in 0..9usize,
        hold_len in prop::sample::select(vec![0, 10, 400, 5000]),
        acks in any::<bool>(),
    ) {
        let text = text(3000);
        let limits = Limits {
            stream_memory: units * 512, held_segments: held, hold_len, ..limits(300, Overlap::Bsd)
        };
        let mut listener = Listener::new(&limits);
        listener.open(9, 9);
        let (mut next, mut lost) = (0, 0);
        for (start, end) in order(&text, &pieces) {
            let frame = Frame::to_server().seq(10 + start as u32).ack(10).data(&text[start..end]);
            let tracked = listener.take(&frame);
            let place = tracked.place.expect("a flow");
            match tracked.stream {
                Stream::Grew { from, .. } => prop_assert_eq!(from, next),
                Stream::Gap(gap) => {
                    // Nothing more is lost where a packet may fill what was given up before.
                    let is_late = gap.from == next && gap.packet == Fate::Alone;
                    prop_assert!(gap.from >= next + gap.lost && (gap.lost > 0 || is_late));
                    prop_assert!(gap.to > gap.from || is_late);
                    lost += gap.lost;
                }
                Stream::Old | Stream::Held | Stream::Untracked => {}
                other => prop_assert!(false, "{:?}", other),
            }
            let window = listener.flows.window(place, tracked.direction);
            let bounds = window.start as usize..window.start as usize + window.bytes.len();
            prop_assert_eq!(window.bytes, &text[bounds.clone()]);
            let len = listener.flows.facts(place).stream_len[0];
            prop_assert!(bounds.end as u64 == len && len >= next);
            next = len;
            if acks {
                listener.take(&Frame::to_client().seq(10).ack(10 + end as u32));
            }
        }
        prop_assert_eq!(next, 3000);
        let counters = listener.flows.counters();
        // Gaps are not reported if there was no memory for the bytes after them.
        prop_assert!(counters.gap_bytes >= lost);
        prop_assert!(listener.flows.stream_memory_peak() <= 512 * units as u64);
    }
}

/// Through the end of the sequence numbers, twice around.
#[test]
fn sequence_numbers_wrap() {
    let mut listener = Listener::new(&limits(1000, Overlap::Bsd));
    let start = u32::MAX - 5;
    listener.open(start.wrapping_sub(1), 0);
    let mut seq = start;
    let payload = [7; 60_000];
    let mut sent = 0;
    while sent < 2 << 32 {
        let frame = Frame::to_server().seq(seq).ack(1).data(&payload);
        assert_eq!(listener.stream(&frame), super::grew(sent, sent + 60_000));
        seq = seq.wrapping_add(60_000);
        sent += 60_000;
        listener.take(&Frame::to_client().seq(1).ack(seq).window(65_000));
    }
    let behind = Frame::to_server().seq(seq.wrapping_add(65_001)).ack(1).data(b"x");
    assert_eq!(listener.stream(&behind), Stream::Refused(Why::Window));
}
