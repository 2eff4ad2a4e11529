//! Divides one function between the CPU and a device, if neither carries the load alone.
//!
//! Flows are divided by lanes, and each lane gets as many of them. So a lane that does the work on
//! the CPU has the load that all lanes have without the device, and carries a part of its flows.
//! The lanes that use the device relieve it of the flows of the others. Both together carry more
//! than either alone.

use super::evaluate::lane_delay_ns;
use super::items::{self, Choice, Item};
use super::search::Candidate;
use super::{PlacementFigures, PlacementProblem};
use crate::work_profile::CPU;

/// A function whose flows are divided by their hash.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub item: usize,
    /// The device and the launches of the flows that the CPU does not take.
    pub on_device: Choice,
    /// Of all lanes, those on the CPU.
    pub cpu_share: f64,
    /// The figures with it.
    pub figures: PlacementFigures,
}

/// The split of a function on a device that carries most, and exceeds the limits no more than
/// before.
pub(super) fn split(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    best: &Candidate,
) -> Option<Split> {
    if best.figures.load <= 1.0 || !problem.policy.may_split() {
        return None;
    }
    let excess =
        |figures: &PlacementFigures| problem.delay_excess(figures) + problem.power_excess(figures);
    let most = excess(&best.figures);
    let splits = (0..items.len()).flat_map(|item| of_item(problem, items, best, item));
    let keeping = splits.filter(|split| excess(&split.figures) <= most);
    let best_split = keeping.min_by(|a, b| a.figures.load.total_cmp(&b.figures.load))?;
    (best_split.figures.load < best.figures.load).then_some(best_split)
}

/// The splits of an item: with its device, or with all launches of the last one if it is on the
/// CPU.
fn of_item(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    best: &Candidate,
    item: usize,
) -> Vec<Split> {
    let own = &items[item];
    let choice = items::chosen(problem, items, &best.placed)[item];
    let Some(on_cpu) = own.choices.iter().find(|one| one.device == CPU) else { return Vec::new() };
    let last = own.choices.iter().rfind(|one| one.device != CPU).map(|one| one.device);
    let lanes = problem.chains[own.chain].lanes;
    let cpu_ns = delay_in_lane(problem, items, best, (item, on_cpu));
    let of = |on_device: Choice| {
        let shares = (1..lanes).map(move |on_cpu| on_cpu as f64 / lanes as f64);
        shares.map(move |share| {
            let sides = (on_cpu, on_device, share);
            with(problem, best, (item, own, &choice), sides, cpu_ns)
        })
    };
    match choice.device {
        CPU => {
            let on_last = own.choices.iter().filter(|one| Some(one.device) == last);
            on_last.copied().flat_map(of).collect()
        }
        _ => of(choice).collect(),
    }
}

/// The part of its chain's delay that an item has on the CPU, without slow-downs.
fn delay_in_lane(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    best: &Candidate,
    (item, on_cpu): (usize, &Choice),
) -> f64 {
    let chain = items[item].chain;
    let placed = items.iter().zip(&best.placed).enumerate();
    let others = placed.filter(|(at, (other, _))| *at != item && other.chain == chain);
    let others = others.map(|(_, (other, &at))| other.choices[at]);
    let mut lane: Vec<(Choice, f64)> =
        others.filter(|one| one.device == CPU).map(|one| (one, 1.0)).collect();
    let without_ns = lane_delay_ns(&lane, &problem.chains[chain]);
    lane.push((*on_cpu, 1.0));
    lane_delay_ns(&lane, &problem.chains[chain]) - without_ns
}

/// The split of an item whose flows the CPU takes on this share of the lanes. `cpu_ns` is its part
/// of the delay there.
fn with(
    problem: &PlacementProblem<'_>,
    best: &Candidate,
    (item, own, choice): (usize, &Item, &Choice),
    (on_cpu, on_device, cpu_share): (&Choice, Choice, f64),
    cpu_ns: f64,
) -> Split {
    let demand = &problem.chains[own.chain];
    let rate = demand.packets_per_s * 1e-9;
    let (cpu, device) = (rate * on_cpu.packet_ns / demand.width(), rate * on_device.packet_ns);
    let mut others = best.figures.clone();
    // A load of a mix is at least that of its parts without overlap.
    let taken = if choice.device == CPU { cpu } else { device };
    others.loads[choice.device] = (others.loads[choice.device] - taken).max(0.0);
    others.cores_load = (others.cores_load - problem.on_cores(choice.device, taken)).max(0.0);
    let side = |at: usize, load: f64| {
        let mut side = others.clone();
        side.loads[at] += load;
        side.cores_load += problem.on_cores(at, load);
        side
    };
    let mut figures = side(on_device.device, device);
    figures.divide(&side(CPU, cpu), cpu_share);
    if choice.device == CPU {
        let more_ns = on_device.figures.latency_ns - cpu_ns + on_device.fill_ns(demand);
        let own_ns = &mut figures.chain_delays_ns[own.chain];
        *own_ns += more_ns.max(0.0);
        figures.delay_ns = figures.delay_ns.max(*own_ns);
    }
    let is_on = |&at: &usize| at == CPU || at == on_device.device || others.loads[at] > 0.0;
    let on: Vec<usize> = (0..figures.loads.len()).filter(is_on).collect();
    (figures.power_w, figures.devices) = (problem.power_w(&figures.loads, &on), on.len());
    Split { item, on_device, cpu_share, figures }
}

impl PlacementFigures {
    /// The figures if this share of the lanes works as in `on_cpu`, with all flows there, and the
    /// rest as in these, with all on the device. The load is 1 over the part of the packets that is
    /// carried, or the highest load if all are.
    pub(crate) fn divide(&mut self, on_cpu: &Self, cpu_share: f64) {
        let mix = |own: &[f64], on_cpu: &[f64]| -> Vec<f64> {
            let both = own.iter().zip(on_cpu);
            both.map(|(own, cpu)| cpu_share * cpu + (1.0 - cpu_share) * own).collect()
        };
        let loads = mix(&self.loads, &on_cpu.loads);
        let links = mix(&self.link_loads, &on_cpu.link_loads);
        let devices = loads[CPU + 1..].iter().chain(&links).copied().fold(0.0, f64::max);
        let (apart, beside) = (on_cpu.loads[CPU], devices.max(self.loads[CPU]));
        let carried = cpu_share / apart.max(1.0) + (1.0 - cpu_share) / beside.max(1.0);
        self.cores_load = cpu_share * on_cpu.cores_load + (1.0 - cpu_share) * self.cores_load;
        let divided = if carried < 1.0 { 1.0 / carried } else { apart.max(beside) };
        self.load = divided.max(self.cores_load);
        self.delay_ns = self.delay_ns.max(on_cpu.delay_ns);
        for (own, other) in self.chain_delays_ns.iter_mut().zip(&on_cpu.chain_delays_ns) {
            *own = own.max(*other);
        }
        self.lane_loads = mix(&self.lane_loads, &on_cpu.lane_loads);
        (self.loads, self.link_loads) = (loads, links);
    }
}
