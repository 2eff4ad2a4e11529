//! Frames made by hand: one builder for all protocols, and a TCP connection that keeps its sequence
//! numbers.

use core::net::{Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::{checksum, icmpv4, ip_protocol, ipv4, ipv6, tcp, udp};

pub(super) const SYN: u16 = tcp::flags::SYN;
pub(super) const ACK: u16 = tcp::flags::ACK;
pub(super) const FIN: u16 = tcp::flags::FIN;
pub(super) const RST: u16 = tcp::flags::RST;
pub(super) const URG: u16 = tcp::flags::URG;

/// An Ethernet frame. Host 1 is the client and host 2 the server: 10.0.0.x or 2001:db8::x.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) is_v6: bool,
    /// Tag control information of its VLAN tags, from the outside in.
    pub(super) tags: Vec<u16>,
    pub(super) protocol: u8,
    pub(super) hosts: [u8; 2],
    pub(super) ports: [u16; 2],
    pub(super) ttl: u8,
    pub(super) tos: u8,
    pub(super) id: u16,
    /// Flags and offset of IPv4.
    pub(super) fragment: u16,
    pub(super) ip_options: Vec<u8>,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u16,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) tcp_options: Vec<u8>,
    /// Type, code, and the four bytes after the checksum.
    pub(super) icmp: [u8; 6],
    pub(super) payload: Vec<u8>,
    /// Its checksum of TCP is wrong.
    pub(super) is_corrupt: bool,
    /// Its time in milliseconds, where that is not its place.
    pub(super) millis: Option<u64>,
}

impl Frame {
    pub(super) fn new(protocol: u8, payload: &[u8]) -> Self {
        Self {
            is_v6: false,
            tags: Vec::new(),
            protocol,
            hosts: [1, 2],
            ports: [40_000, 80],
            ttl: 64,
            tos: 0,
            id: 0,
            fragment: 0,
            ip_options: Vec::new(),
            seq: 0,
            ack: 0,
            flags: ACK,
            window: 60_000,
            urgent: 0,
            tcp_options: Vec::new(),
            icmp: [8, 0, 0, 0, 0, 0],
            payload: payload.to_vec(),
            is_corrupt: false,
            millis: None,
        }
    }

    pub(super) fn udp(payload: &[u8]) -> Self {
        Self::new(ip_protocol::UDP, payload)
    }

    pub(super) fn tcp(flags: u16, payload: &[u8]) -> Self {
        Self { flags, ..Self::new(ip_protocol::TCP, payload) }
    }

    pub(super) fn icmp(kind: u8, code: u8, payload: &[u8]) -> Self {
        Self { icmp: [kind, code, 0, 0, 0, 0], ..Self::new(ip_protocol::ICMP, payload) }
    }

    /// The same over IPv6.
    pub(super) fn v6(self) -> Self {
        let protocol = match self.protocol {
            ip_protocol::ICMP => ip_protocol::ICMPV6,
            protocol => protocol,
        };
        Self { is_v6: true, protocol, ..self }
    }

    /// From the server.
    pub(super) fn back(self) -> Self {
        let ([a, b], [c, d]) = (self.hosts, self.ports);
        Self { hosts: [b, a], ports: [d, c], ..self }
    }

    pub(super) fn ports(self, ports: [u16; 2]) -> Self {
        Self { ports, ..self }
    }

    /// The same in VLANs.
    pub(super) fn tagged(self, tags: &[u16]) -> Self {
        Self { tags: tags.to_vec(), ..self }
    }

    pub(super) fn at(self, millis: u64) -> Self {
        Self { millis: Some(millis), ..self }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let ether_type: [u8; 2] = if self.is_v6 { [0x86, 0xdd] } else { [8, 0] };
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for tag in &self.tags {
            bytes.extend([[0x81, 0], tag.to_be_bytes()].concat());
        }
        bytes.extend(ether_type);
        bytes.extend(self.packet());
        bytes
    }

    /// The IP packet.
    pub(super) fn packet(&self) -> Vec<u8> {
        let message = self.message();
        let mut bytes =
            if self.is_v6 { self.v6_header(&message) } else { self.v4_header(&message) };
        bytes.extend(message);
        bytes
    }

    /// The payload of the IP packet.
    pub(super) fn message(&self) -> Vec<u8> {
        match self.protocol {
            _ if self.fragment & 0x3fff != 0 => self.payload.clone(),
            ip_protocol::TCP => self.tcp_segment(),
            ip_protocol::UDP => self.udp_datagram(),
            ip_protocol::ICMP | ip_protocol::ICMPV6 => self.icmp_message(),
            _ => self.payload.clone(),
        }
    }

    fn v4_header(&self, message: &[u8]) -> Vec<u8> {
        let len = ipv4::HEADER_LEN + self.ip_options.len().next_multiple_of(4);
        let mut bytes = vec![0; len];
        bytes[0] = 0x40 | (len / 4) as u8;
        (bytes[1], bytes[8], bytes[9]) = (self.tos, self.ttl, self.protocol);
        bytes[4..6].copy_from_slice(&self.id.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.fragment.to_be_bytes());
        bytes[12..16].copy_from_slice(&[10, 0, 0, self.hosts[0]]);
        bytes[16..20].copy_from_slice(&[10, 0, 0, self.hosts[1]]);
        bytes[20..][..self.ip_options.len()].copy_from_slice(&self.ip_options);
        let mut ip = ipv4::Ipv4::new_unchecked(&mut bytes[..]);
        ip.set_total_len((len + message.len()) as u16);
        ip.fill_checksum();
        bytes
    }

    fn v6_header(&self, message: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; ipv6::HEADER_LEN];
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&(message.len() as u16).to_be_bytes());
        (bytes[6], bytes[7]) = (self.protocol, self.ttl);
        for (at, host) in [(8, self.hosts[0]), (24, self.hosts[1])] {
            bytes[at..at + 4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
            bytes[at + 15] = host;
        }
        bytes
    }

    fn tcp_segment(&self) -> Vec<u8> {
        let header_len = tcp::HEADER_LEN + self.tcp_options.len().next_multiple_of(4);
        let mut bytes = vec![0; header_len];
        bytes[tcp::HEADER_LEN..][..self.tcp_options.len()].copy_from_slice(&self.tcp_options);
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
        segment.fill_checksum(self.pseudo_header(len));
        if self.is_corrupt {
            segment.set_urgent(self.urgent ^ 0x5555);
        }
        bytes
    }

    fn pseudo_header(&self, len: u16) -> u32 {
        if self.is_v6 {
            let [src, dst] =
                self.hosts.map(|host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(host)));
            return checksum::pseudo_v6(src, dst, self.protocol, u32::from(len));
        }
        let [src, dst] = self.hosts.map(|host| Ipv4Addr::new(10, 0, 0, host));
        checksum::pseudo_v4(src, dst, self.protocol, len)
    }

    fn udp_datagram(&self) -> Vec<u8> {
        let len = (udp::HEADER_LEN + self.payload.len()) as u16;
        let [src, dst] = self.ports.map(u16::to_be_bytes);
        [&src[..], &dst, &len.to_be_bytes(), &[0, 0], &self.payload].concat()
    }

    fn icmp_message(&self) -> Vec<u8> {
        let mut bytes = vec![0; icmpv4::HEADER_LEN];
        bytes[..2].copy_from_slice(&self.icmp[..2]);
        bytes[4..8].copy_from_slice(&self.icmp[2..]);
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

/// A TCP connection: makes its frames one after another.
#[derive(Clone, Debug)]
pub(super) struct Talk {
    like: Frame,
    /// The next sequence number of client and server.
    pub(super) next: [u32; 2],
    pub(super) frames: Vec<Frame>,
}

impl Talk {
    /// Between the ports of `like`, and over its version of IP; the handshake is over.
    pub(super) fn new(like: &Frame) -> Self {
        let like = Frame { protocol: ip_protocol::TCP, payload: Vec::new(), ..like.clone() };
        let mut talk = Self { like, next: [1000, u32::MAX - 3], frames: Vec::new() };
        talk.send(0, SYN, b"");
        talk.next[0] += 1;
        talk.send(1, SYN | ACK, b"");
        talk.next[1] += 1;
        talk.send(0, ACK, b"");
        talk
    }

    /// The next segment of an end, 0 the client.
    pub(super) fn send(&mut self, end: usize, flags: u16, data: &[u8]) {
        let frame = self.segment(end, flags, 0, data);
        self.next[end] = self.next[end].wrapping_add(data.len() as u32);
        self.frames.push(frame);
    }

    pub(super) fn client(&mut self, data: &[u8]) {
        self.send(0, ACK, data);
    }

    pub(super) fn server(&mut self, data: &[u8]) {
        self.send(1, ACK, data);
    }

    /// A segment `ahead` bytes from where the end is, which doesn't change that.
    pub(super) fn segment(&self, end: usize, flags: u16, ahead: i32, data: &[u8]) -> Frame {
        let seq = self.next[end].wrapping_add(ahead as u32);
        let ack = if flags & ACK != 0 { self.next[1 - end] } else { 0 };
        let own = Frame { seq, ack, flags, payload: data.to_vec(), ..self.like.clone() };
        if end == 0 { own } else { own.back() }
    }
}
