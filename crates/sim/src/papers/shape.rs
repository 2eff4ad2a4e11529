//! Rules about the shape of curves. A rule reports whether it holds, with the numbers that decide.

use std::ops::RangeInclusive;

/// A rule and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule, with the numbers found.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why it does not, where that is known.
    pub reason: &'static str,
}

impl Rule {
    /// A rule that was decided elsewhere.
    pub fn new(text: impl Into<String>, holds: bool) -> Self {
        Self { text: text.into(), holds, reason: "" }
    }

    /// Names the reason why it does not hold.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }
}

/// `value` is in `range`.
pub fn within(name: &str, value: f64, range: RangeInclusive<f64>) -> Rule {
    let (least, most) = (shown(*range.start()), shown(*range.end()));
    let text = format!("{name} is {least} to {most}: {}", shown(value));
    Rule::new(text, range.contains(&value))
}

/// Each value is at least the one before, less the part `slack`, and the last is above the first.
pub fn rises(name: &str, values: &[f64], slack: f64) -> Rule {
    let ends = values.first().zip(values.last()).is_some_and(|(first, last)| last > first);
    let holds = ends && values.windows(2).all(|two| two[1] >= two[0] * (1.0 - slack));
    Rule::new(format!("{name} rises: {}", list(values)), holds)
}

/// Each value is at least the one before, less the part `slack`.
pub fn does_not_fall(name: &str, values: &[f64], slack: f64) -> Rule {
    let holds = values.windows(2).all(|two| two[1] >= two[0] * (1.0 - slack));
    Rule::new(format!("{name} does not fall: {}", list(values)), holds)
}

/// Each value is at most the one before, more the part `slack`, and the last is below the first.
pub fn falls(name: &str, values: &[f64], slack: f64) -> Rule {
    let ends = values.first().zip(values.last()).is_some_and(|(first, last)| last < first);
    let holds = ends && values.windows(2).all(|two| two[1] <= two[0] * (1.0 + slack));
    Rule::new(format!("{name} falls: {}", list(values)), holds)
}

/// All values are alike, up to the part `slack` of the greatest.
pub fn constant(name: &str, values: &[f64], slack: f64) -> Rule {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    Rule::new(format!("{name} is constant: {}", list(values)), least >= most * (1.0 - slack))
}

/// Nowhere is `one` below `other` by more than the part `slack`.
pub fn never_below(name: &str, one: &[f64], other: &[f64], slack: f64) -> Rule {
    let holds = one.iter().zip(other).all(|(one, other)| *one >= other * (1.0 - slack));
    let text = format!("{name}: {} against {}", list(one), list(other));
    Rule::new(text, holds && one.len() == other.len())
}

/// `one` is above `other` first and below it last, or the reverse, and they cross once, in `range`.
pub fn crosses(
    name: &str,
    xs: &[f64],
    (one, other): (&[f64], &[f64]),
    range: RangeInclusive<f64>,
) -> Rule {
    let is_above: Vec<bool> = one.iter().zip(other).map(|(one, other)| one > other).collect();
    let changes: Vec<usize> =
        (1..is_above.len()).filter(|&at| is_above[at] != is_above[at - 1]).collect();
    let is_inside = |&at: &usize| range.contains(&xs[at - 1]) && range.contains(&xs[at]);
    let holds = changes.len() == 1 && changes.iter().all(is_inside);
    let found: Vec<f64> = changes.iter().map(|&at| xs[at]).collect();
    let (least, most) = (range.start(), range.end());
    Rule::new(format!("{name} cross once from {least} to {most}: before {}", list(&found)), holds)
}

/// Three digits.
pub(crate) fn shown(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn list(values: &[f64]) -> String {
    values.iter().map(|&value| shown(value)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_can_fail() {
        let up = [1.0, 2.0, 3.0];
        let down = [3.0, 2.0, 1.0];
        let xs = [10.0, 20.0, 30.0];
        let pairs = [
            (within("it", 1.0, 0.5..=2.0), within("it", 2.5, 0.5..=2.0)),
            (rises("it", &up, 0.0), rises("it", &[1.0, 3.0, 2.0], 0.1)),
            (rises("it", &[1.0, 0.95, 3.0], 0.1), rises("it", &[1.0, 1.0, 1.0], 0.1)),
            (falls("it", &down, 0.0), falls("it", &up, 0.0)),
            (does_not_fall("it", &[1.0, 1.0], 0.0), does_not_fall("it", &down, 0.1)),
            (constant("it", &[1.0, 0.96], 0.05), constant("it", &up, 0.05)),
            (never_below("it", &up, &up, 0.0), never_below("it", &up, &down, 0.5)),
            (
                crosses("they", &xs, (&up, &[2.5; 3]), 15.0..=35.0),
                crosses("they", &xs, (&up, &[2.5; 3]), 5.0..=25.0),
            ),
            (
                crosses("they", &xs, (&up, &down), 10.0..=30.0),
                crosses("they", &xs, (&up, &up), 0.0..=99.0),
            ),
        ];
        for (holds, fails) in pairs {
            assert!(holds.holds, "{}", holds.text);
            assert!(!fails.holds, "{}", fails.text);
        }
    }
}
