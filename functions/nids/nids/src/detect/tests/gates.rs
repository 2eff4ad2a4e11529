//! Gates beside the tests that they stand for.

use core::net::Ipv4Addr;
use std::sync::Arc;

use warpline_packet::Instant;

use super::build::*;
use crate::detect::{Detector, FlowFacts, FlowVars, Gate, Limits, Passer, Subject, XBits};
use warpline_nids_rules::*;

const ASKED: [Option<bool>; 3] = [None, Some(true), Some(false)];

fn ports(ranges: &[(u16, u16)]) -> Arc<Ports> {
    Arc::new(Ports(ranges.to_vec()))
}

/// Every flow test beside every pair of port sets.
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
            rule
        })
    })
}

#[test]
fn a_gate_stops_no_packet_that_a_rule_matches() {
    let (vars, xbits) = (FlowVars::EMPTY, XBits::new(1));
    let addresses = [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()];
    let (mut passed, mut stopped) = (0, 0);
    for rule in rules() {
        let gate = Gate::new(&rule);
        let told = format!("{rule:?}");
        let (detector, _) = Detector::new(&[rule], Limits::default());
        for at in 0..3 * 2 * 2 * 16 {
            let facts = FlowFacts {
                to_server: ASKED[at % 3],
                is_established: at / 3 % 2 == 1,
                is_reassembled: at / 6 % 2 == 1,
                ..FlowFacts::default()
            };
            let places = [at / 12 % 4, at / 48].map(|port| [20, 80, 8001, 9000][port]);
            let subject = Subject::between(6, addresses, places);
            let passer = Passer::new(facts.to_server, facts.is_established, Some(places));
            let matches =
                detector.header_matches(0, &subject, &facts, &vars, &xbits, Instant::ZERO);
            assert!(gate.lets(passer) || !matches, "{places:?} {facts:?} {told}");
            passed += u32::from(gate.lets(passer) && !matches);
            stopped += u32::from(!gate.lets(passer));
        }
    }
    // Ports between ranges and fragments pass.
    assert!(stopped > 3 * passed, "{stopped} {passed}");
}

#[test]
fn a_packet_without_ports_is_stopped_by_its_flow_alone() {
    let mut rule = rule();
    rule.header.dst_ports = ports(&[(80, 80)]);
    assert!(Gate::new(&rule).lets(Passer::new(None, false, None)));
    rule.flow.established = Some(true);
    assert!(!Gate::new(&rule).lets(Passer::new(None, false, None)));
}
