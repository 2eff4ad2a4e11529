//! Figures 1 and 2: each function alone on each device, by batch size.

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, PauseMode};

use super::tables::{DEVICES, FUNCTIONS, LAUNCHES, LEN, PORT_GBPS, profile};
use crate::papers::shape::{Rule, falls, within};
use crate::papers::{ItemResult, Series};
use crate::{
    Arrivals, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork, Outcome,
    Scenario, ScenarioError, Size, StageModel, StageSite, Traffic,
};

type Result = std::result::Result<ItemResult, ScenarioError>;

const LASTS_NS: u64 = 500_000_000;

/// A function that takes launches of `launch` packets at `alone_gbps`, and gets `offered_gbps`.
fn run(
    launch: u32,
    alone_gbps: f64,
    offered_gbps: f64,
) -> std::result::Result<Outcome, ScenarioError> {
    let rate = offered_gbps * 1e9 / 8.0 / f64::from(LEN);
    let work = DeviceWork {
        device: 0,
        tenant: 0,
        limits: LaunchLimits {
            bytes_max: usize::MAX,
            packets_max: launch as usize,
            batches_max: usize::MAX,
            delay_max_ns: u64::MAX,
            foresees: false,
            launches_max: 2,
            measures: false,
            waiting_bytes_max: usize::MAX,
            waiting_batches_max: 256,
            timeout_ns: u64::MAX,
        },
        counts_from_stage: false,
        lane: 0,
        before: Cost::NONE,
        to_device: Crossing::NONE,
        kernel: Cost::of_packet(f64::from(LEN) * 8.0 / alone_gbps).into(),
        latency_ns: 0,
        to_host: Crossing::NONE,
        after: Cost::NONE,
    };
    let stage = StageModel {
        name: "function".into(),
        share: 1.0,
        launch_packets: u64::from(launch),
        place: StageSite::Device(work),
    };
    let mut scenario = Scenario::new(LASTS_NS, 1);
    let (to_device, to_host, power) = (None, None, Power::default());
    let (name, sharing) = ("device".into(), DeviceSharing::InOrder);
    scenario.devices.push(DeviceModel {
        name,
        sharing,
        tenants: 1,
        to_device,
        to_host,
        power,
        is_on_cores: false,
    });
    scenario.chains.push(ChainModel {
        name: "chain".into(),
        traffic: Traffic { arrivals: Arrivals::Constant(rate), size: Size::Fixed(LEN) },
        batch_packets: u64::from(launch / 16),
        batch_delay_ns: u64::MAX,
        stages: vec![stage],
        pressure: PauseMode::Off,
        queue: 4_000,
        full_drops: true,
        signal_ns: 0,
        source_waits: false,
        ring: None,
        reader: None,
        sender: None,
        unrouted: 0.0,
    });
    scenario.simulate()
}

/// A value for each function and device, by batch size, with the paper's.
fn by_batch(
    unit: &'static str,
    value: impl Fn(u32, f64) -> std::result::Result<f64, ScenarioError>,
    has_paper: bool,
) -> std::result::Result<Vec<Series>, ScenarioError> {
    let profile = profile();
    let mut all = Vec::new();
    for (function, name) in FUNCTIONS.iter().enumerate() {
        for (device, on) in DEVICES.iter().enumerate() {
            let mut series = Series::new(format!("{name} on {on}"), "batch", unit);
            #[cfg(test)]
            let device = crate::papers::mutated::device(device);
            for launch in LAUNCHES {
                let Some(own) = profile.alone((function, device), launch, LEN) else { continue };
                let gbps = own.bits_per_s / 1e9;
                series.add(launch, has_paper.then_some(gbps), value(launch, gbps)?);
            }
            all.push(series);
        }
    }
    Ok(all)
}

/// Our values at the first batch size, of function `function` on each device.
fn first(series: &[Series], function: usize) -> [f64; 3] {
    [0, 1, 2].map(|device| series[3 * function + device].ours()[0])
}

pub(super) fn figure_1() -> Result {
    let rate = |launch, gbps| Ok(run(launch, gbps, PORT_GBPS)?.sent_bps(0) / 1e9);
    let series = by_batch("Gb/s", rate, true)?;
    let at = |function: usize, device: usize| series[3 * function + device].ours();
    let (dpi, aes) = (at(0, 2), at(1, 1));
    let rules = vec![
        within("DPI on the GTX, 16384 to 4096", dpi[2] / dpi[1], 0.85..=1.1),
        within("DPI on the UHD to the CPU at 16384", at(0, 1)[2] / at(0, 0)[2], 0.9..=1.2),
        within("MD5 on the UHD to the CPU at 16384", at(2, 1)[2] / at(2, 0)[2], 0.9..=1.2),
        falls("AES at 16384: CPU, then UHD", &[at(1, 0)[2], aes[2]], 0.0),
        Rule::new("no device is fastest for all functions", {
            let best = |function| {
                (0..3).max_by(|&a, &b| {
                    first(&series, function)[a].total_cmp(&first(&series, function)[b])
                })
            };
            best(0) != best(1) || best(1) != best(2)
        }),
    ];
    Ok(ItemResult { series, rules })
}

pub(super) fn figure_2() -> Result {
    // At nine tenths of the device's rate.
    let delay = |launch, gbps: f64| {
        let offered = 0.9 * gbps.min(PORT_GBPS);
        Ok(run(launch, gbps, offered)?.chains[0].delay.mean() / 1e3)
    };
    let series = by_batch("us", delay, false)?;
    let least = |function: usize| {
        let delays = first(&series, function);
        (0..3).min_by(|&a, &b| delays[a].total_cmp(&delays[b])).unwrap_or_default()
    };
    let rises = series.iter().all(|one| one.ours().windows(2).all(|two| two[1] > two[0]));
    let rules = vec![
        Rule::new("latency rises with the batch", rises),
        Rule::new("DPI has its least latency on the CPU", least(0) == 0).because(
            "Two devices are within a few percent here, since only the rate of a device is \
             simulated and not the fixed time of its launches, which the paper does not print.",
        ),
        Rule::new("MD5 has its least latency on the CPU", least(2) == 0)
            .because("As for DPI: the rates of CPU and UHD are within 2 %."),
        Rule::new("AES has its least latency on the discrete GPU", least(1) == 2),
    ];
    Ok(ItemResult { series, rules })
}
