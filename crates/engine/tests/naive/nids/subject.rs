//! A packet as rules see it.

use std::net::IpAddr;

use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, be16};

const SCTP: u8 = 132;
/// Types of ICMP that have an identifier and a number, and those of ICMPv6.
const NUMBERED: [&[u8]; 2] = [&[0, 8, 13, 14, 15, 16, 17, 18], &[128, 129]];

/// See the module.
pub(crate) struct Subject<'a> {
    pub(crate) version: u8,
    pub(crate) protocol: u8,
    pub(crate) payload: &'a [u8],
    ends: [IpAddr; 2],
    ports: Option<(u16, u16)>,
    ip: &'a [u8],
    /// The header after that of IP and the bytes after it; empty if it is missing.
    upper: &'a [u8],
}

impl<'a> Subject<'a> {
    /// `None` if the IP header, or one before it, is invalid.
    pub(crate) fn of(frame: &'a Frame, view: &View) -> Option<Self> {
        let lies = view.lie.is_some();
        let behind = |name: &str| ["tcp", "udp", "icmp", "esp"].iter().any(|p| name.starts_with(p));
        if view.version == 0 || view.lie.is_some_and(|name| !behind(name)) {
            return None;
        }
        let ip = &frame.bytes[view.l3..view.end];
        let body = frame.bytes.get(view.l4..view.end).unwrap_or_default();
        let is_sctp = view.protocol == SCTP && body.len() >= 12;
        let is_there = !lies && !view.fragment && (view.transport || is_sctp);
        let upper = if is_there { body } else { &[] };
        let (src, dst) = view.addresses(&frame.bytes);
        let has_ports = is_there && [TCP, UDP, SCTP].contains(&view.protocol);
        let port = |at: usize| be16(upper, at).map(|port| port as u16);
        let ports = port(0).zip(port(2)).filter(|_| has_ports);
        let payload = payload(view, upper);
        let (version, protocol) = (view.version, view.protocol);
        Some(Self { version, protocol, payload, ends: [src, dst], ports, ip, upper })
    }

    /// Addresses with ports.
    pub(crate) fn ends(&self) -> [(IpAddr, Option<u16>); 2] {
        let [src, dst] = self.ends;
        [(src, self.ports.map(|(port, _)| port)), (dst, self.ports.map(|(_, port)| port))]
    }

    pub(crate) fn ttl(&self) -> Option<u32> {
        self.ip.get(if self.version == 4 { 8 } else { 7 }).map(|&ttl| ttl.into())
    }

    pub(crate) fn tos(&self) -> Option<u32> {
        self.ip.get(1).filter(|_| self.version == 4).map(|&tos| tos.into())
    }

    pub(crate) fn ident(&self) -> Option<u32> {
        be16(self.ip, 4).filter(|_| self.version == 4).map(|ident| ident as u32)
    }

    pub(crate) fn flags(&self) -> Option<u8> {
        self.upper.get(13).filter(|_| self.protocol == TCP).copied()
    }

    /// A byte of an ICMP message of the packet's own version.
    pub(crate) fn message(&self, at: usize) -> Option<u32> {
        let is_own = [(4, ICMP), (6, ICMPV6)].contains(&(self.version, self.protocol));
        self.upper.get(at).filter(|_| is_own).map(|&byte| byte.into())
    }

    /// The word at `at` of messages that have an identifier and a number.
    pub(crate) fn echo(&self, at: usize) -> Option<u32> {
        let kind = self.message(0)?;
        let numbered = NUMBERED[usize::from(self.version == 6)];
        let is_one = numbered.iter().any(|own| u32::from(*own) == kind);
        be16(self.upper, at).filter(|_| is_one).map(|word| word as u32)
    }
}

/// The bytes after the headers of TCP, UDP, SCTP and ESP; of ICMP, those after 8 bytes, or after
/// timestamps and the addresses of routers.
fn payload<'a>(view: &View, upper: &'a [u8]) -> &'a [u8] {
    let start = match view.protocol {
        SCTP => 12,
        ICMP => icmp_header(upper),
        _ => view.payload - view.l4,
    };
    let end = match (view.protocol, be16(upper, 4)) {
        (UDP, Some(len)) => upper.len().min(len),
        _ => upper.len(),
    };
    upper.get(start..end).unwrap_or_default()
}

fn icmp_header(message: &[u8]) -> usize {
    let len = match message {
        [13 | 14, ..] => 20,
        [9, _, _, _, count, words, ..] => 8 + usize::from(*count) * usize::from(*words) * 4,
        _ => 8,
    };
    if len <= message.len() { len } else { 8 }
}
