//! The data that rules are tested on, and their order.

use std::sync::Arc;

use super::build::*;
use crate::detect::{Reach, order, reach};
use warpline_nids_rules::*;

#[test]
fn rules_are_decided_on_their_kind_of_packet() {
    let of = |protocol| Rule { header: header(protocol), ..rule() };
    let with =
        |protocol, payload: &[PayloadTest]| Rule { payload: payload.to_vec(), ..of(protocol) };
    let stream = |is| FlowTests { stream: Some(is), ..FlowTests::default() };
    let plain = || with(Protocol::Tcp, &[c("abc", "")]);
    let placed = || with(Protocol::Tcp, &[c("x", ""), c("abc", "depth 3")]);
    let size = FlowTest::StreamSize { side: StreamSides::Client, bytes: span(0, 9) };
    let to_server = FlowTests { to_server: Some(true), ..FlowTests::default() };
    let established = FlowTests { established: Some(true), ..FlowTests::default() };
    let from = |addresses| {
        let mut rule = of(Protocol::Ip);
        rule.header.src = Arc::new(addresses);
        rule
    };
    let v4 = vec![([0; 4].into(), [255; 4].into())];
    let ipv4 = Addresses { v4: v4.clone(), ..Addresses::default() };
    let excluding = Addresses { v4, excludes: true, ..Addresses::default() };
    let mut ports = of(Protocol::Tcp);
    ports.header.dst_ports = Arc::new(Ports(vec![(80, 80)]));
    let cases = [
        (plain(), Reach::Stream),
        (placed(), Reach::Both),
        (with(Protocol::Tcp, &[c("GET", "startswith")]), Reach::Both),
        (with(Protocol::Tcp, &[p("/abc/")]), Reach::Stream),
        (with(Protocol::Ip, &[c("abc", "")]), Reach::Stream),
        (with(Protocol::Udp, &[c("abc", "")]), Reach::Packet),
        (with(Protocol::TcpPacket, &[c("abc", "")]), Reach::Packet),
        (with(Protocol::TcpStream, &[c("abc", "depth 3")]), Reach::Stream),
        (Rule { packet: vec![PacketTest::Dsize(span(0, 9))], ..plain() }, Reach::Packet),
        (Rule { flow: stream(false), ..plain() }, Reach::Packet),
        (Rule { flow: stream(true), ..placed() }, Reach::Stream),
        (
            Rule { flow: FlowTests { tests: vec![size], ..FlowTests::default() }, ..plain() },
            Reach::Both,
        ),
        (of(Protocol::Tcp), Reach::IpOnly),
        (ports, Reach::IpOnly),
        (from(ipv4), Reach::IpOnly),
        (from(excluding), Reach::LikeIpOnly),
        (Rule { flow: stream(false), ..of(Protocol::Tcp) }, Reach::Packet),
        (of(Protocol::PacketHeader), Reach::IpOnly),
        (
            Rule { packet: vec![PacketTest::IpProto(vec![span(6, 6)])], ..of(Protocol::Ip) },
            Reach::IpOnly,
        ),
        (Rule { packet: vec![PacketTest::Ttl(span(1, 1))], ..of(Protocol::Ip) }, Reach::Packet),
        (Rule { flow: to_server, ..of(Protocol::Tcp) }, Reach::Packet),
        (Rule { flow: established, ..of(Protocol::Tcp) }, Reach::Packet),
        (Rule { packet: vec![PacketTest::SameIp], ..of(Protocol::Ip) }, Reach::Packet),
        (
            Rule { effects: vec![Effect::Bit(Name(1), Change::Set)], ..of(Protocol::Ip) },
            Reach::IpOnly,
        ),
        (
            Rule { effects: vec![Effect::Bit(Name(1), Change::Unset)], ..of(Protocol::Ip) },
            Reach::Packet,
        ),
    ];
    for (rule, expected) in cases {
        assert_eq!(reach(&rule), expected, "{rule:?}");
    }
}

#[test]
fn which_rules_come_first() {
    let acting =
        |action, priority| Rule { action, about: About { priority, ..About::default() }, ..rule() };
    let sets = |rule| Rule { effects: vec![Effect::Bit(Name(1), Change::Set)], ..rule };
    let test = FlowTest::Bits { names: vec![Name(1)], is_set: true };
    let asks = |rule| Rule {
        flow: FlowTests { tests: vec![test.clone()], ..FlowTests::default() },
        ..rule
    };
    let sets_xbit = |rule| Rule {
        effects: vec![Effect::XBit {
            name: Name(1),
            track: XTrack::Source,
            change: Change::Set,
            expire_s: 10,
        }],
        ..rule
    };
    let asks_xbit = |track, rule| Rule {
        flow: FlowTests {
            tests: vec![FlowTest::XBits { name: Name(1), track, is_set: true }],
            ..FlowTests::default()
        },
        ..rule
    };
    let rules = [
        acting(Action::Pass, 9),
        acting(Action::Drop, 9),
        acting(Action::Reject(Rejected::Both), 9),
        sets(acting(Action::Alert, 9)),
        asks(sets(acting(Action::Alert, 9))),
        asks(acting(Action::Alert, 9)),
        asks_xbit(XTrack::Source, sets_xbit(acting(Action::Alert, 9))),
        asks_xbit(XTrack::Pair, acting(Action::Alert, 9)),
        acting(Action::Alert, 1),
        sets_xbit(acting(Action::Alert, 2)),
    ];
    assert!(rules.is_sorted_by(|a, b| order(a) < order(b)));
}
