//! Backpressure: a queue that is nearly full pauses its feeder, until it is nearly empty. No packet
//! is then dropped after a stage worked on it. It follows Simmer (sections 3.3 and 3.4), which has
//! one threshold; here there are two, so that signals are few.
//!
//! One machine serves a lane: a source, stages, and a queue for each edge of their graph. The
//! caller reports the occupancy of a queue when it changed, at most once a batch. At the high mark
//! or above the queue **holds** its feeder, at the low mark or below it releases it. A node is
//! paused while at least one of its outgoing edges or the operator holds it.
//!
//! A paused stage takes nothing from its queues, so these rise and pause its own feeders. A pause
//! thus reaches the source without further signals. The stage does finish and pass on all that it
//! took before: the deadline of the [`Batcher`](crate::Batcher) also starts a launch that is not
//! full. So ask [`Backpressure::is_paused`] only before taking a batch from a queue, never before a
//! launch or a release. A queue needs room for that ([`required_capacity`]).
//!
//! A [`Signal`] carries the state of an edge, not a change, and the number of that state. A
//! receiver applies newer states only, so signals may be repeated, delayed or reordered. For a lost
//! one the sender repeats all ([`Backpressure::handle_repeat`]) and the receiver ends holds that
//! are no longer repeated ([`Backpressure::handle_silence`]).
//!
//! ```
//! use warpline_sched::{Backpressure, EdgeId, NodeId, PauseMode, StageGraph, Watermarks};
//!
//! // The source and two stages.
//! let graph = StageGraph::list(2).expect("a list");
//! let mut backpressure = Backpressure::new(&graph, PauseMode::On(Watermarks::default()), 0);
//! backpressure.handle_occupancy(EdgeId(1), 2_800, 10);
//! assert!(backpressure.is_paused(NodeId(1)));
//! let signal = backpressure.poll_signal().expect("a change");
//! assert_eq!((signal.to, signal.pause), (NodeId(1), true));
//!
//! backpressure.handle_occupancy(EdgeId(1), 2_400, 20);
//! assert!(backpressure.is_paused(NodeId(1)));
//! backpressure.handle_occupancy(EdgeId(1), 2_000, 30);
//! assert!(!backpressure.is_paused(NodeId(1)));
//! assert_eq!(backpressure.evidence(40).nodes[1].paused_ns, 20);
//! ```

mod evidence;
mod graph;
mod joins;
mod signals;
mod state;
#[cfg(test)]
mod tests;
mod watermarks;

use std::collections::VecDeque;

use state::{Edge, Node};

pub use evidence::{EdgeEvidence, NodeEvidence, PauseEvidence};
pub use graph::{EdgeId, GraphError, NodeId, StageGraph};
pub use signals::Signal;
pub use watermarks::{Inflow, WatermarkError, Watermarks, required_capacity};

/// Whether queues pause their feeders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// They do, at these marks.
    On(Watermarks),
    /// They never do; a full queue drops. The operator can still hold nodes.
    Off,
}

/// The fate of a batch at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The queue takes it.
    Taken,
    /// The queue is full and the feeder keeps the batch until there is room.
    Waits,
    /// The queue is full and the batch is dropped.
    Dropped,
}

/// Pauses and resumes the nodes of a lane; see the module. Ids must be those of its graph. Only
/// [`Backpressure::new`] and [`Backpressure::evidence`] allocate.
#[derive(Clone, Debug)]
pub struct Backpressure {
    graph: StageGraph,
    mode: PauseMode,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Edges with a state to signal.
    signals: VecDeque<EdgeId>,
    /// Nodes that close their launch.
    flushes: VecDeque<NodeId>,
    started_ns: u64,
    now_ns: u64,
}

impl Backpressure {
    /// A machine with empty queues and no pause.
    pub fn new(graph: &StageGraph, mode: PauseMode, now_ns: u64) -> Self {
        let edge = |&(from, to)| Edge::new(from, to, now_ns);
        Self {
            nodes: vec![Node::default(); graph.nodes()],
            edges: graph.edges().iter().map(edge).collect(),
            signals: VecDeque::with_capacity(graph.edges().len()),
            flushes: VecDeque::with_capacity(graph.nodes()),
            started_ns: now_ns,
            now_ns,
            graph: graph.clone(),
            mode,
        }
    }

    /// Its time starts at `now_ns`; nothing has happened before.
    pub fn handle_start(&mut self, now_ns: u64) {
        self.started_ns = self.advance(now_ns);
    }

    /// Holds `node` from the start on, until [`Backpressure::handle_operator`] releases it.
    pub fn start_paused(&mut self, node: NodeId) {
        self.handle_operator(node, true, self.started_ns);
    }

    /// Whether `node` may take nothing from its queues.
    pub fn is_paused(&self, node: NodeId) -> bool {
        self.nodes[node.0].paused.runs()
    }

    /// Whether `edge` holds its feeder.
    pub fn is_held_by(&self, edge: EdgeId) -> bool {
        self.edges[edge.0].held.runs()
    }

    /// The queue of `edge` has `milli` thousandths of a launch of its consumer now. It must be more
    /// than 0 unless the queue is empty: pieces without packets count too.
    pub fn handle_occupancy(&mut self, edge: EdgeId, milli: u32, now_ns: u64) {
        let now_ns = self.advance(now_ns);
        let state = &mut self.edges[edge.0];
        state.occupancy.set(milli, now_ns);
        let (held, to) = (state.held.runs(), state.to);
        if milli > 0 && self.nodes[to.0].awaits == Some(edge) {
            self.set_awaits(to, None, now_ns);
        }
        let PauseMode::On(marks) = self.mode else { return };
        let hold = marks.hold(milli, held);
        if hold != held && !self.edges[edge.0].is_remote {
            self.edges[edge.0].sequence += 1;
            self.set_held(edge, hold, now_ns);
            self.signal(edge);
        }
    }

    /// The operator holds or releases `node` (Simmer's `flow_status`).
    pub fn handle_operator(&mut self, node: NodeId, pause: bool, now_ns: u64) {
        let now_ns = self.advance(now_ns);
        self.nodes[node.0].operator.set(pause, now_ns);
        self.update_pause(node, now_ns);
    }

    /// The fate of a batch at the queue of `edge`, which has `milli` of `capacity` without it. A
    /// queue takes a batch while it is not full, so the last one may exceed the capacity.
    pub fn admits(&mut self, edge: EdgeId, milli: u32, capacity: u32) -> Admission {
        if milli < capacity {
            return Admission::Taken;
        }
        self.edges[edge.0].refused += 1;
        match self.mode {
            PauseMode::On(_) => Admission::Waits,
            PauseMode::Off => Admission::Dropped,
        }
    }

    /// How queues and pauses went until `now_ns`.
    pub fn evidence(&self, now_ns: u64) -> PauseEvidence {
        let mut evidence = PauseEvidence::new(&self.graph);
        self.add_evidence(&mut evidence, now_ns);
        evidence
    }

    /// Adds that to `total`, without allocating.
    pub fn add_evidence(&self, total: &mut PauseEvidence, now_ns: u64) {
        let now_ns = now_ns.max(self.now_ns);
        total.elapsed_ns = total.elapsed_ns.saturating_add(now_ns - self.started_ns);
        for (total, node) in total.nodes.iter_mut().zip(&self.nodes) {
            total.add(&node.evidence(now_ns));
        }
        for (total, edge) in total.edges.iter_mut().zip(&self.edges) {
            let inputs = self.edges.iter().filter(|input| input.to == edge.from);
            let had_input_ns = inputs.map(|input| input.occupancy.waiting_ns(now_ns)).min();
            let node_ns = self.nodes[edge.to.0].paused.total_ns(now_ns);
            let mut own = edge.evidence(now_ns);
            own.find_bursts(had_input_ns.unwrap_or(0), node_ns);
            total.add(&own);
        }
    }

    /// Time never steps back.
    fn advance(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    fn set_held(&mut self, edge: EdgeId, hold: bool, now_ns: u64) {
        let state = &mut self.edges[edge.0];
        let (from, to, held) = (state.from, state.to, state.held.runs());
        state.held.set(hold, now_ns);
        self.update_excuse(edge, to, now_ns);
        let node = &mut self.nodes[from.0];
        node.holders = node.holders + usize::from(hold) - usize::from(held);
        self.update_pause(from, now_ns);
    }

    fn update_pause(&mut self, node: NodeId, now_ns: u64) {
        let node = &mut self.nodes[node.0];
        node.paused.set(node.holders > 0 || node.operator.runs(), now_ns);
    }
}
