//! Chains over packets in memory, in turn: nanoseconds a packet of one lane.
//!
//! `chains_run [--packets N] [CHAIN...]`: a CHAIN is names of functions with commas between them. A
//! name that occurs twice is one function at two places. Each line shows the best of some rounds.
//! `chains_run --once CHAIN` does one round, to count instructions: `valgrind --tool=callgrind
//! target/release/chains_run --packets 500000 --once firewall,nat,router`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use warpline_bench::chains::{Member, deploy_members, seconds_in_memory};
use warpline_bench::memory::Frames;
use warpline_engine::Deployment;

const ROUNDS: usize = 5;
const PACKETS: u64 = 4_000_000;

/// Chains if none is named.
const CHAINS: [&str; 6] =
    ["empty", "router", "firewall", "nat", "firewall,nat,router", "nat,firewall,router,nat"];

fn main() {
    let (mut packets, mut rounds, mut chains) = (PACKETS, ROUNDS, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--packets" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                packets = number.expect("a number of packets");
            }
            "--once" => rounds = 1,
            _ => chains.push(argument),
        }
    }
    if chains.is_empty() {
        chains = CHAINS.map(String::from).into();
    }
    let folder = std::env::temp_dir().join(format!("warpline-chains-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    write_files(&folder);
    let deployments: Vec<Deployment> = chains.iter().map(|names| deploy(names, &folder)).collect();
    let mut best = vec![f64::INFINITY; chains.len()];
    let frames = [Arc::new(Frames::generate("packets=16384,size=64,flows=1000,seed=7"))];
    for _ in 0..rounds {
        for (deployment, best) in deployments.iter().zip(&mut best) {
            *best = best.min(seconds_in_memory(deployment, &frames, packets));
        }
    }
    for (names, seconds) in chains.iter().zip(best) {
        println!("{names:<32} {:7.1} ns a packet", seconds * 1e9 / packets as f64);
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Writes 256 routes and 1,000 rules. The last rule accepts all.
fn write_files(folder: &Path) {
    let mut routes = String::from("0.0.0.0/0 192.0.2.1\n");
    let mut rules = String::new();
    for number in 0..255 {
        let _ = writeln!(routes, "{number}.0.0.0/8 192.0.2.{}", number % 16 + 1);
    }
    for number in 0..999 {
        let (a, b) = (number / 250, number % 250);
        let _ = writeln!(rules, "drop tcp from 10.{a}.{b}.0/24 to 172.16.{b}.0/24 port {b}");
    }
    rules += "accept any from 0.0.0.0/0 to 0.0.0.0/0\n";
    std::fs::write(folder.join("routes"), routes).expect("room for the routes");
    std::fs::write(folder.join("rules"), rules).expect("room for the rules");
}

fn deploy(names: &str, folder: &Path) -> Deployment {
    let member = |name| Member { name, function: name, table: table(name), on: None };
    let members: Vec<Member<'_>> =
        names.split(',').filter(|name| *name != "empty").map(member).collect();
    deploy_members(names, &members, folder)
}

fn table(name: &str) -> &'static str {
    match name {
        "firewall" => "rules = \"rules\"\nestablished = true\n",
        "nat" => "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.0/24\"]\n",
        "router" => "routes = \"routes\"\n",
        _ => "",
    }
}
