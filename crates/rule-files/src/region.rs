//! The packets that a condition lets through, as a product of sets: what rules of other firewalls
//! are made into.
//!
//! Regions can be intersected and, as a few regions, subtracted, which takes jumps and returns of
//! chains apart. A packet whose transport header can't be seen, a later fragment, has a port and a
//! kind of its own. Any condition on that header takes it out, even one that every header meets.
//! When a region becomes a rule, a rule that drops gets such packets back. A rule that accepts
//! keeps them only if it accepts every port and kind that they may have.

use warpline_packet::Prefix;
use warpline_packet::wire::ip_protocol;

use crate::kinds::{
    HIDDEN_PORT, KIND_ESTABLISHED, KIND_ICMP, KIND_TCP, KINDS, NO_PORT, kind_of_message,
    kind_of_segment,
};
use crate::rules::Action;
use crate::{NO_PORT_OUT, NumberSet, PortDirection};

/// Packets of one IP version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    version: u8,
    /// Source and destination address, source and destination port, kind.
    pub sets: [NumberSet; DIMENSIONS],
}

/// Sets that a classifier matches: all except those of interfaces.
pub const MATCHED: usize = 5;
const DIMENSIONS: usize = 7;
const SRC: usize = 0;
const SRC_PORT: usize = 2;
const KIND: usize = 4;
const WAY_IN: usize = 5;
const WAY_OUT: usize = 6;

/// A region and what becomes of its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRule {
    /// The packets.
    pub region: Region,
    /// The action on them.
    pub action: Action,
    /// The line or handle of the rule that decides.
    pub place: u32,
}

/// An end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Src,
    Dst,
}

/// The connection states of a packet, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States(pub(crate) u8);

impl States {
    pub const NEW: u8 = 1;
    pub const ESTABLISHED: u8 = 2;
    /// An ICMP error about a connection.
    pub const RELATED: u8 = 4;
    /// Nothing that opens a connection; TCP of this kind is dropped before the rules are asked.
    pub const INVALID: u8 = 8;
    /// Neighbour discovery and group membership.
    pub const UNTRACKED: u8 = 16;
    pub const ALL: u8 = 31;

    /// The state called `name`, in lower case.
    pub fn named(name: &str) -> Option<u8> {
        Some(match name {
            "new" => Self::NEW,
            "established" => Self::ESTABLISHED,
            "related" => Self::RELATED,
            "invalid" => Self::INVALID,
            "untracked" => Self::UNTRACKED,
            _ => return None,
        })
    }
}

impl Region {
    /// All packets of a version.
    pub fn all(version: u8) -> Self {
        let addresses = NumberSet::range(0, if version == 4 { u32::MAX.into() } else { u128::MAX });
        let ports = NumberSet::range(0, HIDDEN_PORT.into());
        let kinds = NumberSet::range(0, (KINDS - 1).into());
        let interfaces = NumberSet::range(0, NO_PORT_OUT.into());
        let (sources, way_in) = (addresses.clone(), interfaces.clone());
        let sets = [sources, addresses, ports.clone(), ports, kinds, way_in, interfaces];
        Self { version, sets }
    }

    /// The IP version: 4 or 6.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Whether it has no packet.
    pub fn is_empty(&self) -> bool {
        self.sets.iter().any(NumberSet::is_empty)
    }

    /// How many ranges it is made of.
    pub fn ranges(&self) -> usize {
        self.sets.iter().map(|set| set.ranges().len()).sum()
    }

    /// The packets of both.
    pub fn and(&self, other: &Self) -> Self {
        let sets = std::array::from_fn(|d| self.sets[d].and(&other.sets[d]));
        Self { version: self.version, sets }
    }

    /// The packets of this one that `other` lacks, as regions that don't overlap.
    pub fn minus(&self, other: &Self) -> Vec<Self> {
        let (mut pieces, mut rest) = (Vec::new(), self.clone());
        for d in 0..DIMENSIONS {
            let mut piece = rest.clone();
            piece.sets[d] = rest.sets[d].minus(&other.sets[d]);
            if !piece.is_empty() {
                pieces.push(piece);
            }
            rest.sets[d] = rest.sets[d].and(&other.sets[d]);
            if rest.sets[d].is_empty() {
                break;
            }
        }
        pieces
    }

    /// Leaves packets that come in or leave by one of these interfaces, or all others.
    pub fn interface(&mut self, way: PortDirection, interfaces: &NumberSet, negated: bool) {
        let dimension = if way == PortDirection::In { WAY_IN } else { WAY_OUT };
        self.narrow(dimension, interfaces, negated);
    }

    /// The interfaces by which its packets come in, and those by which they leave. The second has
    /// [`NO_PORT_OUT`] for packets without one.
    pub fn interfaces(&self) -> [&NumberSet; 2] {
        [&self.sets[WAY_IN], &self.sets[WAY_OUT]]
    }

    fn narrow(&mut self, dimension: usize, to: &NumberSet, negated: bool) {
        let set = &mut self.sets[dimension];
        *set = if negated { set.minus(to) } else { set.and(to) };
    }

    /// Leaves packets with one of these addresses at an end, or with none of them.
    pub fn address(&mut self, end: End, addresses: &NumberSet, negated: bool) {
        self.narrow(SRC + end as usize, addresses, negated);
    }

    /// Leaves packets whose TCP or UDP header can be seen.
    pub fn ported(&mut self) {
        for end in [End::Src, End::Dst] {
            self.port(end, &all_ports(), false);
        }
    }

    /// Leaves packets with one of these ports at an end.
    pub fn port(&mut self, end: End, ports: &NumberSet, negated: bool) {
        let ports = if negated { all_ports().minus(ports) } else { ports.and(&all_ports()) };
        self.narrow(SRC_PORT + end as usize, &ports, false);
    }

    /// Leaves packets of these protocols, or of all others.
    pub fn protocols(&mut self, protocols: &NumberSet, negated: bool) {
        let mut kinds = Vec::new();
        for protocol in (0..=u8::MAX).filter(|&p| protocols.and(&one(p)) == one(p)) {
            kinds.extend([kinds_of(protocol, self.version), (protocol.into(), protocol.into())]);
        }
        self.narrow(KIND, &both_halves(kinds), negated);
    }

    /// Narrows to TCP segments whose flags (the 14th byte of the header) satisfy `has`.
    pub fn flags(&mut self, has: impl Fn(u8) -> bool) {
        let kinds = (0..=u8::MAX).filter(|&flags| has(flags)).map(kind_of_segment);
        self.narrow(KIND, &both_halves(kinds.map(|kind| (kind, kind)).collect()), false);
    }

    /// Leaves messages of the version's own ICMP with one of these types and one of these codes, or
    /// all others of its messages.
    pub fn messages(&mut self, types: &NumberSet, codes: &NumberSet, negated: bool) {
        let mut kinds = Vec::new();
        for kind in (0..=u8::MAX).filter(|&t| types.and(&one(t)) == one(t)) {
            for &(first, last) in codes.ranges() {
                let last = last.min(u8::MAX.into()) as u8;
                kinds.push((kind_of_message(kind, first as u8), kind_of_message(kind, last)));
            }
        }
        let all = both_halves(vec![kinds_of(own_icmp(self.version), self.version)]);
        self.narrow(KIND, &all, false);
        self.narrow(KIND, &both_halves(kinds), negated);
    }

    /// Leaves packets in one of these states.
    pub fn states(&mut self, states: States) {
        let wanted = |state| states.0 & state != 0;
        let mut kinds = Vec::new();
        let (related, half) = (related(self.version), KIND_ESTABLISHED);
        let mut add = |first: u32, last: u32| kinds.push((first.into(), last.into()));
        for message in 0..=u8::MAX {
            let (first, last) = (kind_of_message(message, 0), kind_of_message(message, u8::MAX));
            if wanted(state_of_lone(self.version, message)) {
                add(first, last);
            }
            let state =
                if related.contains(&message) { States::RELATED } else { States::ESTABLISHED };
            if wanted(state) {
                add(half + first, half + last);
            }
        }
        if wanted(States::NEW) {
            add(0, KIND_ICMP - 1);
        }
        if wanted(States::ESTABLISHED) {
            add(half, half + KIND_ICMP - 1);
        }
        self.narrow(KIND, &NumberSet::of(kinds), false);
    }

    /// Whether all of its packets are TCP or UDP.
    pub fn has_ports(&self) -> bool {
        let mut ported = self.clone();
        let protocols = [ip_protocol::TCP, ip_protocol::UDP].map(|p| (p.into(), p.into()));
        ported.protocols(&NumberSet::of(protocols.to_vec()), false);
        ported == *self
    }

    /// The sets of a rule that does `action`.
    pub fn rule_sets(&self, action: Action) -> [NumberSet; MATCHED] {
        let mut sets: [NumberSet; MATCHED] = std::array::from_fn(|d| self.sets[d].clone());
        let settle = |set: &mut NumberSet, all: &NumberSet, hidden: u32| {
            let all = all.or(&NumberSet::range(hidden.into(), hidden.into()));
            let hidden = NumberSet::range(hidden.into(), hidden.into());
            match action {
                Action::Drop if set.and(&all).is_empty() => {}
                Action::Drop => *set = set.or(&hidden),
                Action::Accept if set.holds(&all) => {}
                Action::Accept => *set = set.minus(&hidden),
            }
        };
        for ports in &mut sets[SRC_PORT..KIND] {
            settle(ports, &NumberSet::range(0, NO_PORT.into()), HIDDEN_PORT);
        }
        for protocol in [ip_protocol::TCP, own_icmp(self.version)] {
            for half in [0, KIND_ESTABLISHED] {
                let (first, last) = kinds_of(protocol, self.version);
                let all = NumberSet::range((half + first).into(), (half + last).into());
                settle(&mut sets[KIND], &all, half + u32::from(protocol));
            }
        }
        sets
    }
}

/// The numbers of prefixes of a version.
pub(crate) fn addresses(prefixes: &[Prefix], version: u8) -> NumberSet {
    let own = prefixes.iter().filter(|p| p.address().is_ipv4() == (version == 4));
    NumberSet::of(own.map(|prefix| prefix.bounds()).collect())
}

fn all_ports() -> NumberSet {
    NumberSet::range(0, u16::MAX.into())
}

fn one(number: u8) -> NumberSet {
    NumberSet::range(number.into(), number.into())
}

fn own_icmp(version: u8) -> u8 {
    if version == 4 { ip_protocol::ICMP } else { ip_protocol::ICMPV6 }
}

/// The kinds of packets of a protocol that are part of no connection and can be seen.
fn kinds_of(protocol: u8, version: u8) -> (u32, u32) {
    match protocol {
        ip_protocol::TCP => (KIND_TCP, KIND_ICMP - 1),
        _ if protocol == own_icmp(version) => (KIND_ICMP, KIND_ESTABLISHED - 1),
        _ => (protocol.into(), protocol.into()),
    }
}

/// The same kinds of packets of connections too.
fn both_halves(kinds: Vec<(u32, u32)>) -> NumberSet {
    let shifted = |half: u32| {
        move |&(first, last): &(u32, u32)| (u128::from(first + half), u128::from(last + half))
    };
    let established = kinds.iter().map(shifted(KIND_ESTABLISHED));
    NumberSet::of(kinds.iter().map(shifted(0)).chain(established).collect())
}

/// Types of ICMP that are about a connection where they are part of one (RFC 792; RFC 4443, 2.1).
fn related(version: u8) -> Vec<u8> {
    if version == 4 { vec![3, 4, 5, 11, 12] } else { (0..128).collect() }
}

/// The state of an ICMP message that is part of no connection: requests are new; neighbour
/// discovery and group membership are not tracked; the rest answers nothing.
fn state_of_lone(version: u8, message: u8) -> u8 {
    match (version, message) {
        (4, 8 | 13 | 15 | 17) | (6, 128 | 139) => States::NEW,
        (6, 130..=136 | 143) => States::UNTRACKED,
        _ => States::INVALID,
    }
}
