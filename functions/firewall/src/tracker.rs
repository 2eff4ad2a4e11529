//! Tracking: which connection a packet is part of, and whether it may open one.
//!
//! Packets are looked up in the table of connections here, in ingress order. The result is left for
//! `run` in a scratch word. A connection begins when its opening packet is accepted. The rules are
//! pure, so they can be evaluated here already, and `run` gets the same answer. So no later phase
//! writes state that this one reads.

use core::any::Any;
use std::sync::Arc;

use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol};
use warpline_packet::{Batch, Flags, Instant, Packet, ScratchWord};

use super::connections::{Connections, FoundConnection, NoPlace, Opened};
use super::flow_key::FlowKey;
use super::progress::Progress;
use super::quoted::quoted_key;
use super::rule_set::{Decision, RuleSet};
use super::{Firewall, Tracking};
use warpline_nf::{Before, Emit, Function, StateHalf};
use warpline_rewrite::fragments::Fragments;
use warpline_tables::tcp::{Conversation, Phase, Policy, Segment, Verdict};

/// Expired connections that are reclaimed with each packet, at most: more than one can be added.
const RECLAIMED_PER_PACKET: usize = 2;

/// So many connections of a shard stay in a near cache, though all shards have as many.
const NEAR: u64 = 64;

/// How a packet relates to the table of connections, passed to `run` in the scratch word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Standing {
    /// Not part of a connection, or the packet that opens one: the rules decide.
    New = 0,
    /// Part of a connection, or an error about one, or a later fragment whose first one was
    /// accepted.
    Established = 1,
    /// TCP that is neither part of a connection nor opens one.
    Invalid = 2,
    /// It would open a connection, and there is no place for one more.
    TableFull = 3,
    /// It would open a connection, and its source has as many as it may.
    PerSource = 4,
    /// A later fragment whose first one was dropped.
    FirstRefused = 5,
}

impl Standing {
    /// Whether the rules decide about the packet.
    pub(super) const fn is_judged(self) -> bool {
        matches!(self, Self::New | Self::Established)
    }

    /// Decodes a scratch word.
    pub(super) const fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Established,
            2 => Self::Invalid,
            3 => Self::TableFull,
            4 => Self::PerSource,
            5 => Self::FirstRefused,
            _ => Self::New,
        }
    }
}

/// The state of one shard.
pub(super) struct Tracker {
    rules: Arc<RuleSet>,
    connections: Connections,
    /// Whether the first fragment of a packet was accepted.
    fragments: Fragments<bool>,
    word: ScratchWord,
    tcp: Policy,
    /// Segments that were dropped for their numbers.
    out_of_window: u64,
}

impl Before for Tracker {
    fn fetch_next(&self, batch: &Batch, picks: &[u16]) {
        self.each_sought(batch, picks, |key| self.connections.fetch_next(&key));
    }

    fn before(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &index in picks {
            let packet = batch.packet(index.into());
            let standing = match packet.has(Flags::FRAGMENT) {
                false => self.standing(&packet),
                true => self.standing_of_fragment(&packet),
            };
            batch.packet_mut(index.into()).set_scratch(self.word, standing as u32);
        }
    }
}

impl StateHalf for Tracker {
    fn fetch(&self, batch: &Batch, picks: &[u16]) {
        self.each_sought(batch, picks, |key| self.connections.fetch(&key));
    }

    fn handle_timeout(&mut self, now: Instant, _: &mut Emit<'_>) {
        self.connections.reclaim(usize::MAX, now);
    }

    /// Connections that the old rules accepted go on; what becomes of their packets is for the new
    /// ones.
    fn reload(&mut self, function: &dyn Function) {
        if let Some(firewall) = (function as &dyn Any).downcast_ref::<Firewall>() {
            self.rules = Arc::clone(&firewall.rules);
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counts = self.connections.counts();
        visit("connections", counts.current);
        visit("connections-created", counts.created);
        visit("connections-expired", counts.expired);
        visit("connections-refused", counts.refused);
        visit("out-of-window", self.out_of_window);
        counts.evicted().for_each(|(name, count)| visit(name, count));
    }
}

impl Tracker {
    pub(super) fn new(
        rules: Arc<RuleSet>,
        connections: Connections,
        fragments: Fragments<bool>,
        Tracking { word, tcp, .. }: Tracking,
    ) -> Self {
        Self { rules, connections, fragments, word, tcp, out_of_window: 0 }
    }

    /// The keys by which packets of TCP and UDP will be looked for, where there are so many
    /// connections that they lie far away.
    fn each_sought(&self, batch: &Batch, picks: &[u16], fetch: impl Fn(FlowKey)) {
        if self.connections.counts().current <= NEAR {
            return;
        }
        for &index in picks {
            let packet = batch.packet(index.into());
            let has_ports = matches!(packet.protocol(), ip_protocol::TCP | ip_protocol::UDP);
            if has_ports && packet.has(Flags::TRANSPORT) && packet.malformed().is_none() {
                fetch(key(&packet, [packet.src_port(), packet.dst_port()]).0);
            }
        }
    }

    /// Inlined into the loop over a batch, though fragments need it too.
    #[inline(always)]
    fn standing(&mut self, packet: &Packet<'_>) -> Standing {
        self.connections.reclaim(RECLAIMED_PER_PACKET, packet.timestamp());
        let transport = packet.has(Flags::TRANSPORT);
        let hidden = !transport && self.rules.without_transport(packet, false).is_some();
        if packet.malformed().is_some() || hidden {
            return Standing::New;
        }
        match packet.protocol() {
            ip_protocol::TCP => self.tcp(packet),
            ip_protocol::UDP => self.either_way(packet, [packet.src_port(), packet.dst_port()]),
            ip_protocol::ICMP | ip_protocol::ICMPV6 if transport => self.icmp(packet),
            _ => self.either_way(packet, [0, 0]),
        }
    }

    /// The first fragment of a packet is like a whole packet, and the others follow it.
    #[cold]
    #[inline(never)]
    fn standing_of_fragment(&mut self, packet: &Packet<'_>) -> Standing {
        let now = packet.timestamp();
        if packet.malformed().is_some() {
            return Standing::New;
        }
        if packet.has(Flags::LATER_FRAGMENT) {
            return match self.fragments.find(packet, now) {
                Some(true) => Standing::Established,
                Some(false) => Standing::FirstRefused,
                None => Standing::New,
            };
        }
        let standing = self.standing(packet);
        let decided = self.rules.decide(packet, standing == Standing::Established);
        let is_accepted = standing.is_judged() && decided == Decision::Accept;
        self.fragments.remember(packet, is_accepted, now);
        standing
    }

    fn tcp(&mut self, packet: &Packet<'_>) -> Standing {
        let Some(segment) = Segment::of(packet) else { return Standing::Invalid };
        let (key, from_low) = key(packet, [packet.src_port(), packet.dst_port()]);
        let Some(found) = self.connections.find(&key, packet.timestamp()) else {
            return self.open_tcp(packet, &segment, key, from_low);
        };
        let mut conversation = *self.connections.conversation(found);
        let by_opener = found.opened_by_low == from_low;
        match conversation.take(&segment, by_opener, self.tcp) {
            Verdict::Unexpected => Standing::Invalid,
            Verdict::OutOfWindow => {
                self.out_of_window += 1;
                Standing::Invalid
            }
            Verdict::Reopens => {
                if self.rules.decide(packet, false) == Decision::Accept {
                    self.connections.remove(found);
                }
                self.open_tcp(packet, &segment, key, from_low)
            }
            verdict => self.go_on_tcp(packet, found, conversation, verdict),
        }
    }

    /// A segment that belongs, or may belong, to a connection.
    fn go_on_tcp(
        &mut self,
        packet: &Packet<'_>,
        found: FoundConnection,
        conversation: Conversation,
        verdict: Verdict,
    ) -> Standing {
        if !self.accepts_established(packet) {
            return Standing::Established;
        }
        let progress = Progress::Tcp(conversation.phase());
        // Packets after the end don't keep the connection.
        let is_over = found.progress == progress && progress == Progress::Tcp(Phase::Closed);
        match verdict {
            Verdict::Ends => self.connections.remove(found),
            Verdict::Fits if !is_over => {
                self.connections.set_conversation(found, conversation);
                self.connections.touch(found, progress, packet.timestamp());
            }
            _ => self.connections.set_conversation(found, conversation),
        }
        Standing::Established
    }

    fn open_tcp(
        &mut self,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
        key: FlowKey,
        from_low: bool,
    ) -> Standing {
        let opened = Conversation::open(segment, self.tcp.pick_up);
        let Some((conversation, by_opener)) = opened else { return Standing::Invalid };
        let by_low = from_low == by_opener;
        let progress = Progress::Tcp(conversation.phase());
        self.open(packet, Opened { key, by_low, progress, conversation })
    }

    /// UDP, and protocols without ports: any packet opens, any of the other side answers.
    fn either_way(&mut self, packet: &Packet<'_>, ports: [u16; 2]) -> Standing {
        let (key, from_low) = key(packet, ports);
        let udp = packet.protocol() == ip_protocol::UDP;
        match self.connections.find(&key, packet.timestamp()) {
            Some(found) => {
                let progress = match found.opened_by_low != from_low {
                    false => found.progress,
                    true if udp => Progress::UdpStream,
                    true => Progress::OtherStream,
                };
                self.go_on(packet, found, progress)
            }
            None => {
                let progress = if udp { Progress::Udp } else { Progress::Other };
                self.open(packet, without_tcp(key, from_low, progress))
            }
        }
    }

    fn icmp(&mut self, packet: &Packet<'_>) -> Standing {
        let (src, dst) = packet.addresses();
        match Message::of(packet) {
            Message::Request => {
                let (key, from_low) = echo_key(packet, src, dst);
                match self.connections.find(&key, packet.timestamp()) {
                    Some(found) => self.go_on(packet, found, found.progress),
                    None => self.open(packet, without_tcp(key, from_low, Progress::Icmp)),
                }
            }
            Message::Reply => {
                let (key, _) = echo_key(packet, dst, src);
                match self.connections.find(&key, packet.timestamp()) {
                    Some(found) => self.go_on(packet, found, found.progress),
                    None => Standing::New,
                }
            }
            Message::Error => {
                let key = quoted_key(packet);
                match key.and_then(|key| self.connections.find(&key, packet.timestamp())) {
                    Some(_) => Standing::Established,
                    None => Standing::New,
                }
            }
            Message::Doubtful => {
                let known = quoted_key(packet)
                    .and_then(|key| self.connections.find(&key, packet.timestamp()));
                match known.is_some() && !self.accepts_established(packet) {
                    true => Standing::Established,
                    false => Standing::New,
                }
            }
            Message::Other => Standing::New,
        }
    }

    /// A packet of a connection moves it on, unless the rules drop it.
    fn go_on(
        &mut self,
        packet: &Packet<'_>,
        found: FoundConnection,
        progress: Progress,
    ) -> Standing {
        if self.accepts_established(packet) {
            self.connections.touch(found, progress, packet.timestamp());
        }
        Standing::Established
    }

    fn accepts_established(&self, packet: &Packet<'_>) -> bool {
        self.rules.accepts_established() || self.rules.decide(packet, true) == Decision::Accept
    }

    fn open(&mut self, packet: &Packet<'_>, opened: Opened) -> Standing {
        if self.rules.decide(packet, false) != Decision::Accept {
            return Standing::New;
        }
        match self.connections.insert(opened, packet.timestamp()) {
            Ok(()) => Standing::New,
            Err(NoPlace::TableFull) => Standing::TableFull,
            Err(NoPlace::PerSource) => Standing::PerSource,
        }
    }
}

fn without_tcp(key: FlowKey, by_low: bool, progress: Progress) -> Opened {
    Opened { key, by_low, progress, conversation: Conversation::default() }
}

/// The role of an ICMP message in tracking.
enum Message {
    Request,
    Reply,
    Error,
    /// An error in Linux. It passes only if the rules accept it with and without its connection.
    Doubtful,
    Other,
}

impl Message {
    /// Redirects are doubtful, as they change routes. So are source quenches, which RFC 6633
    /// deprecates, and errors of ICMPv6 without a meaning.
    fn of(packet: &Packet<'_>) -> Self {
        use icmpv4::message as v4;
        use icmpv6::message as v6;
        match (packet.version(), packet.icmp_type()) {
            (4, v4::ECHO_REQUEST) | (6, v6::ECHO_REQUEST) => Self::Request,
            (4, v4::ECHO_REPLY) | (6, v6::ECHO_REPLY) => Self::Reply,
            (4, v4::UNREACHABLE | v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM)
            | (6, v6::UNREACHABLE | v6::PACKET_TOO_BIG)
            | (6, v6::TIME_EXCEEDED | v6::PARAMETER_PROBLEM) => Self::Error,
            (4, v4::SOURCE_QUENCH | v4::REDIRECT) | (6, 0..v6::ECHO_REQUEST) => Self::Doubtful,
            _ => Self::Other,
        }
    }
}

fn key(packet: &Packet<'_>, [src_port, dst_port]: [u16; 2]) -> (FlowKey, bool) {
    let (src, dst) = packet.addresses();
    FlowKey::of(packet.version(), packet.protocol(), (src, src_port), (dst, dst_port))
}

fn echo_key(packet: &Packet<'_>, asks: u128, answers: u128) -> (FlowKey, bool) {
    let (version, protocol) = (packet.version(), packet.protocol());
    FlowKey::of_echo(version, protocol, asks, answers, packet.icmp_ident())
}
