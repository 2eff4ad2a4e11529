//! Sorted inclusive ranges that don't touch: the representation of sets of addresses and ports.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Something that ranges are of.
pub(super) trait Discrete: Copy + Ord {
    /// The next one; `None` for the last.
    fn next(self) -> Option<Self>;
    /// The one before it; `None` for the first.
    fn previous(self) -> Option<Self>;
}

impl Discrete for u16 {
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

impl Discrete for Ipv4Addr {
    fn next(self) -> Option<Self> {
        self.to_bits().checked_add(1).map(Self::from_bits)
    }

    fn previous(self) -> Option<Self> {
        self.to_bits().checked_sub(1).map(Self::from_bits)
    }
}

impl Discrete for Ipv6Addr {
    fn next(self) -> Option<Self> {
        self.to_bits().checked_add(1).map(Self::from_bits)
    }

    fn previous(self) -> Option<Self> {
        self.to_bits().checked_sub(1).map(Self::from_bits)
    }
}

/// Merges any ranges into sorted ones that do not touch.
pub(super) fn merge<T: Discrete>(ranges: &mut Vec<(T, T)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|range, last| {
        let touches = last.1.next().is_none_or(|behind| range.0 <= behind);
        if touches {
            last.1 = last.1.max(range.1);
        }
        touches
    });
}

/// The parts of `ranges` that are not in `others`; both are merged.
pub(super) fn subtract<T: Discrete>(ranges: &[(T, T)], others: &[(T, T)]) -> Vec<(T, T)> {
    let mut left = Vec::with_capacity(ranges.len());
    let mut others = others.iter().copied().peekable();
    for &(mut start, end) in ranges {
        let mut is_left = true;
        while let Some(&(from, to)) = others.peek() {
            if from > end {
                break;
            }
            if to >= start {
                if from > start {
                    left.extend(from.previous().map(|before| (start, before)));
                }
                match to.next() {
                    Some(behind) if behind <= end => start = behind,
                    _ => is_left = false,
                }
            }
            if !is_left {
                break;
            }
            others.next();
        }
        if is_left {
            left.push((start, end));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(ranges: &[(u16, u16)]) -> Vec<u16> {
        (0..=60)
            .chain([u16::MAX])
            .filter(|n| ranges.iter().any(|r| r.0 <= *n && *n <= r.1))
            .collect()
    }

    fn ranges() -> impl Strategy<Value = Vec<(u16, u16)>> {
        let range = (0u16..60, 0u16..8).prop_map(|(start, len)| (start, (start + len).min(60)));
        let last = Just((50, u16::MAX));
        prop::collection::vec(prop_oneof![9 => range, 1 => last], 0..8)
    }

    proptest! {
        #[test]
        fn ranges_are_sets(mut a in ranges(), mut b in ranges()) {
            let (all_a, all_b) = (numbers(&a), numbers(&b));
            merge(&mut a);
            merge(&mut b);
            prop_assert_eq!(&numbers(&a), &all_a);
            prop_assert!(a.windows(2).all(|w| w[0].1 + 1 < w[1].0));
            let left = subtract(&a, &b);
            let expected: Vec<_> = all_a.iter().copied().filter(|n| !all_b.contains(n)).collect();
            prop_assert_eq!(numbers(&left), expected);
            prop_assert!(left.iter().all(|r| r.0 <= r.1));
        }
    }
}
