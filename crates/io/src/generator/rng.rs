//! The random numbers of synthetic traffic. A seed gives the same traffic on every machine: both
//! generators are fixed by their publications. Good for traffic, not for keys.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// Stream number `stream` of `seed`. Each concern draws from a stream of its own, so that
    /// changing one (the payload, say) leaves the others as they were.
    pub(crate) fn stream(seed: u64, stream: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(mix(seed).wrapping_add(mix(!stream))))
    }

    /// 64 random bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `[0, 1)`, a multiple of 2^-53.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number below `bound`, or 0 where that is 0. One draw; the bias is at most `bound` / 2^64.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with the given probability: never for 0, always for 1.
    #[inline]
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

/// Scatters a number over 64 bits; a bijection.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    SplitMix64::seed_from_u64(number).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence() {
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn draws_stay_in_range_and_are_even() {
        let mut rng = Rng::stream(7, 0);
        let mut counts = [0u32; 5];
        for _ in 0..50_000 {
            counts[rng.below(5) as usize] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        // 10 000 expected; the standard deviation is 89.
        assert!(counts.iter().all(|&n| n.abs_diff(10_000) < 450), "{counts:?}");
        assert_eq!(rng.below(0), 0);
        assert!((0..1000).all(|_| rng.chance(1.0) && !rng.chance(0.0)));
    }

    #[test]
    fn streams_and_seeds_differ() {
        let first = |seed, stream| Rng::stream(seed, stream).bits();
        let all = [first(1, 0), first(1, 1), first(2, 0), first(0, 0), first(0, 1), first(2, 1)];
        let distinct: std::collections::HashSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
