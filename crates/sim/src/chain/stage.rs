//! A stage while it runs: its queue, its batcher, and its launches in flight.

use std::collections::VecDeque;

use warpline_sched::{Arrivals, Batcher, Launch, Load};

use crate::model::{DeviceWork, StageModel, StageSite};
use crate::traffic::Batch;

/// A batch on the CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Working {
    pub(crate) batch: Batch,
    /// Packets and bytes that the stage works on.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// See the module.
pub(crate) struct Stage {
    queue: VecDeque<Batch>,
    queued_packets: u64,
    /// On the CPU: for `before`, or for all of its work.
    pub(crate) working: Option<Working>,
    pub(crate) device: Option<OnDevice>,
    /// Done, and waiting for room after the stage.
    pub(crate) done: VecDeque<Batch>,
    pub(crate) arrivals: Arrivals,
    launch_packets: u64,
    share: f64,
    /// The remainder of `share` after rounding.
    rest: f64,
}

/// Launches of a stage.
pub(crate) struct OnDevice {
    pub(crate) work: DeviceWork,
    pub(crate) batcher: Batcher,
    /// Batches handed to the batcher and not released.
    held: VecDeque<Batch>,
    /// How many of these are in launches that started.
    started: usize,
    /// Packets of the others.
    forming_packets: u64,
    /// By slot.
    launches: Vec<Option<Launch>>,
}

impl Stage {
    pub(crate) fn new(model: &StageModel) -> Self {
        let device = match &model.place {
            StageSite::Cpu { .. } => None,
            StageSite::Device(work) => {
                let batcher = Batcher::new(&work.limits);
                let launches = vec![None; batcher.slots()];
                let held = VecDeque::new();
                let work = work.clone();
                Some(OnDevice { work, batcher, held, started: 0, forming_packets: 0, launches })
            }
        };
        Self {
            queue: VecDeque::new(),
            queued_packets: 0,
            working: None,
            device,
            done: VecDeque::new(),
            arrivals: Arrivals::default(),
            launch_packets: model.launch_packets,
            share: model.share,
            rest: 0.0,
        }
    }

    /// Packets before the stage and in launches that did not start, in thousandths of a launch.
    pub(crate) fn waiting_milli(&self) -> u32 {
        let forming = self.device.as_ref().map_or(0, |device| device.forming_packets);
        let milli = (self.queued_packets + forming).saturating_mul(1_000);
        u32::try_from(milli.div_ceil(self.launch_packets)).unwrap_or(u32::MAX)
    }

    pub(crate) fn queue(&mut self, batch: Batch) {
        self.queued_packets += batch.packets;
        self.queue.push_back(batch);
    }

    /// Whether it can take a batch, pauses aside.
    pub(crate) fn can_take(&self) -> bool {
        let has_room = self.device.as_ref().is_none_or(|device| device.batcher.has_room());
        has_room && self.working.is_none() && self.done.is_empty() && !self.queue.is_empty()
    }

    /// Takes a batch from the queue.
    pub(crate) fn take(&mut self) -> Option<Working> {
        let batch = self.queue.pop_front()?;
        self.queued_packets -= batch.packets;
        if self.share >= 1.0 {
            return Some(Working { batch, packets: batch.packets, bytes: batch.bytes });
        }
        self.rest += batch.packets as f64 * self.share;
        let packets = self.rest.floor();
        self.rest -= packets;
        let packets = (packets as u64).min(batch.packets);
        Some(Working { batch, packets, bytes: batch.bytes * packets / batch.packets.max(1) })
    }
}

impl OnDevice {
    /// Hands a batch to the batcher.
    pub(crate) fn collect(&mut self, taken: &Working, now_ns: u64) {
        let oldest_ns = if self.work.counts_from_stage { now_ns } else { taken.batch.oldest_ns };
        let (packets, bytes) = (taken.packets as usize, taken.bytes as usize);
        self.batcher.handle_batch(&Load { packets, bytes, oldest_ns });
        self.held.push_back(taken.batch);
        self.forming_packets += taken.batch.packets;
    }

    /// A launch that starts now.
    pub(crate) fn start(&mut self, now_ns: u64) -> Option<Launch> {
        let launch = self.batcher.poll_launch(now_ns)?;
        let own = self.held.range(self.started..self.started + launch.batches);
        self.forming_packets -= own.map(|batch| batch.packets).sum::<u64>();
        self.started += launch.batches;
        self.launches[launch.slot] = Some(launch);
        Some(launch)
    }

    pub(crate) fn launch(&self, slot: usize) -> Option<Launch> {
        self.launches[slot]
    }

    /// The launch of `slot` is done.
    pub(crate) fn finish(&mut self, slot: usize, now_ns: u64) {
        if let Some(launch) = self.launches[slot].take() {
            self.batcher.handle_done(launch.id, now_ns);
        }
    }

    /// Moves the batches of the next launch in order to `done`, if it is.
    pub(crate) fn release(&mut self, done: &mut VecDeque<Batch>) -> bool {
        let Some(launch) = self.batcher.poll_release() else { return false };
        self.started -= launch.batches;
        done.extend(self.held.drain(..launch.batches));
        true
    }
}
