//! The paper's server: threads for each function, a link, and a GPU that runs several kernels.

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, Mode, PauseMode, Plan, Step, Watermarks, Way};

use super::chains::{GATHER, GATHER_NS_PER_BYTE, LINK_NS_PER_BYTE, POINTER, plan};
use crate::{
    Arrivals, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork, LinkModel,
    Outcome, Place, Scenario, ScenarioError, Size, StageModel, Traffic,
};

/// Section VI-A: packets of a unit, and threads.
pub(super) const UNIT: u64 = 256;
const FUNCTION_THREADS: f64 = 2.0;
const TO_DEVICE_THREADS: f64 = 4.0;
const TO_HOST_THREADS: f64 = 5.0;
/// Figure 11: packets of a batch.
pub(super) const LAUNCH_PACKETS: u64 = 1024;
/// The port of section VI-A.
pub(super) const PORT_GBPS: f64 = 100.0;

/// Assumed; see the paper's list.
pub(super) const COPY_NS: f64 = 5_000.0;
const KERNELS_AT_ONCE: f64 = 3.5;
const CPU_NS: f64 = 20.0;
const QUEUE_NS: f64 = 60.0;
const TRACKING_NS: f64 = 200.0;

/// A chain of the paper under a plan.
pub(super) struct Case {
    pub(super) names: &'static [&'static str],
    pub(super) mode: Mode,
    pub(super) len: u32,
    pub(super) gbps: f64,
    pub(super) unit: u64,
    pub(super) lasts_ns: u64,
    pub(super) is_poisson: bool,
}

impl Case {
    /// At the port's rate.
    pub(super) fn at_most(names: &'static [&'static str], mode: Mode, len: u32) -> Self {
        Self {
            names,
            mode,
            len,
            gbps: PORT_GBPS,
            unit: UNIT,
            lasts_ns: 20_000_000,
            is_poisson: false,
        }
    }

    /// At 10 Gb/s, as latencies are measured.
    pub(super) fn at_10_gbps(names: &'static [&'static str], mode: Mode, len: u32) -> Self {
        Self { gbps: 10.0, lasts_ns: 200_000_000, ..Self::at_most(names, mode, len) }
    }

    pub(super) fn run(&self) -> Result<Outcome, ScenarioError> {
        run(std::slice::from_ref(self))
    }

    fn chain(&self, first_lane: usize) -> Result<ChainModel, ScenarioError> {
        let rate = self.gbps * 1e9 / 8.0 / f64::from(self.len);
        let arrivals =
            if self.is_poisson { Arrivals::Poisson(rate) } else { Arrivals::Constant(rate) };
        let mut chain = ChainModel {
            name: "chain".into(),
            traffic: Traffic { arrivals, size: Size::Fixed(self.len) },
            batch_packets: self.unit,
            batch_delay_ns: u64::MAX,
            stages: self.stages(&plan(self.names, self.len, self.mode)?),
            pressure: PauseMode::On(Watermarks::default()),
            queue: 8_000,
            full_drops: false,
            signal_ns: 0,
            source_waits: false,
        };
        for stage in &mut chain.stages {
            match &mut stage.place {
                Place::Cpu { lane, .. } => *lane += first_lane,
                Place::Device(work) => work.lane += first_lane,
            }
        }
        Ok(chain)
    }

    /// The functions, with the units that copy whole packets before and after them.
    fn stages(&self, plan: &Plan) -> Vec<StageModel> {
        let mut stages = Vec::new();
        for (position, name) in self.names.iter().enumerate() {
            let Some(step) = plan.step(position) else {
                stages.push(cpu(name, stages.len(), CPU_NS / FUNCTION_THREADS, QUEUE_NS));
                continue;
            };
            if step.to_device.way == Way::Frame {
                let ns = gather_ns(f64::from(self.len)) / TO_DEVICE_THREADS;
                stages.push(cpu("H2D unit", stages.len(), ns, QUEUE_NS));
            }
            stages.push(self.on_device(name, stages.len(), step));
            if step.to_host.way == Way::Frame {
                let ns = gather_ns(f64::from(self.len)) / TO_HOST_THREADS;
                stages.push(cpu("D2H unit", stages.len(), ns, QUEUE_NS + TRACKING_NS));
            }
        }
        stages
    }

    fn on_device(&self, name: &str, lane: usize, step: &Step) -> StageModel {
        let batched = |crossing: &warpline_sched::Crossing| match crossing.way {
            Way::Frame | Way::Nothing => gather_ns(0.0),
            _ => gather_ns(crossing.bytes - crossing.row_bytes),
        };
        let alone_ns = kernel_ns(name.trim_start_matches('@'), self.len);
        let shared_ns = alone_ns / KERNELS_AT_ONCE;
        let after_ns = match step.to_host.way {
            Way::Nothing => 0.0,
            _ => batched(&step.to_host) / FUNCTION_THREADS,
        };
        let of_unit = QUEUE_NS * 1e3 / FUNCTION_THREADS;
        let before_ns = batched(&step.to_device) / FUNCTION_THREADS;
        let work = DeviceWork {
            device: 0,
            tenant: 0,
            limits: LaunchLimits {
                bytes_max: usize::MAX,
                packets_max: LAUNCH_PACKETS as usize,
                batches_max: usize::MAX,
                delay_max_ns: 1_000_000,
                launches_max: FUNCTION_THREADS as usize,
                measures: false,
                waiting_bytes_max: usize::MAX,
                waiting_batches_max: (4 * LAUNCH_PACKETS / self.unit) as usize,
                timeout_ns: u64::MAX,
            },
            counts_from_stage: true,
            lane,
            before: Cost { launch_ps: of_unit, ..Cost::of_packet(before_ns) },
            to_device: Crossing::of_packet(step.to_device_bytes()),
            kernel: Cost::of_packet(shared_ns),
            latency_ns: ((alone_ns - shared_ns) * LAUNCH_PACKETS as f64) as u64,
            to_host: Crossing::of_packet(step.to_host_bytes()),
            after: Cost::of_packet(after_ns),
        };
        stage(name, Place::Device(work))
    }
}

/// Runs chains that share the GPU and its link.
pub(super) fn run(cases: &[Case]) -> Result<Outcome, ScenarioError> {
    let lasts_ns = cases.iter().map(|case| case.lasts_ns).max().unwrap_or(1);
    let mut scenario = Scenario::new(lasts_ns, 1);
    scenario.warm_up_ns = lasts_ns / 4;
    let link = Some(LinkModel { byte_ps: LINK_NS_PER_BYTE * 1e3, copy_ns: COPY_NS, engines: 1 });
    scenario.devices.push(DeviceModel {
        name: "Titan X".into(),
        sharing: DeviceSharing::InOrder,
        tenants: 1,
        to_device: link,
        to_host: link,
        power: Power::default(),
    });
    scenario.lanes = 0;
    for case in cases {
        let chain = case.chain(scenario.lanes)?;
        scenario.lanes += chain.stages.len();
        scenario.chains.push(chain);
    }
    scenario.simulate()
}

/// Of one thread for a packet of which so many bytes are batched.
pub(super) fn gather_ns(bytes: f64) -> f64 {
    GATHER.packet_ns + GATHER_NS_PER_BYTE * bytes
}

/// The kernel alone, for a packet.
pub(super) fn kernel_ns(name: &str, len: u32) -> f64 {
    match name {
        "ipsec" => 0.161 * f64::from(len),
        "nids" => 0.235 * f64::from(len),
        "firewall" => 30.0,
        _ => 20.0,
    }
}

/// Bytes of a pointer on the link, for a packet.
pub(super) fn pointer_ns() -> f64 {
    POINTER * LINK_NS_PER_BYTE
}

fn cpu(name: &str, lane: usize, packet_ns: f64, unit_ns: f64) -> StageModel {
    let cost = Cost { launch_ps: unit_ns * 1e3 / FUNCTION_THREADS, ..Cost::of_packet(packet_ns) };
    stage(name, Place::Cpu { lane, cost, is_exponential: false })
}

fn stage(name: &str, place: Place) -> StageModel {
    StageModel { name: name.into(), share: 1.0, launch_packets: LAUNCH_PACKETS, place }
}
