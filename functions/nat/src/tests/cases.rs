//! Single cases, each a clause of a standard, a drop reason or a mistake in the table.

use warpline_packet::wire::Malformed;
use warpline_packet::{
    Arena, ArenaLayout, Arrival, Batch, FlowHasher, Headers, HeapMemory, LinkType, Shard, Verdict,
};

use super::super::{MANUAL, Refusal};
use super::model::{assert_sent, dropped};
use super::*;
use warpline_nf::Emit;
use warpline_testkit::frames::{Body, naive_checksum};

const SYN: u8 = 2;
const ACK: u8 = 16;

fn udp(src: &str, dst: &str, ports: (u16, u16)) -> Datagram {
    Datagram::new(ip(src), ip(dst), Body::Udp { src: ports.0, dst: ports.1, unsummed: false })
}

fn tcp(src: &str, dst: &str, ports: (u16, u16), flags: u8) -> Datagram {
    Datagram::new(ip(src), ip(dst), Body::Tcp { src: ports.0, dst: ports.1, flags })
}

/// The outside source of a datagram that left.
fn mapped(out: &Outcome) -> (IpAddr, u16) {
    assert_eq!(out.verdict, Verdict::Forward, "{:?}", dropped(out));
    let (b, v6) = (&out.bytes, out.bytes[12] == 0x86);
    let l4 = if v6 { 54 } else { 34 };
    let address = match v6 {
        false => IpAddr::from(<[u8; 4]>::try_from(&b[26..30]).unwrap()),
        true => IpAddr::from(<[u8; 16]>::try_from(&b[22..38]).unwrap()),
    };
    (address, u16::from_be_bytes([b[l4], b[l4 + 1]]))
}

#[test]
fn all_mistakes_are_reported() {
    let reported = mistakes(
        "inside = [\"10.0.0.0/8\", \"fd00::/8\"]\noutside = [\"10.1.2.3\", \"203.0.113.0/24\", \
         \"203.0.113.7\", \"198.18.0.0/21\"]\nports = \"1-9\"\nmapping = \"none\"\n\
         bindings = 1\nudp_timeout_s = 119\ntcp_established_timeout_s = 7439\n\
         tcp_transitory_timeout_s = 239\nicmp_timeout_s = 59\nspeed = 3\n\
         udp_unanswered_timeout_s = 119\nudp_short_timeout_s = 0\n",
    );
    let expected = [
        "[nat] has no key `speed`",
        "`inside` has IPv6 prefixes, `outside` has no IPv6 address",
        "10.1.2.3/32 in `outside` overlaps 10.0.0.0/8 in `inside`",
        "`outside` has 203.0.113.7/32 and 203.0.113.0/24, which overlap",
        "`ports`: \"1-9\": fewer than 64 ports",
        "`mapping` must be",
        "`bindings` must be",
        "`udp_timeout_s` must be a whole number from 120 to",
        "`udp_unanswered_timeout_s` must be a whole number from 120 to",
        "`udp_short_timeout_s` must be a whole number from 1 to",
        "`tcp_established_timeout_s` must be a whole number from 7440 to",
        "`tcp_transitory_timeout_s` must be a whole number from 240 to",
        "`icmp_timeout_s` must be a whole number from 60 to",
    ];
    assert_eq!(reported.len(), expected.len(), "{reported:#?}");
    for (reported, expected) in reported.iter().zip(expected) {
        assert!(reported.contains(expected), "{reported} / {expected}");
    }
}

#[test]
fn missing_values_are_reported() {
    let reported = mistakes("");
    assert_eq!(reported.len(), 2, "{reported:?}");
    let empty = mistakes("inside = []\noutside = []");
    assert_eq!(empty.len(), 2, "{empty:?}");
    let families = mistakes("inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.1\", \"fd00::1\"]");
    assert_eq!(families, ["`outside` has IPv6 addresses, `inside` has no IPv6 prefix"]);
    let whole = mistakes("inside = [\"fd00::/8\"]\noutside = [\"::/0\"]");
    assert_eq!(whole.len(), 2, "{whole:?}");
    let large = "inside = [\"fd00::/8\"]\noutside = [\"2001:db8::/63\"]";
    assert_eq!(mistakes(large), ["`outside` has more than 2^64 addresses of IPv6"]);
    let short = "inside = \"10.0.0.0/8\"\noutside = \"203.0.113.1\"\nudp_timeout_s = 1\n";
    assert_eq!(mistakes(short).len(), 1);
    assert_eq!(mistakes(&format!("{short}short_timeouts = true")), [""; 0]);
}

#[test]
fn the_manual_names_everything() {
    for name in Refusal::NAMES.iter().copied().chain(DEFINITION.keys.iter().map(|key| key.name)) {
        assert!(MANUAL.contains(&format!("`{name}`")), "{name}");
    }
    assert_eq!(Refusal::NAMES[Refusal::Snapped as usize], "snapped");
    assert_eq!(Refusal::NAMES[Refusal::Hairpin as usize], "hairpin");
    nat("").counter("bindings");
}

#[test]
fn a_checksum_of_zero_is_sent_as_ones() {
    let mut nat = nat("");
    let first = udp("10.0.0.1", "198.51.100.1", (5000, 5353)).with(&[0, 0]);
    let (address, port) = mapped(&sent(&mut nat, 1, &first));
    // The two bytes of payload that bring the checksum after translation to zero.
    let after = first.clone().from(address, port).frame();
    let sum = u16::from_be_bytes([after[40], after[41]]);
    let first = first.with(&sum.to_be_bytes());
    let out = sent(&mut nat, 1, &first);
    assert_eq!(out.bytes[40..42], [0xff, 0xff]);
    assert_sent(&out, &first.from(address, port));
}

#[test]
fn an_all_zero_echo_reply_gets_the_right_zero() {
    let mut nat = nat("");
    let echo = |reply| Body::Echo { reply, ident: 0, seq: 0 };
    let ping = Datagram::new(ip("10.0.0.1"), ip("198.51.100.1"), echo(false)).with(&[0; 8]);
    let out = sent(&mut nat, 1, &ping);
    let outside = mapped(&out).0;
    let ident = u16::from_be_bytes([out.bytes[38], out.bytes[39]]);
    let pong = Datagram::new(ip("198.51.100.1"), outside, echo(true)).with(&[0; 8]);
    let out = sent(&mut nat, 1, &pong.clone().to(outside, ident));
    assert_sent(&out, &pong.to(ip("10.0.0.1"), 0));
    assert_eq!(naive_checksum(&out.bytes[34..]), 0);
}

/// A large packet leaves in fragments, and a router on its way may have an inside address.
#[test]
fn errors_from_outside_may_quote_first_fragments() {
    for (inside, remote, routers) in [
        ("10.0.0.1", "198.51.100.1", ["198.51.100.99", "10.0.0.77"]),
        ("fd00::1", "2001:db8:f::1", ["2001:db8:f::99", "fd00::77"]),
    ] {
        let mut nat = nat("");
        let first = udp(inside, remote, (1, 2)).with(&[7; 64]);
        let (outside, port) = mapped(&sent(&mut nat, 1, &first));
        let left = first.clone().from(outside, port);
        let quote = |datagram: &Datagram| datagram.fragments(24)[0][14..].to_vec();
        for router in routers.map(ip) {
            let reported = left.error(router, 48).with(&quote(&left));
            let expected = first.error(router, 48).with(&quote(&first));
            assert_sent(&sent(&mut nat, 1, &reported), &expected);
        }
    }
}

/// Requests leave and replies come in; an error quotes what went the way that it answers.
#[test]
fn errors_quote_echoes_that_went_their_way() {
    for v6 in [false, true] {
        let (inside, remote, router) = match v6 {
            false => ("10.0.0.1", "198.51.100.1", "198.51.100.99"),
            true => ("fd00::1", "2001:db8:f::1", "2001:db8:f::99"),
        };
        let (inside, remote, router) = (ip(inside), ip(remote), ip(router));
        let mut nat = nat("");
        let echo = |reply, ident| Body::Echo { reply, ident, seq: 1 };
        let ping = Datagram::new(inside, remote, echo(false, 7)).with(&[1; 8]);
        let out = sent(&mut nat, 1, &ping);
        let at = if v6 { 58 } else { 38 };
        let ident = u16::from_be_bytes([out.bytes[at], out.bytes[at + 1]]);
        let outside: IpAddr = match v6 {
            false => <[u8; 4]>::try_from(&out.bytes[26..30]).unwrap().into(),
            true => <[u8; 16]>::try_from(&out.bytes[22..38]).unwrap().into(),
        };
        let mut reported = |datagram: &Datagram| dropped(&send(&mut nat, 1, &datagram.frame()));
        let asked = |reply| Datagram::new(remote, outside, echo(reply, ident)).with(&[1; 8]);
        assert_eq!(reported(&asked(true)), None);
        assert_eq!(reported(&asked(false)), Some("no-binding"), "a request from outside");
        let answer = Datagram::new(inside, remote, echo(true, 7)).with(&[1; 8]);
        assert_eq!(reported(&answer), Some("no-binding"), "a reply from inside");
        let left = |reply| Datagram::new(outside, remote, echo(reply, ident)).with(&[1; 8]);
        assert_eq!(reported(&left(false).error(router, 48)), None);
        assert_eq!(reported(&left(true).error(router, 48)), Some("bad-quote"));
        let came = |reply| Datagram::new(remote, inside, echo(reply, 7)).with(&[1; 8]);
        assert_eq!(reported(&came(true).error(inside, 48)), None);
        assert_eq!(reported(&came(false).error(inside, 48)), Some("bad-quote"));
    }
}

/// A router between hosts and the translator may have an address of its own that is not inside.
#[test]
fn errors_of_routers_without_an_inside_address_leave_translated() {
    for (host, remote, router) in
        [("10.0.0.1", "198.51.100.1", "172.16.0.1"), ("fd00::1", "2001:db8:f::1", "2001:db8:e::1")]
    {
        let mut nat = nat("");
        let left = sent(&mut nat, 1, &udp(host, remote, (7, 53)));
        let (version, address, port) = match left.bytes[14] >> 4 {
            4 => (4, IpAddr::from(<[u8; 4]>::try_from(&left.bytes[26..30]).unwrap()), 34),
            _ => (6, IpAddr::from(<[u8; 16]>::try_from(&left.bytes[22..38]).unwrap()), 54),
        };
        let port = u16::from_be_bytes([left.bytes[port], left.bytes[port + 1]]);
        let router = ip(router);
        let came = udp(remote, host, (53, 7)).with(&[9; 32]);
        let mut expected = came.clone().to(address, port).error(router, 48);
        expected.src = address;
        assert_sent(&sent(&mut nat, 1, &came.error(router, 48)), &expected);
        // Errors about packets that nothing translates are forwarded as they are.
        let other = udp(remote, host, (53, 8)).error(router, 48);
        assert_sent(&sent(&mut nat, 1, &other), &other);
        // So are those about packets from other inside hosts, whose shard may be the binding's.
        let prefix = &host[..host.len() - 1];
        for neighbour in (2..200).map(|last| format!("{prefix}{last}")) {
            let other = udp(&neighbour, host, (53, 7)).error(router, 48);
            assert_sent(&sent(&mut nat, 1, &other), &other);
        }
        assert_eq!(nat.counter("icmp-errors"), 1, "IPv{version}");
    }
}

#[test]
fn fragments_follow_the_first() {
    for v6 in [false, true] {
        let mut nat = nat("udp_unanswered_timeout_s = 300");
        let (inside, remote) = match v6 {
            false => ("10.0.0.1", "198.51.100.1"),
            true => ("fd00::1", "2001:db8:f::1"),
        };
        let whole = udp(inside, remote, (5000, 5353)).with(&[7; 64]);
        let [first, second] = whole.fragments(24);
        assert_eq!(dropped(&send(&mut nat, 1, &second)), Some("fragment"), "before the first");
        let left = send(&mut nat, 1, &first);
        let (ip_at, port_at) = if v6 { (22..38, 62) } else { (26..30, 34) };
        let address = match v6 {
            false => <[u8; 4]>::try_from(&left.bytes[ip_at]).unwrap().into(),
            true => <[u8; 16]>::try_from(&left.bytes[ip_at]).unwrap().into(),
        };
        let port = u16::from_be_bytes([left.bytes[port_at], left.bytes[port_at + 1]]);
        let expected = whole.clone().from(address, port).fragments(24);
        assert_eq!(left.bytes, expected[0]);
        assert_eq!(send(&mut nat, 60, &second).bytes, expected[1]);
        assert_eq!(dropped(&send(&mut nat, 61, &second)), Some("fragment"), "a minute later");

        let back = udp(remote, &address.to_string(), (53, port)).with(&[7; 64]);
        let [first, second] = back.fragments(24);
        let home = back.to(ip(inside), 5000).fragments(24);
        assert_eq!(dropped(&send(&mut nat, 61, &second)), Some("fragment"), "before the first");
        assert_eq!(send(&mut nat, 61, &first).bytes, home[0]);
        // Only ingress knows the shard of the first one.
        assert_eq!(dropped(&send(&mut nat, 61, &second)), Some("fragment"));
    }
}

/// Also if an earlier packet had the same identification.
#[test]
fn fragments_of_a_refused_packet_are_refused() {
    let mut nat = nat("per_source_max = 1");
    let fragments = |port| udp("10.0.0.1", "198.51.100.1", (port, 53)).with(&[7; 64]).fragments(24);
    for (port, reasons) in [(5000, [None, None]), (5001, [Some("per-source"), Some("fragment")])] {
        let out = fragments(port).map(|bytes| dropped(&send(&mut nat, 1, &bytes)));
        assert_eq!(out, reasons, "{port}");
    }
}

#[test]
fn untranslatable_packets_have_a_drop_reason() {
    let mut nat = nat("");
    let (inside, remote) = ("10.0.0.1", "198.51.100.1");
    let other = |dst: &str, protocol| {
        Datagram::new(ip(inside), ip(dst), Body::Other { protocol }).with(&[0; 20])
    };
    for (datagram, reason) in [
        (udp(inside, "203.0.113.1", (1, 2)), "hairpin"),
        (udp(inside, "239.1.1.1", (1, 2)), "multicast"),
        (udp("fd00::1", "ff05::1", (1, 2)), "multicast"),
        (other(remote, 33), "unsupported-protocol"),
        (other(remote, 136), "unsupported-protocol"),
        (other(remote, 58), "unsupported-protocol"),
        (udp(remote, "203.0.113.1", (53, 2000)), "no-binding"),
        (tcp(inside, remote, (1, 2), 4), "no-binding"),
        (udp(remote, inside, (1, 2)).error(ip(inside), 28).to(ip("192.0.2.9"), 0), "bad-quote"),
        (udp(remote, inside, (1, 2)).error(ip(inside), 28), "no-binding"),
        (udp(remote, inside, (1, 2)).error(ip(inside), 23), "bad-quote"),
        (udp("203.0.113.1", remote, (1, 2)).error(ip("192.0.2.1"), 28), "no-binding"),
    ] {
        let out = sent(&mut nat, 1, &datagram);
        assert_eq!(dropped(&out), Some(reason), "{datagram:?}");
        assert_eq!(out.bytes, datagram.frame());
    }
    assert_eq!(nat.counter("created"), 0);
}

#[test]
fn unrelated_packets_pass() {
    let mut nat = nat("");
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let frames = [
        arp,
        udp("192.0.2.1", "198.51.100.1", (1, 2)).frame(),
        udp("10.0.0.1", "10.0.0.2", (1, 2)).frame(),
        udp("198.51.100.1", "10.0.0.2", (1, 2)).frame(),
        udp("10.0.0.1", "224.0.0.251", (5353, 5353)).frame(),
        udp("10.0.0.1", "255.255.255.255", (1, 2)).frame(),
        udp("fd00::1", "ff02::fb", (5353, 5353)).frame(),
        udp("fd00::1", "fe80::1", (1, 2)).frame(),
    ];
    for frame in &frames {
        let out = send(&mut nat, 1, frame);
        assert_eq!((out.verdict, &out.bytes), (Verdict::Forward, frame));
    }
    assert_eq!(nat.counter("untranslated"), frames.len() as u64);
}

#[test]
fn cut_and_lying_packets_have_names() {
    let mut nat = nat("");
    let frame = tcp("10.0.0.1", "198.51.100.1", (1, 2), SYN).frame();
    for len in [20, 33, 36, 53] {
        let input = Input { wire_len: frame.len() as u32, ..Input::at(1, &frame[..len]) };
        assert_eq!(dropped(&nat.process(&[input])[0]), Some("snapped"), "{len}");
    }
    let input = Input { wire_len: frame.len() as u32, ..Input::at(1, &frame[..54]) };
    assert_eq!(nat.process(&[input])[0].verdict, Verdict::Forward, "all headers are there");
    let mut lying = frame;
    lying[16] = 0xff;
    let out = send(&mut nat, 1, &lying);
    assert_eq!((out.verdict, out.reason), (Verdict::Malformed, Malformed::Ipv4TotalLen as u8));
}

#[test]
fn a_segment_that_a_card_was_to_cut_keeps_saying_no_length() {
    let mut nat = nat("");
    let mut frame = tcp("10.0.0.1", "198.51.100.1", (1, 2), SYN).frame();
    for len in [1400, 65_535, 70_000] {
        frame.resize(len, 7);
        frame[16..18].fill(0);
        let out = send(&mut nat, 1, &frame);
        assert_eq!((out.verdict, out.bytes.len()), (Verdict::Forward, len));
        assert_eq!(out.bytes[16..18], [0, 0]);
        assert_ne!(out.bytes[26..30], frame[26..30]);
        assert_eq!(out.bytes[54..], frame[54..]);
    }
}

#[test]
fn vlan_tags_are_kept() {
    let mut nat = nat("");
    let datagram = udp("10.0.0.1", "198.51.100.1", (5000, 5353));
    let tag = |frame: &[u8]| [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
    let plain = sent(&mut nat, 1, &datagram);
    assert_eq!(send(&mut nat, 1, &tag(&datagram.frame())).bytes, tag(&plain.bytes));
}

/// The remote of the tests answers UDP of port 53 to this outside endpoint.
fn answered(nat: &mut Harness, seconds: u64, (address, port): (IpAddr, u16)) {
    let answer = udp("198.51.100.1", &address.to_string(), (53, port));
    assert_eq!(sent(nat, seconds, &answer).verdict, Verdict::Forward);
}

/// Floods of every protocol from one host, each of ten times what there is room for, between the
/// packets of an established connection and of answered UDP of the same shard.
#[test]
fn floods_leave_established_bindings_standing() {
    for keys in ["bindings = 1024", "bindings = 4096\nports = \"2000-2255\""] {
        let mut nat = nat(keys);
        let host = "10.0.0.1";
        let ask = udp(host, "198.51.100.1", (5000, 5353));
        let outside = mapped(&sent(&mut nat, 1, &ask));
        answered(&mut nat, 1, outside);
        let syn = tcp(host, "198.51.100.1", (5000, 80), SYN);
        let left = mapped(&sent(&mut nat, 1, &syn));
        let back = tcp("198.51.100.1", &left.0.to_string(), (80, left.1), SYN | 0x10);
        assert_eq!(sent(&mut nat, 1, &back).verdict, Verdict::Forward);
        let ack = tcp(host, "198.51.100.1", (5000, 80), ACK).numbered(9, 9);
        assert_eq!(sent(&mut nat, 1, &ack).verdict, Verdict::Forward);
        for kind in 0..3 {
            for number in 0..600 {
                let remote = format!("192.0.2.{}", number % 250);
                let datagram = match kind {
                    0 => udp(host, &remote, (10_000 + number, 1)),
                    1 => tcp(host, &remote, (10_000 + number, 1), SYN),
                    _ => {
                        let body = Body::Echo { reply: false, ident: number, seq: 1 };
                        Datagram::new(ip(host), ip(&remote), body)
                    }
                };
                assert_eq!(sent(&mut nat, 1, &datagram).verdict, Verdict::Forward, "{keys}");
                if number % 50 == 0 {
                    answered(&mut nat, 1, outside);
                    assert_eq!(sent(&mut nat, 1, &back).verdict, Verdict::Forward, "{keys}");
                }
            }
        }
        assert_eq!(mapped(&sent(&mut nat, 2, &ask)), outside, "{keys}");
        let evicted = ["evicted-udp", "evicted-half-open", "evicted-icmp"];
        assert!(evicted.iter().all(|name| nat.counter(name) > 500), "{keys}");
    }
}

#[test]
fn a_host_has_no_more_than_its_bound() {
    let mut nat = nat("per_source_max = 2\nudp_unanswered_timeout_s = 300");
    let mut out = |host: &str, seconds, port| {
        dropped(&sent(&mut nat, seconds, &udp(host, "198.51.100.1", (port, 5353))))
    };
    assert_eq!([1, 2, 3].map(|port| out("10.0.0.1", 1, port)), [None, None, Some("per-source")]);
    assert_eq!(out("10.0.0.2", 1, 3), None, "another host has its own");
    assert_eq!(out("10.0.0.1", 2, 2), None, "it has a binding");
    assert_eq!(out("10.0.0.1", 302, 3), None, "the first has expired");
    assert_eq!(out("10.0.0.1", 302, 1), Some("per-source"));
}

#[test]
fn ports_run_out_and_come_back() {
    let mut nat = nat("ports = \"2000-2127\"\nbindings = 4096\nudp_unanswered_timeout_s = 300");
    let out = |nat: &mut Harness, seconds, port| {
        sent(nat, seconds, &udp("10.0.0.1", "198.51.100.1", (port, 5353)))
    };
    // One shard has 2 ports of each of 3 addresses. Answered bindings are not evicted.
    let first: Vec<_> = (0..6)
        .map(|port| {
            let outside = mapped(&out(&mut nat, 1 + port, port as u16));
            answered(&mut nat, 1 + port, outside);
            outside
        })
        .collect();
    let unique: std::collections::HashSet<_> = first.iter().collect();
    assert_eq!(unique.len(), 6);
    assert_eq!(dropped(&out(&mut nat, 10, 99)), Some("ports-exhausted"));
    let other = tcp("10.0.0.1", "198.51.100.1", (99, 53), SYN);
    assert_eq!(sent(&mut nat, 10, &other).verdict, Verdict::Forward, "TCP has its own");
    assert_eq!(dropped(&out(&mut nat, 301, 99)), Some("ports-exhausted"));
    assert_eq!(mapped(&out(&mut nat, 302, 99)), first[0], "300 s after the second it was used in");
    assert_eq!(mapped(&out(&mut nat, 302, 98)), first[0], "it had no answer, and gives way");
    answered(&mut nat, 302, first[0]);
    assert_eq!(dropped(&out(&mut nat, 302, 97)), Some("ports-exhausted"));
    assert_eq!((nat.counter("bindings"), nat.counter("expired")), (6, 2), "with that of TCP");
}

#[test]
fn bindings_run_out_before_ports() {
    let mut nat = nat("bindings = 128");
    let out = |nat: &mut Harness, seconds, port| {
        sent(nat, seconds, &udp("10.0.0.1", "198.51.100.1", (port, 5353)))
    };
    for port in 1..=2 {
        let outside = mapped(&out(&mut nat, 1, port));
        answered(&mut nat, 1, outside);
    }
    assert_eq!(dropped(&out(&mut nat, 1, 3)), Some("table-full"));
    tick(&mut nat, 302);
    assert_eq!(nat.counter("bindings"), 0);
    assert_eq!(out(&mut nat, 302, 3).verdict, Verdict::Forward);
    assert_eq!(nat.counter("bindings-peak"), 2);
}

#[test]
fn an_established_connection_lasts_two_hours() {
    for (answered, alive, over) in [(false, 240, 241), (true, 7440, 7441)] {
        for (idle, reason) in [(alive, None), (over, Some("no-binding"))] {
            let mut nat = nat("");
            let (inside, remote) = ("10.0.0.1", "198.51.100.1");
            let (address, port) = mapped(&sent(&mut nat, 0, &tcp(inside, remote, (1, 2), SYN)));
            let back = tcp(remote, &address.to_string(), (2, port), 0x12);
            if answered {
                assert_eq!(sent(&mut nat, 0, &back).verdict, Verdict::Forward);
                let ack = tcp(inside, remote, (1, 2), ACK).numbered(9, 9);
                assert_eq!(sent(&mut nat, 0, &ack).verdict, Verdict::Forward);
            }
            assert_eq!(dropped(&sent(&mut nat, idle, &back)), reason, "{answered} {idle}");
        }
    }
}

#[test]
fn errors_do_not_refresh() {
    let mut nat = nat("udp_unanswered_timeout_s = 300");
    let first = udp("10.0.0.1", "198.51.100.1", (5000, 5353));
    let (address, port) = mapped(&sent(&mut nat, 0, &first));
    let error = first.clone().from(address, port).error(ip("192.0.2.1"), 28);
    assert_sent(&sent(&mut nat, 300, &error), &first.error(ip("192.0.2.1"), 28));
    assert_eq!(dropped(&sent(&mut nat, 301, &error)), Some("no-binding"));
}

/// A chain whose functions don't agree on a key has one shard: it owns the whole range.
#[test]
fn one_shard_has_every_port() {
    let table = "inside = \"10.0.0.0/8\"\noutside = \"203.0.113.1\"\nports = \"2000-2127\"";
    let (function, scratch_words) = build(&DEFINITION, table, Path::new("."));
    let layout = ArenaLayout {
        slabs: 2,
        emit_slabs: 1,
        tables: 2,
        slots: 256,
        scratch_words,
        headroom: 0,
        tailroom: 0,
    };
    let memory = HeapMemory::new(layout.memory_len()).unwrap();
    let mut arena = Arena::new(Box::new(memory), &layout).unwrap();
    let mut batch = Batch::new(arena.tables.remove(0));
    let mut made = Batch::new(arena.tables.remove(0));
    for host in 1..=129 {
        let frame = udp(&format!("10.0.0.{host}"), "198.51.100.1", (host, 5353)).frame();
        let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
        let mut arrival = arrival();
        arrival.ingress = u64::from(host);
        batch.push(&frame, &headers, &arrival, &mut arena.ingress).unwrap();
    }
    let picks: Vec<u16> = (0..129).collect();
    let emit = &mut Emit::new(
        &mut made,
        &mut arena.emit,
        &FlowHasher::SEED_0,
        warpline_nf::Emits::NONE,
        Shard::WHOLE,
        &mut [],
    );
    function.state(Shard::WHOLE).before.unwrap().before(&mut batch, &picks, emit);
    function.run(&mut batch);
    let ports: std::collections::HashSet<u16> =
        batch.forward().map(|packet| packet.src_port()).collect();
    assert_eq!(ports, (2000..2128).collect());
    let port = |place: usize| batch.packet(place).src_port();
    assert_eq!(port(128), port(0), "the first gave way");
}

fn arrival() -> Arrival {
    let at = Instant::ZERO;
    let link = LinkType::ETHERNET;
    let (wire_len, ingress, interface, shard, flow_hash) = (64, 0, 0, 0, 0);
    Arrival { timestamp: at, captured: at, ingress, wire_len, link, interface, shard, flow_hash }
}

/// Several batches may lie between `before` and `run`, in which bindings end and ports change
/// hands: what `run` does was settled before.
#[test]
fn a_rewrite_outlives_its_binding() {
    let first = udp("10.0.0.1", "198.51.100.1", (5000, 5353));
    let expected = sent(&mut nat("ports = \"2000-2063\""), 1, &first);
    let mut nat = nat("ports = \"2000-2063\"");
    let late = udp("10.0.0.1", "198.51.100.1", (6000, 5353));
    // Both are in one batch, so both go through `before` first: the later one ends the binding.
    let inputs = [Input::at(SECOND, &first.frame()), Input::at(400 * SECOND, &late.frame())];
    let out = nat.process(&inputs);
    assert_eq!(out[0].bytes, expected.bytes);
    assert_eq!(nat.counter("expired"), 1);
}

#[test]
fn many_bindings_of_a_shard_are_all_found() {
    let mut harness = nat("");
    let flows: Vec<Datagram> =
        (1..=200).map(|port| udp("10.0.0.1", "198.51.100.1", (port, 5353))).collect();
    let send = |harness: &mut Harness, datagrams: &[Datagram]| {
        let frames: Vec<Vec<u8>> = datagrams.iter().map(Datagram::frame).collect();
        let inputs: Vec<Input> = frames.iter().map(|frame| Input::at(0, frame)).collect();
        harness.process(&inputs)
    };
    let ports: Vec<_> = send(&mut harness, &flows).iter().map(mapped).collect();
    let again: Vec<_> = send(&mut harness, &flows).iter().map(mapped).collect();
    assert_eq!(ports, again);
    let answer =
        |&(address, port): &(IpAddr, u16)| udp("198.51.100.1", &address.to_string(), (53, port));
    let answers: Vec<Datagram> = ports.iter().map(answer).collect();
    for (out, flow) in send(&mut harness, &answers).iter().zip(&flows) {
        assert_eq!(out.bytes[30..34], [10, 0, 0, 1]);
        assert_eq!(out.bytes[36..38], flow.ports().0.to_be_bytes());
    }
    assert_eq!(harness.counter("bindings"), 200);
}

/// One host asks 20 questions a second for 400 s, each from a port of its own, and each is answered
/// after 50 ms. All bindings are in the host's shard.
#[test]
fn a_resolver_loses_no_answer() {
    let (server, address) = ("198.51.100.53", |address: IpAddr| address.to_string());
    let mut nat = nat("");
    for number in 0..8000_u64 {
        let now = SECOND + number * 50_000_000;
        let question = udp("10.1.2.3", server, (1024 + number as u16, 53));
        let out = nat.process(&[Input::at(now, &question.frame())]).remove(0);
        let (outside, port) = mapped(&out);
        let answer = udp(server, &address(outside), (53, port));
        let back = nat.process(&[Input::at(now + 50_000_000, &answer.frame())]).remove(0);
        assert_eq!(back.verdict, Verdict::Forward, "{number}: {:?}", dropped(&back));
    }
}

#[test]
fn packets_to_outside_addresses_are_its_own() {
    let table = "inside = [\"10.0.0.0/8\", \"fd00::/16\"]\n\
        outside = [\"203.0.113.1\", \"203.0.113.8/31\", \"2001:db8::/127\"]\n\
        one_to_one = [\"203.0.113.4/30 to 10.0.0.4/30\"]\n\
        forwards = [\"tcp 203.0.113.1 80 to 10.0.0.5\", \"udp 203.0.113.3 53 to 10.0.0.5\"]\n";
    let (function, _) = build(&DEFINITION, table, Path::new("."));
    let range = |(first, last)| (ip(first), ip(last));
    let expected = [
        ("203.0.113.1", "203.0.113.1"),
        ("203.0.113.8", "203.0.113.9"),
        ("2001:db8::", "2001:db8::1"),
        ("203.0.113.4", "203.0.113.7"),
        ("203.0.113.3", "203.0.113.3"),
    ];
    assert_eq!(function.own_addresses(), expected.map(range));
}

/// The first answer begins the timeout of answered UDP, though later ones don't refresh it.
#[test]
fn an_answer_begins_the_long_timeout() {
    for filtering in ["address-dependent", "endpoint-independent"] {
        let mut nat = nat(&format!("udp_timeout_s = 600\nfiltering = \"{filtering}\""));
        let left = sent(&mut nat, 1, &udp("10.0.0.1", "198.51.100.1", (5000, 5353)));
        let port = u16::from_be_bytes([left.bytes[34], left.bytes[35]]);
        let address = IpAddr::from(<[u8; 4]>::try_from(&left.bytes[26..30]).unwrap());
        let back = udp("198.51.100.1", &address.to_string(), (5353, port));
        for second in [100, 500, 700] {
            let out = sent(&mut nat, second, &back);
            assert_sent(&out, &back.clone().to(ip("10.0.0.1"), 5000));
        }
        assert_eq!(dropped(&sent(&mut nat, 701, &back)), Some("no-binding"));
        sent(&mut nat, 701, &udp("10.0.0.1", "198.51.100.1", (5001, 5353)));
        tick(&mut nat, 821);
        assert_eq!(nat.counter("bindings"), 1);
        tick(&mut nat, 822);
        assert_eq!(nat.counter("bindings"), 0, "without an answer");
    }
}

/// Linux forwards IPv4 link-local destinations like others, so they never see inside addresses.
#[test]
fn link_local_destinations_are_translated() {
    let mut nat = nat("");
    let out = sent(&mut nat, 1, &udp("10.0.0.1", "169.254.169.254", (5000, 80)));
    let source = IpAddr::from(<[u8; 4]>::try_from(&out.bytes[26..30]).unwrap());
    assert!(outside().contains(&source), "{source}");
}
