//! How the threads of a chain rest.

use warpline_sched::Naps;

/// The rest of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneRest {
    pub(crate) state: State,
    pub(crate) naps: Naps,
    /// Pieces of work that its thread has.
    pub(crate) works: u32,
    /// Whether it woke and has not rested again.
    pub(crate) has_woken: bool,
    /// Grows with each wake, so that older timers are known.
    pub(crate) generation: u64,
}

/// See [`LaneRest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Waits,
    /// Nothing wakes it before its time.
    Naps,
    Woken,
    Works,
}

/// The rest of a reader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReaderRest {
    pub(crate) naps: Naps,
    /// Packets since the last rest, and when that ended.
    pub(crate) packets: u64,
    pub(crate) rested_ns: u64,
    /// Whether it has handed no batch over since.
    pub(crate) is_first: bool,
    /// Whether it woke and has not rested again.
    pub(crate) has_woken: bool,
}
