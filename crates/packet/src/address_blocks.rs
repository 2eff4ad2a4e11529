//! Sets of addresses, such as inside networks and services.

use core::net::IpAddr;

use crate::Prefix;

/// A set of address blocks. Sets of the same addresses are equal, however their blocks were listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressBlocks {
    /// First and last address of each block, in order; no two touch.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl AddressBlocks {
    /// The addresses of all these blocks, which may overlap.
    pub fn new(blocks: &[Prefix]) -> Self {
        let v4 = blocks.iter().filter_map(v4_range).collect();
        let v6 = blocks.iter().filter_map(v6_range).collect();
        Self { v4: joined(v4, |a| a.checked_add(1)), v6: joined(v6, |a| a.checked_add(1)) }
    }

    /// Whether `address` is in the set.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(a) => holds(&self.v4, a.to_bits()),
            IpAddr::V6(a) => holds(&self.v6, a.to_bits()),
        }
    }

    /// The same by IP version and the address as a number, which for IPv4 fills the low 32 bits.
    #[inline]
    pub fn contains_number(&self, version: u8, address: u128) -> bool {
        match version {
            4 => holds(&self.v4, address as u32),
            _ => holds(&self.v6, address),
        }
    }

    /// Whether an address is in both sets.
    pub fn overlaps(&self, other: &Self) -> bool {
        overlap(&self.v4, &other.v4) || overlap(&self.v6, &other.v6)
    }

    /// First and last address of each stretch of `version`, in order, as numbers.
    pub fn ranges(&self, version: u8) -> impl Iterator<Item = (u128, u128)> {
        let (v4, v6) = match version {
            4 => (&self.v4[..], &[][..]),
            _ => (&[][..], &self.v6[..]),
        };
        v4.iter().map(|&(first, last)| (first.into(), last.into())).chain(v6.iter().copied())
    }
}

/// First and last address of an IPv4 prefix.
fn v4_range(prefix: &Prefix) -> Option<(u32, u32)> {
    let IpAddr::V4(address) = prefix.address() else { return None };
    let rest = u64::from(u32::MAX) >> prefix.len();
    Some((address.to_bits(), address.to_bits() | rest as u32))
}

/// First and last address of an IPv6 prefix.
fn v6_range(prefix: &Prefix) -> Option<(u128, u128)> {
    let IpAddr::V6(address) = prefix.address() else { return None };
    let rest = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
    Some((address.to_bits(), address.to_bits() | rest))
}

/// Blocks in order, those that overlap or touch made one.
fn joined<T: Copy + Ord>(mut blocks: Vec<(T, T)>, next: fn(T) -> Option<T>) -> Vec<(T, T)> {
    blocks.sort_unstable();
    let mut list: Vec<(T, T)> = Vec::with_capacity(blocks.len());
    for (first, last) in blocks {
        match list.last_mut() {
            Some(own) if next(own.1).is_none_or(|next| first <= next) => own.1 = own.1.max(last),
            _ => list.push((first, last)),
        }
    }
    list
}

#[inline]
fn holds<T: Copy + Ord>(blocks: &[(T, T)], address: T) -> bool {
    if let &[(first, last)] = blocks {
        return first <= address && address <= last;
    }
    let after = blocks.partition_point(|&(first, _)| first <= address);
    after.checked_sub(1).and_then(|at| blocks.get(at)).is_some_and(|&(_, last)| address <= last)
}

fn overlap<T: Copy + Ord>(some: &[(T, T)], others: &[(T, T)]) -> bool {
    some.iter().any(|&(first, last)| {
        let from = others.partition_point(|&(_, other_last)| other_last < first);
        others.get(from).is_some_and(|&(other_first, _)| other_first <= last)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blocks(texts: &[&str]) -> AddressBlocks {
        let prefixes: Vec<Prefix> = texts.iter().map(|text| text.parse().unwrap()).collect();
        AddressBlocks::new(&prefixes)
    }

    #[test]
    fn a_set_holds_the_addresses_of_its_blocks() {
        let texts =
            ["10.0.0.0/24", "10.0.1.0/24", "10.0.0.7", "255.255.255.254/31", "2001:db8::/32"];
        let prefixes: Vec<Prefix> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let set = blocks(&texts);
        assert_eq!((set.v4.len(), set.v6.len()), (2, 1), "what touches is one");
        let near = ["9.255.255.255", "10.0.0.0", "10.0.1.255", "10.0.2.0", "255.255.255.253"];
        let far =
            ["255.255.255.255", "2001:db7:ffff::", "2001:db8:ffff:ffff::", "2001:db9::", "::"];
        for text in near.iter().chain(&far) {
            let address: IpAddr = text.parse().unwrap();
            let expected = prefixes.iter().any(|prefix| prefix.contains(address));
            assert_eq!(set.contains(address), expected, "{text}");
        }
        assert!(blocks(&["::/0"]).contains("::1".parse().unwrap()));
        assert!(blocks(&["0.0.0.0/0"]).contains("255.255.255.255".parse().unwrap()));
    }

    #[test]
    fn the_listing_does_not_matter() {
        let one = blocks(&["10.0.0.0/24", "2001:db8::/32", "10.0.1.0/24"]);
        assert_eq!(one, blocks(&["10.0.1.0/24", "10.0.0.0/24", "10.0.0.9", "2001:db8::/32"]));
        assert_ne!(one, blocks(&["10.0.0.0/23"]));
        let ranges: Vec<_> = one.ranges(4).collect();
        assert_eq!(ranges, [(0x0a00_0000, 0x0a00_01ff)]);
        assert_eq!(one.ranges(6).count(), 1);
    }

    proptest! {
        /// Against the prefixes one by one; small numbers, so that blocks meet.
        #[test]
        fn sets_overlap_where_a_prefix_does(
            some in proptest::collection::vec((0..64_u32, 24..=32_u8), 0..5),
            others in proptest::collection::vec((0..64_u32, 24..=32_u8), 0..5),
        ) {
            let prefixes = |list: &[(u32, u8)]| -> Vec<Prefix> {
                let address = |n: u32| IpAddr::V4((n * 37).into());
                list.iter().map(|&(n, len)| Prefix::new(address(n), len).unwrap()).collect()
            };
            let (some, others) = (prefixes(&some), prefixes(&others));
            let meet = |a: &Prefix, b: &Prefix| a.contains(b.address()) || b.contains(a.address());
            let expected = some.iter().any(|a| others.iter().any(|b| meet(a, b)));
            let (a, b) = (AddressBlocks::new(&some), AddressBlocks::new(&others));
            prop_assert_eq!((a.overlaps(&b), b.overlaps(&a)), (expected, expected));
        }
    }
}
