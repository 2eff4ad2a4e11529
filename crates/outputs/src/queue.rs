//! A bounded queue of records, and the thread that writes them.

use std::io;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use warpline_io_error::plain;

use crate::output::Tally;
use crate::stream::{Failed, Stream};

/// Bytes that wait at most; as many may be on their way to the reader.
pub(crate) const WAITING_MAX: usize = 4 << 20;
/// How often a caller that waits for room asks whether it still should.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The pause after a failure; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Between those who write records and the thread that hands them to the system.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// There is something to do.
    work: Condvar,
    /// There is room, nothing left, or a failure.
    room: Condvar,
    tally: Arc<Tally>,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<u8>,
    /// Records that wait.
    records: u64,
    /// Records that the thread has taken and not written yet.
    taken: u64,
    /// Whether the last attempt to write failed.
    is_failing: bool,
    /// Attempts that failed.
    failures: u64,
    /// Whether the next attempt comes without a pause.
    hurries: bool,
    reopens: bool,
    /// Nothing more is written.
    is_closed: bool,
}

impl Queue {
    /// Starts the thread, which nothing waits for: its reader may never read.
    /// It writes about `piece_len` bytes at once.
    pub(crate) fn start(
        stream: Stream,
        piece_len: usize,
        tally: &Arc<Tally>,
    ) -> io::Result<Arc<Self>> {
        let state =
            QueueState { waiting: Vec::with_capacity(WAITING_MAX), ..QueueState::default() };
        let queue = Arc::new(Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Condvar::new(),
            tally: Arc::clone(tally),
        });
        let own = Arc::clone(&queue);
        let work = move || Worker { queue: own, stream, piece_len, pause: PAUSE_MIN }.run();
        thread::Builder::new().name("output".into()).spawn(work)?;
        Ok(queue)
    }

    /// Adds `records` records, if there is room or while `waits` returns true and the thread
    /// writes. Returns whether it did.
    pub(crate) fn add(&self, bytes: &[u8], records: u64, waits: &dyn Fn() -> bool) -> bool {
        let mut state = self.lock();
        // A record of any length may wait alone.
        let has_room = |state: &QueueState| {
            state.waiting.is_empty() || state.waiting.len() + bytes.len() <= WAITING_MAX
        };
        while !has_room(&state) && !state.is_failing && !state.is_closed && waits() {
            let waited = self.room.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.is_closed || !has_room(&state) {
            return false;
        }
        state.waiting.extend_from_slice(bytes);
        state.records += records;
        drop(state);
        self.work.notify_one();
        true
    }

    /// Has the thread open its file again.
    pub(crate) fn reopen(&self) {
        self.lock().reopens = true;
        self.work.notify_one();
    }

    /// Waits until all is written or an attempt fails that ends after this call; at most for
    /// `patience`. Returns false if that was too short.
    pub(crate) fn settle(&self, patience: Option<Duration>) -> bool {
        let ends = patience.map(|patience| Instant::now() + patience);
        let mut state = self.lock();
        let failures = state.failures;
        state.hurries = state.is_failing;
        self.work.notify_one();
        while state.records + state.taken > 0 && state.failures == failures {
            let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let left = left.unwrap_or(PAUSE_MAX);
            let (next, _) =
                self.room.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
        true
    }

    /// Takes no more; all that is not written yet counts as lost at the end.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if !mem::replace(&mut state.is_closed, true) {
            self.tally.lose_at_end(state.records + state.taken);
        }
        self.work.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread.
struct Worker {
    queue: Arc<Queue>,
    stream: Stream,
    piece_len: usize,
    pause: Duration,
}

impl Worker {
    fn run(mut self) {
        let mut taken = Vec::with_capacity(WAITING_MAX);
        // A reader may wait for the connection.
        if let Err(error) = self.stream.open() {
            self.failed(&error);
        }
        while self.take(&mut taken) {
            self.write(&taken);
            taken.clear();
        }
    }

    /// Takes all that waits. Returns false at the end.
    fn take(&mut self, taken: &mut Vec<u8>) -> bool {
        let queue = Arc::clone(&self.queue);
        let mut state = queue.lock();
        loop {
            if mem::take(&mut state.reopens) {
                drop(state);
                self.reopen();
                state = queue.lock();
            }
            if state.is_closed {
                return false;
            }
            if !state.waiting.is_empty() {
                break;
            }
            state = queue.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        mem::swap(&mut state.waiting, taken);
        state.taken = mem::take(&mut state.records);
        queue.room.notify_all();
        true
    }

    /// Writes `bytes`, however often that fails, until the queue is closed.
    fn write(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let piece = &bytes[at..at + self.stream.format().piece(&bytes[at..], self.piece_len)];
            let outcome = self.stream.write(piece);
            let format = self.stream.format();
            let (done, records) = match &outcome {
                Ok(()) => (piece.len(), format.count(piece)),
                Err(failed) => format.whole_in(piece, failed.written),
            };
            at += done;
            let mut state = self.queue.lock();
            if state.is_closed {
                return;
            }
            state.taken = state.taken.saturating_sub(records);
            state.is_failing &= outcome.is_err();
            let reopens = mem::take(&mut state.reopens);
            drop(state);
            self.queue.tally.written.fetch_add(records, Ordering::Relaxed);
            self.queue.room.notify_all();
            if reopens {
                self.reopen();
            }
            match outcome {
                Ok(()) => self.works(),
                Err(Failed { error, .. }) => self.failed(&error),
            }
        }
        // A rest that is no record counts with every addition, and here once.
        self.queue.lock().taken = 0;
        self.queue.room.notify_all();
    }

    fn reopen(&mut self) {
        if let Err(error) = self.stream.reopen() {
            self.queue.tally.note(format!("can't open it again: {}", plain(&error)));
        }
    }

    fn works(&mut self) {
        self.pause = PAUSE_MIN;
        self.queue.tally.set_failure(None);
    }

    /// Notes the failure, and pauses.
    fn failed(&mut self, error: &io::Error) {
        self.queue.tally.set_failure(Some(plain(error)));
        let mut state = self.queue.lock();
        state.is_failing = true;
        state.failures += 1;
        self.queue.room.notify_all();
        let ends = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        while !state.is_closed && !state.reopens && !mem::take(&mut state.hurries) {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let (next, _) =
                self.queue.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
    }
}
