//! The table `nat` of `iptables-save`: its chains `PREROUTING` and `POSTROUTING`.

use std::net::IpAddr;

use warpline_packet::Prefix;
use warpline_packet::wire::ip_protocol;

use super::fixed_keys::{SourceRule, can_forward};
use super::rule_ports::RulePorts;
use super::rules::{NatRules, Translation, prefixes};
use warpline_nf::{Side, SourceText};
use warpline_rewrite::PortSet;
use warpline_rewrite::addresses::{PortRange, number};
use warpline_rule_files::iptables_match::{port_range, prefix, protocol_number};
use warpline_rule_files::save_file::{self, SavedRule};
use warpline_rule_files::words::{Trouble, Word};
use warpline_rule_files::{NumberSet, Way};

const WIDENED: &str = "unsupported = \"skip\" translates without this condition";
const LEFT_OUT: &str = "unsupported = \"skip\" skips the rule";

/// Where a rule stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hook {
    Prerouting,
    Postrouting,
}

/// Reads the rules that translate.
pub fn parse_iptables(source: &SourceText, ports: &RulePorts) -> NatRules {
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
        for rule in chains.flat_map(|chain| &chain.rules) {
            let troubles = read(rule, hook, ports, &mut found).unwrap_or_else(|own| vec![own]);
            for trouble in troubles {
                let list = match trouble.unsupported {
                    true => &mut found.unsupported,
                    false => &mut found.mistakes,
                };
                list.push(trouble.told(source, rule.number, rule.line));
            }
        }
    }
    found
}

/// The conditions of a rule.
#[derive(Default)]
struct Conditions<'a> {
    sources: Option<Vec<Prefix>>,
    destinations: Vec<Prefix>,
    not_destinations: Vec<Prefix>,
    protocol: Option<u8>,
    /// Destination ports.
    ports: Vec<(u16, u16)>,
    /// The ports of the chain by which packets come.
    came_by: PortSet,
    /// Conditions without which the rule holds, if they are skipped.
    troubles: Vec<Trouble>,
    /// The first condition without which it would hold for too much.
    needed: Option<Trouble>,
    target: Option<(Word<'a>, Vec<Word<'a>>)>,
}

/// Adds a rule; gives what of it is not supported and can be left out.
fn read(
    rule: &SavedRule<'_>,
    hook: Hook,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<Trouble>, Trouble> {
    let words = rule.words()?;
    let mut conditions = conditions(&words, hook, ports)?;
    let Some((target, options)) = conditions.target.take() else { return Ok(Vec::new()) };
    match hook {
        Hook::Prerouting => forward(target, &options, conditions, ports, found),
        Hook::Postrouting => translate(target, &options, conditions, ports, found),
    }
}

fn conditions<'a>(
    words: &[Word<'a>],
    hook: Hook,
    ports: &RulePorts,
) -> Result<Conditions<'a>, Trouble> {
    let mut own = Conditions::default();
    let (mut words, mut negated) = (words.iter().copied(), false);
    while let Some(word) = words.next() {
        let is_negated = std::mem::replace(&mut negated, word.text == "!" && !word.quoted);
        let end = || word.wrong("the line ends where its value is due");
        let mut value = || words.next().ok_or_else(end);
        match word.text {
            _ if word.quoted => {}
            "-s" | "--source" if is_negated => {
                return Err(word.wrong("all sources but some can't be translated"));
            }
            "-s" | "--source" => {
                let value = value()?;
                own.sources = Some(prefix_list(value)?);
                if hook == Hook::Prerouting {
                    own.need(value.unsupported("a forward for some remotes only"));
                }
            }
            "-d" | "--destination" => {
                let list = prefix_list(value()?)?;
                let to = if is_negated { &mut own.not_destinations } else { &mut own.destinations };
                to.extend(list);
            }
            "-p" | "--protocol" if is_negated => own.need(word.unsupported("`!` before `-p`")),
            "-p" | "--protocol" => {
                let number = protocol_number(value()?)?;
                own.protocol = (number > 0).then_some(number);
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports"
                if !is_negated =>
            {
                let value = value()?;
                for part in value.split(',') {
                    own.ports.push(port_range(part, ':')?);
                }
                if hook == Hook::Postrouting {
                    own.need(word.unsupported("a port of the destination").help(WIDENED));
                }
            }
            "-m" | "--match" | "--comment" => drop(value()?),
            "-j" | "--jump" => {
                own.target = Some((value()?, words.collect()));
                return Ok(own);
            }
            "-g" | "--goto" => return Err(word.wrong("rules of other chains are not followed")),
            "-i" | "--in-interface" | "-o" | "--out-interface" => {
                let is_in = matches!(word.text, "-i" | "--in-interface");
                let way = if is_in { Way::In } else { Way::Out };
                own.interface(value()?, (way, is_negated), hook, ports);
            }
            text if text.starts_with('-') => own.need(word.unsupported("no such condition")),
            // `!`, or the value of a condition that is not supported.
            _ => {}
        }
    }
    Ok(own)
}

impl Conditions<'_> {
    /// A condition that is not supported: without it a source rule translates more.
    fn need(&mut self, trouble: Trouble) {
        if self.needed.is_none() {
            self.needed = Some(trouble.clone());
        }
        self.troubles.push(trouble.help(WIDENED));
    }

    fn interface(
        &mut self,
        value: Word<'_>,
        (way, negated): (Way, bool),
        hook: Hook,
        ports: &RulePorts,
    ) {
        let way = if hook == Hook::Prerouting { Way::In } else { way };
        let named = ports.interfaces.named(value.text, '+');
        match named.and_then(|named| ports.condition(way, &named, negated)) {
            Ok(came_by) => self.came_by = self.came_by.and(came_by),
            Err(why) => self.need(value.unsupported(why)),
        }
    }
}

fn prefix_list(word: Word<'_>) -> Result<Vec<Prefix>, Trouble> {
    let one = |part| {
        prefix(part)?.ok_or_else(|| part.wrong("a mask that is not a prefix can't be translated"))
    };
    word.split(',').map(one).collect()
}

/// A rule of PREROUTING.
fn forward(
    target: Word<'_>,
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
        _ => return Err(target.wrong("no such target").help("targets: DNAT, NETMAP")),
    }
    if let Some(needed) = conditions.needed {
        return skipped(needed);
    }
    if !conditions.not_destinations.is_empty() {
        return skipped(target.unsupported("`!` before `-d`"));
    }
    let maps = target.text == "NETMAP" || conditions.protocol.is_none();
    if maps && !ports.covers(Side::Outside, conditions.came_by) {
        return skipped(target.unsupported("a host's own address at some ports only"));
    }
    if target.text == "NETMAP" {
        let to = value("--to").ok_or_else(|| target.wrong("lacks `--to`"))?;
        let [outside] = conditions.destinations[..] else {
            return Err(target.wrong("requires one destination, `-d`"));
        };
        let inside = prefix(to)?.ok_or_else(|| to.wrong("not a prefix"))?;
        return map(found, outside, inside).map_err(|why| to.wrong(why));
    }
    let to = value("--to-destination").ok_or_else(|| target.wrong("lacks `--to-destination`"))?;
    let (inside, inside_ports) = endpoint(to)?;
    let Some(protocol) = conditions.protocol else {
        let ([outside], None) = (&conditions.destinations[..], inside_ports) else {
            return Err(target.wrong("requires a protocol, `-p`, or one destination, `-d`"));
        };
        return map(found, *outside, Prefix::host(inside)).map_err(|why| to.wrong(why));
    };
    let has_ports = [ip_protocol::TCP, ip_protocol::UDP].contains(&protocol);
    if !has_ports && (inside_ports.is_some() || !can_forward(protocol, inside)) {
        return skipped(target.unsupported("a forward of this protocol"));
    }
    if !has_ports && conditions.ports.is_empty() {
        conditions.ports.push((protocol.into(), protocol.into()));
    } else if !has_ports || conditions.ports.is_empty() {
        return skipped(target.unsupported("a forward of all ports, without `--dport`"));
    }
    let Conditions { destinations, ports, came_by, .. } = &conditions;
    let done = found.forward(protocol, destinations, ports, inside, inside_ports, *came_by);
    done.map(|()| Vec::new()).map_err(|why| to.wrong(why))
}

fn map(found: &mut NatRules, outside: Prefix, inside: Prefix) -> Result<Vec<Trouble>, String> {
    found.map(outside, inside).map(|()| Vec::new())
}

/// A rule of POSTROUTING.
fn translate(
    target: Word<'_>,
    options: &[Word<'_>],
    conditions: Conditions<'_>,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<Trouble>, Trouble> {
    let Conditions { sources, destinations, not_destinations, protocol, came_by, .. } = conditions;
    let (troubles, needed) = (conditions.troubles, conditions.needed);
    let mut rule = SourceRule {
        sources: sources.clone().unwrap_or_default(),
        destinations,
        not_destinations,
        protocol,
        came_by,
        translates: true,
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
            found.source_rules.push(rule);
            return Ok(Vec::new());
        }
        _ => return Err(target.wrong("no such target").help("targets: SNAT, MASQUERADE, NETMAP")),
    }
    let mut translation = Translation { outside: None, ports: None };
    let mut words = options.iter().copied();
    while let Some(option) = words.next() {
        let end = || option.wrong("the line ends where its value is due");
        match (target.text, option.text) {
            ("SNAT", "--to-source") => to_source(words.next().ok_or_else(end)?, &mut translation)?,
            ("MASQUERADE", "--to-ports") => {
                translation.ports = Some(self::ports(words.next().ok_or_else(end)?)?);
            }
            ("NETMAP", "--to") => {
                let to = words.next().ok_or_else(end)?;
                let outside = prefix(to)?.ok_or_else(|| to.wrong("not a prefix"))?;
                if !ports.covers(Side::Inside, came_by) {
                    let what = "a host's own address at some ports only";
                    return Err(target.unsupported(what).help(LEFT_OUT));
                }
                let Some([inside]) = sources.as_deref() else {
                    return Err(target.wrong("requires one source, `-s`"));
                };
                return map(found, outside, *inside).map_err(|why| to.wrong(why));
            }
            // Which port of the range is taken is settled here by other means.
            (_, "--random" | "--random-fully" | "--persistent") => {}
            _ => return Err(option.wrong("not an option of this target")),
        }
    }
    if target.text == "SNAT" && translation.outside.is_none() {
        return Err(target.wrong("lacks `--to-source`"));
    }
    if target.text == "NETMAP" {
        return Err(target.wrong("lacks `--to`"));
    }
    if found.is_mapped(sources.as_deref(), &translation) {
        return Ok(Vec::new());
    }
    found.add(sources, translation).map_err(|why| target.wrong(why))?;
    found.source_rules.push(rule);
    Ok(troubles)
}

/// `ADDRESS[:PORT[-PORT]]`; an IPv6 address with ports stands in brackets.
fn endpoint(word: Word<'_>) -> Result<(IpAddr, Option<(u16, u16)>), Trouble> {
    let (address, ports) = parts(word)?;
    if address.contains('-') {
        return Err(word.unsupported("a range of inside hosts").help(LEFT_OUT));
    }
    let help = "like 10.0.0.5, 10.0.0.5:8080, [fd00::5]:8080";
    let address =
        address.parse().map_err(|_| word.wrong("not an address to forward to").help(help))?;
    Ok((address, ports.map(|text| port_range(word.with(text), '-')).transpose()?))
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
