//! Tests of flows and hosts, and their changes by matches.

use core::time::Duration;

use warpline_packet::{Headers, Instant, LinkType};

use super::build::*;
use super::headers::{ipv4, tcp};
use crate::detect::{BITS_MAX, Detector, FlowFacts, FlowVars, INTS_MAX, Limits, Subject, XBits};
use warpline_nids_rules::*;

const TO_SERVER: FlowFacts = FlowFacts {
    to_server: Some(true),
    is_established: true,
    client_bytes: 100,
    server_bytes: 7,
    is_reassembled: false,
};
const TO_CLIENT: FlowFacts =
    FlowFacts { to_server: Some(false), is_established: false, is_reassembled: true, ..TO_SERVER };
const NONE: FlowFacts = FlowFacts {
    to_server: None,
    is_established: false,
    client_bytes: 0,
    server_bytes: 0,
    is_reassembled: false,
};

fn matches(flow: FlowTests, facts: &FlowFacts, vars: &FlowVars) -> bool {
    let (detector, _) = Detector::new(&[Rule { flow, ..rule() }], Limits::default());
    let frame = ipv4(6, 0, &[], &tcp(0x18, b"abc"));
    let headers = Headers::parse(&frame, LinkType::RAW, frame.len());
    let subject = Subject::new(&frame, &headers);
    detector.header_matches(0, &subject, facts, vars, &XBits::new(1), Instant::ZERO)
}

#[test]
fn flow() {
    let none = FlowTests::default;
    let cases = [
        (none(), [true, true, true]),
        (FlowTests { to_server: Some(true), ..none() }, [true, false, true]),
        (FlowTests { to_server: Some(false), ..none() }, [false, true, false]),
        (FlowTests { established: Some(true), ..none() }, [true, false, false]),
        (FlowTests { established: Some(false), ..none() }, [false, true, false]),
        (FlowTests { is_stateless: true, ..none() }, [true, true, false]),
        (FlowTests { fragments: Some(true), ..none() }, [false, true, false]),
        (FlowTests { fragments: Some(false), ..none() }, [true, false, false]),
    ];
    for (tests, expected) in cases {
        let found = [&TO_SERVER, &TO_CLIENT, &NONE]
            .map(|facts| matches(tests.clone(), facts, &FlowVars::EMPTY));
        assert_eq!(found, expected, "{tests:?}");
    }
}

#[test]
fn bits_numbers_and_sizes() {
    let mut vars = FlowVars::EMPTY;
    vars.set(Name(1));
    vars.set_int(Name(5), 10);
    let bits = |names: &[u32], is_set| FlowTest::Bits {
        names: names.iter().map(|n| Name(*n)).collect(),
        is_set,
    };
    let int = |name, span, is_set| FlowTest::Int { name: Name(name), span, is_set };
    let size = |side, min, max| FlowTest::StreamSize { side, bytes: span(min, max) };
    let cases = [
        (bits(&[1], true), true),
        (bits(&[2], true), false),
        (bits(&[2, 1], true), true),
        (bits(&[2], false), true),
        (bits(&[1], false), false),
        (bits(&[1, 2], false), true),
        (int(5, None, true), true),
        (int(5, None, false), false),
        (int(6, None, false), true),
        (int(5, Some(span(10, 10)), true), true),
        (int(5, Some(not(10)), true), false),
        (int(5, Some(span(11, u32::MAX)), true), false),
        (int(6, Some(not(10)), true), false),
        (size(StreamSides::Client, 100, 100), true),
        (size(StreamSides::Server, 100, 100), false),
        (size(StreamSides::Both, 7, 100), true),
        (size(StreamSides::Both, 8, 100), false),
        (size(StreamSides::Either, 8, 100), true),
    ];
    for (test, expected) in cases {
        let tests = FlowTests { tests: vec![test.clone()], ..FlowTests::default() };
        assert_eq!(matches(tests.clone(), &TO_SERVER, &vars), expected, "{test:?}");
        assert!(!matches(tests, &NONE, &vars), "{test:?} without a flow");
    }
}

#[test]
fn effects_on_flows() {
    let (a, b, n) = (Name(1), Name(2), Name(3));
    let effects = vec![
        Effect::Bit(a, Change::Set),
        Effect::Bit(b, Change::Toggle),
        Effect::Int(n, IntChange::Add(2)),
        Effect::Int(n, IntChange::Sub(5)),
        Effect::Int(n, IntChange::Add(3)),
        Effect::Int(Name(4), IntChange::Sub(1)),
    ];
    let unset = vec![Effect::Bit(a, Change::Unset), Effect::Int(n, IntChange::Set(9))];
    let rules = [Rule { effects, ..rule() }, Rule { effects: unset, ..rule() }];
    let (detector, _) = Detector::new(&rules, Limits::default());
    let (subject, mut xbits) = (Subject::new(&[], &Headers::default()), XBits::new(1));
    let mut vars = FlowVars::EMPTY;
    let mut apply =
        |rule| detector.apply(rule, &subject, Some(&mut vars), &mut xbits, Instant::ZERO);
    apply(0);
    apply(0);
    apply(1);
    apply(2);
    assert_eq!(
        (vars.has(a), vars.has(b), vars.int(n), vars.int(Name(4))),
        (false, false, Some(9), None)
    );
    detector.apply(0, &subject, Some(&mut vars), &mut xbits, Instant::ZERO);
    assert_eq!((vars.has(a), vars.has(b), vars.int(n)), (true, true, Some(9)));
    detector.apply(0, &subject, None, &mut xbits, Instant::ZERO);
}

#[test]
fn flows_without_room_are_counted() {
    assert!(size_of::<FlowVars>() <= 116);
    let mut vars = FlowVars::EMPTY;
    (0..BITS_MAX as u32 + 3).for_each(|name| vars.set(Name(name)));
    (0..INTS_MAX as u32 + 2).for_each(|name| vars.set_int(Name(name), name));
    assert_eq!(vars.lost(), 5);
    assert!(vars.has(Name(15)) && !vars.has(Name(16)));
    vars.unset(Name(3));
    vars.set(Name(16));
    assert!(vars.has(Name(16)) && !vars.has(Name(3)) && vars.has(Name(15)));
    let last = INTS_MAX as u32 - 1;
    assert_eq!((vars.int(Name(last)), vars.int(Name(last + 1))), (Some(last), None));
}

/// A packet between two hosts, by the last byte of their addresses.
fn between(src: u8, dst: u8) -> Vec<u8> {
    let mut frame = ipv4(6, 0, &[], &tcp(2, b""));
    (frame[15], frame[19]) = (src, dst);
    frame
}

fn with<T>(src: u8, dst: u8, then: impl FnOnce(&Subject<'_>) -> T) -> T {
    let frame = between(src, dst);
    then(&Subject::new(&frame, &Headers::parse(&frame, LinkType::RAW, frame.len())))
}

#[test]
fn xbits() {
    use XTrack::{Destination, Pair, Source};
    let second = |s| Instant::from_secs(s);
    let name = Name(1);
    let mut xbits = XBits::new(8);
    with(1, 2, |s| xbits.set(name, Source, s, second(10), second(20)));
    let has = |xbits: &XBits, src, dst, track, at| {
        with(src, dst, |s| xbits.has(name, track, s, second(at)))
    };
    assert!(has(&xbits, 1, 9, Source, 20) && !has(&xbits, 1, 9, Source, 21));
    assert!(has(&xbits, 9, 1, Destination, 15));
    assert!(!has(&xbits, 2, 1, Source, 15) && !has(&xbits, 1, 2, Pair, 15));
    // One that is set keeps its time; one whose time is over is set anew.
    with(1, 2, |s| xbits.set(name, Source, s, second(15), second(30)));
    assert!(!has(&xbits, 1, 9, Source, 25));
    with(1, 2, |s| xbits.set(name, Source, s, second(25), second(30)));
    assert!(has(&xbits, 1, 9, Source, 30));
    with(1, 2, |s| xbits.set(name, Pair, s, second(15), second(30)));
    assert!(has(&xbits, 2, 1, Pair, 15) && !has(&xbits, 2, 3, Pair, 15));
    with(2, 1, |s| xbits.unset(name, Pair, s));
    assert!(!has(&xbits, 1, 2, Pair, 15));
}

/// Against a plain list that is searched.
#[test]
fn xbits_make_room_for_others() {
    const CAPACITY: usize = 8;
    let mut xbits = XBits::new(CAPACITY);
    let mut list: Vec<(u8, u64)> = Vec::new();
    let mut evicted = 0;
    for step in 0..2000u64 {
        let (host, now) = ((step * 7919 % 29) as u8, step);
        let (at, expires) = (Instant::from_secs(now), now + 1 + step * 31 % 23);
        if step % 5 == 0 {
            with(host, 99, |s| xbits.unset(Name(1), XTrack::Source, s));
            list.retain(|(other, _)| *other != host);
        } else if !list.iter().any(|(other, end)| *other == host && *end >= now) {
            list.retain(|(other, _)| *other != host);
            if list.len() == CAPACITY {
                let first = list.iter().copied().min_by_key(|(host, end)| (*end, *host)).unwrap();
                evicted += u64::from(first.1 >= now);
                list.retain(|bit| *bit != first);
            }
            list.push((host, expires));
            with(host, 99, |s| {
                let expires = at.after(Duration::from_secs(expires - now));
                xbits.set(Name(1), XTrack::Source, s, at, expires);
            });
        }
        for host in 0..29 {
            let expected = list.iter().any(|(other, end)| *other == host && *end >= now);
            assert_eq!(with(host, 98, |s| xbits.has(Name(1), XTrack::Source, s, at)), expected);
        }
        assert_eq!((xbits.len(), xbits.evicted()), (list.len(), evicted));
    }
    assert!(evicted > 100);
}
