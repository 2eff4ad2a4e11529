//! Hashes of 64 bits by multiplication and folding: names of endpoints, places in Maglev tables.
//!
//! They are the same in every process and after every reload. Hashes of values that clients choose
//! also take a seed where a table could be overloaded ([`super::connections`]).

/// Mixes two words into one.
#[inline(always)]
pub(super) const fn mix(a: u64, b: u64) -> u64 {
    let product = (a ^ 0x9e37_79b9_7f4a_7c15) as u128 * (b ^ 0xd6e8_feb8_6659_fd93) as u128;
    product as u64 ^ (product >> 64) as u64
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
