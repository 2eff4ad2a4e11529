//! The data that a rule is tested on ([`Reach`]), and the order of rules ([`order`]).
//!
//! Both follow Suricata, so that the same rules alert on the same packets.

use warpline_nids_rules::{
    Action, Change, Effect, FlowTest, PacketTest, PayloadTest, Protocol, Rule, XTrack,
};

/// The data that a rule is evaluated on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Each packet with its own payload.
    Packet,
    /// Of TCP the stream, and the payload of a packet that is of no tracked stream; of all else
    /// each packet.
    Stream,
    /// Of TCP both the stream and each packet; of all else each packet.
    Both,
    /// Addresses, ports and protocol alone: the first packet of a flow in each direction, and
    /// packets of no flow.
    IpOnly,
    /// The same, each packet: one of the addresses excludes some, as `!10.0.0.1` does.
    LikeIpOnly,
}

impl Reach {
    /// Whether the rule asks for addresses, ports and protocol alone. Its action is for the flow.
    pub fn is_about_addresses(self) -> bool {
        matches!(self, Self::IpOnly | Self::LikeIpOnly)
    }
}

/// The data that `rule` is evaluated on.
pub fn reach(rule: &Rule) -> Reach {
    if is_about_addresses(rule) {
        let excludes = rule.header.src.excludes || rule.header.dst.excludes;
        return if excludes { Reach::LikeIpOnly } else { Reach::IpOnly };
    }
    let is_stream = rule.flow.stream == Some(true) || rule.header.protocol == Protocol::TcpStream;
    if rule.payload.is_empty() || needs_packet(rule) || !has_streams(rule.header.protocol) {
        return Reach::Packet;
    }
    if !is_stream && looks_at_packets_too(rule) { Reach::Both } else { Reach::Stream }
}

/// Everything that looks at a packet's own headers or size does.
fn needs_packet(rule: &Rule) -> bool {
    rule.flow.stream == Some(false)
        || !rule.packet.is_empty()
        || rule.header.protocol == Protocol::TcpPacket
}

fn has_streams(protocol: Protocol) -> bool {
    use Protocol::{Ip, Ipv4, Ipv6, Tcp, TcpPacket, TcpStream};
    matches!(protocol, Ip | Ipv4 | Ipv6 | Tcp | TcpPacket | TcpStream)
}

/// Contents placed from the start are looked for in packets as well, and so are rules on the size
/// of streams.
fn looks_at_packets_too(rule: &Rule) -> bool {
    let is_placed = |test: &PayloadTest| match test {
        PayloadTest::Content(c) => c.offset.is_some() || c.depth.is_some() || c.starts,
        _ => false,
    };
    let is_size = |test: &FlowTest| matches!(test, FlowTest::StreamSize { .. });
    rule.payload.iter().any(is_placed) || rule.flow.tests.iter().any(is_size)
}

fn is_about_addresses(rule: &Rule) -> bool {
    let flow = &rule.flow;
    let is_plain_flow = flow.to_server.is_none()
        && flow.established.is_none()
        && flow.fragments.is_none()
        && flow.stream.is_none()
        && !flow.is_stateless;
    let is_xbit = |test: &FlowTest| matches!(test, FlowTest::XBits { .. });
    let is_mild =
        |effect: &Effect| matches!(effect, Effect::Bit(_, Change::Set) | Effect::XBit { .. });
    let is_protocol = |test: &PacketTest| matches!(test, PacketTest::IpProto(_));
    rule.payload.is_empty()
        && rule.packet.iter().all(is_protocol)
        && is_plain_flow
        && flow.tests.iter().all(is_xbit)
        && rule.effects.iter().all(is_mild)
}

/// A key by which rules are decided, the least first: what the action is (pass, drop, reject,
/// alert), then how it uses `flowbits` (sets them, sets and asks, asks, neither), then `flowint` in
/// the same way, then whether it asks `xbits` of a host, then of a pair, then the priority. Rules
/// with equal keys keep the order that they are written in.
///
/// Those that ask `xbits` come before those that set them, so that what a packet sets is asked of
/// the next: as with Suricata (`SCSigGetXbitsType` sees what a rule asks alone).
pub fn order(rule: &Rule) -> [u8; 6] {
    let action = match rule.action {
        Action::Pass => 0,
        Action::Drop => 1,
        Action::Reject(_) => 2,
        Action::Alert => 3,
    };
    let tests = &rule.flow.tests;
    let bits = use_of(
        rule.effects.iter().any(|e| matches!(e, Effect::Bit(..))),
        tests.iter().any(|t| matches!(t, FlowTest::Bits { .. })),
    );
    let ints = use_of(
        rule.effects.iter().any(|e| matches!(e, Effect::Int(..))),
        tests.iter().any(|t| matches!(t, FlowTest::Int { .. })),
    );
    let asks_xbits = |of_pair: bool| {
        tests.iter().any(|test| {
            matches!(test, FlowTest::XBits { track, .. } if (*track == XTrack::Pair) == of_pair)
        })
    };
    let [host, pair] = [false, true].map(|of_pair| u8::from(!asks_xbits(of_pair)));
    [action, bits, ints, host, pair, rule.about.priority]
}

fn use_of(is_changed: bool, is_asked: bool) -> u8 {
    match (is_changed, is_asked) {
        (true, false) => 0,
        (true, true) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}
