//! Messages on standard error. During a run a thread writes them, so that nothing waits for a
//! reader that reads no more. Messages of a running chain may be lost then, and are counted. Those
//! of the start and the end wait for their reader until a signal comes.
//!
//! A terminal gets them directly, between two pictures of the progress bar.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::paint;
use crate::watch::Stops;

/// Bytes that wait at most; as many may be on their way to the reader.
const WAITING_MAX: usize = 1 << 20;
/// Bytes that are written at once, which is progress.
const PIECE_LEN: usize = 4096;
/// How long the end waits after a signal while the reader reads nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

static RUN: OnceLock<Option<Arc<Messages>>> = OnceLock::new();

/// A run starts; `stops` are the signals that end it.
pub(crate) fn start(stops: &Arc<Stops>) {
    let stops = Arc::clone(stops);
    let start = || {
        let is_terminal = io::stderr().is_terminal();
        let has_signal = move || stops.count() > 0;
        // Without a thread they are written directly.
        (!is_terminal).then(|| Messages::start(io::stderr(), has_signal).ok()).flatten()
    };
    RUN.get_or_init(start);
}

/// Whether messages are lost from now on if there is no room, as while packets flow.
pub(crate) fn may_lose(may_lose: bool) {
    if let Some(Some(run)) = RUN.get() {
        run.lock().may_lose = may_lose;
    }
}

/// Writes a message, with colours on a terminal.
pub(crate) fn write(text: &str) {
    let painted = paint::is_wanted().then(|| paint::messages(text));
    let text = painted.as_deref().unwrap_or(text);
    match RUN.get() {
        Some(Some(run)) => run.add(text),
        // Nobody may be there to read it.
        _ => _ = io::stderr().lock().write_all(text.as_bytes()),
    }
}

/// Waits until all is written. After a signal it waits only while the reader reads.
pub(crate) fn settle() {
    if let Some(Some(run)) = RUN.get() {
        run.settle();
    }
}

struct Messages {
    queue: Mutex<MessageQueue>,
    changed: Condvar,
    has_signal: Box<dyn Fn() -> bool + Send + Sync>,
}

#[derive(Default)]
struct MessageQueue {
    waiting: Vec<u8>,
    is_writing: bool,
    /// Pieces that were written so far.
    pieces: u64,
    may_lose: bool,
    /// Messages that were lost and not reported yet.
    lost: u64,
}

impl Messages {
    fn start(
        out: impl Write + Send + 'static,
        has_signal: impl Fn() -> bool + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let messages = Arc::new(Self { queue, changed, has_signal: Box::new(has_signal) });
        let own = Arc::clone(&messages);
        // Nothing waits for the thread: its reader may never read.
        Builder::new().name("messages".into()).spawn(move || own.write_all(out))?;
        Ok(messages)
    }

    fn add(&self, text: &str) {
        let mut state = self.lock();
        while !state.waiting.is_empty() && state.waiting.len() + text.len() > WAITING_MAX {
            if state.may_lose || (self.has_signal)() {
                state.lost += 1;
                return;
            }
            state = self.wait(state);
        }
        state.waiting.extend_from_slice(text.as_bytes());
        self.changed.notify_all();
    }

    fn settle(&self) {
        let mut state = self.lock();
        let (mut pieces, mut since) = (state.pieces, Instant::now());
        while state.is_writing || !state.waiting.is_empty() {
            if state.pieces != pieces {
                (pieces, since) = (state.pieces, Instant::now());
            }
            if since.elapsed() > PATIENCE && (self.has_signal)() {
                return;
            }
            state = self.wait(state);
        }
    }

    /// The work of the thread.
    fn write_all(&self, mut out: impl Write) {
        loop {
            let taken = self.take();
            for piece in taken.chunks(PIECE_LEN) {
                // Nobody may be there to read it.
                let _ = out.write_all(piece);
                self.lock().pieces += 1;
            }
        }
    }

    /// Takes all that waits, and a report of those that were lost after it.
    fn take(&self) -> Vec<u8> {
        let mut state = self.lock();
        state.is_writing = false;
        self.changed.notify_all();
        while state.waiting.is_empty() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_writing = true;
        let mut taken = std::mem::take(&mut state.waiting);
        let lost = std::mem::take(&mut state.lost);
        if lost > 0 {
            let text = format!("warning: {lost} messages were lost: no reader took them\n");
            taken.extend_from_slice(text.as_bytes());
        }
        taken
    }

    fn wait<'a>(&self, state: MutexGuard<'a, MessageQueue>) -> MutexGuard<'a, MessageQueue> {
        let waited = self.changed.wait_timeout(state, LOOK_EVERY);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, MessageQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Writes once a test lets it.
    struct Slow(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Without the test it is open.
            let _ = self.0.recv();
            self.1.lock().expect("bytes").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn messages_without_room_are_counted_and_a_signal_ends_the_wait() {
        let (open, gate) = channel();
        let (written, signal) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        let out = Slow(gate, Arc::clone(&written));
        let messages = Messages::start(out, move || signal.load(Ordering::Relaxed));
        let messages = messages.expect("a thread");
        messages.lock().may_lose = true;
        messages.add("first\n");
        while !messages.lock().is_writing {
            std::thread::yield_now();
        }
        let long = "x".repeat(WAITING_MAX / 4 - 1) + "\n";
        (0..7).for_each(|_| messages.add(&long));
        let started = Instant::now();
        messages.settle();
        assert!((PATIENCE..PATIENCE * 20).contains(&started.elapsed()));
        drop(open);
        messages.settle();
        let written = String::from_utf8(written.lock().expect("bytes").clone()).expect("text");
        let report = "warning: 3 messages were lost: no reader took them\n";
        assert!(written == format!("first\n{}{report}", long.repeat(4)));
    }

    #[test]
    fn the_messages_of_a_start_wait_for_a_slow_reader() {
        let (open, gate) = channel();
        let written = Arc::default();
        let out = Slow(gate, Arc::clone(&written));
        let messages = Messages::start(out, || false).expect("a thread");
        let long = "x".repeat(WAITING_MAX / 2);
        let reader = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE / 5);
            drop(open);
        });
        (0..8).for_each(|_| messages.add(&long));
        messages.settle();
        reader.join().expect("a reader");
        assert_eq!(written.lock().expect("bytes").len(), 4 * WAITING_MAX);
    }
}
