//! The connections of the naive firewall: one map, in which each has the time at which it ends.

use std::collections::BTreeMap;
use std::net::IpAddr;

use warpline_testkit::conntrack::{Answer, Mode, Seen, Tracked};

use crate::firewall::Policy;
use crate::function::{Counters, Fate};
use crate::quote::quoted;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, be16};

/// Timeouts in seconds, by their keys, and the other settings of tracking.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) timeouts: BTreeMap<&'static str, u64>,
    pub(crate) mode: Mode,
}

/// The standing of a packet among the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    New,
    Established,
    Refused(&'static str),
}

/// The protocol and the ends of a connection, the one that opened it first. Of an echo both ports
/// are its identifier; of other protocols than TCP and UDP, 0.
type Key = (u8, (IpAddr, u16), (IpAddr, u16));

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// As the oracle of TCP calls it.
    Tcp(&'static str),
    OneSided,
    Answered,
}

struct TrackedFlow {
    stage: Stage,
    deadline: u64,
    tcp: Option<Tracked>,
}

/// The connections there are.
pub(crate) struct Connections {
    config: Config,
    entries: BTreeMap<Key, TrackedFlow>,
    created: u64,
    /// Connections that gave way to a new one between the same ends.
    replaced: u64,
    /// Connections that a reset ended before they were answered.
    forgotten: u64,
    out_of_window: u64,
}

impl Connections {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            entries: BTreeMap::new(),
            created: 0,
            replaced: 0,
            forgotten: 0,
            out_of_window: 0,
        }
    }

    /// The standing of a packet with readable headers.
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
        let seen = seen(frame, view);
        let Some((own, opener)) = self.find(key) else {
            return self.open_tcp(frame, view, policy, key, &seen);
        };
        let mut tcp = self.entries[&own].tcp.clone().expect("TCP");
        match tcp.see(&seen, opener, self.config.mode) {
            Answer::Invalid => Standing::Refused("invalid"),
            Answer::Outside => {
                self.out_of_window += 1;
                Standing::Refused("invalid")
            }
            Answer::Anew => {
                if policy.decide(frame, view, false) == Fate::Forward {
                    self.entries.remove(&own);
                    self.replaced += 1;
                }
                self.open_tcp(frame, view, policy, key, &seen)
            }
            Answer::Forgotten => {
                if policy.decide(frame, view, true) == Fate::Forward {
                    self.entries.remove(&own);
                    self.forgotten += 1;
                }
                Standing::Established
            }
            Answer::Followed => {
                let stage = Stage::Tcp(tcp.stage());
                self.remember(frame, view, policy, own, tcp);
                self.proceed(frame, view, policy, own, stage)
            }
            Answer::Ignored => {
                self.remember(frame, view, policy, own, tcp);
                Standing::Established
            }
        }
    }

    fn remember(&mut self, frame: &Frame, view: &View, policy: &Policy, key: Key, tcp: Tracked) {
        if policy.decide(frame, view, true) == Fate::Forward {
            self.entries.get_mut(&key).expect("it was found").tcp = Some(tcp);
        }
    }

    fn open_tcp(
        &mut self,
        frame: &Frame,
        view: &View,
        policy: &Policy,
        key: Key,
        seen: &Seen,
    ) -> Standing {
        match Tracked::new(seen, self.config.mode) {
            Some((tcp, by_sender)) => {
                let key = if by_sender { key } else { (key.0, key.2, key.1) };
                let stage = Stage::Tcp(tcp.stage());
                self.open(frame, view, policy, key, (stage, Some(tcp)))
            }
            None => Standing::Refused("invalid"),
        }
    }

    fn either_way(&mut self, frame: &Frame, view: &View, policy: &Policy, key: Key) -> Standing {
        match self.find(key) {
            Some((own, opener)) => {
                let stage = if opener { self.entries[&own].stage } else { Stage::Answered };
                self.proceed(frame, view, policy, own, stage)
            }
            None => self.open(frame, view, policy, key, (Stage::OneSided, None)),
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
            // "They pass only where the rules accept them both as RELATED and as INVALID."
            (4, 4 | 5) | (6, 0..128) => {
                let passes = policy.decide(frame, view, true) == Fate::Forward;
                return if passes { Standing::New } else { self.error(frame, view) };
            }
            _ => return Standing::New,
        };
        match self.entries.get(&key).map(|entry| entry.stage) {
            Some(stage) => self.proceed(frame, view, policy, key, stage),
            None if is_request => self.open(frame, view, policy, key, (Stage::OneSided, None)),
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

    /// A packet of a connection that is accepted advances it. A packet after its end does not.
    fn proceed(
        &mut self,
        frame: &Frame,
        view: &View,
        policy: &Policy,
        key: Key,
        stage: Stage,
    ) -> Standing {
        let deadline = self.deadline(key.0, stage, frame.now);
        let entry = self.entries.get_mut(&key).expect("it was found");
        let closed = Stage::Tcp("closed");
        let over = entry.stage == closed && stage == closed;
        if policy.decide(frame, view, true) == Fate::Forward && !over {
            (entry.stage, entry.deadline) = (stage, deadline);
        }
        Standing::Established
    }

    fn open(
        &mut self,
        frame: &Frame,
        view: &View,
        policy: &Policy,
        key: Key,
        (stage, tcp): (Stage, Option<Tracked>),
    ) -> Standing {
        if policy.decide(frame, view, false) == Fate::Forward {
            let deadline = self.deadline(key.0, stage, frame.now);
            self.entries.insert(key, TrackedFlow { stage, deadline, tcp });
            self.created += 1;
        }
        Standing::New
    }

    /// "Since the end of the second in which it was last used."
    fn deadline(&self, protocol: u8, stage: Stage, now: u64) -> u64 {
        let key = match (protocol, stage) {
            (_, Stage::Tcp("opening")) => "tcp_syn_s",
            (_, Stage::Tcp("established")) => "tcp_established_s",
            (_, Stage::Tcp("finishing")) => "tcp_fin_s",
            (_, Stage::Tcp(_)) => "tcp_close_s",
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
        let gone = self.created - self.replaced - self.forgotten;
        let zero = [
            "evicted-closed",
            "evicted-half-open",
            "evicted-udp",
            "evicted-icmp",
            "evicted-other",
            "evicted-finishing",
            "connections-refused",
        ];
        let mut all: Counters = zero.map(|name| (name, (0, 0))).into();
        all.insert("connections", (live, gone));
        all.insert("connections-expired", (0, gone - live));
        all.insert("out-of-window", (self.out_of_window, self.out_of_window));
        all.insert("connections-created", (self.created, self.created));
        all
    }
}

/// The numbers of a segment. Data that the capture cut count.
pub(crate) fn seen(frame: &Frame, view: &View) -> Seen {
    let header = &frame.bytes[view.l4..view.payload];
    let word =
        |at: usize| header[at..at + 4].iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
    Seen {
        flags: header[13],
        seq: word(4),
        ack: word(8),
        window: (word(12) & 0xffff) as u16,
        len: (view.wire_end - view.payload) as u32,
        options: header[20..].to_vec(),
        is_fragment: view.fragment,
    }
}
