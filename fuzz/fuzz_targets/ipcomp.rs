//! Payload compression under fuzzed packets: what was compressed comes back, and what claims to be
//! compressed is decompressed within its limits or dropped by name.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::frames::{self, FLUSH};
use warpline_fuzz::functions::try_build;
use warpline_ipcomp::DEFINITION;
use warpline_packet::{Headers, LinkType, Verdict};
use warpline_verify::{Harness, Input, Outcome};

const COMPRESS: &str = "mode = \"compress\"\nmin_len = 1\nlevel = 3\n";
const LEN_MAX: usize = 3000;
const DECOMPRESS: &str = "mode = \"decompress\"\nlen_max = 3000\n";

thread_local! {
    static ENDS: RefCell<[Harness; 2]> =
        RefCell::new([COMPRESS, DECOMPRESS].map(|table| {
            let built = try_build(&DEFINITION, table, &[]).expect("TOML");
            let (function, words) = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
            Harness::new(function, words)
        }));
}

fuzz_target!(|data: &[u8]| {
    let mut waiting = Vec::new();
    for cut in frames::cut(data, 0) {
        if cut.has(FLUSH) {
            send(&mut waiting);
        }
        waiting.push(cut.input(None));
    }
    send(&mut waiting);
});

fn send(waiting: &mut Vec<Input>) {
    let inputs = std::mem::take(waiting);
    if inputs.is_empty() {
        return;
    }
    ENDS.with_borrow_mut(|[here, there]| {
        let out = here.process(&inputs);
        let again: Vec<Input> = inputs.iter().zip(&out).map(|(i, o)| came(i, o)).collect();
        for ((input, out), back) in inputs.iter().zip(&out).zip(there.process(&again)) {
            check_round_trip(input, out, &back);
        }
        for (input, out) in inputs.iter().zip(there.process(&inputs)) {
            check_decompressed(input, &out);
        }
    });
}

/// An outcome as it comes in at the other end.
fn came(input: &Input, out: &Outcome) -> Input {
    let cut = input.wire_len - input.bytes.len() as u32;
    Input { bytes: out.bytes.clone(), wire_len: out.bytes.len() as u32 + cut, ..input.clone() }
}

fn check_round_trip(input: &Input, out: &Outcome, back: &Outcome) {
    if out.bytes == input.bytes {
        assert!(matches!(out.verdict, Verdict::Forward | Verdict::Malformed));
        return;
    }
    assert_eq!(out.verdict, Verdict::Forward);
    let (before, after) = (headers(&input.bytes, input.link), headers(&out.bytes, input.link));
    assert!(after.end < before.end && after.malformed().is_none() && after.protocol == 108);
    assert_eq!(after.end as usize, out.bytes.len());
    // More than the other end takes is dropped there.
    if before.end as usize - usize::from(before.l3) <= LEN_MAX {
        assert_eq!(back.verdict, Verdict::Forward);
        let mut expected = input.bytes[..before.end as usize].to_vec();
        frames::set_len(&mut expected, &before);
        // A header checksum of 0xffff is not what a sum gives; an update makes it the other zero.
        let sum_at = usize::from(before.l3) + 10;
        if before.version == 4 && expected[sum_at..sum_at + 2] == [0xff; 2] {
            expected[sum_at..sum_at + 2].fill(0);
        }
        assert_eq!(back.bytes, expected);
    }
}

fn check_decompressed(input: &Input, out: &Outcome) {
    assert!(out.bytes.len() <= input.bytes.len() + LEN_MAX);
    match out.verdict {
        Verdict::Forward if out.bytes != input.bytes => {
            assert_eq!(headers(&input.bytes, input.link).protocol, 108);
            assert_eq!(headers(&out.bytes, input.link).malformed(), None);
        }
        Verdict::Dropped => {
            assert!(usize::from(out.reason) < DEFINITION.drops.len());
            assert_eq!(out.bytes, input.bytes);
        }
        verdict => assert!(matches!(verdict, Verdict::Forward | Verdict::Malformed)),
    }
}

fn headers(bytes: &[u8], link: LinkType) -> Headers {
    Headers::parse(bytes, link, bytes.len())
}
