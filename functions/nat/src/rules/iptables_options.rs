//! The options of targets of iptables that translate.

use std::net::IpAddr;

use warpline_packet::Prefix;
use warpline_rewrite::addresses::{PortRange, number};
use warpline_rule_files::NumberSet;
use warpline_rule_files::iptables_match::{port_range, prefix};
use warpline_rule_files::words::{Trouble, Word};

use super::inside_ports::InsidePorts;
use super::iptables::LEFT_OUT;
use super::{Translation, prefixes};

/// The translation by the options of a target, and the prefix of NETMAP.
pub(super) fn translation(
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
pub(super) fn endpoint(
    word: Word<'_>,
    is_random: bool,
) -> Result<(IpAddr, Option<InsidePorts>), Trouble> {
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
