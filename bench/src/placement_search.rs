//! The time to place a chain, by its length and the number of devices. The goal is 5 ms for 8
//! functions on 4 devices, the CPU among them.
//!
//! Functions are those of `plan_search`, each measured on every device with four launch sizes.

use std::hint::black_box;

use warpline_packet::{Field, FieldSet};
use warpline_sched::placement::{ChainDemand, PlacementPolicy, PlacementProblem};
use warpline_sched::work_profile::{Figures, Measurement, WorkProfile};
use warpline_sched::{Aim, LinkCosts, PlannedFunction, Problem, Touch, Widths};

use crate::{median, seconds};

const NAMES: [&str; 4] = ["firewall", "nat", "ipsec", "nids"];
const DEVICES: [&str; 4] = ["cpu", "gpu0", "gpu1", "gpu2"];

fn profile(devices: usize) -> WorkProfile {
    let mut profile = WorkProfile::new(&NAMES, &DEVICES[..devices]);
    for function in 0..NAMES.len() {
        for device in 0..devices {
            for step in 0..4u32 {
                let gbps = 5.0 + 3.0 * (function * 5 % 7 + device * 3 % 5) as f64;
                let bits_per_s = gbps * 1e9 * 1.2f64.powi(step as i32);
                let figures = Figures { bits_per_s, latency_ns: 1e4, share: 1.0, weight: 1.0 };
                let at = Measurement::alone((function, device), 256 << (2 * step), 512, figures);
                profile.merge(&at).expect("sound");
            }
        }
    }
    profile
}

fn chain(count: usize, devices: usize) -> ChainDemand {
    let ends = FieldSet::of(&[Field::SrcAddr, Field::DstAddr, Field::SrcPort, Field::DstPort]);
    let payload = FieldSet::of(&[Field::Payload]);
    let planned = |at: usize| {
        let (needs, writes) = match at % 4 {
            0 => (ends, FieldSet::EMPTY),
            1 => (ends, ends),
            2 => (FieldSet::FRAME, FieldSet::FRAME),
            _ => (payload, FieldSet::EMPTY),
        };
        PlannedFunction::run_only(NAMES[at % 4], None, Touch { needs, writes })
    };
    let plan = Problem {
        functions: (0..count).map(planned).collect(),
        hops: None,
        links: vec![LinkCosts::PCIE_4; devices - 1],
        widths: Widths::of_udp(512, 576),
        end_reads: Problem::sink_reads(),
        gathered: FieldSet::FRAME,
        is_recoverable: false,
        fetches_first: false,
        aim: Aim::TIME,
    };
    let links = (0..devices).map(|device| device.checked_sub(1)).collect();
    let functions = (0..count).map(|at| at % 4).collect();
    let (packets_per_s, packet_len, lanes, threads_ns) = (5e6, 512, 4, 0.0);
    ChainDemand { functions, plan, links, packets_per_s, packet_len, lanes, threads_ns }
}

/// Prints the times.
pub fn print(rounds: usize) {
    println!("functions, devices: us for a placement, gap in %, us for launches alone");
    for devices in [2, 4] {
        let profile = profile(devices);
        for count in [2, 4, 8, 16] {
            let chains = [chain(count, devices)];
            let mut problem = PlacementProblem {
                profile: &profile,
                chains: &chains,
                policy: PlacementPolicy::Throughput,
                devices: None,
                delay_ns_max: None,
                power_w_max: None,
                lanes_max: 4,
                cores: usize::MAX,
            };
            let us = |problem: &PlacementProblem<'_>| {
                let one = || seconds(|| drop(black_box(problem.place()))) * 1e6;
                median((0..rounds).map(|_| one()).collect())
            };
            let all = us(&problem);
            let gap = problem.place().ok().and_then(|placed| placed.gap);
            let gap = gap.map_or("exact".to_owned(), |gap| format!("{:.0}", gap * 100.0));
            problem.devices = Some(vec![vec![vec![1]; count]]);
            println!("{count:>3} {devices:>3} {all:>10.1} {gap:>6} {:>10.1}", us(&problem));
        }
    }
}
