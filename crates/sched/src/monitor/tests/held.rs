//! Sources that wait while their chains are paused, against a profile that is too good.

use super::*;

/// The observation of a chain on a device that carries `capacity` of `offered` Gb/s. A source that
/// waits reads only what is carried.
fn paused(offered: f64, capacity: f64, waits: bool) -> ChainObserved {
    let carried = offered.min(capacity);
    if carried >= offered {
        return observed(offered);
    }
    let read = observed(if waits { carried } else { offered });
    let held = HeldSource {
        share: 1.0 - carried / offered,
        carried_per_s: observed(carried).packets_per_s,
    };
    ChainObserved { observed: Observed::Paused, held: Some(held), ..read }
}

/// The second in which `offered` packets come first.
const BURST: u64 = 3;

/// The device by second for ten minutes, at `offered` Gb/s with these true capacities. The profile
/// has 10 Gb/s for the CPU and 40 for the GPU.
fn devices(policy: PlacementPolicy, offered: f64, capacities: [f64; 2], waits: bool) -> Vec<usize> {
    let mut monitor = small(policy);
    let mut at = 0;
    let mut all = Vec::new();
    for second in 0..600 {
        let seen = match second {
            0..BURST => observed(0.01),
            _ => paused(offered, capacities[at], waits),
        };
        monitor.handle_tick(&[seen], &[], second * SECOND).expect("a placement");
        at = device(&monitor);
        all.push(at);
    }
    all
}

#[test]
fn a_held_source_is_an_overload_that_the_profile_does_not_have() {
    // The CPU carries less than 6 Gb/s, where the profile has 10.
    for (waits, capacity) in [(true, 3.0), (false, 3.0), (true, 0.02), (false, 0.02)] {
        let found = devices(PlacementPolicy::Energy, 6.0, [capacity, 40.0], waits);
        let moved = found.iter().position(|&device| device == 1).expect("a move") as u64;
        assert_eq!(moved, BURST + 1, "{waits}, {capacity} Gb/s: not at the second tick");
        // It may try the CPU again after the longest stay.
        let changes = found.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes <= 9, "{waits}, {capacity} Gb/s: {changes} changes");
        let on_gpu = found.iter().filter(|device| **device == 1).count();
        assert!(on_gpu > 500, "{waits}, {capacity} Gb/s: {on_gpu} of 600 s");
    }
}

#[test]
fn one_bad_second_moves_nothing() {
    let mut monitor = small(PlacementPolicy::Energy);
    for second in 0..600 {
        // A stall of the machine, every 20 seconds.
        let seen = match second % 20 {
            19 => paused(6.0, 0.1, second % 40 == 19),
            _ => observed(6.0),
        };
        monitor.handle_tick(&[seen], &[], second * SECOND).expect("a placement");
        assert_eq!(device(&monitor), 0, "second {second}");
    }
}

/// The lanes of both chains are full. The profile explains neither, and the first lane's load does
/// not explain the second one's.
#[test]
fn each_held_chain_has_a_lane_of_its_own() {
    let mut profile = WorkProfile::new(&["one", "other"], &["cpu", "gpu"]);
    for (device, gbps, watts) in [(0, 100.0, 50.0), (1, 40.0, 200.0)] {
        for function in [0, 1] {
            let one = Measurement::alone((function, device), 1024, LEN, figures(gbps, 10.0));
            profile.merge(&one).expect("sound");
        }
        profile.set_power(device, Power { idle_w: Some(watts / 5.0), busy_w: Some(watts) });
    }
    let limits = PlacementLimits { lanes_max: 2, ..PlacementLimits::default() };
    let (settings, policy) = (MonitorSettings::default(), PlacementPolicy::Energy);
    let chains = vec![chain(0, 2), chain(1, 2)];
    let mut monitor = Monitor::new(settings, limits, policy, profile, chains);
    let devices = |monitor: &Monitor| {
        let sites = &monitor.placement().expect("placed").sites;
        [sites[0][0].device, sites[1][0].device]
    };
    for second in 0..BURST {
        let idle = observed(0.01);
        monitor.handle_tick(&[idle, idle], &[], second * SECOND).expect("a placement");
    }
    assert_eq!(devices(&monitor), [0, 0]);
    for second in BURST..BURST + 2 {
        let held = [paused(6.0, 3.0, false), paused(6.0, 0.5, false)];
        monitor.handle_tick(&held, &[], second * SECOND).expect("a placement");
    }
    assert_eq!(devices(&monitor), [1, 1]);
}

#[test]
fn a_held_source_moves_nothing_where_nothing_carries_more() {
    // Either device carries 3 Gb/s: the GPU brings nothing, and it is left again or never tried
    // often.
    let found = devices(PlacementPolicy::Energy, 6.0, [3.0, 3.0], true);
    let changes = found.windows(2).filter(|two| two[0] != two[1]).count();
    assert!(changes <= 9, "{changes} changes");
    // A load above the profile's capacity is no error of the profile.
    let found = devices(PlacementPolicy::Throughput, 60.0, [10.0, 40.0], true);
    assert!(found[3..].iter().all(|&device| device == 1), "{found:?}");
}

/// A lane that lacks time on shared cores gives no reason to use a device on the same cores.
#[test]
fn a_held_source_moves_nothing_to_a_device_on_the_same_cores() {
    let changes = |cores: u32| {
        let mut profile = WorkProfile::new(&["one"], &["cpu", "host"]);
        for (device, gbps) in [(0, 10.0), (1, 8.0)] {
            let one = Measurement::alone((0, device), 1024, LEN, figures(gbps, 10.0));
            profile.merge(&one).expect("sound");
        }
        profile.set_cores(1, cores);
        let limits = PlacementLimits { cores: 2, ..PlacementLimits::default() };
        let (settings, policy) = (MonitorSettings::default(), PlacementPolicy::Throughput);
        let mut monitor = Monitor::new(settings, limits, policy, profile, vec![chain(0, 2)]);
        let mut devices = Vec::new();
        for second in 0..600 {
            let seen = if second < BURST { observed(0.01) } else { paused(6.0, 3.0, false) };
            monitor.handle_tick(&[seen], &[], second * SECOND).expect("a placement");
            devices.push(device(&monitor));
        }
        assert_eq!(devices[0], 0, "the CPU is faster by the profile");
        devices.windows(2).filter(|two| two[0] != two[1]).count()
    };
    assert_eq!((changes(2), changes(0) > 0), (0, true));
}
