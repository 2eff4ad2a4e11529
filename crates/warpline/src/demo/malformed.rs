//! Frames whose headers are cut or lie.

use warpline_packet::wire::{
    Ethernet, Ipv4, Ipv6, Malformed, Tcp, Udp, checksum, ethernet, ethertype, ipv4,
};

use super::capture::{LAST_START_US, Trace, at_us};
use super::frame::{self, Path, Segment};
use super::hosts::{self, NAME_SERVER, WEB};
use super::rng::Rng;
use super::summary::Kind;

/// Each of [`LIES`] a few times.
pub(super) fn lies(trace: &mut Trace) {
    let mut rng = Rng::stream(17);
    for _ in 0..COPIES {
        for (_, lie) in LIES {
            let from = rng.between(2, 120) as u8;
            let frame = lie(from, trace.ident());
            trace.add(at_us(rng.between(0, LAST_START_US)), Kind::Malformed, &frame);
        }
    }
}

/// A lie told by the host of a number, under an IPv4 identification.
pub(super) type Lie = fn(u8, u16) -> Vec<u8>;

/// The lies, and what each is found out as.
pub(super) const LIES: [(Malformed, Lie); 12] = [
    (Malformed::LinkTruncated, runt),
    (Malformed::VlanTruncated, cut_tag),
    (Malformed::Ipv4Version, version_5),
    (Malformed::Ipv4HeaderLen, short_ipv4_header),
    (Malformed::Ipv4TotalLen, |host, ident| with_total_len(host, ident, 900)),
    (Malformed::Ipv4TotalLen, |host, ident| with_total_len(host, ident, 12)),
    (Malformed::Ipv6Truncated, cut_ipv6),
    (Malformed::Ipv6PayloadLen, long_ipv6),
    (Malformed::TcpHeaderLen, |host, ident| with_data_offset(host, ident, 60)),
    (Malformed::TcpHeaderLen, |host, ident| with_data_offset(host, ident, 12)),
    (Malformed::UdpLength, |host, ident| with_udp_length(host, ident, 700)),
    (Malformed::UdpLength, |host, ident| with_udp_length(host, ident, 5)),
];

/// Less than an Ethernet header.
fn runt(host: u8, ident: u16) -> Vec<u8> {
    cut(datagram(host, ident), 9)
}

fn cut_tag(host: u8, ident: u16) -> Vec<u8> {
    let mut frame = cut(datagram(host, ident), ethernet::HEADER_LEN + 2);
    Ethernet::new_unchecked(&mut frame[..]).set_ethertype(ethertype::VLAN);
    frame
}

fn version_5(host: u8, ident: u16) -> Vec<u8> {
    let mut frame = datagram(host, ident);
    frame[L3] = 0x55;
    frame
}

/// A header length of 16 bytes.
fn short_ipv4_header(host: u8, ident: u16) -> Vec<u8> {
    let mut frame = datagram(host, ident);
    Ipv4::new_unchecked(&mut frame[L3..]).set_header_len(16);
    frame
}

fn with_total_len(host: u8, ident: u16, len: u16) -> Vec<u8> {
    let mut frame = datagram(host, ident);
    let mut ip = Ipv4::new_unchecked(&mut frame[L3..]);
    ip.set_total_len(len);
    ip.fill_checksum();
    frame
}

fn cut_ipv6(host: u8, _ident: u16) -> Vec<u8> {
    cut(datagram_v6(host), L3 + 27)
}

fn long_ipv6(host: u8, _ident: u16) -> Vec<u8> {
    let mut frame = datagram_v6(host);
    Ipv6::new_unchecked(&mut frame[L3..]).set_payload_len(800);
    frame
}

fn with_data_offset(host: u8, ident: u16, len: usize) -> Vec<u8> {
    let path = Path::new(hosts::internet(host), WEB);
    let header = Segment { ports: (3_000, 80), seq: 1, window: 512, ..Segment::default() };
    let mut upper = frame::segment(&path, &header, &[0x2e; 16]);
    let mut tcp = Tcp::new_unchecked(&mut upper.bytes[..]);
    let (header_len, checksum) = (tcp.header_len(), tcp.checksum());
    tcp.set_header_len(len);
    // The length is the first 4 bits of its word; everything but it is right.
    let words = (((header_len / 4) << 12) as u16, ((len / 4) << 12) as u16);
    tcp.set_checksum(checksum::update16(checksum, words.0, words.1));
    frame::whole(&path, ident, &upper)
}

fn with_udp_length(host: u8, ident: u16, len: u16) -> Vec<u8> {
    let mut frame = datagram(host, ident);
    Udp::new_unchecked(&mut frame[L4..]).set_length(len);
    frame
}

/// A good datagram, to be spoilt.
fn datagram(host: u8, ident: u16) -> Vec<u8> {
    let path = Path::new(hosts::internet_b(host), NAME_SERVER);
    frame::whole(&path, ident, &frame::datagram(&path, (3_001, 53), &[0x2e; 100]))
}

fn datagram_v6(host: u8) -> Vec<u8> {
    let path = Path::new(hosts::internet6(host.into()), hosts::inside6(0, 10));
    frame::whole(&path, 0, &frame::datagram(&path, (3_002, 53), &[0x2e; 100]))
}

fn cut(mut frame: Vec<u8>, len: usize) -> Vec<u8> {
    frame.truncate(len);
    frame
}

const COPIES: usize = 6;
const L3: usize = ethernet::HEADER_LEN;
const L4: usize = L3 + ipv4::HEADER_LEN;
