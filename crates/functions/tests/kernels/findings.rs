//! Kernels that keep findings: the lists are those of `run`.

use warpline_packet::ScratchWord;
use warpline_testkit::finder::Finder;
use warpline_verify::Input;

use crate::compiled::compile_for_cuda;
use crate::driver::{Tally, compare, devices};
use crate::frames::{Random, random};

const V4: [u8; 4] = [192, 0, 2, 1];
const V6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

fn finder() -> Finder {
    // The driver's launches have room for more numbers than are found, and batches for sixteen
    // times as many as packets.
    Finder::new(ScratchWord::new(1).expect("a word"), 16)
}

#[test]
fn findings_are_those_of_run() {
    let mut from = Random::new(6);
    let inputs: Vec<Input> = (0..2000).map(|_| random(&mut from, &[V4], &[V6])).collect();
    for device in devices() {
        let tally = compare(&finder(), 2, &inputs, &*device);
        assert_eq!(tally, Tally { packets: inputs.len(), left: 0 });
    }
}

#[test]
fn kernels_compile_for_gpus() {
    compile_for_cuda(&finder());
}
