//! The packets that a rule of other translators is about, by its conditions and those of the jumps
//! that lead to it.

use warpline_packet::Prefix;
use warpline_rewrite::PortSet;
use warpline_rule_files::NumberSet;

use super::ports::RulePorts;
use super::skipped::Skipped;
use super::{prefixes, version};
use crate::fixed_keys::SourceRule;

/// Packets by their addresses, protocol, destination port and the port of the chain they came by.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Any of them.
    pub(super) sources: Option<Vec<Prefix>>,
    /// Any of them, or any where there is none.
    pub(super) destinations: Vec<Prefix>,
    /// None of them.
    pub(super) not_destinations: Vec<Prefix>,
    /// The IP version, where only one is meant.
    pub(super) version: Option<u8>,
    pub(super) protocol: Option<u8>,
    /// Any of these destination ports, or any where there is none.
    pub(super) ports: Vec<(u16, u16)>,
    /// The ports of the chain by which packets come.
    pub(super) came_by: PortSet,
    /// Whether it asks for an interface that is no port of the chain.
    pub(super) is_elsewhere: bool,
    /// Whether it asks for addresses of the gateway. Of those only the ones outside are translated.
    pub(super) is_local: bool,
    /// Whether the packets leave by inside ports alone, and so keep their source.
    pub(super) stays_inside: bool,
    /// Whether a jump on the way has a condition that is not supported.
    pub(super) is_widened: bool,
    /// Whether there is no such packet.
    pub(super) is_void: bool,
}

impl Scope {
    /// Narrows to packets of an IP version.
    pub(super) fn keep(&mut self, version: u8) {
        self.is_void |= self.version.is_some_and(|own| own != version);
        self.version = Some(version);
    }

    /// Narrows to packets of a protocol.
    pub(super) fn keep_protocol(&mut self, protocol: u8) {
        self.is_void |= self.protocol.is_some_and(|own| own != protocol);
        self.protocol = Some(protocol);
    }

    /// Addresses, prefixes and ports that it lists.
    pub(super) fn len(&self) -> usize {
        let sources = self.sources.as_ref().map_or(0, Vec::len);
        sources + self.destinations.len() + self.not_destinations.len() + self.ports.len()
    }

    /// The packets of both.
    pub(super) fn within(mut self, outer: &Self) -> Self {
        if let Some(sources) = &outer.sources {
            self.sources = Some(match &self.sources {
                Some(own) => self.both(own, sources),
                None => sources.clone(),
            });
        }
        self.keep_destinations(&outer.destinations);
        self.not_destinations.extend(&outer.not_destinations);
        outer.version.into_iter().for_each(|version| self.keep(version));
        outer.protocol.into_iter().for_each(|protocol| self.keep_protocol(protocol));
        if !outer.ports.is_empty() && !self.ports.is_empty() {
            self.ports = both_ports(&self.ports, &outer.ports);
            self.is_void |= self.ports.is_empty();
        } else if self.ports.is_empty() {
            self.ports.clone_from(&outer.ports);
        }
        self.came_by = self.came_by.and(outer.came_by);
        self.is_elsewhere |= outer.is_elsewhere;
        self.stays_inside |= outer.stays_inside;
        self.is_local |= outer.is_local;
        self.is_widened |= outer.is_widened;
        let no_source = self.sources.as_ref().is_some_and(Vec::is_empty);
        self.is_void |= outer.is_void || no_source || self.came_by.is_empty();
        self
    }

    /// The packets that are not of `other`; `None` if no scope is that. Where all packets are of
    /// `one_version`, that is no condition.
    pub(super) fn without(
        &self,
        other: &Self,
        chain: &RulePorts,
        one_version: bool,
    ) -> Option<Self> {
        let mut left = self.clone();
        if other.is_void || other.stays_inside {
            return Some(left);
        }
        let is_new = |own: Option<u8>, asked: Option<u8>| asked.is_some() && own != asked;
        // Prefixes imply the version.
        let version =
            !one_version && is_new(self.version, other.version) && other.destinations.is_empty();
        let protocol = is_new(self.protocol, other.protocol);
        let came_by = self.came_by.and(other.came_by) != self.came_by;
        let (to, not_to) = (!other.destinations.is_empty(), !other.not_destinations.is_empty());
        match (came_by, to, not_to, version) {
            _ if other.is_widened || other.sources.is_some() => return None,
            _ if other.is_local && !self.is_local => return None,
            _ if protocol || !other.ports.is_empty() => return None,
            (false, false, false, false) => left.is_void = true,
            (true, false, false, false) => {
                left.came_by = left.came_by.and(chain.others(other.came_by));
                left.is_void |= left.came_by.is_empty();
            }
            (false, true, false, _) => left.not_destinations.extend(&other.destinations),
            (false, false, true, false) => left.keep_destinations(&other.not_destinations),
            (false, false, false, true) => left.keep(if other.version == Some(4) { 6 } else { 4 }),
            _ => return None,
        }
        Some(left)
    }

    /// The rule of sources with these conditions.
    pub(super) fn source_rule(&self, translates: bool) -> SourceRule {
        SourceRule {
            sources: self.sources.clone().unwrap_or_default(),
            destinations: self.destinations.clone(),
            not_destinations: self.not_destinations.clone(),
            version: self.version,
            protocol: self.protocol,
            came_by: self.came_by,
            translates,
            own: false,
        }
    }

    /// The conditions of a rule that may be skipped; `None` if it takes no packet of the chain.
    pub(super) fn as_skipped(&self, place: String) -> Option<Skipped> {
        (!self.is_elsewhere && !self.is_void).then(|| Skipped { scope: self.clone(), place })
    }

    fn keep_destinations(&mut self, list: &[Prefix]) {
        if list.is_empty() {
            return;
        }
        self.destinations = match self.destinations.is_empty() {
            true => list.to_vec(),
            false => self.both(&self.destinations, list),
        };
        self.is_void |= self.destinations.is_empty();
    }

    /// The addresses in both lists.
    fn both(&self, own: &[Prefix], others: &[Prefix]) -> Vec<Prefix> {
        let set = |list: &[Prefix], of: u8| {
            let own = list.iter().filter(|prefix| version(**prefix) == of);
            NumberSet::of(own.map(|prefix| prefix.bounds()).collect())
        };
        let of = |version| prefixes(&set(own, version).and(&set(others, version)), version);
        [4, 6].into_iter().flat_map(of).collect()
    }
}

fn both_ports(own: &[(u16, u16)], others: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let set = |list: &[(u16, u16)]| {
        NumberSet::of(list.iter().map(|&(first, last)| (first.into(), last.into())).collect())
    };
    let both = set(own).and(&set(others));
    both.ranges().iter().map(|&(first, last)| (first as u16, last as u16)).collect()
}
