//! The results of a simulation.

use warpline_sched::PauseEvidence;

use crate::histogram::Histogram;

/// Why a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All packets left.
    Drained,
    /// It had as many events as it may have.
    Events,
}

/// Counts of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounts {
    /// Packets that it worked on.
    pub processed: u64,
    /// Packets that its full queue dropped.
    pub drops: u64,
    /// Packets that it worked on and that a later queue dropped.
    pub wasted: u64,
    /// Launches; batches on the CPU.
    pub launches: u64,
    /// Nanoseconds of kernels, or of work on the CPU.
    pub work_ns: u64,
    /// Nanoseconds of its copies to the device, with their waits.
    pub copy_in_ns: u64,
    /// The same to the host.
    pub copy_out_ns: u64,
}

impl StageCounts {
    fn since(&self, before: &Self) -> Self {
        Self {
            processed: self.processed - before.processed,
            drops: self.drops - before.drops,
            wasted: self.wasted - before.wasted,
            launches: self.launches - before.launches,
            work_ns: self.work_ns - before.work_ns,
            copy_in_ns: self.copy_in_ns - before.copy_in_ns,
            copy_out_ns: self.copy_out_ns - before.copy_out_ns,
        }
    }
}

/// Counts of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainCounts {
    /// Packets that the source offered.
    pub offered: u64,
    /// Packets that left after the last stage.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Packets lost at the source because it was paused. No stage had worked on them.
    pub held_back: u64,
    /// Packets that were dropped because they had no route.
    pub unrouted: u64,
    /// By stage.
    pub stages: Vec<StageCounts>,
}

impl ChainCounts {
    /// Packets that queues dropped.
    pub fn dropped(&self) -> u64 {
        self.stages.iter().map(|stage| stage.drops).sum()
    }

    /// Packets that are neither sent nor dropped.
    pub fn in_flight(&self) -> u64 {
        self.offered - self.sent - self.held_back - self.unrouted - self.dropped()
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        let stages = self.stages.iter().zip(&before.stages);
        Self {
            offered: self.offered - before.offered,
            sent: self.sent - before.sent,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            held_back: self.held_back - before.held_back,
            unrouted: self.unrouted - before.unrouted,
            stages: stages.map(|(own, before)| own.since(before)).collect(),
        }
    }
}

/// The results of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainOutcome {
    /// Of all packets.
    pub total: ChainCounts,
    /// From the end of the warm-up to the end of the traffic.
    pub measured: ChainCounts,
    /// From arrival to departure, in nanoseconds, of packets that left in that time.
    pub delay: Histogram,
    /// Packets in the chain, integrated over that time.
    pub packet_ns: u128,
    /// Pauses and queues.
    pub pauses: PauseEvidence,
}

/// The use of a device from the end of the warm-up to the end of the traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// Kernel time by tenant.
    pub busy_ns: Vec<u64>,
    /// Bytes copied to it.
    pub to_device_bytes: u64,
    /// Bytes copied to the host.
    pub to_host_bytes: u64,
}

/// A span of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The device.
    pub device: usize,
    /// The tenant that used it.
    pub tenant: usize,
    /// `kernel`, `to device` or `to host`.
    pub kind: &'static str,
    /// Its start.
    pub begins_ns: u64,
    /// Its end.
    pub ends_ns: u64,
}

/// Spans up to a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    max: usize,
    pub(crate) all: Vec<Span>,
    pub(crate) left_out: u64,
}

impl Spans {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    pub(crate) fn add(
        &mut self,
        device: usize,
        tenant: usize,
        kind: &'static str,
        (begins_ns, ends_ns): (u64, u64),
    ) {
        if ends_ns <= begins_ns {
        } else if self.all.len() < self.max {
            self.all.push(Span { device, tenant, kind, begins_ns, ends_ns });
        } else {
            self.left_out += 1;
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// By chain.
    pub chains: Vec<ChainOutcome>,
    /// By device.
    pub devices: Vec<DeviceOutcome>,
    /// Work of each lane in the measured time.
    pub lane_busy_ns: Vec<u64>,
    /// Work of all threads on shared cores in that time, if they are shared.
    pub cores_busy_ns: Option<u64>,
    /// The measured time.
    pub measured_ns: u64,
    /// When the last event was.
    pub ends_ns: u64,
    /// Events handled.
    pub events: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Use of devices over time.
    pub spans: Vec<Span>,
    /// Spans beyond the limit.
    pub spans_left_out: u64,
}

impl Outcome {
    /// Packets a second that chain `chain` sent.
    pub fn sent_pps(&self, chain: usize) -> f64 {
        self.per_second(self.chains[chain].measured.sent)
    }

    /// Bits of frames a second that it sent.
    pub fn sent_bps(&self, chain: usize) -> f64 {
        8.0 * self.per_second(self.chains[chain].measured.sent_bytes)
    }

    /// A count of the measured time, a second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.measured_ns.max(1) as f64
    }

    /// The share of the measured time in which `tenant` had kernels on `device`.
    pub fn device_share(&self, device: usize, tenant: usize) -> f64 {
        self.devices[device].busy_ns[tenant] as f64 / self.measured_ns.max(1) as f64
    }
}
