use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use warpline_packet::{Flags, Headers};

use super::hosts::{ADDRESSES_MAX, PORTS_MAX};
use super::*;

fn hosts(text: &str) -> Hosts {
    let mut hosts = Hosts::default();
    hosts.read(text);
    hosts
}

#[test]
fn addresses_networks_and_ports_are_found_in_any_text() {
    let found =
        hosts("vip 192.0.2.10 tcp 80,443\n10.0.0.0/8,fd00:1::/64 via 2001:db8::1: x=[8443] 0/0");
    let v4: Vec<String> = found.v4.iter().map(Ipv4Addr::to_string).collect();
    assert_eq!(v4, ["10.0.0.0", "10.0.0.1", "10.0.0.2", "192.0.2.10"]);
    let v6: Vec<String> = found.v6.iter().map(Ipv6Addr::to_string).collect();
    assert_eq!(v6, ["2001:db8::1", "fd00:1::", "fd00:1::1", "fd00:1::2"]);
    for port in [80, 443, 8443] {
        assert!(found.ports.contains(&port), "{port} in {:?}", found.ports);
    }
    let many: String = (0..1000).map(|n| format!("10.0.{}.{} {n}\n", n / 256, n % 256)).collect();
    let found = hosts(&many);
    assert_eq!((found.v4.len(), found.ports.len()), (ADDRESSES_MAX, PORTS_MAX));
}

#[test]
fn every_kind_of_packet_is_there_and_well_formed() {
    let all = probes(&hosts("10.0.0.0/8"), 6, Instant::from_nanos(5));
    let again = probes(&hosts("10.0.0.0/8"), 6, Instant::from_nanos(5));
    let bytes = |all: &[Input]| all.iter().map(|one| one.bytes.clone()).collect::<Vec<_>>();
    assert_eq!(bytes(&all), bytes(&again));
    assert!(all.is_sorted_by_key(|input| input.timestamp) && all.len() > 600, "{}", all.len());
    let (mut kinds, mut wrong) = (BTreeSet::new(), 0);
    for input in &all {
        let headers = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
        wrong += usize::from(headers.malformed().is_some());
        let fragment = headers.flags.has(Flags::LATER_FRAGMENT);
        kinds.insert((headers.version, headers.protocol, fragment));
    }
    // Some are cut on purpose, or are shorter than their protocol's header.
    assert!(wrong * 20 < all.len(), "{wrong} of {}", all.len());
    for kind in
        [(4, 6, false), (4, 17, true), (4, 1, false), (6, 6, true), (6, 58, false), (0, 0, false)]
    {
        assert!(kinds.contains(&kind), "{kind:?} in {kinds:?}");
    }
}
