//! Stages with their costs.

use warpline_sched::placement::Site;
use warpline_sched::work_profile::CPU;
use warpline_sched::{LaunchLimits, Mode, PauseMode, Plan, PlanStep, StageMember};

use super::{Asked, AskedChain, AskedFunction, Placed};
use crate::batch_cost::{BatchCost, time_ps};
use crate::model::{Cost, Crossing, DeviceWork, StageModel, StageSite};

/// Launches in flight of a stage, as in the engine's default.
const LAUNCHES_MAX: usize = 4;
/// How long a lane takes to see that a launch is done, by a profile without late timers: half the
/// time between two looks.
const LOOK_NS: f64 = 25_000.0;

/// Packets of a batch by which threads that share packets are measured, and the most by which they
/// take longer.
const SHARED_BATCH: f64 = 256.0;
const SHARED_MOST: f64 = 8.0;

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
                let cost = with_lane(asked, cost(asked, chain, placed, (run, 0)));
                (StageSite::Cpu { lane, cost, is_exponential: false }, chain.batch_packets)
            }
            _ => {
                let work = device_work(asked, (chain, placed), run, (lane, tenant), &plan);
                let packets = work.limits.packets_max as u64;
                (StageSite::Device(work), packets)
            }
        };
        let name = names.join(", ");
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

/// Functions that share a stage, as in the engine.
fn cut(chain: &AskedChain, placed: &Placed) -> Vec<std::ops::Range<usize>> {
    let launches = |one: &AskedFunction, site: &Site| {
        let bits = [site.deadline_ns.to_bits(), site.cpu_share.to_bits()];
        let is_chosen = matches!(one.device.as_deref(), None | Some("auto"));
        let size = (site.launch_packets, one.launches.in_flight);
        (site.device != CPU).then_some((site.device, size, bits, is_chosen))
    };
    let members = chain.functions.iter().zip(&placed.sites).enumerate();
    let members = members.map(|(at, (one, site))| StageMember {
        launches: launches(one, site),
        own_stage: one.own_stage,
        is_straight: chain.ways.as_ref().is_none_or(|ways| ways.is_straight(at)),
        is_second_place: one.is_second_place,
        access: &one.access,
        makes_packets: one.makes_packets,
        has_findings: one.has_findings,
    });
    warpline_sched::stages(&members.collect::<Vec<_>>(), false)
}

/// Launch sizes of a function on a device that were measured, each with its time in picoseconds.
fn points(asked: &Asked<'_>, pair: (usize, usize)) -> Vec<(f64, f64)> {
    let (work, len) = (&asked.file.work, asked.packet_len());
    let of = |size: u32| {
        let packet_ns = work.alone(pair, size, len)?.packet_ns(len);
        Some((f64::from(size), f64::from(size) * packet_ns * 1e3))
    };
    work.launch_sizes(pair).into_iter().filter_map(of).collect()
}

/// The factor by which a function on the CPU takes longer in a lane that shares packets with a
/// reader than in a thread that has them alone.
fn shared_factor(asked: &Asked<'_>, pair: (usize, usize), points: &[(f64, f64)]) -> f64 {
    let Some(times) = asked.file.threads.as_ref().filter(|_| pair.1 == 0) else { return 1.0 };
    let Some(with) = times.with(pair) else { return 1.0 };
    let len = u64::from(asked.packet_len());
    let own_ps = with.lane.ps(1, len) - times.lane.cost.ps(1, len);
    let alone_ps = time_ps(points, SHARED_BATCH) / SHARED_BATCH;
    if alone_ps > 0.0 { (own_ps / alone_ps).clamp(1.0, SHARED_MOST) } else { 1.0 }
}

/// The sum of the functions of a stage on a device, each with its part of the packets. Between
/// measured sizes the time is linear, and small launches have the times of small measured ones.
fn cost(
    asked: &Asked<'_>,
    chain: &AskedChain,
    placed: &Placed,
    (run, device): (&std::ops::Range<usize>, usize),
) -> BatchCost {
    let whole = share(chain, run.clone()).max(f64::MIN_POSITIVE);
    // By function, its part of the stage's packets and its measured sizes.
    let functions: Vec<(f64, Vec<(f64, f64)>)> = run
        .clone()
        .map(|at| {
            let pair = (placed.functions[at], device);
            let mut points = points(asked, pair);
            let factor = shared_factor(asked, pair, &points);
            points.iter_mut().for_each(|point| point.1 *= factor);
            (share(chain, at..at + 1) / whole, points)
        })
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

/// A lane's own time for a batch, if the profile has it.
fn lane_cost(asked: &Asked<'_>) -> Cost {
    asked.file.threads.as_ref().map_or(Cost::NONE, |times| times.lane.cost)
}

/// That of a stage on a device: with the function that takes most of it.
fn lane_on_device(asked: &Asked<'_>, pairs: impl Iterator<Item = (usize, usize)>) -> Cost {
    let len = u64::from(asked.packet_len());
    let times = asked.file.threads.as_ref();
    let with = pairs.filter_map(|pair| times?.with(pair).map(|one| one.lane));
    let all = with.chain([lane_cost(asked)]);
    all.max_by(|one, other| one.ps(1, len).total_cmp(&other.ps(1, len))).unwrap_or_default()
}

/// The time of a launch on the threads of a device on the CPU, if the profile has it for all
/// functions.
fn on_threads(asked: &Asked<'_>, pairs: impl Iterator<Item = (usize, usize)>) -> Option<Cost> {
    let times = asked.file.threads.as_ref()?;
    let mut all = Cost::NONE;
    for pair in pairs {
        let kernel = times.with(pair)?.kernel?;
        // Measured launches wake all threads, which those that follow others do not.
        let wake_ps = times.wake_late_ns * 1e3 * f64::from(kernel.threads);
        let launch_ps = (kernel.cost.launch_ps - wake_ps).max(0.0);
        let own = Cost { launch_ps, ..kernel.cost };
        // Functions of a launch share the time that it takes once.
        all = Cost { launch_ps: all.launch_ps.max(own.launch_ps), ..sum(all, own) };
    }
    Some(all)
}

fn sum(one: Cost, other: Cost) -> Cost {
    Cost {
        launch_ps: one.launch_ps + other.launch_ps,
        packet_ps: one.packet_ps + other.packet_ps,
        byte_ps: one.byte_ps + other.byte_ps,
    }
}

/// A time on the CPU with that of the lane.
fn with_lane(asked: &Asked<'_>, functions: BatchCost) -> BatchCost {
    let (own, len) = (lane_cost(asked), f64::from(asked.packet_len()));
    let BatchCost::Measured(points) = functions else { return functions };
    if own == Cost::NONE {
        return BatchCost::Measured(points);
    }
    let sizes = points.iter().map(|point| point.0).filter(|size| *size > 1.0);
    let of = |size: f64| {
        let lane_ps = own.launch_ps + size * (own.packet_ps + own.byte_ps * len);
        (size, time_ps(&points, size) + lane_ps)
    };
    BatchCost::Measured([1.0].into_iter().chain(sizes).map(of).collect())
}

/// The time of a launch besides that of the kernels, in nanoseconds.
fn latency_ns(asked: &Asked<'_>, pair: (usize, usize), launch: u32) -> f64 {
    let len = asked.packet_len();
    asked.file.work.alone(pair, launch, len).map_or(0.0, |figures| {
        (figures.latency_ns - f64::from(launch) * figures.packet_ns(len)).max(0.0)
    })
}

/// The time of the lane to gather fields and to put them back, if the profile has it.
fn host_costs(asked: &Asked<'_>, placed: &Placed, steps: &[&PlanStep]) -> [Cost; 2] {
    if asked.file.gather.is_none() {
        return [Cost::NONE; 2];
    }
    let of = |step: &&PlanStep| {
        let link = placed.problem.links.get(step.device);
        link.map_or([0.0; 2], |link| link.host_ns(&placed.problem.widths, step))
    };
    let sum = steps
        .iter()
        .map(of)
        .fold([0.0; 2], |[gather, put], [one, other]| [gather + one, put + other]);
    sum.map(Cost::of_packet)
}

/// Launches of a stage in flight at most. Without backpressure the engine has one.
fn in_flight(functions: &[AskedFunction], pressure: PauseMode) -> usize {
    if pressure == PauseMode::Off {
        return 1;
    }
    let asked = functions.iter().filter_map(|one| one.launches.in_flight);
    asked.min().unwrap_or(LAUNCHES_MAX).max(1)
}

fn device_work(
    asked: &Asked<'_>,
    (chain, placed): (&AskedChain, &Placed),
    run: &std::ops::Range<usize>,
    (lane, tenant): (usize, usize),
    plan: &Plan,
) -> DeviceWork {
    let site = placed.sites[run.start];
    let own = &placed.sites[run.clone()];
    let launch = own.iter().map(|site| site.launch_packets).max().unwrap_or(1);
    let latency = |at: usize| latency_ns(asked, (placed.functions[at], site.device), launch);
    // Papers and older profiles have no threads. With late timers, lanes look by themselves.
    let without_timers = asked.file.threads.as_ref().map(|times| times.timer_late_ns.is_empty());
    let look_ns = if without_timers == Some(true) { LOOK_NS } else { 0.0 };
    let latency_ns = look_ns + run.clone().map(latency).sum::<f64>();
    let steps: Vec<&PlanStep> = run.clone().filter_map(|at| plan.step(at)).collect();
    let there: f64 = steps.iter().map(|step| step.to_device_bytes()).sum();
    let back: f64 = steps.iter().map(|step| step.to_host_bytes()).sum();
    let [before, after] = host_costs(asked, placed, &steps);
    let launch_packets = launch as usize;
    let pair = |at: usize| (placed.functions[at], site.device);
    let on_threads = on_threads(asked, run.clone().map(pair));
    let kernel = match on_threads {
        Some(cost) => BatchCost::Linear(cost),
        None => cost(asked, chain, placed, (run, site.device)),
    };
    let latency_ns = if on_threads.is_some() { 0.0 } else { latency_ns };
    let own = lane_on_device(asked, run.clone().map(pair));
    DeviceWork {
        device: site.device - 1,
        tenant,
        limits: LaunchLimits {
            bytes_max: usize::MAX,
            packets_max: launch_packets,
            batches_max: usize::MAX,
            delay_max_ns: site.deadline_ns.clamp(0.0, 1e12) as u64,
            foresees: true,
            launches_max: in_flight(&chain.functions[run.clone()], chain.pressure),
            measures: false,
            waiting_bytes_max: usize::MAX,
            waiting_batches_max: usize::MAX,
            timeout_ns: u64::MAX,
        },
        counts_from_stage: run.start > 0,
        lane,
        before: sum(before, own),
        to_device: Crossing::of_packet(there),
        kernel,
        latency_ns: latency_ns as u64,
        to_host: Crossing::of_packet(back),
        after,
    }
}
