//! Devices that gain from overlap, don't gain, or lose, in virtual time.

use super::*;

/// The time a launch takes on a device: copies in, a kernel and copies out, each done for one
/// launch at a time.
struct Model {
    stages_ns: [u64; 3],
    /// Percent that everything takes longer for each launch in flight beyond two.
    conflict: u64,
}

/// Launches in order of completion on a device of `model` that always has more to do; returns the
/// time of each. `count` returns how many are in flight, and gets each that is done.
fn run(model: &Model, launches: usize, mut count: impl FnMut(Option<u64>) -> usize) -> u64 {
    let (mut free, mut flying, mut now) = ([0; 3], std::collections::VecDeque::new(), 0);
    let mut allowed = count(None);
    for _ in 0..launches {
        while flying.len() < allowed {
            let others = flying.len().saturating_sub(1) as u64;
            let mut at = now;
            for (stage, free) in model.stages_ns.iter().zip(&mut free) {
                at = at.max(*free) + stage * (100 + model.conflict * others) / 100;
                *free = at;
            }
            flying.push_back(at);
        }
        now = flying.pop_front().unwrap_or(now);
        allowed = count(Some(now));
    }
    now
}

const BYTES: usize = 1 << 20;
const LONG: usize = 100_000;

#[test]
fn the_fewest_with_which_a_device_does_what_it_can_are_kept() {
    let cases = [
        ("one thing at a time", Model { stages_ns: [0, 50_000, 0], conflict: 0 }, 1),
        ("copies beside kernels", Model { stages_ns: [20_000, 20_000, 20_000], conflict: 0 }, 4),
        ("mostly copies in", Model { stages_ns: [40_000, 30_000, 1_000], conflict: 0 }, 2),
        ("hardly any gain", Model { stages_ns: [1_000, 60_000, 1_000], conflict: 0 }, 1),
        ("streams in each other's way", Model { stages_ns: [20_000, 20_000, 0], conflict: 40 }, 2),
    ];
    for (what, model, expected) in cases {
        let mut streams = StreamCount::measured(8);
        let (mut kept, mut done) = (Vec::new(), 0);
        let took = run(&model, LONG, |now| {
            if let Some(now) = now {
                streams.handle_done(BYTES, now);
                done += 1;
                if done > LONG / 2 {
                    kept.push(streams.count());
                }
            }
            streams.count()
        });
        kept.sort_unstable();
        assert_eq!(kept[kept.len() / 2], expected, "{what}: most of the time");
        let best = (1..=8).map(|count| run(&model, LONG, |_| count)).min().unwrap_or(0);
        assert!(took <= best + best / 12, "{what}: {took} ns beside {best} with the best number");
    }
}

#[test]
fn a_device_that_keeps_up_has_the_number_that_was_kept() {
    let mut streams = StreamCount::measured(8);
    for now in 0..10_000 {
        streams.handle_done(BYTES, now * 1_000);
        assert_eq!(streams.count(), 8, "{now}");
        if now % 30 == 0 {
            streams.handle_idle();
        }
    }
    // While it falls behind, it is measured. If it catches up meanwhile, there is no conclusion.
    let mut tried = false;
    for now in 10_000..10_120 {
        streams.handle_done(BYTES, now * 1_000);
        tried |= streams.count() < 8;
    }
    assert!(tried);
    streams.handle_idle();
    assert_eq!(streams.count(), 8);
}

#[test]
fn a_number_that_was_said_stays_and_a_clock_that_stands_is_no_measure() {
    let mut fixed = StreamCount::fixed(3);
    let mut standing = StreamCount::measured(4);
    for now in 0..1_000 {
        fixed.handle_done(BYTES, now);
        standing.handle_done(BYTES, 7);
        fixed.handle_idle();
    }
    assert_eq!((fixed.count(), standing.count()), (3, 4));
    assert_eq!((StreamCount::fixed(0).count(), StreamCount::measured(0).count()), (1, 1));
}
