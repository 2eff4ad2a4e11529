//! Launches that were given out: their states and outcomes.

use warpline_sched::LaunchId;

use crate::stage::BatchInFlight;

/// A launch that was given out and not released.
pub(super) struct Flying {
    pub(super) id: LaunchId,
    pub(super) flights: Vec<BatchInFlight>,
    pub(super) state: LaunchState,
}

/// The state of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchState {
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
    pub(super) const ON_CPU: Self = Self::OnCpu { is_used: false };
}

/// A launch that may continue now, in its order. [`recycle`](super::Launches::recycle) takes its
/// `flights` again, empty.
pub(crate) struct Finished {
    pub(crate) flights: Vec<BatchInFlight>,
    pub(crate) how: How,
    pub(super) slot: usize,
}
