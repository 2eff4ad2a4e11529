//! Figure 2, and figures 5 to 8.

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, PauseMode};

use super::model::{KIB, MBPS, Measured, grid};
use crate::papers::shape::{Rule, does_not_fall, rises, within};
use crate::papers::{ItemResult, Series};
use crate::{
    Arrivals, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork, LinkModel,
    Scenario, ScenarioError, Size, StageModel, StageSite, Traffic,
};

type Result = std::result::Result<ItemResult, ScenarioError>;

/// Figure 5 and section 5.2: percent lost without a GPU.
const CPU_LOST: [Option<f64>; 7] = [Some(0.0), Some(0.0), Some(40.0), None, None, None, Some(95.0)];
/// Section 5.2: Mb/s at 1 Gb/s, without a GPU and with 4 MB or more.
const CPU_MBPS: f64 = 50.0;
const GPU_MBPS: f64 = 900.0;
/// Section 5.2: percent of four threads.
const CPU_ONLY: std::ops::RangeInclusive<f64> = 65.0..=78.0;
const WITH_GPU: std::ops::RangeInclusive<f64> = 0.0..=42.5;

/// Milliseconds until two tasks of a copy and a kernel, 1 ms each, are done.
fn two_tasks(streams: usize) -> std::result::Result<f64, ScenarioError> {
    let mut scenario = Scenario::new(2, 1);
    scenario.warm_up_ns = 0;
    scenario.devices.push(DeviceModel {
        name: "gpu".into(),
        sharing: DeviceSharing::InOrder,
        tenants: 1,
        to_device: Some(LinkModel { byte_ps: 0.0, copy_ns: 1e6, engines: 1 }),
        to_host: None,
        power: Power::default(),
        is_on_cores: false,
    });
    let work = DeviceWork {
        device: 0,
        tenant: 0,
        limits: LaunchLimits {
            packets_max: 1,
            launches_max: streams,
            delay_max_ns: 0,
            timeout_ns: u64::MAX,
            ..LaunchLimits::default()
        },
        counts_from_stage: false,
        lane: 0,
        before: Cost::NONE,
        to_device: Crossing::FRAMES,
        kernel: Cost::of_packet(1e6).into(),
        latency_ns: 0,
        to_host: Crossing::NONE,
        after: Cost::NONE,
    };
    let place = StageSite::Device(work);
    scenario.chains.push(ChainModel {
        name: "tasks".into(),
        traffic: Traffic { arrivals: Arrivals::Constant(1e9), size: Size::Fixed(64) },
        batch_packets: 1,
        batch_delay_ns: 0,
        stages: vec![StageModel { name: "task".into(), share: 1.0, launch_packets: 1, place }],
        pressure: PauseMode::Off,
        queue: u32::MAX,
        full_drops: false,
        signal_ns: 0,
        source_waits: false,
        ring: None,
        reader: None,
        sender: None,
        unrouted: 0.0,
    });
    Ok(scenario.simulate()?.ends_ns as f64 / 1e6)
}

pub(super) fn figure_2() -> Result {
    let mut series = Series::new("two tasks", "streams", "ms");
    for streams in [1, 2] {
        series.add(streams, None, two_tasks(streams)?);
    }
    let times = series.ours();
    let rules = vec![
        within("time with one stream, in copies and kernels,", times[0], 3.9..=4.1),
        within("time with two streams", times[1], 2.9..=3.1),
    ];
    Ok(ItemResult { series: vec![series], rules })
}

fn name(column: usize) -> String {
    column.checked_sub(1).map_or("CPU".into(), |at| format!("{} KiB", KIB[at]))
}

/// A value by traffic, for the CPU and for each buffer.
fn by_traffic(
    unit: &'static str,
    paper: impl Fn(usize, usize) -> Option<f64>,
    value: impl Fn(&Measured) -> f64,
) -> std::result::Result<Vec<Series>, ScenarioError> {
    let grid = grid()?;
    let one = |column: usize| {
        let mut series = Series::new(name(column), "Mb/s", unit);
        for (at, mbps) in MBPS.iter().enumerate() {
            series.add(mbps, paper(column, at), value(&grid[at][column]));
        }
        series
    };
    Ok((0..=KIB.len()).map(one).collect())
}

pub(super) fn figure_5() -> Result {
    let paper = |column: usize, at: usize| match column {
        0 => CPU_LOST[at],
        5.. => Some(0.0),
        _ => None,
    };
    let series = by_traffic("% lost", paper, |one| one.lost)?;
    let cpu = series[0].ours();
    let mut rules = vec![
        Rule::new("the CPU loses nothing up to 50 Mb/s", cpu[..2].iter().all(|one| *one == 0.0)),
        within("the loss of the CPU at 100 Mb/s", cpu[2], 35.0..=50.0),
        within("the loss of the CPU at 1 Gb/s", cpu[6], 90.0..=97.0),
        Rule::new(
            "buffers of 4 MB and more lose nothing",
            series[5..].iter().all(|one| one.ours().iter().all(|lost| *lost == 0.0)),
        ),
        Rule::new(
            "smaller ones lose packets at 1 Gb/s",
            series[1..5].iter().all(|one| one.ours()[6] > 0.0),
        ),
    ];
    for one in &series[..5] {
        rules.push(does_not_fall(&format!("the loss with {}", one.name), &one.ours(), 0.0));
    }
    Ok(ItemResult { series, rules })
}

pub(super) fn figure_6() -> Result {
    let row = &grid()?[6];
    let mut series = Series::new("1 Gb/s offered", "buffer", "Mb/s");
    for (column, one) in row.iter().enumerate() {
        let paper = match column {
            0 => Some(CPU_MBPS),
            5.. => Some(GPU_MBPS),
            _ => None,
        };
        series.add(name(column), paper, one.mbps);
    }
    let rates = series.ours();
    let rules = vec![
        does_not_fall("throughput by buffer", &rates, 0.02),
        within("Mb/s without a GPU", rates[0], 40.0..=60.0),
        within("Mb/s with 4 MB", rates[5], 850.0..=950.0),
        within("the gain by 4 MB, where the paper has 16,", rates[5] / rates[0], 12.0..=20.0),
    ];
    Ok(ItemResult { series: vec![series], rules })
}

pub(super) fn figure_7() -> Result {
    let series = by_traffic("% of four threads", |_, _| None, |one| one.cpu)?;
    let all = |range: std::ops::Range<usize>, limits: &std::ops::RangeInclusive<f64>| {
        series[range].iter().all(|one| one.ours().iter().all(|used| limits.contains(used)))
    };
    let below = |at: usize| series[1..].iter().all(|one| one.ours()[at] < series[0].ours()[at]);
    let rules = vec![
        Rule::new("with a GPU it is at most 42 %", all(1..9, &WITH_GPU)),
        Rule::new("without one it is 65 to 78 %", all(0..1, &CPU_ONLY)).because(
            "The paper's threads use as much at 10 Mb/s, so they poll. Simulated lanes use time \
                 for packets alone.",
        ),
        Rule::new("the GPU lowers it at each traffic", (0..MBPS.len()).all(below)),
    ];
    Ok(ItemResult { series, rules })
}

pub(super) fn figure_8() -> Result {
    let mut series = by_traffic("% of the time", |_, _| None, |one| one.gpu)?;
    series.remove(0);
    let last = |at: usize| series[at].ours()[6];
    let at_1_gbps: Vec<f64> = (0..KIB.len()).map(last).collect();
    let mut rules = vec![
        rises("the use of the GPU at 1 Gb/s by buffer", &at_1_gbps, 0.05),
        within("its use with the largest buffer at 1 Gb/s", at_1_gbps[7], 90.0..=100.0).because(
            "Table 2 leaves 2.4 ms for a buffer of 4 MB that fills in 37 ms, so kernels use a \
                 tenth of the time at most. The paper's counter includes more than kernels.",
        ),
    ];
    for one in &series[4..] {
        rules.push(does_not_fall(&format!("the use with {}", one.name), &one.ours(), 0.05));
    }
    Ok(ItemResult { series, rules })
}
