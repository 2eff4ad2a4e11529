//! Rules of hosts with outside addresses of their own, among rules of shared addresses.
//!
//! Such a host has no bindings, so its answers and its new connections leave alike. Rules that give
//! some of its packets a shared address are therefore not supported.

use warpline_packet::Prefix;
use warpline_rewrite::Mapped;
use warpline_rewrite::addresses::address_of;
use warpline_rule_files::NumberSet;

use super::ports::RulePorts;
use super::{ForwardRule, NatRules, version};
use crate::config::OUTSIDE_MAX;
use crate::fixed_keys::SourceRule;
use warpline_nf::{Diagnostic, Side};

/// Why a forward or a whole address is not added.
pub(super) enum Refused {
    /// Its rule can be skipped.
    Unsupported(String),
    Wrong(String),
}

/// Hosts to which rules so far give addresses of their own for some packets.
#[derive(Clone, Debug)]
pub(super) struct PartlyOwn {
    hosts: Prefix,
    /// The report of the last such rule; `None` until its reader adds it.
    report: Option<Diagnostic>,
}

/// A rule that accepts packets of hosts with addresses of their own.
#[derive(Clone, Debug)]
pub(super) struct Accepting {
    /// Its number among the rules of sources.
    place: usize,
    hosts: Prefix,
    /// `None` until its reader adds it.
    report: Option<Diagnostic>,
}

impl NatRules {
    /// Adds a rule whose packets keep their source.
    pub(super) fn accept(&mut self, rule: SourceRule, ports: &RulePorts) {
        // Earlier accepting rules may be skipped.
        let before = || self.source_rules.iter().filter(|one| one.translates);
        let mut hosts = self.mapped.iter().map(|own| own.inside);
        if let Some(hosts) = hosts.find(|&own| leaves(before(), &rule, own, ports)) {
            let place = self.source_rules.len();
            self.accepting.push(Accepting { place, hosts, report: None });
        }
        self.source_rules.push(rule);
    }

    /// Notes how to report the rule that was just added, if it accepts packets of such hosts.
    pub(super) fn note_accepting(&mut self, report: impl FnOnce(String) -> Diagnostic) {
        if let Some(last) = self.accepting.last_mut() {
            let hosts = last.hosts;
            last.report.get_or_insert_with(|| report(accepts(hosts)));
        }
    }

    /// Reports and removes, at the end, rules that would let answers of these hosts keep their
    /// source. Packets between inside hosts do so whatever rules say.
    pub(super) fn report_accepting(&mut self) {
        let knows_inside = self.translation.is_some() && !self.any_source;
        let inside: Vec<_> =
            self.inside.iter().copied().chain(self.mapped.iter().map(|own| own.inside)).collect();
        let mut accepting = std::mem::take(&mut self.accepting);
        accepting.retain(|own| {
            let to = &self.source_rules[own.place].destinations;
            let stays = |one: &Prefix| set(&inside, *one).holds(&set(&[*one], *one));
            !(knows_inside && !to.is_empty() && to.iter().all(stays))
        });
        for own in accepting.iter().rev() {
            self.source_rules.remove(own.place);
        }
        accepting
            .into_iter()
            .filter_map(|own| own.report)
            .for_each(|own| self.unsupported.push(own));
    }

    /// Adds a rule of hosts that a rule of destinations maps. Returns the reason if this is not
    /// supported: then all packets that rules translate get these addresses.
    pub(super) fn add_own(
        &mut self,
        rule: SourceRule,
        mapped: Mapped,
        ports: &RulePorts,
    ) -> Option<&'static str> {
        let hosts = mapped.inside;
        let is_other = |(place, one): (usize, &SourceRule)| {
            one.translates && !one.own && leaves(&self.source_rules[..place], one, hosts, ports)
        };
        let is_late = self.source_rules.iter().enumerate().any(is_other);
        let is_open = rule.has_conditions() && !is_settled(&self.source_rules, hosts);
        self.partly_own.retain(|own| own.hosts != hosts);
        if is_open {
            self.partly_own.push(PartlyOwn { hosts, report: None });
        }
        self.source_rules.push(SourceRule { own: true, ..rule });
        is_late.then_some("an address of its own after a rule with another one")
    }

    /// Hosts with addresses of their own for other packets than those that `rule` would give a
    /// shared one.
    pub(super) fn partly_own(&self, rule: &SourceRule, ports: &RulePorts) -> Option<Prefix> {
        let mut hosts = self.partly_own.iter().map(|own| own.hosts);
        hosts.find(|&hosts| leaves(&self.source_rules, rule, hosts, ports))
    }

    /// Notes how to report the rule that was just added, if it makes hosts partly own.
    pub(super) fn note_partly_own(&mut self, report: impl FnOnce() -> Diagnostic) {
        if let Some(own) = self.partly_own.last_mut() {
            own.report.get_or_insert_with(report);
        }
    }

    /// Reports, at the end, hosts about whose other packets no rule decides. Linux keeps the source
    /// of new connections there, but not of answers. Without a shared address in the rules, the
    /// keys translate these packets.
    pub(super) fn report_partly_own(&mut self, ports: &RulePorts) {
        for PartlyOwn { hosts, report } in std::mem::take(&mut self.partly_own) {
            let rest = SourceRule { sources: vec![hosts], ..SourceRule::default() };
            if self.translation.is_some() && leaves(&self.source_rules, &rest, hosts, ports) {
                report.into_iter().for_each(|report| self.unsupported.push(report));
            }
        }
    }

    /// Makes the forwards so far that name no destination hold for these outside addresses, too.
    pub(super) fn forward_here(&mut self, outside: Prefix) -> Result<(), Refused> {
        let is_v4 = outside.address().is_ipv4();
        let ((first, last), mut added) = (outside.bounds(), Vec::new());
        for (place, rule) in self.forwards.iter().enumerate() {
            if rule.outside.is_some() || rule.inside.is_ipv4() != is_v4 {
                continue;
            }
            if last - first >= OUTSIDE_MAX {
                let before = "after a forward without a destination";
                let why = format!("a prefix of more than {OUTSIDE_MAX} addresses {before}");
                return Err(Refused::Unsupported(why));
            }
            for number in first..=last {
                let address = address_of(if is_v4 { 4 } else { 6 }, number);
                let here = ForwardRule { outside: Some(address), ..*rule };
                if !self.forwards[..place].iter().any(|one| one.covers(&here)) {
                    added.push(here);
                }
            }
        }
        self.forwards.extend(added);
        Ok(())
    }
}

/// Why a rule that accepts packets of hosts is reported.
fn accepts(hosts: Prefix) -> String {
    format!("answers of {hosts}, which has an address of its own, would keep their source")
}

/// Why a rule for some packets of hosts is reported.
pub(super) const PARTLY_OWN: &str = "an address of its own for some packets only";

/// How a message says that a rule gives hosts a shared address beside their own.
pub(super) fn beside_own(hosts: Prefix) -> String {
    format!("{hosts} has an address of its own for other packets")
}

/// Whether a rule gives all packets of these hosts their own address.
fn is_settled(rules: &[SourceRule], hosts: Prefix) -> bool {
    rules.iter().any(|rule| rule.own && rule.sources == [hosts] && !rule.has_conditions())
}

/// Whether the rules before one leave it packets of these hosts. May be wrong for rules that only
/// together decide about all protocols, sources or ports: then they seem to leave some.
fn leaves<'a>(
    earlier: impl IntoIterator<Item = &'a SourceRule>,
    rule: &SourceRule,
    hosts: Prefix,
    ports: &RulePorts,
) -> bool {
    let fits = |one: &SourceRule| one.version.is_none_or(|own| own == version(hosts));
    let own = set(&[hosts], hosts);
    let own = if rule.sources.is_empty() { own } else { own.and(&set(&rule.sources, hosts)) };
    let decides = |one: &&SourceRule| {
        fits(one)
            && (one.sources.is_empty() || set(&one.sources, hosts).holds(&own))
            && (one.protocol.is_none() || one.protocol == rule.protocol)
            && (one.came_by.and(rule.came_by) == rule.came_by
                || ports.covers(Side::Inside, one.came_by))
    };
    !own.is_empty() && fits(rule) && {
        let decided = earlier.into_iter().filter(decides).map(|one| reach(one, hosts));
        let decided = decided.fold(NumberSet::default(), |all, one| all.or(&one));
        !decided.holds(&reach(rule, hosts))
    }
}

/// The destinations of a rule, of the IP version of `like`.
fn reach(rule: &SourceRule, like: Prefix) -> NumberSet {
    let all = match rule.destinations.is_empty() {
        true => {
            NumberSet::range(0, if like.address().is_ipv4() { u32::MAX.into() } else { u128::MAX })
        }
        false => set(&rule.destinations, like),
    };
    all.minus(&set(&rule.not_destinations, like))
}

fn set(list: &[Prefix], like: Prefix) -> NumberSet {
    let same = |prefix: &&Prefix| prefix.address().is_ipv4() == like.address().is_ipv4();
    NumberSet::of(list.iter().filter(same).map(|prefix| prefix.bounds()).collect())
}
