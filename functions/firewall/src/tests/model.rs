//! A slow model of the manual: a linear search over the rules, and one map for tracking.

use core::net::IpAddr;
use std::collections::HashMap;

use warpline_packet::Prefix;

use super::traffic::{Numbers, Sent, Shape};
use warpline_rule_files::{Action, EndMatch, Rule};
use warpline_testkit::conntrack::{Answer, Mode, Seen, Tracked as Tcp};

/// The outcome of a firewall with these rules, which drops by default and drops non-IP packets.
pub(super) fn decide(rules: &[Rule], sent: &Sent, established: bool) -> &'static str {
    match sent.shape {
        Shape::Arp => return "non-ip",
        Shape::Malformed if sent.has_known_transport() => return "malformed",
        Shape::Snapped if sent.has_known_transport() => return "snapped",
        Shape::LaterFragment(1 | 2) if sent.protocol == 6 => return "fragment",
        _ => {}
    }
    match rules.iter().find(|rule| matches(rule, sent, established)) {
        Some(rule) if rule.action == Action::Accept => "accept",
        Some(_) => "rule",
        None => "default",
    }
}

fn matches(rule: &Rule, sent: &Sent, established: bool) -> bool {
    let hidden = matches!(sent.shape, Shape::LaterFragment(_));
    // Fields that a later fragment lacks: a drop matches, an accept doesn't.
    let hidden_matches = rule.action == Action::Drop;
    let other_icmp = if sent.version == 4 { 58 } else { 1 };
    let protocol = rule.protocols.is_empty()
        || (rule.protocols.contains(&sent.protocol) && sent.protocol != other_icmp);
    let message = rule.message.as_ref().is_none_or(|message| {
        if hidden {
            return hidden_matches;
        }
        let code = message.codes.is_empty() || message.codes.iter().any(|r| r.contains(&sent.code));
        message.types.iter().any(|r| r.contains(&sent.message_type)) && code
    });
    let flags = rule.flags.is_none_or(|flags| {
        if hidden { hidden_matches } else { sent.flags & flags.mask == flags.value }
    });
    let port = |side: &EndMatch, port: u16| {
        side.ports.is_empty()
            || matches!(sent.protocol, 6 | 17)
                && if hidden {
                    hidden_matches
                } else {
                    side.ports.iter().any(|r| r.contains(&port))
                }
    };
    (!rule.established || established)
        && protocol
        && message
        && flags
        && inside(&rule.src, sent.version, sent.src)
        && inside(&rule.dst, sent.version, sent.dst)
        && port(&rule.src, sent.src_port)
        && port(&rule.dst, sent.dst_port)
}

fn inside(side: &EndMatch, version: u8, address: u128) -> bool {
    let contains = |prefix: &Prefix| {
        let (own, bits, of) = match prefix.address() {
            IpAddr::V4(a) => (u128::from(a.to_bits()), 32, 4),
            IpAddr::V6(a) => (a.to_bits(), 128, 6),
        };
        (0..u32::from(prefix.len())).all(|i| (own ^ address) >> (bits - 1 - i) & 1 == 0)
            && of == version
    };
    side.prefixes.is_empty() || side.prefixes.iter().any(contains)
}

/// A connection, by protocol and ends.
type Name = (u8, u8, (u128, u16), (u128, u16));

#[derive(Clone, Debug)]
struct Tracked {
    opener: (u128, u16),
    state: &'static str,
    last: u64,
    shard: usize,
    tcp: Option<Tcp>,
    /// When it was first used in the second of its last use, or became what it is, among all such
    /// events.
    noted: u64,
}

/// Kinds that a full table evicts, with their counters. Of kinds of equal size the first is
/// evicted.
const YIELDING: [(&str, &str); 6] = [
    ("closed", "evicted-closed"),
    ("half-open", "evicted-half-open"),
    ("udp", "evicted-udp"),
    ("icmp", "evicted-icmp"),
    ("other", "evicted-other"),
    ("fin", "evicted-finishing"),
];

fn kind_of(state: &'static str) -> &'static str {
    match state {
        "opening" => "half-open",
        "finishing" => "fin",
        other => other,
    }
}

/// The end of the second in which it was last used.
fn used(last: u64) -> u64 {
    (last / SECOND + 1) * SECOND
}

/// Tracking with one map for all.
pub(super) struct Model<'a> {
    pub(super) rules: &'a [Rule],
    pub(super) mode: Mode,
    /// Places of each shard.
    pub(super) places: fn(usize) -> usize,
    /// Connections that a source may have in a shard.
    pub(super) per_source: usize,
    /// How many gave way or were out of the window, by counter.
    pub(super) counted: HashMap<&'static str, u64>,
    tracked: HashMap<Name, Tracked>,
    /// Whether first fragments were accepted, and until when that is remembered.
    firsts: HashMap<(u8, u128, u128, u8), (bool, u64)>,
    events: u64,
}

fn timeout(state: &str) -> u64 {
    match state {
        "opening" => 60,
        "established" => 7440,
        "finishing" => 120,
        "closed" | "doubted" => 10,
        "udp" | "icmp" => 30,
        "udp-stream" => 180,
        _ => 600,
    }
}

const SECOND: u64 = 1_000_000_000;

impl<'a> Model<'a> {
    pub(super) fn new(rules: &'a [Rule], mode: Mode, places: fn(usize) -> usize) -> Self {
        let (tracked, counted, firsts) = (HashMap::new(), HashMap::new(), HashMap::new());
        let per_source = usize::MAX;
        Self { rules, mode, places, per_source, counted, tracked, firsts, events: 0 }
    }

    /// How a packet leaves; `about` is the packet that an ICMP error quotes. The fragments of a
    /// packet leave like the first one.
    pub(super) fn send(
        &mut self,
        sent: &Sent,
        about: Option<&Sent>,
        shard: usize,
        now: u64,
    ) -> &'static str {
        let protocol = if sent.version == 4 { sent.protocol } else { 0 };
        let packet = (sent.version, sent.src, sent.dst, protocol);
        match sent.shape {
            Shape::LaterFragment(_) => {
                let alone = decide(self.rules, sent, false);
                let known = self.firsts.get(&packet).filter(|(_, until)| now < *until);
                match known {
                    Some((true, _)) if alone != "fragment" => "accept",
                    Some((false, _)) => "fragment",
                    _ => alone,
                }
            }
            Shape::FirstFragment => {
                let reported = self.send_whole(sent, about, shard, now);
                self.firsts.insert(packet, (reported == "accept", now + 60 * SECOND));
                reported
            }
            _ => self.send_whole(sent, about, shard, now),
        }
    }

    fn send_whole(
        &mut self,
        sent: &Sent,
        about: Option<&Sent>,
        shard: usize,
        now: u64,
    ) -> &'static str {
        let alone = decide(self.rules, sent, false);
        if matches!(alone, "malformed" | "snapped" | "non-ip" | "fragment") {
            return alone;
        }
        self.tracked.retain(|_, t| now < used(t.last) + timeout(t.state) * SECOND);
        let icmp = sent.protocol == if sent.version == 4 { 1 } else { 58 };
        if sent.protocol == 6 {
            self.tcp(sent, alone, shard, now)
        } else if icmp {
            self.icmp(sent, about, alone, shard, now)
        } else {
            self.simple(sent, alone, shard, now)
        }
    }

    fn name(sent: &Sent) -> (Name, (u128, u16)) {
        let (mut a, mut b) = match sent.protocol {
            6 | 17 => ((sent.src, sent.src_port), (sent.dst, sent.dst_port)),
            1 | 58 if sent.has_known_transport() => {
                ((sent.src, sent.ident), (sent.dst, sent.ident))
            }
            _ => ((sent.src, 0), (sent.dst, 0)),
        };
        let src = a;
        // The requester of an echo comes first. Its peer may use the same identifier for requests.
        let echo = matches!(sent.protocol, 1 | 58) && sent.has_known_transport();
        if if echo { matches!(sent.message_type, 0 | 129) } else { a > b } {
            (a, b) = (b, a);
        }
        ((sent.version, sent.protocol, a, b), src)
    }

    /// The outcome for a packet of a connection.
    fn of_connection(&self, sent: &Sent) -> &'static str {
        let listed = self.rules.iter().any(|rule| rule.established);
        if listed { decide(self.rules, sent, true) } else { "accept" }
    }

    fn open(
        &mut self,
        sent: &Sent,
        state: &'static str,
        (tcp, by_sender): (Option<Tcp>, bool),
        alone: &'static str,
        at: (usize, u64),
    ) -> &'static str {
        if alone != "accept" {
            return alone;
        }
        let (shard, last) = at;
        let (name, src) = Self::name(sent);
        let other = if name.2 == src { name.3 } else { name.2 };
        let opener = if by_sender { src } else { other };
        let of_source = |(name, own): &(&Name, &Tracked)| {
            (name.0, own.opener.0, own.shard) == (sent.version, opener.0, shard)
        };
        if self.tracked.iter().filter(of_source).count() >= self.per_source {
            return "per-source";
        }
        let taken = self.tracked.values().filter(|t| t.shard == shard).count();
        if taken >= (self.places)(shard) && !self.make_room(shard) {
            return "table-full";
        }
        let new = Tracked { opener, state, last, shard, tcp, noted: 0 };
        self.note(name, new, true);
        alone
    }

    /// Evicts the longest unused connection of the most frequent kind.
    fn make_room(&mut self, shard: usize) -> bool {
        let of = |kind: &str| {
            let own = self.tracked.iter().filter(|(_, t)| t.shard == shard);
            own.filter(|(_, t)| kind_of(t.state) == kind).collect::<Vec<_>>()
        };
        let most = YIELDING.iter().map(|(kind, _)| of(kind).len()).max().unwrap_or(0);
        let Some((kind, reported)) =
            YIELDING.iter().find(|(kind, _)| of(kind).len() == most && most > 0)
        else {
            return false;
        };
        let first = of(kind).into_iter().min_by_key(|(_, t)| t.noted).map(|(name, _)| *name);
        self.tracked.remove(&first.unwrap());
        *self.counted.entry(*reported).or_insert(0) += 1;
        true
    }

    /// Stores the new state of a connection.
    fn note(&mut self, name: Name, mut next: Tracked, is_new: bool) {
        let old = self.tracked.get(&name).filter(|_| !is_new);
        let same = |old: &&Tracked| {
            used(old.last) == used(next.last) && kind_of(old.state) == kind_of(next.state)
        };
        self.events += 1;
        next.noted = old.filter(same).map_or(self.events, |old| old.noted);
        self.tracked.insert(name, next);
    }

    fn tcp(&mut self, sent: &Sent, alone: &'static str, shard: usize, now: u64) -> &'static str {
        let (name, src) = Self::name(sent);
        let seen = seen(sent);
        let Some(mut found) = self.tracked.get(&name).cloned() else {
            return self.open_tcp(sent, &seen, alone, (shard, now));
        };
        let (before, mut tcp) = (found.state, found.tcp.take().unwrap());
        let answer = tcp.see(&seen, found.opener == src, self.mode);
        match answer {
            Answer::Invalid => return "invalid",
            Answer::Outside => {
                *self.counted.entry("out-of-window").or_insert(0) += 1;
                return "invalid";
            }
            Answer::Anew => {
                if alone == "accept" {
                    self.tracked.remove(&name);
                }
                return self.open_tcp(sent, &seen, alone, (shard, now));
            }
            _ => {}
        }
        let verdict = self.of_connection(sent);
        if verdict != "accept" {
            return verdict;
        }
        found.state = tcp.stage();
        found.tcp = Some(tcp);
        let over = before == "closed" && found.state == "closed";
        if answer == Answer::Forgotten {
            self.tracked.remove(&name);
        } else if answer == Answer::Followed && !over {
            found.last = now;
            self.note(name, found, false);
        } else {
            found.state = before;
            self.tracked.insert(name, found);
        }
        verdict
    }

    fn open_tcp(
        &mut self,
        sent: &Sent,
        seen: &Seen,
        alone: &'static str,
        at: (usize, u64),
    ) -> &'static str {
        match Tcp::new(seen, self.mode) {
            Some((tcp, by_sender)) => {
                let (stage, tcp) = (tcp.stage(), Some(tcp));
                self.open(sent, stage, (tcp, by_sender), alone, at)
            }
            None => "invalid",
        }
    }

    fn icmp(
        &mut self,
        sent: &Sent,
        about: Option<&Sent>,
        alone: &'static str,
        shard: usize,
        now: u64,
    ) -> &'static str {
        let (request, reply) = if sent.version == 4 { (8, 0) } else { (128, 129) };
        if sent.message_type != request && sent.message_type != reply {
            let quoted = about.filter(|about| sent.dst == about.src);
            let known = quoted.is_some_and(|about| self.tracked.contains_key(&Self::name(about).0));
            return if known { self.of_connection(sent) } else { alone };
        }
        match self.tracked.get(&Self::name(sent).0) {
            Some(_) => self.use_again(sent, None, now),
            None if sent.message_type == request => {
                self.open(sent, "icmp", (None, true), alone, (shard, now))
            }
            _ => alone,
        }
    }

    fn simple(&mut self, sent: &Sent, alone: &'static str, shard: usize, now: u64) -> &'static str {
        let (name, src) = Self::name(sent);
        let udp = sent.protocol == 17;
        match self.tracked.get(&name) {
            Some(found) => {
                let answer = found.opener != src;
                let stream = if udp { "udp-stream" } else { "other-stream" };
                self.use_again(sent, answer.then_some(stream), now)
            }
            None => {
                let state = if udp { "udp" } else { "other" };
                self.open(sent, state, (None, true), alone, (shard, now))
            }
        }
    }

    fn use_again(&mut self, sent: &Sent, state: Option<&'static str>, now: u64) -> &'static str {
        let verdict = self.of_connection(sent);
        let name = Self::name(sent).0;
        if verdict == "accept"
            && let Some(mut found) = self.tracked.get(&name).cloned()
        {
            found.last = now;
            found.state = state.unwrap_or(found.state);
            self.note(name, found, false);
        }
        verdict
    }
}

/// A segment by its numbers.
fn seen(sent: &Sent) -> Seen {
    let Numbers { seq, ack, window, options, len } = sent.numbers;
    Seen {
        flags: sent.flags,
        seq,
        ack,
        window,
        len: len as u32,
        options: options.to_vec(),
        is_fragment: sent.shape == Shape::FirstFragment,
    }
}
