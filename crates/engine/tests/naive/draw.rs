//! Draws for random traffic and random chains: numbers, and addresses that often repeat.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::frames::Random;
use crate::prefix::Prefix;

/// A source of chance, by a seed.
pub(crate) struct Draw(Random);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound.max(1))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0.next()
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// Up to `most` of `all`, at least one.
    pub(crate) fn some<T: Clone>(&mut self, all: &[T], most: usize) -> Vec<T> {
        (0..=self.below(most)).map(|_| self.of(all)).collect()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.word() as u8).collect()
    }

    pub(crate) fn version(&mut self) -> u8 {
        if self.percent(65) { 4 } else { 6 }
    }

    /// A host that asks.
    pub(crate) fn inside(&mut self, version: u8) -> IpAddr {
        let host = 1 + self.below(6) as u16;
        address(version, [10, 1, self.below(2) as u8], host)
    }

    /// A host that answers, now and then an address that is no host's.
    pub(crate) fn outside(&mut self, version: u8) -> IpAddr {
        let host = 1 + self.below(5) as u16;
        if self.percent(4) {
            return self.odd(version);
        }
        let net = self.of(&[[198, 51, 100], [198, 51, 101], [203, 0, 113]]);
        address(version, net, host)
    }

    fn odd(&mut self, version: u8) -> IpAddr {
        let four = [
            "224.0.0.5",
            "239.1.2.3",
            "255.255.255.255",
            "127.0.0.1",
            "0.0.0.0",
            "169.254.3.4",
            "192.0.2.101",
        ];
        let six = ["ff02::1", "ff0e::7", "::", "::1", "fe80::9", "2001:db8:99::1"];
        let text = if version == 4 { self.of(&four) } else { self.of(&six) };
        text.parse().expect("an address")
    }

    /// A prefix that holds some of these hosts.
    pub(crate) fn prefix(&mut self, version: u8) -> Prefix {
        let inside = self.percent(50);
        let address = if inside { self.inside(version) } else { self.outside(version) };
        let lens: &[usize] = if version == 4 {
            &[0, 7, 8, 16, 23, 24, 29, 30, 31, 32, 32]
        } else {
            &[0, 31, 32, 48, 64, 80, 125, 126, 127, 128, 128]
        };
        Prefix::of(address, self.of(lens))
    }
}

/// Host `host` of a network, of which IPv6 has one like that of IPv4.
pub(crate) fn address(version: u8, [a, b, c]: [u8; 3], host: u16) -> IpAddr {
    if version == 4 {
        return Ipv4Addr::new(a, b, c, host as u8).into();
    }
    let net = u16::from_be_bytes([a, b]);
    Ipv6Addr::new(0x2001, 0xdb8, net, u16::from(c), 0, 0, 0, host).into()
}
