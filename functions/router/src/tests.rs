//! The router as packets meet it: frames written by hand, checksums summed anew.

use std::fs;
use std::path::{Path, PathBuf};

use warpline_packet::wire::Malformed;
use warpline_packet::{Instant, LinkType, Verdict};

use super::fib::reason;
use super::*;
use warpline_verify::{Carried, Harness, Input, Outcome, build as build_function, try_build};

pub(super) const ROUTES: &str = "10.0.0.0/8 192.0.2.1\n10.1.0.0/16 192.0.2.2\n\
    10.1.2.3/32 192.0.2.3\n\
    192.0.2.0/24 direct\nblackhole 10.66.0.0/16\nunreachable 10.67.0.0/16\nprohibit 10.68.0.0/16\n\
    2001:db8::/32 2001:db8:ffff::1\n2001:db8:1::/48 192.0.2.2\nprohibit 2001:db8:68::/48\n";
const NEIGHBOURS: &str = "192.0.2.1 02:00:00:00:00:11\n192.0.2.2 02:00:00:00:00:12\n\
    192.0.2.77 02:00:00:00:00:77\n2001:db8:ffff::1 02:00:00:00:00:61\n";
const REWRITE: &str =
    "routes = \"routes\"\nneighbours = \"neighbours\"\nmac = \"02:00:00:00:00:01\"\n";

/// A folder of its own for the files of a test.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path =
            std::env::temp_dir().join(format!("warpline-router-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        for (file, text) in files {
            fs::write(path.join(file), text).unwrap();
        }
        Self(path)
    }

    pub(super) fn harness(&self, table: &str) -> Harness {
        let (function, words) = build_function(&DEFINITION, table, &self.0);
        Harness::new(function, words)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn router(name: &str, table: &str) -> (Folder, Harness) {
    let folder = Folder::new(name, &[("routes", ROUTES), ("neighbours", NEIGHBOURS)]);
    let harness = folder.harness(table);
    (folder, harness)
}

/// The ones'-complement sum of big-endian words, each carry taken round at once.
fn sum(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0, |total: u16, word| {
        let word = u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]);
        let (next, carry) = total.overflowing_add(word);
        next + u16::from(carry)
    })
}

fn udp(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; 8 + len];
    bytes[..4].copy_from_slice(&[0x04, 0xd2, 0, 53]);
    bytes[4..6].copy_from_slice(&(8 + len as u16).to_be_bytes());
    bytes
}

/// An IPv4 packet with `options` (a multiple of 4 bytes) and a right checksum.
fn ipv4(dst: [u8; 4], ttl: u8, protocol: u8, options: &[u8], body: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut bytes = vec![0x40 | (header_len / 4) as u8, 0];
    bytes.extend(((header_len + body.len()) as u16).to_be_bytes());
    bytes.extend([0x12, 0x34, 0, 0, ttl, protocol, 0, 0, 198, 51, 100, 7]);
    bytes.extend(dst);
    bytes.extend(options);
    let checksum = !sum(&bytes);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn ipv6(dst: [u16; 8], hop_limit: u8, next: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend([next, hop_limit]);
    for word in [0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, 7].iter().chain(&dst) {
        bytes.extend(u16::to_be_bytes(*word));
    }
    bytes.extend(body);
    bytes
}

const HOST_DST: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST_SRC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn ethernet(tags: &[u8], kind: u16, packet: &[u8]) -> Vec<u8> {
    [&HOST_DST[..], &HOST_SRC, tags, &kind.to_be_bytes(), packet].concat()
}

pub(super) fn v4(dst: [u8; 4], ttl: u8) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4(dst, ttl, 17, &[], &udp(18)))
}

pub(super) fn v6(dst: [u16; 8], hop_limit: u8) -> Vec<u8> {
    ethernet(&[], 0x86dd, &ipv6(dst, hop_limit, 17, &udp(18)))
}

fn one(harness: &mut Harness, bytes: &[u8]) -> Outcome {
    let mut out = harness.process(&[Input::at(0, bytes)]);
    assert_eq!(out.len(), 1);
    out.remove(0)
}

pub(super) fn dropped(harness: &mut Harness, bytes: &[u8]) -> &'static str {
    let out = one(harness, bytes);
    assert_eq!(out.verdict, Verdict::Dropped);
    assert_eq!((out.next_hop, &out.bytes[..]), (0, bytes), "a dropped packet is left as it was");
    DEFINITION.drops[usize::from(out.reason)]
}

/// The frame that ought to come out: TTL at `ttl_at` less one, checksum summed anew, addresses.
fn expected(bytes: &[u8], l3: usize, header_len: usize, dst_mac: Option<u8>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let v4 = bytes[l3] >> 4 == 4;
    bytes[l3 + if v4 { 8 } else { 7 }] -= 1;
    if v4 {
        bytes[l3 + 10..l3 + 12].fill(0);
        let checksum = !sum(&bytes[l3..l3 + header_len]);
        bytes[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_be_bytes());
    }
    if let Some(last) = dst_mac {
        bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, last, 2, 0, 0, 0, 0, 1]);
    }
    bytes
}

#[test]
fn the_definition_holds_together() {
    assert_eq!(DROPS[usize::from(reason::NO_ROUTE.0)], "no-route");
    assert_eq!(DROPS[usize::from(reason::TTL_EXCEEDED.0)], "ttl-exceeded");
    assert_eq!(DROPS[usize::from(reason::NON_IP.0)], "non-ip");
    assert_eq!(DROPS[usize::from(reason::SNAPPED.0)], "snapped");
    assert_eq!(DROPS[usize::from(reason::BLACKHOLE.0)], "blackhole");
    assert_eq!(DROPS[usize::from(reason::UNREACHABLE.0)], "unreachable");
    assert_eq!(DROPS[usize::from(reason::PROHIBITED.0)], "prohibited");
    assert_eq!(DROPS[usize::from(reason::NO_NEIGHBOUR.0)], "no-neighbour");
    assert_eq!(DROPS[usize::from(reason::UNSUPPORTED_ROUTE.0)], "unsupported-route");
    assert_eq!(DROPS[usize::from(reason::MARTIAN_SOURCE.0)], "martian-source");
    assert_eq!(DROPS[usize::from(reason::MARTIAN_DESTINATION.0)], "martian-destination");
    assert_eq!(DROPS[usize::from(reason::MULTICAST.0)], "multicast");
    assert_eq!(DROPS[usize::from(reason::FRAME_TO_MANY.0)], "link-broadcast");
    assert_eq!(DROPS[usize::from(reason::BAD_CHECKSUM.0)], "bad-checksum");
    assert_eq!(DROPS[usize::from(reason::BAD_OPTIONS.0)], "bad-options");
    assert_eq!(DROPS[usize::from(reason::SOURCE_ROUTE.0)], "source-route");
    assert_eq!(DROPS[usize::from(reason::DIRECTED_BROADCAST.0)], "directed-broadcast");
    for name in DROPS.iter().copied().chain(config::KEYS.iter().map(|key| key.name)) {
        assert!(DEFINITION.manual.contains(&format!("`{name}`")), "the manual lacks {name}");
    }
}

#[test]
fn packets_go_to_the_longest_match() {
    let (_folder, mut harness) = router("longest", "routes = \"routes\"");
    let cases = [
        (v4([10, 9, 9, 9], 64), 1),
        (v4([10, 1, 9, 9], 2), 2),
        (v4([10, 1, 2, 3], 255), 3),
        (v4([192, 0, 2, 9], 64), 4),
        (v6([0x2001, 0xdb8, 9, 0, 0, 0, 0, 1], 64), 8),
        (v6([0x2001, 0xdb8, 1, 0, 0, 0, 0, 1], 2), 2),
    ];
    for (bytes, hop) in cases {
        let out = one(&mut harness, &bytes);
        assert_eq!((out.verdict, out.next_hop), (Verdict::Forward, hop));
        assert_eq!(out.bytes, expected(&bytes, 14, 20, None));
    }
}

#[test]
fn every_ttl_and_checksum_comes_out_right() {
    let (_folder, mut harness) = router("checksums", "routes = \"routes\"");
    let inputs: Vec<Input> = (0..1000u16)
        .map(|i| v4([10, (i >> 8) as u8, i as u8, i as u8 ^ 0x5a], 2 + (i % 254) as u8))
        .map(|bytes| Input::at(0, &bytes))
        .collect();
    for (out, input) in harness.process(&inputs).iter().zip(&inputs) {
        assert_eq!(sum(&out.bytes[14..34]), 0xffff);
        assert_eq!(out.bytes, expected(&input.bytes, 14, 20, None));
    }
}

#[test]
fn ethernet_addresses_are_rewritten() {
    let (_folder, mut harness) = router("rewrite", REWRITE);
    let tags = [0x88, 0xa8, 0, 7, 0x81, 0, 0x20, 9];
    let options = [7, 3, 4, 0];
    let extension = [17, 0, 1, 4, 0, 0, 0, 0];
    let udp_v6 = [&extension[..], &udp(18)].concat();
    let dst = [0x2001, 0xdb8, 9, 0, 0, 0, 0, 1];
    let cases = [
        (v4([10, 9, 9, 9], 64), 14, 20, 0x11),
        (v4([192, 0, 2, 77], 64), 14, 20, 0x77),
        (ethernet(&tags, 0x0800, &ipv4([10, 1, 0, 1], 9, 17, &[], &udp(9))), 22, 20, 0x12),
        (ethernet(&[], 0x0800, &ipv4([10, 1, 0, 1], 9, 17, &options, &udp(9))), 14, 24, 0x12),
        (ethernet(&[], 0x86dd, &ipv6(dst, 9, 60, &udp_v6)), 14, 40, 0x61),
        (v6([0x2001, 0xdb8, 1, 0, 0, 0, 0, 1], 64), 14, 40, 0x12),
    ];
    for (bytes, l3, header_len, mac) in cases {
        let out = one(&mut harness, &bytes);
        assert_eq!(out.verdict, Verdict::Forward);
        assert_eq!(out.bytes, expected(&bytes, l3, header_len, Some(mac)));
    }
    assert_eq!(dropped(&mut harness, &v4([10, 1, 2, 3], 64)), "no-neighbour");
    assert_eq!(dropped(&mut harness, &v4([192, 0, 2, 78], 64)), "no-neighbour");
}

#[test]
fn links_without_ethernet_addresses_are_routed() {
    let (_folder, mut harness) = router("links", REWRITE);
    let packet = ipv4([10, 9, 9, 9], 64, 17, &[], &udp(18));
    let mut cooked = vec![0; 14];
    cooked.extend([8, 0]);
    cooked.extend(&packet);
    for (link, l3, bytes) in [(LinkType::RAW, 0, packet), (LinkType::LINUX_SLL, 16, cooked)] {
        let input = Input { link, ..Input::at(0, &bytes) };
        let out = harness.process(&[input]).remove(0);
        assert_eq!((out.verdict, out.next_hop), (Verdict::Forward, 1));
        assert_eq!(out.bytes, expected(&bytes, l3, 20, None));
    }
}

#[test]
fn drops_are_named() {
    let (_folder, mut harness) = router("drops", "routes = \"routes\"");
    let cases = [
        (v4([11, 0, 0, 1], 64), "no-route"),
        (v4([11, 0, 0, 1], 1), "no-route"),
        (v6([0x2002, 0, 0, 0, 0, 0, 0, 1], 64), "no-route"),
        (v4([10, 0, 0, 1], 1), "ttl-exceeded"),
        (v4([10, 0, 0, 1], 0), "ttl-exceeded"),
        (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 1), "ttl-exceeded"),
        (v4([10, 66, 0, 1], 64), "blackhole"),
        (v4([10, 67, 0, 1], 64), "unreachable"),
        (v4([10, 68, 0, 1], 64), "prohibited"),
        (v6([0x2001, 0xdb8, 0x68, 0, 0, 0, 0, 1], 64), "prohibited"),
        (ethernet(&[], 0x0806, &[0; 46]), "non-ip"),
    ];
    for (bytes, name) in cases {
        assert_eq!(dropped(&mut harness, &bytes), name);
    }
}

#[test]
fn malformed_and_cut_packets() {
    let (_folder, mut harness) = router("malformed", "routes = \"routes\"");
    let mut lying = v4([10, 0, 0, 1], 64);
    lying[14] = 0x44;
    let out = one(&mut harness, &lying);
    assert_eq!((out.verdict, out.reason), (Verdict::Malformed, Malformed::Ipv4HeaderLen as u8));

    let whole = v4([10, 0, 0, 1], 64);
    for len in 14..whole.len() {
        let cut = Input { wire_len: whole.len() as u32, ..Input::at(0, &whole[..len]) };
        let out = harness.process(&[cut]).remove(0);
        if len < 34 {
            assert_eq!(
                (out.verdict, DROPS[usize::from(out.reason)]),
                (Verdict::Dropped, "snapped")
            );
        } else {
            assert_eq!(out.verdict, Verdict::Forward);
            assert_eq!(out.bytes, expected(&whole[..len], 14, 20, None));
        }
    }
    // A packet with an EtherType other than IP counts as non-IP however early it was cut.
    let arp = ethernet(&[], 0x0806, &[0; 46]);
    for len in 0..arp.len() {
        let cut = Input { wire_len: arp.len() as u32, ..Input::at(0, &arp[..len]) };
        let out = harness.process(&[cut]).remove(0);
        assert_eq!(DROPS[usize::from(out.reason)], if len < 14 { "snapped" } else { "non-ip" });
    }
}

const ICMP: &str =
    "icmp = \"on\"\nicmp_src_v4 = \"192.0.2.254\"\nicmp_src_v6 = \"2001:db8::254\"\n";

/// Two packets come out: the dropped cause, and the error, whose bytes are given.
fn error(harness: &mut Harness, bytes: &[u8]) -> Vec<u8> {
    let mut out = harness.process(&[Input::at(0, bytes)]);
    assert_eq!(out.len(), 2);
    assert_eq!(out[0].verdict, Verdict::Dropped);
    let made = out.remove(1);
    assert!(made.made);
    assert_eq!((made.verdict, made.ingress), (Verdict::Return, out[0].ingress));
    made.bytes
}

#[test]
fn icmp_errors_are_sent_back() {
    let (_folder, mut harness) = router("icmp", &format!("routes = \"routes\"\n{ICMP}"));
    let tag = [0x81, 0, 0, 9];
    let cases = [
        ([10, 0, 0, 1], 1, [11, 0]),
        ([11, 0, 0, 1], 64, [3, 0]),
        ([10, 67, 0, 1], 64, [3, 1]),
        ([10, 68, 0, 1], 64, [3, 13]),
    ];
    for (dst, ttl, type_code) in cases {
        let packet = ipv4(dst, ttl, 17, &[], &udp(18));
        let made = error(&mut harness, &ethernet(&tag, 0x0800, &packet));
        let link = [&HOST_SRC[..], &HOST_DST, &tag, &[8, 0]].concat();
        assert_eq!(made[..18], link);
        let ip = &made[18..];
        assert_eq!((ip[0], ip[9], &ip[12..20]), (0x45, 1, &[192, 0, 2, 254, 198, 51, 100, 7][..]));
        assert_eq!(usize::from(ip[2]) << 8 | usize::from(ip[3]), ip.len());
        assert_eq!((sum(&ip[..20]), sum(&ip[20..])), (0xffff, 0xffff));
        assert_eq!((&ip[20..22], &ip[28..]), (&type_code[..], &packet[..]));
    }
    let cases = [
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 1, [3, 0]),
        ([0x2002, 0, 0, 0, 0, 0, 0, 1], 64, [1, 0]),
        ([0x2001, 0xdb8, 0x68, 0, 0, 0, 0, 1], 64, [1, 1]),
    ];
    for (dst, hop_limit, type_code) in cases {
        let packet = ipv6(dst, hop_limit, 17, &udp(18));
        let made = error(&mut harness, &ethernet(&[], 0x86dd, &packet));
        let ip = &made[14..];
        let body_len = usize::from(ip[4]) << 8 | usize::from(ip[5]);
        assert_eq!((ip[0], ip[6], body_len), (0x60, 58, ip.len() - 40));
        assert_eq!((&ip[38..40], &ip[24..40]), (&[0, 7][..], &packet[8..24]));
        let pseudo = [&ip[8..40], &(body_len as u32).to_be_bytes(), &[0, 0, 0, 58], &ip[40..]];
        assert_eq!(sum(&pseudo.concat()), 0xffff);
        assert_eq!((&ip[40..42], &ip[48..]), (&type_code[..], &packet[..]));
    }
    assert_eq!((harness.counter("icmp-sent"), harness.counter("icmp-withheld")), (7, 0));
}

#[test]
fn some_drops_are_never_answered() {
    let (_folder, mut harness) = router("silent", &format!("routes = \"routes\"\n{ICMP}"));
    let time_exceeded = [&[11, 0, 0, 0, 0, 0, 0, 0][..], &[0; 28]].concat();
    let mut broadcast = v4([11, 0, 0, 1], 64);
    broadcast[..6].fill(0xff);
    let mut fragment = v4([11, 0, 0, 1], 64);
    fragment[21] = 9;
    let cases = [
        v4([10, 66, 0, 1], 64),
        v4([239, 0, 0, 1], 64),
        ethernet(&[], 0x0806, &[0; 46]),
        ethernet(&[], 0x0800, &ipv4([11, 0, 0, 1], 64, 1, &[], &time_exceeded)),
        broadcast,
        fragment,
    ];
    for bytes in cases {
        assert_eq!(one(&mut harness, &bytes).verdict, Verdict::Dropped);
    }
    let whole = v4([11, 0, 0, 1], 64);
    let cut = Input { wire_len: whole.len() as u32, ..Input::at(0, &whole[..40]) };
    assert_eq!(harness.process(&[cut]).len(), 1);
    assert_eq!((harness.counter("icmp-sent"), harness.counter("icmp-withheld")), (0, 2));
}

#[test]
fn icmp_errors_are_limited_in_packet_time() {
    let table = format!("routes = \"routes\"\n{ICMP}icmp_rate_pps = 4\n");
    let (_folder, mut harness) = router("limited", &table);
    let bytes = v4([11, 0, 0, 1], 64);
    let mut sent = |millis: u64, packets: usize| {
        let inputs = vec![Input::at(millis * 1_000_000, &bytes); packets];
        harness.process(&inputs).len() - packets
    };
    // A flow is one shard's: 4 at once, then one every 250 ms, and never more than 4 saved up.
    assert_eq!(sent(10_000, 10), 4);
    assert_eq!(sent(10_249, 10), 0);
    assert_eq!(sent(10_250, 10), 1);
    assert_eq!(sent(10_800, 10), 2);
    assert_eq!(sent(90_000, 10), 4);
    assert_eq!(sent(90_000, 10), 0);
    assert_eq!(harness.counter("icmp-sent"), 11);
    assert_eq!(harness.counter("icmp-rate-limited"), 49);
}

#[test]
fn packets_settled_before_are_left_alone() {
    let (folder, mut harness) = router("settled", "routes = \"routes\"");
    let inputs = vec![Input::at(0, &v4([10, 0, 0, 1], 64)); 130];
    let (function, _) = build_function(&DEFINITION, "routes = \"routes\"", &folder.0);
    let batch = harness.fill(&inputs);
    (0..130).step_by(3).for_each(|row| batch.packet_mut(row).drop(Reason(9)));
    function.run(batch);
    for row in 0..130 {
        let (packet, settled) = (batch.packet(row), row % 3 == 0);
        let verdict = if settled { Verdict::Dropped } else { Verdict::Forward };
        assert_eq!((packet.verdict(), packet.ttl()), (verdict, if settled { 64 } else { 63 }));
    }
}

#[test]
fn every_mistake_of_the_table_is_reported() {
    let files = [("routes", "10.0.0.1/8 x\n10.0.0.0/8\n"), ("n", "192.0.2.1 02:00\n")];
    let folder = Folder::new("mistakes", &files);
    let reported = |table: &str| -> Vec<String> {
        let Err(mistakes) = try_build(&DEFINITION, table, Path::new(&folder.0)) else {
            panic!("built from {table}")
        };
        mistakes
            .iter()
            .map(|d| format!("{}:{}:{} {}", d.file, d.line, d.column, d.message))
            .collect()
    };
    assert_eq!(
        reported(
            "routes = \"routes\"\nneighbours = \"n\"\nicmp = \"on\"\nicmp_src_v6 = \"192.0.2.1\"\n\
             x = 1\n"
        ),
        [
            "chain.toml:5:1 [router] has no key `x`",
            "chain.toml:2:14 `neighbours` needs `mac`: Ethernet addresses take both",
            "chain.toml:4:15 `icmp_src_v6`: \"192.0.2.1\": invalid IPv6 address syntax",
            "routes:1:1 `10.0.0.1/8`: address has bits set after the prefix length",
            "routes:2:1 10.0.0.0/8 has no next hop",
            "n:1:11 `02:00`: not an Ethernet address such as 02:00:00:00:00:01",
        ]
    );
    assert_eq!(reported("")[0], "chain.toml:1:1 [router] needs `routes`: the route file");
    assert!(reported("routes = \"none\"\nmac = \"03:00:00:00:00:01\"\nicmp = \"on\"\n").len() == 4);
}

#[test]
fn time_before_the_last_is_no_time() {
    let folder = Folder::new("time", &[("routes", ROUTES)]);
    let mut harness = folder.harness(&format!("routes = \"routes\"\n{ICMP}"));
    assert_eq!(harness.tick(Instant::from_nanos(5)).len(), 0);
    let input = Input::at(u64::MAX, &v4([11, 0, 0, 1], 64));
    assert_eq!(
        harness.process(&[input.clone(), Input { timestamp: Instant::ZERO, ..input }]).len(),
        4
    );
}

/// At the second place only packets with outer headers are routed, and no TTL changes.
#[test]
fn the_second_place_routes_packets_that_were_wrapped() {
    let folder = Folder::new("second", &[("routes", ROUTES), ("neighbours", NEIGHBOURS)]);
    let table = "routes = \"routes\"\nneighbours = \"neighbours\"\nmac = \"02:00:00:00:00:01\"\n";
    let ([first, second], words) = warpline_verify::build_pair(&DEFINITION, table, &folder.0);
    let (mut first, mut second) = (Harness::new(first, words), Harness::new(second, words));
    let none = v4([203, 0, 113, 1], 64);
    let lies = {
        let mut frame = v4([10, 1, 0, 1], 64);
        frame[14] = 0x44;
        frame
    };
    let frames = [
        v4([10, 1, 0, 1], 64),
        v4([10, 1, 0, 1], 1),
        v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 1),
        none,
        ethernet(&[], 0x0806, &[0; 46]),
        lies,
    ];
    let inputs: Vec<Input> = frames.iter().map(|frame| Input::at(0, frame)).collect();
    let of_first = first.process(&inputs);
    for wrapped in [false, true] {
        let carried = |input: &Input| Carried { is_wrapped: wrapped, ..input.clone().into() };
        let carried: Vec<Carried> = inputs.iter().map(carried).collect();
        let out = second.process_carried(&carried);
        for (at, (out, input)) in out.iter().zip(&inputs).enumerate() {
            if !wrapped {
                let passed = (out.verdict, out.next_hop, &out.bytes);
                assert_eq!(passed, (Verdict::Forward, 0, &input.bytes), "{at}");
                continue;
            }
            let of_first = &of_first[at];
            match at {
                // TTLs that end are none of its business.
                0..3 => {
                    assert_eq!(out.verdict, Verdict::Forward, "{at}");
                    assert_eq!(out.bytes[14..], input.bytes[14..], "{at}");
                    assert!(out.next_hop > 0 && out.bytes[..6] != input.bytes[..6], "{at}");
                }
                _ => {
                    let (verdict, reason) = (of_first.verdict, of_first.reason);
                    assert_eq!((out.verdict, out.reason), (verdict, reason), "{at}");
                    assert_ne!(verdict, Verdict::Forward, "{at}");
                }
            }
        }
    }
}
