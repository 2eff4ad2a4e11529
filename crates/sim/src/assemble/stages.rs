//! Stages with their costs. Consecutive functions on one device share a stage, unless one has its
//! own.

use warpline_sched::{LaunchLimits, Mode, Plan};

use super::{Asked, AskedChain, Placed};
use crate::batch_cost::{BatchCost, time_ps};
use crate::model::{Cost, Crossing, DeviceWork, StageModel, StageSite};

/// Launches in flight of a stage, as in the engine's default.
const LAUNCHES_MAX: usize = 4;

pub(super) fn stages(
    asked: &Asked<'_>,
    chain: &AskedChain,
    placed: &Placed,
    (lane, tenant): (usize, usize),
) -> Result<Vec<StageModel>, String> {
    let mode = chain.mode;
    let plan = placed.problem.plan(mode).map_err(|why| why.to_string())?;
    let runs = cut(chain, placed);
    let stage = |run: &std::ops::Range<usize>| {
        let names: Vec<&str> =
            chain.functions[run.clone()].iter().map(|one| one.name.as_str()).collect();
        let site = placed.sites[run.start];
        let (place, launch_packets) = match site.device {
            0 => {
                let cost = cpu_cost(asked, chain, placed, run);
                (StageSite::Cpu { lane, cost, is_exponential: false }, chain.batch_packets)
            }
            _ => {
                let work = device_work(asked, placed, run, (lane, tenant), &plan);
                let packets = work.limits.packets_max as u64;
                (StageSite::Device(work), packets)
            }
        };
        let name = names.join("+");
        let share = share(chain, run.clone());
        let least = if run.start == 0 { chain.first_launch_packets.max(1) } else { 1 };
        StageModel { name, share, launch_packets: launch_packets.max(least), place }
    };
    debug_assert!(Mode::ALL.contains(&mode), "a mode of `sched`");
    Ok(runs.iter().map(stage).collect())
}

/// The part of the chain's packets that pass any of these functions.
fn share(chain: &AskedChain, functions: std::ops::Range<usize>) -> f64 {
    chain.ways.as_ref().map_or(1.0, |ways| ways.share(functions))
}

/// Functions that share a stage. Those of a launch get the same packets.
fn cut(chain: &AskedChain, placed: &Placed) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, one) in chain.functions.iter().enumerate() {
        let device = placed.sites[at].device;
        let joins = |run: &std::ops::Range<usize>| {
            let last = run.end - 1;
            let is_straight = chain.ways.as_ref().is_none_or(|ways| ways.is_straight(last));
            (device == 0 || is_straight)
                && !one.own_stage
                && !chain.functions[last].own_stage
                && placed.sites[last].device == device
        };
        match runs.last_mut().filter(|run| joins(run)) {
            Some(run) => run.end = at + 1,
            None => runs.push(at..at + 1),
        }
    }
    runs
}

/// Of a launch or batch: the time between two measured sizes is linear.
fn cost(asked: &Asked<'_>, pair: (usize, usize), launch: u32) -> (Cost, f64) {
    let (work, len) = (&asked.file.work, asked.packet_len());
    let figures = |size: u32| work.alone(pair, size, len);
    let Some(own) = figures(launch) else { return (Cost::NONE, 0.0) };
    let time =
        |size: u32| figures(size).map_or(0.0, |figures| f64::from(size) * figures.packet_ns(len));
    let all = time(launch);
    let smaller = work.launch_sizes(pair).into_iter().find(|&size| size < launch);
    let fixed = smaller.map_or(0.0, |size| {
        let slope = (all - time(size)) / f64::from(launch - size);
        (all - slope * f64::from(launch)).clamp(0.0, all)
    });
    let packet = (all - fixed) / f64::from(launch);
    let latency_ns = (own.latency_ns - all).max(0.0);
    (Cost { launch_ps: fixed * 1e3, packet_ps: packet * 1e3, byte_ps: 0.0 }, latency_ns)
}

fn sum(costs: impl Iterator<Item = (Cost, f64)>) -> (Cost, f64) {
    costs.fold((Cost::NONE, 0.0), |(all, latency), (one, more)| {
        let launch_ps = all.launch_ps + one.launch_ps;
        let packet_ps = all.packet_ps + one.packet_ps;
        (Cost { launch_ps, packet_ps, byte_ps: 0.0 }, latency + more)
    })
}

/// The sum of all functions of a stage, each with its part of the packets. Small batches have the
/// times of small measured ones.
fn cpu_cost(
    asked: &Asked<'_>,
    chain: &AskedChain,
    placed: &Placed,
    run: &std::ops::Range<usize>,
) -> BatchCost {
    let (work, len) = (&asked.file.work, asked.packet_len());
    let points = |function: usize| -> Vec<(f64, f64)> {
        let of = |size: u32| {
            let packet_ns = work.alone((function, 0), size, len)?.packet_ns(len);
            Some((f64::from(size), f64::from(size) * packet_ns * 1e3))
        };
        work.launch_sizes((function, 0)).into_iter().filter_map(of).collect()
    };
    let whole = share(chain, run.clone()).max(f64::MIN_POSITIVE);
    // By function, its part of the stage's packets and its measured batches.
    let functions: Vec<(f64, Vec<(f64, f64)>)> = run
        .clone()
        .map(|at| (share(chain, at..at + 1) / whole, points(placed.functions[at])))
        .filter(|(part, _)| *part > 0.0)
        .collect();
    let of_stage = |(part, own): &(f64, Vec<(f64, f64)>)| -> Vec<f64> {
        own.iter().map(|point| point.0 / part).collect()
    };
    let mut sizes: Vec<f64> = functions.iter().flat_map(of_stage).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let all = |packets: f64| functions.iter().map(|(part, own)| time_ps(own, packets * part)).sum();
    BatchCost::Measured(sizes.into_iter().map(|packets| (packets, all(packets))).collect())
}

fn device_work(
    asked: &Asked<'_>,
    placed: &Placed,
    run: &std::ops::Range<usize>,
    (lane, tenant): (usize, usize),
    plan: &Plan,
) -> DeviceWork {
    let site = placed.sites[run.start];
    let own = &placed.sites[run.clone()];
    let launch = own.iter().map(|site| site.launch_packets).max().unwrap_or(1);
    let of = |at: usize| cost(asked, (placed.functions[at], site.device), launch);
    let (kernel, latency_ns) = sum(run.clone().map(of));
    let steps = || run.clone().filter_map(|at| plan.step(at));
    let there: f64 = steps().map(warpline_sched::PlanStep::to_device_bytes).sum();
    let back: f64 = steps().map(warpline_sched::PlanStep::to_host_bytes).sum();
    let launch_packets = launch as usize;
    DeviceWork {
        device: site.device - 1,
        tenant,
        limits: LaunchLimits {
            bytes_max: usize::MAX,
            packets_max: launch_packets,
            batches_max: usize::MAX,
            delay_max_ns: site.deadline_ns.clamp(0.0, 1e12) as u64,
            launches_max: LAUNCHES_MAX,
            measures: false,
            waiting_bytes_max: usize::MAX,
            waiting_batches_max: usize::MAX,
            timeout_ns: u64::MAX,
        },
        counts_from_stage: false,
        lane,
        before: Cost::NONE,
        to_device: Crossing::of_packet(there),
        kernel,
        latency_ns: latency_ns as u64,
        to_host: Crossing::of_packet(back),
        after: Cost::NONE,
    }
}
