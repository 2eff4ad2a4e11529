//! Runs the function over frames, and reads its alerts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use warpline_packet::Verdict;

use super::frames::Frame;
use crate::DEFINITION;
use warpline_nf::Outputs;
use warpline_verify::{Harness, Input, try_build};

/// An alert: the place of its frame, and the rule's `sid`.
pub(super) type Reported = (usize, u32);

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) alerts: Vec<Reported>,
    /// Frames that were dropped, by their places.
    pub(super) dropped: Vec<usize>,
    /// Frames that were made.
    pub(super) made: usize,
}

impl Ran {
    /// Rules that raised an alert.
    pub(super) fn sids(&self) -> BTreeSet<u32> {
        self.alerts.iter().map(|reported| reported.1).collect()
    }
}

/// Memory that each run clears, by shard.
const SMALL: &str = "flows = 4096\nstream_memory_mib = 4\ndatagrams = 128\n";
const MATCHERS: &[&str] = &["dense", "compact", "hyperscan"];
const BATCHES: &[usize] = &[1, 7, 256];

/// Runs with every matcher and in batches of several sizes; all must give the same alerts. `table`
/// is added to the function's table.
pub(super) fn run(rules: &str, table: &str, frames: &[Frame]) -> Ran {
    let inputs: Vec<Vec<u8>> = frames.iter().map(Frame::bytes).collect();
    let millis: Vec<Option<u64>> = frames.iter().map(|frame| frame.millis).collect();
    run_bytes(rules, table, &inputs, &millis)
}

/// By alert of such a run, the place of its frame and the flow's application protocol, empty
/// for none.
pub(super) fn run_for_apps(rules: &str, frames: &[Frame]) -> Vec<(usize, String)> {
    let inputs: Vec<Vec<u8>> = frames.iter().map(Frame::bytes).collect();
    let (ran, apps) = run_all(rules, "", &inputs, &vec![None; inputs.len()]);
    ran.alerts.iter().map(|reported| reported.0).zip(apps).collect()
}

/// The same of bytes, at times in milliseconds where those are given.
pub(super) fn run_bytes(
    rules: &str,
    table: &str,
    frames: &[Vec<u8>],
    millis: &[Option<u64>],
) -> Ran {
    run_all(rules, table, frames, millis).0
}

fn run_all(
    rules: &str,
    table: &str,
    frames: &[Vec<u8>],
    millis: &[Option<u64>],
) -> (Ran, Vec<String>) {
    let folder = Temporary::new();
    std::fs::write(folder.0.join("test.rules"), rules).unwrap();
    let mut first: Option<(Ran, Vec<String>)> = None;
    for matcher in MATCHERS {
        for &batch in BATCHES {
            let Some(ran) = run_once(&folder.0, matcher, table, batch, frames, millis) else {
                assert_eq!(*matcher, "hyperscan");
                break;
            };
            let expected = first.get_or_insert_with(|| ran.clone());
            assert_eq!(&ran, expected, "{matcher} in batches of {batch}: {rules}");
        }
    }
    first.unwrap()
}

/// `None` where there is no such matcher.
fn run_once(
    folder: &Path,
    matcher: &str,
    table: &str,
    batch: usize,
    frames: &[Vec<u8>],
    millis: &[Option<u64>],
) -> Option<(Ran, Vec<String>)> {
    let own = format!("rules = \"test.rules\"\nmatcher = \"{matcher}\"\neve = \"eve.json\"\n");
    let built = try_build(&DEFINITION, &format!("{own}{SMALL}{table}"), folder);
    let (function, scratch_words) = match built {
        Ok(built) => built,
        Err(mistakes) if matcher == "hyperscan" => {
            assert!(mistakes.to_string().contains("yperscan"), "{mistakes}");
            return None;
        }
        Err(mistakes) => panic!("{mistakes}"),
    };
    let mut report = function.report(&Outputs::default()).unwrap().unwrap();
    let mut harness = Harness::new(function, scratch_words);
    let (mut dropped, mut made) = (Vec::new(), 0);
    let inputs: Vec<Input> = frames.iter().zip(millis).enumerate().map(input).collect();
    for inputs in inputs.chunks(batch) {
        for outcome in harness.process(inputs) {
            if outcome.made {
                made += 1;
            } else if outcome.verdict == Verdict::Dropped {
                dropped.push(outcome.ingress as usize);
            }
        }
    }
    harness.close(&mut *report).unwrap();
    drop(report);
    let lines = std::fs::read_to_string(folder.join("eve.json")).unwrap();
    let times: Vec<u64> =
        inputs.iter().map(|input| input.timestamp.as_nanos() / 1_000_000).collect();
    let alerts = lines.lines().map(|line| reported(line, &times)).collect();
    let apps = lines.lines().map(app).collect();
    Some((Ran { alerts, dropped, made }, apps))
}

fn input((at, (bytes, millis)): (usize, (&Vec<u8>, &Option<u64>))) -> Input {
    Input::at(millis.unwrap_or(at as u64) * 1_000_000, bytes)
}

/// Identifies the frame of an alert by its time; `times` are those of all frames, in milliseconds.
fn reported(line: &str, times: &[u64]) -> Reported {
    let after = |name: &str| line.split_once(&format!("\"{name}\":")).unwrap().1;
    let sid = after("signature_id").split(|c: char| !c.is_ascii_digit()).next().unwrap();
    let (_, time) = after("timestamp").split_once('T').unwrap();
    let number = |at: usize, len: usize| time[at..at + len].parse::<u64>().unwrap();
    let seconds = number(0, 2) * 3600 + number(3, 2) * 60 + number(6, 2);
    let millis = seconds * 1000 + number(9, 3);
    let place = times.iter().position(|time| *time == millis).unwrap();
    (place, sid.parse().unwrap())
}

/// The application protocol of an alert.
fn app(line: &str) -> String {
    let (_, rest) = line.split_once("\"app_proto\":\"").unwrap_or(("", "\""));
    rest.split('"').next().unwrap_or_default().to_owned()
}

/// A folder that is deleted when this is dropped.
pub(super) struct Temporary(pub(super) PathBuf);

impl Temporary {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpline-nids-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
