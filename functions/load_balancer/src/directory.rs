//! The tables for look-ups: VIPs and backends by address and port, and a Maglev table for each
//! service.
//!
//! A [`Vip`] is an address with one port, a [`Target`] a backend of one. Both have a name, a hash
//! of their address, port and protocol, that stays the same when their numbers change with a
//! reload: connections are remembered by names, and by numbers as a hint.

use core::net::IpAddr;
use core::ops::Range;

use super::hash;
use super::maglev::{Maglev, Turns};
use super::services::{Backend, Service};
use warpline_rewrite::addresses::{Endpoint, number};

/// An address that clients send to, with one port.
#[derive(Clone, Debug)]
pub(super) struct Vip {
    pub(super) name: u64,
    pub(super) version: u8,
    pub(super) protocol: u8,
    pub(super) at: Endpoint,
    /// The numbers of its targets.
    targets: Range<usize>,
    /// The number of its table.
    table: usize,
}

/// A backend of a VIP.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The name of its address and port; VIPs may share it.
    pub(super) name: u64,
    /// The IP version of its address.
    pub(super) version: u8,
    pub(super) at: Endpoint,
    pub(super) mac: [u8; 6],
    /// Whether it keeps the connections that it has.
    keeps: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Directory {
    vips: Vec<Vip>,
    targets: Vec<Target>,
    /// One for each service.
    tables: Vec<Maglev>,
    vip_names: Numbers,
    /// Names of backends, with the number of one target that bears it.
    target_names: Numbers,
    /// Version and number of each address, sorted.
    vip_addresses: Vec<(u8, u128)>,
    target_addresses: Vec<(u8, u128)>,
}

impl Directory {
    /// Of these services, with tables of `table_size` places; `None` where two names are one, which
    /// is as likely as drawing the same 64 bits twice.
    pub(super) fn new(services: &[Service], table_size: usize) -> Option<Self> {
        let (mut vips, mut targets, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        for (table, service) in services.iter().enumerate() {
            let backends = in_order(service);
            let turns: Vec<Turns> = backends.iter().map(|own| turns_of(own)).collect();
            tables.push(Maglev::new(table_size, &turns));
            for &port in &service.ports {
                let first = targets.len();
                targets.extend(backends.iter().map(|own| target(own, service, port)));
                vips.push(vip(service, port, first..targets.len(), table));
            }
        }
        let vip_names = Numbers::new(vips.iter().map(|vip: &Vip| vip.name));
        let target_names = Numbers::new(targets.iter().map(|target: &Target| target.name));
        let clash = |number: usize, target: &Target| {
            target_names.find(targets[number].name).is_some_and(|own| {
                let own = &targets[own];
                (own.version, own.at) != (target.version, target.at)
            })
        };
        if vips.iter().enumerate().any(|(n, vip)| vip_names.find(vip.name) != Some(n))
            || targets.iter().enumerate().any(|(number, target)| clash(number, target))
        {
            return None;
        }
        let vip_addresses = sorted(vips.iter().map(|vip| (vip.version, vip.at.address)));
        let target_addresses = sorted(targets.iter().map(|own| (own.version, own.at.address)));
        Some(Self {
            vips,
            targets,
            tables,
            vip_names,
            target_names,
            vip_addresses,
            target_addresses,
        })
    }

    /// The number of the VIP at an address and port.
    #[inline]
    pub(super) fn find_vip(&self, version: u8, protocol: u8, at: Endpoint) -> Option<usize> {
        let name = hash::endpoint(version, protocol, at.address, at.port);
        let number = self.vip_names.find(name)?;
        let vip = &self.vips[number];
        ((vip.version, vip.protocol, vip.at) == (version, protocol, at)).then_some(number)
    }

    /// The name of a backend that has this address and port.
    #[inline]
    pub(super) fn find_backend(&self, version: u8, protocol: u8, at: Endpoint) -> Option<u64> {
        let name = hash::endpoint(version, protocol, at.address, at.port);
        let target = &self.targets[self.target_names.find(name)?];
        // The protocol is in the name, which is no other's.
        ((target.version, target.at) == (version, at)).then_some(name)
    }

    /// The VIP of this number.
    pub(super) fn vip(&self, number: usize) -> &Vip {
        &self.vips[number]
    }

    /// The target of this number.
    pub(super) fn target(&self, number: usize) -> &Target {
        &self.targets[number]
    }

    /// The number of the VIP called `name`, which was `hint` once.
    #[inline]
    pub(super) fn vip_named(&self, name: u64, hint: usize) -> Option<usize> {
        match self.vips.get(hint) {
            Some(vip) if vip.name == name => Some(hint),
            _ => self.vip_names.find(name),
        }
    }

    /// The number of a target of a VIP called `name`, which was `hint` once, that keeps its
    /// connections.
    ///
    /// Two backends of a service may be one target: without a port of their own, and with the
    /// VIP's.
    #[inline]
    pub(super) fn kept_target(&self, vip: usize, name: u64, hint: usize) -> Option<usize> {
        let range = self.vips[vip].targets.clone();
        let keeps = |&number: &usize| {
            let target = &self.targets[number];
            target.name == name && target.keeps
        };
        if range.contains(&hint) && keeps(&hint) { Some(hint) } else { range.clone().find(keeps) }
    }

    /// The number of the target for a new connection, by the hash of its 5-tuple.
    #[inline]
    pub(super) fn choose(&self, vip: usize, hash: u64) -> Option<usize> {
        let vip = &self.vips[vip];
        self.tables[vip.table].find(hash).map(|number| vip.targets.start + number)
    }

    /// Version and number of each VIP's address.
    pub(super) fn vip_addresses(&self) -> impl Iterator<Item = (u8, u128)> {
        self.vip_addresses.iter().copied()
    }

    /// Whether a VIP has this address.
    pub(super) fn has_vip_address(&self, version: u8, address: u128) -> bool {
        self.vip_addresses.binary_search(&(version, address)).is_ok()
    }

    /// Whether a backend has this address.
    pub(super) fn has_backend_address(&self, version: u8, address: u128) -> bool {
        self.target_addresses.binary_search(&(version, address)).is_ok()
    }
}

/// The backends of a service by address and port: balancers whose files list them in another order
/// have the same tables.
fn in_order(service: &Service) -> Vec<&Backend> {
    let mut backends: Vec<&Backend> = service.backends.iter().collect();
    backends.sort_unstable_by_key(|own| (own.address, own.port));
    backends
}

/// The tables name a backend by its address and its own port, whatever the VIP's.
fn turns_of(backend: &Backend) -> Turns {
    let (version, address) = number(backend.address);
    let name = hash::endpoint(version, 0, address, backend.port.unwrap_or(0));
    Turns { name, weight: backend.weight }
}

fn vip(service: &Service, port: u16, targets: Range<usize>, table: usize) -> Vip {
    let (version, address) = number(service.address);
    let name = hash::endpoint(version, service.protocol, address, port);
    let (protocol, at) = (service.protocol, Endpoint { address, port });
    Vip { name, version, protocol, at, targets, table }
}

fn target(backend: &Backend, service: &Service, port: u16) -> Target {
    let (version, address) = number(backend.address);
    let port = backend.port.unwrap_or(port);
    let name = hash::endpoint(version, service.protocol, address, port);
    let mac = backend.mac.map_or([0; 6], |mac| mac.0);
    Target { name, version, at: Endpoint { address, port }, mac, keeps: backend.keeps }
}

fn sorted(addresses: impl Iterator<Item = (u8, u128)>) -> Vec<(u8, u128)> {
    let mut list: Vec<_> = addresses.collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// The addresses of the file, for what is steered by them.
pub(super) fn addresses(services: &[Service]) -> impl Iterator<Item = (IpAddr, usize)> {
    services.iter().flat_map(|service| {
        let backends = service.backends.iter().map(|backend| (backend.address, backend.line));
        core::iter::once((service.address, service.line)).chain(backends)
    })
}

/// Numbers by name: open addressing, a quarter full at most. Names are hashes already.
#[derive(Debug)]
struct Numbers {
    slots: Vec<(u64, u32)>,
    mask: usize,
}

const FREE: u32 = u32::MAX;

impl Numbers {
    /// The number of a name is its place, the first one where it is there twice.
    fn new(names: impl ExactSizeIterator<Item = u64>) -> Self {
        let len = (4 * names.len().max(1)).next_power_of_two();
        let mut own = Self { slots: vec![(0, FREE); len], mask: len - 1 };
        for (number, name) in (0..).zip(names) {
            let at = own.place(name);
            if own.slots[at].1 == FREE {
                own.slots[at] = (name, number);
            }
        }
        own
    }

    #[inline]
    fn find(&self, name: u64) -> Option<usize> {
        let (_, number) = self.slots[self.place(name)];
        (number != FREE).then_some(number as usize)
    }

    #[inline]
    fn place(&self, name: u64) -> usize {
        let mut at = name as usize & self.mask;
        while self.slots[at].1 != FREE && self.slots[at].0 != name {
            at = (at + 1) & self.mask;
        }
        at
    }
}
