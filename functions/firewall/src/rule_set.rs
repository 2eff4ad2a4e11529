//! The rules as a search, and what they say of a packet.
//!
//! IPv4 and IPv6 have a search each, over the rules that could match; both keep the file's order.
//! The kind of a packet, the fifth dimension, is a number made of its protocol, of TCP flags or
//! ICMP type and code, and of whether it is part of a connection.

use std::sync::Arc;

use warpline_nf::{HopPorts, Ports};
use warpline_packet::wire::{ip_protocol, tcp};
use warpline_packet::{Flags, Packet};

use warpline_rule_files::kinds::{
    HIDDEN_PORT, KIND_ESTABLISHED, KIND_ICMP, KIND_TCP, KINDS, NO_PORT, PORTS, kind_of_message,
    kind_of_segment,
};
use warpline_rule_files::{Action, EndMatch, RegionRule, Rule};
use warpline_tables::classifier::{
    Number, ROWS_LEN_MAX, Range, Ranges, SearchKey, Space, TooLarge,
};

use super::ways::Ways;

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It passes.
    Accept,
    /// A rule drops it.
    Rule,
    /// No rule matches, and the default is to drop.
    Default,
    /// It is not IP, and such packets are dropped.
    NonIp,
    /// A fragment that is dropped, whatever the rules say.
    Fragment,
    /// The capture cut its headers off.
    Snapped,
    /// Its headers are inconsistent.
    Malformed,
}

/// Settings that apply apart from the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For packets that no rule matches.
    pub default: Action,
    /// For packets that are not IP.
    pub non_ip: Action,
    /// Whether later fragments are dropped without asking the rules.
    pub drop_fragments: bool,
    /// Whether packets of connections are asked after by tracking.
    pub tracked: bool,
}

/// Rules, ready to be searched.
#[derive(Debug)]
pub struct RuleSet {
    policy: Policy,
    /// Packets of connections are accepted ahead of the rules.
    accepts_established: bool,
    first: Arc<Searches>,
    /// Those of other ways through the chain.
    others: Arc<[Searches]>,
    /// Which packets each is for, if rules ask for interfaces.
    ways: Option<Ways>,
}

/// The searches for packets of one way through the chain.
#[derive(Debug)]
pub(super) struct Searches {
    pub(super) v4: Searched<u32>,
    pub(super) v6: Searched<u128>,
}

#[derive(Debug)]
pub(super) struct Searched<A> {
    pub(super) space: Space<A>,
    /// Each rule's place in the file, and what it does.
    pub(super) rules: Vec<(u32, Action)>,
}

impl RuleSet {
    /// Builds the searches.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn build(rules: &[Rule], policy: Policy) -> Result<Self, TooLarge> {
        Ok(Self {
            policy,
            accepts_established: policy.tracked && !rules.iter().any(|rule| rule.established),
            first: Arc::new(Searches {
                v4: Searched::build(rules, 4)?,
                v6: Searched::build(rules, 6)?,
            }),
            others: Arc::default(),
            ways: None,
        })
    }

    /// Builds the searches of rules that were made from chains, of both IP versions in turn, for a
    /// chain with these ports. `hops` has the ports of next hops that packets have by then.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn of_regions(
        rules: &[RegionRule],
        policy: Policy,
        ports: &Ports,
        hops: Option<&HopPorts>,
    ) -> Result<Self, TooLarge> {
        let (ways, members) = match Ways::of(rules, ports, hops) {
            Some((ways, members)) => (Some(ways), members),
            None => (None, vec![(0..rules.len() as u32).collect()]),
        };
        let (mut searches, mut len) = (Vec::with_capacity(members.len()), 0);
        for own in &members {
            let own = || own.iter().map(|&place| (place, &rules[place as usize]));
            let of_way = Searches {
                v4: Searched::of_regions(own(), 4)?,
                v6: Searched::of_regions(own(), 6)?,
            };
            len += of_way.memory_len();
            if members.len() > 1 && len > ROWS_LEN_MAX {
                return Err(TooLarge);
            }
            searches.push(of_way);
        }
        let mut searches = searches.into_iter();
        let first = Arc::new(searches.next().ok_or(TooLarge)?);
        Ok(Self { policy, accepts_established: false, first, others: searches.collect(), ways })
    }

    /// The same rules with `hops` in place of the next hops, if rules ask for their ports.
    pub(super) fn with_hop_ports(&self, hops: &HopPorts) -> Option<Self> {
        let ways = Some(self.ways.as_ref()?.with_hop_ports(hops)?);
        let Self { policy, accepts_established, .. } = *self;
        let (first, others) = (Arc::clone(&self.first), Arc::clone(&self.others));
        Some(Self { policy, accepts_established, first, others, ways })
    }

    /// All searches, by number.
    pub(super) fn searches(&self) -> impl Iterator<Item = &Searches> {
        std::iter::once(&*self.first).chain(&*self.others)
    }

    /// The ways through the chain, if rules ask for interfaces.
    pub(super) fn ways(&self) -> Option<&Ways> {
        self.ways.as_ref()
    }

    /// The searches for a packet.
    #[inline(always)]
    fn searches_for(&self, packet: &Packet<'_>) -> &Searches {
        match &self.ways {
            None => &self.first,
            Some(ways) => {
                let other = ways.search(packet).checked_sub(1);
                other.and_then(|at| self.others.get(at)).unwrap_or(&self.first)
            }
        }
    }

    /// The settings that apply apart from the rules.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether packets of connections are accepted ahead of the rules.
    pub fn accepts_established(&self) -> bool {
        self.accepts_established
    }

    /// Bytes of the searches' arrays.
    pub fn memory_len(&self) -> usize {
        self.searches().map(Searches::memory_len).sum()
    }

    /// The place in the file of the first rule that matches an IPv4 packet, and what it does; of
    /// rules that ask for no interface.
    #[inline]
    pub fn first_v4(&self, key: &SearchKey<u32>) -> Option<(u32, Action)> {
        self.first.v4.first(key)
    }

    /// The same for an IPv6 packet.
    #[inline]
    pub fn first_v6(&self, key: &SearchKey<u128>) -> Option<(u32, Action)> {
        self.first.v6.first(key)
    }

    /// The outcome of a packet that is, or isn't, part of a connection.
    #[inline(always)]
    pub fn decide(&self, packet: &Packet<'_>, established: bool) -> Decision {
        if packet.malformed().is_some() {
            return Decision::Malformed;
        }
        if !packet.has(Flags::TRANSPORT)
            && let Some(decision) = self.without_transport(packet, established)
        {
            return decision;
        }
        if established && self.accepts_established {
            return Decision::Accept;
        }
        match self.first(packet, established) {
            Some((_, Action::Accept)) => Decision::Accept,
            Some((_, Action::Drop)) => Decision::Rule,
            None if self.policy.default == Action::Accept => Decision::Accept,
            None => Decision::Default,
        }
    }

    /// The first rule that matches an IP packet whose headers don't lie.
    #[inline(always)]
    pub fn first(&self, packet: &Packet<'_>, established: bool) -> Option<(u32, Action)> {
        let (src_port, dst_port, kind) = transport(packet);
        let kind = kind + if established { KIND_ESTABLISHED } else { 0 };
        let searches = self.searches_for(packet);
        if packet.version() == 4 {
            let (src, dst) = (packet.src_v4(), packet.dst_v4());
            searches.v4.first(&SearchKey { src, dst, src_port, dst_port, kind })
        } else {
            let (src, dst) = (packet.src_v6(), packet.dst_v6());
            searches.v6.first(&SearchKey { src, dst, src_port, dst_port, kind })
        }
    }

    /// The decision about a packet without a readable transport header, made before or instead of a
    /// search of the rules. `None` if the rules decide. A later fragment of an established
    /// connection follows its first fragment.
    #[cold]
    pub fn without_transport(&self, packet: &Packet<'_>, established: bool) -> Option<Decision> {
        let version = packet.version();
        if version == 0 {
            return Some(self.non_ip(packet));
        }
        let protocol = packet.protocol();
        if packet.has(Flags::LATER_FRAGMENT) {
            // In IPv6 what follows may be one more header, and what it carries is hidden.
            let hidden = version == 6 && ip_protocol::is_extension(protocol);
            let dropped = self.policy.drop_fragments || hidden || overlaps_tcp_header(packet);
            let decision = if dropped { Decision::Fragment } else { Decision::Accept };
            return (dropped || established).then_some(decision);
        }
        let due = match protocol {
            ip_protocol::TCP | ip_protocol::UDP => true,
            ip_protocol::ICMP => version == 4,
            ip_protocol::ICMPV6 => version == 6,
            _ => version == 6 && ip_protocol::is_extension(protocol),
        };
        due.then_some(Decision::Snapped)
    }

    /// A frame that the capture cut inside what may be an IP header is not one that isn't IP.
    fn non_ip(&self, packet: &Packet<'_>) -> Decision {
        if packet.has(Flags::IP_CUT) {
            Decision::Snapped
        } else if self.policy.non_ip == Action::Accept {
            Decision::Accept
        } else {
            Decision::NonIp
        }
    }
}

/// Whether a later fragment would overwrite the TCP header in the first (RFC 1858, 3.2; RFC 3128).
fn overlaps_tcp_header(packet: &Packet<'_>) -> bool {
    let offset = match packet.version() {
        4 => usize::from(packet.ip_fragment() & 0x1fff) * 8,
        _ => fragment_offset_v6(packet).unwrap_or(0),
    };
    packet.protocol() == ip_protocol::TCP && offset < tcp::HEADER_LEN
}

/// The offset that the fragment header says, in bytes. It is the last extension header of a later
/// fragment, 8 bytes before what it carries.
fn fragment_offset_v6(packet: &Packet<'_>) -> Option<usize> {
    let header = packet.ip_options().last_chunk::<8>()?;
    Some(usize::from(u16::from_be_bytes([header[2], header[3]]) & !7))
}

/// Source port, destination port and kind of an IP packet.
#[inline(always)]
fn transport(packet: &Packet<'_>) -> (u32, u32, u32) {
    let protocol = packet.protocol();
    let kind = u32::from(protocol);
    let ports = || (u32::from(packet.src_port()), u32::from(packet.dst_port()));
    match (protocol, packet.has(Flags::TRANSPORT)) {
        (ip_protocol::TCP, true) => {
            let (src, dst) = ports();
            (src, dst, kind_of_segment(packet.tcp_flags() as u8))
        }
        (ip_protocol::UDP, true) => {
            let (src, dst) = ports();
            (src, dst, kind)
        }
        (ip_protocol::TCP | ip_protocol::UDP, false) => (HIDDEN_PORT, HIDDEN_PORT, kind),
        (ip_protocol::ICMP | ip_protocol::ICMPV6, true) => {
            (NO_PORT, NO_PORT, kind_of_message(packet.icmp_type(), packet.icmp_code()))
        }
        _ => (NO_PORT, NO_PORT, kind),
    }
}

impl Searches {
    fn memory_len(&self) -> usize {
        self.v4.space.memory_len() + self.v6.space.memory_len()
    }
}

impl<A: Number> Searched<A> {
    fn build(rules: &[Rule], version: u8) -> Result<Self, TooLarge> {
        let (mut ranges, mut places) = (Ranges::default(), Vec::new());
        for (place, rule) in (0..).zip(rules).filter(|(_, rule)| rule.is_of(version)) {
            let number = places.len() as u32;
            places.push((place, rule.action));
            add(&mut ranges, rule, number, version);
        }
        Self::search(ranges, places)
    }

    fn of_regions<'a>(
        rules: impl Iterator<Item = (u32, &'a RegionRule)>,
        version: u8,
    ) -> Result<Self, TooLarge> {
        let (mut ranges, mut places) = (Ranges::default(), Vec::new());
        for (place, rule) in rules.filter(|(_, rule)| rule.region.version() == version) {
            let number = places.len() as u32;
            places.push((place, rule.action));
            let Ranges { src, dst, src_port, dst_port, kind, .. } = &mut ranges;
            let sets = rule.region.rule_sets(rule.action);
            for (to, set) in [src, dst, src_port, dst_port, kind].into_iter().zip(&sets) {
                let range = |&(first, last): &(u128, u128)| Range { rule: number, first, last };
                to.extend(set.ranges().iter().map(range));
            }
        }
        Self::search(ranges, places)
    }

    fn search(mut ranges: Ranges, places: Vec<(u32, Action)>) -> Result<Self, TooLarge> {
        (ranges.ports, ranges.kinds) = (PORTS, KINDS as usize);
        ranges.rules = places.len();
        if places.is_empty() {
            (ranges.ports, ranges.kinds) = (0, 0);
        }
        Ok(Self { space: Space::build(&ranges)?, rules: places })
    }

    #[inline]
    fn first(&self, key: &SearchKey<A>) -> Option<(u32, Action)> {
        self.rules.get(self.space.first_match(key)?).copied()
    }
}

fn add(ranges: &mut Ranges, rule: &Rule, number: u32, version: u8) {
    add_addresses(&mut ranges.src, &rule.src, number, version);
    add_addresses(&mut ranges.dst, &rule.dst, number, version);
    add_ports(&mut ranges.src_port, &rule.src, rule.action, number);
    add_ports(&mut ranges.dst_port, &rule.dst, rule.action, number);
    let mut add = |first: u32, last: u32| {
        let (first, last) = (u128::from(first), u128::from(last));
        let half = u128::from(KIND_ESTABLISHED);
        if !rule.established {
            ranges.kind.push(Range { rule: number, first, last });
        }
        ranges.kind.push(Range { rule: number, first: first + half, last: last + half });
    };
    if rule.protocols.is_empty() {
        add(0, KIND_ESTABLISHED - 1);
    }
    for &protocol in &rule.protocols {
        add_kinds(&mut add, rule, protocol, version);
    }
}

/// The kinds of packets of `protocol` that meet a rule's conditions. What can't be seen of a packet
/// meets the conditions of a rule that drops, and not those of one that accepts.
fn add_kinds(add: &mut impl FnMut(u32, u32), rule: &Rule, protocol: u8, version: u8) {
    let (own_icmp, other_icmp) = match version {
        4 => (ip_protocol::ICMP, ip_protocol::ICMPV6),
        _ => (ip_protocol::ICMPV6, ip_protocol::ICMP),
    };
    if protocol == other_icmp {
        return;
    }
    let conditional = rule.message.is_some() || rule.flags.is_some();
    if !conditional || rule.action == Action::Drop {
        add(protocol.into(), protocol.into());
    }
    if protocol == ip_protocol::TCP {
        match rule.flags {
            None => add(KIND_TCP, KIND_ICMP - 1),
            Some(flags) => {
                let met = (0..=u8::MAX).filter(|set| set & flags.mask == flags.value);
                met.map(kind_of_segment).for_each(|kind| add(kind, kind));
            }
        }
    }
    if protocol == own_icmp {
        let Some(message) = &rule.message else {
            return add(KIND_ICMP, KIND_ESTABLISHED - 1);
        };
        let all = [0..=u8::MAX];
        let codes = if message.codes.is_empty() { &all[..] } else { &message.codes };
        for kind in message.types.iter().cloned().flatten() {
            for codes in codes {
                add(kind_of_message(kind, *codes.start()), kind_of_message(kind, *codes.end()));
            }
        }
    }
}

fn add_addresses(to: &mut Vec<Range>, side: &EndMatch, rule: u32, version: u8) {
    if side.prefixes.is_empty() {
        to.push(Range { rule, first: 0, last: u128::MAX });
    }
    let own = side.prefixes.iter().filter(|p| p.address().is_ipv4() == (version == 4));
    to.extend(own.map(|&prefix| {
        let (first, last) = prefix.bounds();
        Range { rule, first, last }
    }));
}

fn add_ports(to: &mut Vec<Range>, side: &EndMatch, action: Action, rule: u32) {
    let mut add = |first: u32, last: u32| {
        to.push(Range { rule, first: first.into(), last: last.into() });
    };
    if side.ports.is_empty() {
        return add(0, HIDDEN_PORT);
    }
    side.ports.iter().for_each(|ports| add((*ports.start()).into(), (*ports.end()).into()));
    if action == Action::Drop {
        add(HIDDEN_PORT, HIDDEN_PORT);
    }
}
