//! Written and lost alerts and flow records, by output.

use serde_json::{Value, json};
use warpline_nf::Counts;

use crate::summary::grouped;

/// For the statistics.
pub(crate) fn json(outputs: &[Counts]) -> Vec<Value> {
    let one = |counts: &Counts| {
        let Counts { name, written, lost } = counts;
        json!({ "name": name, "written": written, "lost": lost })
    };
    outputs.iter().map(one).collect()
}

/// For the summary: the outputs that lost records.
pub(crate) fn summary(outputs: &[Counts]) -> String {
    let losing = outputs.iter().filter(|output| output.lost > 0);
    let line = |output: &Counts| {
        let (lost, written) = (grouped(output.lost), grouped(output.written));
        format!("warning: {} lost {lost} records and wrote {written}\n", output.name)
    };
    losing.map(line).collect()
}

/// For the end: records of this output that its reader did not take in time.
pub(crate) fn lost_at_end(name: &str, lost: u64) -> String {
    let lost = grouped(lost);
    format!("records that {name} lost at the end: {lost}; [process] outputs_wait_ms sets the wait")
}
