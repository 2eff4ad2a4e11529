//! The counts of a running chain. Each thread publishes its own when it is asked, between two
//! rounds of its work, so no thread waits for a lock and no lane stops.
//!
//! A reader raises an epoch. A thread that sees a new epoch clones its counts into its place. Those
//! of a thread that does not answer in time are those of its last answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::stats::Part;

/// How long a thread may take to answer: it looks between two rounds, or after it slept.
const PATIENCE: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// See the module.
#[derive(Default)]
pub(crate) struct Snapshots {
    asked: AtomicU64,
    /// By thread, the epoch of its answer, and the counts.
    parts: Mutex<Vec<(u64, Option<Part>)>>,
}

/// The place of one thread.
pub(crate) struct Place {
    number: usize,
    seen: u64,
}

impl Snapshots {
    /// A place for one more thread.
    pub(crate) fn join(&self) -> Place {
        let mut parts = self.parts();
        parts.push((0, None));
        Place { number: parts.len() - 1, seen: 0 }
    }

    /// Publishes the counts of the thread at `place`, if they are asked for.
    #[inline]
    pub(crate) fn answer(&self, place: &mut Place, counts: impl FnOnce() -> Part) {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != place.seen {
            place.seen = asked;
            self.parts()[place.number] = (asked, Some(counts()));
        }
    }

    /// Publishes the last counts of the thread at `place`, which ends.
    pub(crate) fn leave(&self, place: &Place, counts: Part) {
        self.parts()[place.number] = (u64::MAX, Some(counts));
    }

    /// The counts of all threads, added to `sum`.
    pub(crate) fn take(&self, mut sum: Part) -> Part {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let started = Instant::now();
        while started.elapsed() < PATIENCE
            && self.parts().iter().any(|(answered, _)| *answered < asked)
        {
            thread::sleep(LOOK_EVERY);
        }
        for (_, part) in self.parts().iter() {
            part.iter().for_each(|part| sum.add(part.clone()));
        }
        sum
    }

    /// Whether a thread has a place.
    pub(crate) fn has_threads(&self) -> bool {
        !self.parts().is_empty()
    }

    /// Whether all threads have answered, which asks them again. A thread without work looks
    /// several times a second.
    pub(crate) fn take_beat(&self) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        let all = self.parts().iter().all(|(answered, _)| *answered >= asked);
        if all {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        all
    }

    fn parts(&self) -> MutexGuard<'_, Vec<(u64, Option<Part>)>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_needs_a_round_of_every_thread() {
        let snapshots = Snapshots::default();
        assert!(!snapshots.has_threads());
        let mut places = [snapshots.join(), snapshots.join()];
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
