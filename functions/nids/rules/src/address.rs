//! Sets of addresses and ports, as headers of rules name them.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use super::group::Space;
use super::piece::{Piece, Read};
use super::ranges::{Discrete, merge, subtract};
use super::{Addresses, Ports};

const V4_ALL: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
const V6_ALL: (Ipv6Addr, Ipv6Addr) = (Ipv6Addr::UNSPECIFIED, Ipv6Addr::from_bits(u128::MAX));
const PORTS_ALL: (u16, u16) = (0, u16::MAX);
const ADDRESS_HELP: &str = "an address, a range 10.0.0.1-10.0.0.9, a network 10.0.0.0/8, or `any`";
const PORT_HELP: &str = "a port, a range 1:1024, 1024: or :1024, or `any`";

impl Addresses {
    /// All there are.
    pub fn any() -> Self {
        Self { v4: vec![V4_ALL], v6: vec![V6_ALL], excludes: false }
    }

    /// Whether all are in it.
    pub fn is_any(&self) -> bool {
        self.v4 == [V4_ALL] && self.v6 == [V6_ALL]
    }
}

impl Ports {
    /// All there are.
    pub fn any() -> Self {
        Self(vec![PORTS_ALL])
    }

    /// Whether all are in it.
    pub fn is_any(&self) -> bool {
        self.0 == [PORTS_ALL]
    }

    /// Whether `port` is in it.
    pub fn contains(&self, port: u16) -> bool {
        let behind = self.0.partition_point(|range| range.0 <= port);
        behind > 0 && self.0[behind - 1].1 >= port
    }
}

impl Space for Addresses {
    const MEMBERS: &'static str = "addresses";

    fn member(piece: Piece<'_>) -> Read<Self> {
        if piece.text.eq_ignore_ascii_case("any") {
            return Ok(Self::any());
        }
        Ok(if piece.text.contains(':') {
            Self { v6: vec![range(piece, 128, v6_network)?], ..Self::default() }
        } else {
            Self { v4: vec![range(piece, 32, v4_network)?], ..Self::default() }
        })
    }

    fn add(&mut self, other: &Self) {
        self.v4.extend_from_slice(&other.v4);
        self.v6.extend_from_slice(&other.v6);
    }

    fn settle(&mut self) {
        merge(&mut self.v4);
        merge(&mut self.v6);
    }

    /// A rule that excludes IPv4 networks alone is about IPv4 alone, as Suricata has it.
    fn without(self, other: &Self) -> Self {
        Self {
            v4: less(self.v4, &other.v4, V4_ALL),
            v6: less(self.v6, &other.v6, V6_ALL),
            excludes: true,
        }
    }

    fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

impl Space for Ports {
    const MEMBERS: &'static str = "ports";

    fn member(piece: Piece<'_>) -> Read<Self> {
        if piece.text.eq_ignore_ascii_case("any") {
            return Ok(Self::any());
        }
        let port = |piece: Piece<'_>| {
            let number = piece.decimal::<u16>();
            number.map_err(|_| piece.expected(format!("`{}` is not a port", piece.text), PORT_HELP))
        };
        let (min, max) = match piece.split_once(":") {
            Some((min, max)) if !(min.is_empty() && max.is_empty()) => (
                if min.is_empty() { 0 } else { port(min)? },
                if max.is_empty() { u16::MAX } else { port(max)? },
            ),
            _ => (port(piece)?, port(piece)?),
        };
        if min > max {
            return Err(piece.broken("the first port of a range is the greater"));
        }
        Ok(Self(vec![(min, max)]))
    }

    fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    fn settle(&mut self) {
        merge(&mut self.0);
    }

    fn without(self, other: &Self) -> Self {
        Self(less(self.0, &other.0, PORTS_ALL))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn less<T: Discrete>(ranges: Vec<(T, T)>, others: &[(T, T)], all: (T, T)) -> Vec<(T, T)> {
    match (ranges.is_empty(), others.is_empty()) {
        (_, true) => ranges,
        (true, false) => subtract(&[all], others),
        (false, false) => subtract(&ranges, others),
    }
}

/// One address, a range, or a network of `bits` at most.
fn range<T: Discrete + FromStr>(
    piece: Piece<'_>,
    bits: u8,
    network: impl Fn(T, u8) -> (T, T),
) -> Read<(T, T)> {
    let address = |piece: Piece<'_>| {
        let found = piece.text.parse::<T>();
        found.map_err(|_| {
            piece.expected(format!("`{}` is not an address", piece.text), ADDRESS_HELP)
        })
    };
    if let Some((base, mask)) = piece.split_once("/") {
        return Ok(network(address(base)?, prefix_len(mask, bits)?));
    }
    let Some((min, max)) = piece.split_once("-") else {
        let address = address(piece)?;
        return Ok((address, address));
    };
    let (min, max) = (address(min)?, address(max)?);
    if min > max {
        return Err(piece.broken("the first address of a range is the greater"));
    }
    Ok((min, max))
}

/// `24`, or for IPv4 `255.255.255.0`.
fn prefix_len(mask: Piece<'_>, bits: u8) -> Read<u8> {
    if bits == 32
        && let Ok(mask) = mask.text.parse::<Ipv4Addr>()
    {
        let ones = mask.to_bits().leading_ones();
        if mask.to_bits().count_ones() == ones {
            return Ok(ones as u8);
        }
    }
    let len = mask.decimal::<u8>().ok().filter(|len| *len <= bits);
    len.ok_or_else(|| {
        mask.expected(format!("`{}` is not a prefix length", mask.text), format!("0 to {bits}"))
    })
}

fn v4_network(address: Ipv4Addr, len: u8) -> (Ipv4Addr, Ipv4Addr) {
    let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
    let start = address.to_bits() & mask;
    (Ipv4Addr::from_bits(start), Ipv4Addr::from_bits(start | !mask))
}

fn v6_network(address: Ipv6Addr, len: u8) -> (Ipv6Addr, Ipv6Addr) {
    let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
    let start = address.to_bits() & mask;
    (Ipv6Addr::from_bits(start), Ipv6Addr::from_bits(start | !mask))
}
