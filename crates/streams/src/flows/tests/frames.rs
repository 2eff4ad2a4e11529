//! Packets made by hand, and written out as IP packets without a link header.

use core::net::Ipv4Addr;

use warpline_packet::wire::{checksum, icmpv4, ip_protocol, ipv4, ipv6, tcp, udp};
use warpline_packet::{Headers, Instant, LinkType};

use super::super::{Direction, FlowPacket};

pub(super) const SYN: u16 = tcp::flags::SYN;
pub(super) const ACK: u16 = tcp::flags::ACK;
pub(super) const FIN: u16 = tcp::flags::FIN;
pub(super) const RST: u16 = tcp::flags::RST;
pub(super) const URG: u16 = tcp::flags::URG;

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) version: u8,
    pub(super) protocol: u8,
    /// The last byte of source and destination.
    pub(super) ends: [u8; 2],
    pub(super) ports: [u16; 2],
    pub(super) nanos: u64,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u16,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: Vec<u8>,
    pub(super) corrupt: bool,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// A TCP segment from the client, or of another protocol.
    pub(super) fn to_server() -> Self {
        Self {
            version: 4,
            protocol: ip_protocol::TCP,
            ends: [1, 2],
            ports: [40_000, 80],
            nanos: 0,
            seq: 0,
            ack: 0,
            flags: ACK,
            window: 60_000,
            urgent: 0,
            options: Vec::new(),
            corrupt: false,
            payload: Vec::new(),
        }
    }

    pub(super) fn to_client() -> Self {
        Self { ends: [2, 1], ports: [80, 40_000], ..Self::to_server() }
    }

    pub(super) fn to(direction: Direction) -> Self {
        match direction {
            Direction::ToServer => Self::to_server(),
            Direction::ToClient => Self::to_client(),
        }
    }

    pub(super) fn seq(&self, seq: u32) -> Self {
        Self { seq, ..self.clone() }
    }

    pub(super) fn ack(&self, ack: u32) -> Self {
        Self { ack, ..self.clone() }
    }

    pub(super) fn flags(&self, flags: u16) -> Self {
        Self { flags, ..self.clone() }
    }

    pub(super) fn window(&self, window: u16) -> Self {
        Self { window, ..self.clone() }
    }

    /// With the flag and a pointer.
    pub(super) fn urgent(&self, urgent: u16) -> Self {
        Self { urgent, flags: self.flags | URG, ..self.clone() }
    }

    pub(super) fn options(&self, options: &[u8]) -> Self {
        Self { options: options.to_vec(), ..self.clone() }
    }

    pub(super) fn data(&self, payload: &[u8]) -> Self {
        Self { payload: payload.to_vec(), ..self.clone() }
    }

    pub(super) fn seconds(&self, seconds: u64) -> Self {
        Self { nanos: seconds * 1_000_000_000, ..self.clone() }
    }

    pub(super) fn corrupt(&self) -> Self {
        Self { corrupt: true, ..self.clone() }
    }

    pub(super) fn port(&self, port: u16) -> Self {
        let ports = self.ports.map(|own| if own == 80 { own } else { port });
        Self { ports, ..self.clone() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let l4 = match self.protocol {
            ip_protocol::TCP => self.tcp(),
            ip_protocol::UDP => self.udp(),
            ip_protocol::ICMP => self.icmp(),
            _ => self.payload.clone(),
        };
        let mut bytes = match self.version {
            4 => self.v4(l4.len()),
            _ => self.v6(l4.len()),
        };
        bytes.extend(l4);
        bytes
    }

    /// Some of both directions and of several flows have the same, some of one flow have not.
    fn hint(&self) -> u32 {
        (self.nanos / 64) as u32 % 3
    }

    pub(super) fn packet<'a>(&self, bytes: &'a [u8]) -> Option<FlowPacket<'a>> {
        let headers = Headers::parse(bytes, LinkType::RAW, bytes.len());
        let times = [Instant::from_nanos(self.nanos); 2];
        FlowPacket::new(bytes, &headers, true, times, self.hint())
    }

    fn v4(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        bytes[0] = 0x45;
        bytes[9] = self.protocol;
        bytes[12..20].copy_from_slice(&[10, 0, 0, self.ends[0], 10, 0, 0, self.ends[1]]);
        let mut ip = ipv4::Ipv4::new_unchecked(&mut bytes[..]);
        ip.set_total_len((ipv4::HEADER_LEN + len) as u16);
        ip.fill_checksum();
        bytes
    }

    fn v6(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; ipv6::HEADER_LEN];
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        bytes[6] = self.protocol;
        (bytes[8], bytes[23]) = (0x20, self.ends[0]);
        (bytes[24], bytes[39]) = (0x20, self.ends[1]);
        bytes
    }

    fn tcp(&self) -> Vec<u8> {
        let header_len = tcp::HEADER_LEN + self.options.len().next_multiple_of(4);
        let mut bytes = vec![0; header_len];
        bytes[tcp::HEADER_LEN..][..self.options.len()].copy_from_slice(&self.options);
        bytes.extend_from_slice(&self.payload);
        let len = bytes.len() as u16;
        let mut segment = tcp::Tcp::new_unchecked(&mut bytes[..]);
        segment.set_src_port(self.ports[0]);
        segment.set_dst_port(self.ports[1]);
        segment.set_seq(self.seq);
        segment.set_ack(self.ack);
        segment.set_header_len(header_len);
        segment.set_flags(self.flags);
        segment.set_window(self.window);
        segment.set_urgent(self.urgent);
        let [src, dst] = self.ends.map(|end| Ipv4Addr::new(10, 0, 0, end));
        segment.fill_checksum(checksum::pseudo_v4(src, dst, ip_protocol::TCP, len));
        if self.corrupt {
            segment.set_urgent(self.urgent ^ 0x5555);
        }
        bytes
    }

    fn udp(&self) -> Vec<u8> {
        let mut bytes = vec![0; udp::HEADER_LEN];
        bytes[0..2].copy_from_slice(&self.ports[0].to_be_bytes());
        bytes[2..4].copy_from_slice(&self.ports[1].to_be_bytes());
        let len = (udp::HEADER_LEN + self.payload.len()) as u16;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// The first port is the type.
    fn icmp(&self) -> Vec<u8> {
        let mut bytes = vec![0; icmpv4::HEADER_LEN];
        bytes[0] = self.ports[0] as u8;
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}
