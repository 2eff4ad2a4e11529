//! What `digest` costs next to a bare multi-buffer MD5 loop over the same payloads.
//!
//! Payloads of one length in UDP packets, in batches of 256: one batch, which stays in the caches, and 64 in
//! turn. The bare loop takes 24 payloads of known, equal length in step and does nothing else. Also timed:
//! `run` with the notes of `after`, as a lane does both, and the crate `md-5`, one payload at a time.

use std::hint::black_box;
use std::path::Path;

use md5::Digest as _;
use warpline_bench::lane::Lane;
use warpline_bench::{median, seconds};
use warpline_nf::digest;
use warpline_nf::digest::md5::{BLOCK_LEN, Block, LANES, States, compress, pad};
use warpline_nf::harness::build;
use warpline_packet::BATCH_DEFAULT;
use warpline_packet::hash::mix32;

const ROUNDS: usize = 101;
const GROUPS: usize = 3;
const WIDTH: usize = GROUPS * LANES;

fn main() {
    for batches in [1, 64] {
        for len in [64, 512, 1472] {
            measure(batches, len);
        }
    }
}

fn measure(batches: usize, len: usize) {
    let (function, scratch_words) = build(&digest::DEFINITION, "", Path::new("."));
    let frames: Vec<Vec<u8>> =
        (0..batches * BATCH_DEFAULT).map(|number| frame(number as u32, len)).collect();
    let mut lane = Lane::new(function, scratch_words, &frames);
    let payloads: Vec<Vec<u8>> =
        lane.batches.iter().flat_map(|b| b.forward().map(|p| p.payload().to_vec())).collect();
    lane.run();
    lane.state();
    let mut digests = vec![[0; 4]; payloads.len()];
    bare(&payloads, &mut digests);
    assert_eq!(lane.noted, digests.len() as u64);
    for (payload, digest) in payloads.iter().zip(&digests) {
        assert_eq!(digest::md5::bytes(*digest)[..], md5::Md5::digest(payload)[..]);
    }
    let repeat = (1 << 22) / (batches * BATCH_DEFAULT * (len + 64)) + 1;
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let again = |work: &mut dyn FnMut()| seconds(|| (0..repeat).for_each(|_| work()));
        times[0].push(again(&mut || bare(&payloads, &mut digests)));
        times[1].push(again(&mut || lane.run()));
        times[2].push(again(&mut || {
            lane.run();
            lane.state();
        }));
        times[3].push(again(&mut || {
            for payload in &payloads {
                black_box(md5::Md5::digest(payload));
            }
        }));
    }
    let ratio = |other: &[f64]| {
        median(times[0].iter().zip(other).map(|(bare, other)| bare / other).collect())
    };
    let (run, with_notes, scalar) = (ratio(&times[1]), ratio(&times[2]), ratio(&times[3]));
    let count = (repeat * payloads.len()) as f64;
    let nanos = |times: Vec<f64>| median(times) * 1e9 / count;
    let [bare, own, noted, crate_md5] = times.map(nanos);
    println!(
        "{batches:2} batches, {len:4} B: bare {bare:6.1} ns ({:.2} GB/s), run {own:6.1} ns, ratio {run:.3}; \
         with notes {noted:6.1} ns, ratio {with_notes:.3}; md-5 {crate_md5:6.1} ns, ratio {scalar:.3}",
        len as f64 / bare
    );
}

/// Payloads of one length, all lanes in step.
#[inline(never)]
fn bare(payloads: &[Vec<u8>], digests: &mut [[u32; 4]]) {
    let mut tails = [[[0; BLOCK_LEN]; 2]; WIDTH];
    for (payloads, digests) in payloads.chunks(WIDTH).zip(digests.chunks_mut(WIDTH)) {
        let mut states = [States::new(); GROUPS];
        let last = payloads.len() - 1;
        let parts: [&[Block]; WIDTH] =
            std::array::from_fn(|lane| payloads[lane.min(last)].as_chunks().0);
        let mut blocks = 0;
        for (payload, tail) in payloads.iter().zip(&mut tails) {
            blocks = pad(payload.as_chunks::<BLOCK_LEN>().1, payload.len(), tail);
        }
        (0..parts[0].len()).for_each(|step| step_of(&mut states, |lane| &parts[lane][step]));
        (0..blocks).for_each(|step| step_of(&mut states, |lane| &tails[lane][step]));
        for (lane, digest) in digests.iter_mut().enumerate() {
            *digest = states[lane / LANES].lane(lane % LANES);
        }
    }
}

#[inline(always)]
fn step_of<'a>(states: &mut [States; GROUPS], block: impl Fn(usize) -> &'a Block) {
    let blocks: [[&Block; LANES]; GROUPS] =
        std::array::from_fn(|group| std::array::from_fn(|lane| block(group * LANES + lane)));
    compress(states, &blocks);
}

/// UDP, of 4096 hosts.
fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((28 + len as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0]);
    frame.extend((mix32(number) as u16 & 0xfff).to_be_bytes());
    frame.extend([198, 51, 100, 7, 0, 7, 0, 9]);
    frame.extend((8 + len as u16).to_be_bytes());
    frame.extend([0x12, 0x34]);
    frame.extend((0..len as u32).map(|i| mix32(number << 12 ^ i) as u8));
    frame
}
