//! The rules of the naive firewall: asked one after the other.

use std::fmt;
use std::ops::RangeInclusive;

use crate::prefix::Prefix;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View};

/// Names of the six flags, from the lowest bit.
const FLAGS: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];

/// One end of a packet; an empty list is no condition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    pub(crate) prefixes: Vec<Prefix>,
    pub(crate) ports: Vec<RangeInclusive<u16>>,
}

/// Conditions on the header after that of IP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upper {
    /// Empty for any.
    pub(crate) protocols: Vec<u8>,
    /// Flags that are set, of those that are looked at.
    pub(crate) flags: Option<(u8, u8)>,
    /// Types and codes.
    pub(crate) message: Option<(Vec<u8>, Vec<u8>)>,
}

/// A line of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    pub(crate) accepts: bool,
    pub(crate) established: bool,
    /// Ports by which packets come and leave; each may be turned around.
    pub(crate) ways: [Option<(bool, u16)>; 2],
    pub(crate) upper: Upper,
    pub(crate) src: Side,
    pub(crate) dst: Side,
}

impl Rule {
    /// Whether it is about this packet of IP, which is part of a connection or isn't.
    pub(crate) fn matches(&self, frame: &Frame, view: &View, established: bool) -> bool {
        let (src, dst) = view.addresses(&frame.bytes);
        let within = |side: &Side, address| {
            side.prefixes.is_empty() || side.prefixes.iter().any(|prefix| prefix.holds(address))
        };
        // Without a route a packet leaves by the other port.
        let ways = [frame.interface, frame.out.unwrap_or(1 - frame.interface.min(1))];
        let crosses = |(asked, port): (&Option<(bool, u16)>, u16)| {
            asked.is_none_or(|(not, own)| (own == port) != not)
        };
        self.ways.iter().zip(ways).all(crosses)
            && (established || !self.established)
            && within(&self.src, src)
            && within(&self.dst, dst)
            && self.matches_upper(frame, view)
    }

    fn matches_upper(&self, frame: &Frame, view: &View) -> bool {
        let asks_ports = !self.src.ports.is_empty() || !self.dst.ports.is_empty();
        let with_ports = [TCP, UDP];
        let protocols = match (&self.upper.protocols[..], asks_ports) {
            ([], true) => &with_ports[..],
            (protocols, _) => protocols,
        };
        let of = |protocol: u8| {
            let other = if view.version == 4 { ICMPV6 } else { ICMP };
            protocol == view.protocol && protocol != other
        };
        (protocols.is_empty() || protocols.iter().any(|&protocol| of(protocol)))
            && self.matches_ports(frame, view, asks_ports)
            && self.matches_flags(frame, view)
            && self.matches_message(frame, view)
    }

    /// Fields that can't be read satisfy the conditions of a rule that drops, and no others.
    fn matches_ports(&self, frame: &Frame, view: &View, asks: bool) -> bool {
        let Some((src, dst)) = view.ports(&frame.bytes) else { return !asks || !self.accepts };
        let within = |side: &Side, port: u16| {
            side.ports.is_empty() || side.ports.iter().any(|ports| ports.contains(&port))
        };
        within(&self.src, src) && within(&self.dst, dst)
    }

    fn matches_flags(&self, frame: &Frame, view: &View) -> bool {
        let Some((set, mask)) = self.upper.flags else { return true };
        match view.transport {
            true => frame.bytes[view.l4 + 13] & mask == set,
            false => !self.accepts,
        }
    }

    fn matches_message(&self, frame: &Frame, view: &View) -> bool {
        let Some((types, codes)) = &self.upper.message else { return true };
        match view.message(&frame.bytes) {
            Some((kind, code)) => {
                types.contains(&kind) && (codes.is_empty() || codes.contains(&code))
            }
            None => !self.accepts,
        }
    }
}

impl Rule {
    /// As iptables-save has it for an IP version, if the rule is about that. It has one prefix a
    /// side, one protocol, and no other condition on headers.
    pub(crate) fn iptables(&self, version: u8) -> Option<String> {
        let mut text = String::from("-A FORWARD");
        for (option, way) in ["-i", "-o"].into_iter().zip(self.ways) {
            if let Some((not, port)) = way {
                text += if not { " !" } else { "" };
                text += &format!(" {option} {}", PORTS[usize::from(port)]);
            }
        }
        for (option, side) in [("-s", &self.src), ("-d", &self.dst)] {
            if let Some(prefix) = side.prefixes.first() {
                if prefix.address.is_ipv4() != (version == 4) {
                    return None;
                }
                text += &format!(" {option} {prefix}");
            }
        }
        if let Some(&protocol) = self.upper.protocols.first() {
            if protocol == if version == 4 { ICMPV6 } else { ICMP } {
                return None;
            }
            text += &format!(" -p {protocol}");
        }
        Some(format!("{text} -j {}\n", if self.accepts { "ACCEPT" } else { "DROP" }))
    }
}

/// The ports of a chain that has any.
pub(crate) const PORTS: [&str; 2] = ["lan", "wan"];

/// As the file has it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.accepts { "accept" } else { "drop" })?;
        f.write_str(if self.established { " established" } else { "" })?;
        match &self.upper.protocols[..] {
            [] => f.write_str(" any")?,
            protocols => write!(f, " {}", list(protocols.iter().map(ToString::to_string)))?,
        }
        if let Some((set, mask)) = self.upper.flags {
            let names = |bits: u8| {
                list((0..6).filter(|bit| bits >> bit & 1 == 1).map(|bit| FLAGS[bit].to_owned()))
            };
            let set = if set == 0 { "none".to_owned() } else { names(set) };
            write!(f, " flags {set}/{}", names(mask))?;
        }
        if let Some((types, codes)) = &self.upper.message {
            write!(f, " type {}", list(types.iter().map(ToString::to_string)))?;
            if !codes.is_empty() {
                write!(f, " code {}", list(codes.iter().map(ToString::to_string)))?;
            }
        }
        write!(f, " from {} to {}", self.src, self.dst)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.prefixes[..] {
            [] => f.write_str("any")?,
            prefixes => f.write_str(&list(prefixes.iter().map(ToString::to_string)))?,
        }
        let range = |ports: &RangeInclusive<u16>| format!("{}-{}", ports.start(), ports.end());
        match &self.ports[..] {
            [] => Ok(()),
            ports => write!(f, " port {}", list(ports.iter().map(range))),
        }
    }
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(",")
}
