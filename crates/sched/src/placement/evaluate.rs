//! The figures of one placement.

use std::collections::BTreeMap;

use super::items::{Choice, Item};
use super::{PlacementError, PlacementFigures, PlacementPolicy, PlacementProblem};
use crate::Mode;
use crate::work_profile::{Beside, CPU};

/// Copies of a chain, in ns a packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// By device of the profile: on its link.
    pub links: Vec<f64>,
    /// All of the plan.
    pub plan_ns: f64,
}

/// Evaluates placements. A placement is the index of a choice for each item.
pub(super) struct Evaluator<'a> {
    pub problem: &'a PlacementProblem<'a>,
    pub items: &'a [Item],
    /// By chain and devices.
    plans: BTreeMap<(usize, Vec<usize>), Copies>,
    factors: BTreeMap<(usize, usize, Vec<Beside>), f64>,
}

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
        self.items.iter().zip(placed).map(|(item, &at)| item.choices[at]).collect()
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
        let demand = &self.problem.chains[chain];
        let mut problem = demand.plan.clone();
        for (function, &device) in problem.functions.iter_mut().zip(&devices) {
            function.device = demand.links[device];
        }
        let plan = problem.plan(Mode::Adaptive).map_err(PlacementError::Link)?;
        let link_ns = |link: usize| -> f64 {
            let steps = plan.steps.iter().filter(|step| step.device == link);
            let costs = &problem.links[link];
            steps.map(|step| costs.link_ns(step.to_device_bytes(), step.to_host_bytes())).sum()
        };
        let links = demand.links.iter().map(|link| link.map_or(0.0, link_ns)).collect();
        let copies = Copies { links, plan_ns: plan.cost_ns };
        self.plans.insert((chain, devices), copies.clone());
        Ok(copies)
    }

    fn figures(
        &mut self,
        placed: &[usize],
        chosen: &[Choice],
        copies: &[Copies],
    ) -> PlacementFigures {
        let devices = self.problem.profile.devices().len();
        let (mut loads, mut links) = (vec![0.0; devices], vec![0.0; devices]);
        let mut delays: Vec<f64> = vec![0.0; self.problem.chains.len()];
        let mut functions = vec![0usize; devices];
        for (at, choice) in chosen.iter().enumerate() {
            let (chain, rate) = self.chain_of(at);
            let factor = self.factor(at, placed[at], chosen);
            let beside = chosen.iter().filter(|other| other.device == choice.device).count();
            let busy_ns = choice.packet_ns * factor / beside as f64;
            loads[choice.device] += rate * busy_ns * 1e-9 / self.width(choice.device);
            delays[chain] += choice.figures.latency_ns * factor + self.fill_ns(at, chosen);
            functions[choice.device] += 1;
        }
        for (chain, copy) in copies.iter().enumerate() {
            let rate = self.problem.chains[chain].packets_per_s;
            let on_links: f64 = copy.links.iter().sum();
            let host_ns = (copy.plan_ns - on_links).max(0.0);
            loads[CPU] += rate * host_ns * 1e-9 / self.width(CPU);
            for (load, ns) in links.iter_mut().zip(&copy.links) {
                *load += rate * ns * 1e-9;
            }
            delays[chain] += copy.plan_ns * self.largest_launch(chain, chosen);
        }
        self.total(&loads, &links, &delays, &functions)
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
        let on = (0..loads.len()).filter(|&device| is_on(device));
        let devices = self.problem.profile.devices();
        let watts = on.clone().map(|device| devices[device].power.at(loads[device]));
        PlacementFigures {
            load: max(loads).max(max(links)),
            delay_ns: max(delays),
            power_w: watts.sum(),
            devices: on.count(),
            loads: loads.to_vec(),
            link_loads: links.to_vec(),
        }
    }

    fn chain_of(&self, at: usize) -> (usize, f64) {
        let chain = self.items[at].chain;
        (chain, self.problem.chains[chain].packets_per_s)
    }

    /// Parts of a device that work at the same time, each as fast as the measurements.
    pub(super) fn width(&self, device: usize) -> f64 {
        if device == CPU { self.problem.lanes_max.max(1) as f64 } else { 1.0 }
    }

    /// Time to fill a launch. Functions in a row with the same launches fill them once.
    fn fill_ns(&self, at: usize, chosen: &[Choice]) -> f64 {
        let (own, (chain, rate)) = (chosen[at], self.chain_of(at));
        let is_same = |before: &Choice| (before.device, before.launch) == (own.device, own.launch);
        let continues = at > 0 && self.items[at - 1].chain == chain && is_same(&chosen[at - 1]);
        if own.device == CPU || continues || rate == 0.0 {
            return 0.0;
        }
        f64::from(own.launch) / rate * 1e9
    }

    fn largest_launch(&self, chain: usize, chosen: &[Choice]) -> f64 {
        let own = self.items.iter().zip(chosen).filter(|(item, _)| item.chain == chain);
        let launches = own.filter(|(_, one)| one.device != CPU).map(|(_, one)| one.launch);
        f64::from(launches.max().unwrap_or(0))
    }

    /// The slow-down of an item beside the others on its device.
    fn factor(&mut self, at: usize, choice: usize, chosen: &[Choice]) -> f64 {
        let mut others: BTreeMap<usize, u32> = BTreeMap::new();
        for (other, item) in self.items.iter().enumerate() {
            if other != at && chosen[other].device == chosen[at].device {
                *others.entry(item.function).or_default() += 1;
            }
        }
        let others: Vec<Beside> =
            others.into_iter().map(|(function, count)| Beside { function, count }).collect();
        let (item, own) = (&self.items[at], chosen[at]);
        let sizes = (own.launch, self.problem.chains[item.chain].packet_len);
        let profile = self.problem.profile;
        let pair = (item.function, own.device);
        let compute = || profile.slow_down(pair, sizes, &others).factor;
        *self.factors.entry((at, choice, others.clone())).or_insert_with(compute)
    }
}

impl PlacementProblem<'_> {
    /// The order of placements by the policy. Limits come first, then the aim, then the rest.
    pub(super) fn score(&self, figures: &PlacementFigures) -> Score {
        let excess = self.delay_excess(figures) + self.power_excess(figures);
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
    let Some(limit) = limit else { return 0.0 };
    figure.map_or(UNKNOWN, |figure| (figure / limit.max(1e-9) - 1.0).clamp(0.0, UNKNOWN))
}
