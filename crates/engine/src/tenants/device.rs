//! A shared device as one tenant uses it.

use std::sync::Arc;

use warpline_device::{
    Buffer, Description, Device, Failure, HostMemory, Loads, Module, Region, Source, Stream,
};

use super::gate::Seat;
use super::stream::SeatStream;

/// See the module. It has the name of the device.
pub(super) struct SeatDevice {
    inner: Arc<dyn Device>,
    seat: Seat,
}

impl SeatDevice {
    pub(super) fn new(inner: Arc<dyn Device>, seat: Seat) -> Self {
        Self { inner, seat }
    }

    /// Memory of the quota. If the device has less, the quota keeps it.
    fn take(
        &self,
        bytes: usize,
        allocate: impl FnOnce() -> Result<Buffer, Failure>,
    ) -> Result<Buffer, Failure> {
        let taken = self.seat.take_memory(bytes as u64)?;
        Ok(allocate()?.keeping(Arc::new(taken)))
    }
}

impl Device for SeatDevice {
    fn description(&self) -> &Description {
        self.inner.description()
    }
    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        self.inner.compile(source)
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.take(bytes, || self.inner.allocate(bytes))
    }
    fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.take(bytes, || self.inner.allocate_zeroed(bytes))
    }
    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        self.inner.register(memory)
    }
    fn shared_memory(&self, bytes: usize) -> Option<Arc<dyn HostMemory>> {
        self.inner.shared_memory(bytes)
    }
    fn announce(&self, items: u64) {
        self.seat.arrived(items);
    }
    fn loads(&self) -> Option<&Loads> {
        self.inner.loads()
    }
    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        let inner = self.inner.stream()?;
        Ok(Box::new(SeatStream::open(inner, self.seat.clone())))
    }
    fn graph_stream(&self) -> Result<Box<dyn Stream>, Failure> {
        let inner = self.inner.graph_stream()?;
        Ok(Box::new(SeatStream::open(inner, self.seat.clone())))
    }
}
