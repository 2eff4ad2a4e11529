//! Chains and devices for tests.

#![allow(dead_code, reason = "each test file uses some of it")]

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, PauseMode};
use warpline_sim::{
    Arrivals, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork, Scenario, Size,
    StageModel, StageSite, Traffic,
};

pub(crate) const LEN: u32 = 1472;

/// Numbers by seed.
pub(crate) struct Lcg(pub(crate) u64);

impl Lcg {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

pub(crate) fn gpu(tenants: usize, sharing: DeviceSharing) -> DeviceModel {
    let (to_device, to_host) = (None, None);
    let name = "gpu".to_owned();
    DeviceModel {
        name,
        sharing,
        tenants,
        to_device,
        to_host,
        power: Power::default(),
        is_on_cores: false,
    }
}

fn chain(stages: Vec<StageModel>) -> ChainModel {
    ChainModel {
        name: "chain".into(),
        traffic: Traffic { arrivals: Arrivals::Constant(1e6), size: Size::Fixed(LEN) },
        batch_packets: 1,
        batch_delay_ns: u64::MAX,
        stages,
        pressure: PauseMode::Off,
        queue: 6_000,
        full_drops: false,
        signal_ns: 0,
        source_waits: false,
        ring: None,
        reader: None,
        sender: None,
        unrouted: 0.0,
    }
}

/// One stage on the CPU with an endless queue.
pub(crate) fn cpu_chain(packet_ns: f64, is_exponential: bool) -> ChainModel {
    let place = StageSite::Cpu { lane: 0, cost: Cost::of_packet(packet_ns).into(), is_exponential };
    let stage = StageModel { name: "stage".into(), share: 1.0, launch_packets: 1, place };
    ChainModel { queue: u32::MAX, ..chain(vec![stage]) }
}

/// A queue with one server, for a million packets or so.
pub(crate) fn queue(arrivals: Arrivals, service_ns: f64, is_exponential: bool) -> Scenario {
    let mut own = cpu_chain(service_ns, is_exponential);
    own.traffic.arrivals = arrivals;
    let mut scenario = Scenario::new((service_ns * 1.2e6) as u64, 7);
    scenario.chains.push(own);
    scenario
}

/// Stages of one tenant, by nanoseconds of a packet on the device.
pub(crate) fn device_chain(costs_ns: &[f64], tenant: usize, launch_packets: u64) -> ChainModel {
    let stage = |(number, &packet_ns): (usize, &f64)| StageModel {
        name: format!("nf-{}", number + 1),
        share: 1.0,
        launch_packets,
        place: StageSite::Device(DeviceWork {
            device: 0,
            tenant,
            limits: limits(launch_packets),
            counts_from_stage: false,
            lane: 0,
            before: Cost::NONE,
            to_device: Crossing::NONE,
            kernel: Cost::of_packet(packet_ns).into(),
            latency_ns: 0,
            to_host: Crossing::NONE,
            after: Cost::NONE,
        }),
    };
    let mut own = chain(costs_ns.iter().enumerate().map(stage).collect());
    own.batch_packets = launch_packets.min(64);
    own
}

/// Launches of so many packets, closed by nothing else.
pub(crate) fn limits(launch_packets: u64) -> LaunchLimits {
    LaunchLimits {
        bytes_max: usize::MAX,
        packets_max: launch_packets as usize,
        batches_max: usize::MAX,
        delay_max_ns: u64::MAX,
        foresees: false,
        launches_max: 2,
        measures: false,
        waiting_bytes_max: usize::MAX,
        waiting_batches_max: 4 * launch_packets as usize,
        timeout_ns: u64::MAX,
    }
}
