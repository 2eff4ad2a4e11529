//! Hashes that name flows and choose shards: 32-bit, symmetric, keyed, and cheap on any device.
//!
//! The chain's [`Seed`] keys [`FlowHasher`]. A sender who doesn't know it can't choose addresses
//! that share a shard. [`mix32`] has no key, for inputs that no sender chooses.

use core::net::IpAddr;

/// The number that keys a chain's hashes. With the same seed, all runs over the same packets have
/// the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Of any number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// A key for one use; `number` distinguishes uses. The mixing is SplitMix64 (Steele, Lea,
    /// Flood, OOPSLA 2014).
    pub const fn key(self, number: u64) -> u64 {
        let mut x = self.0 ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03);
        let mut round = 0;
        while round < 2 {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^= x >> 31;
            round += 1;
        }
        x
    }
}

/// Hashes addresses and ports, with keys.
///
/// Each step is almost universal: any two inputs chosen without the keys rarely collide. Sums of
/// words and keys are multiplied (NH; Black, Halevi, Krawczyk, Krovetz, Rogaway, "UMAC", CRYPTO
/// 1999). The product is spread by another multiplication whose upper half is used (Dietzfelbinger,
/// Hagerup, Katajainen, Penttonen, "A Reliable Randomized Algorithm for the Closest-Pair Problem",
/// 1997).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHasher {
    pair: [u32; 2],
    v6: [u32; 4],
    /// Odd.
    spread: u64,
    /// Odd.
    ports: u64,
    single: u32,
}

impl FlowHasher {
    /// With keys of seed 0, for inputs without an attacker.
    pub const SEED_0: Self = Self::new(Seed::new(0));

    /// With keys of `seed`.
    pub const fn new(seed: Seed) -> Self {
        let (pair, low, high) = (seed.key(0), seed.key(1), seed.key(2));
        Self {
            pair: [pair as u32, (pair >> 32) as u32],
            v6: [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32],
            spread: seed.key(3) | 1,
            ports: seed.key(4) | 1,
            single: seed.key(5) as u32,
        }
    }

    /// Of an unordered pair of addresses, each as 32 bits.
    #[inline(always)]
    pub const fn pair(&self, a: u32, b: u32) -> PairHash {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        let (low, high) = (low.wrapping_add(self.pair[0]), high.wrapping_add(self.pair[1]));
        PairHash(low as u64 * high as u64)
    }

    /// Of an unordered pair of addresses.
    pub fn addresses(&self, a: IpAddr, b: IpAddr) -> PairHash {
        self.pair(self.fold(a), self.fold(b))
    }

    /// Of one address.
    pub fn address(&self, address: IpAddr) -> PairHash {
        self.pair(self.fold(address), self.single)
    }

    /// The same of an address by version and number, which for IPv4 fills the low 32 bits.
    #[inline(always)]
    pub const fn address_number(&self, version: u8, address: u128) -> PairHash {
        let folded = if version == 4 { address as u32 } else { self.fold_v6(address) };
        self.pair(folded, self.single)
    }

    fn fold(&self, address: IpAddr) -> u32 {
        match address {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => self.fold_v6(address.to_bits()),
        }
    }

    /// An IPv6 address as 32 bits.
    #[inline(always)]
    pub const fn fold_v6(&self, address: u128) -> u32 {
        let [a, b, c, d] = self.v6;
        let high = ((address >> 96) as u32).wrapping_add(a) as u64
            * ((address >> 64) as u32).wrapping_add(b) as u64;
        let low = ((address >> 32) as u32).wrapping_add(c) as u64
            * (address as u32).wrapping_add(d) as u64;
        self.spread(high.wrapping_add(low))
    }

    /// The shard of a pair, of 64.
    #[inline(always)]
    pub const fn shard(&self, pair: PairHash) -> u8 {
        (self.spread(pair.0) >> 26) as u8
    }

    /// The name of a flow: of a pair, both ports with the smaller one first, and the protocol.
    #[inline(always)]
    pub const fn flow(&self, pair: PairHash, ports: u32, protocol: u8) -> u32 {
        let rest = (ports as u64) << 8 | protocol as u64;
        self.spread(pair.0.wrapping_add(rest.wrapping_mul(self.ports)))
    }

    /// A bare product has patterns where its inputs are in a row; its own upper half breaks them.
    #[inline(always)]
    const fn spread(&self, x: u64) -> u32 {
        ((x ^ x >> 32).wrapping_mul(self.spread) >> 32) as u32
    }
}

impl Default for FlowHasher {
    /// With keys of seed 0.
    fn default() -> Self {
        Self::SEED_0
    }
}

/// The result of [`FlowHasher`] for two addresses, not spread yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairHash(u64);

/// Mixes all bits of `x` into all bits of the result.
#[inline(always)]
pub const fn mix32(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: [u64; 4] = [0, 1, 0x1234_5678_9abc_def0, u64::MAX];

    fn spread(shards: impl Iterator<Item = u8>) -> [u32; 64] {
        let mut counts = [0; 64];
        shards.for_each(|shard| counts[usize::from(shard)] += 1);
        counts
    }

    /// Neighbours, which real networks are made of, and whole strides of them.
    #[test]
    fn pairs_are_symmetric_and_spread() {
        for seed in SEEDS {
            let hasher = FlowHasher::new(Seed::new(seed));
            assert_eq!(hasher.pair(1, 2), hasher.pair(2, 1));
            for stride in [1, 4, 256, 1 << 16] {
                let client = |n: u32| 0x0a00_0000_u32.wrapping_add(n.wrapping_mul(stride));
                let pair = |n| hasher.shard(hasher.pair(client(n), 0xc612_0001));
                let shards = spread((0..64_000).map(pair));
                assert!(shards.iter().all(|&n| (800..1200).contains(&n)), "{stride}: {shards:?}");
            }
        }
    }

    #[test]
    fn neighbouring_v6_addresses_spread() {
        let base = 0x2001_0db8_u128 << 96;
        for seed in SEEDS {
            let hasher = FlowHasher::new(Seed::new(seed));
            for shift in [0, 16, 64] {
                let fold = |n: u128| hasher.fold_v6(base + (n << shift));
                let shards = spread((0..64_000).map(|n| hasher.shard(hasher.pair(fold(n), 7))));
                assert!(shards.iter().all(|&n| (800..1200).contains(&n)), "{shift}: {shards:?}");
            }
        }
    }

    #[test]
    fn flows_between_two_hosts_have_names_of_their_own() {
        for seed in SEEDS {
            let hasher = FlowHasher::new(Seed::new(seed));
            let pair = hasher.pair(0x0a00_0001, 0xc612_0001);
            let names: std::collections::BTreeSet<u32> =
                (0..60_000).map(|port| hasher.flow(pair, 80 << 16 | port, 6)).collect();
            assert!(names.len() > 59_900, "{}", names.len());
        }
    }

    /// Addresses aimed at one shard under one seed are spread under another.
    #[test]
    fn an_attack_on_one_seed_misses_another() {
        let [known, others @ ..] = SEEDS.map(|seed| FlowHasher::new(Seed::new(seed)));
        let shard = |hasher: &FlowHasher, host| hasher.shard(hasher.pair(host, 0xc612_0001));
        let aimed: Vec<u32> = (0..2_000_000).filter(|&host| shard(&known, host) == 7).collect();
        assert!((25_000..40_000).contains(&aimed.len()), "{}", aimed.len());
        for hasher in &others {
            let counts = spread(aimed.iter().map(|&host| shard(hasher, host)));
            let most = counts.iter().max().copied().unwrap_or(0) as usize;
            assert!(most < aimed.len() / 32, "{most} of {}", aimed.len());
        }
    }
}
