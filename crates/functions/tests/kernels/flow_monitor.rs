//! The kernel of `flow_monitor`. Its own tests check `run` itself.

use std::path::Path;
use std::sync::Arc;

use warpline_device::Device;
use warpline_flow_monitor::DEFINITION;
use warpline_packet::LinkType;
use warpline_verify::{Input, build};

use crate::compiled::compile_for_cuda;
use crate::driver::{Tally, compare, devices};
use crate::frames::{Random, TCP, ethernet, ipv4, ipv6, on_link, random, snapped, udp};

const ALL_BITS: [u8; 16] = [0xff; 16];
const HIGH_V6: [u8; 16] = [0x80, 0, 0, 0, 0, 0, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 1];

fn on(device: &dyn Device, inputs: &[Input]) {
    let (function, words) = build(&DEFINITION, "", Path::new("."));
    let tally = compare(&*function, words, inputs, device);
    assert_eq!(tally, Tally { packets: inputs.len(), left: 0 });
}

fn on_all_devices(inputs: &[Input]) {
    devices().iter().for_each(|device| on(&**device, inputs));
}

/// The cases written by hand.
pub(crate) fn edges_on(device: &Arc<dyn Device>) {
    on(&**device, &edges());
}

/// Each protocol with ports, types and identifiers, whole, in pieces and cut, and what has none of
/// them.
fn edges() -> Vec<Input> {
    let v4 = [[0; 4], [255; 4], [10, 0, 0, 1]];
    let v6 = [[0; 16], ALL_BITS, HIGH_V6];
    let mut tcp = TCP;
    tcp[..4].fill(0xff);
    let mut bodies = vec![(17, udp(&[1; 9])), (6, TCP.to_vec()), (6, tcp.to_vec())];
    bodies.extend([(50, vec![9; 30]), (99, vec![7; 8]), (132, vec![1; 12]), (0, vec![6; 16])]);
    for kind in [0, 3, 8, 11, 13, 128, 129, 1, 135] {
        for protocol in [1, 58] {
            bodies.push((protocol, vec![kind, 5, 0, 0, 0xab, 0xcd, 0, 1, 2]));
        }
    }
    let mut inputs = Vec::new();
    for (at, (protocol, body)) in bodies.iter().enumerate() {
        let packet = ipv4(v4[at % 3], 64, *protocol, &[1; 4][..at % 2 * 4], body);
        inputs.push(ethernet(&[], &packet));
        inputs.push(on_link(LinkType::LINUX_SLL, &packet));
        for fragment in [[0x20, 0], [0, 3]] {
            let mut piece = ipv4(v4[at % 3], 64, *protocol, &[], body);
            piece[6..8].copy_from_slice(&fragment);
            inputs.push(ethernet(&[], &piece));
        }
        let packet = ipv6(v6[at % 3], 64, *protocol, body);
        let whole = ethernet(&[0x81, 0, 0, 9], &packet);
        inputs.extend((52..whole.bytes.len()).map(|len| snapped(&whole, len)));
        inputs.push(whole);
        let behind = [&[*protocol, 0, 1, 4, 0, 0, 0, 0], &body[..]].concat();
        inputs.push(ethernet(&[], &ipv6(v6[at % 3], 64, 60, &behind)));
    }
    let mut other = ethernet(&[], &[0x45; 40]);
    other.bytes[12..14].copy_from_slice(&[8, 6]);
    inputs.push(other);
    inputs
}

#[test]
fn flows_hash_as_run_hashes_them() {
    on_all_devices(&edges());
}

#[test]
fn random_packets_are_hashed() {
    let mut from = Random::new(12);
    let v4: Vec<[u8; 4]> = (0..40).map(|_| from.next().to_le_bytes()).collect();
    let v6 = [ALL_BITS, HIGH_V6, [3; 16]];
    let inputs: Vec<Input> = (0..4000).map(|_| random(&mut from, &v4, &v6)).collect();
    on_all_devices(&inputs);
}

#[test]
fn kernels_compile_for_gpus() {
    let (function, _) = build(&DEFINITION, "", Path::new("."));
    compile_for_cuda(&*function);
}
