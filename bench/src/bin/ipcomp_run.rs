//! The cost of `ipcomp` next to the bare DEFLATE library over the same payloads.
//!
//! A batch of 256 UDP packets, each with text of its own made from a list of words, is compressed,
//! and then decompressed. The bare loop calls the library on the same bytes and ignores its output.
//! The last rows have noise in every other packet and time all three phases: there `adaptive` saves
//! the tries.

use std::hint::black_box;
use std::path::Path;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use warpline_bench::{median, seconds};
use warpline_nf::Function;
use warpline_packet::hash::mix32;
use warpline_packet::{BATCH_DEFAULT, Verdict};
use warpline_verify::{Harness, Input, build};

const ROUNDS: usize = 61;
/// Bytes before the payload of IP.
const HEADERS_LEN: usize = 34;

fn main() {
    for level in [1, 6] {
        for len in [256, 1400] {
            measure(level, len, false);
        }
    }
    measure(1, 1400, true);
}

fn measure(level: u32, len: usize, noise: bool) {
    let inputs: Vec<Input> = (0..BATCH_DEFAULT as u32)
        .map(|number| frame(number, len, noise && number % 2 == 1))
        .map(|frame| Input::at(0, &frame))
        .collect();
    let compressing = format!("mode = \"compress\"\nlevel = {level}\nadaptive = {noise}");
    let compressed = compress(&compressing, level, &inputs, noise);
    if !noise {
        decompress(&compressed, &inputs);
    }
}

/// Prints what compression costs; gives the packets that it makes.
fn compress(table: &str, level: u32, inputs: &[Input], all_phases: bool) -> Vec<Input> {
    let mut end = End::new(table);
    let out = end.harness.process(inputs);
    let mut library = Compress::new(Compression::new(level), false);
    let mut room = vec![0; 1 << 17];
    let mut bare = || {
        for input in inputs {
            library.reset();
            let body = &input.bytes[HEADERS_LEN..];
            black_box(library.compress(body, &mut room, FlushCompress::Finish).expect("it can"));
        }
    };
    let what =
        format!("compress, level {level}{}", if all_phases { ", half of it noise" } else { "" });
    compare(&what, inputs, &mut bare, &mut || end.seconds(inputs, all_phases));
    let shrunk: usize = out.iter().map(|out| out.bytes.len()).sum();
    let whole: usize = inputs.iter().map(|input| input.bytes.len()).sum();
    println!("    {:.3} of the bytes are left", shrunk as f64 / whole as f64);
    out.iter().map(|out| Input::at(0, &out.bytes)).collect()
}

fn decompress(compressed: &[Input], originals: &[Input]) {
    let mut end = End::new("mode = \"decompress\"");
    for (out, original) in end.harness.process(compressed).iter().zip(originals) {
        assert!(out.verdict == Verdict::Forward && out.bytes == original.bytes);
    }
    let mut library = Decompress::new(false);
    let mut room = vec![0; 1 << 14];
    let mut bare = || {
        for input in compressed.iter().filter(|input| input.bytes[23] == 108) {
            library.reset(false);
            let stream = &input.bytes[HEADERS_LEN + 4..];
            let made = library.decompress(stream, &mut room, FlushDecompress::Finish);
            black_box(made.expect("a stream"));
        }
    };
    compare("decompress", compressed, &mut bare, &mut || end.seconds(compressed, false));
}

fn compare(what: &str, inputs: &[Input], bare: &mut dyn FnMut(), own: &mut dyn FnMut() -> f64) {
    bare();
    own();
    let pairs: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (seconds(&mut *bare), own())).collect();
    let ratio = median(pairs.iter().map(|(bare, own)| bare / own).collect());
    let nanos = |pick: fn(&(f64, f64)) -> f64| {
        median(pairs.iter().map(pick).collect()) * 1e9 / inputs.len() as f64
    };
    let len = inputs.iter().map(|input| input.bytes.len()).sum::<usize>() / inputs.len();
    let (bare, own) = (nanos(|pair| pair.0), nanos(|pair| pair.1));
    println!("{what}, frames of {len} B: bare {bare:.0} ns, ipcomp {own:.0} ns, ratio {ratio:.3}");
}

/// One end, with room for its packets.
struct End {
    harness: Harness,
    function: Box<dyn Function>,
}

impl End {
    fn new(table: &str) -> Self {
        let make = || build(&warpline_ipcomp::DEFINITION, table, Path::new("."));
        let (function, words) = make();
        Self { harness: Harness::new(function, words), function: make().0 }
    }

    /// Seconds for one batch: for `run`, or for all three phases.
    fn seconds(&mut self, inputs: &[Input], all_phases: bool) -> f64 {
        let batch = self.harness.fill(inputs);
        if all_phases {
            return seconds(|| self.harness.work());
        }
        seconds(|| self.function.run(batch))
    }
}

const WORDS: [&str; 32] = [
    "the ",
    "of ",
    "and ",
    "to ",
    "in ",
    "packet ",
    "is ",
    "that ",
    "header ",
    "for ",
    "length ",
    "checksum ",
    "with ",
    "as ",
    "field ",
    "protocol ",
    "by ",
    "address ",
    "on ",
    "not ",
    "value ",
    "this ",
    "which ",
    "router ",
    "from ",
    "option ",
    "must ",
    "datagram ",
    "be ",
    "source ",
    "or ",
    "fragment ",
];

/// UDP with `len` bytes of words, and numbers between them, or of noise.
fn frame(number: u32, len: usize, noise: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((28 + len as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, number as u8, 198, 51, 100, 7, 0, 7, 0, 9]);
    frame.extend((8 + len as u16).to_be_bytes());
    frame.extend([0x12, 0x34]);
    let end = frame.len() + len;
    let mut random = number;
    while frame.len() < end {
        random = mix32(random.wrapping_add(0x9e37_79b9));
        match random >> 24 {
            _ if noise => frame.extend(random.to_le_bytes()),
            0..16 => frame.extend((random & 0xffff).to_string().bytes()),
            word => frame.extend(WORDS[word as usize % WORDS.len()].bytes()),
        }
    }
    frame.truncate(end);
    frame
}
