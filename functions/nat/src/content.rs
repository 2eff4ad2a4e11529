//! What a packet carries, as far as a translator asks.

use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol, tcp};
use warpline_packet::{Flags, PacketMut};

use super::Refusal;
use warpline_rewrite::Protocol;
use warpline_rewrite::icmp::{is_echo, is_echo_request};

/// What a packet carries that can be translated.
pub(super) enum Content {
    Flow(Flow),
    Error,
    LaterFragment,
}

/// A packet of a flow.
pub(super) struct Flow {
    pub(super) protocol: Protocol,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    /// 0 but for TCP.
    pub(super) tcp_flags: u16,
    /// Whether it makes a binding where there is none. Of echoes those that ask do, and only inside hosts ask.
    pub(super) opens: bool,
}

/// What it carries, or why that can't be translated.
#[inline]
pub(super) fn content(packet: &PacketMut<'_>) -> Result<Content, Refusal> {
    if packet.has(Flags::LATER_FRAGMENT) {
        return Ok(Content::LaterFragment);
    }
    let (version, protocol) = (packet.version(), packet.protocol());
    let known = match protocol {
        ip_protocol::TCP | ip_protocol::UDP => true,
        ip_protocol::ICMP => version == 4,
        ip_protocol::ICMPV6 => version == 6,
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
        ip_protocol::TCP => Ok(Content::Flow(flow(packet, Protocol::Tcp, packet.tcp_flags()))),
        ip_protocol::UDP => Ok(Content::Flow(flow(packet, Protocol::Udp, 0))),
        _ => icmp_content(packet),
    }
}

fn flow(packet: &PacketMut<'_>, protocol: Protocol, tcp_flags: u16) -> Flow {
    Flow {
        protocol,
        src_port: packet.src_port(),
        dst_port: packet.dst_port(),
        tcp_flags,
        opens: tcp_flags & tcp::flags::RST == 0,
    }
}

fn icmp_content(packet: &PacketMut<'_>) -> Result<Content, Refusal> {
    let (version, kind) = (packet.version(), packet.icmp_type());
    if is_echo(version, kind) {
        let ident = packet.icmp_ident();
        let opens = is_echo_request(version, kind);
        let (src_port, dst_port) = (ident, ident);
        let flow = Flow { protocol: Protocol::Icmp, src_port, dst_port, tcp_flags: 0, opens };
        return Ok(Content::Flow(flow));
    }
    // A redirect is from a router on the link to a host on it: there is nothing to translate.
    let error = match version {
        4 => icmpv4::message::is_error(kind) && kind != icmpv4::message::REDIRECT,
        _ => icmpv6::message::is_error(kind),
    };
    if error { Ok(Content::Error) } else { Err(Refusal::UnsupportedProtocol) }
}
