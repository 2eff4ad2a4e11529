//! Options on headers (manual, "Header Keywords"), protocols, addresses and ports: a rule, frames,
//! and the indices of those it alerts on.

use warpline_packet::wire::ip_protocol;

use super::frames::{ACK, FIN, Frame, RST, SYN};
use super::run::{run, run_bytes};

/// A rule without `alert` and `sid`, its frames, and the places of those that raise an alert.
type Case = (&'static str, Vec<Frame>, &'static [usize]);

/// Each rule with its own frames; all are packets of their own flows, one after another.
fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for (rule, frames, expected) in cases {
        let text = rule.replace(')', " sid:7;)");
        let alerts = run(&format!("alert {text}\n"), "", frames).alerts;
        let places: Vec<usize> = alerts.iter().map(|reported| reported.0).collect();
        if places != *expected {
            wrong.push(format!("{rule}: {places:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `value` given to some field of a datagram, each from a port of its own.
fn with<T: Copy>(values: &[T], set: impl Fn(&mut Frame, T)) -> Vec<Frame> {
    let make = |(at, value): (usize, &T)| {
        let mut frame = Frame::udp(b"data").ports([2000 + at as u16, 53]);
        set(&mut frame, *value);
        frame
    };
    values.iter().enumerate().map(make).collect()
}

fn flags(flags: &[u16]) -> Vec<Frame> {
    flags
        .iter()
        .zip(2000..)
        .map(|(flags, port)| Frame::tcp(*flags, b"").ports([port, 80]))
        .collect()
}

fn icmp(messages: &[[u8; 6]]) -> Vec<Frame> {
    messages.iter().map(|icmp| Frame { icmp: *icmp, ..Frame::icmp(0, 0, b"data") }).collect()
}

#[test]
fn ip_headers() {
    let ttls = || with(&[9, 10, 11, 64], |frame, ttl| frame.ttl = ttl);
    let v6 = || ttls().into_iter().map(Frame::v6).collect::<Vec<_>>();
    let ids = || with(&[0, 1, 0x1234], |frame, id| frame.id = id);
    let bits = || with(&[0, 0x4000, 0x8000, 0xc000], |frame, bits| frame.fragment = bits);
    let options: [&[u8]; 4] = [&[], &[7, 3, 4, 0], &[148, 4, 0, 0], &[1, 1, 1, 1]];
    let options = || with(&options, |frame, options| frame.ip_options = options.to_vec());
    let same = || with(&[[1, 2], [3, 3]], |frame, hosts| frame.hosts = hosts);
    check(&[
        ("ip any any -> any any (ttl:10;)", ttls(), &[1]),
        ("ip any any -> any any (ttl:<10;)", ttls(), &[0]),
        ("ip any any -> any any (ttl:>10;)", ttls(), &[2, 3]),
        ("ip any any -> any any (ttl:10-12;)", ttls(), &[2]),
        ("ip any any -> any any (ttl:>=11;)", v6(), &[2, 3]),
        ("ip any any -> any any (tos:!0;)", with(&[0, 8], |f, tos| f.tos = tos), &[1]),
        ("ip any any -> any any (id:1;)", ids(), &[1]),
        ("ip any any -> any any (id:0x1234;)", ids(), &[2]),
        ("ip any any -> any any (fragbits:D;)", bits(), &[1]),
        ("ip any any -> any any (fragbits:+D;)", bits(), &[3]),
        ("ip any any -> any any (fragbits:*RD;)", bits(), &[1, 2, 3]),
        ("ip any any -> any any (fragbits:!D;)", bits(), &[0, 2]),
        ("ip any any -> any any (ipopts:rr;)", options(), &[1]),
        ("ip any any -> any any (ipopts:rtralt;)", options(), &[2]),
        ("ip any any -> any any (ipopts:nop;)", options(), &[3]),
        ("ip any any -> any any (sameip;)", same(), &[1]),
        ("ip any any -> any any (ip_proto:17;)", ids(), &[0, 1, 2]),
        ("ip any any -> any any (ip_proto:!17;)", ids(), &[]),
        ("ip any any -> any any (ip_proto:<18; ip_proto:!6;)", ids(), &[0, 1, 2]),
        ("ip any any -> any any (ip_proto:PIM;)", vec![Frame::new(103, b"abc")], &[0]),
    ]);
}

#[test]
fn tcp_headers() {
    let all = || flags(&[SYN, SYN | ACK, ACK, FIN | ACK, RST, SYN | FIN]);
    let set = |set: fn(&mut Frame, u32)| {
        let mut frames = flags(&[SYN, SYN, SYN]);
        frames.iter_mut().zip([0, 1000, 50_000]).for_each(|(frame, value)| set(frame, value));
        frames
    };
    let mss = || {
        let options = [&[2u8, 4, 5, 0xb4][..], &[2, 4, 2, 0], &[]];
        let mut frames = flags(&[SYN, SYN, SYN]);
        frames.iter_mut().zip(options).for_each(|(f, options)| f.tcp_options = options.to_vec());
        frames
    };
    check(&[
        ("tcp any any -> any any (flags:S;)", all(), &[0]),
        ("tcp any any -> any any (flags:S+;)", all(), &[0, 1, 5]),
        ("tcp any any -> any any (flags:*FR;)", all(), &[3, 4, 5]),
        ("tcp any any -> any any (flags:!S;)", all(), &[2, 3, 4]),
        ("tcp any any -> any any (flags:S,A;)", all(), &[0, 1]),
        ("tcp any any -> any any (tcp.flags:SA;)", all(), &[1]),
        ("tcp any any -> any any (flags:*SF;)", all(), &[0, 1, 3, 5]),
        ("tcp any any -> any any (flags:*S;)", all(), &[0, 1, 5]),
        ("tcp any any -> any 80 (flags:SF+;)", all(), &[5]),
        ("tcp any any -> any [22,80] (flags:SA,R;)", all(), &[1]),
        ("tcp any any -> any 81 (flags:S+;)", all(), &[]),
        ("tcp any any -> any any (seq:1000;)", set(|f, value| f.seq = value), &[1]),
        ("tcp any any -> any any (ack:1000;)", set(|f, value| f.ack = value), &[1]),
        ("tcp any any -> any any (window:50000;)", set(|f, value| f.window = value as u16), &[2]),
        ("tcp any any -> any any (window:!0;)", set(|f, value| f.window = value as u16), &[1, 2]),
        ("tcp any any -> any any (tcp.mss:<600;)", mss(), &[1]),
        ("tcp any any -> any any (tcp.mss:500-1460;)", mss(), &[1]),
    ]);
}

#[test]
fn icmp_headers() {
    let all =
        || icmp(&[[8, 0, 0, 7, 0, 1], [0, 0, 0, 7, 0, 2], [3, 1, 0, 0, 0, 0], [3, 3, 0, 0, 0, 0]]);
    let v6 =
        || icmp(&[[128, 0, 0, 7, 0, 1], [1, 4, 0, 0, 0, 0]]).into_iter().map(Frame::v6).collect();
    check(&[
        ("icmp any any -> any any (itype:8;)", all(), &[0]),
        ("icmp any any -> any any (itype:>0;)", all(), &[0, 2, 3]),
        ("icmp any any -> any any (itype:2<>9;)", all(), &[0, 2, 3]),
        ("icmp any any -> any any (itype:3; icode:3;)", all(), &[3]),
        ("icmp any any -> any any (icode:>0;)", all(), &[2, 3]),
        ("icmp any any -> any any (icmp_id:7;)", all(), &[0, 1]),
        ("icmp any any -> any any (icmp_seq:2;)", all(), &[1]),
        ("icmp any any -> any any (itype:128;)", v6(), &[0]),
        ("icmpv6 any any -> any any (icode:4;)", v6(), &[1]),
        ("icmpv6 any any -> any any (itype:>=0;)", all(), &[]),
        ("icmp any any -> any any (content:\"ata\"; offset:1; depth:3;)", all(), &[0, 1, 2, 3]),
    ]);
}

#[test]
fn protocols_addresses_and_ports() {
    let four = || {
        vec![Frame::udp(b"x"), Frame::tcp(SYN, b""), Frame::icmp(8, 0, b"x"), Frame::udp(b"x").v6()]
    };
    let ports = || with(&[[1000, 80], [1001, 81], [80, 1002]], |frame, ports| frame.ports = ports);
    check(&[
        ("ip any any -> any any (ttl:64;)", four(), &[0, 1, 2, 3]),
        ("ipv4 any any -> any any (ttl:64;)", four(), &[0, 1, 2]),
        ("ip6 any any -> any any (ttl:64;)", four(), &[3]),
        ("udp any any -> any any (ttl:64;)", four(), &[0, 3]),
        ("tcp any any -> any any (ttl:64;)", four(), &[1]),
        ("icmp any any -> any any (ttl:64;)", four(), &[2]),
        ("pkthdr any any -> any any (ttl:64;)", four(), &[0, 1, 2, 3]),
        ("udp 10.0.0.1 any -> 10.0.0.2 any (ttl:64;)", four(), &[0]),
        ("udp 10.0.0.2 any -> 10.0.0.1 any (ttl:64;)", four(), &[]),
        ("udp 10.0.0.2 any <> 10.0.0.1 any (ttl:64;)", four(), &[0]),
        ("udp ![10.0.0.0/8,192.168.0.1] any -> any any (ttl:64;)", four(), &[]),
        ("udp [10.0.0.0/24,!10.0.0.1] any -> any any (ttl:64;)", four(), &[]),
        ("udp 2001:db8::/32 any -> any any (ttl:64;)", four(), &[3]),
        ("udp any any -> any 80 (content:\"data\";)", ports(), &[0]),
        ("udp any any -> any [80:81] (content:\"data\";)", ports(), &[0, 1]),
        ("udp any any -> any !80 (content:\"data\";)", ports(), &[1, 2]),
        ("udp any any -> any [81:,!1002] (content:\"data\";)", ports(), &[1]),
        ("udp any any <> any 80 (content:\"data\";)", ports(), &[0, 2]),
        ("udp any any -> any 80 (ttl:64;)", ports(), &[0]),
        ("udp any any <> any 80 (ttl:64;)", ports(), &[0, 2]),
        ("udp any 1000:1001 -> any any (ttl:64;)", ports(), &[0, 1]),
        ("udp any [80,1001] -> any [79:81,1002] (ttl:64;)", ports(), &[1, 2]),
        ("udp any any -> any !80 (ttl:64;)", ports(), &[1, 2]),
        ("tcp any any -> any 80 (ttl:64;)", ports(), &[]),
        ("udp 10.0.0.1 any -> any 80 (ttl:64;)", ports(), &[0]),
    ]);
}

#[test]
fn lying_headers() {
    let mut cut = Frame::tcp(SYN, b"").bytes();
    cut.truncate(14 + 20 + 6);
    cut[14 + 3] = 26;
    let mut bad_version = Frame::udp(b"abc").bytes();
    bad_version[14] = 0x35;
    let rules = "alert ip any any -> 10.0.0.2 any (sid:1;)\n\
                 alert pkthdr any any -> any any (sid:2;)\n\
                 alert tcp any any -> any 80 (flags:S; sid:3;)\n\
                 alert ip any any -> any any (content:\"abc\"; sid:4;)\n";
    let ran = run_bytes(rules, "", &[cut, bad_version], &[None; 2]);
    assert_eq!(ran.alerts, [(0, 1), (0, 2), (1, 2)]);
}

#[test]
fn protocols_without_ports() {
    let frame = Frame::new(ip_protocol::ESP, &[0, 0, 1, 0, 0, 0, 0, 1, 2, 3]);
    let rules = "alert ip any any -> any any (ip_proto:50; sid:1;)\n\
                 alert ip any 80 -> any any (ip_proto:50; sid:2;)\n";
    assert_eq!(run(rules, "", &[frame]).alerts, [(0, 1)]);
}
