//! Steering: the ingress key that sends every packet of a piece of state to the same shard.
//!
//! Each function of a chain names the key that may divide its state ([`StateKey`]). The chain
//! derives one key that serves them all ([`Steering::derive`]). The default is the symmetric
//! address pair: later fragments have it too, and ICMP errors are steered by the packet they quote.
//! Keys are computed from the frame as it came in, and hashed with the chain's seed
//! ([`FlowHasher`]).

use crate::hash::{FlowHasher, PairHash};
use crate::wire::{Ipv4, Ipv6, icmpv4, icmpv6, ip_protocol, ipv4, ipv6, ipv6_ext};
use crate::{Flags, Headers, OwnKey, StateKey};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The one key of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steering {
    /// The unordered pair of addresses.
    AddressPair,
    /// A function's own, or one that serves several functions' own.
    Own(OwnKey),
    /// No key serves every function, or some state can't be divided: one shard has everything, on
    /// one lane.
    Single,
}

impl Steering {
    /// The key that serves all of `keys`, by instance name; or the names of two that disagree.
    pub fn derive(keys: &[(String, StateKey)]) -> Result<Self, [String; 2]> {
        if keys.iter().any(|(_, key)| *key == StateKey::Whole) {
            return Ok(Self::Single);
        }
        let mut found: Vec<(&String, &StateKey)> = Vec::new();
        let mut joint: Option<OwnKey> = None;
        for (name, key) in keys.iter().filter(|(_, key)| *key != StateKey::None) {
            if let Some((other, _)) = found.iter().find(|(_, own)| !own.agrees(key)) {
                return Err([(*other).clone(), name.clone()]);
            }
            if let StateKey::Own(key) = key {
                let own = joint.as_ref().map_or_else(|| Some(key.clone()), |own| own.combine(key));
                let Some(own) = own else { return Err([found[0].0.clone(), name.clone()]) };
                joint = Some(own);
            }
            found.push((name, key));
        }
        Ok(joint.map_or(Self::AddressPair, Self::Own))
    }

    /// The key that serves a function by itself.
    pub fn serving(key: StateKey) -> Self {
        match key {
            StateKey::None | StateKey::AddressPair => Self::AddressPair,
            StateKey::Own(key) => Self::Own(key),
            StateKey::Whole => Self::Single,
        }
    }

    /// How `warpline check` calls the key.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AddressPair => "address pair",
            Self::Own(key) => key.0.name(),
            Self::Single => "none (one lane)",
        }
    }

    /// The shard of a frame with these headers, and the name of its flow.
    #[inline(always)]
    pub fn steer(&self, hasher: &FlowHasher, frame: &[u8], headers: &Headers) -> Steered {
        match (self, Flow::of(hasher, frame, headers)) {
            (Self::AddressPair, Some(Flow { pair, ports })) => Steered {
                shard: hasher.shard(pair),
                flow_hash: hasher.flow(pair, ports, headers.protocol),
            },
            (_, _) => self.steer_by_tuple(hasher, frame, headers),
        }
    }

    /// The same by addresses and ports one by one, also those that an ICMP error quotes.
    #[inline(never)]
    fn steer_by_tuple(&self, hasher: &FlowHasher, frame: &[u8], headers: &Headers) -> Steered {
        let tuple = Tuple::of(hasher, frame, headers);
        let shard = match self {
            Self::AddressPair => hasher.shard(tuple.pair),
            Self::Own(key) => {
                let own = key.0.shard(hasher, &tuple, frame, headers);
                own.unwrap_or_else(|| hasher.shard(tuple.pair))
            }
            Self::Single => 0,
        };
        Steered { shard, flow_hash: tuple.flow_hash(hasher) }
    }
}

/// The hash inputs of a packet that belong to its own flow; not for ICMP, and not for other
/// protocols than IP.
struct Flow {
    /// Unordered pair of addresses, hashed.
    pair: PairHash,
    /// Both ports, the smaller one first; 0 where there are none.
    ports: u32,
}

impl Flow {
    #[inline(always)]
    fn of(hasher: &FlowHasher, frame: &[u8], headers: &Headers) -> Option<Self> {
        let packet = frame.get(usize::from(headers.l3)..)?;
        let pair = match headers.version {
            4 => {
                let header: &[u8; ipv4::HEADER_LEN] = packet.first_chunk()?;
                hasher.pair(
                    be32(header, ipv4::field::SRC_ADDR.start),
                    be32(header, ipv4::field::DST_ADDR.start),
                )
            }
            6 => {
                let header: &[u8; ipv6::HEADER_LEN] = packet.first_chunk()?;
                hasher.pair(
                    hasher.fold_v6(be128(&header[ipv6::field::SRC_ADDR])),
                    hasher.fold_v6(be128(&header[ipv6::field::DST_ADDR])),
                )
            }
            _ => return None,
        };
        let ports = match headers.protocol {
            ip_protocol::ICMP | ip_protocol::ICMPV6 => return None,
            ip_protocol::TCP | ip_protocol::UDP if headers.flags.has(Flags::TRANSPORT) => {
                let ports = be32(frame, usize::from(headers.l4));
                let (src, dst) = (ports >> 16, ports & 0xffff);
                src.min(dst) << 16 | src.max(dst)
            }
            _ => 0,
        };
        Some(Self { pair, ports })
    }
}

/// Where a packet goes, and its flow's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steered {
    /// 0 to 63.
    pub shard: u8,
    /// The same in both directions.
    pub flow_hash: u32,
}

/// The protocol that a quoted IPv6 packet carries after its extension headers, and its place. A
/// later fragment shows none; nor does a quote that ends within these headers.
fn upper_of_quoted(next_header: u8, quoted: &[u8]) -> (u8, usize) {
    match ipv6_ext::of_quote(next_header, quoted) {
        Some(chain) if !chain.is_later_fragment() => (chain.protocol, chain.offset),
        _ => (0, ipv6::HEADER_LEN),
    }
}

/// Addresses and ports of a packet, the input of keys. Those of an ICMP error come from the quoted
/// packet, reversed, so that they have the error's own direction.
pub struct Tuple {
    /// Unordered pair of addresses, hashed.
    pub pair: PairHash,
    src: [u8; 16],
    dst: [u8; 16],
    /// IP version; 0 where the packet is not IP.
    pub version: u8,
    /// The protocol after the IP header and its extensions.
    pub protocol: u8,
    /// TCP or UDP source port, or the identifier of an ICMP echo.
    pub src_port: Option<u16>,
    /// TCP or UDP destination port, or the identifier of an ICMP echo.
    pub dst_port: Option<u16>,
}

impl Tuple {
    #[inline]
    fn of(hasher: &FlowHasher, frame: &[u8], headers: &Headers) -> Self {
        if headers.version == 0 {
            return Self::of_link(hasher, frame);
        }
        let packet = frame.get(usize::from(headers.l3)..).unwrap_or(&[]);
        let body = if headers.flags.has(Flags::TRANSPORT) {
            frame.get(usize::from(headers.l4)..headers.end as usize).unwrap_or(&[])
        } else {
            &[]
        };
        match headers.protocol {
            ip_protocol::ICMP | ip_protocol::ICMPV6 if !body.is_empty() => {
                Self::of_icmp(hasher, packet, headers, body)
            }
            _ => Self::of_ip(hasher, packet, headers.version, headers.protocol, body),
        }
    }

    #[inline(always)]
    fn of_ip(hasher: &FlowHasher, packet: &[u8], version: u8, protocol: u8, body: &[u8]) -> Self {
        let (mut src, mut dst) = ([0; 16], [0; 16]);
        let pair = if version == 4 {
            let (s, d) = (
                be32(packet, ipv4::field::SRC_ADDR.start),
                be32(packet, ipv4::field::DST_ADDR.start),
            );
            src[..4].copy_from_slice(&s.to_be_bytes());
            dst[..4].copy_from_slice(&d.to_be_bytes());
            hasher.pair(s, d)
        } else {
            copy(&mut src, packet.get(ipv6::field::SRC_ADDR));
            copy(&mut dst, packet.get(ipv6::field::DST_ADDR));
            let fold = |address| hasher.fold_v6(u128::from_be_bytes(address));
            hasher.pair(fold(src), fold(dst))
        };
        let ports = matches!(protocol, ip_protocol::TCP | ip_protocol::UDP) && body.len() >= 4;
        let port = |at: usize| ports.then(|| u16::from_be_bytes([body[at], body[at + 1]]));
        Self { pair, src, dst, version, protocol, src_port: port(0), dst_port: port(2) }
    }

    #[cold]
    fn of_icmp(hasher: &FlowHasher, packet: &[u8], headers: &Headers, body: &[u8]) -> Self {
        let (kind, version) = (body[0], headers.version);
        let (error, echo) = if version == 4 {
            (icmpv4::message::is_error(kind), is_echo_v4(kind))
        } else {
            (icmpv6::message::is_error(kind), is_echo_v6(kind))
        };
        if error && let Some(tuple) = Self::of_quoted(hasher, body.get(8..).unwrap_or(&[]), version)
        {
            return tuple;
        }
        let mut tuple = Self::of_ip(hasher, packet, version, headers.protocol, &[]);
        if echo {
            let ident = body.get(4..6).map(|b| u16::from_be_bytes([b[0], b[1]]));
            (tuple.src_port, tuple.dst_port) = (ident, ident);
        }
        tuple
    }

    /// The tuple of a quoted packet, turned around: the error travels against it.
    fn of_quoted(hasher: &FlowHasher, quoted: &[u8], version: u8) -> Option<Self> {
        let (protocol, header_len) = if version == 4 {
            let ip = Ipv4::new_unchecked(quoted);
            ip.check_start().ok()?;
            (if ip.fragment_offset() == 0 { ip.protocol() } else { 0 }, ip.header_len())
        } else {
            let ip = Ipv6::new_unchecked(quoted);
            ip.check_start().ok()?;
            upper_of_quoted(ip.next_header(), quoted)
        };
        let body = quoted.get(header_len..).unwrap_or(&[]);
        let mut tuple = Self::of_ip(hasher, quoted, version, protocol, body);
        let echo = match (protocol, body.first()) {
            (ip_protocol::ICMP, Some(&kind)) => is_echo_v4(kind),
            (ip_protocol::ICMPV6, Some(&kind)) => is_echo_v6(kind),
            _ => false,
        };
        if echo && let Some(ident) = body.get(4..6) {
            let ident = Some(u16::from_be_bytes([ident[0], ident[1]]));
            (tuple.src_port, tuple.dst_port) = (ident, ident);
        }
        core::mem::swap(&mut tuple.src, &mut tuple.dst);
        core::mem::swap(&mut tuple.src_port, &mut tuple.dst_port);
        Some(tuple)
    }

    #[cold]
    fn of_link(hasher: &FlowHasher, frame: &[u8]) -> Self {
        let half = |at: usize| be32(frame, at + 2) ^ u32::from(frame.get(at).copied().unwrap_or(0));
        Self {
            pair: hasher.pair(half(0), half(6)),
            src: [0; 16],
            dst: [0; 16],
            version: 0,
            protocol: 0,
            src_port: None,
            dst_port: None,
        }
    }

    fn flow_hash(&self, hasher: &FlowHasher) -> u32 {
        let ports = match (self.src_port, self.dst_port) {
            (Some(src), Some(dst)) => u32::from(src.min(dst)) << 16 | u32::from(src.max(dst)),
            _ => 0,
        };
        hasher.flow(self.pair, ports, self.protocol)
    }

    /// Source and destination as numbers; IPv4 fills the low 32 bits.
    #[inline(always)]
    pub fn numbers(&self) -> (u128, u128) {
        let of = |bytes: &[u8; 16]| match self.version {
            4 => u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into(),
            _ => u128::from_be_bytes(*bytes),
        };
        (of(&self.src), of(&self.dst))
    }

    /// Source and destination; 0.0.0.0 where the packet is not IP.
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        let of = |bytes: &[u8; 16]| match self.version {
            6 => IpAddr::V6(Ipv6Addr::from(*bytes)),
            _ => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        };
        (of(&self.src), of(&self.dst))
    }
}

#[inline(always)]
fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

#[inline(always)]
fn be128(bytes: &[u8]) -> u128 {
    bytes.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes))
}

fn copy(to: &mut [u8; 16], from: Option<&[u8]>) {
    if let Some(from) = from {
        to.copy_from_slice(from);
    }
}

const fn is_echo_v4(kind: u8) -> bool {
    matches!(kind, icmpv4::message::ECHO_REQUEST | icmpv4::message::ECHO_REPLY)
}

const fn is_echo_v6(kind: u8) -> bool {
    matches!(kind, icmpv6::message::ECHO_REQUEST | icmpv6::message::ECHO_REPLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkType, Seed};

    #[test]
    fn a_flow_s_own_packets_are_steered_alike_both_ways() {
        let mut seed = 7u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        let (mut both, hasher) = (0, FlowHasher::new(Seed::new(7)));
        for round in 0..20_000 {
            let mut frame: Vec<u8> = (0..40 + random() % 60).map(|_| random()).collect();
            frame[0] = if round % 2 == 0 { 0x45 } else { 0x60 };
            frame[2..4].copy_from_slice(&[0, 40]);
            let protocol = [6, 17, 1, 50, 17][round % 5];
            match round % 2 {
                0 => frame[6..10].copy_from_slice(&[0, 0, 64, protocol]),
                _ => frame[4..8].copy_from_slice(&[0, 30, protocol, 64]),
            }
            let headers = Headers::parse(&frame, LinkType::RAW, 200);
            let steered = Steering::AddressPair.steer(&hasher, &frame, &headers);
            assert_eq!(steered, Steering::AddressPair.steer_by_tuple(&hasher, &frame, &headers));
            both += usize::from(Flow::of(&hasher, &frame, &headers).is_some());
        }
        assert!(both > 5_000, "{both}");
    }
    /// The packet that an error quotes has extension headers (RFC 8200, 4), and its ports are those
    /// of the others of its flow.
    #[test]
    fn errors_are_steered_by_quotes_with_extension_headers() {
        let hasher = FlowHasher::new(Seed::new(7));
        let addresses = [[0x20; 16], [0x30; 16]].concat();
        let packet = |next: u8, [src, dst]: [&[u8]; 2], body: &[u8]| {
            let len = body.len() as u8;
            [&[0x60, 0, 0, 0, 0, len, next, 64][..], src, dst, body].concat()
        };
        let (inside, outside) = addresses.split_at(16);
        let udp = [0x12, 0x34, 0, 53, 0, 8, 0, 0];
        let error = |next, body: &[u8]| {
            let quote = packet(next, [inside, outside], body);
            packet(58, [outside, inside], &[&[1, 0, 0, 0, 0, 0, 0, 0][..], &quote].concat())
        };
        let flow_hash = |frame: &[u8]| {
            let headers = Headers::parse(frame, LinkType::RAW, frame.len());
            assert!(headers.malformed().is_none());
            Steering::AddressPair.steer(&hasher, frame, &headers).flow_hash
        };
        let own = flow_hash(&packet(17, [inside, outside], &udp));
        assert_eq!(flow_hash(&error(17, &udp)), own);
        let routing = [17, 0, 4, 1, 0, 0, 0, 0];
        assert_eq!(flow_hash(&error(43, &[routing, udp].concat())), own);
        let options = [43, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(flow_hash(&error(60, &[options, routing, udp].concat())), own);
        // A later fragment has no ports, nor has a quote that ends before them.
        let later = [17, 0, 0, 8, 0, 0, 0, 1];
        assert_ne!(flow_hash(&error(43, &routing)), own);
        assert_ne!(flow_hash(&error(44, &[later, udp].concat())), own);
    }
}
