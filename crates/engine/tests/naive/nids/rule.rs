//! Rules on packets, as Suricata's manual has them: their headers, and tests of the packet's own
//! headers.

use std::net::IpAddr;

use super::content::{Content, hold};
use super::subject::Subject;
use crate::prefix::Prefix;
use crate::wire::{ICMP, ICMPV6, TCP, UDP};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Pass,
    Drop,
    Reject,
    Alert,
}

/// The ends that get notice of a rejected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Source,
    Destination,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Ip,
    Ipv4,
    Ipv6,
    Tcp,
    /// TCP packet by packet.
    TcpPacket,
    Udp,
    Icmp,
    Icmpv4,
    Icmpv6,
}

/// Items, and those that are excluded.
#[derive(Clone, Debug)]
pub(crate) struct Set<T> {
    pub(crate) has: Vec<T>,
    pub(crate) lacks: Vec<T>,
}

/// First and last port.
pub(crate) type Ports = (u16, u16);

#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) addresses: Set<Prefix>,
    pub(crate) ports: Set<Ports>,
}

/// How a number is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Is(u32),
    Not(u32),
    Below(u32),
    Above(u32),
    /// Without both.
    Between(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagsHow {
    Exactly,
    All,
    Any,
    NotAll,
}

/// A test of a packet's own headers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Test {
    Dsize(Number),
    Ttl(Number),
    Id(Number),
    Itype(Number),
    Icode(Number),
    IcmpId(Number),
    IcmpSeq(Number),
    Tos(u8),
    /// How, which, and which are not looked at.
    Flags(FlagsHow, u8, u8),
    IpProto(u8),
    SameIp,
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) action: Action,
    /// If it rejects.
    pub(crate) whom: Whom,
    pub(crate) protocol: Protocol,
    pub(crate) src: End,
    pub(crate) dst: End,
    pub(crate) both_ways: bool,
    pub(crate) tests: Vec<Test>,
    pub(crate) contents: Vec<Content>,
    pub(crate) sid: u32,
    pub(crate) rev: u32,
    pub(crate) priority: Option<u8>,
    pub(crate) is_silent: bool,
}

impl<T> Set<T> {
    /// Everything.
    pub(crate) fn any() -> Self {
        Self { has: Vec::new(), lacks: Vec::new() }
    }
}

impl Rule {
    /// Its priority; the lowest number comes first.
    pub(crate) fn rank(&self) -> u8 {
        self.priority.unwrap_or(3)
    }

    pub(crate) fn matches(&self, subject: &Subject<'_>) -> bool {
        let [one, other] = subject.ends();
        let ends = self.src.has(one) && self.dst.has(other)
            || self.both_ways && self.src.has(other) && self.dst.has(one);
        ends && self.protocol.fits(subject)
            && self.tests.iter().all(|test| test.holds(subject))
            && hold(&self.contents, subject.payload)
    }
}

impl Protocol {
    fn fits(self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Ip => true,
            Self::Ipv4 => subject.version == 4,
            Self::Ipv6 => subject.version == 6,
            Self::Tcp | Self::TcpPacket => subject.protocol == TCP,
            Self::Udp => subject.protocol == UDP,
            Self::Icmp => [ICMP, ICMPV6].contains(&subject.protocol),
            Self::Icmpv4 => subject.protocol == ICMP,
            Self::Icmpv6 => subject.protocol == ICMPV6,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Tcp => "tcp",
            Self::TcpPacket => "tcp-pkt",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
            Self::Icmpv4 => "icmpv4",
            Self::Icmpv6 => "icmpv6",
        }
    }
}

impl End {
    /// A packet without ports is only in the set of all ports.
    fn has(&self, (address, port): (IpAddr, Option<u16>)) -> bool {
        has_address(&self.addresses, address)
            && port.map_or_else(|| is_any_port(&self.ports), |port| has_port(&self.ports, port))
    }
}

/// A set that excludes networks of one IP version alone is about that version alone.
fn has_address(set: &Set<Prefix>, address: IpAddr) -> bool {
    let is_any = set.has.is_empty() && set.lacks.is_empty();
    let of_version =
        |all: &[Prefix]| all.iter().any(|prefix| prefix.address.is_ipv4() == address.is_ipv4());
    let within = |all: &[Prefix]| all.iter().any(|prefix| prefix.holds(address));
    let is_there = if set.has.is_empty() { of_version(&set.lacks) } else { within(&set.has) };
    is_any || is_there && !within(&set.lacks)
}

/// Whether every port is in a set: those where it might change are.
fn is_any_port(set: &Set<Ports>) -> bool {
    let ends =
        set.has.iter().chain(&set.lacks).flat_map(|&(first, last)| {
            [first.saturating_sub(1), first, last, last.saturating_add(1)]
        });
    ends.chain([0, u16::MAX]).all(|port| has_port(set, port))
}

fn has_port(set: &Set<Ports>, port: u16) -> bool {
    let within = |all: &[Ports]| all.iter().any(|(first, last)| (*first..=*last).contains(&port));
    (set.has.is_empty() || within(&set.has)) && !within(&set.lacks)
}

impl Number {
    fn holds(self, number: u32) -> bool {
        match self {
            Self::Is(own) => number == own,
            Self::Not(own) => number != own,
            Self::Below(own) => number < own,
            Self::Above(own) => number > own,
            Self::Between(low, high) => low < number && number < high,
        }
    }
}

impl Test {
    /// A packet that lacks the header in question isn't as said.
    fn holds(self, subject: &Subject<'_>) -> bool {
        let is = |test: Number, found: Option<u32>| found.is_some_and(|found| test.holds(found));
        match self {
            // With Suricata, what is of another size has a payload.
            Self::Dsize(Number::Not(_)) if subject.payload.is_empty() => false,
            Self::Dsize(test) => test.holds(subject.payload.len() as u32),
            Self::Ttl(test) => is(test, subject.ttl()),
            Self::Id(test) => is(test, subject.ident()),
            Self::Itype(test) => is(test, subject.message(0)),
            Self::Icode(test) => is(test, subject.message(1)),
            Self::IcmpId(test) => is(test, subject.echo(4)),
            Self::IcmpSeq(test) => is(test, subject.echo(6)),
            Self::Tos(own) => subject.tos() == Some(own.into()),
            Self::IpProto(own) => subject.protocol == own,
            Self::SameIp => subject.ends()[0].0 == subject.ends()[1].0,
            Self::Flags(how, bits, ignored) => subject.flags().is_some_and(|flags| {
                // Where none is asked for, none is left out.
                let found = if bits == 0 { flags } else { flags & !ignored };
                match how {
                    FlagsHow::Exactly => found == bits,
                    FlagsHow::All => found & bits == bits,
                    FlagsHow::Any => found & bits != 0,
                    FlagsHow::NotAll => found & bits != bits,
                }
            }),
        }
    }
}
