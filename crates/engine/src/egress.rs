//! Where packets leave a chain with ports, and why some don't.

use std::net::IpAddr;

use warpline_nf::{HopPorts, Ports, Side};
use warpline_packet::{Flags, Packet, Verdict};

use crate::Chain;

/// No route names a port for the packet, and the chain has more than two.
const NO_PORT: &str = "no-port";
/// It would leave by the port that it came by, and a function decided as if it did not.
const HAIRPIN: &str = "hairpin";
/// It was opened, and would leave by an outside port in the clear.
const UNPROTECTED: &str = "unprotected";

/// The next hop does not answer.
pub(crate) const NO_NEIGHBOUR: &str = "no-neighbour";
/// The next hop is this machine, whose kernel has the packet, too.
pub(crate) const TO_MACHINE: &str = "to-machine";

/// Where a packet goes that came to the end of its chain.
#[derive(Clone, Copy)]
pub(crate) enum WayOut {
    /// To the sink, by this port.
    Port(u16),
    /// Nothing takes what leaves by its port.
    Nowhere,
    /// It is dropped, for this reason.
    Dropped(&'static str),
    /// It waits until the Ethernet address of its next hop is known.
    Held,
}

/// The ports by which packets leave a chain, if all take frames.
pub struct Exits(Option<Egress>);

impl Exits {
    /// Of a chain, which may have no ports.
    pub fn of(chain: &Chain) -> Self {
        Self(Egress::of(chain, |_| true))
    }

    /// The port of a packet that came to the end of the chain, or why it is dropped there. `None`
    /// without ports.
    pub fn exit(&self, packet: Packet<'_>) -> Option<Result<u16, &'static str>> {
        match self.0.as_ref()?.exit(packet) {
            WayOut::Port(port) => Some(Ok(port)),
            WayOut::Dropped(why) => Some(Err(why)),
            WayOut::Nowhere | WayOut::Held => None,
        }
    }
}

/// The ports of a chain, and the way to them.
pub(crate) struct Egress {
    ports: Ports,
    hops: HopPorts,
    drops_hairpins: bool,
    /// By port, whether the sink takes its frames.
    wanted: Vec<bool>,
}

impl Egress {
    /// Of a chain with ports. `wants` returns whether the sink takes frames of a port.
    pub(crate) fn of(chain: &Chain, wants: impl Fn(u16) -> bool) -> Option<Self> {
        let (ports, drops_hairpins) = (chain.ports().clone(), chain.presumes_crossing());
        let wanted = (0..ports.len()).map(|port| wants(port as u16)).collect();
        let hops = chain.hop_ports().unwrap_or_default();
        (!ports.is_empty()).then_some(Self { ports, hops, drops_hairpins, wanted })
    }

    /// `chain` took the place of the one before; it has the same ports.
    pub(crate) fn follow(&mut self, chain: &Chain) {
        self.hops = chain.hop_ports().unwrap_or_default();
        self.drops_hairpins = chain.presumes_crossing();
    }

    /// Where a packet goes that is forwarded or sent back.
    #[inline]
    pub(crate) fn exit(&self, packet: Packet<'_>) -> WayOut {
        let ingress = packet.interface();
        let port = match packet.verdict() {
            Verdict::Return => Some(ingress),
            _ => self.ports.egress(ingress, self.hops.port(packet.next_hop())),
        };
        match port {
            None => WayOut::Dropped(NO_PORT),
            Some(port) if self.is_unprotected(packet, port) => WayOut::Dropped(UNPROTECTED),
            Some(port) if self.is_hairpin(packet, port) => WayOut::Dropped(HAIRPIN),
            Some(port) if self.wanted.get(usize::from(port)) == Some(&true) => WayOut::Port(port),
            Some(_) => WayOut::Nowhere,
        }
    }

    /// The address of the next hop of a packet that leaves by `port`, if the port forwards by
    /// routes. Answers have the addresses of the frame that they answer.
    pub(crate) fn next_hop(&self, packet: Packet<'_>, port: u16) -> Option<IpAddr> {
        if !self.ports.is_routed(port) || packet.verdict() == Verdict::Return {
            return None;
        }
        let destination = || match packet.version() {
            4 => IpAddr::from(packet.dst_v4().to_be_bytes()),
            _ => IpAddr::from(packet.dst_v6().to_be_bytes()),
        };
        Some(self.hops.gateway(packet.next_hop()).unwrap_or_else(destination))
    }

    fn is_unprotected(&self, packet: Packet<'_>, port: u16) -> bool {
        packet.has(Flags::OPENED) && self.ports.side(port) == Some(Side::Outside)
    }

    fn is_hairpin(&self, packet: Packet<'_>, port: u16) -> bool {
        self.drops_hairpins && port == packet.interface() && packet.verdict() == Verdict::Forward
    }
}
