//! Puts ESP around a packet as the naive gateway does (RFC 4303, 3.1 and 3.3; RFC 4301, 5.1.2; RFC
//! 3948).

use std::net::IpAddr;

use super::esp;
use super::sa::{DontFragment, Sa};
use crate::router_errors::octets;
use crate::sums::{mend, sum};
use crate::wire::{Frame, UDP, View, link};

const ESP: u8 = 50;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AH: u8 = 51;

/// Where a header names what follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHeader {
    pub(crate) next_at: usize,
    pub(crate) body: usize,
    pub(crate) protocol: u8,
}

/// The place and protocol that each header of a well-formed packet names, from the IP header on.
pub(crate) fn headers(frame: &Frame, view: &View) -> Vec<NextHeader> {
    let (bytes, l3) = (&frame.bytes, view.l3);
    if view.version == 4 {
        let next_at = l3 + 9;
        return vec![NextHeader { next_at, body: view.l4, protocol: bytes[next_at] }];
    }
    let mut all = vec![NextHeader { next_at: l3 + 6, body: l3 + 40, protocol: bytes[l3 + 6] }];
    while let Some(&NextHeader { body, protocol, .. }) = all.last()
        && [HOP_BY_HOP, ROUTING, FRAGMENT, AH, 60].contains(&protocol)
        && body + 8 <= view.end
    {
        let len = match protocol {
            FRAGMENT => 8,
            AH => (usize::from(bytes[body + 1]) + 2) * 4,
            _ => (usize::from(bytes[body + 1]) + 1) * 8,
        };
        all.push(NextHeader { next_at: body, body: body + len, protocol: bytes[body] });
    }
    all
}

/// The place of ESP in transport mode: after hop-by-hop and routing headers; `None` if there is AH
/// or a fragment header. Options for the destination stay before it only if a routing header
/// follows.
fn transport_place(frame: &Frame, view: &View) -> Option<NextHeader> {
    let all = headers(frame, view);
    if view.version == 6 && all.iter().any(|place| [AH, FRAGMENT].contains(&place.protocol)) {
        return None;
    }
    let last = all.iter().rposition(|place| [HOP_BY_HOP, ROUTING].contains(&place.protocol));
    all.get(last.filter(|_| view.version == 6).map_or(0, |last| last + 1)).copied()
}

/// Why `sa` can't carry a packet.
pub(crate) fn obstacle(sa: &Sa, frame: &Frame, view: &View) -> Option<&'static str> {
    if !sa.is_tunnel && view.fragment {
        return Some("fragment");
    }
    let kept = match (sa.is_tunnel, transport_place(frame, view)) {
        (true, _) => 0,
        (false, Some(place)) => place.body - view.l3,
        (false, None) => return Some("malformed"),
    };
    let len = sealed_len(sa, kept, view.end - view.l3);
    let is_too_big = len > 65_535 || len > sa.mtu && !may_fragment(sa, frame, view);
    is_too_big.then_some("too-big")
}

fn around(sa: &Sa, kept: usize) -> usize {
    let outer = match (sa.is_tunnel, sa.dst) {
        (false, _) => kept,
        (true, IpAddr::V4(_)) => 20,
        (true, IpAddr::V6(_)) => 40,
    };
    let udp = if sa.encap.is_some() { 8 } else { 0 };
    outer + udp + 8 + esp::iv_len(sa) + esp::icv_len(sa)
}

fn sealed_len(sa: &Sa, kept: usize, len: usize) -> usize {
    around(sa, kept) + (len - kept + 2).next_multiple_of(esp::block_len(sa))
}

/// The longest packet that is no longer than the MTU with ESP, of one like this.
pub(crate) fn longest(sa: &Sa, frame: &Frame, view: &View) -> usize {
    let place = transport_place(frame, view).filter(|_| !sa.is_tunnel);
    let kept = place.map_or(0, |place| place.body - view.l3);
    let fits = |len: &usize| sealed_len(sa, kept, *len) <= sa.mtu;
    (kept..sa.mtu).rev().find(fits).unwrap_or(0)
}

/// Whether routers may cut what goes out.
fn may_fragment(sa: &Sa, frame: &Frame, view: &View) -> bool {
    match sa.is_tunnel {
        true => sa.dst.is_ipv4() && !outer_df(sa, frame, view),
        false => view.version == 4 && !inner_df(frame, view),
    }
}

fn inner_df(frame: &Frame, view: &View) -> bool {
    view.version == 6 || frame.bytes[view.l3 + 6] & 0x40 != 0
}

fn outer_df(sa: &Sa, frame: &Frame, view: &View) -> bool {
    match sa.df {
        DontFragment::Copy => inner_df(frame, view),
        DontFragment::Set => true,
        DontFragment::Clear => false,
    }
}

/// The traffic class of an IP packet that begins at `l3`.
pub(crate) fn class(bytes: &[u8], l3: usize, version: u8) -> u8 {
    if version == 4 { bytes[l3 + 1] } else { bytes[l3] << 4 | bytes[l3 + 1] >> 4 }
}

/// Number `sequence` of `sa`, with the packet of `frame`.
pub(crate) fn seal(sa: &Sa, sequence: u64, frame: &Frame, view: &View) -> Vec<u8> {
    match transport_place(frame, view).filter(|_| !sa.is_tunnel) {
        Some(place) => in_transport(sa, sequence, frame, view, place),
        None => {
            let next = if view.version == 4 { 4 } else { 41 };
            let text = esp::text(sa, &with_len(&frame.bytes[view.l3..view.end], view), next);
            in_tunnel(sa, sequence, frame, view, &text)
        }
    }
}

/// A packet that states a length: its own, or that of a packet which states none.
fn with_len(packet: &[u8], view: &View) -> Vec<u8> {
    let (at, fixed) = if view.version == 4 { (2, 0) } else { (4, 40) };
    let mut packet = packet.to_vec();
    if packet[at..at + 2] == [0, 0] && packet.len() > fixed {
        let len = ((packet.len() - fixed) as u16).to_be_bytes();
        packet[at..at + 2].copy_from_slice(&len);
        if view.version == 4 {
            mend(&mut packet, 10, &[0, 0], &len);
        }
    }
    packet
}

/// The same with any text.
pub(crate) fn in_tunnel(
    sa: &Sa,
    sequence: u64,
    frame: &Frame,
    view: &View,
    text: &[u8],
) -> Vec<u8> {
    let esp = esp::sealed(sa, sequence, text);
    let (body, protocol) = in_udp(sa, esp, (sa.src, sa.dst));
    let inner = class(&frame.bytes, view.l3, view.version);
    let dscp = sa.dscp.map_or(inner & !3, |dscp| dscp << 2);
    let class = dscp | if sa.ecn { inner & 3 } else { 0 };
    let outer = match sa.dst {
        IpAddr::V4(_) => {
            let df = outer_df(sa, frame, view);
            ipv4(sa, class, df, sequence, protocol, body.len())
        }
        IpAddr::V6(_) => ipv6(sa, class, protocol, body.len()),
    };
    let version = if sa.dst.is_ipv4() { 4 } else { 6 };
    let link = announced(frame, view, version);
    [link, outer, body].concat()
}

/// The link header of `frame`, changed for a packet of `version`.
pub(crate) fn announced(frame: &Frame, view: &View, version: u8) -> Vec<u8> {
    let mut header = frame.bytes[..view.l3].to_vec();
    if version == view.version {
        return header;
    }
    let kind: [u8; 2] = if version == 4 { [8, 0] } else { [0x86, 0xdd] };
    let at = match frame.link {
        link::ETHERNET | link::SLL => header.len() - 2,
        link::SLL2 => 0,
        link::NULL => {
            // In the byte order that the frame came in.
            let family = if version == 4 { 2 } else { 30 };
            let byte = if header[0] != 0 { 0 } else { 3 };
            header[byte] = family;
            return header;
        }
        _ => return header,
    };
    header[at..at + 2].copy_from_slice(&kind);
    header
}

/// ESP, in UDP if the SA has UDP ports, and its protocol.
fn in_udp(sa: &Sa, esp: Vec<u8>, (src, dst): (IpAddr, IpAddr)) -> (Vec<u8>, u8) {
    let Some([from, to]) = sa.encap else { return (esp, ESP) };
    let len = 8 + esp.len() as u16;
    let mut udp = [from, to, len, 0].map(u16::to_be_bytes).concat();
    udp.extend(esp);
    if src.is_ipv6() {
        let check = !sum(&[&octets(src), &octets(dst), &[0, UDP], &len.to_be_bytes(), &udp]);
        let check = if check == 0 { 0xffff } else { check };
        udp[6..8].copy_from_slice(&check.to_be_bytes());
    }
    (udp, UDP)
}

fn ipv4(sa: &Sa, class: u8, df: bool, sequence: u64, protocol: u8, body: usize) -> Vec<u8> {
    // The upper half of a product begins the numbers of an SA.
    let product = (u64::from(sa.spi) * 0x9e37_79b1) & u64::from(u32::MAX);
    let ident = (sequence & 0xffff) ^ (product >> 16);
    let (ident, flags) = if df { (0, 0x4000) } else { (ident as u16, 0) };
    let words = [0x4500 | u16::from(class), 20 + body as u16, ident, flags];
    let mut header = words.map(u16::to_be_bytes).concat();
    header.extend([sa.hops, protocol, 0, 0]);
    header.extend([octets(sa.src), octets(sa.dst)].concat());
    let check = !sum(&[&header]);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header
}

fn ipv6(sa: &Sa, class: u8, protocol: u8, body: usize) -> Vec<u8> {
    let [high, low] = (body as u16).to_be_bytes();
    let head = [0x60 | class >> 4, class << 4, 0, 0, high, low, protocol, sa.hops];
    [&head[..], &octets(sa.src), &octets(sa.dst)].concat()
}

fn in_transport(sa: &Sa, sequence: u64, frame: &Frame, view: &View, place: NextHeader) -> Vec<u8> {
    let text = esp::text(sa, &frame.bytes[place.body..view.end], place.protocol);
    in_transport_with(sa, sequence, frame, view, place, &text)
}

/// The same with any text.
pub(crate) fn in_transport_with(
    sa: &Sa,
    sequence: u64,
    frame: &Frame,
    view: &View,
    place: NextHeader,
    text: &[u8],
) -> Vec<u8> {
    let esp = esp::sealed(sa, sequence, text);
    let (body, protocol) = in_udp(sa, esp, view.addresses(&frame.bytes));
    let mut bytes = [&frame.bytes[..place.body], &body].concat();
    carry(&mut bytes, view, place, protocol);
    bytes
}

/// Sets the protocol, length and checksum in the headers before `place`.
pub(crate) fn carry(bytes: &mut [u8], view: &View, place: NextHeader, protocol: u8) {
    let (l3, len) = (view.l3, bytes.len() - view.l3);
    bytes[place.next_at] = protocol;
    if view.version == 6 {
        bytes[l3 + 4..l3 + 6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
        return;
    }
    let old = [bytes[l3 + 2], bytes[l3 + 3], 0, place.protocol];
    let [high, low] = (len as u16).to_be_bytes();
    bytes[l3 + 2..l3 + 4].copy_from_slice(&[high, low]);
    mend(bytes, l3 + 10, &old, &[high, low, 0, protocol]);
}
