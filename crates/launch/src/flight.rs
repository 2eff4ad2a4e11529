//! Batches on their way through launches, and the states and outcomes of launches.

use warpline_packet::{Batch, FoundLists, Returned};
use warpline_sched::LaunchId;

/// A batch on its way through a stage.
pub struct Flight<T> {
    /// The batch.
    pub batch: Box<Batch>,
    /// Memory of the caller for its functions' turns.
    pub scratch: T,
}

/// Memory that the caller keeps with a batch: it lists the packets that functions' phases get, and
/// may keep their frames.
pub trait Scratch {
    /// Packets of `batch` were dropped, and no phase gets them any more.
    fn forget_dropped(&mut self, batch: &Batch);

    /// All packets are lost, and no phase gets them any more.
    fn forget(&mut self);

    /// A device may still write to the packets' rooms, so no kept frame returns there.
    fn forget_frames(&mut self);
}

/// A launch that was given out and not released.
pub(crate) struct Flying<T> {
    pub(crate) id: LaunchId,
    pub(crate) flights: Vec<Flight<T>>,
    pub(crate) state: LaunchState,
    /// Loads on its device that had ended when it started, or later when its time began anew.
    pub(crate) loads_ended: u64,
}

/// The state of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaunchState {
    /// Kernels are under way.
    Running,
    /// Findings are on their way back.
    Fetching,
    /// All frames are on their way back.
    CopyingBack,
    /// Frames of packets that kernels left to the CPU are.
    FetchingLeft,
    Over(How),
}

/// The outcome of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The device did it.
    Done,
    /// The CPU has to do it.
    OnCpu {
        /// The device may still read their memory.
        is_used: bool,
    },
    /// The contents of its packets are unknown.
    Lost {
        /// The device may still write to their memory.
        is_used: bool,
    },
}

impl How {
    /// Nothing was started.
    pub(crate) const ON_CPU: Self = Self::OnCpu { is_used: false };
}

/// A launch that may continue now, in its order. Pass each batch to [`apply`](crate::Launches::apply)
/// once. [`recycle`](crate::Launches::recycle) takes `flights` again, empty.
pub struct Finished<T> {
    /// Its batches.
    pub flights: Vec<Flight<T>>,
    pub(crate) how: How,
    pub(crate) slot: usize,
}

/// The device's output for a batch, which its functions accept in their turns.
pub struct Output<'a> {
    /// Rows of the launch's table.
    pub returned: Returned<'a>,
    /// The findings of the launch, if a function has any.
    pub found: Option<FoundLists<'a>>,
}
