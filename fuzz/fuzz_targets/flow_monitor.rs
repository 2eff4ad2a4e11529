//! The flow monitor under fuzzed packets, with a table that is soon full. Every packet is forwarded
//! unchanged. It is counted in one record of a valid stream, at times that packets had.
//!
//! The flag [`ANSWER`] gives a packet a time before all others, [`QUOTE`] one far after them.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::frames::{self, ANSWER, FLUSH, QUOTE, TICK};
use warpline_fuzz::functions::try_build;
use warpline_fuzz::ipfix;
use warpline_packet::{Instant, Verdict};
use warpline_verify::{Harness, Input};

static FILE: LazyLock<String> = LazyLock::new(|| {
    let name = format!("warpline-fuzz-{}.ipfix", std::process::id());
    std::env::temp_dir().join(name).to_string_lossy().into_owned()
});

const HOUR: u64 = 3_600_000_000_000;
/// More milliseconds than 32 bits hold.
const YEARS: u64 = 10 * 365 * 24 * HOUR;

fuzz_target!(|data: &[u8]| {
    let table =
        format!("flows = 192\nheavy = 16\nactive_s = 90\nidle_s = 31\nipfix = {:?}\n", *FILE);
    let built = try_build(&warpline_flow_monitor::DEFINITION, &table, &[]).expect("TOML");
    let (function, words) = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut report =
        function.report(&warpline_nf::Outputs::default()).expect("a file").expect("a report");
    let mut harness = Harness::new(function, words);
    let mut waiting: Vec<Input> = Vec::new();
    let mut times: Option<(u64, u64)> = None;
    for mut cut in frames::cut(data, HOUR) {
        if cut.has(FLUSH | TICK) {
            send(&mut harness, &mut waiting);
        }
        if cut.has(TICK) {
            assert!(harness.tick(Instant::from_nanos(cut.nanos)).is_empty());
        }
        cut.nanos = match (cut.has(ANSWER), cut.has(QUOTE)) {
            (false, false) => cut.nanos,
            (true, false) => cut.nanos % HOUR,
            (false, true) => cut.nanos + YEARS,
            (true, true) => u64::MAX - cut.nanos,
        };
        let millis = cut.nanos / 1_000_000;
        let (first, last) = times.unwrap_or((millis, millis));
        times = Some((first.min(millis), last.max(millis)));
        waiting.push(cut.input(None));
    }
    send(&mut harness, &mut waiting);
    harness.close(&mut *report).expect("a file that takes all");
    let stream = std::fs::read(&*FILE).expect("the file");
    let totals = ipfix::totals(&stream).expect("a stream that reads");
    assert_eq!(totals.packets, harness.counter("metered"));
    if let Some((first, last)) = totals.times {
        let (least, greatest) = times.expect("records are of packets");
        assert!(least <= first && last <= greatest, "times that no packet had");
    }
    assert_eq!(harness.counter("unreported"), 0);
    let mut reported = 0;
    report.counters(&mut |name, count| reported += if name == "records" { count } else { 0 });
    assert_eq!(u64::from(totals.records), reported);
    assert_eq!(report.tables().len(), 4);
});

fn send(harness: &mut Harness, waiting: &mut Vec<Input>) {
    let inputs = std::mem::take(waiting);
    if inputs.is_empty() {
        return;
    }
    let outcomes = harness.process(&inputs);
    assert_eq!(outcomes.len(), inputs.len());
    for (outcome, input) in outcomes.iter().zip(&inputs) {
        assert_eq!((outcome.verdict, &outcome.bytes), (Verdict::Forward, &input.bytes));
    }
}
