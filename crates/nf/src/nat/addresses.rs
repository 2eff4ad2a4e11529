//! Addresses and ports as the translator sees them: which are inside, which are handed out.
//!
//! An address is a `u128` next to its IP version; an IPv4 address fills the low 32 bits.

use core::net::IpAddr;
use core::str::FromStr;

use warpline_packet::{Prefix, SHARDS};

/// Outside addresses that one instance may have.
pub(super) const POOL_MAX: u128 = 1024;

/// An address and a port; the identifier of an ICMP echo takes the port's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: u128,
    pub(crate) port: u16,
}

/// The version and the number of an address.
pub(crate) fn number(address: IpAddr) -> (u8, u128) {
    match address {
        IpAddr::V4(a) => (4, u128::from(a.to_bits())),
        IpAddr::V6(a) => (6, a.to_bits()),
    }
}

/// The address of this version and number.
pub(crate) fn address_of(version: u8, number: u128) -> IpAddr {
    match version {
        4 => IpAddr::V4((number as u32).into()),
        _ => IpAddr::V6(number.into()),
    }
}

/// Some address blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    v4: Vec<Block>,
    v6: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    first: u128,
    mask: u128,
}

impl Blocks {
    pub(super) fn new(prefixes: &[Prefix]) -> Self {
        let mut blocks = Self::default();
        for prefix in prefixes {
            let (version, first) = number(prefix.address());
            let mask = !(size(*prefix) - 1);
            let list = if version == 4 { &mut blocks.v4 } else { &mut blocks.v6 };
            list.push(Block { first, mask });
        }
        blocks
    }

    #[inline]
    pub(super) fn contains(&self, version: u8, address: u128) -> bool {
        let list = if version == 4 { &self.v4 } else { &self.v6 };
        list.iter().any(|block| address & block.mask == block.first)
    }
}

/// How many addresses a prefix has; half of all IPv6 addresses for `::/0`, which is as good here.
pub(super) fn size(prefix: Prefix) -> u128 {
    let width = if prefix.address().is_ipv4() { 32 } else { 128 };
    1 << u32::from(width - prefix.len()).min(127)
}

/// Whether two prefixes share an address.
pub(super) fn overlap(a: Prefix, b: Prefix) -> bool {
    a.contains(b.address()) || b.contains(a.address())
}

/// The outside addresses, numbered from 0 through those of IPv4 and on through those of IPv6.
#[derive(Debug)]
pub(super) struct Pool {
    ranges: Vec<Range>,
    len_v4: usize,
    len: usize,
}

#[derive(Debug)]
struct Range {
    version: u8,
    first: u128,
    count: usize,
    number: usize,
}

impl Pool {
    /// The addresses of `prefixes`, which don't overlap and have at most [`POOL_MAX`] addresses.
    pub(super) fn new(prefixes: &[Prefix]) -> Self {
        let mut pool = Self { ranges: Vec::new(), len_v4: 0, len: 0 };
        for version in [4, 6] {
            let of_version = |p: &&Prefix| number(p.address()).0 == version;
            for prefix in prefixes.iter().filter(of_version) {
                let count = size(*prefix).min(POOL_MAX) as usize;
                let first = number(prefix.address()).1;
                pool.ranges.push(Range { version, first, count, number: pool.len });
                pool.len += count;
            }
            if version == 4 {
                pool.len_v4 = pool.len;
            }
        }
        pool
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The numbers of those of `version`.
    pub(super) fn of_version(&self, version: u8) -> core::ops::Range<usize> {
        if version == 4 { 0..self.len_v4 } else { self.len_v4..self.len }
    }

    /// The number of an address, where it is one of them.
    #[inline]
    pub(super) fn find(&self, version: u8, address: u128) -> Option<u16> {
        let found = |range: &Range| {
            let offset = address.wrapping_sub(range.first);
            let inside = range.version == version && offset < range.count as u128;
            inside.then(|| (range.number + offset as usize) as u16)
        };
        self.ranges.iter().find_map(found)
    }

    /// The address with this number; 0 where there is none.
    #[inline]
    pub(super) fn address(&self, number: u16) -> u128 {
        let number = usize::from(number);
        let holds = |range: &&Range| (range.number..range.number + range.count).contains(&number);
        let range = self.ranges.iter().find(holds);
        range.map_or(0, |range| range.first + (number - range.number) as u128)
    }
}

/// The outside ports that are handed out, from `first` to `last`: at least one for each shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// What is handed out unless the chain file says otherwise: all but the well-known ports.
    pub const DEFAULT: Self = Self { first: 1024, last: u16::MAX };

    /// The first port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// How many ports each of the 64 shards has. What doesn't divide is not used.
    pub const fn per_shard(self) -> u16 {
        ((self.last as usize - self.first as usize + 1) / SHARDS) as u16
    }
}

impl FromStr for PortRange {
    type Err = &'static str;

    /// Reads `FIRST-LAST`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').ok_or("not a range FIRST-LAST")?;
        let port = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let port = if plain { text.parse::<u16>().ok() } else { None };
            port.filter(|&port| port > 0).ok_or("a port is a number from 1 to 65535")
        };
        let (first, last) = (port(first.trim())?, port(last.trim())?);
        if first > last {
            return Err("the first port is above the last");
        }
        let range = Self { first, last };
        if range.per_shard() == 0 { Err("fewer than 64 ports") } else { Ok(range) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges_read_or_say_why_not() {
        let read = |text: &str| text.parse::<PortRange>();
        assert_eq!(read("1024-65535"), Ok(PortRange::DEFAULT));
        assert_eq!(read("1024 - 1087").unwrap().per_shard(), 1);
        assert_eq!(read("1-65535").unwrap().per_shard(), 1023);
        assert_eq!(read("1024-1086"), Err("fewer than 64 ports"));
        assert_eq!(read("9-8"), Err("the first port is above the last"));
        for wrong in ["", "-", "1-", "0-100", "1-65536", "+1-100", "1-1-1", "a-b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pool_numbers_both_ways() {
        let prefixes: Vec<Prefix> = ["2001:db8::8/126", "203.0.113.4/30", "198.51.100.7"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        let pool = Pool::new(&prefixes);
        assert_eq!((pool.len(), pool.of_version(4), pool.of_version(6)), (9, 0..5, 5..9));
        for number in 0..9 {
            let version = if number < 5 { 4 } else { 6 };
            assert_eq!(pool.find(version, pool.address(number)), Some(number));
            assert_eq!(pool.find(10 - version, pool.address(number)), None);
        }
        assert_eq!(pool.find(4, 0xcb00_7103), None);
        assert_eq!(pool.find(4, 0xcb00_7108), None);
        assert_eq!(pool.address(9), 0);
    }

    #[test]
    fn blocks_hold_their_addresses_only() {
        let prefixes = ["10.0.0.0/8", "::/0"].map(|text| text.parse().unwrap());
        let blocks = Blocks::new(&prefixes);
        assert!(blocks.contains(4, 0x0aff_ffff) && !blocks.contains(4, 0x0b00_0000));
        assert!(blocks.contains(6, 0) && blocks.contains(6, 1));
        assert!(!Blocks::new(&prefixes[..1]).contains(6, 0x0a00_0001));
    }
}
