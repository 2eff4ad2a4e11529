//! Chains of type nat of `nft -j list ruleset`, at the hooks `prerouting` and `postrouting`.

use serde_json::Value;
use warpline_packet::Prefix;

use super::fixed_keys::can_forward;
use super::inside_ports::InsidePorts;
use super::nft_chains::{HOOKS, base_chains, name, rule_name};
use super::nft_conditions::{Conditions, way};
use super::own_addresses::{PARTLY_OWN, Refused, beside_own};
use super::rule_ports::RulePorts;
use super::rules::{NatRules, Translation, prefixes, version};
use warpline_nf::{Side, SourceText};
use warpline_packet::wire::ip_protocol;
use warpline_rewrite::addresses::{PortRange, address_of};
use warpline_rule_files::nft::{objects, parse, text};
use warpline_rule_files::nft_value::{Fault, Sets, ValueKind, list, short};

/// Reads the rules that translate sources.
pub fn parse_nft(source: &SourceText, ports: &RulePorts) -> NatRules {
    ports.read(|ports| read(source, ports))
}

fn read(source: &SourceText, ports: &RulePorts) -> NatRules {
    let mut found = NatRules::default();
    let document = match parse(source) {
        Ok(document) => document,
        Err(mistake) => {
            found.mistakes.push(mistake);
            return found;
        }
    };
    let hooks = base_chains(&document, source, &mut found);
    let mut sets = Sets::with_interfaces(ports.interfaces.clone());
    for set in objects(&document, "set") {
        sets.by_name.insert(name(set, "name"), set);
    }
    // Hosts that a destination rule maps may have a source rule of their own.
    for hook in HOOKS {
        for rule in objects(&document, "rule") {
            let (family, table, chain) = name(rule, "chain");
            if hooks.get(&(family, table, chain)) != Some(&hook) {
                continue;
            }
            let place = rule_name(rule);
            let read = match hook {
                "prerouting" => prerouting(rule, &mut sets, (family, table), ports, &mut found),
                _ => postrouting(rule, &mut sets, (family, table), ports, &mut found),
            };
            let unsupported =
                |what: &str| source.whole(format!("{place}: not supported: {what}")).help(HELP);
            found.note_place(|| source.whole(format!("{place}: ")));
            found.note_partly_own(|| unsupported(PARTLY_OWN));
            found.note_accepting(|why| unsupported(&why));
            match read {
                Ok(troubles) => {
                    troubles.iter().for_each(|what| found.unsupported.push(unsupported(what)));
                }
                Err(Fault::Wrong(why) | Fault::Unsupported(why)) => {
                    found.mistakes.push(source.whole(format!("{place}: {why}")));
                }
            }
        }
    }
    found.report_accepting();
    found.report_partly_own(ports);
    found
}

const HELP: &str = "unsupported = \"skip\" leaves this out: more is translated, and less let in";

/// Adds a rule; gives what of it is not supported and can be left out.
fn postrouting<'a>(
    rule: &'a Value,
    sets: &mut Sets<'a>,
    table: (&str, &str),
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    let mut own = Conditions::of_family(table.0);
    for statement in list(rule.get("expr")) {
        let field = statement.as_object().and_then(|fields| fields.iter().next());
        let Some((name, value)) = field else { return Err(Fault::wrong("not a statement")) };
        match &name[..] {
            _ if own.is_void => return Ok(Vec::new()),
            "counter" | "log" => {}
            "match" if way(value).is_some() => {
                own.interface(value, sets, table, ports)?;
            }
            "match" => own.add(value, sets, table)?,
            "snat" | "masquerade" => {
                if !own.ports.is_empty() {
                    own.troubles.push("a port of the destination".into());
                }
                if list(value.get("type_flags")).iter().any(|flag| flag == "prefix") {
                    own.troubles.push("`prefix to`, host by host".into());
                    // Skipped, these packets get the addresses of the other rules.
                    found.source_rules.push(own.source_rule(true));
                    found.add_sources(own.sources).map_err(Fault::wrong)?;
                    return Ok(own.troubles);
                }
                let translation = translation(name, value, own.version)?;
                if let Some(&[first, ..]) = translation.outside.as_deref() {
                    own.keep(version(first));
                }
                if own.is_void {
                    return Ok(Vec::new());
                }
                let rule = own.source_rule(true);
                if let Some(mapped) = found.mapping(own.sources.as_deref(), &translation) {
                    // Of the chain's packets none leaves by an interface that is no port.
                    if !own.is_elsewhere {
                        let why = found.add_own(rule, mapped, ports);
                        own.troubles.extend(why.map(Into::into));
                    }
                    return Ok(own.troubles);
                }
                own.troubles.extend(found.partly_own(&rule, ports).map(beside_own));
                found.source_rules.push(rule);
                found.add(own.sources, translation).map_err(Fault::wrong)?;
                return Ok(own.troubles);
            }
            "accept" | "return" if own.troubles.is_empty() && own.ports.is_empty() => {
                found.accept(own.source_rule(false), ports);
                return Ok(Vec::new());
            }
            "accept" | "return" => return Ok(vec!["packets that are not translated".into()]),
            "limit" | "quota" | "mangle" | "set" | "ct count" => own.troubles.push(short(name)),
            _ => return Err(Fault::wrong(format!("not supported: {}", short(name)))),
        }
    }
    Ok(Vec::new())
}

/// Adds a rule that forwards; gives why it is left out.
fn prerouting<'a>(
    rule: &'a Value,
    sets: &mut Sets<'a>,
    table: (&str, &str),
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    let mut own = Conditions::of_family(table.0);
    for statement in list(rule.get("expr")) {
        let field = statement.as_object().and_then(|fields| fields.iter().next());
        let Some((name, value)) = field else { return Err(Fault::wrong("not a statement")) };
        match &name[..] {
            _ if own.is_void => return Ok(Vec::new()),
            "counter" | "log" => {}
            "match" if way(value).is_some() => {
                own.interface(value, sets, table, ports)?;
            }
            "match" => own.add(value, sets, table)?,
            "dnat" => {
                let skipped = own.as_skipped(rule);
                let left_out = forward(value, own, ports, found)?;
                found.skipped.extend(skipped.filter(|_| !left_out.is_empty()));
                return Ok(left_out);
            }
            "accept" | "return" => own.troubles.push("packets that are not forwarded".into()),
            "redirect" => own.troubles.push("ports of the gateway itself".into()),
            _ => own.troubles.push(short(name)),
        }
    }
    found.skipped.extend(own.as_skipped(rule).filter(|_| !own.troubles.is_empty()));
    Ok(own.troubles)
}

fn forward(
    value: &Value,
    mut own: Conditions,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    if own.sources.is_some() {
        return Ok(vec!["a forward for some remotes only".into()]);
    }
    if !own.not_destinations.is_empty() {
        return Ok(vec!["all destinations but some".into()]);
    }
    if !own.troubles.is_empty() {
        return Ok(own.troubles);
    }
    let version = address_version(value, own.version);
    own.keep(version);
    if own.is_void {
        return Ok(Vec::new());
    }
    let address = value.get("addr").unwrap_or(&Value::Null);
    let set = Sets::default().read(address, ValueKind::Address(version), ("", ""))?;
    let [(first, last)] = set.ranges() else { return Err(Fault::wrong("not an address")) };
    if first != last {
        return Ok(vec!["a range of inside hosts".into()]);
    }
    let inside = address_of(version, *first);
    let to = match value.get("port") {
        None => None,
        Some(port) => match Sets::default().read(port, ValueKind::Port, ("", ""))?.ranges() {
            &[(first, last)] => {
                let is = |flag: &Value| matches!(flag.as_str(), Some("random" | "fully-random"));
                let is_random = list(value.get("flags")).iter().any(is);
                let range = (first as u16, last as u16);
                Some(InsidePorts { range, base: None, is_random })
            }
            _ => return Err(Fault::wrong("not a range of ports")),
        },
    };
    match own.protocol {
        None if !ports.covers(Side::Outside, own.came_by) => {
            Ok(vec!["a host's own address at some ports only".into()])
        }
        None => match (&own.destinations[..], to) {
            (&[outside], None) => refused(found.map(outside, Prefix::host(inside), own.came_by)),
            _ => Err(Fault::wrong("dnat without a protocol or one destination")),
        },
        Some(protocol @ (ip_protocol::TCP | ip_protocol::UDP)) => {
            if own.ports.is_empty() {
                return Ok(vec!["a forward of all ports, without `dport`".into()]);
            }
            let (outside, ports) = (&own.destinations, &own.ports);
            refused(found.forward(protocol, outside, ports, inside, to, own.came_by))
        }
        Some(protocol) if own.ports.is_empty() && to.is_none() && can_forward(protocol, inside) => {
            let ports = [(protocol.into(), protocol.into())];
            refused(found.forward(protocol, &own.destinations, &ports, inside, None, own.came_by))
        }
        Some(_) => Ok(vec!["a forward of this protocol".into()]),
    }
}

fn refused(done: Result<(), Refused>) -> Result<Vec<String>, Fault> {
    match done {
        Ok(()) => Ok(Vec::new()),
        Err(Refused::Unsupported(why)) => Ok(vec![why]),
        Err(Refused::Wrong(why)) => Err(Fault::wrong(why)),
    }
}

/// The IP version of the address of a statement in a rule for packets of `version`.
fn address_version(value: &Value, version: Option<u8>) -> u8 {
    match text(value, "family") {
        "ip" => 4,
        "ip6" => 6,
        _ => version.unwrap_or(4),
    }
}

fn translation(name: &str, value: &Value, version: Option<u8>) -> Result<Translation, Fault> {
    let mut translation = Translation { outside: None, ports: None };
    if let Some(address) = value.get("addr") {
        let version = address_version(value, version);
        let set = Sets::default().read(address, ValueKind::Address(version), ("", ""))?;
        translation.outside = Some(prefixes(&set, version));
    } else if name == "snat" {
        return Err(Fault::wrong("snat without an address"));
    }
    if let Some(ports) = value.get("port") {
        let set = Sets::default().read(ports, ValueKind::Port, ("", ""))?;
        let [(first, last)] = set.ranges() else {
            return Err(Fault::wrong("not a range of ports"));
        };
        let range: Result<PortRange, &str> = format!("{first}-{last}").parse();
        translation.ports = Some(range.map_err(Fault::wrong)?);
    }
    Ok(translation)
}
