//! Placements against an exhaustive oracle, and the properties of policies and limits.

mod oracle;
mod world;

use proptest::prelude::*;

use super::*;
use world::{World, world};

/// The profile of one function with one launch size: Gb/s and ns by device; watts.
fn simple(devices: &[(f64, f64, (f64, f64))]) -> World {
    let curves = devices.iter().map(|&(gbps, ns, _)| vec![(256, gbps, ns)]).collect();
    let power = devices.iter().map(|one| Some(one.2)).collect();
    World { power, ..World::new(&[curves]) }
}

#[test]
fn each_policy_takes_its_device() {
    let world =
        simple(&[(10.0, 1e3, (20.0, 100.0)), (30.0, 9e4, (50.0, 250.0)), (12.0, 5e4, (1.0, 20.0))]);
    let place = |policy| world.place(policy, 1e6).sites[0][0].device;
    assert_eq!(place(PlacementPolicy::Throughput), 1);
    assert_eq!(place(PlacementPolicy::Latency), 0);
    assert_eq!(place(PlacementPolicy::Energy), 2);
    assert_eq!(place(PlacementPolicy::CpuOnly), 0);
    assert_eq!(place(PlacementPolicy::DeviceOnly), 1);
    assert_eq!(place(PlacementPolicy::Fixed(vec![vec![2]])), 2);
}

#[test]
fn a_function_without_kernels_stays_on_the_cpu() {
    let on_both = vec![vec![(256, 1.0, 1e3)], vec![(256, 50.0, 1e3)]];
    let on_cpu = vec![vec![(256, 5.0, 1e3)], vec![]];
    let placed = World::new(&[on_both, on_cpu]).place(PlacementPolicy::DeviceOnly, 1e4);
    let devices: Vec<usize> = placed.sites[0].iter().map(|site| site.device).collect();
    assert_eq!(devices, [1, 0]);
}

#[test]
fn contradicting_limits_give_the_nearest_placement_and_name_it() {
    let mut world = simple(&[(10.0, 1e3, (20.0, 100.0)), (30.0, 9e4, (50.0, 250.0))]);
    (world.delay_ns_max, world.power_w_max) = (Some(100.0), Some(1.0));
    let placed = world.place(PlacementPolicy::Throughput, 1e5);
    assert_eq!(placed.sites[0][0].device, 0);
    assert_eq!(placed.missed, [Missed::Delay, Missed::Power]);
    (world.delay_ns_max, world.power_w_max) = (None, None);
    let overloaded = world.place(PlacementPolicy::CpuOnly, 1e9);
    assert_eq!(overloaded.missed, [Missed::Load]);
}

#[test]
fn the_runner_up_comes_with_the_measurement_that_decided() {
    let world = simple(&[(10.0, 1e3, (20.0, 100.0)), (30.0, 9e4, (50.0, 250.0))]);
    let placed = world.place(PlacementPolicy::Throughput, 1e6);
    let second = placed.runner_up.expect("the CPU");
    assert_eq!((second.devices, second.decided), (vec![vec![0]], Decided::Load));
    let deciding = second.deciding.expect("the only function");
    let rates = (deciding.chosen.bits_per_s, deciding.other.bits_per_s);
    assert!((rates.0 - 30e9).abs() < 1.0 && (rates.1 - 10e9).abs() < 1.0);
}

#[test]
fn a_function_is_split_if_neither_side_carries_it() {
    // 20 Gb/s on the CPU, 30 on the device, 40 to carry: both are at 80 %.
    let world = simple(&[(20.0, 1e3, (20.0, 100.0)), (30.0, 9e4, (50.0, 250.0))]);
    let placed = world.place(PlacementPolicy::Throughput, 40e9 / 8.0 / 1000.0);
    let site = placed.sites[0][0];
    assert_eq!(site.device, 1);
    assert!((site.cpu_share - 0.4).abs() < 1e-6, "{site:?}");
    assert!((placed.figures.load - 0.8).abs() < 1e-6);
    assert!(placed.missed.is_empty());
    let whole = world.place(PlacementPolicy::CpuOnly, 40e9 / 8.0 / 1000.0);
    assert_eq!(whole.sites[0][0].cpu_share, 1.0);
}

#[test]
fn a_copy_that_costs_more_than_the_work_keeps_functions_on_the_cpu() {
    let mut world = simple(&[(10.0, 1e3, (20.0, 100.0)), (11.0, 1e3, (50.0, 250.0))]);
    assert_eq!(world.place(PlacementPolicy::Throughput, 1e6).sites[0][0].device, 1);
    world.link_ns = 1.0;
    assert_eq!(world.place(PlacementPolicy::Throughput, 1e6).sites[0][0].device, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn exhaustive_search_finds_nothing_better(world in world(1..4), policy in 0usize..3) {
        let policies =
            [PlacementPolicy::Throughput, PlacementPolicy::Latency, PlacementPolicy::Energy];
        let policy = policies[policy].clone();
        let placed = world.place(policy.clone(), world.rate);
        prop_assert_eq!(placed.gap, None);
        let best = oracle::best(&world, &policy);
        let own = oracle::of(&world, &policy, &placed);
        prop_assert!(oracle::is_close(&own, &best), "{:?} {:?}", own, best);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn more_load_never_selects_less_capacity(world in world(1..4), more in 1.0..20.0f64) {
        // Limits on power exclude devices that more load needs.
        let world = World { delay_ns_max: None, power_w_max: None, ..world };
        let at = |rate: f64| world.place(PlacementPolicy::Throughput, rate).capacity(rate);
        let (low, high) = (at(world.rate), at(world.rate * more));
        prop_assert!(high >= low * (1.0 - 1e-9), "{low} {high}");
    }

    #[test]
    fn a_load_that_can_be_carried_is_carried(world in world(1..4)) {
        let world = World { delay_ns_max: None, power_w_max: None, ..world };
        let fastest = world.place(PlacementPolicy::Throughput, world.rate);
        for policy in [PlacementPolicy::Latency, PlacementPolicy::Energy] {
            let placed = world.place(policy, world.rate);
            prop_assert!(placed.figures.load <= 1.0 || fastest.figures.load > 1.0);
        }
    }

    #[test]
    fn a_larger_delay_budget_never_lowers_throughput(world in world(1..4), more in 1.0..20.0f64) {
        let with = |delay: f64| {
            let world = World { delay_ns_max: Some(delay), power_w_max: None, ..world.clone() };
            let placed = world.place(PlacementPolicy::Throughput, world.rate);
            oracle::of(&world, &PlacementPolicy::Throughput, &placed)[1]
        };
        let delay = world.delay_ns_max.unwrap_or(1e5);
        prop_assert!(with(delay * more) <= with(delay) * (1.0 + 1e-9));
    }

    #[test]
    fn a_bounded_search_is_within_its_gap(world in world(6..8)) {
        let unlimited = World { delay_ns_max: None, power_w_max: None, ..world };
        let placed = unlimited.place(PlacementPolicy::Throughput, 1e4);
        let most = oracle::least_load(&unlimited) * (1.0 + placed.gap.unwrap_or(0.0));
        let load = placed.figures.load;
        prop_assert!(load <= most * (1.0 + 1e-9), "{load} {most}");
    }
}
