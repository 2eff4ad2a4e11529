//! The functions to place, each with its possible devices and launch sizes.

use super::{ChainDemand, PlacementError, PlacementPolicy, PlacementProblem};
use crate::work_profile::{CPU, Figures};

/// A device and a launch size for a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub device: usize,
    pub launch: u32,
    /// How long the oldest packet of a launch waits; 0 on the CPU.
    pub deadline_ns: f64,
    /// Packets of a launch that come within the wait.
    pub packets: u32,
    /// Those of such a launch.
    pub figures: Figures,
    pub packet_ns: f64,
    /// Of a batch of one packet.
    pub first_ns: f64,
    /// Packets of the largest measured batch on the CPU; of a launch elsewhere.
    pub most: u32,
}

impl Choice {
    /// The least latency: on the CPU that of a packet alone, on a device that of the launch.
    pub(super) fn least_latency_ns(&self) -> f64 {
        match self.device {
            CPU => self.first_ns * self.latency_factor(),
            _ => self.figures.latency_ns,
        }
    }

    /// How long the oldest packet of a launch on a device waits for the others.
    pub(super) fn fill_ns(&self, demand: &ChainDemand) -> f64 {
        demand.fill_ns(self.launch).min(self.deadline_ns)
    }

    /// Nanoseconds that each further packet of a batch adds.
    pub(super) fn next_ns(&self) -> f64 {
        match self.packets {
            0 | 1 => self.packet_ns,
            packets => {
                let batch_ns = f64::from(packets) * self.packet_ns;
                (batch_ns - self.first_ns).max(0.0) / f64::from(packets - 1)
            }
        }
    }

    /// The latency of a batch, in its time.
    pub(super) fn latency_factor(&self) -> f64 {
        self.figures.latency_ns / (f64::from(self.packets) * self.packet_ns)
    }
}

/// A function of a chain.
#[derive(Debug)]
pub(super) struct Item {
    pub chain: usize,
    pub position: usize,
    pub function: usize,
    pub choices: Vec<Choice>,
}

impl Item {
    /// Its devices, each once.
    pub(super) fn devices(&self) -> Vec<usize> {
        let mut devices: Vec<usize> = self.choices.iter().map(|one| one.device).collect();
        devices.dedup();
        devices
    }

    /// The choice with the largest launch on `device`.
    pub(super) fn largest_on(&self, device: usize) -> Option<usize> {
        self.choices.iter().position(|one| one.device == device)
    }
}

pub(super) fn of(problem: &PlacementProblem<'_>) -> Result<Vec<Item>, PlacementError> {
    let devices = problem.profile.devices().len();
    let mut items = Vec::new();
    for (chain, demand) in problem.chains.iter().enumerate() {
        let count = demand.functions.len();
        let is_fixed = match &problem.policy {
            PlacementPolicy::Fixed(all) => all.get(chain).is_some_and(|own| own.len() == count),
            _ => true,
        };
        let own_devices = problem.devices.as_ref().map(|all| all.get(chain));
        let is_fit = is_fixed
            && own_devices.is_none_or(|own| own.is_some_and(|own| own.len() == count))
            && count == demand.plan.functions.len()
            && demand.links.len() == devices;
        if !is_fit || !demand.packets_per_s.is_finite() || demand.packets_per_s < 0.0 {
            return Err(PlacementError::Shape { chain });
        }
        for (position, &function) in demand.functions.iter().enumerate() {
            let all = (0..devices).flat_map(|device| choices(problem, (chain, function), device));
            let may_have = |one: &Choice| {
                let own = problem.devices.as_ref().map(|all| &all[chain][position]);
                own.is_none_or(|devices| devices.contains(&one.device))
            };
            let all = all.filter(may_have).collect();
            let choices = allowed(&problem.policy, (chain, position), all);
            if choices.is_empty() {
                return Err(PlacementError::Unmeasured { chain, position });
            }
            items.push(Item { chain, position, function, choices });
        }
    }
    Ok(items)
}

/// Parts of the wait for the smallest launches, if delay counts.
const SHORT_WAITS: [f64; 3] = [1.0, 1.0 / 4.0, 1.0 / 16.0];

/// Launch sizes up to the knee, from the largest, so that it is chosen among equals. Those that
/// do not fill within a limit of the delay are left out, but for the smallest. If delay counts,
/// that may also wait for less. The CPU needs no launches, so it has the best batch size alone, and
/// smaller batches if fewer packets come.
fn choices(
    problem: &PlacementProblem<'_>,
    (chain, function): (usize, usize),
    device: usize,
) -> Vec<Choice> {
    let (profile, demand, pair) = (problem.profile, &problem.chains[chain], (function, device));
    let len = demand.packet_len;
    let Some(knee) = profile.launch_knee(pair, len) else { return Vec::new() };
    let sizes = profile.launch_sizes(pair);
    let largest = sizes.last().copied().unwrap_or(1);
    let sizes = sizes.into_iter().rev();
    let choice = |(launch, part): (u32, f64)| {
        let full = profile.alone(pair, launch, len)?;
        let (packets, deadline_ns) = match device {
            CPU => (launch, 0.0),
            _ => {
                let deadline_ns = part * problem.deadline_ns(demand, launch, full.latency_ns);
                (demand.packets_within(deadline_ns).min(launch), deadline_ns)
            }
        };
        let figures = profile.alone(pair, packets, len)?;
        let packet_ns = figures.packet_ns(len);
        let first_ns = profile.alone(pair, 1, len)?.packet_ns(len);
        let most = if device == CPU { largest } else { packets };
        Some(Choice { device, launch, deadline_ns, packets, figures, packet_ns, first_ns, most })
    };
    let least = profile.launch_sizes(pair).first().copied();
    let delay_counts = problem.policy == PlacementPolicy::Latency || problem.delay_ns_max.is_some();
    let fits = |one: &Choice| {
        problem.delay_ns_max.is_none() || demand.fill_ns(one.launch) <= one.deadline_ns
    };
    let waits = |size: u32| match device {
        CPU => &SHORT_WAITS[..1],
        _ if delay_counts && Some(size) == least => &SHORT_WAITS[..],
        _ => &SHORT_WAITS[..1],
    };
    sizes
        .filter(|&size| size == knee || device != CPU && size < knee)
        .flat_map(|size| waits(size).iter().map(move |&part| (size, part)))
        .filter_map(choice)
        .filter(|one| device == CPU || Some(one.launch) == least || fits(one))
        .collect()
}

fn allowed(
    policy: &PlacementPolicy,
    (chain, position): (usize, usize),
    all: Vec<Choice>,
) -> Vec<Choice> {
    let has_device = all.iter().any(|one| one.device != CPU);
    all.into_iter()
        .filter(|one| match policy {
            PlacementPolicy::CpuOnly => one.device == CPU,
            PlacementPolicy::DeviceOnly => one.device != CPU || !has_device,
            PlacementPolicy::Fixed(devices) => devices[chain][position] == one.device,
            _ => true,
        })
        .collect()
}
