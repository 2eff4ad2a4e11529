//! All outputs of a run.

use std::fs::{File, OpenOptions};
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::descriptor::continued;
use crate::output::lock;
use crate::stream::{Stream, is_pipe};
use crate::{Counts, Destination, Format, Output};

/// Messages that wait for an operator.
const WARNINGS_MAX: usize = 64;

/// The outputs of a run, to open them, to reopen their files, and to count.
#[derive(Clone, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    is_queued: bool,
    /// How long the end waits for slow readers.
    patience: Duration,
    /// Until when the last chain that ended waits.
    ends: Mutex<Option<Instant>>,
    outputs: Mutex<Vec<Arc<Output>>>,
    /// Those of outputs that are not in the list.
    warnings: Mutex<Vec<String>>,
}

impl Registry {
    /// Of a run with network interfaces: each output has a queue and a thread.
    /// The end waits at most for `patience` for slow readers.
    pub fn queued(patience: Duration) -> Self {
        Self(Arc::new(Inner { is_queued: true, patience, ..Inner::default() }))
    }

    /// A chain ends, and its writers wait until the time that this returns.
    pub fn end_of_chain(&self) -> Instant {
        let until = Instant::now() + self.0.patience;
        *lock(&self.0.ends) = Some(until);
        until
    }

    /// Whether a thread opens `destination`, so that nothing waits for its reader.
    pub fn opens_later(&self, destination: &Destination) -> bool {
        self.0.is_queued && destination.path().is_none_or(is_pipe)
    }

    /// Whether files keep the records of an earlier run: a program that watches interfaces is
    /// started again after a failure.
    pub fn continues_files(&self) -> bool {
        self.0.is_queued
    }

    /// Opens `destination`, or takes `file`, which is its file.
    ///
    /// # Errors
    /// The file can't be created; without queues, also: there is no connection.
    pub fn open(
        &self,
        destination: Destination,
        file: Option<File>,
        format: Format,
    ) -> Result<Arc<Output>, String> {
        let name = destination.to_string();
        let stream = if self.opens_later(&destination) {
            Ok(Stream::closed(destination.clone(), format.clone()))
        } else {
            let keeps = self.continues_files() && format.can_continue();
            let file = file.map_or_else(|| create(&destination, keeps), |file| Ok(Some(file)));
            file.and_then(|file| match file {
                Some(file) => Stream::of_file(destination.clone(), file, format.clone()),
                None => {
                    let mut stream = Stream::closed(destination.clone(), format.clone());
                    stream.open().map(|()| stream)
                }
            })
        };
        let stream = stream.map_err(|error| destination.not_opened(&error))?;
        self.add(name, stream, format)
    }

    /// Adds standard output, which takes lines.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn stdout(&self) -> Result<Arc<Output>, String> {
        let format = Format::lines();
        let stream = Stream::of_writer(Box::new(std::io::stdout()), format.clone());
        self.add("standard output".into(), stream, format)
    }

    fn add(&self, name: String, stream: Stream, format: Format) -> Result<Arc<Output>, String> {
        let output = Arc::new(match self.0.is_queued {
            true => Output::queued(name, stream, format)?,
            false => Output::direct(name, stream),
        });
        lock(&self.0.outputs).push(Arc::clone(&output));
        Ok(output)
    }

    /// Opens all files again by their names.
    pub fn reopen(&self) {
        self.all().iter().for_each(|output| output.reopen());
    }

    /// Messages for an operator since the last call.
    pub fn take_messages(&self) -> Vec<String> {
        let (now, mut all) = (Instant::now(), self.take_warnings());
        self.all()
            .iter()
            .for_each(|output| output.take_messages(now, &mut |message| all.push(message)));
        all
    }

    /// Adds a message for an operator. A few are kept until they are taken.
    pub fn warn(&self, text: String) {
        let mut warnings = lock(&self.0.warnings);
        if warnings.len() < WARNINGS_MAX {
            warnings.push(text);
        }
    }

    /// The messages of [`Registry::warn`] since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        mem::take(&mut lock(&self.0.warnings))
    }

    /// The outcome of the records of each output.
    pub fn counts(&self) -> Vec<Counts> {
        self.all().iter().map(|output| output.counts()).collect()
    }

    /// Nothing more is written: waits until all records are, as long as the last chain that ended
    /// may, or until it `gives_up`. Returns the outputs that lost records at the end, and how many.
    pub fn close(&self, gives_up: impl Fn() -> bool) -> Vec<(String, u64)> {
        let ends = lock(&self.0.ends).unwrap_or_else(|| Instant::now() + self.0.patience);
        let all = self.all();
        for output in &all {
            output.close(ends, &gives_up);
        }
        let lost = |output: &Arc<Output>| (output.name().to_owned(), output.lost_at_end());
        all.iter().map(lost).filter(|(_, lost)| *lost > 0).collect()
    }

    fn all(&self) -> Vec<Arc<Output>> {
        lock(&self.0.outputs).clone()
    }
}

/// Creates the file of a destination that is one. It is empty, unless it `keeps` its content or is
/// open already.
fn create(destination: &Destination, keeps: bool) -> std::io::Result<Option<File>> {
    let Some(path) = destination.path() else { return Ok(None) };
    if let Some(file) = continued(path) {
        return file.map(Some);
    }
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    let found = file.metadata()?;
    // Closing an ext4 file that was cut, even an empty one, starts to write all of it to the disk.
    if !keeps && found.is_file() && found.len() > 0 {
        file.set_len(0)?;
    }
    Ok(Some(file))
}
