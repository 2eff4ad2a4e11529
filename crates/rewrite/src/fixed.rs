//! Translations that the configuration fixes: port forwards, and outside addresses of single hosts
//! or whole prefixes (1:1, `NETMAP`).

use core::net::IpAddr;

use warpline_packet::Prefix;
use warpline_packet::wire::ip_protocol;

use crate::addresses::number;
use crate::{Endpoint, PortSet};

/// Ports of an outside address that lead to an inside host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// TCP or UDP, by its number.
    pub protocol: u8,
    /// The outside address.
    pub outside: IpAddr,
    /// The first and the last outside port.
    pub ports: (u16, u16),
    /// The inside address.
    pub inside: IpAddr,
    /// The inside port of the first outside port; the others follow. With `is_one`, of all of them.
    pub port: u16,
    /// Whether all outside ports lead to one inside port.
    pub is_one: bool,
    /// The ports of the chain by which packets come that it forwards.
    pub came_by: PortSet,
}

/// A prefix of outside addresses that stands for one of inside addresses, host by host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The outside addresses.
    pub outside: Prefix,
    /// The inside addresses, as many.
    pub inside: Prefix,
    /// The ports of the chain by which packets come that it gives their inside destination.
    pub came_by: PortSet,
}

/// Where a forward leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The inside endpoint.
    pub inside: Endpoint,
    /// The number of the outside address among those of all forwards.
    pub address: u64,
    /// The ports of the chain by which packets come that are forwarded.
    pub came_by: PortSet,
}

/// Forwards of one outside address and protocol, by their first port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    version: u8,
    protocol: u8,
    outside: u128,
    first: u16,
    last: u16,
    inside: Endpoint,
    is_one: bool,
    address: u64,
    came_by: PortSet,
}

/// All fixed translations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// In the order of version, protocol, outside address and first port.
    rows: Vec<Row>,
    /// The outside addresses of forwards.
    addresses: Vec<(u8, u128)>,
    /// Inside hosts that forwards lead to, in order.
    hosts: Vec<(u8, u128)>,
    mapped: Vec<Mapped>,
}

impl Fixed {
    /// All of them. The error names the forward that another one before it overlaps.
    pub fn new(forwards: &[Forward], mapped: &[Mapped]) -> Result<Self, usize> {
        let mut own = Self { mapped: mapped.to_vec(), ..Self::default() };
        let mut order: Vec<(Row, usize)> = Vec::new();
        for (place, forward) in forwards.iter().enumerate() {
            let (version, outside) = number(forward.outside);
            let (_, inside) = number(forward.inside);
            let known = own.addresses.iter().position(|one| *one == (version, outside));
            let address = known.unwrap_or(own.addresses.len()) as u64;
            if known.is_none() {
                own.addresses.push((version, outside));
            }
            own.hosts.push((version, inside));
            let row = Row {
                version,
                protocol: forward.protocol,
                outside,
                first: forward.ports.0,
                last: forward.ports.1,
                inside: Endpoint { address: inside, port: forward.port },
                is_one: forward.is_one,
                address,
                came_by: forward.came_by,
            };
            order.push((row, place));
        }
        order.sort_by_key(|(row, place)| (row.key(), *place));
        for pair in order.windows(2) {
            let [(one, first), (other, second)] = pair else { continue };
            if one.is_beside(other) && one.last >= other.first {
                return Err(*first.max(second));
            }
        }
        own.rows = order.into_iter().map(|(row, _)| row).collect();
        own.hosts.sort_unstable();
        own.hosts.dedup();
        Ok(own)
    }

    /// Whether a forward or a mapping asks by which port of the chain a packet came.
    pub fn asks_ports(&self) -> bool {
        self.rows.iter().any(|row| !row.came_by.is_all())
            || self.mapped.iter().any(|one| !one.came_by.is_all())
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.mapped.is_empty()
    }

    /// Outside ports of all forwards together.
    pub fn ports(&self) -> usize {
        self.rows.iter().map(|row| usize::from(row.last - row.first) + 1).sum()
    }

    /// The first and last addresses of all ranges outside: of mapped prefixes, then of forwards.
    pub fn outside(&self) -> impl Iterator<Item = (u8, u128, u128)> {
        let mapped = self.mapped.iter().map(|one| {
            let (first, last) = one.outside.bounds();
            (number(one.outside.address()).0, first, last)
        });
        mapped.chain(self.addresses.iter().map(|&(version, own)| (version, own, own)))
    }

    /// Where a packet of this protocol to `to` is forwarded.
    #[inline]
    pub fn forward(&self, version: u8, protocol: u8, to: Endpoint) -> Option<Target> {
        let key = (version, protocol, to.address, to.port);
        let after = self.rows.partition_point(|row| row.key() <= key);
        let row = self.rows.get(after.checked_sub(1)?)?;
        let is_own = (row.version, row.protocol, row.outside) == (version, protocol, to.address);
        (is_own && to.port <= row.last).then(|| {
            let port = row.inside.port + if row.is_one { 0 } else { to.port - row.first };
            let inside = Endpoint { port, ..row.inside };
            Target { inside, address: row.address, came_by: row.came_by }
        })
    }

    /// Whether ports of this outside address are forwarded.
    #[inline]
    pub fn has_forwards(&self, version: u8, outside: u128) -> bool {
        self.addresses.contains(&(version, outside))
    }

    /// The outside address with this number.
    pub fn address(&self, number: u64) -> u128 {
        self.addresses.get(number as usize).map_or(0, |&(_, address)| address)
    }

    /// Whether forwards lead to this inside host.
    #[inline]
    pub fn is_host(&self, version: u8, inside: u128) -> bool {
        !self.hosts.is_empty() && self.hosts.binary_search(&(version, inside)).is_ok()
    }

    /// The inside host of a mapped outside address.
    #[inline]
    pub fn inside_of(&self, version: u8, outside: u128) -> Option<u128> {
        self.mapped.iter().find_map(|one| one.across(one.outside, one.inside, version, outside))
    }

    /// Whether packets that come by this port of the chain reach the host of a mapped outside
    /// address.
    pub fn enters(&self, version: u8, outside: u128, port: impl Fn() -> u16) -> bool {
        self.mapped.iter().any(|one| {
            (one.came_by.is_all() || one.came_by.has(port()))
                && one.across(one.outside, one.inside, version, outside).is_some()
        })
    }

    /// The outside address of a mapped inside host.
    #[inline]
    pub fn outside_of(&self, version: u8, inside: u128) -> Option<u128> {
        self.mapped.iter().find_map(|one| one.across(one.inside, one.outside, version, inside))
    }
}

impl Row {
    fn key(&self) -> (u8, u8, u128, u16) {
        (self.version, self.protocol, self.outside, self.first)
    }

    fn is_beside(&self, other: &Self) -> bool {
        let of = |row: &Self| (row.version, row.protocol, row.outside);
        of(self) == of(other)
    }
}

impl Mapped {
    /// Whether it gives the same hosts the same addresses.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.outside, self.inside) == (other.outside, other.inside)
    }

    /// The address of prefix `to` at the place that `address` has in prefix `from`.
    fn across(&self, from: Prefix, to: Prefix, version: u8, address: u128) -> Option<u128> {
        let ((own, first), (_, other)) = (number(from.address()), number(to.address()));
        let width = if own == 4 { 32 } else { 128 };
        let hosts = 1_u128.checked_shl(width - u32::from(from.len())).map_or(u128::MAX, |n| n - 1);
        let offset = address.wrapping_sub(first);
        (own == version && offset <= hosts).then(|| other + offset)
    }
}

/// The protocols that have ports to forward.
pub const FORWARDED: [(&str, u8); 2] = [("tcp", ip_protocol::TCP), ("udp", ip_protocol::UDP)];

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(text: &str, ports: (u16, u16), inside: &str, port: u16) -> Forward {
        Forward {
            protocol: ip_protocol::TCP,
            outside: text.parse().unwrap(),
            ports,
            inside: inside.parse().unwrap(),
            port,
            is_one: false,
            came_by: PortSet::ALL,
        }
    }

    #[test]
    fn forwards_are_found_by_their_ports() {
        let all = [
            forward("203.0.113.1", (8000, 8010), "10.0.0.5", 80),
            forward("203.0.113.1", (80, 80), "10.0.0.5", 80),
            forward("203.0.113.2", (80, 80), "10.0.0.6", 8080),
            forward("2001:db8::1", (80, 80), "fd00::5", 80),
        ];
        let fixed = Fixed::new(&all, &[]).unwrap();
        let to = |address: u32, port| {
            let to = Endpoint { address: address.into(), port };
            fixed.forward(4, ip_protocol::TCP, to).map(|target| target.inside)
        };
        let (one, other) = (0xcb00_7101, 0xcb00_7102);
        let inside = |host: u128, port| Some(Endpoint { address: 0x0a00_0000 + host, port });
        assert_eq!(to(one, 80), inside(5, 80));
        assert_eq!(to(one, 8010), inside(5, 90));
        assert_eq!(to(other, 80), inside(6, 8080));
        for (address, port) in [(one, 79), (one, 81), (one, 8011), (other, 8000), (0, 80)] {
            assert_eq!(to(address, port), None, "{address:x} {port}");
        }
        let udp = fixed.forward(4, ip_protocol::UDP, Endpoint { address: one.into(), port: 80 });
        assert_eq!(udp, None);
        assert!(fixed.is_host(4, 0x0a00_0005) && !fixed.is_host(4, 0x0a00_0007));
        assert_eq!(fixed.ports(), 14);
    }

    #[test]
    fn overlapping_forwards_are_named() {
        let one = forward("203.0.113.1", (80, 90), "10.0.0.5", 80);
        let other = forward("203.0.113.1", (90, 95), "10.0.0.6", 80);
        assert_eq!(Fixed::new(&[one, other], &[]), Err(1));
        assert_eq!(Fixed::new(&[other, one], &[]), Err(1));
    }

    #[test]
    fn mapped_hosts_keep_their_place() {
        let prefix = |text: &str| text.parse().unwrap();
        let (outside, inside) = (prefix("203.0.113.16/28"), prefix("10.1.5.32/28"));
        let mapped = Mapped { outside, inside, came_by: PortSet::of(&[1]) };
        let fixed = Fixed::new(&[], &[mapped]).unwrap();
        assert_eq!(fixed.inside_of(4, 0xcb00_7113), Some(0x0a01_0523));
        assert_eq!(fixed.outside_of(4, 0x0a01_0523), Some(0xcb00_7113));
        for outside in [0xcb00_710f, 0xcb00_7120] {
            assert_eq!(fixed.inside_of(4, outside), None);
        }
        assert_eq!(fixed.inside_of(6, 0xcb00_7113), None);
        let enters = |outside, port| fixed.enters(4, outside, || port);
        assert_eq!([0, 1].map(|port| enters(0xcb00_7113, port)), [false, true]);
        assert!(!enters(0xcb00_710f, 1));
    }
}
