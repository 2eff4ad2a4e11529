//! Addresses and ports as the translator sees them: which are inside, which are handed out.
//!
//! An address is a `u128` next to its IP version; an IPv4 address fills the low 32 bits.

use core::cmp::Reverse;
use core::net::IpAddr;
use core::str::FromStr;
use std::collections::HashSet;

use warpline_packet::{AddressBlocks, Prefix, SHARDS};

/// An address and a port; the identifier of an ICMP echo takes the port's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// The address as a number; IPv4 fills the low 32 bits.
    pub address: u128,
    /// The port, or the identifier of an echo.
    pub port: u16,
}

/// The version and the number of an address.
pub fn number(address: IpAddr) -> (u8, u128) {
    match address {
        IpAddr::V4(a) => (4, u128::from(a.to_bits())),
        IpAddr::V6(a) => (6, a.to_bits()),
    }
}

/// The address of this version and number.
pub fn address_of(version: u8, number: u128) -> IpAddr {
    match version {
        4 => IpAddr::V4((number as u32).into()),
        _ => IpAddr::V6(number.into()),
    }
}

/// Two prefixes with an address in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The first is outside, the second inside.
    Inside(Prefix, Prefix),
    /// Both are outside; the first is listed later.
    Outside(Prefix, Prefix),
}

/// A prefix with its place in its list.
#[derive(Clone, Copy)]
struct Listed {
    version: u8,
    first: u128,
    last: u128,
    is_outside: bool,
    place: usize,
    prefix: Prefix,
}

/// The overlaps of `outside` with itself and with `inside`: at most one of each kind for a prefix
/// of `outside`.
pub fn overlaps(inside: &[Prefix], outside: &[Prefix]) -> Vec<Overlap> {
    let lists = [(inside, false), (outside, true)];
    let mut all: Vec<Listed> = lists.iter().flat_map(|&(list, own)| listed(list, own)).collect();
    all.sort_unstable_by_key(|own| (own.version, own.first, Reverse(own.last), own.place));
    let (mut found, mut reported) = (Vec::new(), HashSet::new());
    // Of each list, the prefix so far that reaches furthest.
    let mut furthest: [Option<Listed>; 2] = [None; 2];
    for own in all {
        for other in furthest.iter().flatten() {
            let meet = other.version == own.version && other.last >= own.first;
            if !meet || !(own.is_outside || other.is_outside) {
                continue;
            }
            let (a, b) = if own.is_outside { (own, *other) } else { (*other, own) };
            let (a, b) = if b.is_outside && b.place > a.place { (b, a) } else { (a, b) };
            if reported.insert((a.place, b.is_outside)) {
                let overlap = if b.is_outside { Overlap::Outside } else { Overlap::Inside };
                found.push(overlap(a.prefix, b.prefix));
            }
        }
        let furthest = &mut furthest[usize::from(own.is_outside)];
        if furthest.is_none_or(|old| (old.version, old.last) < (own.version, own.last)) {
            *furthest = Some(own);
        }
    }
    found
}

fn listed(list: &[Prefix], is_outside: bool) -> impl Iterator<Item = Listed> {
    list.iter().enumerate().map(move |(place, &prefix)| {
        let (version, first) = number(prefix.address());
        let width = if version == 4 { 32 } else { 128 };
        let rest = 1_u128.checked_shl(width - u32::from(prefix.len())).map_or(u128::MAX, |n| n - 1);
        Listed { version, first, last: first | rest, is_outside, place, prefix }
    })
}

/// The outside addresses of each IP version, numbered from 0 in the order of their values.
#[derive(Debug)]
pub struct Pool {
    v4: Numbered,
    v6: Numbered,
}

#[derive(Debug)]
struct Numbered {
    ranges: Vec<Range>,
    len: u128,
}

#[derive(Debug)]
struct Range {
    first: u128,
    last: u128,
    /// Of the first address.
    number: u64,
}

impl Pool {
    /// Addresses of a version that a pool may have.
    pub const LEN_MAX: u128 = 1 << 64;

    /// A pool of `blocks`; `None` where these have more than [`Self::LEN_MAX`] addresses of a
    /// version.
    pub fn new(blocks: &AddressBlocks) -> Option<Self> {
        Some(Self { v4: Numbered::new(blocks.ranges(4))?, v6: Numbered::new(blocks.ranges(6))? })
    }

    fn of(&self, version: u8) -> &Numbered {
        if version == 4 { &self.v4 } else { &self.v6 }
    }

    /// How many there are of `version`.
    pub fn len(&self, version: u8) -> u128 {
        self.of(version).len
    }

    /// The number of an address, where it is one of them.
    #[inline]
    pub fn find(&self, version: u8, address: u128) -> Option<u64> {
        let ranges = &self.of(version).ranges;
        let range = match &ranges[..] {
            [only] if only.first <= address => only,
            ranges => {
                let after = ranges.partition_point(|range| range.first <= address);
                ranges.get(after.checked_sub(1)?)?
            }
        };
        (address <= range.last).then(|| range.number + (address - range.first) as u64)
    }

    /// The address with this number; 0 where there is none.
    #[inline]
    pub fn address(&self, version: u8, number: u64) -> u128 {
        let ranges = &self.of(version).ranges;
        if let [only] = &ranges[..] {
            let address = only.first + u128::from(number);
            return if address <= only.last { address } else { 0 };
        }
        let after = ranges.partition_point(|range| range.number <= number);
        let range = after.checked_sub(1).and_then(|at| ranges.get(at));
        let address = range.map(|range| range.first + u128::from(number - range.number));
        address.filter(|&address| range.is_some_and(|range| address <= range.last)).unwrap_or(0)
    }

    /// The number that a hash names. Up to 2^32 addresses, its upper half decides.
    pub fn named(&self, version: u8, hash: u64) -> u64 {
        let len = self.len(version);
        match u32::try_from(len) {
            Ok(len) => (u64::from((hash >> 32) as u32) * u64::from(len)) >> 32,
            Err(_) => ((u128::from(hash) * len) >> 64) as u64,
        }
    }
}

impl Numbered {
    fn new(ranges: impl Iterator<Item = (u128, u128)>) -> Option<Self> {
        let mut own = Self { ranges: Vec::new(), len: 0 };
        for (first, last) in ranges {
            let count = (last - first).checked_add(1)?;
            if own.len + count > Pool::LEN_MAX {
                return None;
            }
            // Only after a range that fills the pool would it not fit, and there is none.
            own.ranges.push(Range { first, last, number: own.len as u64 });
            own.len += count;
        }
        Some(own)
    }
}

/// The outside ports that are handed out, from `first` to `last`: at least one for each shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The default range: all ports except the well-known ones.
    pub const DEFAULT: Self = Self { first: 1024, last: u16::MAX };

    /// The first port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// Ports of each of the 64 shards. The remainder of the division is unused.
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

    fn prefixes(texts: &[&str]) -> Vec<Prefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn pool(texts: &[&str]) -> Option<Pool> {
        Pool::new(&AddressBlocks::new(&prefixes(texts)))
    }

    #[test]
    fn pool_numbers_both_ways() {
        let pool = pool(&["2001:db8::8/126", "203.0.113.4/30", "198.51.100.7"]).unwrap();
        assert_eq!((pool.len(4), pool.len(6)), (5, 4));
        for version in [4, 6] {
            for number in 0..pool.len(version) as u64 {
                let address = pool.address(version, number);
                assert_eq!(pool.find(version, address), Some(number));
                assert_eq!(pool.find(10 - version, address), None);
            }
        }
        assert_eq!(pool.address(4, 0), 0xc633_6407, "by value, not by place in the list");
        assert_eq!(pool.find(4, 0xcb00_7103), None);
        assert_eq!(pool.find(4, 0xcb00_7108), None);
        assert_eq!((pool.address(4, 5), pool.address(6, 4)), (0, 0));
    }

    #[test]
    fn pools_are_as_large_as_numbers() {
        let sizes = [
            ("0.0.0.0/0", Some((1 << 32, 0))),
            ("2001:db8::/64", Some((0, 1 << 64))),
            ("2001:db8::/63", None),
            ("::/0", None),
        ];
        for (text, expected) in sizes {
            let own = pool(&[text]);
            assert_eq!(own.as_ref().map(|pool| (pool.len(4), pool.len(6))), expected, "{text}");
        }
        let whole = pool(&["2001:db8::/64", "100.64.0.0/10"]).unwrap();
        let last = 0x2001_0db8_0000_0000_ffff_ffff_ffff_ffff;
        assert_eq!(whole.find(6, last), Some(u64::MAX));
        assert_eq!(whole.address(6, u64::MAX), last);
        assert_eq!(whole.named(4, u64::MAX), (1 << 22) - 1);
        assert!(whole.named(6, u64::MAX) > u64::MAX - 2);
        assert!(pool(&["2001:db8::/65", "2001:db8:1::/65", "2001:db8:2::/128"]).is_none());
    }

    #[test]
    fn overlaps_are_found_in_any_order() {
        let of = |inside: &[&str], outside: &[&str]| {
            let found = overlaps(&prefixes(inside), &prefixes(outside)).into_iter();
            let text = |overlap| match overlap {
                Overlap::Inside(a, b) => format!("{a} in {b}"),
                Overlap::Outside(a, b) => format!("{a} and {b}"),
            };
            found.map(text).collect::<Vec<_>>()
        };
        let inside = ["10.0.0.0/24", "10.0.0.0/8", "fd00::/8"];
        assert_eq!(of(&inside, &["203.0.113.0/24", "0.0.0.9", "2001:db8::/64"]), [""; 0]);
        assert_eq!(of(&inside, &["10.9.0.0/16"]), ["10.9.0.0/16 in 10.0.0.0/8"]);
        assert_eq!(of(&["10.1.0.0/24", "10.1.1.0/24"], &["10.1.0.0/16"]).len(), 1);
        assert_eq!(
            of(&inside, &["203.0.113.0/24", "203.0.113.7", "203.0.113.0/25"]),
            ["203.0.113.0/25 and 203.0.113.0/24", "203.0.113.7/32 and 203.0.113.0/24"]
        );
        assert_eq!(of(&[], &["1.0.0.0/8", "1.0.0.0/8"]), ["1.0.0.0/8 and 1.0.0.0/8"]);
        assert_eq!(of(&["::/0"], &["0.0.0.0/0"]), [""; 0]);
    }
}
