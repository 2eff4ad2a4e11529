//! Packets of translations that the configuration fixes: forwarded ports and mapped hosts.

use warpline_packet::PacketMut;
use warpline_packet::wire::ip_protocol;

use super::super::Refusal;
use super::super::content::{Content, Flow, content};
use super::super::key::Key;
use super::super::remotes::PacketDirection;
use super::ends::{ip_number, outside, remote};
use super::uses::Use;
use super::{Done, NatShard, quote};
use warpline_rewrite::fixed::Target;
use warpline_rewrite::icmp::Quote;
use warpline_rewrite::translate::{Action, Rewrite};
use warpline_rewrite::{Endpoint, Protocol};
use warpline_tables::tcp::PickUp;

impl NatShard {
    /// The binding of a connection to a forwarded port, by its inside end.
    #[inline(always)]
    pub(super) fn connection(
        &self,
        version: u8,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<u32> {
        match self.config.fixed.is_host(version, inside.address) {
            true => self.connection_of_host(version, protocol, inside, remote),
            false => None,
        }
    }

    #[inline(never)]
    fn connection_of_host(
        &self,
        version: u8,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<u32> {
        self.bindings.find(&Key::of(version, protocol, inside, remote).forwarded())
    }

    /// A packet to a forwarded port.
    #[inline(never)]
    pub(super) fn forwarded(&mut self, packet: &PacketMut<'_>, src: u128, target: Target) -> Done {
        let Content::Flow(flow) = content(packet)? else { return Err(Refusal::NoBinding) };
        let remote = remote(flow.protocol, src, flow.src_port);
        self.forward(packet.version(), &flow, remote, target)?;
        self.remember(packet, target.inside);
        let action = match flow.protocol {
            Protocol::Other => Action::DestinationAddress,
            _ => Action::Destination,
        };
        Ok(Rewrite { action, to: target.inside })
    }

    /// Finds or makes the binding of a connection from `remote` to a forwarded port.
    pub(super) fn forward(
        &mut self,
        version: u8,
        flow: &Flow<'_>,
        remote: Endpoint,
        target: Target,
    ) -> Result<(), Refusal> {
        let key = Key::of(version, flow.protocol, target.inside, remote).forwarded();
        let number = match self.bindings.find(&key) {
            Some(number) => number,
            None if !opens(flow) => return Err(Refusal::NoBinding),
            None => {
                let ends = (target.address, flow.dst_port);
                let outside = outside(&self.config, version, flow.protocol, ends, remote);
                let class = flow.class(remote.port);
                self.bindings.create_forwarded(key, class, &outside)?
            }
        };
        self.uses_forwarded(number, flow, remote, Use::Forward)
    }

    /// The outside address that an inside end has of its own, unless a forwarded port leads there
    /// for this remote.
    pub(super) fn own_address(
        &self,
        version: u8,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<u128> {
        let own = self.config.fixed.outside_of(version, inside.address)?;
        self.connection(version, protocol, inside, remote).is_none().then_some(own)
    }

    /// A packet of a mapped host, to its other address: ports stay.
    #[inline(never)]
    pub(super) fn mapped(
        &mut self,
        packet: &PacketMut<'_>,
        address: u128,
        way: PacketDirection,
    ) -> Done {
        self.forget_first(packet);
        let (whole, alone) = match way {
            PacketDirection::Out => (Action::Source, Action::SourceAddress),
            PacketDirection::In => (Action::Destination, Action::DestinationAddress),
        };
        let (action, port) = match content(packet) {
            Ok(Content::Flow(flow)) if flow.protocol == Protocol::Other => (alone, 0),
            Ok(Content::Flow(flow)) if way == PacketDirection::Out => (whole, flow.src_port),
            Ok(Content::Flow(flow)) => (whole, flow.dst_port),
            Ok(Content::LaterFragment) => (alone, 0),
            // An error from inside may be about another host.
            Ok(Content::Error) if way == PacketDirection::Out => return self.error_out(packet),
            Ok(Content::Error) => (Action::ErrorIn, quoted_port(packet)?),
            // Other messages of ICMP have no checksum over addresses, and no state.
            Err(Refusal::UnsupportedProtocol)
                if (packet.version(), packet.protocol()) == (4, ip_protocol::ICMP) =>
            {
                (alone, 0)
            }
            Err(refusal) => return Err(refusal),
        };
        Ok(Rewrite { action, to: Endpoint { address, port } })
    }

    /// Whether a packet to a mapped address belongs to a connection to a forwarded port of it,
    /// though it has no such port itself.
    #[inline(never)]
    pub(super) fn follows_forward(&self, packet: &PacketMut<'_>) -> bool {
        let version = packet.version();
        let is_forwarded = |quote: Quote| {
            let number = ip_number(&quote)?;
            let target = self.config.fixed.forward(version, number, quote.src)?;
            let remote = remote(quote.protocol, quote.dst.address, quote.dst.port);
            self.connection(version, quote.protocol, target.inside, remote)
        };
        match content(packet) {
            Ok(Content::LaterFragment) => self.followed(packet).is_ok(),
            Ok(Content::Error) => quote(packet).is_ok_and(|quote| is_forwarded(quote).is_some()),
            _ => false,
        }
    }
}

/// Whether a packet from outside opens a connection to a forwarded port.
fn opens(flow: &Flow<'_>) -> bool {
    let segment = flow.segment.as_ref();
    segment.map_or(flow.opens, |segment| segment.may_open(PickUp::FromAck))
}

/// The port of the receiver of an error from outside, as the quoted packet has it.
fn quoted_port(packet: &PacketMut<'_>) -> Result<u16, Refusal> {
    let (_, dst) = packet.addresses();
    let quote = quote(packet)?;
    if quote.src.address == dst { Ok(quote.src.port) } else { Err(Refusal::BadQuote) }
}
