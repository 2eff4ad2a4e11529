//! The function case by case, as the manual tells them.

use super::*;
use warpline_packet::ScratchWord;
use warpline_testkit::finder::Finder;

const CLIENT: (&str, u16) = ("198.51.100.7", 4000);
const WEB: (&str, u16) = ("192.0.2.10", 80);

fn ticked(harness: &mut Harness, seconds: u64) {
    assert!(harness.tick(Instant::from_secs(seconds)).is_empty());
}

#[test]
fn a_connection_goes_and_comes_back() {
    let mut harness = balancer("", SERVICES);
    for port in 1000..1040 {
        let from = (CLIENT.0, port);
        let syn = tcp(from, WEB, SYN);
        let out = send(&mut harness, 1, &syn);
        let (address, to) = destination(&out.bytes);
        assert_eq!(to, if address == ip("10.0.0.2") { 8080 } else { 80 });
        assert_eq!(out.bytes, syn.clone().to(address, to).frame(), "checksums as if sent there");
        let answer = tcp((&address.to_string(), to), from, 0x12);
        let back = send(&mut harness, 2, &answer);
        assert_eq!(back.bytes, answer.from(ip(WEB.0), WEB.1).frame());
    }
    assert_eq!(harness.counter("connections"), 40);
    assert_eq!((harness.counter("to-backends"), harness.counter("to-clients")), (40, 40));
}

#[test]
fn everything_else_passes_or_is_dropped_by_its_name() {
    let strangers = [
        tcp(CLIENT, ("192.0.2.10", 81), SYN),
        tcp(CLIENT, ("192.0.2.11", 80), SYN),
        udp(CLIENT, ("192.0.2.10", 80)),
        tcp(("10.0.0.1", 80), CLIENT, ACK),
        Datagram::new(ip(CLIENT.0), ip(WEB.0), Body::Echo { reply: false, ident: 3, seq: 1 }),
        Datagram::new(ip(CLIENT.0), ip(WEB.0), Body::Other { protocol: 50 }).with(&[9; 24]),
        // ICMPv6's number in IPv4.
        Datagram::new(ip(CLIENT.0), ip(WEB.0), Body::Other { protocol: 58 }).with(&[9; 24]),
        udp(CLIENT, ("192.0.2.11", 53)).error(ip("192.0.2.99"), 64),
    ];
    let (mut kind, mut strict) = (balancer("", SERVICES), balancer("no_vip = \"drop\"", SERVICES));
    for datagram in &strangers {
        let out = send(&mut kind, 1, datagram);
        assert_eq!((reason(&out), &out.bytes), ("", &datagram.frame()));
        assert_eq!(reason(&send(&mut strict, 1, datagram)), "no-vip");
    }
    assert_eq!(kind.counter("no-vip"), strangers.len() as u64);
    assert_eq!(kind.counter("created"), 0);
    let mut arp = vec![0xff; 42];
    arp[12..14].copy_from_slice(&[8, 6]);
    for harness in [&mut kind, &mut strict] {
        assert_eq!(reason(&harness.process(&[Input::at(0, &arp)])[0]), "");
        let mut lies = tcp(CLIENT, WEB, SYN).frame();
        lies[14] = 0x44;
        assert_eq!(reason(&harness.process(&[Input::at(0, &lies)])[0]), "malformed");
    }
}

#[test]
fn parts_of_packets_have_names() {
    let mut harness = balancer("", SERVICES);
    let to_vip = udp(CLIENT, ("192.0.2.10", 53)).with(&[1; 64]);
    let back = udp(("10.0.0.1", 53), CLIENT).with(&[1; 64]);
    for [_, later] in [to_vip.fragments(32), back.fragments(32)] {
        assert_eq!(reason(&harness.process(&[Input::at(0, &later)])[0]), "fragment");
    }
    for bytes in udp(CLIENT, ("192.0.2.11", 53)).with(&[1; 64]).fragments(32) {
        assert_eq!(reason(&harness.process(&[Input::at(0, &bytes)])[0]), "", "no VIP's");
    }
    let frame = tcp(CLIENT, WEB, SYN).frame();
    for (len, reported) in [(14 + 20, "snapped"), (14 + 20 + 19, "snapped"), (14 + 20 + 20, "")] {
        let mut input = Input::at(0, &frame[..len]);
        input.wire_len = frame.len() as u32;
        assert_eq!(reason(&harness.process(&[input])[0]), reported, "{len}");
    }
}

/// How the fragments of a packet leave.
fn pieces(harness: &mut Harness, datagram: &Datagram) -> [Outcome; 2] {
    let [first, later] = datagram.fragments(32).map(|bytes| Input::at(SECOND, &bytes));
    [harness.process(&[first]).remove(0), harness.process(&[later]).remove(0)]
}

#[test]
fn fragments_follow_the_first_one_both_ways() {
    let mut harness = balancer("", SERVICES);
    for (client, vip) in [("198.51.100.7", "192.0.2.10"), ("2001:db8:f::7", "2001:db8::10")] {
        let asked = tcp((client, 4000), (vip, 80), SYN).with(&[7; 64]);
        let out = pieces(&mut harness, &asked);
        let (address, port) = destination(&out[0].bytes);
        let expected = asked.to(address, port).fragments(32);
        assert_eq!(out.map(|out| out.bytes), expected);
        let answer = tcp((&address.to_string(), port), (client, 4000), ACK).with(&[8; 64]);
        let out = pieces(&mut harness, &answer);
        assert_eq!(out.map(|out| out.bytes), answer.from(ip(vip), 80).fragments(32));
    }
    assert_eq!((harness.counter("to-backends"), harness.counter("to-clients")), (4, 4));
}

/// A later fragment of an ICMP error has no identifier, though its type reads as that of an echo
/// reply.
#[test]
fn fragments_of_errors_follow_the_first_one_at_two_places() {
    let [mut first, _] = places("", SERVICES);
    let asked = tcp(CLIENT, WEB, SYN);
    let (address, port) = destination(&send(&mut first, 1, &asked).bytes);
    let answer = tcp((&address.to_string(), port), CLIENT, 0x12).with(&[8; 64]);
    let about = |answer: Datagram| answer.error(ip(CLIENT.0), 96);
    // The first fragment quotes the whole TCP header.
    let pieces = about(answer.clone().from(ip(WEB.0), WEB.1)).fragments(48);
    let out = pieces.map(|bytes| first.process(&[Input::at(SECOND, &bytes)]).remove(0).bytes);
    assert_eq!(out, about(answer).fragments(48));
}

#[test]
fn fragments_of_packets_that_pass_or_are_dropped_share_their_fate() {
    let mut harness = balancer("", "vip 192.0.2.10 tcp 80\n backend 10.0.0.1 drain\n");
    let ping = Body::Echo { reply: false, ident: 3, seq: 1 };
    for passes in [
        Datagram::new(ip(CLIENT.0), ip(WEB.0), ping).with(&[7; 64]),
        tcp(CLIENT, (WEB.0, 81), SYN).with(&[7; 64]),
        tcp(("10.0.0.1", 80), CLIENT, ACK).with(&[7; 64]),
        Datagram::new(ip(CLIENT.0), ip(WEB.0), Body::Other { protocol: 47 }).with(&[7; 64]),
    ] {
        let out = pieces(&mut harness, &passes).map(|out| (reason(&out), out.bytes));
        assert_eq!(out, passes.fragments(32).map(|bytes| ("", bytes)));
    }
    // The same identification again, in a packet that is refused.
    let out = pieces(&mut harness, &tcp(CLIENT, WEB, SYN).with(&[7; 64]));
    assert_eq!(out.map(|out| reason(&out)), ["no-backend", "fragment"]);
    assert_eq!(harness.counter("no-vip"), 8);
}

/// The rest of a packet follows its first fragment when that backend is down.
#[test]
fn fragments_keep_their_backend_over_a_reload() {
    let services = |down: &str| {
        let line = |n| format!(" backend 10.0.0.{n} {}\n", if down == n { "down" } else { "" });
        format!("vip 192.0.2.10 tcp 80\n{}{}", line("1"), line("2"))
    };
    let keys = "addresses = [\"10.0.0.0/24\", \"192.0.2.0/24\"]";
    let mut harness = balancer(keys, &services(""));
    let asked = tcp(CLIENT, WEB, SYN).with(&[7; 64]);
    let [first, later] = asked.fragments(32).map(|bytes| Input::at(SECOND, &bytes));
    let (address, port) = destination(&harness.process(&[first]).remove(0).bytes);
    let down = if address == ip("10.0.0.1") { "1" } else { "2" };
    harness.reload(function(keys, &services(down))).unwrap();
    let out = harness.process(&[later]).remove(0);
    assert_eq!(out.bytes, asked.clone().to(address, port).fragments(32)[1]);
    let out = pieces(&mut harness, &Datagram { ident: 78, ..asked });
    assert_ne!(destination(&out[0].bytes).0, address, "a new packet");
    assert_eq!(out[0].bytes[30..34], out[1].bytes[30..34]);
}

#[test]
fn errors_follow_their_connection_both_ways() {
    let mut harness = balancer("", SERVICES);
    for (client, vip) in [("198.51.100.7", "192.0.2.10"), ("2001:db8:f::7", "2001:db8::10")] {
        let syn = tcp((client, 4000), (vip, 80), SYN);
        let (address, port) = destination(&send(&mut harness, 1, &syn).bytes);
        let answer = tcp((&address.to_string(), port), (client, 4000), 0x12);
        let answered = tcp((vip, 80), (client, 4000), 0x12);
        // From a router on the way to the client, about what it got from the VIP.
        let router = if client.contains(':') { ip("2001:db8:e::1") } else { ip("203.0.113.9") };
        for len in [28, 48, 60, 200] {
            let error = answered.error(router, len.max(if client.contains(':') { 48 } else { 0 }));
            let out = send(&mut harness, 2, &error);
            let len = len.max(if client.contains(':') { 48 } else { 0 });
            let expected = answer.error(router, len).to(address, 0);
            assert_eq!(out.bytes, expected.frame(), "{len}");
            // From the backend's side, about what the client sent.
            let sent = syn.clone().to(address, port);
            let out = send(&mut harness, 2, &sent.error(address, len));
            let mut expected = syn.error(ip(vip), len);
            expected.src = ip(vip);
            assert_eq!(out.bytes, expected.frame(), "{len}");
        }
        let unknown = tcp((vip, 80), (client, 4001), 0x12).error(router, 64);
        assert_eq!(reason(&send(&mut harness, 2, &unknown)), "no-connection");
        let mut bad = answered.error(router, 64);
        bad.payload[if client.contains(':') { 23 } else { 15 }] ^= 1;
        assert_eq!(reason(&send(&mut harness, 2, &bad)), "bad-quote");
    }
    assert_eq!(harness.counter("icmp-errors"), 16);
    assert_eq!(harness.counter("created"), 2, "errors make nothing");
}

#[test]
fn idle_connections_end_in_packet_time() {
    let keys = "tcp_timeout_s = 100\ntcp_transitory_timeout_s = 10\nudp_timeout_s = 20";
    let mut harness = balancer(keys, SERVICES);
    let mut lasts = |flags: &[u8], timeout: u64, from: u64| {
        let created = harness.counter("created");
        for &flags in flags {
            send(&mut harness, from, &tcp(CLIENT, WEB, flags));
        }
        send(&mut harness, from + timeout, &tcp(("10.9.9.9", 1), ("10.8.8.8", 1), ACK));
        assert_eq!(harness.counter("created"), created + 1);
        // After a connection has ended, the next packet creates a new one.
        send(&mut harness, from + 1 + timeout, &tcp(CLIENT, WEB, ACK));
        assert_eq!(harness.counter("created"), created + 2, "{flags:?}");
    };
    lasts(&[SYN], 10, 1000);
    lasts(&[SYN, ACK], 100, 3000);
    lasts(&[SYN, ACK, FIN, ACK], 10, 5000);
    lasts(&[ACK, RST], 10, 7000);
    let mut harness = balancer(keys, SERVICES);
    let query = udp(CLIENT, ("192.0.2.10", 53));
    let counts = [1, 21, 41, 62].map(|at| {
        send(&mut harness, at, &query);
        harness.counter("created")
    });
    assert_eq!(counts, [1, 1, 1, 2], "each packet keeps it for 20 s");
    ticked(&mut harness, 1000);
    assert_eq!((harness.counter("connections"), harness.counter("expired")), (0, 2));
}

#[test]
fn a_client_s_port_used_again_is_a_new_connection() {
    let mut harness = balancer("", SERVICES);
    for (flags, created) in [(SYN, 1), (SYN, 1), (ACK, 1), (SYN, 1), (FIN, 1), (ACK, 1), (SYN, 2)] {
        send(&mut harness, 1, &tcp(CLIENT, WEB, flags));
        assert_eq!(harness.counter("created"), created);
    }
    send(&mut harness, 1, &tcp(("198.51.100.8", 1), WEB, RST));
    assert_eq!(harness.counter("created"), 2, "a reset opens nothing");
}

#[test]
fn a_full_table_refuses_or_forgets() {
    // One place for each shard.
    let from = |n: u32| (format!("198.51.{}.{}", n >> 8, n & 255), 4000);
    let client = |n: u32, flags| {
        let (address, port) = from(n);
        tcp((&address, port), WEB, flags)
    };
    let keys = "connections = 64\ntcp_timeout_s = 10";
    let mut harness = balancer(keys, SERVICES);
    // Each one that is taken in is established at once, and so doesn't give way.
    let opens = |harness: &mut Harness, at, n| {
        let out = send(harness, at, &client(n, SYN));
        if reason(&out).is_empty() {
            let (backend, (address, port)) = (destination(&out.bytes), from(n));
            let body = Body::Tcp { src: backend.1, dst: port, flags: SYN | ACK };
            send(harness, at, &Datagram::new(backend.0, ip(&address), body));
            send(harness, at, &client(n, ACK));
        }
        reason(&out)
    };
    let reported: Vec<&str> = (0..1000).map(|n| opens(&mut harness, 1, n)).collect();
    assert_eq!(reported.iter().filter(|reported| reported.is_empty()).count(), 64);
    assert_eq!(reported.iter().filter(|&&reported| reported == "table-full").count(), 936);
    // The same clients later: who expired makes room, exactly then.
    let again = |harness: &mut Harness, at| {
        (1000..2000).filter(|&n| opens(harness, at, n).is_empty()).count()
    };
    assert_eq!((again(&mut harness, 11), again(&mut harness, 12)), (0, 64));
    let mut tunnels = balancer(&format!("mode = \"ipip\"\n{keys}"), PLAIN);
    let mut sent = |n| {
        send(&mut tunnels, 1, &client(n, SYN));
        reason(&send(&mut tunnels, 1, &client(n, ACK))).is_empty()
    };
    assert_eq!((0..1000).filter(|&n| sent(n)).count(), 1000);
    assert_eq!(tunnels.counter("created"), 64);
    assert_eq!(tunnels.counter("unremembered"), 2 * 936);
}

/// Floods of each kind, ten times what the table holds, between the packets of established
/// connections.
#[test]
fn floods_leave_established_connections_standing() {
    for mode in ["dnat", "ipip"] {
        let dns = "vip 192.0.2.10 udp 53\n backend 10.0.0.1\n";
        let services = if mode == "dnat" { SERVICES.to_owned() } else { format!("{PLAIN}{dns}") };
        let keys = format!("mode = \"{mode}\"\nconnections = 1024");
        let mut harness = balancer(&keys, &services);
        let clients: Vec<String> = (0..8).map(|n| format!("198.51.100.{n}")).collect();
        for client in &clients {
            let from = (&client[..], 4000);
            let out = send(&mut harness, 1, &tcp(from, WEB, SYN));
            if mode == "dnat" {
                let backend = destination(&out.bytes);
                let body = Body::Tcp { src: backend.1, dst: 4000, flags: SYN | ACK };
                send(&mut harness, 1, &Datagram::new(backend.0, ip(client), body));
            }
            send(&mut harness, 1, &tcp(from, WEB, ACK));
            send(&mut harness, 1, &tcp(from, WEB, ACK));
        }
        for kind in 0..4 {
            for number in 0..10 * 1024_u32 {
                let address = format!("203.{}.{}.{}", 64 + kind, number >> 8 & 255, number & 255);
                let from = (&address[..], 5000 + (number >> 16) as u16);
                let flood = match kind {
                    0 => tcp(from, WEB, SYN),
                    1 => tcp(from, WEB, ACK),
                    2 => tcp(from, WEB, FIN),
                    _ => udp(from, ("192.0.2.10", 53)),
                };
                assert_eq!(reason(&send(&mut harness, 1, &flood)), "", "{mode} {kind}");
            }
            let known = harness.counter("created");
            for client in &clients {
                send(&mut harness, 1, &tcp((&client[..], 4000), WEB, ACK));
            }
            assert_eq!(harness.counter("created"), known, "{mode} {kind}: all are remembered");
        }
        assert_eq!(harness.counter("unremembered"), 0);
        let evicted = ["evicted-closing", "evicted-half-open", "evicted-one-sided", "evicted-udp"];
        assert!(evicted.iter().all(|name| harness.counter(name) > 5000), "{mode}");
    }
}

#[test]
fn a_client_has_no_more_than_its_bound() {
    let mut harness = balancer("per_source_max = 2", SERVICES);
    let mut opens =
        |address: &str, at, port| reason(&send(&mut harness, at, &tcp((address, port), WEB, SYN)));
    assert_eq!([1, 2, 3].map(|port| opens("198.51.100.7", 1, port)), ["", "", "per-source"]);
    assert_eq!(opens("198.51.100.8", 1, 3), "", "another client has its own");
    assert_eq!(opens("198.51.100.7", 242, 3), "", "the others have expired");
    let mut tunnels = balancer("mode = \"ipip\"\nper_source_max = 2", PLAIN);
    for port in 1..4 {
        assert_eq!(reason(&send(&mut tunnels, 1, &tcp(("198.51.100.7", port), WEB, SYN))), "");
    }
    assert_eq!(tunnels.counter("unremembered"), 1);
}

pub(super) const PLAIN: &str = "vip 192.0.2.10 tcp 80\n backend 10.0.0.1\n backend 10.0.0.2\n";

#[test]
fn drops_of_their_own() {
    let services = "vip 192.0.2.10 tcp 80,443\n backend 10.0.0.1 port 8080\n\
                    vip 192.0.2.11 tcp 80\n backend 10.0.0.2 drain\n\
                    vip 192.0.2.12 tcp 80\n backend 10.0.0.3 down\n\
                    vip 192.0.2.13 tcp 80\n";
    let mut harness = balancer("", services);
    let mut reported = |src, dst| reason(&send(&mut harness, 1, &tcp(src, dst, SYN)));
    assert_eq!(reported(CLIENT, ("192.0.2.10", 80)), "");
    assert_eq!(
        reported(CLIENT, ("192.0.2.10", 443)),
        "conflict",
        "both at one port of the backend"
    );
    assert_eq!(reported((CLIENT.0, 4001), ("192.0.2.10", 443)), "");
    for vip in ["192.0.2.11", "192.0.2.12", "192.0.2.13"] {
        assert_eq!(reported(CLIENT, (vip, 80)), "no-backend");
    }
    assert_eq!(reported(("10.0.0.2", 4000), ("192.0.2.10", 80)), "hairpin");
    assert_eq!(reported(("192.0.2.11", 4000), ("192.0.2.10", 80)), "hairpin");
}

/// A packet for each of many clients; gives the backend of each.
fn backends(harness: &mut Harness, seconds: u64, clients: u32, flags: u8) -> Vec<String> {
    let to = |n: u32| {
        let address = format!("198.51.{}.{}", n >> 8, n & 255);
        let out = send(harness, seconds, &tcp((&address, 4000), WEB, flags));
        assert_eq!(reason(&out), "");
        destination(&out.bytes).0.to_string()
    };
    (0..clients).map(to).collect()
}

fn three(states: [&str; 3]) -> String {
    let line = |(n, state): (usize, &str)| match state {
        "gone" => String::new(),
        state => format!(" backend 10.0.0.{} {state}\n", n + 1),
    };
    let lines: String = states.into_iter().enumerate().map(line).collect();
    format!("vip 192.0.2.10 tcp 80\n{lines}vip 192.0.2.99 udp 9\n backend 10.0.0.1\n")
}

#[test]
fn a_backend_is_drained_lost_and_restored() {
    let keys = "addresses = [\"10.0.0.0/24\", \"192.0.2.0/24\"]";
    let up = three([""; 3]);
    for (state, keeps) in [("drain", true), ("weight 0", true), ("down", false), ("gone", false)] {
        let mut harness = balancer(keys, &up);
        let first = backends(&mut harness, 1, 500, SYN);
        harness.reload(function(keys, &three(["", state, ""]))).unwrap();
        let then = backends(&mut harness, 2, 1000, ACK);
        for (n, (before, after)) in first.iter().zip(&then).enumerate() {
            let lost = before == "10.0.0.2" && !keeps;
            assert!(if lost { after != "10.0.0.2" } else { before == after }, "{state} {n}");
        }
        assert!(then[500..].iter().all(|backend| backend != "10.0.0.2"), "nothing new");
        let lost = first.iter().filter(|&backend| backend == "10.0.0.2").count() as u64;
        assert!(lost > 100);
        assert_eq!(harness.counter("moved"), if keeps { 0 } else { lost });
        harness.reload(function(keys, &up)).unwrap();
        let back = backends(&mut harness, 3, 2000, ACK);
        assert_eq!(back[..1000], then, "clients keep their backends");
        assert!(back[1000..].iter().filter(|&backend| backend == "10.0.0.2").count() > 250);
        // The VIP answers for the new backend of a moved connection, and not for the old one.
        let moved = (0..500).find(|&n| first[n] == "10.0.0.2" && !keeps);
        if let Some(n) = moved {
            let client = (format!("198.51.{}.{}", n >> 8, n & 255), 4000);
            let answer = |from| tcp((from, 80), (&client.0, client.1), ACK);
            let out = send(&mut harness, 3, &answer(&then[n]));
            assert_eq!(out.bytes, answer(&then[n]).from(ip("192.0.2.10"), 80).frame());
            let out = send(&mut harness, 3, &answer(&first[n]));
            assert_eq!(reason(&out), "no-connection", "{state}");
        }
    }
}

/// A client that only receives sends nothing until it is answered.
#[test]
fn answers_of_a_removed_backend_still_come_from_the_vip() {
    let keys = "addresses = [\"10.0.0.0/24\", \"192.0.2.0/24\"]";
    let mut harness = balancer(keys, &three([""; 3]));
    let first = backends(&mut harness, 1, 50, SYN);
    let n = first.iter().position(|backend| backend == "10.0.0.2").expect("one of a third");
    let client = (&*format!("198.51.0.{n}"), 4000);
    harness.reload(function(keys, &three(["", "gone", ""]))).unwrap();
    let answer = tcp(("10.0.0.2", 80), client, ACK);
    let out = send(&mut harness, 2, &answer);
    assert_eq!(out.bytes, answer.clone().from(ip("192.0.2.10"), 80).frame());
    // The packets of other connections are the backend's own.
    let other = tcp(("10.0.0.2", 80), ("198.51.0.99", 9), ACK);
    assert_eq!(send(&mut harness, 2, &other).bytes, other.frame());
    let moved = send(&mut harness, 3, &tcp(client, WEB, ACK));
    assert_ne!(destination(&moved.bytes).0, ip("10.0.0.2"));
    assert_eq!(reason(&send(&mut harness, 3, &answer)), "no-connection");
    let late = send(&mut harness, 300, &answer);
    assert_eq!(late.bytes, answer.frame(), "it is forgotten");
}

#[test]
fn a_vip_that_goes_takes_its_connections_along() {
    let keys = "addresses = [\"10.0.0.0/24\", \"192.0.2.0/24\"]";
    let mut harness = balancer(keys, PLAIN);
    let to = backends(&mut harness, 1, 1, SYN).remove(0);
    let other = PLAIN.replace("192.0.2.10", "192.0.2.11");
    harness.reload(function(keys, &other)).unwrap();
    let syn = tcp(("198.51.0.0", 4000), WEB, ACK);
    let out = send(&mut harness, 2, &syn);
    assert_eq!(out.bytes, syn.frame(), "no VIP's any more");
    let answer = tcp((&to, 80), ("198.51.0.0", 4000), ACK);
    assert_eq!(reason(&send(&mut harness, 2, &answer)), "no-vip");
    harness.reload(function(keys, PLAIN)).unwrap();
    assert_eq!(backends(&mut harness, 3, 1, ACK), [to]);
    assert_eq!(harness.counter("created"), 1);
}

#[test]
fn unchangeable_keys_are_refused() {
    let keys = "addresses = [\"10.0.0.0/24\", \"192.0.2.0/24\", \"2001:db8::/32\", \"fd00::/16\"]";
    let old = function(keys, PLAIN);
    let why = |keys: &str, services: &str| function(keys, services).succeeds(&*old).unwrap_err();
    for key in ["connections = 64", "udp_timeout_s = 1", "table_size = 251"] {
        assert!(why(&format!("{keys}\n{key}"), PLAIN).contains("can't be changed"));
    }
    assert!(why("mode = \"ipip\"", PLAIN).contains("`mode`"));
    assert!(why("", PLAIN).contains("`addresses`"));
    assert!(why(keys, SERVICES).contains("IPv6"));
    assert!(function(keys, PLAIN).succeeds(&*old).is_ok());
    let other = Finder::new(ScratchWord::new(0).unwrap(), 1);
    assert!(function(keys, PLAIN).succeeds(&other).is_err());
}

#[test]
fn packets_to_vips_are_its_own() {
    let own = function("", SERVICES).own_addresses();
    let vips = ["192.0.2.10", "2001:db8::10"].map(ip);
    assert_eq!(own, vips.map(|vip| (vip, vip)));
}
