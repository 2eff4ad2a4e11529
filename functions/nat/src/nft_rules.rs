//! Chains of type nat of `nft -j list ruleset`, at the hooks `prerouting` and `postrouting`.

use std::collections::HashMap;

use serde_json::Value;
use warpline_packet::Prefix;

use super::fixed_keys::{SourceRule, can_forward};
use super::rule_ports::RulePorts;
use super::rules::{NatRules, Translation, prefixes};
use warpline_nf::{Side, SourceText};
use warpline_packet::wire::ip_protocol;
use warpline_rewrite::PortSet;
use warpline_rewrite::addresses::{PortRange, address_of};
use warpline_rule_files::nft::{objects, parse, text};
use warpline_rule_files::nft_value::{Fault, Kind, Sets, list, short};
use warpline_rule_files::{NumberSet, Way};

/// Reads the rules that translate sources.
pub fn parse_nft(source: &SourceText, ports: &RulePorts) -> NatRules {
    let mut found = NatRules::default();
    let document = match parse(source) {
        Ok(document) => document,
        Err(mistake) => {
            found.mistakes.push(mistake);
            return found;
        }
    };
    let name = |object, field| (text(object, "family"), text(object, "table"), text(object, field));
    let hooks: HashMap<_, &str> = objects(&document, "chain")
        .filter(|chain| text(chain, "type") == "nat")
        .map(|chain| (name(chain, "name"), text(chain, "hook")))
        .collect();
    let mut sets = Sets::with_interfaces(ports.interfaces.clone());
    for set in objects(&document, "set") {
        sets.by_name.insert(name(set, "name"), set);
    }
    // Hosts that a destination rule maps may have a source rule of their own.
    for hook in ["prerouting", "postrouting"] {
        for rule in objects(&document, "rule") {
            let (family, table, chain) = name(rule, "chain");
            if hooks.get(&(family, table, chain)) != Some(&hook) {
                continue;
            }
            let handle = rule.get("handle").and_then(Value::as_u64).unwrap_or(0);
            let place = format!(
                "`{} {} {}` rule handle {handle}",
                short(family),
                short(table),
                short(chain)
            );
            let read = match hook {
                "prerouting" => prerouting(rule, &mut sets, (family, table), ports, &mut found),
                _ => postrouting(rule, &mut sets, (family, table), ports, &mut found),
            };
            match read {
                Ok(troubles) => troubles.into_iter().for_each(|what| {
                    let told = source.whole(format!("{place}: not supported: {what}"));
                    found.unsupported.push(told.help(HELP));
                }),
                Err(Fault::Wrong(why) | Fault::Unsupported(why)) => {
                    found.mistakes.push(source.whole(format!("{place}: {why}")));
                }
            }
        }
    }
    found
}

const HELP: &str = "unsupported = \"skip\" leaves this out: more is translated, and less let in";

/// The conditions of a rule.
#[derive(Default)]
struct Conditions {
    sources: Option<Vec<Prefix>>,
    destinations: Vec<Prefix>,
    not_destinations: Vec<Prefix>,
    protocol: Option<u8>,
    /// Destination ports.
    ports: Vec<(u16, u16)>,
    /// The ports of the chain by which packets come.
    came_by: PortSet,
    /// Conditions that are not supported.
    troubles: Vec<String>,
}

impl Conditions {
    /// Adds a condition of a rule of `table`.
    fn add(
        &mut self,
        condition: &Value,
        sets: &mut Sets<'_>,
        table: (&str, &str),
    ) -> Result<(), Fault> {
        let left = condition.get("left").unwrap_or(&Value::Null);
        let right = condition.get("right").unwrap_or(&Value::Null);
        let negated = text(condition, "op") == "!=";
        let field = left.get("payload").map(|own| (text(own, "protocol"), text(own, "field")));
        let is_protocol = left.get("meta").is_some_and(|own| text(own, "key") == "l4proto");
        match field {
            Some((ip @ ("ip" | "ip6"), side @ ("saddr" | "daddr"))) => {
                let version = if ip == "ip" { 4 } else { 6 };
                let set = sets.read(right, Kind::Address(version), table)?;
                self.address(prefixes(&set, version), side == "saddr", negated)?;
            }
            Some((transport @ ("tcp" | "udp"), "dport")) if !negated => {
                self.protocol =
                    sets.read(&transport.into(), Kind::Protocol, table).ok().and_then(one);
                let set = sets.read(right, Kind::Port, table)?;
                self.ports.extend(set.ranges().iter().map(|&(a, b)| (a as u16, b as u16)));
            }
            Some(("ip", "protocol") | ("ip6", "nexthdr")) if !negated => {
                self.protocol(right, sets, table)?;
            }
            _ if is_protocol && !negated => self.protocol(right, sets, table)?,
            _ => self.troubles.push("a condition on other than addresses and ports".into()),
        }
        Ok(())
    }

    /// Adds a condition on an interface.
    fn interface(
        &mut self,
        condition: &Value,
        sets: &mut Sets<'_>,
        table: (&str, &str),
        ports: &RulePorts,
    ) -> Result<(), Fault> {
        let Some(way) = way(condition) else { return Ok(()) };
        let negated = match text(condition, "op") {
            "==" | "in" | "" => false,
            "!=" => true,
            op => {
                self.troubles.push(format!("the operator `{}`", short(op)));
                return Ok(());
            }
        };
        let right = condition.get("right").unwrap_or(&Value::Null);
        let asked = match sets.read(right, Kind::Interface, table) {
            Ok(named) => ports.condition(way, &named, negated),
            Err(Fault::Unsupported(why)) => Err(why),
            Err(wrong) => return Err(wrong),
        };
        match asked {
            Ok(came_by) => self.came_by = self.came_by.and(came_by),
            Err(why) => self.troubles.push(why),
        }
        Ok(())
    }

    fn address(&mut self, list: Vec<Prefix>, source: bool, negated: bool) -> Result<(), Fault> {
        match (source, negated) {
            (true, true) => {
                return Err(Fault::wrong("all sources but some can't be translated"));
            }
            (true, false) if self.sources.is_some() => {
                return Err(Fault::wrong("a second condition on the source"));
            }
            (true, false) => self.sources = Some(list),
            (false, false) => self.destinations.extend(list),
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
        match one(sets.read(value, Kind::Protocol, table)?) {
            Some(protocol) => self.protocol = Some(protocol),
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

/// Adds a rule; gives what of it is not supported and can be left out.
fn postrouting<'a>(
    rule: &'a Value,
    sets: &mut Sets<'a>,
    table: (&str, &str),
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    let mut own = Conditions::default();
    for statement in list(rule.get("expr")) {
        let field = statement.as_object().and_then(|fields| fields.iter().next());
        let Some((name, value)) = field else { return Err(Fault::wrong("not a statement")) };
        match &name[..] {
            "counter" | "log" => {}
            "match" if way(value).is_some() => {
                own.interface(value, sets, table, ports)?;
            }
            "match" => own.add(value, sets, table)?,
            "snat" | "masquerade" => {
                if !own.ports.is_empty() {
                    own.troubles.push("a port of the destination".into());
                }
                let translation = translation(name, value, table.0)?;
                if found.is_mapped(own.sources.as_deref(), &translation) {
                    return Ok(Vec::new());
                }
                found.source_rules.push(source_rule(&own, true));
                found.add(own.sources, translation).map_err(Fault::wrong)?;
                return Ok(own.troubles);
            }
            "accept" | "return" if own.troubles.is_empty() && own.ports.is_empty() => {
                found.source_rules.push(source_rule(&own, false));
                return Ok(Vec::new());
            }
            "accept" | "return" => return Ok(vec!["packets that are not translated".into()]),
            "limit" | "quota" | "mangle" | "set" | "ct count" => own.troubles.push(short(name)),
            _ => return Err(Fault::wrong(format!("not supported: {}", short(name)))),
        }
    }
    Ok(Vec::new())
}

fn source_rule(own: &Conditions, translates: bool) -> SourceRule {
    SourceRule {
        sources: own.sources.clone().unwrap_or_default(),
        destinations: own.destinations.clone(),
        not_destinations: own.not_destinations.clone(),
        protocol: own.protocol,
        came_by: own.came_by,
        translates,
    }
}

/// Adds a rule that forwards; gives why it is left out.
fn prerouting<'a>(
    rule: &'a Value,
    sets: &mut Sets<'a>,
    table: (&str, &str),
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    let mut own = Conditions::default();
    for statement in list(rule.get("expr")) {
        let field = statement.as_object().and_then(|fields| fields.iter().next());
        let Some((name, value)) = field else { return Err(Fault::wrong("not a statement")) };
        match &name[..] {
            "counter" | "log" => {}
            "match" if way(value).is_some() => {
                own.interface(value, sets, table, ports)?;
            }
            "match" => own.add(value, sets, table)?,
            "dnat" => return forward(value, own, table.0, ports, found),
            "accept" | "return" => own.troubles.push("packets that are not forwarded".into()),
            "redirect" => own.troubles.push("ports of the gateway itself".into()),
            _ => own.troubles.push(short(name)),
        }
    }
    Ok(own.troubles)
}

fn forward(
    value: &Value,
    own: Conditions,
    family: &str,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    if own.sources.is_some() || !own.not_destinations.is_empty() {
        return Ok(vec!["a forward for some remotes only".into()]);
    }
    if !own.troubles.is_empty() {
        return Ok(own.troubles);
    }
    let is_v6 = family == "ip6" || text(value, "family") == "ip6";
    let version = if is_v6 { 6 } else { 4 };
    let address = value.get("addr").unwrap_or(&Value::Null);
    let set = Sets::default().read(address, Kind::Address(version), ("", ""))?;
    let [(first, last)] = set.ranges() else { return Err(Fault::wrong("not an address")) };
    if first != last {
        return Ok(vec!["a range of inside hosts".into()]);
    }
    let inside = address_of(version, *first);
    let to = match value.get("port") {
        None => None,
        Some(port) => match Sets::default().read(port, Kind::Port, ("", ""))?.ranges() {
            &[(first, last)] => Some((first as u16, last as u16)),
            _ => return Err(Fault::wrong("not a range of ports")),
        },
    };
    match own.protocol {
        None if !ports.covers(Side::Outside, own.came_by) => {
            return Ok(vec!["a host's own address at some ports only".into()]);
        }
        None => match (&own.destinations[..], to) {
            (&[outside], None) => found.map(outside, Prefix::host(inside)).map_err(Fault::wrong)?,
            _ => return Err(Fault::wrong("dnat without a protocol or one destination")),
        },
        Some(protocol @ (ip_protocol::TCP | ip_protocol::UDP)) => {
            if own.ports.is_empty() {
                return Ok(vec!["a forward of all ports, without `dport`".into()]);
            }
            found
                .forward(protocol, &own.destinations, &own.ports, inside, to, own.came_by)
                .map_err(Fault::wrong)?;
        }
        Some(protocol) if own.ports.is_empty() && to.is_none() && can_forward(protocol, inside) => {
            let number = u16::from(protocol);
            let ports = [(number, number)];
            found
                .forward(protocol, &own.destinations, &ports, inside, None, own.came_by)
                .map_err(Fault::wrong)?;
        }
        Some(_) => return Ok(vec!["a forward of this protocol".into()]),
    }
    Ok(Vec::new())
}

/// The way through the chain that a condition is about, if it is about an interface.
fn way(condition: &Value) -> Option<Way> {
    let meta = condition.get("left")?.get("meta")?;
    match text(meta, "key") {
        "iifname" | "iif" => Some(Way::In),
        "oifname" | "oif" => Some(Way::Out),
        _ => None,
    }
}

fn translation(name: &str, value: &Value, family: &str) -> Result<Translation, Fault> {
    let mut translation = Translation { outside: None, ports: None };
    if let Some(address) = value.get("addr") {
        let is_v6 = family == "ip6" || text(value, "family") == "ip6";
        let version = if is_v6 { 6 } else { 4 };
        let set = Sets::default().read(address, Kind::Address(version), ("", ""))?;
        translation.outside = Some(prefixes(&set, version));
    } else if name == "snat" {
        return Err(Fault::wrong("snat without an address"));
    }
    if let Some(ports) = value.get("port") {
        let set = Sets::default().read(ports, Kind::Port, ("", ""))?;
        let [(first, last)] = set.ranges() else {
            return Err(Fault::wrong("not a range of ports"));
        };
        let range: Result<PortRange, &str> = format!("{first}-{last}").parse();
        translation.ports = Some(range.map_err(Fault::wrong)?);
    }
    Ok(translation)
}
