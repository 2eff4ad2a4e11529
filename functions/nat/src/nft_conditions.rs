//! The conditions of a rule of nftables that translates.

use serde_json::Value;
use warpline_packet::Prefix;

use super::fixed_keys::SourceRule;
use super::nft_chains::rule_name;
use super::rule_ports::RulePorts;
use super::rules::prefixes;
use super::skipped::Skipped;
use warpline_rewrite::PortSet;
use warpline_rule_files::nft::text;
use warpline_rule_files::nft_value::{Fault, Sets, ValueKind, short};
use warpline_rule_files::{NumberSet, PortDirection};

/// The conditions of a rule.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) sources: Option<Vec<Prefix>>,
    pub(super) destinations: Vec<Prefix>,
    pub(super) not_destinations: Vec<Prefix>,
    /// The IP version, where only one is meant.
    pub(super) version: Option<u8>,
    pub(super) protocol: Option<u8>,
    /// Destination ports.
    pub(super) ports: Vec<(u16, u16)>,
    /// The ports of the chain by which packets come.
    pub(super) came_by: PortSet,
    /// Conditions that are not supported.
    pub(super) troubles: Vec<String>,
    /// Whether it asks for an interface that is no port of the chain.
    pub(super) is_elsewhere: bool,
    /// Whether no packet matches, as an empty set has none or a packet has one protocol only.
    pub(super) is_void: bool,
}

impl Conditions {
    /// Those of all rules of a family.
    pub(super) fn of_family(family: &str) -> Self {
        let version = match family {
            "ip" => Some(4),
            "ip6" => Some(6),
            _ => None,
        };
        Self { version, ..Self::default() }
    }

    /// Narrows to packets of an IP version.
    pub(super) fn keep(&mut self, version: u8) {
        self.is_void |= self.version.is_some_and(|own| own != version);
        self.version = Some(version);
    }

    /// Narrows to the versions of a set, or to the others.
    fn versions(&mut self, set: &NumberSet, negated: bool) {
        for (version, other) in [(4u8, 6), (6, 4)] {
            let own = NumberSet::range(version.into(), version.into());
            if set.and(&own).is_empty() != negated {
                self.keep(other);
            }
        }
    }

    /// The conditions of a rule that may be skipped; `None` if it takes no packet of the chain.
    pub(super) fn as_skipped(&self, rule: &Value) -> Option<Skipped> {
        (!self.is_elsewhere).then(|| Skipped {
            destinations: self.destinations.clone(),
            version: self.version,
            protocol: self.protocol,
            ports: self.ports.clone(),
            place: rule_name(rule),
        })
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

    /// Adds a condition of a rule of `table`.
    pub(super) fn add(
        &mut self,
        condition: &Value,
        sets: &mut Sets<'_>,
        table: (&str, &str),
    ) -> Result<(), Fault> {
        let left = condition.get("left").unwrap_or(&Value::Null);
        let right = condition.get("right").unwrap_or(&Value::Null);
        let field = left.get("payload").map(|own| (text(own, "protocol"), text(own, "field")));
        let key = left.get("meta").map(|own| text(own, "key"));
        match field {
            Some(("ip", _)) => self.keep(4),
            Some(("ip6", _)) => self.keep(6),
            _ => {}
        }
        let Some(negated) = self.negated(condition) else { return Ok(()) };
        match field {
            Some((ip @ ("ip" | "ip6"), side @ ("saddr" | "daddr"))) => {
                let version = if ip == "ip" { 4 } else { 6 };
                let set = sets.read(right, ValueKind::Address(version), table)?;
                self.address(prefixes(&set, version), side == "saddr", negated)?;
            }
            Some((transport @ ("tcp" | "udp"), "dport")) if !negated => {
                self.protocol(&transport.into(), sets, table)?;
                let set = sets.read(right, ValueKind::Port, table)?;
                if !self.ports.is_empty() {
                    return Err(Fault::wrong("a second condition on the port"));
                }
                self.is_void |= set.is_empty();
                self.ports.extend(set.ranges().iter().map(|&(a, b)| (a as u16, b as u16)));
            }
            Some(("ip", "protocol")) if !negated => self.protocol(right, sets, table)?,
            // Extension headers may come before the protocol.
            Some(("ip6", "nexthdr")) => self.troubles.push("`ip6 nexthdr`".into()),
            _ if key == Some("l4proto") && !negated => self.protocol(right, sets, table)?,
            _ if matches!(key, Some("nfproto" | "protocol")) => {
                self.versions(&sets.read(right, ValueKind::Version, table)?, negated);
            }
            _ => self.troubles.push("a condition on other than addresses and ports".into()),
        }
        Ok(())
    }

    /// Adds a condition on an interface.
    pub(super) fn interface(
        &mut self,
        condition: &Value,
        sets: &mut Sets<'_>,
        table: (&str, &str),
        ports: &RulePorts,
    ) -> Result<(), Fault> {
        let Some(way) = way(condition) else { return Ok(()) };
        let Some(negated) = self.negated(condition) else { return Ok(()) };
        let right = condition.get("right").unwrap_or(&Value::Null);
        let asked = match sets.read(right, ValueKind::Interface, table) {
            Ok(named) => {
                self.is_void |= named.is_empty() && !negated;
                ports.condition(way, &named, negated)
            }
            Err(Fault::Unsupported(why)) => {
                // Of several interfaces one may be a port.
                let is_one = right.as_str().is_some_and(|name| !name.starts_with('@'));
                self.is_elsewhere |= !negated && ports.has_any() && is_one;
                Err(why)
            }
            Err(wrong) => return Err(wrong),
        };
        match asked {
            Ok(Some(came_by)) => self.came_by = self.came_by.and(came_by),
            Ok(None) => self.is_void = true,
            Err(why) => self.troubles.push(why),
        }
        Ok(())
    }

    /// Whether a condition holds for other values; `None` if it compares in another way.
    fn negated(&mut self, condition: &Value) -> Option<bool> {
        match text(condition, "op") {
            "==" | "in" | "" => Some(false),
            "!=" => Some(true),
            op => {
                self.troubles.push(format!("the operator `{}`", short(op)));
                None
            }
        }
    }

    fn address(&mut self, list: Vec<Prefix>, source: bool, negated: bool) -> Result<(), Fault> {
        self.is_void |= list.is_empty() && !negated;
        match (source, negated) {
            (true, true) => {
                return Err(Fault::wrong("all sources but some can't be translated"));
            }
            (true, false) if self.sources.is_some() => {
                return Err(Fault::wrong("a second condition on the source"));
            }
            (true, false) => self.sources = Some(list),
            (false, false) if !self.destinations.is_empty() => {
                return Err(Fault::wrong("a second condition on the destination"));
            }
            (false, false) => self.destinations = list,
            (false, true) => self.not_destinations.extend(list),
        }
        Ok(())
    }

    fn protocol(
        &mut self,
        value: &Value,
        sets: &mut Sets<'_>,
        table: (&str, &str),
    ) -> Result<(), Fault> {
        let set = sets.read(value, ValueKind::Protocol, table)?;
        if set.is_empty() {
            self.is_void = true;
            return Ok(());
        }
        match one(set) {
            Some(protocol) => {
                self.is_void |= self.protocol.is_some_and(|other| other != protocol);
                self.protocol = Some(protocol);
            }
            None => self.troubles.push("several protocols in one rule".into()),
        }
        Ok(())
    }
}

/// The number of a set with one.
fn one(set: NumberSet) -> Option<u8> {
    match set.ranges() {
        &[(first, last)] if first == last => u8::try_from(first).ok(),
        _ => None,
    }
}

/// The way through the chain that a condition is about, if it is about an interface.
pub(super) fn way(condition: &Value) -> Option<PortDirection> {
    let meta = condition.get("left")?.get("meta")?;
    match text(meta, "key") {
        "iifname" | "iif" => Some(PortDirection::In),
        "oifname" | "oif" => Some(PortDirection::Out),
        _ => None,
    }
}
