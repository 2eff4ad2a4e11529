//! The counts of a running chain. Each thread publishes its own when it is asked, between two
//! rounds of its work. It has a cell of its own, and answers a round later if a reader holds it.
//! So no lane stops.
//!
//! A reader raises an epoch. A thread that sees a new epoch clones its counts into its cell. Those
//! of a thread that does not answer in time are those of its last answer. Readers add them up and
//! copy them outside the lock. The thread that reads packets answers after all others, so none of
//! them counts a packet that is not yet counted as read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Report;
use crate::stats::ThreadStats;

/// How long a thread may take to answer: it looks between two rounds, or after it slept.
const PATIENCE: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// See the module.
#[derive(Default)]
pub(crate) struct Snapshots {
    asked: AtomicU64,
    cells: Mutex<Vec<Arc<AnswerCell>>>,
}

/// Where a thread puts its answers.
struct AnswerCell {
    thread: Thread,
    answer: Mutex<Answer>,
}

/// The last answer of a thread.
#[derive(Clone, Default)]
struct Answer {
    epoch: u64,
    counts: Option<Arc<ThreadStats>>,
}

impl AnswerCell {
    fn answer(&self) -> Answer {
        lock(&self.answer).clone()
    }
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
    pub lanes: Vec<(usize, ThreadStats)>,
    /// Threads that did not answer in time. Their counts are those of their last answer.
    pub late: Vec<Thread>,
}

/// The answers to one request.
pub(crate) struct Answers {
    pub(crate) sum: ThreadStats,
    pub(crate) lanes: Vec<(usize, ThreadStats)>,
    pub(crate) late: Vec<Thread>,
}

/// A thread's access to its cell.
pub(crate) struct ThreadSlot {
    cell: Arc<AnswerCell>,
    seen: u64,
}

impl Snapshots {
    /// A cell for one more thread.
    pub(crate) fn join(&self, thread: Thread) -> ThreadSlot {
        let cell = Arc::new(AnswerCell { thread, answer: Mutex::default() });
        lock(&self.cells).push(Arc::clone(&cell));
        ThreadSlot { cell, seen: 0 }
    }

    /// Publishes the counts of the thread of `slot`, if they are asked for.
    #[inline]
    pub(crate) fn answer(&self, slot: &mut ThreadSlot, counts: impl FnOnce() -> ThreadStats) {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != slot.seen && slot.publish(asked, counts) {
            slot.seen = asked;
        }
    }

    /// Publishes the last counts of the thread of `slot`, which ends.
    pub(crate) fn leave(&self, slot: &ThreadSlot, counts: ThreadStats) {
        *lock(&slot.cell.answer) = Answer { epoch: u64::MAX, counts: Some(Arc::new(counts)) };
    }

    /// The counts of all threads, added to `sum`, and those of each lane.
    pub(crate) fn take(&self, mut sum: ThreadStats) -> Answers {
        let (mut lanes, mut late) = (Vec::new(), Vec::new());
        for are_readers in [false, true] {
            let (asked, answers) = self.ask(|thread| (thread == Thread::Reader) == are_readers);
            for (thread, answer) in answers {
                late.extend((answer.epoch < asked).then_some(thread));
                let Some(counts) = answer.counts else { continue };
                sum.add(ThreadStats::clone(&counts));
                if let Thread::Lane(number) = thread {
                    lanes.push((number, ThreadStats::clone(&counts)));
                }
            }
        }
        lanes.sort_by_key(|(number, _)| *number);
        Answers { sum, lanes, late }
    }

    /// Raises the epoch and waits, at most [`PATIENCE`], for some of the threads. Returns
    /// the epoch and the last answers of these.
    fn ask(&self, waits_for: impl Fn(Thread) -> bool) -> (u64, Vec<(Thread, Answer)>) {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let started = Instant::now();
        loop {
            let answers: Vec<_> = self.answers().filter(|(thread, _)| waits_for(*thread)).collect();
            let all = answers.iter().all(|(_, answer)| answer.epoch >= asked);
            if all || started.elapsed() >= PATIENCE {
                return (asked, answers);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether a thread has a cell.
    pub(crate) fn has_threads(&self) -> bool {
        !lock(&self.cells).is_empty()
    }

    /// Whether all threads have answered, which asks them again. A thread without work looks
    /// several times a second.
    pub(crate) fn take_beat(&self) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        let all = self.answers().all(|(_, answer)| answer.epoch >= asked);
        if all {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        all
    }

    /// The last answer of each thread.
    fn answers(&self) -> impl Iterator<Item = (Thread, Answer)> {
        let cells = lock(&self.cells).clone();
        cells.into_iter().map(|cell| (cell.thread, cell.answer()))
    }
}

impl ThreadSlot {
    /// Returns false if a reader holds the cell.
    #[cold]
    fn publish(&self, epoch: u64, counts: impl FnOnce() -> ThreadStats) -> bool {
        let mut answer = match self.cell.answer.try_lock() {
            Ok(answer) => answer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        *answer = Answer { epoch, counts: Some(Arc::new(counts())) };
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_beat_needs_a_round_of_every_thread() {
        let snapshots = Snapshots::default();
        assert!(!snapshots.has_threads());
        let mut places = [snapshots.join(Thread::Reader), snapshots.join(Thread::Sender)];
        let round = |place: &mut ThreadSlot| snapshots.answer(place, || ThreadStats::new(0));
        assert!(snapshots.has_threads() && snapshots.take_beat(), "none was asked before");
        assert!(!snapshots.take_beat());
        round(&mut places[0]);
        assert!(!snapshots.take_beat(), "the other one hangs");
        places.iter_mut().for_each(round);
        assert!(snapshots.take_beat() && !snapshots.take_beat());
        snapshots.leave(&places[0], ThreadStats::new(0));
        round(&mut places[1]);
        assert!(snapshots.take_beat(), "a thread that has ended hangs no more");
    }

    #[test]
    fn a_thread_answers_a_round_later_if_a_reader_holds_its_cell() {
        let snapshots = Snapshots::default();
        let mut slots = [0, 1].map(|lane| snapshots.join(Thread::Lane(lane)));
        assert!(snapshots.take_beat());
        let [cell, other] = [0, 1].map(|lane| Arc::clone(&slots[lane].cell));
        let mut round = || {
            let each = |slot| snapshots.answer(slot, || ThreadStats::new(0));
            slots.iter_mut().for_each(each);
        };
        let reading = lock(&cell.answer);
        round();
        assert_eq!((reading.epoch, lock(&other.answer).epoch), (0, 1));
        drop(reading);
        round();
        assert_eq!(lock(&cell.answer).epoch, 1);
    }

    #[test]
    fn no_packet_is_sent_before_it_is_read() {
        let snapshots = Snapshots::default();
        let slots = [Thread::Reader, Thread::Lane(0)].map(|thread| snapshots.join(thread));
        let (read, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let answer = |mut slot: ThreadSlot, round: &(dyn Fn(&mut ThreadStats) + Sync)| {
            while !is_over.load(Ordering::Relaxed) {
                let mut counts = ThreadStats::new(0);
                round(&mut counts);
                snapshots.answer(&mut slot, || counts);
            }
        };
        thread::scope(|scope| {
            let [reader, lane] = slots;
            scope.spawn(|| {
                answer(reader, &|counts| {
                    counts.packets.read = read.fetch_add(1, Ordering::Relaxed) + 1;
                });
            });
            scope.spawn(|| {
                answer(lane, &|counts| {
                    thread::sleep(Duration::from_millis(1));
                    counts.packets.sent = read.load(Ordering::Relaxed);
                });
            });
            let is_right = (0..20).all(|_| {
                let Answers { sum, late, .. } = snapshots.take(ThreadStats::new(0));
                !late.is_empty() || sum.packets.sent <= sum.packets.read
            });
            is_over.store(true, Ordering::Relaxed);
            assert!(is_right);
        });
    }
}
