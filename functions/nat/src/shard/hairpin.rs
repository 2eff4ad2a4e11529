//! Packets from inside to inside by an outside address (RFC 4787, REQ-9).
//!
//! Such a packet gets an outside source, and the inside host that its destination stands for. Its
//! state is in the shard of that destination.

use warpline_packet::{Flags, PacketMut};

use super::super::Refusal;
use super::super::content::{Content, Flow, content};
use super::super::key::Key;
use super::course::takes;
use super::ends::{ip_number, outside, remote};
use super::{NatShard, quote};
use warpline_rewrite::fixed::Target;
use warpline_rewrite::icmp::Quote;
use warpline_rewrite::translate::{Action, Rewrite};
use warpline_rewrite::{Endpoint, Protocol};

/// Who gets a packet to an outside end.
enum Receiver {
    Forwarded(Target),
    /// A host with this address inside.
    Mapped(u128),
    /// A host with a binding, by the number of its outside address.
    Binding(u64),
}

/// The work of both places.
type Both = [Rewrite; 2];

impl NatShard {
    /// A packet from inside to an outside address.
    #[inline(never)]
    pub(super) fn hairpin(
        &mut self,
        packet: &mut PacketMut<'_>,
        src: u128,
        dst: u128,
    ) -> Result<(), Refusal> {
        let [first, second] = match content(packet)? {
            Content::Flow(flow) if flow.protocol != Protocol::Other => {
                self.hairpin_flow(packet, &flow, src, dst)?
            }
            Content::Error => self.hairpin_error(packet, dst)?,
            Content::LaterFragment => self.hairpin_fragment(packet)?,
            Content::Flow(_) => return Err(Refusal::Hairpin),
        };
        if packet.has(Flags::FRAGMENT) && !packet.has(Flags::LATER_FRAGMENT) {
            let (now, both) = (self.bindings.now(), (first.to.address, second.to.address));
            self.fragments.remember(packet, both, now);
        }
        self.words.set_both(packet, &first, &second);
        Ok(())
    }

    /// A later fragment gets the addresses of the first one.
    fn hairpin_fragment(&self, packet: &PacketMut<'_>) -> Result<Both, Refusal> {
        let found = self.fragments.find(packet, self.bindings.now());
        let (inside, from) = found.ok_or(Refusal::Fragment)?;
        let to = |address| Endpoint { address, port: 0 };
        let first = Rewrite { action: Action::DestinationAddress, to: to(inside) };
        Ok([first, Rewrite { action: Action::SourceAddress, to: to(from) }])
    }

    fn hairpin_flow(
        &mut self,
        packet: &PacketMut<'_>,
        flow: &Flow<'_>,
        src: u128,
        dst: u128,
    ) -> Result<Both, Refusal> {
        let (version, protocol) = (packet.version(), flow.protocol);
        let own = Endpoint { address: src, port: flow.src_port };
        let to = Endpoint { address: dst, port: flow.dst_port };
        // A packet without a receiver makes no binding.
        let receiver = self.receiver(packet, flow, own, to)?;
        let reached = remote(protocol, dst, flow.dst_port);
        let mut from = match self.own_address(version, protocol, own, reached) {
            Some(address) => Endpoint { address, ..own },
            None => self.source(version, flow, own, reached)?,
        };
        let sender = remote(protocol, from.address, from.port);
        let mut inside = match receiver {
            Receiver::Forwarded(target) => {
                self.forward(version, flow, sender, target)?;
                target.inside
            }
            Receiver::Mapped(address) => Endpoint { address, ..to },
            Receiver::Binding(address) => self.destination(version, flow, address, sender)?,
        };
        if protocol == Protocol::Icmp {
            one_identifier(flow.opens, &mut inside, &mut from);
        }
        let first = Rewrite { action: Action::Destination, to: inside };
        Ok([first, Rewrite { action: Action::Source, to: from }])
    }

    /// The receiver of a packet from `own` to the outside end `to`, before any filter.
    fn receiver(
        &mut self,
        packet: &PacketMut<'_>,
        flow: &Flow<'_>,
        own: Endpoint,
        to: Endpoint,
    ) -> Result<Receiver, Refusal> {
        let (config, version, protocol) = (&self.config, packet.version(), flow.protocol);
        let forward = |number| config.fixed.forward(version, number, to);
        let forward = protocol.number().and_then(forward);
        if let Some(target) = forward.filter(|target| takes(target, packet)) {
            return Ok(Receiver::Forwarded(target));
        }
        if let Some(address) = config.fixed.inside_of(version, to.address) {
            let reached = remote(protocol, to.address, to.port);
            let answers = || self.connection(version, protocol, own, reached).is_some();
            let enters = config.fixed.enters(version, to.address, || packet.interface());
            return match enters || answers() {
                true => Ok(Receiver::Mapped(address)),
                false => Err(Refusal::NoBinding),
            };
        }
        let address = config.outside.find(version, to.address).ok_or(Refusal::NoBinding)?;
        // Of bindings that share a port, none has a sender without a binding as its remote.
        if protocol == Protocol::Icmp && flow.opens || config.shares(protocol) {
            return Err(Refusal::NoBinding);
        }
        let end = outside(config, version, protocol, (address, to.port), Endpoint::default());
        let found = self.bindings.find_outside(&end);
        found.map(|_| Receiver::Binding(address)).ok_or(Refusal::NoBinding)
    }

    /// An error about a packet that came from inside by an outside address, back to its sender. Its
    /// quote shows the packet as that host sent it.
    fn hairpin_error(&mut self, packet: &PacketMut<'_>, dst: u128) -> Result<Both, Refusal> {
        let (quote, version) = (quote(packet)?, packet.version());
        if quote.src.address != dst {
            return Err(Refusal::BadQuote);
        }
        // Only hosts with an address of their own answer echoes.
        let answers = quote.protocol == Protocol::Icmp && !quote.asks;
        if answers && self.config.fixed.inside_of(version, dst).is_none() {
            return Err(Refusal::BadQuote);
        }
        if quote.protocol == Protocol::Other {
            return Err(Refusal::NoBinding);
        }
        let mut to = self.outside_end(version, &quote)?;
        let mut inside = self.inside_end(version, &quote, to)?;
        if quote.protocol == Protocol::Icmp {
            one_identifier(!quote.asks, &mut inside, &mut to);
        }
        let first = Rewrite { action: Action::ErrorIn, to: inside };
        Ok([first, Rewrite { action: Action::ErrorOut, to }])
    }

    /// The outside endpoint by which the sender of a quoted packet reached its destination.
    fn outside_end(&self, version: u8, quote: &Quote) -> Result<Endpoint, Refusal> {
        let Quote { protocol, src, dst: own, .. } = *quote;
        let sender = remote(protocol, src.address, src.port);
        if let Some(address) = self.own_address(version, protocol, own, sender) {
            return Ok(Endpoint { address, ..own });
        }
        let key = Key::new(version, protocol, own, sender, self.config.mapping);
        let number = self.connection(version, protocol, own, sender);
        let number = number.or_else(|| self.bindings.find(&key));
        Ok(self.outside_of(version, number.ok_or(Refusal::NoBinding)?))
    }

    /// The inside endpoint of the sender of a quoted packet, which sent it to `to`.
    fn inside_end(
        &mut self,
        version: u8,
        quote: &Quote,
        to: Endpoint,
    ) -> Result<Endpoint, Refusal> {
        let (protocol, from) = (quote.protocol, quote.src);
        let receiver = remote(protocol, to.address, to.port);
        let forward = |number| self.config.fixed.forward(version, number, from);
        if let Some(target) = ip_number(quote).and_then(forward) {
            let found = self.connection(version, protocol, target.inside, receiver);
            return found.map(|_| target.inside).ok_or(Refusal::NoBinding);
        }
        if let Some(address) = self.config.fixed.inside_of(version, from.address) {
            return Ok(Endpoint { address, ..from });
        }
        let address = self.config.outside.find(version, from.address);
        let end = (address.ok_or(Refusal::NoBinding)?, from.port);
        let outside = outside(&self.config, version, protocol, end, receiver);
        let number = self.permitted(&outside, receiver)?;
        Ok(self.bindings.inside(number))
    }
}

/// An echo has one identifier, which both places write: that of the sender's translation in a
/// request, that of the receiver's in a reply.
fn one_identifier(is_request: bool, inside: &mut Endpoint, from: &mut Endpoint) {
    match is_request {
        true => inside.port = from.port,
        false => from.port = inside.port,
    }
}
