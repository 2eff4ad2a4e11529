//! Packets from or to every host. Functions read these kinds only at their own addresses.

use std::net::IpAddr;

use warpline_packet::LinkType;
use warpline_packet::wire::{ethernet, ip_protocol as ip, ipv4};

use super::Maker;
use super::build::{Packet, framed, icmp, tcp, udp, with_len, without_len};
use super::hosts::NAMED_MAX;

/// The total length of an IPv4 packet too long for any tunnel.
const LONGEST_V4: u16 = u16::MAX - 5;
/// The length of such a frame of IPv6, without the link's header.
const FRAME_LEN_V6: usize = 70_000;
/// Bytes of text that compression takes.
const TEXT_LEN: usize = 600;
/// The port of ESP in UDP (RFC 3948, 4).
const NAT_T_PORT: u16 = 4500;

impl Maker {
    /// Between each host and some other, once.
    pub(super) fn probe_each_host(&mut self, is_v6: bool) {
        let all = if is_v6 { self.choices.v6.clone() } else { self.choices.v4.clone() };
        for host in all {
            self.empty_echo(host);
            self.esp_in_pieces(host);
            self.keepalive(host);
            self.esp_behind_options(host);
        }
        let named = if is_v6 { &self.choices.named_v6 } else { &self.choices.named_v4 };
        let (named, ports) = (named.clone(), self.choices.ports.clone());
        for host in named {
            ports.iter().take(NAMED_MAX).for_each(|&port| self.long(host, port));
        }
    }

    fn to(&mut self, host: IpAddr) -> Packet {
        let mut packet = self.packet(host.is_ipv6());
        (packet.dst, packet.ttl, packet.word) = (host, 64, 0);
        packet
    }

    /// An echo of zeros alone. Its reply has one right checksum of the two zeros.
    fn empty_echo(&mut self, host: IpAddr) {
        let mut packet = self.to(host);
        (packet.src, packet.dst) = (host, packet.src);
        if packet.is_v6() {
            return;
        }
        packet.protocol = ip::ICMP;
        packet.body = icmp([8, 0], [0, 0], &[0; 16]);
        packet.finish();
        self.push(&packet);
    }

    /// ESP in two fragments. The first one has options.
    fn esp_in_pieces(&mut self, host: IpAddr) {
        let mut packet = self.to(host);
        packet.protocol = ip::ESP;
        packet.body = [&[0, 0, 0x10, 1, 0, 0, 0, 1][..], &[7; 120]].concat();
        let mut first = packet.piece(0..48);
        first.options = if packet.is_v6() { vec![ip::HOP_BY_HOP] } else { vec![1, 1, 1, 0] };
        for piece in [first, packet.piece(48..999)] {
            self.push(&piece);
        }
    }

    /// A NAT keepalive (RFC 3948, 2.3). The IP packet has more bytes after the datagram.
    fn keepalive(&mut self, host: IpAddr) {
        let mut packet = self.to(host);
        packet.protocol = ip::UDP;
        packet.body = udp([NAT_T_PORT; 2], &[0xff]);
        packet.finish();
        packet.body.extend([0; 30]);
        self.push(&packet);
    }

    /// A packet too long for any tunnel; the capture holds its beginning. With IPv6 only the frame
    /// is too long: a jumbo payload option gives the packet's shorter length.
    fn long(&mut self, host: IpAddr, port: u16) {
        let mut packet = self.to(host);
        packet.protocol = ip::TCP;
        packet.body = tcp([40_000, port], [1, 2], 0x02, 0, &[], &[0; 40]);
        if packet.is_v6() {
            packet.options = vec![ip::HOP_BY_HOP];
        }
        packet.finish();
        let (bytes, len) = match packet.is_v6() {
            true => (without_len(&packet, true), FRAME_LEN_V6),
            false => (with_len(packet.bytes(), LONGEST_V4), LONGEST_V4.into()),
        };
        let frame = framed(LinkType::ETHERNET, false, &bytes);
        self.push_cut(frame, LinkType::ETHERNET, ethernet::HEADER_LEN + len);
    }

    /// ESP after a header that only its receiver reads. Compression takes both.
    fn esp_behind_options(&mut self, host: IpAddr) {
        let mut packet = self.to(host);
        if !packet.is_v6() {
            return;
        }
        packet.options = vec![ip::DESTINATION_OPTIONS];
        packet.protocol = ip::ESP;
        packet.body = [&[0, 0, 0x10, 1, 0, 0, 0, 1][..], &[b'w'; TEXT_LEN]].concat();
        self.push(&packet);
    }
}

const _: () = assert!(LONGEST_V4 as usize + ipv4::HEADER_LEN > u16::MAX as usize);
