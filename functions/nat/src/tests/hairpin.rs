//! Packets from inside to inside by an outside address, through both places.

use warpline_testkit::frames::Body;
use warpline_verify::build_pair;

use super::model::{assert_sent, dropped};
use super::*;

const SYN: u8 = 2;
const ACK: u8 = 16;

const TABLE: &str = "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.1\"]\n\
    forwards = [\"tcp 203.0.113.1 80 to 10.0.0.5 8080\", \"tcp 203.0.113.1 81 to 10.0.0.5\", \
    \"udp 203.0.113.1 53 to 10.0.0.5\"]\n\
    one_to_one = [\"203.0.113.40/31 to 10.0.0.40/31\"]\n";

/// Both places of a translator.
struct Pair {
    first: Harness,
    second: Harness,
}

impl Pair {
    fn new() -> Self {
        Self::with("")
    }

    /// With more keys.
    fn with(keys: &str) -> Self {
        let table = format!("{TABLE}{keys}");
        let ([first, second], words) = build_pair(&DEFINITION, &table, Path::new("."));
        Self { first: Harness::new(first, words), second: Harness::new(second, words) }
    }

    /// The packet after both places, if the first lets it through.
    fn crosses(&mut self, datagram: &Datagram) -> Option<Outcome> {
        self.crosses_as(&datagram.frame())
    }

    fn crosses_as(&mut self, frame: &[u8]) -> Option<Outcome> {
        let input = Input::at(SECOND, frame);
        let carried = self.first.pass(&[input.into()], 1);
        self.second.process_carried(&carried).pop()
    }

    fn sent(&mut self, datagram: &Datagram) -> Outcome {
        self.crosses(datagram).expect("the first place drops it")
    }

    fn passes(&mut self, datagram: &Datagram, expected: &Datagram) {
        assert_sent(&self.sent(datagram), expected);
    }
}

fn end(out: &Outcome, at: usize) -> u16 {
    assert_eq!(dropped(out), None);
    u16::from_be_bytes([out.bytes[at], out.bytes[at + 1]])
}

fn segment(src: (&str, u16), dst: (&str, u16), flags: u8, numbers: (u32, u32)) -> Datagram {
    let body = Body::Tcp { src: src.1, dst: dst.1, flags };
    Datagram::new(ip(src.0), ip(dst.0), body).numbered(numbers.0, numbers.1)
}

const OUTSIDE: &str = "203.0.113.1";

/// A connection of an inside host to a forwarded port, and errors about both directions.
#[test]
fn a_forwarded_port_is_reached_from_inside() {
    let mut pair = Pair::new();
    let (client, server, service) = (("10.0.0.7", 5000), ("10.0.0.5", 8080), (OUTSIDE, 80));
    let asks = segment(client, service, SYN, (1, 0));
    let port = end(&pair.sent(&asks), 34);
    let seen = segment((OUTSIDE, port), server, SYN, (1, 0));
    pair.passes(&asks, &seen);
    let answers = segment(server, (OUTSIDE, port), SYN | ACK, (1, 9));
    let reported = segment(service, client, SYN | ACK, (1, 9));
    pair.passes(&answers, &reported);
    // Of the server or the client, of a router beside it, and of one outside the inside prefixes.
    for router in ["10.0.9.9", "172.16.0.1"] {
        for (seen, sent, own) in [(&seen, &asks, server.0), (&reported, &answers, client.0)] {
            let expected = sent.error(ip(OUTSIDE), 48);
            pair.passes(&seen.error(ip(own), 48), &expected);
            pair.passes(&seen.error(ip(router), 48), &expected);
        }
    }
    let strange = segment((OUTSIDE, port + 64), server, ACK, (1, 1)).error(ip(server.0), 48);
    assert!(pair.crosses(&strange).is_none(), "of no binding");
}

/// An echo to a host with an outside address of its own, the reply, and errors about both.
#[test]
fn a_mapped_host_answers_echoes_from_inside() {
    let mut pair = Pair::new();
    let (client, server, outside) = (ip("10.0.0.7"), ip("10.0.0.40"), ip("203.0.113.40"));
    let echo = |src, dst, reply, ident| {
        Datagram::new(src, dst, Body::Echo { reply, ident, seq: 1 }).with(&[7; 24])
    };
    let asks = echo(client, outside, false, 7);
    let ident = end(&pair.sent(&asks), 38);
    let seen = echo(ip(OUTSIDE), server, false, ident);
    pair.passes(&asks, &seen);
    let answers = echo(server, ip(OUTSIDE), true, ident);
    let reported = echo(outside, client, true, 7);
    pair.passes(&answers, &reported);
    let router = ip("172.16.0.1");
    for (seen, sent, by, own) in
        [(&seen, &asks, outside, server), (&reported, &answers, ip(OUTSIDE), client)]
    {
        pair.passes(&seen.error(own, 48), &sent.error(by, 48));
        pair.passes(&seen.error(router, 48), &sent.error(by, 48));
    }
    // About packets that no binding let in.
    let forged = echo(ip(OUTSIDE), client, false, 9).error(router, 48);
    assert!(pair.crosses(&forged).is_none());
    let to_none = echo(client, ip(OUTSIDE), false, 9);
    assert!(pair.crosses(&to_none).is_none(), "no host has this address");
}

/// A packet that no host receives takes no port from its sender.
#[test]
fn packets_without_a_receiver_make_no_binding() {
    let client = "10.0.0.7";
    let echo = Body::Echo { reply: false, ident: 7, seq: 1 };
    let lost = [
        Datagram::new(ip(client), ip(OUTSIDE), echo),
        gateway::udp((client, 5000), (OUTSIDE, 60_000)),
        segment((client, 5000), (OUTSIDE, 60_000), SYN, (1, 0)),
    ];
    for mapping in ["endpoint-independent", "address-and-port-dependent"] {
        let mut pair = Pair::with(&format!("mapping = \"{mapping}\"\n"));
        for datagram in &lost {
            assert!(pair.crosses(datagram).is_none());
        }
        assert_eq!(pair.first.counter("created"), 0, "{mapping}");
    }
}

/// Errors about packets that no inside host sent there, or that its binding does not let in.
#[test]
fn errors_about_no_hairpin_are_refused() {
    let mut pair = Pair::with("filtering = \"address-and-port-dependent\"\n");
    let (service, other, server) = ((OUTSIDE, 80), (OUTSIDE, 81), "10.0.0.5");
    let mut port = |client: &str, at: u16, to: (&str, u16)| {
        end(&pair.sent(&segment((client, at), to, SYN, (1, 0))), 34)
    };
    let seen_as = port("10.0.0.7", 5000, service);
    let by_other = port("10.0.0.7", 5001, other);
    let beside = port("10.0.0.9", 5000, service);
    let about = |src, dst| segment(src, dst, ACK, (1, 1)).error(ip("172.16.0.1"), 48);
    let client = ("10.0.0.7", 5000);
    let reported = about((OUTSIDE, seen_as), (server, 8080));
    let elsewhere = Datagram { dst: ip("203.0.113.40"), ..reported.clone() };
    for (error, passes) in [
        (reported, true),
        (about(service, client), true),
        (about(other, ("10.0.0.7", 5001)), true),
        (elsewhere, false),
        (about(service, ("10.0.0.7", 5001)), false),
        (about(other, client), false),
        (about((OUTSIDE, beside), client), false),
        (about((OUTSIDE, by_other), client), false),
    ] {
        assert_eq!(pair.crosses(&error).is_some(), passes, "{error:?}");
    }
}

/// Only hosts with an address of their own are asked by echoes from inside, and answer them.
#[test]
fn identifiers_of_others_are_no_receivers_of_echoes() {
    let mut pair = Pair::with("filtering = \"endpoint-independent\"\n");
    let (client, mapped) = (ip("10.0.0.7"), ip("203.0.113.40"));
    let echo = |src, dst, reply, ident| {
        Datagram::new(src, dst, Body::Echo { reply, ident, seq: 1 }).with(&[7; 24])
    };
    let ident = end(&pair.sent(&echo(client, mapped, false, 7)), 38);
    // The same identifier inside: an error about a reply with it has both bindings.
    pair.sent(&echo(client, mapped, false, ident));
    let asks = echo(ip("10.0.0.9"), ip(OUTSIDE), false, ident);
    assert!(pair.crosses(&asks).is_none());
    let reply = echo(ip(OUTSIDE), client, true, ident);
    for router in [client, ip("172.16.0.1")] {
        assert!(pair.crosses(&reply.error(router, 48)).is_none(), "{router}");
    }
}

/// A mapped host reaches another one's service, and each sees the other's outside address.
#[test]
fn a_mapped_host_reaches_a_forwarded_port() {
    let mut pair = Pair::new();
    let (client, server, service) = (("10.0.0.40", 5000), ("10.0.0.5", 8080), (OUTSIDE, 80));
    let asks = segment(client, service, SYN, (1, 0));
    let seen = segment(("203.0.113.40", 5000), server, SYN, (1, 0));
    pair.passes(&asks, &seen);
    let answers = segment(server, ("203.0.113.40", 5000), SYN | ACK, (1, 9));
    pair.passes(&answers, &segment(service, client, SYN | ACK, (1, 9)));
    for router in [server.0, "172.16.0.1"] {
        pair.passes(&seen.error(ip(router), 48), &asks.error(ip(OUTSIDE), 48));
    }
}

/// A whole address is reached by the ports that its rule names, and by answers.
#[test]
fn mapped_hosts_are_reached_by_the_ports_of_their_rule() {
    let rules = |came_by: &[&str]| {
        let whole = |port: &&str| {
            let to = "-j DNAT --to-destination 10.1.1.9";
            format!("-A PREROUTING {port} -d 203.0.113.9/32 {to}")
        };
        let whole: Vec<String> = came_by.iter().map(whole).collect();
        gateway::saved(&[
            "-A PREROUTING -d 203.0.113.1/32 -p udp --dport 80 -j DNAT --to-destination 10.1.0.5",
            &whole.join("\n"),
            "-A POSTROUTING -s 10.1.1.9/32 -j SNAT --to-source 203.0.113.9",
            "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1",
        ])
    };
    for (came_by, reached) in
        [(&["-i wan"][..], 1), (&["! -i dmz"], 2), (&["-i wan", ""], 3), (&[""], 3)]
    {
        let [first, second] = gateway::pair_with_three_ports(&rules(came_by));
        let mut pair = Pair { first, second };
        pair.first.set_comes(|packet| [packet as u16 % 3, 0]);
        let mut came = |src: (&str, u16), dst: (&str, u16)| {
            let frame = gateway::udp(src, dst).frame();
            let inputs = [0, 1, 2].map(|at| Input::at(SECOND + at, &frame).into());
            let carried = pair.first.pass(&inputs, 1);
            pair.second.process_carried(&carried)
        };
        let outs = came(("10.1.0.7", 9), ("203.0.113.9", 53));
        assert_eq!(outs.len(), reached, "{came_by:?}");
        for out in outs {
            assert_eq!(out.bytes[30..34], [10, 1, 1, 9]);
        }
        // It asks a forwarded port, and gets the answer.
        assert_eq!(came(("10.1.1.9", 9), (OUTSIDE, 80)).len(), 3);
        assert_eq!(came(("10.1.0.5", 80), ("203.0.113.9", 9)).len(), 3, "{came_by:?}");
        // Hosts outside are not affected.
        assert_eq!(came(("198.51.100.1", 9), ("203.0.113.9", 53)).len(), 3);
    }
}

/// A forwarded port is reached from inside by the ports that its rule names.
#[test]
fn forwarded_ports_are_reached_by_the_ports_of_their_rule() {
    let forward = |port: &str| {
        format!(
            "-A PREROUTING {port} -d 203.0.113.1/32 -p udp --dport 80 -j DNAT --to-destination \
             10.1.0.5"
        )
    };
    let all = "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1";
    for (came_by, reached) in [("", 3), ("-i wan", 1), ("! -i wan", 2)] {
        let [first, second] =
            gateway::pair_with_three_ports(&gateway::saved(&[&forward(came_by), all]));
        let mut pair = Pair { first, second };
        pair.first.set_comes(|packet| [packet as u16 % 3, 0]);
        let frame = gateway::udp(("10.1.0.7", 9), (OUTSIDE, 80)).frame();
        let inputs = [0, 1, 2].map(|at| Input::at(SECOND + at, &frame).into());
        assert_eq!(pair.first.pass(&inputs, 1).len(), reached, "{came_by:?}");
    }
}

/// Without an address to share, a host without one of its own does not reach others by theirs.
#[test]
fn fixed_translations_alone_give_others_no_source() {
    let forward = "-A PREROUTING -d 203.0.113.1/32 -p udp --dport 53 -j DNAT --to-destination \
                   10.1.0.5";
    let rules = gateway::saved(&[gateway::INWARD, gateway::OUTWARD, forward]);
    let [first, second] = gateway::pair_with_three_ports(&rules);
    let mut pair = Pair { first, second };
    assert!(pair.crosses(&gateway::udp(("10.1.0.5", 9), ("203.0.113.9", 9))).is_none());
    let asks = pair.sent(&gateway::udp(("10.1.1.9", 9), (OUTSIDE, 53)));
    assert_eq!(asks.bytes[26..34], [203, 0, 113, 9, 10, 1, 0, 5]);
}

/// The two fragments of a datagram.
fn fragments(src: (&str, u16), dst: (&str, u16)) -> [Vec<u8>; 2] {
    let body = Body::Udp { src: src.1, dst: dst.1, unsummed: false };
    Datagram::new(ip(src.0), ip(dst.0), body).with(&[7; 64]).fragments(24)
}

/// Later fragments get both addresses of the first one.
#[test]
fn later_fragments_follow_the_first() {
    let mut pair = Pair::new();
    let (service, server) = (("203.0.113.40", 53), ("10.0.0.40", 53));
    for (client, outside) in [("10.0.0.7", OUTSIDE), ("10.0.0.41", "203.0.113.41")] {
        let [first, second] = fragments((client, 5000), service);
        assert!(pair.crosses_as(&second).is_none(), "before the first");
        let out = pair.crosses_as(&first).unwrap();
        let seen = fragments((outside, end(&out, 34)), server);
        assert_eq!([out.bytes, pair.crosses_as(&second).unwrap().bytes], seen);
    }
    // A first one that is dropped has the same identification.
    let reset = segment(("10.0.0.7", 5000), service, 4, (1, 0)).with(&[7; 64]);
    let asks = segment(("10.0.0.7", 5001), service, SYN, (1, 0)).with(&[7; 64]);
    let [first, second] = asks.fragments(24);
    assert!(pair.crosses_as(&first).is_some() && pair.crosses_as(&second).is_some());
    let [first, second] = reset.fragments(24);
    assert!(pair.crosses_as(&first).is_none() && pair.crosses_as(&second).is_none());
}

/// Only ingress knows the shard of the first fragment. Some clients are in that of the server.
#[test]
fn later_fragments_follow_a_forwarded_one() {
    let (mut pair, mut followed) = (Pair::new(), 0);
    for host in 0..250 {
        let client = format!("10.0.1.{host}");
        let [first, second] = fragments((&client, 5000), (OUTSIDE, 53));
        let out = pair.crosses_as(&first).unwrap();
        let seen = fragments((OUTSIDE, end(&out, 34)), ("10.0.0.5", 53));
        assert_eq!(out.bytes, seen[0]);
        if let Some(out) = pair.crosses_as(&second) {
            assert_eq!(out.bytes, seen[1]);
            followed += 1;
        }
    }
    assert!(followed > 0);
}

/// Later fragments of an error get both addresses of the first, whoever sends it. Only ingress
/// knows the shard of the first. Some routers are in that of the server.
#[test]
fn later_fragments_follow_errors_about_hairpins() {
    let (mut pair, mut followed) = (Pair::new(), [0; 2]);
    let (service, server) = (("203.0.113.40", 53), ("10.0.0.40", 53));
    let asks = gateway::udp(("10.0.0.7", 5000), service).with(&[7; 64]);
    let port = end(&pair.sent(&asks), 34);
    let seen = gateway::udp((OUTSIDE, port), server).with(&[7; 64]);
    let expected = asks.error(ip(service.0), 92).fragments(40);
    for host in 0..250 {
        let routers = [format!("10.0.1.{host}"), format!("172.16.0.{host}")];
        for (router, followed) in routers.iter().zip(&mut followed) {
            let [first, second] = seen.error(ip(router), 92).fragments(40);
            assert_eq!(pair.crosses_as(&first).unwrap().bytes, expected[0], "{router}");
            if let Some(out) = pair.crosses_as(&second) {
                assert_eq!(out.bytes, expected[1], "{router}");
                *followed += 1;
            }
        }
    }
    assert!(followed.iter().all(|&one| one > 0), "{followed:?}");
}
