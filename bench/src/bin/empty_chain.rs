//! The engine by itself: an empty chain over packets in memory, beside a bare loop that parses and
//! hashes the same packets and does nothing else; and two lanes beside one, as two bare loops
//! beside one.
//!
//! `empty_chain` prints rates and ratios. `empty_chain bare N` and `empty_chain chain N` do just
//! that work on N packets, to count instructions: `valgrind --tool=callgrind
//! target/release/empty_chain chain 2000000`.

use std::hint::black_box;
use std::sync::Arc;

use warpline_bench::chains::{deploy, seconds_in_memory};
use warpline_bench::memory::Frames;
use warpline_bench::{median, seconds};
use warpline_engine::Deployment;
use warpline_packet::{FlowHasher, Headers, LinkType, Steering};

const ROUNDS: usize = 9;
const PACKETS: u64 = 8_000_000;
/// Of a lane, where two are compared with one: starting a thread should not count.
const LANE_PACKETS: u64 = 32_000_000;

fn main() {
    let frames = Arc::new(Frames::generate("packets=16384,size=64,flows=1000,seed=7"));
    let deployment = deploy("empty", "", std::path::Path::new("."));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = |at: usize| arguments.get(at).and_then(|n| n.parse().ok()).unwrap_or(PACKETS);
    match arguments.first().map(String::as_str) {
        Some("bare") => bare(&frames, count(1)),
        Some("chain") => {
            seconds_in_memory(&deployment, std::slice::from_ref(&frames), count(1));
        }
        _ => compare(&frames, &deployment),
    }
}

/// Parses and hashes `count` packets where they lie.
fn bare(frames: &Frames, count: u64) {
    let (mut at, mut sum) = (0, 0u32);
    for _ in 0..count {
        let frame = frames.get(at);
        let mut headers = Headers::default();
        headers.find(frame, LinkType::ETHERNET, frame.len());
        let steered = Steering::AddressPair.steer(&FlowHasher::SEED_0, frame, &headers);
        sum = sum.wrapping_add(steered.flow_hash ^ u32::from(steered.shard));
        at = if at + 1 == frames.len() { 0 } else { at + 1 };
    }
    black_box(sum);
}

fn compare(frames: &Arc<Frames>, deployment: &Deployment) {
    for size in [64, 1500] {
        let frames =
            Arc::new(Frames::generate(&format!("packets=16384,size={size},flows=1000,seed=7")));
        let mut figures = Vec::new();
        for _ in 0..ROUNDS {
            let bare = seconds(|| bare(&frames, PACKETS));
            let chain = seconds_in_memory(deployment, std::slice::from_ref(&frames), PACKETS);
            figures.push((bare, chain));
        }
        let of = |pick: fn(&(f64, f64)) -> f64| median(figures.iter().map(pick).collect());
        let rate = |seconds: f64| PACKETS as f64 / seconds / 1e6;
        println!(
            "{size:>5} B: bare loop {:6.1} Mpps, empty chain {:6.1} Mpps, ratio {:.2}",
            rate(of(|f| f.0)),
            rate(of(|f| f.1)),
            of(|f| f.0 / f.1)
        );
    }
    let halves: Vec<Arc<Frames>> =
        frames.split(2, &Steering::AddressPair).into_iter().map(Arc::new).collect();
    let one = [Arc::clone(frames)];
    let rounds: Vec<[f64; 4]> = (0..ROUNDS)
        .map(|_| {
            [
                seconds_in_memory(deployment, &one, LANE_PACKETS),
                seconds_in_memory(deployment, &halves, LANE_PACKETS),
                seconds(|| bare(frames, LANE_PACKETS)),
                seconds(|| bare_on_two(&halves)),
            ]
        })
        .collect();
    // Two take twice the packets.
    let of = |one: usize| median(rounds.iter().map(|r| 2.0 * r[one] / r[one + 1]).collect());
    println!("two lanes / one lane: {:.2}; two bare loops / one: {:.2}", of(0), of(2));
}

/// The bare loop on two threads at once: what this machine's processors give at best.
fn bare_on_two(halves: &[Arc<Frames>]) {
    std::thread::scope(|scope| {
        for frames in halves {
            scope.spawn(|| bare(frames, LANE_PACKETS));
        }
    });
}
