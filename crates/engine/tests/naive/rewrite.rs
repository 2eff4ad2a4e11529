//! Rewriting by the naive translator and balancer: addresses, ports, and the checksums over them
//! (RFC 1624, RFC 768).

use std::net::IpAddr;

use crate::quote::Quoted;
use crate::router_errors::octets;
use crate::sums::mend;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View};

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

/// An address, and a port or the identifier of an echo.
pub(crate) type To = (IpAddr, Option<u16>);

/// Where the headers of a packet are, whole or quoted.
struct HeaderOffsets {
    l3: usize,
    l4: usize,
    version: u8,
    protocol: u8,
    transport: bool,
}

/// Rewrites one end of a packet.
pub(crate) fn rewrite(frame: &mut Frame, view: &View, side: Side, to: To) {
    let &View { l3, l4, version, protocol, transport, .. } = view;
    write(&mut frame.bytes, &HeaderOffsets { l3, l4, version, protocol, transport }, side, to);
}

/// Rewrites one end of the packet that an ICMP error quotes, as far as it is quoted, and the
/// error's checksum.
pub(crate) fn rewrite_quoted(frame: &mut Frame, view: &View, quoted: &Quoted, side: Side, to: To) {
    let before = frame.bytes[view.payload..view.end].to_vec();
    let place = HeaderOffsets {
        l3: quoted.l3 - view.payload,
        l4: quoted.l4 - view.payload,
        version: view.version,
        protocol: quoted.protocol,
        transport: true,
    };
    let mut quote = before.clone();
    write(&mut quote, &place, side, to);
    frame.bytes[view.payload..view.end].copy_from_slice(&quote);
    mend(&mut frame.bytes, view.l4 + 2, &before, &quote);
}

fn write(bytes: &mut [u8], place: &HeaderOffsets, side: Side, (address, port): To) {
    let (len, at) = if place.version == 4 { (4, place.l3 + 12) } else { (16, place.l3 + 8) };
    let at = if side == Side::Source { at } else { at + len };
    let (mut old, mut new) = (bytes[at..at + len].to_vec(), octets(address));
    bytes[at..at + len].copy_from_slice(&new);
    if place.version == 4 {
        mend(bytes, place.l3 + 10, &old, &new);
    }
    if !place.transport || ![TCP, UDP, ICMP, ICMPV6].contains(&place.protocol) {
        return;
    }
    // The checksum of ICMP covers no addresses.
    if place.protocol == ICMP {
        (old, new) = (Vec::new(), Vec::new());
    }
    if let Some(port) = port {
        let at = place.l4 + port_at(place.protocol, side);
        old.extend(&bytes[at..at + 2]);
        new.extend(port.to_be_bytes());
        bytes[at..at + 2].copy_from_slice(&port.to_be_bytes());
    }
    let at = place.l4 + checksum_at(place.protocol);
    if bytes.len() >= at + 2 && !(place.protocol == UDP && bytes[at..at + 2] == [0, 0]) {
        mend(bytes, at, &old, &new);
        // No checksum is sent as zero with UDP, and that of nothing but zeros isn't zero.
        let zeros = place.protocol == ICMP && bytes[place.l4..].iter().all(|byte| *byte == 0);
        if zeros || place.protocol == UDP && bytes[at..at + 2] == [0, 0] {
            bytes[at..at + 2].fill(0xff);
        }
    }
}

fn port_at(protocol: u8, side: Side) -> usize {
    match (protocol, side) {
        (ICMP | ICMPV6, _) => 4,
        (_, Side::Source) => 0,
        (_, Side::Destination) => 2,
    }
}

fn checksum_at(protocol: u8) -> usize {
    match protocol {
        TCP => 16,
        UDP => 6,
        _ => 2,
    }
}
