//! Address prefixes of routes, rules and translation tables.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address block: an address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// A prefix of `len` bits; `None` if the family has fewer. Bits after it are cleared.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(a) if len <= 32 => {
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask_v4(len)))
            }
            IpAddr::V6(a) if len <= 128 => {
                IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask_v6(len)))
            }
            _ => return None,
        };
        Some(Self { address, len })
    }

    /// The one address.
    pub const fn host(address: IpAddr) -> Self {
        Self { address, len: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Every address of the family of `address`.
    pub const fn family_of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), len: 0 },
            IpAddr::V6(_) => Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), len: 0 },
        }
    }

    /// Its first address.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits count.
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Whether it is a default route's: every address of its family.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Its first and last address as numbers; an IPv4 address is the low 32 bits.
    pub fn bounds(self) -> (u128, u128) {
        let (first, bits) = match self.address {
            IpAddr::V4(a) => (u128::from(a.to_bits()), 32),
            IpAddr::V6(a) => (a.to_bits(), 128),
        };
        let host_bits = bits - u32::from(self.len);
        let host = 1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
        (first, first | host)
    }

    /// Whether `address` lies in it.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(a)) => a.to_bits() & mask_v4(self.len) == own.to_bits(),
            (IpAddr::V6(own), IpAddr::V6(a)) => a.to_bits() & mask_v6(self.len) == own.to_bits(),
            _ => false,
        }
    }
}

impl core::fmt::Display for Prefix {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl core::str::FromStr for Prefix {
    type Err = &'static str;

    /// Reads `ADDRESS/LEN`, or a bare address as one of full length. Set bits after the length are
    /// a mistake.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| "not an IPv4 or IPv6 address")?;
        let full = if address.is_ipv4() { 32 } else { 128 };
        let len = match len {
            Some(len) if len.len() <= 3 && len.bytes().all(|b| b.is_ascii_digit()) => {
                len.parse().map_err(|_| "prefix length out of range")?
            }
            Some(_) => return Err("prefix length is not a number"),
            None => full,
        };
        let prefix = Self::new(address, len).ok_or("prefix length out of range")?;
        if prefix.address != address {
            Err("address has bits set after the prefix length")
        } else {
            Ok(prefix)
        }
    }
}

const fn mask_v4(len: u8) -> u32 {
    if len == 0 { 0 } else { u32::MAX << (32 - len) }
}

const fn mask_v6(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len) }
}
