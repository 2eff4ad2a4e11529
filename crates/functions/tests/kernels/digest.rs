//! The kernels of `digest`. Its own tests check `run` itself, by published digests.

use std::path::Path;

use warpline_device::Device;
use warpline_digest::DEFINITION;
use warpline_packet::LinkType;
use warpline_verify::{Input, build};

use crate::compiled::compile_for_cuda;
use crate::driver::{Tally, compare, devices};
use crate::frames::{Random, TCP, ethernet, ipv4, ipv6, on_link, random, snapped, udp};

const V4: [u8; 4] = [192, 0, 2, 1];
const V6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

/// Payloads of every length up to three blocks and more, at every place of a word.
fn lengths() -> Vec<Input> {
    lengths_of((0..=260).chain([1471, 1472, 1473, 9000, 65_000]))
}

fn lengths_of(lens: impl Iterator<Item = usize>) -> Vec<Input> {
    let mut random = Random::new(1);
    let mut inputs = Vec::new();
    for len in lens {
        let payload = random.bytes(len);
        inputs.push(ethernet(&[], &ipv4(V4, 64, 17, &[], &udp(&payload))));
        inputs.push(on_link(LinkType::RAW, &ipv4(V4, 64, 17, &[], &udp(&payload))));
        inputs.push(ethernet(&[], &ipv4(V4, 64, 50, &[], &[&[9; 8], &payload[..]].concat())));
        inputs.push(ethernet(&[], &ipv6(V6, 64, 6, &[&TCP, &payload[..]].concat())));
    }
    inputs
}

/// Packets that are not digested, or only in part.
fn edges() -> Vec<Input> {
    let body = udp(&[0x5a; 200]);
    let whole = ethernet(&[], &ipv4(V4, 64, 17, &[], &body));
    let mut arp = Input::at(0, &[&whole.bytes[..12], &[8, 6], &[0; 46]].concat());
    arp.bytes.resize(200, 1);
    arp.wire_len = 200;
    let mut later_fragment = ipv4(V4, 64, 17, &[], &body);
    later_fragment[7] = 4;
    let mut first_fragment = ipv4(V4, 64, 17, &[], &body);
    first_fragment[6] = 0x20;
    let mut udp_len_lies = ipv4(V4, 64, 17, &[], &body);
    udp_len_lies[24] = 0xff;
    let mut total_len_lies = ipv4(V4, 64, 17, &[], &body);
    total_len_lies[2] = 0xff;
    let mut padded = whole.clone();
    padded.bytes.extend([7; 33]);
    padded.wire_len += 33;
    let mut inputs = vec![
        arp,
        padded,
        ethernet(&[], &later_fragment),
        ethernet(&[], &first_fragment),
        ethernet(&[], &udp_len_lies),
        ethernet(&[], &total_len_lies),
        ethernet(&[], &ipv4(V4, 64, 1, &[], &[8; 100])),
        ethernet(&[], &ipv4(V4, 64, 6, &[1; 40], &[&TCP[..], &[3; 100]].concat())),
        ethernet(&[0x81, 0, 0, 1], &ipv6(V6, 1, 58, &[128; 99])),
        ethernet(&[], &ipv6(V6, 1, 60, &[&[99, 0, 1, 4, 0, 0, 0, 0][..], &[3; 77]].concat())),
        on_link(LinkType::LINUX_SLL, &ipv6(V6, 1, 50, &[1; 75])),
        on_link(LinkType::LINUX_SLL2, &ipv4(V4, 1, 99, &[], &[1; 75])),
        Input { link: LinkType(147), ..whole.clone() },
    ];
    inputs.extend((0..whole.bytes.len()).step_by(9).map(|len| snapped(&whole, len)));
    inputs
}

fn on_all_devices(table: &str, inputs: &[Input]) {
    devices().iter().for_each(|device| on(&**device, table, inputs));
}

fn on(device: &dyn Device, table: &str, inputs: &[Input]) {
    let (function, words) = build(&DEFINITION, table, Path::new("."));
    let tally = compare(&*function, words, inputs, device);
    assert_eq!(tally, Tally { packets: inputs.len(), left: 0 });
}

/// The cases written by hand.
pub(crate) fn edges_on(device: &dyn Device) {
    on(device, "min_len = 1", &lengths());
    on(device, "min_len = 1", &edges());
}

#[test]
fn payloads_of_every_length_are_digested() {
    on_all_devices("min_len = 1", &lengths());
    on_all_devices("min_len = 64", &lengths());
}

#[test]
fn the_same_packets_go_by() {
    on_all_devices("min_len = 1", &edges());
    on_all_devices("min_len = 64\non_duplicate = \"drop\"", &edges());
}

#[test]
fn random_packets_are_digested() {
    let mut from = Random::new(2);
    let inputs: Vec<Input> = (0..4000).map(|_| random(&mut from, &[V4], &[V6])).collect();
    on_all_devices("min_len = 1", &inputs);
}

#[test]
fn kernels_compile_for_gpus() {
    let (function, _) = build(&DEFINITION, "", Path::new("."));
    compile_for_cuda(&*function);
}
