//! The devices that tests run on.

use std::sync::Arc;

use crate::{Device, find};

/// Every device of this machine, or those of the kind that `WARPLINE_ONLY_DEVICE` names; says which kinds are not there.
///
/// # Panics
/// One is not there that `WARPLINE_REQUIRE_DEVICES` names (`host,opencl`).
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub fn devices() -> Vec<Arc<dyn Device>> {
    let mut found = find();
    for (kind, why) in &found.missing {
        println!("skipped: {kind}: {why}");
    }
    let required = std::env::var("WARPLINE_REQUIRE_DEVICES").unwrap_or_default();
    for kind in required.split(',').filter(|kind| !kind.is_empty()) {
        let is_there = found.devices.iter().any(|one| one.description().id.starts_with(kind));
        assert!(is_there, "{kind} is required and not there");
    }
    // What is tried again over stubs was tried on the others.
    if let Ok(kind) = std::env::var("WARPLINE_ONLY_DEVICE") {
        found.devices.retain(|one| one.description().id.starts_with(&kind));
    }
    found.devices
}
