//! Messages on standard error. During a run a thread writes them, so that nothing waits for a
//! reader that reads no more. Messages of a running chain may be lost then, and are counted. Those
//! of the start and the end wait for their reader until a signal comes.
//!
//! A terminal gets them directly, between two pictures of the progress bar.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use warpline_nf::Output;

use crate::paint;
use crate::watch::Stops;

/// How long the end waits after a signal while the reader reads nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

static RUN: OnceLock<Option<Messages>> = OnceLock::new();

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
        run.may_lose.store(may_lose, Ordering::Relaxed);
    }
}

/// Writes a message, with colours on a terminal.
pub(crate) fn write(text: &str) {
    let painted = paint::is_wanted().then(|| paint::messages(text));
    let text = painted.as_deref().unwrap_or(text);
    match RUN.get() {
        Some(Some(run)) => run.add(text),
        // The reader may have left.
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
    output: Output,
    has_signal: Box<dyn Fn() -> bool + Send + Sync>,
    may_lose: AtomicBool,
    /// Messages that were lost and not reported yet.
    lost: Mutex<u64>,
}

impl Messages {
    fn start(
        out: impl Write + Send + 'static,
        has_signal: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let output = Output::of_lines("standard error", Box::new(out))?;
        let (may_lose, lost) = Default::default();
        Ok(Self { output, has_signal: Box::new(has_signal), may_lose, lost })
    }

    fn add(&self, text: &str) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        self.report(&mut lost);
        let waits = || !self.may_lose.load(Ordering::Relaxed) && !(self.has_signal)();
        if !self.output.offer(text.as_bytes(), &waits) {
            *lost += 1;
        }
    }

    /// Reports messages that were lost, if there is room for that. Returns whether it did.
    fn report(&self, lost: &mut u64) -> bool {
        let text = || format!("warning: {lost} messages were lost: no reader took them\n");
        let reports = *lost > 0 && self.output.offer(text().as_bytes(), &|| false);
        *lost = if reports { 0 } else { *lost };
        reports
    }

    fn settle(&self) {
        let (mut written, mut since) = (0, Instant::now());
        loop {
            let now = self.output.counts().written;
            if now != written {
                (written, since) = (now, Instant::now());
            }
            let is_stalled = since.elapsed() > PATIENCE && (self.has_signal)();
            if self.output.settle(LOOK_EVERY) || is_stalled {
                break;
            }
        }
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if self.report(&mut lost) {
            self.output.settle(PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Writes once a test lets it.
    struct Slow(Receiver<()>, Arc<Mutex<(bool, Vec<u8>)>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.lock().expect("bytes").0 = true;
            // Without the test it is open.
            let _ = self.0.recv();
            self.1.lock().expect("bytes").1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn messages_without_room_are_counted_and_a_signal_ends_the_wait() {
        let (open, gate) = channel();
        let (written, signal) = (Arc::<Mutex<_>>::default(), Arc::new(AtomicBool::new(true)));
        let out = Slow(gate, Arc::clone(&written));
        let messages = Messages::start(out, move || signal.load(Ordering::Relaxed));
        let messages = messages.expect("a thread");
        messages.may_lose.store(true, Ordering::Relaxed);
        messages.add("first\n");
        while !written.lock().expect("bytes").0 {
            std::thread::yield_now();
        }
        let long = "x".repeat(Output::WAITING_MAX / 4 - 1) + "\n";
        (0..7).for_each(|_| messages.add(&long));
        let started = Instant::now();
        messages.settle();
        assert!((PATIENCE..PATIENCE * 20).contains(&started.elapsed()));
        drop(open);
        messages.settle();
        let written = String::from_utf8(written.lock().expect("bytes").1.clone()).expect("text");
        let report = "warning: 3 messages were lost: no reader took them\n";
        assert!(written == format!("first\n{}{report}", long.repeat(4)));
    }

    /// They are whole texts; the last one has no line's end.
    #[test]
    fn the_messages_of_a_start_wait_for_a_slow_reader() {
        let (open, gate) = channel();
        let written = Arc::default();
        let out = Slow(gate, Arc::clone(&written));
        let messages = Messages::start(out, || false).expect("a thread");
        let long = "x".repeat(Output::WAITING_MAX / 2);
        let reader = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE / 5);
            drop(open);
        });
        (0..8).for_each(|_| messages.add(&long));
        messages.settle();
        reader.join().expect("a reader");
        assert_eq!(written.lock().expect("bytes").1.len(), 4 * Output::WAITING_MAX);
    }
}
