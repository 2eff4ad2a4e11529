//! Devices for the tests, and chains whose functions are on them.

use std::sync::Arc;

use warpline_device::{Device, find};
use warpline_engine::{Chain, LaunchOptions, OnDevice};

use crate::common::forms::Form;
use crate::common::real::try_chain_on;
use crate::common::run::Outcome;

/// Every device of this machine. With `WARPLINE_REQUIRE_DEVICES=host,opencl` those kinds must be there.
pub(crate) fn devices() -> Vec<Arc<dyn Device>> {
    let found = find();
    for (kind, why) in &found.missing {
        println!("skipped: {kind}: {why}");
    }
    let required = std::env::var("WARPLINE_REQUIRE_DEVICES").unwrap_or_default();
    for kind in required.split(',').filter(|kind| !kind.is_empty()) {
        let is_there = found.devices.iter().any(|one| one.description().id.starts_with(kind));
        assert!(is_there, "{kind} is required and not there");
    }
    found.devices
}

/// The reference device, where there is a compiler for it.
pub(crate) fn host() -> Option<Arc<dyn Device>> {
    devices().into_iter().find(|device| device.description().id == "host")
}

/// A chain of `forms`, each that has kernels on `device`.
pub(crate) fn chain_on(forms: &[Form], device: &Arc<dyn Device>, launches: LaunchOptions) -> Chain {
    let on = |_| Some(OnDevice { device: Arc::clone(device), launches, is_required: true });
    try_chain_on(forms, &[], on).unwrap_or_else(|why| panic!("{why}"))
}

/// A function that has kernels, by the name of a form.
pub(crate) fn has_kernels(form: &Form, device: &Arc<dyn Device>) -> bool {
    chain_on(&[*form], device, LaunchOptions::default()).instances[0].on_device.is_some()
}

/// What was told of devices that failed.
pub(crate) fn told(outcome: &Outcome) -> Vec<&str> {
    let all = outcome.report.part.warnings.iter().map(String::as_str);
    all.filter(|warning| warning.contains("went on on the CPU")).collect()
}
