//! What a run writes besides packets, by all of its chains together.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpline_io_error::plain;

/// What the reports of a run's functions write to together.
#[derive(Clone, Default)]
pub struct Outputs {
    /// Takes alerts, one JSON object a line, where somebody asked for them.
    alerts: Option<Arc<Lines>>,
    /// The same for the functions of one chain.
    of_chain: Option<SharedLines>,
}

impl Outputs {
    /// Of a run whose alerts go to `alerts`.
    pub fn of_run(alerts: Option<Arc<Lines>>) -> Self {
        Self { alerts, of_chain: None }
    }

    /// Of one of its chains, whose functions write in turns.
    #[must_use]
    pub fn of_chain(&self) -> Self {
        Self { of_chain: self.alerts.clone().map(SharedLines::new), ..self.clone() }
    }

    /// Takes alerts, in the order in which the functions of the chain add them.
    pub fn alerts(&self) -> Option<SharedLines> {
        self.of_chain.clone().or_else(|| self.alerts.clone().map(SharedLines::new))
    }
}

/// A buffer of lines that several writers of one thread add to by turns, so that their order is
/// that of the turns.
#[derive(Clone)]
pub struct SharedLines(Arc<Mutex<LineBuffer>>);

impl SharedLines {
    /// None yet, on their way to `to`.
    pub fn new(to: Arc<Lines>) -> Self {
        Self(Arc::new(Mutex::new(LineBuffer::new(to))))
    }

    /// See [`LineBuffer::add`].
    pub fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.buffer().add(write);
    }

    /// See [`LineBuffer::flush`].
    pub fn flush(&self) {
        self.buffer().flush();
    }

    /// See [`LineBuffer::finish`].
    pub fn finish(&self) -> Option<String> {
        self.buffer().finish()
    }

    fn buffer(&self) -> MutexGuard<'_, LineBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes lines, whole ones, from several writers. After a failure it takes no more.
pub struct Lines {
    name: String,
    state: Mutex<State>,
}

struct State {
    writer: Box<dyn Write + Send>,
    failed: bool,
    /// What was not told yet.
    error: Option<String>,
}

impl Lines {
    /// Lines that go to `writer`, unbuffered; messages call it `name`.
    pub fn new(name: impl Into<String>, writer: Box<dyn Write + Send>) -> Self {
        let state = State { writer, failed: false, error: None };
        Self { name: name.into(), state: Mutex::new(state) }
    }

    /// Lines that go to a new file at `path`. The error says why there is none.
    pub fn create(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let file = File::create(path)
            .map_err(|error| format!("can't create {name}: {}", plain(&error)))?;
        Ok(Self::new(name, Box::new(file)))
    }

    /// Writes `lines`, which end in a line end, and hands them on. A failure is told by [`Lines::error`].
    pub fn write(&self, lines: &[u8]) {
        let mut state = self.state();
        if state.failed {
            return;
        }
        let State { writer, .. } = &mut *state;
        if let Err(error) = writer.write_all(lines).and_then(|()| writer.flush()) {
            state.failed = true;
            state.error = Some(format!("can't write {}: {}", self.name, plain(&error)));
        }
    }

    /// What went wrong, where something did; told once, whoever asks.
    pub fn error(&self) -> Option<String> {
        self.state().error.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines of one writer on their way to [`Lines`], many at once.
pub struct LineBuffer {
    lines: Vec<u8>,
    to: Arc<Lines>,
}

impl LineBuffer {
    /// Bytes that are gathered before they are handed on.
    const LEN: usize = 1 << 16;

    /// Nothing yet, on its way to `to`.
    pub fn new(to: Arc<Lines>) -> Self {
        Self { lines: Vec::with_capacity(Self::LEN), to }
    }

    /// Adds the lines that `write` appends.
    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.lines);
        if self.lines.len() >= Self::LEN {
            self.flush();
        }
    }

    /// Hands on what there is.
    pub fn flush(&mut self) {
        if !self.lines.is_empty() {
            self.to.write(&self.lines);
            self.lines.clear();
        }
    }

    /// Hands on what there is, and says what went wrong, unless somebody was told.
    pub fn finish(&mut self) -> Option<String> {
        self.flush();
        self.to.error()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use super::*;

    /// Takes so many bytes and then no more.
    struct Disk {
        room: usize,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut taken = self.taken.lock().unwrap();
            if taken.len() + bytes.len() > self.room {
                return Err(ErrorKind::StorageFull.into());
            }
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_two_writers_stay_whole_and_a_failure_is_told_once() {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let disk = Disk { room: 200_000, taken: Arc::clone(&taken) };
        let lines = Arc::new(Lines::new("disk", Box::new(disk)));
        let mut writers = [b'a', b'b'].map(|letter| (letter, LineBuffer::new(Arc::clone(&lines))));
        for _ in 0..3000 {
            for (letter, writer) in &mut writers {
                writer.add(|to| {
                    to.extend_from_slice(&[*letter; 49]);
                    to.push(b'\n');
                });
            }
        }
        let errors = writers.each_mut().map(|(_, writer)| writer.finish());
        assert!(errors[0].as_ref().is_some_and(|why| why.starts_with("can't write disk: ")));
        assert_eq!(errors[1], None);
        let taken = taken.lock().unwrap();
        // Two writers, each twice a full buffer; the rest found no room.
        assert!(taken.len() > 3 * LineBuffer::LEN && taken.len() <= 200_000);
        let whole = |line: &[u8]| line.len() == 49 && line.iter().all(|byte| *byte == line[0]);
        assert!(taken.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n').all(whole));
    }
}
