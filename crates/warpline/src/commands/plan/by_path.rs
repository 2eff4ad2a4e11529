//! A plan by path: the bytes that cross for a packet on each way through the chain's routes.

use serde_json::{Value, json};
use warpline_sched::{Plan, PlanStep, Problem};

/// Most paths that are shown.
const SHOWN_MAX: usize = 32;

/// The first paths through the functions of a plan, and whether there are more. There are none
/// without routes.
fn paths(problem: &Problem) -> (Vec<Vec<usize>>, bool) {
    let mut done = Vec::new();
    if problem.hops.is_none() {
        return (done, false);
    }
    let ways = problem.ways();
    let mut open: Vec<(Vec<usize>, &[usize])> = vec![(Vec::new(), &ways.ingress)];
    while let Some((path, next)) = open.pop() {
        // The first hop is taken next.
        for &place in next.iter().rev() {
            let on = ways.functions.get(place);
            let path = path.iter().copied().chain(on.map(|_| place)).collect();
            // No place follows the end.
            open.push((path, on.map_or(&[], Vec::as_slice)));
        }
        if next.is_empty() {
            if done.len() == SHOWN_MAX {
                return (done, true);
            }
            done.push(path);
        }
    }
    (done, false)
}

/// The names of a path's functions, and the bytes of its steps to devices and to the host.
fn of_path(problem: &Problem, plan: &Plan, path: &[usize]) -> (Vec<String>, [f64; 2]) {
    let names = path.iter().map(|&at| problem.functions[at].name.clone()).collect();
    let steps = || path.iter().filter_map(|&at| plan.step(at));
    // A sum of nothing would be -0.
    let sum = |of: fn(&PlanStep) -> f64| steps().fold(0.0, |sum, step| sum + of(step));
    (names, [sum(PlanStep::to_device_bytes), sum(PlanStep::to_host_bytes)])
}

/// A line for each path.
pub(super) fn lines(problem: &Problem, plan: &Plan) -> Vec<String> {
    let (paths, has_more) = paths(problem);
    let all: Vec<_> = paths.iter().map(|path| of_path(problem, plan, path)).collect();
    let text = |names: &[String]| match names {
        [] => "no function".to_owned(),
        _ => names.join(" -> "),
    };
    let width = all.iter().map(|(names, _)| text(names).len()).max().unwrap_or(0);
    let mut lines: Vec<String> = Vec::new();
    for (names, [there, back]) in &all {
        let head = if lines.is_empty() { "by path" } else { "" };
        let name = text(names);
        lines.push(format!(
            "{head:<9} {name:<width$}  {there:.1} B to devices, {back:.1} B to the host"
        ));
    }
    lines.extend(has_more.then(|| format!("{:<9} and more paths", "")));
    lines
}

/// The same for programs.
pub(super) fn json(problem: &Problem, plan: &Plan) -> Vec<Value> {
    let of = |path: &Vec<usize>| {
        let (names, [there, back]) = of_path(problem, plan, path);
        json!({ "functions": names, "to_device_bytes": there, "to_host_bytes": back })
    };
    paths(problem).0.iter().map(of).collect()
}
