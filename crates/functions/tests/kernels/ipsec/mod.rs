//! The kernels of `ipsec`. Its own tests check `run` itself, by published vectors and other
//! implementations.

pub(crate) mod gateway;
mod opening;
mod sealing;

use warpline_device::Device;
use warpline_nf::Function;
use warpline_packet::{LinkType, Verdict};
use warpline_verify::{Harness, Input};

use crate::driver::{Tally, compare_twins, devices, devices_of_case};
use crate::frames::{ethernet, on_link};
use gateway::{Files, Sa};

/// Lengths of payloads: around the ends of blocks, short and long.
fn lens() -> impl Iterator<Item = usize> {
    (0..=80).chain(1440..=1476)
}

/// The packet on one of the links that can have any, by `number`.
fn on_some_link(number: usize, packet: &[u8]) -> Input {
    match number % 7 {
        0 => ethernet(&[0x81, 0, 0, 9], packet),
        1 => on_link(LinkType::RAW, packet),
        2 => on_link(LinkType::LINUX_SLL, packet),
        3 => on_link(LinkType::LINUX_SLL2, packet),
        4 => ethernet(&[0x88, 0xa8, 0, 8, 0x81, 0, 0, 9, 0x81, 0, 0, 1], packet),
        _ => ethernet(&[], packet),
    }
}

/// Frames as the gateway forwards them, on the same links.
fn sent(harness: &mut Harness, inputs: &[Input]) -> Vec<Input> {
    let mut sent = Vec::new();
    for inputs in inputs.chunks(1024) {
        for (outcome, input) in harness.process(inputs).into_iter().zip(inputs) {
            assert_eq!(outcome.verdict, Verdict::Forward, "{input:?}");
            sent.push(Input { link: input.link, ..Input::at(0, &outcome.bytes) });
        }
    }
    sent
}

/// The sealed packets of `inputs`.
fn sealed(sas: &[Sa], inputs: &[Input]) -> Vec<Input> {
    let files = Files::new(sas, "out");
    let (function, words) = files.function("nonces");
    sent(&mut Harness::new(function, words), inputs)
}

/// Sends frames through a gateway's kernels and its `run`, on every device. Returns how many the
/// kernels left alone.
fn compare(sas: &[Sa], direction: &str, inputs: &[Input]) -> usize {
    let left = devices().into_iter().map(|device| compare_on(&*device, sas, direction, inputs));
    left.reduce(|one, other| {
        assert_eq!(one, other, "all devices leave the same");
        one
    })
    .unwrap_or(0)
}

/// Each suite in one form, both ways: no more packets than a simulator that looks at every access
/// gets through (`make kernel-races`).
#[test]
fn each_suite_in_some_form() {
    let is_picked = |sa: &Sa| sa.number % 16 == 5 * (sa.number / 16) % 16;
    let sas: Vec<Sa> = Sa::all().into_iter().filter(is_picked).collect();
    assert_eq!(sas.len(), 24);
    let inputs: Vec<Input> = sealing::packets(&sas).into_iter().step_by(8).collect();
    assert_eq!(compare(&sas, "out", &inputs), 0);
    let sealed = sealed(&sas, &inputs);
    assert_eq!(compare(&sas, "in", &sealed), 0);
    for (number, (direction, inputs)) in [("out", &inputs), ("in", &sealed)].iter().enumerate() {
        for device in devices_of_case(number) {
            assert_eq!(compare_places(&*device, &sas, direction, inputs), 0);
        }
    }
}

/// Each direction at its place of two.
fn compare_places(device: &dyn Device, sas: &[Sa], direction: &str, inputs: &[Input]) -> usize {
    let files = Files::new(sas, direction);
    let place = usize::from(direction == "out");
    let ((ours, words), (theirs, _)) = (files.place("ours", place), files.place("theirs", place));
    let Tally { packets, left } = compare_twins([&*ours, &*theirs], words, inputs, device);
    assert_eq!(packets, inputs.len());
    left
}

fn compare_on(device: &dyn Device, sas: &[Sa], direction: &str, inputs: &[Input]) -> usize {
    let files = Files::new(sas, direction);
    let ((ours, words), (theirs, _)) = (files.function("ours"), files.function("theirs"));
    let twins: [&dyn Function; 2] = [&*ours, &*theirs];
    let Tally { packets, left } = compare_twins(twins, words, inputs, device);
    assert_eq!(packets, inputs.len());
    left
}
