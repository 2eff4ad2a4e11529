//! Interfaces in rules of translation: conditions that every translated packet meets have no
//! effect.
//!
//! Packets of inside hosts come in at inside ports. With one inside port they leave by outside
//! ports. A condition that not all of them meet is unsupported, since each is translated.

use warpline_nf::{Ports, Side};
use warpline_rule_files::{Interfaces, Leaves, NumberSet, Way};

/// The ports of a chain, for rules.
#[derive(Clone, Debug, Default)]
pub struct RulePorts {
    pub(super) interfaces: Interfaces,
    inside: Vec<u128>,
    outside: Vec<u128>,
}

impl RulePorts {
    /// The ports of a chain.
    pub fn new(ports: &Ports) -> Self {
        let names = ports.iter().map(|port| port.name.clone()).collect();
        let of = |side: Side| {
            let own = (0..).zip(ports).filter(|(_, port)| port.side == side);
            own.map(|(number, _)| number).collect()
        };
        let interfaces = Interfaces::new(names, Leaves::ByRoute);
        Self { interfaces, inside: of(Side::Inside), outside: of(Side::Outside) }
    }

    /// Why a forward can't ask that packets come by these ports, or by all others: packets to an
    /// outside address come by every outside port.
    pub(super) fn objection_in(&self, ports: &NumberSet, negated: bool) -> Option<String> {
        let has = |port: &u128| {
            let mut ranges = ports.ranges().iter();
            ranges.any(|&(first, last)| first <= *port && *port <= last) != negated
        };
        let missing = !self.outside.iter().all(has);
        missing.then(|| "packets from outside come by other ports, too".into())
    }

    /// Why a rule can't ask that packets come or leave (`way`) by these ports, or by all others.
    pub(super) fn objection(&self, way: Way, ports: &NumberSet, negated: bool) -> Option<String> {
        let has = |port: &u128| {
            let mut ranges = ports.ranges().iter();
            ranges.any(|&(first, last)| first <= *port && *port <= last) != negated
        };
        let (has_inside, has_outside) = (self.inside.iter().all(has), self.outside.iter().all(has));
        match way {
            Way::In if has_inside => None,
            Way::In => Some("inside hosts are behind other ports, too".into()),
            Way::Out if !has_outside => {
                Some("packets of inside hosts leave by other ports, too".into())
            }
            Way::Out if has_inside || self.inside.len() == 1 => None,
            Way::Out => Some("packets between inside ports are translated, too".into()),
        }
    }
}
