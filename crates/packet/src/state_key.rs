//! The keys by which functions' state may be divided: what a function names, and a chain derives its
//! [`crate::Steering`] from.

use core::net::IpAddr;
use std::sync::Arc;

use crate::hash::mix32;
use crate::steering::{Tuple, fold, top6};
use crate::{Prefix, SHARDS};

/// The key by which a function's state may be divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateKey {
    /// There is no state, or any division will do.
    None,
    /// Both directions of a flow meet: the unordered pair of addresses serves it, and so does any key
    /// under which a tuple and its reverse fall together.
    AddressPair,
    /// Address translation: the inside address, or the block that an outside port is in.
    Inside(Arc<InsideKey>),
    /// Load balancing: the client of a service, whichever way its packets go.
    Client(Arc<ClientKey>),
    /// It can't be divided: every packet matters to every other.
    Whole,
}

/// Who is inside, and which outside ports are whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsideKey {
    /// Addresses that are translated.
    pub inside: Vec<Prefix>,
    /// Addresses that they are translated to.
    pub outside: Vec<Prefix>,
    /// The first outside port that is handed out.
    pub port_first: u16,
    /// Outside ports a shard has of each outside address; shard `s` has those from
    /// `port_first + s * ports_per_shard` on.
    pub ports_per_shard: u16,
}

impl InsideKey {
    fn is_inside(&self, address: IpAddr) -> bool {
        self.inside.iter().any(|prefix| prefix.contains(address))
    }

    fn is_outside(&self, address: IpAddr) -> bool {
        self.outside.iter().any(|prefix| prefix.contains(address))
    }

    /// The shard that hands out `port`, if one does.
    pub fn shard_of_port(&self, port: u16) -> Option<u8> {
        let block = port.checked_sub(self.port_first)?.checked_div(self.ports_per_shard)?;
        (usize::from(block) < SHARDS).then_some(block as u8)
    }

    pub(crate) fn shard(&self, tuple: &Tuple) -> u8 {
        if tuple.version == 0 {
            return top6(tuple.pair);
        }
        let (src, dst) = tuple.addresses();
        let inside = [src, dst].into_iter().find(|&a| self.is_inside(a));
        if let Some(address) = inside {
            return top6(mix32(fold(address)));
        }
        let port = if self.is_outside(dst) {
            tuple.dst_port
        } else if self.is_outside(src) {
            tuple.src_port
        } else {
            None
        };
        port.and_then(|port| self.shard_of_port(port)).unwrap_or_else(|| top6(tuple.pair))
    }
}

/// Addresses of services: those that clients send to, and those of the servers behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey {
    /// First and last address of each block, in order; no two touch.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl ClientKey {
    /// The services are in these blocks, in any order.
    pub fn new(blocks: &[Prefix]) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for block in blocks {
            match block.address() {
                IpAddr::V4(a) => {
                    let rest = u64::from(u32::MAX) >> block.len();
                    v4.push((a.to_bits(), a.to_bits() | rest as u32));
                }
                IpAddr::V6(a) => {
                    let rest = u128::MAX.checked_shr(block.len().into()).unwrap_or(0);
                    v6.push((a.to_bits(), a.to_bits() | rest));
                }
            }
        }
        Self { v4: joined(v4, |a| a.checked_add(1)), v6: joined(v6, |a| a.checked_add(1)) }
    }

    /// Whether `address` is a service's.
    pub fn is_service(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(a) => holds(&self.v4, a.to_bits()),
            IpAddr::V6(a) => holds(&self.v6, a.to_bits()),
        }
    }

    /// By the one address that is not a service's; by both where both are or neither is. A tuple and its
    /// reverse fall together.
    pub(crate) fn shard(&self, tuple: &Tuple) -> u8 {
        if tuple.version == 0 {
            return top6(tuple.pair);
        }
        let (src, dst) = tuple.addresses();
        match (self.is_service(src), self.is_service(dst)) {
            (false, true) => top6(mix32(fold(src))),
            (true, false) => top6(mix32(fold(dst))),
            _ => top6(tuple.pair),
        }
    }
}

/// Blocks in order, those that overlap or touch made one.
fn joined<T: Copy + Ord>(mut blocks: Vec<(T, T)>, next: fn(T) -> Option<T>) -> Vec<(T, T)> {
    blocks.sort_unstable();
    let mut list: Vec<(T, T)> = Vec::with_capacity(blocks.len());
    for (first, last) in blocks {
        match list.last_mut() {
            Some(own) if next(own.1).is_none_or(|next| first <= next) => own.1 = own.1.max(last),
            _ => list.push((first, last)),
        }
    }
    list
}

fn holds<T: Copy + Ord>(blocks: &[(T, T)], address: T) -> bool {
    let behind = blocks.partition_point(|&(first, _)| first <= address);
    behind.checked_sub(1).and_then(|at| blocks.get(at)).is_some_and(|&(_, last)| address <= last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Steering;

    fn key(blocks: &[&str]) -> ClientKey {
        let blocks: Vec<Prefix> = blocks.iter().map(|text| text.parse().unwrap()).collect();
        ClientKey::new(&blocks)
    }

    #[test]
    fn services_are_those_of_the_blocks() {
        let blocks =
            ["10.0.0.0/24", "10.0.1.0/24", "10.0.0.7", "255.255.255.254/31", "2001:db8::/32"];
        let prefixes: Vec<Prefix> = blocks.iter().map(|text| text.parse().unwrap()).collect();
        let key = key(&blocks);
        assert_eq!((key.v4.len(), key.v6.len()), (2, 1), "what touches is one");
        let near = ["9.255.255.255", "10.0.0.0", "10.0.1.255", "10.0.2.0", "255.255.255.253"];
        let far =
            ["255.255.255.255", "2001:db7:ffff::", "2001:db8:ffff:ffff::", "2001:db9::", "::"];
        for text in near.iter().chain(&far) {
            let address: IpAddr = text.parse().unwrap();
            let expected = prefixes.iter().any(|prefix| prefix.contains(address));
            assert_eq!(key.is_service(address), expected, "{text}");
        }
        assert!(ClientKey::new(&["::/0".parse().unwrap()]).is_service("::1".parse().unwrap()));
    }

    #[test]
    fn chains_that_disagree_say_who() {
        let client = |blocks: &[&str]| StateKey::Client(Arc::new(key(blocks)));
        let named = |keys: &[StateKey]| {
            let names = ["a", "b", "c"].map(String::from);
            let keys: Vec<_> = names.into_iter().zip(keys.iter().cloned()).collect();
            Steering::derive(&keys)
        };
        let own = client(&["10.0.0.1"]);
        let derived = named(&[StateKey::AddressPair, own.clone(), own.clone()]);
        assert_eq!(derived, Ok(Steering::serving(own.clone())));
        let other = client(&["10.0.0.2"]);
        assert_eq!(named(&[StateKey::None, own.clone(), other]), Err(["b", "c"].map(String::from)));
        assert_eq!(named(&[own, StateKey::Whole]), Ok(Steering::Single));
    }
}
