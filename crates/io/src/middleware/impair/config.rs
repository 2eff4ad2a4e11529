//! The settings of a bad link, as `KEY=VALUE,KEY=VALUE`.

use core::time::Duration;

use crate::generator::ParseProblem;
use crate::generator::settings::{Settings, decimal, whole};
use crate::port::FRAME_LEN_MAX;

/// Settings of an [`Impair`](super::Impair).
///
/// | key | values | meaning |
/// |---|---|---|
/// | `drop` | 0 to 1 | share of frames that are lost |
/// | `corrupt` | 0 to 1 | share of frames in which one random bit is flipped |
/// | `duplicate` | 0 to 1 | share of frames that come twice, one right after the other |
/// | `truncate` | 0 to 1 | share of frames cut to `snap` bytes, their length on the wire kept |
/// | `snap` | 1 to 262144 | default 64; shorter frames are not cut |
/// | `reorder` | 0 to 1 | share of frames that are held back |
/// | `depth` | 1 to 1024 | default 8; for at most how many later frames one is held |
/// | `delay_us` | 0 to 60000000 | added to every timestamp |
/// | `jitter_us` | 0 to 60000000 | up to this much more, at random |
/// | `seed` | whole number | default 1 |
#[derive(Clone, Debug, PartialEq)]
pub struct ImpairConfig {
    pub(super) drop: f64,
    pub(super) corrupt: f64,
    pub(super) duplicate: f64,
    pub(super) truncate: f64,
    pub(super) snap: usize,
    pub(super) reorder: f64,
    pub(super) depth: u64,
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    pub(super) seed: u64,
}

impl ImpairConfig {
    /// Reads the settings above, each at most once, in any order; an empty text impairs nothing.
    ///
    /// # Errors
    /// Every mistake there is, in the order of their columns, which count the bytes of `text`
    /// from 1.
    pub fn parse(text: &str) -> Result<Self, Vec<ParseProblem>> {
        let mut settings = Settings::read(text, "", &KEYS);
        let [drop, corrupt, duplicate, truncate, reorder] =
            ["drop", "corrupt", "duplicate", "truncate", "reorder"].map(|key| {
                let share = settings.take(key, "0 to 1", |value| decimal(value, 0.0..=1.0));
                share.unwrap_or(0.0)
            });
        let mut number = |key, range: core::ops::RangeInclusive<u64>, default| {
            let allowed = format!("{} to {}", range.start(), range.end());
            settings.take(key, &allowed, |value| whole(value, range)).unwrap_or(default)
        };
        let snap = number("snap", 1..=FRAME_LEN_MAX as u64, 64) as usize;
        let depth = number("depth", 1..=1024, 8);
        let seed = number("seed", 0..=u64::MAX, 1);
        let [delay, jitter] = ["delay_us", "jitter_us"]
            .map(|key| Duration::from_micros(number(key, 0..=60_000_000, 0)));
        settings.finish()?;
        Ok(Self { drop, corrupt, duplicate, truncate, snap, reorder, depth, delay, jitter, seed })
    }
}

#[rustfmt::skip]
const KEYS: [&str; 10] = [
    "drop", "corrupt", "duplicate", "truncate", "snap", "reorder", "depth", "delay_us",
    "jitter_us", "seed",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_settings() {
        let config = ImpairConfig::parse(
            "drop=0.01,corrupt=0.001,reorder=0.05,depth=9,delay_us=100,jitter_us=20,seed=3,snap=96,\
             truncate=1,duplicate=0",
        );
        let expected = ImpairConfig {
            drop: 0.01,
            corrupt: 0.001,
            duplicate: 0.0,
            truncate: 1.0,
            snap: 96,
            reorder: 0.05,
            depth: 9,
            delay: Duration::from_micros(100),
            jitter: Duration::from_micros(20),
            seed: 3,
        };
        assert_eq!(config, Ok(expected));
        let nothing = ImpairConfig::parse("").unwrap();
        assert_eq!((nothing.drop, nothing.depth, nothing.snap, nothing.seed), (0.0, 8, 64, 1));
    }

    #[test]
    fn all_mistakes_are_listed() {
        let text =
            "drop=2,loss=1,corrupt=nan,depth=0,depth=3,snap=0,delay_us=-1,jitter_us=1ms,seed";
        let problems = ImpairConfig::parse(text).unwrap_err();
        let places: Vec<_> = problems.iter().map(|p| (p.column, p.key.as_str())).collect();
        assert_eq!(
            places,
            [
                (6, "drop"),
                (8, "loss"),
                (23, "corrupt"),
                (33, "depth"),
                (35, "depth"),
                (48, "snap"),
                (59, "delay_us"),
                (72, "jitter_us"),
                (76, "seed")
            ]
        );
        assert_eq!(problems[3].allowed, "1 to 1024");
    }
}
