//! Tests of the whole function, against a naive meter and an IPFIX reader of their own.

mod cases;
mod export;
mod model;
mod peers;
mod random;
mod reader;
mod traffic;
mod uniflow;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use warpline_packet::{Instant, Verdict};

use super::DEFINITION;
use super::record::FlowRecord;
use traffic::Sent;
use warpline_nf::{Outputs, Registry, Report, Table};
use warpline_verify::{Harness, Input, build, try_build};

const SECOND: u64 = 1_000_000_000;

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "warpline-flows-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A monitor with its report open.
struct Monitor {
    harness: Harness,
    report: Box<dyn Report>,
}

impl Monitor {
    fn new(table: &str, folder: &Path) -> Self {
        Self::with_outputs(table, folder, &Outputs::default())
    }

    fn with_outputs(table: &str, folder: &Path, outputs: &Outputs) -> Self {
        let (function, words) = build(&DEFINITION, table, folder);
        let report = function.report(outputs).unwrap().unwrap();
        Self { harness: Harness::new(function, words), report }
    }

    /// Meters packets in batches of `batch`. Each packet must be forwarded unchanged.
    fn send(&mut self, packets: &[Sent], batch: usize) {
        for packets in packets.chunks(batch) {
            let inputs: Vec<Input> = packets.iter().map(Sent::input).collect();
            let outcomes = self.harness.process(&inputs);
            assert_eq!(outcomes.len(), inputs.len());
            for (outcome, input) in outcomes.iter().zip(&inputs) {
                assert_eq!((outcome.verdict, &outcome.bytes), (Verdict::Forward, &input.bytes));
            }
        }
    }

    fn tick(&mut self, nanos: u64) {
        assert!(self.harness.tick(Instant::from_nanos(nanos)).is_empty());
    }

    /// The records that ended since this was last asked; the report gets them too.
    fn ended(&mut self) -> Vec<FlowRecord> {
        let notes = self.harness.take_notes();
        notes.iter().for_each(|note| self.report.note(note));
        notes.iter().map(|note| FlowRecord::decode(note).unwrap()).collect()
    }

    fn close(&mut self) -> Result<(), String> {
        self.harness.close(&mut *self.report)
    }

    fn counter(&self, name: &str) -> u64 {
        let mut value = self.harness.counter(name);
        self.report.counters(&mut |own, count| value += if own == name { count } else { 0 });
        value
    }

    fn table(&self, name: &str) -> Table {
        self.report.tables().into_iter().find(|table| table.name == name).unwrap()
    }
}

fn mistakes(table: &str) -> Vec<String> {
    let Err(mistakes) = try_build(&DEFINITION, table, Path::new(".")) else { return Vec::new() };
    mistakes.iter().map(|mistake| mistake.message.clone()).collect()
}
