//! The keys `forwards`, `one_to_one` and `except`: fixed translations, and packets without one.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use super::rules::{mistake_at, prefixes};
use warpline_nf::{Diagnostic, Section};
use warpline_packet::wire::ip_protocol;
use warpline_packet::{AddressBlocks, Prefix, SHARDS};
use warpline_rewrite::addresses::number;
use warpline_rewrite::fixed::FORWARDED;
use warpline_rewrite::{Fixed, Forward, Mapped, PortRange, PortSet, is_portless};
use warpline_rule_files::NumberSet;

const FORWARD: &str = "write PROTOCOL OUTSIDE PORT[-PORT] to INSIDE [PORT[-PORT]], like \
                       tcp 203.0.113.1 8080 to 10.0.0.5 80, or gre 203.0.113.1 to 10.0.0.5";
const MAPPED: &str = "write OUTSIDE to INSIDE, like 203.0.113.16/28 to 10.0.5.0/28";

/// A forward as a line.
pub(super) struct ForwardLine(pub(super) Forward);

impl FromStr for ForwardLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (protocol, outside, ports, inside, port) = match words[..] {
            [protocol, outside, "to", inside] => return portless(protocol, outside, inside),
            [protocol, outside, ports, "to", inside] => (protocol, outside, ports, inside, None),
            [protocol, outside, ports, "to", inside, port] => {
                (protocol, outside, ports, inside, Some(port))
            }
            _ => return Err(FORWARD.into()),
        };
        let known = FORWARDED.iter().find(|(name, _)| *name == protocol);
        let &(_, protocol) = known.ok_or("only tcp and udp have ports to forward")?;
        let ports = range(ports)?;
        let to = port.map_or(Ok(ports), range)?;
        forward(protocol, address(outside)?, ports, address(inside)?, to).map(Self)
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text}: {FORWARD}"))
}

/// A line about a protocol without ports.
fn portless(protocol: &str, outside: &str, inside: &str) -> Result<ForwardLine, String> {
    let known = PORTLESS.iter().find(|(name, _)| *name == protocol).map(|&(_, number)| number);
    let number = known.or_else(|| protocol.parse().ok()).ok_or_else(|| match protocol {
        "tcp" | "udp" => FORWARD.to_owned(),
        _ => format!("{protocol} is not a protocol without ports: gre, esp, ah, sctp, or a number"),
    })?;
    forward_portless(number, address(outside)?, address(inside)?).map(ForwardLine)
}

/// The names of protocols without ports to translate.
const PORTLESS: [(&str, u8); 4] = [
    ("gre", ip_protocol::GRE),
    ("esp", ip_protocol::ESP),
    ("ah", ip_protocol::AH),
    ("sctp", ip_protocol::SCTP),
];

/// Whether a protocol has no ports and can be forwarded to this host.
pub(super) fn can_forward(protocol: u8, inside: IpAddr) -> bool {
    is_portless(if inside.is_ipv4() { 4 } else { 6 }, protocol)
}

/// A forward of all packets of a protocol without ports.
fn forward_portless(protocol: u8, outside: IpAddr, inside: IpAddr) -> Result<Forward, String> {
    if !can_forward(protocol, outside) {
        return Err(format!("protocol {protocol} can't be forwarded without ports"));
    }
    let number = u16::from(protocol);
    forward(protocol, outside, (number, number), inside, (number, number))
}

/// A forward of `ports` to ports `to`: as many, or one. The number of a protocol without ports
/// stands for them.
pub(super) fn forward(
    protocol: u8,
    outside: IpAddr,
    ports: (u16, u16),
    inside: IpAddr,
    to: (u16, u16),
) -> Result<Forward, String> {
    let is_one = to.0 == to.1;
    if !is_one && to.1 - to.0 != ports.1 - ports.0 {
        return Err("as many inside ports as outside ports, or one".into());
    }
    if outside.is_ipv4() != inside.is_ipv4() {
        return Err("both addresses must be of one IP version".into());
    }
    let came_by = PortSet::ALL;
    Ok(Forward { protocol, outside, ports, inside, port: to.0, is_one, came_by })
}

fn range(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{text} is not a port from 1 to 65535")),
    };
    match (port(first)?, port(last)?) {
        (first, last) if first <= last => Ok((first, last)),
        _ => Err("the first port is above the last".into()),
    }
}

/// A mapped prefix as a line.
pub(super) struct MappedLine(pub(super) Mapped);

impl FromStr for MappedLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [outside, "to", inside] = words[..] else { return Err(MAPPED.into()) };
        let prefix = |text: &str| text.parse::<Prefix>().map_err(|why| format!("{text}: {why}"));
        mapped(prefix(outside)?, prefix(inside)?).map(Self)
    }
}

/// A mapping of prefixes of one size.
pub(super) fn mapped(outside: Prefix, inside: Prefix) -> Result<Mapped, String> {
    let is_v4 = |prefix: &Prefix| prefix.address().is_ipv4();
    if (is_v4(&outside), outside.len()) != (is_v4(&inside), inside.len()) {
        return Err(format!("{outside} and {inside} are not of one size"));
    }
    Ok(Mapped { outside, inside, came_by: PortSet::ALL })
}

/// A rule by which packets from inside are translated or not. The first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRule {
    /// Any of them, or any where there is none.
    pub sources: Vec<Prefix>,
    /// Any of them, or any where there is none.
    pub destinations: Vec<Prefix>,
    /// None of them.
    pub not_destinations: Vec<Prefix>,
    /// The IP version, where only one is meant.
    pub version: Option<u8>,
    /// The protocol, where only one is meant.
    pub protocol: Option<u8>,
    /// The ports of the chain by which packets come.
    pub came_by: PortSet,
    /// Whether its packets are translated.
    pub translates: bool,
    /// Whether they get an outside address of their host alone.
    pub own: bool,
}

impl SourceRule {
    /// Packets to these prefixes are not translated.
    pub(super) fn exempting(destinations: Vec<Prefix>) -> Self {
        Self { destinations, ..Self::default() }
    }

    /// Whether it decides about some packets of its sources only.
    pub(super) fn has_conditions(&self) -> bool {
        self.protocol.is_some()
            || self.version.is_some() && self.sources.is_empty()
            || !self.came_by.is_all()
            || !self.destinations.is_empty()
            || !self.not_destinations.is_empty()
    }

    /// Whether it decides a packet.
    pub(super) fn matches(
        &self,
        (version, protocol): (u8, u8),
        (src, dst): (u128, u128),
        port: impl Fn() -> u16,
    ) -> bool {
        let has = |list: &[Prefix], address| list.iter().any(|one| holds(*one, version, address));
        self.version.is_none_or(|own| own == version)
            && (self.sources.is_empty() || has(&self.sources, src))
            && (self.destinations.is_empty() || has(&self.destinations, dst))
            && !has(&self.not_destinations, dst)
            && self.protocol.is_none_or(|own| own == protocol)
            && (self.came_by.is_all() || self.came_by.has(port()))
    }
}

/// Whether a prefix is a single address.
pub(super) fn is_host(prefix: Prefix) -> bool {
    prefix.len() == if prefix.address().is_ipv4() { 32 } else { 128 }
}

fn holds(prefix: Prefix, version: u8, address: u128) -> bool {
    let (own, first) = number(prefix.address());
    let width = if own == 4 { 32 } else { 128 };
    let rest = width - u32::from(prefix.len());
    own == version && (rest == 128 || (address ^ first) >> rest == 0)
}

/// Ports that forwards must leave for each protocol and IP version.
const PORTS_LEFT: u128 = 64;

/// Refuses forwards that leave few outside ports to assign.
pub(super) fn check_ports(
    section: &mut Section<'_>,
    forwards: &[Forward],
    outside: &AddressBlocks,
    ports: PortRange,
) {
    let key = if section.has("forwards") { "forwards" } else { "rules" };
    let first = u32::from(ports.first());
    let end = first + u32::from(ports.per_shard()) * SHARDS as u32;
    for version in [4, 6] {
        let sizes = outside.ranges(version).map(|(first, last)| (last - first).saturating_add(1));
        let addresses = sizes.fold(0, u128::saturating_add);
        for (name, protocol) in FORWARDED {
            let taken = |own: &&Forward| {
                own.protocol == protocol
                    && number(own.outside).0 == version
                    && outside.contains(own.outside)
            };
            let count = |own: &Forward| {
                let [from, to] = [own.ports.0, own.ports.1].map(u32::from);
                u128::from((to.saturating_add(1).min(end)).saturating_sub(from.max(first)))
            };
            let taken: u128 = forwards.iter().filter(taken).map(count).sum();
            let all = addresses.saturating_mul(u128::from(end - first));
            if taken > 0 && all.saturating_sub(taken) < PORTS_LEFT {
                let text =
                    format!("forwards leave fewer than {PORTS_LEFT} ports of {name} to assign");
                section.mistake(key, text);
            }
        }
    }
}

/// The fixed translations of one kind, those of rules first, and where each is written.
pub(super) struct Written<'a, T> {
    /// The key of those that no rule has.
    pub(super) key: &'static str,
    pub(super) all: &'a [T],
    /// The places of rules.
    pub(super) rules: &'a [Diagnostic],
    /// The places of items of `key`.
    pub(super) items: &'a [Range<usize>],
}

impl<T> Written<'_, T> {
    /// Reports a mistake of translation `number`, and the text to write instead.
    fn report(&self, section: &mut Section<'_>, number: usize, text: String, help: Help) {
        let with = |mistake: Diagnostic, help: Option<String>| match help {
            Some(help) => mistake.help(help),
            None => mistake,
        };
        if let Some(rule) = self.rules.get(number) {
            section.note(with(mistake_at(rule, &text), help.in_rule));
            return;
        }
        let (key, text) = (self.key, format!("`{}`: {text}", self.key));
        match number.checked_sub(self.rules.len()).and_then(|at| self.items.get(at)) {
            Some(at) => {
                let mistake = section.mistake_of_item(key, at.clone(), text);
                section.note(with(mistake, help.in_key));
            }
            None => _ = section.mistake(key, text),
        }
    }
}

/// The text to write instead of a mistake, where there is one.
#[derive(Default)]
struct Help {
    /// For an item of a key.
    in_key: Option<String>,
    /// For a rule.
    in_rule: Option<String>,
}

impl Help {
    /// For either.
    fn of(text: String) -> Self {
        Self { in_key: Some(text.clone()), in_rule: Some(text) }
    }
}

/// How `inside` is written with one more host or prefix.
fn inside_with(section: &Section<'_>, inside: &AddressBlocks, one: &dyn Display) -> Help {
    if !section.has("inside") {
        return Help::default();
    }
    let blocks = [4, 6].into_iter().flat_map(|version| {
        let ranges: Vec<(u128, u128)> = inside.ranges(version).collect();
        prefixes(&NumberSet::of(ranges), version)
    });
    let list: String = blocks.map(|prefix| format!("\"{prefix}\", ")).collect();
    Help::of(format!("write inside = [{list}\"{one}\"], or name an inside host"))
}

/// How a forward is written with the next ports that no other one has.
fn with_free_ports(forwards: &[Forward], own: &Forward) -> Option<Help> {
    let (name, _) = FORWARDED.iter().find(|(_, protocol)| *protocol == own.protocol)?;
    let (first, last) = own.ports;
    let is_free = |from: u16, to: u16| {
        let mut others = forwards.iter().filter(|other| !std::ptr::eq(*other, own));
        others.all(|other| {
            (other.protocol, other.outside) != (own.protocol, own.outside)
                || other.ports.1 < from
                || to < other.ports.0
        })
    };
    let starts = (first.checked_add(1)?..=u16::MAX).chain(1..first);
    let fits = |from: u16| Some((from, from.checked_add(last - first)?));
    let (from, to) = starts.filter_map(fits).find(|&(from, to)| is_free(from, to))?;
    let range = |from, to| if from == to { format!("{from}") } else { format!("{from}-{to}") };
    let inside = match own.is_one {
        true => range(own.port, own.port),
        false => range(own.port, own.port + (last - first)),
    };
    let (Forward { outside, inside: host, .. }, free) = (own, range(from, to));
    let in_key = format!("write \"{name} {outside} {free} to {host} {inside}\"");
    let in_rule = match from == to {
        true => format!("{name} port {free} of {outside} is free"),
        false => format!("{name} ports {free} of {outside} are free"),
    };
    Some(Help { in_key: Some(in_key), in_rule: Some(in_rule) })
}

/// The fixed translations of the table and its rules; mistakes are noted.
pub(super) fn fixed(
    section: &mut Section<'_>,
    forwards: &Written<'_, Forward>,
    mapped: &Written<'_, Mapped>,
    inside: &AddressBlocks,
    outside: &AddressBlocks,
) -> Fixed {
    for (number, own) in forwards.all.iter().enumerate() {
        if !inside.contains(own.inside) {
            let help = inside_with(section, inside, &own.inside);
            forwards.report(section, number, format!("{} is not in `inside`", own.inside), help);
        }
        if inside.contains(own.outside) {
            let text = format!("{} is in `inside`", own.outside);
            forwards.report(section, number, text, Help::default());
        }
    }
    check_mapped(section, mapped, inside, outside);
    match Fixed::new(forwards.all, mapped.all) {
        Ok(fixed) => fixed,
        Err(place) => {
            let own = &forwards.all[place];
            let Forward { protocol, outside, ports: (first, last), inside, .. } = own;
            let (what, other) = match first == last {
                _ if !FORWARDED.iter().any(|(_, own)| own == protocol) => {
                    (format!("protocol {protocol}"), "address")
                }
                true => (format!("port {first}"), "port"),
                false => (format!("port {first}-{last}"), "port"),
            };
            let whichever = match own.came_by.is_all() {
                true => "",
                false => " (it leads to one host, whichever port packets come by)",
            };
            let text = format!(
                "{what} of {outside} to {inside} overlaps one before it{whichever}: give it \
                 another outside {other}"
            );
            let help = with_free_ports(forwards.all, own).unwrap_or_default();
            forwards.report(section, place, text, help);
            Fixed::default()
        }
    }
}

fn check_mapped(
    section: &mut Section<'_>,
    mapped: &Written<'_, Mapped>,
    inside: &AddressBlocks,
    outside: &AddressBlocks,
) {
    let is_inside = |prefix: &Prefix| {
        let own = AddressBlocks::new(&[*prefix]);
        own.ranges(4).chain(own.ranges(6)).all(|(first, last)| {
            let version = if prefix.address().is_ipv4() { 4 } else { 6 };
            inside.ranges(version).any(|(from, to)| from <= first && last <= to)
        })
    };
    for (place, own) in mapped.all.iter().enumerate() {
        if !is_inside(&own.inside) {
            let help = inside_with(section, inside, &own.inside);
            mapped.report(section, place, format!("{} is not in `inside`", own.inside), help);
        }
        let blocks = AddressBlocks::new(&[own.outside]);
        if blocks.overlaps(inside) || blocks.overlaps(outside) {
            let text = format!("{} overlaps `inside` or `outside`", own.outside);
            mapped.report(section, place, text, Help::default());
        }
        let overlaps = |one: &Mapped, of: fn(&Mapped) -> Prefix| {
            AddressBlocks::new(&[of(one)]).overlaps(&AddressBlocks::new(&[of(own)]))
        };
        let earlier = &mapped.all[..place];
        if earlier.iter().any(|one| overlaps(one, |m| m.outside) || overlaps(one, |m| m.inside)) {
            let text = format!("{} to {} overlaps one before it", own.outside, own.inside);
            mapped.report(section, place, text, Help::default());
        }
    }
}
