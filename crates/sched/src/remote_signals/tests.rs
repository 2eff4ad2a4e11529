//! Both sides, and a network that may deliver everything that was ever sent, at any time, in any
//! order, as often as it likes, or never.

use std::collections::{BTreeSet, VecDeque};

use super::*;

const MS: u64 = 1_000_000;
const LEASE: Lease = Lease { lease_ns: 2 * MS, refresh_ns: MS };
/// A signal may pause for a lease, and until two leases after the turn it has.
const LATE_NS: u64 = 3 * LEASE.lease_ns;

/// The bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Left {
    signals: u8,
    ticks: u8,
    jumps: u8,
    toggles: u8,
    sender_restarts: u8,
    receiver_restarts: u8,
}

#[derive(Clone, Copy, Debug)]
enum SignalEvent {
    Tick,
    Jump,
    Toggle,
    Send,
    Signal(usize),
    Answer(usize),
    SenderDies,
    /// With an epoch that is lower or higher than those before.
    SenderStarts(bool),
    ReceiverRestarts,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    now: u64,
    sender: Option<PauseSender>,
    receiver: PauseReceiver,
    /// With the time and the number of the sender's life.
    signals: Vec<(PauseSignal, u64)>,
    answers: Vec<PauseAnswer>,
    /// The position of the last signal that this life of the receiver accepted, plus one.
    accepted: usize,
    starts: u64,
    left: Left,
    wrong: Option<&'static str>,
}

impl World {
    fn new(left: Left) -> Self {
        Self {
            now: 0,
            sender: Some(PauseSender::new(LEASE, 100, 0)),
            receiver: PauseReceiver::new(LEASE, 1, 0),
            signals: Vec::new(),
            answers: Vec::new(),
            accepted: 0,
            starts: 1,
            left,
            wrong: None,
        }
    }

    fn steps(&self) -> Vec<SignalEvent> {
        let left = &self.left;
        let mut steps = Vec::new();
        steps.extend((left.ticks > 0).then_some(SignalEvent::Tick));
        steps.extend((left.jumps > 0).then_some(SignalEvent::Jump));
        steps.extend((0..self.signals.len()).map(SignalEvent::Signal));
        match &self.sender {
            Some(sender) => {
                steps.extend((left.toggles > 0).then_some(SignalEvent::Toggle));
                let is_due = sender.poll_timeout() <= self.now;
                steps.extend((is_due && left.signals > 0).then_some(SignalEvent::Send));
                steps.extend((left.sender_restarts > 0).then_some(SignalEvent::SenderDies));
                steps.extend((0..self.answers.len()).map(SignalEvent::Answer));
            }
            None => steps.extend([false, true].map(SignalEvent::SenderStarts)),
        }
        steps.extend((left.receiver_restarts > 0).then_some(SignalEvent::ReceiverRestarts));
        steps
    }

    fn apply(&mut self, step: SignalEvent) {
        match step {
            SignalEvent::Tick => (self.left.ticks, self.now) = (self.left.ticks - 1, self.now + MS),
            SignalEvent::Jump => {
                (self.left.jumps, self.now) = (self.left.jumps - 1, self.now + 5 * LEASE.lease_ns);
            }
            SignalEvent::Toggle => {
                self.left.toggles -= 1;
                let sender = self.sender.as_mut().unwrap();
                sender.handle_pressure(!sender.is_paused(), self.now);
            }
            SignalEvent::Send => {
                self.left.signals -= 1;
                let signal = self.sender.as_mut().unwrap().poll_signal(self.now).unwrap();
                self.signals.push((signal, self.now));
            }
            SignalEvent::Signal(at) => self.deliver(at),
            SignalEvent::Answer(at) => {
                let _ = self.sender.as_mut().unwrap().handle_answer(&self.answers[at], self.now);
            }
            SignalEvent::SenderDies => {
                (self.sender, self.left.sender_restarts) = (None, self.left.sender_restarts - 1);
            }
            SignalEvent::SenderStarts(is_higher) => {
                self.starts += 1;
                let epoch = if is_higher { 100 + self.starts } else { 100 - self.starts };
                self.sender = Some(PauseSender::new(LEASE, epoch, self.now));
            }
            SignalEvent::ReceiverRestarts => {
                self.left.receiver_restarts -= 1;
                self.starts += 1;
                self.receiver = PauseReceiver::new(LEASE, self.starts, self.now);
                self.accepted = 0;
            }
        }
        self.receiver.handle_timeout(self.now);
        self.receiver.counts = SignalCounts::default();
        self.sender.iter_mut().for_each(|sender| sender.counts = SignalCounts::default());
    }

    fn deliver(&mut self, at: usize) {
        let (signal, sent) = self.signals[at];
        let before = self.receiver.counts.received;
        let Reception { answer, .. } = self.receiver.handle_signal(&signal, self.now);
        if self.receiver.counts.received > before {
            if at < self.accepted {
                self.wrong = Some("a signal was accepted after a later one");
            }
            if self.now - sent >= 2 * LEASE.lease_ns {
                self.wrong = Some("a signal was accepted two leases late");
            }
            self.accepted = at + 1;
        }
        if !self.answers.contains(&answer) {
            self.answers.push(answer);
            self.answers.sort_unstable();
        }
    }

    fn violation(&self) -> Option<&'static str> {
        let is_held = self.receiver.is_held();
        let pauses = self.signals.iter().filter(|(signal, _)| signal.pause);
        let last = pauses.map(|(_, sent)| *sent).max();
        let is_recent = last.is_some_and(|sent| self.now - sent < LATE_NS);
        self.wrong
            .or((is_held && !is_recent).then_some("a pause holds for too long"))
            .or_else(|| self.later())
    }

    /// The end, if the network delivers all from now on, or nothing.
    fn later(&self) -> Option<&'static str> {
        let mut silent = self.receiver.clone();
        silent.handle_timeout(self.now + LEASE.lease_ns);
        if silent.is_held() {
            return Some("a pause outlives its lease");
        }
        let mut world = self.clone();
        let sender = world.sender.as_mut()?;
        for _ in 0..2 {
            let mut exchanges = 0;
            while let Some(signal) = sender.poll_signal(world.now) {
                let Reception { answer, .. } = world.receiver.handle_signal(&signal, world.now);
                let _ = sender.handle_answer(&answer, world.now);
                exchanges += 1;
                if exchanges > 3 {
                    return Some("signals never end");
                }
            }
            world.now += LEASE.refresh_ns;
        }
        (world.receiver.is_held() != sender.is_paused()).then_some("the two disagree")
    }
}

/// Visits all states within these bounds; returns their number.
fn explore(left: Left) -> usize {
    let first = World::new(left);
    let mut seen = BTreeSet::from([first.clone()]);
    let mut open = VecDeque::from([(first, Vec::new())]);
    while let Some((world, way)) = open.pop_front() {
        for step in world.steps() {
            let mut next = world.clone();
            next.apply(step);
            let way: Vec<SignalEvent> = way.iter().copied().chain([step]).collect();
            if let Some(wrong) = next.violation() {
                panic!("{wrong} after {way:?}");
            }
            if seen.insert(next.clone()) {
                open.push_back((next, way));
            }
        }
    }
    seen.len()
}

const NONE: Left =
    Left { signals: 0, ticks: 0, jumps: 0, toggles: 0, sender_restarts: 0, receiver_restarts: 0 };

#[test]
fn no_network_delays_a_resume_beyond_its_lease() {
    let states = explore(Left { signals: 3, ticks: 3, toggles: 2, ..NONE });
    assert!(states > 1_000, "{states}");
}

#[test]
fn a_restarted_sender_is_obeyed_whatever_its_clock_shows() {
    let states = explore(Left { signals: 4, toggles: 1, sender_restarts: 1, ..NONE });
    assert!(states > 1_000, "{states}");
    let twice = explore(Left { signals: 3, toggles: 1, sender_restarts: 2, ..NONE });
    assert!(twice > 1_000, "{twice}");
}

#[test]
fn a_restarted_receiver_obeys_no_signal_to_its_earlier_life() {
    let states = explore(Left { signals: 3, ticks: 1, toggles: 1, receiver_restarts: 1, ..NONE });
    assert!(states > 1_000, "{states}");
    let both = Left { signals: 3, toggles: 1, sender_restarts: 1, receiver_restarts: 1, ..NONE };
    assert!(explore(both) > 1_000);
}

#[test]
fn clocks_may_jump() {
    let states = explore(Left { signals: 3, ticks: 1, jumps: 1, toggles: 1, ..NONE });
    assert!(states > 1_000, "{states}");
}

/// A pause in effect, with its sender and receiver in contact.
fn paused() -> (PauseSender, PauseReceiver, PauseSignal) {
    let mut sender = PauseSender::new(LEASE, 7, 0);
    let mut receiver = PauseReceiver::new(LEASE, 9, 0);
    let greeting = sender.poll_signal(0).unwrap();
    let Reception { answer, refused } = receiver.handle_signal(&greeting, 0);
    assert_eq!((refused, receiver.is_held()), (None, false));
    sender.handle_answer(&answer, 0).unwrap();
    sender.handle_pressure(true, 0);
    let signal = sender.poll_signal(0).unwrap();
    assert_eq!(receiver.handle_signal(&signal, 0).refused, None);
    assert!(receiver.is_held());
    (sender, receiver, signal)
}

#[test]
fn refused_signals_are_counted_by_kind() {
    let (_, mut receiver, signal) = paused();
    let mut refused = |changed: PauseSignal, now| receiver.handle_signal(&changed, now).refused;
    assert_eq!(refused(signal, 0), Some(SignalRefusal::Replayed));
    assert_eq!(refused(PauseSignal { session: 8, ..signal }, 0), Some(SignalRefusal::Stale));
    assert_eq!(refused(PauseSignal { epoch: 6, ..signal }, 0), Some(SignalRefusal::Stale));
    assert_eq!(refused(PauseSignal { turn: 1, ..signal }, 0), Some(SignalRefusal::Stale));
    let late = PauseSignal { sequence: 3, ..signal };
    assert_eq!(refused(late, 2 * LEASE.lease_ns), Some(SignalRefusal::Stale));
    let counts = receiver.counts(0);
    assert_eq!((counts.refused, counts.received, counts.pauses), ([0, 0, 0, 4, 1], 1, 1));
    assert_eq!((counts.expired, counts.paused_ns), (1, LEASE.lease_ns));
}

#[test]
fn no_signal_pauses_for_longer_than_a_lease_of_the_receiver() {
    let (_, mut receiver, signal) = paused();
    let long = PauseSignal { sequence: 3, lease_ms: u32::MAX, ..signal };
    assert_eq!(receiver.handle_signal(&long, MS).refused, None);
    assert_eq!(receiver.poll_timeout(), Some(MS + LEASE.lease_ns));
}

#[test]
fn answers_count_once() {
    let (mut sender, mut receiver, signal) = paused();
    let answer = receiver.handle_signal(&signal, 0).answer;
    let of = |sequence| PauseAnswer { sequence, ..answer };
    assert_eq!(sender.handle_answer(&of(3), 0), Err(SignalRefusal::Replayed));
    assert_eq!(sender.handle_answer(&answer, 0), Ok(()));
    assert_eq!(sender.handle_answer(&answer, 0), Err(SignalRefusal::Replayed));
    let other = PauseAnswer { epoch: 6, ..of(3) };
    assert_eq!(sender.handle_answer(&other, 0), Err(SignalRefusal::Stale));
}

#[test]
fn messages_have_one_form() {
    let (_, mut receiver, signal) = paused();
    let answer = receiver.handle_signal(&signal, 0).answer;
    for message in [Message::Signal(signal), Message::Answer(answer)] {
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Ok(message));
        let mut datagram = bytes.to_vec();
        datagram.extend([0xaa; 32]);
        assert_eq!(body(&datagram, 32), Ok((&bytes, &[0xaa; 32][..])));
        for len in 0..datagram.len() {
            assert!(body(&datagram[..len], 32).is_err(), "{len}");
        }
        datagram[4] += 1;
        assert_eq!(body(&datagram, 32), Err(SignalRefusal::Version));
        datagram[0] += 1;
        assert_eq!(body(&datagram, 32), Err(SignalRefusal::Malformed));
        // A flipped bit is no message, or another one.
        for bit in 0..8 * BODY_LEN {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Message::decode(&flipped), Ok(message), "bit {bit}");
        }
    }
}
