//! A shard's state: `before` finds or chooses the backend of each packet.

use core::hint::black_box;
use core::ops::Deref;
use std::sync::Arc;

use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol, tcp};
use warpline_packet::{
    Batch, Flags, Instant, LinkType, Packet, PacketMut, PacketView, Reason, Shard,
};

use super::config::{Config, Mode, NoVip};
use super::connections::{Client, Connections, Named, Stage};
use super::{LoadBalancer, Refusal, encap};
use crate::nat::addresses::{Endpoint, address_of};
use crate::nat::bindings::Protocol;
use crate::nat::icmp::Quote;
use crate::nat::translate::{Action, Rewrite, Words};
use crate::{Before, Emit, Function};

/// Connections that a tick takes out at most, so that none takes long.
const RECLAIMED_MAX: usize = 4096;

/// Packets that are looked at together.
const GLANCES: usize = 32;

/// The state of one shard.
pub(super) struct BalancerShard {
    config: Arc<Config>,
    words: Words,
    connections: Connections,
    now: Instant,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    to_backends: u64,
    to_clients: u64,
    errors: u64,
    no_vip: u64,
    moved: u64,
    unremembered: u64,
}

/// A packet of TCP or UDP, or what an ICMP error quotes of one, turned around.
struct Flow {
    version: u8,
    protocol: u8,
    src: Endpoint,
    dst: Endpoint,
    /// `None` for what is no packet of the flow itself.
    tcp_flags: Option<u16>,
}

impl Flow {
    fn has(&self, flags: u16) -> bool {
        self.tcp_flags.is_some_and(|own| own & flags != 0)
    }

    /// How far a connection at `stage` is with this packet.
    fn next(&self, stage: Option<Stage>, from_client: bool) -> Stage {
        if self.protocol == ip_protocol::UDP {
            return Stage::Udp;
        }
        let ends = self.has(tcp::flags::FIN | tcp::flags::RST);
        let syn = self.has(tcp::flags::SYN);
        match stage {
            _ if ends => Stage::Closing,
            None if syn => Stage::Opening,
            None => Stage::Established,
            Some(Stage::Opening) if from_client && !syn => Stage::Established,
            Some(stage) => stage,
        }
    }
}

/// What can be told of a packet without its connection.
enum Glance {
    Flow {
        flow: Flow,
        end: End,
        /// What its connection is looked up by.
        key: u32,
    },
    Other,
}

/// The end of a flow that is ours.
enum End {
    /// It is to the VIP of this number.
    Vip(usize),
    /// It is from the backend of this name.
    Backend(u64),
    Neither,
}

/// What is done to a packet; `None` to let it pass as it is.
type Done = Result<Option<Step>, Refusal>;

enum Step {
    /// To the backend that is the target of this number.
    ToBackend(usize, Action),
    /// To the client, from the VIP of this number.
    ToClient(usize, Action),
}

impl BalancerShard {
    pub(super) fn new(config: &Arc<Config>, words: Words, shard: Shard) -> Self {
        let (capacity, both_ways) =
            (shard.share(config.fixed.connections), config.fixed.mode == Mode::Dnat);
        Self {
            connections: Connections::new(capacity, both_ways, config.fixed.timeouts),
            config: Arc::clone(config),
            words,
            now: Instant::ZERO,
            counts: Counts::default(),
        }
    }

    /// Looks at some packets, and touches the memory of all their connections before anything waits for
    /// that of one: with a million of them a packet costs two cache misses. The loops over memory are short,
    /// so that a processor is at many misses at once.
    #[inline]
    fn glance_over(&self, batch: &Batch, picks: &[u16], glances: &mut [Glance; GLANCES]) {
        for (&pick, glance) in picks.iter().zip(&mut *glances) {
            *glance = self.glance(&batch.packet(usize::from(pick)));
        }
        let mut places = [0; GLANCES];
        for (glance, place) in glances.iter().zip(&mut places[..picks.len()]) {
            if let Glance::Flow { end, key, .. } = glance {
                *place = self.connections.glance(*key, matches!(end, End::Backend(_)));
            }
        }
        let touch = |sum: u64, &place: &u32| sum ^ self.connections.glance_at(place);
        black_box(places[..picks.len()].iter().fold(0, touch));
    }

    /// What can be told of a packet without its connection.
    #[inline]
    fn glance(&self, packet: &Packet<'_>) -> Glance {
        let protocol = packet.protocol();
        let is_flow = matches!(protocol, ip_protocol::TCP | ip_protocol::UDP);
        let whole = packet.has(Flags::TRANSPORT) && !packet.has(Flags::FRAGMENT);
        if !is_flow || !whole {
            return Glance::Other;
        }
        let version = packet.version();
        let (src, dst) = addresses(packet);
        let src = Endpoint { address: src, port: packet.src_port() };
        let dst = Endpoint { address: dst, port: packet.dst_port() };
        let tcp_flags = Some(packet.tcp_flags());
        let flow = Flow { version, protocol, src, dst, tcp_flags };
        let end = self.end(&flow);
        let key = match &end {
            End::Vip(vip) => {
                let name = self.config.directory.vip(*vip).name;
                self.connections.key(&Client::new(version, src), name)
            }
            End::Backend(name) => self.connections.key(&Client::new(version, dst), *name),
            End::Neither => 0,
        };
        Glance::Flow { flow, end, key }
    }

    /// Which end of a flow is ours.
    #[inline]
    fn end(&self, flow: &Flow) -> End {
        let Flow { version, protocol, src, dst, .. } = *flow;
        let directory = &self.config.directory;
        if let Some(vip) = directory.find_vip(version, protocol, dst) {
            return End::Vip(vip);
        }
        let backend =
            if self.is_dnat() { directory.find_backend(version, protocol, src) } else { None };
        backend.map_or(End::Neither, End::Backend)
    }

    fn handle(&mut self, packet: &mut PacketMut<'_>, glance: &Glance) {
        self.now = self.now.max(packet.timestamp());
        if packet.reject_malformed() || packet.version() == 0 {
            return;
        }
        let done = match glance {
            Glance::Flow { flow, end, key } => self.flow(flow, end, *key),
            Glance::Other => self.other(packet),
        };
        let done = match done {
            Ok(Some(step)) => self.prepare(packet, &step),
            Ok(None) => Ok(()),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = done {
            packet.drop(Reason(refusal as u8));
        }
    }

    fn other(&mut self, packet: &PacketMut<'_>) -> Done {
        let protocol = packet.protocol();
        let (src, dst) = addresses(packet);
        let is_icmp = matches!(protocol, ip_protocol::ICMP | ip_protocol::ICMPV6);
        let ports = matches!(protocol, ip_protocol::TCP | ip_protocol::UDP);
        // An extension header is the last thing seen only where the capture cut the others.
        let cut = ip_protocol::is_extension(protocol) && packet.has(Flags::SNAPPED);
        let whole = packet.has(Flags::TRANSPORT) && !packet.has(Flags::FRAGMENT);
        if is_icmp && whole {
            self.icmp(packet, dst)
        } else if ports || is_icmp || cut {
            self.without_ports(packet, src, dst)
        } else {
            self.pass()
        }
    }

    /// A packet without ports, or only a part of one, that could be a VIP's.
    fn without_ports(&mut self, packet: &PacketMut<'_>, src: u128, dst: u128) -> Done {
        let (directory, version) = (&self.config.directory, packet.version());
        let comes_back = || self.is_dnat() && directory.has_backend_address(version, src);
        if !directory.has_vip_address(version, dst) && !comes_back() {
            return self.pass();
        }
        Err(if packet.has(Flags::FRAGMENT) { Refusal::Fragment } else { Refusal::Snapped })
    }

    /// A packet that is no VIP's.
    fn pass(&mut self) -> Done {
        match self.config.no_vip {
            NoVip::Forward => {
                self.counts.no_vip += 1;
                Ok(None)
            }
            NoVip::Drop => Err(Refusal::NoVip),
        }
    }

    fn is_dnat(&self) -> bool {
        self.config.fixed.mode == Mode::Dnat
    }

    fn flow(&mut self, flow: &Flow, end: &End, key: u32) -> Done {
        match *end {
            End::Vip(vip) => {
                let target = self.forward(vip, flow, key)?;
                self.counts.to_backends += 1;
                Ok(Some(Step::ToBackend(target, Action::Destination)))
            }
            End::Backend(name) => match self.back(name, flow, key)? {
                Some(vip) => {
                    self.counts.to_clients += 1;
                    Ok(Some(Step::ToClient(vip, Action::Source)))
                }
                None => self.pass(),
            },
            End::Neither => self.pass(),
        }
    }

    /// The target that a client's packet goes to.
    fn forward(&mut self, vip: usize, flow: &Flow, key: u32) -> Result<usize, Refusal> {
        let client = Client::new(flow.version, flow.src);
        let name = self.config.directory.vip(vip).name;
        if let Some(number) = self.connections.find(key, &client, name, self.now) {
            let stage = self.connections.stage(number);
            // The client's port again, for another connection.
            if stage != Stage::Closing || !flow.has(tcp::flags::SYN) {
                return self.remembered(number, vip, &client, flow);
            }
            self.connections.remove(number);
        }
        if let Some(key) = &self.config.key
            && key.is_service(address_of(flow.version, flow.src.address))
        {
            return Err(Refusal::Hairpin);
        }
        let (target, backend) = self.choose(vip, &client)?;
        if flow.has(tcp::flags::RST) {
            return Ok(target);
        }
        let (named, stage) = (Named { name, number: vip as u16 }, flow.next(None, true));
        match self.connections.create(client, named, backend, stage, self.now) {
            Err(Refusal::TableFull) if !self.is_dnat() => self.counts.unremembered += 1,
            Err(refusal) => return Err(refusal),
            Ok(()) => {}
        }
        Ok(target)
    }

    /// The target of a connection that is remembered; another one where it lost its own.
    fn remembered(
        &mut self,
        number: u32,
        vip: usize,
        client: &Client,
        flow: &Flow,
    ) -> Result<usize, Refusal> {
        let backend = self.connections.backend(number);
        let hint = usize::from(backend.number);
        let target = match self.config.directory.kept_target(vip, backend.name, hint) {
            Some(target) => target,
            None => {
                let (target, backend) = self.choose(vip, client)?;
                self.connections.hand_over(number, backend, self.now)?;
                self.counts.moved += 1;
                target
            }
        };
        if target != hint || vip != usize::from(self.connections.vip(number).number) {
            self.connections.note_numbers(number, vip, target);
        }
        self.used(number, flow, true);
        Ok(target)
    }

    /// The target of a new connection, and its name.
    fn choose(&self, vip: usize, client: &Client) -> Result<(usize, Named), Refusal> {
        let directory = &self.config.directory;
        let hash = client.hash(directory.vip(vip).name);
        let target = directory.choose(vip, hash).ok_or(Refusal::NoBackend)?;
        let name = directory.target(target).name;
        Ok((target, Named { name, number: target as u16 }))
    }

    /// The VIP that a backend's packet to a client is from; `None` where it is of no connection of ours.
    fn back(&mut self, name: u64, flow: &Flow, key: u32) -> Result<Option<usize>, Refusal> {
        let client = Client::new(flow.version, flow.dst);
        let Some(number) = self.connections.find_back(key, &client, name, self.now) else {
            return Ok(None);
        };
        let Named { name, number: hint } = self.connections.vip(number);
        let vip = self.config.directory.vip_named(name, hint.into()).ok_or(Refusal::NoVip)?;
        self.used(number, flow, false);
        Ok(Some(vip))
    }

    fn used(&mut self, number: u32, flow: &Flow, from_client: bool) {
        if flow.tcp_flags.is_some() {
            let stage = flow.next(Some(self.connections.stage(number)), from_client);
            self.connections.touch(number, stage, self.now);
        }
    }

    /// An ICMP error goes where packets like the one that it quotes come from; other messages are no VIP's.
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
        let Some(quote) = quote.filter(|quote| quote.src.address == dst) else {
            return match packet.has(Flags::SNAPPED) {
                _ if !self.config.directory.has_vip_address(version, dst) => self.pass(),
                true => Err(Refusal::Snapped),
                false => Err(Refusal::BadQuote),
            };
        };
        let protocol = match quote.protocol {
            Protocol::Tcp => ip_protocol::TCP,
            Protocol::Udp => ip_protocol::UDP,
            Protocol::Icmp => return self.pass(),
        };
        let (src, dst) = (quote.dst, quote.src);
        self.error(&Flow { version, protocol, src, dst, tcp_flags: None })
    }

    fn error(&mut self, flow: &Flow) -> Done {
        let step = match self.end(flow) {
            End::Vip(vip) => Step::ToBackend(self.known_target(vip, flow)?, Action::ErrorIn),
            End::Backend(name) => {
                let key = self.connections.key(&Client::new(flow.version, flow.dst), name);
                match self.back(name, flow, key)? {
                    Some(vip) => Step::ToClient(vip, Action::ErrorOut),
                    None => return self.pass(),
                }
            }
            End::Neither => return self.pass(),
        };
        self.counts.errors += 1;
        Ok(Some(step))
    }

    /// The target that a client's packets go to; an error makes and changes nothing.
    fn known_target(&mut self, vip: usize, flow: &Flow) -> Result<usize, Refusal> {
        let client = Client::new(flow.version, flow.src);
        let directory = &self.config.directory;
        let name = directory.vip(vip).name;
        let key = self.connections.key(&client, name);
        let found = self.connections.find(key, &client, name, self.now);
        let target = found.and_then(|number| {
            let Named { name, number } = self.connections.backend(number);
            directory.kept_target(vip, name, number.into())
        });
        match target {
            Some(target) => Ok(target),
            None if self.is_dnat() => Err(Refusal::NoConnection),
            None => Ok(self.choose(vip, &client)?.0),
        }
    }

    /// Tells `run` what to do.
    fn prepare(&self, packet: &mut PacketMut<'_>, step: &Step) -> Result<(), Refusal> {
        let directory = &self.config.directory;
        match (self.config.fixed.mode, step) {
            (Mode::Dnat, &Step::ToBackend(target, action)) => {
                let to = directory.target(target).at;
                self.words.set(packet, &Rewrite { action, to });
            }
            (_, &Step::ToClient(vip, action)) => {
                self.words.set(packet, &Rewrite { action, to: directory.vip(vip).at });
            }
            (Mode::Ipip, &Step::ToBackend(target, _)) => {
                let target = directory.target(target);
                encap::check(packet, target.version)?;
                self.words.put(packet, target.version.into(), target.at);
            }
            (Mode::Mac, &Step::ToBackend(target, _)) => {
                if packet.link() != LinkType::ETHERNET {
                    return Err(Refusal::Link);
                }
                encap::note_mac(packet, &self.words, directory.target(target).mac);
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

    fn handle_timeout(&mut self, now: Instant, _emit: &mut Emit<'_>) {
        self.now = self.now.max(now);
        self.connections.reclaim(RECLAIMED_MAX, self.now);
    }

    fn reload(&mut self, function: &dyn Function) {
        let function: &dyn core::any::Any = function;
        if let Some(new) = function.downcast_ref::<LoadBalancer>() {
            self.config = Arc::clone(&new.config);
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("connections", self.connections.len());
        visit("connections_peak", self.connections.peak);
        visit("created", self.connections.created);
        visit("expired", self.connections.expired);
        visit("moved", self.counts.moved);
        visit("unremembered", self.counts.unremembered);
        visit("to_backends", self.counts.to_backends);
        visit("to_clients", self.counts.to_clients);
        visit("icmp_errors", self.counts.errors);
        visit("no_vip", self.counts.no_vip);
    }
}

#[inline]
fn addresses<B: Deref<Target = Batch>>(packet: &PacketView<B>) -> (u128, u128) {
    match packet.version() {
        4 => (u128::from(packet.src_v4()), u128::from(packet.dst_v4())),
        _ => (packet.src_v6(), packet.dst_v6()),
    }
}
