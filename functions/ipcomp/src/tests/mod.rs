//! Tests of the whole function, with another library of DEFLATE at the other end.

mod cases;
mod tshark;

use std::path::Path;

use miniz_oxide::deflate::compress_to_vec;
use warpline_packet::Verdict;

use super::DEFINITION;
use cases::{Case, content, extension, shapes, sum, udp};
use warpline_verify::{Harness, Input, Outcome, build, build_pair, try_build, try_build_pair};

fn ipcomp(table: &str) -> Harness {
    let (function, words) = build(&DEFINITION, table, Path::new("."));
    Harness::new(function, words)
}

fn compressor(keys: &str) -> Harness {
    ipcomp(&format!("mode = \"compress\"\n{keys}"))
}

fn decompressor(keys: &str) -> Harness {
    ipcomp(&format!("mode = \"decompress\"\n{keys}"))
}

fn send(harness: &mut Harness, case: &Case) -> Outcome {
    harness.process(&[case.input()]).remove(0)
}

fn reason(outcome: &Outcome) -> &'static str {
    assert_eq!(outcome.verdict, Verdict::Dropped);
    DEFINITION.drops[usize::from(outcome.reason)]
}

/// The places of one instance, each by itself: the first decompresses, the second compresses.
fn places(keys: &str) -> [Harness; 2] {
    let (places, words) = build_pair(&DEFINITION, keys, Path::new("."));
    places.map(|place| Harness::new(place, words))
}

#[test]
fn every_shape_is_compressed_and_comes_back() {
    check_every_shape(compressor("level = 9"), decompressor(""));
    let [there, here] = places("level = 9");
    check_every_shape(here, there);
}

/// Keys of both ends are for two places, and `mode` is not.
#[test]
fn two_places_take_the_keys_of_both_ends() {
    let all = "level = 3\nmin_len = 200\nadaptive = false\nto = [\"10.0.0.0/8\"]\nlen_max = 500\n\
               cpi = 300\n";
    let [mut first, mut second] = places(all);
    let short = Case::v4(&[], 17, &udp(&content(150, 3)));
    let long = Case::v4(&[], 17, &udp(&content(900, 3)));
    for case in [&short, &long] {
        let passed = send(&mut first, case);
        assert_eq!((passed.verdict, &passed.bytes), (Verdict::Forward, &case.frame));
    }
    assert_eq!(send(&mut second, &short).bytes, short.frame, "it is shorter than `min_len`");
    assert_eq!(reason(&send(&mut first, &long.compressed(300))), "too-big");
    assert_eq!(send(&mut first, &short.compressed(300)).bytes, short.frame);
    assert_eq!((first.counter("decompressed"), first.counter("compressed")), (1, 0));
    assert_eq!((second.counter("left"), second.counter("decompressed")), (1, 0));
    for mode in ["compress", "decompress"] {
        let table = format!("mode = \"{mode}\"\n");
        let Err(mistakes) = try_build_pair(&DEFINITION, &table, Path::new(".")) else {
            panic!("{mode} was taken")
        };
        assert!(mistakes.to_string().contains("`mode` is for one place"), "{mistakes}");
    }
}

fn check_every_shape(mut here: Harness, mut there: Harness) {
    for len in [150, 600, 1400, 8000] {
        for case in shapes(&content(len, 3)) {
            let out = send(&mut here, &case);
            assert_eq!(out.verdict, Verdict::Forward);
            assert!(case.is_compressed_in(&out.bytes, 2), "{case:?} {out:?}");
            let back = there.process(&[Input { link: case.link, ..Input::at(0, &out.bytes) }]);
            assert_eq!((back[0].verdict, &back[0].bytes), (Verdict::Forward, &case.frame));
        }
    }
    let sent = 4 * shapes(&[]).len() as u64;
    assert_eq!((here.counter("compressed"), there.counter("decompressed")), (sent, sent));
    assert_eq!(here.counter("saved-bytes"), there.counter("added-bytes"));
}

#[test]
fn output_of_another_library_is_decompressed() {
    for (cpi, keys) in [(2, ""), (2, "cpi = 300"), (300, "cpi = 300")] {
        let mut there = decompressor(keys);
        for kind in [0, 3, 100, 255] {
            for case in shapes(&content(700, kind)) {
                let out = send(&mut there, &case.compressed(cpi));
                assert_eq!((out.verdict, &out.bytes), (Verdict::Forward, &case.frame));
            }
        }
    }
}

/// The reserved flags "MUST be ignored by the receiving node" (RFC 3173, 3.3).
#[test]
fn flags_are_ignored_and_the_index_is_written() {
    let case = Case::v4(&[], 17, &udp(&content(500, 3)));
    let mut flagged = case.compressed(2);
    flagged.frame[35] = 0xff;
    assert_eq!(send(&mut decompressor(""), &flagged).bytes, case.frame);
    let out = send(&mut compressor("cpi = 4660"), &case);
    assert!(case.is_compressed_in(&out.bytes, 4660));
}

#[test]
fn incompressible_packets_are_sent_unchanged() {
    let mut here = compressor("adaptive = false\nmin_len = 1");
    let noise = shapes(&content(1000, 255));
    // Under five bytes no stream and header are fewer.
    let tiny: Vec<Case> = (1..5).map(|len| Case::v4(&[], 253, &vec![0; len])).collect();
    for case in noise.iter().chain(&tiny) {
        let out = send(&mut here, case);
        assert_eq!((out.verdict, &out.bytes), (Verdict::Forward, &case.frame));
    }
    assert_eq!(here.counter("incompressible"), noise.len() as u64);
    // One byte fewer is enough, and never is it more.
    for len in 1..80 {
        let case = Case::v4(&[], 253, &content(len, 1));
        let out = send(&mut here, &case);
        assert!(out.bytes == case.frame || case.is_compressed_in(&out.bytes, 2), "{len}");
    }
    assert!(here.counter("compressed") > 10);
}

#[test]
fn the_least_length_is_of_the_ip_payload() {
    let mut here = compressor("min_len = 208");
    for (len, compressed) in [(199, false), (200, true)] {
        for case in
            [Case::v4(&[1; 8], 17, &udp(&vec![0; len])), Case::v6(&[], 0, 17, &udp(&vec![0; len]))]
        {
            assert_eq!(send(&mut here, &case).bytes != case.frame, compressed, "{len}");
        }
    }
}

/// Only packets to the other end may be compressed: other receivers can't decompress them.
#[test]
fn only_what_goes_to_the_other_end_is_compressed() {
    let body = udp(&[0; 500]);
    let (v4, v6) = (Case::v4(&[], 17, &body), Case::v6(&[], 0, 17, &body));
    for (to, compressed) in [
        ("192.0.2.0/28", [true, false]),
        ("192.0.2.16/28", [false, false]),
        // The source is no destination.
        ("10.0.0.0/8", [false, false]),
        ("2001:db8::7", [false, true]),
        ("::/0", [false, true]),
        ("198.51.100.0/24\", \"2001:db8::/32\", \"192.0.2.9", [true, true]),
        ("", [false, false]),
    ] {
        let list = if to.is_empty() { "[]".to_owned() } else { format!("[\"{to}\"]") };
        for keys in ["adaptive = true", "adaptive = false"] {
            let mut here = compressor(&format!("to = {list}\n{keys}"));
            let found = [&v4, &v6].map(|case| send(&mut here, case).bytes != case.frame);
            assert_eq!(found, compressed, "{to} {keys}");
            let count = compressed.iter().filter(|&&compressed| compressed).count() as u64;
            assert_eq!([here.counter("compressed"), here.counter("left")], [count, 2 - count]);
        }
    }
}

/// RFC 3173, 2.2: fragments, and what is compressed, encrypted or signed already.
#[test]
fn exempt_packets_are_not_compressed() {
    let body = udp(&[0; 500]);
    let mut first = Case::v4(&[], 17, &body);
    first.frame[20] = 0x20;
    let mut later = Case::v4(&[], 17, &body);
    later.frame[21] = 9;
    let atomic = (44, vec![0, 0, 0, 0, 0, 0, 0, 1]);
    let ah = (51, [vec![0, 4], vec![0; 22]].concat());
    let mut arp = Case::v4(&[], 17, &body);
    arp.frame[13] = 6;
    let left = [
        first.summed(),
        later.summed(),
        Case::v4(&[], 17, &body).compressed(2),
        Case::v4(&[], 50, &body),
        Case::v4(&[], 51, &body),
        Case::v6(&[extension(0, 1), atomic], 0, 17, &body),
        Case::v6(&[ah], 0, 17, &body),
        Case::v6(&[], 0, 50, &body),
        Case::v6(&[], 0, 59, &body),
        arp,
    ];
    let mut here = compressor("");
    for case in &left {
        let out = send(&mut here, case);
        assert_eq!((out.verdict, &out.bytes), (Verdict::Forward, &case.frame), "{case:?}");
    }
    let whole = Case::v4(&[], 17, &body);
    let mut snapped = Input::at(0, &whole.frame[..400]);
    snapped.wire_len = whole.frame.len() as u32;
    assert_eq!(here.process(&[snapped])[0].bytes, whole.frame[..400]);
    assert_eq!(here.counter("left"), 1 + left.len() as u64);
}

#[test]
fn fragments_and_others_are_not_decompressed() {
    let whole = Case::v4(&[], 17, &udp(&[0; 500])).compressed(2);
    let mut fragment = whole.clone();
    fragment.frame[20] = 0x20;
    let plain = Case::v6(&[], 0, 17, &udp(&[0; 500]));
    // AH signs the packet as it was compressed.
    let ah = (51, [vec![0, 4], vec![0; 22]].concat());
    let signed = Case::v6(&[ah], 0, 17, &udp(&[0; 500])).compressed(2);
    let mut there = decompressor("");
    for case in [fragment.summed(), plain, signed] {
        assert_eq!(send(&mut there, &case).bytes, case.frame);
    }
    let mut snapped = Input::at(0, &whole.frame[..whole.frame.len() - 2]);
    snapped.wire_len = whole.frame.len() as u32;
    assert_eq!(there.process(&[snapped])[0].verdict, Verdict::Forward);
    assert_eq!(there.counter("left"), 4);
}

#[test]
fn hostile_packets_are_dropped_by_name() {
    let mut there = decompressor("len_max = 2000");
    for case in shapes(&content(1000, 5)) {
        let stream = compress_to_vec(&case.frame[case.body..], 6);
        let bomb = compress_to_vec(&vec![0; 60 << 20], 9);
        let drops = [
            (case.with_body(108, &[17, 0, 0]), "malformed"),
            (case.with_body(108, &[17]), "malformed"),
            (case.compressed(3), "unknown-cpi"),
            (case.compressed(0x1234), "unknown-cpi"),
            (case.carrying(2, &stream[..stream.len() - 1]), "bad-deflate"),
            (case.carrying(2, &stream[..stream.len() / 2]), "bad-deflate"),
            (case.carrying(2, &[]), "bad-deflate"),
            (case.carrying(2, &[&stream[..], &[0]].concat()), "bad-deflate"),
            (case.carrying(2, &[0xff; 300]), "bad-deflate"),
            (case.carrying(2, &bomb[..1400]), "too-big"),
            (case.carrying(2, &compress_to_vec(&[0; 2001], 6)), "too-big"),
        ];
        for (hostile, name) in drops {
            let out = send(&mut there, &hostile);
            assert_eq!(reason(&out), name);
            assert_eq!(out.bytes, hostile.frame, "unchanged");
        }
        let most = case.carrying(
            2,
            &compress_to_vec(&case.with_body(17, &udp(&[0; 1992])).frame[case.body..], 6),
        );
        assert_eq!(send(&mut there, &most).verdict, Verdict::Forward);
    }
}

#[test]
fn lies_that_were_compressed_are_rejected() {
    // The UDP length says more than there is.
    let mut lying = udp(&[0; 500]);
    lying[4] = 0xff;
    let mut there = decompressor("");
    for case in [Case::v4(&[], 17, &lying), Case::v6(&[], 0, 17, &lying)] {
        assert_eq!(send(&mut there, &case.compressed(2)).verdict, Verdict::Malformed);
        assert_eq!(send(&mut compressor(""), &case).verdict, Verdict::Malformed);
    }
}

#[test]
fn padding_is_not_kept() {
    let case = Case::v4(&[], 17, &udp(&[0; 500]));
    let padded = |case: &Case| Case { frame: [&case.frame[..], &[9; 11]].concat(), ..case.clone() };
    let out = send(&mut compressor(""), &padded(&case));
    assert!(case.is_compressed_in(&out.bytes, 2));
    let back = send(&mut decompressor(""), &padded(&case.compressed(2)));
    assert_eq!(back.bytes, case.frame);
}

/// A checksum that was wrong stays wrong by as much: the receiver is to see it.
#[test]
fn a_wrong_header_checksum_stays_wrong() {
    let mut case = Case::v4(&[], 17, &udp(&[0; 500]));
    case.frame[25] ^= 1;
    let out = send(&mut compressor(""), &case);
    assert_ne!(sum(&out.bytes[14..34]), 0xffff);
    let out = Case { frame: out.bytes, ..case.clone() };
    assert_eq!(send(&mut decompressor(""), &out).bytes, case.frame);
}

/// Flows of text and flows of noise: what is skipped doesn't depend on how packets are batched.
#[test]
fn batches_of_any_size_are_alike() {
    let packet = |i: u32| {
        let flow = warpline_packet::hash::mix32(i) % 40;
        let kind = if flow.is_multiple_of(2) { 255 } else { 1 };
        let kind = if i > 2000 { 2 } else { kind };
        let mut case = Case::v4(&[], 17, &udp(&content(400 + i as usize % 300, kind)));
        case.frame[29] = flow as u8;
        case.summed().input()
    };
    let inputs: Vec<Input> = (0..3000).map(packet).collect();
    let run = |size: usize| {
        let mut here = compressor("");
        let out: Vec<Outcome> = inputs.chunks(size).flat_map(|part| here.process(part)).collect();
        let names = ["compressed", "skipped", "incompressible", "left", "saved-bytes"];
        (out, names.map(|name| here.counter(name)))
    };
    let (out, counters) = run(256);
    let [compressed, skipped, incompressible, left, _] = counters;
    assert!(compressed > 1500 && skipped > 500, "{counters:?}");
    assert_eq!(compressed + skipped + incompressible + left, 3000);
    for size in [1, 7] {
        assert!(run(size) == (out.clone(), counters), "batches of {size}");
    }
    let mut there = decompressor("");
    for (out, input) in out.iter().zip(&inputs) {
        assert_eq!(there.process(&[Input::at(0, &out.bytes)])[0].bytes, input.bytes);
    }
}

#[test]
fn mistakes_are_reported() {
    let reported = |table: &str| -> Vec<String> {
        let Err(mistakes) = try_build(&DEFINITION, table, Path::new(".")) else {
            panic!("{table}")
        };
        mistakes.iter().map(|mistake| mistake.message.clone()).collect()
    };
    assert_eq!(reported("")[0], "[ipcomp] needs `mode`: \"compress\" or \"decompress\"");
    assert_eq!(
        reported("mode = \"compress\"\nlen_max = 9"),
        ["`len_max` needs mode = \"decompress\""]
    );
    assert_eq!(reported("mode = \"decompress\"\nlevel = 9\nmin_len = 5\nadaptive = true").len(), 3);
    assert_eq!(reported("mode = \"decompress\"\nto = []"), ["`to` needs mode = \"compress\""]);
    assert_eq!(reported("mode = \"compress\"\nto = [\"10.0.0.1/8\", \"x\"]").len(), 2);
    assert_eq!(reported("mode = \"compress\"\ncpi = 9").len(), 1);
    assert_eq!(reported("mode = \"both\"\nlevel = 0").len(), 2);
}
