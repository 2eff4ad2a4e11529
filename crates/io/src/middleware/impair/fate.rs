//! The treatment of one frame, drawn before it is looked at.

use core::time::Duration;

use super::config::ImpairConfig;
use crate::generator::rng::Rng;

/// The treatment of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fate {
    pub(super) drop: bool,
    /// Where a bit is flipped, as a part of the frame in [0, 1).
    pub(super) corrupt: Option<f64>,
    pub(super) duplicate: bool,
    pub(super) truncate: bool,
    /// After how many later frames it leaves, 1 to `depth`.
    pub(super) held: Option<u64>,
    pub(super) delay: Duration,
}

/// One stream of random numbers for each impairment. Each draws equally often for every frame, so
/// that none depends on the others.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    drop: Rng,
    corrupt: Rng,
    duplicate: Rng,
    truncate: Rng,
    reorder: Rng,
    jitter: Rng,
}

impl Streams {
    pub(super) fn new(seed: u64) -> Self {
        // The generator has the streams before these: one seed may serve both.
        let stream = |number: u64| Rng::stream(seed, 16 + number);
        Self {
            drop: stream(0),
            corrupt: stream(1),
            duplicate: stream(2),
            truncate: stream(3),
            reorder: stream(4),
            jitter: stream(5),
        }
    }

    /// The fate of the next frame.
    pub(super) fn draw(&mut self, config: &ImpairConfig) -> Fate {
        let corrupt = self.corrupt.chance(config.corrupt);
        let place = self.corrupt.unit();
        let held = self.reorder.chance(config.reorder);
        let later = 1 + self.reorder.below(config.depth);
        let jitter = config.jitter.as_nanos() as u64;
        Fate {
            drop: self.drop.chance(config.drop),
            corrupt: corrupt.then_some(place),
            duplicate: self.duplicate.chance(config.duplicate),
            truncate: self.truncate.chance(config.truncate),
            held: held.then_some(later),
            delay: config.delay + Duration::from_nanos(self.jitter.below(jitter + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(settings: &str) -> Vec<Fate> {
        let config = ImpairConfig::parse(settings).unwrap();
        let mut streams = Streams::new(config.seed);
        (0..2000).map(|_| streams.draw(&config)).collect()
    }

    #[test]
    fn impairments_do_not_depend_on_each_other() {
        let all = fates("drop=0.2,corrupt=0.3,duplicate=0.1,truncate=0.4,reorder=0.3,jitter_us=5");
        let same = |settings: &str, part: fn(&Fate) -> bool| {
            let alone = fates(settings);
            assert!(all.iter().map(part).eq(alone.iter().map(part)), "{settings}");
            assert!(alone.iter().any(part) && !alone.iter().all(part));
        };
        same("drop=0.2", |fate| fate.drop);
        same("corrupt=0.3", |fate| fate.corrupt.is_some_and(|place| place > 0.2));
        same("duplicate=0.1", |fate| fate.duplicate);
        same("truncate=0.4", |fate| fate.truncate);
        same("reorder=0.3", |fate| fate.held.is_some_and(|later| later > 3));
        same("jitter_us=5", |fate| fate.delay > Duration::from_micros(2));
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        for fate in fates("reorder=1,depth=3,delay_us=10,jitter_us=4,corrupt=1,drop=1") {
            assert!(fate.drop && fate.held.is_some_and(|later| (1..=3).contains(&later)));
            assert!((Duration::from_micros(10)..=Duration::from_micros(14)).contains(&fate.delay));
        }
        let untouched = Fate {
            drop: false,
            corrupt: None,
            duplicate: false,
            truncate: false,
            held: None,
            delay: Duration::ZERO,
        };
        assert!(fates("").iter().all(|fate| *fate == untouched));
    }
}
