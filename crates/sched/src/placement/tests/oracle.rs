//! The value of a placement from the numbers of a world, without profile, plan or search.

use super::super::{Placement, PlacementPolicy};
use super::world::{LEN, World};

/// A device and an index of its curve, for each function.
type Assignment = Vec<(usize, usize)>;

/// The placement itself. The split of a function is added after the search, so a split function
/// has both its sides.
pub(super) fn assignments(world: &World, placed: &Placement) -> Vec<Assignment> {
    let mut all: Vec<Assignment> = vec![Vec::new()];
    for (function, site) in placed.sites[0].iter().enumerate() {
        let curve = &world.curves[function][site.device];
        let at = curve.iter().position(|point| point.0 == site.launch_packets);
        let own = (site.device, at.expect("a measured size"));
        let cpu = (site.cpu_share > 0.0 && site.device > 0).then_some((0, 0));
        let sides = [Some(own), cpu].into_iter().flatten();
        all =
            sides.flat_map(|one| all.iter().map(move |old| [&old[..], &[one]].concat())).collect();
    }
    all
}

fn all(world: &World) -> Vec<Assignment> {
    let mut all: Vec<Assignment> = vec![Vec::new()];
    for devices in &world.curves {
        let mut longer = Vec::new();
        for before in &all {
            for (device, curve) in devices.iter().enumerate() {
                for point in 0..curve.len() {
                    longer.push([before.as_slice(), &[(device, point)]].concat());
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
    let max_load = load.iter().copied().fold(0.0, f64::max);
    let (delay, power) = (delay(world, own), power(world, own, &load));
    let over = |value: f64, limit: Option<f64>| match limit {
        Some(limit) if value > limit => value / limit - 1.0,
        _ => 0.0,
    };
    let excess = over(delay, world.delay_ns_max) + over(power, world.power_w_max);
    let overload = if max_load > 1.0 { max_load - 1.0 } else { 0.0 };
    match policy {
        // Then other figures do not count.
        _ if overload > 0.0 => vec![excess, max_load],
        PlacementPolicy::Latency => vec![excess, 0.0, delay],
        PlacementPolicy::Energy => vec![excess, 0.0, power],
        _ => vec![excess, max_load],
    }
}

fn delay(world: &World, own: &Assignment) -> f64 {
    let mut delay = 0.0;
    let mut before = None;
    for (function, &(device, point)) in own.iter().enumerate() {
        let (launch, _, ns) = world.curves[function][device][point];
        let others = own.iter().filter(|one| one.0 == device).count() as f64 - 1.0;
        delay += ns * (1.0 + others * (world.slow[function] - 1.0));
        if device > 0 && before != Some((device, launch)) {
            delay += f64::from(launch) / world.rate * 1e9;
        }
        before = Some((device, launch));
    }
    delay
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
    for (function, &(device, point)) in own.iter().enumerate() {
        let gbps = world.curves[function][device][point].1;
        let here = own.iter().filter(|one| one.0 == device).count() as f64;
        let slower = 1.0 + (here - 1.0) * (world.slow[function] - 1.0);
        load[device] += world.rate * f64::from(LEN) * 8.0 / (gbps * 1e9) * slower / here;
    }
    load
}

fn least(values: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let smaller = |a: Vec<f64>, b: Vec<f64>| if b < a { b } else { a };
    values.reduce(smaller).expect("each function runs on the CPU")
}

pub(super) fn best(world: &World, policy: &PlacementPolicy) -> Vec<f64> {
    least(all(world).iter().map(|one| value(world, policy, one)))
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
    let max = |one: &Assignment| loads(&largest, one).into_iter().fold(0.0, f64::max);
    all(&largest).iter().map(max).fold(f64::INFINITY, f64::min)
}

pub(super) fn is_close(own: &[f64], best: &[f64]) -> bool {
    own.iter().zip(best).all(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3))
}
