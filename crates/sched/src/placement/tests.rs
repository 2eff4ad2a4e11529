//! Placements against an exhaustive oracle, and the properties of policies and limits.

mod oracle;
mod world;

use proptest::prelude::*;

use super::*;
use world::{Curve, World, world};

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
    (world.delay_ns_max, world.power_w_max) = (Some(1.0), Some(1.0));
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
    assert_eq!((second.sites[0][0].device, second.decided), (0, Decided::Load));
    let deciding = second.deciding.expect("the only function");
    let rates = (deciding.chosen.bits_per_s, deciding.other.bits_per_s);
    assert!((rates.0 - 30e9).abs() < 1.0 && (rates.1 - 10e9).abs() < 1.0);
}

/// With more combinations than are all tried, steps from one start may meet only worse ones.
#[test]
fn the_runner_up_of_many_placements_is_near() {
    let all: Vec<_> =
        (0..6).map(|_| [20.0, 1.0, 2.0].map(|gbps| vec![(256, gbps, 1e3)]).to_vec()).collect();
    let world = World { slow: vec![1.0; 6], ..World::new(&all) };
    let placed = world.place(PlacementPolicy::Latency, 1e4);
    assert!(placed.gap.is_some(), "not all are tried");
    assert!(placed.sites[0].iter().all(|site| site.device == 0));
    let sites = placed.runner_up.expect("another one").sites;
    assert_eq!(sites[0].iter().filter(|site| site.device != 0).count(), 1, "{sites:?}");
}

#[test]
fn a_function_is_split_if_both_sides_carry_more() {
    // 5 Gb/s on each of four lanes, 30 on the device, 40 to carry. The device carries 30 of three
    // lanes, and the other lane 5 of its 10.
    let mut world = simple(&[(5.0, 1e3, (20.0, 100.0)), (30.0, 9e4, (50.0, 250.0))]);
    world.lanes = 4;
    let placed = world.place(PlacementPolicy::Throughput, 40e9 / 8.0 / 1000.0);
    let site = placed.sites[0][0];
    assert_eq!((site.device, site.cpu_share), (1, 0.25));
    assert!((placed.figures.load - 40.0 / 35.0).abs() < 1e-6, "{:?}", placed.figures);
    assert_eq!(placed.missed, [Missed::Load]);
    let whole = world.place(PlacementPolicy::CpuOnly, 40e9 / 8.0 / 1000.0);
    assert_eq!(whole.sites[0][0].cpu_share, 1.0);
    // A device of 37 carries more alone than with one lane less.
    let mut fast = simple(&[(1.0, 1e3, (20.0, 100.0)), (37.0, 9e4, (50.0, 250.0))]);
    fast.lanes = 4;
    let placed = fast.place(PlacementPolicy::Throughput, 40e9 / 8.0 / 1000.0);
    assert_eq!((placed.sites[0][0].device, placed.sites[0][0].cpu_share), (1, 0.0));
    // A chain on one lane has nothing to divide.
    world.lanes = 1;
    let placed = world.place(PlacementPolicy::Throughput, 40e9 / 8.0 / 1000.0);
    assert_eq!(placed.sites[0][0].cpu_share, 0.0);
}

/// Copies at the same time take longer each, and load the link no more.
#[test]
fn traffic_on_a_link_is_no_load() {
    let mut world = simple(&[(10.0, 1e3, (20.0, 100.0)), (30.0, 9e4, (50.0, 250.0))]);
    world.link_ns = 0.1;
    let place = |traffic: f64| {
        let mut chain = world.chain(1e6);
        chain.plan.links.iter_mut().for_each(|link| link.traffic = traffic);
        world.place_all(&[chain], PlacementPolicy::DeviceOnly).figures
    };
    let (alone, beside) = (place(1.0), place(7.2));
    assert!(alone.link_loads[1] > 0.04, "{alone:?}");
    assert!((beside.link_loads[1] / alone.link_loads[1] - 1.0).abs() < 1e-9, "{beside:?}");
    assert!(beside.delay_ns > alone.delay_ns);
}

#[test]
fn devices_on_the_cpu_share_its_cores() {
    // At 6 Gb/s a lane is busy for 0.6 of the time, and both cores for 0.4 with the device.
    let mut world = simple(&[(10.0, 1e3, (20.0, 100.0)), (15.0, 9e4, (50.0, 250.0))]);
    let rate = 6e9 / 8.0 / 1000.0;
    let place = |world: &World| {
        let placed = world.place(PlacementPolicy::Throughput, rate);
        (placed.sites[0][0].device, placed.figures.load, placed.figures.cores_load)
    };
    let is_near = |(device, load, cores): (usize, f64, f64), expected: (usize, f64, f64)| {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert_eq!(device, expected.0);
        assert!(near(load, expected.1) && near(cores, expected.2), "{load} {cores}");
    };
    is_near(place(&world), (1, 0.4, 0.0));
    world.cores = 2;
    is_near(place(&world), (1, 0.4, 0.0));
    world.on_cores = vec![0, 2];
    is_near(place(&world), (1, 0.4, 0.4));
    // The other threads take a core. Then 0.8 of both are busy with the lane, and 0.9 otherwise.
    world.threads_ns = 1e9 / rate;
    is_near(place(&world), (0, 0.8, 0.8));
    // Of a device with hardware of its own they take none.
    world.on_cores = vec![0, 0];
    is_near(place(&world), (1, 0.5, 0.5));
    world.threads_ns *= 2.2;
    let overloaded = world.place(PlacementPolicy::Throughput, rate);
    assert_eq!(
        (overloaded.missed, &*overloaded.missed_by[0]),
        (vec![Missed::Load], &[Missed::Load][..])
    );
}

#[test]
fn a_launch_has_the_packets_that_come_within_its_wait() {
    // On the device a launch takes 136.5 us and 0.267 us for each packet.
    let device = vec![(256, 10.0, 2e5), (1024, 20.0, 4e5)];
    let mut world = World::new(&[vec![vec![(256, 2.0, 1e3)], device]]);
    world.power = vec![Some((20.0, 100.0)), Some((1.0, 21.0))];
    let load = |rate: f64| {
        let placed = world.place(PlacementPolicy::Fixed(vec![vec![1]]), rate);
        placed.figures.loads[1]
    };
    // 11 packets within a millisecond, and 101.
    let of = |packets: f64, rate: f64| rate * (136.533e-6 / packets + 0.266_667e-6);
    for (rate, packets) in [(1e4, 11.0), (1e5, 101.0), (2e6, 1024.0)] {
        assert!((load(rate) / of(packets, rate) - 1.0).abs() < 1e-4, "{} at {rate}", load(rate));
    }
    // 13 % of the device take more power than 4 % of the CPU. Full launches would take 0.4 %.
    let energy = |rate: f64| world.place(PlacementPolicy::Energy, rate).sites[0][0].device;
    assert_eq!((energy(1e4), energy(2e5)), (0, 1));
}

#[test]
fn a_split_keeps_the_delay() {
    let device = vec![(256, 6.0, 9e4), (4096, 30.0, 9e4)];
    let mut world = World::new(&[vec![vec![(256, 5.0, 1e3)], device]]);
    world.lanes = 2;
    world.delay_ns_max = Some(500e3);
    let split = world.place(PlacementPolicy::Throughput, 11e9 / 8.0 / 1000.0);
    // Half of the packets fill a launch of 256 in 372 us, and one of 4,096 in 5,958 us.
    let site = split.sites[0][0];
    assert_eq!((site.device, site.launch_packets, site.cpu_share), (1, 256, 0.5));
    assert!(site.deadline_ns <= 410e3 && split.figures.delay_ns <= 500e3, "{site:?}");
    assert_eq!(split.missed, [Missed::Load]);
    // The lane on the CPU carries 5 of its 5.5 Gb/s.
    assert!((split.figures.load - 11.0 / 10.5).abs() < 1e-6, "{:?}", split.figures);
}

/// Each function takes 1 us, and twice as long beside another one.
#[test]
fn functions_of_one_chain_wait_for_each_other_on_devices_only() {
    let both = vec![vec![(256, 10.0, 1e3)], vec![(256, 10.0, 1e3)]];
    let mut world = World::new(&[both.clone(), both]);
    let delay = |world: &World, chains: &[ChainDemand], device: usize| {
        let devices = chains.iter().map(|chain| vec![device; chain.functions.len()]).collect();
        let placed = world.place_all(chains, PlacementPolicy::Fixed(devices));
        placed.figures.delay_ns
    };
    // At 256 packets a nanosecond launches fill at once, and batches nearly so.
    let filled = 255.0 / 256.0;
    let chains = vec![world.chain(256e9); 3];
    let both = &chains[..2];
    assert_eq!(delay(&world, &both[..1], 0), 2e3 + filled, "one after the other in a lane");
    assert_eq!(delay(&world, &both[..1], 1), 2.0 * 2e3 + 1.0, "at the same time");
    let beside = 2.0 * 3e3 + filled;
    assert_eq!(delay(&world, both, 0), beside, "beside both functions of the other chain");
    world.lanes = 2;
    assert_eq!(delay(&world, both, 0), 2e3 + filled, "each lane has a core");
    assert_eq!(delay(&world, &chains, 0), beside, "half of four others: three lanes, two cores");
}

/// A batch takes 8 us and 40 ns for each of its packets. It has those that come meanwhile.
#[test]
fn batches_on_the_cpu_grow_with_the_rate() {
    let ns = |packets: f64| 8_000.0 + 40.0 * packets;
    let point = |packets: u32| {
        let ns = ns(packets.into());
        (packets, f64::from(packets * world::LEN) * 8.0 / ns, ns)
    };
    let mut world = World::new(&[vec![vec![point(1), point(16), point(256)]]]);
    let mut figures = |rate| {
        world.rate = rate;
        let placed = world.place(PlacementPolicy::CpuOnly, rate);
        (placed.figures.chain_delays_ns.clone(), placed.figures.delay_ns)
    };
    for (rate, packets) in [(1e3, 1.0), (1e6, 8_000.0 / 960.0), (5e6, 50.0), (1e8, 256.0)] {
        let (chains, delay_ns) = figures(rate);
        // The oldest packet waits for the others.
        let want = ns(packets) + (packets - 1.0) * 1e9 / rate;
        assert!((delay_ns / want - 1.0).abs() < 1e-6, "{rate}: {delay_ns} {want}");
        assert_eq!(chains, [delay_ns]);
    }
    // A function whose batches gain nothing works on those of the others: 75 ns for each packet.
    let flat = [1, 256]
        .map(|packets| (packets, f64::from(world::LEN) * 8.0 / 75.0, 75.0 * f64::from(packets)));
    let mut world = World::new(&[vec![vec![point(1), point(256)]], vec![flat.to_vec()]]);
    (world.slow, world.rate) = (vec![1.0; 2], 5e6);
    let delay_ns = world.place(PlacementPolicy::CpuOnly, 5e6).figures.delay_ns;
    let packets = 0.005 * 8_000.0 / (1.0 - 0.005 * 115.0);
    let want = ns(packets) + 75.0 * packets + (packets - 1.0) * 200.0;
    assert!((delay_ns / want - 1.0).abs() < 1e-6, "{delay_ns} {want}");
}

#[test]
fn a_limit_is_missed_by_the_chains_that_exceed_it() {
    let functions = [vec![vec![(1, 1.0, 9e4)]], vec![vec![(1, 1.0, 2e3)]]];
    let mut world = World::new(&functions);
    world.delay_ns_max = Some(1e4);
    let mut chains = vec![world.chain(1e3); 2];
    for (chain, function) in chains.iter_mut().zip([0, 1]) {
        chain.functions = vec![function];
        chain.plan.functions.truncate(1);
    }
    let placed = world.place_all(&chains, PlacementPolicy::CpuOnly);
    assert_eq!(placed.missed, [Missed::Delay]);
    assert_eq!(placed.missed_by, [vec![Missed::Delay], vec![]]);
    let [first, second] = [0, 1].map(|chain| placed.figures.of_chain(chain).delay_ns);
    assert!(first > 9e4 - 1.0 && second < 1e4, "{first} {second}");
}

#[test]
fn a_copy_that_costs_more_than_the_work_keeps_functions_on_the_cpu() {
    let mut world = simple(&[(10.0, 1e3, (20.0, 100.0)), (11.0, 1e3, (50.0, 250.0))]);
    assert_eq!(world.place(PlacementPolicy::Throughput, 1e6).sites[0][0].device, 1);
    world.link_ns = 2.0;
    assert_eq!(world.place(PlacementPolicy::Throughput, 1e6).sites[0][0].device, 0);
}

/// Half of a frame takes 50 ns on the link, and the host gathers it. A whole one takes 100 ns.
#[test]
fn the_plan_spares_the_resource_that_limits_the_chain() {
    let on_device = vec![vec![(256, 1.0, 1e3)], vec![(256, 8000.0, 1e3)]];
    let on_cpu = vec![vec![(256, 1.0, 1e3)], vec![]];
    let place = |curves: &[Vec<Curve>], devices: &[usize], gather_ns: f64| {
        let world = World { link_ns: 0.1, gather_ns, ..World::new(curves) };
        let placed = world.place(PlacementPolicy::Fixed(vec![devices.to_vec()]), 1e5);
        let [cpu, link] = [placed.figures.loads[0], placed.figures.link_loads[1]];
        (placed.aims[0].name, (cpu * 1e3).round() / 1e3, (link * 1e3).round() / 1e3)
    };
    // The shortest way is to gather: 90 ns. But the CPU has another function, of 8 us.
    let both = [on_device.clone(), on_cpu];
    assert_eq!(place(&both, &[1, 0], 40.0), ("host", 0.8, 0.01));
    assert_eq!(place(&both[..1], &[1], 40.0), ("time", 0.004, 0.005));
    // The shortest way is a whole frame. But the link has more to do than the CPU.
    assert_eq!(place(&both[..1], &[1], 80.0), ("to_device", 0.008, 0.005));
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
