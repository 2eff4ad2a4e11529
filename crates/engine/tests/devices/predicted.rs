//! The prediction of a run follows from its plan and the launched packets alone, whatever is copied
//! in the end.

use warpline_device::apart;
use warpline_engine::stats::Transfers;
use warpline_engine::{PlanOptions, Settings, planned};
use warpline_packet::LinkType;
use warpline_sched::Mode;

use crate::common::frames::{Input, START_NANOS};
use crate::common::run::run_whole;
use crate::crossings::{default, deploy_names};
use crate::placed::host;

/// Bytes of all frames.
const LEN: usize = 1024;
const PACKETS: usize = 500;

const IPV4: u16 = 0x0800;
/// For experiments (IEEE 802, 12.2): no function knows it.
const NO_IP: u16 = 0x88b5;

/// Frames of this type. Where that is IPv4, they hold UDP without checksums, from a translator's
/// inside to a service.
fn frames(ethertype: u16) -> Vec<Input> {
    let mut bytes = vec![0; LEN];
    bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
    let len = (LEN - 14) as u16;
    bytes[14] = 0x45;
    bytes[16..18].copy_from_slice(&len.to_be_bytes());
    (bytes[22], bytes[23]) = (64, 17);
    bytes[26..34].copy_from_slice(&[10, 1, 0, 1, 192, 0, 2, 10]);
    bytes[34..40].copy_from_slice(&[0x13, 0x88, 0, 53, 0, 0]);
    bytes[38..40].copy_from_slice(&(len - 20).to_be_bytes());
    let sum: u32 =
        bytes[14..34].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    let input = |number: usize| Input {
        bytes: bytes.clone(),
        nanos: START_NANOS + 1000 * number as u64,
        wire_len: LEN as u32,
        link: LinkType::ETHERNET,
        interface: 0,
    };
    (0..PACKETS).map(input).collect()
}

/// Of a plan's step: bytes that the plan has, and what was counted.
struct StepBytes {
    planned: [f64; 2],
    counted: Transfers,
}

/// The steps of a run, and how many packets they had. Each function is a stage's only one.
fn steps(names: &[&str], mode: Mode, inputs: &[Input]) -> Option<Vec<StepBytes>> {
    let plan = PlanOptions { mode, packet_len: LEN as u32, ..PlanOptions::default() };
    let deployment = deploy_names(names, &apart(&host()?), default(), plan);
    let planned = planned(&deployment, plan);
    let made = planned.problem.plan(mode).expect("a link");
    let outcome = run_whole(deployment, Settings::default(), inputs);
    let functions = &outcome.report.part.functions;
    let of = |step: &warpline_sched::PlanStep| {
        let position = planned.positions[step.function].start;
        assert_eq!(functions[position].packets_in, inputs.len() as u64, "{names:?}");
        let planned = [step.to_device.bytes, step.to_host.bytes];
        StepBytes { planned, counted: functions[position].transfers }
    };
    Some(made.steps.iter().map(of).collect())
}

fn assert_near(one: f64, other: f64, what: &str) {
    assert!((one - other).abs() <= other / 100.0, "{what}: {one}, expected {other}");
}

fn check(names: &[&str], mode: Mode, inputs: &[Input]) -> Option<Vec<StepBytes>> {
    let steps = steps(names, mode, inputs)?;
    for (at, StepBytes { planned, counted }) in steps.iter().enumerate() {
        let predicted = [counted.predicted_to_device_bytes, counted.predicted_to_host_bytes];
        for (predicted, planned) in predicted.into_iter().zip(planned) {
            let what = format!("{names:?}, {mode:?}, step {at}, {counted:?}");
            assert_near(predicted as f64, planned * inputs.len() as f64, &what);
        }
    }
    Some(steps)
}

#[test]
fn the_plan_has_the_bytes_that_cross() {
    let inputs = frames(IPV4);
    for names in [
        &["@firewall"][..],
        &["@nat"],
        &["@router-plain"],
        &["@balancer-dnat"],
        &["@balancer-ipip"],
        &["@digest-count", "monitor", "@nat"],
        &["@digest-count", "router-plain", "@firewall"],
    ] {
        for mode in Mode::ALL {
            let Some(steps) = check(names, mode, &inputs) else { return };
            for StepBytes { counted, .. } in steps {
                assert!(counted.are_as_predicted(), "{names:?}, {mode:?}: {counted:?}");
            }
        }
    }
}

/// A gateway lets them by as they are: they come back shorter than the plan has it, and that shows.
#[test]
fn frames_that_stay_shorter_than_planned_change_no_prediction() {
    for names in [&["@seal"][..], &["@balancer-ipip"]] {
        let Some(steps) = check(names, Mode::ShareAll, &frames(NO_IP)) else { return };
        for StepBytes { counted, .. } in steps {
            let [there, back] = counted.on_the_way();
            assert_near(there as f64, counted.predicted_to_device_bytes as f64, names[0]);
            assert!(back < counted.predicted_to_host_bytes, "{names:?}: {counted:?}");
        }
    }
}
