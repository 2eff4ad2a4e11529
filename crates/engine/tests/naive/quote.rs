//! The packet that an ICMP error quotes, as far as it goes.

use std::net::IpAddr;

use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, addresses, be16};

/// Fields of a quoted packet.
#[derive(Clone, Debug)]
pub(crate) struct Quoted {
    pub(crate) protocol: u8,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    /// A later fragment, which has no ports.
    pub(crate) later: bool,
    /// Of TCP and UDP.
    pub(crate) ports: Option<(u16, u16)>,
    /// The type and the identifier, as of an echo.
    pub(crate) message: Option<(u8, u16)>,
    /// Where it begins in the frame, and where what it carries does.
    pub(crate) l3: usize,
    pub(crate) l4: usize,
}

impl Quoted {
    /// Its ports, both the identifier of an echo; `None` where it doesn't show any.
    pub(crate) fn ends(&self) -> Option<(u16, u16)> {
        if self.later {
            return None;
        }
        match (self.protocol, self.message) {
            (TCP | UDP, _) => self.ports,
            (ICMP, Some((0 | 8, ident))) if self.src.is_ipv4() => Some((ident, ident)),
            (ICMPV6, Some((128 | 129, ident))) if self.src.is_ipv6() => Some((ident, ident)),
            _ => None,
        }
    }
}

/// The packet that the ICMP error in `frame` quotes; `None` unless it is of the same version and
/// has whole IP headers.
pub(crate) fn quoted(frame: &Frame, view: &View) -> Option<Quoted> {
    let bytes = frame.bytes.get(view.payload..view.end)?;
    if bytes.first()? >> 4 != view.version {
        return None;
    }
    let (protocol, at, later) = if view.version == 4 { ipv4(bytes)? } else { ipv6(bytes)? };
    let (src, dst) = addresses(view.version, bytes);
    let word = |at: usize| be16(bytes, at).map(|word| word as u16);
    let ports = word(at).zip(word(at + 2)).filter(|_| protocol == TCP || protocol == UDP);
    let message = bytes.get(at).copied().zip(word(at + 4));
    let (l3, l4) = (view.payload, view.payload + at);
    Some(Quoted { protocol, src, dst, later, ports, message, l3, l4 })
}

/// Source, destination and protocol of the quoted packet, also where its options are cut off.
pub(crate) fn quoted_ends(frame: &Frame, view: &View) -> Option<(IpAddr, IpAddr, u8)> {
    let bytes = frame.bytes.get(view.payload..view.end)?;
    let first = *bytes.first()?;
    if view.version == 4 && first >> 4 == 4 && first & 15 >= 5 {
        let (src, dst) = addresses(4, bytes.get(..20)?);
        return Some((src, dst, bytes[9]));
    }
    quoted(frame, view).map(|own| (own.src, own.dst, own.protocol))
}

fn ipv4(bytes: &[u8]) -> Option<(u8, usize, bool)> {
    bytes.get(..20)?;
    let at = usize::from(bytes[0] & 15) * 4;
    bytes.get(..at).filter(|_| at >= 20)?;
    Some((bytes[9], at, be16(bytes, 6)? & 0x1fff != 0))
}

/// Extension headers are looked through, as far as they are quoted.
fn ipv6(bytes: &[u8]) -> Option<(u8, usize, bool)> {
    let (mut next, mut at, mut later) = (bytes.get(..40)?[6], 40, false);
    let (mut count, mut fragments) = (0, 0);
    while [0, 43, 44, 51, 60].contains(&next) && !later {
        let header = bytes.get(at..at + 8)?;
        if next == 0 && count > 0 {
            return None;
        }
        let len = match next {
            44 => 8,
            51 => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        if next == 44 {
            fragments += 1;
            later = be16(header, 2)? & !7 != 0;
        }
        if fragments > 1 || next == 51 && len < 12 {
            return None;
        }
        (next, at, count) = (header[0], at + len, count + 1);
        bytes.get(..at)?;
    }
    Some((next, at, later))
}
