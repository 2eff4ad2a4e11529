//! The conditions of a rule of nftables that translates.

use serde_json::Value;
use warpline_packet::Prefix;

use super::ports::{LOOPBACK, RulePorts};
use super::prefixes;
use super::scope::Scope;
use warpline_rule_files::nft::text;
use warpline_rule_files::nft_value::{Fault, Sets, ValueKind, list, short};
use warpline_rule_files::{NumberSet, PortDirection};

/// The conditions of a rule.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) scope: Scope,
    /// Conditions that are not supported.
    pub(super) troubles: Vec<String>,
}

impl Conditions {
    /// Those of all rules of a family.
    pub(super) fn of_family(family: &str) -> Self {
        let version = match family {
            "ip" => Some(4),
            "ip6" => Some(6),
            _ => None,
        };
        Self { scope: Scope { version, ..Scope::default() }, troubles: Vec::new() }
    }

    /// Narrows to the versions of a set, or to the others.
    fn versions(&mut self, set: &NumberSet, negated: bool) {
        for (version, other) in [(4u8, 6), (6, 4)] {
            let own = NumberSet::range(version.into(), version.into());
            if set.and(&own).is_empty() != negated {
                self.scope.keep(other);
            }
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
            Some(("ip", _)) => self.scope.keep(4),
            Some(("ip6", _)) => self.scope.keep(6),
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
                if !self.scope.ports.is_empty() {
                    return Err(Fault::wrong("a second condition on the port"));
                }
                self.scope.is_void |= set.is_empty();
                self.scope.ports.extend(set.ranges().iter().map(|&(a, b)| (a as u16, b as u16)));
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

    /// Adds a condition on an interface. Before a route is chosen, packets leave by none.
    pub(super) fn interface(
        &mut self,
        condition: &Value,
        (sets, hook): (&mut Sets<'_>, &str),
        table: (&str, &str),
        ports: &RulePorts,
    ) -> Result<(), Fault> {
        let Some(way) = way(condition) else { return Ok(()) };
        let Some(negated) = self.negated(condition) else { return Ok(()) };
        let right = condition.get("right").unwrap_or(&Value::Null);
        let is_none = hook == "prerouting" && way == PortDirection::Out;
        if is_none || right == LOOPBACK {
            self.scope.is_void |= !negated;
            return Ok(());
        }
        let asked = match sets.read(right, ValueKind::Interface, table) {
            Ok(named) if !named.is_empty() && ports.stays_inside(way, &named, negated) => {
                self.scope.stays_inside = true;
                return Ok(());
            }
            Ok(named) => {
                self.scope.is_void |= named.is_empty() && !negated;
                ports.condition(way, &named, negated)
            }
            Err(Fault::Unsupported(why)) => {
                // Of several interfaces one may be a port.
                let is_one = right.as_str().is_some_and(|name| !name.starts_with('@'));
                self.scope.is_elsewhere |= !negated && ports.has_any() && is_one;
                Err(why)
            }
            Err(wrong) => return Err(wrong),
        };
        match asked {
            Ok(Some(came_by)) => self.scope.came_by = self.scope.came_by.and(came_by),
            Ok(None) => self.scope.is_void = true,
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
        self.scope.is_void |= list.is_empty() && !negated;
        match (source, negated) {
            (true, true) => {
                return Err(Fault::wrong("all sources but some can't be translated"));
            }
            (true, false) if self.scope.sources.is_some() => {
                return Err(Fault::wrong("a second condition on the source"));
            }
            (true, false) => self.scope.sources = Some(list),
            (false, false) if !self.scope.destinations.is_empty() => {
                return Err(Fault::wrong("a second condition on the destination"));
            }
            (false, false) => self.scope.destinations = list,
            (false, true) => self.scope.not_destinations.extend(list),
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
            self.scope.is_void = true;
            return Ok(());
        }
        match one(set) {
            Some(protocol) => self.scope.keep_protocol(protocol),
            None => self.troubles.push("several protocols in one rule".into()),
        }
        Ok(())
    }
}

/// Whether a condition asks for destinations that are addresses of the gateway.
pub(super) fn is_own_destination(condition: &Value) -> bool {
    let fib = condition.get("left").and_then(|left| left.get("fib"));
    fib.is_some_and(|fib| {
        let flags = list(fib.get("flags"));
        let flag = fib.get("flags").and_then(Value::as_str);
        let is_daddr = flag == Some("daddr") || flags.len() == 1 && flags[0] == "daddr";
        is_daddr
            && text(fib, "result") == "type"
            && matches!(text(condition, "op"), "==" | "in" | "")
    }) && condition.get("right").is_some_and(|right| right == "local")
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
