//! A lane in virtual time: each stage works on one launch at a time, at its own cost. It records
//! queues and pauses by itself, so that the evidence can be compared.

use std::collections::VecDeque;

use super::super::*;

/// A lane and its load.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) edges: Vec<(usize, usize)>,
    /// Nanoseconds of work for a batch, by node; the source has none.
    pub(super) cost_ns: Vec<u64>,
    /// Batches of a launch, by node.
    pub(super) launch: Vec<usize>,
    pub(super) interval_ns: u64,
    pub(super) batches: usize,
    pub(super) source_waits: bool,
    pub(super) deadline_ns: u64,
}

#[derive(Default)]
struct Stage {
    forming: usize,
    oldest_ns: u64,
    /// Batches of the launch in flight, and when it is done.
    flying: Option<(usize, u64)>,
}

/// The lane as it runs.
pub(super) struct Simulation {
    pub(super) setup: Setup,
    pub(super) machine: Backpressure,
    graph: StageGraph,
    stages: Vec<Stage>,
    queues: Vec<usize>,
    pub(super) now_ns: u64,
    due: VecDeque<u64>,
    pub(super) overload: usize,
    /// By node without outgoing edge: the batches that left by it.
    pub(super) left_by: Vec<usize>,
    /// By edge: the integral of its occupancy, and its highest.
    pub(super) areas: Vec<u128>,
    pub(super) peaks: Vec<u32>,
    /// By node: the time in which it was found paused.
    pub(super) paused_ns: Vec<u64>,
}

impl Simulation {
    pub(super) fn new(setup: &Setup) -> Self {
        let nodes = setup.launch.len();
        let graph = StageGraph::checked(nodes, &setup.edges).unwrap();
        Self {
            machine: Backpressure::new(&graph, PauseMode::On(Watermarks::default()), 0),
            graph,
            stages: (0..nodes).map(|_| Stage::default()).collect(),
            queues: vec![0; setup.edges.len()],
            now_ns: 0,
            due: (1..=setup.batches as u64).map(|n| n * setup.interval_ns).collect(),
            overload: 0,
            left_by: vec![0; nodes],
            areas: vec![0; setup.edges.len()],
            peaks: vec![0; setup.edges.len()],
            paused_ns: vec![0; nodes],
            setup: setup.clone(),
        }
    }

    /// Runs until all batches have left.
    pub(super) fn run(&mut self) {
        while let Some(next_ns) = self.next_ns() {
            self.advance(next_ns);
            self.complete();
            self.settle();
        }
    }

    /// The next moment at which something happens.
    fn next_ns(&self) -> Option<u64> {
        let source_ns = self.due.front().copied().filter(|_| self.source_acts());
        let of_stage = |stage: &Stage| match stage.flying {
            Some((_, until_ns)) => Some(until_ns),
            None if stage.forming > 0 => Some(stage.oldest_ns + self.setup.deadline_ns),
            None => None,
        };
        let next_ns = self.stages.iter().filter_map(of_stage).chain(source_ns).min();
        next_ns.map(|next_ns| next_ns.max(self.now_ns))
    }

    fn source_acts(&self) -> bool {
        !self.setup.source_waits || !self.machine.is_paused(NodeId(0))
    }

    fn advance(&mut self, to_ns: u64) {
        let passed_ns = to_ns - self.now_ns;
        for edge in 0..self.queues.len() {
            self.areas[edge] += u128::from(self.milli(edge)) * u128::from(passed_ns);
        }
        for node in 0..self.stages.len() {
            let is_paused = self.machine.is_paused(NodeId(node));
            self.paused_ns[node] += if is_paused { passed_ns } else { 0 };
        }
        self.now_ns = to_ns;
    }

    fn complete(&mut self) {
        for node in 1..self.stages.len() {
            let done = self.stages[node].flying.take_if(|(_, until_ns)| *until_ns <= self.now_ns);
            if let Some((batches, _)) = done {
                self.pass_on(node, batches);
            }
        }
    }

    fn settle(&mut self) {
        while self.push() {}
        for node in (1..self.stages.len()).rev() {
            while self.take(node) {}
            self.start(node, false);
        }
        self.wait_at_joins();
        while self.machine.poll_signal().is_some() {}
    }

    /// The source hands over a batch that is due, or loses it.
    fn push(&mut self) -> bool {
        let is_due = self.due.front().is_some_and(|&due_ns| due_ns <= self.now_ns);
        if !is_due || !self.source_acts() {
            return false;
        }
        self.due.pop_front();
        match self.machine.is_paused(NodeId(0)) {
            true => self.overload += 1,
            false => self.pass_on(0, 1),
        }
        true
    }

    fn take(&mut self, node: usize) -> bool {
        let inputs = self.graph.inputs(NodeId(node)).to_vec();
        let stage = &self.stages[node];
        let has_room = stage.forming < self.setup.launch[node];
        let has_input = inputs.iter().all(|edge| self.queues[edge.0] > 0);
        if !has_room || !has_input || self.machine.is_paused(NodeId(node)) {
            return false;
        }
        let stage = &mut self.stages[node];
        if stage.forming == 0 {
            stage.oldest_ns = self.now_ns;
        }
        stage.forming += 1;
        inputs.iter().for_each(|edge| self.set_queue(edge.0, self.queues[edge.0] - 1));
        self.start(node, false);
        true
    }

    fn start(&mut self, node: usize, flushes: bool) {
        let stage = &mut self.stages[node];
        let is_due = stage.oldest_ns + self.setup.deadline_ns <= self.now_ns;
        let closes = stage.forming == self.setup.launch[node] || is_due || flushes;
        if stage.forming > 0 && stage.flying.is_none() && closes {
            let work_ns = self.setup.cost_ns[node] * stage.forming as u64;
            stage.flying = Some((std::mem::take(&mut stage.forming), self.now_ns + work_ns));
        }
    }

    fn wait_at_joins(&mut self) {
        for node in 1..self.stages.len() {
            let inputs = self.graph.inputs(NodeId(node));
            let lacking = inputs.iter().copied().find(|edge| self.queues[edge.0] == 0);
            let has_other = inputs.iter().any(|edge| self.queues[edge.0] > 0);
            if let Some(edge) = lacking.filter(|_| has_other) {
                self.machine.handle_join_waits(NodeId(node), edge, self.now_ns);
            }
        }
        while let Some(node) = self.machine.poll_flush() {
            self.start(node.0, true);
        }
    }

    fn pass_on(&mut self, node: usize, batches: usize) {
        let outputs = (0..self.queues.len()).filter(|&edge| self.setup.edges[edge].0 == node);
        let outputs: Vec<usize> = outputs.collect();
        if outputs.is_empty() {
            self.left_by[node] += batches;
        }
        for edge in outputs {
            self.set_queue(edge, self.queues[edge] + batches);
        }
    }

    fn set_queue(&mut self, edge: usize, batches: usize) {
        self.queues[edge] = batches;
        let milli = self.milli(edge);
        assert!(milli <= self.capacity(edge), "edge {edge} overflows: {:?}", self.setup);
        self.peaks[edge] = self.peaks[edge].max(milli);
        self.machine.handle_occupancy(EdgeId(edge), milli, self.now_ns);
    }

    fn milli(&self, edge: usize) -> u32 {
        (self.queues[edge] * 1_000).div_ceil(self.setup.launch[self.setup.edges[edge].1]) as u32
    }

    /// A stage has a launch in flight and one that forms.
    fn capacity(&self, edge: usize) -> u32 {
        let (from, to) = self.setup.edges[edge];
        let held_upstream = if from == 0 { 1 } else { 2 * self.setup.launch[from] as u64 };
        let launch = self.setup.launch[to] as u64;
        let inflow = Inflow { launch, held_upstream, rate: 0, signal_delay_ns: 0 };
        required_capacity(Watermarks::default().high(), &inflow)
    }
}
