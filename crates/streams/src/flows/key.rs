//! The key of a flow: addresses, ports, protocol, and its VLANs, if they matter.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::Instant;
use warpline_packet::wire::icmpv4;

use super::outcome::Direction;
use super::segment::Ends;
use warpline_rewrite::Protocol;
use warpline_rewrite::icmp::Quote;
use warpline_tables::keyed::mix;

/// One direction of a flow. ICMP has as ports the type of the message and that of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// Source and destination, each in halves, which need less alignment than the whole.
    addresses: [[u64; 2]; 2],
    /// See [`warpline_packet::Headers::vlan_ids`]; 0 where it doesn't matter.
    vlans: u64,
    ports: [u16; 2],
    protocol: u8,
    version: u8,
}

impl Key {
    pub(super) fn new(version: u8, protocol: u8, addresses: [u128; 2], vlans: u64) -> Self {
        let halves = |address: u128| [(address >> 64) as u64, address as u64];
        Self { addresses: addresses.map(halves), vlans, ports: [0; 2], protocol, version }
    }

    pub(super) fn with_ports(self, ports: [u16; 2]) -> Self {
        Self { ports, ..self }
    }

    /// The key of an ICMP message, and whether it is an error. The key of an error is that of the
    /// quoted packet, reversed.
    pub(super) fn of_icmp(self, message: &[u8], is_error: bool) -> Option<(Self, bool)> {
        if is_error {
            return Some((self.quoted(message.get(icmpv4::HEADER_LEN..)?)?.reversed(), true));
        }
        let kind = *message.first()?;
        let ports = [kind, counterpart(self.version, kind)].map(u16::from);
        Some((self.with_ports(ports), false))
    }

    fn quoted(&self, quote: &[u8]) -> Option<Self> {
        let quote = Quote::read(quote, self.version)?;
        let addresses = [quote.src.address, quote.dst.address];
        let of = |protocol| Self::new(self.version, protocol, addresses, self.vlans);
        Some(match quote.protocol {
            Protocol::Tcp => of(TCP).with_ports([quote.src.port, quote.dst.port]),
            Protocol::Udp => of(UDP).with_ports([quote.src.port, quote.dst.port]),
            // The quoted message of an echo is nearly always the request.
            Protocol::Icmp => {
                let request = if self.version == 4 { 8 } else { 128 };
                let ports = [request, counterpart(self.version, request)].map(u16::from);
                of(self.protocol).with_ports(ports)
            }
            Protocol::Other => return None,
        })
    }

    /// The key of the other direction.
    pub(super) fn reversed(&self) -> Self {
        let ([src, dst], [from, to]) = (self.addresses, self.ports);
        Self { addresses: [dst, src], ports: [to, from], ..*self }
    }

    /// The direction of packets with this key in the flow whose client's key is `own`; `None` if
    /// they belong to another flow.
    #[inline]
    pub(super) fn direction_in(&self, own: &Self) -> Option<Direction> {
        if self.differs(own) == 0 {
            return Some(Direction::ToServer);
        }
        (self.reversed().differs(own) == 0).then_some(Direction::ToClient)
    }

    /// 0 where they are the same. In one go: to compare piece by piece takes longer.
    #[inline]
    fn differs(&self, other: &Self) -> u64 {
        let ends = |key: &Self| {
            let [from, to] = key.ports.map(u64::from);
            from << 48 | to << 32 | u64::from(key.protocol) << 8 | u64::from(key.version)
        };
        let [[a, b], [c, d]] = self.addresses;
        let [[e, f], [g, h]] = other.addresses;
        let vlans = self.vlans ^ other.vlans;
        (a ^ e) | (b ^ f) | (c ^ g) | (d ^ h) | vlans | (ends(self) ^ ends(other))
    }

    /// Between whom packets with it go.
    pub(super) fn ends(&self) -> Ends {
        let address = |bits: u128| match self.version {
            4 => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        };
        let addresses = self.addresses().map(address);
        Ends { protocol: self.protocol, addresses, ports: self.ports }
    }

    pub(super) fn addresses(&self) -> [u128; 2] {
        self.addresses.map(|[high, low]| u128::from(high) << 64 | u128::from(low))
    }

    /// All of it and a time, for a hash.
    pub(super) fn words(&self, time: Instant) -> [u64; 7] {
        let [[a, b], [c, d]] = self.addresses;
        let [from, to] = self.ports.map(u64::from);
        let rest = from << 48 | to << 32 | u64::from(self.protocol) << 8 | u64::from(self.version);
        [a, b, c, d, self.vlans, rest, time.as_nanos()]
    }

    pub(super) fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// Whose flow it is: the source's IPv4 address, or its network of 64 bits.
    pub(super) fn client(&self) -> u64 {
        let [high, low] = self.addresses[0];
        if self.version == 4 { low } else { high }
    }

    pub(super) fn version(&self) -> u8 {
        self.version
    }

    pub(super) fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The same for the other direction.
    pub(super) fn hash(&self, seed: u64) -> u32 {
        let end = |at: usize| {
            let [high, low] = self.addresses[at];
            let low = low ^ u64::from(self.ports[at]).rotate_right(16);
            mix(low ^ seed, high ^ seed.rotate_left(32) ^ 0xbf58_476d_1ce4_e5b9)
        };
        let kind = u64::from(self.protocol) << 8 | u64::from(self.version);
        let kind = kind ^ self.vlans << 16;
        let hash = mix(end(0).wrapping_add(end(1)) ^ kind, seed ^ 0x94d0_49bb_1331_11eb);
        (hash >> 32) as u32 ^ hash as u32
    }
}

/// The ICMP type that answers `kind`, or that it answers; itself if there is none (RFC 792, RFC
/// 950, RFC 1256, RFC 4443, RFC 4861, RFC 2710).
fn counterpart(version: u8, kind: u8) -> u8 {
    const V4: [(u8, u8); 5] = [(8, 0), (13, 14), (15, 16), (17, 18), (10, 9)];
    const V6: [(u8, u8); 5] = [(128, 129), (133, 134), (135, 136), (130, 131), (139, 140)];
    let pairs = if version == 4 { V4 } else { V6 };
    let other = |&(asks, answers): &(u8, u8)| match kind {
        _ if kind == asks => Some(answers),
        _ if kind == answers => Some(asks),
        _ => None,
    };
    pairs.iter().find_map(other).unwrap_or(kind)
}

const TCP: u8 = warpline_packet::wire::ip_protocol::TCP;
const UDP: u8 = warpline_packet::wire::ip_protocol::UDP;
