//! The kernels of functions beside their `run`, on every device of this machine.

#![deny(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a test names missing devices")]

mod compiled;
mod declared;
mod digest;
mod driver;
mod findings;
mod firewall;
mod flow_monitor;
#[path = "../../../engine/tests/common/form_files.rs"]
mod form_files;
#[path = "../../../engine/tests/common/forms.rs"]
#[allow(dead_code, reason = "the engine's tests have more uses for it")]
mod forms;
mod frames;
mod ipsec;
mod load_balancer;
mod nat;
mod nids;
mod nids_grams;
mod packed;
mod rooms;
mod router;
mod sanitizers;
#[path = "../../../engine/tests/common/sensor.rs"]
mod sensor;
mod side;
mod staged;
#[path = "../../../device/tests/stub/mod.rs"]
mod stub;
#[allow(unsafe_code)]
mod sys;
mod texts;

/// The same over stubs of CUDA. Where NVRTC is, tests by its PTX give the driver the same calls, so
/// few suffice here.
#[test]
fn kernels_are_the_same_over_stubs() {
    let Some(stubs) = stub::Stubs::build() else { return };
    // The stub of NVRTC compiles less than the compilers that refuse undeclared fields.
    let all = ["--skip", "over_stubs", "--skip", "sanitizers", "--skip", "undeclared"];
    let few = ["digest::", "nat::", "rooms::", "staged::"];
    let picked: &[&str] = if stub::nvrtc().is_some() { &few } else { &all };
    stubs.again(picked, &CUDA_ALONE);
}

const CUDA_ALONE: [(&str, &str); 1] = [("WARPLINE_ONLY_DEVICE", "cuda")];
/// Tests that don't run by PTX.
const NOT_BY_PTX: [&str; 6] = ["--skip", "over_stubs", "--skip", "sanitizers", "--skip", "compile"];

/// The same by the PTX that NVRTC makes of kernels. Of IPsec's suites, each in one form.
#[test]
fn kernels_are_the_same_over_stubs_by_ptx() {
    let Some(stubs) = stub::Stubs::build() else { return };
    let forms = ["--skip", "every_suite_and_form"];
    stubs.again_by_ptx(&[&NOT_BY_PTX[..], &forms].concat(), &CUDA_ALONE);
}

/// Items that race for memory of all groups are found: those of a launch whose lists take room
/// without an atomic.
#[test]
fn races_are_seen_over_stubs_by_ptx() {
    let Some(stubs) = stub::Stubs::build() else { return };
    stubs.races_are_seen(&["--exact", "findings::findings_are_those_of_run"], &CUDA_ALONE);
}

/// Tests by PTX find damage to it.
#[test]
fn damaged_kernels_are_seen_over_stubs_by_ptx() {
    let Some(stubs) = stub::Stubs::build() else { return };
    // IPsec's kernels are large, so copies of them run in one case only, which has every suite.
    let large = ["--skip", "ipsec::opening", "--skip", "ipsec::sealing"];
    stubs.mutants_are_seen(&[&NOT_BY_PTX[..], &large].concat(), &CUDA_ALONE);
}
