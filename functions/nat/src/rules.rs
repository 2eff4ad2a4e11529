//! Rules of other translators: whose addresses are translated, and to which.
//!
//! Here every inside address is translated to one pool. So all rules of a file must translate to
//! the same addresses. Their conditions decide whether a packet is translated. Unsupported parts
//! fail closed: left out, a condition lets more be translated, and a port forward none in.

mod chains;
mod inside_ports;
pub(crate) mod iptables;
mod iptables_conditions;
mod iptables_options;
pub(crate) mod nft;
mod nft_chains;
mod nft_conditions;
mod own_addresses;
pub(crate) mod ports;
mod scope;
pub(crate) mod settings;
mod skipped;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::Prefix;

use super::fixed_keys::{self, SourceRule, is_host};
use inside_ports::{CHOSEN, InsidePorts};
use own_addresses::{Accepting, PartlyOwn, Refused};
use skipped::Skipped;
use warpline_nf::{Diagnostic, Diagnostics};
use warpline_rewrite::addresses::PortRange;
use warpline_rewrite::{Forward, Mapped, PortSet};
use warpline_rule_files::NumberSet;

/// The outside addresses and ports of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The addresses; `None` for those of an interface, which the table names.
    pub outside: Option<Vec<Prefix>>,
    /// The ports, where the rule says them.
    pub ports: Option<PortRange>,
}

/// The content of a file of rules.
#[derive(Clone, Debug, Default)]
pub struct NatRules {
    /// The sources of all rules.
    pub inside: Vec<Prefix>,
    /// Whether a rule has no source, so that the table names them.
    pub any_source: bool,
    /// The translation that all rules share.
    pub translation: Option<Translation>,
    /// Which packets from inside are translated, and which are not, in the order of the rules.
    pub source_rules: Vec<SourceRule>,
    /// The places of the rules of `forwards`, and of those of `mapped`.
    pub(super) places: Places,
    /// Only while parsing: rules of destinations so far that can only be skipped.
    skipped: Vec<Skipped>,
    /// Only while parsing.
    partly_own: Vec<PartlyOwn>,
    /// Only while parsing.
    accepting: Vec<Accepting>,
    /// Ports that are forwarded.
    pub forwards: Vec<ForwardRule>,
    /// Hosts with outside addresses of their own.
    pub mapped: Vec<Mapped>,
    /// Lines that can't be parsed, or can't be skipped.
    pub mistakes: Diagnostics,
    /// Rules that are not supported.
    pub unsupported: Diagnostics,
}

/// Where the rules of fixed translations are written, in their order: mistakes to complete.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub(super) forwards: Vec<Diagnostic>,
    pub(super) mapped: Vec<Diagnostic>,
}

/// The mistake `text` at the place of a rule.
pub(super) fn mistake_at(place: &Diagnostic, text: &str) -> Diagnostic {
    Diagnostic { message: format!("{}{text}", place.message), ..place.clone() }
}

/// A rule that forwards ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardRule {
    /// TCP or UDP, by its number.
    pub protocol: u8,
    /// The outside address; `None` for every one of the table.
    pub outside: Option<IpAddr>,
    /// The first and the last outside port.
    pub ports: (u16, u16),
    /// The inside host.
    pub inside: IpAddr,
    /// The first and the last inside port.
    pub to: (u16, u16),
    /// The ports of the chain by which packets come.
    pub came_by: PortSet,
}

impl ForwardRule {
    /// The forward of an outside address.
    pub(super) fn of(&self, outside: IpAddr) -> Result<Forward, String> {
        let forward =
            fixed_keys::forward(self.protocol, outside, self.ports, self.inside, self.to)?;
        Ok(Forward { came_by: self.came_by, ..forward })
    }

    /// Whether it leads to the same place, for packets that come by any ports of the chain.
    fn is_like(&self, other: &Self) -> bool {
        Self { came_by: other.came_by, ..*self } == *other
    }

    /// Whether it forwards all that `other` would.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && self.inside.is_ipv4() == other.inside.is_ipv4()
            && self.came_by.and(other.came_by) == other.came_by
            && (self.outside.is_none() || self.outside == other.outside)
            && self.ports.0 <= other.ports.0
            && other.ports.1 <= self.ports.1
    }
}

impl NatRules {
    /// Adds forwards of `ports` of single outside addresses, or of all, to `inside`. Ports that a
    /// rule before forwards or maps stay with that.
    fn forward(
        &mut self,
        protocol: u8,
        outside: &[Prefix],
        ports: &[(u16, u16)],
        inside: IpAddr,
        to: Option<InsidePorts>,
        came_by: PortSet,
    ) -> Result<(), Refused> {
        if !outside.iter().copied().all(is_host) {
            let why = "a forward needs single addresses as destination";
            return Err(Refused::Wrong(why.into()));
        }
        let outside: Vec<_> = match outside {
            [] => vec![None],
            some => some.iter().map(|prefix| Some(prefix.address())).collect(),
        };
        let to_of = |ports| to.map_or(Some(ports), |to| to.of(ports));
        if ports.iter().any(|&ports| to_of(ports).is_none()) {
            return Err(Refused::Unsupported(CHOSEN.into()));
        }
        for &ports in ports {
            for &outside in &outside {
                let to = to_of(ports).unwrap_or(ports);
                let rule = ForwardRule { protocol, outside, ports, inside, to, came_by };
                rule.of(outside.unwrap_or(inside)).map_err(Refused::Wrong)?;
                let maps = |own: &Mapped| outside.is_some_and(|one| own.outside.contains(one));
                let forwards = |own: &ForwardRule| own.covers(&rule);
                if !self.mapped.iter().any(maps) && !self.forwards.iter().any(forwards) {
                    let outside = outside.map(Prefix::host);
                    let version = version(Prefix::host(inside));
                    let service = Some((protocol, ports));
                    let allowed = self.check_skipped(version, outside, service, came_by);
                    allowed.map_err(Refused::Wrong)?;
                    match self.forwards.iter_mut().find(|own| own.is_like(&rule)) {
                        Some(known) => known.came_by = known.came_by.or(came_by),
                        None => self.forwards.push(rule),
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds hosts with outside addresses of their own, for packets that come by these ports.
    fn map(&mut self, outside: Prefix, inside: Prefix, came_by: PortSet) -> Result<(), Refused> {
        let mapped = fixed_keys::mapped(outside, inside).map_err(Refused::Wrong)?;
        let known = self.mapped.iter().position(|own| own.is_like(&mapped));
        if known.is_some_and(|place| self.mapped[place].came_by.and(came_by) == came_by) {
            return Ok(());
        }
        let allowed = self.check_skipped(version(outside), Some(outside), None, came_by);
        allowed.map_err(Refused::Wrong)?;
        match known {
            Some(place) => self.mapped[place].came_by = self.mapped[place].came_by.or(came_by),
            None => {
                self.forward_here(outside)?;
                self.mapped.push(Mapped { came_by, ..mapped });
            }
        }
        Ok(())
    }

    /// Notes the place of the rule that was just added.
    fn note_place(&mut self, place: impl Fn() -> Diagnostic) {
        self.places.forwards.resize_with(self.forwards.len(), &place);
        self.places.mapped.resize_with(self.mapped.len(), &place);
    }

    /// The mapping of a rule before by which these sources have these addresses, host by host.
    fn mapping(&self, sources: Option<&[Prefix]>, to: &Translation) -> Option<Mapped> {
        let is = |own: &&Mapped| {
            sources == Some(&[own.inside][..]) && to.outside.as_deref() == Some(&[own.outside][..])
        };
        self.mapped.iter().find(is).copied()
    }

    /// Adds the reports of `other`. Returns whether all rules of both are the same.
    fn joins(&mut self, other: &Self) -> bool {
        other.mistakes.iter().for_each(|own| add_new(&mut self.mistakes, own.clone()));
        other.unsupported.iter().for_each(|own| add_new(&mut self.unsupported, own.clone()));
        let fixed = |of: &Self| (of.forwards.clone(), of.mapped.clone(), of.translation.clone());
        (fixed(self), &self.inside, self.any_source, &self.source_rules)
            == (fixed(other), &other.inside, other.any_source, &other.source_rules)
    }

    /// Adds a rule. The error says why it goes with no rule before it.
    fn add(
        &mut self,
        inside: Option<Vec<Prefix>>,
        translation: Translation,
    ) -> Result<(), &'static str> {
        if self.translation.as_ref().is_some_and(|other| *other != translation) {
            return Err("not supported: rules that translate to different addresses or ports");
        }
        self.translation = Some(translation);
        self.add_sources(inside)
    }

    /// Adds the sources of a rule that translates.
    fn add_sources(&mut self, inside: Option<Vec<Prefix>>) -> Result<(), &'static str> {
        match inside {
            Some(inside) => {
                for prefix in inside {
                    if self.inside.contains(&prefix) {
                        continue;
                    }
                    if self.inside.len() == INSIDE_MAX {
                        return Err("more than 4096 source prefixes");
                    }
                    self.inside.push(prefix);
                }
            }
            None => self.any_source = true,
        }
        Ok(())
    }
}

/// Adds a report once.
fn add_new(all: &mut Diagnostics, report: Diagnostic) {
    if !all.iter().any(|known| *known == report) {
        all.push(report);
    }
}

/// Source prefixes that the rules may have.
const INSIDE_MAX: usize = 4096;

/// The IP version of a prefix.
pub(super) fn version(prefix: Prefix) -> u8 {
    if prefix.address().is_ipv4() { 4 } else { 6 }
}

/// The prefixes that ranges of addresses of a version are made of.
pub(super) fn prefixes(set: &NumberSet, version: u8) -> Vec<Prefix> {
    let bits = if version == 4 { 32 } else { 128 };
    let mut prefixes = Vec::new();
    for &(first, last) in set.ranges() {
        let mut at = first;
        loop {
            let aligned = if at == 0 { bits } else { at.trailing_zeros().min(bits) };
            // As large as the place and what is left allow.
            let fits = |size: &u32| at.checked_add(ones(*size)).is_some_and(|end| end <= last);
            let size = (0..=aligned).rev().find(fits).unwrap_or(0);
            let address = match version {
                4 => IpAddr::V4(Ipv4Addr::from_bits(at as u32)),
                _ => IpAddr::V6(Ipv6Addr::from_bits(at)),
            };
            prefixes.extend(Prefix::new(address, (bits - size) as u8));
            match at.checked_add(ones(size)).and_then(|end| end.checked_add(1)) {
                Some(next) if next <= last => at = next,
                _ => break,
            }
        }
    }
    prefixes
}

fn ones(bits: u32) -> u128 {
    1u128.checked_shl(bits).map_or(u128::MAX, |size| size - 1)
}
