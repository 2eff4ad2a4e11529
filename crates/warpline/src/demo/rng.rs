//! The random numbers of the demo capture: SplitMix64, so that it is the same on every machine.
//!
//! Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators" (2014).

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    /// Stream number `stream`. Each part of the capture draws from its own, so that a change to
    /// one leaves the others as they were.
    pub(super) fn stream(stream: u64) -> Self {
        Self(SEED ^ stream << 32)
    }

    /// 64 random bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// One of `items`, which are not none.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.between(0, items.len() as u64 - 1) as usize]
    }

    /// `len` random bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.bits() as u8).collect()
    }
}

const SEED: u64 = 0x7761_7270;
