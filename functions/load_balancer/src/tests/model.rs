//! The balancer as its manual tells it, in maps that grow, with every place looked at. Which
//! backend a new connection gets is taken from the function, and held against what is allowed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{ACK, FIN, RST, SECOND, SYN};
use warpline_testkit::frames::{Body, Datagram};

pub(super) type At = (IpAddr, u16);

/// A backend of a VIP in the file as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Server {
    pub(super) at: At,
    pub(super) takes_new: bool,
    pub(super) keeps_old: bool,
}

/// Client, VIP, and whether it is TCP.
type Flow = (At, At, bool);

#[derive(Clone, Debug)]
struct Connection {
    backend: At,
    shard: u8,
    phase: Phase,
    answered: bool,
    ends: u64,
    /// When it was first used in the second of its last use, or became what it is, among all such
    /// events.
    noted: u64,
}

impl Connection {
    /// Its rank among evicted kinds, and their counter; `None` if it is never evicted.
    fn yields(&self) -> Option<(usize, &'static str)> {
        Some(match self.phase {
            Phase::Ending => (0, "evicted-closing"),
            Phase::Syn => (1, "evicted-half-open"),
            _ if self.answered => return None,
            Phase::Open => (2, "evicted-one-sided"),
            Phase::Datagrams => (3, "evicted-udp"),
        })
    }

    /// It was used.
    fn used(&mut self, now: u64, phase: Phase, answers: bool, events: &mut u64) {
        let old = (self.ends, self.yields());
        (self.phase, self.answered) = (phase, self.answered || answers);
        self.ends = ends(now, phase);
        if old != (self.ends, self.yields()) {
            *events += 1;
            self.noted = *events;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Former {
    client: At,
    server: At,
    tcp: bool,
    shard: u8,
    until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Syn,
    Open,
    Ending,
    Datagrams,
}

pub(super) struct Model {
    /// Servers of each VIP, TCP or not.
    pub(super) vips: BTreeMap<(At, bool), Vec<Server>>,
    connections: BTreeMap<Flow, Connection>,
    /// Servers that connections had before they moved, the oldest first.
    former: Vec<Former>,
    /// The servers chosen for flows under the current file.
    choices: BTreeMap<Flow, At>,
    pub(super) places_per_shard: usize,
    pub(super) per_source: usize,
    pub(super) moved: u64,
    pub(super) created: u64,
    /// Evictions, by counter.
    pub(super) evicted: BTreeMap<&'static str, u64>,
    events: u64,
}

pub(super) const TRANSITORY: u64 = 240;
pub(super) const OPEN: u64 = 7440;
pub(super) const DATAGRAMS: u64 = 120;

fn flags_of(datagram: &Datagram) -> Option<u8> {
    match datagram.body {
        Body::Tcp { flags, .. } => Some(flags),
        _ => None,
    }
}

fn ends(now: u64, phase: Phase) -> u64 {
    let idle = match phase {
        Phase::Syn | Phase::Ending => TRANSITORY,
        Phase::Open => OPEN,
        Phase::Datagrams => DATAGRAMS,
    };
    (now / SECOND + 1 + idle) * SECOND
}

impl Model {
    pub(super) fn new(places_per_shard: usize) -> Self {
        let (connections, choices) = (BTreeMap::new(), BTreeMap::new());
        let (vips, evicted, per_source) = (BTreeMap::new(), BTreeMap::new(), usize::MAX);
        let (moved, created, events) = (0, 0, 0);
        Self {
            vips,
            connections,
            former: Vec::new(),
            choices,
            places_per_shard,
            per_source,
            moved,
            created,
            evicted,
            events,
        }
    }

    /// The file changed.
    pub(super) fn reload(&mut self, vips: BTreeMap<(At, bool), Vec<Server>>) {
        self.vips = vips;
        self.choices.clear();
    }

    /// Where a client's packet to a VIP goes, or why nowhere. `got` is where the function sent it.
    pub(super) fn client(
        &mut self,
        datagram: &Datagram,
        shard: u8,
        now: u64,
        got: Option<At>,
    ) -> Result<At, &'static str> {
        self.connections.retain(|_, own| own.ends > now);
        let ports = datagram.ports();
        let flags = flags_of(datagram);
        let flow = ((datagram.src, ports.0), (datagram.dst, ports.1), flags.is_some());
        let servers = self.vips[&(flow.1, flow.2)].clone();
        let is = |bit: u8| flags.is_some_and(|flags| flags & bit == bit);
        let ending = is(1) || is(RST);
        if let Some(own) = self.connections.get(&flow) {
            let reused = own.phase == Phase::Ending && is(SYN);
            if !reused {
                let own = own.clone();
                let kept = servers.iter().any(|s| s.at == own.backend && s.keeps_old);
                if !kept {
                    let to = self.pick(&flow, &servers, got)?;
                    self.connections.get_mut(&flow).unwrap().backend = to;
                    let until = now + TRANSITORY * SECOND;
                    let (client, tcp, server) = (flow.0, flow.2, own.backend);
                    self.left(Former { client, server, tcp, shard, until });
                    self.moved += 1;
                }
                let own = self.connections.get_mut(&flow).unwrap();
                let phase = match own.phase {
                    _ if ending => Phase::Ending,
                    Phase::Syn if !is(SYN) => Phase::Open,
                    phase => phase,
                };
                own.used(now, phase, false, &mut self.events);
                return Ok(own.backend);
            }
            self.connections.remove(&flow);
        }
        if servers.iter().all(|server| !server.takes_new) {
            return Err("no-backend");
        }
        if is(RST) {
            return self.allowed(&flow, &servers, got).ok_or("a server that takes new connections");
        }
        let of_client = self.connections.keys().filter(|own| own.0.0 == flow.0.0).count();
        let is_bound = of_client >= self.per_source;
        let taken = self.connections.values().filter(|own| own.shard == shard).count();
        let is_full = taken >= self.places_per_shard;
        let yields = |own: &Connection| own.shard == shard && own.yields().is_some();
        let is_stuck = is_full && !self.connections.values().any(yields);
        // A conflict takes precedence over a full table. The function's output shows which server
        // it chose.
        let to = match self.pick(&flow, &servers, got) {
            Err(_) if is_bound => return Err("per-source"),
            Err(_) if is_stuck => return Err("table-full"),
            other => other?,
        };
        assert!(!is_bound && !is_stuck, "there was no place");
        if is_full {
            self.let_go(shard);
        }
        let phase = match flags {
            None => Phase::Datagrams,
            _ if ending => Phase::Ending,
            _ if is(SYN) => Phase::Syn,
            _ => Phase::Open,
        };
        self.events += 1;
        let (ends, noted, answered) = (ends(now, phase), self.events, false);
        let own = Connection { backend: to, shard, phase, answered, ends, noted };
        self.connections.insert(flow, own);
        self.created += 1;
        Ok(to)
    }

    /// A connection left a server.
    fn left(&mut self, former: Former) {
        let is = |own: &Former| {
            (own.client, own.server, own.tcp) == (former.client, former.server, former.tcp)
        };
        if let Some(own) = self.former.iter_mut().find(|own| is(own)) {
            own.until = former.until;
            return;
        }
        self.former.push(former);
        let of_shard = |own: &Former| own.shard == former.shard;
        if self.former.iter().filter(|own| of_shard(own)).count() > self.places_per_shard / 16 + 1 {
            let oldest = self.former.iter().position(of_shard).expect("it has some");
            self.former.remove(oldest);
        }
    }

    /// Whether a packet is from a server that its client's connection left.
    pub(super) fn is_of_former(&self, datagram: &Datagram, now: u64) -> bool {
        let ((from, to), tcp) = (datagram.ports(), flags_of(datagram).is_some());
        self.former.iter().any(|own| {
            (own.client, own.server, own.tcp) == ((datagram.dst, to), (datagram.src, from), tcp)
                && own.until > now
        })
    }

    /// Evicts the longest unused connection of the most frequent kind.
    fn let_go(&mut self, shard: u8) {
        let mut kinds: [Vec<(u64, Flow, &str)>; 4] = Default::default();
        for (flow, own) in self.connections.iter().filter(|(_, own)| own.shard == shard) {
            if let Some((place, reported)) = own.yields() {
                kinds[place].push((own.noted, *flow, reported));
            }
        }
        let most = kinds.iter().map(Vec::len).max().unwrap();
        let kind = kinds.iter().find(|kind| kind.len() == most).unwrap();
        let (_, flow, reported) = kind.iter().min().unwrap();
        self.connections.remove(flow);
        *self.evicted.entry(reported).or_default() += 1;
    }

    /// The server that the function chose, if it may; the same for a flow as long as the file is.
    fn allowed(&mut self, flow: &Flow, servers: &[Server], got: Option<At>) -> Option<At> {
        let server = servers.iter().find(|server| Some(server.at) == got && server.takes_new)?;
        let choice = *self.choices.entry(*flow).or_insert(server.at);
        (choice == server.at).then_some(choice)
    }

    /// The same for a connection that is remembered: two of a client's can't have one server's
    /// port.
    fn pick(
        &mut self,
        flow: &Flow,
        servers: &[Server],
        got: Option<At>,
    ) -> Result<At, &'static str> {
        let live: Vec<At> = servers.iter().filter(|s| s.takes_new).map(|s| s.at).collect();
        if live.is_empty() {
            return Err("no-backend");
        }
        let clashes = |model: &Self, at: At| {
            model.connections.iter().any(|((client, vip, tcp), own)| {
                (*client, *tcp, own.backend) == (flow.0, flow.2, at) && *vip != flow.1
            })
        };
        match self.allowed(flow, servers, got) {
            Some(at) if !clashes(self, at) => Ok(at),
            Some(_) => Err("another server: that one has this client's port"),
            None if live.iter().any(|&at| clashes(self, at)) => Err("conflict"),
            None => Err("a server that takes new connections"),
        }
    }

    /// The VIP that a server's packet comes from, for its client; what it asks is noted.
    pub(super) fn server(&mut self, datagram: &Datagram, now: u64) -> Option<At> {
        let vip = self.peek(datagram, now)?;
        let flags = flags_of(datagram);
        let client = (datagram.dst, datagram.ports().1);
        let own = self.connections.get_mut(&(client, vip, flags.is_some()))?;
        let ending = flags.is_some_and(|flags| flags & (FIN & !ACK | RST) != 0);
        let phase = if ending { Phase::Ending } else { own.phase };
        own.used(now, phase, true, &mut self.events);
        Some(vip)
    }

    /// The same without a use of the connection.
    pub(super) fn peek(&self, datagram: &Datagram, now: u64) -> Option<At> {
        let ports = datagram.ports();
        let (from, to) = ((datagram.src, ports.0), (datagram.dst, ports.1));
        let flags = flags_of(datagram);
        let found = self.connections.iter().find(|((client, _, tcp), own)| {
            (*client, *tcp, own.backend) == (to, flags.is_some(), from) && own.ends > now
        });
        found.map(|((_, vip, _), _)| *vip)
    }

    /// The server of a client's connection, without touching it.
    pub(super) fn known(&self, client: At, vip: At, tcp: bool, now: u64) -> Option<At> {
        let own = self.connections.get(&(client, vip, tcp)).filter(|own| own.ends > now)?;
        let servers = &self.vips[&(vip, tcp)];
        let kept = servers.iter().any(|server| server.at == own.backend && server.keeps_old);
        kept.then_some(own.backend)
    }
}
