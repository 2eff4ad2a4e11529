//! Bindings to different remotes that share an outside port.

use std::collections::BTreeSet;

use warpline_testkit::frames::Body;

use super::model::{assert_sent, dropped};
use super::*;

const KEYS: &str = "mapping = \"address-and-port-dependent\"\nports = \"2000-2063\"\n\
                    bindings = 65536";

fn udp(src: (&str, u16), dst: (&str, u16)) -> Datagram {
    Datagram::new(ip(src.0), ip(dst.0), Body::Udp { src: src.1, dst: dst.1, unsummed: false })
}

fn outside_of(out: &Outcome) -> (String, u16) {
    assert_eq!(dropped(out), None);
    let b = &out.bytes;
    let address = IpAddr::from(<[u8; 4]>::try_from(&b[26..30]).unwrap());
    (address.to_string(), u16::from_be_bytes([b[34], b[35]]))
}

/// A shard has one port of each of three addresses, and 600 bindings of one host.
#[test]
fn a_port_serves_many_remotes() {
    let mut nat = nat(KEYS);
    let (host, mut ends, mut all) = (("10.0.0.1", 7000), BTreeSet::new(), Vec::new());
    for number in 0..600_u16 {
        let remote = (format!("198.51.{}.{}", number / 200, 1 + number % 200), 4000 + number);
        let left = udp(host, (&remote.0, remote.1));
        let outside = outside_of(&sent(&mut nat, 1, &left));
        ends.insert(outside.clone());
        all.push((remote, outside));
    }
    assert_eq!(nat.counter("bindings"), 600);
    assert!(ends.len() <= 3, "{ends:?}");
    for (remote, outside) in &all {
        let back = udp((&remote.0, remote.1), (&outside.0, outside.1));
        assert_sent(&sent(&mut nat, 2, &back), &back.clone().to(ip(host.0), host.1));
        let left = udp(host, (&remote.0, remote.1));
        assert_eq!(&outside_of(&sent(&mut nat, 2, &left)), outside);
        let stranger = udp((&remote.0, remote.1 + 1000), (&outside.0, outside.1));
        assert_eq!(dropped(&sent(&mut nat, 2, &stranger)), Some("no-binding"));
    }
}

/// Hosts of one shard that ask one remote get different ends.
#[test]
fn one_remote_sees_each_end_once() {
    let mut nat = nat(KEYS);
    let mut ends = Vec::new();
    for port in 0..5 {
        let left = udp(("10.0.0.1", 7000 + port), ("198.51.100.1", 53));
        match dropped(&sent(&mut nat, 1, &left)) {
            None => ends.push(outside_of(&sent(&mut nat, 1, &left))),
            refused => assert_eq!(refused, Some("ports-exhausted")),
        }
    }
    assert_eq!(ends.iter().collect::<BTreeSet<_>>().len(), 3, "{ends:?}");
    assert_eq!(ends.len(), 3);
    let other = udp(("10.0.0.1", 7004), ("198.51.100.1", 54));
    assert_eq!(dropped(&sent(&mut nat, 1, &other)), None, "another port of the remote");
    let late = udp(("10.0.0.1", 7004), ("198.51.100.1", 53));
    assert_eq!(dropped(&sent(&mut nat, 400, &late)), None, "when the others expired");
}

/// Without the option each binding has a port of its own.
#[test]
fn other_mappings_share_nothing() {
    for mapping in ["endpoint-independent", "address-dependent"] {
        let mut nat = nat(&KEYS.replace("address-and-port-dependent", mapping));
        let mut ends = BTreeSet::new();
        for number in 0..3_u16 {
            let left = udp(("10.0.0.1", 7000 + number), ("198.51.100.1", 4000 + number));
            assert!(ends.insert(outside_of(&sent(&mut nat, 1, &left))));
        }
    }
}

/// A host has a conversation of its own with the ends of a connection to a forwarded port.
#[test]
fn a_forward_stands_beside_a_conversation_with_the_same_ends() {
    let (server, remote, service) = (("10.0.0.5", 53), ("198.51.100.1", 5000), "203.0.113.1");
    for mapping in ["address-and-port-dependent", "address-dependent", "endpoint-independent"] {
        let keys =
            format!("mapping = \"{mapping}\"\nforwards = [\"udp {service} 53 to 10.0.0.5\"]");
        let mut nat = nat(&keys);
        let own = outside_of(&sent(&mut nat, 1, &udp(server, remote)));
        assert_ne!(own, (service.to_owned(), 53));
        let asks = udp(remote, (service, 53));
        assert_sent(&sent(&mut nat, 1, &asks), &asks.clone().to(ip(server.0), server.1));
        let answer = outside_of(&sent(&mut nat, 1, &udp(server, remote)));
        assert_eq!(answer, (service.to_owned(), 53), "{mapping}");
        // Both still lead to the host.
        let back = udp(remote, (&own.0, own.1));
        assert_sent(&sent(&mut nat, 2, &back), &back.clone().to(ip(server.0), server.1));
    }
}
