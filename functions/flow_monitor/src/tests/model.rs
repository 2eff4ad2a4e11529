//! A naive meter, written from RFC 5103 and the manual: a map of flows, no bounds, no hashes.

use std::collections::HashMap;
use std::net::IpAddr;

use super::traffic::{Body, Sent};

/// Totals of one direction; times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Direction {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
    pub(super) flags: u8,
}

/// A record as a collector sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) protocol: u8,
    /// `None` for ICMP.
    pub(super) ports: Option<(u16, u16)>,
    /// Of ICMP only.
    pub(super) icmp: Option<(u8, u8)>,
    pub(super) forward: Direction,
    pub(super) reverse: Direction,
    pub(super) reason: u8,
    pub(super) direction: u8,
}

/// The key of a flow for both directions: two ends in order, the parts of neither end, and the host
/// that asks for an echo.
type Name = ((IpAddr, u16), (IpAddr, u16), u8, (u16, u8, u8), Option<IpAddr>);

struct Flow {
    initiator: (IpAddr, u16),
    responder: (IpAddr, u16),
    /// Type and code of the initiator's ICMP.
    icmp: Option<(u8, u8)>,
    protocol: u8,
    start_us: u64,
    end_us: u64,
    halves: [Direction; 2],
}

/// The meter.
pub(super) struct Model {
    idle_us: u64,
    active_us: u64,
    flows: HashMap<Name, Flow>,
    pub(super) rows: Vec<Row>,
}

impl Model {
    pub(super) fn new(idle_s: u64, active_s: u64) -> Self {
        let (idle_us, active_us) = (idle_s * 1_000_000, active_s * 1_000_000);
        Self { idle_us, active_us, flows: HashMap::new(), rows: Vec::new() }
    }

    pub(super) fn meter(&mut self, packet: &Sent) {
        let seen = Seen::of(packet);
        if let Some(flow) = self.flows.get(&seen.name)
            && let Some(reason) = self.reason(flow, &seen)
        {
            self.rows.push(row(flow, reason));
            if reason == 2 {
                let flow = self.flows.get_mut(&seen.name).unwrap();
                (flow.start_us, flow.halves) = (seen.us, Default::default());
            } else {
                self.flows.remove(&seen.name);
            }
        }
        let is_first = !self.flows.contains_key(&seen.name);
        let flow = self.flows.entry(seen.name).or_insert_with(|| {
            let (initiator, responder) =
                if seen.answers { (seen.dst, seen.src) } else { (seen.src, seen.dst) };
            Flow {
                initiator,
                responder,
                icmp: seen.icmp,
                protocol: packet.protocol(),
                start_us: seen.us,
                end_us: seen.us,
                halves: Default::default(),
            }
        });
        // Who talks to itself answers at the start only, but for echoes.
        let back = match seen.src == seen.dst {
            true => seen.answers && (is_first || seen.name.4.is_some()),
            false => seen.src != flow.initiator,
        };
        let half = &mut flow.halves[usize::from(back)];
        if half.packets == 0 {
            half.start_ms = seen.us / 1000;
        }
        half.packets += 1;
        half.bytes += packet.len();
        half.end_ms = seen.us / 1000;
        half.flags |= seen.flags;
        flow.end_us = seen.us;
    }

    fn reason(&self, flow: &Flow, seen: &Seen) -> Option<u8> {
        let gap = seen.us - flow.end_us;
        let closed = flow.is_closed();
        if closed && (gap > 1_000_000 || seen.flags & 0x12 == 0x02) {
            Some(3)
        } else if !closed && gap > self.idle_us {
            Some(1)
        } else {
            (seen.us - flow.start_us > self.active_us).then_some(2)
        }
    }

    /// Long after the last packet: every flow is over.
    pub(super) fn end(mut self) -> Vec<Row> {
        let ends = self.flows.values().map(|flow| row(flow, if flow.is_closed() { 3 } else { 1 }));
        self.rows.extend(ends);
        self.rows.sort();
        self.rows
    }
}

impl Flow {
    fn is_closed(&self) -> bool {
        let [forward, reverse] = self.halves.map(|half| half.flags);
        (forward & 1 != 0 && reverse & 1 != 0) || (forward | reverse) & 4 != 0
    }
}

fn row(flow: &Flow, reason: u8) -> Row {
    let [forward, reverse] = flow.halves;
    let ports = (flow.initiator.1, flow.responder.1);
    let row = Row {
        src: flow.initiator.0,
        dst: flow.responder.0,
        protocol: flow.protocol,
        ports: flow.icmp.is_none().then_some(ports),
        icmp: flow.icmp,
        forward,
        reverse,
        reason,
        direction: 1,
    };
    if forward.packets > 0 {
        return row;
    }
    Row {
        src: row.dst,
        dst: row.src,
        ports: row.ports.map(|(src, dst)| (dst, src)),
        // An answer's type is its own.
        icmp: row.icmp.map(|(kind, code)| match (kind, flow.protocol) {
            (8, 1) => (0, code),
            (128, 58) => (129, code),
            other => (other.0, code),
        }),
        forward: row.reverse,
        reverse: row.forward,
        direction: 2,
        ..row
    }
}

/// The properties of a packet that the model counts by.
struct Seen {
    name: Name,
    src: (IpAddr, u16),
    dst: (IpAddr, u16),
    icmp: Option<(u8, u8)>,
    answers: bool,
    flags: u8,
    us: u64,
}

impl Seen {
    fn of(packet: &Sent) -> Self {
        let protocol = packet.protocol();
        let is_icmp = protocol == if packet.src.is_ipv4() { 1 } else { 58 };
        let (mut ports, mut apart, mut flags, mut answers) = ((0, 0), (0, 0, 0), 0, false);
        let mut asks = None;
        match packet.body {
            Body::Tcp { src, dst, flags: own } => {
                (ports, flags, answers) = ((src, dst), own, own & 0x12 == 0x12);
            }
            Body::Udp { src, dst } => ports = (src, dst),
            Body::Icmp { kind, code, ident } => {
                let (request, reply) = if packet.src.is_ipv4() { (8, 0) } else { (128, 129) };
                answers = kind == reply;
                let is_echo = answers || kind == request;
                asks = is_echo.then_some(if answers { packet.dst } else { packet.src });
                apart = match is_echo {
                    true => (ident, request, code),
                    false => (0, kind, code),
                };
            }
            Body::Other { .. } | Body::Fragment { .. } => {}
        }
        let (src, dst) = ((packet.src, ports.0), (packet.dst, ports.1));
        let name = (src.min(dst), src.max(dst), protocol, apart, asks);
        let icmp = is_icmp.then_some((apart.1, apart.2));
        Self { name, src, dst, icmp, answers, flags, us: packet.nanos / 1000 }
    }
}
