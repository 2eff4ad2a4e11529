//! Forwards, mapped hosts, and packets without translation.

use warpline_testkit::frames::Body;

use super::model::{assert_sent, dropped};
use super::*;

const SYN: u8 = 2;
const ACK: u8 = 16;

const TABLE: &str = "forwards = [\"tcp 203.0.113.1 80 to 10.0.0.5 8080\", \
    \"tcp 203.0.113.1 8080 to 10.0.0.5\", \"udp 203.0.113.8 6000-6009 to 10.0.0.6 7000-7009\", \
    \"tcp 198.18.0.9 443 to 10.0.0.7\", \"tcp 2001:db8::1 80 to fd00::5 8080\"]\n\
    one_to_one = [\"203.0.113.32/30 to 10.2.0.0/30\", \"2001:db8:1::/64 to fd00:0:0:1::/64\"]\n\
    except = [\"10.200.0.0/16\", \"192.168.0.0/16\", \"2001:db8:ffff::/48\"]\n";

fn segment(src: (&str, u16), dst: (&str, u16), flags: u8) -> Datagram {
    Datagram::new(ip(src.0), ip(dst.0), Body::Tcp { src: src.1, dst: dst.1, flags })
}

fn datagram(src: (&str, u16), dst: (&str, u16)) -> Datagram {
    Datagram::new(ip(src.0), ip(dst.0), Body::Udp { src: src.1, dst: dst.1, unsummed: false })
}

/// Each forward: a packet from outside, its inside destination, and the answer.
#[test]
fn forwarded_ports_lead_in_and_answers_keep_them() {
    let mut nat = nat(TABLE);
    for (remote, outside, inside) in [
        (("198.51.100.1", 5000), ("203.0.113.1", 80), ("10.0.0.5", 8080)),
        // The same inside port by another outside one, from the same client.
        (("198.51.100.1", 5001), ("203.0.113.1", 8080), ("10.0.0.5", 8080)),
        (("198.51.100.2", 5000), ("203.0.113.1", 80), ("10.0.0.5", 8080)),
        (("198.51.100.1", 5000), ("198.18.0.9", 443), ("10.0.0.7", 443)),
        (("2001:db8:f::1", 5000), ("2001:db8::1", 80), ("fd00::5", 8080)),
    ] {
        let (to, home) = ((ip(outside.0), outside.1), (ip(inside.0), inside.1));
        let early = segment(inside, remote, SYN | ACK);
        assert_ne!(sent(&mut nat, 1, &early).bytes, early.clone().from(to.0, to.1).frame());
        for (flags, seq) in [(SYN, 1), (ACK, 9)] {
            let packet = segment(remote, outside, flags).numbered(seq, 9);
            assert_sent(&sent(&mut nat, 1, &packet), &packet.to(home.0, home.1));
            let answer = segment(inside, remote, ACK | flags).numbered(seq, 9);
            assert_sent(&sent(&mut nat, 1, &answer), &answer.from(to.0, to.1));
        }
        // An error about the answer, from outside; and one about what came in, from inside.
        let router = ip(if to.0.is_ipv4() { "192.0.2.1" } else { "2001:db8:f::9" });
        let left = segment(outside, remote, ACK).error(router, 48);
        let expected = segment(inside, remote, ACK).error(router, 48);
        assert_sent(&sent(&mut nat, 1, &left), &expected);
        let came = segment(remote, inside, ACK).error(home.0, 48);
        assert_sent(&sent(&mut nat, 1, &came), &segment(remote, outside, ACK).error(to.0, 48));
    }
    let (remote, to) = (("198.51.100.9", 53), ("203.0.113.8", 6007));
    let packet = datagram(remote, to);
    assert_sent(&sent(&mut nat, 1, &packet), &packet.to(ip("10.0.0.6"), 7007));
    let answer = datagram(("10.0.0.6", 7007), remote);
    assert_sent(&sent(&mut nat, 1, &answer), &answer.from(ip(to.0), to.1));
    let beside = datagram(remote, ("203.0.113.8", 6010));
    assert_eq!(dropped(&sent(&mut nat, 1, &beside)), Some("no-binding"));
    let reset = segment(("198.51.100.77", 1), ("203.0.113.1", 80), 4);
    assert_eq!(dropped(&sent(&mut nat, 1, &reset)), Some("no-binding"), "opens nothing");
}

/// A host's own connections from a forwarded port leave like those of any other host.
#[test]
fn a_forwarded_host_asks_like_any_other() {
    let mut nat = nat(TABLE);
    let own = segment(("10.0.0.5", 8080), ("198.51.100.1", 443), SYN);
    let out = sent(&mut nat, 1, &own);
    assert_eq!(dropped(&out), None);
    assert!(outside().contains(&IpAddr::from(<[u8; 4]>::try_from(&out.bytes[26..30]).unwrap())));
    assert_ne!(out.bytes[34..36], 80_u16.to_be_bytes());
}

/// No binding gets a port that is forwarded.
#[test]
fn forwarded_ports_are_not_assigned() {
    let table = "forwards = [\"udp 203.0.113.1 2000-2100 to 10.0.0.5\"]\nports = \"2000-2127\"\n\
                 bindings = 4096";
    let mut nat = nat(table);
    for host in 0..200 {
        let from = format!("10.9.{}.{}", host / 100, host % 100 + 1);
        let out = sent(&mut nat, 1, &datagram((&from, 9), ("198.51.100.1", 9)));
        let b = &out.bytes;
        let port = u16::from_be_bytes([b[34], b[35]]);
        if dropped(&out).is_none() && b[26..30] == [203, 0, 113, 1] {
            assert!(port > 2100, "{port}");
        }
    }
}

/// Mapped hosts keep ports and protocols, without a binding, in both directions.
#[test]
fn mapped_hosts_have_addresses_of_their_own() {
    let mut nat = nat(TABLE);
    let other = |src: &str, dst: &str, protocol| {
        Datagram::new(ip(src), ip(dst), Body::Other { protocol }).with(&[3; 20])
    };
    for (inside, outside, remote) in [
        ("10.2.0.3", "203.0.113.35", "198.51.100.1"),
        ("fd00:0:0:1::77", "2001:db8:1::77", "2001:db8:f::1"),
    ] {
        let echo = |reply| Body::Echo { reply, ident: 7, seq: 1 };
        let mut cases = vec![
            datagram((inside, 53), (remote, 99)),
            segment((inside, 80), (remote, 99), SYN),
            Datagram::new(ip(inside), ip(remote), echo(false)),
            Datagram::new(ip(inside), ip(remote), echo(true)),
        ];
        cases.extend([47, 50, 132].map(|protocol| other(inside, remote, protocol)));
        for packet in cases {
            let port = packet.ports().0;
            assert_sent(&sent(&mut nat, 1, &packet), &packet.clone().from(ip(outside), port));
            let back = Datagram { src: packet.dst, dst: ip(outside), ..packet };
            let to = back.ports().1;
            assert_sent(&sent(&mut nat, 1, &back), &back.clone().to(ip(inside), to));
        }
        let [first, second] = datagram((remote, 53), (outside, 99)).with(&[7; 64]).fragments(24);
        let home = datagram((remote, 53), (inside, 99)).with(&[7; 64]).fragments(24);
        assert_eq!(
            [&send(&mut nat, 1, &second).bytes, &send(&mut nat, 1, &first).bytes],
            [&home[1], &home[0]]
        );
        let about = datagram((outside, 53), (remote, 99)).error(ip(remote), 48);
        let expected = datagram((inside, 53), (remote, 99)).error(ip(remote), 48);
        assert_sent(&sent(&mut nat, 1, &about), &expected);
    }
    assert_eq!(nat.counter("created"), 0);
}

/// Errors about echoes of a mapped host, whichever inside address sends them: its own, another
/// mapped one, one without an outside address, and that of a router outside the prefixes.
#[test]
fn errors_about_echoes_of_mapped_hosts_pass() {
    let mut nat = nat(TABLE);
    let v4 = ["10.2.0.3", "10.2.0.1", "10.9.9.9", "172.16.0.1"];
    let v6 = ["fd00:0:0:1::77", "fd00:0:0:1::1", "fd00:9::9", "2001:db8:aaaa::1"];
    for (host, outside, remote, routers) in [
        (ip(v4[0]), ip("203.0.113.35"), ip("198.51.100.1"), v4),
        (ip(v6[0]), ip("2001:db8:1::77"), ip("2001:db8:f::1"), v6),
    ] {
        for reply in [false, true] {
            let echo = |src, dst| {
                Datagram::new(src, dst, Body::Echo { reply, ident: 7, seq: 1 }).with(&[1; 8])
            };
            for router in routers {
                let reported = echo(remote, host).error(ip(router), 48);
                let expected = echo(remote, outside).error(outside, 48);
                assert_sent(&sent(&mut nat, 1, &reported), &expected);
            }
            let reported = echo(outside, remote).error(remote, 48);
            assert_sent(&sent(&mut nat, 1, &reported), &echo(host, remote).error(remote, 48));
        }
    }
}

/// An error of a mapped host about a packet to a host that is not inside has no binding.
#[test]
fn mapped_hosts_report_packets_to_inside_hosts_alone() {
    let mut nat = nat(TABLE);
    let came = datagram(("198.51.100.1", 9), ("172.16.5.5", 9));
    let reported = came.error(ip("10.2.0.3"), 48);
    assert_eq!(dropped(&sent(&mut nat, 1, &reported)), Some("no-binding"));
}

/// Connections to a forwarded port that end leave room for others.
#[test]
fn ended_connections_to_forwarded_ports_leave_room() {
    let mut nat = nat(&TABLE.replace("forwards", "bindings = 64\nforwards"));
    for round in 0..64 {
        let remote = (&*format!("198.51.100.{}", 1 + round), 9);
        let asks = datagram(remote, ("203.0.113.8", 6001));
        let out = sent(&mut nat, 1 + 1000 * round, &asks);
        assert_sent(&out, &asks.to(ip("10.0.0.6"), 7001));
    }
    assert_eq!((nat.counter("created"), nat.counter("expired")), (64, 63));
}

#[test]
fn excepted_destinations_see_inside_addresses() {
    let mut nat = nat(TABLE);
    for (src, dst) in [("10.0.0.1", "192.168.7.7"), ("fd00::1", "2001:db8:ffff::9")] {
        let packet = datagram((src, 5), (dst, 6));
        assert_sent(&sent(&mut nat, 1, &packet), &packet);
    }
    assert_eq!(nat.counter("untranslated"), 2);
}

#[test]
fn mistakes_say_what_to_write() {
    let table = "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.1\"]\n";
    for (keys, reported) in [
        ("forwards = [\"tcp 203.0.113.1 80\"]", "write PROTOCOL OUTSIDE PORT[-PORT] to INSIDE"),
        ("forwards = [\"gre 203.0.113.1 80 to 10.0.0.1\"]", "only tcp and udp have ports"),
        (
            "forwards = [\"tcp 203.0.113.1 to 10.0.0.1\"]",
            "write PROTOCOL OUTSIDE PORT[-PORT] to INS",
        ),
        ("forwards = [\"6 203.0.113.1 to 10.0.0.1\"]", "protocol 6 can't be forwarded without"),
        (
            "forwards = [\"gre 203.0.113.1 to 10.0.0.1\", \"47 203.0.113.1 to 10.0.0.2\"]",
            "protocol 47 of 203.0.113.1 to 10.0.0.2 overlaps one before it: give it another",
        ),
        ("forwards = [\"tcp 203.0.113.1 0 to 10.0.0.1\"]", "0 is not a port from 1 to 65535"),
        ("forwards = [\"tcp 203.0.113.1 9-8 to 10.0.0.1\"]", "the first port is above the last"),
        (
            "forwards = [\"tcp 203.0.113.1 80-90 to 10.0.0.1 80-81\"]",
            "as many inside ports as outside ports, or one",
        ),
        ("forwards = [\"tcp 203.0.113.1 80 to fd00::1\"]", "of one IP version"),
        ("forwards = [\"tcp 203.0.113.1 80 to 192.0.2.7\"]", "192.0.2.7 is not in `inside`"),
        ("forwards = [\"tcp 10.0.0.9 80 to 10.0.0.1\"]", "10.0.0.9 is in `inside`"),
        (
            "forwards = [\"tcp 203.0.113.1 80-90 to 10.0.0.1\", \
             \"tcp 203.0.113.1 85 to 10.0.0.2\"]",
            "port 85 of 203.0.113.1 to 10.0.0.2 overlaps one before it: give it another",
        ),
        ("one_to_one = [\"203.0.113.8\"]", "write OUTSIDE to INSIDE"),
        ("one_to_one = [\"203.0.113.8/30 to 10.0.0.0/29\"]", "are not of one size"),
        ("one_to_one = [\"203.0.113.8 to 192.0.2.1\"]", "192.0.2.1/32 is not in `inside`"),
        ("one_to_one = [\"203.0.113.1 to 10.0.0.1\"]", "overlaps `inside` or `outside`"),
        (
            "one_to_one = [\"203.0.113.8 to 10.0.0.1\", \"203.0.113.9 to 10.0.0.1\"]",
            "203.0.113.9/32 to 10.0.0.1/32 overlaps one before it",
        ),
    ] {
        let found = mistakes(&format!("{table}{keys}"));
        assert!(found.len() == 1 && found[0].contains(reported), "{keys}: {found:?}");
    }
}

/// A mistake names the item of a list, and the text to write instead.
#[test]
fn mistakes_point_at_the_item() {
    let table = "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.1\"]\n";
    for (keys, place, help) in [
        (
            "forwards = [\n  \"tcp 203.0.113.1 80-90 to 10.0.0.1\",\n  \
             \"tcp 203.0.113.1 85 to 10.0.0.2\",\n  \"tcp 203.0.113.1 91 to 10.0.0.3\",\n]",
            ":5:3: ",
            "write \"tcp 203.0.113.1 92 to 10.0.0.2 85\"",
        ),
        (
            "forwards = [\n  \"udp 203.0.113.1 80-81 to 10.0.0.1\",\n  \
             \"udp 203.0.113.1 81-82 to 10.0.0.1 1\",\n]",
            ":5:3: ",
            "write \"udp 203.0.113.1 82-83 to 10.0.0.1 1\"",
        ),
        (
            "forwards = [\"tcp 203.0.113.1 80 to 192.0.2.7\"]",
            ":3:13: ",
            "write inside = [\"10.0.0.0/8\", \"192.0.2.7\"], or name an inside host",
        ),
        (
            "one_to_one = [\"203.0.113.8 to 10.0.0.1\",\n\"203.0.113.9/32 to 192.0.2.1/32\"]",
            ":4:1: ",
            "write inside = [\"10.0.0.0/8\", \"192.0.2.1/32\"], or name an inside host",
        ),
    ] {
        let reported = try_build(&DEFINITION, &format!("{table}{keys}"), Path::new("."));
        let reported = reported.err().unwrap().to_string();
        assert!(reported.contains(place) && reported.contains(help), "{reported}");
    }
}
