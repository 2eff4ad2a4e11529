//! Plans that leave fields on a device. Packets that leave the plan's way are fetched from the
//! device. If a device is lost, exactly those packets are lost that have fields on it alone.
//! `recoverable` plans have no such packets.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_device::faulty::{Fault, Faulty};
use warpline_device::{Device, Failure, apart};
use warpline_engine::{
    DEVICE_LOST, Deployment, FramesBy, OnDevice, PlanOptions, Settings, planned,
};
use warpline_sched::Mode;

use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::crossings::{bare, default, deploy_names, input_for, with_errors_again};
use crate::failures::{launches, loading};
use crate::placed::{copies, devices, host};

/// Chains in which something may stay on the device, for frames of these bytes.
const CHAINS: &[(&[&str], u32)] = &[
    (&["@open", "router-plain", "@digest-count"], 64),
    (&["@digest-count", "router-plain", "@router-plain", "monitor", "@digest-count"], 1400),
    (&["@open-pieces", "router-plain", "@digest-count"], 1400),
    (&["@open", "monitor", "@router-plain", "digest-narrow", "@digest-count"], 1400),
    (&["@digest-count", "nat", "@router-plain", "router-plain", "@digest-count"], 1400),
];

const MODES: [Mode; 2] = [Mode::Adaptive, Mode::Local];

fn plan(mode: Mode, packet_len: u32, recoverable: bool) -> PlanOptions {
    PlanOptions { mode, packet_len, recoverable, ..PlanOptions::default() }
}

/// Whether the chain's plan leaves fields on a device.
fn leaves(deployment: &Deployment) -> bool {
    let problem = planned(deployment, deployment.plan()).problem;
    let plan = problem.plan(deployment.plan().mode).expect("links");
    plan.leftovers(&problem).iter().any(|left| !left.behind.is_empty())
}

/// Packets that left the plan's way are counted by themselves: what crossed of the others is what
/// the plan has.
fn assert_planned(outcome: &Outcome, what: &str) {
    for function in &outcome.report.part.functions {
        let own = &function.transfers;
        let predicted = [own.predicted_to_device_bytes, own.predicted_to_host_bytes];
        for (moved, predicted) in own.on_the_way().into_iter().zip(predicted) {
            assert!(moved.abs_diff(predicted) <= predicted / 50, "{what}: {own:?}");
        }
    }
}

fn fetched(outcome: &Outcome) -> u64 {
    let functions = outcome.report.part.functions.iter();
    functions.map(|function| function.transfers.fetched_bytes).sum()
}

#[test]
fn packets_that_leave_the_way_are_fetched() {
    for device in devices().iter().filter(|device| copies(device)) {
        let (mut left, mut came) = (0, 0);
        for &(names, packet_len) in CHAINS {
            let inputs = input_for(names, 600);
            let reference = run_forms(&bare(names), Settings::default(), &inputs).summary();
            for (number, mode) in MODES.into_iter().enumerate() {
                // Kernels that carried what a mirror has would put the host's older fields over it.
                let is_apart = !device.description().shares_host_memory;
                let frames_by = FramesBy::ALL[usize::from(is_apart) * number];
                let plan = PlanOptions { frames_by, ..plan(mode, packet_len, false) };
                let deployment = deploy_names(names, device, default(), plan);
                left += usize::from(leaves(&deployment));
                let batch_packets = [256, 7][number];
                let settings =
                    Settings { lanes: 1 + number, batch_packets, slabs: 6, ..Settings::default() };
                let outcome = run_whole(deployment, settings, &inputs);
                let what = format!("{names:?} on {}, {mode:?}", device.description().id);
                assert_same(&reference, &outcome.summary(), &what);
                assert_planned(&outcome, &what);
                came += fetched(&outcome);
            }
        }
        assert!(left >= 3 && came > 0, "{left} plans leave fields, {came} bytes came");
    }
}

/// Where a lane has the last of these functions on its CPU, it leaves nothing on the device.
#[test]
fn lanes_apart_from_the_device_lose_nothing() {
    for device in devices().iter().filter(|device| copies(device)) {
        let mut left = 0;
        for &(names, packet_len) in CHAINS {
            let inputs = input_for(names, 300);
            let reference = run_forms(&bare(names), Settings::default(), &inputs).summary();
            let plan = plan(Mode::Adaptive, packet_len, false);
            let deployment = deploy_names(names, device, default(), plan);
            left += usize::from(leaves(&deployment));
            let mut sites = deployment.sites().to_vec();
            let last = sites.iter_mut().rev().find_map(|site| site.on_device.as_mut());
            last.expect("a function on the device").launches.lanes = 1;
            let settings = Settings { lanes: 3, slabs: 6, ..Settings::default() };
            let outcome = run_whole(deployment.on_sites(sites), settings, &inputs);
            let what = format!("{names:?} on {}", device.description().id);
            assert_same(&reference, &outcome.summary(), &what);
        }
        assert!(left >= 2, "{left} plans leave fields");
    }
}

/// Packets that were dropped as their device was lost, of all functions.
fn lost(outcome: &Outcome) -> u64 {
    let functions = outcome.report.part.functions.iter();
    functions.map(|function| function.drops[usize::from(DEVICE_LOST.0)]).sum()
}

#[test]
fn a_lost_device_loses_only_packets_that_it_alone_held() {
    let Some(host) = host() else { return };
    let faults = [
        Fault::Fail(Failure::Work("no".into())),
        Fault::Fail(Failure::Lost("it fell off the bus".into())),
        Fault::Hang,
    ];
    // With one batch, works have the same numbers in every run.
    let cuts = [(64, &[4, 11][..]), (1024, &[0, 1, 2, 3])];
    let cuts = cuts.map(|(packets, firsts)| firsts.iter().map(move |&first| (packets, first)));
    let cuts: Vec<(usize, u64)> = cuts.into_iter().flatten().collect();
    // Where a gateway loses a packet, its window lets another in that has the same number.
    let chains = CHAINS.iter().filter(|(names, _)| !names[0].starts_with("@open"));
    let leaving = chains.filter(|&&(names, packet_len)| {
        let plan = plan(Mode::Adaptive, packet_len, false);
        leaves(&deploy_names(names, &apart(&host), launches(), plan))
    });
    let mut chains = 0;
    for &(names, packet_len) in leaving {
        chains += 1;
        let inputs = input_for(names, 800);
        let reference = run_forms(&bare(names), Settings::default(), &inputs);
        let mut all_lost: BTreeMap<String, u64> = BTreeMap::new();
        let each = faults.iter().flat_map(|fault| cuts.iter().map(move |cut| (fault, *cut)));
        for ((fault, cut), recoverable) in each.flat_map(|case| [(case, false), (case, true)]) {
            let (batch_packets, first) = cut;
            let settings = Settings { batch_packets, slabs: 6, ..Settings::default() };
            let what = format!("{names:?}, {fault:?}, {cut:?}, recoverable: {recoverable}");
            let first = first + loading(&bare(names)) + 2;
            let lost_by = all_lost.entry(format!("{fault:?}")).or_default();
            let fault = fault.clone();
            let script = move |number| (number >= first).then(|| fault.clone());
            let device: Arc<dyn Device> = Arc::new(Faulty::new(apart(&host), script));
            let of = plan(Mode::Adaptive, packet_len, recoverable);
            let outcome =
                run_whole(deploy_names(names, &device, launches(), of), settings, &inputs);
            let lost = lost(&outcome);
            assert!(outcome.report.part.packets.balanced(), "{what}");
            let mut expected = reference.sent.iter();
            for packet in &outcome.sent {
                assert!(expected.any(|other| other == packet), "{what}: in order, none twice");
            }
            let missing = reference.sent.len() - outcome.sent.len();
            assert!(missing as u64 <= lost, "{what}: {missing} are missing, {lost} lost");
            // Three launches of 64 packets under way at each of two stages, and what lies in a
            // queue between.
            assert!(lost <= 1200, "{what}: {lost} lost");
            assert!(!recoverable || lost == 0, "{what}: only fields come back");
            assert!(!reported(&outcome).is_empty(), "{what}");
            *lost_by += lost * u64::from(batch_packets == 1024);
        }
        // A device alone had fields of some packets. Each fault lost such packets.
        assert!(all_lost.values().all(|&lost| lost > 0), "{names:?}: {all_lost:?}");
    }
    assert!(chains > 0, "no chain leaves fields on a device");
}

/// A chain whose functions with `@` are on one device, those with `+` on another, and the others on
/// the CPU.
fn on_two(names: &[&str], [one, other]: [&Arc<dyn Device>; 2], plan: PlanOptions) -> Deployment {
    let bare: Vec<&str> = names.iter().map(|name| name.trim_start_matches(['@', '+'])).collect();
    let on = |place: usize| {
        let device = match names[place].as_bytes()[0] {
            b'@' => one,
            b'+' => other,
            _ => return None,
        };
        let (device, launches) = (Arc::clone(device), launches());
        Some(OnDevice { device, launches, is_required: true })
    };
    let mut deployment =
        try_deploy_on(&forms(&bare), &[], on).unwrap_or_else(|why| panic!("{why}"));
    deployment.set_plan(plan);
    deployment
}

/// Chains whose second device does something between two functions of the first: looks, changes,
/// leaves quotes in ICMP errors to the CPU.
const BETWEEN: &[&[&str]] = &[
    &["@digest-count", "@router-plain", "+firewall", "@digest-count"],
    &["@digest-count", "@router-plain", "+nat", "@digest-count"],
    &["@digest-count", "+digest-tag", "@router-plain"],
    &["@digest-count", "@router-plain", "+firewall", "@router-plain", "+digest-tag"],
    &["@open-pieces", "+firewall", "@digest-count"],
    &["@digest-count", "+open-pieces", "@router-plain"],
];

/// Whether it shares the host's memory or not, and whether it fails or not: what it does not do
/// costs no packet that the other has.
#[test]
fn packets_of_one_device_survive_the_loss_of_another() {
    let Some(host) = host() else { return };
    let others = devices();
    let others = others
        .iter()
        .filter(|other| ["host", "opencl:0-apart"].contains(&&*other.description().id));
    let apart = apart(&host);
    for (other, names) in others.flat_map(|other| BETWEEN.iter().map(move |names| (other, *names)))
    {
        let bare: Vec<&str> =
            names.iter().map(|name| name.trim_start_matches(['@', '+'])).collect();
        let bare = forms(&bare);
        // Another end took apart the datagrams that the gateway puts together.
        let opens = bare.iter().position(|form| form.name == "open-pieces").unwrap_or(0);
        let talk = Talk::new(71, 60, 900).take(500);
        let inputs = with_errors_again(traffic(&bare[opens..], talk, 73, 15));
        let settings = Settings { batch_packets: 64, slabs: 6, ..Settings::default() };
        let reference = run_forms(&bare, settings, &inputs).summary();
        for (mode, first) in MODES.into_iter().flat_map(|mode| [(mode, None), (mode, Some(3))]) {
            let refuse = Fault::Refuse(Failure::Work("no".into()));
            // Its tables, and kernels without a packet, come first.
            let first = first.map(|first: u64| first + loading(&bare));
            let script =
                move |number| first.is_some_and(|first| number >= first).then(|| refuse.clone());
            let faulty: Arc<dyn Device> = Arc::new(Faulty::new(Arc::clone(other), script));
            let deployment = on_two(names, [&apart, &faulty], plan(mode, 1400, false));
            let outcome = run_whole(deployment, settings, &inputs);
            let what = format!("{names:?}, {mode:?}, {} from {first:?} on", other.description().id);
            assert_same(&reference, &outcome.summary(), &what);
        }
    }
}
