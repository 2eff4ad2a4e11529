//! Pools of many outside addresses, and the order in which they are listed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use warpline_packet::{FlowHasher, Headers, LinkType, Prefix, Steering, Verdict};

use super::*;
use warpline_testkit::frames::Body;

const INSIDE: &str = "inside = [\"10.0.0.0/8\", \"fd00::/16\"]\n";

fn translator(outside: &str, keys: &str) -> Harness {
    let table = format!("{INSIDE}outside = [{outside}]\n{keys}\n");
    let (function, words) = build(&DEFINITION, &table, Path::new("."));
    Harness::new(function, words)
}

fn udp(src: (IpAddr, u16), dst: (IpAddr, u16)) -> Datagram {
    Datagram::new(src.0, dst.0, Body::Udp { src: src.1, dst: dst.1, unsummed: false })
}

/// Source and destination of a UDP frame that was not dropped.
fn ends(out: &Outcome) -> [(IpAddr, u16); 2] {
    assert_eq!(out.verdict, Verdict::Forward);
    let b = &out.bytes;
    let port = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
    let four = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&b[at..at + 4]).unwrap());
    let sixteen = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&b[at..at + 16]).unwrap());
    match b[14] >> 4 {
        4 => [(four(26), port(34)), (four(30), port(36))],
        _ => [(sixteen(22), port(54)), (sixteen(38), port(56))],
    }
}

fn host(v6: bool, number: u32) -> IpAddr {
    match v6 {
        false => IpAddr::from((0x0a00_0000 + number).to_be_bytes()),
        true => IpAddr::from(((0xfd00_u128 << 112) + u128::from(number)).to_be_bytes()),
    }
}

fn remote(v6: bool) -> (IpAddr, u16) {
    (ip(if v6 { "2001:db8:f::1" } else { "198.51.100.1" }), 53)
}

/// Each host has an address of its pool, its answers come back to it, in the shard of the packet
/// that they answer.
#[test]
fn every_size_of_pool_translates_both_ways() {
    let pools = [
        ("203.0.113.0/30", "2001:db8::/126"),
        ("198.18.0.0/16", "2001:db8::/112"),
        ("100.64.0.0/10", "2001:db8::/96"),
        ("198.18.0.0/15", "2001:db8::/64"),
    ];
    for (v4, v6) in pools {
        let mut nat = translator(&format!("\"{v4}\", \"{v6}\""), "bindings = 4096");
        let steering = Steering::serving(nat.function().state_key());
        let shard = |datagram: &Datagram| {
            let frame = datagram.frame();
            let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
            steering.steer(&FlowHasher::SEED_0, &frame, &headers).shard
        };
        for (is_v6, pool) in [(false, v4), (true, v6)] {
            let pool: Prefix = pool.parse().unwrap();
            let mut homes = BTreeSet::new();
            for number in 1..=256 {
                let inside = (host(is_v6, number * 7), 5000);
                let asked = udp(inside, remote(is_v6));
                let [outside, _] = ends(&sent(&mut nat, 1, &asked));
                assert!(pool.contains(outside.0), "{outside:?} is not in {pool}");
                homes.insert(outside.0);
                let answer = udp(remote(is_v6), outside);
                assert_eq!(ends(&sent(&mut nat, 1, &answer)), [remote(is_v6), inside]);
                assert_eq!(shard(&answer), shard(&asked));
            }
            let width = if is_v6 { 128 } else { 32 };
            let most = 1 << (width - pool.len()).min(8);
            assert!(homes.len() * 10 >= most * 9, "{} addresses of {pool}", homes.len());
        }
    }
}

/// With one port a shard, hosts of one shard take an address each until there are no more.
#[test]
fn a_pool_is_used_up_to_its_last_port() {
    let keys = "ports = \"2000-2063\"\nbindings = 65536";
    let mut nat = translator("\"203.0.113.0/25\", \"2001:db8::1\"", keys);
    let steering = Steering::serving(nat.function().state_key());
    let mut taken: BTreeMap<u8, BTreeSet<(IpAddr, u16)>> = BTreeMap::new();
    for number in 1..=20_000 {
        let asked = udp((host(false, number), 5000), remote(false));
        let frame = asked.frame();
        let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
        let shard = steering.steer(&FlowHasher::SEED_0, &frame, &headers).shard;
        let [outside, _] = ends(&sent(&mut nat, 1, &asked));
        assert_eq!(outside.1, 2000 + u16::from(shard));
        let own = taken.entry(shard).or_default();
        assert!(own.insert(outside) || own.len() == 128, "{outside:?} twice");
    }
    assert!(taken.len() == 64 && taken.values().all(|own| own.len() == 128));
    assert_eq!(nat.counter("evicted-udp"), 20_000 - 64 * 128);
}

/// The same addresses, listed in ways that mean the same.
const LISTINGS: [&[&str]; 4] = [
    &["203.0.113.4/30", "198.51.100.7", "2001:db8::/126", "192.0.2.0/24"],
    &["203.0.113.4/31", "203.0.113.6/31", "198.51.100.7/32", "2001:db8::/126", "192.0.2.0/24"],
    &["203.0.113.4/30", "198.51.100.7", "2001:db8::2/127", "2001:db8::/127", "192.0.2.0/24"],
    &["203.0.113.4/30", "198.51.100.7", "2001:db8::/126", "192.0.2.128/25", "192.0.2.0/25"],
];

fn listing() -> impl Strategy<Value = String> {
    let lists = proptest::sample::select(&LISTINGS[..]);
    lists.prop_flat_map(|list| Just(list.to_vec()).prop_shuffle()).prop_map(|list| {
        let quoted: Vec<String> = list.iter().map(|prefix| format!("{prefix:?}")).collect();
        quoted.join(", ")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_listing_of_outside_addresses_does_not_matter(one in listing(), other in listing()) {
        let mut nats = [one, other].map(|outside| translator(&outside, ""));
        let keys = nats.each_ref().map(|nat| nat.function().state_key());
        prop_assert_eq!(&keys[0], &keys[1]);
        for number in 1..200 {
            let asked = udp((host(number % 2 == 0, number), 5000), remote(number % 2 == 0));
            let [a, b] = nats.each_mut().map(|nat| sent(nat, 1, &asked));
            prop_assert_eq!(a, b);
        }
    }
}
