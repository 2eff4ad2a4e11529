//! `warpline profile`.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Demo, LIMIT};

/// The profile once it has `count` measurements, when the program that writes it is killed.
fn killed_after(demo: &Demo, count: u64) -> Value {
    let mut run = demo.start("profile --quick --out m.json");
    let started = Instant::now();
    let read = || -> Option<Value> {
        let text = std::fs::read(demo.path("m.json")).ok()?;
        // It is written by a rename, so it is never partial.
        Some(serde_json::from_slice(&text).expect("JSON at any time"))
    };
    let done = |profile: &Value| profile["unfinished"]["done"].as_u64().unwrap_or(0);
    while read().is_none_or(|profile| done(&profile) < count) {
        assert!(started.elapsed() < LIMIT, "{:?}", read());
        thread::sleep(Duration::from_millis(5));
    }
    // Another one is being measured.
    run.kill().expect("it runs");
    run.wait().expect("its end");
    let profile = read().expect("a profile");
    assert_eq!(done(&profile), measurements(&profile).len() as u64, "{profile:#}");
    profile
}

fn measurements(profile: &Value) -> &[Value] {
    profile["measurements"].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn a_killed_run_loses_one_measurement_at_most() {
    let demo = Demo::new();
    let first = killed_after(&demo, 2);
    let count = measurements(&first).len();
    assert!(count >= 2, "each is written when it is done: {first:#}");
    assert!(first["threads"].is_null(), "their times are measured last: {first:#}");
    let second = killed_after(&demo, count as u64 + 2);
    assert!(measurements(&second).len() >= count + 2, "{second:#}");
    for one in measurements(&first) {
        let is_kept = measurements(&second).iter().any(|other| is_same(one, other));
        assert!(is_kept, "it was measured again: {one:#}");
    }
}

/// Whether two measurements are one. Figures in other units come back rounded.
fn is_same(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    one.iter().all(|(key, own)| match (own.as_f64(), other[key].as_f64()) {
        (Some(own), Some(other)) => (own - other).abs() <= own.abs() * 1e-12,
        _ => *own == other[key],
    })
}
