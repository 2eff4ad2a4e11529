//! The cost of the phases of `nat` in established flows: nanoseconds a packet, next to a bare loop
//! that sums a byte of every packet.

use std::path::Path;

use warpline_bench::lane::Lane;
use warpline_bench::{median, seconds};
use warpline_packet::hash::mix32;
use warpline_verify as harness;

const TABLE: &str = "inside = \"10.0.0.0/8\"\noutside = \"203.0.113.0/24\"\n";
const ROUNDS: usize = 15;

fn main() {
    for (flows, bindings) in [(1_000, 1 << 18), (100_000, 1 << 18), (1_000_000, 1 << 21)] {
        measure(flows, bindings);
    }
}

/// Two packets for each flow, of flows drawn at random, in batches; the same packets again and
/// again. Only `before` looks at the addresses to decide, so all of its rounds come before those of
/// `run`, which rewrites them.
fn measure(flows: usize, bindings: usize) {
    let table = format!("{TABLE}bindings = {bindings}\n");
    let (function, scratch_words) =
        harness::build(&warpline_nat::DEFINITION, &table, Path::new("."));
    let frames: Vec<Vec<u8>> =
        (0..2 * flows).map(|packet| frame(mix32(packet as u32) % flows as u32)).collect();
    let mut lane = Lane::new(function, scratch_words, &frames);
    let before = rounds(|| lane.state());
    let group = rounds(|| lane.group());
    let run = rounds(|| lane.run());
    let bare = rounds(|| lane.touch());
    let sent: usize = lane.batches.iter().map(|batch| batch.forward().count()).sum();
    let nanos = |seconds: f64| seconds * 1e9 / (2 * flows) as f64;
    println!(
        "{flows} flows: group {:.1}, before {:.1}, run {:.1}, bare loop {:.1} ns a packet; {sent} \
         sent",
        nanos(group),
        nanos(before - group),
        nanos(run),
        nanos(bare),
    );
}

fn rounds(mut work: impl FnMut()) -> f64 {
    work();
    median((0..ROUNDS).map(|_| seconds(&mut work)).collect())
}

/// UDP, 64 bytes on Ethernet, from one of 4096 hosts for each 25 flows or so.
fn frame(flow: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0]);
    frame.extend((flow as u16 & 0xfff).to_be_bytes());
    frame.extend([198, 51, 100, flow as u8]);
    frame.extend((10_000 + (flow >> 12) as u16).to_be_bytes());
    frame.extend([0, 53, 0, 26, 0x12, 0x34]);
    frame.resize(60, 0);
    frame
}
