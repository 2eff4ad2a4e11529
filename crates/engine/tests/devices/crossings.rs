//! Chains whose fields cross to devices and back by every plan: the packets are those of the CPU,
//! the bytes those of the plan, whatever the CPU's functions between do to packets that a mirror
//! has.

use std::sync::Arc;

use warpline_device::faulty::{Fault, Faulty};
use warpline_device::{Device, Failure, apart};
use warpline_engine::{
    Deployment, FramesBy, LaunchOptions, OnDevice, PlanOptions, Settings, Streams,
};
use warpline_packet::LinkType;
use warpline_sched::Mode;

use crate::common::forms::Form;
use crate::common::frames::Input;
use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, assert_same, reported, run_whole};
use crate::common::talk::{Talk, without_flows};
use crate::failures::{launches, loading};
use crate::placed::{copies, devices_of_case, host};
use crate::same::{PATIENCE, SMALL};

/// A chain: of its names those that begin with `@` are on the device, the others on the CPU.
pub(crate) fn deploy_names(
    names: &[&str],
    device: &Arc<dyn Device>,
    launches: LaunchOptions,
    plan: PlanOptions,
) -> Deployment {
    let on = |place: usize| {
        let device = Arc::clone(device);
        names[place].starts_with('@').then_some(OnDevice { device, launches, is_required: true })
    };
    let mut deployment = try_deploy_on(&bare(names), &[], on).unwrap_or_else(|why| panic!("{why}"));
    deployment.set_plan(plan);
    deployment
}

pub(crate) fn bare(names: &[&str]) -> Vec<Form> {
    let bare: Vec<&str> = names.iter().map(|name| name.trim_start_matches('@')).collect();
    forms(&bare)
}

pub(crate) fn input_for(names: &[&str], packets: usize) -> Vec<Input> {
    // Another end makes packets for the first function that takes off what that put on.
    let opens = names.iter().position(|name| name.ends_with("open-pieces")).unwrap_or(0);
    traffic(&bare(&names[opens..]), Talk::new(71, 60, 1400).take(packets), 73, 15)
}

/// The same with the ICMP errors among them often enough that a digest names their payloads, which
/// quote packets and are changed where those are.
pub(crate) fn with_errors_again(mut inputs: Vec<Input>) -> Vec<Input> {
    let is_error = |input: &&Input| {
        let at = |at: usize| input.bytes.get(at).copied();
        let is_icmp = [12, 13, 14, 23].map(at) == [8, 0, 0x45, 1].map(Some);
        input.link == LinkType::ETHERNET && is_icmp && matches!(at(34), Some(3 | 11 | 12))
    };
    let nanos = inputs.last().map_or(0, |last| last.nanos);
    let errors: Vec<Input> = inputs.iter().filter(is_error).cloned().collect();
    let errors = without_flows(&errors);
    let again = errors.into_iter().flat_map(|error| vec![Input { nanos, ..error }; 8]);
    inputs.extend(again);
    inputs
}

/// Chains in which packets stay in a mirror while the CPU changes, makes, drops, or opens some.
pub(crate) const CHAINS: &[&[&str]] = &[
    &["@digest-count", "monitor", "@digest-count"],
    &["@digest-count", "router", "@digest-count"],
    &["@open", "router-plain", "@digest-count"],
    &["@digest-count", "nat", "@router-plain", "@digest-count"],
    &["@nat", "firewall", "@digest-count", "router-plain", "@router-plain"],
    &["@digest-count", "open", "@digest-count", "@router"],
    &["@digest-count", "router-plain", "@seal"],
    &["@open-pieces", "monitor", "@digest-count"],
    &["@digest-count", "open-pieces", "@digest-count"],
    &["@digest-count", "@open-pieces", "router-plain", "@digest-count"],
];

pub(crate) fn default() -> LaunchOptions {
    LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() }
}

pub(crate) fn plans() -> impl Iterator<Item = PlanOptions> {
    let lens = [64, 1400];
    let of = |mode, packet_len| PlanOptions { mode, packet_len, ..PlanOptions::default() };
    lens.into_iter().flat_map(move |packet_len| Mode::ALL.map(|mode| of(mode, packet_len)))
}

#[test]
fn packets_that_a_mirror_keeps_are_the_same_by_every_plan() {
    for (number, names) in CHAINS.iter().enumerate() {
        let inputs = with_errors_again(input_for(names, 400));
        let reference = run_forms(&bare(names), Settings::default(), &inputs).summary();
        for device in devices_of_case(number).iter().filter(|device| copies(device)) {
            // Others take longer to compile each.
            let each = if device.description().id.starts_with("host") { 1 } else { 4 };
            for (number, plan) in plans().enumerate().step_by(each) {
                let deployment = deploy_names(names, device, default(), plan);
                let batch_packets = [256, 7, 64][number % 3];
                let settings = Settings {
                    lanes: 1 + number % 2,
                    batch_packets,
                    slabs: 6,
                    ..Settings::default()
                };
                let outcome = run_whole(deployment, settings, &inputs);
                let what = format!("{names:?} on {}, {plan:?}", device.description().id);
                assert_same(&reference, &outcome.summary(), &what);
            }
        }
    }
}

/// Launches are over in any order, some long after others that began later, and a mirror's packets
/// are still those of the host.
#[test]
fn mirrors_live_through_any_order_of_completion() {
    let Some(host) = host() else { return };
    let few = LaunchOptions { bytes: 2000, streams: Streams::Count(6), ..default() };
    for (number, names) in CHAINS.iter().enumerate() {
        let inputs = input_for(names, 600);
        let reference = run_forms(&bare(names), Settings::default(), &inputs).summary();
        // Two of three finish late, after any number of polls up to forty.
        let late = move |work: u64| {
            let any = (work + 100 * number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            (!any.is_multiple_of(3)).then_some(Fault::Late((any / 3 % 40) as u32))
        };
        let device: Arc<dyn Device> = Arc::new(Faulty::new(apart(&host), late));
        let frames_by = FramesBy::ALL[number % 2];
        let plan = PlanOptions { packet_len: 64, frames_by, ..adaptive() };
        let deployment = deploy_names(names, &device, few, plan);
        let settings = Settings { batch_packets: 7, lanes: 1 + number % 2, ..Settings::default() };
        let outcome = run_whole(deployment, settings, &inputs);
        assert_same(&reference, &outcome.summary(), &format!("{names:?}"));
        assert!(outcome.report.part.transfers.launches > 20, "{names:?}");
    }
}

/// Bytes that crossed for the functions of a run, there and back, which are what was planned.
fn moved(names: &[&str], plan: PlanOptions, inputs: &[Input]) -> Option<Vec<[u64; 2]>> {
    let device = apart(&host()?);
    let outcome =
        run_whole(deploy_names(names, &device, default(), plan), Settings::default(), inputs);
    assert!(reported(&outcome).is_empty(), "{names:?}, {plan:?}: {:?}", reported(&outcome));
    let functions = &outcome.report.part.functions;
    let of = functions.iter().map(|function| &function.transfers);
    assert!(of.clone().all(|own| own.are_as_predicted()), "{names:?}, {plan:?}");
    Some(of.map(|own| [own.to_device_bytes, own.to_host_bytes]).collect())
}

/// Frames that hold UDP in IPv4, so long each, all of which go on.
fn long_frames(count: usize, len: usize) -> Vec<Input> {
    let talk = Talk::new(3, 40, len).take(count);
    traffic(&bare(&["digest-count"]), talk, 5, 0)
}

fn adaptive() -> PlanOptions {
    PlanOptions { packet_len: 1400, ..PlanOptions::default() }
}

#[test]
fn a_router_is_sent_fields_and_no_frames() {
    let inputs = long_frames(1000, 1400);
    let bytes: u64 = inputs.iter().map(|input| input.bytes.len() as u64).sum();
    let of = |mode| moved(&["@router-plain"], PlanOptions { mode, ..adaptive() }, &inputs);
    let Some(whole) = of(Mode::ShareAll) else { return };
    assert!(whole[0].iter().all(|&moved| moved > bytes), "{whole:?}, frames have {bytes}");
    for mode in [Mode::Adaptive, Mode::Local, Mode::PerNf] {
        let [there, back] = of(mode).expect("the same device")[0];
        assert!(
            4 * there < whole[0][0] && 8 * back < whole[0][1],
            "{mode:?}: {there}, {back}, {whole:?}"
        );
    }
}

/// A translator changes payloads of few packets, those that quote others: their rooms alone cross
/// again.
#[test]
fn a_payload_goes_to_the_device_once() {
    let inputs = long_frames(1000, 1400);
    // A translator's fields are as many as tens of bytes.
    for (between, times) in [("router-plain", 5), ("nat", 2), ("balancer-dnat", 2)] {
        let names = ["@digest-count", between, "@digest-count"];
        let Some(kept) = moved(&names, adaptive(), &inputs) else { return };
        let again = PlanOptions { mode: Mode::PerNf, ..adaptive() };
        let again = moved(&names, again, &inputs).expect("the same device");
        // Each launch has shapes of its own, and the clock decides how many launches there are.
        let [one, other] = [kept[0][0], again[0][0]];
        assert!(one.abs_diff(other) < one / 100, "{between}: {one} and {other}");
        assert!(
            kept[2][0] * times < again[2][0],
            "{between}: {kept:?}, and each for itself {again:?}"
        );
    }
}

/// Nothing of the host's is written until all fields are back. So whatever fails, the CPU has all
/// that it needs.
#[test]
fn the_cpu_repeats_a_failed_launch_that_copies_fields_only() {
    let Some(host) = host() else { return };
    let faults = [
        Fault::Fail(Failure::Work("no".into())),
        Fault::Fail(Failure::Lost("it fell off the bus".into())),
        Fault::Hang,
    ];
    for names in [&["@router-plain"][..], &["@digest-count", "router-plain", "@digest-count"]] {
        let inputs = input_for(names, 800);
        let reference = run_forms(&bare(names), Settings::default(), &inputs).summary();
        for (fault, first) in faults.iter().flat_map(|fault| [0, 1, 9].map(|first| (fault, first)))
        {
            let first = first + loading(&bare(names)) + 2;
            let fault = fault.clone();
            let script = move |number| (number >= first).then(|| fault.clone());
            let device: Arc<dyn Device> = Arc::new(Faulty::new(apart(&host), script));
            let settings = Settings { batch_packets: 64, ..Settings::default() };
            let deployment = deploy_names(names, &device, launches(), adaptive());
            let outcome: Outcome = run_whole(deployment, settings, &inputs);
            assert_same(&reference, &outcome.summary(), &format!("{names:?} from {first} on"));
            assert!(!reported(&outcome).is_empty(), "{names:?} from {first} on");
        }
    }
}
