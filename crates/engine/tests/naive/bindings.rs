//! The bindings of the naive translator.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, Ipv4Addr};

use crate::binding::{Binding, Remote};
use crate::engine;
use crate::function::Counters;
use crate::nat_rules::NatRules;
use crate::prefix::Prefix;
use crate::wire::{TCP, UDP};
use warpline_testkit::conntrack::{Mode, Seen, Tracked};

/// The numbers of a segment are outside the windows, which is counted.
pub(crate) const OUTSIDE: &str = "outside";

/// Shards of a chain, each with a block of ports.
const SHARDS: u16 = 64;

/// The outside end of a binding whose only packets were dropped.
const UNKNOWN: Endpoint = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

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
    /// Whether the chain has one shard.
    pub(crate) is_whole: bool,
}

impl Config {
    /// The shard of an inside host, which is the engine's choice.
    fn shard_of_host(&self, host: IpAddr) -> u8 {
        if self.is_whole { 0 } else { engine::shard_of(host) }
    }

    /// The shard that has a port in its block.
    fn shard_of_port(&self, port: u16) -> Option<u8> {
        let (first, last) = self.ports;
        let per_shard = (last - first + 1) / SHARDS;
        let shard = (port.checked_sub(first)? / per_shard).try_into().ok()?;
        (u16::from(shard) < SHARDS).then_some(if self.is_whole { 0 } else { shard })
    }

    /// The shard of packets from an inside host to an outside port.
    pub(crate) fn shard_of_hairpins(&self, host: IpAddr, protocol: u8, to: Endpoint) -> u8 {
        match self.rules.forward(protocol, to) {
            Some((server, _)) => self.shard_of_host(server),
            None => self.shard_of_port(to.1).unwrap_or_else(|| self.shard_of_host(host)),
        }
    }
}

/// The key of a binding for packets from inside, with its shard.
type Key = (FlowKind, Endpoint, Option<IpAddr>, Option<u16>, u8);

/// The outside end that the engine gave a packet; nothing where it dropped it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Port(Option<Endpoint>),
    /// To another inside host, by the state of this shard. The packet may be dropped for its
    /// destination after it made a binding.
    Hairpin(u8, Option<Endpoint>),
}

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
    /// Packets whose port may be that of a binding whose port is not known.
    pub(crate) unsure: u64,
    pub(crate) complaints: Vec<String>,
}

impl Bindings {
    pub(crate) fn new(config: Config) -> Self {
        let (all, forwarded, homes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { config, all, forwarded, homes, created: 0, unsure: 0, complaints: Vec::new() }
    }

    pub(crate) fn expire(&mut self, now: u64) {
        self.all.retain(|_, binding| binding.expires > now);
        self.forwarded.retain(|_, binding| binding.expires > now);
    }

    fn key(&self, kind: FlowKind, inside: Endpoint, remote: Endpoint, shard: u8) -> Key {
        match self.config.mapping {
            _ if matches!(kind, FlowKind::Other(_)) => (kind, inside, Some(remote.0), None, 0),
            Dependence::Nothing => (kind, inside, None, None, shard),
            Dependence::Address => (kind, inside, Some(remote.0), None, shard),
            Dependence::AddressAndPort => (kind, inside, Some(remote.0), Some(remote.1), shard),
        }
    }

    pub(crate) fn find(
        &self,
        kind: FlowKind,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<&Binding> {
        self.find_in(self.config.shard_of_host(inside.0), kind, inside, remote)
    }

    /// The binding of packets that have their state in another shard than that of the host.
    pub(crate) fn find_in(
        &self,
        shard: u8,
        kind: FlowKind,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<&Binding> {
        self.all.get(&self.key(kind, inside, remote, shard))
    }

    /// Learns the outside end of a binding, from an error that shows it, if it is not known.
    pub(crate) fn learn(
        &mut self,
        shard: Option<u8>,
        (kind, inside, remote): Ends,
        shown: Option<Endpoint>,
    ) {
        if self.connection(kind, inside, remote).is_some() {
            return;
        }
        let shard = shard.unwrap_or_else(|| self.config.shard_of_host(inside.0));
        let key = self.key(kind, inside, remote, shard);
        let is_new = self.all.get(&key).is_some_and(|binding| binding.outside == UNKNOWN);
        if let Some(outside) = shown.filter(|_| is_new) {
            self.check(kind, inside, (key.2, key.3), outside);
            self.all.get_mut(&key).expect("it is known").outside = outside;
        }
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
        choice: Choice,
    ) -> Result<Endpoint, &'static str> {
        // Of echoes only requests go out, and only they make bindings; so does TCP without RST.
        if kind == FlowKind::Echo && !opens {
            return Err("no-binding");
        }
        let shard = match choice {
            Choice::Port(_) => self.config.shard_of_host(inside.0),
            Choice::Hairpin(shard, _) => shard,
        };
        let key = self.key(kind, inside, remote, shard);
        let known = self.all.get(&key).map(|binding| binding.outside);
        let chosen = match (known, choice) {
            (None, _) if !opens => return Err("no-binding"),
            (None, Choice::Port(choice)) => Some(choice.unwrap_or(inside)),
            (None, Choice::Hairpin(_, choice)) => Some(choice.unwrap_or(UNKNOWN)),
            (Some(UNKNOWN), Choice::Port(choice) | Choice::Hairpin(_, choice)) => choice,
            (Some(_), _) => None,
        };
        match (known, chosen) {
            (None, Some(outside)) => self.create(key, outside)?,
            (Some(_), Some(outside)) => {
                self.check(kind, inside, (key.2, key.3), outside);
                self.all.get_mut(&key).expect("it is known").outside = outside;
            }
            (_, None) => {}
        }
        let config = self.config.clone();
        let binding = self.all.get_mut(&key).expect("it was made");
        binding.used(&config, (kind, remote), segment, true, now)?;
        Ok(binding.outside)
    }

    fn create(&mut self, key: Key, outside: Endpoint) -> Result<(), &'static str> {
        let (inside, shard) = (key.1, key.4);
        if let FlowKind::Other(_) = key.0 {
            return self.create_portless(key, outside);
        }
        let is_own = |(key, binding): &(&Key, &Binding)| {
            let is_other = matches!(key.0, FlowKind::Other(_)) || key.4 != shard;
            binding.inside.0 == inside.0 && !is_other
        };
        let own = self.all.iter().filter(is_own).count();
        if self.config.per_source_max > 0 && own >= self.config.per_source_max {
            return Err("per-source");
        }
        self.check(key.0, inside, (key.2, key.3), outside);
        self.add(key, outside);
        Ok(())
    }

    /// An outside address has one inside host by this protocol and remote.
    fn create_portless(&mut self, key: Key, outside: Endpoint) -> Result<(), &'static str> {
        let (kind, inside, remote, ..) = key;
        let v4 = inside.0.is_ipv4();
        let own = self.config.outside.iter().filter(|prefix| prefix.is_v4() == v4);
        let addresses: u128 = own.map(Prefix::addresses).fold(0, u128::saturating_add);
        let is_like = |own: &Key| (own.0, own.2) == (kind, remote);
        let taken: Vec<IpAddr> =
            self.all.iter().filter(|(own, _)| is_like(own)).map(|(_, b)| b.outside.0).collect();
        if taken.len() as u128 >= addresses.min(64) {
            return Err("remote-in-use");
        }
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
        if outside == UNKNOWN {
            return;
        }
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

    /// Whether an outside port is a binding's alone.
    pub(crate) fn has_outside(&self, kind: FlowKind, outside: Endpoint) -> bool {
        let is_own = |(key, binding): (&Key, &Binding)| key.0 == kind && binding.outside == outside;
        self.config.mapping != Dependence::AddressAndPort && self.all.iter().any(is_own)
    }

    /// Where the engine gave a packet to a host whose binding has no known port, it is this one.
    pub(crate) fn find_unknown(
        &mut self,
        kind: FlowKind,
        outside: Endpoint,
        shown: Option<Endpoint>,
    ) {
        let is_known = |(key, own): (&Key, &Binding)| key.0 == kind && own.outside == outside;
        if self.all.iter().any(is_known) {
            return;
        }
        let is_unknown = |(key, own): &(&Key, &Binding)| {
            let is_v4 = own.inside.0.is_ipv4() == outside.0.is_ipv4();
            key.0 == kind && own.outside == UNKNOWN && is_v4
        };
        let unknown: Vec<Key> = self.all.iter().filter(is_unknown).map(|(key, _)| *key).collect();
        let found = unknown.iter().find(|key| Some(key.1) == shown);
        match found {
            Some(key) => {
                self.check(kind, key.1, (key.2, key.3), outside);
                self.all.get_mut(key).expect("it is known").outside = outside;
            }
            None => self.unsure += u64::from(!unknown.is_empty()),
        }
    }

    /// The binding of an outside port, if `remote` may send to it.
    pub(crate) fn permitted(
        &mut self,
        kind: FlowKind,
        outside: Endpoint,
        remote: Endpoint,
        now: u64,
        shown: Option<Endpoint>,
    ) -> Result<&mut Binding, &'static str> {
        self.find_unknown(kind, outside, shown);
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
        (segment, shown): (Option<&Seen>, Option<Endpoint>),
        now: u64,
    ) -> Result<Endpoint, &'static str> {
        let config = self.config.clone();
        let binding = self.permitted(kind, outside, remote, now, shown)?;
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
        // A packet whose receiver is not known may have made one.
        let most = self.created + self.unsure;
        all.insert("created", (self.created, most));
        all.insert("bindings", (live, most));
        all.insert("expired", (0, most - live));
        all.insert("bindings-peak", (live, most));
        all
    }
}
