//! A cheap first test of a rule: [`Gate`].
//!
//! Most candidate rules of a packet are about other hosts, the other direction, another state of
//! the flow, other ports or another size. A gate lets every packet through for which the rule's
//! header, `dsize` and flow tests may hold.

use core::net::IpAddr;

use warpline_nids_rules::{FlowTests, Header, PacketTest, Ports, Rule};

use super::header::is_any_port;
use super::nets::Nets;

/// The direction, the state, the hosts, the ports and the sizes that a rule is about, in 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Directions and states that pass: bits as of [`Passer`].
    lets: u8,
    /// The sets of addresses that it takes: bits of [`Nets`].
    needs: u16,
    /// The first and the last port, of source and destination.
    ports: [(u16, u16); 2],
    /// The least and the greatest payload.
    payload: (u16, u16),
}

/// A packet at a gate.
#[derive(Clone, Copy, Debug)]
pub struct Passer {
    /// One bit for the direction, one for the state, and [`NO_PORTS`].
    is: u8,
    /// The sets of addresses that it is in, as far as is known.
    nets: u16,
    /// Source and destination.
    ports: [u16; 2],
    /// Bytes of its payload, where that is known.
    payload: Option<u16>,
}

const TO_SERVER: u8 = 1;
const TO_CLIENT: u8 = 1 << 1;
const ESTABLISHED: u8 = 1 << 2;
const NOT_ESTABLISHED: u8 = 1 << 3;
const NO_FLOW: u8 = 1 << 4;
const NO_PORTS: u8 = 1 << 5;

impl Gate {
    /// The gate of `rule`. `nets` are those of all rules.
    pub fn new(rule: &Rule, nets: &Nets) -> Self {
        let header = &rule.header;
        let is_on_any = is_any_port(&header.src_ports) && is_any_port(&header.dst_ports);
        Self {
            lets: let_through(&rule.flow) | if is_on_any { NO_PORTS } else { 0 },
            needs: nets.needed_by(header),
            ports: spans(header),
            payload: payload_span(&rule.packet),
        }
    }

    /// Whether the rule may match the packet.
    #[inline]
    pub fn lets(&self, passer: Passer) -> bool {
        let has = |(first, last): (u16, u16), number: u16| first <= number && number <= last;
        let [src, dst] = passer.ports;
        self.lets & passer.is == passer.is
            && self.needs & !passer.nets == 0
            && (passer.is & NO_PORTS != 0 || (has(self.ports[0], src) && has(self.ports[1], dst)))
            && passer.payload.is_none_or(|len| has(self.payload, len))
    }
}

impl Passer {
    /// A packet to the server of its flow or to the client; `None` where it is of no flow. All sets
    /// of addresses may have it.
    pub fn new(to_server: Option<bool>, is_established: bool, ports: Option<[u16; 2]>) -> Self {
        let is = match (to_server, is_established) {
            (None, _) => TO_SERVER | NO_FLOW,
            (Some(true), true) => TO_SERVER | ESTABLISHED,
            (Some(true), false) => TO_SERVER | NOT_ESTABLISHED,
            (Some(false), true) => TO_CLIENT | ESTABLISHED,
            (Some(false), false) => TO_CLIENT | NOT_ESTABLISHED,
        };
        let is = is | if ports.is_none() { NO_PORTS } else { 0 };
        Self { is, nets: u16::MAX, ports: ports.unwrap_or_default(), payload: None }
    }

    /// The same, between these addresses.
    #[must_use]
    pub fn between(self, nets: &Nets, addresses: [IpAddr; 2]) -> Self {
        Self { nets: nets.around(addresses), ..self }
    }

    /// The same, with so many bytes of payload.
    #[must_use]
    pub fn with_payload(self, len: usize) -> Self {
        Self { payload: Some(u16::try_from(len).unwrap_or(u16::MAX)), ..self }
    }
}

fn let_through(flow: &FlowTests) -> u8 {
    let needs_flow = flow.established.is_some() || flow.is_stateless || flow.fragments.is_some();
    let direction = match flow.to_server {
        None => TO_SERVER | TO_CLIENT,
        Some(true) => TO_SERVER,
        Some(false) => TO_CLIENT,
    };
    let state = match flow.established {
        None => ESTABLISHED | NOT_ESTABLISHED,
        Some(true) => ESTABLISHED,
        Some(false) => NOT_ESTABLISHED,
    };
    direction | state | if needs_flow { 0 } else { NO_FLOW }
}

fn spans(header: &Header) -> [(u16, u16); 2] {
    let [src, dst] = [span(&header.src_ports), span(&header.dst_ports)];
    let both = (src.0.min(dst.0), src.1.max(dst.1));
    if header.is_bidirectional { [both; 2] } else { [src, dst] }
}

/// From the first port of a set to the last.
fn span(ports: &Ports) -> (u16, u16) {
    let (first, last) = (ports.0.first(), ports.0.last());
    first.zip(last).map_or((0, u16::MAX), |(first, last)| (first.0, last.1))
}

/// The payload lengths that `dsize` allows, as far as one span expresses them.
fn payload_span(tests: &[PacketTest]) -> (u16, u16) {
    let spans = tests.iter().filter_map(|test| match test {
        PacketTest::Dsize(span) if !span.is_negated => Some((span.min, span.max)),
        _ => None,
    });
    spans.fold((0, u16::MAX), |(least, most), (min, max)| (least.max(min), most.min(max)))
}
