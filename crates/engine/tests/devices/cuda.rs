//! Chains on CUDA's devices as a stub of the driver shows them: several, integrated ones, and
//! memory that can't be locked.

use std::sync::Arc;

use warpline_device::Device;
use warpline_engine::Settings;

use crate::beside::{CHAIN, LAUNCHES, check_pair};
use crate::common::real::{forms, run_forms, traffic};
use crate::common::run::{assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::placed::{deploy_on, devices};
use crate::stub::Stubs;

/// Set in the program that runs over the stubs, to the case.
const ROLE: &str = "WARPLINE_STUB_CHAIN_ROLE";

#[test]
fn cuda_devices_of_any_kind_are_the_same_over_stubs() {
    match std::env::var(ROLE).as_deref() {
        Ok("kinds") => return each_pair(),
        Ok(_) => return unlocked_memory_is_reported(),
        Err(_) => {}
    }
    let Some(stubs) = Stubs::build() else { return };
    let here = ["--exact", "cuda::cuda_devices_of_any_kind_are_the_same_over_stubs"];
    let kinds = ("STUB_DEVICES", "discrete,integrated,discrete,unmapped");
    stubs.again(&here, &[(ROLE, "kinds"), kinds]);
    let fault = ("STUB_FAIL", "cuMemHostRegister_v2:-1:801");
    stubs.again(&here, &[(ROLE, "unlocked"), fault]);
}

/// Two devices lock one lane's memory, in both orders; what the plan has cross is what crosses.
fn each_pair() {
    let mut all = devices();
    all.retain(|device| !device.description().id.ends_with("-apart"));
    assert_eq!(all.len(), 5, "CUDA's four and the host");
    let forms = forms(CHAIN);
    let inputs = traffic(&forms, Talk::new(23, 40, 1400).take(400), 29, 15);
    let reference = run_forms(&forms, Settings::default(), &inputs).summary();
    for [first, second] in [[0, 2], [0, 1], [1, 2], [1, 1], [4, 1], [3, 0]] {
        check_pair(&forms, &inputs, &reference, [&all[first], &all[second]]);
    }
}

fn unlocked_memory_is_reported() {
    let mut all = devices().into_iter();
    let device: Arc<dyn Device> = all.find(|one| one.description().id == "cuda:0").expect("one");
    let forms = forms(CHAIN);
    let inputs = traffic(&forms, Talk::new(31, 40, 1400).take(400), 37, 15);
    let reference = run_forms(&forms, Settings::default(), &inputs).summary();
    let settings = Settings { lanes: 2, batch_packets: 64, slabs: 4, ..Settings::default() };
    let outcome = run_whole(deploy_on(&forms, &device, LAUNCHES), settings, &inputs);
    assert_same(&reference, &outcome.summary(), "copied without being locked");
    let reported = reported(&outcome);
    let is_meant =
        |warning: &&str| warning.contains("cuda:0") && warning.contains("can't be locked");
    assert!(!reported.is_empty() && reported.iter().all(is_meant), "{reported:?}");
}
