//! A shard's state: `before` finds or makes the binding of each packet.

use std::cell::RefCell;
use std::sync::Arc;

use warpline_packet::wire::ip_protocol;
use warpline_packet::{Batch, Flags, Instant, Packet, PacketMut, Reason, Shard};

use super::Refusal;
use super::binding::{Class, Outside};
use super::bindings::{Bindings, Sought};
use super::config::{Config, Dependence};
use super::content::{Content, Flow, content};
use super::key::Key;
use super::remotes::{SegmentTimes, Way};
use warpline_nf::{Before, Emit, StateHalf};
use warpline_rewrite::Endpoint;
use warpline_rewrite::PlaceWords;
use warpline_rewrite::Protocol;
use warpline_rewrite::fixed::Target;
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
    /// The addresses that first fragments got.
    fragments: Fragments<u128>,
    counts: Counts,
    /// What this batch's packets will be looked for by, for both times that memory is asked for.
    asked: RefCell<Vec<Sought>>,
}

#[derive(Default)]
struct Counts {
    outbound: u64,
    inbound: u64,
    errors: u64,
    untranslated: u64,
    hairpins: u64,
}

/// Where a packet goes, seen from the translator.
enum Course {
    Out,
    /// To an outside address: its number in the pool, where it is of that.
    In(Option<u64>),
    /// To a forwarded port.
    Forwarded(Target),
    /// From a mapped inside host: its outside address.
    MappedOut(u128),
    /// To a mapped outside address: its inside host.
    MappedIn(u128),
    /// From inside to an outside address.
    Hairpin,
    Past,
    Refused(Refusal),
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

    fn handle(&mut self, packet: &mut PacketMut<'_>) {
        self.bindings.advance(packet.timestamp());
        if packet.reject_malformed() {
            return;
        }
        let (src, dst) = packet.addresses();
        let done = match self.course(packet, src, dst) {
            Course::Past => {
                self.counts.untranslated += 1;
                return;
            }
            Course::Hairpin => {
                match self.hairpin(packet, src, dst) {
                    Ok(()) => self.counts.hairpins += 1,
                    Err(refusal) => packet.drop(Reason(refusal as u8)),
                }
                return;
            }
            Course::Refused(refusal) => Err(refusal),
            Course::Out => self.outbound(packet, src, dst),
            Course::In(outside) => self.inbound(packet, (src, dst), outside),
            Course::Forwarded(target) => self.forwarded(packet, src, target),
            Course::MappedOut(outside) => mapped(packet, outside, Way::Out),
            Course::MappedIn(inside) => mapped(packet, inside, Way::In),
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
            Err(refusal) => packet.drop(Reason(refusal as u8)),
        }
    }

    fn course(&self, packet: &PacketMut<'_>, src: u128, dst: u128) -> Course {
        let (config, version) = (&self.config, packet.version());
        if version == 0 {
            return if packet.has(Flags::IP_CUT) {
                Course::Refused(Refusal::Snapped)
            } else {
                Course::Past
            };
        }
        let outside = config.outside.find(version, dst);
        if !config.is_inside(version, src) {
            return match self.course_in(packet, dst, outside) {
                Course::Past if self.is_about_binding(packet, dst) => Course::Out,
                course => course,
            };
        }
        let fixed = &config.fixed;
        let is_outside =
            || fixed.has_forwards(version, dst) || fixed.inside_of(version, dst).is_some();
        if config.is_inside(version, dst) || stays_on_link(version, dst) {
            Course::Past
        } else if outside.is_some() || is_outside() {
            match self.words.has_two() {
                true => Course::Hairpin,
                false => Course::Refused(Refusal::Hairpin),
            }
        } else if is_multicast(version, dst) {
            Course::Refused(Refusal::Multicast)
        } else {
            let own = || fixed.outside_of(version, src).map(Course::MappedOut);
            match config.translates(version, src, dst, packet.protocol()) {
                Some(true) => own().unwrap_or(Course::Out),
                Some(false) => Course::Past,
                None => own().unwrap_or(Course::Past),
            }
        }
    }

    /// The same of a packet from outside; `outside` is the number of its destination in the pool.
    fn course_in(&self, packet: &PacketMut<'_>, dst: u128, outside: Option<u64>) -> Course {
        let (fixed, version) = (&self.config.fixed, packet.version());
        if fixed.is_empty() {
            return outside.map_or(Course::Past, |number| Course::In(Some(number)));
        }
        if packet.has(Flags::TRANSPORT) {
            let to = Endpoint { address: dst, port: packet.dst_port() };
            if let Some(target) = fixed.forward(version, packet.protocol(), to) {
                return Course::Forwarded(target);
            }
        }
        match fixed.inside_of(version, dst) {
            Some(inside) => Course::MappedIn(inside),
            None if outside.is_some() || fixed.has_forwards(version, dst) => Course::In(outside),
            None => Course::Past,
        }
    }

    /// Whether an ICMP error concerns an inside host that is translated, though its sender is a
    /// router without an inside address (RFC 5508, REQ-6).
    fn is_about_binding(&self, packet: &PacketMut<'_>, dst: u128) -> bool {
        let (config, version) = (&self.config, packet.version());
        let is_translated = |quote: Quote| {
            let (host, protocol) = (quote.dst.address, quote.protocol.number());
            let protocol = protocol.unwrap_or(packet.protocol());
            let by_rule = config.translates(version, host, dst, protocol);
            config.is_inside(version, host)
                && by_rule.unwrap_or_else(|| config.fixed.outside_of(version, host).is_some())
        };
        matches!(packet.protocol(), ip_protocol::ICMP | ip_protocol::ICMPV6)
            && matches!(content(packet), Ok(Content::Error))
            && Quote::read(packet.payload(), version).is_some_and(is_translated)
            && self.outbound_error(packet, dst).is_ok()
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
                (self.source(version, &flow, inside, remote)?, Action::Source)
            }
            Content::Error => (self.outbound_error(packet, dst)?, Action::ErrorOut),
        };
        self.remember(packet, to);
        Ok(Rewrite { action, to })
    }

    /// Remembers the new endpoint of a first fragment for those that follow it.
    #[inline]
    fn remember(&mut self, packet: &PacketMut<'_>, to: Endpoint) {
        if packet.has(Flags::FRAGMENT) {
            let now = self.bindings.now();
            self.fragments.remember(packet, packet.addresses(), to.address, now);
        }
    }

    /// The address that the first fragment got for which this later one has to follow it.
    fn followed(&self, packet: &PacketMut<'_>) -> Result<Endpoint, Refusal> {
        let found = self.fragments.find(packet, packet.addresses(), self.bindings.now());
        Ok(Endpoint { address: found.ok_or(Refusal::Fragment)?, port: 0 })
    }

    /// The outside endpoint of a packet from inside, by its binding, which is found or made.
    fn source(
        &mut self,
        version: u8,
        flow: &Flow,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Result<Endpoint, Refusal> {
        let number = match self.connection(version, flow.protocol, inside, remote) {
            Some(number) => {
                self.bindings.answer(number);
                number
            }
            None => self.outbound_binding(version, flow, inside, remote)?,
        };
        self.sent(number, flow, remote);
        Ok(self.outside_of(version, number))
    }

    /// The binding of a connection to a forwarded port, by its inside end.
    fn connection(
        &self,
        version: u8,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<u32> {
        if !self.config.fixed.is_host(version, inside.address) {
            return None;
        }
        let found = self.bindings.find(&Key::of(version, protocol, inside, remote));
        found.filter(|&number| self.bindings.get(number).is_forwarded())
    }

    /// The outside endpoint of a binding.
    fn outside_of(&self, version: u8, number: u32) -> Endpoint {
        let (config, binding) = (&self.config, self.bindings.get(number));
        let address = match binding.is_forwarded() {
            true => config.fixed.address(binding.outside),
            false => config.outside.address(version, binding.outside),
        };
        Endpoint { address, port: binding.port }
    }

    /// A packet to a forwarded port.
    fn forwarded(&mut self, packet: &PacketMut<'_>, src: u128, target: Target) -> Done {
        let Content::Flow(flow) = content(packet)? else { return Err(Refusal::NoBinding) };
        let remote = Endpoint { address: src, port: flow.src_port };
        self.forward(packet.version(), &flow, remote, target)?;
        self.remember(packet, target.inside);
        Ok(Rewrite { action: Action::Destination, to: target.inside })
    }

    /// Finds or makes the binding of a connection from `remote` to a forwarded port.
    fn forward(
        &mut self,
        version: u8,
        flow: &Flow,
        remote: Endpoint,
        target: Target,
    ) -> Result<(), Refusal> {
        let key = Key::of(version, flow.protocol, target.inside, remote);
        let number = match self.bindings.find(&key) {
            Some(number) => number,
            None if !flow.opens => return Err(Refusal::NoBinding),
            None => {
                let (address, port) = (target.address, flow.dst_port);
                let outside = Outside { version, protocol: flow.protocol, address, port };
                let class = Class::first(flow.protocol, remote.port);
                let number = self.bindings.create_forwarded(key, class, &outside)?;
                let (now, expiry) = (self.bindings.now().as_nanos(), self.bindings.expiry(class));
                self.bindings.remotes(number).remember(remote, now, expiry);
                number
            }
        };
        match flow.protocol {
            Protocol::Tcp => self.follow(number, remote, flow.tcp_flags, Way::In),
            protocol => self.keep(number, protocol, remote),
        }
        Ok(())
    }

    /// A packet from inside to an outside address (RFC 4787, REQ-9): it gets an outside source, and
    /// the inside host that the address and port stand for. Its state is in the shard of that port.
    fn hairpin(&mut self, packet: &mut PacketMut<'_>, src: u128, dst: u128) -> Result<(), Refusal> {
        let Content::Flow(flow) = content(packet)? else { return Err(Refusal::Hairpin) };
        let (config, version) = (Arc::clone(&self.config), packet.version());
        let number = flow.protocol.number().ok_or(Refusal::Hairpin)?;
        let own = Endpoint { address: src, port: flow.src_port };
        let to = Endpoint { address: dst, port: flow.dst_port };
        let from = match config.fixed.outside_of(version, src) {
            Some(address) => Endpoint { address, ..own },
            None => self.source(version, &flow, own, to)?,
        };
        let inside = if let Some(target) = config.fixed.forward(version, number, to) {
            self.forward(version, &flow, from, target)?;
            target.inside
        } else if let Some(address) = config.fixed.inside_of(version, dst) {
            Endpoint { address, ..to }
        } else {
            let address = config.outside.find(version, dst).ok_or(Refusal::NoBinding)?;
            self.destination(version, &flow, address, from)?
        };
        let rewrite = Rewrite { action: Action::Destination, to: inside };
        self.words.set_hairpin(packet, &rewrite, from);
        Ok(())
    }

    /// What a packet of TCP or UDP will be looked for by; others are rare.
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
        let outside = config.outside.find(version, dst)?;
        let outside = Outside { version, protocol, address: outside, port: packet.dst_port() };
        Some(self.bindings.sought_outside(&outside))
    }

    /// The binding of an outbound packet, found or made.
    fn outbound_binding(
        &mut self,
        version: u8,
        flow: &Flow,
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
        self.bindings.create(key, Class::first(flow.protocol, remote.port), &self.config)
    }

    /// Keeps a binding that has sent to `remote`. RFC 4787, REQ-6: "The NAT mapping Refresh
    /// Direction MUST have a "NAT Outbound refresh behavior" of "True"".
    fn sent(&mut self, number: u32, flow: &Flow, remote: Endpoint) {
        if flow.protocol == Protocol::Tcp {
            self.follow(number, remote, flow.tcp_flags, Way::Out);
            return;
        }
        self.keep(number, flow.protocol, remote);
    }

    fn keep(&mut self, number: u32, protocol: Protocol, remote: Endpoint) {
        let class = match protocol {
            Protocol::Udp => self.bindings.get(number).udp_class(remote.port),
            _ => Class::Icmp,
        };
        let port = match self.config.filtering {
            Dependence::AddressAndPortDependent => remote.port,
            _ => 0,
        };
        if self.config.filtering != Dependence::EndpointIndependent {
            let (now, expiry) = (self.bindings.now().as_nanos(), self.bindings.expiry(class));
            let remote = Endpoint { port, ..remote };
            self.bindings.remotes(number).remember(remote, now, expiry);
        }
        self.bindings.refresh(number, class);
    }

    fn follow(&mut self, number: u32, remote: Endpoint, flags: u16, way: Way) {
        let times = SegmentTimes {
            now: self.bindings.now().as_nanos(),
            established: self.bindings.expiry(Class::Established),
            transitory: self.bindings.expiry(Class::Transitory),
        };
        let established = self.bindings.remotes(number).follow(remote, flags, way, times);
        let class = match established {
            Some(true) => Class::Established,
            Some(false) => Class::Transitory,
            None => return,
        };
        self.bindings.refresh(number, class);
    }

    /// The outside endpoint of the host that an error from inside is about. RFC 5508, REQ-5: a
    /// translated packet whose error it is must have come in by a binding.
    fn outbound_error(&self, packet: &PacketMut<'_>, dst: u128) -> Result<Endpoint, Refusal> {
        let (quote, version) = (quote(packet)?, packet.version());
        // What came in of an echo is a reply.
        if quote.src.address != dst || quote.asks {
            return Err(Refusal::BadQuote);
        }
        if let Some(address) = self.config.fixed.outside_of(version, quote.dst.address) {
            return Ok(Endpoint { address, ..quote.dst });
        }
        let remote = remote(quote.protocol, quote.src.address, quote.src.port);
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
                self.remember(packet, to);
                Ok(Rewrite { action: Action::Destination, to })
            }
            Content::Error => {
                let to = self.inbound_error(packet, dst, address)?;
                self.remember(packet, to);
                Ok(Rewrite { action: Action::ErrorIn, to })
            }
        }
    }

    /// The inside endpoint of a packet from `remote` to a port of an outside address, by its number.
    fn destination(
        &mut self,
        version: u8,
        flow: &Flow,
        address: u64,
        remote: Endpoint,
    ) -> Result<Endpoint, Refusal> {
        let protocol = flow.protocol;
        let outside = Outside { version, protocol, address, port: flow.dst_port };
        let number = self.permitted(&outside, remote)?;
        self.bindings.answer(number);
        if protocol == Protocol::Tcp {
            self.follow(number, remote, flow.tcp_flags, Way::In);
        } else if self.config.inbound_refresh {
            self.keep(number, protocol, remote);
        }
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
        // What left of an echo is a request.
        let left = quote.asks || quote.protocol != Protocol::Icmp;
        if quote.src.address != dst || !left {
            return Err(Refusal::BadQuote);
        }
        let (protocol, port) = (quote.protocol, quote.src.port);
        let remote = remote(protocol, quote.dst.address, quote.dst.port);
        let forward = |number| self.config.fixed.forward(version, number, quote.src);
        if let Some(target) = protocol.number().and_then(forward) {
            let found = self.connection(version, protocol, target.inside, remote);
            return found.map(|_| target.inside).ok_or(Refusal::NoBinding);
        }
        let address = address.ok_or(Refusal::NoBinding)?;
        let number = self.permitted(&Outside { version, protocol, address, port }, remote)?;
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

/// A packet of a mapped host, to its other address: ports stay.
fn mapped(packet: &PacketMut<'_>, address: u128, way: Way) -> Done {
    let (whole, alone, error) = match way {
        Way::Out => (Action::Source, Action::SourceAddress, Action::ErrorOut),
        Way::In => (Action::Destination, Action::DestinationAddress, Action::ErrorIn),
    };
    let (action, port) = match content(packet) {
        Ok(Content::Flow(flow)) if way == Way::Out => (whole, flow.src_port),
        Ok(Content::Flow(flow)) => (whole, flow.dst_port),
        Ok(Content::LaterFragment) => (alone, 0),
        Ok(Content::Error) => {
            let (src, dst) = packet.addresses();
            let quote = quote(packet)?;
            let (own, port) = match way {
                Way::Out => (quote.dst.address == src, quote.dst.port),
                Way::In => (quote.src.address == dst, quote.src.port),
            };
            if !own {
                return Err(Refusal::BadQuote);
            }
            (error, port)
        }
        // The checksums of other protocols cover no addresses, but for ICMPv6.
        Err(Refusal::UnsupportedProtocol) if packet.protocol() != ip_protocol::ICMPV6 => (alone, 0),
        Err(refusal) => return Err(refusal),
    };
    Ok(Rewrite { action, to: Endpoint { address, port } })
}

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
        self.bindings.advance(now);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("bindings", self.bindings.len() as u64);
        visit("bindings_peak", self.bindings.peak);
        visit("created", self.bindings.created);
        visit("expired", self.bindings.expired);
        self.bindings.evicted().for_each(|(name, count)| visit(name, count));
        visit("outbound", self.counts.outbound);
        visit("inbound", self.counts.inbound);
        visit("icmp_errors", self.counts.errors);
        visit("untranslated", self.counts.untranslated);
        visit("hairpins", self.counts.hairpins);
    }
}

/// A remote endpoint; that of an echo has no port.
fn remote(protocol: Protocol, address: u128, port: u16) -> Endpoint {
    Endpoint { address, port: if protocol == Protocol::Icmp { 0 } else { port } }
}

fn quote(packet: &PacketMut<'_>) -> Result<Quote, Refusal> {
    let quote = Quote::read(packet.payload(), packet.version());
    quote.ok_or(if packet.has(Flags::SNAPPED) { Refusal::Snapped } else { Refusal::BadQuote })
}

/// Link-local addresses, the limited broadcast, and groups of link scope.
fn stays_on_link(version: u8, dst: u128) -> bool {
    if version == 4 {
        let dst = dst as u32;
        return dst >> 8 == 0x00e0_0000 || dst >> 16 == 0xa9fe || dst == u32::MAX;
    }
    let scope = dst >> 112 & 0xf;
    dst >> 118 == 0xfe80 >> 6 || (is_multicast(6, dst) && scope <= 2)
}

fn is_multicast(version: u8, dst: u128) -> bool {
    if version == 4 { dst as u32 >> 28 == 0xe } else { dst >> 120 == 0xff }
}
