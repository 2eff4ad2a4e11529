//! What a rule means, whichever dialect it was written in: numbers resolved, variables filled in, addresses merged.
//!
//! The readers beside this file make [`Rule`]s from text; `detect` decides with them. Nothing here knows of text.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A rule that is applied whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Where it stands.
    pub place: Place,
    /// What happens on a match.
    pub action: Action,
    /// Which packets it is about.
    pub header: Header,
    /// What it is called and how it is reported.
    pub about: About,
    /// What the packet itself must be, in any order.
    pub packet: Vec<PacketTest>,
    /// What its flow must be.
    pub flow: FlowTests,
    /// What the payload must hold, in the order of the rule.
    pub payload: Vec<PayloadTest>,
    /// Names that `byte_extract` and `byte_math` write to: how many slots [`Value::Slot`] counts.
    pub slots: u8,
    /// `flowbits`, `flowint` and `xbits` that a match changes, in the order of the rule.
    pub effects: Vec<Effect>,
    /// `threshold`.
    pub threshold: Option<Threshold>,
    /// `detection_filter`.
    pub detection_filter: Option<Rate>,
}

/// Where a rule stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, by its place among those that were read.
    pub file: u16,
    /// The line that it begins in, from 1.
    pub line: u32,
}

/// What happens on a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It is told.
    Alert,
    /// Nothing is told of the packet, and nothing more asked of it.
    Pass,
    /// It is told, and the packet dropped; of a flow, what follows as well.
    Drop,
    /// As [`Action::Drop`]; and the sender, the receiver or both are told by TCP reset or ICMP unreachable.
    Reject(Rejected),
}

/// Who is told of a rejected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejected {
    /// Its source (`reject`, `rejectsrc`).
    Source,
    /// Its destination (`rejectdst`).
    Destination,
    /// Both (`rejectboth`).
    Both,
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

/// A set of addresses: sorted ranges, both ends in it, no two of which touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// Of IPv4.
    pub v4: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// Of IPv6.
    pub v6: Vec<(Ipv6Addr, Ipv6Addr)>,
}

/// A set of ports: sorted ranges, both ends in it, no two of which touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ports(pub Vec<(u16, u16)>);

/// What is reported of a rule.
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
    /// `noalert`, `flowbits:noalert`: it is not told.
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

/// What a packet must be. A test of a header that the packet lacks fails, negated or not.
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
    /// `flags`; `ignored` are bits not looked at.
    TcpFlags {
        /// What the rest must be.
        bits: Bits,
        /// Bits that are not looked at.
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
    /// `*`: any of these.
    Any,
    /// `!`: these are not all set.
    NotAll,
}

/// What a packet's flow must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTests {
    /// `flow:to_server`, `from_client` (`Some(true)`); `to_client`, `from_server`.
    pub to_server: Option<bool>,
    /// `established` or `not_established`.
    pub established: Option<bool>,
    /// `stateless`: also where the stream is out of step.
    pub is_stateless: bool,
    /// `only_stream` (`Some(true)`), `no_stream`: streams or packets alone are looked at.
    pub stream: Option<bool>,
    /// `only_frag` (`Some(true)`), `no_frag`: put together of fragments or not.
    pub fragments: Option<bool>,
    /// `flowbits`, `flowint`, `xbits`, `stream_size`, in the order of the rule; all must hold.
    pub tests: Vec<FlowTest>,
}

/// A test of what is kept of flows, pairs and hosts.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowTest {
    /// `flowbits:isset,a|b` and `isnotset`: any of `names` is as said.
    Bits {
        /// One or more.
        names: Vec<Name>,
        /// `isset`.
        is_set: bool,
    },
    /// `flowint:name,<,n`; fails where the number is not set.
    Int {
        /// Which.
        name: Name,
        /// `None`: `isset`, or negated `isnotset`. Negation is the span's own.
        span: Option<Span<u32>>,
        /// `isset`, or with a span always `true`.
        is_set: bool,
    },
    /// `xbits:isset,name,track ...`, `isnotset`.
    XBits {
        /// Which.
        name: Name,
        /// Whose.
        track: XTrack,
        /// `isset`.
        is_set: bool,
    },
    /// `stream_size`.
    StreamSize {
        /// Which direction's.
        side: Side,
        /// Bytes, data only.
        bytes: Span<u32>,
    },
}

/// What `xbits` are kept of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XTrack {
    /// `ip_src`.
    Source,
    /// `ip_dst`.
    Destination,
    /// `ip_pair`: both, either way round.
    Pair,
}

/// Which direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What the client sent.
    Client,
    /// What the server sent.
    Server,
    /// Both, each of which must fit.
    Both,
    /// Either.
    Either,
}

/// The name of a flowbit, flowint or xbit: a hash of its text and kind, the same in every run and in every rule set,
/// so that flows keep what is set across a reload. Two names of one rule set never share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

/// What a match changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `flowbits:set`, `unset`, `toggle`.
    Bit(Name, Change),
    /// `flowint:name,=,n`, `+`, `-`.
    Int(Name, IntChange),
    /// `xbits`; `expire_s` for `set` and `toggle`.
    XBit {
        /// Which.
        name: Name,
        /// Whose.
        track: XTrack,
        /// What is done.
        change: Change,
        /// How long it holds, in seconds.
        expire_s: u32,
    },
}

/// What is done to a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is set.
    Set,
    /// It is no longer set.
    Unset,
    /// The other way round.
    Toggle,
}

/// What is done to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntChange {
    /// It is this.
    Set(u32),
    /// It is this more; where it was not set, it is this.
    Add(u32),
    /// It is this less, at least 0; nothing happens where it was not set.
    Sub(u32),
}

/// A number in a rule, or what `byte_extract` or `byte_math` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// As written.
    Number(i64),
    /// What was found last, by slot.
    Slot(u8),
}

/// What the payload must hold. "Behind the last match" is behind what the test before this one matched.
#[derive(Clone, Debug, PartialEq)]
pub enum PayloadTest {
    /// `content`.
    Content(Content),
    /// `pcre`.
    Pcre(Pcre),
    /// `byte_test`.
    ByteTest {
        /// The number.
        number: Number,
        /// How it is compared.
        compare: Compare,
        /// The other way round.
        is_negated: bool,
        /// With what: 64 bits, which are compared without sign.
        value: Value,
    },
    /// `byte_jump`.
    ByteJump {
        /// The number.
        number: Number,
        /// It is multiplied by this first.
        multiplier: u32,
        /// `align`: rounded up to a multiple of 4.
        is_aligned: bool,
        /// `from_beginning`, `from_end`, or from behind the number.
        from: JumpFrom,
        /// Added in the end.
        post_offset: Value,
    },
    /// `byte_extract`.
    ByteExtract {
        /// The number.
        number: Number,
        /// It is multiplied by this first.
        multiplier: u32,
        /// `align 2`, `align 4`: rounded up; 0 for not.
        align: u8,
        /// Where it is kept.
        slot: u8,
    },
    /// `byte_math`.
    ByteMath {
        /// The number on the left.
        number: Number,
        /// What is done.
        operator: MathOperator,
        /// The number on the right.
        value: Value,
        /// Where it is kept.
        slot: u8,
    },
    /// `isdataat`.
    IsDataAt {
        /// There is a byte at this place from the start, or this many behind the last match.
        at: Value,
        /// From behind the last match.
        is_relative: bool,
        /// There are none.
        is_negated: bool,
    },
    /// `bsize`: bytes of what is looked at.
    Bsize(Span<u64>),
}

/// `content`.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The bytes, escapes undone; never empty.
    pub bytes: Arc<[u8]>,
    /// Letters of ASCII match whichever case they are in.
    pub is_nocase: bool,
    /// It must not be there.
    pub is_negated: bool,
    /// `offset`: it starts no earlier, from the start.
    pub offset: Option<Value>,
    /// `depth`: it ends no later than this many bytes behind `offset`.
    pub depth: Option<Value>,
    /// `distance`: it starts no earlier, from behind the last match.
    pub distance: Option<Value>,
    /// `within`: it ends no later than this many bytes behind the last match and `distance`.
    pub within: Option<Value>,
    /// `startswith`.
    pub starts: bool,
    /// `endswith`.
    pub ends: bool,
    /// `fast_pattern`.
    pub fast_pattern: Option<FastPattern>,
}

impl Content {
    /// Whether it is looked for from behind the last match.
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }
}

/// `fast_pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPattern {
    /// All of it.
    Whole,
    /// `only`: it is not looked for again.
    Only,
    /// `offset,length`: this part of it.
    Part(u16, u16),
}

/// `pcre`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pcre {
    /// The expression between the slashes.
    pub pattern: Arc<[u8]>,
    /// It must not match.
    pub is_negated: bool,
    /// `i`, `s`, `m`, `x`: as in Perl.
    pub is_caseless: bool,
    /// See [`Pcre::is_caseless`].
    pub is_dot_all: bool,
    /// See [`Pcre::is_caseless`].
    pub is_multi_line: bool,
    /// See [`Pcre::is_caseless`].
    pub is_extended: bool,
    /// `A`: at the start only.
    pub is_anchored: bool,
    /// `E`: `$` matches at the very end only.
    pub is_dollar_end: bool,
    /// `G`: quantifiers are lazy unless followed by `?`.
    pub is_ungreedy: bool,
    /// `R`: from behind the last match.
    pub is_relative: bool,
}

/// A number in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its bytes: 1 to 8 in binary, up to 23 as text. `byte_jump` may have 0: the number is 0.
    pub bytes: Value,
    /// Where it starts, from the start or from behind the last match.
    pub offset: Value,
    /// From behind the last match.
    pub is_relative: bool,
    /// What it is.
    pub encoding: Encoding,
    /// `bitmask`: these bits of it, moved right by the zeros below the mask; all where it is 0.
    pub mask: u32,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes, the most significant first.
    Big,
    /// Bytes, the least significant first.
    Little,
    /// Text in this base: 8, 10 or 16.
    Text(u8),
}

/// How `byte_test` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `=`
    Equal,
    /// `>=`
    GreaterEqual,
    /// `>`
    Greater,
    /// `&`: they have a bit in common.
    And,
    /// `^`: as Suricata has it, they are not the same in every bit.
    Xor,
}

/// Where `byte_jump` counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpFrom {
    /// Behind the number.
    Here,
    /// The start of what is looked at.
    Start,
    /// Its end.
    End,
}

/// What `byte_math` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathOperator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

/// `threshold`, `event_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Which matches are told.
    pub how: ThresholdHow,
    /// How many of what.
    pub rate: Rate,
}

/// Which matches are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdHow {
    /// The first `count` in `seconds`.
    Limit,
    /// Every `count`th in `seconds`.
    Threshold,
    /// One in `seconds`, the `count`th.
    Both,
    /// As [`ThresholdHow::Limit`] with `count` 1, doubled each time: the `count`th, then `multiplier` times as many.
    Backoff {
        /// By how much it grows.
        multiplier: u32,
    },
}

/// How many matches of what, in which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What they have in common.
    pub track: Track,
    /// How many.
    pub count: u32,
    /// In how long.
    pub seconds: u32,
}

/// What counted matches have in common, besides the rule.
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
