//! The cost of `flow_monitor` at 1 k, 100 k and 1 M flows: nanoseconds a packet, next to a bare
//! loop with one random look-up in a table of the same bytes. Each time, the same number of packets
//! is drawn from flows at random, so that the cost of the packets themselves is the same.
//!
//! Then the cost where flows send several packets in a row: of the whole function, and of `run`,
//! which a device can take over. Also the number of packets in a batch that follow one of their own
//! flow. `after` could skip those packets if their counts were added up before.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::Path;

use warpline_bench::lane::Lane;
use warpline_bench::{median, seconds};
use warpline_packet::hash::mix32;
use warpline_packet::{BATCH_DEFAULT, Batch, SHARDS};
use warpline_verify as harness;

const PACKETS: usize = 1 << 21;
const ROUNDS: usize = 7;
/// Bytes of the function's memory for each flow: one and a half records and upper parts of IPv6
/// addresses.
const FLOW_BYTES: usize = (64 + 24) * 3 / 2;
const LINE: usize = 64;
/// A table in as many pieces as the function's.
type Lines = [Vec<[u64; LINE / 8]>; SHARDS];

/// Nanoseconds a packet.
struct Cost {
    function: f64,
    bare: f64,
}

fn main() {
    let costs = [1_000, 100_000, 1_000_000].map(|flows| {
        let cost = measure(flows);
        println!(
            "{flows} flows: flow_monitor {:.1}, bare loop {:.1} ns a packet",
            cost.function, cost.bare
        );
        cost
    });
    let [few, _, many] = costs;
    let misses = many.bare - few.bare;
    println!(
        "from 1 k to 1 M: {:.1} ns more, {misses:.1} of them the misses of one look-up; beyond \
         them {:+.0} %",
        many.function - few.function,
        100.0 * ((many.function - misses) / few.function - 1.0)
    );
    for burst in [1, 2, 4, 16, 64] {
        measure_bursts(burst);
    }
}

/// 100 k flows, each of which sends `burst` packets in a row when it is drawn.
fn measure_bursts(burst: usize) {
    const FLOWS: usize = 100_000;
    let flow = |packet: usize| mix32((packet / burst) as u32) % FLOWS as u32;
    let mut lane = lane_of(FLOWS, flow);
    lane.all();
    let (mut own, mut touched, mut run) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(seconds(|| lane.all()));
        touched.push(seconds(|| lane.touch()));
        run.push(seconds(|| lane.run()));
    }
    let nanos = |seconds: f64| seconds * 1e9 / PACKETS as f64;
    let touched = median(touched);
    println!(
        "bursts of {burst}: flow_monitor {:.1} ns a packet, `run` {:.1} of them; behind one of \
         their flow in their batch: {:.0} %",
        nanos(median(own) - touched),
        nanos(median(run) - touched),
        100.0 * repeated(flow) as f64 / PACKETS as f64
    );
}

/// Packets whose flow another one of their batch has before them.
fn repeated(flow: impl Fn(usize) -> u32) -> usize {
    let batches = (0..PACKETS).step_by(BATCH_DEFAULT);
    let different =
        |start: usize| (start..start + BATCH_DEFAULT).map(&flow).collect::<BTreeSet<_>>();
    batches.map(|start| BATCH_DEFAULT - different(start).len()).sum()
}

/// A lane whose shards have room for all of their flows.
fn lane_of(flows: usize, flow: impl Fn(usize) -> u32) -> Lane {
    let table = format!("flows = {}\n", (flows * 5 / 4).max(8192));
    let (function, words) =
        harness::build(&warpline_flow_monitor::DEFINITION, &table, Path::new("."));
    let frames: Vec<Vec<u8>> = (0..PACKETS).map(|packet| frame(flow(packet))).collect();
    Lane::new(function, words, &frames)
}

fn measure(flows: usize) -> Cost {
    let mut lane = lane_of(flows, |packet| mix32(packet as u32) % flows as u32);
    let shard_lines = vec![[0u64; LINE / 8]; flows * FLOW_BYTES / LINE / SHARDS];
    let mut lines: Lines = std::array::from_fn(|_| shard_lines.clone());
    lane.all();
    let full: u64 = lane.counter("ended-full");
    assert_eq!(full, 0, "the table has room");
    let (mut own, mut touched, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(seconds(|| lane.all()));
        touched.push(seconds(|| lane.touch()));
        bare.push(seconds(|| look_up(&lane.batches, &mut lines)));
    }
    black_box(&lines);
    let nanos = |seconds: f64| seconds * 1e9 / PACKETS as f64;
    // Reading the packets costs both the same, so it is subtracted from both.
    let touched = median(touched);
    Cost { function: nanos(median(own) - touched), bare: nanos(median(bare) - touched) }
}

/// One look-up for each packet, of a line that its addresses name.
fn look_up(batches: &[Batch], lines: &mut Lines) {
    for packet in batches.iter().flat_map(Batch::forward) {
        let bytes = u64::from(packet.src_v4()) << 32 | u64::from(packet.src_port());
        let product = u128::from(bytes ^ 0x9e37_79b9_7f4a_7c15) * 0xbf58_476d_1ce4_e5b9;
        let hash = (product >> 32) as u32 ^ product as u32;
        let lines = &mut lines[usize::from(packet.shard())];
        let at = ((u64::from(hash) * lines.len() as u64) >> 32) as usize;
        lines[at][0] += packet.len() as u64;
    }
}

/// UDP, 64 bytes on Ethernet, from one of 65536 hosts.
fn frame(flow: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0]);
    frame.extend((flow as u16).to_be_bytes());
    frame.extend([198, 51, 100, flow as u8]);
    frame.extend((10_000 + (flow >> 16) as u16).to_be_bytes());
    frame.extend([0, 53, 0, 26, 0x12, 0x34]);
    frame.resize(60, 0);
    frame
}
