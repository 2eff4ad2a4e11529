//! Compares gates with the tests that they stand for.

use core::net::Ipv4Addr;
use std::sync::Arc;

use warpline_packet::Instant;

use super::build::*;
use crate::detect::{Detector, FlowFacts, FlowVars, Gate, Limits, Nets, Passer, Subject, XBits};
use warpline_nids_rules::*;

const ASKED: [Option<bool>; 3] = [None, Some(true), Some(false)];

fn ports(ranges: &[(u16, u16)]) -> Arc<Ports> {
    Arc::new(Ports(ranges.to_vec()))
}

/// 10.0.0.0/8.
fn home() -> Arc<Addresses> {
    let v4 = vec![(Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(10, 255, 255, 255))];
    Arc::new(Addresses { v4, v6: Vec::new(), excludes: false })
}

/// Every flow test beside every pair of port sets, with hosts and sizes in turn.
fn rules() -> impl Iterator<Item = Rule> {
    let sets = [&[(0, u16::MAX)][..], &[(80, 80)], &[(20, 21), (8000, 8080)]].map(ports);
    let flows = ASKED.into_iter().flat_map(|to_server| {
        ASKED.into_iter().flat_map(move |established| {
            ASKED.into_iter().flat_map(move |fragments| {
                [false, true].map(|is_stateless| FlowTests {
                    to_server,
                    established,
                    fragments,
                    is_stateless,
                    ..FlowTests::default()
                })
            })
        })
    });
    flows.flat_map(move |flow| {
        let sets = sets.clone();
        (0..18).map(move |at| {
            let mut rule = Rule { flow: flow.clone(), ..rule() };
            rule.header.src_ports = sets[at % 3].clone();
            rule.header.dst_ports = sets[at / 3 % 3].clone();
            rule.header.is_bidirectional = at >= 9;
            // Three and four have no divisor in common: each pair of port sets meets all of these.
            let header = &mut rule.header;
            match (at + usize::from(flow.is_stateless)) % 4 {
                0 => header.src = home(),
                1 => header.dst = home(),
                2 => rule.packet = vec![PacketTest::Dsize(span(1, 4)), PacketTest::Dsize(not(2))],
                _ => (header.src, header.dst) = (home(), home()),
            }
            rule
        })
    })
}

#[test]
fn a_gate_stops_no_packet_that_a_rule_matches() {
    let (vars, xbits) = (FlowVars::EMPTY, XBits::new(1));
    let hosts = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 1)];
    let (mut passed, mut stopped) = (0, 0);
    let rules: Vec<Rule> = rules().collect();
    let nets = Nets::of(&rules);
    for rule in rules {
        let gate = Gate::new(&rule, &nets);
        let reported = format!("{rule:?}");
        let (detector, _) = Detector::new(&[rule], Limits::default());
        for at in 0..3 * 2 * 2 * 16 {
            let facts = FlowFacts {
                to_server: ASKED[at % 3],
                is_established: at / 3 % 2 == 1,
                is_reassembled: at / 6 % 2 == 1,
                ..FlowFacts::default()
            };
            let places = [at / 12 % 4, at / 48].map(|port| [20, 80, 8001, 9000][port]);
            let addresses = [at % 2, at / 2 % 2].map(|host| hosts[host].into());
            let mut subject = Subject::between(6, addresses, places);
            subject.payload = &b"payload"[..at % 7];
            subject.ports = subject.ports.filter(|_| at % 5 != 0);
            let ports = subject.ports.map(|(src, dst)| [src, dst]);
            let passer = Passer::new(facts.to_server, facts.is_established, ports)
                .between(&nets, addresses)
                .with_payload(subject.payload.len());
            let matches =
                detector.header_matches(0, &subject, &facts, &vars, &xbits, Instant::ZERO);
            assert!(gate.lets(passer) || !matches, "{subject:?} {facts:?} {reported}");
            passed += u32::from(gate.lets(passer) && !matches);
            stopped += u32::from(!gate.lets(passer));
        }
    }
    // Ports between ranges, negated sizes and fragments pass.
    assert!(stopped > 3 * passed, "{stopped} {passed}");
}

/// Each of these rules names one thing that the packet lacks.
#[test]
fn a_gate_stops_a_packet_by_each_thing_that_it_knows() {
    let packet = |nets: &Nets| {
        let addresses = [Ipv4Addr::new(192, 0, 2, 1).into(); 2];
        Passer::new(Some(true), true, None).between(nets, addresses).with_payload(9)
    };
    type Change = fn(&mut Rule);
    let changes: [(Change, bool); 9] = [
        (|_| {}, true),
        (|rule| rule.header.src = home(), false),
        (|rule| rule.header.dst = home(), false),
        (|rule| (rule.header.src, rule.header.is_bidirectional) = (home(), true), true),
        (|rule| rule.header.dst_ports = ports(&[(80, 80)]), false),
        (|rule| rule.packet = vec![PacketTest::Dsize(span(10, 20))], false),
        (|rule| rule.packet = vec![PacketTest::Dsize(span(1, 8))], false),
        (|rule| rule.flow.to_server = Some(false), false),
        (|rule| rule.flow.established = Some(false), false),
    ];
    for (number, (change, passes)) in changes.into_iter().enumerate() {
        let mut rule = rule();
        change(&mut rule);
        // A set of addresses is worth a bit where many rules name it.
        let nets = Nets::of(&vec![rule.clone(); 8]);
        assert_eq!(Gate::new(&rule, &nets).lets(packet(&nets)), passes, "change {number}");
    }
}
