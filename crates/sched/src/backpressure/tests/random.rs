//! Random lanes in virtual time.

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::*;
use super::simulation::{Setup, Simulation};

/// Edges of a random graph of up to six nodes: each stage has one feeder or two.
fn edges() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let feeders = (any::<Index>(), any::<Index>());
    prop::collection::vec(feeders, 1..6).prop_map(|stages| {
        let feeders = stages.iter().enumerate().flat_map(|(before, (first, second))| {
            let (first, second) = (first.index(before + 1), second.index(before + 1));
            let both = if first == second { vec![first] } else { vec![first, second] };
            both.into_iter().map(move |feeder| (feeder, before + 1))
        });
        feeders.collect()
    })
}

/// A lane whose source sends `load` percent of the rate of the slowest stage.
fn setup(batches: usize) -> impl Strategy<Value = (Setup, u64)> {
    let costs = prop::collection::vec(100..1_000_u64, 6);
    let launches = prop::collection::vec(1..5_usize, 6);
    let rest = (50..400_u64, any::<bool>(), prop_oneof![Just(2_000_u64), Just(50_000)]);
    (edges(), costs, launches, rest).prop_map(move |(edges, mut costs, mut launch, rest)| {
        let (load, source_waits, deadline_ns) = rest;
        let nodes = edges.last().unwrap().1 + 1;
        costs.truncate(nodes);
        launch.truncate(nodes);
        let slowest_ns = *costs[1..].iter().max().unwrap();
        let interval_ns = slowest_ns * 100 / load;
        let (cost_ns, launch) = (costs, launch);
        let setup =
            Setup { edges, cost_ns, launch, interval_ns, batches, source_waits, deadline_ns };
        (setup, load)
    })
}

/// Makes one stage slower than all others by half at least.
fn with_bottleneck(mut setup: Setup, load: u64, which: &Index) -> (Setup, usize) {
    let slow = 1 + which.index(setup.cost_ns.len() - 1);
    setup.cost_ns[slow] = 0;
    setup.cost_ns[slow] = setup.cost_ns[1..].iter().max().unwrap().max(&100) * 3 / 2 + 1;
    setup.interval_ns = setup.cost_ns[slow] * 100 / load;
    (setup, slow)
}

/// Two branches: of one stage each, one of them a queue alone, and one of two stages.
const BRANCHES: [&[(usize, usize)]; 4] = [
    &[(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)],
    &[(0, 1), (1, 2), (1, 3), (2, 3), (3, 4)],
    &[(0, 1), (1, 2), (1, 3), (2, 4), (3, 5), (4, 5)],
    &[(0, 1), (0, 3), (1, 2), (2, 3)],
];

fn ran(setup: &Setup) -> Simulation {
    let mut simulation = Simulation::new(setup);
    simulation.run();
    simulation
}

proptest! {
    #[test]
    fn nothing_is_lost_after_the_source((setup, load) in setup(200)) {
        let ran = ran(&setup);
        let has_output = |node| setup.edges.iter().any(|edge| edge.0 == node);
        for node in (1..setup.launch.len()).filter(|&node| !has_output(node)) {
            prop_assert_eq!(ran.left_by[node] + ran.overload, setup.batches);
        }
        prop_assert!(!setup.source_waits || ran.overload == 0);
        prop_assert!(setup.source_waits || load < 150 || ran.overload > 0);
        let paused = (0..setup.launch.len()).any(|node| ran.machine.is_paused(NodeId(node)));
        prop_assert!(!paused, "paused at the end");
    }

    #[test]
    fn evidence_adds_up((setup, _) in setup(200)) {
        let ran = ran(&setup);
        let evidence = ran.machine.evidence(ran.now_ns);
        prop_assert_eq!(evidence.elapsed_ns, ran.now_ns);
        for (edge, one) in evidence.edges.iter().enumerate() {
            prop_assert_eq!((one.area, one.peak), (ran.areas[edge], ran.peaks[edge]));
            prop_assert!(one.held_ns <= evidence.nodes[one.from.0].paused_ns);
            prop_assert!(one.excused_ns <= one.held_ns);
            prop_assert!(one.waiting_ns <= evidence.elapsed_ns);
            prop_assert!(one.area <= u128::from(one.peak) * u128::from(one.waiting_ns));
        }
        for (node, one) in evidence.nodes.iter().enumerate() {
            prop_assert_eq!(one.paused_ns, ran.paused_ns[node]);
            let by_edges: u64 = evidence.paused_by(NodeId(node)).map(|(_, ns)| ns).sum();
            prop_assert!(by_edges >= one.paused_ns);
        }
    }

    #[test]
    fn the_bottleneck_of_a_tree_is_its_slowest_stage(
        (mut setup, _) in setup(600),
        load in 125..400_u64,
        launch in 1..5_usize,
        slow: Index,
    ) {
        setup.edges.dedup_by_key(|edge| edge.1);
        setup.launch.fill(launch);
        check_bottleneck(setup, load, &slow)?;
    }

    #[test]
    fn the_bottleneck_of_a_list_is_its_slowest_stage(
        (mut setup, _) in setup(600),
        load in 125..400_u64,
        slow: Index,
    ) {
        setup.edges = (1..setup.launch.len()).map(|node| (node - 1, node)).collect();
        check_bottleneck(setup, load, &slow)?;
    }

    #[test]
    fn the_bottleneck_between_two_branches_is_the_slowest_stage(
        (mut setup, _) in setup(600),
        costs in prop::collection::vec(100..1_000_u64, 6),
        load in 125..400_u64,
        launch in 1..5_usize,
        shape in 0..BRANCHES.len(),
        slow: Index,
    ) {
        setup.edges = BRANCHES[shape].to_vec();
        let nodes = setup.edges.last().map_or(0, |edge| edge.1 + 1);
        setup.cost_ns = costs[..nodes].to_vec();
        setup.launch = vec![launch; nodes];
        check_bottleneck(setup, load, &slow)?;
    }
}

/// The first stage passes on 16 batches at once. The second one works on each by itself.
#[test]
fn whole_launches_do_not_make_their_receiver_the_bottleneck() {
    let cases = [([100, 5], 1), ([100, 14], 1), ([100, 40], 1), ([100, 150], 2)];
    for (cost_ns, bottleneck) in cases {
        for load in [130, 400] {
            let slowest_ns = *cost_ns.iter().max().unwrap();
            let ran = ran(&Setup {
                edges: vec![(0, 1), (1, 2)],
                cost_ns: vec![0, cost_ns[0], cost_ns[1]],
                launch: vec![1, 16, 1],
                interval_ns: slowest_ns * 100 / load,
                batches: 4_000,
                source_waits: false,
                deadline_ns: 10_000,
            });
            let evidence = ran.machine.evidence(ran.now_ns);
            let named = evidence.bottleneck();
            assert_eq!(named, Some(NodeId(bottleneck)), "{cost_ns:?} {load} {evidence:?}");
        }
    }
}

/// Checks the name of the bottleneck. In a list or a tree it also never waits for input for long.
fn check_bottleneck(setup: Setup, load: u64, slow: &Index) -> Result<(), TestCaseError> {
    let (setup, slow) = with_bottleneck(setup, load, slow);
    let ran = ran(&setup);
    let evidence = ran.machine.evidence(ran.now_ns);
    prop_assert_eq!(evidence.bottleneck(), Some(NodeId(slow)), "{:?} {:?}", setup, evidence);
    let has_join = setup.edges.windows(2).any(|edges| edges[0].1 == edges[1].1);
    if setup.source_waits && !has_join {
        let work_ns = setup.cost_ns[slow] * setup.batches as u64;
        let launches = setup.cost_ns.iter().zip(&setup.launch);
        let launches_ns: u64 = launches.map(|(cost_ns, &launch)| cost_ns * launch as u64).sum();
        let within_ns = work_ns * 105 / 100 + 2 * launches_ns + setup.deadline_ns;
        prop_assert!(ran.now_ns <= within_ns, "{} > {} {:?}", ran.now_ns, within_ns, setup);
    }
    Ok(())
}
