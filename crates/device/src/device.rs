//! The two traits: a [`Device`] compiles, allocates and opens [`Stream`]s, which do work.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::{
    Buffer, Done, Failure, HostMemory, Loads, Module, Piece, Refused, Region, Source, Work,
};

/// A place where kernels run.
pub trait Device: Send + Sync {
    /// Its description.
    fn description(&self) -> &Description;

    /// Compiles kernels from text; may take seconds the first time. The result is cached on disk.
    ///
    /// # Errors
    /// [`Failure::Compile`] with the log, [`Failure::NoCompiler`], or the device's.
    fn compile(&self, source: &Source) -> Result<Module, Failure>;

    /// Takes `bytes` of the device's memory, at least one.
    ///
    /// # Errors
    /// [`Failure::OutOfMemory`], or another failure of the device.
    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure>;

    /// Takes memory as `allocate` does, zeroed if the device can do so at no later cost: for
    /// buffers whose bytes are copied back whether a kernel wrote them or not.
    ///
    /// # Errors
    /// As `allocate`.
    fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.allocate(bytes)
    }

    /// Registers host memory with the device, so that copies to and from it are fast and don't
    /// wait. Pieces of another device's regions are copied too, but submitting may then wait.
    ///
    /// # Errors
    /// The device's, for example for memory that can't be page-locked.
    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure>;

    /// New zeroed memory of at least `bytes`, on a boundary of 64 bytes, in which its kernels work
    /// in place once it is registered. Devices make it if they work in place only in memory that
    /// they, or another device of their platform, made. `None` for others, which may still work in
    /// place in any memory ([`Region::is_in_place`]).
    fn shared_memory(&self, _bytes: usize) -> Option<Arc<dyn HostMemory>> {
        None
    }

    /// New host memory of `bytes`, zeroed and registered; all of it as one piece.
    ///
    /// # Errors
    /// As `register`, and [`Failure::OutOfMemory`].
    fn host_memory(&self, bytes: usize) -> Result<Piece, Failure> {
        Ok(self.register(Region::pages(bytes)?)?.into_piece(bytes))
    }

    /// Reports that `items` came whose work will be submitted later. A device that tenants share
    /// may divide its time by that; others ignore it.
    fn announce(&self, _items: u64) {}

    /// The loads that make launches wait, if its driver compiles under a lock.
    fn loads(&self) -> Option<&Loads> {
        None
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The device's.
    fn stream(&self) -> Result<Box<dyn Stream>, Failure>;

    /// Opens a stream that submits each work of several steps as one graph instead of step by step.
    /// The effect is the same; submitting may take less CPU time, or more.
    ///
    /// # Errors
    /// [`Failure::Refused`] without graphs ([`Description::has_graphs`]), or the device's.
    fn graph_stream(&self) -> Result<Box<dyn Stream>, Failure> {
        Err(Failure::Refused(format!("{} has no graphs", self.description().id)))
    }
}

/// A queue of works, done one after the other. Streams of a device run concurrently if it can.
///
/// A stream that is dropped with work in flight doesn't wait for it. The memory of the work stays
/// until it is done, or permanently if the device never reports that.
pub trait Stream: Send {
    /// Takes work and returns at once. The work is done later, after everything submitted before.
    ///
    /// # Errors
    /// Returns the work if it is not taken.
    fn submit(&mut self, work: Work) -> Result<(), Refused>;

    /// The oldest work that is done and was not yet given back. Never waits.
    fn poll(&mut self) -> Option<Done>;

    /// Works that were submitted and not yet given back.
    fn in_flight(&self) -> usize;

    /// Whether the oldest work waits for its turn on a device that tenants share.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Waits for the oldest work; `None` if there is none. The wait has no limit; a caller with a
    /// limit polls.
    fn wait(&mut self) -> Option<Done> {
        while self.in_flight() > 0 {
            if let Some(done) = self.poll() {
                return Some(done);
            }
            std::thread::sleep(core::time::Duration::from_micros(20));
        }
        None
    }
}

/// The description of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// By which it is asked for: `host`, `opencl:0`, `cuda:1`.
    pub id: String,
    /// The vendor's name for it.
    pub name: String,
    /// Its driver or compiler, with the version.
    pub driver: String,
    /// Its memory, in bytes.
    pub memory: u64,
    /// The most that one buffer may have, in bytes.
    pub buffer_max: u64,
    /// Multiprocessors, compute units or threads.
    pub units: u32,
    /// The most work-items of a group.
    pub group_max: u32,
    /// Shared memory of a group, in bytes.
    pub shared: u32,
    /// Whether its memory is the host's. Kernels then work on regions in place
    /// ([`crate::Argument::InPlace`]) if the device can, and copies are useless.
    pub shares_host_memory: bool,
    /// Whether kernels reach host memory, over the bus where it is not shared.
    pub reaches_host_memory: bool,
    /// Whether kernels run on the host's cores, which lanes use as well.
    pub runs_on_cpu: bool,
    /// Whether a work can be one graph ([`Device::graph_stream`]).
    pub has_graphs: bool,
    /// Where it sits on the bus, for meters that ask by it.
    pub bus: Option<String>,
    /// Its UUID, in the form of RFC 9562 (section 4). MIG instances of a GPU share their place on
    /// the bus.
    pub uuid: Option<String>,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.id, self.name)
    }
}

/// A number for each opened device, so that its memory and kernels are not given to another.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
