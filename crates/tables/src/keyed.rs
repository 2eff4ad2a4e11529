//! Keyed hashes for indices: a sender who chooses addresses and ports can't aim at one place of a
//! table, as each table draws its own key.
//!
//! Where entries are compared whole, the key only changes how long a look-up takes, and is drawn
//! anew for each table. Where a result depends on the hash, the key is of the chain's seed, so that
//! a run can be repeated.

use core::hash::BuildHasher;
use std::hash::RandomState;

use warpline_packet::Seed;

/// The number of a table.
#[derive(Clone, Copy, Debug)]
pub struct HashKey(u64);

impl HashKey {
    /// Another one for every table.
    pub fn random() -> Self {
        Self(RandomState::new().hash_one(0_u8))
    }

    /// For hashes that affect results, such as which entry is evicted. `number` distinguishes uses.
    pub fn of_seed(seed: Seed, number: u64) -> Self {
        // The chain itself has the small ones.
        Self(seed.key(number + 0x100))
    }

    /// The hash of two addresses, in this order, and of all else that distinguishes entries.
    #[inline]
    pub fn of(self, [a, b]: [u128; 2], rest: u64) -> u32 {
        let Self(key) = self;
        // The key goes into every product, so that what collides under one key doesn't under
        // another.
        let a = mix(a as u64 ^ key, (a >> 64) as u64 ^ key.rotate_left(32) ^ 0xbf58_476d_1ce4_e5b9);
        let b =
            mix(b as u64 ^ a ^ key.rotate_left(16), (b >> 64) as u64 ^ key ^ 0x94d0_49bb_1331_11eb);
        let hash = mix(b ^ rest, a ^ key.rotate_left(48) ^ 0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as u32 ^ hash as u32
    }

    /// Of several numbers.
    pub fn of_all<const N: usize>(self, words: [u64; N]) -> u64 {
        let Self(key) = self;
        let next = |hash: u64, (place, word): (u32, u64)| {
            mix(hash ^ word, key.rotate_left(8 * place + 4) ^ 0x9e37_79b9_7f4a_7c15)
        };
        let hash = (0..).zip(words).fold(key ^ 0xbf58_476d_1ce4_e5b9, next);
        mix(hash ^ key.rotate_left(32), 0x94d0_49bb_1331_11eb)
    }
}

/// Both halves of a product, together.
#[inline(always)]
pub fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Values that collide under one key are spread under others. Neighbours are spread under any.
    #[test]
    fn collisions_are_of_one_key() {
        let of = |key: HashKey, n: u32| key.of([0x0a00_0000 + u128::from(n), 0xc612_0001], 17);
        let keys = [HashKey(1), HashKey(0x1234_5678_9abc_def0), HashKey::random()];
        let low = |key: HashKey, n: u32| of(key, n) & 0xff;
        let aimed: Vec<u32> = (0..200_000).filter(|&n| low(keys[0], n) == 7).collect();
        assert!((600..1000).contains(&aimed.len()), "{}", aimed.len());
        for key in &keys[1..] {
            let places: BTreeSet<u32> = aimed.iter().map(|&n| low(*key, n)).collect();
            assert!(places.len() > 200, "{key:?}: {}", places.len());
        }
        for bits in [0, 32, 64, 96] {
            let of = |n: u128| keys[2].of([n << bits, 1], 0);
            let all: BTreeSet<u32> = (0..10_000).map(of).collect();
            assert!(all.len() > 9_990, "{bits}: {}", all.len());
        }
    }
}
