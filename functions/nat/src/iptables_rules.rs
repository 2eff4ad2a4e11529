//! The table `nat` of `iptables-save`: its chains `PREROUTING` and `POSTROUTING`.

use std::net::IpAddr;

use warpline_packet::Prefix;
use warpline_packet::wire::ip_protocol;

use super::fixed_keys::{SourceRule, can_forward};
use super::inside_ports::InsidePorts;
use super::iptables_conditions::{Conditions, Hook, conditions};
use super::own_addresses::{PARTLY_OWN, Refused, beside_own};
use super::rule_ports::RulePorts;
use super::rules::{NatRules, Translation, prefixes};
use warpline_nf::{Side, SourceText};
use warpline_rewrite::addresses::{PortRange, number};
use warpline_rewrite::{Mapped, PortSet};
use warpline_rule_files::NumberSet;
use warpline_rule_files::iptables_match::{port_range, prefix};
use warpline_rule_files::save_file::{self, SavedRule, SavedTable};
use warpline_rule_files::words::{Trouble, Word};

const OWN_FOR_ALL: &str = "unsupported = \"skip\" gives it to all packets that no rule accepts";
const OWN_INSTEAD: &str = "unsupported = \"skip\" translates to the host's own address";
const OWN_FIRST: &str = "write a rule for its own address before this one";
const LETS_IN: &str = "lets in new connections from outside, which Linux does not";
const MAP_INWARD: &str = "write the same NETMAP in PREROUTING, too, or use SNAT";
const LEFT_OUT: &str = "unsupported = \"skip\" skips the rule";

/// Reads the rules that translate.
pub fn parse_iptables(source: &SourceText, ports: &RulePorts) -> NatRules {
    ports.read(|ports| parse(source, ports))
}

fn parse(source: &SourceText, ports: &RulePorts) -> NatRules {
    let file = save_file::parse(source);
    let mut found = NatRules { mistakes: file.mistakes.clone(), ..NatRules::default() };
    let Some(table) = file.tables.iter().find(|table| table.name == "nat") else {
        found.mistakes.push(source.whole("has no table `nat`"));
        return found;
    };
    // Hosts that a destination rule maps may have a source rule of their own.
    for hook in [Hook::Prerouting, Hook::Postrouting] {
        let name = if hook == Hook::Prerouting { "PREROUTING" } else { "POSTROUTING" };
        let chains = table.chains.iter().filter(|chain| chain.name == name);
        for chain in chains.clone() {
            if let Some(policy) = chain.policy.filter(|policy| *policy != "ACCEPT") {
                let trouble = chain.word().wrong(format!("not supported: the policy {policy}"));
                found.mistakes.push(trouble.diagnostic(source, chain.number, chain.line));
            }
        }
        for rule in chains.flat_map(|chain| &chain.rules) {
            let read = read((rule, table), source, hook, ports, &mut found);
            let troubles = read.unwrap_or_else(|own| vec![own]);
            for trouble in troubles {
                let list = match trouble.unsupported {
                    true => &mut found.unsupported,
                    false => &mut found.mistakes,
                };
                list.push(trouble.diagnostic(source, rule.number, rule.line));
            }
        }
    }
    found.report_accepting();
    found.report_partly_own(ports);
    found
}

/// Adds a rule; gives what of it is not supported and can be left out.
fn read(
    (rule, table): (&SavedRule<'_>, &SavedTable<'_>),
    source: &SourceText,
    hook: Hook,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<Trouble>, Trouble> {
    let words = rule.words()?;
    let mut conditions = conditions(&words, hook, ports)?;
    if conditions.is_void {
        return Ok(Vec::new());
    }
    let Some((target, options)) = conditions.target.take() else { return Ok(Vec::new()) };
    if hook == Hook::Postrouting {
        let read = translate((target, table), &options, conditions, ports, found);
        found.note_partly_own(|| {
            let trouble = target.unsupported(PARTLY_OWN).help(OWN_FOR_ALL);
            trouble.diagnostic(source, rule.number, rule.line)
        });
        found.note_accepting(|why| {
            let trouble = target.unsupported(why).help(OWN_FIRST);
            trouble.diagnostic(source, rule.number, rule.line)
        });
        return read;
    }
    let skipped = conditions.as_skipped(rule.number);
    let read = forward((target, table), &options, conditions, ports, found);
    found.note_place(|| target.wrong("").diagnostic(source, rule.number, rule.line));
    if read.as_ref().is_err_and(|trouble| trouble.unsupported) {
        found.skipped.extend(skipped);
    }
    read
}

/// A rule of PREROUTING.
fn forward(
    (target, table): (Word<'_>, &SavedTable<'_>),
    options: &[Word<'_>],
    mut conditions: Conditions<'_>,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<Trouble>, Trouble> {
    let skipped = |trouble: Trouble| Err(trouble.help(LEFT_OUT));
    let value = |name: &str| {
        let at = options.iter().position(|option| option.text == name);
        at.and_then(|at| options.get(at + 1)).copied()
    };
    match target.text {
        "LOG" => return Ok(Vec::new()),
        "DNAT" | "NETMAP" => {}
        "ACCEPT" | "RETURN" => {
            return skipped(target.unsupported("packets that are not forwarded"));
        }
        "REDIRECT" => return skipped(target.unsupported("ports of the gateway itself")),
        _ => return Err(unknown(target, table, "DNAT, NETMAP")),
    }
    if let Some(needed) = conditions.needed {
        return skipped(needed);
    }
    if !conditions.not_destinations.is_empty() {
        return skipped(target.unsupported("`!` before `-d`"));
    }
    if target.text == "NETMAP" && conditions.protocol.is_some() {
        return skipped(target.unsupported("a host's own address for some packets only"));
    }
    let maps = conditions.protocol.is_none();
    if maps && !ports.covers(Side::Outside, conditions.came_by) {
        return skipped(target.unsupported("a host's own address at some ports only"));
    }
    if target.text == "NETMAP" {
        let to = value("--to").ok_or_else(|| target.wrong("lacks `--to`"))?;
        let [outside] = conditions.destinations[..] else {
            return Err(target.wrong("requires one destination, `-d`"));
        };
        let inside = prefix(to)?.ok_or_else(|| to.wrong("not a prefix"))?;
        return refused(found.map(outside, inside, conditions.came_by), to);
    }
    let to = value("--to-destination").ok_or_else(|| target.wrong("lacks `--to-destination`"))?;
    let is_random = options.iter().any(|option| option.text.starts_with("--random"));
    let (inside, inside_ports) = endpoint(to, is_random)?;
    let Some(protocol) = conditions.protocol else {
        let ([outside], None) = (&conditions.destinations[..], inside_ports) else {
            return Err(target.wrong("requires a protocol, `-p`, or one destination, `-d`"));
        };
        let hosts = Prefix::host(inside);
        return refused(found.map(*outside, hosts, conditions.came_by), to);
    };
    let has_ports = [ip_protocol::TCP, ip_protocol::UDP].contains(&protocol);
    if !has_ports && (inside_ports.is_some() || !can_forward(protocol, inside)) {
        return skipped(target.unsupported("a forward of this protocol"));
    }
    if !has_ports && conditions.ports.is_empty() {
        conditions.ports.push((protocol.into(), protocol.into()));
    } else if !has_ports {
        return skipped(target.unsupported("ports of this protocol"));
    } else if conditions.ports.is_empty() {
        return skipped(target.unsupported("a forward of all ports, without `--dport`"));
    }
    let Conditions { destinations, ports, came_by, .. } = &conditions;
    refused(found.forward(protocol, destinations, ports, inside, inside_ports, *came_by), to)
}

/// A target that is not one of `targets`.
fn unknown<'a>(target: Word<'a>, table: &SavedTable<'_>, targets: &str) -> Trouble {
    let why = match table.find(target.text) {
        Some(_) => "rules that lead to another chain are not supported",
        None => "no such target",
    };
    target.wrong(why).help(format!("targets: {targets}"))
}

fn refused(done: Result<(), Refused>, to: Word<'_>) -> Result<Vec<Trouble>, Trouble> {
    match done {
        Ok(()) => Ok(Vec::new()),
        Err(Refused::Unsupported(why)) => Err(to.unsupported(why).help(LEFT_OUT)),
        Err(Refused::Wrong(why)) => Err(to.wrong(why)),
    }
}

/// A rule of POSTROUTING.
fn translate(
    (target, table): (Word<'_>, &SavedTable<'_>),
    options: &[Word<'_>],
    conditions: Conditions<'_>,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<Trouble>, Trouble> {
    let version = conditions.version();
    let Conditions { sources, destinations, not_destinations, protocol, .. } = conditions;
    let Conditions { came_by, mut troubles, needed, is_elsewhere, .. } = conditions;
    let mut rule = SourceRule {
        sources: sources.clone().unwrap_or_default(),
        destinations,
        not_destinations,
        version,
        protocol,
        came_by,
        translates: true,
        own: false,
    };
    match target.text {
        "SNAT" | "MASQUERADE" | "NETMAP" => {}
        "LOG" => return Ok(Vec::new()),
        "ACCEPT" | "RETURN" => {
            // Without one of its conditions more packets would keep their source.
            if let Some(needed) = needed {
                return Err(needed.help(LEFT_OUT));
            }
            rule.translates = false;
            found.accept(rule, ports);
            return Ok(Vec::new());
        }
        _ => {
            return Err(unknown(target, table, "SNAT, MASQUERADE, NETMAP, ACCEPT, RETURN"));
        }
    }
    let (translation, map_to) = translation(target, options)?;
    let mapped = match (target.text, map_to, sources.as_deref()) {
        ("NETMAP", None, _) => return Err(target.wrong("lacks `--to`")),
        ("NETMAP", Some(outside), Some(&[inside])) => {
            Some(Mapped { outside, inside, came_by: PortSet::ALL })
        }
        ("NETMAP", ..) => return Err(target.wrong("requires one source, `-s`")),
        _ => found.mapping(sources.as_deref(), &translation),
    };
    if let Some(mapped) = mapped {
        // Of the chain's packets none leaves by an interface that is no port.
        if let Some(needed) = needed.filter(|_| is_elsewhere) {
            return Err(needed.help(LEFT_OUT));
        }
        // A mapping has no state, so it lets in more than answers.
        if !found.mapped.iter().any(|own| own.is_like(&mapped)) {
            return Err(target.wrong(LETS_IN).help(MAP_INWARD));
        }
        let why = found.add_own(rule, mapped, ports);
        troubles.extend(why.map(|why| target.unsupported(why).help(OWN_INSTEAD)));
        return Ok(troubles);
    }
    if let Some(hosts) = found.partly_own(&rule, ports) {
        troubles.push(target.unsupported(beside_own(hosts)).help(OWN_INSTEAD));
    }
    found.add(sources, translation).map_err(|why| target.wrong(why))?;
    found.source_rules.push(rule);
    Ok(troubles)
}

/// The translation by the options of a target, and the prefix of NETMAP.
fn translation(
    target: Word<'_>,
    options: &[Word<'_>],
) -> Result<(Translation, Option<Prefix>), Trouble> {
    let (mut translation, mut map_to) = (Translation { outside: None, ports: None }, None);
    let mut words = options.iter().copied();
    while let Some(option) = words.next() {
        let end = || option.wrong("the line ends where its value is due");
        match (target.text, option.text) {
            ("SNAT", "--to-source") => to_source(words.next().ok_or_else(end)?, &mut translation)?,
            ("MASQUERADE", "--to-ports") => {
                translation.ports = Some(ports(words.next().ok_or_else(end)?)?);
            }
            ("NETMAP", "--to") => {
                let to = words.next().ok_or_else(end)?;
                map_to = Some(prefix(to)?.ok_or_else(|| to.wrong("not a prefix"))?);
            }
            // Which port of the range is taken is settled here by other means.
            (_, "--random" | "--random-fully" | "--persistent") => {}
            _ => return Err(option.wrong("not an option of this target")),
        }
    }
    if target.text == "SNAT" && translation.outside.is_none() {
        return Err(target.wrong("lacks `--to-source`"));
    }
    Ok((translation, map_to))
}

/// `ADDRESS[:PORT[-PORT[/BASE]]]`; an IPv6 address with ports stands in brackets.
fn endpoint(word: Word<'_>, is_random: bool) -> Result<(IpAddr, Option<InsidePorts>), Trouble> {
    let (address, ports) = parts(word)?;
    if address.contains('-') {
        return Err(word.unsupported("a range of inside hosts").help(LEFT_OUT));
    }
    let help = "like 10.0.0.5, 10.0.0.5:8080, [fd00::5]:8080";
    let address =
        address.parse().map_err(|_| word.wrong("not an address to forward to").help(help))?;
    let Some(text) = ports else { return Ok((address, None)) };
    let (range, base) = text.split_once('/').map_or((text, None), |(range, at)| (range, Some(at)));
    let range = port_range(word.with(range), '-')?;
    let base = base.map(|base| port_range(word.with(base), '-')).transpose()?;
    Ok((address, Some(InsidePorts { range, base: base.map(|base| base.0), is_random })))
}

/// Addresses, and ports after a colon.
fn parts(word: Word<'_>) -> Result<(&str, Option<&str>), Trouble> {
    match word.text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) =
                rest.split_once(']').ok_or_else(|| word.wrong("a `]` is missing"))?;
            Ok((address, after.strip_prefix(':')))
        }
        None => Ok(match word.text.rsplit_once(':') {
            Some((addresses, ports)) if !addresses.contains(':') => (addresses, Some(ports)),
            _ => (word.text, None),
        }),
    }
}

/// `ADDRESS[-ADDRESS][:PORT-PORT]`; an IPv6 address with ports stands in brackets.
fn to_source(word: Word<'_>, to: &mut Translation) -> Result<(), Trouble> {
    let (addresses, ports) = parts(word)?;
    let (first, last) = addresses.split_once('-').unwrap_or((addresses, addresses));
    let help = "like 203.0.113.1, 203.0.113.1-203.0.113.8, 203.0.113.1:1024-65535";
    let address = |text: &str| {
        text.parse::<IpAddr>().map_err(|_| word.wrong("not an address to translate to").help(help))
    };
    let [(version, first), (other, last)] = [number(address(first)?), number(address(last)?)];
    if version != other || first > last {
        return Err(word.wrong("not a range of addresses").help(help));
    }
    to.outside = Some(prefixes(&NumberSet::range(first, last), version));
    if let Some(text) = ports {
        to.ports = Some(self::ports(word.with(text))?);
    }
    Ok(())
}

fn ports(word: Word<'_>) -> Result<PortRange, Trouble> {
    let (first, last) = port_range(word, '-')?;
    format!("{first}-{last}").parse().map_err(|why: &str| word.wrong(why))
}
