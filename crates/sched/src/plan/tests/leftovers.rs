//! Fields that may stay in a mirror alone, and those that must not: small chains, one for each
//! rule.

use warpline_packet::{Field, FieldSet};

use super::super::problem::{PlannedFunction, Problem, RowBytes, Touch};
use super::super::{Aim, LinkCosts, Mode, Plan, PlanStep, Way, Widths};
use super::versions::follow;

const SRC: FieldSet = FieldSet::of(&[Field::SrcAddr]);
const TTL: FieldSet = FieldSet::of(&[Field::Ttl]);
const PAYLOAD: FieldSet = FieldSet::of(&[Field::Payload]);
const GPU: Option<usize> = Some(0);

/// A phase that reads and writes `fields`.
fn rewrites(fields: FieldSet) -> Touch {
    Touch { needs: fields, writes: fields }
}

fn reads(fields: FieldSet) -> Touch {
    Touch { needs: fields, writes: FieldSet::EMPTY }
}

/// A function that works on payloads, too, so that the frame is worth being sent.
fn rewriter(name: &str) -> PlannedFunction {
    let touch = rewrites(SRC);
    PlannedFunction::run_only(name, GPU, Touch { needs: touch.needs | PAYLOAD, ..touch })
}

fn host(name: &str, run: Touch) -> PlannedFunction {
    PlannedFunction::run_only(name, None, run)
}

fn problem(functions: Vec<PlannedFunction>, is_recoverable: bool) -> Problem {
    Problem {
        functions,
        hops: None,
        links: vec![LinkCosts::PCIE_4; 2],
        widths: Widths::of_udp(1024, 1100),
        end_reads: FieldSet::FRAME,
        gathered: FieldSet::FRAME & !PAYLOAD,
        is_recoverable,
        fetches_first: false,
        aim: Aim::TIME,
    }
}

fn plan(problem: &Problem, mode: Mode) -> Plan {
    let plan = problem.plan(mode).expect("links");
    follow(problem, &plan).unwrap_or_else(|why| panic!("{mode:?}: {why}"));
    plan
}

/// How often a field comes back by itself.
fn times_back(plan: &Plan, field: Field) -> usize {
    let came = |step: &&PlanStep| step.to_host.fields.contains(field);
    plan.steps.iter().filter(came).count()
}

#[test]
fn fields_that_two_functions_rewrite_are_copied_back_once() {
    for (is_recoverable, times) in [(false, 1), (true, 2)] {
        let between = host("between", rewrites(TTL));
        let functions = vec![rewriter("one"), between, rewriter("other")];
        let plan = plan(&problem(functions, is_recoverable), Mode::Adaptive);
        assert_eq!(times_back(&plan, Field::SrcAddr), times, "{plan:#?}");
        assert!(plan.steps[0].mirror_after && plan.steps[1].to_device.way != Way::Frame);
    }
}

/// Between the rewriting functions the host reads the field, or needs it for packets that a kernel
/// leaves.
#[test]
fn fields_that_the_host_may_need_are_copied_first() {
    let mut falls_back = PlannedFunction::run_only("on another device", Some(1), reads(TTL));
    falls_back.fallback = SRC;
    for between in [host("reads", reads(SRC)), falls_back] {
        let functions = vec![rewriter("one"), between, rewriter("other")];
        let plan = plan(&problem(functions, false), Mode::Adaptive);
        assert_eq!(times_back(&plan, Field::SrcAddr), 2, "{plan:#?}");
        assert!(plan.steps[0].mirror_after, "the payload stays: {plan:#?}");
    }
    // Packets that the function's own kernel leaves are fetched from its mirror.
    let mut other = rewriter("other");
    other.fallback = SRC | PAYLOAD;
    let functions = vec![rewriter("one"), host("between", rewrites(TTL)), other];
    assert_eq!(times_back(&plan(&problem(functions, false), Mode::Adaptive), Field::SrcAddr), 1);
}

/// A frame whose payload is older than the host's can't be fetched, so no field may be there alone.
#[test]
fn a_mirror_with_an_old_payload_keeps_nothing_alone() {
    for mode in Mode::ALL {
        let functions = vec![rewriter("one"), host("writes", rewrites(PAYLOAD)), rewriter("other")];
        let plan = plan(&problem(functions, false), mode);
        assert_eq!(times_back(&plan, Field::SrcAddr), 2, "{mode:?}: {plan:#?}");
    }
}

#[test]
fn one_mirror_at_most_has_fields_alone() {
    // Both have the payload before any field is rewritten.
    let on = |device, run| PlannedFunction::run_only("one", Some(device), run);
    let scans = [0, 1].map(|device| on(device, reads(PAYLOAD)));
    let [one, other] = [on(0, rewrites(SRC)), on(1, rewrites(TTL))];
    let rest = [one.clone(), other.clone(), one, other];
    let functions: Vec<_> = scans.into_iter().chain(rest).collect();
    for mode in Mode::ALL {
        let plan = plan(&problem(functions.clone(), false), mode);
        if mode == Mode::Adaptive {
            let times = [Field::SrcAddr, Field::Ttl].map(|field| times_back(&plan, field));
            assert_eq!(times.into_iter().sum::<usize>(), 3, "one of them stays once: {plan:#?}");
        }
    }
}

/// A flagged packet comes whole if its `after` needs fields that the mirror alone has, and not at
/// all otherwise.
#[test]
fn flagged_packets_come_whole_or_not_at_all() {
    let flagged = |touch| {
        let mut one = rewriter("one");
        (one.after_flagged, one.flagged_share) = (touch, 0.01);
        let functions = vec![one, host("between", rewrites(TTL)), rewriter("other")];
        plan(&problem(functions, false), Mode::Adaptive).steps[0].flagged
    };
    for touch in [reads(SRC), rewrites(TTL)] {
        let crossing = flagged(touch);
        assert_eq!((crossing.way, crossing.fields), (Way::Frame, SRC));
        assert!((crossing.bytes - 11.0).abs() < 1e-9);
    }
    let verdict = FieldSet::of(&[Field::Verdict]);
    for touch in [reads(TTL), reads(verdict), rewrites(verdict)] {
        assert_eq!(flagged(touch).way, Way::Nothing);
    }
}

/// Kernels' results for packets come back with each launch, and are copied again for the next.
#[test]
fn a_launch_has_a_table_of_its_own() {
    let words = FieldSet::of(&[Field::Scratch0, Field::Verdict]);
    for is_recoverable in [false, true] {
        let of = |name, run| {
            let row = RowBytes { there: 40.0, back: 8.0 };
            PlannedFunction { row, ..PlannedFunction::run_only(name, GPU, run) }
        };
        let functions = vec![of("one", rewrites(words)), of("other", reads(words | PAYLOAD))];
        for mode in Mode::ALL {
            let plan = plan(&problem(functions.clone(), is_recoverable), mode);
            for step in &plan.steps {
                assert!(step.to_device.fields.covers(words), "{mode:?}");
                assert_eq!((step.to_device.row_bytes, step.to_host.row_bytes), (40.0, 8.0));
                assert_eq!((step.to_host.way, step.to_host.bytes), (Way::Nothing, 8.0));
            }
            assert!(
                plan.steps[0].to_host.fields == words && plan.steps[1].to_host.fields.is_empty()
            );
        }
    }
    // A kernel that needs nothing of a frame has none.
    let one = PlannedFunction::run_only("one", GPU, rewrites(words));
    let step = plan(&problem(vec![one], false), Mode::Adaptive).steps[0];
    assert_eq!((step.to_device.way, step.to_device.bytes), (Way::Direct, 0.0));
}

/// Shared frames come back once for all written fields, although the host must have these after
/// each function.
#[test]
fn a_frame_that_came_back_does_not_come_again() {
    let seal = PlannedFunction::run_only("seals", GPU, rewrites(FieldSet::FRAME));
    let functions = vec![seal, PlannedFunction::run_only("scans", GPU, reads(PAYLOAD))];
    let back = |is_recoverable, mode| {
        let plan = plan(&problem(functions.clone(), is_recoverable), mode);
        plan.steps.iter().map(|step| step.to_host.way).collect::<Vec<_>>()
    };
    assert_eq!(back(true, Mode::ShareAll), [Way::Frame, Way::Nothing]);
    assert_eq!(back(false, Mode::ShareAll), [Way::Nothing, Way::Frame]);
}
