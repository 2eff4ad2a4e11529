//! Backpressure between the stages of a lane ([`warpline_sched::Backpressure`]): how full each
//! queue is, and which stages may take a batch.
//!
//! A queue is measured in launches of its stage. A stage on a device counts the packets that wait
//! before it and those that it collected for launches that did not start. A launch has as many
//! packets as its bytes hold at the mean length of the frames so far. On the CPU a launch is the
//! batches that go through together. The queue between ingress and a lane is between threads, so
//! there a launch is larger: the high mark is at least [`Settings::queue_batches`].

use warpline_sched::{
    Admission, Backpressure, EdgeId, NodeId, PauseEvidence, PauseMode, Signal, StageGraph,
    Watermarks,
};

use crate::{Deployment, Settings};

/// Whether queues pause the stages before them, and how much they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureOptions {
    /// The marks, or no pauses at all.
    pub mode: PauseMode,
    /// Thousandths of a launch that a queue holds before it drops, if there are no pauses.
    pub queue: u32,
    /// Instances downstream that may pause the last stage ([`crate::Peers`]).
    pub downstream: usize,
}

impl PressureOptions {
    /// Thousandths of a launch that a queue holds by default.
    pub const QUEUE: u32 = 6_000;

    /// Whether no queue pauses a stage.
    pub fn is_off(&self) -> bool {
        self.mode == PauseMode::Off
    }
}

impl Default for PressureOptions {
    fn default() -> Self {
        Self { mode: PauseMode::On(Watermarks::default()), queue: Self::QUEUE, downstream: 0 }
    }
}

/// Packets that wait for a stage, and those of one of its launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packets: usize,
    pub(crate) launch: usize,
}

impl Waiting {
    /// In thousandths of a launch.
    fn milli(self) -> u32 {
        let milli = (self.packets as u64 * 1_000).div_ceil(self.launch.max(1) as u64);
        u32::try_from(milli).unwrap_or(u32::MAX)
    }
}

/// The counts of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounts {
    /// Packets that its full queue dropped.
    pub drops: u64,
    /// Times that it took work: launches on a device, or batches that went through together.
    pub launches: u64,
    /// Nanoseconds in which its device had a launch of it, or in which its functions worked on the
    /// CPU.
    pub device_ns: u64,
    /// Nanoseconds of all its launches together, each from its start to its end; 0 on the CPU.
    pub launch_ns: u64,
    /// Packets that it worked on and that a later queue dropped.
    pub wasted: u64,
}

impl StageCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.drops += other.drops;
        self.launches += other.launches;
        self.device_ns += other.device_ns;
        self.launch_ns += other.launch_ns;
        self.wasted += other.wasted;
    }
}

/// A list of stages whose last one feeds instances downstream.
fn graph(stages: usize, downstream: usize) -> StageGraph {
    let list = (0..stages).map(|node| (node, node + 1));
    let edges: Vec<_> = list.chain((1..=downstream).map(|one| (stages, stages + one))).collect();
    let graph = StageGraph::checked(stages + 1 + downstream, &edges);
    graph.unwrap_or_else(|_| unreachable!("edges lead forward"))
}

/// In the place of a stage: instances downstream.
pub(crate) const DOWNSTREAM: usize = usize::MAX - 2;
/// In the place of a stage: the output.
pub(crate) const OUTPUT: usize = usize::MAX - 1;

/// See the module.
pub(crate) struct Pressure {
    machine: Backpressure,
    /// Evidence of the stages before a move.
    earlier: PauseEvidence,
    options: PressureOptions,
    /// By stage.
    pub(crate) counts: Vec<StageCounts>,
    /// By stage, how often ingress was paused for it; then for instances downstream, and for the
    /// output.
    behind: Vec<u64>,
    /// By instance downstream, a bit if it pauses the last stage.
    held: u64,
    /// The number of that state.
    sequence: u64,
}

impl Pressure {
    pub(crate) fn new(deployment: &Deployment, settings: &Settings, now: u64) -> Self {
        let stages = deployment.stages().len();
        let options = settings.pressure;
        // A chain has a stage at least.
        let graph = graph(stages.max(1), options.downstream);
        let mut machine = Backpressure::new(&graph, options.mode, now);
        (0..options.downstream).for_each(|one| machine.mark_remote(EdgeId(stages.max(1) + one)));
        Self {
            machine,
            earlier: PauseEvidence::new(&graph),
            options,
            counts: vec![StageCounts::default(); stages],
            behind: vec![0; stages.max(1) + 2],
            held: 0,
            sequence: 0,
        }
    }

    /// Whether queues drop instead of pausing stages.
    pub(crate) fn is_off(&self) -> bool {
        self.options.is_off()
    }

    /// So much waits for `stage` now. Returns whether its feeder is paused; that of the first is
    /// ingress.
    pub(crate) fn set(&mut self, stage: usize, waiting: Waiting, now: u64) -> bool {
        self.machine.handle_occupancy(EdgeId(stage), waiting.milli(), now);
        // The lane asks for the state, so signals have nothing to add.
        while self.machine.poll_signal().is_some() {}
        self.machine.is_paused(NodeId(stage))
    }

    /// These instances downstream pause the last stage now, a bit each.
    #[inline]
    pub(crate) fn hold(&mut self, held: u64, now: u64) {
        if held != self.held {
            self.set_held(held, now);
        }
    }

    #[cold]
    fn set_held(&mut self, held: u64, now: u64) {
        let last = self.behind.len() - 2;
        self.sequence += 1;
        for one in 0..self.options.downstream {
            let signal = Signal {
                edge: EdgeId(last + one),
                from: NodeId(last + 1 + one),
                to: NodeId(last),
                pause: held >> one & 1 == 1,
                sequence: self.sequence,
            };
            self.machine.handle_signal(&signal, now);
        }
        self.held = held;
    }

    /// Whether an instance downstream pauses the last stage.
    pub(crate) fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Whether instances downstream may pause the last stage.
    #[inline]
    pub(crate) fn has_downstream(&self) -> bool {
        self.options.downstream > 0
    }

    /// Whether `stage` may take nothing.
    pub(crate) fn is_paused(&self, stage: usize) -> bool {
        self.machine.is_paused(NodeId(stage + 1))
    }

    /// Notes that ingress is paused. Returns where packets waited most often then: the first stage
    /// that no later one paused, [`DOWNSTREAM`] if that is none, or [`OUTPUT`].
    pub(crate) fn pause_ingress(&mut self, is_output_full: bool) -> usize {
        let (places, last) = (0..self.behind.len(), self.behind.len() - 2);
        let behind = match is_output_full {
            true => last + 1,
            false => (0..last).find(|&stage| !self.is_paused(stage)).unwrap_or(last),
        };
        self.behind[behind] += 1;
        match places.max_by_key(|&place| self.behind[place]).unwrap_or_default() {
            stage if stage < last => stage,
            place if place == last => DOWNSTREAM,
            _ => OUTPUT,
        }
    }

    /// Whether the queue before `stage`, where so much waits, drops the next batch.
    pub(crate) fn drops(&mut self, stage: usize, waiting: Waiting) -> bool {
        let queue = self.options.queue;
        self.machine.admits(EdgeId(stage), waiting.milli(), queue) == Admission::Dropped
    }

    /// The queue before `stage` dropped `packets`.
    pub(crate) fn count_drops(&mut self, stage: usize, packets: u64) {
        self.counts[stage].drops += packets;
        self.counts[..stage].iter_mut().for_each(|counts| counts.wasted += packets);
    }

    /// Evidence of queues and pauses.
    pub(crate) fn evidence(&self, now: u64) -> PauseEvidence {
        let mut all = self.machine.evidence(now);
        all.add(&self.earlier);
        all
    }

    /// Continues from `now` on with the evidence of `old`. Other stages than its own begin anew.
    pub(crate) fn take_over(&mut self, old: &mut Self, has_same_stages: bool, now: u64) {
        self.machine.handle_start(now);
        old.machine.add_evidence(&mut old.earlier, now);
        match has_same_stages {
            true => self.earlier.add(&old.earlier),
            false => self.earlier.add_source(&old.earlier),
        }
    }
}
