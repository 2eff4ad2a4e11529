//! IP in IP and the mode by MAC: outer headers written out by hand from RFC 2003 and RFC 2473.

use warpline_packet::LinkType;

use super::*;

pub(super) const IPIP: &str = "\
vip 192.0.2.10 tcp 80
 backend 10.0.0.1
vip 192.0.2.11 udp 9000
 backend 2001:db8:b::1
vip 2001:db8::10 tcp 80
 backend 2001:db8:b::2
";
pub(super) const SOURCES: &str =
    "mode = \"ipip\"\ntunnel_src_v4 = \"10.9.9.9\"\ntunnel_src_v6 = \"2001:db8:a::9\"";

pub(super) const CASES: [(&str, &str); 3] = [
    ("198.51.100.7", "192.0.2.10"),
    ("198.51.100.7", "192.0.2.11"),
    ("2001:db8:f::7", "2001:db8::10"),
];

pub(super) fn packet_of(client: &str, vip: &str) -> Datagram {
    match vip {
        "192.0.2.11" => udp((client, 4000), (vip, 9000)),
        _ => tcp((client, 4000), (vip, 80), SYN),
    }
}

/// The outer header of a packet to the backend of `vip`.
fn outer(vip: &str, inner: &[u8], class: u8, hash: u32) -> Vec<u8> {
    let len = inner.len() as u16;
    if vip == "192.0.2.10" {
        let mut header = vec![0x45, class];
        header.extend((len + 20).to_be_bytes());
        header.extend(&inner[4..6]);
        header.extend([inner[6] & 0x40, 0, 64, 4, 0, 0, 10, 9, 9, 9, 10, 0, 0, 1]);
        let sum = naive_checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        return header;
    }
    let first = 0x6000_0000 | u32::from(class) << 20 | hash & 0xf_ffff;
    let mut header = first.to_be_bytes().to_vec();
    header.extend(len.to_be_bytes());
    header.extend([if vip.contains(':') { 41 } else { 4 }, 64]);
    let last = if vip.contains(':') { "2001:db8:b::2" } else { "2001:db8:b::1" };
    for address in ["2001:db8:a::9", last] {
        let IpAddr::V6(address) = ip(address) else { panic!() };
        header.extend(address.octets());
    }
    header
}

/// The same packet with this traffic class and, for IPv4, Don't Fragment.
fn marked(mut packet: Vec<u8>, class: u8) -> Vec<u8> {
    if packet[0] >> 4 == 6 {
        packet[0] |= class >> 4;
        packet[1] |= class << 4;
        return packet;
    }
    packet[1] = class;
    packet[6] |= 0x40;
    packet[10..12].fill(0);
    let sum = naive_checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// A link header before an IP packet of a version, and its type.
fn links(v6: bool) -> Vec<(LinkType, Vec<u8>)> {
    let kind = if v6 { [0x86, 0xdd] } else { [8, 0] };
    let with = |head: &[u8]| [head, &kind].concat();
    let mut sll2 = vec![0; 20];
    sll2[..2].copy_from_slice(&kind);
    vec![
        (LinkType::ETHERNET, with(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2])),
        (LinkType::ETHERNET, with(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 7])),
        (LinkType::LINUX_SLL, with(&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0])),
        (LinkType::LINUX_SLL2, sll2),
        (LinkType::RAW, Vec::new()),
        (LinkType::NULL, vec![if v6 { 30 } else { 2 }, 0, 0, 0]),
        (LinkType::LOOP, vec![0, 0, 0, if v6 { 24 } else { 2 }]),
    ]
}

fn input(link: LinkType, bytes: &[u8]) -> Input {
    Input { link, ..Input::at(SECOND, bytes) }
}

fn flow_hash(harness: &mut Harness, input: &Input) -> u32 {
    harness.fill(std::slice::from_ref(input)).packet(0).flow_hash()
}

#[test]
fn packets_are_carried_whole() {
    let mut harness = balancer(SOURCES, IPIP);
    for (client, vip) in CASES {
        let inner = marked(packet_of(client, vip).packet(), 0xb9);
        let heads = links(vip.contains(':')).into_iter().zip(links(vip != "192.0.2.10"));
        for ((link, head), (_, expected)) in heads {
            let input = input(link, &[&head[..], &inner].concat());
            let header = outer(vip, &inner, 0xb9, flow_hash(&mut harness, &input));
            let out = harness.process(&[input]).remove(0);
            assert_eq!(reason(&out), "");
            assert_eq!(out.bytes, [&expected[..], &header, &inner].concat(), "{vip} {link:?}");
        }
    }
}

#[test]
fn sources_are_of_the_flow() {
    let mut harness = balancer("mode = \"ipip\"", IPIP);
    for (client, vip) in CASES {
        let frame = packet_of(client, vip).frame();
        let hash = flow_hash(&mut harness, &Input::at(0, &frame));
        let out = harness.process(&[Input::at(0, &frame)]).remove(0);
        if vip == "192.0.2.10" {
            let low = (hash as u16).to_be_bytes();
            assert_eq!(out.bytes[26..30], [172, 16, low[0], low[1]]);
            assert_eq!(naive_checksum(&out.bytes[14..34]), 0);
        } else {
            let mut source = [0; 16];
            source[0] = 1;
            source[12..].copy_from_slice(&hash.to_be_bytes());
            assert_eq!(out.bytes[22..38], source);
        }
    }
}

#[test]
fn cut_frames_and_padding_stay_as_they_are() {
    let mut harness = balancer(SOURCES, IPIP);
    let whole = packet_of("198.51.100.7", "192.0.2.10").with(&[7; 900]);
    let frame = whole.frame();
    let cut = Input { wire_len: frame.len() as u32, ..Input::at(0, &frame[..100]) };
    let out = harness.process(&[cut]).remove(0);
    assert_eq!(out.bytes.len(), 120);
    assert_eq!(out.bytes[16..18], (whole.packet().len() as u16 + 20).to_be_bytes());
    assert_eq!(out.bytes[34..], frame[14..100]);
    let mut padded = packet_of("198.51.100.7", "192.0.2.10").with(b"").frame();
    padded.resize(60, 0xee);
    let out = harness.process(&[Input::at(0, &padded)]).remove(0);
    assert_eq!((out.bytes.len(), &out.bytes[34..]), (80, &padded[14..]));
    assert_eq!(out.bytes[16..18], 60_u16.to_be_bytes(), "padding is not of the packet");
}

#[test]
fn packets_that_no_tunnel_carries_have_a_reason() {
    let mut harness = balancer(SOURCES, IPIP);
    for (client, vip) in CASES {
        let fixed = if vip.contains(':') { 40 } else { 0 };
        let headers = if vip == "192.0.2.11" { 28 } else { 40 };
        let outer = if vip == "192.0.2.10" { 20 } else { 0 };
        // The longest that goes, and one more. IPv4 in IPv6 always goes.
        let most = 65_535 - outer - if fixed > 0 { 60 } else { headers };
        for (len, reported) in [(most, ""), (most + 1, "too-long")] {
            if vip == "192.0.2.11" && !reported.is_empty() {
                continue;
            }
            let out = send(&mut harness, 1, &packet_of(client, vip).with(&vec![0; len]));
            assert_eq!(reason(&out), reported, "{vip} {len}");
        }
    }
    for (vip, reported) in [("192.0.2.10", ""), ("192.0.2.11", "link")] {
        let packet = packet_of("198.51.100.7", vip).packet();
        let out = harness.process(&[input(LinkType::IPV4, &packet)]).remove(0);
        assert_eq!(reason(&out), reported);
    }
}

#[test]
fn errors_go_to_the_backend_of_what_they_quote() {
    for mode in ["ipip", "mac"] {
        let mac =
            |n| if mode == "mac" { format!("mac 02:00:00:00:00:0{n}") } else { String::new() };
        let own = if mode == "mac" { "mac = \"02:00:00:00:00:ff\"" } else { "" };
        let backends: String = (1..6).map(|n| format!("backend 10.0.0.{n} {}\n", mac(n))).collect();
        let services = format!("vip 192.0.2.10 tcp 80\n{backends}");
        let mut harness = balancer(&format!("mode = {mode:?}\n{own}"), &services);
        for port in 1000..1050 {
            let syn = tcp(("198.51.100.7", port), ("192.0.2.10", 80), SYN);
            let answer = tcp(("192.0.2.10", 80), ("198.51.100.7", port), ACK);
            let error = answer.error(ip("203.0.113.1"), 40);
            // Also before the connection is known, by its hash.
            let [before, sent, after] =
                [&error, &syn, &error].map(|datagram| send(&mut harness, 1, datagram));
            let to = |out: &Outcome| match mode {
                "mac" => out.bytes[..6].to_vec(),
                _ => out.bytes[30..34].to_vec(),
            };
            assert_eq!([to(&before), to(&after)], [to(&sent), to(&sent)]);
            assert!(after.bytes.ends_with(&error.packet()));
        }
        assert_eq!(harness.counter("icmp-errors"), 100);
    }
}

#[test]
fn by_mac_only_the_ethernet_addresses_change() {
    let services = "vip 192.0.2.10 tcp 80\n backend 10.0.0.1 mac 02:ab:cd:ef:01:23\n\
                    vip 2001:db8::10 tcp 80\n backend 10.0.0.1 mac 02:ab:cd:ef:01:24\n";
    let mut harness = balancer("mode = \"mac\"\nmac = \"02:00:00:00:00:ff\"", services);
    for (n, (client, vip)) in [CASES[0], CASES[2]].into_iter().enumerate() {
        let mut frame = packet_of(client, vip).frame();
        let out = harness.process(&[Input::at(0, &frame)]).remove(0);
        frame[..12].copy_from_slice(&[2, 0xab, 0xcd, 0xef, 1, 0x23 + n as u8, 2, 0, 0, 0, 0, 0xff]);
        assert_eq!(out.bytes, frame);
        let raw = input(LinkType::RAW, &frame[14..]);
        assert_eq!(reason(&harness.process(&[raw])[0]), "link");
    }
    assert_eq!(harness.counter("to-backends"), 2);
}

/// Fragments are carried one by one, each to the backend of the first one.
#[test]
fn fragments_go_to_one_backend() {
    let backends: String = (1..6).map(|n| format!("backend 10.0.0.{n}\n")).collect();
    let macs: String =
        (1..6).map(|n| format!("backend 10.0.0.{n} mac 02:00:00:00:00:0{n}\n")).collect();
    for (keys, backends, to) in [
        ("mode = \"ipip\"", backends, 30..34),
        ("mode = \"mac\"\nmac = \"02:00:00:00:00:ff\"", macs, 0..6),
    ] {
        let mut harness = balancer(keys, &format!("vip 192.0.2.10 udp 53\n{backends}"));
        for port in 1000..1050 {
            let asked = udp(("198.51.100.7", port), ("192.0.2.10", 53)).with(&[7; 64]);
            let asked = Datagram { ident: port, ..asked };
            let whole = send(&mut harness, 1, &asked);
            let mut idents = Vec::new();
            for bytes in asked.fragments(32) {
                let out = harness.process(&[Input::at(SECOND, &bytes)]).remove(0);
                assert_eq!(reason(&out), "");
                assert_eq!(out.bytes[to.clone()], whole.bytes[to.clone()]);
                assert!(out.bytes.ends_with(&bytes[14..]));
                idents.push([out.bytes[18], out.bytes[19]]);
            }
            if to.start == 30 {
                assert_ne!(idents[0], idents[1], "outer packets that may be fragmented");
            }
        }
        assert_eq!(harness.counter("to-backends"), 150);
    }
}
