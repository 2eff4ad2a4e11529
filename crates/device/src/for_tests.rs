//! The devices that tests run on.

use std::sync::Arc;

use crate::{Device, find};

/// Every device of this machine, or those of the kind in `WARPLINE_ONLY_DEVICE`. Prints which kinds
/// are missing.
///
/// # Panics
/// A device in `WARPLINE_REQUIRE_DEVICES` (`host,opencl`) is missing.
#[expect(clippy::print_stdout, reason = "a skipped test prints its reason")]
pub fn devices() -> Vec<Arc<dyn Device>> {
    let mut found = find();
    for (kind, why) in &found.missing {
        println!("skipped: {kind}: {why}");
    }
    let required = std::env::var("WARPLINE_REQUIRE_DEVICES").unwrap_or_default();
    for kind in required.split(',').filter(|kind| !kind.is_empty()) {
        let is_there = found.devices.iter().any(|one| one.description().id.starts_with(kind));
        assert!(is_there, "{kind} is required but missing");
    }
    // Tests over stubs already ran on the other devices.
    if let Ok(kind) = std::env::var("WARPLINE_ONLY_DEVICE") {
        found.devices.retain(|one| one.description().id.starts_with(&kind));
    }
    found.devices
}
