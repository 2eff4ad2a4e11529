//! The table of SAs, with the traffic and refusals of each.

use std::sync::Arc;

use super::cipher::Engine;
use super::counts::{Carried, Refusals};
use super::sa::{Direction, Sa};
use warpline_nf::{Cell, Report, Table};

/// Numbers of a note; then comes the SA's name.
const WORDS: usize = 10;

/// Gives `report` what `sa` did, if it did anything.
pub(super) fn report_state(
    report: &mut dyn Report,
    sa: &Sa,
    sequence: u64,
    carried: &Carried,
    refusals: &Refusals,
) {
    if !carried.is_begun() && !refusals.any() {
        return;
    }
    let words: [u64; WORDS] = [
        sa.spi.into(),
        u64::from(sa.direction == Direction::In),
        carried.packets,
        carried.bytes,
        sequence,
        refusals.bad_icv,
        refusals.replay,
        refusals.lifetime,
        refusals.other,
        refusals.is_soft.into(),
    ];
    let mut note: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    note.extend_from_slice(sa.name.as_bytes());
    report.note(&note);
}

/// Collects what the SAs did.
pub(super) struct SaReport {
    engine: Arc<Engine>,
    rows: Vec<(String, [u64; WORDS])>,
}

impl SaReport {
    pub(super) fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::clone(engine), rows: Vec::new() }
    }
}

impl Report for SaReport {
    fn note(&mut self, note: &[u8]) {
        let (numbers, name) = note.split_at(note.len().min(8 * WORDS));
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(numbers.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.rows.push((String::from_utf8_lossy(name).into_owned(), words));
    }

    fn tables(&self) -> Vec<Table> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable();
        let row = |(name, [spi, is_in, numbers @ .., is_soft]): &(String, [u64; WORDS])| {
            let direction = if *is_in == 1 { "in" } else { "out" };
            let soft = if *is_soft == 1 { "reached" } else { "-" };
            let mut cells = vec![
                Cell::Text(name.clone()),
                Cell::Text(format!("{spi:#010x}")),
                Cell::Text(direction.into()),
            ];
            cells.extend(numbers.iter().map(|&number| Cell::Number(number)));
            cells.push(Cell::Text(soft.into()));
            cells
        };
        let columns = vec![
            "sa",
            "spi",
            "direction",
            "packets",
            "bytes",
            "sequence",
            "bad_icv",
            "replay",
            "lifetime",
            "other",
            "soft_lifetime",
        ];
        let sas = Table { name: "sas", columns, rows: rows.into_iter().map(row).collect() };
        let (engine, why) = self.engine.describe();
        let cells = [engine.into(), why.unwrap_or_else(|| "-".into())].map(Cell::Text);
        let columns = vec!["engine", "why_not_ipsec_mb"];
        vec![sas, Table { name: "crypto", columns, rows: vec![cells.into()] }]
    }
}
