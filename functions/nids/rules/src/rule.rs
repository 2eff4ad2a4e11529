//! The meaning of a rule in either dialect: numbers resolved, variables filled in, addresses
//! merged.
//!
//! The parsers beside this file make [`Rule`]s from text; `detect` decides with them. This file
//! handles no text.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::{Effect, FlowTests, PayloadTest};

/// A rule that is applied whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Where it stands.
    pub place: SourceLine,
    /// The action on a match.
    pub action: Action,
    /// The packets that it applies to.
    pub header: Header,
    /// Its identity and the fields of its reports.
    pub about: About,
    /// Conditions on the packet itself, in any order.
    pub packet: Vec<PacketTest>,
    /// Conditions on its flow.
    pub flow: FlowTests,
    /// Conditions on the payload, in the order of the rule.
    pub payload: Vec<PayloadTest>,
    /// Names that `byte_extract` and `byte_math` write to: how many slots [`super::Value::Slot`]
    /// counts.
    pub slots: u8,
    /// `flowbits`, `flowint` and `xbits` that a match changes, in the order of the rule.
    pub effects: Vec<Effect>,
    /// `threshold`.
    pub threshold: Option<Threshold>,
    /// `detection_filter`.
    pub detection_filter: Option<DetectionFilter>,
}

/// Where a rule stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, by its place among those that were read.
    pub file: u16,
    /// The line that it begins in, from 1.
    pub line: u32,
}

/// An action on a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It raises an alert.
    Alert,
    /// The match raises no alert, and no further rule is evaluated for the packet.
    Pass,
    /// It raises an alert, and the packet is dropped. A match in a stream or by addresses drops the
    /// rest of the flow too.
    Drop,
    /// As [`Action::Drop`]. The sender, the receiver or both also receive a TCP reset or ICMP
    /// unreachable.
    Reject(Rejected),
}

/// The ends of a connection that are notified of a rejected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejected {
    /// Its source (`reject`, `rejectsrc`).
    Source,
    /// Its destination (`rejectdst`).
    Destination,
    /// Both (`rejectboth`).
    Both,
}

impl Rejected {
    /// The same for a packet in the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
            Self::Both => Self::Both,
        }
    }
}

/// A rule's header.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The protocol.
    pub protocol: Protocol,
    /// Left of the arrow.
    pub src: Arc<Addresses>,
    /// Left of the arrow.
    pub src_ports: Arc<Ports>,
    /// Right of the arrow.
    pub dst: Arc<Addresses>,
    /// Right of the arrow.
    pub dst_ports: Arc<Ports>,
    /// `<>`: either way round.
    pub is_bidirectional: bool,
}

/// The protocol of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `ip`, `any`: all of IP.
    Ip,
    /// `ipv4`, `ip4`.
    Ipv4,
    /// `ipv6`, `ip6`.
    Ipv6,
    /// `tcp`.
    Tcp,
    /// `tcp-pkt`: packets' payloads, never the stream.
    TcpPacket,
    /// `tcp-stream`: the stream, never packets' payloads.
    TcpStream,
    /// `udp`.
    Udp,
    /// `sctp`.
    Sctp,
    /// `icmp`: ICMP and ICMPv6.
    Icmp,
    /// `icmpv4`.
    Icmpv4,
    /// `icmpv6`.
    Icmpv6,
    /// `pkthdr`: every packet, those among them whose IP headers lie.
    PacketHeader,
}

impl Protocol {
    /// Whether each of its packets has ports, or lacks them as a later fragment.
    pub fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::TcpPacket | Self::TcpStream | Self::Udp | Self::Sctp)
    }
}

/// A set of addresses: sorted inclusive ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// Of IPv4.
    pub v4: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// Of IPv6.
    pub v6: Vec<(Ipv6Addr, Ipv6Addr)>,
    /// Whether the text excludes addresses by `!`.
    pub excludes: bool,
}

/// A set of ports: sorted inclusive ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ports(pub Vec<(u16, u16)>);

/// Identity of a rule and fields of its reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// `gid`, 1 unless said.
    pub gid: u32,
    /// `sid`.
    pub sid: u32,
    /// `rev`, 0 unless said.
    pub rev: u32,
    /// `msg`, escapes undone.
    pub msg: Arc<str>,
    /// `classtype`: the class's description, from `classification.config`.
    pub class: Arc<str>,
    /// `priority`, or the class's; 3 where there is neither. 1 is the most severe.
    pub priority: u8,
    /// `reference`: system and identifier, as written.
    pub references: Vec<(Arc<str>, Arc<str>)>,
    /// `metadata`: key and value.
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// `target`.
    pub target: Option<Target>,
    /// `noalert`, `flowbits:noalert`: it raises no alert.
    pub is_silent: bool,
}

/// Which end of a packet is the attack's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `src_ip`.
    Source,
    /// `dest_ip`.
    Destination,
}

/// Numbers from `min` to `max`, both among them; or, negated, all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<T> {
    /// The least.
    pub min: T,
    /// The greatest; nothing is in it where it is less than `min`.
    pub max: T,
    /// All others.
    pub is_negated: bool,
}

impl<T: PartialOrd + Copy> Span<T> {
    /// Whether `number` is in it.
    pub fn contains(&self, number: T) -> bool {
        (self.min <= number && number <= self.max) != self.is_negated
    }
}

/// A condition on a packet. A test of a header that the packet lacks fails, negated or not.
#[derive(Clone, Debug, PartialEq)]
pub enum PacketTest {
    /// `dsize`: bytes of the payload.
    Dsize(Span<u16>),
    /// `ip_proto`: all must hold.
    IpProto(Vec<Span<u8>>),
    /// `ttl`: IPv4 time to live or IPv6 hop limit.
    Ttl(Span<u8>),
    /// `tos`: the whole byte of IPv4.
    Tos(Span<u8>),
    /// `id`: IPv4 identification.
    Id(Span<u16>),
    /// `ipopts`: an IPv4 option of this kind; `None` for any at all.
    IpOption(Option<u8>),
    /// `fragbits`: bits of the three flags of IPv4, reserved 4, don't fragment 2, more fragments 1.
    FragBits(Bits),
    /// `fragoffset`: of IPv4, in units of 8 bytes.
    FragOffset(Span<u16>),
    /// `sameip`.
    SameIp,
    /// `seq`.
    Seq(Span<u32>),
    /// `ack`.
    Ack(Span<u32>),
    /// `window`.
    Window(Span<u16>),
    /// `tcp.mss`: the option of the packet.
    Mss(Span<u16>),
    /// `flags`.
    TcpFlags {
        /// The test of the other bits.
        bits: Bits,
        /// Bits to ignore.
        ignored: u8,
    },
    /// `itype`.
    IcmpType(Span<u8>),
    /// `icode`.
    IcmpCode(Span<u8>),
    /// `icmp_id`.
    IcmpId(Span<u16>),
    /// `icmp_seq`.
    IcmpSeq(Span<u16>),
}

/// A test of flag bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// How.
    pub how: BitsHow,
    /// Which bits.
    pub bits: u8,
}

/// How flag bits are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitsHow {
    /// These and no others.
    Exactly,
    /// `+`: all of these, perhaps others.
    All,
    /// `+` of `fragbits` in Suricata: all of these, and at least one other.
    AllAndMore,
    /// `*`: any of these.
    Any,
    /// `!`: these are not all set.
    NotAll,
}

/// `threshold`, `event_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Selects the matches that raise an alert.
    pub how: ThresholdHow,
    /// The rate to compare with.
    pub rate: Rate,
}

/// Selects the matches that raise an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdHow {
    /// The first `count` in `seconds`.
    Limit,
    /// Every `count`th in `seconds`.
    Threshold,
    /// One in `seconds`, the `count`th.
    Both,
    /// As [`ThresholdHow::Limit`] with `count` 1, doubled each time: the `count`th, then
    /// `multiplier` times as many.
    Backoff {
        /// By how much it grows.
        multiplier: u32,
    },
}

/// A rate of matches from which a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectionFilter {
    /// The rate that matches must exceed.
    pub rate: Rate,
    /// `unique_on`: only matches with another port count.
    pub unique_on: Option<PortEnd>,
}

/// One of a packet's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEnd {
    /// `src_port`.
    Source,
    /// `dst_port`.
    Destination,
}

/// A number of matches in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The key by which matches are counted.
    pub track: Track,
    /// The number of matches.
    pub count: u32,
    /// The time.
    pub seconds: u32,
}

/// The key by which matches are counted, besides the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Track {
    /// `by_src`: the source.
    Source,
    /// `by_dst`: the destination.
    Destination,
    /// `by_rule`: nothing.
    Rule,
    /// `by_both`: source and destination, either way round.
    Both,
    /// `by_flow`: the flow.
    Flow,
}
