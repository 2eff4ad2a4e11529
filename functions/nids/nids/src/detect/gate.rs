//! A cheap first look at a rule: [`Gate`].
//!
//! Most rules that a packet's bytes or addresses bring up are about the other direction, another state
//! of the flow or other ports. A gate lets every packet through that the rule's header and flow tests
//! may hold for.

use warpline_nids_rules::{FlowTests, Header, Ports, Rule};

/// The direction, the state and the ports that a rule is about, in 12 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Directions and states that pass: bits as of [`Passer`].
    lets: u8,
    /// The first and the last port, of source and destination.
    ports: [(u16, u16); 2],
}

/// A packet at a gate.
#[derive(Clone, Copy, Debug)]
pub struct Passer {
    /// One bit for the direction, one for the state.
    is: u8,
    /// Source and destination.
    ports: Option<[u16; 2]>,
}

const TO_SERVER: u8 = 1;
const TO_CLIENT: u8 = 1 << 1;
const ESTABLISHED: u8 = 1 << 2;
const NOT_ESTABLISHED: u8 = 1 << 3;
const NO_FLOW: u8 = 1 << 4;

impl Gate {
    /// The gate of `rule`.
    pub fn new(rule: &Rule) -> Self {
        Self { lets: let_through(&rule.flow), ports: spans(&rule.header) }
    }

    /// Whether the rule may match the packet.
    #[inline]
    pub fn lets(&self, passer: Passer) -> bool {
        let has = |(first, last): (u16, u16), port: u16| first <= port && port <= last;
        self.lets & passer.is == passer.is
            && passer
                .ports
                .is_none_or(|[src, dst]| has(self.ports[0], src) && has(self.ports[1], dst))
    }
}

impl Passer {
    /// A packet to the server of its flow or to the client; `None` where it is of no flow.
    pub fn new(to_server: Option<bool>, is_established: bool, ports: Option<[u16; 2]>) -> Self {
        let is = match (to_server, is_established) {
            (None, _) => TO_SERVER | NO_FLOW,
            (Some(true), true) => TO_SERVER | ESTABLISHED,
            (Some(true), false) => TO_SERVER | NOT_ESTABLISHED,
            (Some(false), true) => TO_CLIENT | ESTABLISHED,
            (Some(false), false) => TO_CLIENT | NOT_ESTABLISHED,
        };
        Self { is, ports }
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
