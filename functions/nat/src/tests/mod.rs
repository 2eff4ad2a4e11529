//! Tests of the whole function, against a model and case by case.

mod cases;
mod chains;
mod errors;
mod fixed;
mod gateway;
mod hairpin;
mod linux;
mod mapped_host_rules;
mod model;
mod outside_ports;
mod pools;
mod portless;
mod random;
mod refusals;
mod reload;
mod remarks;
mod rules;
mod shared;
mod skipped_rules;
mod windows;

use std::net::IpAddr;
use std::path::Path;

use warpline_packet::Instant;

use super::DEFINITION;
use warpline_testkit::frames::Datagram;
use warpline_verify::{Harness, Input, Outcome, build, try_build};

const SECOND: u64 = 1_000_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A translator for both families, with more keys.
fn nat(keys: &str) -> Harness {
    let table = format!(
        "inside = [\"10.0.0.0/8\", \"fd00::/16\"]\n\
         outside = [\"203.0.113.1\", \"203.0.113.8/31\", \"2001:db8::/127\"]\n{keys}\n"
    );
    let (function, words) = build(&DEFINITION, &table, Path::new("."));
    Harness::new(function, words)
}

fn outside() -> Vec<IpAddr> {
    ["203.0.113.1", "203.0.113.8", "203.0.113.9", "2001:db8::", "2001:db8::1"].map(ip).to_vec()
}

fn send(harness: &mut Harness, seconds: u64, frame: &[u8]) -> Outcome {
    harness.process(&[Input::at(seconds * SECOND, frame)]).remove(0)
}

fn mistakes(table: &str) -> Vec<String> {
    let Err(mistakes) = try_build(&DEFINITION, table, Path::new(".")) else { return Vec::new() };
    mistakes.iter().map(|mistake| mistake.message.clone()).collect()
}

fn sent(harness: &mut Harness, seconds: u64, datagram: &Datagram) -> Outcome {
    send(harness, seconds, &datagram.frame())
}

fn tick(harness: &mut Harness, seconds: u64) {
    assert!(harness.tick(Instant::from_secs(seconds)).is_empty());
}
