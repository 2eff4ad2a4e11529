//! Protocols without ports: addresses change, and nothing else.

use warpline_packet::{FlowHasher, Headers, LinkType, Steering};
use warpline_testkit::frames::Body;

use super::model::{assert_sent, dropped};
use super::*;

fn packet(src: &str, dst: &str, protocol: u8) -> Datagram {
    Datagram::new(ip(src), ip(dst), Body::Other { protocol }).with(&[9; 40])
}

fn source(out: &Outcome) -> IpAddr {
    assert_eq!(dropped(out), None);
    match out.bytes[12] {
        8 => <[u8; 4]>::try_from(&out.bytes[26..30]).unwrap().into(),
        _ => <[u8; 16]>::try_from(&out.bytes[22..38]).unwrap().into(),
    }
}

/// GRE, ESP, SCTP and an unassigned protocol of both versions, and AH of IPv4.
const ALL: [(&str, &str, u8); 9] = [
    ("10.0.0.1", "198.51.100.1", 47),
    ("10.0.0.1", "198.51.100.1", 50),
    ("10.0.0.1", "198.51.100.1", 51),
    ("10.0.0.1", "198.51.100.1", 132),
    ("10.0.0.1", "198.51.100.1", 200),
    ("fd00::1", "2001:db8:f::1", 47),
    ("fd00::1", "2001:db8:f::1", 50),
    ("fd00::1", "2001:db8:f::1", 132),
    ("fd00::1", "2001:db8:f::1", 200),
];

#[test]
fn addresses_change_in_both_directions_and_in_errors() {
    let mut nat = nat("");
    for (host, remote, protocol) in ALL {
        let left = packet(host, remote, protocol);
        let outside = source(&sent(&mut nat, 1, &left));
        assert_sent(&sent(&mut nat, 1, &left), &left.clone().from(outside, 0));
        let back = packet(remote, &outside.to_string(), protocol);
        let home = back.clone().to(ip(host), 0);
        assert_sent(&sent(&mut nat, 1, &back), &home);
        let router = ip(if left.is_v6() { "2001:db8:f::9" } else { "198.51.100.9" });
        let about = left.clone().from(outside, 0).error(router, 60);
        assert_sent(&sent(&mut nat, 1, &about), &left.error(router, 60));
        let mut expected = back.error(router, 60);
        expected.src = outside;
        assert_sent(&sent(&mut nat, 1, &home.error(ip(host), 60)), &expected);
        let stranger = if left.is_v6() { "2001:db8:f::77" } else { "198.51.100.77" };
        let other = packet(stranger, &outside.to_string(), protocol);
        assert_eq!(dropped(&sent(&mut nat, 1, &other)), Some("no-binding"));
    }
    assert_eq!(nat.counter("created"), ALL.len() as u64);
}

#[test]
fn fragments_follow_the_first() {
    let mut nat = nat("");
    for (host, remote, protocol) in ALL {
        let left = packet(host, remote, protocol);
        let [first, second] = left.fragments(16);
        let outside = source(&send(&mut nat, 1, &first));
        let expected = left.clone().from(outside, 0).fragments(16);
        assert_eq!(send(&mut nat, 1, &second).bytes, expected[1], "{protocol}");
        let back = packet(remote, &outside.to_string(), protocol);
        let [first, second] = back.fragments(16);
        let expected = back.to(ip(host), 0).fragments(16);
        assert_eq!(send(&mut nat, 1, &first).bytes, expected[0], "{protocol}");
        assert_eq!(send(&mut nat, 1, &second).bytes, expected[1], "{protocol}");
    }
}

#[test]
fn one_host_has_a_remote_by_an_outside_address() {
    let mut nat = nat("");
    let mut outside = Vec::new();
    for host in 1..=3 {
        let left = packet(&format!("10.0.0.{host}"), "198.51.100.1", 47);
        outside.push(source(&sent(&mut nat, 1, &left)));
    }
    let mut all = outside.clone();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3, "each outside address once");
    let fourth = packet("10.0.0.4", "198.51.100.1", 47);
    assert_eq!(dropped(&sent(&mut nat, 1, &fourth)), Some("remote-in-use"));
    assert_eq!(dropped(&sent(&mut nat, 1, &packet("10.0.0.4", "198.51.100.1", 50))), None);
    assert_eq!(dropped(&sent(&mut nat, 1, &packet("10.0.0.4", "198.51.100.2", 47))), None);
    for (host, outside) in (1..).zip(outside) {
        let back = packet("198.51.100.1", &outside.to_string(), 47);
        let home = back.clone().to(ip(&format!("10.0.0.{host}")), 0);
        assert_sent(&sent(&mut nat, 601, &back), &home);
    }
    assert_eq!(dropped(&sent(&mut nat, 602, &fourth)), None, "ten minutes later");
}

/// A forward takes all packets of a protocol, and its host answers by the same address.
#[test]
fn forwards_lead_in() {
    let table = "forwards = [\"gre 203.0.113.1 to 10.0.0.5\", \"132 203.0.113.8 to 10.0.0.6\"]";
    let mut nat = nat(table);
    for (protocol, outside, host) in
        [(47, "203.0.113.1", "10.0.0.5"), (132, "203.0.113.8", "10.0.0.6")]
    {
        for remote in ["198.51.100.1", "198.51.100.2"] {
            let came = packet(remote, outside, protocol);
            assert_sent(&sent(&mut nat, 1, &came), &came.clone().to(ip(host), 0));
            let answer = packet(host, remote, protocol);
            assert_sent(&sent(&mut nat, 1, &answer), &answer.clone().from(ip(outside), 0));
            let about = answer.clone().from(ip(outside), 0).error(ip(remote), 60);
            assert_sent(&sent(&mut nat, 1, &about), &answer.error(ip(remote), 60));
        }
    }
    // Bindings of other hosts don't use a forwarded address.
    for host in 20..40 {
        let left = packet(&format!("10.0.0.{host}"), &format!("198.51.101.{host}"), 47);
        assert_ne!(source(&sent(&mut nat, 1, &left)), ip("203.0.113.1"));
    }
}

/// One shard has both directions and the errors about them, whatever the remote.
#[test]
fn both_directions_meet_in_a_shard() {
    let mut nat = nat("");
    let steering = Steering::serving(nat.function().state_key());
    let shard = |datagram: &Datagram| {
        let frame = datagram.frame();
        let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
        steering.steer(&FlowHasher::SEED_0, &frame, &headers).shard
    };
    let mut all = std::collections::BTreeSet::new();
    for number in 0..200 {
        let (host, remote) = (format!("10.0.0.{number}"), format!("198.51.{number}.7"));
        let left = packet(&host, &remote, 50);
        let outside = source(&sent(&mut nat, 1, &left));
        let back = packet(&remote, &outside.to_string(), 50);
        all.insert(shard(&left));
        assert_eq!(shard(&left), shard(&back));
        let router = ip("192.0.2.1");
        assert_eq!(shard(&left), shard(&left.clone().from(outside, 0).error(router, 60)));
        assert_eq!(shard(&left), shard(&back.to(ip(&host), 0).error(router, 60)));
    }
    assert!(all.len() > 50, "{}", all.len());
}

/// A packet from inside prolongs a binding.
#[test]
fn sctp_has_a_timeout_of_its_own() {
    for (protocol, keys, timeout) in [
        (132, "", 210),
        (47, "", 600),
        (132, "sctp_timeout_s = 40\nother_timeout_s = 50", 40),
        (47, "sctp_timeout_s = 40\nother_timeout_s = 50", 50),
    ] {
        let mut nat = nat(keys);
        let out = packet("10.0.0.1", "198.51.100.1", protocol);
        let outside = source(&sent(&mut nat, 1, &out));
        source(&sent(&mut nat, timeout, &out));
        let back = packet("198.51.100.1", &outside.to_string(), protocol);
        let until = 2 * timeout;
        assert_eq!(dropped(&sent(&mut nat, until, &back)), None, "{protocol} {keys}");
        let out = sent(&mut nat, until + 1, &back);
        assert_eq!(dropped(&out), Some("no-binding"), "{protocol} {keys}");
    }
}
