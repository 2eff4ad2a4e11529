//! Data after gaps are inspected when the gap is given up, whichever end's packet causes that.

use super::frames::{ACK, Frame, RST, Talk};
use super::run::{Temporary, run};
use crate::DEFINITION;
use warpline_verify::{Harness, Input, try_build};

const RULES: &str = "alert tcp-stream any any -> any 80 (content:\"VERY\"; sid:1;)\n\
                     alert tcp-stream any any -> any 80 (content:\"DATA\"; sid:2;)\n\
                     alert tcp-stream any any -> any 80 (content:\"GOOD\"; sid:3;)\n\
                     alert tcp-stream any any -> any any (content:\"VERYGOODDATA\"; sid:4;)\n\
                     alert tcp any 80 -> any any (flow:to_client; content:\"DATA\"; sid:5;)\n";

/// The client sends `VERY`, loses `GOOD` and sends `DATA`.
fn talk() -> Talk {
    let mut talk = Talk::new(&Frame::udp(b""));
    talk.client(b"VERY");
    talk.next[0] += 4;
    talk.client(b"DATA");
    talk
}

#[test]
fn an_acknowledged_gap_is_given_up() {
    let mut talk = talk();
    assert_eq!(run(RULES, "", &talk.frames).alerts, [(3, 1)]);
    talk.server(b"");
    assert_eq!(run(RULES, "", &talk.frames).alerts, [(3, 1), (5, 2)]);
    // Data for the gap is too late now.
    let late = talk.segment(0, ACK, -8, b"GOOD");
    talk.frames.push(late);
    talk.client(b"");
    assert_eq!(run(RULES, "", &talk.frames).alerts, [(3, 1), (5, 2)]);
}

#[test]
fn a_gap_that_closes_is_none() {
    let mut talk = talk();
    let late = talk.segment(0, ACK, -8, b"GOOD");
    talk.frames.push(late);
    assert_eq!(run(RULES, "", &talk.frames).alerts, [(3, 1), (5, 2), (5, 3), (5, 4)]);
}

#[test]
fn a_reset_gives_gaps_up() {
    for end in [0, 1] {
        let mut talk = talk();
        let mut reset = talk.segment(end, RST | ACK, if end == 0 { -8 } else { 0 }, b"");
        reset.ack = if end == 0 { reset.ack } else { reset.ack.wrapping_sub(8) };
        talk.frames.push(reset);
        assert_eq!(run(RULES, "", &talk.frames).alerts, [(3, 1), (5, 2)], "{end}");
    }
}

#[test]
fn a_match_behind_a_gap_decides() {
    let mut talk = talk();
    talk.server(b"");
    talk.client(b"more");
    let rules = "drop tcp any any -> any 80 (content:\"DATA\"; sid:2;)\n";
    assert_eq!(run(rules, "", &talk.frames).dropped, [5, 6]);
}

#[test]
fn a_rule_tells_once_of_a_packet() {
    let mut talk = Talk::new(&Frame::udp(b""));
    talk.next[0] += 1;
    talk.client(b"DATA");
    talk.next[0] += 1;
    talk.client(b"DATA");
    talk.server(b"");
    assert_eq!(run(RULES, "", &talk.frames).alerts, [(5, 2)]);
}

/// When a packet closes a gap of its peer's, the peer is the sender of the matched data.
#[test]
fn a_reject_behind_a_gap_resets_who_sent_it() {
    let rule = |action| format!("{action} tcp any any -> any 80 (content:\"DATA\"; sid:2;)\n");
    let ports = |frame: &[u8]| [frame[35], frame[37]];
    let mut acknowledged = talk();
    acknowledged.server(b"");
    let mut pushed = Talk::new(&Frame::udp(b""));
    pushed.client(b"DATA");
    for (talk, what) in [(acknowledged, "after a gap"), (pushed, "in order")] {
        // The last bytes of both ports: of 80, and of 40,000.
        for (action, expected) in [
            ("rejectsrc", vec![[80, 64]]),
            ("rejectdst", vec![[64, 80]]),
            ("rejectboth", vec![[80, 64], [64, 80]]),
        ] {
            let mut made: Vec<[u8; 2]> =
                made(&rule(action), &talk.frames).iter().map(|frame| ports(frame)).collect();
            made.sort_by_key(|ports| ports[0] != 80);
            assert_eq!(made, expected, "{action} {what}");
        }
    }
}

/// The frames that the function makes.
fn made(rules: &str, frames: &[Frame]) -> Vec<Vec<u8>> {
    let folder = Temporary::new();
    std::fs::write(folder.0.join("test.rules"), rules).unwrap();
    let table = "rules = \"test.rules\"\nmatcher = \"dense\"\nflows = 4096\n";
    let (function, scratch_words) = try_build(&DEFINITION, table, &folder.0).unwrap();
    let mut harness = Harness::new(function, scratch_words);
    let inputs = (0..).zip(frames).map(|(at, frame)| Input::at(at * 1_000_000, &frame.bytes()));
    let outcomes = harness.process(&inputs.collect::<Vec<_>>());
    outcomes.into_iter().filter(|outcome| outcome.made).map(|outcome| outcome.bytes).collect()
}
