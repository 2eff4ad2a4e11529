//! The functions to place, each with its possible devices and launch sizes.

use super::{PlacementError, PlacementPolicy, PlacementProblem};
use crate::work_profile::{CPU, Figures};

/// A device and a launch size for a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub device: usize,
    pub launch: u32,
    pub figures: Figures,
    pub packet_ns: f64,
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
        self.choices.iter().rposition(|one| one.device == device)
    }
}

pub(super) fn of(problem: &PlacementProblem<'_>) -> Result<Vec<Item>, PlacementError> {
    let devices = problem.profile.devices().len();
    let mut items = Vec::new();
    for (chain, demand) in problem.chains.iter().enumerate() {
        let count = demand.functions.len();
        let fixed = match &problem.policy {
            PlacementPolicy::Fixed(all) => all.get(chain).is_some_and(|fixed| fixed.len() == count),
            _ => true,
        };
        let is_fit = fixed && count == demand.plan.functions.len() && demand.links.len() == devices;
        if !is_fit || !demand.packets_per_s.is_finite() || demand.packets_per_s < 0.0 {
            return Err(PlacementError::Shape { chain });
        }
        for (position, &function) in demand.functions.iter().enumerate() {
            let all = (0..devices).flat_map(|device| choices(problem, (chain, function), device));
            let choices = allowed(&problem.policy, (chain, position), all.collect());
            if choices.is_empty() {
                return Err(PlacementError::Unmeasured { chain, position });
            }
            items.push(Item { chain, position, function, choices });
        }
    }
    Ok(items)
}

/// Launch sizes up to the knee. The CPU needs no launches, so it has the best batch size alone.
fn choices(
    problem: &PlacementProblem<'_>,
    (chain, function): (usize, usize),
    device: usize,
) -> Vec<Choice> {
    let (profile, len) = (problem.profile, problem.chains[chain].packet_len);
    let Some(knee) = profile.launch_knee((function, device), len) else { return Vec::new() };
    let sizes = profile.launch_sizes((function, device)).into_iter();
    sizes
        .filter(|&size| size == knee || device != CPU && size < knee)
        .filter_map(|launch| {
            let figures = profile.alone((function, device), launch, len)?;
            Some(Choice { device, launch, figures, packet_ns: figures.packet_ns(len) })
        })
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
