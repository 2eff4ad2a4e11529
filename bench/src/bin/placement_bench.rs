//! Decisions about placement: their time, the stalls of lanes that they move, and their outcome
//! beside every fixed placement.
//!
//! `placement_bench [ROUNDS]`: the program is `warpline` beside this bench (`cargo build --release
//! -p warpline`). The goals are 5 ms for 8 functions on 4 devices, 0.5 % of a core for the monitor,
//! 0.95 of the packets of the best fixed placement with `throughput`, and 1.1 of its delay with
//! `latency`. A lane stalls for at most one launch deadline and 5 ms by a move. All takes about 14
//! minutes.
//!
//! `placement_bench moves` prints the stalls alone.

use warpline_bench::live_moves;
use warpline_bench::mixed_trace::{MixedTrace, Outcome};
use warpline_bench::placement_search;
use warpline_bench::program::Program;

/// Runs of the trace by placement, in turn. The least delay and the most packets of them count.
const RUNS: usize = 2;

fn main() {
    let program = Program::beside();
    live_moves::print(&program);
    if std::env::args().any(|argument| argument == "moves") {
        return;
    }
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(50);
    placement_search::print(rounds);
    let trace = MixedTrace::new(&program);
    let [small, large] = trace.capacity_gbps();
    println!("router, 64 B: {small:.2} Gb/s; digest, 1500 B: {large:.2} Gb/s, alone on the CPU");
    println!(
        "placement                carried %   p95 us of both chains  moves  stall us  monitor %"
    );
    let (fixed, monitored) = trace.in_turn(RUNS);
    fixed.iter().for_each(|(devices, outcome)| print(&devices.join(", "), outcome));
    let fixed: Vec<_> = fixed.into_iter().map(|(_, outcome)| outcome).collect();
    for (policy, own) in monitored {
        print(policy, &own);
        let best = fixed.iter().map(|one| one.carried).fold(0.0, f64::max);
        let least = |chain: usize| {
            let carrying = fixed.iter().filter(|one| one.carried >= 0.99 * best);
            carrying.map(|one| one.p95_us[chain]).fold(f64::INFINITY, f64::min)
        };
        let delays = [0, 1].map(|chain| format!("{:.2}", own.p95_us[chain] / least(chain)));
        let (carried, delays) = (own.carried / best, delays.join(", "));
        println!("  of the best fixed one: carried {carried:.3}, p95 of both chains {delays}");
    }
}

fn print(name: &str, own: &Outcome) {
    let monitor = 100.0 * own.monitor_seconds / own.seconds;
    let [small, large] = own.p95_us;
    let carried = 100.0 * own.carried;
    println!(
        "{name:<24} {carried:>9.2} {small:>12.0} {large:>11.0} {:>6} {:>9.0} {monitor:>10.2}",
        own.moves, own.stall_us
    );
}
