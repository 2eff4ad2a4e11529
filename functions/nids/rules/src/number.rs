//! Numbers in rules, and ranges of them as in the manual's section on integer keywords: `10`,
//! `!10`, `<10`, `>=10`, `10<>20`, `10-20`, `0x1f`, `2kb`.

use super::piece::{Piece, Read, Refusal};
use super::{Dialect, Need, Span};

/// A type that a keyword's number has.
pub(super) trait Number: Copy + PartialOrd + TryFrom<u64> + Into<u64> {
    const MAX: Self;
    const MIN: Self;
}

macro_rules! numbers {
    ($($t:ty)*) => { $(impl Number for $t {
        const MAX: Self = <$t>::MAX;
        const MIN: Self = <$t>::MIN;
    })* };
}
numbers!(u8 u16 u32 u64);

impl Piece<'_> {
    /// A number in decimal.
    pub(super) fn decimal<T: Number>(self) -> Read<T> {
        let digits = self.text.bytes().all(|b| b.is_ascii_digit()) && !self.is_empty();
        let number = if digits { self.text.parse::<u64>().ok() } else { None };
        number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| self.no_number::<T>())
    }

    /// A number in decimal, in hexadecimal after `0x`, in octal after `0`.
    pub(super) fn any_base(self) -> Option<u64> {
        let text = self.text;
        if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return all(hex, |b| b.is_ascii_hexdigit())
                .then(|| u64::from_str_radix(hex, 16).ok())?;
        }
        let base = if text.len() > 1 && text.starts_with('0') { 8 } else { 10 };
        all(text, |b| b.is_ascii_digit()).then(|| u64::from_str_radix(text, base).ok())?
    }

    /// A number, perhaps with `-` before it, from `min` to `max`.
    pub(super) fn signed(self, min: i64, max: i64) -> Read<i64> {
        let (is_negative, digits) = match self.text.as_bytes().first() {
            Some(b'-') => (true, self.behind(1)),
            Some(b'+') => (false, self.behind(1)),
            _ => (false, self),
        };
        let number = digits.any_base().and_then(|n| i64::try_from(n).ok());
        number
            .map(|n| if is_negative { -n } else { n })
            .filter(|n| (min..=max).contains(n))
            .ok_or_else(|| {
                let help = format!("a number from {min} to {max}");
                self.expected(format!("`{}` is not a number in range", self.text), help)
            })
    }

    fn no_number<T: Number>(self) -> Refusal {
        let help = format!("a number from 0 to {}", T::MAX.into());
        self.expected(format!("`{}` is not a number in range", self.text), help)
    }

    /// A number with its unit: 2kb is 2048.
    fn with_unit<T: Number>(self) -> Read<T> {
        if self.text.starts_with("0x") {
            let number = self.any_base().and_then(|n| T::try_from(n).ok());
            return number.ok_or_else(|| self.no_number::<T>());
        }
        let digits = self.text.bytes().take_while(u8::is_ascii_digit).count();
        let unit = match &*self.behind(digits).text.to_ascii_lowercase() {
            "" => 1,
            "kb" | "kib" => 1 << 10,
            "mb" | "mib" => 1 << 20,
            "gb" | "gib" => 1 << 30,
            _ => return Err(self.no_number::<T>()),
        };
        let number = self.part(0..digits).decimal::<u64>().ok().and_then(|n| n.checked_mul(unit));
        number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| self.no_number::<T>())
    }

    /// A span, as the keyword called `keyword` has it.
    pub(super) fn span<T: Number>(self, keyword: &str, dialect: Dialect) -> Read<Span<T>> {
        if self.starts_with('&') {
            return Err(Refusal::Held(Need::value(keyword, "&")));
        }
        let (is_negated, rest) = match self.strip("!=").or_else(|| self.strip("!")) {
            Some(rest) => (true, rest),
            None => (false, self),
        };
        if let Some(ends) = rest.split_once("<>").or_else(|| rest.split_once("-")) {
            let is_inclusive = match dialect {
                Dialect::Suricata => false,
                Dialect::Snort => keyword == "dsize" || !rest.text.contains("<>"),
            };
            return self.range(ends, is_inclusive, is_negated);
        }
        let (min, max) = if is_negated {
            let number = rest.with_unit()?;
            (number, number)
        } else {
            rest.compared()?
        };
        Ok(Span { min, max, is_negated })
    }

    fn range<T: Number>(
        self,
        (low, high): (Self, Self),
        is_inclusive: bool,
        is_negated: bool,
    ) -> Read<Span<T>> {
        // Snort's `-5` and `5-` are open to one side.
        let min = if is_inclusive && low.is_empty() { T::MIN } else { low.with_unit()? };
        let max = if is_inclusive && high.is_empty() { T::MAX } else { high.with_unit()? };
        if is_inclusive {
            let span = Span { min, max, is_negated };
            return if min <= max {
                Ok(span)
            } else {
                Err(self.broken("nothing is in this range"))
            };
        }
        let (min, max): (u64, u64) = (min.into(), max.into());
        match (T::try_from(min.saturating_add(1)), T::try_from(max.saturating_sub(1))) {
            (Ok(least), Ok(most)) if min < max && least <= most => {
                Ok(Span { min: least, max: most, is_negated })
            }
            _ => Err(self.expected("nothing is in this range", "the ends are not in it")),
        }
    }

    /// `10`, `=10`, `<10`, `<=10`, `>10`, `>=10`.
    fn compared<T: Number>(self) -> Read<(T, T)> {
        let least = |n: T| n.into().checked_add(1).and_then(|n| T::try_from(n).ok());
        let most = |n: T| n.into().checked_sub(1).and_then(|n| T::try_from(n).ok());
        let never = || self.broken("nothing is in this range");
        if let Some(number) = self.strip(">=") {
            return Ok((number.with_unit()?, T::MAX));
        }
        if let Some(number) = self.strip("<=") {
            return Ok((T::MIN, number.with_unit()?));
        }
        if let Some(number) = self.strip(">") {
            return Ok((least(number.with_unit()?).ok_or_else(never)?, T::MAX));
        }
        if let Some(number) = self.strip("<") {
            return Ok((T::MIN, most(number.with_unit()?).ok_or_else(never)?));
        }
        let number = self.strip("=").unwrap_or(self).with_unit()?;
        Ok((number, number))
    }
}

fn all(text: &str, is: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str, dialect: Dialect) -> Option<(u16, u16, bool)> {
        let span = Piece::new(text).span::<u16>("dsize", dialect).ok()?;
        Some((span.min, span.max, span.is_negated))
    }

    #[test]
    fn spans_are_as_the_manual_has_them() {
        for (text, expected) in [
            ("10", Some((10, 10, false))),
            ("=0x13", Some((19, 19, false))),
            ("!9", Some((9, 9, true))),
            ("!= 20", Some((20, 20, true))),
            ("<10", Some((0, 9, false))),
            ("<=10", Some((0, 10, false))),
            (">8", Some((9, u16::MAX, false))),
            (">=10", Some((10, u16::MAX, false))),
            ("8<>20", Some((9, 19, false))),
            ("19 - 22", Some((20, 21, false))),
            ("!19-22", Some((20, 21, true))),
            ("2kb", Some((2048, 2048, false))),
            ("64KiB", None),
            ("<0", None),
            (">65535", None),
            ("65536", None),
            ("5<>6", None),
            ("6<>5", None),
            ("", None),
            ("-5", None),
            ("x", None),
            ("&0xc0=0x80", None),
        ] {
            assert_eq!(span(text, Dialect::Suricata), expected, "{text}");
        }
        assert_eq!(span("300<>400", Dialect::Snort), Some((300, 400, false)));
        assert_eq!(span("3-5", Dialect::Snort), Some((3, 5, false)));
        assert_eq!(span("-5", Dialect::Snort), Some((0, 5, false)));
        assert_eq!(span("5-", Dialect::Snort), Some((5, u16::MAX, false)));
    }

    #[test]
    fn bases_are_reported_apart() {
        for (text, number) in
            [("0x1F", Some(31)), ("017", Some(15)), ("0", Some(0)), ("09", None), ("", None)]
        {
            assert_eq!(Piece::new(text).any_base(), number, "{text}");
        }
        assert_eq!(Piece::new("-7").signed(-10, 10).ok(), Some(-7));
        assert!(Piece::new("-11").signed(-10, 10).is_err());
    }
}
