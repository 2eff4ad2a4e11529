//! Chains of type nat of `nft -j list ruleset`: `snat` and `masquerade` behind the hook `postrouting`.

use std::collections::HashMap;

use serde_json::Value;
use warpline_packet::Prefix;

use super::rule_ports::RulePorts;
use super::rules::{NatRules, Translation, prefixes};
use warpline_nf::SourceText;
use warpline_rewrite::addresses::PortRange;
use warpline_rule_files::Way;
use warpline_rule_files::nft::{objects, parse, text};
use warpline_rule_files::nft_value::{Fault, Kind, Sets, list, short};

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
    for rule in objects(&document, "rule") {
        let (family, table, chain) = name(rule, "chain");
        let handle = rule.get("handle").and_then(Value::as_u64).unwrap_or(0);
        let place =
            format!("`{} {} {}` rule handle {handle}", short(family), short(table), short(chain));
        let read = match hooks.get(&(family, table, chain)) {
            Some(&"postrouting") => {
                postrouting(rule, &mut sets, (family, table), ports, &mut found)
            }
            // What is forwarded to ports, and not what the host itself sends or gets.
            Some(&"prerouting") => Ok(vec!["the hook prerouting".into()]),
            _ => Ok(Vec::new()),
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
    let (mut inside, mut troubles) = (None, Vec::new());
    for statement in list(rule.get("expr")) {
        let field = statement.as_object().and_then(|fields| fields.iter().next());
        let Some((name, value)) = field else { return Err(Fault::wrong("not a statement")) };
        match &name[..] {
            "counter" | "log" => {}
            "match" if way(value).is_some() => {
                troubles.extend(interface(value, sets, table, ports)?);
            }
            "match" => match sources(value, sets, table)? {
                Some(_) if inside.is_some() => {
                    return Err(Fault::wrong("a second condition on the source"));
                }
                Some(prefixes) => inside = Some(prefixes),
                None => troubles.push("a condition on other than the source".into()),
            },
            "snat" | "masquerade" => {
                let translation = translation(name, value, table.0)?;
                found.add(inside, translation).map_err(Fault::wrong)?;
                return Ok(troubles);
            }
            "accept" | "return" => return Ok(vec!["packets that are not translated".into()]),
            "limit" | "quota" | "mangle" | "set" | "ct count" => troubles.push(short(name)),
            _ => return Err(Fault::wrong(format!("not supported: {}", short(name)))),
        }
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

/// What of a condition on an interface is not supported.
fn interface(
    condition: &Value,
    sets: &mut Sets<'_>,
    table: (&str, &str),
    ports: &RulePorts,
) -> Result<Option<String>, Fault> {
    let Some(way) = way(condition) else { return Ok(None) };
    let negated = match text(condition, "op") {
        "==" | "in" | "" => false,
        "!=" => true,
        op => return Ok(Some(format!("the operator `{}`", short(op)))),
    };
    let right = condition.get("right").unwrap_or(&Value::Null);
    match sets.read(right, Kind::Interface, table) {
        Ok(named) => Ok(ports.objection(way, &named, negated)),
        Err(Fault::Unsupported(why)) => Ok(Some(why)),
        Err(wrong) => Err(wrong),
    }
}

/// The sources that a condition names; `None` where it is about something else.
fn sources(
    condition: &Value,
    sets: &mut Sets<'_>,
    table: (&str, &str),
) -> Result<Option<Vec<Prefix>>, Fault> {
    let payload = condition.get("left").and_then(|left| left.get("payload"));
    let version = match payload.map(|payload| (text(payload, "protocol"), text(payload, "field"))) {
        Some(("ip", "saddr")) => 4,
        Some(("ip6", "saddr")) => 6,
        _ => return Ok(None),
    };
    if text(condition, "op") != "==" {
        return Err(Fault::wrong("all sources but some can't be translated"));
    }
    let right = condition.get("right").unwrap_or(&Value::Null);
    let set = sets.read(right, Kind::Address(version), table)?;
    Ok(Some(prefixes(&set, version)))
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
