//! The kernels of `nat`. Its own tests check `run` itself.

use std::path::Path;
use std::sync::Arc;

use warpline_device::Device;
use warpline_nat::DEFINITION;
use warpline_nf::Function;
use warpline_packet::LinkType;
use warpline_verify::{Input, build};

use crate::compiled::compile_for_cuda;
use crate::driver::{bindings, compare_staged, devices};
use crate::frames::{Random, TCP, ethernet, ipv4, ipv6, on_link, random, snapped, udp};

const REMOTE: [u8; 4] = [192, 0, 2, 9];
const REMOTE_V6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
/// A router from which errors come.
const ROUTER: [u8; 4] = [192, 0, 2, 77];

/// The host of [`ipv4`] and [`ipv6`] is inside, and so is none else.
const BOTH: &str = "inside = [\"198.51.100.0/24\", \"2001:db8:0:0::/64\"]\n\
    outside = [\"203.0.113.1\", \"2001:db8:ff::1\"]\n";
const V4_ALONE: &str = "inside = [\"198.51.100.0/24\"]\noutside = [\"203.0.113.1\"]\n";

fn on_all_devices(table: &str, inputs: &[Input]) {
    devices().iter().for_each(|device| on(device, table, inputs));
}

fn on(device: &Arc<dyn Device>, table: &str, inputs: &[Input]) {
    let built = || build(&DEFINITION, table, Path::new("."));
    for fields in bindings(&*built().0) {
        let ((ours, words), (theirs, _)) = (built(), built());
        let twins: [&dyn Function; 2] = [&*ours, &*theirs];
        let tally = compare_staged(twins, words, inputs, &**device, fields);
        // ICMP errors with the packets that they quote, and echoes whose checksum becomes zero.
        tally.is_of(inputs, |headers| [1, 58].contains(&headers.protocol));
    }
}

/// The cases written by hand.
pub(crate) fn edges_on(device: &Arc<dyn Device>) {
    on(device, BOTH, &errors());
    on(device, V4_ALONE, &outbound());
}

/// A message of ICMP or ICMPv6; its checksum is anything.
fn message(kind: u8, sum: [u8; 2], rest: &[u8]) -> Vec<u8> {
    [&[kind, 0, sum[0], sum[1]], rest].concat()
}

/// UDP with this checksum.
fn udp_of(sum: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = udp(payload);
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram
}

/// Outbound packets with every checksum near an edge, for each protocol and on several links.
fn outbound() -> Vec<Input> {
    let mut inputs = Vec::new();
    for sum in (0..0x40).chain(0xffc0..=0xffff).chain([0x7fff, 0x8000]) {
        let [a, b] = u16::to_be_bytes(sum);
        let mut tcp = TCP;
        tcp[16..18].copy_from_slice(&[a, b]);
        for (v4, v6, body) in [
            (17, 17, udp_of(sum, &[7; 9])),
            (6, 6, [&tcp[..], &[3; 5]].concat()),
            (1, 59, message(8, [a, b], &[0, 9, 0, 1, 5])),
            (59, 58, message(128, [a, b], &[0, 9, 0, 1, 5])),
        ] {
            let mut fragment = ipv4(REMOTE, 64, v4, &[], &body);
            fragment[6] = 0x20;
            let mut later = ipv4(REMOTE, 64, v4, &[], &[8; 40]);
            later[7] = 3;
            inputs.push(ethernet(&[], &ipv4(REMOTE, 64, v4, &[], &body)));
            inputs.push(on_link(LinkType::RAW, &ipv4(REMOTE, 64, v4, &[1; 40], &body)));
            inputs.push(ethernet(&[0x81, 0, 0, 9], &ipv6(REMOTE_V6, 64, v6, &body)));
            inputs.push(ethernet(&[], &fragment));
            inputs.push(ethernet(&[], &later));
        }
    }
    inputs
}

#[test]
fn packets_that_go_out_are_rewritten() {
    on_all_devices(BOTH, &outbound());
    on_all_devices(V4_ALONE, &outbound());
}

/// Errors from inside about packets that came in: the quote's ends are those of `opened`, turned,
/// cut at every length.
fn errors() -> Vec<Input> {
    let mut inputs = Vec::new();
    for (protocol, body) in [
        (17, udp_of(0, &[4; 20])),
        (17, udp_of(0x1234, &[4; 20])),
        (6, [&TCP[..], &[3; 9]].concat()),
        (1, message(0, [3, 4], &[0, 9, 0, 1, 5, 6])),
    ] {
        let asks = if protocol == 1 { message(8, [3, 4], &[0, 9, 0, 1]) } else { body.clone() };
        inputs.push(ethernet(&[], &ipv4(REMOTE, 64, protocol, &[], &asks)));
        for options in [0, 8] {
            let quoted = turned(ipv4(REMOTE, 64, protocol, &vec![1; options], &body), options);
            for len in 18..=quoted.len() {
                let error = message(3, [9, len as u8], &[&[0; 4], &quoted[..len]].concat());
                inputs.push(ethernet(&[], &ipv4(REMOTE, 64, 1, &[], &error)));
                inputs.push(ethernet(&[], &ipv4(ROUTER, 64, 1, &[], &error)));
            }
        }
    }
    let opens = udp_of(7, &[4; 20]);
    let mut quoted = ipv6(REMOTE_V6, 64, 17, &opens);
    inputs.push(ethernet(&[], &quoted));
    for at in 0..16 {
        quoted.swap(8 + at, 24 + at);
    }
    quoted.swap(40, 42);
    quoted.swap(41, 43);
    for len in 38..=quoted.len() {
        let error = message(1, [9, len as u8], &[&[0; 4], &quoted[..len]].concat());
        inputs.push(ethernet(&[], &ipv6(REMOTE_V6, 64, 58, &error)));
    }
    inputs
}

/// A packet of IPv4 from its receiver to its sender.
fn turned(mut packet: Vec<u8>, options: usize) -> Vec<u8> {
    let ports = 20 + options;
    (0..4).for_each(|at| packet.swap(12 + at, 16 + at));
    if packet[9] != 1 {
        (0..2).for_each(|at| packet.swap(ports + at, ports + 2 + at));
    }
    packet
}

#[test]
fn quotes_of_errors_are_rewritten_wherever_they_end() {
    on_all_devices(BOTH, &errors());
}

/// An echo of nothing but zeros has the other zero as its checksum.
#[test]
fn echoes_of_zeros_are_summed_as_run_does() {
    let mut inputs = Vec::new();
    for sum in [0u16, 0xffff, 0xf7ff, 0x0800] {
        for len in [0, 1, 7] {
            let echo = message(8, sum.to_be_bytes(), &vec![0; 4 + len]);
            inputs.push(ethernet(&[], &ipv4(REMOTE, 64, 1, &[], &echo)));
        }
    }
    on_all_devices(V4_ALONE, &inputs);
}

#[test]
fn random_packets_are_translated() {
    let mut from = Random::new(9);
    let mut inputs: Vec<Input> =
        (0..4000).map(|_| random(&mut from, &[REMOTE, ROUTER], &[REMOTE_V6])).collect();
    let whole = ethernet(&[], &ipv4(REMOTE, 64, 17, &[], &udp(&[1; 30])));
    inputs.extend((0..whole.bytes.len()).map(|len| snapped(&whole, len)));
    on_all_devices(BOTH, &inputs);
}

#[test]
fn kernels_compile_for_gpus() {
    for table in [BOTH, V4_ALONE] {
        let (function, _) = build(&DEFINITION, table, Path::new("."));
        compile_for_cuda(&*function);
    }
}
