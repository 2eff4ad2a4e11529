//! The state of a node and of an edge.

use super::evidence::{Occupancy, Stopwatch};
use super::{EdgeEvidence, EdgeId, NodeEvidence, NodeId};

#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Outgoing edges that hold it.
    pub(super) holders: usize,
    pub(super) operator: Stopwatch,
    pub(super) paused: Stopwatch,
    /// Of a join: the edge it waits for.
    pub(super) awaits: Option<EdgeId>,
    pub(super) flushes: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) occupancy: Occupancy,
    pub(super) held: Stopwatch,
    /// Runs while it holds its feeder and its join waits for another edge.
    pub(super) excused: Stopwatch,
    /// Runs while its join waits for it and another edge holds its feeder.
    pub(super) awaited: Stopwatch,
    pub(super) refused: u64,
    pub(super) sequence: u64,
    pub(super) signals: bool,
    pub(super) is_remote: bool,
}

impl Node {
    pub(super) fn evidence(&self, now_ns: u64) -> NodeEvidence {
        NodeEvidence {
            paused_ns: self.paused.total_ns(now_ns),
            pauses: self.paused.starts(),
            operator_ns: self.operator.total_ns(now_ns),
        }
    }
}

impl Edge {
    /// Empty and released.
    pub(super) fn new(from: NodeId, to: NodeId, now_ns: u64) -> Self {
        Self {
            from,
            to,
            occupancy: Occupancy::new(now_ns),
            held: Stopwatch::default(),
            excused: Stopwatch::default(),
            awaited: Stopwatch::default(),
            refused: 0,
            sequence: 0,
            signals: false,
            is_remote: false,
        }
    }

    pub(super) fn evidence(&self, now_ns: u64) -> EdgeEvidence {
        EdgeEvidence {
            from: self.from,
            to: self.to,
            area: self.occupancy.area(now_ns),
            peak: self.occupancy.peak(),
            waiting_ns: self.occupancy.waiting_ns(now_ns),
            held_ns: self.held.total_ns(now_ns),
            burst_ns: 0,
            holds: self.held.starts(),
            excused_ns: self.excused.total_ns(now_ns),
            awaited_ns: self.awaited.total_ns(now_ns),
            refused: self.refused,
        }
    }
}
