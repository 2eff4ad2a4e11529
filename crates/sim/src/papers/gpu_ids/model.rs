//! The server of the paper: three threads, a queue of 128 MB, a buffer, and 16 streams.

use std::sync::OnceLock;

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, PauseMode};

use crate::{
    Arrivals, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork, LinkModel,
    Outcome, Scenario, ScenarioError, Size, StageModel, StageSite, Traffic,
};

/// Table 1 of the paper: traffic in Mb/s, and buffers in KiB.
pub(super) const MBPS: [u32; 7] = [10, 50, 100, 200, 400, 800, 1000];
pub(super) const KIB: [u64; 8] = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
const QUEUE_BYTES: u64 = 128 << 20;
const TIME_LIMIT_NS: u64 = 500_000_000;
const STREAMS: usize = 16;

/// Assumed; see the paper's list.
const LEN: u32 = 1500;
const CPU_MBPS: f64 = 55.0;
const LAUNCH_NS: f64 = 20_000_000.0;
const KERNEL_BYTE_PS: f64 = 1_000.0;
const THREAD_NS: f64 = 22_000.0;
const CPU_WAIT_NS: f64 = 20_000_000.0;
const LINK_MBPS: u32 = 900;
/// Threads that inspect, of four.
const THREADS: f64 = 3.0;

/// The results of one configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Percent of packets.
    pub(super) lost: f64,
    pub(super) mbps: f64,
    /// Percent of four threads.
    pub(super) cpu: f64,
    /// Percent of the time.
    pub(super) gpu: f64,
    /// Mean delay of a packet.
    pub(super) delay_ns: f64,
}

/// By traffic; each row is the CPU, then the buffers.
pub(super) fn grid() -> Result<&'static Vec<Vec<Measured>>, ScenarioError> {
    #[cfg(test)]
    if crate::papers::mutated::present().is_some() {
        return Ok(Box::leak(Box::new(made()?)));
    }
    static GRID: OnceLock<Result<Vec<Vec<Measured>>, ScenarioError>> = OnceLock::new();
    GRID.get_or_init(made).as_ref().map_err(Clone::clone)
}

fn made() -> Result<Vec<Vec<Measured>>, ScenarioError> {
    let row = |&mbps: &u32| {
        let buffers = std::iter::once(None).chain(KIB.iter().map(|&kib| Some(kib)));
        buffers.map(|buffer| measure(mbps, buffer)).collect()
    };
    MBPS.iter().map(row).collect()
}

/// Traffic in Mb/s on the CPU, or with a buffer of so many KiB.
pub(super) fn measure(mbps: u32, buffer: Option<u64>) -> Result<Measured, ScenarioError> {
    let outcome = scenario(mbps, buffer).simulate()?;
    let counts = &outcome.chains[0].measured;
    let wait_ns = if buffer.is_none() { CPU_WAIT_NS } else { 0.0 };
    let lane = outcome.lane_busy_ns[0] as f64 / outcome.measured_ns as f64;
    Ok(Measured {
        lost: 100.0 * counts.dropped() as f64 / counts.offered.max(1) as f64,
        mbps: outcome.sent_bps(0) / 1e6,
        cpu: 100.0 * lane.min(1.0) * THREADS / (THREADS + 1.0),
        gpu: 100.0 * gpu_share(&outcome),
        delay_ns: outcome.chains[0].delay.mean() + wait_ns,
    })
}

fn gpu_share(outcome: &Outcome) -> f64 {
    if outcome.devices.is_empty() { 0.0 } else { outcome.device_share(0, 0) }
}

fn scenario(mbps: u32, buffer: Option<u64>) -> Scenario {
    let mbps = f64::from(mbps.min(LINK_MBPS));
    let warm_up_ns = warm_up_ns(mbps, buffer);
    let mut scenario = Scenario::new((warm_up_ns + window_ns(mbps, buffer)) as u64, 1);
    scenario.warm_up_ns = warm_up_ns as u64;
    if buffer.is_some() {
        scenario.devices.push(DeviceModel {
            name: "K20c".into(),
            sharing: DeviceSharing::InOrder,
            tenants: 1,
            to_device: Some(LinkModel { byte_ps: 0.0, copy_ns: LAUNCH_NS, engines: 1 }),
            to_host: None,
            power: Power::default(),
            is_on_cores: false,
        });
    }
    let arrivals = Arrivals::Constant(mbps * 1e6 / 8.0 / f64::from(LEN));
    scenario.chains.push(ChainModel {
        name: "ids".into(),
        traffic: Traffic { arrivals, size: Size::Fixed(LEN) },
        batch_packets: if mbps > CPU_MBPS { 16 } else { 1 },
        batch_delay_ns: u64::MAX,
        stages: vec![stage(buffer)],
        pressure: PauseMode::Off,
        queue: u32::try_from(QUEUE_BYTES * 1_000 / u64::from(LEN)).unwrap_or(u32::MAX),
        full_drops: true,
        signal_ns: 0,
        source_waits: false,
        ring: None,
        reader: None,
        sender: None,
        unrouted: 0.0,
    });
    scenario
}

/// Until a queue that fills is full, and its packets have left.
fn warm_up_ns(mbps: f64, buffer: Option<u64>) -> f64 {
    let carried = buffer.map_or(CPU_MBPS, |kib| (kib << 10) as f64 * 8e3 / LAUNCH_NS);
    let bits = QUEUE_BYTES as f64 * 8.0;
    let ns = |mbps: f64| bits * 1e3 / mbps;
    match mbps / carried {
        part if part < 0.9 => 3e9,
        part if part < 1.02 => ns(mbps),
        _ => ns(mbps - carried) + ns(carried),
    }
}

/// Four seconds or more in which whole buffers arrive, so that as much leaves as comes.
fn window_ns(mbps: f64, buffer: Option<u64>) -> f64 {
    const LEAST_NS: f64 = 4e9;
    let Some(kib) = buffer else { return LEAST_NS };
    let frames = ((kib << 10) as f64 / f64::from(LEN)).ceil();
    let fill_ns = frames * f64::from(LEN) * 8e3 / mbps;
    (LEAST_NS / fill_ns).ceil() * fill_ns
}

fn stage(buffer: Option<u64>) -> StageModel {
    let place = match buffer {
        None => {
            let cost = Cost::of_packet(f64::from(LEN) * 8e3 / CPU_MBPS);
            StageSite::Cpu { lane: 0, cost: cost.into(), is_exponential: false }
        }
        Some(kib) => StageSite::Device(work(kib)),
    };
    StageModel { name: "ids".into(), share: 1.0, launch_packets: 1, place }
}

fn work(kib: u64) -> DeviceWork {
    let bytes = (kib << 10) as usize;
    DeviceWork {
        device: 0,
        tenant: 0,
        limits: LaunchLimits {
            bytes_max: bytes,
            packets_max: usize::MAX,
            batches_max: usize::MAX,
            delay_max_ns: TIME_LIMIT_NS,
            foresees: false,
            launches_max: STREAMS,
            measures: false,
            waiting_bytes_max: (STREAMS + 1) * bytes,
            waiting_batches_max: usize::MAX,
            timeout_ns: u64::MAX,
        },
        counts_from_stage: true,
        lane: 0,
        before: Cost::of_packet(THREAD_NS / THREADS),
        to_device: Crossing::FRAMES,
        kernel: Cost { byte_ps: KERNEL_BYTE_PS, ..Cost::NONE }.into(),
        latency_ns: 0,
        to_host: Crossing::NONE,
        after: Cost::NONE,
    }
}
