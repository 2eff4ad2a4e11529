//! The counts of a running chain. Each thread publishes its own when it is asked, between two
//! rounds of its work, so no thread waits for a lock and no lane stops.
//!
//! A reader raises an epoch. A thread that sees a new epoch clones its counts into its place. Those
//! of a thread that does not answer in time are those of its last answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Report;
use crate::stats::Part;

/// How long a thread may take to answer: it looks between two rounds, or after it slept.
const PATIENCE: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// See the module.
#[derive(Default)]
pub(crate) struct Snapshots {
    asked: AtomicU64,
    answers: Mutex<Vec<Answer>>,
}

/// The last answer of a thread.
struct Answer {
    thread: Thread,
    epoch: u64,
    counts: Option<Part>,
}

/// A thread of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// It reads, and may wait for its source.
    Reader,
    /// A lane, by its number.
    Lane(usize),
    /// It sends.
    Sender,
}

/// The counts of a running chain, in all and by lane.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The sums over all threads.
    pub report: Report,
    /// Each lane's part of them, by its number.
    pub lanes: Vec<(usize, Part)>,
    /// Threads that did not answer in time. Their counts are those of their last answer.
    pub late: Vec<Thread>,
}

/// The answers to one request.
pub(crate) struct Answers {
    pub(crate) sum: Part,
    pub(crate) lanes: Vec<(usize, Part)>,
    pub(crate) late: Vec<Thread>,
}

/// The place of one thread.
pub(crate) struct Place {
    number: usize,
    seen: u64,
}

impl Snapshots {
    /// A place for one more thread.
    pub(crate) fn join(&self, thread: Thread) -> Place {
        let mut answers = self.answers();
        answers.push(Answer { thread, epoch: 0, counts: None });
        Place { number: answers.len() - 1, seen: 0 }
    }

    /// Publishes the counts of the thread at `place`, if they are asked for.
    #[inline]
    pub(crate) fn answer(&self, place: &mut Place, counts: impl FnOnce() -> Part) {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != place.seen {
            place.seen = asked;
            self.publish(place, asked, counts());
        }
    }

    /// Publishes the last counts of the thread at `place`, which ends.
    pub(crate) fn leave(&self, place: &Place, counts: Part) {
        self.publish(place, u64::MAX, counts);
    }

    fn publish(&self, place: &Place, epoch: u64, counts: Part) {
        let answer = &mut self.answers()[place.number];
        (answer.epoch, answer.counts) = (epoch, Some(counts));
    }

    /// The counts of all threads, added to `sum`, and those of each lane.
    pub(crate) fn take(&self, mut sum: Part) -> Answers {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let started = Instant::now();
        let is_late = |answer: &Answer| answer.epoch < asked;
        while started.elapsed() < PATIENCE && self.answers().iter().any(is_late) {
            thread::sleep(LOOK_EVERY);
        }
        let (mut lanes, mut late) = (Vec::new(), Vec::new());
        for answer in self.answers().iter() {
            late.extend(is_late(answer).then_some(answer.thread));
            let Some(counts) = &answer.counts else { continue };
            sum.add(counts.clone());
            if let Thread::Lane(number) = answer.thread {
                lanes.push((number, counts.clone()));
            }
        }
        lanes.sort_by_key(|(number, _)| *number);
        Answers { sum, lanes, late }
    }

    /// Whether a thread has a place.
    pub(crate) fn has_threads(&self) -> bool {
        !self.answers().is_empty()
    }

    /// Whether all threads have answered, which asks them again. A thread without work looks
    /// several times a second.
    pub(crate) fn take_beat(&self) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        let all = self.answers().iter().all(|answer| answer.epoch >= asked);
        if all {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        all
    }

    fn answers(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_needs_a_round_of_every_thread() {
        let snapshots = Snapshots::default();
        assert!(!snapshots.has_threads());
        let mut places = [snapshots.join(Thread::Reader), snapshots.join(Thread::Sender)];
        let round = |place: &mut Place| snapshots.answer(place, || Part::new(0));
        assert!(snapshots.has_threads() && snapshots.take_beat(), "none was asked before");
        assert!(!snapshots.take_beat());
        round(&mut places[0]);
        assert!(!snapshots.take_beat(), "the other one hangs");
        places.iter_mut().for_each(round);
        assert!(snapshots.take_beat() && !snapshots.take_beat());
        snapshots.leave(&places[0], Part::new(0));
        round(&mut places[1]);
        assert!(snapshots.take_beat(), "a thread that has ended hangs no more");
    }
}
