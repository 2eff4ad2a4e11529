//! The ports of a chain: where its packets come in and leave, by name.
//!
//! A port's number is its place in the chain file. It is the interface number of a packet that
//! comes in there.

use std::iter::repeat_n;
use std::net::IpAddr;
use std::sync::Arc;

/// The side of a chain that a port is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The hosts that the chain serves.
    Inside,
    /// Everyone else.
    Outside,
}

impl Side {
    /// Its name in the chain file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Outside => "outside",
        }
    }
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Its name, which no other port of the chain has.
    pub name: String,
    /// Its side.
    pub side: Side,
}

/// The ports of a chain, by number; none where it has one input and one output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    all: Arc<[Port]>,
    /// By port, the port at the other end of its wire; empty if there are no wires.
    peers: Arc<[Option<u16>]>,
    /// By port, whether it forwards by routes; empty if none does.
    routed: Arc<[bool]>,
    /// By port, the name of its network interface; empty if none has one.
    interfaces: Arc<[Option<String>]>,
}

/// Most ports of a chain.
pub const PORTS_MAX: usize = 64;

impl Ports {
    /// These, numbered from 0.
    pub fn new(ports: Vec<Port>) -> Self {
        Self { all: ports.into(), ..Self::default() }
    }

    /// The same ports with a wire from each that has a peer. Without a route a packet that comes in
    /// at one end of a wire leaves by the other.
    pub fn with_peers(self, peers: Vec<Option<u16>>) -> Self {
        Self { peers: peers.into(), ..self }
    }

    /// The same ports, of which some forward by routes. Packets of these need a route, and get the
    /// Ethernet addresses of the link that they leave by.
    pub fn with_routed(self, routed: Vec<bool>) -> Self {
        Self { routed: routed.into(), ..self }
    }

    /// The same ports with the names of their network interfaces.
    pub fn with_interfaces(self, interfaces: Vec<Option<String>>) -> Self {
        Self { interfaces: interfaces.into(), ..self }
    }

    /// By port, the name of its network interface; empty if none has one.
    pub fn interfaces(&self) -> &[Option<String>] {
        &self.interfaces
    }

    /// Whether port `number` forwards by routes.
    #[inline]
    pub fn is_routed(&self, number: u16) -> bool {
        self.routed.get(usize::from(number)) == Some(&true)
    }

    /// Whether some of them forward by routes.
    pub fn are_routed(&self) -> bool {
        self.routed.contains(&true)
    }

    /// Whether each port has a peer.
    pub fn are_wires(&self) -> bool {
        !self.peers.is_empty() && self.peers.iter().all(Option::is_some)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, Port> {
        self.all.iter()
    }

    /// The number of the port called `name`.
    pub fn number(&self, name: &str) -> Option<u16> {
        self.iter().position(|port| port.name == name).map(|number| number as u16)
    }

    /// The side of port `number`.
    #[inline]
    pub fn side(&self, number: u16) -> Option<Side> {
        self.all.get(usize::from(number)).map(|port| port.side)
    }

    /// All names, with commas between them.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.iter().map(|port| port.name.as_str()).collect();
        names.join(", ")
    }

    /// The port by which a packet leaves that came by port `ingress`. `routed` is the port of its
    /// next hop. Without one it leaves by the peer, the other port of two, or the only port. A
    /// packet of a port that forwards by routes then has no way out.
    #[inline]
    pub fn egress(&self, ingress: u16, routed: Option<u16>) -> Option<u16> {
        let peer = || self.peers.get(usize::from(ingress)).copied().flatten();
        match (routed, self.len()) {
            (Some(port), _) => Some(port),
            (None, _) if self.is_routed(ingress) => None,
            (None, 1) => Some(0),
            (None, 2) => Some(u16::from(ingress == 0)),
            (None, _) => peer(),
        }
    }
}

impl<'a> IntoIterator for &'a Ports {
    type Item = &'a Port;
    type IntoIter = std::slice::Iter<'a, Port>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The port of each next hop that a function sets, or that several do: each has numbers of its own.
/// Hop 0 is no next hop and has no port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HopPorts {
    ports: Arc<[Option<u16>]>,
    /// The addresses of routers; the next hop of other packets is their destination.
    gateways: Arc<[Option<IpAddr>]>,
}

impl HopPorts {
    /// By number of next hop.
    pub fn new(ports: Vec<Option<u16>>) -> Self {
        Self { ports: ports.into(), gateways: Arc::default() }
    }

    /// The same with the addresses of the next hops that are routers, by number of next hop.
    #[must_use]
    pub fn with_gateways(self, gateways: Vec<Option<IpAddr>>) -> Self {
        Self { gateways: gateways.into(), ..self }
    }

    /// The same with numbers that are greater by `first`. Those before are other functions'.
    #[must_use]
    pub fn numbered_from(self, first: u16) -> Self {
        if first == 0 {
            return self;
        }
        let first = usize::from(first);
        let ports = repeat_n(None, first).chain(self.ports.iter().copied()).collect();
        let gateways = repeat_n(None, first).chain(self.gateways.iter().copied()).collect();
        Self { ports, gateways }
    }

    /// These and `others`; `None` if a number means one thing here and another there.
    pub fn with(&self, others: &Self) -> Option<Self> {
        let len = self.ports.len().max(others.ports.len());
        let entry = |all: &Self, hop: usize| {
            let port = all.ports.get(hop).copied().flatten();
            (port, all.gateways.get(hop).copied().flatten())
        };
        let none = (None, None);
        let both = |hop: usize| match (entry(self, hop), entry(others, hop)) {
            (own, other) if own == other || other == none => Some(own),
            (own, other) if own == none => Some(other),
            _ => None,
        };
        let all: Option<Vec<_>> = (0..len).map(both).collect();
        let (ports, gateways): (Vec<_>, Vec<_>) = all?.into_iter().unzip();
        Some(Self { ports: ports.into(), gateways: gateways.into() })
    }

    /// The address of next hop `hop` if it is a router.
    #[inline]
    pub fn gateway(&self, hop: u16) -> Option<IpAddr> {
        self.gateways.get(usize::from(hop)).copied().flatten()
    }

    /// The port of next hop `hop`.
    #[inline]
    pub fn port(&self, hop: u16) -> Option<u16> {
        self.ports.get(usize::from(hop)).copied().flatten()
    }

    /// By number of next hop.
    pub fn all(&self) -> &[Option<u16>] {
        &self.ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(count: usize) -> Ports {
        let port = |number: usize| Port { name: format!("p{number}"), side: Side::Inside };
        Ports::new((0..count).map(port).collect())
    }

    #[test]
    fn a_packet_leaves_by_its_route_or_by_the_other_port() {
        for (count, ingress, routed, egress) in [
            (1, 0, None, Some(0)),
            (2, 0, None, Some(1)),
            (2, 1, None, Some(0)),
            (2, 1, Some(1), Some(1)),
            (3, 0, None, None),
            (3, 0, Some(2), Some(2)),
        ] {
            let case = (count, ingress, routed);
            assert_eq!(ports(count).egress(ingress, routed), egress, "{case:?}");
        }
    }

    #[test]
    fn a_packet_without_a_route_leaves_by_the_peer() {
        let wired = ports(5).with_peers(vec![Some(3), None, Some(4), Some(0), Some(2)]);
        let egress = |ingress| wired.egress(ingress, None);
        assert_eq!(
            [0, 1, 2, 3, 4, 9].map(egress),
            [Some(3), None, Some(4), Some(0), Some(2), None]
        );
        assert_eq!(wired.egress(0, Some(1)), Some(1));
        assert!(!wired.are_wires() && !ports(2).are_wires());
        assert!(ports(2).with_peers(vec![Some(1), Some(0)]).are_wires());
    }

    #[test]
    fn a_port_that_forwards_by_routes_needs_one() {
        let ports = ports(2).with_routed(vec![true, false]);
        assert_eq!([ports.egress(0, None), ports.egress(1, None)], [None, Some(0)]);
        assert_eq!(ports.egress(0, Some(1)), Some(1));
    }

    #[test]
    fn names_have_numbers() {
        let ports = ports(3);
        assert_eq!((ports.number("p2"), ports.number("p3")), (Some(2), None));
        assert_eq!(ports.names(), "p0, p1, p2");
    }

    #[test]
    fn next_hops_of_two_functions_have_numbers_of_their_own() {
        let gateway = Some(IpAddr::from([192, 0, 2, 1]));
        let first = HopPorts::new(vec![None, Some(2)]).with_gateways(vec![None, gateway]);
        let second = HopPorts::new(vec![None, Some(0), Some(1)]).numbered_from(4);
        let both = first.with(&second).expect("other numbers");
        assert_eq!(both.all(), [None, Some(2), None, None, None, Some(0), Some(1)]);
        assert_eq!((both.gateway(1), both.gateway(5)), (gateway, None));
        assert_eq!(both.with(&first), Some(both.clone()), "both places of one function");
        assert_eq!(first.with(&HopPorts::new(vec![None, Some(0)])), None);
        assert_eq!(first.clone().numbered_from(0), first);
    }
}
