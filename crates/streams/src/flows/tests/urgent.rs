//! Urgent bytes: in any order of segments, the stream is what was sent without them.

use proptest::prelude::*;

use super::super::{Limits, Overlap, Stream, Urgent, UrgentLimit, Why};
use super::frames::{ACK, Frame, URG};
use super::{BOTH, Listener};

/// A segment: its length, and whether it is urgent. Where its urgent pointer points goes by its
/// length.
type Segment = (usize, bool);

fn segments() -> impl Strategy<Value = Vec<Segment>> {
    let plain = prop::collection::vec((1..40usize, prop::bool::weighted(0.2)), 1..30);
    plain.prop_map(|mut segments| {
        // No more may wait for others at a time.
        let urgent = segments.iter_mut().filter(|(_, is_urgent)| *is_urgent);
        urgent.skip(4).for_each(|segment| segment.1 = false);
        segments
    })
}

fn pointer(len: usize) -> usize {
    1 + len * 7 % len
}

/// The place of the byte of a segment that is not in the stream.
fn left_out(policy: Urgent, (len, is_urgent): Segment) -> Option<usize> {
    match policy {
        Urgent::OutOfBand => is_urgent.then_some(len - 1),
        Urgent::Pointer => is_urgent.then(|| pointer(len) - 1),
        _ => None,
    }
}

proptest! {
    #[test]
    fn the_order_of_segments_makes_no_difference(
        segments in segments(),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        policy in prop::sample::select(vec![Urgent::OutOfBand, Urgent::Pointer, Urgent::Inline]),
        overlap in prop::sample::select(vec![Overlap::Bsd, Overlap::Last, Overlap::Linux]),
        window_len in prop::sample::select(vec![0, 5, 100, 2000]),
        isn in prop::sample::select(vec![3, u32::MAX - 20]),
        way in 0..2usize,
    ) {
        let limits = Limits { flows: 4, window_len, urgent: policy, overlap, ..Limits::default() };
        let mut listener = Listener::new(&limits);
        listener.open(isn, isn);
        let (mut sent, mut text, mut starts) = (0_u32, Vec::new(), Vec::new());
        for &(len, is_urgent) in &segments {
            starts.push(sent);
            let out = left_out(policy, (len, is_urgent));
            let kept = (0..len).filter(|at| Some(*at) != out).map(|at| byte(sent as usize + at));
            text.extend(kept);
            sent += len as u32;
        }
        let order = order.iter().map(|at| at.index(segments.len())).chain(0..segments.len());
        let mut delivered = 0;
        for at in order {
            let (len, is_urgent) = segments[at];
            let data: Vec<u8> = (0..len).map(|own| byte(starts[at] as usize + own)).collect();
            let seq = isn.wrapping_add(1).wrapping_add(starts[at]);
            let frame = Frame::to(BOTH[way]).seq(seq).ack(isn.wrapping_add(1)).data(&data);
            let frame = if is_urgent { frame.urgent(pointer(len) as u16) } else { frame };
            let tracked = listener.take(&frame);
            let place = tracked.place.expect("a flow");
            let window = listener.flows.window(place, BOTH[way]);
            let end = window.start + window.bytes.len() as u64;
            match tracked.stream {
                Stream::Grew { from, to, is_packet, changed } => {
                    prop_assert_eq!((from, to, changed), (delivered, end, None));
                    prop_assert!(!is_packet || left_out(policy, segments[at]).is_none());
                }
                Stream::Held | Stream::Old | Stream::Untracked => prop_assert_eq!(delivered, end),
                other => prop_assert!(false, "{:?}", other),
            }
            prop_assert_eq!(window.bytes, &text[window.start as usize..end as usize]);
            delivered = end;
        }
        prop_assert_eq!(delivered, text.len() as u64);
    }
}

fn byte(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]
}

#[test]
fn beyond_the_limit_another_policy_counts() {
    for (limit, stream) in [
        (UrgentLimit::Drop, Stream::Refused(Why::Urgent)),
        (UrgentLimit::Inline, super::grew(65_535, 65_537)),
        (UrgentLimit::Gap, super::grew_otherwise(65_535, 65_536)),
    ] {
        let limits = Limits { urgent_limit: limit, ..Limits::default() };
        let mut listener = Listener::new(&limits);
        listener.open(0, 0);
        let frame = |at: u32| Frame::to_server().seq(1 + 2 * at).ack(1).data(b"ab").urgent(2);
        for at in 0..65_535 {
            let from = u64::from(at);
            assert_eq!(listener.stream(&frame(at)), super::grew_otherwise(from, from + 1));
            listener.take(&Frame::to_client().seq(1).ack(3 + 2 * at));
        }
        assert_eq!(listener.stream(&frame(65_535)), stream, "{limit:?}");
        assert_eq!(listener.flows.counters().urgent_bytes, 65_535);
    }
}

#[test]
fn a_dropped_packet_takes_its_urgent_byte_along() {
    let mut listener = Listener::new(&Limits::default());
    listener.open(0, 0);
    let ahead = Frame::to_server().seq(4).ack(1).data(b"def").urgent(3);
    let tracked = listener.take(&ahead);
    let place = tracked.place.expect("a flow");
    listener.flows.take_back(place, tracked.direction);
    listener.take(&Frame::to_server().seq(1).ack(1).data(b"abc"));
    let again = Frame::to_server().seq(4).ack(1).data(b"def").flags(ACK);
    let (_, start, bytes) = listener.seen(&again);
    assert_eq!((start, &bytes[..]), (0, &b"abcdef"[..]));
    assert_eq!(URG & again.flags, 0);
}
