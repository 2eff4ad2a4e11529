//! Frames built from their meaning, with every checksum computed.

use std::net::IpAddr;

/// The content of an IP packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// TCP.
    Tcp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// TCP flags.
        flags: u8,
    },
    /// UDP.
    Udp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// Whether it has no checksum.
        unsummed: bool,
    },
    /// An echo of ICMP or ICMPv6.
    Echo {
        /// Whether it is a reply.
        reply: bool,
        /// The identifier.
        ident: u16,
        /// The sequence number.
        seq: u16,
    },
    /// An ICMP error with the IP packet that it quotes.
    Error {
        /// The message type.
        kind: u8,
        /// The message code.
        code: u8,
    },
    /// Another protocol.
    Other {
        /// Its IP protocol.
        protocol: u8,
    },
}

/// An IP packet in an Ethernet frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Datagram {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// The transport header.
    pub body: Body,
    /// Bytes after the transport header.
    pub payload: Vec<u8>,
    /// The identification of the IP header.
    pub ident: u16,
    /// Sequence and acknowledgment number of TCP.
    pub numbers: (u32, u32),
}

impl Datagram {
    /// A datagram without payload.
    pub fn new(src: IpAddr, dst: IpAddr, body: Body) -> Self {
        Self { src, dst, body, payload: b"payload".to_vec(), ident: 77, numbers: (1, 2) }
    }

    /// The same with this payload.
    pub fn with(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// The same with these numbers of TCP.
    pub fn numbered(mut self, seq: u32, ack: u32) -> Self {
        self.numbers = (seq, ack);
        self
    }

    /// Whether it is IPv6.
    pub fn is_v6(&self) -> bool {
        self.src.is_ipv6()
    }

    /// Source and destination port; the identifier twice.
    pub fn ports(&self) -> (u16, u16) {
        match self.body {
            Body::Tcp { src, dst, .. } | Body::Udp { src, dst, .. } => (src, dst),
            Body::Echo { ident, .. } => (ident, ident),
            _ => (0, 0),
        }
    }

    /// The same from another endpoint.
    pub fn from(mut self, address: IpAddr, port: u16) -> Self {
        self.src = address;
        match &mut self.body {
            Body::Tcp { src, .. } | Body::Udp { src, .. } => *src = port,
            Body::Echo { ident, .. } => *ident = port,
            _ => {}
        }
        self
    }

    /// The same to another endpoint.
    pub fn to(mut self, address: IpAddr, port: u16) -> Self {
        self.dst = address;
        match &mut self.body {
            Body::Tcp { dst, .. } | Body::Udp { dst, .. } => *dst = port,
            Body::Echo { ident, .. } => *ident = port,
            _ => {}
        }
        self
    }

    /// An error from `router` about this packet, which quotes `len` bytes of it at most.
    pub fn error(&self, router: IpAddr, len: usize) -> Self {
        let packet = self.packet();
        let body = match self.is_v6() {
            false => Body::Error { kind: 3, code: 1 },
            true => Body::Error { kind: 1, code: 3 },
        };
        Self::new(router, self.src, body).with(&packet[..len.min(packet.len())])
    }

    fn protocol(&self) -> u8 {
        match self.body {
            Body::Tcp { .. } => 6,
            Body::Udp { .. } => 17,
            Body::Echo { .. } | Body::Error { .. } => {
                if self.is_v6() {
                    58
                } else {
                    1
                }
            }
            Body::Other { protocol } => protocol,
        }
    }

    /// The transport header with its checksum, and the payload.
    fn transport(&self) -> Vec<u8> {
        let mut bytes = match self.body {
            Body::Tcp { src, dst, flags } => {
                let mut header = [src.to_be_bytes(), dst.to_be_bytes()].concat();
                let (seq, ack) = self.numbers;
                header.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
                header.extend([0x50, flags, 16, 0, 0, 0, 0, 0]);
                header
            }
            Body::Udp { src, dst, .. } => {
                let len = 8 + self.payload.len() as u16;
                [src.to_be_bytes(), dst.to_be_bytes(), len.to_be_bytes(), [0, 0]].concat()
            }
            Body::Echo { reply, ident, seq } => {
                let kind = [[8, 0], [128, 129]][usize::from(self.is_v6())][usize::from(reply)];
                [[kind, 0], [0, 0], ident.to_be_bytes(), seq.to_be_bytes()].concat()
            }
            Body::Error { kind, code } => vec![kind, code, 0, 0, 0, 0, 0, 0],
            Body::Other { .. } => Vec::new(),
        };
        bytes.extend(&self.payload);
        let at = match self.body {
            Body::Tcp { .. } => 16,
            Body::Udp { unsummed: false, .. } => 6,
            Body::Echo { .. } | Body::Error { .. } => 2,
            _ => return bytes,
        };
        let mut covered = Vec::new();
        if self.protocol() != 1 {
            covered = [octets(self.src), octets(self.dst)].concat();
            covered.extend([0, self.protocol(), 0, 0]);
            covered.extend((bytes.len() as u16).to_be_bytes());
        }
        covered.extend(&bytes);
        let sum = match naive_checksum(&covered) {
            0 if matches!(self.body, Body::Udp { .. }) => 0xffff,
            sum => sum,
        };
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The IP packet around part of the transport bytes; offset in bytes and whether more follow,
    /// where it is a fragment.
    fn wrap(&self, part: &[u8], fragment: Option<(u16, bool)>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let word = fragment.map_or(0, |(offset, more)| (offset / 8) | (u16::from(more) << 13));
        if !self.is_v6() {
            bytes.extend([0x45, 0]);
            bytes.extend((20 + part.len() as u16).to_be_bytes());
            bytes.extend(self.ident.to_be_bytes());
            bytes.extend(word.to_be_bytes());
            bytes.extend([64, self.protocol(), 0, 0]);
            bytes.extend([octets(self.src), octets(self.dst)].concat());
            let sum = naive_checksum(&bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let extra = if fragment.is_some() { 8 } else { 0 };
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend((extra + part.len() as u16).to_be_bytes());
            bytes.extend([if fragment.is_some() { 44 } else { self.protocol() }, 64]);
            bytes.extend([octets(self.src), octets(self.dst)].concat());
            if let Some((offset, more)) = fragment {
                bytes.extend([self.protocol(), 0]);
                bytes.extend((offset | u16::from(more)).to_be_bytes());
                bytes.extend(u32::from(self.ident).to_be_bytes());
            }
        }
        bytes.extend(part);
        bytes
    }

    /// The IP packet.
    pub fn packet(&self) -> Vec<u8> {
        self.wrap(&self.transport(), None)
    }

    /// The frame.
    pub fn frame(&self) -> Vec<u8> {
        ethernet(self.is_v6(), &self.packet())
    }

    /// The frames of two fragments, cut after `at` bytes.
    pub fn fragments(&self, at: usize) -> [Vec<u8>; 2] {
        let whole = self.transport();
        let (first, second) = whole.split_at(at);
        [
            ethernet(self.is_v6(), &self.wrap(first, Some((0, true)))),
            ethernet(self.is_v6(), &self.wrap(second, Some((at as u16, false)))),
        ]
    }
}

fn ethernet(v6: bool, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
    frame.extend(packet);
    frame
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// RFC 1071, word by word.
pub fn naive_checksum(data: &[u8]) -> u16 {
    let mut total = 0_u64;
    for pair in data.chunks(2) {
        total += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while total > 0xffff {
        total = total % 0x1_0000 + total / 0x1_0000;
    }
    0xffff - total as u16
}
