//! The kernels of `load_balancer`. Its own tests check `run` itself.

use std::path::PathBuf;
use std::sync::Arc;

use warpline_device::Device;
use warpline_load_balancer::DEFINITION;
use warpline_packet::LinkType;
use warpline_verify::{Input, build};

use crate::compiled::compile_for_cuda;
use crate::driver::{bindings, compare_staged, devices};
use crate::frames::{Random, TCP, ethernet, ipv4, ipv6, on_link, random, snapped, udp};

const VIP: [u8; 4] = [192, 0, 2, 10];
/// Its backend has an address of IPv6, with `ipip`.
const VIP_OVER_V6: [u8; 4] = [192, 0, 2, 11];
const VIP_V6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10];
const OTHER: [u8; 4] = [192, 0, 2, 99];

const SERVICES: &str = "vip 192.0.2.10 tcp 7,9,80\n backend 10.0.0.1\n backend 10.0.0.2 port 8080\n\
    vip 192.0.2.10 udp 53\n backend 10.0.0.1\nvip 192.0.2.11 tcp 9\n backend 10.0.0.3\n\
    vip 2001:db8:9::10 udp 53\n backend fd00::1\n backend fd00::2 port 5353\n\
    vip 2001:db8:9::10 tcp 9\n backend fd00::3\n";
const SERVICES_OF_V4: &str = "vip 192.0.2.10 tcp 9\n backend 10.0.0.1 port 8080\n\
    vip 192.0.2.10 udp 53\n backend 10.0.0.1\n";
const SERVICES_OF_HOSTS: &str = "vip 192.0.2.10 tcp 9\n backend 10.0.0.1\n backend 10.0.0.2\n\
    vip 192.0.2.10 udp 53\n backend 10.0.0.1\nvip 192.0.2.11 tcp 9\n backend fd00::3\n\
    vip 192.0.2.11 udp 53\n backend fd00::3\n\
    vip 2001:db8:9::10 udp 53\n backend fd00::1\nvip 2001:db8:9::10 tcp 9\n backend fd00::2\n";
const SERVICES_OF_MACS: &str = "vip 192.0.2.10 tcp 9\n backend 10.0.0.1 mac 06:12:34:56:78:9a\n\
    vip 192.0.2.10 udp 53\n backend 10.0.0.1 mac fe:dc:ba:98:76:54\n\
    vip 2001:db8:9::10 udp 53\n backend fd00::1 mac 02:00:00:00:00:77\n";

const MAC: &str = "mode = \"mac\"\nmac = \"02:a1:b2:c3:d4:e5\"\n";
const IPIP: &str = "mode = \"ipip\"\n";
const IPIP_FROM: &str =
    "mode = \"ipip\"\ntunnel_src_v4 = \"203.0.113.7\"\ntunnel_src_v6 = \"2001:db8:5:6:7:8:9:a\"\n";

/// A folder of its own for the file of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, services: &str) -> Self {
        let path = format!("warpline-kernels-balancer-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("services"), services).expect("a file");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn table(keys: &str) -> String {
    format!("services = \"services\"\n{keys}")
}

fn on_all_devices(name: &str, services: &str, keys: &str, inputs: &[Input]) {
    on(&devices(), name, services, keys, inputs);
}

fn on(devices: &[Arc<dyn Device>], name: &str, services: &str, keys: &str, inputs: &[Input]) {
    let folder = Folder::new(name, services);
    let (function, words) = build(&DEFINITION, &table(keys), &folder.0);
    for device in devices {
        for fields in bindings(&*function) {
            let twins = [&*function, &*function];
            let tally = compare_staged(twins, words, inputs, &**device, fields);
            // ICMP errors, with the packets that they quote.
            tally.is_of(inputs, |headers| [1, 58].contains(&headers.protocol));
        }
    }
}

/// The cases written by hand, of each mode.
pub(crate) fn edges_on(device: &Arc<dyn Device>) {
    let devices = [Arc::clone(device)];
    on(&devices, "sanitized-dnat", SERVICES, "", &errors());
    on(&devices, "sanitized-ipip", SERVICES_OF_HOSTS, IPIP, &carried());
    on(&devices, "sanitized-mac", SERVICES_OF_MACS, MAC, &carried());
}

/// UDP with this checksum.
fn udp_of(sum: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = udp(payload);
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram
}

fn tcp_of(sum: u16) -> Vec<u8> {
    let mut segment = [&TCP[..], &[3; 5]].concat();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// A packet of IPv4 or IPv6 from its receiver to its sender; its ports lie `header_len` bytes from
/// its start.
fn turned(mut packet: Vec<u8>, header_len: usize) -> Vec<u8> {
    let (at, width) = if packet[0] >> 4 == 4 { (12, 4) } else { (8, 16) };
    (at..at + width).for_each(|byte| packet.swap(byte, byte + width));
    (header_len..header_len + 2).for_each(|byte| packet.swap(byte, byte + 2));
    packet
}

/// The packet with another source.
fn from(mut packet: Vec<u8>, source: &[u8]) -> Vec<u8> {
    let at = if source.len() == 4 { 12 } else { 8 };
    packet[at..at + source.len()].copy_from_slice(source);
    packet
}

/// A first and a later fragment of a packet of IPv4.
fn fragments(packet: &[u8]) -> [Vec<u8>; 2] {
    let [mut first, mut later] = [packet.to_vec(), packet.to_vec()];
    (first[6], later[7]) = (0x20, 3);
    [first, later]
}

/// Clients' packets with every checksum that is near an edge, and what a backend answers to each.
fn both_ways() -> Vec<Input> {
    let mut inputs = Vec::new();
    for sum in (0..0x40).chain(0xffc0..=0xffff).chain([0x7fff, 0x8000]) {
        for (protocol, body) in [(17, udp_of(sum, &[7; 9])), (6, tcp_of(sum))] {
            let asks = ipv4(VIP, 64, protocol, &[], &body);
            inputs.push(ethernet(&[], &asks));
            inputs.push(on_link(LinkType::RAW, &ipv4(VIP, 64, protocol, &[1; 40], &body)));
            let [first, later] = fragments(&asks);
            inputs.extend([&first, &later].map(|packet| ethernet(&[], packet)));
            for backend in [[10, 0, 0, 1], [10, 0, 0, 2]] {
                for packet in [&asks, &first, &later] {
                    inputs.push(ethernet(&[], &from(turned(packet.clone(), 20), &backend)));
                }
            }
            let asks = ipv6(VIP_V6, 64, protocol, &body);
            inputs.push(ethernet(&[0x81, 0, 0, 9], &asks));
            for last in 1..4 {
                let mut backend = [0; 16];
                (backend[0], backend[15]) = (0xfd, last);
                inputs.push(ethernet(&[], &from(turned(asks.clone(), 40), &backend)));
            }
        }
    }
    inputs
}

/// Errors about what went to a client, cut at every length of the quote, and from a backend's side
/// about what went there.
fn errors() -> Vec<Input> {
    let mut inputs = Vec::new();
    for (protocol, body) in [(17, udp_of(0x1234, &[4; 20])), (17, udp_of(0, &[])), (6, tcp_of(9))] {
        let asks = ipv4(VIP, 64, protocol, &[], &body);
        inputs.push(ethernet(&[], &asks));
        let quoted = turned(asks.clone(), 20);
        let to_backend = turned(from(quoted.clone(), &[10, 0, 0, 1]), 20);
        for len in 18..=quoted.len() {
            let about = |quote: &[u8]| [&[3, 3, 7, len as u8, 0, 0, 0, 0], &quote[..len]].concat();
            inputs.push(ethernet(&[], &ipv4(VIP, 64, 1, &[], &about(&quoted))));
            let client = [198, 51, 100, 7];
            let error = from(ipv4(client, 64, 1, &[], &about(&to_backend)), &[10, 0, 0, 1]);
            inputs.push(ethernet(&[], &error));
        }
    }
    let asks = ipv6(VIP_V6, 64, 17, &udp_of(7, &[4; 20]));
    inputs.push(ethernet(&[], &asks));
    let quoted = turned(asks, 40);
    for len in 38..=quoted.len() {
        let error = [&[1, 4, 7, len as u8, 0, 0, 0, 0], &quoted[..len]].concat();
        inputs.push(ethernet(&[], &ipv6(VIP_V6, 64, 58, &error)));
    }
    inputs
}

#[test]
fn destinations_are_rewritten_and_sources_of_answers() {
    on_all_devices("both-ways", SERVICES, "", &both_ways());
    on_all_devices("v4-alone", SERVICES_OF_V4, "", &both_ways());
}

#[test]
fn errors_go_where_their_packets_went() {
    on_all_devices("errors", SERVICES, "", &errors());
}

/// On each link, with each class, fragment word and length that decides, cut and padded.
fn carried() -> Vec<Input> {
    let links = [LinkType::RAW, LinkType::LINUX_SLL, LinkType::LINUX_SLL2, LinkType::IPV4];
    let families = [(LinkType::NULL, [2, 0, 0, 0]), (LinkType::NULL, [0, 0, 0, 2])];
    let families = families.into_iter().chain([(LinkType::LOOP, [0, 0, 0, 2])]);
    let mut inputs = Vec::new();
    let mut push_all = |packet: &[u8]| {
        inputs.push(ethernet(&[], packet));
        inputs.push(ethernet(&[0x88, 0xa8, 0, 8, 0x81, 0, 0, 9], packet));
        inputs.extend(links.iter().map(|&link| on_link(link, packet)));
        inputs.extend(
            families
                .clone()
                .map(|(link, family)| Input { link, ..Input::at(0, &[&family, packet].concat()) }),
        );
    };
    for class in [0, 1, 3, 0xb8, 0xff_u8] {
        for dst in [VIP, VIP_OVER_V6] {
            for fragment in [0, 0x40, 0x80, 0xc0_u8] {
                let mut packet = ipv4(dst, 64, 17, &[], &udp(&[class; 30]));
                (packet[1], packet[6]) = (class, fragment);
                push_all(&packet);
                fragments(&packet).iter().for_each(|fragment| push_all(fragment));
            }
            push_all(&ipv4(dst, 64, 6, &[1; 8], &tcp_of(3)));
        }
        let mut packet = ipv6(VIP_V6, 64, 17, &udp(&[class; 30]));
        packet[0] |= class >> 4;
        packet[1] |= class << 4 | 5;
        push_all(&packet);
        // Behind an extension header of options.
        let behind = [&[6, 0, 1, 4, 0, 0, 0, 0], &tcp_of(3)[..]].concat();
        push_all(&ipv6(VIP_V6, 64, 60, &behind));
    }
    for packet in [
        ipv4(VIP, 64, 17, &[], &udp(&[1; 60])),
        ipv4(VIP_OVER_V6, 64, 17, &[1; 4], &udp(&[1; 60])),
        ipv6(VIP_V6, 64, 17, &udp(&[1; 60])),
    ] {
        let whole = ethernet(&[], &packet);
        inputs.extend((30..whole.bytes.len()).map(|len| snapped(&whole, len)));
        let mut padded = whole.clone();
        padded.bytes.extend([9; 17]);
        padded.wire_len += 17;
        inputs.push(padded);
    }
    inputs
}

#[test]
fn tunnels_carry_what_comes_on_any_link() {
    on_all_devices("tunnels", SERVICES_OF_HOSTS, IPIP, &carried());
    on_all_devices("tunnels-from", SERVICES_OF_HOSTS, IPIP_FROM, &carried());
}

#[test]
fn the_longest_packets_are_carried() {
    let inputs: Vec<Input> = [65_487, 65_488, 65_506, 65_507]
        .into_iter()
        .flat_map(|len| [(VIP, len), (VIP_OVER_V6, len)])
        .map(|(dst, len)| ethernet(&[], &ipv4(dst, 64, 17, &[], &udp(&vec![5; len]))))
        .collect();
    on_all_devices("longest", SERVICES_OF_HOSTS, IPIP, &inputs);
}

#[test]
fn frames_go_to_the_addresses_of_backends() {
    let mut inputs = carried();
    inputs.retain(|input| input.link == LinkType::ETHERNET);
    on_all_devices("macs", SERVICES_OF_MACS, MAC, &inputs);
}

#[test]
fn random_packets_are_balanced() {
    let mut from = Random::new(11);
    let (v4, v6) = ([VIP, VIP_OVER_V6, OTHER], [VIP_V6]);
    let inputs: Vec<Input> = (0..3000).map(|_| random(&mut from, &v4, &v6)).collect();
    for (name, services, keys) in [
        ("random-dnat", SERVICES, ""),
        ("random-ipip", SERVICES_OF_HOSTS, IPIP),
        ("random-mac", SERVICES_OF_MACS, MAC),
    ] {
        on_all_devices(name, services, keys, &inputs);
    }
}

#[test]
fn kernels_compile_for_gpus() {
    for (services, keys) in [(SERVICES, ""), (SERVICES_OF_HOSTS, IPIP), (SERVICES_OF_MACS, MAC)] {
        let folder = Folder::new("gpus", services);
        let (function, _) = build(&DEFINITION, &table(keys), &folder.0);
        compile_for_cuda(&*function);
    }
}
