//! The ICMP errors that the naive router sends back (RFC 792, RFC 1812 4.3, RFC 4443).

use std::net::IpAddr;

use crate::sums::sum;
use crate::wire::{Frame, ICMP, ICMPV6, View, addresses, link};

/// The error from `src` about a dropped frame; `None` where the standards forbid one.
pub(crate) fn error(frame: &Frame, view: &View, src: IpAddr, message: (u8, u8)) -> Option<Frame> {
    error_with(frame, view, src, message, [0; 4])
}

/// The same, with these bytes after the checksum.
pub(crate) fn error_with(
    frame: &Frame,
    view: &View,
    src: IpAddr,
    (kind, code): (u8, u8),
    rest: [u8; 4],
) -> Option<Frame> {
    let packet = &frame.bytes[view.l3..view.end];
    let forbidden = view.wire_end > view.end || to_all(frame) || {
        let (from, to) = addresses(view.version, packet);
        !is_host(from) || is_group(to) || (view.version == 4 && view.later())
    };
    if forbidden || is_about_error(packet, view) {
        return None;
    }
    let (most, header) = if view.version == 4 { (576, 28) } else { (1280, 48) };
    let quote = &packet[..packet.len().min(most - header)];
    let mut message = [&[kind, code, 0, 0][..], &rest, quote].concat();
    let to = addresses(view.version, packet).0;
    let check = !if view.version == 4 { sum(&[&message]) } else { sum_v6(src, to, &message) };
    message[2..4].copy_from_slice(&check.to_be_bytes());
    let ip =
        if view.version == 4 { ipv4(src, to, message.len()) } else { ipv6(src, to, message.len()) };
    let bytes = [&link_back(frame, view)[..], &ip, &message].concat();
    Some(Frame { wire_len: bytes.len(), bytes, ..frame.clone() })
}

/// The link header of the answer: Ethernet addresses turned around, all else as it came.
pub(crate) fn link_back(frame: &Frame, view: &View) -> Vec<u8> {
    let mut header = frame.bytes[..view.l3].to_vec();
    if frame.link == link::ETHERNET {
        header[..12].rotate_left(6);
    }
    header
}

/// Whether the link-layer destination is broadcast or multicast (RFC 1812, 4.3.2.7; RFC 4443, 2.4
/// (e.4)).
pub(crate) fn to_all(frame: &Frame) -> bool {
    match frame.link {
        link::ETHERNET => frame.bytes[0] & 1 == 1,
        link::SLL => [[0, 1], [0, 2]].iter().any(|kind| frame.bytes.starts_with(kind)),
        link::SLL2 => [1, 2].contains(&frame.bytes[10]),
        _ => false,
    }
}

pub(crate) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !matches!(a.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(a) => !a.is_unspecified() && !a.is_loopback() && !a.is_multicast(),
    }
}

fn is_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_multicast() || a.is_broadcast(),
        IpAddr::V6(a) => a.is_multicast(),
    }
}

/// Whether a packet is an ICMP error or an ICMPv6 redirect, or may be one whose type was lost.
fn is_about_error(packet: &[u8], view: &View) -> bool {
    let kind = packet.get(view.l4 - view.l3);
    match (view.version, view.protocol) {
        (4, ICMP) => kind.is_none_or(|kind| [3, 4, 5, 11, 12].contains(kind)),
        (6, ICMPV6) if !view.later() => kind.is_none_or(|&kind| kind < 128 || kind == 137),
        _ => false,
    }
}

/// RFC 1812, 4.3.2.5: precedence 6. Never fragmented (RFC 6864: no identification then), with the
/// usual TTL.
fn ipv4(src: IpAddr, dst: IpAddr, body: usize) -> Vec<u8> {
    let [high, low] = (20 + body as u16).to_be_bytes();
    let mut header =
        [&[0x45, 0xc0, high, low, 0, 0, 0x40, 0, 64, ICMP, 0, 0][..], &octets(src), &octets(dst)]
            .concat();
    let check = !sum(&[&header]);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header
}

fn ipv6(src: IpAddr, dst: IpAddr, body: usize) -> Vec<u8> {
    let [high, low] = (body as u16).to_be_bytes();
    [&[0x60, 0, 0, 0, high, low, ICMPV6, 64][..], &octets(src), &octets(dst)].concat()
}

/// With the pseudo-header of RFC 8200, 8.1.
fn sum_v6(src: IpAddr, dst: IpAddr, message: &[u8]) -> u16 {
    let len = (message.len() as u32).to_be_bytes();
    sum(&[&octets(src), &octets(dst), &len, &[0, 0, 0, ICMPV6], message])
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}
