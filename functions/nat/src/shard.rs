//! A shard's state: `before` finds or makes the binding of each packet.

mod course;
mod ends;
mod errors;
mod fixed;
mod hairpin;
mod uses;

use std::cell::RefCell;
use std::sync::Arc;

use warpline_packet::wire::ip_protocol;
use warpline_packet::{Batch, Flags, Instant, Packet, PacketMut, Reason, Shard};

use self::course::Course;
use self::ends::{ip_number, outside, remote};
use self::uses::Use;
use super::Refusal;
use super::binding::Outside;
use super::bindings::{Bindings, Sought};
use super::config::Config;
use super::content::{Content, Flow, content};
use super::key::Key;
use super::remotes::PacketDirection;
use warpline_nf::{Before, Emit, PeakHistory, StateHalf};
use warpline_rewrite::Endpoint;
use warpline_rewrite::PlaceWords;
use warpline_rewrite::Protocol;
use warpline_rewrite::fragments::Fragments;
use warpline_rewrite::icmp::Quote;
use warpline_rewrite::translate::{Action, Rewrite};

/// So many bindings of a shard stay in a near cache, though all shards have as many.
const NEAR: usize = 64;

/// Packets of a shard that memory is asked for ahead in one batch.
const ASKED_MAX: usize = 128;

/// The state of one shard.
pub(super) struct NatShard {
    config: Arc<Config>,
    words: PlaceWords,
    bindings: Bindings,
    /// The addresses that first fragments got: the new one, or of hairpins destination and source.
    fragments: Fragments<(u128, u128)>,
    counts: Counts,
    /// The keys by which this batch's packets are looked up, for both prefetches.
    asked: RefCell<Vec<Sought>>,
}

#[derive(Default)]
struct Counts {
    outbound: u64,
    inbound: u64,
    errors: u64,
    untranslated: u64,
    hairpins: u64,
    out_of_window: u64,
}

impl NatShard {
    pub(super) fn new(config: &Arc<Config>, words: PlaceWords, shard: Shard) -> Self {
        Self {
            bindings: Bindings::new(config, shard),
            fragments: Fragments::new(shard, config.fragment_key),
            config: Arc::clone(config),
            words,
            counts: Counts::default(),
            asked: RefCell::new(Vec::with_capacity(ASKED_MAX)),
        }
    }

    #[inline(always)]
    fn handle(&mut self, packet: &mut PacketMut<'_>) {
        self.bindings.advance(packet.timestamp());
        if packet.reject_malformed() {
            return;
        }
        let (src, dst) = packet.addresses();
        let done = match self.course(packet, src, dst) {
            Course::Past => {
                self.counts.untranslated += 1;
                self.forget_first(packet);
                return;
            }
            Course::Hairpin => {
                match self.hairpin(packet, src, dst) {
                    Ok(()) => self.counts.hairpins += 1,
                    Err(refusal) => self.refuse(packet, refusal),
                }
                return;
            }
            Course::Refused(refusal) => Err(refusal),
            Course::Out => self.outbound(packet, src, dst),
            Course::In(outside) => self.inbound(packet, (src, dst), outside),
            Course::Forwarded(target) => self.forwarded(packet, src, target),
            Course::MappedOut(outside) => self.mapped(packet, outside, PacketDirection::Out),
            Course::MappedIn(inside) => self.mapped(packet, inside, PacketDirection::In),
        };
        match done {
            Ok(rewrite) => {
                match rewrite.action {
                    Action::Source | Action::SourceAddress => self.counts.outbound += 1,
                    Action::Destination | Action::DestinationAddress => self.counts.inbound += 1,
                    Action::ErrorOut | Action::ErrorIn => self.counts.errors += 1,
                }
                self.words.set(packet, &rewrite);
            }
            Err(refusal) => self.refuse(packet, refusal),
        }
    }

    fn refuse(&mut self, packet: &mut PacketMut<'_>, refusal: Refusal) {
        self.forget_first(packet);
        packet.drop(Reason(refusal as u8));
    }

    /// Later fragments of a first one without a new address must not follow an earlier packet with
    /// its identifier.
    #[inline]
    fn forget_first(&mut self, packet: &PacketMut<'_>) {
        if packet.has(Flags::FRAGMENT) && !packet.has(Flags::LATER_FRAGMENT) {
            self.fragments.forget(packet);
        }
    }

    fn outbound(&mut self, packet: &PacketMut<'_>, src: u128, dst: u128) -> Done {
        let version = packet.version();
        let (to, action) = match content(packet)? {
            Content::LaterFragment => {
                let to = self.followed(packet)?;
                return Ok(Rewrite { action: Action::SourceAddress, to });
            }
            Content::Flow(flow) => {
                let inside = Endpoint { address: src, port: flow.src_port };
                let remote = remote(flow.protocol, dst, flow.dst_port);
                let action = match flow.protocol {
                    Protocol::Other => Action::SourceAddress,
                    _ => Action::Source,
                };
                (self.source(version, &flow, inside, remote)?, action)
            }
            Content::Error => return self.error_out(packet),
        };
        self.remember(packet, to);
        Ok(Rewrite { action, to })
    }

    /// An ICMP error from inside.
    fn error_out(&mut self, packet: &PacketMut<'_>) -> Done {
        let (_, dst) = packet.addresses();
        let to = self.outbound_error(packet, dst)?;
        self.remember(packet, to);
        Ok(Rewrite { action: Action::ErrorOut, to })
    }

    /// Remembers the new endpoint of a first fragment for those that follow it.
    #[inline]
    fn remember(&mut self, packet: &PacketMut<'_>, to: Endpoint) {
        if packet.has(Flags::FRAGMENT) {
            let now = self.bindings.now();
            self.fragments.remember(packet, (to.address, 0), now);
        }
    }

    /// The address that the first fragment got for which this later one has to follow it.
    fn followed(&self, packet: &PacketMut<'_>) -> Result<Endpoint, Refusal> {
        let (address, _) =
            self.fragments.find(packet, self.bindings.now()).ok_or(Refusal::Fragment)?;
        Ok(Endpoint { address, port: 0 })
    }

    /// The outside endpoint of a packet from inside, by its binding, which is found or made.
    #[inline(always)]
    fn source(
        &mut self,
        version: u8,
        flow: &Flow<'_>,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Result<Endpoint, Refusal> {
        let number = match self.connection(version, flow.protocol, inside, remote) {
            Some(number) => {
                self.uses_forwarded(number, flow, remote, Use::Answer)?;
                number
            }
            None => {
                let number = self.outbound_binding(version, flow, inside, remote)?;
                self.uses(number, flow, remote, Use::Out)?;
                number
            }
        };
        Ok(self.outside_of(version, number))
    }

    /// The outside endpoint of a binding.
    #[inline]
    fn outside_of(&self, version: u8, number: u32) -> Endpoint {
        let (config, binding) = (&self.config, self.bindings.get(number));
        let address = match binding.is_forwarded() {
            true => config.fixed.address(binding.outside),
            false => config.outside.address(version, binding.outside),
        };
        Endpoint { address, port: binding.port }
    }

    /// The look-up key of a TCP or UDP packet; other protocols are rare.
    #[inline]
    fn sought(&self, packet: &Packet<'_>) -> Option<Sought> {
        let protocol = match packet.protocol() {
            ip_protocol::TCP => Protocol::Tcp,
            ip_protocol::UDP => Protocol::Udp,
            _ => return None,
        };
        if !packet.has(Flags::TRANSPORT) || packet.malformed().is_some() {
            return None;
        }
        let (config, version) = (&self.config, packet.version());
        let (src, dst) = packet.addresses();
        if config.is_inside(version, src) {
            let inside = Endpoint { address: src, port: packet.src_port() };
            let remote = Endpoint { address: dst, port: packet.dst_port() };
            let key = Key::new(version, protocol, inside, remote, config.mapping);
            return Some(self.bindings.sought(&key, || key.home(config)));
        }
        let to = (config.outside.find(version, dst)?, packet.dst_port());
        let remote = Endpoint { address: src, port: packet.src_port() };
        let outside = outside(config, version, protocol, to, remote);
        Some(self.bindings.sought_outside(&outside))
    }

    /// The binding of an outbound packet, found or made.
    fn outbound_binding(
        &mut self,
        version: u8,
        flow: &Flow<'_>,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Result<u32, Refusal> {
        if flow.protocol == Protocol::Icmp && !flow.opens {
            return Err(Refusal::NoBinding);
        }
        let key = Key::new(version, flow.protocol, inside, remote, self.config.mapping);
        if let Some(number) = self.bindings.find(&key) {
            return Ok(number);
        }
        if !flow.opens {
            return Err(Refusal::NoBinding);
        }
        self.bindings.create(key, flow.class(remote.port), &self.config)
    }

    /// The outside endpoint of the host that an error from inside is about. RFC 5508, REQ-5: a
    /// translated packet whose error it is must have come in by a binding.
    fn outbound_error(&self, packet: &PacketMut<'_>, dst: u128) -> Result<Endpoint, Refusal> {
        let (quote, version) = (quote(packet)?, packet.version());
        if quote.src.address != dst {
            return Err(Refusal::BadQuote);
        }
        let remote = remote(quote.protocol, quote.src.address, quote.src.port);
        if let Some(address) = self.own_address(version, quote.protocol, quote.dst, remote) {
            return Ok(Endpoint { address, ..quote.dst });
        }
        // A quoted echo message that came in by a binding is a reply.
        if quote.asks {
            return Err(Refusal::BadQuote);
        }
        let key = Key::new(version, quote.protocol, quote.dst, remote, self.config.mapping);
        let number = self
            .connection(version, quote.protocol, quote.dst, remote)
            .or_else(|| self.bindings.find(&key));
        Ok(self.outside_of(version, number.ok_or(Refusal::NoBinding)?))
    }

    fn inbound(
        &mut self,
        packet: &PacketMut<'_>,
        (src, dst): (u128, u128),
        address: Option<u64>,
    ) -> Done {
        let version = packet.version();
        match content(packet)? {
            Content::LaterFragment => {
                let to = self.followed(packet)?;
                Ok(Rewrite { action: Action::DestinationAddress, to })
            }
            Content::Flow(flow) if flow.protocol == Protocol::Icmp && flow.opens => {
                Err(Refusal::NoBinding)
            }
            Content::Flow(flow) => {
                let remote = remote(flow.protocol, src, flow.src_port);
                let address = address.ok_or(Refusal::NoBinding)?;
                let to = self.destination(version, &flow, address, remote)?;
                let action = match flow.protocol {
                    Protocol::Other => Action::DestinationAddress,
                    _ => Action::Destination,
                };
                self.remember(packet, to);
                Ok(Rewrite { action, to })
            }
            Content::Error => {
                let to = self.inbound_error(packet, dst, address)?;
                self.remember(packet, to);
                Ok(Rewrite { action: Action::ErrorIn, to })
            }
        }
    }

    /// The inside endpoint of a packet from `remote` to a port of an outside address, by its
    /// number.
    fn destination(
        &mut self,
        version: u8,
        flow: &Flow<'_>,
        address: u64,
        remote: Endpoint,
    ) -> Result<Endpoint, Refusal> {
        let to = (address, flow.dst_port);
        let outside = outside(&self.config, version, flow.protocol, to, remote);
        let number = self.permitted(&outside, remote)?;
        self.uses(number, flow, remote, Use::In)?;
        Ok(self.bindings.inside(number))
    }

    /// The inside endpoint that an error from outside is about. RFC 5508, REQ-4: "the NAT device
    /// MUST NOT refresh or delete the NAT Session".
    fn inbound_error(
        &mut self,
        packet: &PacketMut<'_>,
        dst: u128,
        address: Option<u64>,
    ) -> Result<Endpoint, Refusal> {
        let (quote, version) = (quote(packet)?, packet.version());
        // An echo that left is a request.
        let left = quote.asks || quote.protocol != Protocol::Icmp;
        if quote.src.address != dst || !left {
            return Err(Refusal::BadQuote);
        }
        let (protocol, port) = (quote.protocol, quote.src.port);
        let remote = remote(protocol, quote.dst.address, quote.dst.port);
        let number = ip_number(&quote).unwrap_or(packet.protocol());
        if let Some(target) = self.config.fixed.forward(version, number, quote.src) {
            let found = self.connection(version, protocol, target.inside, remote);
            return found.map(|_| target.inside).ok_or(Refusal::NoBinding);
        }
        let address = address.ok_or(Refusal::NoBinding)?;
        let outside = outside(&self.config, version, protocol, (address, port), remote);
        let number = self.permitted(&outside, remote)?;
        Ok(self.bindings.inside(number))
    }

    /// The binding of an outside endpoint, if `remote` may send to it.
    fn permitted(&mut self, outside: &Outside, remote: Endpoint) -> Result<u32, Refusal> {
        let found = self.bindings.find_outside(outside);
        let number = found.ok_or(Refusal::NoBinding)?;
        let now = self.bindings.now().as_nanos();
        let permits = self.bindings.remotes(number).permits(remote, self.config.filtering, now);
        if permits { Ok(number) } else { Err(Refusal::Filtered) }
    }
}

type Done = Result<Rewrite, Refusal>;

impl Before for NatShard {
    fn fetch_next(&self, _batch: &Batch, _picks: &[u16]) {
        self.asked.borrow().iter().for_each(|sought| self.bindings.fetch_next(sought));
    }

    fn before(&mut self, batch: &mut Batch, picks: &[u16], _emit: &mut Emit<'_>) {
        self.bindings.begin_batch();
        for &pick in picks {
            self.handle(&mut batch.packet_mut(usize::from(pick)));
        }
    }
}

impl StateHalf for NatShard {
    fn fetch(&self, batch: &Batch, picks: &[u16]) {
        let mut asked = self.asked.borrow_mut();
        asked.clear();
        let picks = if self.bindings.len() > NEAR { picks } else { &[] };
        let sought = picks.iter().filter_map(|&pick| self.sought(&batch.packet(pick.into())));
        for sought in sought.take(ASKED_MAX) {
            self.bindings.fetch(&sought);
            asked.push(sought);
        }
    }

    fn handle_timeout(&mut self, now: Instant, _emit: &mut Emit<'_>) {
        self.bindings.tick(now);
    }

    fn peaks(&self, visit: &mut dyn FnMut(&'static str, &PeakHistory, u64)) {
        let (history, newest) = self.bindings.peaks();
        visit("bindings-peak", history, newest);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("bindings", self.bindings.len() as u64);
        visit("created", self.bindings.created);
        visit("expired", self.bindings.expired);
        self.bindings.evicted().for_each(|(name, count)| visit(name, count));
        visit("outbound", self.counts.outbound);
        visit("inbound", self.counts.inbound);
        visit("icmp-errors", self.counts.errors);
        visit("untranslated", self.counts.untranslated);
        visit("hairpins", self.counts.hairpins);
        visit("out-of-window", self.counts.out_of_window);
    }
}

fn quote(packet: &PacketMut<'_>) -> Result<Quote, Refusal> {
    let quote = Quote::read(packet.payload(), packet.version());
    quote.ok_or(if packet.has(Flags::SNAPPED) { Refusal::Snapped } else { Refusal::BadQuote })
}
