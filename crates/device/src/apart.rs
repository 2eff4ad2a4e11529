//! A device that shares the host's memory, used as if it had its own: packets are copied to it and
//! back. It stands in for a discrete GPU, so that every copy can be run and counted on any machine.

use std::sync::Arc;

use crate::{Buffer, Description, Device, Failure, HostMemory, Module, Region, Source, Stream};

/// See the module. Its name ends with `-apart` after that of the device.
struct Apart {
    inner: Arc<dyn Device>,
    description: Description,
}

/// What `device` is called as one with a memory of its own.
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
    Arc::new(Apart { inner: Arc::clone(device), description })
}

impl Device for Apart {
    fn description(&self) -> &Description {
        &self.description
    }
    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        self.inner.compile(source)
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.inner.allocate(bytes)
    }
    fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.inner.allocate_zeroed(bytes)
    }
    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        self.inner.register(memory)
    }
    fn shared_memory(&self, bytes: usize) -> Option<Arc<dyn HostMemory>> {
        self.inner.shared_memory(bytes)
    }
    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.inner.stream()
    }
    fn graph_stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.inner.graph_stream()
    }
}
