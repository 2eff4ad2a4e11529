//! A capture whose reader may come late, stall or leave. A thread writes it, so it delays no
//! packets: those without room are refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant as Clock};

use warpline_io_error::plain;

use super::chunk::{Chunk, Record};
use super::trouble::Trouble;
use super::{CaptureFile, PcapWriter};
use crate::port::{FRAME_LEN_MAX, Frame, InterfaceNames, Sink, SinkError, Unwritten};
use crate::sys::{set_waiting, wait_for_pipe};

/// Bytes of frames that wait at most, with their records.
const WAITING_MAX: usize = 4 << 20;
/// Bytes of frames that are queued at once.
const BATCH_LEN: usize = FRAME_LEN_MAX;
/// How long after a failure writing is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long the end waits for the reader.
const END_WITHIN: Duration = Duration::from_secs(1);
/// A reader that was too slow is reported to follow again after this time.
const SLOW_FOR: Duration = Duration::from_secs(1);

const CANNOT_WRITE: &str = "the capture can't be written at the moment";
const SLOW: &str = "the reader of the capture is too slow";

/// Opens the pipe or device at `path` for writing without waiting. Returns none for a pipe without
/// a reader.
///
/// # Errors
/// The operating system's.
pub fn open_pipe(path: &Path) -> io::Result<Option<File>> {
    // Standard output may be a file, named again after a failure: its records stay.
    match OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Where the capture goes.
pub enum Destination {
    /// A pipe or device at this path, opened before if it had a reader. It is opened again when its
    /// reader is back.
    Path(PathBuf, Option<File>),
    /// Standard output, which has one reader.
    Stdout,
}

/// A capture that a thread writes.
pub struct Queued {
    /// Frames that are not queued yet.
    batch: Chunk,
    /// Disconnected by the end of the thread.
    thread: Receiver<()>,
    shared: Arc<Shared>,
    annotates: bool,
    /// When a frame found no room.
    slow: Option<Clock>,
    trouble: Trouble,
}

struct Shared {
    /// Gets a byte when the queue is no longer empty, or has ended.
    bell: UnixStream,
    /// Whether nothing can be written.
    is_failing: AtomicBool,
    /// Bytes that wait, with their records.
    waiting_len: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Frames that the thread does not have yet.
    chunk: Chunk,
    /// No more frames come.
    has_ended: bool,
    /// Why nothing can be written.
    failure: Option<String>,
    /// Frames that are queued and not written.
    waiting: Unwritten,
    lost: Unwritten,
    /// Whether all that waits counts as lost.
    is_over: bool,
}

impl Shared {
    /// The second one gets the bytes of the bell.
    fn new() -> io::Result<(Self, UnixStream)> {
        let (bell, rung) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rung.set_nonblocking(true)?;
        let shared = Self {
            bell,
            is_failing: AtomicBool::default(),
            waiting_len: AtomicUsize::default(),
            queue: Mutex::default(),
        };
        Ok((shared, rung))
    }

    /// Wakes the thread. A bell without room has woken it already.
    fn ring(&self) {
        let _ = (&self.bell).write(&[0]);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, len: usize) -> bool {
        self.waiting_len.load(Ordering::Relaxed) + len <= WAITING_MAX
    }

    /// Queues the frames of `batch`.
    fn append(&self, batch: &mut Chunk) {
        self.waiting_len.fetch_add(batch.len(), Ordering::Relaxed);
        let mut queue = self.queue();
        let is_first = queue.chunk.is_empty();
        batch.count(0, &mut queue.waiting);
        queue.chunk.append(batch);
        drop(queue);
        if is_first {
            self.ring();
        }
    }

    /// Moves all frames into `chunk`, which is empty. Returns whether these are the last ones.
    fn take(&self, chunk: &mut Chunk) -> bool {
        let mut queue = self.queue();
        mem::swap(&mut queue.chunk, chunk);
        queue.has_ended
    }

    fn end(&self) {
        self.queue().has_ended = true;
        self.ring();
    }

    fn set_failure(&self, failure: Option<String>) {
        self.is_failing.store(failure.is_some(), Ordering::Relaxed);
        self.queue().failure = failure;
    }
}

impl Queued {
    /// Starts the thread. The capture is called `name` in messages.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(
        name: String,
        destination: Destination,
        how: CaptureFile,
        (names, annotates): (InterfaceNames, bool),
    ) -> io::Result<Self> {
        let (ended, thread) = sync_channel(0);
        let (shared, rung) = Shared::new()?;
        let shared = Arc::new(shared);
        if matches!(destination, Destination::Path(_, None)) {
            shared.set_failure(Some(NO_READER.into()));
        }
        let own = Arc::clone(&shared);
        let form = (names, annotates);
        let worker = move || {
            let _ended: SyncSender<()> = ended;
            let tried = Clock::now();
            let mut worker =
                Worker { destination, how, form, sink: None, pipe: None, tried, rung, shared: own };
            worker.run();
        };
        thread::Builder::new().name("capture".into()).spawn(worker)?;
        let (batch, trouble) = (Chunk::default(), Trouble::of(name));
        Ok(Self { batch, thread, shared, annotates, slow: None, trouble })
    }

    fn push(&mut self, frame: &Frame<'_>, why: Option<&str>) -> Result<(), SinkError> {
        if self.shared.is_failing.load(Ordering::Relaxed) {
            return Err(SinkError::Unsuitable(CANNOT_WRITE));
        }
        let len = frame.bytes.len() + why.map_or(0, str::len) + size_of::<Record>();
        if !self.shared.has_room(self.batch.len() + len) {
            self.slow = Some(Clock::now());
            return Err(SinkError::Unsuitable(SLOW));
        }
        self.batch.push(frame, why);
        if self.batch.len() >= BATCH_LEN {
            self.shared.append(&mut self.batch);
        }
        Ok(())
    }
}

impl Sink for Queued {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.push(frame, None)
    }

    fn wants_dropped(&self) -> bool {
        self.annotates
    }

    fn dropped(&mut self, frame: &Frame<'_>, why: &str) -> Result<(), SinkError> {
        if self.annotates { self.push(frame, Some(why)) } else { Ok(()) }
    }

    fn unwritten(&self) -> Unwritten {
        self.shared.queue().lost.clone()
    }

    fn events(&mut self, report: &mut dyn FnMut(String)) {
        let is_slow = self.slow.is_some_and(|last| last.elapsed() < SLOW_FOR);
        if self.shared.is_failing.load(Ordering::Relaxed) {
            self.trouble.report(self.shared.queue().failure.as_deref(), report);
        } else {
            self.trouble.report(is_slow.then_some("its reader is too slow"), report);
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if !self.batch.is_empty() {
            self.shared.append(&mut self.batch);
        }
        Ok(())
    }

    /// Waits for the reader, not for long.
    fn close(&mut self) -> Result<(), SinkError> {
        self.flush()?;
        self.shared.end();
        let _ = self.thread.recv_timeout(END_WITHIN);
        let mut queue = self.shared.queue();
        let queue = &mut *queue;
        queue.is_over = true;
        queue.lost.merge(&mem::take(&mut queue.waiting));
        Ok(())
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.shared.end();
    }
}

const NO_READER: &str = "it has no reader";

/// The thread.
struct Worker {
    destination: Destination,
    how: CaptureFile,
    form: (InterfaceNames, bool),
    /// None while nothing can be written.
    sink: Option<Box<dyn Sink>>,
    /// The pipe or device that it writes to.
    pipe: Option<File>,
    /// When it was last tried to open it.
    tried: Clock,
    rung: UnixStream,
    shared: Arc<Shared>,
}

impl Worker {
    fn run(&mut self) {
        self.open();
        let (mut chunk, mut is_last) = (Chunk::default(), false);
        while !is_last {
            // A new reader needs the head of a capture.
            if self.wait() {
                self.fail(&SinkError::Closed);
            }
            is_last = self.shared.take(&mut chunk);
            self.write(&chunk);
            chunk.clear();
            if self.may_open() && self.tried.elapsed() >= RETRY_AFTER {
                self.open();
            }
        }
        if let Some(Err(error)) = self.sink.as_mut().map(|sink| sink.close()) {
            self.fail(&error);
        }
    }

    /// Waits for frames, the end, a reader that leaves, or the time to open the pipe again. Returns
    /// whether the reader has left.
    fn wait(&mut self) -> bool {
        // Rounded up, since the system waits for whole milliseconds.
        let limit = match self.may_open() {
            true => RETRY_AFTER.saturating_sub(self.tried.elapsed()) + Duration::from_millis(1),
            false => RETRY_AFTER,
        };
        let has_left = wait_for_pipe(&self.rung, self.pipe.as_ref(), limit);
        while self.rung.read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
        has_left
    }

    /// A reader of standard output that left does not come back.
    fn may_open(&self) -> bool {
        self.sink.is_none() && !matches!(self.destination, Destination::Stdout)
    }

    fn open(&mut self) {
        self.tried = Clock::now();
        match self.writer() {
            Ok(sink) => {
                self.sink = Some(sink);
                self.shared.set_failure(None);
            }
            // How its reader was lost is reported already.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
            Err(error) => self.shared.set_failure(Some(plain(&error))),
        }
    }

    fn writer(&mut self) -> io::Result<Box<dyn Sink>> {
        let Destination::Path(path, opened) = &mut self.destination else {
            return Ok(Box::new(PcapWriter::stdout()));
        };
        let pipe = match opened.take() {
            Some(file) => file,
            None => open_pipe(path)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ENXIO))?,
        };
        set_waiting(&pipe)?;
        self.pipe = Some(pipe.try_clone()?);
        let (names, annotates) = self.form.clone();
        Ok(self.how.writer(pipe, names, annotates))
    }

    fn write(&mut self, chunk: &Chunk) {
        if chunk.is_empty() {
            return;
        }
        let (mut lost, mut left) = (Unwritten::default(), chunk.len());
        let waiting_len = &self.shared.waiting_len;
        let mut wrote = |record: &Record| {
            left -= record.memory();
            waiting_len.fetch_sub(record.memory(), Ordering::Relaxed);
        };
        let outcome = match &mut self.sink {
            Some(sink) => chunk.write(&mut **sink, &mut lost, &mut wrote),
            None => {
                chunk.count(0, &mut lost);
                Ok(())
            }
        };
        waiting_len.fetch_sub(left, Ordering::Relaxed);
        let mut queue = self.shared.queue();
        if !queue.is_over {
            let mut written = Unwritten::default();
            chunk.count(0, &mut written);
            queue.waiting.subtract(&written);
            queue.lost.merge(&lost);
        }
        drop(queue);
        if let Err(error) = outcome {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &SinkError) {
        let Some(sink) = self.sink.take() else { return };
        self.pipe = None;
        let why = match error {
            SinkError::Closed => "its reader left".into(),
            SinkError::Io(error) => plain(error),
            other => other.to_string(),
        };
        let mut queue = self.shared.queue();
        if !queue.is_over {
            queue.lost.merge(&sink.unwritten());
        }
        drop(queue);
        self.tried = Clock::now();
        self.shared.set_failure(Some(why));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::process::Command;

    use warpline_packet::{Instant, LinkType};

    use super::*;
    use crate::CaptureReader;
    use crate::port::{Next, Source};

    const LEN: usize = 1000;

    /// A named pipe of this test, which ends with it.
    struct Pipe(PathBuf);

    impl Pipe {
        fn new(name: &str) -> Self {
            let name = format!("warpline-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_file(&path);
            assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
            Self(path)
        }

        fn queued(&self) -> Queued {
            let opened = open_pipe(&self.0).expect("a pipe");
            let how = CaptureFile::of_name(Path::new("a.pcapng")).expect("a name");
            let to = Destination::Path(self.0.clone(), opened);
            Queued::start("pipe".into(), to, how, (InterfaceNames::default(), true)).expect("one")
        }

        /// A reader, opened without waiting for a writer.
        fn reader(&self) -> File {
            let mut how = OpenOptions::new();
            how.read(true).custom_flags(libc::O_NONBLOCK).open(&self.0).expect("a reader")
        }
    }

    impl Drop for Pipe {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    /// Frame `number`, which leaves by port 3.
    fn send(sink: &mut Queued, number: u32) -> bool {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        let (timestamp, link) = (Instant::from_nanos(number.into()), LinkType::ETHERNET);
        let wire_len = LEN as u32;
        sink.send(&Frame { bytes: &bytes, timestamp, wire_len, link, interface: 3 }).is_ok()
    }

    fn numbers(capture: &[u8]) -> Vec<u32> {
        let input = Box::new(io::Cursor::new(capture.to_vec()));
        let mut reader = CaptureReader::new(input, None).expect("a capture");
        let mut all = Vec::new();
        while let Next::Frame(frame) = reader.next().expect("whole records") {
            all.push(u32::from_be_bytes(*frame.bytes.first_chunk().expect("a number")));
        }
        assert_eq!(reader.warnings(), Vec::<String>::new());
        all
    }

    /// Frames of a capture whose end may be missing.
    fn whole_frames(capture: &[u8]) -> usize {
        let input = Box::new(io::Cursor::new(capture.to_vec()));
        let mut reader = CaptureReader::new(input, None).expect("a capture");
        let mut count = 0;
        while let Ok(Next::Frame(_)) = reader.next() {
            count += 1;
        }
        count
    }

    fn soon(mut is_so: impl FnMut() -> bool) {
        let end = Clock::now() + Duration::from_secs(10);
        while !is_so() {
            assert!(Clock::now() < end, "not in time");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reads until the writer closes the pipe.
    fn read_all(mut file: File) -> Vec<u8> {
        let (mut all, mut part) = (Vec::new(), [0; 1 << 16]);
        loop {
            match file.read(&mut part) {
                Ok(0) => return all,
                Ok(len) => all.extend_from_slice(&part[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_stalled_reader_gets_whole_frames_and_the_others_are_counted() {
        let pipe = Pipe::new("stalled");
        let reader = pipe.reader();
        let mut sink = pipe.queued();
        let mut taken = 0;
        for number in 0..20_000 {
            taken += u64::from(send(&mut sink, number));
        }
        assert!((4_000..6_000).contains(&taken), "{taken} frames of 4 MiB and a pipe");
        let mut events = Vec::new();
        sink.events(&mut |event| events.push(event));
        sink.events(&mut |event| events.push(event));
        assert_eq!(events, ["pipe loses packets: its reader is too slow"]);
        let reading = thread::spawn(move || read_all(reader));
        soon(|| send(&mut sink, 30_000));
        sink.close().expect("a close");
        assert_eq!(sink.unwritten().frames(), 0);
        let read = numbers(&reading.join().expect("a reader"));
        assert_eq!(read.len() as u64, taken + 1);
        assert!(read.is_sorted() && read.last() == Some(&30_000), "in order");
    }

    #[test]
    fn frames_wait_by_their_bytes_and_leave_without_later_ones() {
        let pipe = Pipe::new("flushed");
        let mut reader = pipe.reader();
        let mut sink = pipe.queued();
        let mut taken = 0;
        for number in 0..6_000 {
            taken += usize::from(send(&mut sink, number));
            sink.flush().expect("a flush");
        }
        assert!((4_000..6_000).contains(&taken), "{taken} frames of 4 MiB and a pipe");
        let (mut part, mut all) = (vec![0; 1 << 16], Vec::new());
        soon(|| {
            let len = reader.read(&mut part).unwrap_or(0);
            all.extend_from_slice(&part[..len]);
            all.len() > taken * LEN && whole_frames(&all) == taken
        });
    }

    #[test]
    fn a_reader_may_come_late_leave_and_come_back() {
        let pipe = Pipe::new("leaves");
        let mut sink = pipe.queued();
        assert!(!send(&mut sink, 1), "no reader yet");
        let mut events = Vec::new();
        sink.events(&mut |event| events.push(event));
        let (mut taken, mut read) = (0, Vec::new());
        for round in 0..2 {
            let mut reader = pipe.reader();
            soon(|| send(&mut sink, 10 + round));
            sink.events(&mut |event| events.push(event));
            sink.flush().expect("a flush");
            let (mut part, mut all) = (vec![0; 1 << 16], Vec::new());
            soon(|| {
                let len = reader.read(&mut part).unwrap_or(0);
                all.extend_from_slice(&part[..len]);
                all.len() > LEN
            });
            taken += 1;
            read.extend(numbers(&all));
            // It is written after the reader left.
            taken += u64::from(send(&mut sink, 100));
            drop(reader);
            soon(|| {
                let is_taken = send(&mut sink, 100);
                taken += u64::from(is_taken);
                sink.flush().expect("a flush");
                !is_taken
            });
            sink.events(&mut |event| events.push(event));
        }
        // It is tried to open the pipe meanwhile.
        thread::sleep(RETRY_AFTER + RETRY_AFTER / 5);
        sink.events(&mut |event| events.push(event));
        sink.close().expect("a close");
        assert_eq!(read, [10, 11]);
        let lost: Vec<_> = sink.unwritten().by_port().filter(|lost| lost.1.frames > 0).collect();
        let [(3, lost)] = lost[..] else { panic!("{lost:?}") };
        assert_eq!((lost.frames, lost.bytes), (taken - 2, (taken - 2) * LEN as u64));
        let (lost, works) = ("pipe loses packets: its reader left", "pipe is written again");
        assert_eq!(events, ["pipe loses packets: it has no reader", works, lost, works, lost]);
    }

    /// A capture begins with its head, even if nothing was sent between two readers.
    #[test]
    fn each_reader_gets_a_capture_of_its_own() {
        let pipe = Pipe::new("own");
        let mut sink = pipe.queued();
        for number in 0..3 {
            let mut reader = pipe.reader();
            soon(|| send(&mut sink, number));
            sink.flush().expect("a flush");
            let (mut part, mut all) = (vec![0; 1 << 16], Vec::new());
            soon(|| {
                let len = reader.read(&mut part).unwrap_or(0);
                all.extend_from_slice(&part[..len]);
                all.len() > LEN
            });
            assert_eq!(numbers(&all), [number]);
            drop(reader);
            thread::sleep(RETRY_AFTER / 10);
        }
    }

    #[test]
    fn the_end_does_not_wait_for_a_reader_that_stalls() {
        let pipe = Pipe::new("end");
        let _reader = pipe.reader();
        let mut sink = pipe.queued();
        let taken: u64 = (0..3_000).map(|number| u64::from(send(&mut sink, number))).sum();
        let start = Clock::now();
        sink.close().expect("a close");
        assert!(start.elapsed() < 20 * END_WITHIN);
        let lost = sink.unwritten().frames();
        assert!(lost > 2_000 && lost <= taken, "{lost} of {taken}");
    }
}
