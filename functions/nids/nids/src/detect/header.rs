//! The header of a rule: protocol, addresses, ports, direction.

use core::net::IpAddr;
use std::sync::Arc;

use warpline_packet::wire::ip_protocol;

use super::Subject;
use warpline_nids_rules::{Addresses, Header, Ports, Protocol};

/// A rule's header, ready to be compared.
#[derive(Clone, Debug)]
pub(super) struct HeaderTest {
    protocol: Protocol,
    src: End,
    dst: End,
    is_bidirectional: bool,
}

/// One side of the arrow; `None` is any.
#[derive(Clone, Debug)]
struct End {
    addresses: Option<Arc<Addresses>>,
    ports: Option<Arc<Ports>>,
}

impl HeaderTest {
    pub(super) fn new(header: &Header) -> Self {
        Self {
            protocol: header.protocol,
            src: End::new(&header.src, &header.src_ports),
            dst: End::new(&header.dst, &header.dst_ports),
            is_bidirectional: header.is_bidirectional,
        }
    }

    /// A packet whose headers lie up to that of IP is matched by `pkthdr` alone.
    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        if !fits(self.protocol, subject) {
            return false;
        }
        let (src_port, dst_port) = match subject.ports {
            Some((src, dst)) => (Some(src), Some(dst)),
            None => (None, None),
        };
        let (src, dst) = ((subject.src, src_port), (subject.dst, dst_port));
        (self.src.has(src) && self.dst.has(dst))
            || (self.is_bidirectional && self.src.has(dst) && self.dst.has(src))
    }
}

impl End {
    fn new(addresses: &Arc<Addresses>, ports: &Arc<Ports>) -> Self {
        Self {
            addresses: (!is_any_address(addresses)).then(|| addresses.clone()),
            ports: (!is_any_port(ports)).then(|| ports.clone()),
        }
    }

    /// A packet without ports is in no set of ports except that of all.
    fn has(&self, (address, port): (IpAddr, Option<u16>)) -> bool {
        let has_port = |ports: &Ports| port.is_some_and(|port| is_in(&ports.0, port));
        self.ports.as_ref().is_none_or(|ports| has_port(ports))
            && self.addresses.as_ref().is_none_or(|set| has_address(set, address))
    }
}

fn fits(protocol: Protocol, subject: &Subject<'_>) -> bool {
    if protocol == Protocol::PacketHeader {
        return true;
    }
    if subject.is_malformed || subject.version == 0 {
        return false;
    }
    let is = |number| subject.protocol == number;
    match protocol {
        Protocol::PacketHeader | Protocol::Ip => true,
        Protocol::Ipv4 => subject.version == 4,
        Protocol::Ipv6 => subject.version == 6,
        Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream => is(ip_protocol::TCP),
        Protocol::Udp => is(ip_protocol::UDP),
        Protocol::Sctp => is(ip_protocol::SCTP),
        Protocol::Icmp => is(ip_protocol::ICMP) || is(ip_protocol::ICMPV6),
        Protocol::Icmpv4 => is(ip_protocol::ICMP),
        Protocol::Icmpv6 => is(ip_protocol::ICMPV6),
    }
}

/// Whether every address is in it.
pub(super) fn is_any_address(set: &Addresses) -> bool {
    let v4 =
        set.v4.first().is_some_and(|(min, max)| min.to_bits() == 0 && max.to_bits() == u32::MAX);
    let v6 =
        set.v6.first().is_some_and(|(min, max)| min.to_bits() == 0 && max.to_bits() == u128::MAX);
    v4 && v6
}

/// Whether every port is in it.
pub(super) fn is_any_port(set: &Ports) -> bool {
    set.0.first() == Some(&(0, u16::MAX))
}

/// Whether an address is in a set.
pub(super) fn has_address(set: &Addresses, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_in(&set.v4, address),
        IpAddr::V6(address) => is_in(&set.v6, address),
    }
}

/// Whether it is in one of the ranges, which are sorted and apart.
fn is_in<T: Ord + Copy>(ranges: &[(T, T)], value: T) -> bool {
    let at = ranges.partition_point(|(_, max)| *max < value);
    ranges.get(at).is_some_and(|(min, _)| *min <= value)
}
