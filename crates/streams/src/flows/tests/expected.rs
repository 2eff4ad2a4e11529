//! The fast path has the same results as the full path.

use proptest::prelude::*;
use warpline_packet::wire::ip_protocol;

use super::super::{FlowPacket, Flows, Grew, Limits, Overlap, Tracked};
use super::frames::{ACK, FIN, Frame, RST, SYN};
use super::{BOTH, Listener};

/// One packet: its sender, or UDP flow; distance from the next byte in order; length; flags;
/// distance of its acknowledgement from the data seen; seconds since the one before; whether it is
/// dropped.
type SentSegment = (usize, i32, usize, u16, i32, u64, bool);

fn step() -> impl Strategy<Value = SentSegment> {
    let mostly = |usual: BoxedStrategy<i32>, others: BoxedStrategy<i32>| {
        prop_oneof![12 => usual, 1 => others].boxed()
    };
    let none = || Just(0).boxed();
    let flags = prop_oneof![20 => Just(ACK), 4 => Just(ACK | PSH), 1 => Just(ACK | FIN),
        1 => Just(RST), 1 => Just(SYN), 1 => Just(0)];
    let seconds = prop_oneof![30 => Just(0_u64), 1 => 1..700_u64];
    (
        0..3usize,
        mostly(none(), (-900..900i32).boxed()),
        prop_oneof![1 => Just(0), 6 => 1..700usize],
        flags,
        mostly(none(), (-3000..3000i32).boxed()),
        seconds,
        prop::bool::weighted(0.05),
    )
}

const PSH: u16 = warpline_packet::wire::tcp::flags::PSH;

/// Calls `take` with a packet, and drops it if requested. Returns the result.
fn reported(
    flows: &mut Flows<u32>,
    take: impl Fn(&mut Flows<u32>, &FlowPacket<'_>) -> Tracked,
    packet: &FlowPacket<'_>,
    is_dropped: bool,
) -> String {
    let tracked = take(flows, packet);
    let Some(place) = tracked.place else { return format!("{tracked:?}") };
    let taken_back = is_dropped.then(|| flows.take_back(place, tracked.direction));
    let windows = BOTH.map(|direction| format!("{:?}", flows.window(place, direction)));
    let (facts, counters) = (flows.facts(place), flows.counters());
    format!("{tracked:?} {taken_back:?} {windows:?} {facts:?} {counters:?} {:?}", flows.now())
}

fn take_in_all_steps(flows: &mut Flows<u32>, packet: &FlowPacket<'_>) -> Tracked {
    loop {
        match flows.try_take(packet) {
            Ok(tracked) => return tracked,
            Err(ended) => flows.end(ended),
        }
    }
}

proptest! {
    #[test]
    fn equals_all_steps(
        steps in prop::collection::vec(step(), 1..120),
        window_len in prop::sample::select(vec![0, 100, 512]),
        stream_memory in prop::sample::select(vec![0, 2048, 1 << 16]),
        overlap in prop::sample::select(vec![Overlap::Last, Overlap::Linux]),
        checksum: bool,
        isn in prop::sample::select(vec![7, u32::MAX - 500]),
    ) {
        let limits =
            Limits { flows: 4, window_len, overlap, stream_memory, checksum, ..Limits::default() };
        let mut both = [Listener::new(&limits), Listener::new(&limits)];
        both.iter_mut().for_each(|listener| listener.open(isn, isn));
        let [short, long] = &mut both;
        let (mut next, mut nanos) = ([isn.wrapping_add(1); 2], 0);
        for (whose, off, len, flags, ack_off, seconds, is_dropped) in steps {
            nanos += seconds * 1_000_000_000;
            let (way, is_tcp) = (whose % 2, whose < 2);
            let data: Vec<u8> =
                (0..len as u32).map(|at| next[way].wrapping_add(at) as u8).collect();
            let protocol = if is_tcp { ip_protocol::TCP } else { ip_protocol::UDP };
            let frame = Frame { nanos, protocol, ..Frame::to(BOTH[way]) }
                .seq(next[way].wrapping_add_signed(off))
                .ack(next[1 - way].wrapping_add_signed(ack_off))
                .flags(flags)
                .data(&data);
            if off == 0 && is_tcp {
                next[way] = next[way].wrapping_add(len as u32);
            }
            let bytes = frame.bytes();
            let packet = frame.packet(&bytes).expect("a packet of a flow");
            let in_short = reported(&mut short.flows, Flows::take, &packet, is_dropped);
            let in_long = reported(&mut long.flows, take_in_all_steps, &packet, is_dropped);
            prop_assert_eq!(in_short, in_long, "{:?}", frame);
        }
    }
}

#[test]
fn is_the_usual_way() {
    let mut listener = Listener::new(&Limits { stream_memory: 1 << 20, ..Limits::default() });
    listener.open(0, 0);
    for (number, is_expected) in [false, true, true, true, true, true].into_iter().enumerate() {
        let data = [5; 1460];
        let frame = Frame::to_server().seq(1 + 1460 * number as u32).ack(1).data(&data);
        let bytes = frame.bytes();
        let packet = frame.packet(&bytes).expect("a packet of a flow");
        let tracked = listener.flows.take_expected(&packet);
        assert_eq!(tracked.is_some(), is_expected, "the first one has no block yet: {number}");
        tracked.map(Tracked::from).unwrap_or_else(|| listener.flows.take(&packet));
        let acked = Frame::to_client().seq(1).ack(1 + 1460 * (number as u32 + 1));
        let bytes = acked.bytes();
        let packet = acked.packet(&bytes).expect("a packet of a flow");
        let tracked = listener.flows.take_expected(&packet).expect("an acknowledgement is");
        assert!(tracked.grew.is_none() && tracked.direction == BOTH[1]);
    }
}

proptest! {
    /// The window is in one part or in two, as the lengths fall.
    #[test]
    fn seams_are_what_was_sent(
        lens in prop::collection::vec((1..1500usize, prop::bool::weighted(0.1)), 1..80),
        window_len in prop::sample::select(vec![0, 5, 100, 700, 4096]),
        reach in prop::sample::select(vec![1, 32, 200]),
    ) {
        let limits = Limits { flows: 4, window_len, stream_memory: 1 << 20, ..Limits::default() };
        let mut listener = Listener::new(&limits);
        listener.open(0, 0);
        let text: Vec<u8> =
            (0..120_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
        let (mut from, mut room) = (0, vec![0; 2 * reach]);
        for (len, is_looked_at) in lens {
            let data = &text[from..from + len];
            let acked = Frame::to_client().seq(1).ack(1 + from as u32);
            listener.take(&acked);
            let frame = Frame::to_server().seq(1 + from as u32).ack(1).data(data);
            let frame_bytes = frame.bytes();
            let packet = frame.packet(&frame_bytes).expect("a packet of a flow");
            let expected = listener.flows.take_expected(&packet);
            if let Some(Grew { seam: Some(seam), .. }) =
                expected.and_then(|expected| expected.grew) {
                prop_assert_eq!(&seam.to_be_bytes(), &text[from - 3..from + 5]);
            }
            let tracked =
                expected.map(Tracked::from).unwrap_or_else(|| listener.flows.take(&packet));
            let (place, direction) = (tracked.place.expect("a flow"), tracked.direction);
            let ((bytes, border), _) =
                listener.flows.seam_and_vars(place, direction, len, reach, &mut room);
            let first = from - from.min(window_len).min(reach);
            prop_assert_eq!((bytes, border), (&text[first..from + len.min(reach)], from - first));
            if is_looked_at {
                let window = listener.flows.window(place, direction);
                let start = from - from.min(window_len);
                prop_assert_eq!((window.start, window.bytes),
                    (start as u64, &text[start..from + len]));
            }
            from += len;
        }
    }
}
