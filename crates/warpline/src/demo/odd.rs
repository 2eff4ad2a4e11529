//! What else is on a link: neighbours that introduce themselves, probes, forgeries, packets that
//! lead nowhere, fragments and extension headers.

use core::net::IpAddr;
use core::time::Duration;

use warpline_packet::Instant;
use warpline_packet::wire::tcp::flags;
use warpline_packet::wire::{Ipv6, ethernet, ethertype, icmpv6, ip_protocol};

use super::capture::{LAST_START_US, Trace, at_us};
use super::dns::{Question, TXT};
use super::frame::{self, Path, Segment, Upper};
use super::hosts::{self, GATEWAY, Host, NAME_SERVER, NAT, PROVIDER, SERVERS, WEB};
use super::rng::Rng;
use super::summary::Kind;
use super::udp::answer_time;

/// LLDP from the two neighbours each 4 s, and ARP for the gateway.
pub(super) fn neighbours(trace: &mut Trace) {
    for second in (0..20).step_by(4) {
        for (name, mac, late_us) in
            [("site-switch", SWITCH, 0), ("provider-edge", PROVIDER, 730_000)]
        {
            let frame = frame::framed(mac, LLDP_GROUP, ETHERTYPE_LLDP, &lldp(name, mac));
            trace.add(at_us(second * 1_000_000 + late_us), Kind::NonIp, &frame);
        }
    }
    let mut rng = Rng::stream(11);
    for number in 10..40 {
        let (asker, target) = match number % 6 {
            0 => (SERVERS[usize::from(number / 10)], [203, 0, 113, 30]),
            _ => (hosts::inside(0, number), [10, 1, 0, 1]),
        };
        let IpAddr::V4(ip) = asker.ip else { continue };
        let at = at_us(rng.between(0, LAST_START_US));
        let asked = arp(1, (asker.mac, ip.octets()), ([0; 6], target));
        trace.add(at, Kind::NonIp, &frame::framed(asker.mac, BROADCAST, ethertype::ARP, &asked));
        let answer = arp(2, (GATEWAY, target), (asker.mac, ip.octets()));
        let frame = frame::framed(GATEWAY, asker.mac, ethertype::ARP, &answer);
        trace.add(at.after(Duration::from_micros(45)), Kind::NonIp, &frame);
    }
}

/// Probes with 1, 2 and 3 hops left. Those over IPv6 that get through are answered from beyond.
pub(super) fn routes_traced(trace: &mut Trace) {
    let mut rng = Rng::stream(12);
    for index in 0..6_u8 {
        let path = match index % 3 {
            2 => Path::new(hosts::inside6(1, 30 + index), hosts::internet6(0x110)),
            _ => Path::new(hosts::inside(1, 30 + index), hosts::internet_b(160 + index)),
        };
        let start = at_us(rng.between(0, LAST_START_US - 2_000_000));
        let port = trace.port();
        for number in 0..9_u16 {
            let hops = (number / 3 + 1) as u8;
            let path = Path { from: path.from.with_hops(hops), ..path };
            let at = start.after(Duration::from_millis(u64::from(number) * 150));
            let upper = frame::datagram(&path, (port, TRACEROUTE_PORT + number), &[0x40; 32]);
            let probe = frame::whole(&path, trace.ident(), &upper);
            trace.add(at, Kind::Traceroute, &probe);
            if hops > 1 && !path.from.is_v4() {
                let at = at.after(answer_time(path.to, &mut rng));
                trace.add(at, Kind::Traceroute, &time_exceeded(&path, hops, &probe));
            }
        }
    }
}

/// One source that looks for open ports in the DMZ and finds none, and answers that others send to
/// the site's address because someone used it as theirs.
pub(super) fn scans(trace: &mut Trace) {
    let mut rng = Rng::stream(13);
    let mut at_now_us = 1_000_000;
    for port in SCANNED_TCP {
        for host in 17..=30 {
            at_now_us += rng.between(8_000, 40_000);
            let path = Path::new(SCANNER, hosts::dmz(host));
            let syn = bare(&path, (61_000, port), flags::SYN, &mut rng);
            send(trace, Kind::Scan, &path, at_us(at_now_us), &syn);
        }
    }
    for port in SCANNED_UDP {
        for host in 17..=30 {
            let at = at_us(rng.between(9_000_000, LAST_START_US));
            let path = Path::new(SCANNER, hosts::dmz(host));
            let probe = frame::datagram(&path, (61_001, port), &[]);
            send(trace, Kind::Scan, &path, at, &probe);
        }
    }
    for number in 0..36_u16 {
        let at = at_us(rng.between(0, LAST_START_US));
        let path = Path::new(hosts::internet(200 + number as u8), NAT);
        let what = if number % 4 == 0 { flags::RST } else { flags::SYN } | flags::ACK;
        // Ports below 1024, which a NAT gives to nobody.
        let upper = bare(&path, (80, 500 + number * 7), what, &mut rng);
        send(trace, Kind::Backscatter, &path, at, &upper);
    }
}

/// Inside source addresses on packets that come from outside.
pub(super) fn forgeries(trace: &mut Trace) {
    let mut rng = Rng::stream(14);
    for index in 0..80 {
        let (subnet, number) = (rng.between(0, 3) as u8, rng.between(10, 40) as u8);
        let path = match index % 4 {
            0 => Path::new(hosts::inside6(subnet, number).forged(), hosts::inside6(0, 10)),
            1 => Path::new(hosts::inside(subnet, number).forged(), NAME_SERVER),
            _ => Path::new(hosts::inside(subnet, number).forged(), WEB),
        };
        let at = at_us(rng.between(0, LAST_START_US));
        let port = trace.port();
        let upper = if index % 4 == 1 {
            frame::datagram(&path, (port, 53), &Question::any(&mut rng).query())
        } else {
            bare(&path, (port, 443), flags::SYN, &mut rng)
        };
        send(trace, Kind::Spoofed, &path, at, &upper);
    }
}

/// Inside hosts that ask for addresses to which nobody has a route.
pub(super) fn unrouted(trace: &mut Trace) {
    let mut rng = Rng::stream(15);
    for index in 0..80_u16 {
        let number = rng.between(10, 40) as u8;
        let path = if index % 4 == 0 {
            Path::new(hosts::inside6(3, number), hosts::unrouted6(index))
        } else {
            Path::new(hosts::inside(3, number), hosts::unrouted(index as u8))
        };
        let at = at_us(rng.between(0, LAST_START_US));
        let port = trace.port();
        let upper = if index % 3 == 0 {
            frame::datagram(&path, (port, UNUSED_PORT), &rng.bytes(64))
        } else {
            bare(&path, (port, 443), flags::SYN, &mut rng)
        };
        send(trace, Kind::NoRoute, &path, at, &upper);
    }
}

/// Fragments both ways, and IPv6 extension headers both ways.
pub(super) fn unusual_headers(trace: &mut Trace) {
    let mut rng = Rng::stream(16);
    for number in 0..6_u8 {
        long_answer(trace, Path::new(hosts::internet(60 + number), NAME_SERVER), &mut rng);
        let upload = Path::new(hosts::inside(2, 30 + number), hosts::internet_b(230));
        let upper = frame::datagram(&upload, (trace.port(), UNUSED_PORT), &rng.bytes(4_000));
        let at = at_us(rng.between(0, LAST_START_US));
        in_pieces(trace, &upload, at, &upper, false);
        let pings = [
            Path::new(hosts::internet_b(100 + number), SERVERS[usize::from(number % 4)]),
            Path::new(hosts::inside6(3, 20 + number), hosts::internet6(0x111)),
        ];
        for path in pings {
            long_ping(trace, &path, number.into(), &mut rng);
        }
    }
    for round in 0..3_u8 {
        for headers in EXTENSIONS {
            let path = Path::new(hosts::inside6(1, 40 + round), hosts::internet6(0x53));
            extended(trace, &path, headers, &mut rng);
        }
    }
}

/// A question for text, and an answer of about 3 kB.
fn long_answer(trace: &mut Trace, path: Path, rng: &mut Rng) {
    let question = Question { kind: TXT, ..Question::any(rng) };
    let at = at_us(rng.between(0, LAST_START_US));
    let port = trace.port();
    send(trace, Kind::Dns, &path, at, &frame::datagram(&path, (port, 53), &question.query()));
    let back = path.back();
    let answer = frame::datagram(&back, (53, port), &question.answer(12, rng));
    in_pieces(trace, &back, at.after(answer_time(path.to, rng)), &answer, false);
}

/// An echo of 3000 bytes and its reply; with an odd number, the last fragment comes first.
fn long_ping(trace: &mut Trace, path: &Path, number: u16, rng: &mut Rng) {
    let (ident, data) = (rng.bits() as u16, rng.bytes(3_000));
    let at = at_us(rng.between(0, LAST_START_US));
    let request = frame::echo(path, true, (ident, number), &data);
    in_pieces(trace, path, at, &request, number % 2 == 1);
    let back = path.back();
    let reply = frame::echo(&back, false, (ident, number), &data);
    in_pieces(trace, &back, at.after(answer_time(path.to, rng)), &reply, false);
}

fn in_pieces(trace: &mut Trace, path: &Path, at: Instant, upper: &Upper, is_reversed: bool) {
    let mut frames = frame::fragments(path, trace.ident(), upper);
    if is_reversed {
        frames.reverse();
    }
    for (number, frame) in frames.iter().enumerate() {
        trace.add(at.after(Duration::from_micros(12 * number as u64)), Kind::Fragment, frame);
    }
}

/// A ping and a name query, and the answers, all with these extension headers.
fn extended(trace: &mut Trace, path: &Path, headers: &[u8], rng: &mut Rng) {
    let (back, at) = (path.back(), at_us(rng.between(0, LAST_START_US)));
    let later = at.after(answer_time(path.to, rng));
    let (numbers, data) = ((rng.bits() as u16, 1), rng.bytes(48));
    let (question, port) = (Question::any(rng), trace.port());
    let answer = question.answer(2, rng);
    let messages = [
        (at, *path, frame::echo(path, true, numbers, &data)),
        (later, back, frame::echo(&back, false, numbers, &data)),
        (at, *path, frame::datagram(path, (port, 53), &question.query())),
        (later, back, frame::datagram(&back, (53, port), &answer)),
    ];
    for (at, path, upper) in messages {
        trace.add(at, Kind::Extension, &frame::extended(&path, headers, &upper));
    }
}

fn send(trace: &mut Trace, kind: Kind, path: &Path, at: Instant, upper: &Upper) {
    let ident = trace.ident();
    trace.add(at, kind, &frame::whole(path, ident, upper));
}

/// A segment without data, with the options and the small window of tools that make their own.
fn bare(path: &Path, ports: (u16, u16), flags: u16, rng: &mut Rng) -> Upper {
    let ack = if flags & flags::ACK != 0 { rng.bits() as u32 } else { 0 };
    let options = if flags & flags::SYN != 0 { vec![2, 4, 0x05, 0xb4] } else { Vec::new() };
    let header = Segment { ports, seq: rng.bits() as u32, ack, flags, window: 1024, options };
    frame::segment(path, &header, &[])
}

/// What the router `hops` away answers to a probe (RFC 4443, 3.3).
fn time_exceeded(path: &Path, hops: u8, probe: &[u8]) -> Vec<u8> {
    let mut quoted = probe[ethernet::HEADER_LEN..].to_vec();
    Ipv6::new_unchecked(&mut quoted[..]).set_hop_limit(1);
    let router = hosts::internet6(0xff00 + u16::from(hops)).with_hops(65 - hops);
    let back = Path::new(router, path.from);
    let upper = frame::icmpv6(&back, icmpv6::message::TIME_EXCEEDED, 0, &quoted);
    frame::whole(&back, 0, &upper)
}

/// An ARP message for IPv4 on Ethernet (RFC 826).
fn arp(operation: u8, sender: ([u8; 6], [u8; 4]), target: ([u8; 6], [u8; 4])) -> Vec<u8> {
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, operation];
    for (mac, ip) in [sender, target] {
        message.extend(mac);
        message.extend(ip);
    }
    message
}

/// A message of IEEE 802.1AB: chassis, port, time to live, system name, end.
fn lldp(name: &str, mac: [u8; 6]) -> Vec<u8> {
    let fields: [(u8, Vec<u8>); 5] = [
        (1, [&[4], &mac[..]].concat()),
        (2, b"\x05eth1".to_vec()),
        (3, vec![0, 120]),
        (5, name.as_bytes().to_vec()),
        (0, Vec::new()),
    ];
    fields
        .iter()
        .flat_map(|(kind, data)| [&[kind << 1, data.len() as u8], &data[..]].concat())
        .collect()
}

const SCANNER: Host = hosts::internet_b(140);
/// Where nothing listens, on any server.
const SCANNED_TCP: [u16; 30] = [
    21, 22, 23, 25, 110, 111, 135, 139, 143, 389, 445, 465, 587, 873, 993, 995, 1433, 1521, 2049,
    2375, 3306, 3389, 5432, 5900, 5985, 6379, 8443, 9200, 11_211, 27_017,
];
const SCANNED_UDP: [u16; 8] = [69, 111, 137, 161, 500, 1900, 5353, 11_211];
/// Extension headers, in order.
const EXTENSIONS: [&[u8]; 5] = [
    &[ip_protocol::HOP_BY_HOP],
    &[ip_protocol::DESTINATION_OPTIONS],
    &[ip_protocol::HOP_BY_HOP, ip_protocol::DESTINATION_OPTIONS],
    &[ip_protocol::FRAGMENT],
    &[ip_protocol::FRAGMENT, ip_protocol::DESTINATION_OPTIONS],
];
const TRACEROUTE_PORT: u16 = 33_434;
/// Belongs to no known service.
const UNUSED_PORT: u16 = 40_404;
const SWITCH: [u8; 6] = [2, 0, 0, 0, 0, 10];
const BROADCAST: [u8; 6] = [0xff; 6];
const LLDP_GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
const ETHERTYPE_LLDP: u16 = 0x88cc;
