//! One packet of a batch: the accessors of functions.
//!
//! [`Packet`] reads, [`PacketMut`] reads and writes. A field that the packet doesn't have (such as
//! a port of an ICMP packet) reads as zero and ignores writes, so no accessor panics. Check
//! [`Packet::version`], [`Packet::protocol`] and [`Packet::has`] first. The table in
//! [`crate::Field`] has the positions of fields.

mod properties;

use core::ops::{Deref, Range};

use crate::arena::Link;
use crate::field::{FieldPlace, Span};
use crate::wire::{ip_protocol, ipv4, ipv6};
use crate::{Batch, Field, FieldSet, Flags, LinkType};

/// One packet of a batch, reached through a borrow of the batch.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<B> {
    pub(crate) batch: B,
    pub(crate) index: usize,
}

/// A packet, to read.
pub type Packet<'a> = PacketView<&'a Batch>;
/// A packet, to read and write.
pub type PacketMut<'a> = PacketView<&'a mut Batch>;

macro_rules! readers {
    ($($(#[doc = $doc:literal])* $get:ident $set:ident $field:ident $int:ty;)*) => {
        impl<B: Deref<Target = Batch>> PacketView<B> {
            $($(#[doc = $doc])*
            #[inline(always)]
            pub fn $get(&self) -> $int {
                <$int>::from_be_bytes(self.bytes(Field::$field))
            })*
        }
        impl PacketMut<'_> {
            $(#[doc = concat!("Writes what [`Packet::", stringify!($get), "`] reads.")]
            #[inline(always)]
            pub fn $set(&mut self, value: $int) {
                self.set_bytes(Field::$field, value.to_be_bytes());
            })*
        }
    };
}

readers! {
    /// Ethernet type after the addresses.
    eth_type set_eth_type EthType u16;
    /// Tag control information of the outermost VLAN tag.
    vlan_tci set_vlan_tci VlanTci u16;
    /// IPv4 total length or IPv6 payload length.
    ip_len set_ip_len IpLen u16;
    /// IPv4 identification.
    ip_ident set_ip_ident IpIdent u16;
    /// IPv4 flags and fragment offset.
    ip_fragment set_ip_fragment IpFragment u16;
    /// Time to live or hop limit.
    ttl set_ttl Ttl u8;
    /// IPv4 protocol, or next header of the IPv6 fixed header.
    ip_protocol set_ip_protocol IpProtocol u8;
    /// IPv4 header checksum.
    ip_checksum set_ip_checksum IpChecksum u16;
    /// Source address of an IPv4 packet.
    src_v4 set_src_v4 SrcAddr u32;
    /// Destination address of an IPv4 packet.
    dst_v4 set_dst_v4 DstAddr u32;
    /// Source address of an IPv6 packet.
    src_v6 set_src_v6 SrcAddr u128;
    /// Destination address of an IPv6 packet.
    dst_v6 set_dst_v6 DstAddr u128;
    /// TCP or UDP source port.
    src_port set_src_port SrcPort u16;
    /// TCP or UDP destination port.
    dst_port set_dst_port DstPort u16;
    /// TCP sequence number.
    tcp_seq set_tcp_seq TcpSeq u32;
    /// TCP acknowledgement number.
    tcp_ack set_tcp_ack TcpAck u32;
    /// TCP data offset (upper four bits) and flags.
    tcp_flags set_tcp_flags TcpFlags u16;
    /// TCP window.
    tcp_window set_tcp_window TcpWindow u16;
    /// UDP length.
    udp_len set_udp_len UdpLen u16;
    /// TCP, UDP, ICMP or ICMPv6 checksum.
    l4_checksum set_l4_checksum L4Checksum u16;
    /// ICMP or ICMPv6 type.
    icmp_type set_icmp_type IcmpType u8;
    /// ICMP or ICMPv6 code.
    icmp_code set_icmp_code IcmpCode u8;
    /// ICMP or ICMPv6 echo identifier.
    icmp_ident set_icmp_ident IcmpIdent u16;
    /// ICMP or ICMPv6 echo sequence number.
    icmp_seq set_icmp_seq IcmpSeq u16;
    /// ESP security parameters index.
    esp_spi set_esp_spi EspSpi u32;
    /// ESP sequence number.
    esp_seq set_esp_seq EspSeq u32;
}

impl<B: Deref<Target = Batch>> PacketView<B> {
    #[inline(always)]
    pub(crate) fn new(batch: B, index: usize) -> Self {
        Self { batch, index }
    }

    /// Its place in the batch.
    #[inline(always)]
    pub fn index(&self) -> usize {
        self.index
    }

    #[inline(always)]
    #[track_caller]
    fn check(&self, field: Field) {
        self.batch.check_read_of(self.index, field);
    }

    #[inline(always)]
    pub(crate) fn bytes<const N: usize>(&self, field: Field) -> [u8; N] {
        self.batch.check_read_of(self.index, field);
        let zero = [0; N];
        let Some(range) = self.locate(field) else { return zero };
        if range.end - range.start != N {
            return zero;
        }
        self.batch
            .table
            .frame(self.index)
            .get(range)
            .and_then(|b| b.try_into().ok())
            .unwrap_or(zero)
    }

    /// Where a field of fixed length lies in the frame, if the packet has it.
    #[inline(always)]
    pub(crate) fn locate(&self, field: Field) -> Option<Range<usize>> {
        let (base, span) = match field.place() {
            FieldPlace::Link(span) => (0, self.link_span(span, field)?),
            FieldPlace::Ip { v4, v6 } => {
                let span = match self.batch.headers(self.index).version {
                    4 => v4?,
                    6 => v6?,
                    _ => return None,
                };
                (usize::from(self.batch.headers(self.index).l3), span)
            }
            FieldPlace::Transport { tcp, udp, icmp, esp } => {
                if !self.batch.flags(self.index).has(Flags::TRANSPORT) {
                    return None;
                }
                let span = match self.batch.headers(self.index).protocol {
                    ip_protocol::TCP => tcp?,
                    ip_protocol::UDP => udp?,
                    ip_protocol::ICMP | ip_protocol::ICMPV6 => icmp?,
                    ip_protocol::ESP => esp?,
                    _ => return None,
                };
                (usize::from(self.batch.headers(self.index).l4), span)
            }
            FieldPlace::Stretch | FieldPlace::Column(_) => return None,
        };
        Some(base + span.start..base + span.start + span.len)
    }

    fn link_span(&self, span: Span, field: Field) -> Option<Span> {
        let ethernet = self.batch.table.column(Link)[self.index] == LinkType::ETHERNET.0;
        let tagged = self.batch.flags(self.index).has(Flags::VLAN);
        (ethernet && (tagged || field != Field::VlanTci)).then_some(span)
    }

    #[inline(always)]
    fn stretch(&self, field: Field, start: usize, end: usize) -> &[u8] {
        self.batch.check_read_of(self.index, field);
        self.batch.table.frame(self.index).get(start..end).unwrap_or(&[])
    }

    /// Ethernet destination address.
    pub fn eth_dst(&self) -> [u8; 6] {
        self.bytes(Field::EthDst)
    }

    /// Ethernet source address.
    pub fn eth_src(&self) -> [u8; 6] {
        self.bytes(Field::EthSrc)
    }

    /// The traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub fn traffic_class(&self) -> u8 {
        match self.version() {
            6 => (u32::from_be_bytes(self.bytes(Field::TrafficClass)) >> 20) as u8,
            _ => u8::from_be_bytes(self.bytes(Field::TrafficClass)),
        }
    }

    /// IPv4 options or IPv6 extension headers.
    pub fn ip_options(&self) -> &[u8] {
        let fixed = match self.version() {
            4 => ipv4::HEADER_LEN,
            6 => ipv6::HEADER_LEN,
            _ => return &[],
        };
        self.stretch(Field::IpOptions, self.l3_offset() + fixed, self.l4_offset())
    }

    /// TCP options.
    pub fn tcp_options(&self) -> &[u8] {
        if self.protocol() != ip_protocol::TCP || !self.has(Flags::TRANSPORT) {
            return &[];
        }
        let fixed = self.l4_offset() + crate::wire::tcp::HEADER_LEN;
        self.stretch(Field::TcpOptions, fixed, self.payload_offset())
    }

    /// The bytes after the transport header, up to the end of the IP packet, as far as captured.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        self.stretch(Field::Payload, self.payload_offset(), self.ip_end())
    }

    /// The IP packet from its first header on, as far as captured; empty where it is not IP. To
    /// read it is to read the whole frame.
    pub fn ip_packet(&self) -> &[u8] {
        let start = if self.version() == 0 { self.ip_end() } else { self.l3_offset() };
        self.check_all(FieldSet::FRAME);
        self.stretch(Field::Remainder, start, self.ip_end())
    }

    /// The whole frame.
    #[inline(always)]
    pub fn frame(&self) -> &[u8] {
        self.frame_for(FieldSet::FRAME)
    }

    /// The whole frame, for callers that read only `fields` of it.
    #[inline(always)]
    pub fn frame_for(&self, fields: FieldSet) -> &[u8] {
        self.check_all(fields);
        self.batch.table.frame(self.index)
    }

    #[inline(always)]
    pub(crate) fn check_all(&self, fields: FieldSet) {
        if cfg!(debug_assertions) {
            fields.iter().for_each(|field| self.batch.check_read_of(self.index, field));
        }
    }
}

impl<'a> Packet<'a> {
    /// [`Packet::payload`] for as long as the batch is borrowed: to look at many packets together.
    #[inline(always)]
    pub fn into_payload(self) -> &'a [u8] {
        self.batch.check_read_of(self.index, Field::Payload);
        let (start, end) = (self.payload_offset(), self.ip_end());
        self.batch.table.frame(self.index).get(start..end).unwrap_or(&[])
    }

    /// [`Packet::frame`] for as long as the batch is borrowed.
    #[inline(always)]
    pub fn into_frame(self) -> &'a [u8] {
        self.into_frame_for(FieldSet::FRAME)
    }

    /// [`Packet::frame_for`] for as long as the batch is borrowed.
    #[inline(always)]
    pub fn into_frame_for(self, fields: FieldSet) -> &'a [u8] {
        self.check_all(fields);
        self.batch.table.frame(self.index)
    }
}

impl PacketMut<'_> {
    /// The packet, to read.
    #[inline(always)]
    pub fn as_packet(&self) -> Packet<'_> {
        Packet::new(&*self.batch, self.index)
    }
}

/// A scratch word that an instance was handed when the chain was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScratchWord(pub(crate) u8);

impl ScratchWord {
    /// Word `index`, counted from 0, where there is one.
    pub fn new(index: usize) -> Option<Self> {
        Field::scratch(index).map(|_| Self(index as u8))
    }

    /// Its field.
    #[inline(always)]
    pub fn field(self) -> Field {
        Field::ALL[Field::Scratch0 as usize + self.0 as usize]
    }
}
