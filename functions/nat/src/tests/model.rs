//! A translator written from the RFCs, packet by packet, with hash maps and no shards: it checks
//! what became of each packet, and takes over the ports that were chosen after checking that they
//! may be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use warpline_packet::Verdict;

use super::super::DEFINITION;
use warpline_testkit::conntrack::{Answer, Mode, Seen, Tracked};
use warpline_testkit::frames::{Body, Datagram};
use warpline_verify::Outcome;

const SECOND: u64 = 1_000_000_000;

/// The endpoint parts on which mapping or filtering depends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Depends {
    Nothing,
    Address,
    Both,
}

impl Depends {
    pub(super) const ALL: [Self; 3] = [Self::Nothing, Self::Address, Self::Both];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "endpoint-independent",
            Self::Address => "address-dependent",
            Self::Both => "address-and-port-dependent",
        }
    }
}

type Point = (IpAddr, u16);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum FlowKind {
    Tcp,
    Udp,
    Echo,
    /// A protocol without ports.
    Other(u8),
}

type Inside = (FlowKind, Point, Option<IpAddr>, Option<u16>);

#[derive(Default, Debug)]
struct Connection {
    /// Of TCP, with whether the inside host opened it.
    tracked: Option<(Tracked, bool)>,
    /// Whether segments went out and came in.
    went: [bool; 2],
    established: bool,
    until: u64,
}

/// The effect of a segment.
enum Effect {
    Counts,
    None,
    Invalid,
}

impl Connection {
    fn opened(seen: &Seen, out: bool) -> Option<Self> {
        let mode = Mode { one_sided: out, ..Mode::default() };
        let (tracked, by_sender) = Tracked::new(seen, mode)?;
        let mut own = Self { tracked: Some((tracked, by_sender == out)), ..Self::default() };
        own.count(out);
        Some(own)
    }

    fn count(&mut self, out: bool) {
        self.went[usize::from(!out)] = true;
        let stage = self.tracked.as_ref().map(|(tracked, _)| tracked.stage());
        let lives = matches!(stage, Some("established" | "finishing"));
        self.established = lives && self.went == [true; 2];
    }

    /// A segment goes out or comes in.
    fn see(&mut self, seen: &Seen, out: bool) -> Effect {
        let Some((tracked, by_inside)) = &mut self.tracked else {
            let opened = if out { Self::opened(seen, out) } else { None };
            return match opened {
                Some(new) => {
                    *self = new;
                    Effect::Counts
                }
                None => Effect::None,
            };
        };
        let old = tracked.stage();
        match tracked.see(seen, *by_inside == out, Mode::default()) {
            Answer::Followed if (old, tracked.stage()) == ("closed", "closed") => Effect::None,
            Answer::Followed => {
                self.count(out);
                Effect::Counts
            }
            Answer::Ignored => Effect::None,
            Answer::Forgotten => {
                *self = Self::default();
                Effect::Counts
            }
            Answer::Anew => {
                *self = Self::opened(seen, out).expect("a SYN opens");
                Effect::Counts
            }
            Answer::Invalid | Answer::Outside => Effect::Invalid,
        }
    }
}

/// The segment in a datagram.
fn seen(datagram: &Datagram) -> Option<Seen> {
    let Body::Tcp { flags, .. } = datagram.body else { return None };
    let ((seq, ack), len) = (datagram.numbers, datagram.payload.len() as u32);
    Some(Seen { flags, seq, ack, window: 4096, len, ..Seen::default() })
}

#[derive(Debug)]
struct Bound {
    outside: Point,
    until: u64,
    remotes: HashMap<Point, Connection>,
    shard: u8,
    answered: bool,
    established: bool,
    /// Whether it sent to no ports but those whose conversations are short.
    short: bool,
    /// When it was first used in the second of its last use, or became what it is, among all such
    /// events.
    noted: u64,
}

impl Bound {
    /// Its rank among evicted kinds, and their counter; `None` if it is never evicted.
    fn yields(&self, kind: FlowKind, v6: bool) -> Option<(usize, &'static str)> {
        let (place, reported) = match kind {
            FlowKind::Tcp if self.established => return None,
            FlowKind::Tcp if self.answered => (0, "evicted-closing"),
            FlowKind::Tcp => (1, "evicted-half-open"),
            FlowKind::Udp if self.answered => return None,
            FlowKind::Udp => (2, "evicted-udp"),
            FlowKind::Echo => (3, "evicted-icmp"),
            FlowKind::Other(_) if self.answered => return None,
            FlowKind::Other(_) => (4, "evicted-other"),
        };
        Some((2 * place + usize::from(v6), reported))
    }

    /// It sends to `port`, or hears from it: how UDP lasts.
    fn lasts(&mut self, port: u16) -> u64 {
        self.short &= port < 1024 && ![443, 500].contains(&port);
        match (self.short, self.answered) {
            (true, _) => 30,
            (false, true) => 300,
            (false, false) => 120,
        }
    }

    /// A segment goes out or comes in; false for one that can't.
    fn segment(
        &mut self,
        remote: Point,
        seen: &Seen,
        out: bool,
        now: u64,
        events: &mut u64,
    ) -> bool {
        let known = self.remotes.remove(&remote);
        let is_known = known.is_some();
        let mut connection = known.unwrap_or_default();
        let effect = connection.see(seen, out);
        if let Effect::Counts = effect {
            connection.until = until(now, FlowKind::Tcp, connection.established, 0);
        }
        if is_known || matches!(effect, Effect::Counts) {
            self.remotes.insert(remote, connection);
        }
        if let Effect::Counts = effect {
            let any = self.remotes.values().any(|own| own.established);
            self.used(until(now, FlowKind::Tcp, any, 0), any, events);
        }
        !matches!(effect, Effect::Invalid)
    }

    /// It was used: until when it lasts now, and whether a connection is established.
    fn used(&mut self, until: u64, established: bool, events: &mut u64) {
        if (self.until, self.established) != (until, established) {
            *events += 1;
            self.noted = *events;
        }
        (self.until, self.established) = (until, established);
    }
}

/// The model and its settings.
pub(super) struct Model {
    pub(super) mapping: Depends,
    pub(super) filtering: Depends,
    pub(super) inbound_refresh: bool,
    pub(super) outside: Vec<IpAddr>,
    pub(super) ports: RangeInclusive<u16>,
    bound: HashMap<Inside, Bound>,
    /// Which outside address hosts have had.
    pub(super) homes: HashMap<IpAddr, IpAddr>,
    /// Whether ports may be of the other parity, or of another address than a host had.
    pub(super) scarce: bool,
    /// Bindings of a shard, and ports that it has of an outside address.
    pub(super) places: usize,
    pub(super) ports_per_shard: usize,
    pub(super) per_source: usize,
    /// Evictions, by counter.
    pub(super) evicted: HashMap<&'static str, u64>,
    /// How often each refusal was due.
    pub(super) refused: HashMap<&'static str, u64>,
    events: u64,
}

impl Model {
    pub(super) fn new(mapping: Depends, filtering: Depends, inbound_refresh: bool) -> Self {
        Self {
            mapping,
            filtering,
            inbound_refresh,
            outside: Vec::new(),
            ports: 1..=u16::MAX,
            bound: HashMap::new(),
            homes: HashMap::new(),
            scarce: false,
            places: usize::MAX,
            ports_per_shard: usize::MAX,
            per_source: usize::MAX,
            evicted: HashMap::new(),
            refused: HashMap::new(),
            events: 0,
        }
    }

    /// How many bindings there are.
    pub(super) fn len(&self) -> u64 {
        self.bound.len() as u64
    }

    /// Ends what has been idle too long.
    pub(super) fn expire(&mut self, now: u64) {
        self.bound.retain(|_, bound| bound.until > now);
    }

    /// Makes room for a binding with this key, or says why there is none.
    fn admit(&mut self, key: &Inside, shard: u8) -> Result<(), &'static str> {
        let (kind, v6) = (key.0, key.1.0.is_ipv6());
        if matches!(kind, FlowKind::Other(_)) {
            let mut addresses = self.outside.iter().filter(|address| address.is_ipv6() == v6);
            addresses.find(|own| self.is_free(key, **own)).ok_or("remote-in-use")?;
            if self.bound.values().filter(|bound| bound.shard == shard).count() >= self.places {
                self.let_go(shard, |_| true).ok_or("table-full")?;
            }
            return Ok(());
        }
        if self.bound.keys().filter(|own| has_port(own.0) && own.1.0 == key.1.0).count()
            >= self.per_source
        {
            return Err("per-source");
        }
        let own = |bound: &Bound| bound.shard == shard;
        let like = |other: &Inside| (other.0, other.1.0.is_ipv6()) == (kind, v6);
        let ports = self.outside.iter().filter(|address| address.is_ipv6() == v6).count()
            * self.ports_per_shard.min(1 << 16);
        let shares = self.mapping == Depends::Both;
        let same = |other: &Inside| like(other) && (other.2, other.3) == (key.2, key.3);
        if shares && self.bound.iter().filter(|(key, b)| own(b) && same(key)).count() >= ports {
            return Err("ports-exhausted");
        }
        if !shares && self.bound.iter().filter(|(key, b)| own(b) && like(key)).count() >= ports {
            self.let_go(shard, like).ok_or("ports-exhausted")?;
        }
        if self.bound.values().filter(|bound| own(bound)).count() >= self.places {
            self.let_go(shard, |_| true).ok_or("table-full")?;
        }
        Ok(())
    }

    /// Whether no other host has the protocol and the remote of `key` by an outside address.
    fn is_free(&self, key: &Inside, outside: IpAddr) -> bool {
        let has = |(own, bound): (&Inside, &Bound)| {
            (own.0, own.2, bound.outside.0) == (key.0, key.2, outside)
        };
        !self.bound.iter().any(has)
    }

    /// Evicts the longest unused binding of the most frequent kind.
    fn let_go(&mut self, shard: u8, fits: impl Fn(&Inside) -> bool) -> Option<()> {
        let mut kinds: [Vec<(u64, Inside, &str)>; 10] = Default::default();
        for (key, bound) in self.bound.iter().filter(|(key, b)| b.shard == shard && fits(key)) {
            if let Some((place, reported)) = bound.yields(key.0, key.1.0.is_ipv6()) {
                kinds[place].push((bound.noted, *key, reported));
            }
        }
        let most = kinds.iter().map(Vec::len).max()?;
        let kind = kinds.iter().find(|kind| kind.len() == most)?;
        let (_, key, reported) = kind.iter().min_by_key(|(noted, ..)| *noted)?;
        self.bound.remove(key);
        *self.evicted.entry(reported).or_insert(0) += 1;
        Some(())
    }

    /// Checks what became of a packet from inside, whose address is `shard`'s. Gives it as it left,
    /// if it did.
    pub(super) fn outbound(
        &mut self,
        sent: &Datagram,
        shard: u8,
        now: u64,
        out: &Outcome,
    ) -> Option<Datagram> {
        self.expire(now);
        let kind = kind(sent);
        let ((inside, _), remote) = (split(sent.src, sent, true), split(sent.dst, sent, false).0);
        let remote = normal(kind, remote);
        let key = self.key(kind, inside, remote);
        if matches!(sent.body, Body::Echo { reply: true, .. }) {
            assert_eq!(dropped(out), Some("no-binding"));
            return None;
        }
        if !self.bound.contains_key(&key) {
            let opens = match sent.body {
                Body::Tcp { flags, .. } => flags & 4 == 0,
                _ => true,
            };
            if !opens {
                assert_eq!(dropped(out), Some("no-binding"));
                return None;
            }
            if let Err(reason) = self.admit(&key, shard) {
                assert_eq!(dropped(out), Some(reason));
                *self.refused.entry(reason).or_insert(0) += 1;
                return None;
            }
            let outside = self.check_new(sent, &key, out);
            let (until, remotes, noted) = (0, HashMap::new(), 0);
            let (answered, established) = (false, false);
            let short = true;
            let new = Bound { outside, until, remotes, shard, answered, established, short, noted };
            self.bound.insert(key, new);
        }
        let bound = self.bound.get_mut(&key).unwrap();
        let lasts = bound.lasts(remote.1);
        bound.remotes.retain(|_, connection| connection.until > now);
        if let Some(seen) = seen(sent) {
            if !bound.segment(remote, &seen, true, now, &mut self.events) {
                assert_eq!(dropped(out), Some("invalid"));
                return None;
            }
        } else {
            let until = until(now, kind, false, lasts);
            bound.remotes.entry(remote).or_default().until = until;
            bound.used(until, false, &mut self.events);
        }
        let (address, port) = bound.outside;
        let expected = sent.clone().from(address, port);
        assert_sent(out, &expected);
        Some(expected)
    }

    /// A port for a new binding must be one of ours, unused, and of the right parity.
    fn check_new(&mut self, sent: &Datagram, key: &Inside, out: &Outcome) -> Point {
        let kind = key.0;
        assert_eq!(out.verdict, Verdict::Forward, "{:?}", dropped(out));
        let outside = source(kind, &out.bytes);
        assert!(self.outside.contains(&outside.0), "{outside:?} is not an outside address");
        if matches!(kind, FlowKind::Other(_)) {
            assert!(self.is_free(key, outside.0), "{outside:?} has the remote of {key:?}");
            let home = self.homes.get(&sent.src).copied().unwrap_or(outside.0);
            assert!(home == outside.0 || !self.is_free(key, home) || self.scarce, "not its home");
            return outside;
        }
        assert!(self.ports.contains(&outside.1), "{outside:?} is not in the range");
        let shares = self.mapping == Depends::Both;
        let same = |own: &Inside| !shares || (own.2, own.3) == (key.2, key.3);
        let is_taken = |own: &Inside, b: &Bound| own.0 == kind && b.outside == outside && same(own);
        let taken = self.bound.iter().find(|(own, b)| is_taken(own, b));
        assert!(taken.is_none(), "{outside:?} is taken by {taken:?}");
        let home = *self.homes.entry(sent.src).or_insert(outside.0);
        if !self.scarce {
            assert_eq!(home, outside.0, "a host keeps its outside address");
            let parity = kind != FlowKind::Udp || outside.1 % 2 == sent.ports().0 % 2;
            assert!(parity, "{outside:?} for {:?}", sent.ports());
        }
        outside
    }

    /// Checks what became of a packet from outside to an outside address.
    pub(super) fn inbound(&mut self, sent: &Datagram, now: u64, out: &Outcome) -> Option<Datagram> {
        self.expire(now);
        let kind = kind(sent);
        let ((remote, outside), refresh) = (split(sent.src, sent, true), self.inbound_refresh);
        let remote = normal(kind, remote);
        if matches!(sent.body, Body::Echo { reply: false, .. }) {
            assert_eq!(dropped(out), Some("no-binding"));
            return None;
        }
        let key = self.permitted(kind, (sent.dst, outside), remote, now, out)?;
        let filtering = self.filtering;
        let bound = self.bound.get_mut(&key).unwrap();
        bound.remotes.retain(|_, connection| connection.until > now);
        if let Some(seen) = seen(sent)
            && !bound.segment(remote, &seen, false, now, &mut self.events)
        {
            assert_eq!(dropped(out), Some("invalid"));
            return None;
        }
        let mut outlasts = false;
        if !bound.answered {
            self.events += 1;
            (bound.answered, bound.noted) = (true, self.events);
            outlasts = kind == FlowKind::Udp && !bound.short;
        }
        match sent.body {
            Body::Tcp { .. } => {}
            _ if refresh || outlasts => {
                let lasts = bound.lasts(remote.1);
                bound.used(until(now, kind, false, lasts), false, &mut self.events);
                let same =
                    |p: &Point| p.0 == remote.0 && (filtering != Depends::Both || *p == remote);
                let known =
                    bound.remotes.iter_mut().filter(|(point, c)| same(point) && c.until > now);
                known.for_each(|(_, connection)| connection.until = bound.until);
            }
            _ => {}
        }
        let expected = sent.clone().to(key.1.0, key.1.1);
        assert_sent(out, &expected);
        Some(expected)
    }

    fn permitted(
        &self,
        kind: FlowKind,
        outside: Point,
        remote: Point,
        now: u64,
        out: &Outcome,
    ) -> Option<Inside> {
        let is_own = |(key, bound): &(&Inside, &Bound)| {
            let is_for = match (has_port(kind), self.mapping) {
                (false, _) => key.2 == Some(remote.0),
                (true, Depends::Both) => (key.2, key.3) == (Some(remote.0), Some(remote.1)),
                (true, _) => true,
            };
            key.0 == kind && bound.outside == outside && is_for
        };
        let Some((key, bound)) = self.bound.iter().find(is_own) else {
            assert_eq!(dropped(out), Some("no-binding"));
            return None;
        };
        let live = || bound.remotes.iter().filter(|(_, c)| c.until > now).map(|(point, _)| point);
        let permits = match self.filtering {
            Depends::Nothing => true,
            Depends::Address => live().any(|point| point.0 == remote.0),
            Depends::Both => live().any(|point| *point == remote),
        };
        if !permits {
            assert_eq!(dropped(out), Some("filtered"));
            return None;
        }
        Some(*key)
    }

    /// Checks the outcome of an error from outside. It quotes `len` bytes of `about`, a packet that
    /// left.
    pub(super) fn error_in(
        &mut self,
        router: IpAddr,
        about: &Datagram,
        len: usize,
        now: u64,
        out: &Outcome,
    ) {
        self.expire(now);
        let kind = kind(about);
        let remote = normal(kind, (about.dst, about.ports().1));
        let outside = (about.src, about.ports().0);
        let Some(key) = self.permitted(kind, outside, remote, now, out) else { return };
        let original = about.clone().from(key.1.0, key.1.1);
        assert_sent(out, &original.error(router, len));
    }

    /// Checks what became of an error from inside about `about`, a packet that came in.
    pub(super) fn error_out(
        &mut self,
        router: IpAddr,
        about: &Datagram,
        len: usize,
        now: u64,
        out: &Outcome,
    ) {
        self.expire(now);
        let kind = kind(about);
        let remote = normal(kind, (about.src, about.ports().0));
        let key = self.key(kind, (about.dst, about.ports().1), remote);
        let Some(bound) = self.bound.get(&key) else {
            match is_inside(router) {
                true => assert_eq!(dropped(out), Some("no-binding")),
                false => assert_sent(out, &about.error(router, len)),
            }
            return;
        };
        let (address, port) = bound.outside;
        let original = about.clone().to(address, port);
        let mut expected = original.error(router, len);
        expected.src = address;
        assert_sent(out, &expected);
    }

    fn key(&self, kind: FlowKind, inside: Point, remote: Point) -> Inside {
        match self.mapping {
            _ if !has_port(kind) => (kind, inside, Some(remote.0), None),
            Depends::Nothing => (kind, inside, None, None),
            Depends::Address => (kind, inside, Some(remote.0), None),
            Depends::Both => (kind, inside, Some(remote.0), Some(remote.1)),
        }
    }
}

/// Whether an address is one that `super::nat` translates.
fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[0] == 10,
        IpAddr::V6(v6) => v6.segments()[0] == 0xfd00,
    }
}

/// Whether bindings of it have ports or identifiers.
fn has_port(kind: FlowKind) -> bool {
    !matches!(kind, FlowKind::Other(_))
}

fn kind(datagram: &Datagram) -> FlowKind {
    match datagram.body {
        Body::Tcp { .. } => FlowKind::Tcp,
        Body::Udp { .. } => FlowKind::Udp,
        Body::Other { protocol } => FlowKind::Other(protocol),
        _ => FlowKind::Echo,
    }
}

/// One end of a packet, and the other end's port.
fn split(address: IpAddr, datagram: &Datagram, source: bool) -> (Point, u16) {
    let (src, dst) = datagram.ports();
    if source { ((address, src), dst) } else { ((address, dst), src) }
}

fn normal(kind: FlowKind, (address, port): Point) -> Point {
    (address, if matches!(kind, FlowKind::Echo | FlowKind::Other(_)) { 0 } else { port })
}

/// The idle time, from the end of this second on.
fn until(now: u64, kind: FlowKind, established: bool, udp: u64) -> u64 {
    let ended = now / SECOND + 1;
    SECOND
        * match kind {
            FlowKind::Tcp if established => ended + 7440,
            FlowKind::Tcp => ended + 240,
            FlowKind::Udp => ended + udp,
            FlowKind::Echo => ended + 60,
            FlowKind::Other(_) => ended + 600,
        }
}

/// The source endpoint of a frame that left.
fn source(kind: FlowKind, frame: &[u8]) -> Point {
    let v4 = frame[12] == 8;
    let l4 = if v4 { 34 } else { 54 };
    let at = l4 + if kind == FlowKind::Echo { 4 } else { 0 };
    let port = match has_port(kind) {
        true => u16::from_be_bytes([frame[at], frame[at + 1]]),
        false => 0,
    };
    let address = match v4 {
        true => <[u8; 4]>::try_from(&frame[26..30]).unwrap().into(),
        false => <[u8; 16]>::try_from(&frame[22..38]).unwrap().into(),
    };
    (address, port)
}

/// The name of the reason why a packet was dropped, if it was.
pub(super) fn dropped(out: &Outcome) -> Option<&'static str> {
    let reason = || DEFINITION.drops[usize::from(out.reason)];
    (out.verdict == Verdict::Dropped).then(reason)
}

pub(super) fn assert_sent(out: &Outcome, expected: &Datagram) {
    assert_eq!(out.verdict, Verdict::Forward, "{:?} for {expected:?}", dropped(out));
    assert_eq!(out.bytes, expected.frame(), "{expected:?}");
}
