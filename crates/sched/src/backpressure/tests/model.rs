//! Every interleaving of small lanes.

use super::explore::explore;
use super::lane::{Lane, Shape};

const LISTS: [&[(usize, usize)]; 3] =
    [&[(0, 1), (1, 2)], &[(0, 1), (1, 2), (2, 3)], &[(0, 1), (1, 2), (2, 3), (3, 4)]];
/// Two branches, the second with a slow stage.
const DIAMOND: &[(usize, usize)] = &[(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)];
/// One branch is a queue alone.
const SHORTCUT: &[(usize, usize)] = &[(0, 1), (1, 2), (1, 3), (2, 3)];

/// A join of three queues: two of them share node 2.
const THREE: &[(usize, usize)] = &[(0, 1), (1, 2), (2, 3), (1, 4), (2, 4), (3, 4)];

const LIST: Shape = Shape {
    edges: LISTS[0],
    launch: &[1, 1, 1],
    high: 1_000,
    low: 500,
    streams: 1,
    batches: 5,
    pool: 8,
    has_deadline: true,
    delay: None,
    operator: 0,
    short: 0,
    is_on: true,
};

const MARKS: [(u32, u32); 4] = [(1_000, 500), (1_000, 1_000), (2_000, 1_000), (3_000, 1_000)];

/// Explores `shape` and returns the number of its states.
fn states(shape: Shape) -> usize {
    explore(Lane::new(shape)).unwrap_or_else(|text| panic!("{shape:?}: {text}"))
}

/// The property that `shape` violates, with the steps to it.
fn violation(shape: Shape) -> String {
    explore(Lane::new(shape)).expect_err("a violation")
}

#[test]
fn lists_never_stop_lose_or_stay_paused() {
    let launches: [&[&[usize]]; 3] = [
        &[&[1, 1, 1], &[1, 1, 2], &[1, 2, 1], &[1, 2, 2]],
        &[&[1, 1, 1, 1], &[1, 2, 1, 2], &[1, 1, 2, 1], &[1, 2, 2, 2]],
        &[&[1, 1, 1, 1, 1], &[1, 2, 1, 2, 1]],
    ];
    let mut explored = 0;
    for (edges, launches) in LISTS.into_iter().zip(launches) {
        for (((high, low), launch), pool) in each(&each(&MARKS, launches), &[2, 8]) {
            explored += states(Shape { edges, launch, high, low, pool, batches: 8, ..LIST });
        }
    }
    assert!(explored > 100_000, "{explored} states");
}

#[test]
fn lists_with_two_launches_in_flight_neither() {
    let launches: [&[usize]; 2] = [&[1, 2, 1, 1], &[1, 1, 2, 2]];
    for ((high, low), launch) in each(&MARKS, &launches) {
        states(Shape { edges: LISTS[1], launch, high, low, streams: 2, ..LIST });
    }
}

#[test]
fn an_operator_changes_nothing_in_the_end() {
    let operator = 2;
    states(Shape { operator, ..LIST });
    states(Shape { operator, launch: &[1, 2, 1], high: 2_000, low: 1_000, ..LIST });
    let diamond = Shape { edges: DIAMOND, launch: &[1, 1, 1, 2, 1], ..LIST };
    states(Shape { operator, batches: 4, ..diamond });
    states(Shape { operator, delay: Some(0), batches: 3, ..LIST });
}

#[test]
fn late_double_and_reordered_signals_change_nothing_in_the_end() {
    for ((high, low), delay) in each(&[(1_000, 500), (2_000, 1_000)], &[0, 2]) {
        for launch in [LIST.launch, &[1, 2, 1]] {
            states(Shape { launch, high, low, delay: Some(delay), batches: 4, ..LIST });
        }
    }
    let longer = Shape { edges: LISTS[1], launch: &[1, 1, 1, 1], ..LIST };
    states(Shape { delay: Some(1), batches: 2, ..longer });
    let shortcut = Shape { edges: SHORTCUT, launch: &[1, 1, 2, 1], ..LIST };
    states(Shape { delay: Some(1), batches: 2, ..shortcut });
    let diamond = Shape { edges: DIAMOND, launch: &[1, 1, 1, 1, 1], ..LIST };
    states(Shape { delay: Some(0), batches: 1, ..diamond });
}

#[test]
fn joins_continue_without_a_deadline() {
    let has_deadline = false;
    for ((high, low), batches) in each(&MARKS, &[1, 6, 10]) {
        let shortcut = Shape { edges: SHORTCUT, launch: &[1, 1, 2, 1], ..LIST };
        states(Shape { high, low, batches, pool: 10, has_deadline, ..shortcut });
        let diamond = Shape { edges: DIAMOND, launch: &[1, 1, 1, 3, 1], ..LIST };
        states(Shape { high, low, batches, pool: 10, has_deadline, ..diamond });
        let three = Shape { edges: THREE, launch: &[1, 1, 2, 2, 1], ..LIST };
        states(Shape { high, low, batches, pool: 10, has_deadline, ..three });
    }
}

#[test]
fn joins_continue_with_few_tables() {
    for ((high, low), pool) in each(&MARKS, &[1, 2, 6]) {
        let diamond = Shape { edges: DIAMOND, launch: &[1, 1, 1, 2, 1], ..LIST };
        states(Shape { high, low, pool, ..diamond });
    }
}

/// The capacity is exact to a batch: with one less nothing is lost, since the batch that reaches
/// the mark is one of those that the feeder held.
#[test]
fn queues_with_less_capacity_lose() {
    for delay in [None, Some(0), Some(2)] {
        states(Shape { delay, short: 1, batches: 4, ..LIST });
        let text = violation(Shape { delay, short: 2, ..LIST });
        assert!(text.starts_with("a batch is lost"), "{text}");
    }
}

#[test]
fn without_pauses_full_queues_lose() {
    let text = violation(Shape { is_on: false, batches: 8, ..LIST });
    assert!(text.starts_with("a batch is lost"), "{text}");
}

/// Each of `a` with each of `b`.
fn each<A: Clone, B: Clone>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    a.iter().flat_map(|a| b.iter().map(|b| (a.clone(), b.clone()))).collect()
}
