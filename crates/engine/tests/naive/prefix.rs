//! Prefixes of addresses, compared bit by bit.

use std::fmt;
use std::net::IpAddr;

use crate::router_errors::octets;

/// An address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix {
    pub(crate) address: IpAddr,
    pub(crate) len: usize,
}

impl Prefix {
    /// The prefix of `len` bits that `address` is in.
    pub(crate) fn of(address: IpAddr, len: usize) -> Self {
        let mut bytes = octets(address);
        for bit in len..bytes.len() * 8 {
            bytes[bit / 8] &= !(0x80 >> (bit % 8));
        }
        let address = match <[u8; 4]>::try_from(&bytes[..]) {
            Ok(four) => IpAddr::from(four),
            Err(_) => IpAddr::from(<[u8; 16]>::try_from(&bytes[..]).expect("16 bytes")),
        };
        Self { address, len }
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// How many addresses it has, at most.
    pub(crate) fn addresses(&self) -> u128 {
        let bits = octets(self.address).len() * 8 - self.len;
        1_u128.checked_shl(bits as u32).unwrap_or(u128::MAX)
    }

    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        let (own, other) = (octets(self.address), octets(address));
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        own.len() == other.len() && (0..self.len).all(|at| bit(&own, at) == bit(&other, at))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}
