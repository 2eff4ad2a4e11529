//! The values of `nft -j list ruleset`: numbers, addresses and names, alone, as ranges and in sets.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::Value;
use warpline_packet::Prefix;

use crate::region::{States, addresses};
use crate::rules::{FLAGS, PROTOCOLS};
use crate::{Interfaces, NumberSet};

/// Elements of sets that are read for one file, however often they are used.
const ELEMENTS_MAX: usize = 1 << 22;

/// Ranges that the conditions of verdict maps' elements have together.
const HELD_MAX: usize = 1 << 22;

/// Why something gives no condition.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It does not read.
    Wrong(String),
    /// It reads, and cannot be expressed here.
    Unsupported(String),
}

impl Fault {
    /// A [`Fault::Wrong`].
    pub fn wrong(why: impl Into<String>) -> Self {
        Self::Wrong(why.into())
    }

    /// A [`Fault::Unsupported`].
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// An address of IPv4 or IPv6.
    Address(u8),
    /// A port.
    Port,
    /// An IP protocol.
    Protocol,
    /// A type of ICMP for IPv4 or IPv6.
    MessageType(u8),
    /// A code of ICMP of this IP version.
    MessageCode(u8),
    /// TCP flags.
    Flags,
    /// A state of connection tracking.
    State,
    /// `ipv4`, `ipv6`, `ip`, `ip6`: 4 or 6.
    Version,
    /// The name of an interface, or the beginning of names and `*`.
    Interface,
}

/// The named sets and maps of a table.
#[derive(Debug, Default)]
pub struct Sets<'a> {
    /// By family, table and name.
    pub by_name: HashMap<(&'a str, &'a str, &'a str), &'a Value>,
    elements: usize,
    /// Those that rules may name.
    pub(crate) interfaces: Interfaces,
    /// Whether a condition takes for granted that packets leave by another port than they came by.
    pub(crate) presumes_crossing: bool,
    /// Ranges held by the conditions made from verdict maps.
    held: usize,
    /// Whether the elements of a named set are being read, in which no other is named.
    is_inside: bool,
}

impl<'a> Sets<'a> {
    /// Without a set, in a chain with these interfaces.
    pub fn with_interfaces(interfaces: Interfaces) -> Self {
        Self { interfaces, ..Self::default() }
    }

    /// The elements of the set or map `@name` in a table.
    pub fn named(&self, table: (&str, &str), name: &str) -> Result<&'a [Value], Fault> {
        let set = self.by_name.get(&(table.0, table.1, name));
        let set = set.ok_or_else(|| Fault::wrong(format!("no set `{}`", short(name))))?;
        let flags = list(set.get("flags"));
        let varies = |flag: &Value| matches!(flag.as_str(), Some("timeout" | "dynamic"));
        if flags.iter().any(varies) || set.get("timeout").is_some() {
            return Err(Fault::unsupported(format!("a set that changes, `{}`", short(name))));
        }
        Ok(list(set.get("elem")))
    }

    /// Counts the ranges of one more condition of a verdict map.
    pub fn hold(&mut self, ranges: usize) -> Result<(), Fault> {
        self.held += ranges;
        if self.held > HELD_MAX {
            return Err(Fault::wrong(format!(
                "verdict maps of more than {HELD_MAX} ranges in all"
            )));
        }
        Ok(())
    }

    /// The numbers that a value means.
    pub fn read(
        &mut self,
        value: &Value,
        kind: ValueKind,
        table: (&str, &str),
    ) -> Result<NumberSet, Fault> {
        let mut ranges = Vec::new();
        self.add(value, kind, table, &mut ranges)?;
        Ok(NumberSet::of(ranges))
    }

    /// The numbers of the interfaces that `value` names.
    fn interface(&self, value: &Value) -> Result<NumberSet, Fault> {
        let Some(name) = value.as_str() else {
            return Err(Fault::unsupported("this form of an interface"));
        };
        let named = self.interfaces.named(name, '*');
        named.map_err(|why| Fault::unsupported(format!("`{}`: {why}", short(name))))
    }

    fn add(
        &mut self,
        value: &Value,
        kind: ValueKind,
        table: (&str, &str),
        to: &mut Vec<(u128, u128)>,
    ) -> Result<(), Fault> {
        self.elements += 1;
        if self.elements > ELEMENTS_MAX {
            return Err(Fault::wrong(format!("sets of more than {ELEMENTS_MAX} elements in all")));
        }
        let all = match value {
            Value::String(name) if name.starts_with('@') && self.is_inside => {
                return Err(Fault::wrong("a set in a named set"));
            }
            Value::String(name) if name.starts_with('@') => {
                let all = self.named(table, &name[1..])?;
                self.is_inside = true;
                let read = all.iter().try_for_each(|own| self.add(own, kind, table, to));
                self.is_inside = false;
                return read;
            }
            Value::Object(fields) if fields.contains_key("set") => list(fields.get("set")),
            Value::Object(fields) if fields.contains_key("elem") => {
                let element = &fields["elem"];
                if element.get("timeout").is_some() || element.get("expires").is_some() {
                    return Err(Fault::unsupported("an element that ends by itself"));
                }
                return self.add(element.get("val").unwrap_or(&Value::Null), kind, table, to);
            }
            _ if kind == ValueKind::Interface => {
                to.extend(self.interface(value)?.ranges());
                return Ok(());
            }
            Value::Object(fields) if fields.contains_key("range") => {
                let [first, last] = list(fields.get("range")) else {
                    return Err(Fault::wrong("a range has two ends"));
                };
                let (first, last) = (atom(first, kind)?.0, atom(last, kind)?.1);
                if first > last {
                    return Err(Fault::wrong("a range that ends before it begins"));
                }
                to.push((first, last));
                return Ok(());
            }
            _ => {
                to.push(atom(value, kind)?);
                return Ok(());
            }
        };
        all.iter().try_for_each(|element| self.add(element, kind, table, to))
    }
}

/// A value that is a list, or one by itself.
pub fn list(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(items)) => items,
        Some(one) => std::slice::from_ref(one),
        None => &[],
    }
}

/// A single value: a number, a name, or a prefix.
fn atom(value: &Value, kind: ValueKind) -> Result<(u128, u128), Fault> {
    if let ValueKind::Address(version) = kind {
        return address(value, version);
    }
    let most: u64 = if kind == ValueKind::Port { u16::MAX.into() } else { u8::MAX.into() };
    // The kernel's numbers of states and families are not those here.
    let is_name = matches!(kind, ValueKind::State | ValueKind::Version);
    if let Some(number) = value.as_u64().filter(|&number| number <= most && !is_name) {
        return Ok((number.into(), number.into()));
    }
    let name = value.as_str().and_then(|name| named(name, kind));
    let number = name.ok_or_else(|| match value {
        Value::String(name) => Fault::wrong(format!("`{}` is not {}", short(name), reported(kind))),
        Value::Number(_) => Fault::wrong(format!("a number that is not {}", reported(kind))),
        _ => Fault::unsupported(format!("this form of {}", reported(kind))),
    })?;
    Ok((number.into(), number.into()))
}

fn reported(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Address(4) => "an IPv4 address",
        ValueKind::Address(_) => "an IPv6 address",
        ValueKind::Port => "a port",
        ValueKind::Protocol => "a protocol",
        ValueKind::MessageType(_) => "a type of ICMP",
        ValueKind::MessageCode(_) => "a code of ICMP",
        ValueKind::Flags => "a flag of TCP",
        ValueKind::State => "a state",
        ValueKind::Version => "a version of IP",
        ValueKind::Interface => "an interface",
    }
}

fn address(value: &Value, version: u8) -> Result<(u128, u128), Fault> {
    let (text, len) = match value {
        Value::Object(fields) if fields.contains_key("prefix") => {
            let prefix = &fields["prefix"];
            (prefix.get("addr").and_then(Value::as_str), prefix.get("len").and_then(Value::as_u64))
        }
        Value::Object(_) => return Err(Fault::unsupported("this form of an address")),
        other => (other.as_str(), Some(if version == 4 { 32 } else { 128 })),
    };
    let parsed = text.and_then(|text| text.parse::<IpAddr>().ok());
    let own = parsed.filter(|address| address.is_ipv4() == (version == 4));
    let len = len.and_then(|len| u8::try_from(len).ok());
    let prefix = own.zip(len).and_then(|(address, len)| Prefix::new(address, len));
    let wrong = || Fault::wrong(format!("not {}", reported(ValueKind::Address(version))));
    let set = addresses(&[prefix.ok_or_else(wrong)?], version);
    set.ranges().first().copied().ok_or_else(wrong)
}

fn named(name: &str, kind: ValueKind) -> Option<u8> {
    let find = |names: &[(&str, u8)]| names.iter().find(|(own, _)| *own == name).map(|&(_, n)| n);
    match kind {
        ValueKind::Protocol => {
            const OTHERS: &[(&str, u8)] =
                &[("ipv6-icmp", 58), ("udplite", 136), ("dccp", 33), ("ipencap", 4), ("vrrp", 112)];
            find(PROTOCOLS).or_else(|| find(OTHERS))
        }
        ValueKind::MessageType(4) => find(TYPES_V4),
        ValueKind::MessageType(_) => find(TYPES_V6),
        ValueKind::MessageCode(4) => find(CODES_V4),
        ValueKind::MessageCode(_) => find(CODES_V6),
        ValueKind::Flags => {
            FLAGS.iter().find(|(own, _)| *own == name).map(|&(_, bit)| bit as u8).or(match name {
                "ecn" => Some(0x40),
                "cwr" => Some(0x80),
                _ => None,
            })
        }
        ValueKind::State => States::named(name),
        ValueKind::Version => find(&[("ipv4", 4), ("ip", 4), ("ipv6", 6), ("ip6", 6)]),
        ValueKind::Address(_) | ValueKind::Port | ValueKind::Interface => None,
    }
}

/// A bit set of one or several names.
pub fn bits(value: &Value, kind: ValueKind) -> Result<u8, Fault> {
    let items = match value {
        Value::Object(fields) if fields.contains_key("set") => list(fields.get("set")),
        Value::Object(fields) if fields.contains_key("|") => list(fields.get("|")),
        other => list(Some(other)),
    };
    items.iter().try_fold(0, |all, item| match item {
        Value::Object(fields) if fields.contains_key("|") => Ok(all | bits(item, kind)?),
        _ => Ok(all | atom(item, kind)?.0 as u8),
    })
}

/// A name as messages quote it.
pub fn short(name: &str) -> String {
    name.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

const TYPES_V4: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

const TYPES_V6: &[(&str, u8)] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("mld-listener-reduction", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

const CODES_V4: &[(&str, u8)] = &[
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("frag-needed", 4),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];

const CODES_V6: &[(&str, u8)] = &[
    ("no-route", 0),
    ("admin-prohibited", 1),
    ("addr-unreachable", 3),
    ("port-unreachable", 4),
    ("policy-fail", 5),
    ("reject-route", 6),
];
