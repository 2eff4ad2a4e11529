//! A lane with few batches, as a model with finitely many states. Its rules are those of an engine:
//! a stage takes batches into a launch, a launch completes, and its batches go to the next queues.
//! Properties are computed from the counts of batches, never from the machine.

use super::super::*;
use super::explore::Model;

/// The lane and its faults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) edges: &'static [(usize, usize)],
    /// Batches of a launch, by node.
    pub(super) launch: &'static [usize],
    pub(super) high: u32,
    pub(super) low: u32,
    /// Launches in flight together, by stage.
    pub(super) streams: usize,
    /// Batches of the source.
    pub(super) batches: usize,
    /// Batches that may be in the lane together: slabs and tables.
    pub(super) pool: usize,
    /// Whether a launch that is not full may start at any time.
    pub(super) has_deadline: bool,
    /// Signals travel, and a feeder may take so many batches until one arrives.
    pub(super) delay: Option<usize>,
    /// How often the operator may hold a node.
    pub(super) operator: usize,
    /// The queues hold so many batches less than they should.
    pub(super) short: usize,
    pub(super) is_on: bool,
}

/// Signals of an edge that travel together. A second one is enough to overtake the first.
const COPIES_MAX: usize = 3;

/// A state of the lane.
#[derive(Clone)]
pub(super) struct Lane {
    shape: Shape,
    /// The machine of the queues.
    machine: Backpressure,
    /// With a delay: that of the feeders, which gets signals only.
    far: Option<Backpressure>,
    network: Vec<Signal>,
    /// By edge: the number of the last signal that was sent, and of the newest that arrived.
    sent: Vec<u64>,
    arrived: Vec<u64>,
    /// By edge: batches that its feeder took since a pause is on its way.
    late: Vec<usize>,
    left: usize,
    done: usize,
    queues: Vec<usize>,
    forming: Vec<usize>,
    flying: Vec<Vec<usize>>,
    /// By edge: whether it should hold its feeder.
    holds: Vec<bool>,
    /// Holds that the operator has left, and the node that it holds.
    operator: (usize, Option<usize>),
    lost: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LaneEvent {
    Push,
    Take(usize),
    Start(usize),
    Complete(usize),
    Hold(usize),
    Release(usize),
    /// The signal at this place in the network arrives.
    Deliver(usize),
}

/// All that decides about the future of a lane.
type Key = (
    (usize, usize, usize),
    (Vec<usize>, Vec<usize>, Vec<Vec<usize>>),
    (Vec<bool>, Vec<bool>),
    (Vec<usize>, Vec<(usize, bool, Option<u64>)>),
    (usize, Option<usize>),
);

impl Lane {
    pub(super) fn new(shape: Shape) -> Self {
        let nodes = shape.launch.len();
        let graph = StageGraph::checked(nodes, shape.edges).unwrap();
        let marks = Watermarks::checked(shape.high.into(), shape.low.into(), u32::MAX).unwrap();
        let mode = if shape.is_on { PauseMode::On(marks) } else { PauseMode::Off };
        let machine = Backpressure::new(&graph, mode, 0);
        let far = shape.delay.map(|_| {
            let mut far = Backpressure::new(&graph, mode, 0);
            (0..shape.edges.len()).for_each(|edge| far.mark_remote(EdgeId(edge)));
            far
        });
        Self {
            shape,
            machine,
            far,
            network: Vec::new(),
            sent: vec![0; shape.edges.len()],
            arrived: vec![0; shape.edges.len()],
            late: vec![0; shape.edges.len()],
            left: shape.batches,
            done: 0,
            queues: vec![0; shape.edges.len()],
            forming: vec![0; nodes],
            flying: vec![Vec::new(); nodes],
            holds: vec![false; shape.edges.len()],
            operator: (shape.operator, None),
            lost: 0,
        }
    }

    fn inputs(&self, node: usize) -> impl Iterator<Item = usize> {
        let edges = self.shape.edges;
        (0..edges.len()).filter(move |&edge| edges[edge].1 == node)
    }

    fn outputs(&self, node: usize) -> impl Iterator<Item = usize> {
        let edges = self.shape.edges;
        (0..edges.len()).filter(move |&edge| edges[edge].0 == node)
    }

    /// The most that a node holds.
    fn room(&self, node: usize) -> usize {
        if node == 0 { 1 } else { self.shape.streams * self.shape.launch[node] }
    }

    /// Batches that the queue of `edge` can hold.
    fn capacity(&self, edge: usize) -> usize {
        let (from, to) = self.shape.edges[edge];
        let inflow = Inflow {
            launch: self.shape.launch[to] as u64,
            held_upstream: self.room(from) as u64,
            rate: self.shape.delay.unwrap_or(0) as u64 * 1_000_000_000,
            signal_delay_ns: 1,
        };
        let milli = required_capacity(self.shape.high, &inflow) as usize;
        milli * self.shape.launch[to] / 1_000 - self.shape.short
    }

    fn is_paused(&self, node: usize) -> bool {
        self.far.as_ref().unwrap_or(&self.machine).is_paused(NodeId(node))
    }

    /// Whether a pause that is on its way to `node` must arrive first.
    fn must_wait(&self, node: usize) -> bool {
        let limit = self.shape.delay.unwrap_or(usize::MAX);
        self.outputs(node).any(|edge| self.pause_travels(edge) && self.late[edge] >= limit)
    }

    fn pause_travels(&self, edge: usize) -> bool {
        self.far.is_some() && self.holds[edge] && self.arrived[edge] < self.sent[edge]
    }

    fn may_take(&self, node: usize) -> bool {
        !self.is_paused(node) && !self.must_wait(node)
    }

    fn count_late(&mut self, node: usize) {
        let late: Vec<usize> =
            self.outputs(node).filter(|&edge| self.pause_travels(edge)).collect();
        late.into_iter().for_each(|edge| self.late[edge] += 1);
    }

    fn held(&self, node: usize) -> usize {
        self.forming[node] + self.flying[node].iter().sum::<usize>()
    }

    fn in_lane(&self) -> usize {
        self.shape.batches - self.left - self.done - self.lost
    }

    fn can_start(&self, node: usize) -> bool {
        self.forming[node] > 0 && self.flying[node].len() < self.shape.streams
    }

    /// Whether nothing more can reach `node`, so its last launch may start.
    fn is_last(&self, node: usize) -> bool {
        let before = |edge: usize| self.shape.edges[edge].0;
        let is_dry = |edge| self.queues[edge] == 0 && self.held(before(edge)) == 0;
        self.left == 0 && self.inputs(node).all(|edge| is_dry(edge) && self.is_last(before(edge)))
    }

    fn start(&mut self, node: usize) {
        if self.can_start(node) {
            let batches = std::mem::take(&mut self.forming[node]);
            self.flying[node].push(batches);
        }
    }

    fn start_full(&mut self, node: usize) {
        if self.forming[node] == self.shape.launch[node] {
            self.start(node);
        }
    }

    fn pass_on(&mut self, node: usize, batches: usize) {
        let outputs: Vec<usize> = self.outputs(node).collect();
        if outputs.is_empty() {
            self.done += batches;
        }
        for edge in outputs {
            let kept = batches.min(self.capacity(edge) - self.queues[edge]);
            self.lost += batches - kept;
            self.set_queue(edge, self.queues[edge] + kept);
        }
    }

    /// Reports a queue, and follows the marks without the machine.
    fn set_queue(&mut self, edge: usize, batches: usize) {
        self.queues[edge] = batches;
        let launch = self.shape.launch[self.shape.edges[edge].1];
        self.machine.handle_occupancy(EdgeId(edge), (batches * 1_000 / launch) as u32, 0);
        let (high, low) = (self.shape.high as usize, self.shape.low as usize);
        let is_high = batches * 1_000 >= high * launch;
        let is_low = batches * 1_000 <= low * launch;
        let holds = self.shape.is_on && (is_high || self.holds[edge] && !is_low);
        if holds != self.holds[edge] {
            (self.holds[edge], self.late[edge]) = (holds, 0);
        }
    }

    /// Joins without a piece call for it, and signals start to travel, each of them twice.
    fn drain(&mut self) {
        for node in 0..self.shape.launch.len() {
            let lacking = self.inputs(node).find(|&edge| self.queues[edge] == 0);
            let has_other = self.inputs(node).any(|edge| self.queues[edge] > 0);
            if let Some(edge) = lacking.filter(|_| has_other) {
                self.machine.handle_join_waits(NodeId(node), EdgeId(edge), 0);
            }
        }
        while let Some(node) = self.machine.poll_flush() {
            self.start(node.0);
        }
        while let Some(signal) = self.machine.poll_signal() {
            if self.far.is_some() {
                self.send(signal);
            }
        }
    }

    fn send(&mut self, signal: Signal) {
        self.sent[signal.edge.0] = signal.sequence;
        self.network.extend([signal, signal]);
        // Old signals may also be lost, which keeps the number of states finite.
        let of_edge = |one: &Signal| one.edge == signal.edge;
        while self.network.iter().filter(|one| of_edge(one)).count() > COPIES_MAX {
            let oldest =
                self.network.iter().filter(|one| of_edge(one)).map(|one| one.sequence).min();
            let place =
                self.network.iter().position(|one| of_edge(one) && Some(one.sequence) == oldest);
            self.network.remove(place.unwrap());
        }
    }

    fn deliver(&mut self, place: usize) {
        let signal = self.network.remove(place);
        self.far.as_mut().unwrap().handle_signal(&signal, 0);
        let arrived = &mut self.arrived[signal.edge.0];
        *arrived = (*arrived).max(signal.sequence);
    }

    fn operate(&mut self, node: usize, pause: bool) {
        let machine = self.far.as_mut().unwrap_or(&mut self.machine);
        machine.handle_operator(NodeId(node), pause, 0);
        self.operator.0 -= usize::from(pause);
        self.operator.1 = pause.then_some(node);
    }

    /// Whether batches are missing on a way from the source to the end.
    fn unbalanced(&self, node: usize, before: usize) -> bool {
        let here = before + self.held(node);
        let mut outputs = self.outputs(node).peekable();
        if outputs.peek().is_none() {
            return here + self.done + self.left != self.shape.batches;
        }
        outputs.any(|edge| self.unbalanced(self.shape.edges[edge].1, here + self.queues[edge]))
    }

    /// Whether nodes are paused that should not be, or the other way round.
    fn wrong_pause(&self) -> bool {
        let settled = self.far.is_none() || self.sent == self.arrived;
        let by_operator = |node| self.operator.1 == Some(node);
        let should = |node| by_operator(node) || self.outputs(node).any(|edge| self.holds[edge]);
        let nodes = 0..self.shape.launch.len();
        settled && nodes.into_iter().any(|node| self.is_paused(node) != should(node))
    }

    /// Whether a node is paused although all queues after it are at the low mark or below.
    fn idles(&self) -> bool {
        let is_low = |edge: usize| {
            let launch = self.shape.launch[self.shape.edges[edge].1];
            self.queues[edge] * 1_000 <= self.shape.low as usize * launch
        };
        let by_operator = |node| self.operator.1 == Some(node);
        let low_after = |node: usize| !by_operator(node) && self.outputs(node).all(is_low);
        let settled = self.far.is_none() || self.sent == self.arrived;
        let equal_marks = self.shape.low == self.shape.high;
        let nodes = 0..self.shape.launch.len();
        settled
            && !equal_marks
            && nodes.into_iter().any(|node| self.is_paused(node) && low_after(node))
    }
}

impl Model for Lane {
    type Key = Key;
    type Event = LaneEvent;

    fn key(&self) -> Key {
        let age = |one: &Signal| {
            let edge = one.edge.0;
            let is_news = one.sequence > self.arrived[edge];
            (edge, one.pause, is_news.then(|| self.sent[edge] - one.sequence))
        };
        let mut network: Vec<_> = self.network.iter().map(age).collect();
        network.sort_unstable();
        let nodes = 0..self.shape.launch.len();
        (
            (self.left, self.done, self.lost),
            (self.queues.clone(), self.forming.clone(), self.flying.clone()),
            (self.holds.clone(), nodes.map(|node| self.is_paused(node)).collect()),
            (self.late.clone(), network),
            self.operator,
        )
    }

    fn steps(&self) -> Vec<LaneEvent> {
        let mut steps = Vec::new();
        if self.left > 0 && self.in_lane() < self.shape.pool && self.may_take(0) {
            steps.push(LaneEvent::Push);
        }
        for node in 1..self.shape.launch.len() {
            let has_input = self.inputs(node).all(|edge| self.queues[edge] > 0);
            if has_input && self.held(node) < self.room(node) && self.may_take(node) {
                steps.push(LaneEvent::Take(node));
            }
            if self.can_start(node) && (self.shape.has_deadline || self.is_last(node)) {
                steps.push(LaneEvent::Start(node));
            }
            if !self.flying[node].is_empty() {
                steps.push(LaneEvent::Complete(node));
            }
        }
        match self.operator {
            (_, Some(node)) => steps.push(LaneEvent::Release(node)),
            (0, None) => {}
            (_, None) => steps.extend((0..self.shape.launch.len()).map(LaneEvent::Hold)),
        }
        steps.extend((0..self.network.len()).map(LaneEvent::Deliver));
        steps
    }

    fn apply(&mut self, step: LaneEvent) {
        match step {
            LaneEvent::Push => {
                self.count_late(0);
                self.left -= 1;
                self.pass_on(0, 1);
            }
            LaneEvent::Take(node) => {
                self.count_late(node);
                let inputs: Vec<usize> = self.inputs(node).collect();
                inputs.into_iter().for_each(|edge| self.set_queue(edge, self.queues[edge] - 1));
                self.forming[node] += 1;
                self.start_full(node);
            }
            LaneEvent::Start(node) => self.start(node),
            LaneEvent::Complete(node) => {
                let batches = self.flying[node].remove(0);
                self.start_full(node);
                self.pass_on(node, batches);
            }
            LaneEvent::Hold(node) => self.operate(node, true),
            LaneEvent::Release(node) => self.operate(node, false),
            LaneEvent::Deliver(place) => self.deliver(place),
        }
        self.drain();
    }

    fn is_end(&self) -> bool {
        let is_settled = self.network.is_empty() && self.operator.1.is_none();
        self.done + self.lost == self.shape.batches && is_settled
    }

    fn violation(&self) -> Option<String> {
        let checks = [
            (self.lost > 0, "a batch is lost"),
            (self.unbalanced(0, 0), "batches are missing"),
            (self.wrong_pause(), "pauses differ from the queues"),
            (self.idles(), "paused although all queues after it are low"),
            (
                self.is_end() && (1..self.queues.len()).any(|edge| self.holds[edge]),
                "held at the end",
            ),
        ];
        let found = checks.iter().find(|(is_violated, _)| *is_violated);
        found.map(|(_, text)| (*text).to_owned())
    }
}
