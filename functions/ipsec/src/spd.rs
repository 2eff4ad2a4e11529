//! The policy search: which policy decides about a packet in the clear (RFC 4301, 4.4.1).

use core::net::IpAddr;
use core::ops::RangeInclusive;

use warpline_packet::{Headers, Prefix, prefetch};

use super::sa::{Action, Policy, Selector};
use super::traffic::{ANY_PORT, Port, Traffic, addresses_v4};
use warpline_tables::classifier::{Range, Ranges, SearchKey, Space, TooLarge};

mod by_dst;

use by_dst::{Address, ByDst};

const NO_PORT: u32 = 1 << 16;
const HIDDEN_PORT: u32 = NO_PORT + 1;
const HIDDEN_PROTOCOL: u32 = 256;

/// The policies, ready to be searched.
#[derive(Debug)]
pub(super) struct Spd {
    v4: Searched<u32>,
    v6: Searched<u128>,
}

/// The decision of the policies about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The action of the first that matches.
    Is(Action),
    /// None matches.
    None,
    /// The first that may match asks for what lies in another fragment.
    Uncertain,
}

#[derive(Debug)]
struct Searched<A> {
    search: Search<A>,
    policies: Vec<PolicyEntry<A>>,
    /// The row of the SA by which each of them protects, close together.
    rows: Vec<Option<u16>>,
}

/// The index that finds the first policy that may match.
#[derive(Debug)]
enum Search<A> {
    /// Where a packet goes leaves few to be compared.
    ByDst(ByDst<A>),
    /// Whatever the policies are.
    Space(Box<Space<A>>),
}

/// A policy of one IP version, and its conditions besides the destination: for IPv4 one cache line.
#[repr(align(64))]
#[derive(Clone, Copy, Debug)]
struct PolicyEntry<A> {
    /// First and last.
    src: [A; 2],
    protocol: Option<u8>,
    /// First and last number, where any is asked for up to that of none.
    src_ports: [u32; 2],
    dst_ports: [u32; 2],
    /// Whether it asks for addresses alone.
    is_wide: bool,
    action: Action,
}

impl<A: Address> PolicyEntry<A> {
    fn new(policy: &Policy) -> Self {
        let Selector { src, protocol, src_ports, dst_ports, .. } = &policy.selector;
        let (first, last) = src.bounds();
        let ports = |ports: &RangeInclusive<u16>| match *ports == ANY_PORT {
            true => [0, NO_PORT],
            false => [(*ports.start()).into(), (*ports.end()).into()],
        };
        let mut found = Self {
            src: [A::from_wide(first), A::from_wide(last)],
            protocol: *protocol,
            src_ports: ports(src_ports),
            dst_ports: ports(dst_ports),
            is_wide: false,
            action: policy.action,
        };
        found.is_wide = protocol.is_none() && !found.asks_ports();
        found
    }

    /// Whether it may be for a packet that goes where it says; what is hidden may be anything.
    #[inline(always)]
    fn may_match(&self, key: &SearchKey<A>) -> bool {
        let in_ports = |port: u32, [first, last]: [u32; 2]| {
            port == HIDDEN_PORT || (first..=last).contains(&port)
        };
        self.is_from(key.src)
            && self
                .protocol
                .is_none_or(|own| key.kind == u32::from(own) || key.kind == HIDDEN_PROTOCOL)
            && in_ports(key.src_port, self.src_ports)
            && in_ports(key.dst_port, self.dst_ports)
    }

    #[inline(always)]
    fn is_from(&self, src: A) -> bool {
        self.src[0] <= src && src <= self.src[1]
    }

    fn asks_ports(&self) -> bool {
        [self.src_ports, self.dst_ports] != [[0, NO_PORT]; 2]
    }
}

impl Spd {
    /// # Errors
    /// [`TooLarge`].
    pub(super) fn build(policies: &[Policy]) -> Result<Self, TooLarge> {
        Ok(Self { v4: Searched::build(policies, false)?, v6: Searched::build(policies, true)? })
    }

    /// Asks for what the decision about a packet to `dst` will read.
    #[inline]
    pub(super) fn fetch(&self, dst: IpAddr) {
        match (dst, &self.v4.search, &self.v6.search) {
            (IpAddr::V4(dst), Search::ByDst(by_dst), _) => by_dst.fetch(dst.to_bits()),
            (IpAddr::V6(dst), _, Search::ByDst(by_dst)) => by_dst.fetch(dst.to_bits()),
            _ => {}
        }
    }

    /// Prefetches the policy that the decision about a packet to `dst` will read first, once
    /// [`Spd::fetch`] is done, and returns the row of its SA.
    #[inline]
    pub(super) fn fetch_policy(&self, dst: IpAddr) -> Option<u16> {
        match dst {
            IpAddr::V4(dst) => self.v4.fetch_policy(dst.to_bits()),
            IpAddr::V6(dst) => self.v6.fetch_policy(dst.to_bits()),
        }
    }

    /// The decision for the packet with these headers; `None` if it is not IP or cut inside its
    /// header.
    #[inline(always)]
    pub(super) fn decide_packet(&self, frame: &[u8], headers: &Headers) -> Option<Decision> {
        match self.decide_by_addresses(frame, headers) {
            Some(decision) => Some(decision),
            None => self.decide_by_all(frame, headers),
        }
    }

    /// The same for IPv4 if no other condition matters; `None` if more must be checked.
    #[inline(always)]
    fn decide_by_addresses(&self, frame: &[u8], headers: &Headers) -> Option<Decision> {
        let Search::ByDst(by_dst) = &self.v4.search else { return None };
        let (src, dst) = addresses_v4(frame, headers)?;
        for &place in by_dst.find(dst).into_iter().flatten() {
            let Some(policy) = self.v4.policies.get(place as usize) else { break };
            if !policy.is_wide {
                return None;
            }
            if policy.is_from(src) {
                return Some(Decision::Is(policy.action));
            }
        }
        Some(Decision::None)
    }

    #[inline(never)]
    fn decide_by_all(&self, frame: &[u8], headers: &Headers) -> Option<Decision> {
        Traffic::of(frame, headers).map(|traffic| self.decide(&traffic))
    }

    #[inline(always)]
    pub(super) fn decide(&self, traffic: &Traffic) -> Decision {
        let (src_port, dst_port) = (number(traffic.src_port), number(traffic.dst_port));
        let kind = traffic.protocol.map_or(HIDDEN_PROTOCOL, u32::from);
        match (traffic.src, traffic.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst) = (src.to_bits(), dst.to_bits());
                self.v4.decide(&SearchKey { src, dst, src_port, dst_port, kind })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let (src, dst) = (src.to_bits(), dst.to_bits());
                self.v6.decide(&SearchKey { src, dst, src_port, dst_port, kind })
            }
            _ => Decision::None,
        }
    }
}

fn number(port: Port) -> u32 {
    match port {
        Port::Is(port) => port.into(),
        Port::None => NO_PORT,
        Port::Hidden => HIDDEN_PORT,
    }
}

impl<A: Address> Searched<A> {
    fn build(policies: &[Policy], is_v6: bool) -> Result<Self, TooLarge> {
        let own = policies.iter().filter(|p| p.selector.src.address().is_ipv6() == is_v6);
        let own: Vec<&Policy> = own.collect();
        let network = |policy: &&Policy| {
            let dst = policy.selector.dst;
            (A::from_wide(dst.bounds().0), dst.len().into())
        };
        let search = match ByDst::build(&own.iter().map(network).collect::<Vec<_>>()) {
            Some(by_dst) => Search::ByDst(by_dst),
            None => Search::Space(Box::new(Space::build(&ranges(&own))?)),
        };
        let row = |policy: &&Policy| match policy.action {
            Action::Protect(row) => u16::try_from(row).ok(),
            Action::Bypass | Action::Discard => None,
        };
        let rows = own.iter().map(row).collect();
        Ok(Self { search, policies: own.into_iter().map(PolicyEntry::new).collect(), rows })
    }

    #[inline]
    fn fetch_policy(&self, dst: A) -> Option<u16> {
        let Search::ByDst(by_dst) = &self.search else { return None };
        let first = by_dst.find(dst)?[0] as usize;
        self.policies.get(first).into_iter().for_each(prefetch);
        self.rows.get(first).copied().flatten()
    }

    #[inline(always)]
    fn decide(&self, key: &SearchKey<A>) -> Decision {
        let Some(found) = self.first(key) else { return Decision::None };
        let hides_ports = key.src_port == HIDDEN_PORT && found.asks_ports();
        if hides_ports || key.kind == HIDDEN_PROTOCOL && found.protocol.is_some() {
            return Decision::Uncertain;
        }
        Decision::Is(found.action)
    }

    #[inline(always)]
    fn first(&self, key: &SearchKey<A>) -> Option<&PolicyEntry<A>> {
        match &self.search {
            Search::ByDst(by_dst) => {
                for &place in by_dst.find(key.dst)? {
                    let policy = self.policies.get(place as usize)?;
                    if policy.may_match(key) {
                        return Some(policy);
                    }
                }
                None
            }
            Search::Space(space) => self.policies.get(space.first_match(key)?),
        }
    }
}

/// The ranges that `policies` match in every dimension, by their place.
fn ranges(policies: &[&Policy]) -> Ranges {
    let mut ranges = Ranges { rules: policies.len(), ..Ranges::default() };
    for (rule, policy) in policies.iter().enumerate() {
        let (rule, selector) = (rule as u32, &policy.selector);
        let address = |prefix: Prefix| {
            let (first, last) = prefix.bounds();
            Range { rule, first, last }
        };
        ranges.src.push(address(selector.src));
        ranges.dst.push(address(selector.dst));
        add_ports(&mut ranges.src_port, rule, &selector.src_ports);
        add_ports(&mut ranges.dst_port, rule, &selector.dst_ports);
        let kinds = match selector.protocol {
            None => vec![(0, HIDDEN_PROTOCOL)],
            Some(one) => vec![(one.into(), one.into()), (HIDDEN_PROTOCOL, HIDDEN_PROTOCOL)],
        };
        ranges.kind.extend(kinds.into_iter().map(|(first, last): (u32, u32)| Range {
            rule,
            first: first.into(),
            last: last.into(),
        }));
    }
    if !policies.is_empty() {
        (ranges.ports, ranges.kinds) = (HIDDEN_PORT as usize + 1, HIDDEN_PROTOCOL as usize + 1);
    }
    ranges
}

/// A policy with ports may match a packet with hidden ports. One without ports also matches packets
/// without ports.
fn add_ports(to: &mut Vec<Range>, rule: u32, ports: &RangeInclusive<u16>) {
    let mut add = |first: u32, last: u32| {
        to.push(Range { rule, first: first.into(), last: last.into() });
    };
    if *ports == ANY_PORT {
        add(0, HIDDEN_PORT);
    } else {
        add((*ports.start()).into(), (*ports.end()).into());
        add(HIDDEN_PORT, HIDDEN_PORT);
    }
}

#[cfg(test)]
mod tests;
