//! A packet that a rule dropped for itself is not part of the stream: its receiver doesn't have it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::frames::{ACK, FIN, Frame, RST, Talk};
use super::run::{Ran, Reported, run};

/// Packets with a time to live of 1 are dropped.
const DROP: &str = "drop ip any any -> any any (ttl:1; sid:9;)\n";
const RULES: &str = "alert tcp-stream any any -> any 80 (content:\"attack\"; sid:1;)\n\
                     alert tcp-stream any any -> any 80 (content:\"att\"; content:\"!\"; \
                     distance:0; sid:2;)\n";

/// Segments of the client: how far ahead, bytes, and whether they are dropped.
type Piece<'a> = (i32, &'a [u8], bool);

fn ran(table: &str, pieces: &[Piece<'_>]) -> Ran {
    let mut talk = Talk::new(&Frame::udp(b""));
    for (ahead, bytes, is_dropped) in pieces {
        let frame = talk.segment(0, ACK, *ahead, bytes);
        talk.frames.push(Frame { ttl: if *is_dropped { 1 } else { 64 }, ..frame });
    }
    run(&[DROP, RULES].concat(), table, &talk.frames)
}

#[test]
fn the_stream_is_without_them() {
    let cases: &[(&[Piece<'_>], &[Reported], &[usize])] = &[
        // Data in their place is inspected.
        (&[(0, b"att", false), (3, b"xxx", true), (3, b"ack", false)], &[(4, 9), (5, 1)], &[4]),
        // Their data matches with no later data.
        (&[(0, b"atta", true), (4, b"ck", false), (0, b"xxxx", false)], &[(3, 9)], &[3]),
        // They came ahead of their turn.
        (&[(3, b"xxx", true), (3, b"ack", false), (0, b"att", false)], &[(3, 9), (5, 1)], &[3]),
        // They closed a gap, which is open again.
        (&[(3, b"ack", false), (0, b"xxx", true), (0, b"att", false)], &[(4, 9), (5, 1)], &[4]),
        (
            &[
                (3, b"ac", false),
                (6, b"..", false),
                (0, b"xxx", true),
                (5, b"k", false),
                (0, b"att", false),
            ],
            &[(5, 9), (7, 1)],
            &[5],
        ),
        // A rule waits as before.
        (
            &[(0, b"att", false), (3, b"xat!", true), (3, b"abc!", false)],
            &[(4, 9), (4, 2), (5, 2)],
            &[4],
        ),
        (&[(0, b"xxx", false), (3, b"att", true), (3, b"..!", false)], &[(4, 9)], &[4]),
        // Nothing of them was new.
        (&[(0, b"att", false), (0, b"xxx", true), (3, b"ack", false)], &[(4, 9), (5, 1)], &[4]),
        (&[(3, b"ack", false), (3, b"xxx", true), (0, b"att", false)], &[(4, 9), (5, 1)], &[4]),
        // Their bytes are mixed with those of others: all later packets are dropped.
        (&[(3, b"ack", false), (0, b"atta", true), (0, b"att", false)], &[(4, 9), (4, 1)], &[4, 5]),
    ];
    for (pieces, alerts, dropped) in cases {
        let expected = Ran { alerts: alerts.to_vec(), dropped: dropped.to_vec(), made: 0 };
        assert_eq!(ran("", pieces), expected, "{pieces:?}");
    }
    // They wrote over what had been delivered.
    let pieces: &[Piece<'_>] = &[(0, b"att", false), (0, b"xxx", true), (3, b"ack", false)];
    assert_eq!(ran("overlap = \"last\"", pieces).dropped, [4, 5]);
}

#[test]
fn they_said_nothing_of_the_end() {
    for (end, flags) in [(0, RST | ACK), (1, RST | ACK), (0, FIN | ACK)] {
        let mut talk = Talk::new(&Frame::udp(b""));
        talk.client(b"att");
        let bogus = Frame { ttl: 1, ..talk.segment(end, flags, 0, b"") };
        talk.frames.push(bogus);
        talk.client(b"ack");
        let rules = [DROP, &RULES.replace("(content", "(flow:established,only_stream; content")];
        let ran = run(&rules.concat(), "", &talk.frames);
        assert_eq!((ran.alerts, ran.dropped), (vec![(4, 9), (5, 1)], vec![4]), "{end} {flags}");
    }
}

#[test]
fn a_dropped_fragment_is_not_put_together() {
    let whole = Frame::udp(b"an attack..xxxxxxxxxxxxx");
    let message = whole.message();
    let piece = |at: usize, bytes: &[u8], ttl| {
        let fragment = (at / 8) as u16 | if at == 0 { 0x2000 } else { 0 };
        Frame { id: 7, fragment, ttl, payload: bytes.to_vec(), ..whole.clone() }
    };
    let frames = [
        piece(0, b"................", 1),
        piece(0, &message[..16], 64),
        piece(16, &message[16..], 64),
    ];
    let rule = "alert udp any any -> any any (content:\"attack\"; sid:1;)\n";
    let ran = run(&[DROP, rule].concat(), "overlap = \"first\"", &frames);
    assert_eq!((ran.alerts, ran.dropped), (vec![(0, 9), (2, 1)], vec![0]));
}

/// As Suricata 7.0.10 does with `--simulate-ips` for the same packets and rules. A match sets its
/// state even if the packet is dropped.
#[test]
fn bits_set_by_dropped_packets_stay_set() {
    for (sets, asks) in [
        ("flowbits:set,x;", "flowbits:isset,x;"),
        ("flowint:nn,+,1;", "flowint:nn,==,1;"),
        ("xbits:set,x,track ip_pair,expire 60;", "xbits:isset,x,track ip_pair;"),
        ("xbits:set,x,track ip_src,expire 60;", "xbits:isset,x,track ip_src;"),
    ] {
        for protocol in ["udp", "tcp-pkt"] {
            let rule = |action, content, options, sid| {
                format!(
                    "{action} {protocol} any any -> any any (content:\"{content}\"; {options} \
                     sid:{sid};)\n"
                )
            };
            let asking = rule("alert", "ask", asks, 3);
            let by_another = rule("drop", "bad", "", 1) + &rule("alert", "set", sets, 2);
            let by_itself = rule("drop", "bad", sets, 1);
            let mut talk = Talk::new(&Frame::udp(b""));
            let first = talk.frames.len();
            talk.client(b"set and bad");
            talk.client(b"ask");
            let (frames, first) = match protocol {
                "udp" => (vec![Frame::udp(b"set and bad"), Frame::udp(b"ask")], 0),
                _ => (talk.frames, first),
            };
            let reported = |sids: &[u32]| {
                let dropped = sids.iter().map(|sid| (first, *sid));
                dropped.chain([(first + 1, 3)]).collect::<Vec<Reported>>()
            };
            for (rules, alerts) in [(by_another, reported(&[1, 2])), (by_itself, reported(&[1]))] {
                let expected = Ran { alerts, dropped: vec![first], made: 0 };
                assert_eq!(run(&(rules + &asking), "", &frames), expected, "{sets} {protocol}");
            }
        }
    }
}

/// Rules that depend on a place only through a literal.
fn options() -> impl Strategy<Value = String> {
    let text = vec(select(b"abc".to_vec()), 1..4);
    let other =
        select(vec!["", "content:\"c\"; distance:0;", "content:!\"aa\";", "pcre:\"/b.a/s\";"]);
    (text, other).prop_map(|(text, other)| format!("content:\"{}\"; {other}", text.escape_ascii()))
}

/// Where the next piece ends, when it comes, and of one in its place that is dropped: when, and its
/// bytes.
type Cut = (usize, usize, Option<(usize, u8)>);

fn cuts() -> impl Strategy<Value = Vec<Cut>> {
    vec((1..6usize, 0..4usize, prop::option::of((0..6usize, select(b"abc".to_vec())))), 30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Other packets raise the same alerts as without the dropped ones.
    #[test]
    fn as_if_they_never_were(options in vec(options(), 1..10),
        stream in vec(select(b"abc".to_vec()), 1..30), cuts in cuts()) {
        let mut pieces: Vec<(usize, usize, Vec<u8>, u8)> = Vec::new();
        let mut at = 0;
        for (number, (len, later, decoy)) in cuts.into_iter().enumerate() {
            let to = (at + len).min(stream.len());
            if at < to {
                pieces.push((number + later, at, stream[at..to].to_vec(), 64));
                pieces.extend(
                    decoy.map(|(later, byte)| (number + later, at, vec![byte; to - at], 1)));
            }
            at = to;
        }
        pieces.sort_by_key(|piece| piece.0);
        let mut talk = Talk::new(&Frame::udp(b""));
        for (_, at, bytes, ttl) in pieces {
            let frame = talk.segment(0, ACK, at as i32, &bytes);
            talk.frames.push(Frame { ttl, ..frame });
        }
        let rule = |(at, options)| format!("alert tcp-stream any any -> any any ({options} \
            sid:{at};)\n");
        let rules: String = (10..).zip(&options).map(rule).collect::<String>() + DROP;
        let all: Vec<Frame> = (0..).zip(talk.frames).map(|(at, frame)| frame.at(at)).collect();
        let (kept, places): (Vec<Frame>, Vec<usize>) =
            all.iter().zip(0..).filter(|(frame, _)| frame.ttl != 1)
                .map(|(frame, at)| (frame.clone(), at)).unzip();
        let mut reported = run(&rules, "", &all).alerts;
        reported.retain(|(at, _)| all[*at].ttl != 1);
        let expected: Vec<Reported> =
            run(&rules, "", &kept).alerts.into_iter().map(|(at, sid)| (places[at], sid)).collect();
        prop_assert_eq!(reported, expected, "{}", rules);
    }
}
