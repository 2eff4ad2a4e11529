//! Finds the cheapest plan: a shortest path through the reachable states, function by function.

use std::cmp::Ordering::Equal;

use super::outlook::Outlook;
use super::problem::Problem;
use super::state::{CurrentFields, DOWNS, UPS};
use super::{Plan, PlanStep};

/// A state after some function, and the cheapest way to it.
struct Node {
    state: CurrentFields,
    /// Weighed by the aim.
    cost: f64,
    bytes: f64,
    /// The node before the last function, in the previous layer.
    from: usize,
    step: Option<PlanStep>,
}

/// The cheapest plan. Of two with the same cost it is the one that moves fewer bytes, then the one
/// found first.
pub(super) fn cheapest(problem: &Problem) -> Plan {
    let outlook = Outlook::of(problem);
    let start =
        Node { state: CurrentFields::start(problem), cost: 0.0, bytes: 0.0, from: 0, step: None };
    let mut layers = vec![vec![start]];
    for position in 0..problem.functions.len() {
        let mut next = Vec::new();
        for (from, node) in layers[position].iter().enumerate() {
            extend(problem, &outlook, position, (from, node), &mut next);
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
    let mut state = node.state.clone();
    if !state.host_first(problem, outlook, position) {
        return;
    }
    if problem.functions[position].device.is_none() {
        keep(next, Node { state, from, step: None, ..*node });
        return;
    }
    for up in UPS {
        for down in DOWNS {
            let mut state = state.clone();
            let Some(step) = state.step(problem, outlook, position, (up, down)) else { continue };
            let bytes = step.to_device_bytes() + step.to_host_bytes();
            let cost = node.cost + problem.aim.of(&problem.times(&step));
            keep(next, Node { state, cost, bytes: node.bytes + bytes, from, step: Some(step) });
        }
    }
}

/// Of two ways to one state the cheaper.
fn keep(nodes: &mut Vec<Node>, node: Node) {
    match nodes.iter_mut().find(|other| other.state == node.state) {
        Some(other) if (node.cost, node.bytes) < (other.cost, other.bytes) => *other = node,
        Some(_) => {}
        None => nodes.push(node),
    }
}

fn trace(layers: &[Vec<Node>], problem: &Problem) -> Plan {
    let is_whole = |node: &&Node| node.state.host.covers(problem.end_reads);
    let ends = layers.last().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
    let best = ends.filter(|(_, node)| is_whole(node)).min_by(|(_, one), (_, other)| {
        (one.cost, one.bytes).partial_cmp(&(other.cost, other.bytes)).unwrap_or(Equal)
    });
    // Bringing everything back after each function is always possible.
    let Some((mut at, _)) = best else { return Plan::default() };
    let mut plan = Plan::default();
    for layer in layers[1..].iter().rev() {
        plan.steps.extend(layer[at].step);
        at = layer[at].from;
    }
    plan.steps.reverse();
    plan.cost_ns = plan.steps.iter().map(|step| problem.cost(step)).sum();
    plan
}
