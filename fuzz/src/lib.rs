//! Shared parts of the fuzz targets: packets cut from an input, functions built without files on
//! disk, and checks of every packet that went through a function.

pub mod captures;
pub mod frames;
pub mod functions;
pub mod ipfix;
pub mod ipsec;
pub mod reported;
pub mod rules;
pub mod seeds;
pub mod sensors;
mod texts;

use std::net::IpAddr;

/// The Internet checksum's sum over `data`, folded (RFC 1071, 1): 0xffff where a checksum that is
/// part of it is right. Written apart from the project's own.
pub fn sum16(data: &[u8], start: u64) -> u16 {
    let words = data
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum = start + words.sum::<u64>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Whether `address` is in `first/len`, by comparing one bit after the other.
pub fn in_prefix(address: IpAddr, first: IpAddr, len: u8) -> bool {
    let same = |a: &[u8], b: &[u8]| {
        (0..usize::from(len)).all(|bit| (a[bit / 8] ^ b[bit / 8]) >> (7 - bit % 8) & 1 == 0)
    };
    match (address, first) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(&a.octets(), &b.octets()),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(&a.octets(), &b.octets()),
        _ => false,
    }
}
