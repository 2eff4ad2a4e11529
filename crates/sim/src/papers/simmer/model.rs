//! The paper's system: three virtual machines with a function each, on one A100.

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, PauseMode, Policy, Watermarks};

use crate::{
    Arrivals, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork, Outcome,
    Scenario, ScenarioError, Size, StageModel, StageSite, Traffic,
};

/// Table 1: nanoseconds for a packet of [`LEN`] bytes by NF-1 (router), NF-2 (IPsec) and NF-3
/// (NIDS).
pub(super) const TABLE_1_NS: [f64; 3] = [40.0, 1_630.0, 520.0];
/// Bytes of a packet in table 1.
pub(super) const LEN: u32 = 1472;
/// Section 4.2: the threshold that the paper uses from there on.
pub(super) const MARK: f64 = 2.8;
/// Mpps at 1472 bytes, from table 2.
pub(super) const OFFERED: f64 = 1.505;

/// Assumed; see the paper's list.
const LAUNCH_PACKETS: u64 = 4096;
const BATCHES: u64 = 16;
const QUEUE: u32 = 4_000;
const SLICE_NS: u64 = 2_000_000;
const SWITCH_NS: u64 = 50_000;
const SIGNAL_NS: u64 = 100_000;
const LASTS_NS: u64 = 1_500_000_000;

/// Table 5: sevenths of the GPU for each function.
pub(super) const TABLE_5: [u32; 3] = [1, 3, 2];

/// How the GPU is divided.
#[derive(Clone, Debug)]
pub(super) enum Gpu {
    Vgpu,
    Mig(Vec<u32>),
}

/// A chain of the paper.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Nanoseconds of a packet, by function.
    pub(super) costs_ns: Vec<f64>,
    /// The share of packets that each function gets.
    pub(super) shares: Vec<f64>,
    pub(super) len: u32,
    pub(super) mpps: f64,
    /// The threshold in launches; none is the vanilla setup.
    pub(super) mark: Option<f64>,
    pub(super) gpu: Gpu,
    pub(super) switch_ns: u64,
    pub(super) signal_ns: u64,
    /// Thousandths of a launch that a queue holds.
    pub(super) queue: u32,
}

impl Case {
    /// NF-1, NF-2 and NF-3.
    pub(super) fn three_kinds(len: u32, mpps: f64) -> Self {
        Self::of(&[0, 1, 2], len, mpps)
    }

    /// These functions, counted from 0.
    pub(super) fn of(functions: &[usize], len: u32, mpps: f64) -> Self {
        Self {
            costs_ns: functions.iter().map(|&number| cost_ns(number, len)).collect(),
            shares: vec![1.0; functions.len()],
            len,
            mpps,
            mark: None,
            gpu: Gpu::Vgpu,
            switch_ns: SWITCH_NS,
            signal_ns: SIGNAL_NS,
            queue: QUEUE,
        }
    }

    pub(super) fn with_mark(&self, mark: Option<f64>) -> Self {
        Self { mark, ..self.clone() }
    }

    pub(super) fn run(&self) -> Result<Outcome, ScenarioError> {
        self.scenario().simulate()
    }

    fn scenario(&self) -> Scenario {
        let tenants = self.costs_ns.len();
        let sharing = match &self.gpu {
            Gpu::Vgpu => DeviceSharing::Slices {
                policy: Policy::BestEffort,
                slice_ns: SLICE_NS,
                switch_ns: self.switch_ns,
                slots: tenants,
            },
            Gpu::Mig(sevenths) => DeviceSharing::Instances(sevenths.clone()),
        };
        let name = "A100".to_owned();
        let (to_device, to_host, power) = (None, None, Power::default());
        let device =
            DeviceModel { name, sharing, tenants, to_device, to_host, power, is_on_cores: false };
        let mut scenario = Scenario::new(LASTS_NS, 1);
        scenario.devices.push(device);
        scenario.chains.push(self.chain());
        scenario
    }

    fn chain(&self) -> ChainModel {
        let pressure = self.mark.map_or(PauseMode::Off, |mark| {
            let mark = (mark * 1_000.0) as i64;
            // One threshold, as in the paper.
            PauseMode::On(Watermarks::checked(mark, mark, u32::MAX).unwrap_or_default())
        });
        let arrivals = Arrivals::Constant(self.mpps * 1e6);
        ChainModel {
            name: "chain".into(),
            traffic: Traffic { arrivals, size: Size::Fixed(self.len) },
            batch_packets: LAUNCH_PACKETS / BATCHES,
            batch_delay_ns: u64::MAX,
            stages: (0..self.costs_ns.len()).map(|at| self.stage(at)).collect(),
            pressure,
            queue: self.queue,
            full_drops: true,
            signal_ns: self.signal_ns,
            source_waits: false,
            ring: None,
            reader: None,
            sender: None,
            unrouted: 0.0,
        }
    }

    /// A function takes a whole launch from its queue when the last one is done (section 3.4).
    fn stage(&self, at: usize) -> StageModel {
        let work = DeviceWork {
            device: 0,
            tenant: at,
            limits: LaunchLimits {
                bytes_max: usize::MAX,
                packets_max: LAUNCH_PACKETS as usize,
                batches_max: 4 * BATCHES as usize,
                delay_max_ns: u64::MAX,
                foresees: false,
                launches_max: 1,
                measures: false,
                waiting_bytes_max: usize::MAX,
                waiting_batches_max: BATCHES as usize,
                timeout_ns: u64::MAX,
            },
            counts_from_stage: true,
            lane: 0,
            before: Cost::NONE,
            to_device: Crossing::NONE,
            kernel: Cost::of_packet(self.costs_ns[at]).into(),
            latency_ns: 0,
            to_host: Crossing::NONE,
            after: Cost::NONE,
        };
        StageModel {
            name: format!("nf-{}", at + 1),
            share: self.shares[at],
            launch_packets: LAUNCH_PACKETS,
            place: StageSite::Device(work),
        }
    }
}

fn cost_ns(number: usize, len: u32) -> f64 {
    let share = if number == 0 { 1.0 } else { f64::from(len) / f64::from(LEN) };
    TABLE_1_NS[number] * share
}

/// The load of figures by packet size: that of table 2.
pub(super) fn offered_mpps(len: u32) -> f64 {
    match len {
        0..=128 => 1.22,
        129..=256 => 1.63,
        257..=1024 => 1.42,
        _ => OFFERED,
    }
}
