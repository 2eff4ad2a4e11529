//! Divides one function between the CPU and a device, if neither carries the load alone.

use super::PlacementProblem;
use super::items::Item;
use super::search::Candidate;
use crate::work_profile::CPU;

/// A function whose flows are divided by their hash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Split {
    pub item: usize,
    pub cpu_share: f64,
    /// The highest load with the split.
    pub load: f64,
}

/// The split of a function on a device that lowers the highest load most. Copies count as if all
/// packets crossed.
pub(super) fn split(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    best: &Candidate,
) -> Option<Split> {
    if best.figures.load <= 1.0 || !problem.policy.may_split() {
        return None;
    }
    let splits = (0..items.len()).filter_map(|item| of_item(problem, items, best, item));
    let best_split = splits.min_by(|a, b| a.load.total_cmp(&b.load))?;
    (best_split.load < best.figures.load).then_some(best_split)
}

fn of_item(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    best: &Candidate,
    item: usize,
) -> Option<Split> {
    let own = &items[item];
    let choice = own.choices[best.placed[item]];
    let on_cpu = own.choices.iter().find(|one| one.device == CPU)?;
    let on_device = match choice.device {
        CPU => own.choices.iter().rfind(|one| one.device != CPU)?,
        _ => &choice,
    };
    let rate = problem.chains[own.chain].packets_per_s * 1e-9;
    let lanes = problem.lanes_max.max(1) as f64;
    let (cpu, device) = (rate * on_cpu.packet_ns / lanes, rate * on_device.packet_ns);
    let mut loads = best.figures.loads.clone();
    // A load of a mix is at least that of its parts without overlap.
    let taken = if choice.device == CPU { cpu } else { device };
    loads[choice.device] = (loads[choice.device] - taken).max(0.0);
    let others = loads.iter().chain(&best.figures.link_loads).copied().fold(0.0, f64::max);
    let even = (device + loads[on_device.device] - loads[CPU]) / (cpu + device);
    let cpu_share = even.clamp(0.0, 1.0);
    let both = [
        loads[CPU] + cpu_share * cpu,
        loads[on_device.device] + (1.0 - cpu_share) * device,
        others,
    ];
    let load = both.into_iter().fold(0.0, f64::max);
    (cpu_share > 0.0 && cpu_share < 1.0).then_some(Split { item, cpu_share, load })
}
