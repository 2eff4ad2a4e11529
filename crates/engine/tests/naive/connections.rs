//! The connections of the naive firewall: one map, in which each has the time at which it ends.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::firewall::Policy;
use crate::function::{Counters, Fate};
use crate::quote::quoted;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, be16};

/// Timeouts in seconds, by their keys, and what else there is to say of tracking.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) timeouts: BTreeMap<&'static str, u64>,
    pub(crate) loose: bool,
}

/// What a packet is to the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    New,
    Established,
    Refused(&'static str),
}

/// Who sent what to whom: the ends of a connection, the one that opened it first. Of an echo both ports are its
/// identifier; of other protocols than TCP and UDP, 0.
type Key = (u8, (IpAddr, u16), (IpAddr, u16));

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    SynSent,
    SynReceived,
    Established,
    /// And whether it was the opener that finished.
    Finishing(bool),
    Closed,
    OneSided,
    Answered,
}

struct Entry {
    stage: Stage,
    deadline: u64,
}

/// The connections there are.
pub(crate) struct Connections {
    config: Config,
    entries: BTreeMap<Key, Entry>,
    created: u64,
    /// Connections that gave way to a new one between the same ends.
    replaced: u64,
}

impl Connections {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, entries: BTreeMap::new(), created: 0, replaced: 0 }
    }

    /// What a packet is whose headers can be seen.
    pub(crate) fn standing(&mut self, frame: &Frame, view: &View, policy: &Policy) -> Standing {
        self.entries.retain(|_, entry| entry.deadline > frame.now);
        let (src, dst) = view.addresses(&frame.bytes);
        let (from, to) = view.ports(&frame.bytes).unwrap_or((0, 0));
        let key = (view.protocol, (src, from), (dst, to));
        match (view.protocol, view.version) {
            (TCP, _) => self.tcp(frame, view, policy, key),
            (ICMP, 4) | (ICMPV6, 6) => self.icmp(frame, view, policy, (src, dst)),
            _ => self.either_way(frame, view, policy, key),
        }
    }

    /// The connection that a packet of `key` is part of, and whether its opener sent it.
    fn find(&self, key: Key) -> Option<(Key, bool)> {
        let reverse = (key.0, key.2, key.1);
        let has = |key: &Key| self.entries.contains_key(key);
        if has(&key) { Some((key, true)) } else { has(&reverse).then_some((reverse, false)) }
    }

    fn tcp(&mut self, frame: &Frame, view: &View, policy: &Policy, key: Key) -> Standing {
        let Some(segment) = Segment::of(frame.bytes[view.l4 + 13]) else {
            return Standing::Refused("invalid");
        };
        let Some((own, opener)) = self.find(key) else {
            return self.open_tcp(frame, view, policy, key, segment);
        };
        let stage = self.entries[&own].stage;
        if stage == Stage::Closed && segment == Segment::Syn {
            if policy.decide(frame, view, false) == Fate::Forward {
                self.entries.remove(&own);
                self.replaced += 1;
            }
            return self.open_tcp(frame, view, policy, key, segment);
        }
        match after(stage, segment, opener, self.config.loose) {
            Some(next) => self.go_on(frame, view, policy, own, next),
            None => Standing::Refused("invalid"),
        }
    }

    fn open_tcp(
        &mut self,
        frame: &Frame,
        view: &View,
        policy: &Policy,
        key: Key,
        segment: Segment,
    ) -> Standing {
        let reverse = (key.0, key.2, key.1);
        let (key, stage) = match segment {
            Segment::Syn => (key, Stage::SynSent),
            _ if !self.config.loose => return Standing::Refused("invalid"),
            Segment::SynAck => (reverse, Stage::SynReceived),
            Segment::Ack => (key, Stage::Established),
            Segment::Fin => (key, Stage::Finishing(true)),
            Segment::Rst => return Standing::Refused("invalid"),
        };
        self.open(frame, view, policy, key, stage)
    }

    fn either_way(&mut self, frame: &Frame, view: &View, policy: &Policy, key: Key) -> Standing {
        match self.find(key) {
            Some((own, opener)) => {
                let stage = if opener { self.entries[&own].stage } else { Stage::Answered };
                self.go_on(frame, view, policy, own, stage)
            }
            None => self.open(frame, view, policy, key, Stage::OneSided),
        }
    }

    fn icmp(
        &mut self,
        frame: &Frame,
        view: &View,
        policy: &Policy,
        (src, dst): (IpAddr, IpAddr),
    ) -> Standing {
        let ident = be16(&frame.bytes, view.l4 + 4).unwrap_or(0) as u16;
        let echo = |asks, answers| (view.protocol, (asks, ident), (answers, ident));
        let (key, is_request) = match (view.version, frame.bytes[view.l4]) {
            (4, 8) | (6, 128) => (echo(src, dst), true),
            (4, 0) | (6, 129) => (echo(dst, src), false),
            (4, 3 | 11 | 12) | (6, 1..=4) => return self.error(frame, view),
            _ => return Standing::New,
        };
        match self.entries.get(&key).map(|entry| entry.stage) {
            Some(stage) => self.go_on(frame, view, policy, key, stage),
            None if is_request => self.open(frame, view, policy, key, Stage::OneSided),
            None => Standing::New,
        }
    }

    /// An ICMP error is like a packet of the connection that it quotes.
    fn error(&self, frame: &Frame, view: &View) -> Standing {
        let Some(quoted) = quoted(frame, view) else { return Standing::New };
        let (src, dst) = (quoted.src, quoted.dst);
        let (from, to) = quoted.ports.unwrap_or((0, 0));
        let own = (quoted.protocol, (src, from), (dst, to));
        let known = match (quoted.protocol, quoted.message) {
            _ if src != view.addresses(&frame.bytes).1 || quoted.later => false,
            (TCP | UDP, _) => quoted.ports.is_some() && self.find(own).is_some(),
            (ICMP, _) if view.version == 6 => self.find(own).is_some(),
            (ICMPV6, _) if view.version == 4 => self.find(own).is_some(),
            (ICMP | ICMPV6, Some((kind, ident))) => {
                let asks = (quoted.protocol, (src, ident), (dst, ident));
                let answers = (quoted.protocol, (dst, ident), (src, ident));
                match kind {
                    8 | 128 => self.entries.contains_key(&asks),
                    0 | 129 => self.entries.contains_key(&answers),
                    _ => false,
                }
            }
            (ICMP | ICMPV6, None) => false,
            _ => self.find(own).is_some(),
        };
        if known { Standing::Established } else { Standing::New }
    }

    /// A packet of a connection that is accepted moves it on; what comes after its end doesn't.
    fn go_on(
        &mut self,
        frame: &Frame,
        view: &View,
        policy: &Policy,
        key: Key,
        stage: Stage,
    ) -> Standing {
        let deadline = self.deadline(key.0, stage, frame.now);
        let entry = self.entries.get_mut(&key).expect("it was found");
        let over = entry.stage == Stage::Closed && stage == Stage::Closed;
        if policy.decide(frame, view, true) == Fate::Forward && !over {
            *entry = Entry { stage, deadline };
        }
        Standing::Established
    }

    fn open(
        &mut self,
        frame: &Frame,
        view: &View,
        policy: &Policy,
        key: Key,
        stage: Stage,
    ) -> Standing {
        if policy.decide(frame, view, false) == Fate::Forward {
            let deadline = self.deadline(key.0, stage, frame.now);
            self.entries.insert(key, Entry { stage, deadline });
            self.created += 1;
        }
        Standing::New
    }

    /// "Since the end of the second in which it was last used."
    fn deadline(&self, protocol: u8, stage: Stage, now: u64) -> u64 {
        let key = match (protocol, stage) {
            (_, Stage::SynSent | Stage::SynReceived) => "tcp_syn_s",
            (_, Stage::Established) => "tcp_established_s",
            (_, Stage::Finishing(_)) => "tcp_fin_s",
            (_, Stage::Closed) => "tcp_close_s",
            (UDP, Stage::OneSided) => "udp_s",
            (UDP, Stage::Answered) => "udp_stream_s",
            (ICMP | ICMPV6, Stage::OneSided) => "icmp_s",
            _ => "other_s",
        };
        (now / 1_000_000_000 + 1 + self.config.timeouts[key]) * 1_000_000_000
    }

    /// Those that expired may be found out about a tick late.
    pub(crate) fn counters(&self, now: u64) -> Counters {
        let live = self.entries.values().filter(|entry| entry.deadline > now).count() as u64;
        let gone = self.created - self.replaced;
        let zero = [
            "evicted_closed",
            "evicted_half_open",
            "evicted_udp",
            "evicted_icmp",
            "evicted_other",
            "evicted_finishing",
            "connections_refused",
        ];
        let mut all: Counters = zero.map(|name| (name, (0, 0))).into();
        all.insert("connections", (live, gone));
        all.insert("connections_expired", (0, gone - live));
        all.insert("connections_created", (self.created, self.created));
        all
    }
}

/// What a segment says by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Syn,
    SynAck,
    Ack,
    Fin,
    Rst,
}

impl Segment {
    fn of(flags: u8) -> Option<Self> {
        let [fin, syn, rst, ack] = [0, 1, 2, 4].map(|bit| flags >> bit & 1 == 1);
        match () {
            () if syn && (fin || rst) => None,
            () if rst => Some(Self::Rst),
            () if syn => Some(if ack { Self::SynAck } else { Self::Syn }),
            () if fin => Some(Self::Fin),
            () => ack.then_some(Self::Ack),
        }
    }
}

/// Where a segment of the opener or the other side leads; `None` for one that may not come now.
fn after(stage: Stage, segment: Segment, opener: bool, loose: bool) -> Option<Stage> {
    Some(match (stage, segment) {
        (_, Segment::Rst) | (Stage::Closed, _) => Stage::Closed,
        // The SYN again, its answer, or the other's own SYN where both open at once.
        (Stage::SynSent, Segment::Syn) if opener => Stage::SynSent,
        (Stage::SynSent, Segment::Syn | Segment::SynAck) if !opener => Stage::SynReceived,
        (Stage::SynSent, _) if !loose => return None,
        (Stage::Finishing(first), Segment::Fin) if first != opener => Stage::Closed,
        (Stage::Finishing(first), _) => Stage::Finishing(first),
        (_, Segment::Fin) => Stage::Finishing(opener),
        (Stage::SynSent, Segment::Ack) => Stage::Established,
        (Stage::SynReceived, Segment::Ack) if opener => Stage::Established,
        (stage, _) => stage,
    })
}
