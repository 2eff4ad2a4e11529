//! A function's report, which covers all of its flows and packets, after the lanes.
//!
//! State is divided by shard, so decisions that depend on all of it are made where the lanes'
//! output comes together. A [`Report`] gets the notes that the function's halves made
//! ([`crate::Emit::note`]), in the order of the input whatever the number of lanes. It runs on the
//! sending thread and may do I/O.

/// Takes a function's notes.
pub trait Report: Send {
    /// A note of `before` or `after`, or of [`crate::StateHalf::close`].
    fn note(&mut self, note: &[u8]);

    /// The same with its place. `packet` is the number of the note's packet in the input, counted
    /// from 1; ticks and losses at ingress take no number. A note of a tick has the number of the
    /// last packet before it. Made packets have their cause's.
    fn note_about(&mut self, packet: u64, note: &[u8]) {
        let _ = packet;
        self.note(note);
    }

    /// The input pauses: writes out buffered data for its readers.
    fn rest(&mut self) {}

    /// No more notes come: completes the output. An error names the missing output, and makes the
    /// run fail.
    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Its counters, by name.
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let _ = visit;
    }

    /// Tables for the summary and the statistics, after `finish`.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }
}

/// A small table that a report shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name, by its contents, such as `top_flows`.
    pub name: &'static str,
    /// Its columns, units last: `bytes`, `duration_ms`.
    pub columns: Vec<&'static str>,
    /// Its rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a [`Table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}
