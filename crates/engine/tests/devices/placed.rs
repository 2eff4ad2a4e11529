//! Devices for the tests, and chains whose functions are on them.

use std::sync::Arc;

use warpline_device::Device;
use warpline_device::{apart, devices_for_tests};
use warpline_engine::{Deployment, LaunchOptions, OnDevice};
use warpline_functions::definition;

use crate::common::forms::Form;
use crate::common::real::try_deploy_on;

/// Every device of this machine; one that shares the host's memory once more, as one that doesn't.
pub(crate) fn devices() -> Vec<Arc<dyn Device>> {
    let mut all = devices_for_tests();
    let sharing = all.iter().filter(|device| device.description().shares_host_memory);
    let apart: Vec<_> = sharing.map(apart).collect();
    all.extend(apart);
    all
}

/// The devices for one of several cases that differ little. OpenCL's programs take a second each to
/// compile, so it works in place in one case of three, and with copies in another.
pub(crate) fn devices_of_case(number: usize) -> Vec<Arc<dyn Device>> {
    let shares = [Some(true), Some(false), None][number % 3];
    let mut all = devices();
    all.retain(|device| {
        let about = device.description();
        !about.id.starts_with("opencl") || shares == Some(about.shares_host_memory)
    });
    all
}

/// Whether packets are copied to the device and back. OpenCL's works in place where it shares
/// single bytes, CUDA's in any memory that it locks.
pub(crate) fn copies(device: &Arc<dyn Device>) -> bool {
    let about = device.description();
    let is_in_any = about.id == "host" || about.id.starts_with("cuda:");
    !(about.shares_host_memory && (is_in_any || device.shared_memory(1).is_some()))
}

/// The reference device, where there is a compiler for it.
pub(crate) fn host() -> Option<Arc<dyn Device>> {
    devices().into_iter().find(|device| device.description().id == "host")
}

/// A chain of `forms`, each that has kernels on `device`.
pub(crate) fn deploy_on(
    forms: &[Form],
    device: &Arc<dyn Device>,
    launches: LaunchOptions,
) -> Deployment {
    let on = |_| Some(OnDevice { device: Arc::clone(device), launches, is_required: true });
    try_deploy_on(forms, &[], on).unwrap_or_else(|why| panic!("{why}"))
}

/// Whether the function of a form has kernels.
pub(crate) fn has_kernels(form: &Form) -> bool {
    definition(form.function).is_some_and(|definition| definition.has_kernels)
}
