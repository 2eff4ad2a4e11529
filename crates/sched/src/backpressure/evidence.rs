//! Evidence of a run: how full queues were, who paused whom, and the bottleneck.

use super::{EdgeId, NodeId, StageGraph};

/// How queues and pauses went, over one lane or over several of the same graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseEvidence {
    /// The time observed, added over lanes.
    pub elapsed_ns: u64,
    /// By node; the first is the source.
    pub nodes: Vec<NodeEvidence>,
    /// By edge.
    pub edges: Vec<EdgeEvidence>,
    /// By edge: the nodes for which its join may wait.
    branches: Vec<Vec<NodeId>>,
}

/// The pauses of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeEvidence {
    /// How long it was paused, by edges or the operator.
    pub paused_ns: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// How long the operator held it.
    pub operator_ns: u64,
}

/// The queue of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeEvidence {
    /// The node it may pause.
    pub from: NodeId,
    /// The node that takes from it.
    pub to: NodeId,
    /// Its occupancy integrated over time: thousandths of a launch times nanoseconds.
    pub area: u128,
    /// The highest occupancy, in thousandths of a launch.
    pub peak: u32,
    /// How long it had something.
    pub waiting_ns: u64,
    /// How long it held its feeder. Several edges may hold one feeder together.
    pub held_ns: u64,
    /// The part of `held_ns` in which only whole launches filled it; see
    /// [`PauseEvidence::bottleneck`].
    pub burst_ns: u64,
    /// How often it did so.
    pub holds: u64,
    /// The part of `held_ns` in which its join waited for another branch.
    pub excused_ns: u64,
    /// How long its join waited for it while another branch was held.
    pub awaited_ns: u64,
    /// Batches that found it full. With pauses, each try of a waiting batch counts.
    pub refused: u64,
}

impl PauseEvidence {
    /// That of no time at all.
    pub fn new(graph: &StageGraph) -> Self {
        let edge = |&(from, to)| EdgeEvidence {
            from,
            to,
            area: 0,
            peak: 0,
            waiting_ns: 0,
            held_ns: 0,
            burst_ns: 0,
            holds: 0,
            excused_ns: 0,
            awaited_ns: 0,
            refused: 0,
        };
        Self {
            elapsed_ns: 0,
            nodes: vec![NodeEvidence::default(); graph.nodes()],
            edges: graph.edges().iter().map(edge).collect(),
            branches: graph.branches().to_vec(),
        }
    }

    /// Adds that of another lane with the same graph.
    pub fn add(&mut self, other: &Self) {
        self.elapsed_ns = self.elapsed_ns.saturating_add(other.elapsed_ns);
        self.nodes.iter_mut().zip(&other.nodes).for_each(|(own, other)| own.add(other));
        self.edges.iter_mut().zip(&other.edges).for_each(|(own, other)| own.add(other));
    }

    /// Adds that of the same lane before it was divided into other stages: its time, and the pauses
    /// of its source.
    pub fn add_source(&mut self, other: &Self) {
        self.elapsed_ns = self.elapsed_ns.saturating_add(other.elapsed_ns);
        self.nodes.iter_mut().zip(&other.nodes).take(1).for_each(|(own, other)| own.add(other));
        self.edges.iter_mut().zip(&other.edges).take(1).for_each(|(own, other)| own.add(other));
    }

    /// The mean occupancy of `edge` over time, in thousandths of a launch.
    pub fn mean(&self, edge: EdgeId) -> u32 {
        let mean = self.edges[edge.0].area / u128::from(self.elapsed_ns.max(1));
        u32::try_from(mean).unwrap_or(u32::MAX)
    }

    /// The edges that paused `node` and for how long.
    pub fn paused_by(&self, node: NodeId) -> impl Iterator<Item = (EdgeId, u64)> {
        let by_node = move |(edge, one): (usize, &EdgeEvidence)| {
            (one.from == node && one.held_ns > 0).then_some((EdgeId(edge), one.held_ns))
        };
        self.edges.iter().enumerate().filter_map(by_node)
    }

    /// The node that limits the others, if any paused another.
    ///
    /// It is the one that held others longest, among those that no later node held much: at most an
    /// eighth of that time. A node before the bottleneck holds its own feeders too, but only since
    /// it is paused itself. Holds of a queue that whole launches fill, and that is often empty,
    /// do not count. Time in which a join waits for a branch counts for the node of that
    /// branch with the fullest queues, not for the join. Of equal nodes the later one is named.
    ///
    /// Where branches part, nodes are comparable only if launches have equal sizes. Where joins
    /// overlap, the name may be that of another node of the awaited branch.
    pub fn bottleneck(&self) -> Option<NodeId> {
        let candidates = (0..self.nodes.len()).map(NodeId);
        let held = candidates.map(|node| (self.held_others_ns(node), node));
        let is_limit = |&(held_ns, node): &(u64, NodeId)| {
            held_ns > 0 && self.was_held_ns(node).saturating_mul(LITTLE) <= held_ns
        };
        held.filter(is_limit).max().map(|(_, node)| node)
    }

    fn held_others_ns(&self, node: NodeId) -> u64 {
        let by_queue = self.edges.iter().filter(|edge| edge.to == node);
        let by_queue = by_queue.map(|edge| edge.limiting_ns().saturating_sub(edge.excused_ns));
        let awaited = self.edges.iter().zip(&self.branches);
        let awaited = awaited.filter(|(_, branch)| self.fullest(branch) == Some(node));
        by_queue.chain(awaited.map(|(edge, _)| edge.awaited_ns)).max().unwrap_or(0)
    }

    /// A join works only if it has all its inputs, so its emptiest one counts.
    fn fullest(&self, branch: &[NodeId]) -> Option<NodeId> {
        let inputs = |node| {
            let edges = (0..self.edges.len()).map(EdgeId);
            edges.filter(move |edge| self.edges[edge.0].to == node)
        };
        let mean = |node| inputs(node).map(|edge| self.mean(edge)).min().unwrap_or(0);
        branch.iter().copied().max_by_key(|&node| (mean(node), node))
    }

    fn was_held_ns(&self, node: NodeId) -> u64 {
        let by = self.paused_by(node).map(|(edge, _)| self.edges[edge.0].limiting_ns());
        by.max().unwrap_or(0)
    }

    /// That since `before`, which is of the same lane. Peaks are those of all the time.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.elapsed_ns = self.elapsed_ns.saturating_sub(before.elapsed_ns);
        self.nodes.iter_mut().zip(&before.nodes).for_each(|(own, before)| own.take_off(before));
        self.edges.iter_mut().zip(&before.edges).for_each(|(own, before)| own.take_off(before));
        for at in 0..self.edges.len() {
            let edge = &self.edges[at];
            let inputs = self.edges.iter().filter(|input| input.to == edge.from);
            let had_input_ns = inputs.map(|input| input.waiting_ns).min().unwrap_or(0);
            let node_ns = self.nodes[edge.to.0].paused_ns;
            self.edges[at].find_bursts(had_input_ns, node_ns);
        }
        self
    }
}

/// A node was held little if a later one held it for at most one part in so many of the time for
/// which it held others. A node before the bottleneck that is faster by a seventh is held more.
const LITTLE: u64 = 8;

impl NodeEvidence {
    fn take_off(&mut self, before: &Self) {
        self.paused_ns = self.paused_ns.saturating_sub(before.paused_ns);
        self.pauses = self.pauses.saturating_sub(before.pauses);
        self.operator_ns = self.operator_ns.saturating_sub(before.operator_ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.paused_ns = self.paused_ns.saturating_add(other.paused_ns);
        self.pauses = self.pauses.saturating_add(other.pauses);
        self.operator_ns = self.operator_ns.saturating_add(other.operator_ns);
    }
}

impl EdgeEvidence {
    /// How long it held its feeder since its node was slower.
    fn limiting_ns(&self) -> u64 {
        self.held_ns.saturating_sub(self.burst_ns)
    }

    /// Finds out whether it held its feeder only since whole launches fill it, in the evidence of
    /// one lane. It was then empty for over half of the time in which the feeder had input, and its
    /// node was not held itself. The occupancy of a queue in another process is unknown.
    pub(super) fn find_bursts(&mut self, feeder_had_input_ns: u64, node_paused_ns: u64) {
        let is_often_empty = self.waiting_ns.saturating_mul(2) < feeder_had_input_ns;
        let is_free = node_paused_ns.saturating_mul(LITTLE) <= self.held_ns;
        let is_burst = self.waiting_ns > 0 && is_often_empty && is_free;
        self.burst_ns = if is_burst { self.held_ns } else { 0 };
    }

    fn take_off(&mut self, before: &Self) {
        self.area = self.area.saturating_sub(before.area);
        self.waiting_ns = self.waiting_ns.saturating_sub(before.waiting_ns);
        self.held_ns = self.held_ns.saturating_sub(before.held_ns);
        self.holds = self.holds.saturating_sub(before.holds);
        self.excused_ns = self.excused_ns.saturating_sub(before.excused_ns);
        self.awaited_ns = self.awaited_ns.saturating_sub(before.awaited_ns);
        self.refused = self.refused.saturating_sub(before.refused);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.area = self.area.saturating_add(other.area);
        self.peak = self.peak.max(other.peak);
        self.waiting_ns = self.waiting_ns.saturating_add(other.waiting_ns);
        self.held_ns = self.held_ns.saturating_add(other.held_ns);
        self.burst_ns = self.burst_ns.saturating_add(other.burst_ns);
        self.holds = self.holds.saturating_add(other.holds);
        self.excused_ns = self.excused_ns.saturating_add(other.excused_ns);
        self.awaited_ns = self.awaited_ns.saturating_add(other.awaited_ns);
        self.refused = self.refused.saturating_add(other.refused);
    }
}

/// How long something was so, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopwatch {
    runs: bool,
    since_ns: u64,
    total_ns: u64,
    starts: u64,
}

impl Stopwatch {
    pub(super) fn runs(&self) -> bool {
        self.runs
    }

    pub(super) fn starts(&self) -> u64 {
        self.starts
    }

    pub(super) fn set(&mut self, runs: bool, now_ns: u64) {
        match (self.runs, runs) {
            (false, true) => (self.since_ns, self.starts) = (now_ns, self.starts + 1),
            (true, false) => self.total_ns = self.total_ns(now_ns),
            _ => {}
        }
        self.runs = runs;
    }

    pub(super) fn total_ns(&self, now_ns: u64) -> u64 {
        let open_ns = if self.runs { now_ns.saturating_sub(self.since_ns) } else { 0 };
        self.total_ns.saturating_add(open_ns)
    }
}

/// An occupancy over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Occupancy {
    milli: u32,
    peak: u32,
    since_ns: u64,
    area: u128,
    waiting_ns: u64,
}

impl Occupancy {
    /// Empty from `now_ns` on.
    pub(super) fn new(now_ns: u64) -> Self {
        Self { since_ns: now_ns, ..Self::default() }
    }

    pub(super) fn milli(&self) -> u32 {
        self.milli
    }

    pub(super) fn peak(&self) -> u32 {
        self.peak
    }

    pub(super) fn set(&mut self, milli: u32, now_ns: u64) {
        (self.area, self.waiting_ns) = (self.area(now_ns), self.waiting_ns(now_ns));
        self.since_ns = now_ns;
        self.milli = milli;
        self.peak = self.peak.max(milli);
    }

    pub(super) fn area(&self, now_ns: u64) -> u128 {
        let open_ns = now_ns.saturating_sub(self.since_ns);
        self.area + u128::from(self.milli) * u128::from(open_ns)
    }
    /// How long it was not empty.
    pub(super) fn waiting_ns(&self, now_ns: u64) -> u64 {
        let is_waiting = self.milli > 0;
        self.waiting_ns + if is_waiting { now_ns.saturating_sub(self.since_ns) } else { 0 }
    }
}
