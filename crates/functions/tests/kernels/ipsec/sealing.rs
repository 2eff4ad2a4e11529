//! Sealing by kernels.

use warpline_packet::LinkType;
use warpline_verify::Input;

use super::gateway::{Files, Form, OPEN, Sa};
use super::{compare, lens, on_some_link};
use crate::compiled::compile_for_cuda;
use crate::frames::{Random, TCP, ethernet, ipv4, ipv6, on_link, random, udp};

/// UDP of every length for every SA, of the versions that it carries by turns.
pub(super) fn packets(sas: &[Sa]) -> Vec<Input> {
    let mut random = Random::new(3);
    let mut inputs = Vec::new();
    for (number, sa) in sas.iter().enumerate() {
        for len in lens().skip(number % 3).step_by(3) {
            let body = udp(&random.bytes(len));
            let packet = match sa.carries()[inputs.len() % sa.carries().len()] {
                4 => ipv4(sa.dst_v4(), 64, 17, &[], &body),
                _ => ipv6(sa.dst_v6(), 64, 17, &body),
            };
            inputs.push(on_some_link(inputs.len(), &packet));
        }
    }
    inputs
}

#[test]
fn every_suite_and_form_is_sealed() {
    let sas = Sa::all();
    assert_eq!(sas.len(), 24 * 8 * 2);
    assert_eq!(compare(&sas, "out", &packets(&sas)), 0);
}

/// SAs that differ in how outer headers are made, without secrets.
fn outer_kinds() -> Vec<Sa> {
    let mut sas = Vec::new();
    for version in [4, 6] {
        for more in
            ["", "ecn = false", "dscp = 10\nhops = 9", "df = 'set'", "df = 'clear'\ndscp = 63"]
        {
            for in_udp in [false, true] {
                let form = Form { is_tunnel: true, version, in_udp };
                let number = sas.len() as u16;
                sas.push(Sa { number, suite: OPEN, form, esn: false, more });
            }
        }
    }
    sas
}

#[test]
fn outer_headers_are_made_as_the_sa_says() {
    let sas = outer_kinds();
    let mut inputs = Vec::new();
    for sa in &sas {
        for class in [0, 1, 2, 3, 0xb8, 0xff_u8] {
            for fragment in [[0, 0], [0x40, 0], [0x20, 0], [0, 9]] {
                let mut packet = ipv4(sa.dst_v4(), 64, 17, &[], &udp(&[7; 30]));
                packet[1] = class;
                packet[6..8].copy_from_slice(&fragment);
                inputs.push(on_some_link(inputs.len(), &packet));
            }
            let mut packet = ipv6(sa.dst_v6(), 64, 17, &udp(&[7; 30]));
            packet[0] |= class >> 4;
            packet[1] |= class << 4;
            inputs.push(on_some_link(inputs.len(), &packet));
        }
    }
    assert_eq!(compare(&sas, "out", &inputs), 0);
}

/// Packets of all kinds, also such that can't be sealed.
#[test]
fn whatever_comes_is_sealed_or_not() {
    let sas: Vec<Sa> = Sa::all().into_iter().filter(|sa| sa.number % 5 == 0).collect();
    let v4: Vec<_> = sas.iter().map(Sa::dst_v4).collect();
    let v6: Vec<_> = sas.iter().map(Sa::dst_v6).collect();
    let mut from = Random::new(4);
    let mut inputs: Vec<Input> = (0..6000).map(|_| random(&mut from, &v4, &v6)).collect();
    let plain = ipv4(v4[0], 64, 6, &[], &[&TCP[..], &[1; 9]].concat());
    inputs.push(on_link(LinkType::IPV4, &plain));
    inputs.push(Input {
        link: LinkType::NULL,
        ..Input::at(0, &[&[2, 0, 0, 0], &plain[..]].concat())
    });
    inputs.push(ethernet(&[], &ipv4(v4[0], 64, 17, &[1; 40], &udp(&[1; 65_000]))));
    let left = compare(&sas, "out", &inputs);
    // Behind extension headers in transport mode.
    assert!(left > 0 && left < inputs.len() / 20, "{left}");
}

#[test]
fn kernels_compile_for_gpus() {
    for direction in ["out", "in"] {
        let files = Files::new(&Sa::all(), direction);
        let (function, _) = files.function("nonces");
        compile_for_cuda(&*function);
    }
}

/// Only kernels that some SA needs run: without one none does, and packets go by.
#[test]
fn kernels_are_those_that_sas_need() {
    let names = |sas: &[Sa], direction| {
        let files = Files::new(sas, direction);
        let (function, _) = files.function("nonces");
        let kernels = function.kernels().expect("kernels");
        kernels.steps().iter().map(|step| step.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&Sa::all(), "out"), ["ipsec_seal"]);
    assert_eq!(names(&Sa::all(), "in"), ["ipsec_open", "ipsec_open_counter"]);
    assert!(names(&[], "in").is_empty());
    assert_eq!(compare(&[], "out", &packets(&Sa::all())), 0);
}
