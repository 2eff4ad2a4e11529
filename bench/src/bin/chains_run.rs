//! Chains over packets in memory, in turn: nanoseconds a packet of one lane.
//!
//! `chains_run [--packets N] [CHAIN...]`: a CHAIN is names of functions with commas between them. A
//! name that occurs twice is one function at two places. `own:CHAIN` gives each function a stage of
//! its own. `routed:CHAIN` has routes: half of the packets skip the second function. `router-2` is
//! a second instance of `router`. Each line shows the best of some rounds. `chains_run --once
//! CHAIN` does one round, to count instructions: `valgrind --tool=callgrind
//! target/release/chains_run --packets 500000 --once firewall,nat,router`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use warpline_bench::chains::{Member, deploy_members, seconds_in_memory};
use warpline_bench::memory::Frames;
use warpline_engine::{Deployment, Site};
use warpline_sched::{Route, RouteFrom, RouteTo, RoutedFunction, Routes};

const ROUNDS: usize = 5;
const PACKETS: u64 = 4_000_000;

/// Chains if none is named.
const CHAINS: [&str; 11] = [
    "empty",
    "router",
    "firewall",
    "nat",
    "firewall,nat,router",
    "own:firewall,nat,router",
    "nat,firewall,router,nat",
    "router,router-2",
    "router,router-2,router-3",
    "own:router,router-2,router-3",
    "routed:router,router-2,router-3",
];

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
    let (kind, list) = names.split_once(':').unwrap_or(("", names));
    let member = |name: &'static str| {
        let function = name.split('-').next().unwrap_or(name);
        Member { name, function, table: table(function), on: None }
    };
    let list: &'static str = String::from(list).leak();
    let members: Vec<Member<'_>> =
        list.split(',').filter(|name| *name != "empty").map(member).collect();
    let deployment = deploy_members(names, &members, folder);
    match kind {
        "own" => {
            let site = |site: &Site| Site { own_stage: true, ..site.clone() };
            let sites = deployment.sites().iter().map(site).collect();
            Deployment::new(Arc::clone(deployment.chain()), sites)
        }
        "routed" => {
            let routes = Arc::new(routes(members.len() as u8));
            let chain = (**deployment.chain()).clone().with_routes(routes);
            Deployment::from(chain.expect("a scratch word for routes"))
        }
        _ => deployment,
    }
}

/// From each function on to the next; half of the destinations skip the second function.
fn routes(count: u8) -> Routes {
    let straight = |at: u8| Route {
        from: at.checked_sub(1).map_or(RouteFrom::Ingress(None), RouteFrom::Function),
        destination: None,
        to: if at < count { RouteTo::Function(at) } else { RouteTo::Egress },
    };
    let skip = Route {
        from: RouteFrom::Function(0),
        destination: "0.0.0.0/1".parse().ok(),
        to: RouteTo::Function(2),
    };
    let functions: Vec<RoutedFunction> = (0..count).map(|_| RoutedFunction::default()).collect();
    let all: Vec<Route> = (0..=count).map(straight).chain([skip]).collect();
    Routes::new(&functions, 0, &all).expect("routes through all functions")
}

fn table(name: &str) -> &'static str {
    match name {
        "firewall" => "rules = \"rules\"\nestablished = true\n",
        "nat" => "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.0/24\"]\n",
        "router" => "routes = \"routes\"\n",
        _ => "",
    }
}
