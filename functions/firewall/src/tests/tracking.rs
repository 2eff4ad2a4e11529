//! With connections: every packet leaves as the model says, whatever the batches.

use warpline_packet::{FlowHasher, Headers, LinkType, Shard, Steering};

use super::model::Model;
use super::traffic::{self, Numbers, Sent, Shape};
use super::{Draw, firewall, reported};
use warpline_rule_files::Rule;
use warpline_testkit::conntrack::Mode;
use warpline_verify::Input;

const SECOND: u64 = 1_000_000_000;

/// Draws a packet of one of a few hosts, so that connections recur.
fn drawn(draw: &mut Draw, before: &[Sent]) -> (Sent, Option<Sent>) {
    if let Some(first) = before.last().filter(|last| last.shape == Shape::FirstFragment)
        && !draw.one_in(4)
    {
        let shape = Shape::LaterFragment(draw.pick(&[1, 3, 100]));
        return (Sent { shape, ..first.clone() }, None);
    }
    let version = draw.pick(&[4, 4, 6]);
    let icmp = if version == 4 { 1 } else { 58 };
    let (hosts, icmp_types): ([u128; 3], [u8; 4]) = match version {
        4 => ([0x0a00_0001, 0x0a01_0002, 0xc0a8_0003], [8, 8, 0, 3]),
        _ => ([1, 2, 3].map(|host| 0x2001_0db8 << 96 | host), [128, 128, 129, 1]),
    };
    let (shape, vlan) = match draw.below(30) {
        0 => (Shape::LaterFragment(100), false),
        1 => (Shape::Malformed, false),
        2 => (Shape::FirstFragment, true),
        _ => (Shape::Whole, false),
    };
    // SYN, SYN ACK, ACK, FIN ACK, RST, PSH ACK, SYN FIN, none
    let flags = draw.pick(&[2, 2, 2, 18, 18, 16, 16, 16, 16, 17, 17, 4, 24, 3, 0]);
    let mut sent = Sent {
        version,
        src: draw.pick(&hosts),
        dst: draw.pick(&hosts),
        protocol: draw.pick(&[6, 6, 6, 6, 17, 17, icmp, icmp, 47]),
        src_port: draw.pick(&[80, 1024]),
        dst_port: draw.pick(&[53, 80, 1024]),
        flags,
        numbers: Numbers::drawn(draw, flags),
        message_type: draw.pick(&icmp_types),
        code: 0,
        ident: draw.below(2) as u16,
        quoted: Vec::new(),
        vlan,
        shape,
    };
    let mut about = None;
    if let Some(last) = before.last()
        && draw.one_in(2)
    {
        // Go on with, or answer, a packet that came not long ago.
        let back = draw.below(before.len().min(8));
        let old = before.get(before.len() - 1 - back).unwrap_or(last);
        let (flags, numbers, types) = (sent.flags, sent.numbers, sent.message_type);
        sent = Sent { shape: Shape::Whole, flags, numbers, quoted: Vec::new(), ..old.clone() };
        let turned = draw.one_in(2);
        if turned {
            (sent.src, sent.dst) = (old.dst, old.src);
            (sent.src_port, sent.dst_port) = (old.dst_port, old.src_port);
        }
        if !draw.one_in(4) {
            sent.flags = match old.flags {
                2 if turned => 18,
                18 if turned => 16,
                _ => draw.pick(&[16, 16, 16, 16, 17, 17, 24, 4, 20]),
            };
            sent.numbers = Numbers::drawn(draw, sent.flags);
        }
        if sent.version == version {
            sent.message_type = types;
        }
    }
    if (sent.src, sent.src_port) == (sent.dst, sent.dst_port) {
        // A host that talks to itself from one port would be both sides of the connection.
        sent.dst_port += 1;
    }
    let error = matches!((sent.version, sent.message_type), (4, 3) | (6, 1));
    if sent.protocol == (if sent.version == 4 { 1 } else { 58 }) && error {
        let old = before.iter().rev().take(8).find(|old| {
            let nested = matches!(old.protocol, 1 | 58) && !old.quoted.is_empty();
            old.version == sent.version && old.shape == Shape::Whole && !nested
        });
        let of_request = |old: &&Sent| {
            old.protocol != sent.protocol || matches!(old.message_type, 0 | 8 | 128 | 129)
        };
        if let Some(mut old) = old.filter(of_request).cloned() {
            if draw.one_in(4) {
                // Perhaps a packet that the other side never sent.
                (old.src, old.dst) = (old.dst, old.src);
            }
            sent.quoted = old.packet()[..if old.version == 4 { 28 } else { 48 }].to_vec();
            (sent.dst, sent.src) = (old.src, draw.pick(&[old.dst, old.dst, hosts[0]]));
            if draw.one_in(8) {
                sent.dst = old.dst;
            }
            sent.shape = Shape::Whole;
            about = Some(old);
        }
    }
    (sent, about)
}

type Timed = (Sent, Option<Sent>, u64);

fn story(draw: &mut Draw, len: usize) -> Vec<Timed> {
    let (mut now, mut sents, mut story) = (5 * SECOND, Vec::new(), Vec::new());
    for _ in 0..len {
        let (sent, about) = drawn(draw, &sents);
        now += draw.pick(&[0, 0, 0, 1, SECOND / 3, SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND]);
        if draw.one_in(200) {
            now += draw.pick(&[60, 120, 180, 600, 7440]) * SECOND;
        }
        sents.push(sent.clone());
        story.push((sent, about, now));
    }
    story
}

fn shard_of(input: &Input) -> usize {
    let headers = Headers::parse(&input.bytes, LinkType::ETHERNET, input.wire_len as usize);
    Steering::AddressPair.steer(&FlowHasher::SEED_0, &input.bytes, &headers).shard.into()
}

/// The counters of evicted connections.
const EVICTED: [&str; 6] = [
    "evicted-closed",
    "evicted-half-open",
    "evicted-udp",
    "evicted-icmp",
    "evicted-other",
    "evicted-finishing",
];

const WEB: &str = "accept tcp to any port 53,80\naccept udp from any port 80\naccept icmp\n\
                   accept icmpv6 type echo-request\naccept 47 from 10.0.0.0/8\n";

#[test]
fn packets_leave_as_the_model_says() {
    let mut seen = std::collections::HashMap::new();
    for seed in 0..72 {
        let mut draw = Draw::new(seed);
        let lines = if seed % 3 == 0 { 0 } else { 6 };
        let mut rules: Vec<Rule> =
            (1..=lines).map(|n| traffic::rule(&mut draw, n, seed % 2 == 1)).collect();
        let mut text: String = rules.iter().map(|rule| traffic::text(rule) + "\n").collect();
        text += WEB;
        let source = warpline_nf::SourceText::new("rules", text.as_str());
        rules = warpline_rule_files::parse_lines(&source).rules;
        let loose = seed % 4 == 3;
        let mode = Mode { liberal: seed % 3 == 2, loose, one_sided: seed % 7 == 0 };
        let places = [
            |shard| Shard::new(shard).share(64),
            |shard| Shard::new(shard).share(200),
            |shard| Shard::new(shard).share(1000),
        ];
        let places: fn(usize) -> usize = places[seed as usize / 2 % 3];
        let connections = [64, 200, 1000][seed as usize / 2 % 3];
        let per_source = if seed % 4 == 1 { 2 } else { 0 };
        let Mode { one_sided, .. } = mode;
        let window = if mode.liberal { "liberal" } else { "strict" };
        let keys = format!(
            "established = true\ntcp_loose = {loose}\ntcp_one_sided = {one_sided}\n\
             tcp_window = '{window}'\nconnections = {connections}\n\
             per_source_max = {per_source}\n"
        );
        let story = story(&mut draw, 1500);
        let inputs: Vec<Input> = story.iter().map(|(sent, _, now)| sent.input(*now)).collect();
        let mut model = Model::new(&rules, mode, places);
        model.per_source = if per_source > 0 { per_source } else { usize::MAX };
        let expected: Vec<&str> = (story.iter().zip(&inputs))
            .map(|((sent, about, now), input)| {
                model.send(sent, about.as_ref(), shard_of(input), *now)
            })
            .collect();
        for size in [1, 7, 256] {
            let mut harness = firewall(&text, &keys);
            let out: Vec<&str> = inputs
                .chunks(size)
                .flat_map(|batch| harness.process(batch).iter().map(reported).collect::<Vec<_>>())
                .collect();
            for (i, (out, expected)) in out.iter().zip(&expected).enumerate() {
                let at = &story[i];
                assert_eq!(out, expected, "seed {seed}, packet {i} in {size}s: {at:x?}\n{text}");
            }
            for name in EVICTED.into_iter().chain(["out-of-window"]) {
                let expected = model.counted.get(name).copied().unwrap_or(0);
                assert_eq!(harness.counter(name), expected, "seed {seed}, {name}");
            }
        }
        expected.iter().for_each(|&reported| *seen.entry(reported).or_insert(0) += 1);
        model.counted.into_iter().for_each(|(name, n)| *seen.entry(name).or_insert(0) += n);
    }
    for reason in ["accept", "rule", "default", "malformed", "invalid", "table-full", "per-source"]
    {
        assert!(seen[reason] > 10, "{reason} was hardly tried: {seen:?}");
    }
    for name in EVICTED.into_iter().chain(["out-of-window"]) {
        assert!(seen.get(name).is_some_and(|&n| n > 1), "{name} was hardly tried: {seen:?}");
    }
}

/// As in Linux: an error is about a connection where it goes to the sender of a packet of it.
#[test]
fn an_error_is_about_what_its_receiver_sent() {
    for version in [4, 6] {
        let icmp = if version == 4 { 1 } else { 58 };
        let (request, reply) = if version == 4 { (8, 0) } else { (128, 129) };
        let plain = Sent {
            version,
            src: 1,
            dst: 2,
            protocol: icmp,
            src_port: 7,
            dst_port: 53,
            message_type: request,
            code: 0,
            ident: 5,
            vlan: false,
            shape: Shape::Whole,
            ..Sent::drawn(&mut Draw::new(0))
        };
        let turned = |sent: &Sent| Sent {
            src: sent.dst,
            dst: sent.src,
            src_port: sent.dst_port,
            dst_port: sent.src_port,
            ..sent.clone()
        };
        let reply = Sent { message_type: reply, ..plain.clone() };
        let other = Sent { ident: 6, ..plain.clone() };
        let udp = Sent { protocol: 17, ..plain.clone() };
        let foreign = Sent { dst_port: 54, ..udp.clone() };
        let cases = [
            (&plain, plain.clone(), "accept"),
            (&plain, turned(&reply), "accept"),
            (&plain, turned(&plain), "default"),
            (&plain, reply.clone(), "default"),
            (&plain, other, "default"),
            (&plain, udp.clone(), "default"),
            (&udp, udp.clone(), "accept"),
            (&udp, turned(&udp), "accept"),
            (&udp, foreign, "default"),
            (&udp, Sent { protocol: 6, ..udp.clone() }, "default"),
        ];
        let rules = "accept any from 0.0.0.1 to any\naccept any from ::1 to any\n";
        for (sent, quoted, expected) in cases {
            let mut harness = firewall(rules, "established = true");
            assert_eq!(reported(&harness.process(&[sent.input(0)])[0]), "accept");
            let message_type = if version == 4 { 3 } else { 1 };
            let bytes = quoted.packet();
            // From a router that no rule names, to the sender of the quoted packet.
            let mut error =
                Sent { src: 9, dst: quoted.src, message_type, quoted: bytes, ..plain.clone() };
            assert_eq!(reported(&harness.process(&[error.input(1)])[0]), expected, "{quoted:?}");
            error.dst = 3;
            assert_eq!(reported(&harness.process(&[error.input(2)])[0]), "default", "{quoted:?}");
        }
    }
}

/// Both hosts send requests with one identifier: each has a connection of its own.
#[test]
fn two_that_ask_each_other_are_two_connections() {
    let ask = |src, dst, message_type| Sent {
        version: 4,
        protocol: 1,
        src,
        dst,
        message_type,
        ident: 5,
        vlan: false,
        shape: Shape::Whole,
        ..Sent::drawn(&mut Draw::new(0))
    };
    let mut harness = firewall("accept icmp type echo-request\n", "established = true");
    for sent in [ask(1, 2, 8), ask(2, 1, 8), ask(1, 2, 0), ask(2, 1, 0), ask(1, 2, 8)] {
        assert_eq!(reported(&harness.process(&[sent.input(0)])[0]), "accept", "{sent:?}");
    }
    assert_eq!(harness.counter("connections"), 2);
}

/// An error quotes a packet with IPv6 extension headers: they are looked through, as those of
/// packets are.
#[test]
fn extension_headers_of_a_quote_are_looked_through() {
    let plain = Sent {
        version: 6,
        protocol: 17,
        src: 1,
        dst: 2,
        vlan: false,
        shape: Shape::FirstFragment,
        ..Sent::drawn(&mut Draw::new(0))
    };
    let mut harness = firewall("accept any from ::1 to any\n", "established = true");
    assert_eq!(reported(&harness.process(&[plain.input(0)])[0]), "accept");
    let later = Sent { shape: Shape::LaterFragment(9), ..plain.clone() };
    for (quoted, expected) in [(plain.packet(), "accept"), (later.packet(), "default")] {
        let whole = Sent { shape: Shape::Whole, protocol: 58, message_type: 3, ..plain.clone() };
        let error = Sent { src: 9, dst: 1, quoted, ..whole };
        assert_eq!(reported(&harness.process(&[error.input(1)])[0]), expected);
    }
}

/// A quote is read by the rule that every header is judged by: one that says it is shorter than it
/// is tells nothing.
#[test]
fn a_quote_whose_header_lies_is_of_no_connection() {
    let plain = Sent {
        version: 4,
        protocol: 17,
        src: 1,
        dst: 2,
        vlan: false,
        shape: Shape::Whole,
        ..Sent::drawn(&mut Draw::new(0))
    };
    let mut harness = firewall("accept any from 0.0.0.1 to any\n", "established = true");
    assert_eq!(reported(&harness.process(&[plain.input(0)])[0]), "accept");
    for (start, expected) in [(0x45, "accept"), (0x44, "default"), (0x65, "default")] {
        let mut quoted = plain.packet();
        quoted[0] = start;
        let error = Sent { src: 9, dst: 1, protocol: 1, message_type: 3, quoted, ..plain.clone() };
        assert_eq!(reported(&harness.process(&[error.input(1)])[0]), expected, "{start:x}");
    }
}

/// TCP from 10.0.0.1 port `port` to 10.0.0.2 port 80, or back.
fn segment(port: u16, flags: u8, back: bool, seconds: u64) -> Input {
    let mut sent = Sent {
        version: 4,
        protocol: 6,
        src: 0x0a00_0001,
        dst: 0x0a00_0002,
        src_port: port,
        dst_port: 80,
        flags,
        numbers: Numbers::plain(flags),
        vlan: false,
        shape: Shape::Whole,
        ..Sent::drawn(&mut Draw::new(0))
    };
    if back {
        (sent.src, sent.dst) = (sent.dst, sent.src);
        (sent.src_port, sent.dst_port) = (sent.dst_port, sent.src_port);
    }
    sent.input(seconds * SECOND)
}

const SYN: u8 = 2;
const ACK: u8 = 16;

#[test]
fn a_connection_lives_from_handshake_to_timeout() {
    let mut harness = firewall("accept tcp from 10.0.0.1 to any port 80\n", "established = true");
    let mut send = |input: Input| reported(&harness.process(&[input])[0]);
    assert_eq!(send(segment(9, ACK, false, 0)), "invalid");
    assert_eq!(send(segment(9, SYN, true, 0)), "default");
    assert_eq!(send(segment(9, SYN, false, 0)), "accept");
    assert_eq!(send(segment(9, ACK, false, 0)), "invalid");
    assert_eq!(send(segment(9, SYN | ACK, true, 1)), "accept");
    assert_eq!(send(segment(9, ACK, false, 2)), "accept");
    assert_eq!(send(segment(9, ACK, true, 7442)), "accept", "to the end of that second");
    assert_eq!(send(segment(9, ACK, true, 7443 + 7440)), "invalid");
    assert_eq!(harness.counter("connections-created"), 1);
    assert_eq!(harness.counter("connections-expired"), 1);
    assert_eq!(harness.counter("connections"), 0);
}

#[test]
fn in_a_full_table_what_is_worth_least_gives_way() {
    let keys = "established = true\nconnections = 256";
    let mut harness = firewall("accept tcp from 10.0.0.1 to any port 80\n", keys);
    let mut send = |input: Input| reported(&harness.process(&[input])[0]);
    // One pair of addresses is one shard, of four places.
    for port in 1..=3 {
        for (flags, back) in [(SYN, false), (SYN | ACK, true), (ACK, false)] {
            assert_eq!(send(segment(port, flags, back, 1)), "accept");
        }
    }
    for port in 10..50 {
        assert_eq!(send(segment(port, SYN, false, 2)), "accept", "a flood pushes out itself");
    }
    assert_eq!(send(segment(49, SYN | ACK, true, 3)), "accept");
    assert_eq!(send(segment(48, SYN | ACK, true, 3)), "invalid", "it gave way");
    assert_eq!(send(segment(49, ACK, false, 3)), "accept");
    assert_eq!(send(segment(50, SYN, false, 3)), "table-full", "all are established");
    assert_eq!(send(segment(2, 17, false, 4)), "accept", "one closes");
    assert_eq!(send(segment(50, SYN, false, 4)), "accept");
    assert_eq!(send(segment(1, ACK, true, 5)), "accept");
    assert_eq!(send(segment(3, ACK, true, 5)), "accept");
    assert_eq!(send(segment(2, ACK, true, 5)), "invalid", "that gave way");
    assert_eq!(harness.counter("evicted-half-open"), 39);
    assert_eq!(harness.counter("evicted-finishing"), 1);
    assert_eq!(harness.counter("connections-refused"), 1);
    harness.tick(warpline_packet::Instant::from_secs(100_000));
    assert_eq!(harness.counter("connections"), 0);
}

/// Floods of every kind, each of ten times what the table holds, between the packets of established
/// connections: these stand, and half a handshake survives as long as its kind isn't the flood's.
#[test]
fn floods_leave_established_connections_standing() {
    let keys = "established = true\nconnections = 1024";
    let sent = |draw: &mut Draw, protocol: u8, src: u128| Sent {
        version: 4,
        protocol,
        src,
        dst: 0x0a00_0002,
        src_port: draw.next() as u16,
        dst_port: 80,
        flags: SYN,
        numbers: Numbers::plain(SYN),
        message_type: 8,
        ident: draw.next() as u16,
        vlan: false,
        shape: Shape::Whole,
        ..Sent::drawn(&mut Draw::new(0))
    };
    for seed in 0..1 {
        let mut draw = Draw::new(seed);
        let mut harness = firewall("accept any from any to any\n", keys);
        let mut send = |input: Input| reported(&harness.process(&[input])[0]);
        for port in 1..=4 {
            for (flags, back) in [(SYN, false), (SYN | ACK, true), (ACK, false)] {
                assert_eq!(send(segment(port, flags, back, 1)), "accept", "seed {seed}");
            }
        }
        for protocol in [17, 1, 47, 6] {
            let half_open = 100 + u16::from(protocol);
            assert_eq!(send(segment(half_open, SYN, false, 2)), "accept");
            for number in 0..10 * 1024 {
                // From anywhere, so that all shards are flooded; sometimes from the same host.
                let any = u128::from(draw.next() as u32);
                let src = if draw.one_in(4) { 0x0a00_0001 } else { any };
                assert_ne!(send(sent(&mut draw, protocol, src).input(2 * SECOND)), "table-full");
                if number % 512 == 0 {
                    for port in 1..=4 {
                        let (flags, back) = (ACK, draw.one_in(2));
                        assert_eq!(send(segment(port, flags, back, 2)), "accept", "seed {seed}");
                    }
                }
            }
            let answer = send(segment(half_open, SYN | ACK, true, 2));
            assert_eq!(answer, if protocol == 6 { "invalid" } else { "accept" }, "seed {seed}");
        }
        assert_eq!(harness.counter("connections-refused"), 0);
        assert_eq!(harness.counter("connections"), 1024, "seed {seed}");
    }
}

#[test]
fn a_source_has_no_more_than_its_bound() {
    let keys = "established = true\nper_source_max = 3";
    let mut harness = firewall("accept tcp to any port 80\n", keys);
    let mut send = |input: Input| reported(&harness.process(&[input])[0]);
    let out: Vec<&str> = (1..=5).map(|port| send(segment(port, SYN, false, 1))).collect();
    assert_eq!(out, ["accept", "accept", "accept", "per-source", "per-source"]);
    assert_eq!(send(segment(80, SYN, true, 1)), "accept", "the other side has its own");
    assert_eq!(send(segment(1, SYN | ACK, true, 2)), "accept");
    assert_eq!(send(segment(1, ACK, false, 2)), "accept");
    assert_eq!(send(segment(4, SYN, false, 62)), "accept", "half-open ones have expired");
    assert_eq!(harness.counter("connections-refused"), 2);
}

#[test]
fn a_reset_connection_is_over_after_its_timeout_whatever_still_comes() {
    let mut harness = firewall("accept tcp to any port 80\n", "established = true");
    let mut send = |input: Input| reported(&harness.process(&[input])[0]);
    for (flags, back) in [(SYN, false), (SYN | ACK, true), (ACK, false), (4, true)] {
        assert_eq!(send(segment(9, flags, back, 1)), "accept");
    }
    assert_eq!(send(segment(9, ACK, false, 11)), "accept");
    assert_eq!(send(segment(9, ACK, false, 12)), "invalid");
}

/// The answer to a SYN is a reset: nothing is left to be known.
#[test]
fn a_connection_that_is_refused_is_forgotten_at_once() {
    let mut harness = firewall("accept tcp to any port 80\n", "established = true");
    let mut send = |input: Input| reported(&harness.process(&[input])[0]);
    assert_eq!(send(segment(9, SYN, false, 0)), "accept");
    assert_eq!(send(segment(9, 4, true, 1)), "accept");
    assert_eq!(send(segment(9, ACK, false, 1)), "invalid");
    assert_eq!(harness.counter("connections"), 0);
}

#[test]
fn expired_connections_are_not_found_in_any_number() {
    let keys = "established = true\nconnections = 6400";
    let mut harness = firewall("accept tcp to any port 80\n", keys);
    let opening: Vec<Input> = (1..=50).map(|port| segment(port, SYN, false, 1)).collect();
    assert!(harness.process(&opening).iter().all(|outcome| reported(outcome) == "accept"));
    let late = harness.process(&[segment(50, SYN | ACK, true, 62)]);
    assert_eq!(reported(&late[0]), "invalid");
}

#[test]
fn many_connections_of_a_shard_are_all_known() {
    let mut harness = firewall("accept tcp to any port 80\n", "established = true");
    for (flags, back) in [(SYN, false), (SYN | ACK, true), (ACK, false), (ACK, true)] {
        let segments: Vec<Input> = (1..=200).map(|port| segment(port, flags, back, 1)).collect();
        assert!(harness.process(&segments).iter().all(|outcome| reported(outcome) == "accept"));
    }
    assert_eq!(harness.counter("connections"), 200);
    let stray = harness.process(&[segment(201, ACK, false, 1)]);
    assert_eq!(reported(&stray[0]), "invalid");
}

/// A fragment of a datagram from 10.0.0.1 to port `port` of 10.0.0.2.
fn piece(port: u16, shape: Shape, seconds: u64) -> Input {
    let sent = Sent {
        version: 4,
        protocol: 17,
        src: 0x0a00_0001,
        dst: 0x0a00_0002,
        src_port: 9,
        dst_port: port,
        vlan: false,
        shape,
        ..Sent::drawn(&mut Draw::new(0))
    };
    sent.input(seconds * SECOND)
}

#[test]
fn later_fragments_follow_the_first_one() {
    let (first, later) = (Shape::FirstFragment, Shape::LaterFragment(3));
    let mut harness = firewall("accept udp to any port 53\n", "established = true");
    let mut send = |input: Input| reported(&harness.process(&[input])[0]);
    assert_eq!(send(piece(53, later, 1)), "default", "unknown: the rules decide");
    assert_eq!(send(piece(53, first, 1)), "accept");
    assert_eq!(send(piece(53, later, 1)), "accept");
    assert_eq!(send(piece(54, first, 2)), "default");
    assert_eq!(send(piece(54, later, 2)), "fragment", "the first one was dropped");
    assert_eq!(send(piece(53, first, 3)), "accept");
    assert_eq!(send(piece(53, later, 62)), "accept");
    assert_eq!(send(piece(53, later, 63)), "default", "forgotten");
    let keys = "established = true\nfragments = \"drop\"";
    let mut harness = firewall("accept udp to any port 53\n", keys);
    let out = [first, later].map(|shape| reported(&harness.process(&[piece(53, shape, 1)])[0]));
    assert_eq!(out, ["accept", "fragment"]);
}

/// A rule that would accept any fragment does not accept one whose first one was refused for
/// another reason than rules.
#[test]
fn the_rest_of_a_refused_packet_is_refused() {
    let keys = "established = true\nper_source_max = 1";
    let mut harness = firewall("accept any\n", keys);
    let mut send = |input: Input| reported(&harness.process(&[input])[0]);
    let (first, later) = (Shape::FirstFragment, Shape::LaterFragment(3));
    assert_eq!(send(piece(1, later, 1)), "accept", "unknown: the rules decide");
    assert_eq!(send(piece(1, first, 1)), "accept");
    assert_eq!(send(piece(2, first, 1)), "per-source");
    assert_eq!(send(piece(2, later, 1)), "fragment");
}

/// The ports of a rule hold for the whole packet, also if the rule asks for a connection.
#[test]
fn fragments_follow_where_rules_ask_for_connections() {
    let rules = "accept established udp to any port 53\naccept udp to any port 53\n";
    let mut harness = firewall(rules, "established = true");
    for shape in [Shape::Whole, Shape::FirstFragment, Shape::LaterFragment(3)] {
        assert_eq!(reported(&harness.process(&[piece(53, shape, 1)])[0]), "accept", "{shape:?}");
    }
}
