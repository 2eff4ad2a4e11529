//! A device that costs nothing: what a lane does beside it is the engine's own work.
//!
//! Its works are done when they are asked for. Nothing is copied and no kernel runs, but tables come back as they went, which
//! takes the lane a copy of a few hundred bytes for each packet.

use std::collections::VecDeque;
use std::sync::Arc;

use warpline_device::fake::{Fake, Fate};
use warpline_device::{
    Buffer, Description, Device, Done, Failure, HostMemory, Module, Refused, Region, Source, Step,
    Stream, Work,
};

/// See the module.
pub(super) struct IdleDevice {
    memory: Fake,
    /// Bytes of a batch's table, by which tables are known among what is copied. Packets' rooms are longer.
    table_len: usize,
}

impl IdleDevice {
    /// For batches whose tables have so many bytes.
    pub(super) fn new(table_len: usize) -> Self {
        let memory = Fake::new(|_| Fate::done_after(0)).with_memory(usize::MAX);
        Self { memory, table_len }
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
        Ok(Box::new(IdleStream { table_len: self.table_len, works: VecDeque::new() }))
    }
}

struct IdleStream {
    table_len: usize,
    works: VecDeque<Work>,
}

impl Stream for IdleStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        self.works.push_back(work);
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        let mut work = self.works.pop_front()?;
        return_tables(&mut work, self.table_len);
        Some(Done { work, outcome: Ok(()) })
    }

    fn in_flight(&self) -> usize {
        self.works.len()
    }
}

/// Copies the tables that a launch's work copies in to where it copies them out, in their order.
fn return_tables(work: &mut Work, table_len: usize) {
    let Work { pieces, steps } = work;
    let tables = steps.iter().filter_map(|step| match step {
        Step::CopyIn { from, to } if to.len() == table_len => Some(from),
        _ => None,
    });
    let back = steps.iter().filter_map(|step| match step {
        Step::CopyOut { to, .. } => Some(to),
        _ => None,
    });
    for (from, to) in tables.zip(back) {
        // The place where all of them go comes before them.
        let (before, behind) = pieces.split_at_mut(from.piece);
        before[to.piece][to.range.clone()].copy_from_slice(&behind[0][from.range.clone()]);
    }
}
