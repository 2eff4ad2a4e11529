//! The content of a packet, as far as a translator needs it.

use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol};
use warpline_packet::{Flags, PacketMut};

use super::Refusal;
use super::binding::Class;
use warpline_rewrite::icmp::{is_echo, is_echo_request};
use warpline_rewrite::{Protocol, is_portless};
use warpline_tables::tcp::{PickUp, Segment};

/// The content of a packet that can be translated.
pub(super) enum Content<'a> {
    Flow(Flow<'a>),
    Error,
    LaterFragment,
}

/// A packet of a flow.
pub(super) struct Flow<'a> {
    pub(super) protocol: Protocol,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    /// Of TCP.
    pub(super) segment: Option<Segment<'a>>,
    /// Whether it makes a binding where there is none. Of echoes those that ask do, and only inside
    /// hosts ask.
    pub(super) opens: bool,
}

impl Flow<'_> {
    /// That of a binding that this packet makes, which goes to `remote_port`.
    pub(super) fn class(&self, remote_port: u16) -> Class {
        match self.protocol {
            Protocol::Other if self.dst_port == u16::from(ip_protocol::SCTP) => Class::Sctp,
            protocol => Class::first(protocol, remote_port),
        }
    }
}

/// The content of a packet, or why it can't be translated.
#[inline(always)]
pub(super) fn content<'a>(packet: &'a PacketMut<'_>) -> Result<Content<'a>, Refusal> {
    if packet.has(Flags::LATER_FRAGMENT) {
        return Ok(Content::LaterFragment);
    }
    let (version, protocol) = (packet.version(), packet.protocol());
    let known = match protocol {
        ip_protocol::TCP | ip_protocol::UDP => true,
        ip_protocol::ICMP => version == 4,
        ip_protocol::ICMPV6 => version == 6,
        other if is_portless(version, other) => return Ok(Content::Flow(flow_of_other(other))),
        // An extension header is the last thing seen only where the capture cut the others.
        other => ip_protocol::is_extension(other) && packet.has(Flags::SNAPPED),
    };
    if !known {
        return Err(Refusal::UnsupportedProtocol);
    }
    if !packet.has(Flags::TRANSPORT) {
        return Err(Refusal::Snapped);
    }
    match protocol {
        ip_protocol::UDP => Ok(Content::Flow(flow(packet, Protocol::Udp, None))),
        ip_protocol::TCP => {
            let segment = Segment::of(packet).ok_or(Refusal::Invalid)?;
            Ok(Content::Flow(flow(packet, Protocol::Tcp, Some(segment))))
        }
        _ => icmp_content(packet),
    }
}

/// The number of the protocol stands for both ports.
#[cold]
fn flow_of_other(number: u8) -> Flow<'static> {
    let (src_port, dst_port) = (number.into(), number.into());
    Flow { protocol: Protocol::Other, src_port, dst_port, segment: None, opens: true }
}

#[inline(always)]
fn flow<'a>(packet: &PacketMut<'_>, protocol: Protocol, segment: Option<Segment<'a>>) -> Flow<'a> {
    Flow {
        protocol,
        src_port: packet.src_port(),
        dst_port: packet.dst_port(),
        opens: segment.as_ref().is_none_or(|segment| segment.may_open(PickUp::OneSided)),
        segment,
    }
}

fn icmp_content(packet: &PacketMut<'_>) -> Result<Content<'static>, Refusal> {
    let (version, kind) = (packet.version(), packet.icmp_type());
    if is_echo(version, kind) {
        let ident = packet.icmp_ident();
        let opens = is_echo_request(version, kind);
        let (src_port, dst_port) = (ident, ident);
        let flow = Flow { protocol: Protocol::Icmp, src_port, dst_port, segment: None, opens };
        return Ok(Content::Flow(flow));
    }
    // A redirect is from a router on the link to a host on it: there is nothing to translate.
    let error = match version {
        4 => icmpv4::message::is_error(kind) && kind != icmpv4::message::REDIRECT,
        _ => icmpv6::message::is_error(kind),
    };
    if error { Ok(Content::Error) } else { Err(Refusal::UnsupportedProtocol) }
}
