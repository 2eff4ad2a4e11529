//! The ways through a chain with ports, where rules ask for interfaces: packets of each way have a
//! search of their own, over the rules that ask for it or for no interface.

use std::collections::HashMap;

use warpline_nf::{HopPorts, Ports};
use warpline_packet::{Field, FieldSet, Packet};
use warpline_rule_files::{NO_PORT_OUT, NumberSet, RegionRule};

/// The ways of packets, and the number of the search for each.
#[derive(Debug)]
pub(crate) struct Ways {
    ports: Ports,
    /// By next hop, if rules ask for the port of the route.
    hops: Option<HopPorts>,
    /// By way in and way out.
    searches: Vec<u32>,
}

/// The rules of each search: their places in the list.
pub(super) type Members = Vec<Vec<u32>>;

impl Ways {
    /// Divides `rules` by ways; `None` if none of them asks for an interface.
    pub(super) fn of(
        rules: &[RegionRule],
        ports: &Ports,
        hops: Option<&HopPorts>,
    ) -> Option<(Self, Members)> {
        let all = NumberSet::range(0, NO_PORT_OUT.into());
        let asks = |way: usize| rules.iter().any(|rule| *rule.region.interfaces()[way] != all);
        let asked = [asks(0), asks(1)];
        if asked == [false, false] {
            return None;
        }
        let hops = asked[1].then(|| hops.cloned().unwrap_or_default());
        let mut ways = Self { ports: ports.clone(), hops, searches: Vec::new() };
        let mut members: Members = Vec::new();
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        for way_in in ways.numbers() {
            for way_out in ways.numbers().take(ways.outs()) {
                let takes = |rule: &RegionRule| {
                    let [ins, outs] = rule.region.interfaces();
                    has(ins, way_in) && (!asked[1] || has(outs, way_out))
                };
                let own = (0..).zip(rules).filter(|(_, rule)| takes(rule));
                let own: Vec<u32> = own.map(|(place, _)| place).collect();
                let number = *known.entry(own.clone()).or_insert_with(|| {
                    members.push(own);
                    members.len() as u32 - 1
                });
                ways.searches.push(number);
            }
        }
        Some((ways, members))
    }

    /// The same ways for other next hops, if rules ask for the port of the route.
    pub(super) fn with_hop_ports(&self, hops: &HopPorts) -> Option<Self> {
        self.hops.as_ref()?;
        let (ports, searches) = (self.ports.clone(), self.searches.clone());
        Some(Self { ports, hops: Some(hops.clone()), searches })
    }

    /// The numbers of ports, and that of no port.
    fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.ports.len() as u16).chain([NO_PORT_OUT])
    }

    /// How many ways out have searches of their own.
    pub(super) fn outs(&self) -> usize {
        if self.hops.is_some() { self.ports.len() + 1 } else { 1 }
    }

    /// How many ports there are.
    pub(super) fn ports(&self) -> usize {
        self.ports.len()
    }

    /// By next hop the port, if rules ask for it.
    pub(super) fn hops(&self) -> Option<&HopPorts> {
        self.hops.as_ref()
    }

    /// The place of the way out of a packet that came by port `ingress`, with its route's port.
    pub(super) fn way_out(&self, ingress: usize, routed: Option<u16>) -> usize {
        let ingress = if ingress < self.ports.len() { ingress as u16 } else { NO_PORT_OUT };
        let port = self.ports.egress(ingress, routed).map_or(usize::MAX, usize::from);
        port.min(self.ports.len())
    }

    /// The searches by way in and way out.
    pub(super) fn searches(&self) -> &[u32] {
        &self.searches
    }

    /// The number of the search for a packet.
    #[inline]
    pub(super) fn search(&self, packet: &Packet<'_>) -> usize {
        let way_in = usize::from(packet.interface()).min(self.ports.len());
        let way_out = match &self.hops {
            Some(hops) => self.way_out(way_in, hops.port(packet.next_hop())),
            None => 0,
        };
        let at = way_in * self.outs() + way_out;
        self.searches.get(at).map_or(0, |&number| number as usize)
    }

    /// Fields by which it tells ways apart.
    pub(super) fn reads(&self) -> FieldSet {
        let reads = FieldSet::of(&[Field::Ingress]);
        if self.hops.is_some() { reads.with(Field::NextHop) } else { reads }
    }
}

fn has(set: &NumberSet, number: u16) -> bool {
    let number = u128::from(number);
    set.ranges().iter().any(|&(first, last)| first <= number && number <= last)
}
