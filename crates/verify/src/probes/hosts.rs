//! Addresses and ports that files and packets name.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::answers::Ends;
use crate::Input;

/// Addresses of either version that are taken from texts and packets.
pub(super) const ADDRESSES_MAX: usize = 48;
pub(super) const PORTS_MAX: usize = 48;

/// Most addresses, and most ports, that are paired with each other.
pub(super) const NAMED_MAX: usize = 16;

/// Whom probes are from and for.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    pub(super) v4: BTreeSet<Ipv4Addr>,
    pub(super) v6: BTreeSet<Ipv6Addr>,
    pub(super) ports: BTreeSet<u16>,
    /// Those that files name, of either version.
    named: BTreeSet<IpAddr>,
}

impl Hosts {
    /// Takes in the addresses, networks and ports that a file names, whatever it is.
    pub fn read(&mut self, text: &str) {
        let is_of_word = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '/');
        for word in text.split(|c| !is_of_word(c)).filter(|word| !word.is_empty()) {
            let (address, len) = word.split_once('/').unwrap_or((word, ""));
            match address.trim_matches(':').parse().or_else(|_| address.parse()) {
                Ok(address) => {
                    self.add_network(address, len.parse().ok());
                    if len.is_empty() {
                        self.named.insert(address);
                    }
                }
                Err(_) => word.split([':', '.', '/']).for_each(|part| self.add_port(part)),
            }
        }
    }

    /// Takes in the addresses of packets.
    pub fn see(&mut self, inputs: &[Input]) {
        for input in inputs {
            if self.v4.len().max(self.v6.len()) >= ADDRESSES_MAX {
                return;
            }
            let ends = Ends::of(&input.bytes, input.link, input.wire_len as usize);
            ends.iter().flat_map(|ends| [ends.src, ends.dst]).for_each(|one| self.add(one));
        }
    }

    fn add(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(one) if self.v4.len() < ADDRESSES_MAX => _ = self.v4.insert(one),
            IpAddr::V6(one) if self.v6.len() < ADDRESSES_MAX => _ = self.v6.insert(one),
            _ => {}
        }
    }

    /// Some addresses of a network, its first among them.
    fn add_network(&mut self, first: IpAddr, len: Option<u8>) {
        self.add(first);
        let bits = if first.is_ipv4() { 32 } else { 128 };
        let has_hosts = len.is_some_and(|len: u8| len < bits - 1);
        for host in [1, 2].into_iter().filter(|_| has_hosts) {
            self.add(match first {
                IpAddr::V4(one) => Ipv4Addr::from_bits(one.to_bits().wrapping_add(host)).into(),
                IpAddr::V6(one) => {
                    Ipv6Addr::from_bits(one.to_bits().wrapping_add(host.into())).into()
                }
            });
        }
    }

    fn add_port(&mut self, text: &str) {
        if let Ok(port @ 1..) = text.parse()
            && self.ports.len() < PORTS_MAX
        {
            self.ports.insert(port);
        }
    }

    pub(super) fn ends(&self) -> Choices {
        let strangers: [IpAddr; 6] = [
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)),
            IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)),
            IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)),
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9)),
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 7)),
            IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2)),
        ];
        let v4 = self.v4.iter().map(|&one| IpAddr::from(one));
        let v6 = self.v6.iter().map(|&one| IpAddr::from(one));
        let of = |version| strangers.into_iter().filter(move |one| one.is_ipv4() == version);
        let ports = [22, 53, 80, 443, 500, 4500, 40_000].into_iter().chain(self.ports.clone());
        let named = |is_v4: bool| {
            let own = self.named.iter().copied().filter(move |one| one.is_ipv4() == is_v4);
            own.take(NAMED_MAX).collect()
        };
        Choices {
            named_v4: named(true),
            named_v6: named(false),
            v4: v4.chain(of(true)).collect(),
            v6: v6.chain(of(false)).collect(),
            ports: ports.collect(),
        }
    }
}

/// Addresses and ports to choose from.
pub(super) struct Choices {
    pub(super) v4: Vec<IpAddr>,
    pub(super) v6: Vec<IpAddr>,
    /// Single addresses that files name.
    pub(super) named_v4: Vec<IpAddr>,
    pub(super) named_v6: Vec<IpAddr>,
    pub(super) ports: Vec<u16>,
}
