//! Figure 4 (a) to (d): the monitor of `sched` follows the load and the policy.

use warpline_packet::FieldSet;
use warpline_sched::monitor::{ChainObserved, Monitor, MonitorSettings, Observed, PlacementLimits};
use warpline_sched::placement::{ChainDemand, PlacementPolicy};
use warpline_sched::work_profile::{Figures, Measurement, Power, WorkProfile};
use warpline_sched::{Aim, LinkCosts, PlannedFunction, Problem, Touch, Widths};

use crate::ScenarioError;
#[cfg(test)]
use crate::papers::mutated;
use crate::papers::shape::Rule;
use crate::papers::{ItemResult, Series};

type Result = std::result::Result<ItemResult, ScenarioError>;

const SECOND: u64 = 1_000_000_000;
const LEN: u32 = 1500;
const DPI: usize = 0;
const AES: usize = 1;
const UHD: usize = 1;
const GTX: usize = 2;

/// Tables I and II at 4096 packets: device, function, Gb/s alone, and beside one DPI and one AES.
const ROWS: [(usize, usize, f64, [f64; 2]); 4] = [
    (UHD, DPI, 27.6, [13.8, 11.3]),
    (UHD, AES, 11.6, [11.3, 6.6]),
    (GTX, DPI, 18.0, [13.1, 12.9]),
    (GTX, AES, 18.4, [13.3, 13.2]),
];

/// Assumed: idle and busy watts.
const POWER: [(f64, f64); 3] = [(20.0, 95.0), (1.0, 15.0), (55.0, 250.0)];

fn figures(gbps: f64) -> Figures {
    Figures { bits_per_s: gbps * 1e9, latency_ns: 1e5, share: 1.0, weight: 10.0 }
}

/// The devices of the figure are the GPUs, so no function was measured on the CPU.
fn profile() -> WorkProfile {
    let mut profile = WorkProfile::new(&["DPI", "AES"], &["i7-8700K", "UHD 630", "GTX 1080 Ti"]);
    for (device, (idle, busy)) in POWER.into_iter().enumerate() {
        profile.set_power(device, Power { idle_w: Some(idle), busy_w: Some(busy) });
    }
    for (device, function, alone, beside) in ROWS {
        #[cfg(test)]
        if mutated::is(mutated::Mutation::MissingDevice) && device == GTX {
            continue;
        }
        let at = |gbps| Measurement::alone((function, device), 4096, LEN, figures(gbps));
        for one in [at(alone), at(beside[0]).beside(DPI, 1), at(beside[1]).beside(AES, 1)] {
            // The tables' figures are sound.
            let _ = profile.merge(&one);
        }
    }
    profile
}

/// A chain of one function, on devices that share the host's memory.
fn chain(function: usize) -> ChainDemand {
    ChainDemand {
        functions: vec![function],
        plan: Problem {
            functions: vec![PlannedFunction::run_only("one", None, Touch::NONE)],
            hops: None,
            links: vec![LinkCosts::PCIE_4],
            widths: Widths::new(&[], f64::from(LEN)),
            end_reads: FieldSet::EMPTY,
            gathered: FieldSet::FRAME,
            is_recoverable: true,
            fetches_first: false,
            aim: Aim::TIME,
        },
        links: vec![None; 3],
        packets_per_s: 1.0,
        packet_len: LEN,
        lanes: 1,
        threads_ns: 0.0,
    }
}

struct Second {
    gbps: f64,
    has_gtx: bool,
    watts: f64,
}

/// Runs the monitor for a minute.
fn run(
    functions: &[usize],
    policy: impl Fn(u64) -> PlacementPolicy,
    load: impl Fn(u64) -> f64,
) -> std::result::Result<Vec<Second>, ScenarioError> {
    let limits = PlacementLimits::default();
    let chains = functions.iter().map(|&function| chain(function)).collect();
    let settings = MonitorSettings::default();
    let mut monitor = Monitor::new(settings, limits, policy(0), profile(), chains);
    let mut seconds = Vec::new();
    for second in 0..60 {
        // A policy is given when it changes, as by `ctl policy`.
        let has_changed = second > 0 && policy(second) != policy(second - 1);
        #[cfg(test)]
        let has_changed = has_changed && !mutated::is(mutated::Mutation::DeafMonitor);
        if has_changed {
            monitor.handle_policy(policy(second));
        }
        let gbps = load(second);
        #[cfg(test)]
        let gbps = match mutated::present() {
            Some(mutated::Mutation::MoreTraffic) => gbps * 4.0,
            Some(mutated::Mutation::LessTraffic) => gbps / 10.0,
            _ => gbps,
        };
        let packets_per_s = gbps / functions.len() as f64 * 1e9 / 8.0 / f64::from(LEN);
        let observed = ChainObserved::of(packets_per_s, Observed::Running);
        monitor
            .handle_tick(&vec![observed; functions.len()], &[], second * SECOND)
            .map_err(|why| ScenarioError(why.to_string()))?;
        let Some(placed) = monitor.placement() else { continue };
        let has_gtx = placed.sites.iter().flatten().any(|site| site.device == GTX);
        let watts = placed.figures.power_w.unwrap_or_default();
        seconds.push(Second { gbps, has_gtx, watts });
    }
    Ok(seconds)
}

fn series(seconds: &[Second], paper: impl Fn(u64) -> Option<bool>) -> Vec<Series> {
    let mut gtx = Series::new("GTX 1080 Ti in use", "s", "");
    let mut watts = Series::new("power", "s", "W");
    let mut load = Series::new("load", "s", "Gb/s");
    let number = |is: bool| f64::from(u8::from(is));
    for (at, second) in seconds.iter().enumerate().step_by(2) {
        gtx.add(at, paper(at as u64).map(number), number(second.has_gtx));
        watts.add(at, None, second.watts);
        load.add(at, None, second.gbps);
    }
    vec![gtx, watts, load]
}

/// Assumed; see the paper's list. The load in Gb/s: 10, 20 from 20 s, 40 from 30 s, 10 again from
/// 40 s.
fn fluctuating(second: u64) -> f64 {
    match second {
        0..20 => 10.0,
        20..30 => 20.0,
        30..40 => 40.0,
        _ => 10.0,
    }
}

fn follows_the_load(functions: &[usize], tries_at_20: bool) -> Result {
    let seconds = run(functions, |_| PlacementPolicy::Energy, fluctuating)?;
    let used = |range: std::ops::Range<usize>| seconds[range].iter().any(|one| one.has_gtx);
    let always = |range: std::ops::Range<usize>| seconds[range].iter().all(|one| one.has_gtx);
    let mut rules = vec![
        Rule::new("up to 10 Gb/s the discrete GPU is off", !used(0..20)),
        Rule::new("at 40 Gb/s it is on after two ticks", always(32..40)),
        Rule::new("at 10 Gb/s again it is off within 12 s", !used(52..60)),
    ];
    if tries_at_20 {
        rules.push(Rule::new("it is on for a moment at 20 Gb/s", used(20..30)).because(
            "The paper's monitor activates it and at once sees that the integrated GPU copes. \
                 Ours computes that from the profile first.",
        ));
    } else {
        rules.push(Rule::new("at 20 Gb/s the integrated GPU copes", !used(20..30)));
    }
    let paper = |second| match second {
        0..20 => Some(false),
        32..40 => Some(true),
        _ => None,
    };
    Ok(ItemResult { series: series(&seconds, paper), rules })
}

pub(super) fn a() -> Result {
    follows_the_load(&[DPI, DPI], true)
}

pub(super) fn b() -> Result {
    follows_the_load(&[DPI, AES], false)
}

/// Throughput for 15 seconds, then energy.
fn follows_the_policy(functions: &[usize], gbps: f64) -> Result {
    let policy = |second| match second {
        0..15 => PlacementPolicy::Throughput,
        _ => PlacementPolicy::Energy,
    };
    let seconds = run(functions, policy, |_| gbps)?;
    let saved = seconds[14].watts - seconds[16].watts;
    let rules = vec![
        Rule::new(
            "for throughput the discrete GPU is in use",
            seconds[..15].iter().all(|one| one.has_gtx),
        ),
        Rule::new(
            "for energy it is off from the next tick",
            seconds[15..].iter().all(|one| !one.has_gtx),
        ),
        Rule::new(format!("that saves more than its idle power: {saved:.0} W"), saved > 55.0),
    ];
    Ok(ItemResult { series: series(&seconds, |second| Some(second < 15)), rules })
}

/// How many devices a minute of these functions uses at most.
pub(super) fn devices_used(functions: &[usize]) -> std::result::Result<usize, ScenarioError> {
    let seconds = run(functions, |_| PlacementPolicy::Energy, fluctuating)?;
    Ok(1 + usize::from(seconds.iter().any(|one| one.has_gtx)))
}

pub(super) fn c() -> Result {
    follows_the_policy(&[AES], 9.0)
}

pub(super) fn d() -> Result {
    follows_the_policy(&[AES, DPI], 18.0)
}
