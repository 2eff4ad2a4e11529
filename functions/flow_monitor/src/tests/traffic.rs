//! Descriptions of packets, and their bytes.

use std::net::IpAddr;

use proptest::prelude::*;

use super::SECOND;
use warpline_verify::Input;

/// The content of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Tcp {
        src: u16,
        dst: u16,
        flags: u8,
    },
    Udp {
        src: u16,
        dst: u16,
    },
    /// ICMP or ICMPv6, by the addresses.
    Icmp {
        kind: u8,
        code: u8,
        ident: u16,
    },
    Other {
        protocol: u8,
    },
    /// A fragment that is not the first.
    Fragment {
        protocol: u8,
    },
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) nanos: u64,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) body: Body,
    /// Bytes after the transport header.
    pub(super) payload: usize,
}

impl Sent {
    pub(super) fn new(nanos: u64, src: &str, dst: &str, body: Body) -> Self {
        Self { nanos, src: src.parse().unwrap(), dst: dst.parse().unwrap(), body, payload: 10 }
    }

    /// The number of its protocol.
    pub(super) fn protocol(&self) -> u8 {
        match self.body {
            Body::Tcp { .. } => 6,
            Body::Udp { .. } => 17,
            Body::Icmp { .. } => {
                if self.src.is_ipv4() {
                    1
                } else {
                    58
                }
            }
            Body::Other { protocol } | Body::Fragment { protocol } => protocol,
        }
    }

    fn content(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.body {
            Body::Tcp { src, dst, flags } => {
                bytes.extend(src.to_be_bytes());
                bytes.extend(dst.to_be_bytes());
                bytes.extend([0; 8]);
                bytes.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
            }
            Body::Udp { src, dst } => {
                bytes.extend(src.to_be_bytes());
                bytes.extend(dst.to_be_bytes());
                bytes.extend((8 + self.payload as u16).to_be_bytes());
                bytes.extend([0; 2]);
            }
            Body::Icmp { kind, code, ident } => {
                bytes.extend([kind, code, 0, 0]);
                bytes.extend(ident.to_be_bytes());
                bytes.extend([0; 2]);
            }
            Body::Other { .. } | Body::Fragment { .. } => {}
        }
        bytes.resize(bytes.len() + self.payload, 0);
        bytes
    }

    fn packet(&self) -> Vec<u8> {
        let (content, protocol) = (self.content(), self.protocol());
        let is_fragment = matches!(self.body, Body::Fragment { .. });
        let mut packet = Vec::new();
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                packet.extend([0x45, 0]);
                packet.extend((20 + content.len() as u16).to_be_bytes());
                packet.extend([0, 7, 0, if is_fragment { 9 } else { 0 }, 64, protocol, 0, 0]);
                packet.extend(src.octets());
                packet.extend(dst.octets());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let extension = if is_fragment { 8 } else { 0 };
                packet.extend([0x60, 0, 0, 0]);
                packet.extend((extension + content.len() as u16).to_be_bytes());
                packet.extend([if is_fragment { 44 } else { protocol }, 64]);
                packet.extend(src.octets());
                packet.extend(dst.octets());
                if is_fragment {
                    packet.extend([protocol, 0, 0, 8 * 9, 0, 0, 0, 7]);
                }
            }
            _ => panic!("one family"),
        }
        packet.extend(content);
        packet
    }

    /// Bytes of the IP packet.
    pub(super) fn len(&self) -> u64 {
        self.packet().len() as u64
    }

    /// In an Ethernet frame.
    pub(super) fn input(&self) -> Input {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(if self.src.is_ipv4() { [8, 0] } else { [0x86, 0xdd] });
        frame.extend(self.packet());
        // Padding is no part of the packet.
        frame.resize(frame.len().max(60), 0xee);
        Input::at(self.nanos, &frame)
    }
}

/// Time between packets: around the limits of 5 s, 20 s and the second that closed flows linger.
const GAPS: [u64; 12] = [
    0,
    1,
    999,
    1_000,
    700_000,
    SECOND / 3,
    SECOND,
    SECOND + 1_000,
    5 * SECOND - 1_000,
    5 * SECOND,
    5 * SECOND + 1_000,
    21 * SECOND,
];

fn body() -> impl Strategy<Value = Body> {
    let ports = || (1..4u16, 1..4u16);
    let flags = prop::sample::select(vec![0x02, 0x12, 0x10, 0x18, 0x11, 0x11, 0x04, 0x52]);
    prop_oneof![
        4 => (ports(), flags).prop_map(|((src, dst), flags)| Body::Tcp { src, dst, flags }),
        2 => ports().prop_map(|(src, dst)| Body::Udp { src, dst }),
        2 => (prop::sample::select(vec![8, 0, 128, 129, 3, 1]), 0..2u8, 7..9u16)
            .prop_map(|(kind, code, ident)| Body::Icmp { kind, code, ident }),
        1 => prop::sample::select(vec![47, 50]).prop_map(|protocol| Body::Other { protocol }),
        1 => prop::sample::select(vec![6, 17, 1, 58])
            .prop_map(|protocol| Body::Fragment { protocol }),
    ]
}

/// Packets of a few hosts, so that flows come again, both ways and in many pieces.
pub(super) fn packets(count: usize) -> impl Strategy<Value = Vec<Sent>> {
    let gap = prop_oneof![6 => 0..6usize, 2 => 6..GAPS.len()];
    let one = (gap, any::<bool>(), 1..4u8, 1..4u8, body(), 0..40usize);
    prop::collection::vec(one, 1..count).prop_map(|all| {
        let mut nanos = 1_700_000_000 * SECOND + 123_456_789;
        let host = |v4: bool, n: u8| match v4 {
            true => IpAddr::from([10, 0, 0, n]),
            false => IpAddr::from([0x20, 1, 0xd, 0xb8, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        };
        let sent = all.into_iter().map(|(gap, v4, src, dst, body, payload)| {
            nanos += GAPS[gap];
            let (src, dst) = (host(v4, src), host(v4, dst));
            Sent { nanos, src, dst, body, payload: payload + 8 }
        });
        sent.collect()
    })
}
