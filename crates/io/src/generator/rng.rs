//! The random numbers of synthetic traffic: SplitMix64 and xoshiro256++, written out here so that
//! a seed gives the same traffic in every release and on every machine.
//!
//! Sources: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators" (2014);
//! D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators" (2021). Good for
//! traffic, not for keys.

/// One stream of random numbers (xoshiro256++).
#[derive(Clone, Debug)]
pub(crate) struct Rng([u64; 4]);

impl Rng {
    /// Stream number `stream` of `seed`. Each concern draws from a stream of its own, so that
    /// changing one (the payload, say) leaves the others as they were.
    pub(crate) fn stream(seed: u64, stream: u64) -> Self {
        let mut state = mix(seed).wrapping_add(mix(!stream));
        Self(core::array::from_fn(|_| split_mix(&mut state)))
    }

    /// 64 random bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
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
    split_mix(&mut { number })
}

#[inline]
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence() {
        let mut state = 1_234_567;
        let drawn: Vec<u64> = (0..3).map(|_| split_mix(&mut state)).collect();
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn xoshiro_gives_the_published_sequence() {
        let mut rng = Rng([1, 2, 3, 4]);
        let drawn: Vec<u64> = (0..4).map(|_| rng.bits()).collect();
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
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
