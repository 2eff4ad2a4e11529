//! The connections of the naive balancer, and which backends they have.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::function::Counters;
use crate::prefix::Prefix;
use crate::wire::TCP;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// An address and a port.
pub(crate) type At = (IpAddr, u16);

/// How a packet gets to its backend.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    Dnat,
    /// With the sources of tunnels, where they are not the flow's.
    Ipip(Option<Ipv4Addr>, Option<Ipv6Addr>),
    /// From this Ethernet address.
    Mac([u8; 6]),
}

/// Configuration of a balancer.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) services: Vec<Service>,
    /// Where no client is.
    pub(crate) addresses: Vec<Prefix>,
    pub(crate) per_source_max: usize,
    pub(crate) drops_others: bool,
    /// Seconds: established TCP, TCP that opens or closes, UDP.
    pub(crate) timeouts: [u64; 3],
}

/// An address with ports, and who serves it.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) address: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) ports: Vec<u16>,
    pub(crate) backends: Vec<Backend>,
}

#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) address: IpAddr,
    pub(crate) port: Option<u16>,
    /// 0 for those that take no new connections.
    pub(crate) weight: u16,
    pub(crate) mac: [u8; 6],
}

impl Config {
    pub(crate) fn backends(&self) -> impl Iterator<Item = &Backend> {
        self.services.iter().flat_map(|service| &service.backends)
    }

    /// The service that has this VIP.
    pub(crate) fn service(&self, protocol: u8, at: At) -> Option<&Service> {
        let mut all = self.services.iter();
        all.find(|own| (own.address, own.protocol) == (at.0, protocol) && own.ports.contains(&at.1))
    }
}

/// A client and its VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Talk {
    pub(crate) client: At,
    pub(crate) vip: At,
    pub(crate) protocol: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
    Closing,
    Datagrams,
}

#[derive(Clone, Debug)]
struct Connection {
    backend: At,
    phase: Phase,
    expires: u64,
}

/// All connections.
pub(crate) struct Balanced {
    config: Config,
    all: BTreeMap<Talk, Connection>,
    /// The engine's first choice for each, which stays valid for the whole test.
    choices: BTreeMap<Talk, At>,
    created: u64,
    replaced: u64,
    most: u64,
    unremembered: u64,
    pub(crate) complaints: Vec<String>,
}

impl Balanced {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            all: BTreeMap::new(),
            choices: BTreeMap::new(),
            created: 0,
            replaced: 0,
            most: 0,
            unremembered: 0,
            complaints: Vec::new(),
        }
    }

    pub(crate) fn expire(&mut self, now: u64) {
        self.all.retain(|_, own| own.expires > now);
    }

    /// A packet to a VIP: gives its backend. `choice` is where the engine sent it, `None` where
    /// nowhere.
    pub(crate) fn forth(
        &mut self,
        service: &Service,
        talk: Talk,
        flags: u8,
        choice: Option<At>,
        now: u64,
    ) -> Result<At, &'static str> {
        let is_dnat = matches!(self.config.mode, Mode::Dnat);
        let is_new = |own: &Connection| own.phase == Phase::Closing && flags & SYN != 0;
        if self.all.get(&talk).is_some_and(is_new) {
            self.all.remove(&talk);
            self.replaced += 1;
        }
        if let Some(own) = self.all.get_mut(&talk) {
            own.continues(flags, true);
            own.expires = expires(&self.config, own.phase, now);
            // The file never changes, so the hash's choice stays, whether or not it was seen
            // before.
            return if is_dnat { Ok(own.backend) } else { self.choose(service, talk, choice) };
        }
        if is_dnat && self.config.addresses.iter().any(|prefix| prefix.holds(talk.client.0)) {
            return Err("hairpin");
        }
        let backend = if is_dnat && choice.is_none() {
            self.refused(service, talk)?
        } else {
            self.choose(service, talk, choice)?
        };
        if flags & RST != 0 {
            return Ok(backend);
        }
        if is_dnat && self.clashes(talk, backend) {
            return Err("conflict");
        }
        let of_client = self.all.keys().filter(|own| own.client.0 == talk.client.0).count();
        if self.config.per_source_max > 0 && of_client >= self.config.per_source_max {
            self.unremembered += u64::from(!is_dnat);
            return if is_dnat { Err("per-source") } else { Ok(backend) };
        }
        let phase = Phase::first(talk.protocol, flags);
        let expires = expires(&self.config, phase, now);
        self.all.insert(talk, Connection { backend, phase, expires });
        self.created += 1;
        self.most = self.most.max(self.all.len() as u64);
        Ok(backend)
    }

    /// A backend for a connection that the engine refused: one that explains that, where it is not
    /// known which it was.
    fn refused(&self, service: &Service, talk: Talk) -> Result<At, &'static str> {
        let live: Vec<At> = live(service, talk).collect();
        let known = self.choices.get(&talk).copied();
        let clash = live.iter().copied().find(|at| self.clashes(talk, *at));
        known.or(clash).or(live.first().copied()).ok_or("no-backend")
    }

    /// The backend that the file gives a connection, which the engine may choose once.
    pub(crate) fn choose(
        &mut self,
        service: &Service,
        talk: Talk,
        choice: Option<At>,
    ) -> Result<At, &'static str> {
        let live: Vec<At> = live(service, talk).collect();
        let first = *live.first().ok_or("no-backend")?;
        // Frames that can't go to a backend don't show which it was.
        let Some(choice) = choice else { return Ok(*self.choices.get(&talk).unwrap_or(&first)) };
        let known = *self.choices.entry(talk).or_insert(choice);
        if !live.contains(&choice) {
            self.complaints
                .push(format!("{talk:?} got {choice:?}, which takes no new connections"));
        }
        if known != choice {
            self.complaints.push(format!("{talk:?} got {choice:?}, and {known:?} before"));
        }
        Ok(choice)
    }

    /// Whether another VIP's connection of this client has that backend.
    fn clashes(&self, talk: Talk, backend: At) -> bool {
        let is = |own: &Talk| (own.client, own.protocol) == (talk.client, talk.protocol);
        self.all.iter().any(|(own, other)| is(own) && *own != talk && other.backend == backend)
    }

    /// The backend of a connection.
    pub(crate) fn known(&self, talk: Talk) -> Option<At> {
        Some(self.all.get(&talk)?.backend)
    }

    /// The VIP of the connection that `client` has with `backend`.
    pub(crate) fn vip_of(&self, client: At, backend: At, protocol: u8) -> Option<At> {
        let is = |own: &Talk| (own.client, own.protocol) == (client, protocol);
        let found = self.all.iter().find(|(own, other)| is(own) && other.backend == backend);
        found.map(|(talk, _)| talk.vip)
    }

    /// A packet of a backend to a client: gives the VIP that it is from.
    pub(crate) fn back(
        &mut self,
        client: At,
        backend: At,
        protocol: u8,
        flags: u8,
        now: u64,
    ) -> Option<At> {
        let vip = self.vip_of(client, backend, protocol)?;
        let own = self.all.get_mut(&Talk { client, vip, protocol })?;
        own.continues(flags, false);
        own.expires = expires(&self.config, own.phase, now);
        Some(vip)
    }

    /// Those that expired may be found out about a tick late.
    pub(crate) fn counters(&self, now: u64) -> Counters {
        let live = self.all.values().filter(|own| own.expires > now).count() as u64;
        let gone = self.created - self.replaced;
        let zero =
            ["evicted-closing", "evicted-half-open", "evicted-one-sided", "evicted-udp", "moved"];
        let mut all: Counters = zero.map(|name| (name, (0, 0))).into();
        all.insert("created", (self.created, self.created));
        all.insert("connections", (live, gone));
        all.insert("expired", (0, gone - live));
        all.insert("connections-peak", (self.most, self.created));
        all.insert("unremembered", (self.unremembered, self.unremembered));
        all
    }
}

/// Backends that take new connections.
fn live(service: &Service, talk: Talk) -> impl Iterator<Item = At> {
    let at = move |own: &Backend| (own.address, own.port.unwrap_or(talk.vip.1));
    service.backends.iter().filter(|own| own.weight > 0).map(at)
}

fn expires(config: &Config, phase: Phase, now: u64) -> u64 {
    let [open, transitory, datagrams] = config.timeouts;
    let idle = match phase {
        Phase::Opening | Phase::Closing => transitory,
        Phase::Open => open,
        Phase::Datagrams => datagrams,
    };
    (now / 1_000_000_000 + 1 + idle) * 1_000_000_000
}

impl Phase {
    fn first(protocol: u8, flags: u8) -> Self {
        match flags {
            _ if protocol != TCP => Self::Datagrams,
            _ if flags & (FIN | RST) != 0 => Self::Closing,
            _ if flags & SYN != 0 => Self::Opening,
            _ => Self::Open,
        }
    }
}

impl Connection {
    fn continues(&mut self, flags: u8, from_client: bool) {
        self.phase = match self.phase {
            Phase::Datagrams => Phase::Datagrams,
            _ if flags & (FIN | RST) != 0 => Phase::Closing,
            Phase::Opening if from_client && flags & SYN == 0 => Phase::Open,
            phase => phase,
        };
    }
}
