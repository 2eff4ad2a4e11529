//! Hashes of 64 bits by multiplication and folding: names of endpoints, places in Maglev tables.
//!
//! They are the same in every process and after every reload. Hashes of values that clients choose
//! also take a key where a table could be overloaded ([`super::connections`]).

/// Mixes two words into one.
#[inline(always)]
pub(super) const fn mix(a: u64, b: u64) -> u64 {
    let product = (a ^ 0x9e37_79b9_7f4a_7c15) as u128 * (b ^ 0xd6e8_feb8_6659_fd93) as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Spreads a word over all bits, one to one (the last step of SplitMix64).
#[inline(always)]
const fn finish(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// A hash of a client's address, in halves, and of its port and version.
///
/// No address hides the port: one of IPv4 is never the constant of [`mix`], and the steps for IPv6
/// are one to one.
#[inline(always)]
pub(super) const fn client(version: u8, [upper, lower]: [u64; 2], kind: u64) -> u64 {
    if version == 4 {
        return mix(lower, kind);
    }
    finish(finish(finish(lower ^ 0x9e37_79b9_7f4a_7c15) ^ upper) ^ kind)
}

/// The name of an address and port of a protocol, of IP version 4 or 6.
#[inline(always)]
pub(super) const fn endpoint(version: u8, protocol: u8, address: u128, port: u16) -> u64 {
    let kind = (port as u64) << 16 | (protocol as u64) << 8 | version as u64;
    mix(mix(address as u64, (address >> 64) as u64 ^ kind), kind)
}

/// A place from 0 to below `len` that a hash names by its upper bits.
#[inline(always)]
pub(super) const fn scale(hash: u64, len: usize) -> usize {
    ((hash as u128 * len as u128) >> 64) as usize
}
