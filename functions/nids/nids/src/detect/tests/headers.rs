//! Headers of rules and tests of packets' own headers, each on frames made by hand.

use std::sync::Arc;

use warpline_packet::{Headers, Instant, LinkType};

use super::build::*;
use crate::detect::{Detector, FlowFacts, FlowVars, Limits, Subject, XBits};
use warpline_nids_rules::*;

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2: TTL 64, identification 0x1234, type of service 0x10.
pub(super) fn ipv4(protocol: u8, flags_fragment: u16, options: &[u8], body: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let [len_high, len_low] = ((header_len + body.len()) as u16).to_be_bytes();
    let [frag_high, frag_low] = flags_fragment.to_be_bytes();
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0x10, len_high, len_low, 0x12, 0x34];
    packet.extend([frag_high, frag_low, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    [packet, options.to_vec(), body.to_vec()].concat()
}

/// An IPv6 packet from fd00::1 to fd00::1, hop limit 5.
fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    let [len_high, len_low] = (body.len() as u16).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, len_high, len_low, next, 5];
    for _ in 0..2 {
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
    [packet, body.to_vec()].concat()
}

/// A segment from port 1000 to 80: sequence number 7, acknowledgement 9, window 512, MSS 1460.
pub(super) fn tcp(flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment =
        vec![0x03, 0xe8, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x60, flags, 2, 0, 0, 0, 0, 0];
    segment.extend([2, 4, 5, 0xb4]);
    [segment, payload.to_vec()].concat()
}

fn udp(len: u16, payload: &[u8]) -> Vec<u8> {
    let [len_high, len_low] = len.to_be_bytes();
    [&[0x03, 0xe8, 0, 53, len_high, len_low, 0, 0][..], payload].concat()
}

fn tcp_in_ipv4(flags: u8, payload: &[u8]) -> Vec<u8> {
    ipv4(6, 0x4000, &[], &tcp(flags, payload))
}

fn headers_of(frame: &[u8]) -> Headers {
    Headers::parse(frame, LinkType::RAW, frame.len())
}

fn matches(rule: Rule, frame: &[u8]) -> bool {
    let (detector, broken) = Detector::new(&[rule], Limits::default());
    assert_eq!(broken, []);
    let subject = Subject::new(frame, &headers_of(frame));
    let (facts, vars, xbits) = (FlowFacts::default(), FlowVars::EMPTY, XBits::new(1));
    detector.header_matches(0, &subject, &facts, &vars, &xbits, Instant::ZERO)
}

#[test]
fn payloads() {
    let timestamp = [&[13, 0, 0, 0, 0, 1, 0, 2][..], &[0; 12], b"abc"].concat();
    let cases: Vec<(&str, Vec<u8>, &[u8])> = vec![
        ("TCP", tcp_in_ipv4(0x18, b"abc"), b"abc"),
        ("UDP", ipv4(17, 0, &[], &udp(11, b"abc")), b"abc"),
        ("UDP by its own length", ipv4(17, 0, &[], &udp(10, b"abc")), b"ab"),
        ("ICMP", ipv4(1, 0, &[], b"\x08\0\0\0\0\x01\0\x02abc"), b"abc"),
        ("ICMP timestamp", ipv4(1, 0, &[], &timestamp), b"abc"),
        ("ICMP timestamp, cut", ipv4(1, 0, &[], &timestamp[..12]), &[0; 4]),
        ("ICMPv6", ipv6(58, b"\x80\0\0\0\0\x01\0\x02abc"), b"abc"),
        ("SCTP", ipv4(132, 0, &[], b"\x03\xe8\0\x50\0\0\0\0\0\0\0\0abc"), b"abc"),
        ("SCTP, cut", ipv4(132, 0, &[], b"\x03\xe8\0\x50\0\0"), b""),
        ("ESP", ipv4(50, 0, &[], b"\0\0\0\x01\0\0\0\x01abc"), b"abc"),
        ("another protocol", ipv4(2, 0, &[], b"abc"), b""),
        ("first fragment", ipv4(17, 0x2000, &[], &udp(99, b"abcdefgh")), b""),
        ("later fragment", ipv4(17, 0x0001, &[], b"abc"), b""),
        ("malformed", ipv4(17, 0, &[], &udp(99, b"abc")), b""),
        ("not IP", b"\x10abc".to_vec(), b""),
        ("nothing", Vec::new(), b""),
    ];
    for (what, frame, payload) in cases {
        assert_eq!(Subject::new(&frame, &headers_of(&frame)).payload, payload, "{what}");
    }
}

#[test]
fn protocols() {
    use Protocol::*;
    let all =
        [Ip, Ipv4, Ipv6, Tcp, TcpPacket, TcpStream, Udp, Sctp, Icmp, Icmpv4, Icmpv6, PacketHeader];
    let cases: Vec<(Vec<u8>, Vec<Protocol>)> = vec![
        (tcp_in_ipv4(2, b""), vec![Ip, Ipv4, Tcp, TcpPacket, TcpStream, PacketHeader]),
        (ipv6(17, &udp(8, b"")), vec![Ip, Ipv6, Udp, PacketHeader]),
        (ipv4(1, 0, &[], &[8; 8]), vec![Ip, Ipv4, Icmp, Icmpv4, PacketHeader]),
        (ipv6(58, &[128; 8]), vec![Ip, Ipv6, Icmp, Icmpv6, PacketHeader]),
        (ipv4(132, 0, &[], &[0; 12]), vec![Ip, Ipv4, Sctp, PacketHeader]),
        (ipv4(47, 0, &[], &[0; 12]), vec![Ip, Ipv4, PacketHeader]),
        (ipv4(6, 0x0001, &[], &[0; 12]), vec![Ip, Ipv4, Tcp, TcpPacket, TcpStream, PacketHeader]),
        (ipv4(17, 0, &[], &udp(99, b"")), vec![Ip, Ipv4, Udp, PacketHeader]),
        (vec![0x10; 9], vec![PacketHeader]),
    ];
    for (frame, expected) in cases {
        let found: Vec<_> = all
            .into_iter()
            .filter(|p| matches(Rule { header: header(*p), ..rule() }, &frame))
            .collect();
        assert_eq!(found, expected, "{frame:02x?}");
    }
}

#[test]
fn addresses_and_ports() {
    let host = |last| {
        Arc::new(Addresses {
            v4: vec![([10, 0, 0, last].into(), [10, 0, 0, last].into())],
            ..Addresses::default()
        })
    };
    let two = Arc::new(Addresses {
        v4: vec![
            ([1, 1, 1, 1].into(), [1, 1, 1, 9].into()),
            ([10, 0, 0, 2].into(), [10, 0, 0, 8].into()),
        ],
        ..Addresses::default()
    });
    let ports = |min, max| Arc::new(Ports(vec![(1, 2), (min, max)]));
    let any = header(Protocol::Ip);
    let http = Header { dst_ports: ports(80, 81), ..any.clone() };
    let cases = [
        (Header { src: host(1), ..any.clone() }, true),
        (Header { src: host(2), ..any.clone() }, false),
        (Header { dst: two.clone(), ..any.clone() }, true),
        (Header { src: two, ..any.clone() }, false),
        (http.clone(), true),
        (Header { src_ports: ports(80, 80), ..any.clone() }, false),
        (Header { src: host(2), is_bidirectional: true, ..any.clone() }, true),
        (Header { src: host(3), is_bidirectional: true, ..any.clone() }, false),
        (
            Header {
                src: host(2),
                src_ports: ports(80, 80),
                is_bidirectional: true,
                ..any.clone()
            },
            true,
        ),
        (Header { src: host(1), src_ports: ports(80, 80), is_bidirectional: true, ..any }, false),
    ];
    for (header, expected) in cases {
        let rule = Rule { header: header.clone(), ..rule() };
        assert_eq!(matches(rule, &tcp_in_ipv4(2, b"")), expected, "{header:?}");
    }
    // A packet without ports is in no set of ports.
    for frame in
        [ipv4(1, 0, &[], &[0, 80, 0, 80, 0, 80, 0, 80]), ipv4(6, 0x0001, &[], &tcp(2, b""))]
    {
        assert!(!matches(Rule { header: http.clone(), ..rule() }, &frame));
    }
}

#[test]
fn packet_tests() {
    use PacketTest::*;
    let bits = |how, bits| Bits { how, bits };
    let flags = |how, set, ignored| TcpFlags { bits: bits(how, set), ignored };
    let syn = tcp_in_ipv4(0x02, b"");
    let syn_ecn = tcp_in_ipv4(0xc2, b"");
    let data = tcp_in_ipv4(0x18, b"abc");
    let ping = ipv4(1, 0, &[], b"\x08\x03\0\0\0\x01\0\x02abc");
    let error = ipv4(1, 0, &[], b"\x03\x03\0\0\0\x01\0\x02");
    let ping6 = ipv6(58, b"\x80\0\0\0\0\x01\0\x02");
    let fragment = ipv4(17, 0x2003, &[], b"abc");
    let fragment6 = ipv6(44, b"\x11\0\0\x19\0\0\0\x01abcdefgh");
    let routed = ipv4(17, 0, &[1, 7, 3, 4], &udp(8, b""));
    let cases: Vec<(PacketTest, &Vec<u8>, bool)> = vec![
        (Dsize(span(3, 3)), &data, true),
        (Dsize(span(4, 9)), &data, false),
        (Dsize(not(4)), &data, true),
        (Dsize(not(4)), &syn, false),
        (Dsize(span(0, 9)), &syn, true),
        (IpProto(vec![span(6, 6)]), &syn, true),
        (IpProto(vec![not(6), not(7)]), &syn, false),
        (IpProto(vec![not(6), not(7)]), &ping, true),
        (Ttl(span(64, 64)), &syn, true),
        (Ttl(span(0, 63)), &syn, false),
        (Ttl(span(5, 5)), &ping6, true),
        (Tos(span(0x10, 0x10)), &syn, true),
        (Tos(not(0x10)), &syn, false),
        (Tos(not(0x10)), &ping6, false),
        (Id(span(0x1234, 0x1234)), &syn, true),
        (Id(span(0, 0)), &ping6, false),
        (IpOption(Some(7)), &routed, true),
        (IpOption(Some(1)), &routed, true),
        (IpOption(Some(68)), &routed, false),
        (IpOption(None), &routed, true),
        (IpOption(None), &syn, false),
        (FragBits(bits(BitsHow::Exactly, 1)), &fragment, true),
        (FragBits(bits(BitsHow::Exactly, 2)), &syn, true),
        (FragBits(bits(BitsHow::NotAll, 1)), &fragment, false),
        (FragBits(bits(BitsHow::NotAll, 1)), &syn, true),
        (FragBits(bits(BitsHow::Any, 3)), &syn, true),
        (FragBits(bits(BitsHow::All, 2)), &syn, true),
        (FragBits(bits(BitsHow::AllAndMore, 2)), &syn, false),
        (FragBits(bits(BitsHow::NotAll, 1)), &ping6, false),
        (FragOffset(span(3, 3)), &fragment, true),
        (FragOffset(span(3, 3)), &fragment6, true),
        (FragOffset(span(0, 0)), &syn, true),
        (FragOffset(span(0, 0)), &ping6, false),
        (SameIp, &ping6, true),
        (SameIp, &syn, false),
        (Seq(span(7, 7)), &syn, true),
        (Ack(span(9, 9)), &syn, true),
        (Ack(span(0, 0)), &ping, false),
        (Window(not(512)), &syn, false),
        (Window(not(513)), &syn, true),
        (Mss(span(1460, 1460)), &syn, true),
        (Mss(span(0, 1000)), &syn, false),
        (flags(BitsHow::Exactly, 0x02, 0), &syn, true),
        (flags(BitsHow::Exactly, 0x02, 0), &syn_ecn, false),
        (flags(BitsHow::Exactly, 0x02, 0xc0), &syn_ecn, true),
        (flags(BitsHow::All, 0x08, 0), &data, true),
        (flags(BitsHow::All, 0x0a, 0), &data, false),
        (flags(BitsHow::Any, 0x0a, 0), &data, true),
        (flags(BitsHow::NotAll, 0x02, 0), &data, true),
        (flags(BitsHow::NotAll, 0x02, 0), &syn, false),
        (flags(BitsHow::Exactly, 0, 0), &data, false),
        (flags(BitsHow::NotAll, 0, 0), &data, true),
        (flags(BitsHow::Exactly, 0, 0xd8), &data, false),
        (flags(BitsHow::NotAll, 0x02, 0), &ping, false),
        (IcmpType(span(8, 8)), &ping, true),
        (IcmpType(span(128, 128)), &ping6, true),
        (IcmpType(not(8)), &syn, false),
        (IcmpCode(span(3, 3)), &ping, true),
        (IcmpId(span(1, 1)), &ping, true),
        (IcmpSeq(span(2, 2)), &ping, true),
        (IcmpId(span(1, 1)), &ping6, true),
        (IcmpSeq(span(1, 1)), &ping6, false),
        (IcmpId(span(1, 1)), &error, false),
    ];
    for (test, frame, expected) in cases {
        let rule = Rule { packet: vec![test.clone()], ..rule() };
        assert_eq!(matches(rule, frame), expected, "{test:?} on {frame:02x?}");
    }
}
