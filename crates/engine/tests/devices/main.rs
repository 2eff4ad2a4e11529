//! Chains with functions on devices: I1, I2, I3 wherever functions run, and I7 whatever fails.

#[path = "../common/mod.rs"]
mod common;

mod beside;
mod between;
mod carried;
mod crossings;
mod cuda;
mod deadlines;
mod demand;
mod drops;
mod failures;
mod findings;
mod keys;
mod late;
mod launch_sizes;
mod leftovers;
mod load;
mod moves;
mod one_lane;
mod placed;
mod plans;
mod predicted;
mod pressure;
mod reported;
mod routed;
mod same;
mod scripted;
#[path = "../../../device/tests/stub/mod.rs"]
mod stub;
mod tenants;
mod two_places;
mod versions;

use warpline_engine::sys::HugeAlloc;

/// As in the program. Tables of routes and arenas are large.
#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

/// Repeats the tests that use this machine's devices, over stubs of CUDA.
#[test]
fn chains_are_the_same_over_stubs() {
    let Some(stubs) = stub::Stubs::build() else { return };
    let mut picked = vec![
        "same::",
        "failures::",
        "reported::",
        "drops::",
        "findings::findings",
        "two_places::",
        "moves::a_chain",
    ];
    // Where NVRTC is, these run by its PTX.
    if stub::nvrtc().is_none() {
        picked.push("carried::");
    }
    stubs.again(&picked, &[("WARPLINE_ONLY_DEVICE", "cuda")]);
    stubs.again(&["beside::"], &[]);
}

/// Chains whose frames kernels carry, by the PTX that NVRTC makes.
#[test]
fn carried_frames_are_the_same_over_stubs_by_ptx() {
    let Some(stubs) = stub::Stubs::build() else { return };
    stubs.again_by_ptx(&["carried::"], &[("WARPLINE_ONLY_DEVICE", "cuda")]);
}
