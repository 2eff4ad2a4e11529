//! Long-run shares against those of a fluid.

use proptest::prelude::*;

use super::oracle::{Wish, shares};
use super::world::{Load, World};
use super::*;

fn device(policy: Policy, slots: usize) -> Sharing {
    Sharing { policy, slots, in_flight_max: 2, slice_ns: MS }
}

/// Runs `loads` and returns each tenant's share and the evidence.
fn run(sharing: &Sharing, loads: &[Load], slices: u64, seed: u64) -> (Vec<f64>, Evidence) {
    let mut world = World::new(sharing, loads, seed);
    let until_ns = slices * sharing.slice_ns;
    world.run(until_ns);
    let evidence = world.arbiter.evidence(until_ns);
    for (tenant, &used_ns) in world.used_ns.iter().enumerate() {
        assert_eq!(evidence.tenants[tenant].device_ns, used_ns, "device time of {tenant}");
    }
    ((0..loads.len()).map(|tenant| world.share(tenant)).collect(), evidence)
}

/// Asserts that every share is within 3 % of the ideal one.
fn assert_close(found: &[f64], ideal: &[f64], context: &dyn std::fmt::Debug) {
    let near = |(found, ideal): (&f64, &f64)| (found - ideal).abs() <= 0.03 * ideal;
    let all = found.len() == ideal.len() && found.iter().zip(ideal).all(near);
    assert!(all, "shares {found:?} instead of {ideal:?}: {context:?}");
}

#[test]
fn equal_share_wastes_a_quarter_with_one_idle_of_four() {
    let loads = [Load::busy(MS / 4), Load::idle(), Load::busy(MS / 4), Load::busy(MS / 4)];
    let (found, evidence) = run(&device(Policy::EqualShare, 4), &loads, 4_000, 1);
    assert_close(&found, &[0.25, 0.0, 0.25, 0.25], &"one idle of four");
    assert!((evidence.wasted_ppm()).abs_diff(250_000) < 1_000, "{evidence:?}");
    assert!((evidence.share_ppm(0)).abs_diff(250_000) < 1_000, "{evidence:?}");
    // One that is absent wastes nothing.
    let loads = [Load::busy(MS / 4), Load::absent(), Load::busy(MS / 4), Load::busy(MS / 4)];
    let (found, evidence) = run(&device(Policy::EqualShare, 4), &loads, 4_000, 1);
    assert_close(&found, &[1.0 / 3.0, 0.0, 1.0 / 3.0, 1.0 / 3.0], &"one absent of four");
    assert_eq!(evidence.wasted_ppm(), 0);
}

#[test]
fn fixed_share_gives_a_quarter_to_one_of_four() {
    let present = [Load::busy(MS / 4)];
    let absent = [Load::busy(MS / 4), Load::absent(), Load::absent(), Load::absent()];
    for loads in [&present[..], &absent] {
        let (found, evidence) = run(&device(Policy::FixedShare, 4), loads, 4_000, 1);
        assert_close(&found[..1], &[0.25], &loads);
        assert!((evidence.wasted_ppm()).abs_diff(750_000) < 1_000, "{evidence:?}");
    }
}

#[test]
fn best_effort_wastes_no_slice() {
    let loads = [Load::busy(MS / 4), Load::idle(), Load::busy(MS / 4), Load::busy(MS / 4)];
    let (found, evidence) = run(&device(Policy::BestEffort, 4), &loads, 4_000, 1);
    assert_close(&found, &[1.0 / 3.0, 0.0, 1.0 / 3.0, 1.0 / 3.0], &"one idle of four");
    assert_eq!(evidence.wasted_ppm(), 0);
}

/// The costs per packet of Simmer's table 1, in nanoseconds.
const SIMMER_COSTS_NS: [u64; 3] = [40, 1_630, 520];

#[test]
fn rates_and_measured_costs_give_the_shares() {
    for policy in [Policy::RateProportional, Policy::BestEffort] {
        // 640,000 packets a second need 1.4 devices.
        let load = |cost_ns: u64| Load {
            every_ns: Some(100_000),
            packets: 64,
            ..Load::busy(64 * cost_ns)
        };
        let loads = SIMMER_COSTS_NS.map(load);
        let (found, _) = run(&device(policy, 3), &loads, 20_000, 1);
        let sum: f64 = SIMMER_COSTS_NS.iter().sum::<u64>() as f64;
        let ideal = SIMMER_COSTS_NS.map(|cost_ns| cost_ns as f64 / sum);
        match policy {
            Policy::RateProportional => assert_close(&found, &ideal, &policy),
            // Equal shares meet the demands of two and starve the bottleneck.
            _ => assert!(found[1] < 0.9 * ideal[1] && found[2] > 1.2 * ideal[2], "{found:?}"),
        }
    }
}

#[test]
fn shares_follow_rates_that_change() {
    let load = |every_ns| Load { every_ns: Some(every_ns), packets: 10, ..Load::busy(200_000) };
    let mut world =
        World::new(&device(Policy::RateProportional, 2), &[load(200_000), load(600_000)], 1);
    world.run(4_000 * MS);
    assert_close(&[world.share(0), world.share(1)], &[0.75, 0.25], &"three to one");
    let before = world.used_ns.clone();
    world.set_every_ns(1, 200_000);
    world.run(8_000 * MS);
    let gained = |tenant: usize| (world.used_ns[tenant] - before[tenant]) as f64 / 4e9;
    assert_close(&[gained(0), gained(1)], &[0.5, 0.5], &"one to one");
}

#[test]
fn a_tenant_with_little_demand_still_progresses() {
    let small = Load { every_ns: Some(400 * MS), ..Load::busy(3 * MS) };
    let big = Load { every_ns: Some(MS), packets: 1_000, ..Load::busy(2 * MS) };
    let (found, evidence) = run(&device(Policy::RateProportional, 2), &[small, big], 20_000, 1);
    assert!(evidence.tenants[0].grants >= 45, "{found:?} {evidence:?}");
}

fn load() -> impl Strategy<Value = Load> {
    // Costs of a twentieth of a slice to three slices, and one in four tenants idle or absent.
    let cost = prop_oneof![2 => MS / 20..MS, 1 => MS..3 * MS];
    let demand = prop_oneof![2 => Just(None), 2 => (5_u64..150).prop_map(Some)];
    let shape = (1..4_usize, prop::bool::weighted(0.85), any::<bool>(), 0..100_u64);
    (cost, demand, shape).prop_map(|(cost_ns, percent, (slots, present, measured, spread))| Load {
        slots,
        present,
        every_ns: percent.map(|percent| cost_ns * 100 / percent),
        cost_ns,
        spread_ns: cost_ns * spread / 100,
        packets: 16,
        measured,
    })
}

fn wish(load: &Load) -> Wish {
    let demand = |every_ns: u64| load.cost_ns as f64 / every_ns as f64;
    let Load { slots, present, .. } = *load;
    Wish { slots, present, demand: load.every_ns.map_or(9.0, demand) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn shares_are_those_of_a_fluid(
        loads in prop::collection::vec(load(), 1..6),
        spare in 0..3_usize,
        in_flight_max in 1..4_usize,
        seed in any::<u64>(),
    ) {
        let slots = spare + loads.iter().map(|load| load.slots).sum::<usize>();
        for policy in [Policy::BestEffort, Policy::EqualShare, Policy::FixedShare] {
            let sharing = Sharing { in_flight_max, ..device(policy, slots) };
            let (found, _) = run(&sharing, &loads, 20_000, seed);
            let wishes: Vec<Wish> = loads.iter().map(wish).collect();
            assert_close(&found, &shares(policy, slots, &wishes), &(policy, &loads));
        }
    }

    #[test]
    fn reading_evidence_changes_nothing(
        loads in prop::collection::vec(load(), 1..6),
        seed in any::<u64>(),
    ) {
        let slots = 1 + loads.iter().map(|load| load.slots).sum::<usize>();
        for policy in Policy::ALL {
            let [alone, watched] = [false, true].map(|is_watched| {
                let mut world = World::new(&device(policy, slots), &loads, seed);
                world.is_watched = is_watched;
                world.run(500 * MS);
                world.arbiter.evidence(500 * MS)
            });
            assert_eq!(alone, watched, "{policy:?}");
        }
    }

    #[test]
    fn shares_follow_rates_times_costs(
        loads in prop::collection::vec(load(), 1..6),
        seed in any::<u64>(),
    ) {
        let paced = |load: &Load| {
            let every_ns = load.every_ns.unwrap_or(2 * load.cost_ns);
            Load { every_ns: Some(every_ns), ..load.clone() }
        };
        let loads: Vec<Load> = loads.iter().map(paced).collect();
        let (found, _) = run(&device(Policy::RateProportional, 16), &loads, 20_000, seed);
        let wishes: Vec<Wish> = loads.iter().map(wish).collect();
        assert_close(&found, &shares(Policy::RateProportional, 16, &wishes), &loads);
    }
}
