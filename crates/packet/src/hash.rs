//! Hashes that name flows and choose shards: 32-bit, symmetric, and cheap on any device.
//!
//! The mixing is MurmurHash3's finaliser (Appleby, public domain): two multiplications, no table,
//! the same on a CPU and in a kernel.

/// Mixes all bits of `x` into all bits of the result.
#[inline(always)]
pub const fn mix32(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

/// Hash of an unordered pair.
#[inline(always)]
pub const fn mix_pair(a: u32, b: u32) -> u32 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    mix32(low.wrapping_mul(0x9e37_79b1) ^ high.rotate_left(15).wrapping_add(0x7f4a_7c15))
}

/// An IPv6 address as 32 bits.
#[inline(always)]
pub const fn fold_v6(address: u128) -> u32 {
    let (high, low) = ((address >> 64) as u64, address as u64);
    let a = mix32((high >> 32) as u32).wrapping_add(high as u32);
    let b = mix32(a).wrapping_add((low >> 32) as u32);
    mix32(b).wrapping_add(low as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_symmetric_and_spread() {
        assert_eq!(mix_pair(1, 2), mix_pair(2, 1));
        let mut shards = [0u32; 64];
        for client in 0..64_000u32 {
            shards[(mix_pair(0x0a00_0000 + client, 0xc612_0001) >> 26) as usize] += 1;
        }
        assert!(shards.iter().all(|&n| (800..1200).contains(&n)), "{shards:?}");
    }

    #[test]
    fn neighbouring_v6_addresses_spread() {
        let base = 0x2001_0db8_u128 << 96;
        let mut shards = [0u32; 64];
        for host in 0..64_000u128 {
            shards[(mix_pair(fold_v6(base + host), 7) >> 26) as usize] += 1;
        }
        assert!(shards.iter().all(|&n| (800..1200).contains(&n)), "{shards:?}");
    }
}
