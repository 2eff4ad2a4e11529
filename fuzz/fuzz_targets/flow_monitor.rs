//! The flow monitor under fuzzed packets, with a table that is soon full: every packet goes on as it came, and
//! is counted in one record of a stream that reads.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::frames::{self, FLUSH, TICK};
use warpline_fuzz::functions::try_build;
use warpline_fuzz::ipfix;
use warpline_nf::harness::{Harness, Input};
use warpline_packet::{Instant, Verdict};

static FILE: LazyLock<String> = LazyLock::new(|| {
    let name = format!("warpline-fuzz-{}.ipfix", std::process::id());
    std::env::temp_dir().join(name).to_string_lossy().into_owned()
});

fuzz_target!(|data: &[u8]| {
    let table =
        format!("flows = 192\nheavy = 16\nactive_s = 90\nidle_s = 31\nipfix = {:?}\n", *FILE);
    let built = try_build(&warpline_nf::flow_monitor::DEFINITION, &table, &[]).expect("TOML");
    let (function, words) = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut report =
        function.report(&warpline_nf::Outputs::default()).expect("a file").expect("a report");
    let mut harness = Harness::new(function, words);
    let mut waiting: Vec<Input> = Vec::new();
    for cut in frames::cut(data, 1) {
        if cut.has(FLUSH | TICK) {
            send(&mut harness, &mut waiting);
        }
        if cut.has(TICK) {
            assert!(harness.tick(Instant::from_nanos(cut.nanos)).is_empty());
        }
        waiting.push(cut.input(None));
    }
    send(&mut harness, &mut waiting);
    harness.close(&mut *report).expect("a file that takes all");
    let stream = std::fs::read(&*FILE).expect("the file");
    let (records, packets) = ipfix::totals(&stream).expect("a stream that reads");
    assert_eq!(packets, harness.counter("metered"));
    assert_eq!(harness.counter("unreported"), 0);
    let mut told = 0;
    report.counters(&mut |name, count| told += if name == "records" { count } else { 0 });
    assert_eq!(u64::from(records), told);
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
