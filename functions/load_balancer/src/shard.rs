//! A shard's state: `before` finds or chooses the backend of each packet.

use core::hint::black_box;
use std::sync::Arc;

use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol};
use warpline_packet::{Batch, Flags, Instant, LinkType, Packet, PacketMut, Reason, Shard};

use super::balance::{Balance, End};
use super::config::{Config, Mode, NoVip};
use super::flow::Flow;
use super::{LoadBalancer, Refusal, encap};
use warpline_nf::{Before, Emit, Function, PeakHistory, StateHalf};
use warpline_rewrite::fragments::Fragments;
use warpline_rewrite::icmp::Quote;
use warpline_rewrite::translate::{Action, Rewrite};
use warpline_rewrite::{Endpoint, PlaceWords, Protocol};
use warpline_tables::keyed::HashKey;

/// Connections that a tick takes out at most, so that none takes long.
const RECLAIMED_MAX: usize = 4096;

/// Packets that are looked at together.
const GLANCES: usize = 32;

/// The state of one shard.
pub(super) struct BalancerShard {
    pub(super) balance: Balance,
    words: PlaceWords,
    /// The changes of first fragments; `None` of those that passed as they were.
    pub(super) fragments: Fragments<Option<Change>>,
    pub(super) counts: Counts,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) to_backends: u64,
    pub(super) to_clients: u64,
    errors: u64,
    no_vip: u64,
}

/// The properties of a packet that need no look-up of its connection.
enum Glance {
    Flow {
        flow: Flow,
        end: End,
        /// The look-up key of its connection.
        key: u32,
    },
    Other,
}

/// The step for a packet; `None` to let it pass unchanged.
type Done = Result<Option<Treatment>, Refusal>;

pub(super) enum Treatment {
    /// To the backend that is the target of this number.
    ToBackend(usize, Action),
    /// To the client, from the VIP of this number.
    ToClient(usize, Action),
}

/// The change that `run` makes to a packet, by value: a reload renumbers steps.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Rewrite(Rewrite),
    /// It goes into a packet of this IP version to a backend.
    Tunnel(u8, Endpoint),
    /// It goes to this Ethernet address.
    Mac([u8; 6]),
}

impl Counts {
    /// Counts a packet that passes.
    pub(super) fn add(&mut self, step: &Treatment) {
        match step {
            Treatment::ToBackend(_, Action::Destination) => self.to_backends += 1,
            Treatment::ToClient(_, Action::Source) => self.to_clients += 1,
            Treatment::ToBackend(..) | Treatment::ToClient(..) => self.errors += 1,
        }
    }
}

impl BalancerShard {
    pub(super) fn new(
        config: &Arc<Config>,
        words: PlaceWords,
        shard: Shard,
        fragment_key: HashKey,
    ) -> Self {
        Self {
            balance: Balance::new(config, shard),
            words,
            fragments: Fragments::new(shard, fragment_key),
            counts: Counts::default(),
        }
    }

    /// Examines a packet without looking up its connection.
    #[inline]
    fn glance(&self, packet: &Packet<'_>) -> Glance {
        let Some(flow) = Flow::of(packet) else { return Glance::Other };
        let end = self.balance.end(&flow);
        let key = self.balance.key(&flow, &end);
        Glance::Flow { flow, end, key }
    }

    /// Looks at some packets, and touches the memory of all their connections before anything waits
    /// for that of one: with a million of them a packet costs two cache misses. The loops over
    /// memory are short, so that a processor is at many misses at once.
    #[inline]
    fn glance_over(&self, batch: &Batch, picks: &[u16], glances: &mut [Glance; GLANCES]) {
        for (&pick, glance) in picks.iter().zip(&mut *glances) {
            *glance = self.glance(&batch.packet(usize::from(pick)));
        }
        let mut places = [0; GLANCES];
        for (glance, place) in glances.iter().zip(&mut places[..picks.len()]) {
            if let Glance::Flow { end, key, .. } = glance {
                *place = self.balance.connections.glance(*key, matches!(end, End::Backend(_)));
            }
        }
        let touch = |sum: u64, &place: &u32| sum ^ self.balance.connections.glance_at(place);
        black_box(places[..picks.len()].iter().fold(0, touch));
    }

    fn handle(&mut self, packet: &mut PacketMut<'_>, glance: &Glance) {
        self.balance.now = self.balance.now.max(packet.timestamp());
        if packet.reject_malformed() || packet.version() == 0 {
            return;
        }
        let done = match glance {
            Glance::Flow { flow, end, key } => self.flow(flow, end, *key),
            Glance::Other if packet.has(Flags::FRAGMENT) => {
                if let Err(refusal) = self.fragment(packet) {
                    packet.drop(Reason(refusal as u8));
                }
                return;
            }
            Glance::Other => self.other(packet),
        };
        let done = match done {
            Ok(Some(step)) => {
                let change = self.change(&step);
                self.prepare(packet, &change).inspect(|()| self.counts.add(&step))
            }
            Ok(None) => Ok(()),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = done {
            packet.drop(Reason(refusal as u8));
        }
    }

    pub(super) fn other(&mut self, packet: &PacketMut<'_>) -> Done {
        let protocol = packet.protocol();
        let (src, dst) = packet.addresses();
        // Each version's own: the other's number is a protocol like any other.
        let icmp = if packet.version() == 4 { ip_protocol::ICMP } else { ip_protocol::ICMPV6 };
        let is_icmp = protocol == icmp;
        let ports = matches!(protocol, ip_protocol::TCP | ip_protocol::UDP);
        // An extension header is the last thing seen only where the capture cut the others.
        let cut = ip_protocol::is_extension(protocol) && packet.has(Flags::SNAPPED);
        if is_icmp && packet.has(Flags::TRANSPORT) {
            self.icmp(packet, dst)
        } else if ports || is_icmp || cut {
            match self.is_near(packet.version(), src, dst) {
                true => Err(Refusal::Snapped),
                false => self.pass(),
            }
        } else {
            self.pass()
        }
    }

    /// Whether a packet is to a VIP's address, or from that of a backend whose packets come back
    /// this way.
    pub(super) fn is_near(&self, version: u8, src: u128, dst: u128) -> bool {
        let directory = &self.balance.config.directory;
        directory.has_vip_address(version, dst)
            || (self.balance.is_dnat() && directory.has_backend_address(version, src))
    }

    /// A packet that is no VIP's.
    pub(super) fn pass(&mut self) -> Done {
        match self.balance.config.no_vip {
            NoVip::Forward => {
                self.counts.no_vip += 1;
                Ok(None)
            }
            NoVip::Drop => Err(Refusal::NoVip),
        }
    }

    pub(super) fn flow(&mut self, flow: &Flow, end: &End, key: u32) -> Done {
        match *end {
            End::Vip(vip) => {
                let target = self.balance.forward(vip, flow, key)?;
                Ok(Some(Treatment::ToBackend(target, Action::Destination)))
            }
            End::Backend(name) => match self.balance.back(name, flow, key)? {
                Some(vip) => Ok(Some(Treatment::ToClient(vip, Action::Source))),
                None => self.pass(),
            },
            End::Neither => self.pass(),
        }
    }

    /// An ICMP error goes where packets like the one that it quotes come from; other messages are
    /// no VIP's.
    fn icmp(&mut self, packet: &PacketMut<'_>, dst: u128) -> Done {
        let (version, kind) = (packet.version(), packet.icmp_type());
        let error = match version {
            4 => icmpv4::message::is_error(kind) && kind != icmpv4::message::REDIRECT,
            _ => icmpv6::message::is_error(kind),
        };
        if !error {
            return self.pass();
        }
        let quote = Quote::read(packet.payload(), version);
        let has_ports =
            |quote: &Quote| quote.src.address == dst && quote.protocol != Protocol::Other;
        let Some(quote) = quote.filter(has_ports) else {
            return match packet.has(Flags::SNAPPED) {
                _ if !self.balance.config.directory.has_vip_address(version, dst) => self.pass(),
                true => Err(Refusal::Snapped),
                false => Err(Refusal::BadQuote),
            };
        };
        let protocol = match quote.protocol {
            Protocol::Tcp => ip_protocol::TCP,
            Protocol::Udp => ip_protocol::UDP,
            Protocol::Icmp | Protocol::Other => return self.pass(),
        };
        let (src, dst) = (quote.dst, quote.src);
        self.error(&Flow { version, protocol, src, dst, tcp_flags: None })
    }

    fn error(&mut self, flow: &Flow) -> Done {
        let end = self.balance.end(flow);
        let step = match end {
            End::Vip(vip) => {
                Treatment::ToBackend(self.balance.known_target(vip, flow)?, Action::ErrorIn)
            }
            End::Backend(name) => {
                let key = self.balance.key(flow, &end);
                match self.balance.back(name, flow, key)? {
                    Some(vip) => Treatment::ToClient(vip, Action::ErrorOut),
                    None => return self.pass(),
                }
            }
            End::Neither => return self.pass(),
        };
        Ok(Some(step))
    }

    /// The change of a packet that takes `step`.
    #[inline]
    pub(super) fn change(&self, step: &Treatment) -> Change {
        let directory = &self.balance.config.directory;
        match (self.balance.config.fixed.mode, step) {
            (_, &Treatment::ToClient(vip, action)) => {
                Change::Rewrite(Rewrite { action, to: directory.vip(vip).at })
            }
            (Mode::Dnat, &Treatment::ToBackend(target, action)) => {
                Change::Rewrite(Rewrite { action, to: directory.target(target).at })
            }
            (Mode::Ipip, &Treatment::ToBackend(target, _)) => {
                let target = directory.target(target);
                Change::Tunnel(target.version, target.at)
            }
            (Mode::Mac, &Treatment::ToBackend(target, _)) => {
                Change::Mac(directory.target(target).mac)
            }
        }
    }

    /// Writes a packet's change into its words.
    #[inline]
    pub(super) fn prepare(
        &self,
        packet: &mut PacketMut<'_>,
        change: &Change,
    ) -> Result<(), Refusal> {
        match *change {
            Change::Rewrite(rewrite) => self.words.set(packet, &rewrite),
            Change::Tunnel(version, to) => {
                encap::check(packet, version)?;
                self.words.first().put(packet, version.into(), to);
            }
            Change::Mac(mac) => {
                if packet.link() != LinkType::ETHERNET {
                    return Err(Refusal::Link);
                }
                encap::note_mac(packet, self.words.first(), mac);
            }
        }
        Ok(())
    }
}

impl Before for BalancerShard {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], _emit: &mut Emit<'_>) {
        for some in picks.chunks(GLANCES) {
            let mut glances = [const { Glance::Other }; GLANCES];
            self.glance_over(batch, some, &mut glances);
            for (&pick, glance) in some.iter().zip(&glances) {
                self.handle(&mut batch.packet_mut(usize::from(pick)), glance);
            }
        }
    }
}

impl StateHalf for BalancerShard {
    fn handle_timeout(&mut self, now: Instant, _emit: &mut Emit<'_>) {
        self.balance.now = self.balance.now.max(now);
        self.balance.connections.tick(RECLAIMED_MAX, self.balance.now);
    }

    fn reload(&mut self, function: &dyn Function) {
        let function: &dyn core::any::Any = function;
        if let Some(new) = function.downcast_ref::<LoadBalancer>() {
            self.balance.reload(&new.config);
        }
    }

    fn peaks(&self, visit: &mut dyn FnMut(&'static str, &PeakHistory, u64)) {
        let (history, newest) = self.balance.connections.peaks();
        visit("connections-peak", history, newest);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("connections", self.balance.connections.len());
        visit("created", self.balance.connections.created);
        visit("expired", self.balance.connections.expired);
        self.balance.connections.evicted().for_each(|(name, count)| visit(name, count));
        visit("moved", self.balance.moved);
        visit("unremembered", self.balance.unremembered);
        visit("to-backends", self.counts.to_backends);
        visit("to-clients", self.counts.to_clients);
        visit("icmp-errors", self.counts.errors);
        visit("no-vip", self.counts.no_vip);
    }
}
