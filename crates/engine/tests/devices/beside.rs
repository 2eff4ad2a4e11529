//! I2 for a chain whose functions are on two devices, among them two of OpenCL. PoCL shows two if
//! it is configured so.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use warpline_device::Device;
use warpline_engine::{LaunchOptions, OnDevice, Settings, Streams};

use crate::common::forms::Form;
use crate::common::frames::Input;
use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Summary, assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::placed::{copies, devices};
use crate::same::PATIENCE;

/// The devices that PoCL shows. It reads this variable when it is loaded, so only a new process can
/// set it.
const SHOWN: (&str, &str) = ("POCL_DEVICES", "pthread basic");

#[test]
fn functions_on_two_devices_are_the_same() {
    if std::env::var(SHOWN.0).is_ok_and(|shown| shown == SHOWN.1) {
        return each_pair();
    }
    let own = "beside::functions_on_two_devices_are_the_same";
    let mut again = Command::new(std::env::current_exe().expect("this test"));
    let again = again.env(SHOWN.0, SHOWN.1).args(["--exact", own, "--nocapture"]);
    assert!(again.status().expect("a test that starts").success());
}

/// One writes frames, the next only reads them, the last makes them longer.
pub(crate) const CHAIN: &[&str] = &["router-plain", "digest-count", "seal"];

/// Small ones: lanes with little memory start sooner.
pub(crate) const LAUNCHES: LaunchOptions = LaunchOptions {
    bytes: 64 << 10,
    delay: Duration::from_micros(100),
    streams: Streams::Count(2),
    sync: false,
    graphs: false,
    timeout: PATIENCE,
    lanes: usize::MAX,
};

/// The chain's functions in turn on one device and another. Nothing is copied between those that
/// share the host's memory.
fn each_pair() {
    // Platforms of OpenCL share no memory with each other.
    let is_meant = |about: &str| about.contains("PoCL") || !about.contains("OpenCL");
    let mut all = devices();
    all.retain(|device| is_meant(&device.description().driver));
    let of_pocl = all.iter().filter(|device| device.description().id.starts_with("opencl")).count();
    assert!([0, 4].contains(&of_pocl), "two, each also as one with a memory of its own: {of_pocl}");
    let forms = forms(CHAIN);
    let inputs = traffic(&forms, Talk::new(17, 40, 1400).take(800), 19, 15);
    let reference = run_forms(&forms, Settings::default(), &inputs).summary();
    for (first, second) in pairs(&all) {
        check_pair(&forms, &inputs, &reference, [first, second]);
    }
}

/// The chain's functions in turn on two devices, as the operator would see it.
pub(crate) fn check_pair(
    forms: &[Form],
    inputs: &[Input],
    reference: &Summary,
    [first, second]: [&Arc<dyn Device>; 2],
) {
    let on = |place: usize| {
        let device = Arc::clone(if place.is_multiple_of(2) { first } else { second });
        Some(OnDevice { device, launches: LAUNCHES, is_required: true })
    };
    for lanes in [1, 2] {
        let [one, other] = [first, second].map(|device| &device.description().id);
        let what = format!("{CHAIN:?} on {one} and {other}, {lanes} lanes");
        let deployment = try_deploy_on(forms, &[], on).expect("a chain");
        let settings = Settings { lanes, batch_packets: 64, slabs: 4, ..Settings::default() };
        let outcome = run_whole(deployment, settings, inputs);
        assert!(reported(&outcome).is_empty(), "{what}: {:?}", reported(&outcome));
        let bytes = outcome.report.part.transfers.to_device_bytes;
        assert_eq!(bytes > 0, copies(first) || copies(second), "{what}");
        assert_same(reference, &outcome.summary(), &what);
    }
}

/// Each device that works in place, with each other device. The chain goes from either to the
/// other.
fn pairs(all: &[Arc<dyn Device>]) -> impl Iterator<Item = (&Arc<dyn Device>, &Arc<dyn Device>)> {
    let with = |first| all.iter().map(move |second| (first, second));
    let in_place = all.iter().filter(|device| !copies(device));
    in_place.flat_map(with).filter(|(first, second)| !Arc::ptr_eq(first, second))
}
