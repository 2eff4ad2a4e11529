//! The contents of one fragment: its datagram's key, and its part of the data (RFC 791, 3.1; RFC
//! 8200, 4.5).

use warpline_packet::wire::{ip_protocol, ipv4::Ipv4, ipv6, ipv6::Ipv6};
use warpline_packet::{FieldSet, Flags, Malformed, Packet};

use warpline_tables::keyed::HashKey;

/// The key that the fragments of a datagram share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) version: u8,
    /// With IPv4; 0 with IPv6, where the other parts are enough.
    protocol: u8,
    ident: u32,
    src: u128,
    dst: u128,
    /// See [`warpline_packet::Headers::vlan_ids`]; 0 where it doesn't matter.
    pub(super) vlans: u64,
}

impl Key {
    /// Whose datagram it is: the source's IPv4 address, or its network of 64 bits.
    pub(super) fn source(&self) -> u64 {
        if self.version == 4 { self.src as u64 } else { (self.src >> 64) as u64 }
    }

    pub(super) fn hash(&self, key: HashKey) -> u32 {
        let kind = u64::from(self.version) << 8 | u64::from(self.protocol);
        key.of([self.src, self.dst], u64::from(self.ident) << 32 ^ self.vlans << 16 ^ kind)
    }
}

/// One fragment.
pub(super) struct Piece<'a> {
    pub(super) key: Key,
    /// Congestion notification, two bits.
    pub(super) ecn: u8,
    /// Where its data belong, in bytes.
    pub(super) offset: usize,
    pub(super) more: bool,
    /// See [`Piece::is_regular`].
    pub(super) data: &'a [u8],
    pub(super) head: Head<'a>,
}

impl Piece<'_> {
    /// Where its data end in the datagram, in bytes.
    pub(super) fn end(&self) -> usize {
        self.offset + self.data.len()
    }
}

/// The headers before a fragment's data.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    /// The link header, then the IP header with its options; of IPv6, up to the fragment header.
    pub(super) bytes: &'a [u8],
    /// Where the IP header starts in it.
    pub(super) l3: usize,
    /// IPv6: where it names the fragment header, and what that one names.
    pub(super) next: Option<(usize, u8)>,
}

impl<'a> Piece<'a> {
    /// Reads a fragment; `None` if it is malformed or was cut.
    pub(super) fn read(packet: &'a Packet<'_>, reads: FieldSet) -> Option<Self> {
        let frame = packet.frame_for(reads);
        match packet.version() {
            4 => Self::read_v4(packet, frame),
            6 => Self::read_v6(packet, frame),
            _ => None,
        }
    }

    /// Whether it has data, and whole units of eight where more fragments follow.
    pub(super) fn is_regular(&self) -> bool {
        let is_whole_units = !self.more || self.data.len().is_multiple_of(UNIT);
        is_whole_units && !self.data.is_empty()
    }

    /// Leaves whole units of eight, as Linux does with IPv4 where more fragments follow.
    pub(super) fn cut_to_units(&mut self) {
        self.data = &self.data[..self.data.len() / UNIT * UNIT];
    }

    fn read_v4(packet: &Packet<'_>, frame: &'a [u8]) -> Option<Self> {
        let l3 = packet.l3_offset();
        let bytes = frame.get(l3..packet.ip_end())?;
        let ip = Ipv4::new_checked(bytes).ok()?;
        let (header_len, total_len) = (ip.header_len(), ip.packet_len(bytes.len()));
        Some(Self {
            key: Key {
                version: 4,
                protocol: ip.protocol(),
                ident: ip.ident().into(),
                src: ip.src_addr().to_bits().into(),
                dst: ip.dst_addr().to_bits().into(),
                vlans: 0,
            },
            ecn: ip.ecn(),
            offset: ip.fragment_offset(),
            more: ip.more_fragments(),
            data: bytes.get(header_len..total_len)?,
            head: Head { bytes: frame.get(..l3 + header_len)?, l3, next: None },
        })
    }

    fn read_v6(packet: &Packet<'_>, frame: &'a [u8]) -> Option<Self> {
        let l3 = packet.l3_offset();
        let bytes = frame.get(l3..packet.ip_end())?;
        let ip = Ipv6::new_checked(bytes).ok()?;
        let fragment = ip.extensions().ok()?.fragment?;
        // RFC 8200, 4.5: a first fragment without the upper-layer header is discarded.
        if fragment.offset == 0 && packet.malformed().is_some() {
            return None;
        }
        let next = *bytes.get(fragment.at)?;
        let next_at = l3 + next_header_at(bytes, fragment.at)?;
        Some(Self {
            key: Key {
                version: 6,
                protocol: 0,
                ident: fragment.ident,
                src: ip.src_addr().to_bits(),
                dst: ip.dst_addr().to_bits(),
                vlans: 0,
            },
            ecn: ip.traffic_class() & ECN_MASK,
            offset: fragment.offset.into(),
            more: fragment.more,
            data: bytes.get(fragment.at + FRAGMENT_HEADER_LEN..ip.packet_len(bytes.len()))?,
            head: Head { bytes: frame.get(..l3 + fragment.at)?, l3, next: Some((next_at, next)) },
        })
    }
}

/// Whether the packet is a fragment, be it one that ends beyond any packet's end.
pub(super) fn is_fragment(packet: &Packet<'_>) -> bool {
    packet.has(Flags::FRAGMENT) || packet.malformed() == Some(Malformed::FragmentBounds)
}

/// The offset of the byte that names the header at `end`, in a chain that was walked before.
fn next_header_at(packet: &[u8], end: usize) -> Option<usize> {
    let (mut next_at, mut at) = (ipv6::field::NEXT_HEADER.start, ipv6::HEADER_LEN);
    while at < end {
        let units = usize::from(*packet.get(at + 1)?);
        let is_auth = *packet.get(next_at)? == ip_protocol::AH;
        next_at = at;
        at += if is_auth { (units + 2) * 4 } else { (units + 1) * 8 };
    }
    (at == end).then_some(next_at)
}

/// The unit of offsets, in bytes.
pub(super) const UNIT: usize = 8;
/// The congestion bits of the traffic class (RFC 3168, 5).
pub(super) const ECN_MASK: u8 = 3;
const FRAGMENT_HEADER_LEN: usize = 8;
