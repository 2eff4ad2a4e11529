//! The table `nat` of `iptables-save`: `SNAT` and `MASQUERADE` in its chain `POSTROUTING`.

use std::net::IpAddr;

use warpline_packet::Prefix;

use super::rule_ports::RulePorts;
use super::rules::{NatRules, Translation, prefixes};
use warpline_nf::SourceText;
use warpline_rewrite::addresses::{PortRange, number};
use warpline_rule_files::iptables_match::{port_range, prefix};
use warpline_rule_files::save_file::{self, SavedRule};
use warpline_rule_files::words::{Trouble, Word};
use warpline_rule_files::{NumberSet, Way};

const WIDENED: &str = "unsupported = \"skip\" translates without this condition";
const LEFT_OUT: &str = "unsupported = \"skip\" skips the rule";

/// Reads the rules that translate sources.
pub fn parse_iptables(source: &SourceText, ports: &RulePorts) -> NatRules {
    let file = save_file::parse(source);
    let mut found = NatRules { mistakes: file.mistakes.clone(), ..NatRules::default() };
    let Some(table) = file.tables.iter().find(|table| table.name == "nat") else {
        found.mistakes.push(source.whole("has no table `nat`"));
        return found;
    };
    for chain in &table.chains {
        for rule in &chain.rules {
            let read = match chain.name {
                "POSTROUTING" => postrouting(rule, ports, &mut found),
                // What is forwarded to ports, and not what the host itself sends or gets.
                "PREROUTING" => Err(whole(rule, "the chain PREROUTING").help(LEFT_OUT)),
                _ => Ok(Vec::new()),
            };
            let troubles = read.unwrap_or_else(|trouble| vec![trouble]);
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

fn whole(rule: &SavedRule<'_>, what: &str) -> Trouble {
    Word::new(rule.line.trim(), 0).unsupported(what)
}

/// Adds a rule; gives what of it is not supported and can be left out.
fn postrouting(
    rule: &SavedRule<'_>,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<Trouble>, Trouble> {
    let words = rule.words()?;
    let mut words = words.iter().copied();
    let (mut inside, mut troubles, mut negated) = (None, Vec::new(), false);
    while let Some(word) = words.next() {
        let is_negated = std::mem::replace(&mut negated, word.text == "!" && !word.quoted);
        let end = || word.wrong("the line ends where its value is due");
        match word.text {
            _ if word.quoted => {}
            "-s" | "--source" => inside = Some(sources(words.next().ok_or_else(end)?)?),
            "!" if matches!(words.clone().next(), Some(next) if is_source(next)) => {
                return Err(word.wrong("all sources but some can't be translated"));
            }
            "-m" | "--comment" => drop(words.next().ok_or_else(end)?),
            "-j" | "--jump" => {
                let target = words.next().ok_or_else(end)?;
                let options: Vec<Word<'_>> = words.collect();
                translate(target, &options, inside, found, &mut troubles)?;
                return Ok(troubles);
            }
            "-g" | "--goto" => return Err(word.wrong("rules of other chains are not followed")),
            "-i" | "--in-interface" => {
                let value = words.next().ok_or_else(end)?;
                troubles.extend(interface(value, Way::In, is_negated, ports));
            }
            "-o" | "--out-interface" => {
                let value = words.next().ok_or_else(end)?;
                troubles.extend(interface(value, Way::Out, is_negated, ports));
            }
            text if text.starts_with('-') => {
                troubles.push(word.unsupported("no such condition").help(WIDENED));
            }
            // The value of a condition that is not supported, or `!` before one.
            _ => {}
        }
    }
    Ok(Vec::new())
}

/// What of a condition on an interface is not supported.
fn interface(value: Word<'_>, way: Way, negated: bool, ports: &RulePorts) -> Option<Trouble> {
    let named = ports.interfaces.named(value.text, '+');
    let why = match named {
        Ok(named) => ports.objection(way, &named, negated)?,
        Err(why) => why,
    };
    Some(value.unsupported(why).help(WIDENED))
}

fn is_source(word: Word<'_>) -> bool {
    matches!(word.text, "-s" | "--source")
}

fn sources(word: Word<'_>) -> Result<Vec<Prefix>, Trouble> {
    let one = |part| {
        prefix(part)?.ok_or_else(|| part.wrong("a mask that is not a prefix can't be translated"))
    };
    word.split(',').map(one).collect()
}

fn translate(
    target: Word<'_>,
    options: &[Word<'_>],
    inside: Option<Vec<Prefix>>,
    found: &mut NatRules,
    troubles: &mut Vec<Trouble>,
) -> Result<(), Trouble> {
    match target.text {
        "SNAT" | "MASQUERADE" => {}
        "LOG" => {
            troubles.clear();
            return Ok(());
        }
        "ACCEPT" | "RETURN" => {
            let trouble = target.unsupported("packets that are not translated").help(LEFT_OUT);
            *troubles = vec![trouble];
            return Ok(());
        }
        "NETMAP" => return Err(target.unsupported("no such target").help(LEFT_OUT)),
        _ => return Err(target.wrong("no such target").help("targets: SNAT, MASQUERADE")),
    }
    let mut translation = Translation { outside: None, ports: None };
    let mut options = options.iter().copied();
    while let Some(option) = options.next() {
        let end = || option.wrong("the line ends where its value is due");
        match (target.text, option.text) {
            ("SNAT", "--to-source") => {
                to_source(options.next().ok_or_else(end)?, &mut translation)?
            }
            ("MASQUERADE", "--to-ports") => {
                translation.ports = Some(ports(options.next().ok_or_else(end)?)?);
            }
            // Which port of the range is taken is settled here by other means.
            (_, "--random" | "--random-fully" | "--persistent") => {}
            _ => return Err(option.wrong("not an option of this target")),
        }
    }
    if target.text == "SNAT" && translation.outside.is_none() {
        return Err(target.wrong("lacks `--to-source`"));
    }
    found.add(inside, translation).map_err(|why| target.wrong(why))
}

/// `ADDRESS[-ADDRESS][:PORT-PORT]`; an IPv6 address with ports stands in brackets.
fn to_source(word: Word<'_>, to: &mut Translation) -> Result<(), Trouble> {
    let (addresses, ports) = match word.text.strip_prefix('[') {
        Some(rest) => {
            let (inside, behind) =
                rest.split_once(']').ok_or_else(|| word.wrong("a `]` is missing"))?;
            (inside, behind.strip_prefix(':'))
        }
        None => match word.text.rsplit_once(':') {
            Some((addresses, ports)) if !addresses.contains(':') => (addresses, Some(ports)),
            _ => (word.text, None),
        },
    };
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
