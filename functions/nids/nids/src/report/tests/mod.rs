//! Tests of reports.

mod lines;
mod policies;
mod rejects;
mod reports;
mod sequences;

use std::net::IpAddr;
use std::sync::Arc;

use warpline_packet::{Instant, LinkType};

use super::{Alert, FlowAt, Source};
use crate::apps::Apps;
use crate::detect::FlowVars;
use warpline_nids_rules::{
    About, Action, Addresses, FlowTests, Header, Ports, Protocol, Rule, SourceLine,
};

const SECOND: u64 = 1_000_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A rule that alerts, of generator 1.
fn rule(sid: u32, msg: &str) -> Rule {
    Rule {
        place: SourceLine::default(),
        action: Action::Alert,
        header: Header {
            protocol: Protocol::Ip,
            src: Arc::new(Addresses::default()),
            src_ports: Arc::new(Ports::default()),
            dst: Arc::new(Addresses::default()),
            dst_ports: Arc::new(Ports::default()),
            is_bidirectional: false,
        },
        about: About { gid: 1, sid, rev: 3, msg: msg.into(), priority: 3, ..About::default() },
        packet: Vec::new(),
        flow: FlowTests::default(),
        payload: Vec::new(),
        slots: 0,
        effects: Vec::new(),
        threshold: None,
        detection_filter: None,
    }
}

/// A TCP packet of a client, 2023-11-14T22:13:20.123456Z.
fn alert() -> Alert<'static> {
    let captured = Instant::from_nanos(1_700_000_000 * SECOND + 123_456_789);
    Alert {
        rule: 0,
        generation: 0,
        captured,
        now: captured,
        ends: Some((ip("10.1.0.1"), ip("10.2.0.2"))),
        protocol: 6,
        src_port: 4000,
        dst_port: 80,
        vlans: [None; 3],
        flow: Some(FlowAt {
            id: u64::MAX,
            to_server: true,
            packets_to_server: 3,
            packets_to_client: 2,
            bytes_to_server: 184,
            bytes_to_client: 114,
            start: Instant::from_nanos(1_700_000_000 * SECOND),
            apps: Apps::default(),
        }),
        vars: FlowVars::EMPTY,
        is_blocked: false,
        is_stream: false,
        is_first: true,
        decision: None,
        payload_len: 0,
        payload: &[],
        source: Source::Wire,
        link: LinkType::ETHERNET,
        ether: None,
        frame: &[],
    }
}
