//! The monitor in virtual time.

mod figure_4;
mod table_3;

use super::*;
use crate::work_profile::{Figures, Power};
use crate::{LinkCosts, PlannedFunction, Problem, Touch, Widths};
use warpline_packet::FieldSet;

pub(super) const LEN: u32 = 1500;
pub(super) const SECOND: u64 = 1_000_000_000;

/// A chain of one function, on devices that share the host's memory.
pub(super) fn chain(function: usize, devices: usize) -> ChainDemand {
    let run = PlannedFunction::run_only("one", None, Touch::NONE);
    ChainDemand {
        functions: vec![function],
        plan: Problem {
            functions: vec![run],
            links: vec![LinkCosts::PCIE_4],
            widths: Widths::new(&[], f64::from(LEN)),
            end_reads: FieldSet::EMPTY,
            gathered: FieldSet::FRAME,
            is_recoverable: true,
            fetches_first: false,
        },
        links: vec![None; devices],
        packets_per_s: 1.0,
        packet_len: LEN,
    }
}

pub(super) fn figures(gbps: f64, weight: f64) -> Figures {
    Figures { bits_per_s: gbps * 1e9, latency_ns: 1e5, share: 1.0, weight }
}

pub(super) fn observed(gbps: f64) -> ChainObserved {
    let packets_per_s = gbps * 1e9 / 8.0 / f64::from(LEN);
    ChainObserved { packets_per_s, observed: Observed::Running }
}

/// A CPU of 10 Gb/s that needs little power, and a GPU of 40 that needs much.
fn small(policy: PlacementPolicy) -> Monitor {
    let mut profile = WorkProfile::new(&["one"], &["cpu", "gpu"]);
    for (device, gbps, watts) in [(0, 10.0, 50.0), (1, 40.0, 200.0)] {
        let one = Measurement::alone((0, device), 1024, LEN, figures(gbps, 10.0));
        profile.merge(&one).expect("sound");
        profile.set_power(device, Power { idle_w: Some(watts / 5.0), busy_w: Some(watts) });
    }
    let limits = PlacementLimits { delay_ns_max: None, power_w_max: None, lanes_max: 1 };
    Monitor::new(MonitorSettings::default(), limits, policy, profile, vec![chain(0, 2)])
}

fn device(monitor: &Monitor) -> usize {
    monitor.placement().expect("placed").sites[0][0].device
}

fn tick(monitor: &mut Monitor, second: u64, gbps: f64) -> Option<Reason> {
    monitor.handle_tick(&[observed(gbps)], &[], second * SECOND).expect("a placement")
}

#[test]
fn an_overload_is_answered_at_its_second_tick() {
    let mut monitor = small(PlacementPolicy::Energy);
    assert_eq!(tick(&mut monitor, 0, 5.0), Some(Reason::Start));
    assert_eq!(device(&monitor), 0);
    assert_eq!(tick(&mut monitor, 1, 30.0), None);
    assert_eq!(tick(&mut monitor, 2, 30.0), Some(Reason::Overload));
    assert_eq!(device(&monitor), 1);
    // The load falls at once. The GPU stays for ten seconds and two ticks.
    let back = (3..40).find(|&second| tick(&mut monitor, second, 5.0).is_some());
    assert_eq!((back, device(&monitor)), (Some(13), 0));
}

#[test]
fn a_policy_applies_at_the_next_tick() {
    let mut monitor = small(PlacementPolicy::Throughput);
    tick(&mut monitor, 0, 5.0);
    assert_eq!(device(&monitor), 1);
    monitor.handle_policy(PlacementPolicy::Energy);
    assert_eq!(tick(&mut monitor, 1, 5.0), Some(Reason::Policy));
    assert_eq!(device(&monitor), 0);
}

#[test]
fn paused_and_starved_periods_teach_nothing_and_others_little_at_a_time() {
    let mut monitor = small(PlacementPolicy::Throughput);
    tick(&mut monitor, 0, 5.0);
    let wrong = Measurement::alone((0, 1), 1024, LEN, figures(0.001, 10.0));
    let rate = |monitor: &Monitor| {
        monitor.profile().alone((0, 1), 1024, LEN).expect("measured").bits_per_s / 1e9
    };
    for (second, state) in [(1, Observed::Paused), (2, Observed::Starved)] {
        let chain = ChainObserved { observed: state, ..observed(5.0) };
        monitor.handle_tick(&[chain], &[wrong], second * SECOND).expect("a placement");
        assert!((rate(&monitor) - 40.0).abs() < 1e-6);
    }
    monitor.handle_tick(&[observed(5.0)], &[wrong], 3 * SECOND).expect("a placement");
    // At most to a half, with half of the weight.
    assert!((rate(&monitor) - 30.0).abs() < 1e-6);
}

#[test]
fn a_pause_does_not_look_like_less_load() {
    let mut monitor = small(PlacementPolicy::Energy);
    tick(&mut monitor, 0, 30.0);
    for second in 1..60 {
        let chain = ChainObserved { observed: Observed::Paused, ..observed(1.0) };
        monitor.handle_tick(&[chain], &[], second * SECOND).expect("a placement");
        assert_eq!(device(&monitor), 1);
    }
}

/// Changes in ten minutes at `gbps` with noise of up to that part.
fn changes(seed: u64, gbps: f64, part: f64) -> usize {
    let mut monitor = small(PlacementPolicy::Energy);
    let mut state = seed;
    let changed = (0..600u64).filter(|&second| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let noise = (state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
        tick(&mut monitor, second, gbps * (1.0 + part * noise)).is_some()
    });
    changed.count()
}

#[test]
fn noise_does_not_move_the_placement() {
    for seed in 1..=100 {
        // The CPU carries 10 Gb/s.
        assert_eq!(changes(seed, 8.0, 0.12), 1, "seed {seed}, below the CPU's limit");
        assert_eq!(changes(seed, 15.0, 0.2), 1, "seed {seed}, above it");
        // Overloads are real here. Without longer stays the placement changes every 12 seconds or
        // more.
        let at_limit = changes(seed, 9.0, 0.2);
        assert!(at_limit <= 9, "seed {seed}, at the limit: {at_limit} changes");
    }
}
