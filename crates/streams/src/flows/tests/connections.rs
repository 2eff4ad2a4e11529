//! How connections begin, continue and end: tables of segments and the effect of each.

use super::super::{Fate, Gap, Limits, Overlap, Stream, Why};
use super::frames::{ACK, FIN, Frame, RST, SYN};
use super::{Listener, grew, grew_otherwise};

const OPEN: Stream = Stream::None;

fn refused(why: Why) -> Stream {
    Stream::Refused(why)
}

/// Compares the listener's result for each step; returns whether the connection is then
/// established.
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
        // A repeated SYN changes nothing.
        (&[shake()[0].clone(), shake()[0].clone(), shake()[1].clone(), shake()[2].clone()], true),
        // No host answers.
        (&[(c(100, 0, SYN, b""), OPEN), (s(0, 101, RST | ACK, b""), OPEN)], true),
        (&[(c(100, 0, SYN, b""), OPEN), (s(0, 999, RST | ACK, b""), refused(Why::Reset))], false),
    ];
    for (steps, established) in cases {
        assert_eq!(run(&Limits::default(), steps), *established, "{steps:?}");
    }
}

/// Data on a SYN count if both ends support it (RFC 7413); otherwise the packet must be inspected
/// alone.
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
        // The window that the server announced: 60,000 bytes after what it acknowledged.
        &[
            (c(101 + 1, 501, ACK, &big), refused(Why::Window)),
            (c(101, 501, ACK, &big), grew(0, 60_000)),
        ],
        &[(c(101, 501, 0, b"x"), refused(Why::Acknowledgement))],
        // Data that the server can't have sent.
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
        // Data before the first byte belong to no stream.
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

/// Segments that the receiver would drop must not take the place of those it takes.
#[test]
fn decoys() {
    let timed = |frame: Frame, time: u32| {
        let [a, b, c, d] = time.to_be_bytes();
        frame.options(&[1, 1, 8, 10, a, b, c, d, 0, 0, 0, 9])
    };
    let signed =
        |frame: Frame, kind: u8| frame.options(&[&[kind, 18][..], &[0; 16], &[1, 1]].concat());
    // Handshake and three bytes at times 5, 6 and 7. Each `at` is a segment's place, time and data,
    // `None` without a time.
    let clocks = |start: u32, steps: &[(u32, Option<u32>, &[u8], Stream)], name: &str| {
        let limits = Limits { overlap: Overlap::named(name).unwrap(), ..Limits::default() };
        let at = |time: u32| start.wrapping_add(time);
        let mut all = vec![
            (timed(c(100, 0, SYN, b""), at(5)), OPEN),
            (timed(s(500, 101, SYN | ACK, b""), 1), OPEN),
            (timed(c(101, 501, ACK, b""), at(6)), OPEN),
            (timed(c(101, 501, ACK, b"abc"), at(7)), grew(0, 3)),
            (timed(s(501, 104, ACK, b""), 1), OPEN),
        ];
        for (place, time, data, expected) in steps {
            let frame = c(101 + place, 501, ACK, data);
            let frame = time.map_or(frame.clone(), |time| timed(frame, at(time)));
            all.push((frame, expected.clone()));
        }
        run(&limits, &all);
    };
    // Around the end of the numbers as well.
    for start in [100, u32::MAX - 5, 1 << 31] {
        clocks(
            start,
            &[(3, Some(6), b"xyz", refused(Why::Time)), (3, Some(7), b"def", grew(3, 6))],
            "bsd",
        );
        clocks(start, &[(3, Some(6), b"xyz", grew(3, 6))], "linux");
        clocks(
            start,
            &[(3, Some(5), b"xyz", refused(Why::Time)), (3, Some(8), b"def", grew(3, 6))],
            "linux",
        );
        // Without a time; one that comes late after all.
        clocks(start, &[(3, None, b"xyz", grew(3, 6))], "bsd");
        clocks(start, &[(0, Some(6), b"abc", Stream::Old)], "bsd");
        // A segment that starts after the last acknowledgement does not set the receiver's clock.
        clocks(
            start,
            &[(6, Some(90), b"ghi", Stream::Held), (3, Some(8), b"def", grew_otherwise(3, 9))],
            "bsd",
        );
    }
    // Only where both stated their time; not where it was 0, as some send on a SYN.
    for (client, server) in [(Some(5), None), (None, Some(5)), (Some(0), Some(0))] {
        let option = |frame: Frame, time: Option<u32>| match time {
            Some(time) => timed(frame, time),
            None => frame,
        };
        run(
            &Limits::default(),
            &[
                (option(c(100, 0, SYN, b""), client), OPEN),
                (option(s(500, 101, SYN | ACK, b""), server), OPEN),
                (timed(c(101, 501, ACK, b"abc"), u32::MAX - 9), grew(0, 3)),
            ],
        );
    }
    let whole = [0; 60_000];
    let cases: &[&[(Frame, Stream)]] = &[
        // An old acknowledgement: more than a window before the last.
        &[
            (s(501, 101, ACK, &whole), grew(0, 60_000)),
            (c(101, 60_501, ACK, b"abc"), grew(0, 3)),
            (s(60_501, 104, ACK, b"x"), grew(60_000, 60_001)),
            (c(104, 60_502, ACK, b""), OPEN),
            (c(104, 501, ACK, b"xyz"), refused(Why::Acknowledgement)),
            (c(104, 502, ACK, b"def"), grew(3, 6)),
        ],
        // A reset with an unexpected signature.
        &[
            (signed(c(101, 501, RST, b""), 19), refused(Why::Reset)),
            (c(101, 501, ACK, b"abc"), grew(0, 3)),
        ],
        &[
            (signed(s(501, 101, RST, b""), 29), refused(Why::Reset)),
            (c(101, 501, ACK, b"abc"), grew(0, 3)),
        ],
        // Of no stream at all.
        &[(c(50, 501, ACK, b"abc"), Stream::Untracked)],
    ];
    for steps in cases {
        assert!(after_handshake(steps));
    }
    // Where the SYN has one it counts; and Linux drops what has none where others have.
    let decoy = |of: bool, frame: Frame| if of { signed(frame, 19) } else { frame };
    for is_signed in [false, true] {
        let open = [
            (decoy(is_signed, c(100, 0, SYN, b"")), OPEN),
            (decoy(is_signed, s(500, 101, SYN | ACK, b"")), OPEN),
            (decoy(is_signed, c(101, 501, ACK, b"")), OPEN),
        ];
        let linux = Limits { overlap: Overlap::Linux, ..Limits::default() };
        let odd = decoy(!is_signed, c(101, 501, ACK, b"xyz"));
        let usual = decoy(is_signed, c(101, 501, ACK, b"abc"));
        let last = [(odd.clone(), refused(Why::Signature)), (usual, grew(0, 3))];
        run(&linux, &[&open[..], &last].concat());
        run(&Limits::default(), &[&open[..], &[(odd, grew(0, 3))]].concat());
        let reset = signed(c(101, 501, RST, b""), 19);
        let reported = if is_signed { OPEN } else { refused(Why::Reset) };
        run(&linux, &[&open[..], &[(reset, reported)]].concat());
    }
}

/// The same ports again, also with the number of the last SYN.
#[test]
fn ports_are_used_again() {
    let again = [
        (c(100, 0, SYN, b""), OPEN),
        (s(700, 101, SYN | ACK, b""), OPEN),
        (c(101, 701, ACK, b"hi"), grew(0, 2)),
    ];
    let ends: &[&[(Frame, Stream)]] = &[
        &[(c(100, 0, SYN, b""), OPEN), (s(0, 101, RST | ACK, b""), OPEN)],
        &[(c(100, 0, SYN, b""), OPEN), (c(101, 0, RST, b""), OPEN)],
        &[
            (c(100, 0, SYN, b""), OPEN),
            (s(500, 101, SYN | ACK, b""), OPEN),
            (c(101, 0, RST, b""), OPEN),
        ],
        &[&shake()[..], &[(c(101, 501, RST, b""), OPEN)]].concat(),
        &[
            &shake()[..],
            &[
                (c(101, 501, FIN | ACK, b""), OPEN),
                (s(501, 102, FIN | ACK, b""), OPEN),
                (c(102, 502, ACK, b""), OPEN),
            ],
        ]
        .concat(),
    ];
    for end in ends {
        assert!(run(&Limits::default(), &[end, &again[..]].concat()), "{end:?}");
    }
}

/// More than a window was lost: the stream continues once both ends agree, and not because of one
/// of them.
#[test]
fn streams_catch_up() {
    let ack = || refused(Why::Acknowledgement);
    let far = 501 + 200_000;
    // The server's data were lost.
    let cases: &[&[(Frame, Stream)]] = &[
        &[
            (s(far, 101, ACK, b"abc"), refused(Why::Window)),
            (c(101, far + 3, ACK, b"hi"), grew(0, 2)),
            (
                s(far + 3, 103, ACK, b"def"),
                Stream::Gap(Gap {
                    lost: 200_003,
                    from: 200_003,
                    to: 200_006,
                    packet: Fate::Delivered,
                }),
            ),
            (s(far + 6, 103, ACK, b"ghi"), grew(200_006, 200_009)),
            (c(103, far + 9, ACK, b"ho"), grew(2, 4)),
        ],
        &[
            (c(101, far, ACK, b""), ack()),
            (
                s(far, 101, ACK, b"abc"),
                Stream::Gap(Gap {
                    lost: 200_000,
                    from: 200_000,
                    to: 200_003,
                    packet: Fate::Delivered,
                }),
            ),
            (c(101, far + 3, ACK, b"hi"), grew(0, 2)),
        ],
        // Either alone, however often; both, but of other places.
        &[
            (c(101, far, ACK, b"x"), ack()),
            (c(101, far, ACK, b"x"), ack()),
            (c(101, 501, ACK, b"hi"), grew(0, 2)),
            (s(501, 103, ACK, b"ho"), grew(0, 2)),
        ],
        &[
            (s(far, 101, ACK, b"x"), refused(Why::Window)),
            (s(far + 1, 101, ACK, b"x"), refused(Why::Window)),
            (s(501, 101, ACK, b"ho"), grew(0, 2)),
        ],
        &[
            (s(far, 101, ACK, b"x"), refused(Why::Window)),
            (c(101, far + 70_000, ACK, b"x"), ack()),
            (c(101, far - 70_000, ACK, b"x"), ack()),
            (s(501, 101, ACK, b"ho"), grew(0, 2)),
        ],
    ];
    for steps in cases {
        assert!(after_handshake(steps));
    }
    // Right after the handshake, whose last packet was lost too: 50 bytes of the server and 30 of
    // the client.
    let lost = [
        (c(131, 551, ACK, b"hi"), refused(Why::Handshake)),
        (
            s(551, 133, ACK, b"ho"),
            Stream::Gap(Gap { lost: 50, from: 50, to: 52, packet: Fate::Delivered }),
        ),
        (
            c(133, 553, ACK, b"hi"),
            Stream::Gap(Gap { lost: 32, from: 32, to: 34, packet: Fate::Delivered }),
        ),
    ];
    assert!(run(&Limits::default(), &[&shake()[..2], &lost].concat()));
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
        // A FIN without an acknowledgement never arrived.
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
    let reported: [[Stream; 3]; 2] = [
        [Stream::Untracked, Stream::Untracked, Stream::Untracked],
        [grew(0, 3), grew(0, 3), grew(3, 6)],
    ];
    for midstream in [false, true] {
        let limits = Limits { midstream, ..Limits::default() };
        let steps: Vec<_> =
            lone.iter().cloned().zip(reported[usize::from(midstream)].clone()).collect();
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
        let reported = if checksum { refused(Why::Checksum) } else { grew(0, 2) };
        steps.push((c(101, 501, ACK, b"hi").corrupt(), reported));
        run(&limits, &steps);
    }
}

/// Data that the receiver acknowledged are not waited for, even if they were never seen.
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
    // If the caller doesn't ask for gaps, the next packet closes them.
    assert_eq!(listener.stream(&c(114, 501, ACK, b"nop")), Stream::Held);
    listener.take(&s(501, 117, ACK, b""));
    let gap = Gap { lost: 1, from: 13, to: 18, packet: Fate::Delivered };
    assert_eq!(listener.stream(&c(117, 501, ACK, b"qr")), Stream::Gap(gap));
    let counters = listener.flows.counters();
    assert_eq!((counters.gaps_acknowledged, counters.gap_bytes), (3, 7));
}
