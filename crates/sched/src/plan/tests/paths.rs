//! Small random graphs of functions. The search agrees with brute force, and packets on every path
//! of every plan read no stale field. They are followed one by one, so nothing is joined here.

use std::collections::BTreeSet;

use proptest::prelude::*;
use warpline_packet::{Field, FieldSet};

use super::super::problem::{PlanHops, PlannedFunction, Problem, Touch};
use super::super::{Aim, Leftover, LinkCosts, Mode, Plan, PlanStep, Way, Widths};
use super::brute::least;
use super::random::problem;
use super::versions::Memories;

/// Hops from ingress and each function to one or more of the first three places after it, or to the
/// end.
fn hops() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1u8..16, 9)
}

fn with_hops(problem: Problem, draws: &[u8]) -> Problem {
    let count = problem.functions.len();
    let of = |first: usize, draw: u8| {
        let ahead = [first, first + 1, first + 2, count];
        let all = ahead.into_iter().enumerate();
        let places = all.filter(|(bit, _)| draw >> bit & 1 == 1);
        let places: BTreeSet<usize> = places.map(|(_, place)| place.min(count)).collect();
        places.into_iter().collect()
    };
    let functions = (0..count).map(|at| of(at + 1, draws[at + 1])).collect();
    Problem { hops: Some(PlanHops { ingress: of(0, draws[0]), functions }), ..problem }
}

/// All ways through the functions, each by its positions.
fn paths(problem: &Problem) -> Vec<Vec<usize>> {
    let ways = problem.ways();
    let mut done = Vec::new();
    let mut open: Vec<(Vec<usize>, &Vec<usize>)> = vec![(Vec::new(), &ways.ingress)];
    while let Some((path, next)) = open.pop() {
        for &place in next {
            match ways.functions.get(place) {
                None => done.push(path.clone()),
                Some(next) => open.push((path.iter().copied().chain([place]).collect(), next)),
            }
        }
    }
    done
}

/// Follows a packet on `path`.
fn follow(problem: &Problem, plan: &Plan, path: &[usize]) -> Result<(), String> {
    let mut at = Memories::new(problem.links.len());
    let leftovers = plan.leftovers(problem);
    for (number, &position) in path.iter().enumerate() {
        let function = &problem.functions[position];
        let Some(of_plan) = plan.steps.iter().position(|step| step.function == position) else {
            if function.device.is_some() {
                return Err(format!("no step for function {position}"));
            }
            let phases = [function.before, function.run, function.after];
            phases.into_iter().try_for_each(|touch| at.touch(None, touch, "the host"))?;
            continue;
        };
        let step = (position, &plan.steps[of_plan], &leftovers[of_plan]);
        launch(problem, &mut at, step, &path[number..])?;
    }
    at.touch(None, Touch { needs: problem.end_reads, writes: FieldSet::EMPTY }, "the sink")
}

/// `rest` is the packet's path from this function on.
fn launch(
    problem: &Problem,
    at: &mut Memories,
    (position, step, left): (usize, &PlanStep, &Leftover),
    rest: &[usize],
) -> Result<(), String> {
    let (function, device) = (&problem.functions[position], step.device);
    at.touch(None, function.before, "before")?;
    let by_fields = matches!(step.to_device.way, Way::Fields | Way::Nothing);
    if by_fields && !left.was_mirrored {
        return Err("the mirror is not in use".into());
    }
    if !left.was_mirrored && at.is_in_mirror(device) {
        return Err("packets are in a mirror that is not in use".into());
    }
    let is_missing = by_fields && !at.is_in_mirror(device);
    let there = if is_missing { FieldSet::FRAME } else { FieldSet::EMPTY };
    at.send(device, there | step.to_device.fields);
    at.touch(Some(device), function.run, "run")?;
    at.bring_back(device, step.to_host.fields, later(problem, rest), "back")?;
    match step.mirror_after {
        true => at.enter_mirror(device),
        false => at.leave_mirror(device),
    }
    let lacks = at.alone(device, later(problem, rest));
    if !left.behind.covers(lacks) {
        return Err(format!("{lacks} stay on the device, not {:?}", left.behind));
    }
    at.fetched(problem, later(problem, rest), "a packet after its step")?;
    at.touch(None, function.after, "after")
}

/// The fields that phases after `run` of the first function of a path read.
fn later(problem: &Problem, path: &[usize]) -> FieldSet {
    let mut all = problem.end_reads;
    for &position in &path[1..] {
        let function = &problem.functions[position];
        let phases = [function.before.needs, function.run_needs(), function.after.needs];
        all = phases.into_iter().fold(all, |all, needs| all | needs);
    }
    all | path.first().map_or(FieldSet::EMPTY, |&at| problem.functions[at].after.needs)
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
    fn no_path_reads_a_stale_field(given in problem(6, 2), draws in hops()) {
        let problem = with_hops(declared(given), &draws);
        for mode in Mode::ALL {
            let plan = problem.plan(mode).expect("links");
            for path in paths(&problem) {
                let followed = follow(&problem, &plan, &path);
                prop_assert!(followed.is_ok(), "{mode:?}, {path:?}: {followed:?} {plan:#?}");
            }
        }
    }

    #[test]
    fn the_cheapest_plan_of_a_graph_is_found(given in problem(4, 2), draws in hops()) {
        let problem = with_hops(given, &draws);
        let found = problem.plan(Mode::Adaptive).expect("links").cost_ns;
        let least = least(&problem);
        prop_assert!((found - least).abs() < 1e-6, "found {found}, there is {least}");
        for mode in Mode::ALL {
            let plan = problem.plan(mode).expect("links");
            prop_assert!(found <= plan.cost_ns + 1e-9, "{mode:?} costs {}", plan.cost_ns);
        }
    }
}

#[test]
fn paths_are_counted() {
    let functions = (0..3).map(|_| run("one", None, FieldSet::EMPTY, FieldSet::EMPTY)).collect();
    // From ingress to all places, from the first and the last function to all later ones.
    let problem = with_ways(functions, vec![0, 1, 2, 3], vec![vec![1, 2], vec![2], vec![3]]);
    let mut found = paths(&problem);
    found.sort();
    let expected: [&[usize]; 5] = [&[], &[0, 1, 2], &[0, 2], &[1, 2], &[2]];
    assert_eq!(found, expected);
}

fn run(name: &str, device: Option<usize>, needs: FieldSet, writes: FieldSet) -> PlannedFunction {
    PlannedFunction::run_only(name, device, Touch { needs: needs | writes, writes })
}

fn with_ways(
    functions: Vec<PlannedFunction>,
    ingress: Vec<usize>,
    of_functions: Vec<Vec<usize>>,
) -> Problem {
    Problem {
        functions,
        hops: Some(PlanHops { ingress, functions: of_functions }),
        links: vec![LinkCosts::PCIE_4],
        widths: Widths::of_udp(1000, 1088),
        end_reads: FieldSet::FRAME,
        gathered: FieldSet::FRAME & !FieldSet::of(&[Field::Payload]),
        is_recoverable: false,
        fetches_first: false,
        aim: Aim::TIME,
    }
}

/// On a device, `scan` reads whole frames and writes an address, and so does `seal`. Between them
/// `count` writes another field on the host.
#[test]
fn a_step_depends_on_the_ways_before_and_after_it() {
    let [address, ttl] = [Field::SrcAddr, Field::Ttl].map(|field| FieldSet::of(&[field]));
    let functions = || {
        vec![
            run("scan", Some(0), FieldSet::FRAME, address),
            run("count", None, ttl, ttl),
            run("seal", Some(0), FieldSet::FRAME, address),
        ]
    };
    let check = |ways: [&[usize]; 3], to_host: FieldSet, to_device: FieldSet| {
        let hops = ways.iter().map(|way| way.to_vec()).collect();
        let problem = with_ways(functions(), vec![0], hops);
        let plan = problem.plan(Mode::Adaptive).expect("a link");
        let [scan, seal] = &plan.steps[..] else { panic!("{ways:?}: {plan:#?}") };
        assert_eq!(scan.to_host.fields, to_host, "{ways:?}");
        assert_eq!((seal.to_device.way != Way::Frame, seal.to_device.fields), (true, to_device));
    };
    // The list: the address stays on the device, the field of `count` crosses again.
    check([&[1], &[2], &[3]], FieldSet::EMPTY, ttl);
    // Past `count`: nothing changes in between.
    check([&[2], &[2], &[3]], FieldSet::EMPTY, FieldSet::EMPTY);
    // Both ways join, and the field is stale on one of them.
    check([&[1, 2], &[2], &[3]], FieldSet::EMPTY, ttl);
    // Packets that `count` sees end there: they need the address, and `seal` nothing of theirs.
    check([&[1, 2], &[3], &[3]], address, FieldSet::EMPTY);
    // Some packets leave after `scan`.
    check([&[1, 3], &[2], &[3]], address, ttl);
}

/// Packets come to `rewrite` from the mirror of its own device, or with an address that is on the
/// other device alone. Frames that it brings back lack that address.
#[test]
fn a_mirror_lacks_a_field_that_another_mirror_has_alone() {
    let [payload, address] = [Field::Payload, Field::SrcAddr].map(|field| FieldSet::of(&[field]));
    let functions = vec![
        run("scan", Some(0), payload, FieldSet::EMPTY),
        run("seal", Some(1), payload, address),
        run("rewrite", Some(0), FieldSet::EMPTY, payload),
        run("read", Some(1), payload | address, FieldSet::EMPTY),
    ];
    let ways = vec![vec![2], vec![2], vec![3], vec![4]];
    let problem = with_ways(functions, vec![0, 1], ways);
    let problem = Problem { links: vec![LinkCosts::PCIE_4; 2], ..problem };
    for mode in Mode::ALL {
        let plan = problem.plan(mode).expect("links");
        for path in paths(&problem) {
            let followed = follow(&problem, &plan, &path);
            assert!(followed.is_ok(), "{mode:?}, {path:?}: {followed:?} {plan:#?}");
        }
    }
}
