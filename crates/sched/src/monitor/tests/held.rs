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

/// The device by second for ten minutes, at `offered` Gb/s with these true capacities. The profile
/// has 10 Gb/s for the CPU and 40 for the GPU.
fn devices(policy: PlacementPolicy, offered: f64, capacities: [f64; 2], waits: bool) -> Vec<usize> {
    let mut monitor = small(policy);
    let mut at = 0;
    let mut all = Vec::new();
    for second in 0..600 {
        let seen = match second {
            0 => observed(0.1),
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
    for waits in [true, false] {
        // The CPU carries 3 Gb/s of 6, where the profile has 10.
        let found = devices(PlacementPolicy::Energy, 6.0, [3.0, 40.0], waits);
        assert_eq!(found[1], 0, "{waits}");
        let moved = found.iter().position(|&device| device == 1).expect("a move");
        assert!(moved <= 8, "{waits}: second {moved}");
        // It may try the CPU again after the longest stay.
        let changes = found.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes <= 9, "{waits}: {changes} changes");
        let on_gpu = found.iter().filter(|device| **device == 1).count();
        assert!(on_gpu > 500, "{waits}: {on_gpu} of 600 s");
    }
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
