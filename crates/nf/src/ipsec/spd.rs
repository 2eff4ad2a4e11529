//! The policies as a search: which one decides about a packet in the clear (RFC 4301, 4.4.1).

use core::net::IpAddr;
use core::ops::RangeInclusive;

use warpline_packet::Prefix;

use super::sa::{Action, Policy};
use super::traffic::{ANY_PORT, Port, Traffic};
use crate::firewall::{Number, Range, Ranges, SearchKey, Space, TooLarge, bounds};

const NO_PORT: u32 = 1 << 16;
const HIDDEN_PORT: u32 = NO_PORT + 1;
const HIDDEN_PROTOCOL: u32 = 256;

/// The policies, ready to be searched.
#[derive(Debug)]
pub(super) struct Spd {
    v4: Searched<u32>,
    v6: Searched<u128>,
}

/// What the policies say of a packet.
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
    space: Space<A>,
    policies: Vec<Found>,
}

/// A policy of one IP version.
#[derive(Clone, Copy, Debug)]
struct Found {
    action: Action,
    asks_protocol: bool,
    asks_ports: bool,
}

impl Spd {
    /// # Errors
    /// [`TooLarge`].
    pub(super) fn build(policies: &[Policy]) -> Result<Self, TooLarge> {
        Ok(Self { v4: Searched::build(policies, false)?, v6: Searched::build(policies, true)? })
    }

    pub(super) fn decide(&self, traffic: &Traffic) -> Decision {
        let (src_port, dst_port) = (number(traffic.src_port), number(traffic.dst_port));
        let kind = traffic.protocol.map_or(HIDDEN_PROTOCOL, u32::from);
        let found = match (traffic.src, traffic.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst) = (src.to_bits(), dst.to_bits());
                self.v4.first(&SearchKey { src, dst, src_port, dst_port, kind })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let (src, dst) = (src.to_bits(), dst.to_bits());
                self.v6.first(&SearchKey { src, dst, src_port, dst_port, kind })
            }
            _ => None,
        };
        let Some(found) = found else { return Decision::None };
        let hidden = (traffic.protocol.is_none(), traffic.src_port == Port::Hidden);
        if hidden.0 && found.asks_protocol || hidden.1 && found.asks_ports {
            return Decision::Uncertain;
        }
        Decision::Is(found.action)
    }
}

fn number(port: Port) -> u32 {
    match port {
        Port::Is(port) => port.into(),
        Port::None => NO_PORT,
        Port::Hidden => HIDDEN_PORT,
    }
}

impl<A: Number> Searched<A> {
    fn build(policies: &[Policy], is_v6: bool) -> Result<Self, TooLarge> {
        let mut ranges = Ranges::default();
        let mut own = Vec::new();
        for policy in policies.iter().filter(|p| p.selector.src.address().is_ipv6() == is_v6) {
            let (rule, selector) = (own.len() as u32, &policy.selector);
            let address = |prefix: Prefix| {
                let (first, last) = bounds(prefix);
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
            own.push(Found {
                action: policy.action,
                asks_protocol: selector.protocol.is_some(),
                asks_ports: selector.src_ports != ANY_PORT || selector.dst_ports != ANY_PORT,
            });
        }
        if !own.is_empty() {
            (ranges.ports, ranges.kinds) = (HIDDEN_PORT as usize + 1, HIDDEN_PROTOCOL as usize + 1);
        }
        ranges.rules = own.len();
        Ok(Self { space: Space::build(&ranges)?, policies: own })
    }

    fn first(&self, key: &SearchKey<A>) -> Option<Found> {
        self.policies.get(self.space.first_match(key)?).copied()
    }
}

/// A policy that asks for ports may be for a packet whose ports are hidden; one that asks for none is for those
/// that have none, too.
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
