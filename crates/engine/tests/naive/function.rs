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
    /// Takes a packet. `made` gets packets for the sender, and the one in place of a dropped
    /// packet. `left` is what the engine's function made of the packet, where that is a matter of
    /// its choice; nothing where it dropped it.
    fn take(&mut self, frame: &mut Frame, left: Option<&[u8]>, made: &mut Vec<Frame>) -> Fate;

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

    /// Packets dropped for one of several reasons, as a choice of the engine is not known.
    fn unsure(&self) -> u64 {
        0
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
    /// See [`Function::unsure`].
    pub(crate) unsure: u64,
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
    /// Packets of the input whose effect is not known. See [`Function::unsure`].
    pub(crate) unsure: Vec<usize>,
}

/// The packets that left a function of the engine's chain, by the place of the packet in the input.
pub(crate) type Spied = BTreeMap<usize, Vec<u8>>;

/// The place among [`Spied`] of answer `nth` to a packet, from 1.
pub(crate) fn of_answer(cause: usize, nth: usize) -> usize {
    cause + (nth << 48)
}

/// The ways through a chain.
struct Ways<'a> {
    routes: &'a Routes,
    /// By function, whether answers pass it.
    takes: Vec<bool>,
}

impl Ways<'_> {
    /// The way of a frame from ingress, or a function. Functions that answers don't pass are left
    /// out of theirs.
    fn next(&self, from: Option<usize>, frame: &Frame) -> Next {
        let mut next = self.routes.next(from, self.takes.len(), frame);
        while let Next::Function(at) = next
            && frame.is_answer
            && !self.takes[at]
        {
            next = self.routes.next(Some(at), self.takes.len(), frame);
        }
        next
    }
}

/// A packet of the input on its way, with the answers that it caused.
struct Course {
    cause: usize,
    frame: Frame,
    next: Next,
    end: (usize, Fate),
    answers: Vec<Sent>,
}

/// An answer, which stands before its cause if that took the place of another packet since.
struct Sent {
    frame: Frame,
    next: Next,
    is_before: bool,
}

impl Course {
    /// Passes the function at `place`, whose engine's outputs are `spied`.
    fn pass(
        &mut self,
        (place, function): (usize, &mut (dyn Function + '_)),
        spied: Option<&Spied>,
        ways: &Ways<'_>,
        tally: &mut Tally,
    ) {
        let (mut made, mut nth, mut counted) = (Vec::new(), 0, None);
        let left = |key| spied.and_then(|all| all.get(&key)).map(Vec::as_slice);
        let mut pass_answers =
            |course: &mut Self, function: &mut (dyn Function + '_), is_before| {
                course.answers.retain_mut(|answer| {
                    if answer.next != Next::Function(place) || answer.is_before != is_before {
                        return true;
                    }
                    nth += 1;
                    let left = left(of_answer(course.cause, nth));
                    let fate = function.take(&mut answer.frame, left, &mut Vec::new());
                    tally.count(fate, 0);
                    answer.next = ways.next(Some(place), &answer.frame);
                    fate == Fate::Forward
                });
            };
        if function.takes_answers() {
            pass_answers(self, function, true);
        }
        if self.end.1 == Fate::Forward && self.next == Next::Function(place) {
            let fate = function.take(&mut self.frame, left(self.cause), &mut made);
            counted = Some(fate);
            if fate != Fate::Forward {
                self.end = (place, fate);
            }
            self.next = ways.next(Some(place), &self.frame);
        }
        if function.takes_answers() {
            pass_answers(self, function, false);
        }
        if let Some(fate) = counted {
            tally.count(fate, made.len() as u64);
        }
        made.into_iter().for_each(|made| self.make(place, made, ways));
    }

    fn make(&mut self, place: usize, made: Frame, ways: &Ways<'_>) {
        if made.onward {
            self.frame = Frame { onward: false, ..made };
            self.next = ways.next(Some(place), &self.frame);
            self.end = (ways.takes.len(), Fate::Forward);
            self.answers.iter_mut().for_each(|answer| answer.is_before = true);
            return;
        }
        let frame = Frame { is_answer: true, wrapped: false, ..made };
        let next = ways.next(Some(place), &frame);
        if next != Next::Nowhere {
            self.answers.push(Sent { frame, next, is_before: false });
        }
    }

    /// The packets that leave the chain, in order.
    fn leave(self, ports: Option<Hairpins>) -> impl Iterator<Item = Frame> {
        let own = (self.end.1 == Fate::Forward && self.next == Next::Egress).then_some(self.frame);
        let own = match ports {
            Some(hairpins) => own.and_then(|frame| leave(frame, hairpins)),
            None => own,
        };
        let answers = self.answers.into_iter().filter(|answer| answer.next != Next::Nowhere);
        let (before, after): (Vec<Sent>, Vec<Sent>) = answers.partition(|own| own.is_before);
        let frames = |all: Vec<Sent>| all.into_iter().map(|answer| answer.frame);
        frames(before).chain(own).chain(frames(after))
    }
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
    let takes = chain.iter().map(|function| function.takes_answers()).collect();
    let ways = Ways { routes, takes };
    let mut outcome =
        Outcome { tallies: vec![Tally::default(); chain.len()], ..Outcome::default() };
    let follows = chain.iter().any(|function| function.follows_first_fragment());
    let inputs = if follows { waiting::in_order(inputs) } else { inputs.to_vec() };
    let mut known_unsure = 0;
    for (cause, input) in inputs.iter().enumerate() {
        let frame = Frame { number: cause, ..input.clone() };
        let next = ways.next(None, &frame);
        let end = (ways.takes.len(), Fate::Forward);
        let mut course = Course { cause, frame, next, end, answers: Vec::new() };
        for (place, function) in chain.iter_mut().enumerate() {
            let own = (place, function.as_mut());
            course.pass(own, spied[place].as_ref(), &ways, &mut outcome.tallies[place]);
        }
        let unsure: u64 = chain.iter().map(|function| function.unsure()).sum();
        if unsure > std::mem::replace(&mut known_unsure, unsure) {
            outcome.unsure.push(cause);
        }
        outcome.fates.push(course.end);
        outcome.sent.extend(course.leave(ports).map(|frame| Left { cause, frame }));
    }
    let now = inputs.iter().map(|frame| frame.now).max().unwrap_or(0);
    for (tally, function) in outcome.tallies.iter_mut().zip(chain) {
        tally.counters = function.counters(now);
        tally.unsure = function.unsure();
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
    /// With as many drops of other reasons as `engine` has, where it is not sure of them.
    pub(crate) fn as_sure_as(&self, engine: &Self) -> Self {
        let mut own = Self { unsure: 0, ..self.clone() };
        for why in ["filtered", "invalid"] {
            let count = |tally: &Self, why| tally.drops.get(why).copied().unwrap_or(0);
            let moved = count(engine, why).saturating_sub(count(&own, why));
            let moved = moved.min(self.unsure).min(count(&own, "no-binding"));
            for (why, count) in [(why, moved as i64), ("no-binding", -(moved as i64))] {
                let drops = own.drops.entry(why).or_default();
                *drops = drops.wrapping_add_signed(count);
            }
        }
        own.drops.retain(|_, count| *count > 0);
        own
    }

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
