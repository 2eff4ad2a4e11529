//! The kernels of `firewall`. Its own tests check `run` itself.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use warpline_device::Device;
use warpline_firewall::DEFINITION;
use warpline_nf::{HopPorts, Port, Ports, Resources, Side};
use warpline_packet::{Field, FieldSet, Flags, Headers, LinkType};
use warpline_verify::{Input, build, build_with};

use crate::compiled::compile_for_cuda;
use crate::driver::{compare_staged, devices, devices_of_case};
use crate::frames::{LINK, Random, TCP, ethernet, ipv4, ipv6, on_link, random, snapped, udp};

const RULES: &str = "drop tcp flags syn,fin/syn,fin\naccept tcp to 10.1.0.0/16 port 9,80\n\
    drop udp from 198.51.100.0/24 port 1000-2000 to 10.2.0.0/15\naccept udp to any port 53\n\
    accept icmp type echo-request code 0\ndrop icmp type 3 code 1-4\naccept icmpv6 type 128,135\n\
    drop tcp from any port 7 to 2001:db8:1::/48\naccept tcp flags ack/syn,ack\n\
    accept 50,99 to 10.0.0.0/8, 2001:db8::/32\naccept udp to 10.0.0.0/8, 2001:db8::/33\n";
const TRACKED_RULES: &str = "accept tcp flags syn/syn,ack from any to 10.0.0.0/8\naccept icmp type \
    echo-request\n\
    accept established to 10.1.0.0/16\naccept udp to any port 53\n";
/// Small tables: some packets find them full.
const TRACKING: &str = "established = true\nconnections = 64\n";

/// A folder of its own for the rules of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, rules: &str) -> Self {
        let path = format!("warpline-kernels-firewall-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("rules"), rules).expect("a file");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn on_all_devices(name: &str, rules: &str, keys: &str, inputs: &[Input]) {
    on(&devices(), name, rules, keys, inputs, FieldSet::EMPTY);
}

fn on(
    devices: &[Arc<dyn Device>],
    name: &str,
    rules: &str,
    keys: &str,
    inputs: &[Input],
    fields: FieldSet,
) {
    let folder = Folder::new(name, rules);
    let table = format!("rules = \"rules\"\n{keys}");
    let (function, words) = build(&DEFINITION, &table, &folder.0);
    for device in devices {
        let twins = [&*function, &*function];
        let tally = compare_staged(twins, words, inputs, &**device, fields);
        // Later fragments of TCP; the extension header has their offset.
        let is_fragment = |headers: &Headers| headers.flags.has(Flags::LATER_FRAGMENT);
        let may_be_left = |headers: &Headers| headers.version == 6 && headers.protocol == 6;
        tally.is_of(inputs, |headers| may_be_left(headers) && is_fragment(headers));
    }
}

/// The cases written by hand.
pub(crate) fn edges_on(device: Arc<dyn Device>) {
    let devices = [device];
    on(&devices, "sanitized", RULES, "non_ip = \"accept\"", &edges(), FieldSet::EMPTY);
    on(&devices, "sanitized-tracked", TRACKED_RULES, TRACKING, &edges(), FieldSet::EMPTY);
}

const V4: [[u8; 4]; 6] =
    [[10, 1, 0, 0], [10, 1, 255, 255], [10, 2, 0, 0], [10, 3, 9, 9], [10, 4, 0, 0], [11, 0, 0, 0]];

fn v6() -> Vec<[u8; 16]> {
    let near = |c: u8, d: u8, last: u8| [0x20, 1, 0xd, 0xb8, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    vec![
        near(0, 0, 1),
        near(0, 1, 0),
        near(0, 1, 255),
        near(0x7f, 255, 255),
        near(0x80, 0, 0),
        [255; 16],
    ]
}

/// Transport headers of every kind that rules distinguish, with their protocols.
fn bodies() -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    for flags in [0u8, 1, 2, 3, 4, 16, 17, 18, 0x29, 0xff] {
        let mut tcp = TCP;
        tcp[13] = flags;
        all.push((6, tcp.to_vec()));
        tcp[2..4].copy_from_slice(&80u16.to_be_bytes());
        all.push((6, tcp.to_vec()));
    }
    for (src, dst) in [(999u16, 53u16), (1000, 54), (2000, 0), (2001, 65_535)] {
        let mut datagram = udp(&[1; 9]);
        datagram[..2].copy_from_slice(&src.to_be_bytes());
        datagram[2..4].copy_from_slice(&dst.to_be_bytes());
        all.push((17, datagram));
    }
    for (kind, code) in [(8, 0), (8, 1), (3, 0), (3, 1), (3, 4), (3, 5), (128, 0), (135, 9)] {
        let message = vec![kind, code, 0, 0, 0, 1, 0, 2, 0x45, 0, 0, 0];
        all.push((1, message.clone()));
        all.push((58, message));
    }
    all.extend([50, 51, 99, 0, 43, 59, 255].map(|protocol| (protocol, vec![0; 24])));
    all
}

/// An IPv6 fragment at `offset` units of eight bytes.
fn fragment_v6(dst: [u8; 16], protocol: u8, offset: u16, body: &[u8]) -> Vec<u8> {
    let at = (offset << 3 | 1).to_be_bytes();
    let header = [protocol, 0, at[0], at[1], 0, 0, 0, 9];
    ipv6(dst, 64, 44, &[&header[..], body].concat())
}

/// Every kind of transport to every address, whole, as fragments, and cut.
fn edges() -> Vec<Input> {
    let mut inputs = Vec::new();
    for (protocol, body) in bodies() {
        for &dst in &V4 {
            inputs.push(ethernet(&[], &ipv4(dst, 64, protocol, &[], &body)));
            let mut fragment = ipv4(dst, 64, protocol, &[1; 8], &body);
            for offset in [0x20u8, 1, 2, 3] {
                let at = if offset == 0x20 { [offset, 0] } else { [0, offset] };
                fragment[6..8].copy_from_slice(&at);
                inputs.push(ethernet(&[0x81, 0, 0, 7], &fragment));
            }
        }
        for dst in v6() {
            inputs.push(on_link(LinkType::RAW, &ipv6(dst, 64, protocol, &body)));
            for offset in [0, 1, 2, 3, 400] {
                inputs.push(ethernet(&[], &fragment_v6(dst, protocol, offset, &body)));
            }
        }
        for packet in
            [ipv4(V4[0], 64, protocol, &[1; 4], &body), fragment_v6(v6()[0], protocol, 1, &body)]
        {
            let whole = ethernet(&[], &packet);
            inputs.extend((0..whole.bytes.len()).step_by(3).map(|len| snapped(&whole, len)));
            inputs.push(Input::at(0, &whole.bytes[..40]));
        }
    }
    inputs.push(Input::at(0, &[]));
    inputs.push(Input::at(0, &[&LINK[..], &[8, 6], &[0; 46]].concat()));
    inputs
}

/// Rules over a few neighbourhoods, so that they overlap: enough for several blocks of a summary.
fn many_rules(from: &mut Random, count: usize) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let action = from.pick(&["accept", "drop"]);
        let protocol = from.pick(&["tcp", "udp"]);
        let (low, len) = (from.below(2000), 8 + from.below(25));
        let high = low + from.below(200);
        let to = if from.below(3) > 0 {
            let host = u32::MAX.checked_shr(len as u32).unwrap_or(0);
            let near = (10 << 24 | (from.next() & 0x0003_0007)) & !host;
            format!("{}/{len}", std::net::Ipv4Addr::from_bits(near))
        } else {
            let bits = 32 + from.below(97) as u32;
            let host = u128::MAX.checked_shr(bits).unwrap_or(0);
            let near = (0x2001_0db8 << 96 | u128::from(from.next() & 0x7) << 64) & !host;
            format!("{}/{bits}", std::net::Ipv6Addr::from_bits(near))
        };
        let _ = writeln!(text, "{action} {protocol} to {to} port {low}-{high}");
    }
    text
}

#[test]
fn every_kind_and_reason_is_that_of_run() {
    let inputs = edges();
    on_all_devices("plain", RULES, "", &inputs);
    on_all_devices("open", RULES, "default = \"accept\"\nnon_ip = \"accept\"", &inputs);
    on_all_devices("fragments", RULES, "fragments = \"drop\"", &inputs);
    on_all_devices("v4-only", "accept to 10.0.0.0/8\n", "", &inputs);
}

#[test]
fn packets_of_connections_are_judged_as_before_found_them() {
    let inputs: Vec<Input> = edges().into_iter().flat_map(|input| [input.clone(), input]).collect();
    on_all_devices("tracked", TRACKED_RULES, TRACKING, &inputs);
    on_all_devices("ahead", RULES, &[TRACKING, "per_source_max = 1\n"].concat(), &inputs);
}

/// Rules that ask for interfaces. Packets come in and have next hops in turn.
#[test]
fn packets_of_each_way_meet_their_rules() {
    let names = ["a", "b", "ab", "c"];
    let port = |name: &str| Port { name: name.into(), side: Side::Inside };
    let ports = |count: usize| Ports::new(names[..count].iter().map(|name| port(name)).collect());
    let hops = HopPorts::new(vec![None, Some(2), Some(0), None, Some(1)]);
    // A next hop without a port leads across.
    let of_two = HopPorts::new(vec![None, Some(1), Some(0), None]);
    let rules = "-A FORWARD -i a -p tcp -j ACCEPT\n-A FORWARD ! -i a -p udp -j DROP\n\
        -A FORWARD -i b -d 10.0.0.0/8 -j ACCEPT\n-A FORWARD -s 10.1.0.0/16 -j ACCEPT\n";
    let out = "-A FORWARD -i a+ -o b -p tcp -j ACCEPT\n-A FORWARD ! -o a -p icmp -j DROP\n\
        -A FORWARD -o b -d 10.0.0.0/8 -j ACCEPT\n-A FORWARD -i ab -j ACCEPT\n";
    let mut number = 0;
    for (name, count, text, hops) in [
        ("in", 3, rules, None),
        ("out", 3, out, Some(&hops)),
        ("two-routed", 2, &out.replace("-i ab", "-i b")[..], Some(&of_two)),
        ("across", 2, &out.replace("-i ab", "-i b")[..], None),
    ] {
        let folder = Folder::new(name, &format!("*filter\n:FORWARD DROP\n{text}COMMIT\n"));
        let v6 =
            text.replace("10.0.0.0/8", "2001:db8::/33").replace("10.1.0.0/16", "2001:db8::/32");
        let v6 = format!("*filter\n:FORWARD DROP\n{}COMMIT\n", v6.replace("icmp", "ipv6-icmp"));
        std::fs::write(folder.0.join("v6"), v6).expect("a file");
        for keys in ["", "established = true\nconnections = 64\n"] {
            let mut resources = Resources::default().with_ports(ports(count));
            hops.into_iter().for_each(|hops| resources.set_hop_ports(hops.clone()));
            let table = format!("rules = \"rules\"\nrules_v6 = \"v6\"\n{keys}");
            let function = build_with(&DEFINITION, &table, &folder.0, &mut resources);
            let function = function.unwrap_or_else(|mistakes| panic!("{mistakes}"));
            let words = resources.scratch_words();
            number += 1;
            for device in devices_of_case(number) {
                let twins = [&*function, &*function];
                let tally = compare_staged(twins, words, &edges(), &*device, FieldSet::EMPTY);
                assert!(tally.packets > 1000);
            }
        }
    }
}

#[test]
fn the_first_of_many_rules_is_found() {
    let mut from = Random::new(7);
    for count in [64, 65, 128, 129, 5000] {
        let rules = many_rules(&mut from, count);
        let inputs: Vec<Input> = (0..1000).map(|_| to_some_rule(&mut from)).collect();
        on_all_devices(&format!("many-{count}"), &rules, "default = \"accept\"", &inputs);
    }
}

/// A packet near the addresses and ports of the rules.
fn to_some_rule(from: &mut Random) -> Input {
    let port = (from.below(2300) as u16).to_be_bytes();
    let (protocol, mut body) =
        if from.below(2) > 0 { (6, TCP.to_vec()) } else { (17, udp(&[0; 4])) };
    body[2..4].copy_from_slice(&port);
    if from.below(2) > 0 {
        let dst = 10 << 24 | (from.next() & 0x0003_0007);
        return ethernet(&[], &ipv4(dst.to_be_bytes(), 64, protocol, &[], &body));
    }
    let dst = 0x2001_0db8 << 96 | u128::from(from.next() & 7) << 64 | u128::from(from.next() & 1);
    ethernet(&[], &ipv6(dst.to_be_bytes(), 64, protocol, &body))
}

#[test]
fn random_packets_are_judged() {
    let mut from = Random::new(8);
    let inputs: Vec<Input> = (0..4000).map(|_| random(&mut from, &V4, &v6())).collect();
    on_all_devices("random", RULES, "", &inputs);
    on_all_devices("random-tracked", TRACKED_RULES, TRACKING, &inputs);
}

/// The frame fields that the kernel reads. `IpOptions` has no column.
const FIELDS: [Field; 8] = [
    Field::SrcAddr,
    Field::DstAddr,
    Field::SrcPort,
    Field::DstPort,
    Field::TcpFlags,
    Field::IcmpType,
    Field::IcmpCode,
    Field::IpFragment,
];

#[test]
fn fields_are_found_in_columns() {
    let inputs = edges();
    for fields in [FieldSet::of(&FIELDS), FieldSet::of(&FIELDS[..4]), FieldSet::of(&FIELDS[4..])] {
        on(&devices(), "staged", RULES, "", &inputs, fields);
    }
}

#[test]
fn kernels_compile_for_gpus() {
    let folder = Folder::new("cuda", TRACKED_RULES);
    let table = format!("rules = \"rules\"\n{TRACKING}");
    let (function, _) = build(&DEFINITION, &table, &folder.0);
    compile_for_cuda(&*function);
}
