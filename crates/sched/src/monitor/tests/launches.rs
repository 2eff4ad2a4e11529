//! Launches follow rates and the delay budget, and no function moves for that.

use super::*;

/// A device alone carries the chain, with launches of these packets, Gb/s and microseconds.
const SIZES: [(u32, f64, f64); 3] = [(64, 5.0, 20.0), (512, 20.0, 60.0), (4096, 40.0, 300.0)];

fn monitor(policy: PlacementPolicy, delay_us_max: Option<f64>) -> Monitor {
    let mut profile = WorkProfile::new(&["one"], &["cpu", "gpu"]);
    for (launch, gbps, latency_us) in SIZES {
        let latency_ns = latency_us * 1e3;
        let own = Figures { latency_ns, ..figures(gbps, 10.0) };
        profile.merge(&Measurement::alone((0, 1), launch, LEN, own)).expect("sound");
    }
    let delay_ns_max = delay_us_max.map(|us| us * 1e3);
    let limits = PlacementLimits { delay_ns_max, ..PlacementLimits::default() };
    Monitor::new(MonitorSettings::default(), limits, policy, profile, vec![chain(0, 2)])
}

/// Packets and deadline in microseconds after a tick at this rate.
fn at(monitor: &mut Monitor, second: u64, gbps: f64) -> (u32, f64) {
    tick(monitor, second, gbps);
    let own = monitor.launches().expect("placed")[0][0];
    assert_eq!((own.device, own.cpu_share), (1, 0.0));
    (own.launch_packets, (own.deadline_ns / 1e3).round())
}

#[test]
fn the_largest_launch_that_fits_the_budget_is_chosen() {
    let mut monitor = monitor(PlacementPolicy::Throughput, Some(1000.0));
    // 4,096 packets fill in 2 ms at 22 Gb/s with headroom, and 512 in 0.25 ms.
    assert_eq!(at(&mut monitor, 0, 22.4).0, 512);
    // Twice the rate: still too long, and half of it: 512 fit.
    assert_eq!(at(&mut monitor, 1, 11.2).0, 512);
    // 512 fill in 3 ms at 1.8 Gb/s, 64 in 0.4 ms; they wait for the rest of the budget.
    assert_eq!(at(&mut monitor, 2, 1.8), (64, 776.0));
    // At 80 Gb/s 4,096 fill in 0.56 ms.
    assert_eq!(at(&mut monitor, 3, 80.0).0, 4096);
    assert_eq!(monitor.searches(), 1, "no search for devices");
}

#[test]
fn a_rate_that_hardly_moves_changes_nothing() {
    let mut monitor = monitor(PlacementPolicy::Throughput, Some(1000.0));
    let first = at(&mut monitor, 0, 1.8);
    assert_eq!(at(&mut monitor, 1, 1.88), first);
    assert_ne!(at(&mut monitor, 2, 1.95), first);
}

#[test]
fn packets_wait_for_a_millisecond_without_a_budget() {
    let mut monitor = monitor(PlacementPolicy::Throughput, None);
    assert_eq!(at(&mut monitor, 0, 0.01), (4096, 1000.0));
}

#[test]
fn a_load_grows_by_less_than_the_rate_while_launches_fill() {
    let mut monitor = monitor(PlacementPolicy::Throughput, None);
    let mut load = |second: u64, gbps: f64| {
        let reason = tick(&mut monitor, second, gbps);
        (reason, monitor.present_load())
    };
    // A launch of 10 packets within a millisecond takes 135 us, one of 92 packets 163 us.
    let (_, low) = load(0, 0.1);
    assert!((0.10..0.13).contains(&low), "{low}");
    for second in 1..4 {
        let (reason, high) = load(second, 1.0);
        assert!(reason.is_none() && (0.14..0.17).contains(&high), "{reason:?} {high}");
    }
}

#[test]
fn the_policy_chooses_launches_too() {
    let mut monitor = monitor(PlacementPolicy::Latency, None);
    assert_eq!(at(&mut monitor, 0, 2.0).0, 64);
    // 64 carry 5 Gb/s at most.
    assert_eq!(at(&mut monitor, 1, 10.0).0, 512);
    monitor.handle_policy(PlacementPolicy::Throughput);
    assert_eq!(at(&mut monitor, 2, 10.0).0, 4096);
}

#[test]
fn a_placement_that_exceeds_a_limit_is_left() {
    let mut profile = WorkProfile::new(&["one"], &["cpu", "gpu"]);
    for (device, gbps, idle_w, busy_w) in [(0, 10.0, 10.0, 50.0), (1, 40.0, 15.0, 30.0)] {
        let one = Measurement::alone((0, device), 1024, LEN, figures(gbps, 10.0));
        profile.merge(&one).expect("sound");
        profile.set_power(device, Power { idle_w: Some(idle_w), busy_w: Some(busy_w) });
    }
    let limits = PlacementLimits { power_w_max: Some(20.0), ..PlacementLimits::default() };
    let settings = MonitorSettings::default();
    let policy = PlacementPolicy::Throughput;
    let mut monitor = Monitor::new(settings, limits, policy, profile, vec![chain(0, 2)]);
    tick(&mut monitor, 0, 0.5);
    assert_eq!(device(&monitor), 0, "12 W; both take 25 W");
    // The CPU takes 42 W, and both 28 W.
    let left = (1..40).find(|&second| tick(&mut monitor, second, 8.0).is_some());
    assert!(left.is_some_and(|second| second <= 23), "{left:?}");
    assert_eq!(device(&monitor), 1);
}

#[test]
fn placements_are_for_the_frames_that_come() {
    let mut profile = WorkProfile::new(&["one"], &["cpu", "gpu"]);
    for (device, gbps) in [(0, 10.0), (1, 40.0)] {
        // Each byte takes as long in short frames as in long ones.
        for len in [LEN / 10, LEN] {
            let one = Measurement::alone((0, device), 1024, len, figures(gbps, 10.0));
            profile.merge(&one).expect("sound");
        }
    }
    let limits = PlacementLimits::default();
    let (settings, policy) = (MonitorSettings::default(), PlacementPolicy::Latency);
    let mut monitor = Monitor::new(settings, limits, policy, profile, vec![chain(0, 2)]);
    tick(&mut monitor, 0, 5.0);
    // The packets of 30 Gb/s in short frames are 3 Gb/s.
    monitor.handle_packet_len(0, LEN / 10);
    assert!((1..20).all(|second| tick(&mut monitor, second, 30.0).is_none()));
    assert_eq!(device(&monitor), 0);
    monitor.handle_packet_len(0, LEN);
    assert!((20..23).any(|second| tick(&mut monitor, second, 30.0) == Some(Reason::Overload)));
}
