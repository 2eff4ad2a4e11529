//! The cost of `digest` next to a bare multi-buffer MD5 loop over the same payloads.
//!
//! Payloads of one length in UDP packets, in batches of 256: one batch, which stays in the caches,
//! and 64 in turn. The bare loop takes 24 payloads of known, equal length in step and does nothing
//! else. Also timed: `run` with the notes of `after`, batch by batch as a lane does both, and the
//! crate `md-5`, one payload at a time. Where intel-ipsec-mb is installed, its multi-buffer
//! HMAC-MD5 is timed too. HMAC hashes one more block of each payload than MD5, after the outer pad,
//! so its time is also given by blocks.

use std::hint::black_box;
use std::path::Path;

use md5::Digest as _;
use warpline_bench::lane::Lane;
use warpline_bench::{median, seconds};
use warpline_digest::md5::{BLOCK_LEN, Block, LANES, States, compress, pad};
use warpline_native::ipsec_mb::{self as native, Hash, JobOutcome, Library, Manager};
use warpline_packet::hash::mix32;
use warpline_packet::{BATCH_DEFAULT, prefetch};
use warpline_verify::build;

const ROUNDS: usize = 101;
const GROUPS: usize = 3;
const WIDTH: usize = GROUPS * LANES;
/// Blocks by which memory is asked for a payload ahead of its turn.
const AHEAD: usize = 4;

fn main() {
    for batches in [1, 64] {
        for len in [64, 512, 1472] {
            measure(batches, len);
        }
    }
}

fn measure(batches: usize, len: usize) {
    let (function, scratch_words) = build(&warpline_digest::DEFINITION, "", Path::new("."));
    let frames: Vec<Vec<u8>> =
        (0..batches * BATCH_DEFAULT).map(|number| frame(number as u32, len)).collect();
    let mut lane = Lane::new(function, scratch_words, &frames);
    let mut payloads: Vec<Vec<u8>> =
        lane.batches.iter().flat_map(|b| b.forward().map(|p| p.payload().to_vec())).collect();
    lane.run();
    lane.state();
    let mut digests = vec![[0; 4]; payloads.len()];
    bare(&payloads, &mut digests);
    assert_eq!(lane.noted, digests.len() as u64);
    for (payload, digest) in payloads.iter().zip(&digests) {
        assert_eq!(warpline_digest::md5::bytes(*digest)[..], md5::Md5::digest(payload)[..]);
    }
    let repeat = (1 << 22) / (batches * BATCH_DEFAULT * (len + 64)) + 1;
    let mut hmac = Hmac::new(payloads.len());
    if let Some(hmac) = &mut hmac {
        hmac.run(&mut payloads);
        hmac.check(&payloads);
    }
    let mut times: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let again = |work: &mut dyn FnMut()| seconds(|| (0..repeat).for_each(|_| work()));
        times[0].push(again(&mut || bare(&payloads, &mut digests)));
        times[1].push(again(&mut || lane.run()));
        times[2].push(again(&mut || lane.phases()));
        times[3].push(again(&mut || {
            for payload in &payloads {
                black_box(md5::Md5::digest(payload));
            }
        }));
        if let Some(hmac) = &mut hmac {
            times[4].push(again(&mut || hmac.run(&mut payloads)));
        }
    }
    let ratio = |other: &[f64]| {
        median(times[0].iter().zip(other).map(|(bare, other)| bare / other).collect())
    };
    let (run, with_notes, scalar) = (ratio(&times[1]), ratio(&times[2]), ratio(&times[3]));
    let count = (repeat * payloads.len()) as f64;
    let nanos = |times: Vec<f64>| median(times) * 1e9 / count;
    let hmac_ratio = ratio(&times[4]);
    let [bare, own, noted, crate_md5, hmac] = times.map(nanos);
    println!(
        "{batches:2} batches, {len:4} B: bare {bare:6.1} ns ({:.2} GB/s), run {own:6.1} ns, ratio \
         {run:.3}; with notes {noted:6.1} ns, ratio {with_notes:.3}; md-5 {crate_md5:6.1} ns, \
         ratio {scalar:.3}",
        len as f64 / bare
    );
    if !hmac.is_nan() {
        // Blocks of MD5 (RFC 1321, 3.1 and 3.2); HMAC has one more.
        let blocks = ((len + 8) / BLOCK_LEN + 1) as f64;
        println!(
            "{batches:2} batches, {len:4} B: intel-ipsec-mb HMAC-MD5 {hmac:6.1} ns, ratio \
             {hmac_ratio:.3}; a block {:.2} ns, ratio {:.3}",
            hmac / (blocks + 1.0),
            hmac_ratio * (blocks + 1.0) / blocks
        );
    }
}

/// The library's HMAC-MD5 (RFC 2104) with one key.
struct Hmac {
    manager: Manager,
    /// States after the pads.
    inner: [u32; 8],
    outer: [u32; 8],
    outcomes: Vec<JobOutcome>,
}

impl Hmac {
    const KEY: u8 = 0x77;

    /// For so many payloads; `None`, with a message, if the library is not installed.
    fn new(payloads: usize) -> Option<Self> {
        let manager = Library::load().and_then(Manager::new);
        let manager =
            manager.inspect_err(|missing| println!("without HMAC-MD5: {missing}")).ok()?;
        let state = |pad: u8| {
            let mut states = [States::new()];
            compress(&mut states, &[[&[Self::KEY ^ pad; BLOCK_LEN]; LANES]]);
            let [a, b, c, d] = states[0].lane(0);
            [a, b, c, d, 0, 0, 0, 0]
        };
        let outcomes = vec![JobOutcome::default(); payloads];
        Some(Self { manager, inner: state(0x36), outer: state(0x5c), outcomes })
    }

    fn run(&mut self, payloads: &mut [Vec<u8>]) {
        let hash = Hash::Md5(&self.inner, &self.outer);
        let jobs = payloads.iter_mut().zip(&mut self.outcomes);
        self.manager.run(jobs.map(|(payload, outcome)| native::Job {
            direction: native::Direction::Seal,
            cipher: native::Cipher::Null,
            hash,
            ciphered: 0..0,
            hashed: 0..payload.len(),
            packet: payload,
            tag_at: None,
            outcome,
        }));
    }

    /// Against the definition, with a key as long as a block.
    fn check(&self, payloads: &[Vec<u8>]) {
        for (payload, outcome) in payloads.iter().zip(&self.outcomes) {
            let padded = |pad: u8| md5::Md5::new_with_prefix([Self::KEY ^ pad; BLOCK_LEN]);
            let inner = padded(0x36).chain_update(payload).finalize();
            let tag = padded(0x5c).chain_update(inner).finalize();
            assert_eq!(outcome.tag().map(|tag| &tag[..12]), Some(&tag[..12]));
        }
    }
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
        for step in 0..parts[0].len() {
            step_of(&mut states, |lane| &parts[lane][step]);
            parts.iter().filter_map(|part| part.get(step + AHEAD)).for_each(prefetch);
        }
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
