//! Each rule alone.

mod explore;
mod lane;
mod model;
mod random;
mod signals;
mod simulation;

use super::*;

const DIAMOND: &[(usize, usize)] = &[(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)];

/// A machine with the default marks.
fn machine(nodes: usize, edges: &[(usize, usize)]) -> Backpressure {
    let graph = StageGraph::checked(nodes, edges).unwrap();
    Backpressure::new(&graph, PauseMode::On(Watermarks::default()), 0)
}

fn list(stages: usize) -> Backpressure {
    Backpressure::new(&StageGraph::list(stages).unwrap(), PauseMode::On(Watermarks::default()), 0)
}

fn signals(machine: &mut Backpressure) -> Vec<(usize, usize, bool, u64)> {
    let polled = std::iter::from_fn(|| machine.poll_signal());
    polled.map(|one| (one.edge.0, one.to.0, one.pause, one.sequence)).collect()
}

fn flushes(machine: &mut Backpressure) -> Vec<usize> {
    std::iter::from_fn(|| machine.poll_flush()).map(|node| node.0).collect()
}

#[test]
fn a_queue_pauses_at_the_high_mark_and_resumes_at_the_low_one() {
    let steps = [
        (2_799, false),
        (2_800, true),
        (2_799, true),
        (2_001, true),
        (2_000, false),
        (2_500, false),
        (5_000, true),
        (0, false),
    ];
    let mut machine = list(2);
    for (milli, is_paused) in steps {
        machine.handle_occupancy(EdgeId(1), milli, 0);
        assert_eq!(machine.is_paused(NodeId(1)), is_paused, "at {milli}");
        assert!(!machine.is_paused(NodeId(0)) && !machine.is_paused(NodeId(2)));
    }
}

#[test]
fn equal_marks_are_one_threshold() {
    let marks = Watermarks::checked(2_000, 2_000, 4_000).unwrap();
    let mut machine = Backpressure::new(&StageGraph::list(1).unwrap(), PauseMode::On(marks), 0);
    for (milli, is_paused) in [(2_000, true), (2_000, true), (1_999, false), (2_000, true)] {
        machine.handle_occupancy(EdgeId(0), milli, 0);
        assert_eq!(machine.is_paused(NodeId(0)), is_paused, "at {milli}");
    }
}

#[test]
fn a_feeder_is_paused_while_any_of_its_queues_holds_it() {
    let mut machine = machine(5, DIAMOND);
    machine.handle_occupancy(EdgeId(1), 3_000, 0);
    machine.handle_occupancy(EdgeId(2), 3_000, 0);
    machine.handle_occupancy(EdgeId(1), 0, 0);
    assert!(machine.is_paused(NodeId(1)));
    machine.handle_occupancy(EdgeId(2), 0, 0);
    assert!(!machine.is_paused(NodeId(1)));
}

#[test]
fn each_change_is_signalled_once_with_its_number() {
    let mut machine = list(2);
    machine.handle_occupancy(EdgeId(1), 3_000, 0);
    machine.handle_occupancy(EdgeId(1), 4_000, 0);
    machine.handle_occupancy(EdgeId(0), 3_000, 0);
    assert_eq!(signals(&mut machine), [(1, 1, true, 1), (0, 0, true, 1)]);
    machine.handle_occupancy(EdgeId(1), 1_000, 0);
    assert_eq!(signals(&mut machine), [(1, 1, false, 2)]);
    // Two changes between polls are one signal with the last state.
    machine.handle_occupancy(EdgeId(1), 3_000, 0);
    machine.handle_occupancy(EdgeId(1), 1_000, 0);
    assert_eq!(signals(&mut machine), [(1, 1, false, 4)]);
    machine.handle_repeat();
    assert_eq!(signals(&mut machine), [(0, 0, true, 1), (1, 1, false, 4)]);
}

#[test]
fn a_receiver_applies_newer_states_only() {
    let mut near = list(1);
    let mut far = list(1);
    far.mark_remote(EdgeId(0));
    near.handle_occupancy(EdgeId(0), 3_000, 0);
    let pause = near.poll_signal().unwrap();
    near.handle_occupancy(EdgeId(0), 0, 0);
    let resume = near.poll_signal().unwrap();
    assert!(far.handle_signal(&pause, 0) && !far.handle_signal(&pause, 0));
    assert!(far.handle_signal(&resume, 0) && !far.handle_signal(&pause, 0));
    assert!(!far.is_paused(NodeId(0)));
    let unknown = Signal { edge: EdgeId(7), sequence: 9, ..pause };
    assert!(!far.handle_signal(&unknown, 0));
    // The machine of the queue follows the queue alone.
    assert!(!near.handle_signal(&Signal { sequence: 9, ..pause }, 0));
    assert!(!near.is_paused(NodeId(0)));
}

#[test]
fn a_receiver_survives_lost_signals_and_a_new_sender() {
    let mut far = list(1);
    far.mark_remote(EdgeId(0));
    let (edge, from, to) = (EdgeId(0), NodeId(1), NodeId(0));
    let signal = |pause, sequence| Signal { edge, from, to, pause, sequence };
    assert!(far.handle_signal(&signal(true, 40), 0));
    far.handle_silence(edge, 10);
    assert!(!far.is_paused(NodeId(0)));
    // A restarted sender counts from the start again.
    assert!(far.handle_signal(&signal(true, 1), 20));
    assert!(far.is_paused(NodeId(0)));
    let mut near = list(1);
    near.handle_occupancy(edge, 3_000, 0);
    near.handle_silence(edge, 0);
    assert!(near.is_paused(NodeId(0)), "a queue here is never silent");
}

#[test]
fn an_operator_holds_a_node_in_each_mode() {
    for mode in [PauseMode::Off, PauseMode::On(Watermarks::default())] {
        let mut machine = Backpressure::new(&StageGraph::list(2).unwrap(), mode, 100);
        machine.start_paused(NodeId(1));
        machine.handle_occupancy(EdgeId(1), 3_000, 110);
        machine.handle_occupancy(EdgeId(1), 0, 120);
        assert!(machine.is_paused(NodeId(1)));
        machine.handle_operator(NodeId(1), false, 130);
        assert!(!machine.is_paused(NodeId(1)));
        let node = machine.evidence(200).nodes[1];
        assert_eq!((node.paused_ns, node.pauses, node.operator_ns), (30, 1, 30));
    }
}

#[test]
fn without_pauses_a_full_queue_drops() {
    let graph = StageGraph::list(1).unwrap();
    let mut off = Backpressure::new(&graph, PauseMode::Off, 0);
    off.handle_occupancy(EdgeId(0), 9_000, 0);
    assert!(!off.is_paused(NodeId(0)) && off.poll_signal().is_none());
    let mut on = list(1);
    for (milli, of_off, of_on) in [
        (0, Admission::Taken, Admission::Taken),
        (3_999, Admission::Taken, Admission::Taken),
        (4_000, Admission::Dropped, Admission::Waits),
    ] {
        assert_eq!(off.admits(EdgeId(0), milli, 4_000), of_off);
        assert_eq!(on.admits(EdgeId(0), milli, 4_000), of_on);
    }
    assert_eq!(off.evidence(0).edges[0].refused, 1);
}

#[test]
fn a_branch_closes_its_launches_if_its_join_waits_and_another_is_held() {
    let mut machine = machine(5, DIAMOND);
    machine.handle_occupancy(EdgeId(3), 1_000, 0);
    machine.handle_join_waits(NodeId(4), EdgeId(4), 0);
    assert_eq!(flushes(&mut machine), [], "nothing is held");
    machine.handle_occupancy(EdgeId(3), 3_000, 0);
    machine.handle_join_waits(NodeId(4), EdgeId(4), 0);
    machine.handle_join_waits(NodeId(4), EdgeId(4), 0);
    assert_eq!(flushes(&mut machine), [3], "once, and not the node before both");
    // With input it will fill a launch, unless it is paused.
    machine.handle_occupancy(EdgeId(2), 500, 0);
    machine.handle_join_waits(NodeId(4), EdgeId(4), 0);
    assert_eq!(flushes(&mut machine), []);
    machine.handle_operator(NodeId(3), true, 0);
    machine.handle_join_waits(NodeId(4), EdgeId(4), 0);
    assert_eq!(flushes(&mut machine), [3]);
}

/// Node 3 feeds two of the three inputs of the join, so it may have the piece that both lack.
#[test]
fn a_branch_includes_nodes_that_only_some_other_inputs_share() {
    let edges = [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5), (2, 6), (4, 6), (5, 6)];
    let graph = StageGraph::checked(7, &edges).unwrap();
    assert_eq!(graph.branch(EdgeId(6)), [NodeId(3), NodeId(4)]);
    assert_eq!(graph.branch(EdgeId(5)), [NodeId(2)]);
    assert_eq!(graph.branch(EdgeId(0)), []);
}

#[test]
fn evidence_is_exact_and_adds_up() {
    let mut machine = machine(5, DIAMOND);
    machine.handle_occupancy(EdgeId(1), 4_000, 10);
    machine.handle_occupancy(EdgeId(2), 3_000, 20);
    machine.handle_occupancy(EdgeId(1), 1_000, 30);
    machine.handle_occupancy(EdgeId(2), 2_000, 50);
    let mut evidence = machine.evidence(100);
    assert_eq!(evidence.mean(EdgeId(1)), (4_000 * 20 + 1_000 * 70) / 100);
    assert_eq!(evidence.edges[1].peak, 4_000);
    assert_eq!((evidence.nodes[1].paused_ns, evidence.nodes[1].pauses), (40, 1));
    let by = vec![(EdgeId(1), 20), (EdgeId(2), 30)];
    assert_eq!(evidence.paused_by(NodeId(1)).collect::<Vec<_>>(), by);
    evidence.add(&machine.evidence(200));
    assert_eq!((evidence.elapsed_ns, evidence.nodes[1].paused_ns), (300, 80));
    assert_eq!(evidence.mean(EdgeId(1)), (2 * 4_000 * 20 + 1_000 * 240) / 300);
    assert_eq!(evidence.edges[1].peak, 4_000);
}

#[test]
fn open_pauses_count_and_time_never_steps_back() {
    let mut machine = list(1);
    machine.handle_occupancy(EdgeId(0), 3_000, 100);
    machine.handle_occupancy(EdgeId(0), 4_000, 50);
    let evidence = machine.evidence(150);
    assert_eq!((evidence.nodes[0].paused_ns, evidence.edges[0].held_ns), (50, 50));
    assert_eq!(evidence.edges[0].area, 4_000 * 50);
    assert_eq!(machine.evidence(0).elapsed_ns, 100);
}

#[test]
fn the_bottleneck_holds_others_longest_and_is_not_held() {
    let mut evidence = PauseEvidence::new(&StageGraph::list(3).unwrap());
    assert_eq!(evidence.bottleneck(), None);
    let mut named = |held: [u64; 3], excused_ns: u64| {
        let edges = evidence.edges.iter_mut();
        edges.zip(held).for_each(|(edge, held_ns)| edge.held_ns = held_ns);
        evidence.edges[2].excused_ns = excused_ns;
        evidence.bottleneck().map(|node| node.0)
    };
    assert_eq!(named([80, 40, 20], 0), Some(3), "those before are held themselves");
    assert_eq!(named([80, 40, 2], 0), Some(2), "a little does not count");
    assert_eq!(named([80, 10, 0], 0), Some(1));
    assert_eq!(named([80, 11, 0], 0), Some(2));
    assert_eq!(named([0, 0, 20], 20), None, "it only waited");
    let mut fork = PauseEvidence::new(&StageGraph::checked(3, &[(0, 1), (0, 2)]).unwrap());
    fork.edges.iter_mut().for_each(|edge| edge.held_ns = 7);
    assert_eq!(fork.bottleneck(), Some(NodeId(2)), "of equal ones the later");
}

/// A stage after this machine holds the last one here, whose own queue is full by that.
#[test]
fn a_stage_of_another_machine_may_be_the_bottleneck() {
    let mut machine = list(2);
    machine.mark_remote(EdgeId(1));
    let (edge, from, to) = (EdgeId(1), NodeId(2), NodeId(1));
    machine.handle_signal(&Signal { edge, from, to, pause: true, sequence: 1 }, 10);
    machine.handle_occupancy(EdgeId(0), 3_000, 20);
    assert_eq!(machine.evidence(500).bottleneck(), Some(NodeId(2)));
}

/// One lane is idle at its second stage, the other one is held by it.
#[test]
fn bursts_are_those_of_a_lane_and_of_a_time() {
    let mut busy = list(2);
    busy.handle_occupancy(EdgeId(0), 3_000, 0);
    busy.handle_occupancy(EdgeId(1), 3_000, 0);
    let mut idle = list(2);
    idle.handle_occupancy(EdgeId(0), 1_000, 0);
    let mut all = busy.evidence(1_000);
    let before = all.clone();
    all.add(&idle.evidence(1_000));
    assert_eq!((all.bottleneck(), all.edges[1].burst_ns), (Some(NodeId(2)), 0));
    // From then on the second stage is often empty.
    for start in (1_000..9_000).step_by(100) {
        busy.handle_occupancy(EdgeId(1), 3_000, start);
        busy.handle_occupancy(EdgeId(1), 0, start + 20);
    }
    let later = busy.evidence(9_000).since(&before);
    assert_eq!((later.elapsed_ns, later.edges[1].held_ns), (8_000, 80 * 20));
    assert_eq!(later.edges[1].burst_ns, later.edges[1].held_ns);
    assert_eq!(later.bottleneck(), Some(NodeId(1)));
}

#[test]
fn time_that_a_join_waits_counts_for_the_awaited_branch() {
    let mut machine = machine(5, DIAMOND);
    machine.handle_occupancy(EdgeId(3), 3_000, 10);
    machine.handle_join_waits(NodeId(4), EdgeId(4), 20);
    machine.handle_occupancy(EdgeId(4), 1_000, 50);
    let evidence = machine.evidence(60);
    let (fast, slow) = (evidence.edges[3], evidence.edges[4]);
    assert_eq!((fast.held_ns, fast.excused_ns, fast.awaited_ns), (50, 30, 0));
    assert_eq!((slow.held_ns, slow.excused_ns, slow.awaited_ns), (0, 0, 30));
    assert_eq!(evidence.bottleneck(), Some(NodeId(3)));
}

#[test]
fn marks_out_of_range_are_named_with_the_range() {
    let text = |high, low, capacity| {
        Watermarks::checked(high, low, capacity).err().map(|error| error.to_string())
    };
    for (high, low, capacity) in [(2_800, 2_000, 4_000), (1_000, 1, 1_000), (4_000, 4_000, 4_000)] {
        assert_eq!(text(high, low, capacity), None);
    }
    let cases = [
        (999, 1, "`high` is 0.999 launches; allowed are 1 to 4, the queue's size"),
        (-5_000, 1, "`high` is -5 launches; allowed are 1 to 4, the queue's size"),
        (4_001, 1, "`high` is 4.001 launches; allowed are 1 to 4, the queue's size"),
        (
            i64::MAX,
            1,
            "`high` is 9223372036854775.807 launches; allowed are 1 to 4, the queue's size",
        ),
        (2_800, 2_900, "`low` is 2.9 launches; allowed are 0.001 to 2.8, the value of `high`"),
        (
            2_800,
            i64::MAX,
            "`low` is 9223372036854775.807 launches; allowed are 0.001 to 2.8, the value of `high`",
        ),
        (2_800, 0, "`low` is 0 launches; allowed are 0.001 to 2.8, the value of `high`"),
        (2_800, -1, "`low` is -0.001 launches; allowed are 0.001 to 2.8, the value of `high`"),
    ];
    for (high, low, expected) in cases {
        assert_eq!(text(high, low, 4_000).as_deref(), Some(expected));
    }
    let small = text(1_000, 500, 999);
    assert_eq!(small.as_deref(), Some("the queue holds 0.999 launches; the least is 1"));
}

#[test]
fn a_queue_needs_room_for_all_that_can_still_come() {
    let inflow = Inflow { launch: 64, held_upstream: 128, rate: 0, signal_delay_ns: 0 };
    assert_eq!(required_capacity(2_800, &inflow), 4_800);
    // 10 batches a microsecond for 2 us, and a part of one counts whole.
    let late = Inflow { rate: 10_000_000, signal_delay_ns: 2_000, ..inflow };
    assert_eq!(required_capacity(2_800, &late), 2_800 + (148_u32 * 1_000).div_ceil(64));
    let tiny = Inflow { rate: 1, signal_delay_ns: 1, ..inflow };
    assert_eq!(required_capacity(2_800, &tiny), 2_800 + (129_u32 * 1_000).div_ceil(64));
    let all = u64::MAX;
    let huge = Inflow { launch: 0, held_upstream: all, rate: all, signal_delay_ns: all };
    assert_eq!(required_capacity(2_800, &huge), u32::MAX);
}

#[test]
fn graphs_that_are_none_are_refused() {
    let text = |nodes, edges: &[(usize, usize)]| {
        StageGraph::checked(nodes, edges).err().map(|error| error.to_string())
    };
    assert_eq!(text(5, DIAMOND), None);
    type Case = (usize, &'static [(usize, usize)], &'static str);
    let cases: [Case; 5] = [
        (1, &[], "there is no stage after the source"),
        (2, &[(0, 1), (1, 2)], "edge 1 leads to node 2; nodes are 0 to 1"),
        (3, &[(0, 1), (2, 1), (0, 2)], "edge 1 leads from node 2 back to node 1"),
        (2, &[(0, 1), (1, 1)], "edge 1 leads from node 1 back to node 1"),
        (3, &[(0, 1)], "no edge leads to node 2"),
    ];
    for (nodes, edges, expected) in cases {
        assert_eq!(text(nodes, edges).as_deref(), Some(expected));
    }
}
