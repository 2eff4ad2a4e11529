//! Refused packets, each by its reason.

use warpline_packet::{Instant, LinkType};

use super::super::DEFINITION;
use super::gateway::{
    ALL, CBC, CBC_192, Ends, Files, GCM, SUITES, SaText, again, ip, on_link, reason, send, udp,
};
use warpline_nf::{Outputs, Port, Ports, Resources, Side};
use warpline_verify::{Harness, Input, build_with};

const LINK: LinkType = LinkType::RAW;

fn packet(len: usize) -> Input {
    on_link(LINK, &udp("10.1.0.1", "10.2.0.1", [1, 2], len))
}

#[test]
fn every_byte_that_changes_is_seen() {
    for &suite in SUITES {
        let mut ends = Ends::new(&SaText::new(suite));
        let sealed = again(&send(&mut ends.here, &packet(20)), LINK);
        for at in 20..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[at] ^= 0x10;
            let out = send(&mut ends.there, &changed);
            let expected = if at < 24 { "no-sa" } else { "bad-icv" };
            assert_eq!(reason(&out), expected, "{suite:?}, byte {at}");
            assert_eq!(out.bytes, changed.bytes, "nothing was opened");
        }
        for len in 20..sealed.bytes.len() {
            let mut cut = sealed.clone();
            cut.bytes.truncate(len);
            cut.wire_len = len as u32;
            cut.bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let out = send(&mut ends.there, &cut);
            assert!(["bad-icv", "malformed", "lies"].contains(&reason(&out)), "{suite:?} {len}");
        }
        assert_eq!(reason(&send(&mut ends.there, &sealed)), "forward", "the window did not move");
    }
}

#[test]
fn late_and_repeated_packets_go_by_the_window() {
    let more = "replay_window = 32".to_owned();
    let mut ends = Ends::new(&SaText { more, ..SaText::new(CBC) });
    let sealed: Vec<_> =
        (0..100).map(|_| again(&send(&mut ends.here, &packet(20)), LINK)).collect();
    let mut send = |number: usize| reason(&send(&mut ends.there, &sealed[number - 1]));
    assert_eq!((send(40), send(40)), ("forward", "replay"));
    assert_eq!((send(9), send(8), send(39), send(9)), ("forward", "replay", "forward", "replay"));
    assert_eq!((send(100), send(69), send(68)), ("forward", "forward", "replay"));
    let more = "replay_window = 0".to_owned();
    let mut ends = Ends::new(&SaText { more, ..SaText::new(CBC) });
    let sealed = again(&super::gateway::send(&mut ends.here, &packet(20)), LINK);
    for _ in 0..3 {
        assert_eq!(reason(&super::gateway::send(&mut ends.there, &sealed)), "forward");
    }
}

/// RFC 4303, 3.4.3: the number is looked at first, the ICV then, and the window moves after that.
#[test]
fn forged_packets_are_rejected_by_their_number_first() {
    for &suite in SUITES {
        let mut ends = Ends::new(&SaText::new(suite));
        let sealed: Vec<_> =
            (0..3).map(|_| again(&send(&mut ends.here, &packet(20)), LINK)).collect();
        let forged = |input: &Input| {
            let mut forged = input.clone();
            *forged.bytes.last_mut().unwrap() ^= 1;
            forged
        };
        let mut messages = |input: &Input| reason(&send(&mut ends.there, input));
        assert_eq!(messages(&sealed[1]), "forward", "{suite:?}");
        assert_eq!(messages(&forged(&sealed[1])), "replay", "{suite:?}");
        assert_eq!(messages(&forged(&sealed[0])), "bad-icv", "{suite:?}");
        assert_eq!(messages(&forged(&sealed[2])), "bad-icv", "{suite:?}");
        assert_eq!(
            (messages(&sealed[0]), messages(&sealed[2])),
            ("forward", "forward"),
            "{suite:?}"
        );
    }
}

#[test]
fn numbers_end() {
    for (more, last) in [("sequence = 4294967293", 2), ("esn = true\nsequence = 4294967293", 9)] {
        let mut ends = Ends::new(&SaText { more: more.into(), ..SaText::new(GCM) });
        let out: Vec<_> = (0..9).map(|_| send(&mut ends.here, &packet(20))).collect();
        let passed = out.iter().filter(|out| reason(out) == "forward").count();
        assert_eq!(passed, last, "{more}");
        assert!(out[last..].iter().all(|out| reason(out) == "sequence-overflow"));
    }
}

#[test]
fn lifetimes_end() {
    let at =
        |second: u64| Input { timestamp: Instant::from_secs(1_000_000 + second), ..packet(20) };
    // Each packet has 48 bytes.
    for (hard, passes) in [("packets = 3", 3), ("bytes = 200", 4), ("seconds = 5", 5)] {
        for (is_here, soft) in [(true, "packets = 2"), (false, "bytes = 96")] {
            let limit = format!("lifetime = {{ soft = {{ {soft} }}, hard = {{ {hard} }} }}");
            let limited = SaText { more: limit, ..SaText::new(CBC) };
            let free = SaText::new(CBC);
            let mut ends = Ends::new(if is_here { &limited } else { &free });
            let mut there = Ends::new(if is_here { &free } else { &limited }).there;
            let mut reasons = Vec::new();
            for second in 0..8 {
                let out = send(&mut ends.here, &at(second));
                reasons.push(match reason(&out) {
                    "forward" => {
                        let timestamp = at(second).timestamp;
                        let sealed = Input { timestamp, ..again(&out, LINK) };
                        reason(&send(&mut there, &sealed))
                    }
                    dropped => dropped,
                });
            }
            let expected: Vec<_> =
                (0..8).map(|n| if n < passes { "forward" } else { "lifetime" }).collect();
            assert_eq!(reasons, expected, "{hard}, here: {is_here}");
        }
    }
}

#[test]
fn policies_decide_in_their_order() {
    let files = Files::new();
    files.write("sas.toml", &SaText::new(CBC).text("out"));
    files.write(
        "policies.toml",
        "[[policy]]\nsrc = '10.1.0.0/16'\ndst = '10.2.0.9/32'\naction = 'discard'\n\
         [[policy]]\nsrc = '10.1.0.0/16'\ndst = '10.2.0.0/16'\nprotocol = 'udp'\ndst_ports = '53'\n\
         action = 'bypass'\n\
         [[policy]]\nsrc = '10.1.0.0/16'\ndst = '10.2.0.0/16'\naction = 'protect'\nsa = 'one'\n",
    );
    let mut gateway = files.gateway("");
    let mut case = |dst: &str, ports: [u16; 2]| {
        let input = on_link(LINK, &udp("10.1.0.1", dst, ports, 10));
        let out = send(&mut gateway, &input);
        if reason(&out) == "forward" && out.bytes == input.bytes { "bypass" } else { reason(&out) }
    };
    assert_eq!(case("10.2.0.9", [1, 53]), "discard");
    assert_eq!(case("10.2.0.1", [1, 53]), "bypass");
    assert_eq!(case("10.2.0.1", [53, 1]), "forward");
    assert_eq!(case("10.3.0.1", [1, 53]), "no-policy");
    // A later fragment may be one of port 53, and may be one that is to be protected.
    let mut fragment = udp("10.1.0.1", "10.2.0.1", [1, 9], 24);
    fragment[7] = 5;
    assert_eq!(reason(&send(&mut gateway, &on_link(LINK, &fragment))), "fragment");
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    assert_eq!(reason(&send(&mut gateway, &Input::at(0, &arp))), "forward");
    let mut strict = files.gateway("non_ip = 'drop'");
    assert_eq!(reason(&send(&mut strict, &Input::at(0, &arp))), "non-ip");
}

#[test]
fn protected_traffic_in_the_clear_is_dropped() {
    let files = Files::new();
    let selectors = "selectors = [{ src = '10.1.0.0/16', dst = '10.2.0.0/16', protocol = 'udp' }]";
    let sa = SaText { more: selectors.into(), ..SaText::new(CBC) };
    files.write("sas.toml", &sa.text("in"));
    let mut there = files.gateway("default = 'bypass'");
    assert_eq!(reason(&send(&mut there, &packet(10))), "no-policy");
    let other = on_link(LINK, &udp("10.1.0.1", "10.9.0.1", [1, 2], 10));
    assert_eq!(reason(&send(&mut there, &other)), "forward");

    let mut here = Ends::new(&SaText::new(CBC)).here;
    let mut open = |packet: Vec<u8>| {
        let sealed = again(&send(&mut here, &on_link(LINK, &packet)), LINK);
        reason(&send(&mut there, &sealed))
    };
    assert_eq!(open(udp("10.1.0.1", "10.2.0.1", [1, 2], 10)), "forward");
    assert_eq!(open(udp("10.1.0.1", "10.3.0.1", [1, 2], 10)), "selector-mismatch");
    assert_eq!(open(ip("10.1.0.1", "10.2.0.1", 99, b"other", None)), "selector-mismatch");
}

/// Nobody outside can have packets sealed, whatever their addresses.
#[test]
fn nothing_from_outside_is_sealed() {
    let files = Files::new();
    files.write("sas.toml", &SaText::new(CBC).text("out"));
    files.write("policies.toml", ALL);
    let port = |name: &str, side| Port { name: name.into(), side };
    let ports = Ports::new(vec![port("lan", Side::Inside), port("wan", Side::Outside)]);
    let mut resources = Resources::default().with_ports(ports);
    let built = build_with(&DEFINITION, &files.table(""), &files.0, &mut resources);
    let function = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    function.report(&Outputs::default()).expect("files that open");
    let mut gateway = Harness::new(function, resources.scratch_words());
    gateway.set_comes(|packet| [packet as u16 % 2, 0]);
    let outcomes = gateway.process(&[packet(10), packet(10)]);
    assert_eq!([0, 1].map(|at: usize| reason(&outcomes[at])), ["forward", "no-policy"]);
    assert!(outcomes[0].bytes.len() > outcomes[1].bytes.len(), "the first is sealed");
}

/// RFC 4301, 5.2: the policies of `ip xfrm` also decide on what an SA without selectors opens.
#[test]
fn an_inbound_policy_stops_what_an_sa_without_selectors_opens() {
    let sa = SaText { mode: "transport", ..SaText::new(CBC) };
    let [from, to] = sa.peers;
    let cases = [
        ("0.0.0.0/0", "block", "selector-mismatch"),
        ("0.0.0.0/0", "allow", "forward"),
        ("203.0.113.0/24", "block", "forward"),
    ];
    for (src, action, wanted) in cases {
        let files = Files::new();
        files.write("sas.toml", &sa.text("in"));
        let policy = format!("src {src} dst 0.0.0.0/0 \n\tdir in action {action} priority 1 \n");
        files.write("policies.toml", &policy);
        let [first, _] = files.places("");
        for mut there in [first, files.gateway("")] {
            let mut here = Ends::new(&sa).here;
            let sealed = send(&mut here, &on_link(LINK, &udp(from, to, [1, 2], 10)));
            let opened = send(&mut there, &again(&sealed, LINK));
            assert_eq!(reason(&opened), wanted, "{policy}");
        }
    }
}

#[test]
fn a_wrong_key_or_spi_opens_nothing() {
    let mut here = Ends::new(&SaText::new(CBC)).here;
    let sealed = again(&send(&mut here, &packet(50)), LINK);
    let mut other = Ends::new(&SaText { spi: 0x1002, ..SaText::new(CBC) }).there;
    assert_eq!(reason(&send(&mut other, &sealed)), "no-sa");
    let mut other = Ends::new(&SaText::new(CBC_192)).there;
    assert_eq!(reason(&send(&mut other, &sealed)), "bad-icv");
}

#[test]
fn sizes_above_the_limits_are_reported() {
    let icmp = "icmp = 'on'\nicmp_src_v4 = '10.1.255.254'\nicmp_src_v6 = 'fd00:1::ffff'";
    let sa = SaText { more: "mtu = 1400".into(), ..SaText::new(CBC) };
    let mut here = Ends::with(&sa, icmp, "").here;
    let with_df = |mut packet: Vec<u8>| {
        packet[6] |= 0x40;
        packet[10..12].fill(0);
        let sum = warpline_packet::wire::checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        on_link(LINK, &packet)
    };
    let v4 = |len| udp("10.1.0.1", "10.2.0.1", [1, 2], len);
    let out = here.process(&[with_df(v4(1372))]);
    assert_eq!(out.iter().map(reason).collect::<Vec<_>>(), ["too-big", "returned"]);
    let messages = u16::from_be_bytes([out[1].bytes[26], out[1].bytes[27]]);
    assert_eq!((out[1].bytes[20], out[1].bytes[21], out[1].made), (3, 4, true));
    // The reported MTU fits, and a byte more doesn't.
    let fits = with_df(v4(usize::from(messages) - 28));
    let out = here.process(&[fits]);
    assert_eq!(reason(&out[0]), "forward");
    assert!(out[0].bytes.len() <= 1400);
    let out = here.process(&[with_df(v4(usize::from(messages) - 27))]);
    assert_eq!(reason(&out[0]), "too-big");
    // Routers may cut it.
    assert_eq!(reason(&here.process(&[on_link(LINK, &v4(1372))])[0]), "forward");
    let v6 = on_link(LINK, &udp("fd00:1::1", "fd00:2::1", [1, 2], 1372));
    let out = here.process(&[v6]);
    assert_eq!(out.iter().map(reason).collect::<Vec<_>>(), ["too-big", "returned"]);
    assert_eq!(out[1].bytes[40], 2);
    // To IPv6 never less than 1280, and nothing of packets that are no longer (RFC 8201).
    let sa = SaText { more: "mtu = 1300".into(), ..SaText::new(CBC) };
    let mut narrow = Ends::with(&sa, icmp, "").here;
    let v6 = |len: usize| on_link(LINK, &udp("fd00:1::1", "fd00:2::1", [1, 2], len - 48));
    let out = narrow.process(&[v6(1281)]);
    assert_eq!(out.iter().map(reason).collect::<Vec<_>>(), ["too-big", "returned"]);
    assert_eq!(out[1].bytes[44..48], 1280_u32.to_be_bytes());
    let out = narrow.process(&[v6(1280)]);
    assert_eq!(out.iter().map(reason).collect::<Vec<_>>(), ["too-big"]);
    assert_eq!(reason(&narrow.process(&[v6(1200)])[0]), "forward");
    let huge = on_link(LINK, &udp("10.1.0.1", "10.2.0.1", [1, 2], 65_480));
    assert_eq!(reason(&send(&mut here, &huge)), "too-big");
}

#[test]
fn keepalives_end_and_ike_passes() {
    let more = "encap = { src_port = 4500, dst_port = 4500 }".to_owned();
    let sa = SaText { more, ..SaText::new(GCM) };
    let mut there = Ends::with(&sa, "", "default = 'bypass'").there;
    let datagram = |body: &[u8]| {
        let mut udp = vec![0x11, 0x94, 0x11, 0x94];
        udp.extend((body.len() as u16 + 8).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(body);
        on_link(LINK, &ip("192.0.2.1", "198.51.100.1", 17, &udp, None))
    };
    let mut case = |body: &[u8]| reason(&send(&mut there, &datagram(body)));
    assert_eq!(case(&[0xff]), "absorbed");
    assert_eq!(case(&[0, 0, 0, 0, 1, 2, 3, 4, 5]), "forward");
    assert_eq!(case(&[0, 0, 0x10]), "malformed");
    assert_eq!(case(&[0, 0, 0x10, 2, 0, 0, 0, 1, 9, 9]), "no-sa");
    assert_eq!(case(&[0, 0, 0x10, 1, 0, 0, 0, 1, 9, 9]), "bad-icv");
}

#[test]
fn counter_modes_ask_for_a_file_of_numbers_and_never_repeat_one() {
    let files = Files::new();
    files.write("sas.toml", &SaText::new(GCM).text("out"));
    files.write("policies.toml", ALL);
    let mistakes = files.mistakes("sas = 'sas.toml'\npolicies = 'policies.toml'");
    assert!(mistakes.to_string().contains("nonce_state"), "{mistakes}");
    let mut used = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let mut here = files.gateway("");
        for _ in 0..5 {
            let sealed = send(&mut here, &packet(10)).bytes;
            assert!(
                used.insert(sealed[24..28].to_vec()),
                "number {:?} came twice",
                &sealed[24..28]
            );
        }
    }
    // Without a run that opened the file, nothing is sent.
    let (function, words) = files.function("");
    let mut here = Harness::new(function, words);
    assert_eq!(reason(&send(&mut here, &packet(10))), "nonce-state");
}

#[test]
fn cut_packets_are_not_sealed_or_opened() {
    let mut ends = Ends::new(&SaText::new(CBC));
    let whole = packet(100);
    let mut cut = whole.clone();
    cut.bytes.truncate(60);
    assert_eq!(reason(&send(&mut ends.here, &cut)), "snapped");
    let sealed = again(&send(&mut ends.here, &whole), LINK);
    let mut cut = sealed.clone();
    cut.bytes.truncate(60);
    assert_eq!(reason(&send(&mut ends.there, &cut)), "snapped");
}

/// A packet cut inside its IP header may need protection, so it does not pass as non-IP.
#[test]
fn packets_cut_in_their_ip_header_are_dropped() {
    let mut ends = Ends::new(&SaText::new(CBC));
    for len in [1, 10, 19] {
        let mut cut = packet(100);
        cut.bytes.truncate(len);
        assert_eq!(reason(&send(&mut ends.here, &cut)), "snapped", "{len} bytes");
    }
}
