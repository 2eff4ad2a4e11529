//! Overlap policies: the known differences between systems, and random segments against a model
//! that tracks the owner of every byte.

use proptest::prelude::*;

use super::super::{Limits, Overlap, Stream};
use super::frames::Frame;
use super::{Listener, grew};

/// Segments that wait after a gap of one byte: the start and the bytes of each.
fn receive(overlap: Overlap, segments: &[(u32, &str)]) -> String {
    let limits = Limits { flows: 1, overlap, ..Limits::default() };
    let mut listener = Listener::new(&limits);
    listener.open(0, 0);
    let frame = Frame::to_server().ack(1);
    for (start, bytes) in segments {
        listener.take(&frame.seq(1 + start).data(bytes.as_bytes()));
    }
    let (_, _, window) = listener.seen(&frame.seq(1).data(b"."));
    String::from_utf8(window).expect("ASCII")
}

const ALL: [Overlap; 6] = [
    Overlap::First,
    Overlap::Last,
    Overlap::Bsd,
    Overlap::Linux,
    Overlap::OldLinux,
    Overlap::Solaris,
];

/// Two segments in each way that they can lie; results in the order of `ALL`.
#[test]
fn two_segments() {
    type Case = (&'static [(u32, &'static str)], [&'static str; 6]);
    let cases: [Case; 9] = [
        // The second starts before the first and ends in it.
        (&[(3, "AAA"), (1, "BBB")], [".BBAAA", ".BBBAA", ".BBBAA", ".BBBAA", ".BBBAA", ".BBAAA"]),
        // Ends with it.
        (&[(3, "AA"), (1, "BBBB")], [".BBAA", ".BBBB", ".BBBB", ".BBBB", ".BBBB", ".BBBB"]),
        // Ends after it.
        (&[(2, "AA"), (1, "BBBB")], [".BAAB", ".BBBB", ".BBBB", ".BBBB", ".BBBB", ".BBBB"]),
        // Starts with it and is shorter.
        (&[(1, "AAAA"), (1, "BB")], [".AAAA", ".BBAA", ".AAAA", ".AAAA", ".AAAA", ".AAAA"]),
        // Of the same bounds.
        (&[(1, "AAA"), (1, "BBB")], [".AAA", ".BBB", ".AAA", ".AAA", ".BBB", ".BBB"]),
        // Starts with it and is longer.
        (&[(1, "AA"), (1, "BBBB")], [".AABB", ".BBBB", ".AABB", ".BBBB", ".BBBB", ".BBBB"]),
        // Starts in it and ends in it.
        (&[(1, "AAAAA"), (2, "BB")], [".AAAAA", ".ABBAA", ".AAAAA", ".AAAAA", ".AAAAA", ".AAAAA"]),
        // Ends with it.
        (&[(1, "AAAA"), (3, "BB")], [".AAAA", ".AABB", ".AAAA", ".AAAA", ".AAAA", ".AAAA"]),
        // Ends after it.
        (&[(1, "AAA"), (2, "BBBB")], [".AAABB", ".ABBBB", ".AAABB", ".AAABB", ".AAABB", ".ABBBB"]),
    ];
    for (segments, expected) in cases {
        assert_eq!(ALL.map(|overlap| receive(overlap, segments)), expected, "{segments:?}");
    }
}

/// The sequence that distinguishes systems: six segments, and the segment of each byte.
#[test]
fn systems_are_distinguished() {
    let segments =
        [(1, "111"), (5, "22"), (7, "333"), (2, "4444"), (7, "555"), (10, "666"), (7, "777777")];
    let cases = [
        ("first", ".111422333666"),
        ("last", ".144442777777"),
        ("bsd", ".111442333777"),
        ("linux", ".111442777777"),
        ("windows", ".111442333777"),
        ("solaris", ".144422777777"),
    ];
    for (name, expected) in cases {
        let overlap = Overlap::named(name).expect("a policy");
        assert_eq!(receive(overlap, &segments), expected, "{name}");
    }
    assert_eq!(Overlap::named("amiga"), None);
}

/// Delivered bytes stay, except with the policy `Last`.
#[test]
fn delivered_bytes() {
    for overlap in ALL {
        let limits = Limits { flows: 1, overlap, ..Limits::default() };
        let mut listener = Listener::new(&limits);
        listener.open(0, 0);
        let frame = Frame::to_server().ack(1);
        assert_eq!(listener.stream(&frame.seq(1).data(b"abcdef")), grew(0, 6));
        let again = frame.seq(3).data(b"cDEfgh");
        let changed = (overlap == Overlap::Last).then_some(3..5);
        let expected = Stream::Grew { from: 6, to: 8, is_packet: false, changed };
        assert_eq!(listener.stream(&again), expected);
        let window = listener.seen(&frame.seq(7).data(b"gh")).2;
        let expected: &[u8] = if overlap == Overlap::Last { b"abcDEfgh" } else { b"abcdefgh" };
        assert_eq!(window, expected);
        // Nothing new, nothing else.
        assert_eq!(listener.stream(&frame.seq(7).data(b"gh")), Stream::Old);
    }
}

/// The definition of each policy, for a byte that `old` has and that comes again in `new`; both are
/// start and end.
fn new_wins(overlap: Overlap, old: (usize, usize), new: (usize, usize)) -> bool {
    let (os, oe) = old;
    let (ns, ne) = new;
    match overlap {
        Overlap::First => false,
        Overlap::Last => true,
        Overlap::Bsd => ns < os,
        Overlap::Linux => ns < os || ns == os && ne > oe,
        Overlap::OldLinux => ns < os || ns == os && ne >= oe,
        Overlap::Solaris => ne > oe || ne == oe && ns <= os,
    }
}

/// The owner of every byte of the stream, by the definitions of the policies.
#[derive(Default)]
struct Model {
    bytes: Vec<Option<u8>>,
    /// Those that wait.
    segments: Vec<(usize, usize)>,
    delivered: usize,
}

impl Model {
    fn take(&mut self, overlap: Overlap, start: usize, data: &[u8]) {
        let new = (start, start + data.len());
        self.bytes.resize(self.bytes.len().max(new.1), None);
        for (at, &byte) in (start..).zip(data) {
            let wins = match at < self.delivered {
                true => overlap == Overlap::Last,
                false => self
                    .segments
                    .iter()
                    .filter(|old| old.0 <= at && at < old.1)
                    .all(|&old| new_wins(overlap, old, new)),
            };
            if wins {
                self.bytes[at] = Some(byte);
            }
        }
        self.segments.push(new);
        while self.bytes.get(self.delivered).is_some_and(Option::is_some) {
            self.delivered += 1;
        }
        let delivered = self.delivered;
        self.segments.retain(|old| old.1 > delivered);
    }
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        which in 0..6usize,
        segments in prop::collection::vec((0..60usize, 1..20usize), 1..60),
        isn in any::<u32>(),
    ) {
        let overlap = ALL[which];
        let limits = Limits { flows: 1, overlap, window_len: 200, ..Limits::default() };
        let mut listener = Listener::new(&limits);
        listener.open(isn, 5);
        let mut model = Model::default();
        let mut from = 0;
        for (number, (start, len)) in segments.into_iter().enumerate() {
            let data: Vec<u8> = (0..len).map(|at| (number * 20 + at) as u8).collect();
            model.take(overlap, start, &data);
            let seq = isn.wrapping_add(1).wrapping_add(start as u32);
            let frame = Frame::to_server().seq(seq).ack(6).data(&data);
            let tracked = listener.take(&frame);
            let window = listener.flows.window(tracked.place.expect("a flow"), tracked.direction);
            let expected: Vec<u8> =
                model.bytes[..model.delivered].iter().flatten().copied().collect();
            let is_probe = len == 1 && start + 1 == from;
            if !is_probe {
                prop_assert_eq!(window.bytes, expected);
            } else if overlap == Overlap::Last {
                // A keep-alive's byte is none of the stream.
                model.bytes[start] = Some(window.bytes[start]);
            }
            if let Stream::Grew { from: reported, to, changed, is_packet } = tracked.stream {
                prop_assert_eq!((reported, to), (from as u64, model.delivered as u64));
                prop_assert!(changed.is_none() || overlap == Overlap::Last);
                let is_whole = window.bytes.get(start..start + len) == Some(&data[..]);
                let is_it = (from, model.delivered) == (start, start + len) && is_whole;
                prop_assert_eq!(is_packet, is_it);
            }
            from = model.delivered;
        }
    }
}
