//! The ends of packets, as bindings are looked up by them.

use super::super::binding::Outside;
use super::super::config::Config;
use warpline_rewrite::icmp::Quote;
use warpline_rewrite::{Endpoint, Protocol};

/// A remote endpoint; only those of TCP and UDP have ports.
pub(super) fn remote(protocol: Protocol, address: u128, port: u16) -> Endpoint {
    let has_port = matches!(protocol, Protocol::Tcp | Protocol::Udp);
    Endpoint { address, port: if has_port { port } else { 0 } }
}

/// An outside endpoint, as packets of `remote` are looked up by it.
pub(super) fn outside(
    config: &Config,
    version: u8,
    protocol: Protocol,
    (address, port): (u64, u16),
    remote: Endpoint,
) -> Outside {
    let remote = if config.shares(protocol) { remote } else { Endpoint::default() };
    Outside { version, protocol, address, port, remote }
}

/// The IP protocol of a quoted packet, if that is no echo.
pub(super) fn ip_number(quote: &Quote) -> Option<u8> {
    match quote.protocol {
        Protocol::Other => u8::try_from(quote.src.port).ok(),
        protocol => protocol.number(),
    }
}
