//! Interfaces in rules of translation: the ports by which packets come in.
//!
//! A rule that asks for the port by which a packet leaves asks for the port by which it came, in a
//! chain with two ports. With more ports the route is not known yet, so rules must decide alike
//! whichever outside port a packet leaves by: they are read once for each.

use std::cell::Cell;

use super::NatRules;
use warpline_nf::{Diagnostic, Diagnostics, Ports, Side};
use warpline_rewrite::PortSet;
use warpline_rule_files::{Interfaces, Leaves, NumberSet, PortDirection};

/// The interface by which no packet of a chain comes or leaves.
pub(super) const LOOPBACK: &str = "lo";

/// The ports of a chain, for rules.
#[derive(Clone, Debug, Default)]
pub struct RulePorts {
    pub(super) interfaces: Interfaces,
    inside: Vec<u16>,
    outside: Vec<u16>,
    /// The names of the outside ports.
    outside_names: String,
    /// The outside port by which packets are taken to leave.
    leaves_by: Option<u16>,
    /// Whether a rule asks for some of the outside ports.
    asks_for_some: Cell<bool>,
    /// Whether a rule asks for the outside ports, though packets may leave by several inside ports.
    presumes_outside: Cell<bool>,
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
        let (inside, outside) = (of(Side::Inside), of(Side::Outside));
        let named = ports.iter().filter(|port| port.side == Side::Outside);
        let outside_names = named.map(|port| &*port.name).collect::<Vec<_>>().join(", ");
        Self { interfaces, inside, outside, outside_names, ..Self::default() }
    }

    /// Reads rules. Those that ask for some of the outside ports are supported if the rules for
    /// each port are the same.
    pub(super) fn read(&self, parse: impl Fn(&Self) -> NatRules) -> NatRules {
        let found = parse(self);
        if !self.asks_for_some.get() {
            return found;
        }
        let leaving = |&port| parse(&Self { leaves_by: Some(port), ..self.clone() });
        let mut by_port = self.outside.iter().map(leaving);
        let Some(mut all) = by_port.next() else { return found };
        match by_port.all(|other| all.joins(&other)) {
            true => all,
            false => found,
        }
    }

    /// Remarks about the conditions so far, and about masquerading rules.
    pub(super) fn remarks(&self, masquerades: bool) -> Diagnostics {
        let mut remarks = Diagnostics::default();
        if masquerades && self.outside.len() > 1 {
            remarks.push(Diagnostic::bare(
                "nat: Linux masquerades with the address of the port by which a packet leaves; \
                 here it may be any address of `outside`, whichever outside port that is",
            ));
        }
        if self.presumes_outside.get() {
            remarks.push(Diagnostic::bare(
                "nat: `-o` holds for all packets to addresses that are not inside, also where a \
                 route sends them to an inside port: name the networks of all inside ports as \
                 sources, or in `inside`",
            ));
        }
        remarks
    }

    /// The ports by which packets come that a rule asks for: those named, or all others.
    pub(super) fn came_by(&self, named: &NumberSet, negated: bool) -> PortSet {
        let all = self.inside.iter().chain(&self.outside);
        let (taken, left): (Vec<u16>, Vec<u16>) = all.partition(|port| has(named, negated, **port));
        if left.is_empty() { PortSet::ALL } else { PortSet::of(&taken) }
    }

    /// The ports by which packets come whose condition is about a way through the chain, `None` if
    /// no packet meets it; or why a rule can't ask for these.
    pub(super) fn condition(
        &self,
        way: PortDirection,
        named: &NumberSet,
        negated: bool,
    ) -> Result<Option<PortSet>, String> {
        let has = |port: &u16| has(named, negated, *port);
        let came_by = match (way, self.inside.len() + self.outside.len()) {
            (PortDirection::In, _) => self.came_by(named, negated),
            // Packets leave by the other port.
            (PortDirection::Out, 2) => match (has(&0), has(&1)) {
                (true, true) => PortSet::ALL,
                (leaves_by_first, leaves_by_second) => {
                    let came = [(1, leaves_by_first), (0, leaves_by_second)];
                    let came = came.iter().filter(|(_, is)| *is).map(|&(port, _)| port);
                    PortSet::of(&came.collect::<Vec<_>>())
                }
            },
            (PortDirection::Out, _) => {
                let [is_some, is_all] =
                    [self.outside.iter().any(has), self.outside.iter().all(has)];
                // Packets between inside addresses are not translated.
                let presumes = is_some && self.inside.len() > 1 && !self.inside.iter().all(has);
                self.presumes_outside.set(presumes || self.presumes_outside.get());
                self.asks_for_some.set(is_some && !is_all || self.asks_for_some.get());
                match self.leaves_by {
                    _ if is_all => {}
                    None => return Err(self.by_unknown_route()),
                    Some(port) if !has(&port) => return Ok(None),
                    Some(_) => {}
                }
                PortSet::ALL
            }
        };
        Ok(Some(came_by))
    }

    pub(super) fn by_inside_ports(&self) -> String {
        let names = &self.outside_names;
        format!("packets that leave by inside ports keep their source; outside ports: {names}")
    }

    fn by_unknown_route(&self) -> String {
        let names = &self.outside_names;
        format!("the route is not known yet: write the same rules for all outside ports ({names})")
    }

    /// The ports of the chain that are not among these.
    pub(super) fn others(&self, ports: PortSet) -> PortSet {
        let all = self.inside.iter().chain(&self.outside).copied();
        PortSet::of(&all.filter(|&port| !ports.has(port)).collect::<Vec<_>>())
    }

    /// Whether a condition is about packets that leave by inside ports alone. Those keep their
    /// source.
    pub(super) fn stays_inside(
        &self,
        way: PortDirection,
        named: &NumberSet,
        negated: bool,
    ) -> bool {
        let mut outside = self.outside.iter();
        let is_asked = way == PortDirection::Out && self.has_any();
        is_asked && !outside.any(|&port| has(named, negated, port))
    }

    /// Whether the chain has ports.
    pub(super) fn has_any(&self) -> bool {
        !self.inside.is_empty() || !self.outside.is_empty()
    }

    /// Whether all inside ports are among these; or all outside ports.
    pub(super) fn covers(&self, side: Side, ports: PortSet) -> bool {
        let own = if side == Side::Inside { &self.inside } else { &self.outside };
        own.iter().all(|&port| ports.has(port))
    }
}

fn has(named: &NumberSet, negated: bool, port: u16) -> bool {
    let mut ranges = named.ranges().iter();
    ranges.any(|&(first, last)| first <= port.into() && u128::from(port) <= last) != negated
}
