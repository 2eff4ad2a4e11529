//! The one table of fields: every named part of a packet and of its metadata.
//!
//! A [`Field`] is a bit of a [`FieldSet`]. The table states the position of each field
//! ([`FieldPlace`]), in terms of the byte ranges of [`crate::wire`]. Accessors, access sets and
//! kernel headers are made from it, so no offset is written twice.
//!
//! ```
//! use warpline_packet::{Field, FieldSet};
//! let reads = FieldSet::of(&[Field::DstAddr, Field::Ttl]);
//! assert!(reads.contains(Field::Ttl));
//! assert!(FieldSet::FRAME.covers(reads));
//! ```

use core::fmt;
use core::ops::{BitAnd, BitOr, Not, Range};

use crate::wire::{esp, ethernet, icmpv4, ipv4, ipv6, tcp, udp, vlan};

/// Bytes of a header: where they start, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset from the start of the header, in bytes.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

/// Where a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPlace {
    /// In the link header, from the frame's first byte.
    Link(Span),
    /// In the IP header, from its first byte, by version; `None` where a version lacks it.
    Ip {
        /// In an IPv4 header.
        v4: Option<Span>,
        /// In an IPv6 header.
        v6: Option<Span>,
    },
    /// In the transport header, from its first byte, by protocol.
    Transport {
        /// In a TCP header.
        tcp: Option<Span>,
        /// In a UDP header.
        udp: Option<Span>,
        /// In an ICMP or ICMPv6 header.
        icmp: Option<Span>,
        /// In an ESP header.
        esp: Option<Span>,
    },
    /// A stretch of the frame whose length differs from packet to packet.
    Stretch,
    /// A column of the batch of this many bytes a packet.
    Column(usize),
}

const fn span(range: Range<usize>) -> Span {
    Span { start: range.start, len: range.end - range.start }
}

const fn ip(v4: Option<Span>, v6: Option<Span>) -> FieldPlace {
    FieldPlace::Ip { v4, v6 }
}

const fn ports(tcp: Range<usize>, udp: Range<usize>) -> FieldPlace {
    FieldPlace::Transport { tcp: Some(span(tcp)), udp: Some(span(udp)), icmp: None, esp: None }
}

const fn of_tcp(range: Range<usize>) -> FieldPlace {
    FieldPlace::Transport { tcp: Some(span(range)), udp: None, icmp: None, esp: None }
}

const fn of_icmp(range: Range<usize>) -> FieldPlace {
    FieldPlace::Transport { tcp: None, udp: None, icmp: Some(span(range)), esp: None }
}

const fn of_esp(range: Range<usize>) -> FieldPlace {
    FieldPlace::Transport { tcp: None, udp: None, icmp: None, esp: Some(span(range)) }
}

macro_rules! fields {
    ($($(#[doc = $doc:literal])* $field:ident $name:literal $place:expr;)*) => {
        /// A named part of a packet (`0..=31` in the frame) or of its metadata.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field { $($(#[doc = $doc])* $field),* }

        impl Field {
            /// Every field, in the order of its bit.
            pub const ALL: &'static [Self] = &[$(Self::$field),*];

            /// The field's name as `warpline functions` and `warpline plan` print it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$field => $name),* }
            }

            /// Where it lies.
            #[inline(always)]
            pub const fn place(self) -> FieldPlace {
                match self { $(Self::$field => $place),* }
            }
        }
    };
}

fields! {
    /// Ethernet destination address.
    EthDst "eth-dst" FieldPlace::Link(span(ethernet::field::DST));
    /// Ethernet source address.
    EthSrc "eth-src" FieldPlace::Link(span(ethernet::field::SRC));
    /// Ethernet type after the addresses (of the outermost tag, if any).
    EthType "eth-type" FieldPlace::Link(span(ethernet::field::ETHERTYPE));
    /// Tag control information of the outermost VLAN tag.
    VlanTci "vlan-tci" FieldPlace::Link(Span {
        start: ethernet::HEADER_LEN + vlan::field::TCI.start,
        len: span(vlan::field::TCI).len,
    });
    /// IPv4: DSCP and ECN; IPv6: the word of version, traffic class and flow label.
    TrafficClass "traffic-class" ip(
        Some(span(ipv4::field::DSCP_ECN)), Some(span(ipv6::field::VER_TC_FLOW)));
    /// IPv4: total length; IPv6: payload length.
    IpLen "ip-len" ip(
        Some(span(ipv4::field::TOTAL_LEN)), Some(span(ipv6::field::PAYLOAD_LEN)));
    /// IPv4 identification.
    IpIdent "ip-ident" ip(Some(span(ipv4::field::IDENT)), None);
    /// IPv4 flags and fragment offset.
    IpFragment "ip-fragment" ip(Some(span(ipv4::field::FLAGS_FRAGMENT)), None);
    /// Time to live or hop limit.
    Ttl "ttl" ip(Some(span(ipv4::field::TTL)), Some(span(ipv6::field::HOP_LIMIT)));
    /// IPv4 protocol; IPv6 next header of the fixed header.
    IpProtocol "ip-protocol" ip(
        Some(span(ipv4::field::PROTOCOL)), Some(span(ipv6::field::NEXT_HEADER)));
    /// IPv4 header checksum.
    IpChecksum "ip-checksum" ip(Some(span(ipv4::field::CHECKSUM)), None);
    /// Source address.
    SrcAddr "src-addr" ip(Some(span(ipv4::field::SRC_ADDR)), Some(span(ipv6::field::SRC_ADDR)));
    /// Destination address.
    DstAddr "dst-addr" ip(Some(span(ipv4::field::DST_ADDR)), Some(span(ipv6::field::DST_ADDR)));
    /// IPv4 options or IPv6 extension headers.
    IpOptions "ip-options" FieldPlace::Stretch;
    /// TCP or UDP source port.
    SrcPort "src-port" ports(tcp::field::SRC_PORT, udp::field::SRC_PORT);
    /// TCP or UDP destination port.
    DstPort "dst-port" ports(tcp::field::DST_PORT, udp::field::DST_PORT);
    /// TCP sequence number.
    TcpSeq "tcp-seq" of_tcp(tcp::field::SEQ);
    /// TCP acknowledgement number.
    TcpAck "tcp-ack" of_tcp(tcp::field::ACK);
    /// TCP data offset and flags.
    TcpFlags "tcp-flags" of_tcp(tcp::field::OFFSET_FLAGS);
    /// TCP window.
    TcpWindow "tcp-window" of_tcp(tcp::field::WINDOW);
    /// TCP urgent pointer.
    TcpUrgent "tcp-urgent" of_tcp(tcp::field::URGENT);
    /// TCP options.
    TcpOptions "tcp-options" FieldPlace::Stretch;
    /// UDP length.
    UdpLen "udp-len" FieldPlace::Transport {
        tcp: None, udp: Some(span(udp::field::LENGTH)), icmp: None, esp: None };
    /// TCP, UDP, ICMP or ICMPv6 checksum.
    L4Checksum "l4-checksum" FieldPlace::Transport {
        tcp: Some(span(tcp::field::CHECKSUM)), udp: Some(span(udp::field::CHECKSUM)),
        icmp: Some(span(icmpv4::field::CHECKSUM)), esp: None };
    /// ICMP or ICMPv6 type.
    IcmpType "icmp-type" of_icmp(icmpv4::field::TYPE);
    /// ICMP or ICMPv6 code.
    IcmpCode "icmp-code" of_icmp(icmpv4::field::CODE);
    /// ICMP or ICMPv6 echo identifier.
    IcmpIdent "icmp-ident" of_icmp(icmpv4::field::IDENT);
    /// ICMP or ICMPv6 echo sequence number; the pointer or MTU of errors ends here too.
    IcmpSeq "icmp-seq" of_icmp(icmpv4::field::SEQ);
    /// ESP security parameters index.
    EspSpi "esp-spi" of_esp(esp::field::SPI);
    /// ESP sequence number.
    EspSeq "esp-seq" of_esp(esp::field::SEQ);
    /// The bytes after the transport header, up to the end of the IP packet.
    Payload "payload" FieldPlace::Stretch;
    /// The rest of the frame: link headers of other types, padding, trailers.
    Remainder "remainder" FieldPlace::Stretch;
    /// Where the frame starts in its room, and the room.
    Start "start" FieldPlace::Column(2);
    /// Length of the frame, and of the frame on the wire.
    Len "len" FieldPlace::Column(8);
    /// Where the IP header starts in the frame.
    L3Offset "l3-offset" FieldPlace::Column(2);
    /// Where the transport header starts in the frame.
    L4Offset "l4-offset" FieldPlace::Column(2);
    /// Where the payload starts in the frame, and where the IP packet ends.
    PayloadOffset "payload-offset" FieldPlace::Column(6);
    /// Facts found at ingress: IP version, transport protocol, flags, link type, malformed.
    Kind "kind" FieldPlace::Column(7);
    /// The packet's time, monotone at ingress, in nanoseconds.
    Timestamp "timestamp" FieldPlace::Column(8);
    /// The number of the packet in its chain's input, and its interface.
    Ingress "ingress" FieldPlace::Column(10);
    /// Verdict, drop reason, and whose.
    Verdict "verdict" FieldPlace::Column(3);
    /// The next hop that the router chose.
    NextHop "next-hop" FieldPlace::Column(2);
    /// The flow's name: a symmetric hash of the 5-tuple.
    FlowHash "flow-hash" FieldPlace::Column(4);
    /// The shard whose state serves the packet.
    Shard "shard" FieldPlace::Column(1);
    /// Whether a function flagged the packet for its `after` phase.
    Flagged "flagged" FieldPlace::Column(1);
    /// Scratch words that instances are handed when the chain is built.
    Scratch0 "scratch-0" FieldPlace::Column(4);
    /// A scratch word.
    Scratch1 "scratch-1" FieldPlace::Column(4);
    /// A scratch word.
    Scratch2 "scratch-2" FieldPlace::Column(4);
    /// A scratch word.
    Scratch3 "scratch-3" FieldPlace::Column(4);
    /// A scratch word.
    Scratch4 "scratch-4" FieldPlace::Column(4);
    /// A scratch word.
    Scratch5 "scratch-5" FieldPlace::Column(4);
    /// A scratch word.
    Scratch6 "scratch-6" FieldPlace::Column(4);
    /// A scratch word.
    Scratch7 "scratch-7" FieldPlace::Column(4);
    /// A scratch word.
    Scratch8 "scratch-8" FieldPlace::Column(4);
    /// A scratch word.
    Scratch9 "scratch-9" FieldPlace::Column(4);
    /// A scratch word.
    Scratch10 "scratch-10" FieldPlace::Column(4);
    /// A scratch word.
    Scratch11 "scratch-11" FieldPlace::Column(4);
    /// A scratch word.
    Scratch12 "scratch-12" FieldPlace::Column(4);
    /// A scratch word.
    Scratch13 "scratch-13" FieldPlace::Column(4);
    /// A scratch word.
    Scratch14 "scratch-14" FieldPlace::Column(4);
    /// A scratch word.
    Scratch15 "scratch-15" FieldPlace::Column(4);
    /// A scratch word.
    Scratch16 "scratch-16" FieldPlace::Column(4);
    /// A scratch word.
    Scratch17 "scratch-17" FieldPlace::Column(4);
    /// A scratch word.
    Scratch18 "scratch-18" FieldPlace::Column(4);
    /// A scratch word.
    Scratch19 "scratch-19" FieldPlace::Column(4);
    /// A scratch word.
    Scratch20 "scratch-20" FieldPlace::Column(4);
    /// A scratch word.
    Scratch21 "scratch-21" FieldPlace::Column(4);
    /// A scratch word.
    Scratch22 "scratch-22" FieldPlace::Column(4);
    /// A scratch word.
    Scratch23 "scratch-23" FieldPlace::Column(4);
    /// A scratch word.
    Scratch24 "scratch-24" FieldPlace::Column(4);
    /// A scratch word.
    Scratch25 "scratch-25" FieldPlace::Column(4);
    /// A scratch word.
    Scratch26 "scratch-26" FieldPlace::Column(4);
    /// A scratch word.
    Scratch27 "scratch-27" FieldPlace::Column(4);
    /// A scratch word.
    Scratch28 "scratch-28" FieldPlace::Column(4);
    /// A scratch word.
    Scratch29 "scratch-29" FieldPlace::Column(4);
    /// A scratch word.
    Scratch30 "scratch-30" FieldPlace::Column(4);
    /// A scratch word.
    Scratch31 "scratch-31" FieldPlace::Column(4);
}

/// How many scratch words a chain has to hand out.
pub const SCRATCH_WORDS: usize = 32;

impl Field {
    /// The field's bit.
    #[inline(always)]
    pub const fn bit(self) -> u32 {
        self as u32
    }

    /// The `word`th scratch word, counted from 0, where there is one.
    pub fn scratch(word: usize) -> Option<Self> {
        (word < SCRATCH_WORDS).then(|| Self::ALL[Self::Scratch0 as usize + word])
    }
}

/// A set of fields, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FieldSet(u128);

impl FieldSet {
    /// No field.
    pub const EMPTY: Self = Self(0);
    /// Every byte of the frame: what a function declares that reads or writes whole frames.
    pub const FRAME: Self = Self((1 << (Field::Remainder as u32 + 1)) - 1);
    /// Every field of frame and metadata.
    pub const ALL: Self = Self((1 << Field::ALL.len()) - 1);
    /// The places of headers; a function that reshapes frames writes it.
    pub const GEOMETRY: Self = Self::of(&[
        Field::Start,
        Field::Len,
        Field::L3Offset,
        Field::L4Offset,
        Field::PayloadOffset,
        Field::Kind,
    ]);

    /// The fields with the places and kinds of the headers.
    pub const HEADERS: Self =
        Self::of(&[Field::L3Offset, Field::L4Offset, Field::PayloadOffset, Field::Kind]);

    /// The bytes after the IP headers, up to the end of the packet: transport header and payload.
    pub const CARRIED: Self =
        Self((1 << (Field::Payload as u32 + 1)) - (1 << Field::SrcPort as u32));
    /// The fields by which headers are found: [`crate::Headers::parse`] looks at nothing else.
    pub const PARSED: Self = Self::of(&[
        Field::EthType,
        // Of IPv6, with the version.
        Field::TrafficClass,
        Field::IpLen,
        Field::IpFragment,
        Field::IpProtocol,
        Field::IpOptions,
        Field::TcpFlags,
        Field::UdpLen,
        Field::Remainder,
    ]);

    /// The set of these fields.
    pub const fn of(fields: &[Field]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < fields.len() {
            bits |= 1 << fields[i] as u32;
            i += 1;
        }
        Self(bits)
    }

    /// This set and that field.
    #[must_use]
    pub const fn with(self, field: Field) -> Self {
        Self(self.0 | 1 << field as u32)
    }

    /// The fields in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The fields of this set that `other` lacks.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether `field` is in the set.
    #[inline(always)]
    pub const fn contains(self, field: Field) -> bool {
        self.0 >> field as u32 & 1 == 1
    }

    /// Whether all of `other` is in the set.
    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set as bits, bit `i` for field `i`.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The fields of the set, by bit.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.iter().copied().filter(move |&field| self.contains(field))
    }
}

impl BitOr for FieldSet {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for FieldSet {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for FieldSet {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0 & Self::ALL.0)
    }
}

impl FromIterator<Field> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        fields.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Field::name)).finish()
    }
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FRAME {
            return f.write_str("the whole frame");
        }
        let names: Vec<&str> = self.iter().map(Field::name).collect();
        f.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_a_bit_for_each_field_of_the_table() {
        assert!(Field::ALL.len() < u128::BITS as usize);
        assert_eq!(Field::Remainder as usize, 31, "fields of the frame are bits 0 to 31");
        assert_eq!(Field::scratch(31), Some(Field::Scratch31));
        assert_eq!(Field::scratch(32), None);
        for (bit, field) in Field::ALL.iter().enumerate() {
            assert_eq!(field.bit() as usize, bit);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> = Field::ALL.iter().map(|f| f.name()).collect();
        assert_eq!(names.len(), Field::ALL.len());
    }

    #[test]
    fn sets_behave_like_sets() {
        let set = FieldSet::of(&[Field::Ttl, Field::Scratch15]);
        assert_eq!(set.iter().collect::<FieldSet>(), set);
        assert!((!set & set).is_empty());
        assert_eq!(!set | set, FieldSet::ALL);
        assert!(FieldSet::FRAME.contains(Field::Payload));
        assert!(!FieldSet::FRAME.contains(Field::Start));
        assert_eq!(format!("{set}"), "ttl scratch-15");
    }
}
