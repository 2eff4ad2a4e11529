//! The functions to place, each with its possible devices and launch sizes.

use super::{ChainDemand, PlacementError, PlacementPolicy, PlacementProblem};
use crate::work_profile::{CPU, Figures};

/// A device and a launch size for a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub device: usize,
    pub launch: u32,
    /// The part of the longest wait that its launches have.
    pub wait: f64,
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
    /// None if the function was never measured on the device.
    fn new(
        problem: &PlacementProblem<'_>,
        (chain, function): (usize, usize),
        (device, launch, wait): (usize, u32, f64),
    ) -> Option<Self> {
        let (demand, pair) = (&problem.chains[chain], (function, device));
        let full = problem.profile.alone(pair, launch, demand.packet_len)?;
        let deadline_ns = match device {
            CPU => 0.0,
            _ => wait * problem.deadline_ns(demand, launch, full.latency_ns),
        };
        let least = Self {
            device,
            launch,
            wait,
            deadline_ns,
            packets: launch,
            figures: full,
            packet_ns: 0.0,
            first_ns: problem
                .profile
                .alone(pair, 1, demand.packet_len)?
                .packet_ns(demand.packet_len),
            most: problem.profile.launch_sizes(pair).last().copied().unwrap_or(1),
        };
        least.within(problem, (chain, function), deadline_ns)
    }

    /// The same with this deadline.
    fn within(
        self,
        problem: &PlacementProblem<'_>,
        (chain, function): (usize, usize),
        deadline_ns: f64,
    ) -> Option<Self> {
        let (demand, pair) = (&problem.chains[chain], (function, self.device));
        let packets = match self.device {
            CPU => self.launch,
            _ => demand.packets_within(deadline_ns).min(self.launch),
        };
        let figures = problem.profile.alone(pair, packets, demand.packet_len)?;
        let packet_ns = figures.packet_ns(demand.packet_len);
        let most = if self.device == CPU { self.most } else { packets };
        Some(Self { deadline_ns, packets, figures, packet_ns, most, ..self })
    }

    /// Whether both can have their launches together.
    pub(super) fn may_join(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.device, one.launch, one.wait);
        self.device != CPU && of(self) == of(other)
    }

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

/// The choices of a placement. Functions in a row that may join have the shortest of their
/// deadlines.
pub(super) fn chosen(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    placed: &[usize],
) -> Vec<Choice> {
    let all = items.iter().zip(placed).map(|(item, &at)| item.choices[at]);
    let mut all: Vec<Choice> = all.collect();
    // Without a limit, deadlines follow from the rate alone.
    if problem.delay_ns_max.is_none() {
        return all;
    }
    let mut first = 0;
    while first < all.len() {
        let joins =
            |at: &usize| items[*at].chain == items[first].chain && all[first].may_join(&all[*at]);
        let end = first + 1 + (first + 1..all.len()).take_while(joins).count();
        let deadlines = all[first..end].iter().map(|one| one.deadline_ns);
        let least = deadlines.fold(f64::INFINITY, f64::min);
        for (item, own) in items[first..end].iter().zip(&mut all[first..end]) {
            if own.deadline_ns > least {
                let of = (item.chain, item.function);
                *own = own.within(problem, of, least).unwrap_or(*own);
            }
        }
        first = end;
    }
    all
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
    let least = sizes.first().copied();
    let delay_counts = problem.policy == PlacementPolicy::Latency || problem.delay_ns_max.is_some();
    let fits = |one: &Choice| {
        problem.delay_ns_max.is_none() || demand.fill_ns(one.launch) <= one.deadline_ns
    };
    let waits = |size: u32| match device {
        CPU => &SHORT_WAITS[..1],
        _ if delay_counts && Some(size) == least => &SHORT_WAITS[..],
        _ => &SHORT_WAITS[..1],
    };
    let sizes = sizes.into_iter().rev();
    sizes
        .filter(|&size| size == knee || device != CPU && size < knee)
        .flat_map(|size| waits(size).iter().map(move |&wait| (device, size, wait)))
        .filter_map(|launches| Choice::new(problem, (chain, function), launches))
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
