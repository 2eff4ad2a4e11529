//! The flow of a packet: endpoints, protocol, and a hash that both directions share.

use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol, tcp};
use warpline_packet::{Flags, Packet, Seed};
use warpline_tables::keyed::mix;

/// One direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowDirection {
    /// From the initiator.
    Forward = 0,
    /// To the initiator.
    Reverse = 1,
}

/// The key of flow hashes. They decide which flow is evicted, so the chain's seed gives the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowHashKey(u64);

impl FlowHashKey {
    pub(super) fn new(seed: Seed) -> Self {
        Self(seed.key(0x200))
    }

    /// As kernels have it.
    pub(super) fn to_le_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// Endpoints and protocol, as one direction of a flow has them.
///
/// ICMP has no ports: `src_port` is the identifier of an echo or else 0, `dst_port` is type and
/// code, an echo's as its request has them, and neither is turned around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    pub(super) src: u128,
    pub(super) dst: u128,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) protocol: u8,
    /// 4 or 6.
    pub(super) version: u8,
    /// Two ends that ask each other by the same identifier have two flows.
    pub(super) echo: Echo,
}

/// Whether a packet of a flow's direction asks for an echo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Echo {
    /// It is no echo.
    #[default]
    None,
    Asks,
    Answers,
}

impl FlowKey {
    /// Of a packet, and whether that is an echo reply.
    #[inline(always)]
    pub(super) fn of(packet: &Packet<'_>) -> Result<(Self, bool), Unmetered> {
        if packet.malformed().is_some() {
            return Err(Unmetered::Malformed);
        }
        let (version, protocol) = (packet.version(), packet.protocol());
        let (src, dst) = match version {
            4 => (u128::from(packet.src_v4()), u128::from(packet.dst_v4())),
            6 => (packet.src_v6(), packet.dst_v6()),
            _ => return Err(Unmetered::NotIp),
        };
        let echo = Echo::None;
        let mut key = Self { src, dst, src_port: 0, dst_port: 0, protocol, version, echo };
        if is_icmp(version, protocol) {
            let replies = key.read_icmp(packet);
            return Ok((key, replies));
        }
        // The ports of protocols without ports read as 0.
        (key.src_port, key.dst_port) = (packet.src_port(), packet.dst_port());
        Ok((key, false))
    }

    /// Whether its ports are an identifier and a type.
    #[inline(always)]
    pub(super) fn is_icmp(&self) -> bool {
        is_icmp(self.version, self.protocol)
    }

    /// The key of the other direction.
    #[inline(always)]
    pub(super) fn reversed(&self) -> Self {
        let (src_port, dst_port) = match self.is_icmp() {
            true => (self.src_port, self.dst_port),
            false => (self.dst_port, self.src_port),
        };
        let echo = match self.echo {
            Echo::None => Echo::None,
            Echo::Asks => Echo::Answers,
            Echo::Answers => Echo::Asks,
        };
        Self { src: self.dst, dst: self.src, src_port, dst_port, echo, ..*self }
    }

    /// The same for the reversed key.
    #[inline(always)]
    pub(super) fn hash(&self, key: FlowHashKey) -> u32 {
        let FlowHashKey(hash_key) = key;
        // The ports of ICMP are no endpoint's, so that they go in by themselves.
        let (src_port, dst_port, both) = match self.is_icmp() {
            true => (0, 0, u64::from(self.src_port) << 16 | u64::from(self.dst_port)),
            false => (self.src_port, self.dst_port, 0),
        };
        let ends =
            endpoint(key, self.src, src_port).wrapping_add(endpoint(key, self.dst, dst_port));
        let kind = both << 16 | u64::from(self.protocol) << 8 | u64::from(self.version);
        let hash = mix(ends ^ kind, hash_key ^ 0x94d0_49bb_1331_11eb);
        (hash >> 32) as u32 ^ hash as u32
    }
}

/// Whether `protocol` is the ICMP of IP `version`.
#[inline(always)]
pub(super) fn is_icmp(version: u8, protocol: u8) -> bool {
    match version {
        4 => protocol == ip_protocol::ICMP,
        _ => protocol == ip_protocol::ICMPV6,
    }
}

#[inline(always)]
fn endpoint(FlowHashKey(key): FlowHashKey, address: u128, port: u16) -> u64 {
    let low = address as u64 ^ u64::from(port).rotate_right(16);
    let high = (address >> 64) as u64;
    mix(low ^ key ^ 0x9e37_79b9_7f4a_7c15, high ^ key.rotate_left(32) ^ 0xbf58_476d_1ce4_e5b9)
}

/// The properties of a packet that are metered.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeteredPacket {
    pub(super) key: FlowKey,
    pub(super) hash: u32,
    /// Bytes of the IP packet, its header too.
    pub(super) len: u32,
    /// The packet's own time in whole microseconds, as in records.
    pub(super) own_us: u64,
    /// The time that flows age by.
    pub(super) now_us: u64,
    /// Its number in the input.
    pub(super) ingress: u64,
    /// The lower eight of TCP; 0 for others.
    pub(super) tcp_flags: u8,
    /// Whether it is, by all one can tell, an answer: a SYN with ACK, or an echo reply.
    pub(super) answers: bool,
}

/// Why a packet is not metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unmetered {
    NotIp,
    Malformed,
}

impl MeteredPacket {
    /// Of a packet whose endpoints hash to `hash`.
    #[inline(always)]
    pub(super) fn read(packet: &Packet<'_>, hash: u32) -> Result<Self, Unmetered> {
        let (key, replies) = FlowKey::of(packet)?;
        let tcp_flags = match key.protocol {
            ip_protocol::TCP => packet.tcp_flags() as u8,
            _ => 0,
        };
        let (own, now) = (packet.captured(), packet.timestamp());
        let own_us = own.as_nanos() / 1000;
        let now_us = if now == own { own_us } else { now.as_nanos() / 1000 };
        Ok(Self {
            key,
            hash,
            len: u32::try_from(packet.ip_wire_len()).unwrap_or(u32::MAX),
            own_us,
            now_us,
            ingress: packet.ingress(),
            tcp_flags,
            answers: replies || tcp_flags & SYN_ACK == SYN_ACK,
        })
    }
}

impl MeteredPacket {
    /// Whether it asks for a new connection.
    #[inline(always)]
    pub(super) fn opens(&self) -> bool {
        self.tcp_flags & SYN_ACK == tcp::flags::SYN as u8
    }
}

const SYN_ACK: u8 = (tcp::flags::SYN | tcp::flags::ACK) as u8;

impl FlowKey {
    /// Reads type, code and identifier. Returns whether it is an echo reply.
    #[inline(never)]
    fn read_icmp(&mut self, packet: &Packet<'_>) -> bool {
        (self.src_port, self.dst_port) = (0, 0);
        if !packet.has(Flags::TRANSPORT) {
            return false;
        }
        let (request, reply) = echo_types(self.version);
        let kind = packet.icmp_type();
        let is_echo = kind == request || kind == reply;
        if is_echo {
            self.src_port = packet.icmp_ident();
            self.echo = if kind == reply { Echo::Answers } else { Echo::Asks };
        }
        let own = if is_echo { request } else { kind };
        self.dst_port = u16::from_be_bytes([own, packet.icmp_code()]);
        kind == reply
    }
}

/// The types of echo request and reply.
pub(super) fn echo_types(version: u8) -> (u8, u8) {
    match version {
        4 => (icmpv4::message::ECHO_REQUEST, icmpv4::message::ECHO_REPLY),
        _ => (icmpv6::message::ECHO_REQUEST, icmpv6::message::ECHO_REPLY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_hash_alike_and_neighbours_do_not() {
        let hash_key = FlowHashKey::new(Seed::default());
        let mut hashes = std::collections::HashSet::new();
        for (protocol, version) in [(6, 4), (17, 4), (1, 4), (6, 6), (58, 6)] {
            for n in 0..20_000u32 {
                let (src, dst) = (u128::from(0x0a00_0000 | n >> 4), 0xc633_6401);
                let (src_port, dst_port) = ((n & 15) as u16, 53);
                let key =
                    FlowKey { src, dst, src_port, dst_port, protocol, version, echo: Echo::None };
                assert_eq!(key.hash(hash_key), key.reversed().hash(hash_key));
                assert_eq!(key.reversed().reversed(), key);
                hashes.insert(key.hash(hash_key));
            }
        }
        // 100 000 numbers of 32 bits: one pair in common is expected.
        assert!(hashes.len() > 99_980, "{}", hashes.len());
    }
}
