//! Ports against a set of all that are taken.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use warpline_packet::{AddressBlocks, Prefix};

use super::*;

/// 100 ports a shard, so that a word is cut.
const RANGE: &str = "1001-7400";

fn pool(prefixes: &[&str]) -> Pool {
    let prefixes: Vec<Prefix> = prefixes.iter().map(|text| text.parse().unwrap()).collect();
    Pool::new(&AddressBlocks::new(&prefixes)).unwrap()
}

fn ports(range: &str, shard: Shard, pool: &Pool, bindings: usize) -> Ports {
    Ports::new(range.parse().unwrap(), shard, pool, bindings)
}

fn udp(home: u64, hash: u32, like: Option<u16>) -> Wanted {
    Wanted { version: 4, protocol: Protocol::Udp, home, hash, like }
}

#[test]
fn every_port_is_handed_out_once() {
    let pool = pool(&["203.0.113.0/31"]);
    let mut ports = ports(RANGE, Shard::new(3), &pool, 1000);
    let mut seen = BTreeSet::new();
    for i in 0..200u32 {
        let hash = i.wrapping_mul(0x9e37_79b1);
        let taken = ports.take(&udp(1, hash, Some(i as u16))).unwrap();
        assert!((1301..1401).contains(&taken.port), "{taken:?}");
        assert_eq!(taken.address, if i < 100 { 1 } else { 0 }, "the home address first");
        assert!(seen.insert((taken.address, taken.port)));
    }
    assert_eq!(ports.take(&udp(1, 0, None)), None);
    let other = Wanted { protocol: Protocol::Icmp, ..udp(1, 0, None) };
    assert!(ports.take(&other).is_some(), "protocols are apart");
    assert_eq!(ports.take(&Wanted { version: 6, ..other }), None, "no address of IPv6");
    let remote = Endpoint::default();
    let freed = Outside { version: 4, protocol: Protocol::Udp, address: 0, port: 1350, remote };
    ports.release(&freed);
    assert_eq!(ports.take(&udp(1, u32::MAX, Some(1))), Some(freed), "any parity");
}

#[test]
fn parity_is_kept_while_it_can_be() {
    let pool = pool(&["203.0.113.1"]);
    for (shard, count) in [(Shard::new(0), 50), (Shard::WHOLE, 3200)] {
        let mut ports = ports(RANGE, shard, &pool, 10_000);
        for i in 0..count {
            let taken = ports.take(&udp(0, i << 20, Some(7))).unwrap();
            assert_eq!(taken.port % 2, 1);
        }
        assert_eq!(ports.take(&udp(0, 0, Some(7))).unwrap().port % 2, 0);
    }
}

#[test]
fn one_shard_has_all_blocks() {
    let pool = pool(&["203.0.113.1"]);
    let mut ports = ports(RANGE, Shard::WHOLE, &pool, 10_000);
    let taken = std::iter::from_fn(|| ports.take(&udp(0, 1 << 31, None)));
    let all: BTreeSet<u16> = taken.map(|taken| taken.port).collect();
    assert_eq!((all.len(), all.first(), all.last()), (6400, Some(&1001), Some(&7400)));
}

/// The memory of a pool is that of its bindings.
#[test]
fn large_pools_take_no_memory() {
    for prefixes in [&["198.18.0.0/16"][..], &["100.64.0.0/10", "2001:db8::/64"]] {
        let pool = pool(prefixes);
        for (shard, bindings) in [(Shard::new(9), 1024), (Shard::WHOLE, 65_536)] {
            let ports = ports("1024-65535", shard, &pool, bindings);
            let words = ports.bitmaps.capacity();
            assert!(ports.sets.capacity() <= bindings + 1, "{prefixes:?}");
            assert!(words <= 16 * (bindings + 1), "{prefixes:?}: {words}");
        }
    }
}

/// The taken ports, one by one.
struct Model {
    ports: BTreeMap<(u64, u16), ()>,
    addresses: u64,
    first: u16,
    count: u16,
}

impl Model {
    fn is_full(&self, address: u64) -> bool {
        let own = self.ports.range((address, 0)..=(address, u16::MAX));
        own.count() == usize::from(self.count)
    }

    /// The only address that may be chosen; `None` where several may.
    fn address(&self, home: u64) -> Option<u64> {
        let in_turn = self.addresses.min(TRIED_IN_TURN as u64);
        (0..in_turn).map(|n| (home + n) % self.addresses).find(|&own| !self.is_full(own))
    }

    /// The port of an address for a hash, by the words of the manual.
    fn port(&self, address: u64, hash: u32, like: Option<u16>) -> u16 {
        let start = (u64::from(hash) * u64::from(self.count)) >> 32;
        let all = (start as u16..self.count).chain(0..start as u16).map(|n| self.first + n);
        let free: Vec<u16> =
            all.filter(|&port| !self.ports.contains_key(&(address, port))).collect();
        let alike = free.iter().find(|&&port| like.is_none_or(|like| like % 2 == port % 2));
        *alike.unwrap_or(&free[0])
    }
}

#[derive(Clone, Debug)]
enum PortEvent {
    Take { home: u64, hash: u32, like: Option<u16> },
    Release { which: usize },
}

fn step() -> impl Strategy<Value = PortEvent> {
    prop_oneof![
        3 => (any::<u64>(), any::<u32>(), any::<Option<u16>>())
            .prop_map(|(home, hash, like)| PortEvent::Take { home, hash, like }),
        1 => any::<usize>().prop_map(|which| PortEvent::Release { which }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn takes_what_a_map_of_all_ports_would(
        bits in 24..=32_u8,
        homes in 1..4_u64,
        range in prop_oneof![Just("1024-1087"), Just("1001-1256"), Just("2000-3087")],
        whole in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..600),
    ) {
        let prefix = format!("203.0.113.0/{bits}");
        let pool = pool(&[&prefix]);
        let shard = if whole { Shard::WHOLE } else { Shard::new(5) };
        let range: PortRange = range.parse().unwrap();
        let mut ports = Ports::new(range, shard, &pool, 600);
        let block = range.per_shard();
        let (first, count) = match whole {
            true => (range.first(), 64 * block),
            false => (range.first() + 5 * block, block),
        };
        let addresses = 1 << (32 - bits);
        let mut model = Model { ports: BTreeMap::new(), addresses, first, count };
        for step in steps {
            match step {
                PortEvent::Take { home, hash, like } => {
                    // Few homes, so that addresses fill up.
                    let home = home % homes % addresses;
                    let Some(taken) = ports.take(&udp(home, hash, like)) else {
                        let free = (0..addresses).find(|&own| !model.is_full(own));
                        prop_assert_eq!(free, None);
                        continue;
                    };
                    if let Some(expected) = model.address(home) {
                        prop_assert_eq!(taken.address, expected);
                    }
                    prop_assert!(taken.address < addresses && !model.is_full(taken.address));
                    prop_assert_eq!(taken.port, model.port(taken.address, hash, like));
                    model.ports.insert((taken.address, taken.port), ());
                }
                PortEvent::Release { which } if !model.ports.is_empty() => {
                    let nth = model.ports.keys().nth(which % model.ports.len());
                    let (address, port) = *nth.unwrap();
                    model.ports.remove(&(address, port));
                    let protocol = Protocol::Udp;
                    let remote = Endpoint::default();
                    ports.release(&Outside { version: 4, protocol, address, port, remote });
                }
                PortEvent::Release { .. } => {}
            }
        }
    }
}
