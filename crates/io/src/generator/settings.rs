//! Settings typed as `KEY=VALUE,KEY=VALUE`: every mistake is listed, each with its place.

use core::fmt;
use core::ops::RangeInclusive;

/// One mistake in a list of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseProblem {
    /// The byte in the text that was given, from 1, at which the mistake begins.
    pub column: usize,
    /// The key it is about, as typed.
    pub key: String,
    /// The mistake, in lower case.
    pub what: String,
    /// The values that are allowed.
    pub allowed: String,
}

impl fmt::Display for ParseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, key, what, allowed } = self;
        write!(f, "column {column}: `{key}` {what}; allowed: {allowed}")
    }
}

impl std::error::Error for ParseProblem {}

/// The settings of one text, and the mistakes found so far.
pub(crate) struct Settings<'a> {
    entries: Vec<KeyValue<'a>>,
    problems: Vec<ParseProblem>,
}

struct KeyValue<'a> {
    key: &'a str,
    value: &'a str,
    value_column: usize,
}

impl<'a> Settings<'a> {
    /// Reads `text`, skipping a `prefix` that columns still count. Unknown and repeated keys and
    /// pieces without `=` become problems.
    pub(crate) fn read(text: &'a str, prefix: &str, keys: &[&str]) -> Self {
        let mut settings = Self { entries: Vec::new(), problems: Vec::new() };
        let body = text.strip_prefix(prefix).unwrap_or(text);
        let mut column = text.len() - body.len() + 1;
        for piece in body.split(',').filter(|_| !body.is_empty()) {
            settings.add(piece, column, keys);
            column += piece.len() + 1;
        }
        settings
    }

    fn add(&mut self, piece: &'a str, column: usize, keys: &[&str]) {
        let Some((key, value)) = piece.split_once('=') else {
            return self.push(column, piece, "has no value", "KEY=VALUE,KEY=VALUE,...");
        };
        if !keys.contains(&key) {
            self.push(column, key, "is not a setting", &keys.join(", "));
        } else if self.entries.iter().any(|entry| entry.key == key) {
            self.push(column, key, "is there twice", "each setting once");
        } else {
            self.entries.push(KeyValue { key, value, value_column: column + key.len() + 1 });
        }
    }

    /// The value of `key` as `parse` reads it. `None` if the key is absent. A refused value is
    /// `None` as well, and becomes a problem that lists what is `allowed`.
    pub(crate) fn take<T>(
        &mut self,
        key: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.entries.iter().find(|entry| entry.key == key)?.value;
        let parsed = parse(value);
        if parsed.is_none() {
            self.refuse(key, allowed);
        }
        parsed
    }

    /// Makes a problem of the value of `key`, where the key is there.
    pub(crate) fn refuse(&mut self, key: &str, allowed: &str) {
        let found = self.entries.iter().find(|entry| entry.key == key);
        if let Some(&KeyValue { value, value_column, .. }) = found {
            self.push(value_column, key, &format!("can't be \"{value}\""), allowed);
        }
    }

    fn push(&mut self, column: usize, key: &str, what: &str, allowed: &str) {
        let (key, what, allowed) = (key.to_owned(), what.to_owned(), allowed.to_owned());
        self.problems.push(ParseProblem { column, key, what, allowed });
    }

    /// The problems, from left to right, if there are any.
    pub(crate) fn finish(mut self) -> Result<(), Vec<ParseProblem>> {
        self.problems.sort_by_key(|problem| problem.column);
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }
}

/// A whole number in `range`, in digits that `_` may group.
pub(crate) fn whole(value: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let grouped = value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let number = value.replace('_', "").parse().ok().filter(|_| grouped)?;
    range.contains(&number).then_some(number)
}

/// A decimal number in `range`.
pub(crate) fn decimal(value: &str, range: RangeInclusive<f64>) -> Option<f64> {
    value.parse().ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(whole("1_000", 0..=5000), Some(1000));
        assert_eq!(whole("18446744073709551615", 0..=u64::MAX), Some(u64::MAX));
        for bad in ["", "_1", "+1", "-1", "1.0", "18446744073709551616", " 1", "6"] {
            assert_eq!(whole(bad, 0..=5), None, "{bad}");
        }
        assert_eq!(decimal("1e-3", 0.0..=1.0), Some(0.001));
        for bad in ["", "nan", "inf", "-0.1", "1.01", "0,5", "x"] {
            assert_eq!(decimal(bad, 0.0..=1.0), None, "{bad}");
        }
    }

    #[test]
    fn every_mistake_has_its_column() {
        let mut settings = Settings::read("go:a=1,b,c=2,a=3,,b=x", "go:", &["a", "b"]);
        assert_eq!(settings.take("a", "1", |value| whole(value, 0..=9)), Some(1));
        assert_eq!(settings.take("b", "a number", |value| whole(value, 0..=9)), None);
        let problems = settings.finish().unwrap_err();
        let places: Vec<_> = problems.iter().map(|p| (p.column, p.key.as_str())).collect();
        assert_eq!(places, [(8, "b"), (10, "c"), (14, "a"), (18, ""), (21, "b")]);
        assert_eq!(problems[1].to_string(), "column 10: `c` is not a setting; allowed: a, b");
        assert_eq!(problems[4].to_string(), "column 21: `b` can't be \"x\"; allowed: a number");
        assert!(Settings::read("", "", &[]).finish().is_ok());
    }
}
