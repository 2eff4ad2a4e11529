//! Devices for the tests, and chains whose functions are on them.

use std::sync::Arc;

use warpline_device::Device;
pub(crate) use warpline_device::devices_for_tests as devices;
use warpline_engine::{Chain, LaunchOptions, OnDevice};
use warpline_nf::definition;

use crate::common::forms::Form;
use crate::common::real::try_chain_on;
use crate::common::run::Outcome;

/// The reference device, where there is a compiler for it.
pub(crate) fn host() -> Option<Arc<dyn Device>> {
    devices().into_iter().find(|device| device.description().id == "host")
}

/// A chain of `forms`, each that has kernels on `device`.
pub(crate) fn chain_on(forms: &[Form], device: &Arc<dyn Device>, launches: LaunchOptions) -> Chain {
    let on = |_| Some(OnDevice { device: Arc::clone(device), launches, is_required: true });
    try_chain_on(forms, &[], on).unwrap_or_else(|why| panic!("{why}"))
}

/// Whether the function of a form has kernels.
pub(crate) fn has_kernels(form: &Form) -> bool {
    definition(form.function).is_some_and(|definition| definition.has_kernels)
}

/// What was told of devices that failed.
pub(crate) fn told(outcome: &Outcome) -> Vec<&str> {
    let all = outcome.report.part.warnings.iter().map(String::as_str);
    all.filter(|warning| warning.contains("went on on the CPU")).collect()
}
