//! The two traits: a [`Device`] compiles, allocates and opens [`Stream`]s, which do work.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::{Buffer, Done, Failure, HostMemory, Module, Piece, Refused, Region, Source, Work};

/// A place where kernels run.
pub trait Device: Send + Sync {
    /// What it is.
    fn description(&self) -> &Description;

    /// Makes kernels of text; may take seconds the first time. What was made is kept on disk.
    ///
    /// # Errors
    /// [`Failure::Compile`] with the log, [`Failure::NoCompiler`], or what the device says.
    fn compile(&self, source: &Source) -> Result<Module, Failure>;

    /// Takes `bytes` of the device's memory, at least one.
    ///
    /// # Errors
    /// [`Failure::OutOfMemory`], or what the device says.
    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure>;

    /// Takes memory as `allocate` does, of zeros where the device can have them at no cost later:
    /// for buffers whose bytes are copied back whether a kernel wrote them or not.
    ///
    /// # Errors
    /// As `allocate`.
    fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.allocate(bytes)
    }

    /// Makes host memory known to the device, so that copies to and from it are fast and don't wait. Pieces of another
    /// device's regions are copied too, but submitting may then wait for it.
    ///
    /// # Errors
    /// What the device says, for memory that can't be page-locked for one.
    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure>;

    /// New zeroed memory of at least `bytes`, on a boundary of 64 bytes, in which its kernels work where it lies once it is
    /// registered, on a device that does so in memory of its own making only, or of such another's of its platform. `None` where there is
    /// none; others may do so in any memory ([`Region::is_in_place`]).
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

    /// Opens a stream.
    ///
    /// # Errors
    /// What the device says.
    fn stream(&self) -> Result<Box<dyn Stream>, Failure>;

    /// Opens a stream that gives each work of several steps to the device as one graph instead of step by step. The same is
    /// done; submitting may take the CPU less time, or more.
    ///
    /// # Errors
    /// [`Failure::Refused`] where there are no graphs ([`Description::has_graphs`]), or what the device says.
    fn graph_stream(&self) -> Result<Box<dyn Stream>, Failure> {
        Err(Failure::Refused(format!("{} has no graphs", self.description().id)))
    }
}

/// Work done one after the other; streams of a device run beside each other where it can.
///
/// A stream that is dropped with work in flight doesn't wait for it: what the work uses stays until it is done, or
/// for good where the device never says that it is.
pub trait Stream: Send {
    /// Takes work and returns at once. The work is done some time later, after what was submitted before.
    ///
    /// # Errors
    /// Gives the work back where it is not taken.
    fn submit(&mut self, work: Work) -> Result<(), Refused>;

    /// The oldest work that is done and was not yet given back. Never waits.
    fn poll(&mut self) -> Option<Done>;

    /// Works that were submitted and not yet given back.
    fn in_flight(&self) -> usize;

    /// Waits for the oldest work; `None` where there is none. It waits as long as it takes: a caller with a limit polls.
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

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// By which it is asked for: `host`, `opencl:0`, `cuda:1`.
    pub id: String,
    /// What its maker calls it.
    pub name: String,
    /// The driver or compiler behind it, with its version.
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
    /// Whether its memory is the host's: kernels then work in regions in place ([`crate::Argument::InPlace`]) where the device
    /// can, and copies are for nothing.
    pub shares_host_memory: bool,
    /// Whether kernels reach host memory, over the bus where it is not shared.
    pub reaches_host_memory: bool,
    /// Whether a work can be one graph ([`Device::graph_stream`]).
    pub has_graphs: bool,
    /// Where it sits on the bus, for meters that ask by it.
    pub bus: Option<String>,
    /// Its UUID, as RFC 9562 (section 4) writes one: MIG instances of a GPU have their place on the bus in common.
    pub uuid: Option<String>,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.id, self.name)
    }
}

/// A number for each device that is opened, so that memory and kernels of one are not given to another.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
