//! How fast packets come: at one rate, or at several that take turns.

use core::time::Duration;

use super::settings::decimal;

/// A rate for some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateStep {
    /// Gigabits of frames a second.
    pub(super) gbps: f64,
    pub(super) time: Duration,
}

/// Rates in their order; after the last comes the first again. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rates(Vec<RateStep>);

const LIST_MAX: usize = 64;

impl Rates {
    /// One rate.
    pub(super) fn steady(gbps: f64) -> Self {
        Self(vec![RateStep { gbps, time: Duration::MAX }])
    }

    /// One rate, or `RATE@SECONDS` joined by `|`, at most 64.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let rate = |text: &str| decimal(text, 1e-6..=1e4);
        if let Some(gbps) = rate(value) {
            return Some(Self::steady(gbps));
        }
        let step = |text: &str| {
            let (gbps, seconds) = text.split_once('@')?;
            let time = Duration::from_secs_f64(decimal(seconds, 0.001..=1e6)?);
            Some(RateStep { gbps: rate(gbps)?, time })
        };
        let steps: Vec<RateStep> = value.split('|').map(step).collect::<Option<_>>()?;
        (steps.len() <= LIST_MAX).then_some(Self(steps))
    }

    /// The step of that number, counted over all turns.
    pub(super) fn step(&self, number: usize) -> RateStep {
        self.0[number % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_table() {
        assert_eq!(Rates::parse("40"), Some(Rates::steady(40.0)));
        let rates = Rates::parse("0.5@2|8@0.25").expect("two steps");
        let step = |gbps, millis| RateStep { gbps, time: Duration::from_millis(millis) };
        let steps = [0, 1, 2, 3].map(|number| rates.step(number));
        assert_eq!(steps, [step(0.5, 2000), step(8.0, 250), step(0.5, 2000), step(8.0, 250)]);
        assert_eq!(Rates::parse(&vec!["1@1"; 64].join("|")).map(|own| own.0.len()), Some(64));
        let many = vec!["1@1"; 65].join("|");
        for bad in ["", "0", "1@", "1@0", "@1", "1|2", "1@1|", "-1@1", "1@1@1", "nan@1", &many] {
            assert_eq!(Rates::parse(bad), None, "{bad}");
        }
    }
}
