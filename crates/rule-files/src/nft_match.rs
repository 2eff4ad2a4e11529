//! The conditions of a rule of nftables: `match` and the keys of verdict maps.

use serde_json::Value;
use warpline_packet::wire::ip_protocol;

use crate::nft_value::{Fault, Sets, ValueKind, bits, list, short};
use crate::region::{End, Region, States};
use crate::{NumberSet, PortDirection};

/// The part of a packet that a condition examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Address(u8, End),
    /// Of a protocol, or of either (`th`).
    Port(Option<u8>, End),
    /// Of IPv4 alone where it is the field of its header.
    Protocol(Option<u8>),
    Version,
    MessageType(u8),
    MessageCode(u8),
    /// The flags that are looked at.
    Flags(u8),
    State,
    Interface(PortDirection),
}

/// Packets of IPv4 and of IPv6 that satisfy the conditions read so far; `None` if no packet can.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) when: [Option<Region>; 2],
}

impl Conditions {
    /// All packets of the family of a table.
    pub(crate) fn of_family(family: &str) -> Self {
        let v4 = (family != "ip6").then(|| Region::all(4));
        let v6 = (family != "ip").then(|| Region::all(6));
        Self { when: [v4, v6] }
    }

    /// How many ranges they are made of, and one more.
    pub(crate) fn ranges(&self) -> usize {
        1 + self.when.iter().flatten().map(Region::ranges).sum::<usize>()
    }

    /// Narrows to packets of an IP version.
    pub(crate) fn keep(&mut self, version: u8) {
        self.when[usize::from(version == 4)] = None;
    }

    fn each(&mut self, change: impl FnMut(&mut Region)) {
        self.when.iter_mut().flatten().for_each(change);
        for when in &mut self.when {
            when.take_if(|region| region.is_empty());
        }
    }

    /// Narrows to the packets that a `match` statement selects.
    pub(crate) fn add_match(
        &mut self,
        statement: &Value,
        sets: &mut Sets<'_>,
        table: (&str, &str),
        tracked: bool,
    ) -> Result<(), Fault> {
        let null = &Value::Null;
        let part = |name| statement.get(name).unwrap_or(null);
        let (left, right) = (left(part("left"))?, part("right"));
        let op = part("op").as_str().unwrap_or("==");
        self.add(left, op, right, sets, table, tracked)
    }

    /// Narrows to the packets whose `key`, in a verdict map, is `value`.
    pub(crate) fn add_key(
        &mut self,
        key: &Value,
        value: &Value,
        sets: &mut Sets<'_>,
        table: (&str, &str),
        tracked: bool,
    ) -> Result<(), Fault> {
        let left = left(key)?;
        let op = if left == Left::State { "in" } else { "==" };
        self.add(left, op, value, sets, table, tracked)
    }

    fn add(
        &mut self,
        left: Left,
        op: &str,
        right: &Value,
        sets: &mut Sets<'_>,
        table: (&str, &str),
        tracked: bool,
    ) -> Result<(), Fault> {
        match left {
            Left::State if !tracked => {
                let why = "`ct state` requires established = true in the firewall's table";
                return Err(Fault::wrong(why));
            }
            Left::State if matches!(op, "==" | "!=") && is_several(right) => {
                // A packet has one state: one that equals several is none.
                return Err(Fault::unsupported("several states compared as one"));
            }
            Left::State => {
                let states = bits(right, ValueKind::State)?;
                let states = match op {
                    "in" | "==" => states,
                    "!=" | "!" => States::ALL & !states,
                    _ => return Err(no_operator(op)),
                };
                self.each(|region| region.states(States(states)));
                return Ok(());
            }
            Left::Flags(mask) => return self.flags(mask, op, right),
            _ => {}
        }
        let mut read = sets.read(right, kind(left), table)?;
        let mut left = left;
        if let Left::Interface(way) = left {
            let (seen, ports) = sets.interfaces.seen(way, read).map_err(Fault::Unsupported)?;
            sets.presumes_crossing |= sets.interfaces.presumes(way);
            (left, read) = (Left::Interface(seen), ports);
        }
        let (set, negated) = compared(op, read)?;
        match left {
            Left::Address(version, end) => {
                self.keep(version);
                self.each(|region| region.address(end, &set, negated));
            }
            Left::Port(protocol, end) => {
                self.ported(protocol)?;
                self.each(|region| region.port(end, &set, negated));
            }
            Left::Protocol(version) => self.protocols(version, &set, negated)?,
            Left::Version => {
                for (at, version) in [4u128, 6].into_iter().enumerate() {
                    let has = !set.and(&NumberSet::range(version, version)).is_empty();
                    if has == negated {
                        self.when[at] = None;
                    }
                }
            }
            Left::MessageType(version) => {
                self.keep(version);
                self.each(|region| region.messages(&set, &octets(), negated));
            }
            Left::MessageCode(version) => {
                self.keep(version);
                self.each(|region| region.messages(&octets(), &set, negated));
            }
            Left::Interface(way) => self.each(|region| region.interface(way, &set, negated)),
            Left::Flags(_) | Left::State => {}
        }
        Ok(())
    }

    fn flags(&mut self, mask: u8, op: &str, right: &Value) -> Result<(), Fault> {
        let sets = matches!(right, Value::Object(fields) if fields.contains_key("set"));
        if sets || right.as_str().is_some_and(|name| name.starts_with('@')) {
            return Err(Fault::unsupported("a set of flags of TCP"));
        }
        let set = if right.as_u64() == Some(0) { 0 } else { bits(right, ValueKind::Flags)? };
        match op {
            "==" => self.each(|region| region.flags(|flags| flags & mask == set)),
            "!=" => self.each(|region| region.flags(|flags| flags & mask != set)),
            "in" => self.each(|region| region.flags(|flags| flags & mask & set != 0)),
            "!" => self.each(|region| region.flags(|flags| flags & mask & set == 0)),
            _ => return Err(no_operator(op)),
        }
        Ok(())
    }

    fn protocols(
        &mut self,
        version: Option<u8>,
        set: &NumberSet,
        negated: bool,
    ) -> Result<(), Fault> {
        if let Some(version) = version {
            self.keep(version);
        }
        let one = |number: u8| NumberSet::range(number.into(), number.into());
        let extension = |number: &u8| ip_protocol::is_extension(*number);
        let extensions = (0..=u8::MAX)
            .filter(extension)
            .fold(NumberSet::default(), |all, number| all.or(&one(number)));
        if self.when[1].is_some() && !set.and(&extensions).is_empty() {
            return Err(Fault::unsupported("an IPv6 extension header as a protocol"));
        }
        self.each(|region| region.protocols(set, negated));
        Ok(())
    }

    /// Ports are seen of TCP and UDP alone.
    fn ported(&mut self, protocol: Option<u8>) -> Result<(), Fault> {
        match protocol {
            Some(number @ (ip_protocol::TCP | ip_protocol::UDP)) => {
                let set = NumberSet::range(number.into(), number.into());
                self.each(|region| region.protocols(&set, false));
                Ok(())
            }
            None if self.when.iter().flatten().all(Region::has_ports) => Ok(()),
            _ => Err(Fault::unsupported("ports of other protocols than TCP and UDP")),
        }
    }
}

/// Whether a value is made of several bits, and no set of values.
fn is_several(value: &Value) -> bool {
    value.get("|").is_some() || list(Some(value)).len() > 1
}

fn octets() -> NumberSet {
    NumberSet::range(0, u8::MAX.into())
}

fn no_operator(op: &str) -> Fault {
    Fault::unsupported(format!("the operator `{}`", short(op)))
}

/// The numbers that a comparison with `set` holds for, or, where `true`, doesn't.
fn compared(op: &str, set: NumberSet) -> Result<(NumberSet, bool), Fault> {
    let one = match set.ranges() {
        [(first, last)] if first == last => Some(*first),
        _ => None,
    };
    match (op, one) {
        ("==" | "in", _) => Ok((set, false)),
        ("!=", _) => Ok((set, true)),
        (">=", Some(number)) => Ok((NumberSet::range(number, u128::MAX), false)),
        ("<=", Some(number)) => Ok((NumberSet::range(0, number), false)),
        ("<", Some(number)) => Ok((NumberSet::range(number, u128::MAX), true)),
        (">", Some(number)) => Ok((NumberSet::range(0, number), true)),
        _ => Err(no_operator(op)),
    }
}

fn kind(left: Left) -> ValueKind {
    match left {
        Left::Address(version, _) => ValueKind::Address(version),
        Left::Port(..) => ValueKind::Port,
        Left::Protocol(_) => ValueKind::Protocol,
        Left::Version => ValueKind::Version,
        Left::MessageType(version) => ValueKind::MessageType(version),
        Left::MessageCode(version) => ValueKind::MessageCode(version),
        Left::Flags(_) => ValueKind::Flags,
        Left::State => ValueKind::State,
        Left::Interface(_) => ValueKind::Interface,
    }
}

fn left(value: &Value) -> Result<Left, Fault> {
    let text = |of: &Value, name: &str| {
        of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if let Some(payload) = value.get("payload") {
        if let Some(base) = payload.get("base").and_then(Value::as_str) {
            return Err(Fault::unsupported(format!("bytes at an offset (@{})", short(base))));
        }
        let (protocol, field) = (text(payload, "protocol"), text(payload, "field"));
        return payload_field(&protocol, &field);
    }
    if let Some(masked) = value.get("&").and_then(Value::as_array)
        && let [of, mask] = &masked[..]
        && left(of)? == Left::Flags(u8::MAX)
    {
        return Ok(Left::Flags(bits(mask, ValueKind::Flags)?));
    }
    if let Some(meta) = value.get("meta") {
        return match &text(meta, "key")[..] {
            "iifname" | "iif" => Ok(Left::Interface(PortDirection::In)),
            "oifname" | "oif" => Ok(Left::Interface(PortDirection::Out)),
            "l4proto" => Ok(Left::Protocol(None)),
            "nfproto" | "protocol" => Ok(Left::Version),
            other => Err(Fault::unsupported(format!("meta {}", short(other)))),
        };
    }
    if let Some(ct) = value.get("ct") {
        return match &text(ct, "key")[..] {
            "state" => Ok(Left::State),
            other => Err(Fault::unsupported(format!("ct {}", short(other)))),
        };
    }
    let name = value.as_object().and_then(|fields| fields.keys().next());
    Err(Fault::unsupported(format!("a condition on {}", short(name.map_or("this", |n| n)))))
}

fn payload_field(protocol: &str, field: &str) -> Result<Left, Fault> {
    let version = if matches!(protocol, "ip" | "icmp") { 4 } else { 6 };
    let ported = match protocol {
        "tcp" => Some(ip_protocol::TCP),
        "udp" => Some(ip_protocol::UDP),
        _ => None,
    };
    Ok(match (protocol, field) {
        ("ip" | "ip6", "saddr") => Left::Address(version, End::Src),
        ("ip" | "ip6", "daddr") => Left::Address(version, End::Dst),
        ("ip", "protocol") => Left::Protocol(Some(4)),
        ("tcp" | "udp" | "th", "sport") => Left::Port(ported, End::Src),
        ("tcp" | "udp" | "th", "dport") => Left::Port(ported, End::Dst),
        ("tcp", "flags") => Left::Flags(u8::MAX),
        ("icmp" | "icmpv6", "type") => Left::MessageType(version),
        ("icmp" | "icmpv6", "code") => Left::MessageCode(version),
        _ => {
            let what = format!("{} {}", short(protocol), short(field));
            return Err(Fault::unsupported(what));
        }
    })
}
