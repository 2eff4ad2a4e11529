//! A device that costs nothing: what a lane does beside it is the engine's own work.
//!
//! Its works are done when they are asked for. Nothing is copied and no kernel runs; a launch's
//! tables come back as they went.

use std::collections::VecDeque;
use std::sync::Arc;

use warpline_device::fake::{Fake, Fate};
use warpline_device::{
    Buffer, Description, Device, Done, Failure, HostMemory, Module, Refused, Region, Source,
    Stream, Work,
};

/// See the module.
pub(crate) struct IdleDevice {
    memory: Fake,
}

impl IdleDevice {
    pub(crate) fn new() -> Self {
        Self { memory: Fake::new(|_| Fate::done_after(0)).with_memory(usize::MAX) }
    }
}

impl Device for IdleDevice {
    fn description(&self) -> &Description {
        self.memory.description()
    }

    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        self.memory.compile(source)
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.memory.allocate(bytes)
    }

    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        self.memory.register(memory)
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        Ok(Box::new(IdleStream { works: VecDeque::new() }))
    }
}

struct IdleStream {
    works: VecDeque<Work>,
}

impl Stream for IdleStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        self.works.push_back(work);
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        let work = self.works.pop_front()?;
        Some(Done { work, outcome: Ok(()) })
    }

    fn in_flight(&self) -> usize {
        self.works.len()
    }
}
