//! The key of translators and balancers: which shard has the state of a packet that is translated.

use core::any::Any;
use core::net::IpAddr;
use std::sync::Arc;

use crate::addresses::number;
use crate::{Endpoint, Fixed, is_portless};
use warpline_packet::{
    AddressBlocks, Division, FlowHasher, Headers, OwnKey, Prefix, SHARDS, StateKey, Tuple,
};

/// Divides by the inside address, or the block of an outside port, where addresses are translated;
/// by the client's address where services are balanced. One key serves a chain with both whose
/// addresses are apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JointKey {
    /// The translator's part.
    pub inside: Option<InsideKey>,
    /// The balancer's part.
    pub services: Option<ClientKey>,
}

impl JointKey {
    /// A translator's.
    pub fn of_translator(inside: InsideKey) -> Self {
        Self { inside: Some(inside), services: None }
    }

    /// A balancer's.
    pub fn of_balancer(services: ClientKey) -> Self {
        Self { inside: None, services: Some(services) }
    }

    /// The key as functions name it.
    pub fn state_key(self) -> StateKey {
        StateKey::Own(OwnKey(Arc::new(self)))
    }

    /// This key with the parts that only `other` has; `None` if they differ or overlap.
    fn joined(&self, other: &Self) -> Option<Self> {
        let joined = Self {
            inside: one_of(&self.inside, &other.inside)?,
            services: one_of(&self.services, &other.services)?,
        };
        match (&joined.inside, &joined.services) {
            (Some(inside), Some(services)) if !services.is_apart_from(inside) => None,
            _ => Some(joined),
        }
    }
}

/// The one that is there, of two that must be the same; `None` where they are not.
fn one_of<T: Clone + PartialEq>(one: &Option<T>, other: &Option<T>) -> Option<Option<T>> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => None,
        _ => Some(one.clone().or_else(|| other.clone())),
    }
}

fn as_joint(other: &dyn Division) -> Option<&JointKey> {
    let other: &dyn Any = other;
    other.downcast_ref()
}

impl Division for JointKey {
    fn name(&self) -> &'static str {
        match (&self.inside, &self.services) {
            (Some(_), Some(_)) => "client address, or inside address or outside port block",
            (Some(_), None) => "inside address or outside port block",
            (None, _) => "client address",
        }
    }

    fn shard(&self, hasher: &FlowHasher, tuple: &Tuple, _: &[u8], _: &Headers) -> Option<u8> {
        match (&self.inside, &self.services) {
            (Some(inside), Some(services)) => {
                Some(client_or_inside(services, inside, hasher, tuple))
            }
            (Some(inside), None) => Some(inside.shard(hasher, tuple)),
            (None, Some(services)) => Some(services.shard(hasher, tuple)),
            (None, None) => None,
        }
    }

    fn keeps_flows(&self) -> bool {
        true
    }

    fn is_same(&self, other: &dyn Division) -> bool {
        as_joint(other) == Some(self)
    }

    fn combine(&self, other: &dyn Division) -> Option<OwnKey> {
        let joined = self.joined(as_joint(other)?)?;
        Some(OwnKey(Arc::new(joined)))
    }
}

/// Who is inside, and which outside ports are whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsideKey {
    /// Addresses that are translated. Packets without ports go by the remote address.
    pub inside: AddressBlocks,
    /// Addresses that they are translated to.
    pub outside: AddressBlocks,
    /// The first outside port that is handed out.
    pub port_first: u16,
    /// Outside ports a shard has of each outside address; shard `s` has those from
    /// `port_first + s * ports_per_shard` on.
    pub ports_per_shard: u16,
    /// Translations that the configuration fixes.
    pub fixed: Arc<Fixed>,
}

impl InsideKey {
    /// The shard that hands out `port`, if one does.
    #[inline]
    pub fn shard_of_port(&self, port: u16) -> Option<u8> {
        let block = port.checked_sub(self.port_first)?.checked_div(self.ports_per_shard)?;
        (usize::from(block) < SHARDS).then_some(block as u8)
    }

    #[inline]
    fn shard(&self, hasher: &FlowHasher, tuple: &Tuple) -> u8 {
        match tuple.version {
            4 => self.shard_of::<4>(hasher, tuple),
            6 => self.shard_of::<6>(hasher, tuple),
            _ => hasher.shard(tuple.pair),
        }
    }

    #[inline(always)]
    fn shard_of<const VERSION: u8>(&self, hasher: &FlowHasher, tuple: &Tuple) -> u8 {
        let (src, dst) = tuple.numbers();
        let by_address = |address| hasher.shard(hasher.address_number(VERSION, address));
        let is_inside = |address| self.inside.contains_number(VERSION, address);
        let inside = (is_inside(src), is_inside(dst));
        if is_portless(VERSION, tuple.protocol)
            && let Some(remote) = self.remote(VERSION, (src, dst), inside)
        {
            return by_address(remote);
        }
        let (to, from) = ((dst, tuple.dst_port), (src, tuple.src_port));
        let outside = |end| self.shard_of_outside(hasher, VERSION, tuple.protocol, end);
        let is_mapped = |address| self.fixed.inside_of(VERSION, address).is_some();
        match inside {
            // From inside to an outside port: to the state of that port. A mapped address has none.
            (true, false) if !is_mapped(dst) => outside(to).unwrap_or_else(|| by_address(src)),
            (false, true) if !is_mapped(src) => outside(from).unwrap_or_else(|| by_address(dst)),
            (true, false) => by_address(src),
            (false, true) => by_address(dst),
            // Nothing is translated between two that are inside, but others may keep state of both
            // directions.
            (true, true) => hasher.shard(tuple.pair),
            (false, false) => {
                outside(to).or_else(|| outside(from)).unwrap_or_else(|| hasher.shard(tuple.pair))
            }
        }
    }

    /// The end that is neither inside nor translated to inside, if the other one is.
    #[cold]
    fn remote(&self, version: u8, (src, dst): (u128, u128), inside: (bool, bool)) -> Option<u128> {
        match (inside.0 || self.is_outside(version, src), inside.1 || self.is_outside(version, dst))
        {
            (true, false) => Some(dst),
            (false, true) => Some(src),
            _ => None,
        }
    }

    fn is_outside(&self, version: u8, address: u128) -> bool {
        self.outside.contains_number(version, address)
            || self.fixed.has_forwards(version, address)
            || self.fixed.inside_of(version, address).is_some()
    }

    /// The shard with the state of an outside address and port, where it is one of ours.
    #[inline(always)]
    fn shard_of_outside(
        &self,
        hasher: &FlowHasher,
        version: u8,
        protocol: u8,
        (outside, port): (u128, Option<u16>),
    ) -> Option<u8> {
        if !self.fixed.is_empty()
            && let Some(host) = self.fixed_host(version, protocol, (outside, port))
        {
            return Some(hasher.shard(hasher.address_number(version, host)));
        }
        match self.outside.contains_number(version, outside) {
            true => self.shard_of_port(port?),
            false => None,
        }
    }

    /// The inside host of an outside end that the configuration fixes.
    #[inline(never)]
    fn fixed_host(
        &self,
        version: u8,
        protocol: u8,
        (address, port): (u128, Option<u16>),
    ) -> Option<u128> {
        let forward = |port| {
            let to = Endpoint { address, port };
            Some(self.fixed.forward(version, protocol, to)?.inside.address)
        };
        port.and_then(forward).or_else(|| self.fixed.inside_of(version, address))
    }
}

/// Addresses of services: those that clients send to, and those of their servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey(AddressBlocks);

impl ClientKey {
    /// The services are in these blocks, in any order.
    pub fn new(blocks: &[Prefix]) -> Self {
        Self(AddressBlocks::new(blocks))
    }

    /// Whether `address` is a service's.
    pub fn is_service(&self, address: IpAddr) -> bool {
        self.0.contains(address)
    }

    /// By the one address that is not a service's; by both where both are or neither is. A tuple
    /// and its reverse fall together.
    fn shard(&self, hasher: &FlowHasher, tuple: &Tuple) -> u8 {
        if tuple.version == 0 {
            return hasher.shard(tuple.pair);
        }
        let (src, dst) = tuple.addresses();
        match (self.is_service(src), self.is_service(dst)) {
            (false, true) => hasher.shard(hasher.address(src)),
            (true, false) => hasher.shard(hasher.address(dst)),
            _ => hasher.shard(tuple.pair),
        }
    }

    /// Whether no service is inside or outside of an address translator.
    fn is_apart_from(&self, key: &InsideKey) -> bool {
        !self.0.overlaps(&key.inside) && !self.0.overlaps(&key.outside)
    }
}

/// For balancers and translators in one chain whose addresses are apart. A client stays where the
/// translator has its state: one that is inside goes by its address, an outside one by the block of
/// its port. Both directions of a client's packets fall together, whichever server has the other
/// end.
fn client_or_inside(
    services: &ClientKey,
    inside: &InsideKey,
    hasher: &FlowHasher,
    tuple: &Tuple,
) -> u8 {
    if tuple.version == 0 {
        return hasher.shard(tuple.pair);
    }
    let (src, dst) = tuple.addresses();
    let (client, port) = match (services.is_service(src), services.is_service(dst)) {
        (false, true) => (src, tuple.src_port),
        (true, false) => (dst, tuple.dst_port),
        _ => return inside.shard(hasher, tuple),
    };
    // Services have ports.
    if is_portless(tuple.version, tuple.protocol) {
        return inside.shard(hasher, tuple);
    }
    // The pair won't do for an unused port: it has the VIP one way and the backend the other.
    inside
        .shard_of_outside(hasher, tuple.version, tuple.protocol, (number(client).1, port))
        .unwrap_or_else(|| hasher.shard(hasher.address(client)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_packet::{LinkType, Steering};

    fn key(blocks: &[&str]) -> ClientKey {
        let blocks: Vec<Prefix> = blocks.iter().map(|text| text.parse().unwrap()).collect();
        ClientKey::new(&blocks)
    }

    #[test]
    fn chains_that_disagree_say_who() {
        let client = |blocks: &[&str]| JointKey::of_balancer(key(blocks)).state_key();
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

    const OUTSIDE: &str = "203.0.113.1";
    const VIP: &str = "203.0.113.24";
    const BACKENDS: [&str; 2] = ["203.0.113.25", "203.0.113.26"];

    fn inside_key() -> InsideKey {
        let blocks = |text: &str| AddressBlocks::new(&[text.parse().unwrap()]);
        InsideKey {
            inside: blocks("10.1.0.0/16"),
            outside: blocks(OUTSIDE),
            port_first: 1024,
            ports_per_shard: 1008,
            fixed: Arc::default(),
        }
    }

    /// The steering of a chain with a balancer and a translator.
    fn both() -> Steering {
        let client = JointKey::of_balancer(key(&[VIP, "203.0.113.25/32", BACKENDS[1]])).state_key();
        let inside = JointKey::of_translator(inside_key()).state_key();
        let keys = [("balancer", client), ("nat", inside)].map(|(name, key)| (name.into(), key));
        Steering::derive(&keys).unwrap()
    }

    /// The shard of a UDP packet over bare IPv4.
    fn shard(steering: &Steering, src: (&str, u16), dst: (&str, u16)) -> u8 {
        let octets = |text: &str| text.parse::<core::net::Ipv4Addr>().unwrap().octets();
        let mut frame = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        frame.extend(octets(src.0).into_iter().chain(octets(dst.0)));
        frame.extend([src.1.to_be_bytes(), dst.1.to_be_bytes(), [0, 8], [0, 0]].concat());
        let headers = Headers::parse(&frame, LinkType::RAW, frame.len());
        steering.steer(&FlowHasher::SEED_0, &frame, &headers).shard
    }

    /// The translator lets them pass, but other functions of the chain keep state of both
    /// directions.
    #[test]
    fn both_directions_between_inside_hosts_fall_together() {
        let steering = Steering::serving(JointKey::of_translator(inside_key()).state_key());
        for host in 2..=250u16 {
            let (one, other) = (("10.1.0.1", 40_000), (&*format!("10.1.1.{host}"), 53));
            assert_eq!(shard(&steering, one, other), shard(&steering, other, one), "{host}");
        }
    }

    #[test]
    fn clients_of_services_meet_their_backends_packets() {
        let steering = both();
        assert!(steering.name().starts_with("client address, or inside"), "{}", steering.name());
        let mut shards = std::collections::BTreeSet::new();
        for host in 1..=250u16 {
            let (address, port) = (format!("192.0.2.{host}"), 40_000 + host);
            let client = (address.as_str(), port);
            let own = shard(&steering, client, (VIP, 80));
            shards.insert(own);
            assert_eq!(shard(&steering, (VIP, 80), client), own);
            for backend in BACKENDS {
                assert_eq!(shard(&steering, (backend, 8080), client), own);
                assert_eq!(shard(&steering, client, (backend, 8080)), own);
            }
        }
        assert!(shards.len() > 55, "they spread: {}", shards.len());
    }

    #[test]
    fn translated_packets_stay_in_the_translator_s_shards() {
        let (steering, nat) =
            (both(), Steering::serving(JointKey::of_translator(inside_key()).state_key()));
        for number in 0..250u16 {
            let inside = format!("10.1.{}.{}", number / 7, number + 1);
            let (inside, remote) = ((inside.as_str(), 50_000), ("198.51.100.7", 443));
            // From inside to the Internet, and, were it not translated, back.
            let own = shard(&nat, inside, remote);
            assert_eq!(shard(&steering, inside, remote), own);
            assert_eq!(shard(&steering, remote, inside), own);
            // A client that is inside stays with its bindings, whatever it talks to.
            for service in [VIP, BACKENDS[0], BACKENDS[1]] {
                assert_eq!(shard(&steering, inside, (service, 80)), own);
                assert_eq!(shard(&steering, (service, 80), inside), own);
            }
            // Replies come to an outside port: its block is the shard that handed it out.
            let port = 1024 + 1008 * (number % 64) + number;
            let outside = (OUTSIDE, port);
            assert_eq!(u16::from(shard(&steering, remote, outside)), number % 64);
            for service in [VIP, BACKENDS[0], BACKENDS[1]] {
                assert_eq!(u16::from(shard(&steering, (service, 80), outside)), number % 64);
                assert_eq!(u16::from(shard(&steering, outside, (service, 80))), number % 64);
            }
        }
        // An unused port: both ways together all the same.
        let nobody = (OUTSIDE, 80);
        let own = shard(&steering, nobody, (VIP, 80));
        assert!(BACKENDS.iter().all(|backend| shard(&steering, (backend, 80), nobody) == own));
        // Neither is anyone's: the pair.
        let (a, b) = (("192.0.2.1", 1), ("198.51.100.2", 2));
        assert_eq!(shard(&steering, a, b), shard(&Steering::AddressPair, a, b));
        assert_eq!(shard(&steering, b, a), shard(&Steering::AddressPair, a, b));
    }

    #[test]
    fn services_inside_or_outside_disagree_with_the_translator() {
        let derived = |blocks: &[&str]| {
            let client = JointKey::of_balancer(key(blocks)).state_key();
            let inside = JointKey::of_translator(inside_key()).state_key();
            let keys = [("wall", StateKey::AddressPair), ("nat", inside), ("balancer", client)];
            Steering::derive(&keys.map(|(name, key)| (name.into(), key)))
        };
        let who = Err(["nat", "balancer"].map(String::from));
        for blocks in [&["10.1.2.3"][..], &["10.0.0.0/8"], &[OUTSIDE], &[VIP, "203.0.113.0/30"]] {
            assert_eq!(derived(blocks), who, "{blocks:?}");
        }
        for blocks in [&[VIP][..], &["10.0.255.255"], &["10.2.0.0/16"], &["2001:db8::/32"]] {
            assert!(matches!(derived(blocks), Ok(Steering::Own(_))), "{blocks:?}");
        }
        // Two of a kind must be the same.
        let client = |blocks: &[&str]| JointKey::of_balancer(key(blocks)).state_key();
        let inside = JointKey::of_translator(inside_key()).state_key();
        let keys = [("a", client(&[VIP])), ("nat", inside), ("b", client(&["203.0.113.99"]))];
        let keys = keys.map(|(name, key)| (name.to_owned(), key));
        assert_eq!(Steering::derive(&keys), Err(["a", "b"].map(String::from)));
    }
}
