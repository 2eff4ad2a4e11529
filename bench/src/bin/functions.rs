//! Each function through the engine, one lane, packets in memory, a sink that keeps nothing: Mpps
//! and Gb/s at 64 B, IMIX and 1500 B. Beside them the empty chain, and so what the function adds.

use std::fs;
use std::sync::Arc;

use warpline_bench::chains::{deploy, seconds_in_memory};
use warpline_bench::median;
use warpline_bench::memory::Frames;

const ROUNDS: usize = 5;
const PACKETS: u64 = 4_000_000;

fn main() {
    let folder = std::env::temp_dir().join(format!("warpline-functions-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the tables");
    fs::write(
        folder.join("routes"),
        "0.0.0.0/1 192.0.2.1\n128.0.0.0/1 192.0.2.2\n198.18.0.0/15 192.0.2.3\n",
    )
    .expect("a route file");
    let mut rules = String::new();
    for i in 0..999 {
        rules += &format!("drop tcp from 172.16.{}.{} to any port {}\n", i / 256, i % 256, i + 1);
    }
    rules += "accept from any to any\n";
    fs::write(folder.join("rules"), rules).expect("a rule file");
    let tables = [
        ("empty", ""),
        ("router", "routes = \"routes\""),
        ("firewall", "rules = \"rules\""),
        ("nat", "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.0/30\"]"),
    ];
    println!(
        "{:<10} {:>6} {:>8} {:>8} {:>10} {:>12}",
        "chain", "size", "Mpps", "Gb/s", "ns/packet", "beyond empty"
    );
    for size in ["64", "imix", "1500"] {
        let frames =
            Arc::new(Frames::generate(&format!("packets=16384,size={size},flows=1000,seed=7")));
        let bytes: usize = (0..frames.len()).map(|i| frames.get(i).len()).sum();
        let mean = bytes as f64 / frames.len() as f64;
        let mut empty = 0.0;
        for (name, table) in tables {
            let deployment = deploy(name, table, &folder);
            let one = std::slice::from_ref(&frames);
            seconds_in_memory(&deployment, one, PACKETS / 4);
            let seconds =
                median((0..ROUNDS).map(|_| seconds_in_memory(&deployment, one, PACKETS)).collect());
            let nanos = seconds * 1e9 / PACKETS as f64;
            empty = if name == "empty" { nanos } else { empty };
            println!(
                "{name:<10} {size:>6} {:>8.2} {:>8.2} {nanos:>10.1} {:>12.1}",
                1e3 / nanos,
                mean * 8.0 / nanos,
                nanos - empty
            );
        }
    }
    let _ = fs::remove_dir_all(&folder);
}
