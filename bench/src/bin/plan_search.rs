//! How long it takes to find the cheapest synchronisation plan, by the length of the chain; the
//! goal is 1 ms for 16 functions on a device.
//!
//! `plan_search [ROUNDS]`. Chains repeat firewall, address translation, gateway and intrusion
//! detection, all on devices in turn. Chains called hybrid have a flow monitor on the host after
//! every fourth function.

use std::hint::black_box;

use warpline_bench::{median, seconds};
use warpline_packet::{Field, FieldSet};
use warpline_sched::{Aim, LinkCosts, Mode, PlannedFunction, Problem, Touch, Widths};

fn problem(count: usize, devices: usize, is_hybrid: bool) -> Problem {
    let ends = FieldSet::of(&[Field::SrcAddr, Field::DstAddr, Field::SrcPort, Field::DstPort]);
    let tuple = ends.with(Field::IpProtocol);
    let payload = FieldSet::of(&[Field::Payload]);
    let mut functions = Vec::new();
    for at in 0..count {
        let (name, needs, writes) = match at % 4 {
            0 => ("firewall", tuple, FieldSet::EMPTY),
            1 => ("nat", ends, ends),
            2 => ("ipsec", FieldSet::FRAME, FieldSet::FRAME),
            _ => ("nids", payload, FieldSet::EMPTY),
        };
        let run = Touch { needs, writes };
        functions.push(PlannedFunction::run_only(name, Some(at % devices), run));
        if is_hybrid && at % 4 == 3 {
            let run = Touch { needs: tuple, writes: FieldSet::EMPTY };
            functions.push(PlannedFunction::run_only("flow_monitor", None, run));
        }
    }
    Problem {
        functions,
        hops: None,
        links: vec![LinkCosts::PCIE_4; devices],
        widths: Widths::of_udp(512, 576),
        end_reads: Problem::sink_reads(),
        gathered: FieldSet::FRAME,
        is_recoverable: false,
        fetches_first: false,
        aim: Aim::default(),
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    println!(
        "functions on devices, devices, hybrid: us for the cheapest plan (median of {rounds})"
    );
    for (devices, is_hybrid) in [(1, false), (1, true), (2, true), (3, true)] {
        for count in [2, 4, 8, 16] {
            let problem = problem(count, devices, is_hybrid);
            let one = || seconds(|| drop(black_box(problem.plan(Mode::Adaptive)))) * 1e6;
            let us = median((0..rounds).map(|_| one()).collect());
            println!("{count:>3} {devices:>3} {is_hybrid:>6} {us:>10.1}");
        }
    }
}
