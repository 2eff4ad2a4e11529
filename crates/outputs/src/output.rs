//! An output, its counts, and its messages for an operator.

use std::io::Write;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use warpline_io_error::plain;

use crate::queue::{Queue, WAITING_MAX};
use crate::stream::Stream;
use crate::{Destination, Format};

/// How long an output without losses counts as sound again.
const SOUND_AFTER: Duration = Duration::from_secs(2);
/// How often the end asks whether it is to wait on.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Bytes that a thread writes at once.
const PIECE_LEN: usize = 1 << 16;
/// The same of lines for a person: a reader that takes so little is slow and does not stall.
const LINES_LEN: usize = 1 << 12;
/// The time from one message about losses to the next.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// An output of whole records, from any number of threads.
pub struct Output {
    name: String,
    /// Whether its file had records of an earlier run.
    continues: bool,
    tally: Arc<Tally>,
    mode: Mode,
    losses: Mutex<LossReport>,
}

enum Mode {
    /// Written at once; set to open the file again.
    Direct(Mutex<Direct>, AtomicBool),
    /// Written by a thread.
    Queued(Arc<Queue>, Format),
}

struct Direct {
    stream: Stream,
    has_failed: bool,
    /// The failure, until it is reported.
    error: Option<String>,
}

/// The outcome of an output's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The output's name.
    pub name: String,
    /// Records that were written.
    pub written: u64,
    /// Records that were not, for lack of room or after a failure.
    pub lost: u64,
}

/// Counts that the threads of an output share.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) written: AtomicU64,
    lost: AtomicU64,
    /// Those among them that were lost while chains ended, and after.
    lost_at_end: AtomicU64,
    /// Why the last attempt to write failed.
    failure: Mutex<Option<String>>,
    /// Messages that were not given yet.
    notes: Mutex<Vec<String>>,
}

impl Tally {
    pub(crate) fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    /// The same while a chain ends.
    pub(crate) fn lose_at_end(&self, records: u64) {
        self.lose(records);
        self.lost_at_end.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn set_failure(&self, failure: Option<String>) {
        *lock(&self.failure) = failure;
    }

    pub(crate) fn note(&self, text: String) {
        let mut notes = lock(&self.notes);
        if notes.len() < 8 {
            notes.push(text);
        }
    }
}

/// The reports so far.
#[derive(Default)]
struct LossReport {
    /// Records lost when it was last looked at.
    lost: u64,
    /// When the last one was lost.
    since: Option<Instant>,
    /// When losses were reported last.
    reported_at: Option<Instant>,
    /// Whether an end of the losses is to be reported.
    is_losing: bool,
}

/// Writes records to an output, from one chain.
#[derive(Clone)]
pub struct Writer {
    output: Arc<Output>,
    end: Arc<ChainEnd>,
}

/// Whether the writers of a chain wait for a slow reader: a chain that reads captures always, one
/// that reads interfaces at its end, until some time.
#[derive(Debug, Default)]
pub struct ChainEnd {
    always: bool,
    until: OnceLock<Instant>,
}

impl ChainEnd {
    /// Of a chain that always waits if it `waits`.
    pub fn new(waits: bool) -> Self {
        Self { always: waits, until: OnceLock::new() }
    }

    /// The chain ends: its writers wait until this time.
    pub fn begin(&self, until: Instant) {
        let _ = self.until.set(until);
    }

    fn waits(&self) -> bool {
        self.always || self.until.get().is_some_and(|until| Instant::now() < *until)
    }
}

impl Output {
    /// Bytes that wait in its queue at most; as many may be on their way to the reader.
    pub const WAITING_MAX: usize = WAITING_MAX;

    /// Lines that go to `writer` at once; messages call it `name`.
    pub fn new(name: impl Into<String>, writer: Box<dyn Write + Send>) -> Self {
        Self::direct(name.into(), Stream::of_writer(writer, Format::lines()))
    }

    pub(crate) fn direct(name: String, stream: Stream) -> Self {
        let direct = Direct { stream, has_failed: false, error: None };
        let (tally, losses) = Default::default();
        let mode = Mode::Direct(Mutex::new(direct), AtomicBool::default());
        Self { name, continues: false, tally, mode, losses }
    }

    /// Lines for a person, which a thread writes to `writer`.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn of_lines(name: &str, writer: Box<dyn Write + Send>) -> Result<Self, String> {
        let stream = Stream::of_writer(writer, Format::lines());
        Self::in_pieces(name.into(), stream, Format::lines(), LINES_LEN)
    }

    pub(crate) fn queued(name: String, stream: Stream, format: Format) -> Result<Self, String> {
        Self::in_pieces(name, stream, format, PIECE_LEN)
    }

    fn in_pieces(
        name: String,
        stream: Stream,
        format: Format,
        piece_len: usize,
    ) -> Result<Self, String> {
        let (tally, losses) = Default::default();
        let continues = stream.has_records();
        let queue = Queue::start(stream, piece_len, &tally);
        let queue = queue.map_err(|why| format!("cannot spawn thread: {}", plain(&why)))?;
        Ok(Self { name, continues, tally, mode: Mode::Queued(queue, format), losses })
    }

    /// Adds records to a queue with room, or while `waits` returns true. Returns whether it did.
    pub fn offer(&self, records: &[u8], waits: &dyn Fn() -> bool) -> bool {
        match &self.mode {
            Mode::Direct(..) => false,
            Mode::Queued(queue, format) => queue.add(records, format.count(records), waits),
        }
    }

    /// Waits until a queue is written or an attempt fails. Returns false after `patience`.
    pub fn settle(&self, patience: Duration) -> bool {
        match &self.mode {
            Mode::Direct(..) => true,
            Mode::Queued(queue, _) => queue.settle(Some(patience)),
        }
    }

    fn write(&self, records: &[u8], end: &ChainEnd) {
        match &self.mode {
            Mode::Direct(direct, reopens) => {
                let mut direct = lock(direct);
                direct.reopen_if(reopens, &self.tally);
                direct.write(&self.name, &self.tally, records);
            }
            Mode::Queued(queue, format) => {
                let count = format.count(records);
                match queue.add(records, count, &|| end.waits()) {
                    true => {}
                    false if end.until.get().is_some() => self.tally.lose_at_end(count),
                    false => self.tally.lose(count),
                }
            }
        }
    }

    /// The failure that ended it, the first time that someone asks.
    fn error(&self) -> Option<String> {
        match &self.mode {
            Mode::Direct(direct, _) => lock(direct).error.take(),
            Mode::Queued(..) => None,
        }
    }

    /// Opens a file again by its name.
    pub(crate) fn reopen(&self) {
        match &self.mode {
            Mode::Queued(queue, _) => queue.reopen(),
            Mode::Direct(direct, reopens) => {
                reopens.store(true, Ordering::Relaxed);
                // A writer may wait for a reader at the moment. The next write reopens.
                if let Ok(mut direct) = direct.try_lock() {
                    direct.reopen_if(reopens, &self.tally);
                }
            }
        }
    }

    /// Waits until all records are written, at most until `ends` or until it `gives_up`, and takes
    /// no more.
    pub(crate) fn close(&self, ends: Instant, gives_up: &dyn Fn() -> bool) {
        if let Mode::Queued(queue, _) = &self.mode {
            loop {
                let left = ends.saturating_duration_since(Instant::now());
                let is_settled = queue.settle(Some(left.min(LOOK_EVERY)));
                if is_settled || left <= LOOK_EVERY || gives_up() {
                    break;
                }
            }
            queue.close();
        }
    }

    /// Its counts so far.
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (written, lost) = (of(&self.tally.written), of(&self.tally.lost));
        Counts { name: self.name.clone(), written, lost }
    }

    /// Records that were lost while chains ended, and after.
    pub(crate) fn lost_at_end(&self) -> u64 {
        self.tally.lost_at_end.load(Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Messages for an operator since the last call, which looks at the clock.
    pub(crate) fn take_messages(&self, now: Instant, report: &mut dyn FnMut(String)) {
        let name = &self.name;
        for note in lock(&self.tally.notes).drain(..) {
            report(format!("{name}: {note}"));
        }
        if matches!(self.mode, Mode::Direct(..)) {
            return;
        }
        let lost = self.tally.lost.load(Ordering::Relaxed);
        let mut losses = lock(&self.losses);
        if mem::replace(&mut losses.lost, lost) != lost {
            losses.since = Some(now);
            let is_due = losses.reported_at.is_none_or(|at| now - at >= REPORT_EVERY);
            if !losses.is_losing && is_due {
                (losses.is_losing, losses.reported_at) = (true, Some(now));
                let why = lock(&self.tally.failure).clone();
                let why = why.unwrap_or_else(|| "its reader is too slow".into());
                report(format!("{name} loses records: {why}"));
            }
        }
        let is_sound = losses.since.is_some_and(|since| now - since >= SOUND_AFTER);
        if losses.is_losing && is_sound && lock(&self.tally.failure).is_none() {
            losses.is_losing = false;
            report(format!("{name} is written again; {lost} records were lost"));
        }
    }
}

impl Direct {
    fn reopen_if(&mut self, asked: &AtomicBool, tally: &Tally) {
        if asked.load(Ordering::Relaxed)
            && asked.swap(false, Ordering::Relaxed)
            && let Err(error) = self.stream.reopen()
        {
            tally.note(format!("can't open it again: {}", plain(&error)));
        }
    }

    /// Writes `records`. After a failure nothing more is written.
    fn write(&mut self, name: &str, tally: &Tally, records: &[u8]) {
        let count = self.stream.format().count(records);
        if self.has_failed {
            tally.lose(count);
            return;
        }
        match self.stream.write(records) {
            Ok(()) => drop(tally.written.fetch_add(count, Ordering::Relaxed)),
            Err(failed) => {
                let written = self.stream.format().count(&records[..failed.written]);
                tally.written.fetch_add(written, Ordering::Relaxed);
                tally.lose(count - written);
                self.has_failed = true;
                self.error = Some(format!("can't write {name}: {}", plain(&failed.error)));
            }
        }
    }
}

impl Writer {
    /// For a chain that loses records which its reader has no room for, or one that `waits`.
    pub fn new(output: Arc<Output>, waits: bool) -> Self {
        Self::of_chain(output, Arc::new(ChainEnd::new(waits)))
    }

    /// For a chain with this end.
    pub fn of_chain(output: Arc<Output>, end: Arc<ChainEnd>) -> Self {
        Self { output, end }
    }

    /// Writes whole records. A failure is reported by [`Writer::finish`].
    pub fn write(&self, records: &[u8]) {
        self.output.write(records, &self.end);
    }

    /// This chain writes no more: waits for the rest if it does. Returns the failure that ended
    /// the output, unless it was returned before.
    pub fn finish(&self) -> Option<String> {
        if let (Mode::Queued(queue, _), true) = (&self.output.mode, self.end.always) {
            queue.settle(None);
        }
        self.output.error()
    }

    /// Whether the records follow those of an earlier run in the same file.
    pub fn continues(&self) -> bool {
        self.output.continues
    }
}

impl Destination {
    /// The error of an output that can't be opened.
    pub(crate) fn not_opened(&self, error: &std::io::Error) -> String {
        let verb = if self.path().is_some() { "create" } else { "connect to" };
        format!("can't {verb} {self}: {}", plain(error))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
