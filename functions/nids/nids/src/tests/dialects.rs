//! The meaning of the same text as a rule of Suricata and as one of Snort (Snort manual 2.9, 3.5
//! and 3.6), for the whole function.

use super::frames::Frame;
use super::run::Temporary;
use crate::DEFINITION;
use warpline_verify::{Harness, Input, try_build};

/// The places of the frames that raise alerts with a file with this rule, named by `key`.
fn reported(key: &str, options: &str, frames: &[Frame]) -> Vec<usize> {
    let folder = Temporary::new();
    let rule = format!("alert udp any any -> any any (msg:\"one\"; {options} sid:1; rev:1;)\n");
    std::fs::write(folder.0.join("test.rules"), rule).unwrap();
    let table = format!("{key} = \"test.rules\"\nmatcher = \"dense\"\nflows = 64\n");
    let (function, scratch_words) = try_build(&DEFINITION, &table, &folder.0).unwrap();
    let mut harness = Harness::new(function, scratch_words);
    let mut is_reported = |frame: &Frame| {
        harness.process(&[Input::at(1_000_000_000, &frame.bytes())]);
        !harness.take_notes().is_empty()
    };
    (0..frames.len()).filter(|&place| is_reported(&frames[place])).collect()
}

#[test]
fn each_file_is_read_in_its_own() {
    let frames: Vec<Frame> = [&b"ab"[..], b"abc", b"abcd", b"abcde"]
        .iter()
        .zip(2000..)
        .map(|(payload, port)| Frame::udp(payload).ports([port, 53]))
        .collect();
    // Options, and the frames that raise alerts in Suricata's dialect and in Snort's.
    let cases: &[(&str, &[usize], &[usize])] = &[
        ("content:\"bc\";", &[1, 2, 3], &[1, 2, 3]),
        ("dsize:3<>5;", &[2], &[1, 2, 3]),
        ("dsize:2<>4;", &[1], &[0, 1, 2]),
        ("ttl:64-66;", &[], &[0, 1, 2, 3]),
        ("ttl:63<>65;", &[0, 1, 2, 3], &[0, 1, 2, 3]),
        ("content:\"ab\"; isdataat:1,relative;", &[1, 2, 3], &[2, 3]),
        ("content:\"ab\"; isdataat:!1,relative;", &[0], &[0, 1]),
        ("content:\"ab\"; isdataat:3;", &[2, 3], &[2, 3]),
    ];
    for (options, suricata, snort) in cases {
        assert_eq!(reported("rules", options, &frames), *suricata, "{options}");
        assert_eq!(reported("snort_rules", options, &frames), *snort, "{options} of Snort");
    }
}
