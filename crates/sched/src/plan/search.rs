//! Finds the cheapest plan: a shortest path through the reachable states, function by function.

use std::cmp::Ordering::{self, Equal};

use super::frontier::Frontier;
use super::outlook::Outlook;
use super::problem::Problem;
use super::state::{DOWNS, UPS};
use super::{Plan, PlanStep, baselines};

/// States after some function, and the cheapest way to them.
struct Node {
    states: Frontier,
    /// Weighed by the aim.
    cost: f64,
    bytes: f64,
    /// The node before the last function, in the previous layer.
    from: usize,
    step: Option<PlanStep>,
}

impl Node {
    fn order(&self, other: &Self) -> Ordering {
        (self.cost, self.bytes).partial_cmp(&(other.cost, other.bytes)).unwrap_or(Equal)
    }
}

/// Most nodes after a function. Chains in which packets pass all functions have far fewer. Of more
/// the cheapest remain, and all from which every way leads to the end.
const NODES_MAX: usize = 512;

/// Weights of links by which plans with fewer bytes are searched. The more links weigh, the fewer
/// bytes the plan moves, and the more time it takes.
const LINK_WEIGHTS: [u32; 2] = [8, 2];

/// The plan of the problem's aim: the cheapest, or one that moves fewer bytes within the margin.
pub(super) fn adaptive(problem: &Problem) -> Plan {
    let cheapest = cheapest(problem);
    if problem.aim.margin == 0 {
        return cheapest;
    }
    let cost = |plan: &Plan| plan.steps.iter().map(|s| problem.aim.of(&problem.times(s))).sum();
    let least: f64 = cost(&cheapest);
    let most = least * (1.0 + f64::from(problem.aim.margin) / 100.0);
    let is_within = |plan: &Plan| cost(plan) <= most;
    let mut sparing = LINK_WEIGHTS.into_iter().map(|weight| {
        let aim = problem.aim.sparing_links(weight);
        self::cheapest(&Problem { aim, ..problem.clone() })
    });
    let sparing = sparing.find(is_within);
    let others = [baselines::local, baselines::share_all, baselines::per_nf].map(|of| of(problem));
    let within = others.into_iter().filter(is_within).chain(sparing);
    within.fold(cheapest, |best, plan| if plan.bytes() < best.bytes() { plan } else { best })
}

/// The cheapest plan. Of two with the same cost it is the one that moves fewer bytes, then the one
/// found first.
fn cheapest(problem: &Problem) -> Plan {
    let outlook = Outlook::of(problem);
    let Some(states) = Frontier::start(problem, &outlook) else { return Plan::default() };
    let start = Node { states, cost: 0.0, bytes: 0.0, from: 0, step: None };
    let mut layers = vec![vec![start]];
    for position in 0..problem.functions.len() {
        let mut next = Vec::new();
        for (from, node) in layers[position].iter().enumerate() {
            extend(problem, &outlook, position, (from, node), &mut next);
        }
        if next.len() > NODES_MAX {
            next.sort_by(Node::order);
            let mut number = 0;
            next.retain(|node| {
                number += 1;
                number <= NODES_MAX || node.states.is_settled(&outlook)
            });
        }
        layers.push(next);
    }
    trace(&layers, problem)
}

/// Everything that function `position` may make of a node.
fn extend(
    problem: &Problem,
    outlook: &Outlook,
    position: usize,
    (from, node): (usize, &Node),
    next: &mut Vec<Node>,
) {
    let mut states = node.states.clone();
    let Some(mut state) = states.take(position) else {
        return keep(next, Node { states, from, step: None, ..*node });
    };
    if !state.host_first(problem, outlook, position) {
        return;
    }
    if problem.functions[position].device.is_none() {
        if states.leave(problem, outlook, Some(position), state) {
            keep(next, Node { states, from, step: None, ..*node });
        }
        return;
    }
    for up in UPS {
        for down in DOWNS {
            let (mut states, mut state) = (states.clone(), state.clone());
            let Some(step) = state.step(problem, outlook, position, (up, down)) else { continue };
            if !states.leave(problem, outlook, Some(position), state) {
                continue;
            }
            let bytes = step.to_device_bytes() + step.to_host_bytes();
            let cost = node.cost + problem.aim.of(&problem.times(&step));
            keep(next, Node { states, cost, bytes: node.bytes + bytes, from, step: Some(step) });
        }
    }
}

/// Of two ways to one state the cheaper.
fn keep(nodes: &mut Vec<Node>, node: Node) {
    match nodes.iter_mut().find(|other| other.states == node.states) {
        Some(other) if (node.cost, node.bytes) < (other.cost, other.bytes) => *other = node,
        Some(_) => {}
        None => nodes.push(node),
    }
}

fn trace(layers: &[Vec<Node>], problem: &Problem) -> Plan {
    let ends = layers.last().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
    let best = ends.min_by(|(_, one), (_, other)| one.order(other));
    // Bringing everything back after each function is always possible.
    let Some((mut at, _)) = best else { return Plan::default() };
    let mut plan = Plan::default();
    for layer in layers[1..].iter().rev() {
        plan.steps.extend(layer[at].step);
        at = layer[at].from;
    }
    plan.steps.reverse();
    // A sum of nothing is -0.
    plan.cost_ns = plan.steps.iter().map(|step| problem.cost(step)).sum::<f64>() + 0.0;
    plan
}
