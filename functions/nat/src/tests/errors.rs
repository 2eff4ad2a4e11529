//! ICMP errors from inside share the course of the connection that they quote, whichever host
//! sends them, as RELATED packets do in Linux.

use warpline_testkit::frames::Body;
use warpline_verify::build_pair;

use super::gateway::{saved, try_gateway, udp};
use super::model::{assert_sent, dropped};
use super::*;

const HOST: (&str, u16) = ("10.1.0.5", 5000);
const REMOTE: (&str, u16) = ("8.8.8.8", 53);
const OUTSIDE: &str = "203.0.113.1";

/// The host, a router, and one outside the inside prefixes.
const SENDERS: [&str; 3] = [HOST.0, "10.1.77.1", "172.16.0.1"];

const ALL: &str = "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1";
const UDP: &str = "-A POSTROUTING -s 10.1.0.0/16 -p udp -j SNAT --to-source 203.0.113.1";
const DNS: &str =
    "-A PREROUTING -d 203.0.113.1/32 -p udp --dport 53 -j DNAT --to-destination 10.1.0.5:5000";

fn gateway(rules: &[&str]) -> Harness {
    try_gateway(&saved(rules), "").unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Errors about `came`, a packet to `outside` that reached the host.
fn assert_translated(send: &mut dyn FnMut(&Datagram) -> Outcome, came: &Datagram, what: &str) {
    let home = came.clone().to(ip(HOST.0), HOST.1);
    assert_sent(&send(came), &home);
    for sender in SENDERS {
        let out = send(&home.error(ip(sender), 48));
        assert_eq!(dropped(&out), None, "{what}: {sender}");
        assert_eq!(out.bytes, came.error(came.dst, 48).frame(), "{what}: {sender}");
    }
}

#[test]
fn errors_about_translated_connections_are_translated() {
    for rules in [
        &[UDP][..],
        &["-A POSTROUTING -s 10.1.0.0/16 -p icmp -j ACCEPT", ALL],
        &["-A POSTROUTING -s 10.1.77.0/24 -j ACCEPT", ALL],
        &[
            "-A POSTROUTING -s 10.1.0.5/32 -j SNAT --to-source 203.0.113.1",
            "-A POSTROUTING -s 10.1.77.0/24 -d 1.2.3.4/32 -j SNAT --to-source 203.0.113.1",
        ],
    ] {
        let mut nat = gateway(rules);
        let out = sent(&mut nat, 1, &udp(HOST, REMOTE));
        assert_eq!((dropped(&out), &out.bytes[26..30]), (None, &[203, 0, 113, 1][..]));
        let port = u16::from_be_bytes([out.bytes[34], out.bytes[35]]);
        let came = udp(REMOTE, (OUTSIDE, port));
        assert_translated(&mut |packet| sent(&mut nat, 1, packet), &came, rules[0]);
    }
}

/// No rule translates what the host sends to this remote, but the answers.
#[test]
fn errors_about_forwarded_connections_are_translated() {
    let came = udp(REMOTE, (OUTSIDE, 53));
    for rules in [
        &[DNS, "-A POSTROUTING -s 10.1.0.0/16 -d 8.8.8.0/24 -j ACCEPT", ALL][..],
        &[DNS, "-A POSTROUTING -s 10.1.0.0/16 -p tcp -j SNAT --to-source 203.0.113.1"],
    ] {
        let mut nat = gateway(rules);
        assert_translated(&mut |packet| sent(&mut nat, 1, packet), &came, rules[1]);
    }
    let table = "inside = [\"10.1.0.0/16\"]\noutside = [\"203.0.113.1\"]\n\
                 except = [\"8.8.8.0/24\"]\n\
                 forwards = [\"udp 203.0.113.1 53 to 10.1.0.5 5000\"]\n";
    let (function, words) = build(&DEFINITION, table, Path::new("."));
    let mut nat = Harness::new(function, words);
    assert_translated(&mut |packet| sent(&mut nat, 1, packet), &came, "one place");
    let ([first, second], words) = build_pair(&DEFINITION, table, Path::new("."));
    let [mut first, mut second] = [first, second].map(|place| Harness::new(place, words));
    let mut crosses = |packet: &Datagram| {
        let carried = first.pass(&[Input::at(SECOND, &packet.frame()).into()], 1);
        second.process_carried(&carried).remove(0)
    };
    assert_translated(&mut crosses, &came, "two places");
}

/// The connection is not translated, though all that its ends send besides would be.
#[test]
fn errors_about_untranslated_connections_pass() {
    let mut nat = gateway(&["-A POSTROUTING -s 10.1.0.0/16 -p udp -j ACCEPT", ALL]);
    assert_sent(&sent(&mut nat, 1, &udp(HOST, REMOTE)), &udp(HOST, REMOTE));
    for sender in SENDERS {
        let reported = udp(REMOTE, HOST).error(ip(sender), 48);
        assert_sent(&sent(&mut nat, 1, &reported), &reported);
        // Of another receiver, and about TCP that no binding let in.
        let astray = Datagram { dst: ip("8.8.4.4"), ..reported };
        let tcp = Body::Tcp { src: 9, dst: 9, flags: 2 };
        let strange = Datagram::new(ip(REMOTE.0), ip(HOST.0), tcp).error(ip(sender), 48);
        if sender.starts_with("10.") {
            assert_eq!(dropped(&sent(&mut nat, 1, &astray)), Some("bad-quote"));
            assert_eq!(dropped(&sent(&mut nat, 1, &strange)), Some("no-binding"));
        }
    }
}

/// A quote without ports decides by its addresses and its protocol.
#[test]
fn errors_that_quote_later_fragments_stay_inside() {
    let accept = "-A POSTROUTING -s 10.1.0.0/16 -p icmp -j ACCEPT";
    for (rules, refused) in [
        (&[UDP][..], Some("bad-quote")),
        (&[accept, ALL], Some("bad-quote")),
        (&["-A POSTROUTING -s 10.1.0.0/16 -p udp -j ACCEPT", ALL], None),
    ] {
        let mut nat = gateway(rules);
        let [_, second] = udp(REMOTE, HOST).with(&[7; 64]).fragments(24);
        let reported = udp(REMOTE, HOST).error(ip(HOST.0), 48).with(&second[14..]);
        let out = sent(&mut nat, 1, &reported);
        assert_eq!(dropped(&out), refused, "{rules:?}");
    }
}

/// Later fragments of an error follow the first one.
#[test]
fn fragments_of_errors_share_their_course() {
    let mut nat = gateway(&[UDP]);
    // Only ingress knows the shard of the first one.
    nat.steer_to(Some(7));
    let out = sent(&mut nat, 1, &udp(HOST, REMOTE));
    let port = u16::from_be_bytes([out.bytes[34], out.bytes[35]]);
    let came = udp(REMOTE, (OUTSIDE, port)).with(&[7; 64]);
    let home = came.clone().to(ip(HOST.0), HOST.1);
    for sender in SENDERS {
        let left = home.error(ip(sender), 92).fragments(64);
        let expected = came.error(ip(OUTSIDE), 92).fragments(64);
        let sent = left.map(|frame| send(&mut nat, 1, &frame).bytes);
        assert_eq!(sent, expected, "{sender}");
    }
}

/// A rule asks for the port of the host, and a router's error comes by another one.
#[test]
fn errors_come_by_any_port() {
    let rules = "*nat\n:POSTROUTING ACCEPT\n\
        -A POSTROUTING -s 10.1.0.0/16 -i lan -j SNAT --to-source 203.0.113.1\nCOMMIT\n";
    let mut nat = gateway::with_three_ports(rules);
    nat.set_comes(|packet| [packet as u16 % 3, 0]);
    let out = sent(&mut nat, 1, &udp(HOST, REMOTE));
    let port = u16::from_be_bytes([out.bytes[34], out.bytes[35]]);
    let came = udp(REMOTE, (OUTSIDE, port));
    let reported = came.clone().to(ip(HOST.0), HOST.1).error(ip("10.1.77.1"), 48).frame();
    let [by_lan, by_dmz] = [0, 1].map(|at| Input::at(SECOND + at, &reported));
    for out in nat.process(&[by_lan, by_dmz]) {
        assert_eq!(out.bytes, came.error(ip(OUTSIDE), 48).frame());
    }
}

/// Of an identifier that a router uses again, later fragments follow the last first one. Only
/// ingress knows the shard of the first. Some routers are in that of the host.
#[test]
fn later_fragments_of_an_untranslated_error_stay_untranslated() {
    let mut nat = gateway(&[ALL]);
    let out = sent(&mut nat, 1, &udp(HOST, REMOTE));
    let port = u16::from_be_bytes([out.bytes[34], out.bytes[35]]);
    let translated = udp(REMOTE, (OUTSIDE, port)).error(ip(OUTSIDE), 48).fragments(40);
    let mut followed = 0;
    for host in 0..250 {
        let router = ip(&format!("172.16.0.{host}"));
        let pieces = |to| udp(REMOTE, to).error(router, 48).fragments(40);
        let (known, unknown) = (pieces(HOST), pieces((HOST.0, HOST.1 + 1)));
        let mut pass = |piece: &Vec<u8>| send(&mut nat, 1, piece).bytes;
        let bytes = [&known[0], &known[1], &unknown[0], &unknown[1]].map(&mut pass);
        assert_eq!(bytes[0], translated[0], "{router}");
        assert_eq!(bytes[2..], unknown[..], "{router}");
        followed += u32::from(bytes[1] == translated[1]);
    }
    assert!(followed > 0);
}
