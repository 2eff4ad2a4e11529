//! The bindings of the naive translator, and the remotes that each has sent to.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use crate::function::Counters;
use crate::nat_rules::NatRules;
use crate::prefix::Prefix;
use crate::wire::{TCP, UDP};
use warpline_testkit::conntrack::{Answer, Mode, Seen, Tracked};

/// The numbers of a segment are outside the windows, which is counted.
pub(crate) const OUTSIDE: &str = "outside";

pub(crate) type Endpoint = (IpAddr, u16);

/// Kinds of flows, each with ports of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FlowKind {
    Tcp,
    Udp,
    Echo,
    /// A protocol without ports.
    Other(u8),
}

/// On what of a remote something depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependence {
    Nothing,
    Address,
    AddressAndPort,
}

/// Configuration of a translator.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) inside: Vec<Prefix>,
    pub(crate) outside: Vec<Prefix>,
    pub(crate) ports: (u16, u16),
    pub(crate) mapping: Dependence,
    pub(crate) filtering: Dependence,
    pub(crate) per_source_max: usize,
    /// Seconds: UDP, established TCP, other TCP, echoes, UDP without an answer, UDP to short ports,
    /// other protocols.
    pub(crate) timeouts: [u64; 7],
    pub(crate) inbound_refresh: bool,
    /// None unless a file has them.
    pub(crate) rules: NatRules,
}

/// A remote that a binding has sent to.
#[derive(Clone, Debug)]
struct Remote {
    /// Without the port where filtering doesn't ask for it, but for TCP.
    at: Endpoint,
    expires: u64,
    /// Of TCP, with whether the inside host opened it.
    tracked: Option<(Tracked, bool)>,
    /// Whether segments of it went out and came in.
    went: [bool; 2],
    established: bool,
}

/// An outside port that stands for an inside one.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) inside: Endpoint,
    pub(crate) outside: Endpoint,
    expires: u64,
    remotes: Vec<Remote>,
    /// Whether a packet came in by it.
    answered: bool,
    /// Whether it sent to no port but well-known ones, without 443 and 500.
    short: bool,
    /// Whether it is a connection to a forwarded port.
    forwarded: bool,
}

/// The key of a binding for packets from inside.
type Key = (FlowKind, Endpoint, Option<IpAddr>, Option<u16>);

/// The ends of a connection: inside and remote.
type Ends = (FlowKind, Endpoint, Endpoint);

/// All bindings.
pub(crate) struct Bindings {
    config: Config,
    all: BTreeMap<Key, Binding>,
    /// Connections to forwarded ports, by the inside and the remote end.
    forwarded: BTreeMap<Ends, Binding>,
    /// The outside address of each host.
    homes: BTreeMap<IpAddr, IpAddr>,
    created: u64,
    pub(crate) complaints: Vec<String>,
}

impl Bindings {
    pub(crate) fn new(config: Config) -> Self {
        let (all, forwarded, homes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { config, all, forwarded, homes, created: 0, complaints: Vec::new() }
    }

    pub(crate) fn expire(&mut self, now: u64) {
        self.all.retain(|_, binding| binding.expires > now);
        self.forwarded.retain(|_, binding| binding.expires > now);
    }

    fn key(&self, kind: FlowKind, inside: Endpoint, remote: Endpoint) -> Key {
        match self.config.mapping {
            _ if matches!(kind, FlowKind::Other(_)) => (kind, inside, Some(remote.0), None),
            Dependence::Nothing => (kind, inside, None, None),
            Dependence::Address => (kind, inside, Some(remote.0), None),
            Dependence::AddressAndPort => (kind, inside, Some(remote.0), Some(remote.1)),
        }
    }

    pub(crate) fn find(
        &self,
        kind: FlowKind,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<&Binding> {
        self.all.get(&self.key(kind, inside, remote))
    }

    /// The connection to a forwarded port with these ends.
    pub(crate) fn connection(
        &self,
        kind: FlowKind,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<&Binding> {
        self.forwarded.get(&(kind, inside, remote))
    }

    /// A packet from outside to the forwarded port `outside`: finds or makes its connection.
    pub(crate) fn forward(
        &mut self,
        ends: Ends,
        outside: Endpoint,
        segment: Option<&Seen>,
        now: u64,
    ) -> Result<(), &'static str> {
        // A SYN or an ACK begins a conversation.
        let mode = Mode { loose: true, ..Mode::default() };
        let opens = segment.is_none_or(|seen| Tracked::new(seen, mode).is_some());
        let (kind, inside, remote) = ends;
        let binding = match self.forwarded.entry(ends) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if !opens => return Err("no-binding"),
            Entry::Vacant(new) => {
                self.created += 1;
                new.insert(Binding { forwarded: true, ..Binding::new(inside, outside) })
            }
        };
        binding.used(&self.config, (kind, remote), segment, false, now)
    }

    /// A packet from inside: gives the outside end if it answers one to a forwarded port.
    pub(crate) fn answer(
        &mut self,
        ends: Ends,
        segment: Option<&Seen>,
        now: u64,
    ) -> Option<Result<Endpoint, &'static str>> {
        let binding = self.forwarded.get_mut(&ends)?;
        binding.answered |= ends.0 != FlowKind::Tcp;
        let used = binding.used(&self.config, (ends.0, ends.2), segment, true, now);
        Some(used.map(|()| binding.outside))
    }

    /// A packet goes out: finds the binding, or makes it with the port that was chosen, and keeps
    /// it.
    #[expect(clippy::too_many_arguments, reason = "all of a packet that matters")]
    pub(crate) fn out(
        &mut self,
        kind: FlowKind,
        inside: Endpoint,
        remote: Endpoint,
        segment: Option<&Seen>,
        opens: bool,
        now: u64,
        choice: Option<Endpoint>,
    ) -> Result<Endpoint, &'static str> {
        // Of echoes only requests go out, and only they make bindings; so does TCP without RST.
        if kind == FlowKind::Echo && !opens {
            return Err("no-binding");
        }
        let key = self.key(kind, inside, remote);
        if !self.all.contains_key(&key) {
            if !opens {
                return Err("no-binding");
            }
            self.create(key, choice)?;
        }
        let config = self.config.clone();
        let binding = self.all.get_mut(&key).expect("it was made");
        binding.used(&config, (kind, remote), segment, true, now)?;
        Ok(binding.outside)
    }

    fn create(&mut self, key: Key, choice: Option<Endpoint>) -> Result<(), &'static str> {
        let inside = key.1;
        if let FlowKind::Other(_) = key.0 {
            return self.create_portless(key, choice);
        }
        let is_own = |(key, binding): &(&Key, &Binding)| {
            binding.inside.0 == inside.0 && !matches!(key.0, FlowKind::Other(_))
        };
        let own = self.all.iter().filter(is_own).count();
        if self.config.per_source_max > 0 && own >= self.config.per_source_max {
            return Err("per-source");
        }
        let outside = choice.unwrap_or(inside);
        self.check(key.0, inside, (key.2, key.3), outside);
        self.add(key, outside);
        Ok(())
    }

    /// An outside address has one inside host by this protocol and remote.
    fn create_portless(&mut self, key: Key, choice: Option<Endpoint>) -> Result<(), &'static str> {
        let (kind, inside, remote, _) = key;
        let v4 = inside.0.is_ipv4();
        let own = self.config.outside.iter().filter(|prefix| prefix.is_v4() == v4);
        let addresses: u128 = own.map(Prefix::addresses).fold(0, u128::saturating_add);
        let is_like = |own: &Key| (own.0, own.2) == (kind, remote);
        let taken: Vec<IpAddr> =
            self.all.iter().filter(|(own, _)| is_like(own)).map(|(_, b)| b.outside.0).collect();
        if taken.len() as u128 >= addresses.min(64) {
            return Err("remote-in-use");
        }
        let outside = choice.unwrap_or(inside);
        let home = self.homes.get(&inside.0).copied().unwrap_or(outside.0);
        let wrong = [
            (!self.config.outside.iter().any(|p| p.holds(outside.0)), "not an outside address"),
            (taken.contains(&outside.0), "another binding's"),
            (home != outside.0 && !taken.contains(&home), "not the host's address"),
        ];
        for (_, what) in wrong.iter().filter(|(is_wrong, _)| *is_wrong) {
            self.complaints.push(format!("{kind:?} {inside:?} got {outside:?}, {what}"));
        }
        self.add(key, outside);
        Ok(())
    }

    fn add(&mut self, key: Key, outside: Endpoint) {
        self.all.insert(key, Binding::new(key.1, outside));
        self.created += 1;
    }

    /// Checks the port of a new binding against the manual.
    fn check(
        &mut self,
        kind: FlowKind,
        inside: Endpoint,
        remote: (Option<IpAddr>, Option<u16>),
        outside: Endpoint,
    ) {
        let (least, most) = self.config.ports;
        let shares = self.config.mapping == Dependence::AddressAndPort;
        let same = |own: &Key| !shares || (own.2, own.3) == remote;
        let taken =
            |(own, other): (&Key, &Binding)| own.0 == kind && other.outside == outside && same(own);
        let home = *self.homes.entry(inside.0).or_insert(outside.0);
        let wrong = [
            (!self.config.outside.iter().any(|p| p.holds(outside.0)), "not an outside address"),
            (!(least..=most).contains(&outside.1), "not one of the ports"),
            (self.all.iter().any(taken), "another binding's"),
            (kind == FlowKind::Udp && outside.1 % 2 != inside.1 % 2, "of another parity"),
            (home != outside.0, "not the host's address"),
            (self.is_forwarded(kind, outside), "a forwarded port"),
        ];
        for (_, what) in wrong.iter().filter(|(is_wrong, _)| *is_wrong) {
            self.complaints.push(format!("{kind:?} {inside:?} got {outside:?}, {what}"));
        }
    }

    fn is_forwarded(&self, kind: FlowKind, outside: Endpoint) -> bool {
        let protocol = match kind {
            FlowKind::Tcp => TCP,
            FlowKind::Udp => UDP,
            _ => return false,
        };
        self.config.rules.forward(protocol, outside).is_some()
    }

    /// The binding of an outside port, if `remote` may send to it.
    pub(crate) fn permitted(
        &mut self,
        kind: FlowKind,
        outside: Endpoint,
        remote: Endpoint,
        now: u64,
    ) -> Result<&mut Binding, &'static str> {
        let filtering = self.config.filtering;
        let is_portless = matches!(kind, FlowKind::Other(_));
        let shares = self.config.mapping == Dependence::AddressAndPort;
        let is_for = |key: &Key| match (is_portless, shares) {
            (true, _) => key.2 == Some(remote.0),
            (false, true) => (key.2, key.3) == (Some(remote.0), Some(remote.1)),
            (false, false) => true,
        };
        let is_own = |(key, binding): &(&Key, &mut Binding)| {
            key.0 == kind && binding.outside == outside && is_for(key)
        };
        let (_, binding) = self.all.iter_mut().find(is_own).ok_or("no-binding")?;
        let known = |asks_port: bool| {
            let is = |own: &Remote| own.at.0 == remote.0 && (!asks_port || own.at.1 == remote.1);
            binding.remotes.iter().any(|own| own.expires > now && is(own))
        };
        let may = match filtering {
            Dependence::Nothing => true,
            Dependence::Address => known(false),
            Dependence::AddressAndPort => known(true),
        };
        if may { Ok(binding) } else { Err("filtered") }
    }

    /// A packet comes in: gives where it goes.
    pub(crate) fn inward(
        &mut self,
        kind: FlowKind,
        outside: Endpoint,
        remote: Endpoint,
        segment: Option<&Seen>,
        now: u64,
    ) -> Result<Endpoint, &'static str> {
        let config = self.config.clone();
        let binding = self.permitted(kind, outside, remote, now)?;
        // The first answer begins the longer timeout.
        let begins = kind == FlowKind::Udp && !binding.answered && !binding.short;
        if kind != FlowKind::Tcp {
            binding.answered = true;
        }
        if kind == FlowKind::Tcp || begins || config.inbound_refresh {
            binding.used(&config, (kind, remote), segment, false, now)?;
        }
        binding.answered = true;
        Ok(binding.inside)
    }

    /// Those that expired may be found out about a tick late.
    pub(crate) fn counters(&self, now: u64) -> Counters {
        let all = self.all.values().chain(self.forwarded.values());
        let live = all.filter(|binding| binding.expires > now).count() as u64;
        let zero = [
            "evicted-closing",
            "evicted-half-open",
            "evicted-udp",
            "evicted-icmp",
            "evicted-other",
        ];
        let mut all: Counters = zero.map(|name| (name, (0, 0))).into();
        all.insert("created", (self.created, self.created));
        all.insert("bindings", (live, self.created));
        all.insert("expired", (0, self.created - live));
        all.insert("bindings-peak", (live, self.created));
        all
    }
}

impl Binding {
    fn new(inside: Endpoint, outside: Endpoint) -> Self {
        let (remotes, short) = (Vec::new(), true);
        Self { inside, outside, expires: 0, remotes, answered: false, short, forwarded: false }
    }

    /// Keeps the binding for a packet to or from `remote`.
    fn used(
        &mut self,
        config: &Config,
        (kind, remote): (FlowKind, Endpoint),
        segment: Option<&Seen>,
        out: bool,
        now: u64,
    ) -> Result<(), &'static str> {
        if let Some(seen) = segment {
            return self.segment(config, remote, seen, out, now);
        }
        let [udp, _, _, echo, unanswered, short, other] = ends(config, now);
        self.short &= remote.1 < 1024 && remote.1 != 443 && remote.1 != 500;
        self.expires = match (kind, self.short, self.answered) {
            (FlowKind::Udp, true, _) => short,
            (FlowKind::Udp, false, true) => udp,
            (FlowKind::Udp, false, false) => unanswered,
            (FlowKind::Other(_), ..) => other,
            _ => echo,
        };
        let port = if config.filtering == Dependence::AddressAndPort { remote.1 } else { 0 };
        let expires = self.expires;
        if let Some(own) = self.remote((remote.0, port), true, now) {
            own.expires = expires;
        }
        Ok(())
    }

    /// A TCP segment to or from `remote`.
    fn segment(
        &mut self,
        config: &Config,
        remote: Endpoint,
        seen: &Seen,
        out: bool,
        now: u64,
    ) -> Result<(), &'static str> {
        let [_, established, transitory, ..] = ends(config, now);
        let known = self.remote(remote, false, now).map(|own| own.clone());
        let is_tracked = known.as_ref().is_some_and(|own| own.tracked.is_some());
        let loose = self.forwarded && !out;
        let mode = Mode { one_sided: out, loose, ..Mode::default() };
        let opened = || Remote::opened(remote, seen, mode, out);
        let mut counts = true;
        let new = if is_tracked {
            let mut own = known.expect("it is tracked");
            let (tracked, by_inside) = own.tracked.as_mut().expect("it is tracked");
            let old = tracked.stage();
            match tracked.see(seen, *by_inside == out, Mode::default()) {
                Answer::Invalid => return Err("invalid"),
                Answer::Outside => return Err(OUTSIDE),
                Answer::Followed if old == "closed" && tracked.stage() == "closed" => {
                    counts = false
                }
                Answer::Followed => own.count(out),
                Answer::Ignored => counts = false,
                Answer::Forgotten => own = Remote::at(remote),
                Answer::Anew => own = opened().expect("a SYN opens"),
            }
            own
        } else {
            // Only the inside host begins a conversation, except to a forwarded port.
            match opened().filter(|_| out || self.forwarded) {
                Some(own) => own,
                None => return Ok(()),
            }
        };
        let own = self.remote(remote, true, now).expect("it is made");
        let expires = if new.established { established } else { transitory };
        *own = Remote { expires: if counts { expires } else { own.expires }, ..new };
        if counts {
            let any = self.remotes.iter().any(|own| own.expires > now && own.established);
            self.expires = if any { established } else { transitory };
        }
        Ok(())
    }

    /// The remote; an unknown one is added if `makes`.
    fn remote(&mut self, at: Endpoint, makes: bool, now: u64) -> Option<&mut Remote> {
        self.remotes.retain(|own| own.expires > now);
        let known = self.remotes.iter().position(|own| own.at == at);
        if known.is_none() && makes {
            self.remotes.push(Remote::at(at));
        }
        let last = self.remotes.len().checked_sub(1).filter(|_| makes);
        self.remotes.get_mut(known.or(last)?)
    }
}

impl Remote {
    fn at(at: Endpoint) -> Self {
        Self { at, expires: 0, tracked: None, went: [false; 2], established: false }
    }

    /// One whose conversation a segment opens.
    fn opened(at: Endpoint, seen: &Seen, mode: Mode, out: bool) -> Option<Self> {
        let (tracked, by_sender) = Tracked::new(seen, mode)?;
        let mut own = Self { tracked: Some((tracked, by_sender == out)), ..Self::at(at) };
        own.count(out);
        Some(own)
    }

    /// A segment counts that goes out or comes in.
    fn count(&mut self, out: bool) {
        self.went[usize::from(!out)] = true;
        let stage = self.tracked.as_ref().map_or("", |(tracked, _)| tracked.stage());
        self.established = self.went == [true; 2] && ["established", "finishing"].contains(&stage);
    }
}

/// When what is used now expires, by timeout.
fn ends(config: &Config, now: u64) -> [u64; 7] {
    config.timeouts.map(|s| (now / 1_000_000_000 + 1 + s) * 1_000_000_000)
}
