//! A sensor under fuzzed rules and packets: text up to the first zero byte is its rules, the rest packets. Nothing is
//! changed, what is dropped has a name, alerts are JSON, and two matchers find the same.

#![no_main]

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::frames::{self, FLUSH, TICK};
use warpline_fuzz::functions::{check_made, try_build};
use warpline_nf::harness::{Harness, Input};
use warpline_nf::nids::DEFINITION;
use warpline_nf::{Lines, Outputs, Report};
use warpline_packet::{Instant, Verdict};

/// Text of rules that is looked at: to build many takes long.
const RULES_LEN_MAX: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let rules = String::from_utf8_lossy(&data[..end.min(RULES_LEN_MAX)]);
    let packets = data.get(end + 1..).unwrap_or(&[]);
    let [dense, compact] =
        ["dense", "compact"].map(|matcher| Sensor::new(&rules, matcher).run(packets));
    assert!(dense == compact, "alerts hang on the matcher");
    for line in dense.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        serde_json::from_slice::<serde_json::Value>(line).expect("an alert that is JSON");
    }
});

struct Sensor {
    harness: Harness,
    report: Box<dyn Report>,
    written: Shared,
}

impl Sensor {
    fn new(rules: &str, matcher: &str) -> Self {
        let table = format!(
            "rules = 'r'\nsnort_rules = 'r'\nmatcher = '{matcher}'\nflows = 64\nstream_memory_mib = 1\nwindow_kib = 2\n\
             datagrams = 64\nxbits = 64\nthresholds = 64\npayload = 100\nmidstream = true\n"
        );
        let built = try_build(&DEFINITION, &table, &[("r", rules)]).expect("TOML");
        let (function, words) = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert!(!function.about().lines.is_empty());
        let written = Shared::default();
        let lines = Lines::new("alerts", Box::new(written.clone()));
        let outputs = Outputs { alerts: Some(Arc::new(lines)) };
        let report = function.report(&outputs).expect("nothing to open").expect("a report");
        Self { harness: Harness::new(function, words), report, written }
    }

    /// Sends packets through; gives the alerts.
    fn run(mut self, data: &[u8]) -> Vec<u8> {
        let mut waiting: Vec<Input> = Vec::new();
        for cut in frames::cut(data, 1) {
            if cut.has(FLUSH | TICK) {
                self.send(&mut waiting);
            }
            if cut.has(TICK) {
                assert!(self.harness.tick(Instant::from_nanos(cut.nanos)).is_empty());
            }
            waiting.push(cut.input(None));
        }
        self.send(&mut waiting);
        self.harness.close(&mut *self.report).expect("a place that takes all");
        self.written.take()
    }

    fn send(&mut self, waiting: &mut Vec<Input>) {
        let inputs = std::mem::take(waiting);
        if inputs.is_empty() {
            return;
        }
        let (made, own): (Vec<_>, Vec<_>) =
            self.harness.process(&inputs).into_iter().partition(|outcome| outcome.made);
        assert_eq!(own.len(), inputs.len(), "every packet has one outcome");
        for (input, outcome) in inputs.iter().zip(&own) {
            assert_eq!(input.bytes, outcome.bytes, "it looks only");
            match outcome.verdict {
                Verdict::Dropped => assert!(usize::from(outcome.reason) < DEFINITION.drops.len()),
                verdict => assert_eq!(verdict, Verdict::Forward),
            }
        }
        let first = own[0].ingress;
        for outcome in &made {
            check_made(&inputs[(outcome.ingress - first) as usize], outcome);
        }
    }
}

/// What was written, for two to hold.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
