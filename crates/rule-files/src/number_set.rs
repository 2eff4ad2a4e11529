//! Sets of numbers as sorted ranges: the addresses, ports and kinds that a condition lets through.

/// Numbers, as ranges that neither overlap nor touch, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberSet(Vec<(u128, u128)>);

impl NumberSet {
    /// Numbers `first` to `last`.
    pub fn range(first: u128, last: u128) -> Self {
        if first <= last { Self(vec![(first, last)]) } else { Self::default() }
    }

    /// The numbers of these ranges, which may overlap and stand in any order.
    pub fn of(mut ranges: Vec<(u128, u128)>) -> Self {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut set: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match set.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => set.push((first, last)),
            }
        }
        Self(set)
    }

    /// Its ranges.
    pub fn ranges(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Whether it has no number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of both.
    pub fn and(&self, other: &Self) -> Self {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&(first, last)), Some(&&(other_first, other_last))) =
            (own.peek(), others.peek())
        {
            let (from, to) = (first.max(other_first), last.min(other_last));
            if from <= to {
                both.push((from, to));
            }
            if last < other_last {
                own.next()
            } else {
                others.next()
            };
        }
        Self(both)
    }

    /// The numbers of this one that `other` lacks.
    pub fn minus(&self, other: &Self) -> Self {
        let (mut gaps, mut from) = (Vec::with_capacity(other.0.len() + 1), Some(0));
        for &(first, last) in &other.0 {
            if let (Some(from), Some(to)) = (from, first.checked_sub(1))
                && from <= to
            {
                gaps.push((from, to));
            }
            from = last.checked_add(1);
        }
        gaps.extend(from.map(|from| (from, u128::MAX)));
        self.and(&Self(gaps))
    }

    /// The numbers of either.
    pub fn or(&self, other: &Self) -> Self {
        Self::of([&self.0[..], &other.0].concat())
    }

    /// Whether it has all numbers of `other`.
    pub fn holds(&self, other: &Self) -> bool {
        other.minus(self).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sets of numbers below 64, and three at the far end, as bits.
    fn bits(set: &NumberSet) -> u128 {
        let has = |n: u128| set.0.iter().any(|&(first, last)| (first..=last).contains(&n));
        let far = |i: u32| has(u128::MAX - u128::from(i));
        let low = (0..64).filter(|&n| has(n)).fold(0, |all, n| all | 1u128 << n);
        (0..3).filter(|&i| far(i)).fold(low, |all, i| all | 1 << (64 + i))
    }

    fn ranges() -> impl Strategy<Value = Vec<(u128, u128)>> {
        let near = (0..60u128, 0..9u128).prop_map(|(first, len)| (first, first + len));
        let far = (0..3u128, 0..3u128).prop_map(|(a, b)| (u128::MAX - a, u128::MAX - b));
        let all = prop_oneof![8 => near, 1 => far, 1 => (0..64u128).prop_map(|n| (n, u128::MAX))];
        prop::collection::vec(all, 0..6)
    }

    proptest! {
        #[test]
        fn sets_are_as_their_numbers(a in ranges(), b in ranges()) {
            let (a, b) = (NumberSet::of(a), NumberSet::of(b));
            let far = 0b111u128 << 64;
            let all = far | u128::from(u64::MAX);
            prop_assert_eq!(bits(&a.and(&b)), bits(&a) & bits(&b));
            prop_assert_eq!(bits(&a.minus(&b)), bits(&a) & !bits(&b) & all);
            prop_assert_eq!(bits(&a.or(&b)), bits(&a) | bits(&b));
            prop_assert!(a.holds(&a.and(&b)) && a.or(&b).holds(&b));
            prop_assert_eq!(a.and(&b).or(&a.minus(&b)), a.clone());
            prop_assert!(a.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }
}
