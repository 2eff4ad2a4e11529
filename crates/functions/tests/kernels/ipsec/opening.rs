//! Opening by kernels.

use warpline_device::host::{Compiler, Host};
use warpline_packet::LinkType;
use warpline_verify::Input;

use super::gateway::{Form, OPEN, Sa, THERE_V4, THERE_V6, forms};
use super::sealing::packets;
use super::{compare, compare_on, on_some_link, sealed};
use crate::frames::{Random, TCP, ipv4, ipv6, udp};

#[test]
fn every_suite_and_form_is_opened() {
    let sas = Sa::all();
    let inputs = sealed(&sas, &packets(&sas));
    assert_eq!(compare(&sas, "in", &inputs), 0);
}

/// A bit of each packet is changed. Most packets fail authentication and stay unchanged. SAs
/// without authentication open theirs to a different text.
#[test]
fn damaged_packets_are_opened_or_not() {
    let sas = Sa::all();
    let mut random = Random::new(5);
    let mut inputs = sealed(&sas, &packets(&sas));
    for input in &mut inputs {
        let at = match random.below(3) {
            0 => input.bytes.len() - 1 - random.below(34),
            _ => random.below(input.bytes.len()),
        };
        input.bytes[at] ^= 1 << random.below(8);
    }
    let left = compare(&sas, "in", &inputs);
    assert!(left < inputs.len() / 10, "{left}");
}

/// Packets that are cut, with the lengths of their IP headers as they were.
#[test]
fn packets_of_other_lengths_are_opened_or_not() {
    let sas: Vec<Sa> = Sa::all().into_iter().filter(|sa| sa.number % 3 == 0).collect();
    let mut random = Random::new(6);
    let mut inputs = sealed(&sas, &packets(&sas));
    for input in &mut inputs {
        let l3 = input.bytes.windows(2).position(|two| two == [0x45, 0]);
        let Some(l3) = l3.filter(|_| input.bytes.len() < 400) else { continue };
        let total = usize::from(u16::from_be_bytes([input.bytes[l3 + 2], input.bytes[l3 + 3]]));
        let less = total.saturating_sub(random.below(60)).max(20);
        input.bytes[l3 + 2..l3 + 4].copy_from_slice(&(less as u16).to_be_bytes());
    }
    compare(&sas, "in", &inputs);
}

/// SAs of every form whose texts can be written by hand.
fn open_sas() -> Vec<Sa> {
    let forms = forms().into_iter().zip(0..);
    forms.map(|(form, number)| Sa { number, suite: OPEN, form, esn: false, more: "" }).collect()
}

/// ESP with this text, as it comes by `sa` on link `number`; `class` is that of the outer header.
fn esp(sa: &Sa, number: usize, class: u8, text: &[u8]) -> Input {
    let mut body = [&sa.spi().to_be_bytes()[..], &[1, 2, 3, 5], text].concat();
    if sa.form.in_udp {
        let len = (body.len() as u16 + 8).to_be_bytes();
        body = [&[0x11, 0x94, 0x11, 0x94][..], &len, &[0, 0], &body].concat();
    }
    let protocol = if sa.form.in_udp { 17 } else { 50 };
    let Form { is_tunnel, version, .. } = sa.form;
    let packet = if version == 4 {
        let mut packet =
            ipv4(if is_tunnel { THERE_V4 } else { sa.dst_v4() }, 64, protocol, &[], &body);
        packet[1] = class;
        packet
    } else {
        let dst = if is_tunnel { THERE_V6 } else { sa.dst_v6() };
        let mut packet = ipv6(dst, 64, protocol, &body);
        packet[0] |= class >> 4;
        packet[1] |= class << 4;
        packet
    };
    on_some_link(number, &packet)
}

/// A text with `pad_len` bytes of padding, and what fills its block up.
fn text(carried: &[u8], pad_len: usize, protocol: u8) -> Vec<u8> {
    let missing = (carried.len() + pad_len + 2).next_multiple_of(4) - carried.len() - pad_len - 2;
    let pad_len = pad_len + missing;
    let padding = (1..=pad_len).map(|number| number as u8);
    carried.iter().copied().chain(padding).chain([pad_len as u8, protocol]).collect()
}

/// Complete bodies that an ESP payload may carry, each with its protocol.
fn bodies() -> Vec<(u8, Vec<u8>)> {
    let mut tcp_with_options = [&TCP[..], &[1; 44]].concat();
    tcp_with_options[12] = 0xf0;
    let short_udp = [&udp(&[3; 20])[..], &[9; 7]].concat();
    let mut summed = udp(&[3; 21]);
    summed[6] = 5;
    vec![
        (17, udp(&[])),
        (17, udp(&[5; 33])),
        (17, short_udp),
        (17, summed),
        (6, TCP.to_vec()),
        (6, tcp_with_options),
        (1, vec![8; 8]),
        (58, vec![128; 64]),
        (50, vec![7; 90]),
        (99, vec![]),
        (99, vec![1]),
        (47, vec![1; 1400]),
    ]
}

/// The payload and its protocol: the body in an IP packet of this version for tunnels, else the
/// body itself.
fn carried(sa: &Sa, version: u8, protocol: u8, body: &[u8]) -> (u8, Vec<u8>) {
    match (sa.form.is_tunnel, version) {
        (true, 4) => (4, ipv4([10, 9, 8, 7], 64, protocol, &[], body)),
        (true, _) => (41, ipv6(sa.dst_v6(), 64, protocol, body)),
        (false, _) => (protocol, body.to_vec()),
    }
}

/// Every body sealed by every SA, passed through `change`. In tunnels the body is in an IP packet.
fn each_body(change: impl Fn(usize, u8, Vec<u8>) -> (Vec<u8>, usize, u8)) -> Vec<Input> {
    let mut inputs = Vec::new();
    for sa in open_sas() {
        for (protocol, body) in bodies() {
            for version in [4, 6] {
                if version == 6 && body.is_empty() || sa.form.version == 6 && body.is_empty() {
                    continue;
                }
                let number = inputs.len();
                let (protocol, carried) = carried(&sa, version, protocol, &body);
                let (carried, pad_len, protocol) = change(number, protocol, carried);
                let class = [0, 1, 2, 3, 0xbb][number % 5];
                inputs.push(esp(&sa, number, class, &text(&carried, pad_len, protocol)));
            }
        }
    }
    inputs
}

#[test]
fn usual_texts_are_stripped_here() {
    let sas = open_sas();
    let plain = each_body(|_, protocol, carried| (carried, 0, protocol));
    assert_eq!(compare(&sas, "in", &plain), 0);
    let padded = each_body(|number, protocol, carried| (carried, number % 254, protocol));
    assert_eq!(compare(&sas, "in", &padded), 0);
    // Congestion marks, Don't Fragment, and pieces of packets in tunnels.
    let marked = each_body(|number, protocol, mut carried| {
        if protocol == 4 {
            carried[1] = number as u8;
            carried[6..8]
                .copy_from_slice(&[[0x40, 0], [0x20, 0], [0x20, 5], [0, 77]][number / 2 % 4]);
        } else if protocol == 41 {
            carried[1] |= (number as u8) << 4;
        }
        (carried, 3, protocol)
    });
    assert_eq!(compare(&sas, "in", &marked), 0);
    // First pieces of datagrams that are longer than they.
    let pieces = each_body(|_, protocol, mut carried| {
        if protocol == 4 {
            carried[6] = 0x20;
            if carried[9] == 17 {
                carried[24..26].copy_from_slice(&[7, 0xd0]);
            }
        }
        (carried, 0, protocol)
    });
    assert_eq!(compare(&sas, "in", &pieces), 0);
    // Padding against traffic analysis (RFC 4303, 2.7), dummies, and texts of another kind.
    let longer = each_body(|number, protocol, carried| {
        let is_tunnel = matches!(protocol, 4 | 41);
        let more = if is_tunnel { number % 70 } else { 0 };
        ([&carried[..], &vec![0xee; more]].concat(), 1, protocol)
    });
    assert_eq!(compare(&sas, "in", &longer), 0);
    let dummies = each_body(|_, _, carried| (carried, 9, 59));
    assert_eq!(compare(&sas, "in", &dummies), 0);
    let odd = each_body(|number, protocol, carried| {
        let is_tunnel = matches!(protocol, 4 | 41);
        let other = [4, 41, 17, 255][number % 4];
        (carried, 0, if is_tunnel { other } else { 200 })
    });
    assert_eq!(compare(&sas, "in", &odd), 0);
}

#[test]
fn links_that_tell_versions_apart() {
    let sas = open_sas();
    let mut inputs = Vec::new();
    for sa in sas.iter().filter(|sa| sa.form.version == 4) {
        for version in [4, 6] {
            let (protocol, carried) = carried(sa, version, 17, &udp(&[1; 50]));
            // Number 1 is a raw link.
            let raw = esp(sa, 1, 0, &text(&carried, 0, protocol));
            for (link, family) in [
                (LinkType::NULL, [2, 0, 0, 0]),
                (LinkType::NULL, [0, 0, 0, 2]),
                (LinkType::LOOP, [0, 0, 0, 2]),
            ] {
                let behind = [&family, &raw.bytes[..]].concat();
                inputs.push(Input { link, ..Input::at(0, &behind) });
            }
            inputs.push(Input { link: LinkType::IPV4, ..raw });
        }
    }
    assert_eq!(compare(&sas, "in", &inputs), 0);
}

/// Usual texts with a byte changed, in a header or near the end, and shapes that are left.
fn wrong_and_unusual() -> Vec<Input> {
    let mut random = Random::new(7);
    let mut inputs = Vec::new();
    for _ in 0..12 {
        for mut input in each_body(|number, protocol, carried| (carried, number % 17, protocol)) {
            let front = input.bytes.len().min(130);
            let at = match random.below(3) {
                0 => input.bytes.len() - 1 - random.below(20),
                _ => front - 1 - random.below(front - 30),
            };
            input.bytes[at] = random.pick(&[0, 1, 4, 5, 0x44, 0x46, 0x60, 60, 255]);
            inputs.push(input);
        }
    }
    let unusual = each_body(|number, protocol, carried| {
        let behind_options = [&[17, 0, 1, 4, 0, 0, 0, 0], &udp(&[1; 9])[..]].concat();
        match protocol {
            4 => (ipv4([10, 9, 8, 7], 64, 17, &[1; 8], &udp(&[number as u8; 40])), 0, 4),
            41 => (ipv6([3; 16], 64, 60, &behind_options), 0, 41),
            _ => (carried, 0, 60),
        }
    });
    inputs.extend(unusual);
    // Pieces that end beyond the longest packet.
    inputs.extend(each_body(|_, protocol, mut carried| {
        if protocol == 4 {
            carried[6..8].copy_from_slice(&[0x1f, 0xff]);
        }
        (carried, 0, protocol)
    }));
    inputs
}

#[test]
fn wrong_and_unusual_texts_are_what_run_makes_of_them() {
    let inputs = wrong_and_unusual();
    let left = compare(&open_sas(), "in", &inputs);
    assert!(left > 0 && left < inputs.len() / 2, "{left}");
}

/// On a host device that stops where the behaviour of C is undefined.
#[test]
fn nothing_is_undefined() {
    let options = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"];
    let Ok(compiler) = Compiler::find() else { return println!("skipped: no C compiler") };
    let host = Host::with(compiler.with(&options)).expect("a thread");
    compare_on(&host, &open_sas(), "in", &wrong_and_unusual());
    let sas: Vec<Sa> = Sa::all().into_iter().filter(|sa| sa.number % 5 == 0).collect();
    let inputs = packets(&sas);
    compare_on(&host, &sas, "out", &inputs);
    compare_on(&host, &sas, "in", &sealed(&sas, &inputs));
}
