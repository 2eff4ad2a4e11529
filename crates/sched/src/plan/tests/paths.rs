//! Packets on every path of random routes: none reads a stale field, though its plan is that of the
//! whole list. A packet that is in no launch of a device is not in its mirror from then on, and its
//! room crosses whole when it comes back.

use proptest::prelude::*;
use warpline_packet::FieldSet;

use super::super::Aim;
use super::super::problem::{PlannedFunction, Problem, Touch};
use super::super::{Mode, Plan, PlanStep, Way};
use super::random::problem;
use super::versions::Memories;

/// All ways through the functions, each by its positions. Packets go from ingress to any function,
/// and on from a function where routes part to any later one or to the end.
fn paths(problem: &Problem) -> Vec<Vec<usize>> {
    let count = problem.functions.len();
    let mut done = vec![Vec::new()];
    let mut open: Vec<Vec<usize>> = (0..count).map(|first| vec![first]).collect();
    while let Some(path) = open.pop() {
        let last = path[path.len() - 1];
        let ends = match problem.functions[last].parts {
            true => last + 1..count + 1,
            false => last + 1..last + 2,
        };
        for next in ends {
            match next == count {
                true => done.push(path.clone()),
                false => open.push(path.iter().copied().chain([next]).collect()),
            }
        }
    }
    done
}

/// Follows a packet on `path`.
fn follow(problem: &Problem, plan: &Plan, path: &[usize]) -> Result<(), String> {
    let mut at = Memories::new(problem.links.len());
    for (position, function) in problem.functions.iter().enumerate() {
        let step = plan.step(position);
        match (step, path.contains(&position)) {
            (None, true) => {
                let phases = [function.before, function.run, function.after];
                phases.into_iter().try_for_each(|touch| at.touch(None, touch, "the host"))?;
            }
            (Some(step), true) => launch(problem, &mut at, (position, step))?,
            (Some(step), false) => {
                at.leave_mirror(step.device);
            }
            (None, false) => {}
        }
    }
    at.touch(None, Touch { needs: problem.end_reads, writes: FieldSet::EMPTY }, "the sink")
}

fn launch(
    problem: &Problem,
    at: &mut Memories,
    (position, step): (usize, &PlanStep),
) -> Result<(), String> {
    let (function, device) = (&problem.functions[position], step.device);
    at.touch(None, function.before, "before")?;
    let is_missing =
        matches!(step.to_device.way, Way::Fields | Way::Nothing) && !at.is_in_mirror(device);
    let there = if is_missing { FieldSet::FRAME } else { FieldSet::EMPTY };
    at.send(device, there | step.to_device.fields);
    at.touch(Some(device), function.run, "run")?;
    at.bring_back(device, step.to_host.fields, FieldSet::ALL, "back")?;
    match step.mirror_after {
        true => at.enter_mirror(device),
        false => at.leave_mirror(device),
    }
    at.touch(None, function.after, "after")
}

/// A phase of a function needs all that it writes, as [`Touch::of`] says: a packet may keep what it
/// had. The sink reads whole frames, as the engine's does: a plan may overwrite a field that
/// nothing reads.
fn declared(mut problem: Problem) -> Problem {
    let keeps = |touch: Touch| Touch { needs: touch.needs | touch.writes, ..touch };
    let of = |one: PlannedFunction| PlannedFunction {
        before: keeps(one.before),
        run: keeps(one.run),
        after: keeps(one.after),
        after_flagged: Touch::NONE,
        ..one
    };
    problem.functions = problem.functions.into_iter().map(of).collect();
    problem.fetches_first = false;
    problem.end_reads = problem.end_reads | FieldSet::FRAME;
    problem
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_path_reads_a_stale_field(given in problem(6, 2)) {
        let problem = declared(given);
        for mode in Mode::ALL {
            let plan = problem.plan(mode).expect("links");
            for path in paths(&problem) {
                let followed = follow(&problem, &plan, &path);
                prop_assert!(followed.is_ok(), "{mode:?}, {path:?}: {followed:?} {plan:#?}");
            }
        }
    }
}

#[test]
fn paths_are_counted() {
    let one =
        |parts| PlannedFunction { parts, ..PlannedFunction::run_only("one", None, Touch::NONE) };
    let functions = vec![one(true), one(false), one(true)];
    let problem = Problem {
        functions,
        links: Vec::new(),
        widths: super::super::Widths::of_udp(100, 200),
        end_reads: FieldSet::FRAME,
        gathered: FieldSet::FRAME,
        is_recoverable: false,
        fetches_first: false,
        aim: Aim::TIME,
    };
    let mut found = paths(&problem);
    found.sort();
    let expected: [&[usize]; 6] = [&[], &[0], &[0, 1, 2], &[0, 2], &[1, 2], &[2]];
    assert_eq!(found, expected);
}
