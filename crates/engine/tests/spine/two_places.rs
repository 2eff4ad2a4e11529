//! Answers pass second places only, made packets take the words of their cause, and no answer is
//! made that would show what a function hides. A model of a few lines predicts the output of each
//! chain.

use std::sync::Arc;

use warpline_engine::{Chain, Deployment, Instance, Place, Settings, Site};
use warpline_nf::{Before, Emit, Emits, Function, State, StateHalf};
use warpline_packet::{
    Access, Batch, FieldSet, Flags, ReadWrite, Reason, ScratchWord, Shard, StateKey,
};

use crate::common::frames::{Input, Traffic};
use crate::common::run::{Outcome, run_whole};
use crate::common::{DEFINITION, fnv};

/// A function of a chain. Numbers name pairs, and the byte of a frame that each of them marks,
/// counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestFunction {
    Only(usize),
    First(usize),
    Second(usize),
    /// Makes answers and packets that go on.
    Makes,
    /// Counts.
    Counts,
}

use TestFunction::{Counts, First, Makes, Only, Second};

/// Bytes at the end of a frame for marks.
const MARKS: usize = 4;
/// The byte in which what is made differs from its cause.
const OWN_MARK: usize = MARKS - 1;
const LEN_MAX: usize = 1600;

/// The change that a translator makes to a packet; 0 for none.
fn change(frame: &[u8]) -> u32 {
    fnv(&frame[..frame.len() - MARKS]) / 8 % 4
}

/// The answers and onward packets that a packet causes, and whether it ends.
fn makes(frame: &[u8]) -> (usize, usize, bool) {
    let all = [(0, 0, false), (1, 0, false), (0, 2, false), (1, 1, false), (1, 0, true)];
    all[fnv(&frame[..frame.len() - MARKS]) as usize % 7 % 5]
}

fn mark(frame: &mut [u8], number: usize, mark: u8) {
    let at = frame.len() - 1 - number;
    frame[at] = mark;
}

/// A translator: writes its action in its word, and marks at its last place.
struct Translator {
    part: TestFunction,
    word: [ScratchWord; 1],
    access: Access,
}

impl Function for Translator {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        let (Only(number) | Second(number)) = self.part else { return };
        batch.for_each_forward(|packet| {
            let kind = if packet.has(Flags::ANSWER) { 0xb0 } else { 0xa0 };
            let own = packet.scratch(self.word[0]) as u8;
            if own > 0 {
                mark(packet.frame_mut(), number, kind | own);
            }
        });
    }

    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }

    fn state(&self, _: Shard) -> State {
        match self.part {
            Second(_) => State::NONE,
            _ => State::before(Writer(self.word[0])),
        }
    }

    fn change_words(&self) -> &[ScratchWord] {
        &self.word
    }
}

struct Writer(ScratchWord);

impl Before for Writer {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &pick in picks {
            let own = change(batch.packet(pick.into()).frame());
            batch.packet_mut(pick.into()).set_scratch(self.0, own);
        }
    }
}

impl StateHalf for Writer {}

/// Makes packets as [`makes`] decides.
struct Maker(Access);

impl Function for Maker {
    fn access(&self) -> &Access {
        &self.0
    }

    fn run(&self, _: &mut Batch) {}

    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }

    fn state(&self, _: Shard) -> State {
        State::before(Making { frame: [0; LEN_MAX], withheld: 0 })
    }

    fn emits(&self) -> Emits {
        Emits { per_packet: 2, forward_per_packet: 2, len_max: LEN_MAX, ..Emits::NONE }
    }
}

struct Making {
    frame: [u8; LEN_MAX],
    withheld: u64,
}

impl Before for Making {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &pick in picks {
            let cause = batch.packet(pick.into());
            let frame = &mut self.frame[..cause.frame().len()];
            frame.copy_from_slice(cause.frame());
            let (answers, pieces, ends) = makes(frame);
            for _ in 0..answers {
                mark(frame, OWN_MARK, 0xbb);
                let is_closed = emit.is_closed(&cause);
                assert_eq!(emit.send_back(&cause, frame), !is_closed);
                self.withheld += u64::from(is_closed);
            }
            for piece in 0..pieces {
                mark(frame, OWN_MARK, 0xc0 | piece as u8);
                assert!(emit.forward(&cause, frame));
            }
            if ends {
                batch.packet_mut(pick.into()).drop(Reason(0));
            }
        }
    }
}

impl StateHalf for Making {
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("withheld", self.withheld);
    }
}

/// Does nothing.
struct Counter(Access);

impl Function for Counter {
    fn access(&self) -> &Access {
        &self.0
    }

    fn run(&self, _: &mut Batch) {}
}

fn function(part: TestFunction) -> Arc<dyn Function> {
    let all = ReadWrite::new(FieldSet::ALL, FieldSet::ALL);
    let access = Access { before: all, run: all, ..Access::default() };
    match part {
        Only(number) | First(number) | Second(number) => {
            let word = [ScratchWord::new(number).expect("a word")];
            Arc::new(Translator { part, word, access })
        }
        Makes => Arc::new(Maker(access)),
        Counts => Arc::new(Counter(access)),
    }
}

/// A chain, in stages of its own where `launch_batches` is not 0.
fn deploy(parts: &[TestFunction], launch_batches: usize) -> Deployment {
    let instances = parts.iter().enumerate().map(|(at, &part)| Instance {
        name: format!("{at}"),
        definition: &DEFINITION,
        function: function(part),
        fingerprint: 0,
        place: match part {
            First(_) => Place::First,
            Second(_) => Place::Second,
            _ => Place::Only,
        },
    });
    let chain = Chain::new("two places", instances.collect(), MARKS).expect("a chain");
    let own_stage = launch_batches > 0;
    let site = Site { own_stage, launch_batches: launch_batches.max(1), ..Site::default() };
    Deployment::new(Arc::new(chain), vec![site; parts.len()])
}

/// A packet in the model.
#[derive(Clone, Default)]
struct Modelled {
    frame: Vec<u8>,
    words: [u32; MARKS],
    is_answer: bool,
    is_closed: bool,
}

/// Packets that leave a chain, packets that each function gets, and the number of answers withheld.
#[derive(Default)]
struct Expected {
    sent: Vec<Vec<u8>>,
    packets_in: Vec<u64>,
    withheld: u64,
}

fn expected(parts: &[TestFunction], inputs: &[Input]) -> Expected {
    let mut all = Expected { packets_in: vec![0; parts.len()], ..Expected::default() };
    for input in inputs {
        let first = Modelled { frame: input.bytes.clone(), ..Modelled::default() };
        let mut packets = vec![first];
        for (at, part) in parts.iter().enumerate() {
            let mut made = Vec::new();
            packets.retain_mut(|packet| {
                if packet.is_answer && !matches!(part, Second(_)) {
                    return true;
                }
                all.packets_in[at] += 1;
                pass(*part, packet, &mut made, &mut all.withheld)
            });
            packets.extend(made);
        }
        all.sent.extend(packets.into_iter().map(|packet| packet.frame));
    }
    all
}

/// Whether a packet is still there after a function.
fn pass(
    part: TestFunction,
    packet: &mut Modelled,
    made: &mut Vec<Modelled>,
    withheld: &mut u64,
) -> bool {
    match part {
        First(number) => packet.words[number] = change(&packet.frame),
        Only(number) | Second(number) => {
            if matches!(part, Only(_)) {
                packet.words[number] = change(&packet.frame);
            }
            let own = packet.words[number] as u8;
            if own > 0 {
                mark(&mut packet.frame, number, if packet.is_answer { 0xb0 } else { 0xa0 } | own);
                packet.is_closed = true;
            }
        }
        Makes => {
            let (answers, pieces, ends) = makes(&packet.frame);
            let mut make = |own, is_answer| {
                let mut one = Modelled { is_answer, ..packet.clone() };
                mark(&mut one.frame, OWN_MARK, own);
                made.push(one);
            };
            match packet.is_closed {
                true => *withheld += answers as u64,
                false => (0..answers).for_each(|_| make(0xbb, true)),
            }
            (0..pieces).for_each(|piece| make(0xc0 | piece as u8, false));
            return !ends;
        }
        Counts => {}
    }
    true
}

/// Chains, and how many packets one packet may become in each.
const CHAINS: &[(&[TestFunction], usize)] = &[
    (&[First(0), Makes, Second(0)], 3),
    // Only the second place gets answers.
    (&[First(0), Makes, Counts, Only(1), Counts, Second(0), Counts], 3),
    // One pair within another, and one that begins within another.
    (&[First(0), First(1), Makes, Second(1), Counts, Second(0)], 3),
    (&[First(0), First(1), Makes, Second(0), Counts, Second(1)], 3),
    // There is no place to come.
    (&[First(0), Second(0), Makes], 3),
    (&[Only(0), Makes], 3),
    (&[Only(0), First(1), Makes, Second(1)], 3),
    // A place is to come for some, and for some not.
    (&[First(0), First(1), Second(1), Makes, Second(0)], 3),
    // Before the first place there is nothing to hide.
    (&[Makes, First(0), Counts, Second(0)], 3),
    // Answers to packets that were made: those that go on are up to three then.
    (&[First(0), Makes, Makes, Second(0)], 9),
    (&[First(0), Makes, Second(0), Makes, Counts], 9),
    // An answer to a made packet would show as much as one to its cause.
    (&[Only(0), Makes, Makes], 9),
    (&[First(0), Second(0), Makes, Makes, Counts], 9),
];

/// Frames with room for marks.
fn inputs(count: usize) -> Vec<Input> {
    let mut inputs = Traffic::new(23, 40, 0, 400).take(count);
    for input in &mut inputs {
        input.bytes.extend([0; MARKS]);
        input.wire_len = input.bytes.len() as u32;
    }
    inputs
}

fn sorted(sent: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut sent: Vec<_> = sent.collect();
    sent.sort();
    sent
}

fn check(parts: &[TestFunction], outcome: &Outcome, expected: &Expected, what: &str) {
    let functions = &outcome.report.part.functions;
    let packets_in: Vec<u64> = functions.iter().map(|one| one.packets_in).collect();
    assert_eq!(packets_in, expected.packets_in, "{what}");
    let withheld: u64 = (0..parts.len()).map(|at| outcome.counter(at, "withheld")).sum();
    assert_eq!(withheld, expected.withheld, "{what}");
    let sent = sorted(outcome.sent.iter().map(|sent| sent.bytes.clone()));
    assert!(sent == sorted(expected.sent.iter().cloned()), "{what}");
}

#[test]
fn answers_pass_second_places_only_and_made_packets_take_words() {
    let inputs = inputs(600);
    for (parts, most) in CHAINS {
        let expected = expected(parts, &inputs);
        assert_eq!(deploy(parts, 0).chain().multiply(), *most, "{parts:?}");
        let mut reference = None;
        for (lanes, batch_packets, launch) in
            [(1, 256, 0), (1, 1, 0), (2, 1024, 0), (3, 64, 0), (1, 16, 3), (2, 7, 1)]
        {
            let what = format!("{parts:?}, {lanes} lanes, {batch_packets} a batch, {launch}");
            let settings = Settings { lanes, batch_packets, ..Settings::default() };
            let outcome = run_whole(deploy(parts, launch), settings, &inputs);
            check(parts, &outcome, &expected, &what);
            let summary = outcome.summary();
            assert!(*reference.get_or_insert_with(|| summary.clone()) == summary, "{what}");
        }
    }
}

/// The table shows something: answers with marks, pieces with marks, and answers withheld.
#[test]
fn the_chains_show_answers_pieces_and_withheld_answers() {
    let inputs = inputs(600);
    let (mut answers, mut pieces, mut withheld) = (0, 0, 0);
    for (parts, _) in CHAINS {
        let expected = expected(parts, &inputs);
        let shows = |own: u8, kind: u8| {
            let is = |frame: &&Vec<u8>| {
                let marks = &frame[frame.len() - MARKS..];
                marks[0] & 0xf0 == own && marks[1..].iter().any(|mark| mark & 0xf0 == kind)
            };
            expected.sent.iter().filter(is).count()
        };
        (answers, pieces) = (answers + shows(0xb0, 0xb0), pieces + shows(0xc0, 0xa0));
        withheld += expected.withheld;
    }
    assert!(answers > 500 && pieces > 500 && withheld > 500, "{answers} {pieces} {withheld}");
}

/// One packet may become 16 at most, answers at second places among them.
#[test]
fn a_chain_that_multiplies_answers_too_often_is_refused() {
    let build = |parts: &[TestFunction]| {
        let deployment = std::panic::catch_unwind(|| deploy(parts, 0));
        deployment.map(|one| one.chain().multiply()).ok()
    };
    assert_eq!(build(&[First(0), Makes, Makes, Second(0), Counts]), Some(9));
    assert_eq!(build(&[First(0), Makes, Makes, Makes, Second(0)]), Some(27));
    assert_eq!(build(&[First(0), Makes, Makes, Makes, Makes, Second(0)]), None);
}
