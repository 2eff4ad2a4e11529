//! The figures of one placement.

use std::collections::BTreeMap;

use super::items::{self, Choice, Item};
use super::{ChainDemand, PlacementError, PlacementFigures, PlacementPolicy, PlacementProblem};
use crate::work_profile::{Beside, CPU};
use crate::{Aim, CopyTimes, Mode, Plan, Problem};

/// Copies of a chain by one of its plans.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    pub aim: Aim,
    /// By device of the profile, without the traffic of other copies.
    pub times: Vec<CopyTimes>,
    /// All of the plan, in ns a packet, beside other copies.
    pub plan_ns: f64,
}

impl Copies {
    /// `links`: by device of the profile, its link in the plan.
    fn of(problem: &Problem, (aim, plan): &(Aim, Plan), links: &[Option<usize>]) -> Self {
        let times = problem.copy_times(plan);
        let of_link = |at: usize| times[at].without_traffic(problem.links[at].traffic);
        let of_device = |link: &Option<usize>| link.map_or(CopyTimes::default(), of_link);
        Self { aim: *aim, times: links.iter().map(of_device).collect(), plan_ns: plan.cost_ns }
    }
}

/// Evaluates placements. A placement is the index of a choice for each item.
pub(super) struct Evaluator<'a> {
    pub problem: &'a PlacementProblem<'a>,
    pub items: &'a [Item],
    /// By chain and devices.
    plans: BTreeMap<(usize, Vec<usize>), Copies>,
    factors: BTreeMap<(usize, usize, Vec<Beside>), f64>,
}

/// The longest wait for a launch if the delay has no limit.
const WAIT_NS_MAX: f64 = 1e6;

/// The order of placements; less is better.
pub(super) type Score = [f64; 5];

impl<'a> Evaluator<'a> {
    pub(super) fn new(problem: &'a PlacementProblem<'a>, items: &'a [Item]) -> Self {
        Self { problem, items, plans: BTreeMap::new(), factors: BTreeMap::new() }
    }

    pub(super) fn plans(&self) -> usize {
        self.plans.len()
    }

    pub(super) fn chosen(&self, placed: &[usize]) -> Vec<Choice> {
        items::chosen(self.problem, self.items, placed)
    }

    /// The figures with copies.
    pub(super) fn full(&mut self, placed: &[usize]) -> Result<PlacementFigures, PlacementError> {
        let chosen = self.chosen(placed);
        let chains = 0..self.problem.chains.len();
        let copies: Result<Vec<_>, _> = chains.map(|at| self.copies(at, &chosen)).collect();
        Ok(self.figures(placed, &chosen, &copies?))
    }

    /// The figures if copies cost nothing. No figure with them is better.
    pub(super) fn relaxed(&mut self, placed: &[usize]) -> PlacementFigures {
        let chosen = self.chosen(placed);
        let none = vec![Copies::default(); self.problem.chains.len()];
        self.figures(placed, &chosen, &none)
    }

    fn copies(&mut self, chain: usize, chosen: &[Choice]) -> Result<Copies, PlacementError> {
        let own = self.items.iter().zip(chosen).filter(|(item, _)| item.chain == chain);
        let devices: Vec<usize> = own.map(|(_, choice)| choice.device).collect();
        if let Some(known) = self.plans.get(&(chain, devices.clone())) {
            return Ok(known.clone());
        }
        let problem = self.planned(chain, &devices);
        let plan = problem.plan(Mode::Adaptive).map_err(PlacementError::Link)?;
        let links = &self.problem.chains[chain].links;
        let copies = Copies::of(&problem, &(Aim::TIME, plan), links);
        self.plans.insert((chain, devices), copies.clone());
        Ok(copies)
    }

    /// The plan's input of a chain with its functions on these devices.
    fn planned(&self, chain: usize, devices: &[usize]) -> Problem {
        let demand = &self.problem.chains[chain];
        let mut problem = demand.plan.clone();
        for (function, &device) in problem.functions.iter_mut().zip(devices) {
            function.device = demand.links[device];
        }
        problem
    }

    /// The aims of the chains' plans with the best figures for these sites, and the figures.
    pub(super) fn aims(
        &mut self,
        placed: &[usize],
    ) -> Result<(Vec<Aim>, PlacementFigures), PlacementError> {
        let chosen = self.chosen(placed);
        let chains = 0..self.problem.chains.len();
        let copies: Result<Vec<_>, _> = chains.map(|at| self.copies(at, &chosen)).collect();
        let mut copies = copies?;
        let mut best = self.figures(placed, &chosen, &copies);
        for chain in 0..copies.len() {
            let own = self.items.iter().zip(&chosen).filter(|(item, _)| item.chain == chain);
            let devices: Vec<usize> = own.map(|(_, choice)| choice.device).collect();
            let problem = self.planned(chain, &devices);
            let plans = problem.candidates(Mode::Adaptive).map_err(PlacementError::Link)?;
            for plan in &plans[1..] {
                let other = Copies::of(&problem, plan, &self.problem.chains[chain].links);
                let kept = std::mem::replace(&mut copies[chain], other);
                let figures = self.figures(placed, &chosen, &copies);
                match self.problem.score(&figures) < self.problem.score(&best) {
                    true => best = figures,
                    false => copies[chain] = kept,
                }
            }
        }
        Ok((copies.iter().map(|one| one.aim).collect(), best))
    }

    fn figures(
        &mut self,
        placed: &[usize],
        chosen: &[Choice],
        copies: &[Copies],
    ) -> PlacementFigures {
        let devices = self.problem.profile.devices().len();
        let (mut loads, mut links) = (vec![0.0; devices], vec![CopyTimes::default(); devices]);
        let mut delays: Vec<f64> = vec![0.0; self.problem.chains.len()];
        let mut functions = vec![0usize; devices];
        // Of the lanes of each chain.
        let mut own_lanes = vec![0.0; self.problem.chains.len()];
        let mut on_cpu: Vec<Vec<(Choice, f64)>> = vec![Vec::new(); self.problem.chains.len()];
        for (at, choice) in chosen.iter().enumerate() {
            let (chain, rate) = self.chain_of(at);
            let factor = self.factor(at, placed[at], chosen, |_| true);
            let beside = chosen.iter().filter(|other| other.device == choice.device).count();
            let busy_ns = choice.packet_ns * factor / beside as f64;
            loads[choice.device] += rate * busy_ns * 1e-9 / self.problem.width(choice.device);
            if choice.device == CPU {
                own_lanes[chain] += rate * busy_ns * 1e-9 / self.problem.chains[chain].width();
            }
            let slower = match choice.device {
                // A lane has the functions of its chain in turn.
                CPU => {
                    let beside = self.factor(at, placed[at], chosen, |other| other.chain != chain);
                    1.0 + (beside - 1.0) * self.core_sharing()
                }
                _ => factor,
            };
            match choice.device {
                CPU => on_cpu[chain].push((*choice, slower)),
                _ => {
                    delays[chain] += choice.figures.latency_ns * slower + self.fill_ns(at, chosen);
                }
            }
            functions[choice.device] += 1;
        }
        for ((delay, own), demand) in delays.iter_mut().zip(&on_cpu).zip(self.problem.chains) {
            *delay += lane_delay_ns(own, demand);
        }
        for (chain, copy) in copies.iter().enumerate() {
            let rate = self.problem.chains[chain].packets_per_s;
            let host_ns: f64 = copy.times.iter().map(|times| times.host_ns).sum();
            loads[CPU] += rate * host_ns * 1e-9 / self.problem.width(CPU);
            own_lanes[chain] += rate * host_ns * 1e-9 / self.problem.chains[chain].width();
            for (load, times) in links.iter_mut().zip(&copy.times) {
                *load = *load + rate * 1e-9 * *times;
            }
            delays[chain] += copy.plan_ns * self.largest_launch(chain, chosen);
        }
        let cores_load = self.cores_load(&loads);
        let lanes: Vec<f64> = own_lanes.into_iter().map(|own| loads[CPU].max(own)).collect();
        loads[CPU] = lanes.iter().copied().fold(loads[CPU], f64::max);
        // Both directions of a link work at once.
        let links: Vec<f64> =
            links.iter().map(|load| load.to_device_ns.max(load.to_host_ns)).collect();
        let total = self.total(&loads, &links, &delays, &functions);
        let load = total.load.max(cores_load);
        PlacementFigures { load, cores_load, lane_loads: lanes, ..total }
    }

    /// The load of the cores by those of devices.
    fn cores_load(&self, loads: &[f64]) -> f64 {
        let of_devices =
            loads.iter().enumerate().map(|(at, load)| self.problem.on_cores(at, *load));
        let of_threads = self.problem.chains.iter().map(|one| one.packets_per_s * one.threads_ns);
        let threads = of_threads.sum::<f64>() * 1e-9 / self.problem.cores.max(1) as f64;
        of_devices.sum::<f64>() + threads
    }

    fn total(
        &self,
        loads: &[f64],
        links: &[f64],
        delays: &[f64],
        functions: &[usize],
    ) -> PlacementFigures {
        let max = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        let is_on = |device: usize| device == CPU || functions[device] > 0;
        let on: Vec<usize> = (0..loads.len()).filter(|&device| is_on(device)).collect();
        PlacementFigures {
            load: max(loads).max(max(links)),
            delay_ns: max(delays),
            power_w: self.problem.power_w(loads, &on),
            devices: on.len(),
            loads: loads.to_vec(),
            link_loads: links.to_vec(),
            lane_loads: Vec::new(),
            cores_load: 0.0,
            chain_delays_ns: delays.to_vec(),
        }
    }

    /// The part of the slow-down beside other chains that a lane has: none while each lane has a
    /// core, all of it with two lanes a core. Slow-downs on the CPU are those on a shared core.
    fn core_sharing(&self) -> f64 {
        let lanes: usize = self.problem.chains.iter().map(|chain| chain.lanes.max(1)).sum();
        (lanes as f64 / self.problem.width(CPU) - 1.0).clamp(0.0, 1.0)
    }

    fn chain_of(&self, at: usize) -> (usize, f64) {
        let chain = self.items[at].chain;
        (chain, self.problem.chains[chain].packets_per_s)
    }

    /// Time to fill a launch. Functions in a row with the same launches fill them once.
    fn fill_ns(&self, at: usize, chosen: &[Choice]) -> f64 {
        let (own, (chain, rate)) = (chosen[at], self.chain_of(at));
        let continues =
            at > 0 && self.items[at - 1].chain == chain && chosen[at - 1].may_join(&own);
        if own.device == CPU || continues || rate == 0.0 {
            return 0.0;
        }
        own.fill_ns(&self.problem.chains[chain])
    }

    /// Packets of a chain's largest launch.
    fn largest_launch(&self, chain: usize, chosen: &[Choice]) -> f64 {
        let own = self.items.iter().zip(chosen).filter(|(item, _)| item.chain == chain);
        let launches = own.filter(|(_, one)| one.device != CPU).map(|(_, one)| one.packets);
        f64::from(launches.max().unwrap_or(0))
    }

    /// The slow-down of an item beside those others on its device that `is_beside` names.
    fn factor(
        &mut self,
        at: usize,
        choice: usize,
        chosen: &[Choice],
        is_beside: impl Fn(&Item) -> bool,
    ) -> f64 {
        let mut others: BTreeMap<usize, u32> = BTreeMap::new();
        for (other, item) in self.items.iter().enumerate() {
            if other != at && chosen[other].device == chosen[at].device && is_beside(item) {
                *others.entry(item.function).or_default() += 1;
            }
        }
        let others: Vec<Beside> =
            others.into_iter().map(|(function, count)| Beside { function, count }).collect();
        let (item, own) = (&self.items[at], chosen[at]);
        let sizes = (own.packets, self.problem.chains[item.chain].packet_len);
        let profile = self.problem.profile;
        let pair = (item.function, own.device);
        let compute = || profile.slow_down(pair, sizes, &others).factor;
        *self.factors.entry((at, choice, others.clone())).or_insert_with(compute)
    }
}

/// The delay of a chain's functions in their lane, each with its slow-down. A batch has the packets
/// that come while the one before is worked on, and its oldest packet waits for the others.
pub(super) fn lane_delay_ns(own: &[(Choice, f64)], demand: &ChainDemand) -> f64 {
    let Some(most) = own.iter().map(|(one, _)| one.most).max() else { return 0.0 };
    let per_ns = demand.packets_per_s / demand.width() * 1e-9;
    let next_ns: f64 = own.iter().map(|(one, slower)| one.next_ns() * slower).sum();
    let first_ns: f64 = own.iter().map(|(one, slower)| one.first_ns * slower).sum();
    let room = 1.0 - per_ns * next_ns;
    let come = if room > 0.0 { per_ns * (first_ns - next_ns) / room } else { f64::INFINITY };
    let packets = come.clamp(1.0, f64::from(most));
    let of = |(one, slower): &(Choice, f64)| {
        let batch_ns = one.first_ns + one.next_ns() * (packets - 1.0);
        batch_ns * one.latency_factor() * slower
    };
    let wait_ns = if packets > 1.0 { (packets - 1.0) / per_ns } else { 0.0 };
    own.iter().map(of).sum::<f64>() + wait_ns
}

impl ChainDemand {
    /// Its lanes, each as fast as the measurements.
    pub(super) fn width(&self) -> f64 {
        self.lanes.max(1) as f64
    }

    /// Time to fill a launch of so many packets, as each lane has launches of its own.
    pub(super) fn fill_ns(&self, launch: u32) -> f64 {
        f64::from(launch) / (self.packets_per_s / self.width()).max(1e-9) * 1e9
    }

    /// Packets that come to a lane while the first of them waits.
    pub(super) fn packets_within(&self, wait_ns: f64) -> u32 {
        (1.0 + self.packets_per_s / self.width() * wait_ns * 1e-9) as u32
    }
}

impl PlacementProblem<'_> {
    /// Parts of a device that work at the same time, each as fast as the measurements.
    pub(super) fn width(&self, device: usize) -> f64 {
        if device == CPU { self.lanes_max.max(1) as f64 } else { 1.0 }
    }

    /// The part of the cores that a device takes at this load.
    pub(super) fn on_cores(&self, device: usize, load: f64) -> f64 {
        let own = match device {
            CPU => self.width(CPU),
            _ => f64::from(self.profile.devices()[device].cores),
        };
        load * own / self.cores.max(1) as f64
    }

    /// The order of placements by the policy. Limits come first, then the aim, then the rest.
    pub(super) fn score(&self, figures: &PlacementFigures) -> Score {
        // Sums of the same parts may be rounded apart.
        let excess = self.delay_excess(figures) + self.power_excess(figures);
        let excess = (excess * 1e9).round();
        let overload = (figures.load - 1.0).max(0.0);
        let power = figures.power_w.unwrap_or(f64::MAX);
        let (delay, devices) = (figures.delay_ns, figures.devices as f64);
        match self.policy {
            // Of equal loads the least work, which stays the same at any rate.
            _ if overload > 0.0 => [excess, overload, figures.loads.iter().sum(), delay, power],
            PlacementPolicy::Latency => [excess, overload, delay, power, devices],
            PlacementPolicy::Energy => [excess, overload, power, devices, delay],
            _ => [excess, figures.load - 1.0, figures.loads.iter().sum(), delay, power],
        }
    }

    /// The power of these devices.
    pub(super) fn power_w(&self, loads: &[f64], on: &[usize]) -> Option<f64> {
        let devices = self.profile.devices();
        on.iter().map(|&device| devices[device].power.at(loads[device])).sum()
    }

    /// How long a launch waits for its packets: up to twice the time to fill it, so pauses of the
    /// input do not close it early.
    pub(super) fn deadline_ns(&self, demand: &ChainDemand, launch: u32, latency_ns: f64) -> f64 {
        let most_ns = self.delay_ns_max.map_or(WAIT_NS_MAX, |max| max - latency_ns);
        (2.0 * demand.fill_ns(launch)).min(most_ns).max(0.0)
    }

    pub(super) fn delay_excess(&self, figures: &PlacementFigures) -> f64 {
        excess(Some(figures.delay_ns), self.delay_ns_max)
    }

    pub(super) fn power_excess(&self, figures: &PlacementFigures) -> f64 {
        excess(figures.power_w, self.power_w_max)
    }
}

/// The part by which a figure exceeds its limit.
fn excess(figure: Option<f64>, limit: Option<f64>) -> f64 {
    /// Of an unknown figure: more than any known one.
    const UNKNOWN: f64 = 1e12;
    /// A sum of parts that make up the limit may be rounded up.
    const ROUNDED: f64 = 1e-9;
    let Some(limit) = limit else { return 0.0 };
    let excess = figure.map_or(UNKNOWN, |figure| figure / limit.max(1e-9) - 1.0);
    if excess < ROUNDED { 0.0 } else { excess.min(UNKNOWN) }
}
