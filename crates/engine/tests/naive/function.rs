//! The interface of the naive chain's functions, and the chain itself: a packet at a time, from
//! function to function.

use std::collections::BTreeMap;

use crate::flows::Exported;
use crate::nids::Alert;
use crate::routes::{Next, Routes};
use crate::waiting;
use crate::wire::Frame;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Forward,
    Drop(&'static str),
    /// It ends here, as it should.
    Absorb,
    /// Rejected for the header that lies.
    Malformed(&'static str),
}

/// Counters that a run has to end with, each between two numbers.
pub(crate) type Counters = BTreeMap<&'static str, (u64, u64)>;

/// A network function, as its manual describes it.
pub(crate) trait Function {
    /// Takes a packet; what it sends back to the sender goes to `back`. `left` is what the engine's
    /// function made of the packet, where that is a matter of its choice; nothing where it dropped
    /// it.
    fn take(&mut self, frame: &mut Frame, left: Option<&[u8]>, back: &mut Vec<Frame>) -> Fate;

    /// Whether it decides about fragments by the first of their packet.
    fn follows_first_fragment(&self) -> bool {
        false
    }

    /// Whether answers pass it: only second places.
    fn takes_answers(&self) -> bool {
        false
    }

    /// Its counters after the last packet, which came at `now`.
    fn counters(&self, now: u64) -> Counters;

    /// Its alerts.
    fn alerts(&self) -> &[Alert] {
        &[]
    }

    /// Its records after the last packet, which came at `now`.
    fn records(&self, _: u64) -> Vec<Exported> {
        Vec::new()
    }

    /// Errors that it found in the engine's choices.
    fn complaints(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Statistics of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) packets_in: u64,
    pub(crate) made: u64,
    pub(crate) drops: BTreeMap<&'static str, u64>,
    pub(crate) malformed: BTreeMap<&'static str, u64>,
    pub(crate) counters: Counters,
    pub(crate) alerts: Vec<Alert>,
    pub(crate) records: Vec<Exported>,
}

/// A frame that left the chain, and the number of the input that caused it.
pub(crate) struct Left {
    pub(crate) cause: usize,
    pub(crate) frame: Frame,
}

/// Results of a chain.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) sent: Vec<Left>,
    pub(crate) tallies: Vec<Tally>,
    pub(crate) complaints: Vec<String>,
    /// The packets as functions got them.
    pub(crate) inputs: Vec<Frame>,
    /// Of each packet of the input: the place of the function that ended it, and how.
    pub(crate) fates: Vec<(usize, Fate)>,
}

/// The packets that left a function of the engine's chain, by the place of the packet in the input.
pub(crate) type Spied = BTreeMap<usize, Vec<u8>>;

/// The place among [`Spied`] of answer `nth` to a packet, from 1.
pub(crate) fn of_answer(cause: usize, nth: usize) -> usize {
    cause + (nth << 48)
}

/// Runs `inputs` through `chain`; `spied` is what left each function of the engine's chain, where
/// that is known.
pub(crate) fn run(
    chain: &mut [Box<dyn Function>],
    inputs: &[Frame],
    spied: &[Option<Spied>],
    ports: Option<Hairpins>,
    routes: &Routes,
) -> Outcome {
    let count = chain.len();
    let takes: Vec<bool> = chain.iter().map(|function| function.takes_answers()).collect();
    // Of answers, functions that are no second places are passed by.
    let onward = |from: Option<usize>, frame: &Frame, is_answer: bool| {
        let mut next = routes.next(from, count, frame);
        while let Next::Function(at) = next
            && is_answer
            && !takes[at]
        {
            next = routes.next(Some(at), count, frame);
        }
        next
    };
    let mut outcome =
        Outcome { tallies: vec![Tally::default(); chain.len()], ..Outcome::default() };
    let follows = chain.iter().any(|function| function.follows_first_fragment());
    let inputs = if follows { waiting::in_order(inputs) } else { inputs.to_vec() };
    for (cause, input) in inputs.iter().enumerate() {
        let mut frame = Frame { number: cause, ..input.clone() };
        let mut end = (chain.len(), Fate::Forward);
        let mut back: Vec<(Frame, Next)> = Vec::new();
        let mut next = onward(None, &frame, false);
        for (place, function) in chain.iter_mut().enumerate() {
            let (tally, mut made) = (&mut outcome.tallies[place], Vec::new());
            if end.1 == Fate::Forward && next == Next::Function(place) {
                let left = spied[place].as_ref().and_then(|all| all.get(&cause));
                let fate = function.take(&mut frame, left.map(Vec::as_slice), &mut made);
                tally.count(fate, made.len() as u64);
                if fate != Fate::Forward {
                    end = (place, fate);
                }
                next = onward(Some(place), &frame, false);
            }
            if function.takes_answers() {
                let mut nth = 0;
                back.retain_mut(|(answer, next)| {
                    if *next != Next::Function(place) {
                        return true;
                    }
                    nth += 1;
                    let left =
                        spied[place].as_ref().and_then(|all| all.get(&of_answer(cause, nth)));
                    let fate = function.take(answer, left.map(Vec::as_slice), &mut Vec::new());
                    tally.count(fate, 0);
                    *next = onward(Some(place), answer, true);
                    fate == Fate::Forward
                });
            }
            back.extend(made.into_iter().map(|frame| {
                let frame = Frame { is_answer: true, wrapped: false, ..frame };
                let next = onward(Some(place), &frame, true);
                (frame, next)
            }));
            back.retain(|(_, next)| *next != Next::Nowhere);
        }
        let own = (end.1 == Fate::Forward && next == Next::Egress).then_some(frame);
        let own = match ports {
            Some(hairpins) => own.and_then(|frame| leave(frame, hairpins)),
            None => own,
        };
        let back = back.into_iter().map(|(frame, _)| frame);
        let sent = own.into_iter().chain(back).map(|frame| Left { cause, frame });
        outcome.sent.extend(sent);
        outcome.fates.push(end);
    }
    let now = inputs.iter().map(|frame| frame.now).max().unwrap_or(0);
    for (tally, function) in outcome.tallies.iter_mut().zip(chain) {
        tally.counters = function.counters(now);
        tally.alerts = function.alerts().to_vec();
        tally.records = function.records(now);
        outcome.complaints.extend(function.complaints());
    }
    outcome.inputs = inputs;
    outcome
}

/// The fate of packets in a chain with ports whose route leads back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hairpins {
    Sent,
    Dropped,
}

/// The frame at the port that it leaves by: that of its route, or the other one of two.
fn leave(frame: Frame, hairpins: Hairpins) -> Option<Frame> {
    let out = frame.out.unwrap_or(1 - frame.interface);
    let is_sent = hairpins == Hairpins::Sent || out != frame.interface;
    is_sent.then_some(Frame { interface: out, out: None, ..frame })
}

impl Tally {
    fn count(&mut self, fate: Fate, made: u64) {
        self.packets_in += 1;
        self.made += made;
        match fate {
            Fate::Forward | Fate::Absorb => {}
            Fate::Drop(why) => *self.drops.entry(why).or_default() += 1,
            Fate::Malformed(what) => *self.malformed.entry(what).or_default() += 1,
        }
    }
}
