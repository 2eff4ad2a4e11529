//! Whole frames that kernels carry: the packets are those of copies and the bytes as planned,
//! whatever the plan, and what fails is lost as it is there.

use std::sync::Arc;
use std::time::Duration;

use warpline_device::Device;
use warpline_device::fake::{Fake, Fate};
use warpline_engine::stats::Transfers;
use warpline_engine::{
    Control, FramesBy, LaunchOptions, PlanOptions, Ports, Settings, StartError, run,
};

use crate::common::ports::{Frames, SentFrames};
use crate::common::real::{forms, run_forms};
use crate::common::run::{Outcome, assert_same, reported, run_whole};
use crate::crossings::{CHAINS, bare, deploy_names, input_for, plans, with_errors_again};
use crate::placed::{copies, deploy_on, devices, devices_of_case};
use crate::same::PATIENCE;

/// Launches that are made of the same batches in every run.
fn steady() -> LaunchOptions {
    LaunchOptions {
        bytes: 20_000,
        delay: Duration::from_secs(100),
        sync: true,
        timeout: PATIENCE,
        ..LaunchOptions::default()
    }
}

fn transfers(outcome: &Outcome) -> Vec<&Transfers> {
    outcome.report.part.functions.iter().map(|function| &function.transfers).collect()
}

#[test]
fn packets_are_those_of_copies_and_bytes_as_planned() {
    let (mut carried_bytes, mut missing_bytes) = (0, 0);
    for (number, names) in CHAINS.iter().enumerate() {
        let inputs = with_errors_again(input_for(names, 200));
        let reference = run_forms(&bare(names), Settings::default(), &inputs).summary();
        for device in devices_of_case(number).iter().filter(|device| is_apart(device)) {
            // Some of the plans for each chain. Others than the host take longer to compile each.
            let each = if device.description().id.starts_with("host") { 2 } else { 4 };
            let first = names.concat().len() % each;
            for (number, plan) in plans().enumerate().skip(first).step_by(each) {
                let graphs = device.description().has_graphs && number.is_multiple_of(2);
                let launches = LaunchOptions { graphs, ..steady() };
                let settings = Settings {
                    batch_packets: [64, 7][number % 2],
                    // Ingress never has to hand over a batch that is not full for lack of room.
                    queue_batches: 128,
                    slabs: 6,
                    ..Settings::default()
                };
                let [copied, carried] = FramesBy::ALL.map(|frames_by| {
                    let plan = PlanOptions { frames_by, ..plan };
                    run_whole(deploy_names(names, device, launches, plan), settings, &inputs)
                });
                let what = format!("{names:?} on {}, {plan:?}", device.description().id);
                assert!(reported(&carried).is_empty(), "{what}: {:?}", reported(&carried));
                assert_same(&reference, &carried.summary(), &what);
                assert!(reported(&copied).is_empty(), "{what}: {:?}", reported(&copied));
                let launches = |outcome: &Outcome| -> Vec<u64> {
                    transfers(outcome).iter().map(|own| own.launches).collect()
                };
                assert_eq!(launches(&copied), launches(&carried), "{what}");
                for own in transfers(&carried) {
                    carried_bytes += own.frames_to_device_bytes.min(own.frames_to_host_bytes);
                    missing_bytes += own.missing_bytes;
                }
            }
        }
    }
    assert!(devices().is_empty() || carried_bytes > 0 && missing_bytes > 0);
}

/// Whether it has a memory of its own.
fn is_apart(device: &Arc<dyn Device>) -> bool {
    copies(device) && !device.description().shares_host_memory
}

/// Launches beside each other, on lanes beside each other.
#[test]
fn packets_are_the_same_whatever_is_under_way_at_once() {
    let names = ["@open", "router-plain", "@router-plain", "monitor", "@digest-count"];
    let inputs = input_for(&names, 800);
    let reference = run_forms(&bare(&names), Settings::default(), &inputs).summary();
    for (number, plan) in plans().enumerate().step_by(3) {
        for device in devices_of_case(number / 3).iter().filter(|device| is_apart(device)) {
            let plan = PlanOptions { frames_by: FramesBy::Kernels, ..plan };
            let launches =
                LaunchOptions { bytes: 4000, timeout: PATIENCE, ..LaunchOptions::default() };
            let settings = Settings {
                lanes: 1 + number % 3,
                batch_packets: 16,
                slabs: 6,
                ..Settings::default()
            };
            let outcome =
                run_whole(deploy_names(&names, device, launches, plan), settings, &inputs);
            let what = format!("{}, {plan:?}", device.description().id);
            assert!(reported(&outcome).is_empty(), "{what}: {:?}", reported(&outcome));
            assert_same(&reference, &outcome.summary(), &what);
        }
    }
}

/// A device that works in the lanes' memory has nothing carried.
#[test]
fn in_place_nothing_is_carried() {
    let names = ["@router-plain"];
    let inputs = input_for(&names, 300);
    let reference = run_forms(&bare(&names), Settings::default(), &inputs).summary();
    for device in devices().iter().filter(|device| !copies(device)) {
        let plan = PlanOptions { frames_by: FramesBy::Kernels, ..PlanOptions::default() };
        let outcome =
            run_whole(deploy_names(&names, device, steady(), plan), Settings::default(), &inputs);
        assert_same(&reference, &outcome.summary(), &device.description().id);
        assert_eq!(outcome.report.part.transfers.to_device_bytes, 0);
    }
}

#[test]
fn a_device_that_does_not_reach_the_host_is_reported_at_the_start() {
    // It knows no region that its kernels reach.
    let device: Arc<dyn Device> = Arc::new(Fake::new(|_| Fate::done_after(0)));
    for frames_by in FramesBy::ALL {
        let mut deployment = deploy_on(&forms(&["router-plain"]), &device, steady());
        deployment.set_plan(PlanOptions { frames_by, ..PlanOptions::default() });
        let reported = deployment.try_frames();
        if frames_by == FramesBy::Copies {
            assert_eq!(reported, Ok(()));
            continue;
        }
        let Err(StartError::Device(name, why)) = &reported else { panic!("{reported:?}") };
        assert_eq!(name, "0-router-plain");
        assert!(why.to_string().contains("fake does not reach the host's memory"), "{why}");
        let ports = Ports::Shared(Box::new(Frames::default()), Box::new(SentFrames::default()));
        let refused = run(&deployment, &Settings::default(), ports, &Control::default());
        assert_eq!(refused.err(), reported.err());
    }
}
