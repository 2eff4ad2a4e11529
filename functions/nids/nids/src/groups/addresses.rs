//! Rules by address, for rules with nothing else to find them by.
//!
//! Most packets have no address that a rule names: a bit for each /16 shows that without a search.

use core::net::IpAddr;

use super::ranges::Ranges;
use warpline_nids_rules::Addresses;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AddressIndex {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    /// A bit for each possible first half of an IPv4 address: some range has part of it.
    named: Box<[u64]>,
}

impl AddressIndex {
    /// Of rules and the addresses that each names, in the order in which they are found.
    pub(super) fn new<'a>(rules: impl Iterator<Item = (u32, &'a Addresses)> + Clone) -> Self {
        let v4 = rules.clone().flat_map(|(rule, addresses)| {
            addresses.v4.iter().map(move |&(a, b)| (a.to_bits(), b.to_bits(), rule))
        });
        let v6 = rules.flat_map(|(rule, addresses)| {
            addresses.v6.iter().map(move |&(a, b)| (a.to_bits(), b.to_bits(), rule))
        });
        let v4: Vec<_> = v4.collect();
        let mut named = vec![0u64; 1 << 10].into_boxed_slice();
        for half in v4.iter().flat_map(|&(a, b, _)| a >> 16..=b >> 16) {
            named[half as usize / 64] |= 1 << (half % 64);
        }
        Self {
            v4: Ranges::new(v4, |a| a.checked_add(1)),
            v6: Ranges::new(v6.collect(), |a| a.checked_add(1)),
            named,
        }
    }

    /// The rules that name `address`.
    pub(super) fn of(&self, address: IpAddr) -> &[u32] {
        match address {
            IpAddr::V4(address) => {
                let bits = address.to_bits();
                let half = bits as usize >> 16;
                let is_named =
                    self.named.get(half / 64).is_some_and(|word| word >> (half % 64) & 1 == 1);
                if is_named { self.v4.of(bits) } else { &[] }
            }
            IpAddr::V6(address) => self.v6.of(address.to_bits()),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_rules_of_an_address_are_those_that_name_it(
            sets in prop::collection::vec(prop::collection::vec((any::<u8>(), 0..9u8), 0..6),
                0..20),
        ) {
            // Sets as a reader makes them: sorted, none touching. Small numbers at both ends of the
            // space.
            let sets: Vec<Addresses> = sets.iter().map(|ranges| set(ranges)).collect();
            let index = AddressIndex::new((0..).zip(&sets));
            for n in 0..=u8::MAX {
                for address in [v4(n).into(), v6(n).into()] {
                    let named = |set: &Addresses| match address {
                        IpAddr::V4(a) => set.v4.iter().any(|&(x, y)| x <= a && a <= y),
                        IpAddr::V6(a) => set.v6.iter().any(|&(x, y)| x <= a && a <= y),
                    };
                    let expected: Vec<u32> =
                        (0..).zip(&sets).filter(|(_, s)| named(s)).map(|(n, _)| n).collect();
                    prop_assert_eq!(index.of(address), &expected[..]);
                }
            }
        }
    }

    /// Half of the numbers are the space's first addresses, half its last.
    fn v4(n: u8) -> Ipv4Addr {
        Ipv4Addr::from_bits(if n < 128 { u32::from(n) } else { u32::MAX - u32::from(u8::MAX - n) })
    }

    fn v6(n: u8) -> Ipv6Addr {
        Ipv6Addr::from_bits(if n < 128 {
            u128::from(n)
        } else {
            u128::MAX - u128::from(u8::MAX - n)
        })
    }

    fn set(ranges: &[(u8, u8)]) -> Addresses {
        let mut has = [false; 256];
        ranges
            .iter()
            .for_each(|&(a, n)| (a..=a.saturating_add(n)).for_each(|n| has[usize::from(n)] = true));
        let mut set = Addresses::default();
        for n in (0..=u8::MAX).filter(|&n| has[usize::from(n)]) {
            // 127 and 128 don't touch.
            let extends = n > 0 && n != 128 && has[usize::from(n) - 1];
            match (extends, set.v4.last_mut(), set.v6.last_mut()) {
                (true, Some(a), Some(b)) => (a.1, b.1) = (v4(n), v6(n)),
                _ => {
                    set.v4.push((v4(n), v4(n)));
                    set.v6.push((v6(n), v6(n)));
                }
            }
        }
        set
    }
}
