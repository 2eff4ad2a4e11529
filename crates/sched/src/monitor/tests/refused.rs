//! Moves that are refused.

use super::*;

/// The seconds after which a decision for the GPU comes at 30 Gb/s, if each is refused.
fn attempts(monitor: &mut Monitor, seconds: std::ops::Range<u64>) -> Vec<(u64, u64, u32)> {
    let mut all = Vec::new();
    for second in seconds {
        if tick(monitor, second, 30.0).is_some() {
            assert_eq!(device(monitor), 1);
            let refusals = monitor.decision().expect("a decision").refusals;
            all.push((second, monitor.handle_refusal(second * SECOND) / SECOND, refusals));
            assert_eq!(device(monitor), 0, "the CPU still has it");
        }
    }
    all
}

#[test]
fn a_refused_move_is_tried_again_after_longer_and_longer_stays() {
    let mut monitor = small(PlacementPolicy::Energy);
    tick(&mut monitor, 0, 5.0);
    let all = attempts(&mut monitor, 1..700);
    let expected = [(2, 10), (12, 20), (32, 40), (72, 80), (152, 160), (312, 160), (472, 160)];
    let expected = expected.into_iter().chain([(632, 160)]).zip(0..);
    assert_eq!(all, expected.map(|((at, wait), count)| (at, wait, count)).collect::<Vec<_>>());
    assert!(monitor.searches() < 100, "{}", monitor.searches());
    // Once it is carried out, the count starts again.
    assert!((700..800).any(|second| tick(&mut monitor, second, 30.0).is_some()));
    assert!((800..850).any(|second| tick(&mut monitor, second, 5.0).is_some()));
    assert_eq!(attempts(&mut monitor, 850..853), [(851, 10, 0)]);
}

#[test]
fn other_devices_need_not_wait() {
    let mut monitor = on_lanes(PlacementPolicy::Energy);
    assert!(tick(&mut monitor, 0, 5.0).is_some());
    tick(&mut monitor, 1, 30.0);
    assert_eq!(attempts(&mut monitor, 2..4), [(2, 10, 0)]);
    // Both together: the CPU takes the flows of a lane.
    assert_eq!(tick(&mut monitor, 4, 60.0), Some(Reason::Overload));
    assert_eq!(monitor.placement().expect("placed").sites[0][0].cpu_share, 0.25);
}

#[test]
fn a_policy_that_was_refused_is_tried_again_without_a_gain() {
    let mut monitor = with_gpu(PlacementPolicy::Energy, 10.5);
    tick(&mut monitor, 0, 5.0);
    // The GPU is faster by less than a tenth.
    monitor.handle_policy(PlacementPolicy::Throughput);
    let all = |monitor: &mut Monitor, seconds: std::ops::Range<u64>| -> Vec<u64> {
        let due = |second: &u64| {
            let reason = tick(monitor, *second, 5.0);
            assert!(reason.is_none_or(|reason| reason == Reason::Policy));
            reason.is_some() && monitor.handle_refusal(second * SECOND) > 0
        };
        seconds.filter(due).collect()
    };
    assert_eq!(all(&mut monitor, 1..100), [1, 11, 31, 71]);
    monitor.handle_policy(PlacementPolicy::Energy);
    assert_eq!(all(&mut monitor, 100..300), []);
}

#[test]
fn without_a_decision_there_is_nothing_to_refuse() {
    let mut monitor = small(PlacementPolicy::Energy);
    assert_eq!(monitor.handle_refusal(0), 0);
    tick(&mut monitor, 0, 5.0);
    tick(&mut monitor, 1, 5.0);
    assert_eq!((monitor.handle_refusal(1), device(&monitor)), (0, 0));
}

#[test]
fn a_policy_decides_from_the_devices_on_which_functions_are() {
    let mut monitor = small(PlacementPolicy::Energy);
    tick(&mut monitor, 0, 5.0);
    assert_eq!(attempts(&mut monitor, 1..5), [(2, 10, 0)]);
    // A client placed the function, and asks for the same policy again.
    monitor.handle_devices(Some(&[vec![(1, 0.0)]]), 5 * SECOND);
    assert_eq!((device(&monitor), tick(&mut monitor, 5, 5.0)), (1, None));
    monitor.handle_policy(PlacementPolicy::Energy);
    assert_eq!((tick(&mut monitor, 6, 5.0), device(&monitor)), (Some(Reason::Policy), 0));
    // It was on the GPU, which costs more, and no refusal of earlier counts.
    let own = monitor.decision().expect("a decision");
    let watts = own.before.as_ref().map(|before| before.power_w);
    assert!(own.after.power_w < watts.expect("the GPU") && own.refusals == 0, "{own:?}");
    monitor.handle_devices(None, 7 * SECOND);
    assert_eq!(tick(&mut monitor, 7, 5.0), Some(Reason::Start));
}
