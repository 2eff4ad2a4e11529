//! A device that is another one but for its description or its streams.

use std::sync::Arc;

use crate::{
    Buffer, Description, Device, Failure, HostMemory, Loads, Module, Region, Source, Stream,
};

type Wrap = Box<dyn Fn(Box<dyn Stream>) -> Box<dyn Stream> + Send + Sync>;

/// See the module. Memory, kernels and works of both are the same.
pub struct Wrapped {
    inner: Arc<dyn Device>,
    description: Description,
    wrap: Wrap,
}

impl Wrapped {
    /// `inner` as it is.
    pub fn new(inner: &Arc<dyn Device>) -> Self {
        let description = inner.description().clone();
        Self { inner: Arc::clone(inner), description, wrap: Box::new(|stream| stream) }
    }

    /// The same with another description.
    #[must_use]
    pub fn described(self, description: Description) -> Self {
        Self { description, ..self }
    }

    /// The same with another name.
    #[must_use]
    pub fn called(mut self, id: &str) -> Self {
        self.description.id = id.into();
        self
    }

    /// The same with streams that `wrap` makes of the device's.
    #[must_use]
    pub fn with_streams(
        self,
        wrap: impl Fn(Box<dyn Stream>) -> Box<dyn Stream> + Send + Sync + 'static,
    ) -> Self {
        Self { wrap: Box::new(wrap), ..self }
    }

    /// It, for those that take any device.
    pub fn into_device(self) -> Arc<dyn Device> {
        Arc::new(self)
    }
}

impl Device for Wrapped {
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
    fn announce(&self, items: u64) {
        self.inner.announce(items);
    }
    fn loads(&self) -> Option<&Loads> {
        self.inner.loads()
    }
    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.inner.stream().map(&self.wrap)
    }
    fn graph_stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.inner.graph_stream().map(&self.wrap)
    }
}
