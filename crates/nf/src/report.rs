//! A function's report: what looks over all of its flows and packets, behind the lanes.
//!
//! State is divided by shard, so what depends on all of it is decided where the lanes' output comes
//! together: a [`Report`] gets the notes that the function's halves made ([`crate::Emit::note`]),
//! in the order of the input whatever the number of lanes. It runs on the sending thread and may do
//! I/O.

/// Takes a function's notes.
pub trait Report: Send {
    /// A note of `before` or `after`, or of [`crate::StateHalf::close`].
    fn note(&mut self, note: &[u8]);

    /// The same with where it stands: `packet` is the number of the packet that it is about among
    /// those of the input, counted from 1 (ticks and what was lost at ingress take none); for a
    /// tick, that of the last packet before it. Made packets have their cause's.
    fn note_about(&mut self, packet: u64, note: &[u8]) {
        let _ = packet;
        self.note(note);
    }

    /// Nothing comes for a while: whoever reads what it writes gets what there is.
    fn rest(&mut self) {}

    /// No more notes come: completes what it writes. The error says what was not written, and makes
    /// the run fail.
    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// What it counted, by name.
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
    /// What it shows, as a name: `top_flows`, say.
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
