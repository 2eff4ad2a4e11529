//! The kernels of `router`. Its own tests check `run` itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use warpline_device::Device;
use warpline_packet::{Field, FieldSet, Flags, Headers, LinkType};
use warpline_router::DEFINITION;
use warpline_verify::{Input, build, build_pair};

use crate::compiled::compile_for_cuda;
use crate::driver::{compare, compare_staged, devices, devices_of_case};
use crate::frames::{Random, ethernet, ipv4, ipv6, on_link, random, snapped, udp};

const ROUTES: &str = "10.0.0.0/8 192.0.2.1\n10.1.0.0/16 192.0.2.2\n10.1.2.3/32 192.0.2.3\n\
                      192.0.2.0/24 direct\n\
    blackhole 10.66.0.0/16\nunreachable 10.67.0.0/16\nprohibit 10.68.0.0/16\n0.0.0.0/8 192.0.2.1\n\
    2001:db8::/32 2001:db8:ffff::1\n2001:db8:1::/48 192.0.2.2\nprohibit 2001:db8:68::/48\n\
    blackhole 2001:db8:66::/49\n\
    2001:db8:2::1/128 2001:db8:ffff::1\n2001:db8:2::/127 2001:db8:ffff::2\n\
    unreachable 2001:db8:2:0:8000::/65\n";
const NEIGHBOURS: &str = "192.0.2.1 02:00:00:00:00:11\n192.0.2.2 06:12:34:56:78:9a\n\
    192.0.2.77 02:00:00:00:00:77\n\
    2001:db8:ffff::1 fe:dc:ba:98:76:54\n";
const MAC: &str = "neighbours = \"neighbours\"\nmac = \"02:a1:b2:c3:d4:e5\"\n";
const ICMP: &str = "icmp = \"on\"\nicmp_src_v4 = \"192.0.2.254\"\nicmp_src_v6 = \"2001:db8::fe\"\n";

/// A folder of its own for the files of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, routes: &str) -> Self {
        let path = format!("warpline-kernels-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("routes"), routes).expect("a file");
        std::fs::write(path.join("neighbours"), NEIGHBOURS).expect("a file");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn on_all_devices(name: &str, routes: &str, keys: &str, inputs: &[Input]) {
    on(&devices(), name, routes, keys, inputs);
}

fn on(devices: &[Arc<dyn Device>], name: &str, routes: &str, keys: &str, inputs: &[Input]) {
    let folder = Folder::new(name, routes);
    let table = format!("routes = \"routes\"\n{keys}");
    let (function, words) = build(&DEFINITION, &table, &folder.0);
    for device in devices {
        let tally = compare(&*function, words, inputs, &**device);
        tally.is_of(inputs, may_be_left);
    }
}

/// The second place routes the packets with outer headers, each second one in these batches.
#[test]
fn the_second_place_is_that_of_run() {
    let inputs = edges();
    let folder = Folder::new("second", ROUTES);
    for keys in [String::new(), [MAC, ICMP].concat()] {
        let table = format!("routes = \"routes\"\n{keys}");
        let ([_, second], words) = build_pair(&DEFINITION, &table, &folder.0);
        for device in devices() {
            compare(&*second, words, &inputs, &*device).is_of(&inputs, may_be_left);
        }
    }
}

/// Options and extension headers are looked at on the CPU, and how a cooked frame was sent.
fn may_be_left(headers: &Headers) -> bool {
    headers.flags.has(Flags::IP_OPTIONS) || headers.l3 == 16 || headers.l3 == 20
}

/// The frame fields that the router reads and writes.
const FIELDS: [Field; 11] = [
    Field::EthDst,
    Field::EthSrc,
    Field::TrafficClass,
    Field::IpLen,
    Field::IpIdent,
    Field::IpFragment,
    Field::Ttl,
    Field::IpProtocol,
    Field::IpChecksum,
    Field::SrcAddr,
    Field::DstAddr,
];

#[test]
fn fields_are_found_in_columns() {
    let folder = Folder::new("staged", ROUTES);
    let table = format!("routes = \"routes\"\n{MAC}{ICMP}");
    let (function, words) = build(&DEFINITION, &table, &folder.0);
    let inputs = edges();
    let all = FieldSet::of(&FIELDS);
    let cases = [all].into_iter().chain(FIELDS.map(|one| FieldSet::of(&[one])));
    for (number, fields) in cases.enumerate() {
        for device in devices_of_case(number) {
            let twins = [&*function, &*function];
            let tally = compare_staged(twins, words, &inputs, &*device, fields);
            tally.is_of(&inputs, may_be_left);
        }
    }
}

/// The recorded behaviour of Linux. The router's own tests compare `run` with it.
#[test]
fn kernels_drop_what_linux_does() {
    const SEEN: &str = include_str!("../../../../functions/router/src/forwarding_of_linux.txt");
    let frames = SEEN.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let hex = line.rsplit(';').next().expect("a frame");
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        (0..hex.len()).step_by(2).map(byte).collect::<Vec<u8>>()
    });
    let inputs: Vec<_> = frames.map(|frame| Input::at(0, &frame)).collect();
    assert!(inputs.len() > 150);
    let routes = "0.0.0.0/0 10.0.2.2\n10.0.1.0/24 direct\n10.0.2.0/24 direct\n::/0 2001:db8:2::2\n";
    let open = ["martian_source", "martian_destination", "link_broadcast", "bad_checksum"];
    let keys = open.iter().map(|key| format!("{key} = \"forward\"\n")).chain([String::new()]);
    for (number, key) in keys.enumerate() {
        on(&devices_of_case(number), "linux", routes, &(key + ICMP), &inputs);
    }
}

/// The cases written by hand.
pub(crate) fn edges_on(device: Arc<dyn Device>) {
    on(&[device], "sanitized", ROUTES, &[MAC, ICMP].concat(), &edges());
}

fn v4_of(text: &str) -> [u8; 4] {
    text.parse::<Ipv4Addr>().expect("an address").octets()
}

fn v6_of(text: &str) -> [u8; 16] {
    text.parse::<Ipv6Addr>().expect("an address").octets()
}

/// An address of every route above, and some of none.
fn destinations() -> (Vec<[u8; 4]>, Vec<[u8; 16]>) {
    let v4 = [
        "10.0.0.1",
        "10.255.255.255",
        "10.1.255.9",
        "10.1.2.3",
        "10.1.2.2",
        "10.1.2.4",
        "192.0.2.77",
        "192.0.2.78",
        "10.66.1.1",
        "10.67.1.1",
        "10.68.1.1",
        "0.0.0.0",
        "11.0.0.0",
        "255.255.255.255",
    ];
    let v6 = [
        "2001:db8::1",
        "2001:db8:1::9",
        "2001:db8:1:ffff::",
        "2001:db8:68::1",
        "2001:db8:66::1",
        "2001:db8:66:8000::1",
        "2001:db8:2::",
        "2001:db8:2::1",
        "2001:db8:2::2",
        "2001:db8:2:0:8000::",
        "2001:db8:2:0:7fff::",
        "2001:db9::",
        "::",
        "ffff::ffff",
    ];
    (v4.map(v4_of).to_vec(), v6.map(v6_of).to_vec())
}

/// Every destination by every TTL that matters, on several links, and checksums on both sides of a
/// carry.
fn edges() -> Vec<Input> {
    let (v4, v6) = destinations();
    let body = udp(&[1; 18]);
    let mut inputs = Vec::new();
    for ttl in [0, 1, 2, 64, 255] {
        for &dst in &v4 {
            let packet = ipv4(dst, ttl, 17, &[], &body);
            inputs.push(ethernet(&[], &packet));
            inputs.push(ethernet(&[0x81, 0, 0, 7], &packet));
            inputs.push(on_link(LinkType::RAW, &packet));
            inputs.push(ethernet(&[], &ipv4(dst, ttl, 17, &[1; 40], &body)));
        }
        for &dst in &v6 {
            let packet = ipv6(dst, ttl, 17, &body);
            inputs.push(ethernet(&[], &packet));
            inputs.push(ethernet(&[0x88, 0xa8, 0, 8, 0x81, 0, 0, 7], &packet));
            inputs.push(on_link(LinkType::LINUX_SLL, &packet));
            inputs.push(ethernet(&[], &ipv6(dst, ttl, 44, &[17, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0])));
        }
    }
    for sum in [0u16, 1, 0xfe, 0xff, 0x100, 0xfdff, 0xfefe, 0xfeff, 0xff00, 0xffff] {
        let mut input = ethernet(&[], &ipv4(v4[0], 64, 17, &[], &body));
        input.bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        inputs.push(input);
    }
    inputs.extend(others(&body));
    inputs
}

/// Frames that are not IP, frames with false lengths and truncated captures.
fn others(body: &[u8]) -> Vec<Input> {
    let (v4, v6) = destinations();
    let whole = ethernet(&[], &ipv4(v4[0], 64, 17, &[1; 40], body));
    let whole_v6 = ethernet(&[], &ipv6(v6[0], 64, 17, body));
    let mut inputs = vec![
        Input::at(0, &[]),
        Input::at(0, &[2; 13]),
        Input::at(0, &[&whole.bytes[..12], &[8, 6], &[0; 46]].concat()),
        Input { link: LinkType(147), ..whole.clone() },
    ];
    for len in 0..whole.bytes.len() {
        inputs.push(snapped(&whole, len));
        inputs.push(snapped(&whole_v6, len));
        // The frame was as short on the wire: its headers lie.
        inputs.push(Input::at(0, &whole.bytes[..len]));
    }
    let long_arp = Input::at(0, &[&whole.bytes[..12], &[8, 6], &[0; 90]].concat());
    inputs.extend([73, 74, 75].map(|len| snapped(&long_arp, len)));
    inputs
}

/// Routes of all lengths in a few neighbourhoods, so that they nest, and addresses at their edges.
fn nested(from: &mut Random) -> (String, Vec<[u8; 4]>, Vec<[u8; 16]>) {
    let (mut routes, mut text) = (BTreeMap::new(), String::new());
    let (mut v4, mut v6) = (vec![[0; 4]], vec![[0; 16]]);
    for _ in 0..300 {
        let len = from.below(33) as u32;
        let near = ((10 << 24) | ((from.next() % 4) << 8) | (from.next() & 0xff_00ff))
            & !(from.next() & 0xff);
        let host = u32::MAX.checked_shr(len).unwrap_or(0);
        routes.insert((u128::from(near & !host), len, 4), from.below(200));
        v4.extend([near & !host, near | host, (near | host).wrapping_add(1)].map(u32::to_be_bytes));
    }
    for _ in 0..300 {
        let len = from.below(129) as u32;
        let spread = u128::from(from.next()) << from.pick(&[0, 32, 60, 64, 90]);
        let near = 0x2001_0db8 << 96 ^ spread;
        let host = u128::MAX.checked_shr(len).unwrap_or(0);
        routes.insert((near & !host, len, 6), from.below(200));
        v6.extend(
            [near & !host, near | host, (near | host).wrapping_add(1)].map(u128::to_be_bytes),
        );
    }
    for ((prefix, len, family), hop) in routes {
        let _ = match family {
            4 => writeln!(text, "{}/{len} 192.0.2.{hop}", Ipv4Addr::from_bits(prefix as u32)),
            // fe80::/10 is left out by the reader; none is near.
            _ => writeln!(text, "{}/{len} 2001:db8:ffff::{hop:x}", Ipv6Addr::from_bits(prefix)),
        };
    }
    (text, v4, v6)
}

#[test]
fn every_route_and_reason_is_that_of_run() {
    let inputs = edges();
    for (name, keys) in [("plain", String::new()), ("mac", MAC.into()), ("icmp", ICMP.into())] {
        on_all_devices(name, ROUTES, &keys, &inputs);
    }
    on_all_devices("all", ROUTES, &[MAC, ICMP].concat(), &inputs);
}

#[test]
fn random_packets_are_routed() {
    let (v4, v6) = destinations();
    let mut from = Random::new(3);
    let inputs: Vec<Input> = (0..4000).map(|_| random(&mut from, &v4, &v6)).collect();
    on_all_devices("random", ROUTES, &[MAC, ICMP].concat(), &inputs);
}

#[test]
fn nested_routes_are_found() {
    let mut from = Random::new(4);
    let (routes, v4, v6) = nested(&mut from);
    let mut inputs: Vec<Input> = (0..2000).map(|_| random(&mut from, &v4, &v6)).collect();
    inputs.extend(v4.iter().map(|&dst| ethernet(&[], &ipv4(dst, 9, 17, &[], &udp(&[])))));
    inputs.extend(v6.iter().map(|&dst| ethernet(&[], &ipv6(dst, 9, 17, &udp(&[])))));
    on_all_devices("nested", &routes, "", &inputs);
}

/// More next hops than entries of 16 bits can name, and no route to IPv6.
#[test]
fn entries_of_32_bits_are_read() {
    let (mut routes, mut inputs) = (String::new(), Vec::new());
    for number in 0..33_000u32 {
        let (dst, hop) = ((10 << 24) + number * 300, (172 << 24) + number);
        let len = if number % 3 == 0 { 32 } else { 24 };
        let dst = if len == 24 { dst & !0xff } else { dst };
        let (to, via) = (Ipv4Addr::from_bits(dst), Ipv4Addr::from_bits(hop));
        let _ = writeln!(routes, "{to}/{len} {via}");
        if number % 10 == 0 {
            inputs.push(ethernet(&[], &ipv4(to.octets(), 9, 17, &[], &udp(&[]))));
            let next = Ipv4Addr::from_bits(dst + 1);
            inputs.push(ethernet(&[], &ipv4(next.octets(), 9, 17, &[], &udp(&[]))));
        }
    }
    inputs.push(ethernet(&[], &ipv6([0x20; 16], 9, 17, &udp(&[]))));
    on_all_devices("wide", &routes, "", &inputs);
    let folder = Folder::new("wide-cuda", &routes);
    let (function, _) = build(&DEFINITION, "routes = \"routes\"", &folder.0);
    compile_for_cuda(&*function);
}

#[test]
fn kernels_compile_for_gpus() {
    let folder = Folder::new("cuda", ROUTES);
    let table = format!("routes = \"routes\"\n{MAC}{ICMP}");
    let (function, _) = build(&DEFINITION, &table, &folder.0);
    compile_for_cuda(&*function);
}
