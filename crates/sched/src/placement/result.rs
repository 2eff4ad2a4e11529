//! A placement with the reasons for it.

use super::items::{self, Choice, Item};
use super::search::{Candidate, SearchResult};
use super::{PlacementPolicy, PlacementProblem, split};
use crate::Aim;
use crate::work_profile::{CPU, Figures};

/// The figures of a placement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementFigures {
    /// The highest load of a device, of a link or of the cores. The chains are carried up to 1.
    pub load: f64,
    /// The longest delay of a chain, with the time to fill launches and to copy.
    pub delay_ns: f64,
    /// All devices with functions and the CPU; unknown if one of them is.
    pub power_w: Option<f64>,
    /// Devices with functions, and the CPU.
    pub devices: usize,
    /// The load by device.
    pub loads: Vec<f64>,
    /// The load by device of its link, in the direction with more.
    pub link_loads: Vec<f64>,
    /// The load by chain of its lanes, or of all lanes if that is higher.
    pub lane_loads: Vec<f64>,
    /// The load of the CPU's cores.
    pub cores_load: f64,
    /// The delay by chain.
    pub chain_delays_ns: Vec<f64>,
}

impl PlacementFigures {
    /// The same with the delay of one chain.
    pub fn of_chain(&self, chain: usize) -> Self {
        let delay_ns = self.chain_delays_ns.get(chain).copied().unwrap_or(self.delay_ns);
        Self { delay_ns, ..self.clone() }
    }

    /// The highest load of the lanes, devices and links that a chain uses, and of the cores.
    fn load_of(&self, chain: usize, sites: &[Site]) -> f64 {
        let lanes = self.lane_loads.get(chain).copied().unwrap_or(0.0).max(self.cores_load);
        let devices = sites.iter().map(|site| site.device).filter(|&device| device != CPU);
        let loads = devices.flat_map(|at| [self.loads.get(at), self.link_loads.get(at)]);
        loads.flatten().copied().fold(lanes, f64::max)
    }
}

/// Where a function runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// The device of the profile.
    pub device: usize,
    /// Packets of a launch; of a batch on the CPU.
    pub launch_packets: u32,
    /// How long the oldest packet of a launch waits; 0 on the CPU.
    pub deadline_ns: f64,
    /// The share of flows that the CPU takes: 1 on the CPU, 0 on a device, between them if neither
    /// carries the load alone.
    pub cpu_share: f64,
}

impl Site {
    /// Of so many lanes, those whose flows the device takes. Flows are divided by lanes.
    pub fn device_lanes(&self, lanes: usize) -> usize {
        if self.device == CPU {
            return 0;
        }
        ((1.0 - self.cpu_share) * lanes as f64).round() as usize
    }

    /// The device with so many lanes; the CPU if it takes the flows of all of them.
    pub fn device_with(&self, lanes: usize) -> usize {
        if self.device_lanes(lanes) == 0 { CPU } else { self.device }
    }
}

/// The figure by which the runner-up is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It exceeds the limits more.
    Limits,
    /// It carries less, or has a higher load.
    Load,
    /// It takes longer.
    Delay,
    /// It needs more power.
    Power,
    /// It needs more devices.
    Devices,
    /// Nothing: both are alike.
    Tie,
}

/// The measurement that differs most between a placement and its runner-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deciding {
    /// The chain.
    pub chain: usize,
    /// The position of the function.
    pub position: usize,
    /// The figures where it runs.
    pub chosen: Figures,
    /// Those at the runner-up's device and launch size.
    pub other: Figures,
}

/// The second best placement.
#[derive(Clone, Debug, PartialEq)]
pub struct RunnerUp {
    /// By chain and position.
    pub sites: Vec<Vec<Site>>,
    /// Its figures.
    pub figures: PlacementFigures,
    /// Why it is second.
    pub decided: Decided,
    /// The measurement that differs most.
    pub deciding: Option<Deciding>,
}

/// A limit that no placement keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// `delay_us_max`.
    Delay,
    /// `power_w_max`.
    Power,
    /// The load itself: some packets will wait or be dropped.
    Load,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// By chain and position.
    pub sites: Vec<Vec<Site>>,
    /// By chain, of the plan of its copies.
    pub aims: Vec<Aim>,
    /// Lanes of the CPU.
    pub lanes: usize,
    /// Launches in flight by device; 0 for one without functions.
    pub streams: Vec<usize>,
    /// Its figures, with a split those after it.
    pub figures: PlacementFigures,
    /// The limits that it exceeds.
    pub missed: Vec<Missed>,
    /// By chain, those that it exceeds: delays and loads of other chains do not count.
    pub missed_by: Vec<Vec<Missed>>,
    /// The part by which the policy's figure may exceed the best one; `None` for an exact search.
    pub gap: Option<f64>,
    /// The second best, if there was a choice.
    pub runner_up: Option<RunnerUp>,
}

impl Placement {
    /// The load that it carries, in packets a second of all chains in their present proportions.
    pub fn capacity(&self, packets_per_s: f64) -> f64 {
        packets_per_s / self.figures.load
    }
}

pub(super) fn placement(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    found: SearchResult,
) -> Placement {
    let chosen = items::chosen(problem, items, &found.best.placed);
    let mut sites = vec![Vec::new(); problem.chains.len()];
    for (at, item) in items.iter().enumerate() {
        sites[item.chain].push(site(&chosen[at]));
    }
    let runner_up = found.second.map(|second| runner_up(problem, items, &found.best, &second));
    let mut figures = found.best.figures.clone();
    if let Some(split) = split::split(problem, items, &found.best) {
        let item = &items[split.item];
        let own = &mut sites[item.chain][item.position];
        *own = Site { cpu_share: split.cpu_share, ..site(&split.on_device) };
        figures = split.figures;
    }
    let missed_by = sites.iter().enumerate().map(|(chain, sites)| {
        let load = figures.load_of(chain, sites);
        missed(problem, &PlacementFigures { load, ..figures.of_chain(chain) })
    });
    let missed_by = missed_by.collect();
    let missed = missed(problem, &figures);
    let streams = streams(problem, items, &chosen);
    let lanes = lanes(problem, &figures);
    let (aims, gap) = (found.aims, found.gap);
    Placement { sites, aims, lanes, streams, figures, missed, missed_by, gap, runner_up }
}

fn site(choice: &Choice) -> Site {
    Site {
        device: choice.device,
        launch_packets: choice.launch,
        deadline_ns: choice.deadline_ns,
        cpu_share: if choice.device == CPU { 1.0 } else { 0.0 },
    }
}

/// The fewest lanes that carry the load, if power counts; otherwise all.
fn lanes(problem: &PlacementProblem<'_>, figures: &PlacementFigures) -> usize {
    let all = problem.lanes_max.max(1);
    match problem.policy {
        PlacementPolicy::Energy => {
            ((figures.loads[CPU] * all as f64).ceil() as usize).clamp(1, all)
        }
        _ => all,
    }
}

/// As many as are in flight on average, and one that is filled meanwhile.
fn streams(problem: &PlacementProblem<'_>, items: &[Item], chosen: &[Choice]) -> Vec<usize> {
    const STREAMS_MAX: f64 = 16.0;
    let mut in_flight = vec![0.0; problem.profile.devices().len()];
    for (item, choice) in items.iter().zip(chosen).filter(|(_, choice)| choice.device != CPU) {
        let launches = problem.chains[item.chain].packets_per_s / f64::from(choice.packets);
        in_flight[choice.device] += launches * choice.figures.latency_ns * 1e-9;
    }
    let is_used = |device| chosen.iter().any(|one| one.device == device && device != CPU);
    let count = |(device, flight): (usize, f64)| match is_used(device) {
        true => (flight.ceil() + 1.0).min(STREAMS_MAX) as usize,
        false => 0,
    };
    in_flight.into_iter().enumerate().map(count).collect()
}

fn missed(problem: &PlacementProblem<'_>, figures: &PlacementFigures) -> Vec<Missed> {
    let checks = [
        (Missed::Delay, problem.delay_excess(figures) > 0.0),
        (Missed::Power, problem.power_excess(figures) > 0.0),
        (Missed::Load, figures.load > 1.0),
    ];
    checks.into_iter().filter(|(_, is_missed)| *is_missed).map(|(missed, _)| missed).collect()
}

fn runner_up(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    best: &Candidate,
    second: &Candidate,
) -> RunnerUp {
    let chosen = |of: &Candidate| items::chosen(problem, items, &of.placed);
    let (own, others) = (chosen(best), chosen(second));
    let mut sites = vec![Vec::new(); problem.chains.len()];
    for (item, choice) in items.iter().zip(&others) {
        sites[item.chain].push(site(choice));
    }
    let differs = |at: usize| (own[at].packet_ns - others[at].packet_ns).abs();
    let changed = (0..items.len()).filter(|&at| best.placed[at] != second.placed[at]);
    let most = changed.max_by(|&a, &b| differs(a).total_cmp(&differs(b)));
    let deciding = most.map(|at| Deciding {
        chain: items[at].chain,
        position: items[at].position,
        chosen: own[at].figures,
        other: others[at].figures,
    });
    let (figures, decided) = (second.figures.clone(), decided(problem, best, second));
    RunnerUp { sites, figures, decided, deciding }
}

/// The first part of the score that differs.
fn decided(problem: &PlacementProblem<'_>, best: &Candidate, second: &Candidate) -> Decided {
    use Decided::{Delay, Devices, Limits, Load, Power, Tie};
    let parts = match problem.policy {
        _ if best.figures.load > 1.0 => [Limits, Load, Load, Delay, Power],
        PlacementPolicy::Energy => [Limits, Load, Power, Devices, Delay],
        PlacementPolicy::Latency => [Limits, Load, Delay, Power, Devices],
        _ => [Limits, Load, Load, Delay, Power],
    };
    let differs = best.score.iter().zip(&second.score).position(|(a, b)| a != b);
    differs.map_or(Tie, |at| parts[at])
}
