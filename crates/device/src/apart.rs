//! A device that shares the host's memory, used as if it had its own: packets are copied to it and
//! back. It stands in for a discrete GPU, so that every copy can be run and counted on any machine.

use std::sync::Arc;

use crate::{Device, Wrapped};

/// The id of `device` as one with a memory of its own.
pub fn apart_id(id: &str) -> String {
    format!("{id}-apart")
}

/// `device` as one with a memory of its own. One that has such is given as it is.
pub fn apart(device: &Arc<dyn Device>) -> Arc<dyn Device> {
    if !device.description().shares_host_memory {
        return Arc::clone(device);
    }
    let mut description = device.description().clone();
    description.id = apart_id(&description.id);
    description.shares_host_memory = false;
    Wrapped::new(device).described(description).into_device()
}
