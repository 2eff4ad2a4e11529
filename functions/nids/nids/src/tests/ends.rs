//! Data that wait after a gap when their flow ends are inspected once, whatever ends the flow.

use warpline_packet::{Access, Batch, Instant, Shard, StateKey};

use super::frames::{ACK, FIN, Frame, RST, SYN, Talk};
use super::run::Temporary;
use crate::DEFINITION;
use crate::report::Alert;
use warpline_nf::{After, Emit, Emits, Function, State, StateHalf};
use warpline_verify::{Harness, Input, try_build};

/// Rules by their places; the last is of the other direction.
const RULES: &str = "alert tcp any any -> any 80 (flow:established,to_server; content:\"DATA\"; \
                     sid:1;)\n\
                     alert tcp any any -> any any (content:\"VERYDATA\"; sid:2;)\n\
                     alert tcp any 80 -> any any (flow:to_client; content:\"DATA\"; sid:4;)\n";

/// The client sends `VERY`, loses four bytes and sends `DATA`, which stays unacknowledged.
fn talk() -> Talk {
    let mut talk = Talk::new(&Frame::udp(b""));
    talk.client(b"VERY");
    talk.next[0] += 4;
    talk.client(b"DATA");
    talk.next[0] -= 8;
    talk
}

/// Alerts for frames, each at its time in milliseconds or its place, and then for a tick at `tick`
/// seconds.
struct Reported {
    /// By frame, the rules' places.
    frames: Vec<Vec<u32>>,
    tick: Vec<(u32, u64)>,
}

fn reported(
    function: Box<dyn Function>,
    scratch_words: usize,
    frames: &[Frame],
    tick: u64,
) -> Reported {
    let mut harness = Harness::new(function, scratch_words);
    let mut rules = Vec::new();
    for (at, frame) in (0..).zip(frames) {
        let millis = frame.millis.unwrap_or(at);
        harness.process(&[Input::at(millis * 1_000_000, &frame.bytes())]);
        let notes = harness.take_notes();
        rules.push(notes.iter().map(|note| Alert::decode(note).unwrap().rule).collect());
    }
    // One flow in four each time.
    (0..4).for_each(|_| drop(harness.tick(Instant::from_secs(tick))));
    let alert = |note: &Vec<u8>| {
        let alert = Alert::decode(note).unwrap();
        assert!(alert.is_stream && alert.flow.is_some() && !alert.is_blocked);
        (alert.rule, alert.now.as_nanos() / 1_000_000_000)
    };
    Reported { frames: rules, tick: harness.take_notes().iter().map(alert).collect() }
}

fn built(rules: &str) -> (Box<dyn Function>, usize) {
    let folder = Temporary::new();
    std::fs::write(folder.0.join("test.rules"), rules).unwrap();
    let table = "rules = \"test.rules\"\nmatcher = \"dense\"\nflows = 64\n";
    try_build(&DEFINITION, table, &folder.0).unwrap()
}

#[test]
fn when_its_time_is_over() {
    let fins = |talk: &mut Talk| {
        let fins = [talk.segment(0, FIN | ACK, 8, b""), talk.segment(1, FIN | ACK, 0, b"")];
        talk.frames.extend(fins);
    };
    for (closes, early, late) in [(false, 500, 700), (true, 50, 70)] {
        let mut talk = talk();
        if closes {
            fins(&mut talk);
        }
        let (function, words) = built(RULES);
        assert_eq!(reported(function, words, &talk.frames, early).tick, []);
        let (function, words) = built(RULES);
        assert_eq!(reported(function, words, &talk.frames, late).tick, [(0, late)], "{closes}");
    }
}

#[test]
fn when_the_gap_was_closed_there_is_nothing_more() {
    let mut closed = talk();
    closed.client(b"GOOD");
    let mut acknowledged = talk();
    acknowledged.next[0] += 8;
    acknowledged.server(b"");
    let mut reset = talk();
    reset.server(b"");
    reset.send(1, RST | ACK, b"");
    for talk in [closed, acknowledged, reset] {
        let (function, words) = built(RULES);
        let reported = reported(function, words, &talk.frames, 10_000);
        assert_eq!((reported.frames.concat(), reported.tick), (vec![0], vec![]));
    }
}

#[test]
fn when_another_takes_its_place() {
    // The same ports long after, as the first packet that the flow's time is over for.
    let mut again = talk();
    let open = Frame { seq: 77_000, flags: SYN, ..again.frames[0].clone() };
    again.frames.push(open.clone().at(700_000));
    let (function, words) = built(RULES);
    assert_eq!(reported(function, words, &again.frames, 701).frames[5..], [vec![0]]);
    // Room for others.
    let mut many = talk();
    many.frames.extend((1..200).map(|port| open.clone().ports([port, 80])));
    let (function, words) = built(RULES);
    let reported = reported(function, words, &many.frames, 1);
    assert_eq!(reported.frames[5..].concat(), [0]);
}

#[test]
fn when_the_input_ends() {
    let (function, words) = built(RULES);
    let reported = reported(Box::new(Finishing(function)), words, &talk().frames, 1);
    assert_eq!((reported.frames.concat(), reported.tick), (vec![], vec![(0, 0)]));
}

#[test]
fn not_where_the_flow_was_decided() {
    let rule = "tcp any any -> any 80 (content:\"VERY\"; sid:9;)\n";
    for action in ["pass", "drop"] {
        let (function, words) = built(&format!("{action} {rule}{RULES}"));
        assert_eq!(reported(function, words, &talk().frames, 700).tick, []);
    }
}

/// A function for which a tick is the end of the input.
struct Finishing(Box<dyn Function>);

struct FinishingHalf(Box<dyn After>);

impl Function for Finishing {
    fn access(&self) -> &Access {
        self.0.access()
    }

    fn run(&self, batch: &mut Batch) {
        self.0.run(batch);
    }

    fn state_key(&self) -> StateKey {
        self.0.state_key()
    }

    fn state(&self, shard: Shard) -> State {
        State::after(FinishingHalf(self.0.state(shard).after.unwrap()))
    }

    fn emits(&self) -> Emits {
        self.0.emits()
    }
}

impl After for FinishingHalf {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        self.0.after(batch, picks, emit);
    }
}

impl StateHalf for FinishingHalf {
    fn handle_timeout(&mut self, _: Instant, emit: &mut Emit<'_>) {
        self.0.finish(emit);
    }
}
