//! The outputs of reports, and buffers before them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpline_outputs::{ChainEnd, Destination, Format, Output, Registry, Writer};

/// The outputs of a run's reports.
#[derive(Clone, Default)]
pub struct Outputs {
    registry: Registry,
    /// Takes alerts, one JSON object a line.
    alerts: Option<Arc<Output>>,
    /// The same for the functions of one chain.
    of_chain: Option<SharedRecords>,
    /// Whether the chain's packets come from an interface.
    is_live: bool,
    /// When and how long writers wait.
    end: Arc<ChainEnd>,
    /// Whether functions write nothing else.
    are_alerts_only: bool,
}

impl Outputs {
    /// Outputs of a run whose alerts go to `alerts`, and which opens others in `registry`.
    pub fn of_run(alerts: Option<Arc<Output>>, registry: Registry) -> Self {
        Self { registry, alerts, ..Self::default() }
    }

    /// The same with alerts alone: what functions write elsewhere is discarded.
    #[must_use]
    pub fn alerts_only(self) -> Self {
        Self { are_alerts_only: true, ..self }
    }

    /// Whether records that are no alerts are discarded, so that their reports are not needed.
    pub fn are_alerts_only(&self) -> bool {
        self.are_alerts_only
    }

    /// Outputs of one of its chains, whose functions write in turns. A live chain never waits for
    /// a reader.
    #[must_use]
    pub fn of_chain(&self, is_live: bool) -> Self {
        let end = Arc::new(ChainEnd::new(!is_live));
        let writer = |alerts| Writer::of_chain(alerts, Arc::clone(&end));
        let of_chain = self.alerts.clone().map(writer).map(SharedRecords::new);
        Self { of_chain, is_live, end, ..self.clone() }
    }

    /// The chain ends: what it still has to write may wait for readers, for a bounded time.
    pub fn end_of_chain(&self) {
        self.end.begin(self.registry.end_of_chain());
    }

    /// Takes alerts, in the order in which the functions of the chain add them.
    pub fn alerts(&self) -> Option<SharedRecords> {
        let own = || Some(Writer::of_chain(self.alerts.clone()?, Arc::clone(&self.end)));
        self.of_chain.clone().or_else(|| own().map(SharedRecords::new))
    }

    /// Whether the chain's packets come from an interface, so that no report may wait.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// All outputs of the run.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Tells the operator about an output that the function opened itself.
    pub fn warn(&self, text: String) {
        self.registry.warn(text);
    }

    /// Opens an output of the chain, for records of this `format`.
    ///
    /// # Errors
    /// Why it can't be opened.
    pub fn open(&self, destination: &Destination, format: Format) -> Result<Writer, String> {
        let nowhere = || Destination::File("/dev/null".into());
        let destination = if self.are_alerts_only { nowhere() } else { destination.clone() };
        let output = self.registry.open(destination, None, format)?;
        Ok(Writer::of_chain(output, Arc::clone(&self.end)))
    }
}

/// A buffer of records that several functions of one thread add to by turns, so that their order
/// is that of the turns.
#[derive(Clone)]
pub struct SharedRecords(Arc<Mutex<RecordBuffer>>);

impl SharedRecords {
    /// None yet, on their way to `to`.
    pub fn new(to: Writer) -> Self {
        Self(Arc::new(Mutex::new(RecordBuffer::new(to))))
    }

    /// See [`RecordBuffer::add`].
    pub fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.buffer().add(write);
    }

    /// See [`RecordBuffer::flush`].
    pub fn flush(&self) {
        self.buffer().flush();
    }

    /// See [`RecordBuffer::finish`].
    pub fn finish(&self) -> Option<String> {
        self.buffer().finish()
    }

    fn buffer(&self) -> MutexGuard<'_, RecordBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records on their way to an output, many at once.
pub struct RecordBuffer {
    records: Vec<u8>,
    to: Writer,
}

impl RecordBuffer {
    /// Bytes that are gathered before they are written.
    const LEN: usize = 1 << 16;

    /// Nothing yet, on its way to `to`.
    pub fn new(to: Writer) -> Self {
        // The last records may exceed the length.
        Self { records: Vec::with_capacity(2 * Self::LEN), to }
    }

    /// Adds the whole records that `write` appends.
    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.records);
        if self.records.len() >= Self::LEN {
            self.flush();
        }
    }

    /// Writes the records so far.
    pub fn flush(&mut self) {
        if !self.records.is_empty() {
            self.to.write(&self.records);
            self.records.clear();
        }
    }

    /// Writes the last records. Returns why the output failed, unless another writer did.
    pub fn finish(&mut self) -> Option<String> {
        self.flush();
        self.to.finish()
    }

    /// See [`Writer::continues`].
    pub fn continues(&self) -> bool {
        self.to.continues()
    }
}
