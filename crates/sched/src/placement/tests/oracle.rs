//! The value of a placement from the numbers of a world, without profile, plan or search.

use super::super::{Placement, PlacementPolicy, Site};
use super::world::{LEN, World};

/// For each function a device, an index of its curve, and the part of the wait that a launch has.
type Assignment = Vec<(usize, usize, u32)>;

/// 1 divided by the parts of the wait for the smallest launches, where delay counts.
const PARTS: [u32; 3] = [1, 4, 16];

/// The placement itself. The split of a function is added after the search, so a split function
/// has both its sides.
pub(super) fn assignments(world: &World, placed: &Placement) -> Vec<Assignment> {
    let mut all: Vec<Assignment> = vec![Vec::new()];
    let sites = &placed.sites[0];
    let point = |function: usize| {
        let (curve, site) = (&world.curves[function][sites[function].device], &sites[function]);
        let at = curve.iter().position(|point| point.0 == site.launch_packets);
        at.expect("a measured size")
    };
    for (function, site) in sites.iter().enumerate() {
        let at = point(function);
        let is_it = |part: &u32| {
            // Functions in a row with the same launches have the shortest wait of them.
            let alike = |other: &usize| {
                let of = |one: &Site| (one.device, one.launch_packets, one.deadline_ns.to_bits());
                of(&sites[*other]) == of(site)
            };
            let before = (0..function).rev().take_while(alike).count();
            let after = (function..sites.len()).take_while(alike).count();
            let waits = (function - before..function + after)
                .map(|at| wait(world, world.curves[at][site.device][point(at)], *part));
            let own = waits.fold(f64::INFINITY, f64::min);
            (own - site.deadline_ns).abs() <= 1e-6 * own
        };
        let part = if site.device == 0 { Some(1) } else { PARTS.into_iter().find(is_it) };
        let own = (site.device, at, part.expect("a wait"));
        let cpu = (site.cpu_share > 0.0 && site.device > 0).then_some((0, 0, 1));
        let sides = [Some(own), cpu].into_iter().flatten();
        all =
            sides.flat_map(|one| all.iter().map(move |old| [&old[..], &[one]].concat())).collect();
    }
    all
}

fn all(world: &World, policy: &PlacementPolicy) -> Vec<Assignment> {
    let delay_counts = *policy == PlacementPolicy::Latency || world.delay_ns_max.is_some();
    let mut all: Vec<Assignment> = vec![Vec::new()];
    for devices in &world.curves {
        let mut longer = Vec::new();
        for before in &all {
            for (device, curve) in devices.iter().enumerate() {
                for (point, own) in curve.iter().enumerate() {
                    let fill = f64::from(own.0) / world.rate * 1e9;
                    let is_late = world.delay_ns_max.is_some() && fill > wait(world, *own, 1);
                    if device > 0 && point > 0 && is_late {
                        continue;
                    }
                    let has_parts = delay_counts && point == 0 && device > 0;
                    for part in &PARTS[..if has_parts { 3 } else { 1 }] {
                        longer.push([before.as_slice(), &[(device, point, *part)]].concat());
                    }
                }
            }
        }
        all = longer;
    }
    all
}

/// Excess over limits, then the policy's figures.
fn value(world: &World, policy: &PlacementPolicy, own: &Assignment) -> Vec<f64> {
    let load = loads(world, own);
    let max_load = load.iter().copied().fold(cores_load(world, &load), f64::max);
    let (delay, power) = (delay(world, own), power(world, own, &load));
    let over = |value: f64, limit: Option<f64>| match limit {
        Some(limit) if value > limit => value / limit - 1.0,
        _ => 0.0,
    };
    let excess = over(delay, world.delay_ns_max) + over(power, world.power_w_max);
    let excess = (excess * 1e9).round();
    let overload = if max_load > 1.0 { max_load - 1.0 } else { 0.0 };
    match policy {
        // Then other figures do not count.
        _ if overload > 0.0 => vec![excess, max_load],
        PlacementPolicy::Latency => vec![excess, 0.0, delay],
        PlacementPolicy::Energy => vec![excess, 0.0, power],
        _ => vec![excess, max_load],
    }
}

fn delay(world: &World, all: &Assignment) -> f64 {
    let mut delay = lane_delay(world, all);
    let mut before = None;
    for (function, &(device, point, part)) in all.iter().enumerate() {
        let (launch, ..) = world.curves[function][device][point];
        let (_, ns) = work(world, all, function);
        // A lane has the functions of the chain in turn. A device has several launches at once.
        let at_once =
            if device == 0 { 1 } else { all.iter().filter(|one| one.0 == device).count() };
        if device > 0 {
            delay += ns * (1.0 + (at_once as f64 - 1.0) * (world.slow[function] - 1.0));
        }
        let own = Some((device, launch, part));
        if device > 0 && before != own {
            delay += (f64::from(launch) / world.rate * 1e9).min(wait_of(world, all, function));
        }
        before = own;
    }
    delay
}

/// How long the launches of a function wait: those in a row with the same launches share them.
fn wait_of(world: &World, own: &Assignment, function: usize) -> f64 {
    let launches = |at: usize| {
        let (device, point, part) = own[at];
        (device, world.curves[at][device][point].0, part)
    };
    let is_same = |at: &usize| launches(*at) == launches(function);
    let first = function - (0..function).rev().take_while(is_same).count();
    let row = (first..own.len()).take_while(is_same);
    let waits = row.map(|at| wait(world, world.curves[at][own[at].0][own[at].1], own[at].2));
    waits.fold(f64::INFINITY, f64::min)
}

/// Of functions on the CPU, whose times grow with the packets of a batch. So many come while the
/// lane works on the batch before, at least one and at most a full batch.
fn lane_delay(world: &World, own: &Assignment) -> f64 {
    let on_cpu = own.iter().enumerate().filter(|(_, one)| one.0 == 0);
    let full = on_cpu.map(|(function, _)| {
        let (packets, gbps, latency) = world.curves[function][0][0];
        (f64::from(packets), f64::from(LEN) * 8.0 / gbps, latency)
    });
    let full: Vec<(f64, f64, f64)> = full.collect();
    let packet_ns: f64 = full.iter().map(|one| one.1).sum();
    // Without a fixed time, a lane that keeps up has batches of one packet.
    let keeps_up = world.rate * packet_ns * 1e-9 < 1.0;
    if full.is_empty() || keeps_up {
        return full.iter().map(|&(packets, _, latency)| latency / packets).sum();
    }
    // The oldest packet of a batch waits for the others.
    let others = full[0].0 - 1.0;
    full.iter().map(|&(_, _, latency)| latency).sum::<f64>() + others / world.rate * 1e9
}

/// How long a launch waits: twice the time to fill it, at most a millisecond or the rest of the
/// limit, or a part of that.
fn wait(world: &World, (launch, _, latency): (u32, f64, f64), part: u32) -> f64 {
    let twice = 2.0 * f64::from(launch) / world.rate * 1e9;
    let most = world.delay_ns_max.map_or(1e6, |limit| limit - latency);
    twice.min(most).max(0.0) / f64::from(part)
}

/// Of a packet, and of the launch: nanoseconds. A launch on a device has the packets that come in
/// its wait.
fn work(world: &World, own: &Assignment, function: usize) -> (f64, f64) {
    let (device, point, _) = own[function];
    let curve = &world.curves[function][device];
    let time = |at: usize| f64::from(curve[at].0) * f64::from(LEN) * 8.0 / curve[at].1;
    let (launch, _, latency) = curve[point];
    let full = f64::from(launch);
    let come = (1.0 + world.rate * wait_of(world, own, function) * 1e-9).floor();
    if device == 0 || come >= full {
        return (time(point) / full, latency);
    }
    let size = |at: usize| f64::from(curve[at].0);
    if curve.len() == 1 {
        return (time(0) / size(0), latency);
    }
    // A curve has two points at most, and a random one may fall.
    let part = (come - size(0)) / (size(1) - size(0));
    let line = time(0) + (time(1) - time(0)) * part;
    match come < size(0) {
        true => (line.min(time(0)).max(time(0) * come / size(0)) / come, curve[0].2),
        false => (line / come, curve[0].2 + (curve[1].2 - curve[0].2) * part),
    }
}

fn power(world: &World, own: &Assignment, load: &[f64]) -> f64 {
    let mut power = 0.0;
    for (device, watts) in world.power.iter().enumerate() {
        let (idle, busy) = watts.expect("known");
        if device == 0 || own.iter().any(|one| one.0 == device) {
            power += idle + (busy - idle) * load[device].min(1.0);
        }
    }
    power
}

fn loads(world: &World, own: &Assignment) -> Vec<f64> {
    let mut load = vec![0.0; world.power.len()];
    for (function, &(device, ..)) in own.iter().enumerate() {
        let (packet_ns, _) = work(world, own, function);
        let here = own.iter().filter(|one| one.0 == device).count() as f64;
        let slower = 1.0 + (here - 1.0) * (world.slow[function] - 1.0);
        load[device] += world.rate * packet_ns * 1e-9 * slower / here;
    }
    load
}

/// Of the cores: the only lane, devices by their loads, and the other threads.
fn cores_load(world: &World, load: &[f64]) -> f64 {
    let mut busy = load[0] + world.rate * world.threads_ns / 1e9;
    for (own, cores) in load.iter().zip(&world.on_cores).skip(1) {
        busy += own * f64::from(*cores);
    }
    busy / world.cores as f64
}

fn least(values: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let smaller = |a: Vec<f64>, b: Vec<f64>| if b < a { b } else { a };
    values.reduce(smaller).expect("each function runs on the CPU")
}

pub(super) fn best(world: &World, policy: &PlacementPolicy) -> Vec<f64> {
    least(all(world, policy).iter().map(|one| value(world, policy, one)))
}

pub(super) fn of(world: &World, policy: &PlacementPolicy, placed: &Placement) -> Vec<f64> {
    least(assignments(world, placed).iter().map(|one| value(world, policy, one)))
}

/// The least load of all placements with the largest launches, which have the least.
pub(super) fn least_load(world: &World) -> f64 {
    let mut largest = world.clone();
    for curve in largest.curves.iter_mut().flatten() {
        *curve = curve.last().map(|&point| vec![point]).unwrap_or_default();
    }
    let last = |(function, &(device, ..)): (usize, &(usize, usize, u32))| {
        (device, world.curves[function][device].len() - 1, 1)
    };
    let max = |one: Assignment| {
        let one = one.iter().enumerate().map(last).collect();
        let loads = loads(world, &one);
        loads.iter().copied().fold(cores_load(world, &loads), f64::max)
    };
    all(&largest, &PlacementPolicy::Throughput).into_iter().map(max).fold(f64::INFINITY, f64::min)
}

pub(super) fn is_close(own: &[f64], best: &[f64]) -> bool {
    own.iter().zip(best).all(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3))
}
