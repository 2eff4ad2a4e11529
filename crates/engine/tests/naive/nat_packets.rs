//! Packets as the naive translator takes them: their content, ports and quotes, and the choices of
//! the engine that a packet shows.

use std::net::IpAddr;

use crate::bindings::{Endpoint, FlowKind};
use crate::connections::seen;
use crate::quote::{Quoted, quoted};
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, be16};
use warpline_testkit::conntrack::Seen;

/// Source, destination, identification and, of IPv4, protocol: what fragments of a packet share.
pub(crate) type Whole = (IpAddr, IpAddr, u32, u8);

/// The content of a packet.
pub(crate) enum Content {
    Flow { kind: FlowKind, from: u16, to: u16, segment: Option<Seen>, opens: bool },
    Error(Quoted),
}

/// The content of an IP packet that is no later fragment, or why it can't be translated.
pub(crate) fn content(frame: &Frame, view: &View) -> Result<Content, &'static str> {
    let own = |protocol| protocol == if view.version == 4 { ICMP } else { ICMPV6 };
    let hidden = view.version == 6 && [0, 43, 44, 51, 60].contains(&view.protocol) && view.snapped;
    if portless(view.version, view.protocol) {
        let kind = FlowKind::Other(view.protocol);
        return Ok(Content::Flow { kind, from: 0, to: 0, segment: None, opens: true });
    }
    let known = [TCP, UDP].contains(&view.protocol) || own(view.protocol) || hidden;
    if !known {
        return Err("unsupported-protocol");
    }
    if !view.transport {
        return Err("snapped");
    }
    if own(view.protocol) {
        return message(frame, view);
    }
    let (from, to) = view.ports(&frame.bytes).expect("TCP and UDP have ports");
    let kind = if view.protocol == TCP { FlowKind::Tcp } else { FlowKind::Udp };
    let segment = (kind == FlowKind::Tcp).then(|| seen(frame, view));
    let has_flags = |seen: &Seen| {
        [0x02, 0x22, 0x12, 0x11, 0x31, 0x10, 0x30, 0x04, 0x14].contains(&(seen.flags & 0x37))
    };
    if segment.as_ref().is_some_and(|seen| !has_flags(seen)) {
        return Err("invalid");
    }
    let opens = segment.as_ref().is_none_or(|seen| seen.flags & 4 == 0);
    Ok(Content::Flow { kind, from, to, segment, opens })
}

/// RFC 792 and RFC 4443; a redirect stays on its link.
fn message(frame: &Frame, view: &View) -> Result<Content, &'static str> {
    let ident = be16(&frame.bytes, view.l4 + 4).unwrap_or(0) as u16;
    let kind = frame.bytes[view.l4];
    match (view.version, kind) {
        (4, 8 | 0) | (6, 128 | 129) => {
            let opens = kind == 8 || kind == 128;
            Ok(Content::Flow { kind: FlowKind::Echo, from: ident, to: ident, segment: None, opens })
        }
        (4, 3 | 4 | 11 | 12) | (6, 0..128) => {
            let without = if view.snapped { "snapped" } else { "bad-quote" };
            let quoted = quoted(frame, view).filter(|quoted| ends(quoted).is_some());
            Ok(Content::Error(quoted.ok_or(without)?))
        }
        _ => Err("unsupported-protocol"),
    }
}

/// Whether a packet is an ICMP error, however much of it there is.
pub(crate) fn is_error(frame: &Frame, view: &View) -> bool {
    match (view.version, view.message(&frame.bytes)) {
        (4, Some((kind, _))) => view.protocol == ICMP && [3, 4, 11, 12].contains(&kind),
        (6, Some((kind, _))) => view.protocol == ICMPV6 && kind < 128,
        _ => false,
    }
}

/// The ports of a quoted packet, and what has them.
pub(crate) fn ends(quoted: &Quoted) -> Option<(FlowKind, u16, u16)> {
    let version = if quoted.src.is_ipv4() { 4 } else { 6 };
    if portless(version, quoted.protocol) && !quoted.later {
        return Some((FlowKind::Other(quoted.protocol), 0, 0));
    }
    let (from, to) = quoted.ends()?;
    let kind = match quoted.protocol {
        TCP => FlowKind::Tcp,
        UDP => FlowKind::Udp,
        _ => FlowKind::Echo,
    };
    Some((kind, from, to))
}

/// Protocols without ports whose checksums cover no addresses. IPComp is not translated.
pub(crate) fn portless(version: u8, protocol: u8) -> bool {
    let known = [TCP, UDP, ICMP, ICMPV6, 33, 108, 136].contains(&protocol);
    let covered = version == 6 && [0, 43, 44, 51, 60, 89, 103, 112, 135, 139].contains(&protocol);
    !(known || covered || version == 4 && protocol == 0)
}

pub(crate) fn has_ports(kind: FlowKind) -> bool {
    matches!(kind, FlowKind::Tcp | FlowKind::Udp)
}

pub(crate) fn is_request(quoted: &Quoted) -> bool {
    let is_echo = quoted.protocol == ICMP || quoted.protocol == ICMPV6;
    is_echo && quoted.message.is_some_and(|(kind, _)| kind == 8 || kind == 128)
}

pub(crate) fn fragment_key(frame: &Frame, view: &View) -> Whole {
    let (src, dst) = view.addresses(&frame.bytes);
    let word = |at| be16(&frame.bytes, at).unwrap_or(0) as u32;
    match view.version {
        4 => (src, dst, word(view.l3 + 4), view.protocol),
        _ => (src, dst, word(view.fragment_at + 4) << 16 | word(view.fragment_at + 6), 0),
    }
}

/// Destinations that stay on the link: link-local addresses, all of the link, its groups.
pub(crate) fn stays_on_link(dst: IpAddr) -> bool {
    match dst {
        IpAddr::V4(a) => a.is_broadcast() || a.octets()[..3] == [224, 0, 0],
        IpAddr::V6(a) => {
            let first = a.segments()[0];
            first & 0xffc0 == 0xfe80 || (first >> 8 == 0xff && first & 15 <= 2)
        }
    }
}

/// The destination that the engine gave the packet that an error quotes.
pub(crate) fn shown_by_error(left: &[u8], frame: &Frame, view: &View) -> Option<Endpoint> {
    let given = Frame { bytes: left.to_vec(), ..frame.clone() };
    (left.len() == frame.bytes.len()).then_some(())?;
    let quoted = quoted(&given, view)?;
    Some((quoted.dst, ends(&quoted)?.2))
}

/// The destination that the engine gave a packet.
pub(crate) fn receiver(left: &[u8], frame: &Frame, view: &View) -> Option<Endpoint> {
    let given = Frame { bytes: left.to_vec(), ..frame.clone() };
    let at = view.l4 + if matches!(view.protocol, TCP | UDP) { 2 } else { 4 };
    (left.len() == frame.bytes.len()).then_some(())?;
    Some((view.addresses(&given.bytes).1, be16(left, at)? as u16))
}

/// The source that the engine gave a packet.
pub(crate) fn chosen(left: &[u8], frame: &Frame, view: &View) -> Option<Endpoint> {
    let given = Frame { bytes: left.to_vec(), ..frame.clone() };
    let at = view.l4 + if matches!(view.protocol, TCP | UDP) { 0 } else { 4 };
    (left.len() == frame.bytes.len()).then_some(())?;
    if portless(view.version, view.protocol) {
        return Some((view.addresses(&given.bytes).0, 0));
    }
    Some((view.addresses(&given.bytes).0, be16(left, at)? as u16))
}
