//! How connections begin, go on and end: tables of segments and what each did.

use super::super::{Fate, Gap, Limits, Stream, Why};
use super::frames::{ACK, FIN, Frame, RST, SYN};
use super::{Listener, grew, grew_otherwise};

const OPEN: Stream = Stream::None;

fn refused(why: Why) -> Stream {
    Stream::Refused(why)
}

/// What a listener says to each; whether it is established after them.
fn run(limits: &Limits, steps: &[(Frame, Stream)]) -> bool {
    let mut listener = Listener::new(limits);
    let mut established = false;
    for (number, (frame, expected)) in steps.iter().enumerate() {
        let tracked = listener.take(frame);
        assert_eq!(tracked.stream, *expected, "step {number}: {frame:?}");
        established = listener.flows.facts(tracked.place.expect("a flow")).is_established;
    }
    established
}

fn c(seq: u32, ack: u32, flags: u16, data: &[u8]) -> Frame {
    Frame::to_server().seq(seq).ack(ack).flags(flags).data(data)
}

fn s(seq: u32, ack: u32, flags: u16, data: &[u8]) -> Frame {
    Frame::to_client().seq(seq).ack(ack).flags(flags).data(data)
}

/// After these the client is at 101, the server at 501.
fn shake() -> Vec<(Frame, Stream)> {
    vec![
        (c(100, 0, SYN, b""), OPEN),
        (s(500, 101, SYN | ACK, b""), OPEN),
        (c(101, 501, ACK, b""), OPEN),
    ]
}

fn after_handshake(steps: &[(Frame, Stream)]) -> bool {
    let mut all = shake();
    all.extend_from_slice(steps);
    run(&Limits::default(), &all)
}

#[test]
fn handshakes() {
    let cases: &[(&[(Frame, Stream)], bool)] = &[
        (&shake()[..2], false),
        (&shake(), true),
        // The third segment has data.
        (&[shake()[0].clone(), shake()[1].clone(), (c(101, 501, ACK, b"hi"), grew(0, 2))], true),
        // The third was lost.
        (&[shake()[0].clone(), shake()[1].clone(), (s(501, 101, ACK, b"hi"), grew(0, 2))], true),
        // An answer to another SYN; then an acknowledgement of another answer.
        (&[shake()[0].clone(), (s(500, 102, SYN | ACK, b""), refused(Why::Handshake))], false),
        (
            &[
                shake()[0].clone(),
                shake()[1].clone(),
                (c(101, 777, ACK, b"hi"), refused(Why::Handshake)),
            ],
            false,
        ),
        // The server answered the second SYN, or the first of two.
        (
            &[
                (c(100, 0, SYN, b""), OPEN),
                (c(300, 0, SYN, b""), OPEN),
                (s(500, 301, SYN | ACK, b""), OPEN),
                (c(301, 501, ACK, b"hi"), grew(0, 2)),
            ],
            true,
        ),
        (
            &[
                (c(100, 0, SYN, b""), OPEN),
                (c(300, 0, SYN, b""), OPEN),
                (s(500, 101, SYN | ACK, b""), OPEN),
                (c(101, 501, ACK, b"hi"), grew(0, 2)),
            ],
            true,
        ),
        // The server answered twice; the client took the first.
        (
            &[
                (c(100, 0, SYN, b""), OPEN),
                (s(500, 101, SYN | ACK, b""), OPEN),
                (s(900, 101, SYN | ACK, b""), OPEN),
                (c(101, 501, ACK, b""), OPEN),
                (s(501, 101, ACK, b"hi"), grew(0, 2)),
            ],
            true,
        ),
        // Both begin.
        (
            &[
                (c(100, 0, SYN, b""), OPEN),
                (s(500, 0, SYN, b""), OPEN),
                (c(100, 501, SYN | ACK, b""), OPEN),
                (s(501, 101, ACK, b"hi"), grew(0, 2)),
            ],
            true,
        ),
        // A SYN that comes again says nothing new.
        (&[shake()[0].clone(), shake()[0].clone(), shake()[1].clone(), shake()[2].clone()], true),
        // Nobody is there.
        (&[(c(100, 0, SYN, b""), OPEN), (s(0, 101, RST | ACK, b""), OPEN)], true),
        (&[(c(100, 0, SYN, b""), OPEN), (s(0, 999, RST | ACK, b""), refused(Why::Reset))], false),
    ];
    for (steps, established) in cases {
        assert_eq!(run(&Limits::default(), steps), *established, "{steps:?}");
    }
}

/// Data on a SYN count where both know how to (RFC 7413); otherwise the packet has to be looked at by itself.
#[test]
fn data_on_a_syn() {
    let cookie = [34, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let early = c(100, 0, SYN, b"early").options(&cookie);
    run(
        &Limits::default(),
        &[
            (early.clone(), grew(0, 5)),
            (s(500, 106, SYN | ACK, b""), OPEN),
            (c(106, 501, ACK, b"late"), grew(5, 9)),
        ],
    );
    // The server didn't take them: they come again, and may be others.
    run(
        &Limits::default(),
        &[
            (early, grew(0, 5)),
            (s(500, 101, SYN | ACK, b""), OPEN),
            (c(101, 501, ACK, b"EARLY"), grew(0, 5)),
        ],
    );
    run(
        &Limits::default(),
        &[
            (c(100, 0, SYN, b"early"), Stream::Untracked),
            (s(500, 101, SYN | ACK, b""), OPEN),
            (c(101, 501, ACK, b"late"), grew(0, 4)),
        ],
    );
}

#[test]
fn segments_out_of_step() {
    let big = [0; 60_000];
    let cases: &[&[(Frame, Stream)]] = &[
        // The window that the server announced: 60,000 bytes behind what it acknowledged.
        &[
            (c(101 + 1, 501, ACK, &big), refused(Why::Window)),
            (c(101, 501, ACK, &big), grew(0, 60_000)),
        ],
        &[(c(101, 501, 0, b"x"), refused(Why::Acknowledgement))],
        // What the server can't have sent.
        &[(c(101, 501 + 70_000, ACK, b"x"), refused(Why::Acknowledgement))],
        &[(c(101, 501, SYN | ACK, b"x"), refused(Why::Handshake))],
        &[(c(101, 501, ACK, b"abc"), grew(0, 3)), (c(101, 501, ACK, b"ab"), Stream::Old)],
        // Keep-alives, with and without a byte.
        &[
            (c(101, 501, ACK, b"abc"), grew(0, 3)),
            (c(103, 501, ACK, b""), OPEN),
            (c(103, 501, ACK, b"?"), Stream::Old),
        ],
        &[(c(100, 501, ACK, b"?"), Stream::Old), (c(101, 501, ACK, b"abc"), grew(0, 3))],
        // What starts before the first byte is of no stream.
        &[(c(99, 501, ACK, b"??abc"), grew_otherwise(0, 3))],
        // A closed window, and the byte that probes it.
        &[
            (s(501, 101, ACK, b"").window(0), OPEN),
            (c(101, 501, ACK, b"a"), grew(0, 1)),
            (c(60_101, 501, ACK, b"a"), refused(Why::Window)),
        ],
        // In two, the wrong way round.
        &[
            (c(104, 501, ACK, b"def"), Stream::Held),
            (c(101, 501, ACK, b"abc"), grew_otherwise(0, 6)),
            (c(107, 501, ACK, b"g"), grew(6, 7)),
        ],
    ];
    for steps in cases {
        assert!(after_handshake(steps));
    }
}

#[test]
fn windows_are_shifted_where_both_say_so() {
    for (client, server, shift) in [(Some(2), Some(3), 3), (Some(2), None, 0), (None, Some(3), 0)] {
        let scale = |shift: Option<u8>| shift.map_or(Vec::new(), |shift| vec![3, 3, shift]);
        let mut listener = Listener::new(&Limits::default());
        listener.take(&c(100, 0, SYN, b"").options(&scale(client)));
        // The window of a SYN itself is as it is.
        listener.take(&s(500, 101, SYN | ACK, b"").options(&scale(server)).window(10));
        listener.take(&c(101, 501, ACK, b""));
        assert_eq!(listener.stream(&c(101, 501, ACK, &[0; 11])), refused(Why::Window));
        listener.take(&s(501, 101, ACK, b"").window(10));
        let len = 10_usize << shift;
        assert_eq!(listener.stream(&c(101, 501, ACK, &vec![0; len + 1])), refused(Why::Window));
        assert_eq!(listener.stream(&c(101, 501, ACK, &vec![0; len])), grew(0, len as u64));
    }
}

#[test]
fn ends() {
    let closed = refused(Why::Closed);
    let cases: &[&[(Frame, Stream)]] = &[
        // Only where the receiver would heed it.
        &[(c(102, 501, RST, b""), refused(Why::Reset)), (c(101, 501, ACK, b"x"), grew(0, 1))],
        &[(c(101, 501, RST, b""), OPEN), (c(101, 501, ACK, b"x"), closed.clone())],
        &[(s(501, 101, RST | ACK, b""), OPEN), (c(101, 501, ACK, b"x"), closed.clone())],
        // Data with a FIN, and after it.
        &[
            (c(101, 501, FIN | ACK, b"end"), grew(0, 3)),
            (s(501, 105, ACK, b"more"), grew(0, 4)),
            (c(104, 505, ACK, b"no"), closed.clone()),
            (c(105, 505, ACK, b""), OPEN),
            (s(505, 105, FIN | ACK, b""), OPEN),
            (c(105, 506, ACK, b""), OPEN),
        ],
        // A FIN that nobody acknowledged never arrived.
        &[(c(101, 501, FIN | ACK, b""), OPEN), (c(101, 501, ACK, b"go"), grew(0, 2))],
        // Before what it ends.
        &[
            (c(104, 501, FIN | ACK, b""), OPEN),
            (c(101, 501, ACK, b"abc"), grew(0, 3)),
            (s(501, 105, FIN | ACK, b""), OPEN),
        ],
    ];
    for steps in cases {
        assert!(after_handshake(steps));
    }
}

#[test]
fn connections_are_picked_up_where_wanted() {
    let lone = [c(101, 501, ACK, b"abc"), s(501, 104, ACK, b"def"), c(104, 504, FIN | ACK, b"ghi")];
    let told: [[Stream; 3]; 2] = [
        [Stream::Untracked, Stream::Untracked, Stream::Untracked],
        [grew(0, 3), grew(0, 3), grew(3, 6)],
    ];
    for midstream in [false, true] {
        let limits = Limits { midstream, ..Limits::default() };
        let steps: Vec<_> =
            lone.iter().cloned().zip(told[usize::from(midstream)].clone()).collect();
        assert_eq!(run(&limits, &steps), midstream);
        // From the server's answer on; its sender is the server.
        let mut listener = Listener::new(&limits);
        let tracked = listener.take(&s(500, 101, SYN | ACK, b""));
        assert_eq!(tracked.direction, super::Direction::ToClient);
        let expected = if midstream { grew(0, 2) } else { Stream::Untracked };
        assert_eq!(listener.stream(&c(101, 501, ACK, b"hi")), expected);
        // One side alone.
        let expected = if midstream { grew(0, 2) } else { Stream::Untracked };
        let steps = [(c(100, 0, SYN, b""), OPEN), (c(101, 501, ACK, b"hi"), expected)];
        assert_eq!(run(&limits, &steps), midstream);
    }
}

#[test]
fn wrong_checksums() {
    for checksum in [false, true] {
        let limits = Limits { checksum, ..Limits::default() };
        let mut steps = shake();
        let told = if checksum { refused(Why::Checksum) } else { grew(0, 2) };
        steps.push((c(101, 501, ACK, b"hi").corrupt(), told));
        run(&limits, &steps);
    }
}

/// What the receiver acknowledged and nobody saw isn't waited for.
#[test]
fn acknowledged_gaps() {
    let mut listener = Listener::new(&Limits::default());
    listener.open(100, 500);
    assert_eq!(listener.stream(&c(104, 501, ACK, b"def")), Stream::Held);
    assert_eq!(listener.stream(&c(110, 501, ACK, b"jkl")), Stream::Held);
    assert_eq!(listener.take(&s(501, 103, ACK, b"")).gaps, [false; 2], "two bytes of three");
    let tracked = listener.take(&s(501, 110, ACK, b""));
    assert_eq!(tracked.gaps, [true, false]);
    let (place, way) = (tracked.place.expect("a flow"), super::Direction::ToServer);
    let gap = Gap { lost: 3, from: 3, to: 6, packet: Fate::Alone };
    assert_eq!(listener.flows.next_gap(place, way), Some(gap));
    let window = listener.flows.window(place, way);
    assert_eq!((window.start, window.bytes), (3, &b"def"[..]));
    let gap = Gap { lost: 3, from: 9, to: 12, packet: Fate::Alone };
    assert_eq!(listener.flows.next_gap(place, way), Some(gap));
    assert_eq!(listener.flows.next_gap(place, way), None);
    // Where nobody asks, the next packet does.
    assert_eq!(listener.stream(&c(114, 501, ACK, b"nop")), Stream::Held);
    listener.take(&s(501, 117, ACK, b""));
    let gap = Gap { lost: 1, from: 13, to: 18, packet: Fate::Delivered };
    assert_eq!(listener.stream(&c(117, 501, ACK, b"qr")), Stream::Gap(gap));
    let counters = listener.flows.counters();
    assert_eq!((counters.gaps_acknowledged, counters.gap_bytes), (3, 7));
}
