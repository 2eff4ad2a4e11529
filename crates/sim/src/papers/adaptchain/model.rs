//! The paper's server: threads for each function, a link, and a GPU that runs several kernels.

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, Mode, PauseMode, Plan, PlanStep, Watermarks, Way};

use super::chains::{GATHER, GATHER_NS_PER_BYTE, LINK_NS_PER_BYTE, POINTER, plans};
use crate::{
    Arrivals, BatchCost, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork,
    LinkModel, Outcome, Scenario, ScenarioError, Size, StageModel, StageSite, Traffic,
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
            stages: self.stages(&self.plan()?),
            pressure: PauseMode::On(Watermarks::default()),
            queue: 8_000,
            full_drops: false,
            signal_ns: 0,
            source_waits: false,
            ring: None,
            reader: None,
            sender: None,
            unrouted: 0.0,
        };
        for stage in &mut chain.stages {
            match &mut stage.place {
                StageSite::Cpu { lane, .. } => *lane += first_lane,
                StageSite::Device(work) => work.lane += first_lane,
            }
        }
        Ok(chain)
    }

    /// The plan of the least time if it carries the rate, otherwise the one that carries most.
    pub(super) fn plan(&self) -> Result<Plan, ScenarioError> {
        let rate = self.gbps / 8.0 / f64::from(self.len);
        let plans = plans(self.names, self.len, self.mode)?;
        let is_free = |plan: &Plan| self.busy_ns(plan).iter().all(|ns| rate * ns <= 1.0);
        let carries = plans.first().is_some_and(is_free);
        let worth = if carries { &plans[..1] } else { &plans[..] };
        let loads = worth.iter().map(|plan| (norm(&self.busy_ns(plan)), plan));
        let least = loads.min_by(|(one, _), (other, _)| one.total_cmp(other));
        Ok(least.map(|(_, plan)| plan.clone()).unwrap_or_default())
    }

    /// Time of a packet on each resource: the threads of functions, the GPU, and both directions of
    /// the link.
    fn busy_ns(&self, plan: &Plan) -> Vec<f64> {
        let (mut all, mut gpu, mut links) = (Vec::new(), 0.0, [0.0; 2]);
        let of_unit = |cost: &Cost| (cost.packet_ps + cost.launch_ps / self.unit as f64) / 1e3;
        let of_batch = |cost: &BatchCost| cost.ps(self.unit, 0) / 1e3 / self.unit as f64;
        for stage in self.stages(plan) {
            match stage.place {
                StageSite::Cpu { cost, .. } => all.push(of_batch(&cost)),
                StageSite::Device(work) => {
                    all.push(of_unit(&work.before) + work.after.packet_ps / 1e3);
                    gpu += of_batch(&work.kernel);
                    for (busy, crossing) in links.iter_mut().zip([work.to_device, work.to_host]) {
                        let copies = f64::from(crossing.copies) * COPY_NS / LAUNCH_PACKETS as f64;
                        *busy += crossing.packet * LINK_NS_PER_BYTE + copies;
                    }
                }
            }
        }
        all.extend([gpu, links[0], links[1]]);
        all
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

    fn on_device(&self, name: &str, lane: usize, step: &PlanStep) -> StageModel {
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
                foresees: false,
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
            kernel: Cost::of_packet(shared_ns).into(),
            latency_ns: ((alone_ns - shared_ns) * LAUNCH_PACKETS as f64) as u64,
            to_host: Crossing::of_packet(step.to_host_bytes()),
            after: Cost::of_packet(after_ns),
        };
        stage(name, StageSite::Device(work))
    }
}

/// Hardly more than the largest. Resources that are nearly as busy count, too, as their queues
/// delay it.
fn norm(busy_ns: &[f64]) -> f64 {
    busy_ns.iter().map(|ns| ns.powi(4)).sum::<f64>().powf(0.25)
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
        is_on_cores: false,
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
    stage(name, StageSite::Cpu { lane, cost: cost.into(), is_exponential: false })
}

fn stage(name: &str, place: StageSite) -> StageModel {
    StageModel { name: name.into(), share: 1.0, launch_packets: LAUNCH_PACKETS, place }
}
