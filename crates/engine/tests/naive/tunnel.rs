//! Packets in packets (RFC 2003, RFC 2473), as the naive balancer sends them.

use std::net::IpAddr;

use crate::prefix::Prefix;
use crate::router_errors::octets;
use crate::sums::sum;
use crate::wire::{Frame, View, addresses, link};

/// Source and destination of the header that the engine put before a packet.
pub(crate) fn wrapped_in(left: &[u8], view: &View) -> Option<(IpAddr, IpAddr)> {
    let outer = left.get(view.l3..)?;
    match outer.first()? >> 4 {
        4 if outer.len() >= 20 => Some(addresses(4, outer)),
        6 if outer.len() >= 40 => Some(addresses(6, outer)),
        _ => None,
    }
}

/// Puts the packet in another to `dst`, from `own`. Without `own`, the source is the engine's
/// choice, as is the flow label of IPv6; returns the error in that choice, if any.
pub(crate) fn wrap(
    frame: &mut Frame,
    view: &View,
    left: Option<&[u8]>,
    own: Option<IpAddr>,
    dst: IpAddr,
) -> Option<String> {
    let chosen = left.and_then(|left| wrapped_in(left, view)).map(|(src, _)| src);
    let (src, complaint) = source(own, chosen, dst);
    let inner = frame.bytes[view.l3..].to_vec();
    let label = left.and_then(|left| left.get(view.l3 + 1..view.l3 + 4)).unwrap_or(&[0; 3]);
    let len = view.wire_end - view.l3;
    let header = match dst {
        IpAddr::V4(_) => outer_v4(&inner, len, [src, dst]),
        IpAddr::V6(_) => outer_v6(&inner, len, label, [src, dst]),
    };
    let mut bytes = frame.bytes[..view.l3].to_vec();
    let version = if dst.is_ipv6() { 6 } else { 4 };
    if inner[0] >> 4 != version {
        announce(&mut bytes, frame.link, version);
    }
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&inner);
    (frame.bytes, frame.wire_len) = (bytes, frame.wire_len + header.len());
    frame.wrapped = true;
    complaint
}

/// The source of the tunnel. One derived from the flow lies in 172.16.0.0/16 or 100::/64.
fn source(own: Option<IpAddr>, chosen: Option<IpAddr>, dst: IpAddr) -> (IpAddr, Option<String>) {
    let (net, len) = if dst.is_ipv4() { ("172.16.0.0", 16) } else { ("100::", 64) };
    let net: IpAddr = net.parse().expect("an address");
    match (own, chosen) {
        (Some(own), _) => (own, None),
        (None, Some(chosen)) if Prefix::of(net, len).holds(chosen) => (chosen, None),
        (None, Some(chosen)) => (net, Some(format!("a tunnel is from {chosen}"))),
        (None, None) => (net, None),
    }
}

fn outer_v4(inner: &[u8], len: usize, [src, dst]: [IpAddr; 2]) -> Vec<u8> {
    let total = ((len + 20) as u16).to_be_bytes();
    // Fragments of one packet need numbers of their own. An IPv6 packet in it was sealed on its way
    // to this place.
    let [ident, fragment] = [4, 6].map(|at| u16::from_be_bytes([inner[at], inner[at + 1]]));
    let ident = ident.wrapping_add(fragment & 0x1fff);
    let (class, ident, dont_fragment, protocol) = match inner[0] >> 4 {
        4 => (inner[1], ident, inner[6] & 0x40, 4),
        _ => (inner[0] << 4 | inner[1] >> 4, 0, 0, 41),
    };
    let [high, low] = ident.to_be_bytes();
    let first = [0x45, class, total[0], total[1], high, low, dont_fragment, 0];
    let mut header = [&first[..], &[64, protocol, 0, 0], &octets(src), &octets(dst)].concat();
    let check = !sum(&[&header]);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header
}

fn outer_v6(inner: &[u8], len: usize, label: &[u8], [src, dst]: [IpAddr; 2]) -> Vec<u8> {
    let is_v4 = inner[0] >> 4 == 4;
    let class = if is_v4 { inner[1] } else { inner[0] << 4 | inner[1] >> 4 };
    let first = [0x60 | class >> 4, class << 4 | label[0] & 15, label[1], label[2]];
    let [high, low] = (len as u16).to_be_bytes();
    let next = if is_v4 { 4 } else { 41 };
    [&first[..], &[high, low, next, 64], &octets(src), &octets(dst)].concat()
}

/// Sets the link header's protocol to an IP version. On a loopback, that of IPv6 is macOS's number.
fn announce(header: &mut [u8], kind: u16, version: u8) {
    let (family, ethertype) = if version == 4 { (2, [8, 0]) } else { (30, [0x86, 0xdd]) };
    let at = match kind {
        link::ETHERNET => header.len() - 2,
        link::SLL => 14,
        link::SLL2 => 0,
        link::NULL => {
            header.iter_mut().find(|byte| **byte != 0).into_iter().for_each(|byte| *byte = family);
            return;
        }
        _ => return,
    };
    header[at..at + 2].copy_from_slice(&ethertype);
}
