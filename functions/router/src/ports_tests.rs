//! Routes in a chain with ports, and the ports of next hops.

use std::net::IpAddr;

use super::routes::{Target, Unsupported};
use super::*;
use warpline_nf::{Port, Ports, Side, SourceText};
use warpline_rule_files::neighbours;

fn ports(names: &[&str]) -> Ports {
    let port = |name: &&str| Port { name: (*name).into(), side: Side::Inside };
    Ports::new(names.iter().map(port).collect())
}

/// The port of each destination, `drop` where there is none to go to.
fn leave(text: &str, neighbours: Option<&str>, checks: Checks, names: &[&str]) -> Vec<String> {
    let ports = ports(names);
    let source = SourceText::new("routes", text);
    let found =
        routes::read(&source, Unsupported::Error, &ports, &mut |reported| panic!("{reported}"));
    let macs = neighbours.map(|text| SourceText::new("neighbours", text));
    let macs =
        macs.as_ref().map(|text| neighbours::read(text, &mut |reported| panic!("{reported}")));
    let fib = Fib::new(&found, macs.as_ref(), checks).unwrap();
    let to = ["10.1.0.1", "10.2.0.1", "192.0.2.7", "192.0.2.255", "198.51.100.7", "2001:db8::1"];
    to.map(|to| {
        let hop = match to.parse().unwrap() {
            IpAddr::V4(address) => fib.v4.lookup(address.to_bits()),
            IpAddr::V6(address) => fib.v6.lookup(address.to_bits()),
        };
        match (fib.next(hop), fib.ports[usize::from(hop)]) {
            (Err(_), _) => "drop".into(),
            (Ok(_), Some(port)) => names[usize::from(port)].into(),
            (Ok(_), None) => "-".into(),
        }
    })
    .to_vec()
}

const ROUTES: &str = "10.1.0.0/16 via 192.0.2.1 dev wan\n10.2.0.0/16 192.0.2.1\n\
    192.0.2.0/24 dev lan\n198.51.100.0/24 via 192.0.2.1 dev lan\n\
    2001:db8::/32 via fe80::1 dev wan\n";

#[test]
fn next_hops_have_ports() {
    // Without an interface, a next hop is on the link of its address.
    let plain = ["wan", "lan", "lan", "lan", "lan", "wan"];
    assert_eq!(leave(ROUTES, None, Checks::NONE, &["lan", "wan"]), plain);
    assert_eq!(leave(ROUTES, None, Checks::EVERY, &["lan", "wan"])[3], "drop");
    assert_eq!(leave(ROUTES, None, Checks::NONE, &[]), ["-"; 6]);
    let macs = "192.0.2.1 02:00:00:00:00:01\n192.0.2.7 02:00:00:00:00:07\n\
        fe80::1 dev wan lladdr 02:00:00:00:00:06 REACHABLE\n";
    assert_eq!(leave(ROUTES, Some(macs), Checks::NONE, &["lan", "wan"]), plain);
    let no_link = "10.1.0.0/16 via 192.0.2.1 dev wan\n10.2.0.0/16 203.0.113.1\n";
    let expected = ["wan", "-", "drop", "drop", "drop", "drop"];
    assert_eq!(leave(no_link, None, Checks::NONE, &["lan", "wan"]), expected);
}

#[test]
fn one_gateway_on_two_links_is_two_next_hops() {
    let source = SourceText::new("r", "10.1.0.0/16 192.0.2.1 dev a\n10.2.0.0/16 192.0.2.1 dev b\n");
    for (names, hops) in [(&["a", "b"][..], 2), (&[], 1)] {
        let found = routes::read(&source, Unsupported::Error, &ports(names), &mut |_| panic!());
        assert_eq!(found.targets.len(), hops);
    }
}

#[test]
fn routes_that_name_no_port_are_reported() {
    let text = "10.1.0.0/16 via 192.0.2.1 dev eth7\n10.2.0.0/16 192.0.2.1\n\
        unreachable 10.3.0.0/16 dev lo\n192.0.2.0/24 dev b\ndefault dev c\n10.4.0.0/16 10.9.9.9\n\
        10.5.0.0/16 direct\n";
    let source = SourceText::new("r", text);
    for (names, unsupported, reported) in [
        (&["b", "c"][..], Unsupported::Error, vec!["1:31 `eth7` is no port of this chain"]),
        (&["b", "c"], Unsupported::Skip, vec![]),
        (
            &["a", "b", "c"],
            Unsupported::Error,
            vec![
                "1:31 `eth7` is no port of this chain",
                "7:1 the route to 10.5.0.0/16 names no port",
            ],
        ),
        (&[], Unsupported::Error, vec![]),
    ] {
        let mut all = Vec::new();
        let mut note = |d: warpline_nf::Diagnostic| {
            all.push(format!("{}:{} {}", d.line, d.column, d.message));
        };
        let found = routes::read(&source, unsupported, &ports(names), &mut note);
        assert_eq!(all, reported, "{names:?}");
        let first = found.routes.iter().find(|route| route.line == 1).unwrap();
        let target = found.targets[usize::from(first.hop) - 1];
        assert_eq!(target == Target::Unsupported, !names.is_empty(), "{names:?}");
    }
}

#[test]
fn routers_of_a_chain_have_numbers_of_their_own() {
    for (before, hops, first) in [
        (0, 9, Some(0)),
        (1, 9, Some(1024)),
        (1024, 9, Some(1024)),
        (1025, 9, Some(2048)),
        (64_512, 1024, Some(64_512)),
        (64_512, 1025, None),
        (64_513, 1, None),
        (0, 65_536, Some(0)),
    ] {
        assert_eq!(config::first_hop(before, hops), first, "{before} {hops}");
    }
}
