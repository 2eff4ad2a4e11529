//! The function alone, packet by packet.

use std::path::Path;

use super::DEFINITION;
use warpline_packet::Verdict;
use warpline_verify::{Harness, Input, build, try_build};

fn guard(table: &str) -> Harness {
    let (function, scratch_words) = build(&DEFINITION, table, Path::new("."));
    Harness::new(function, scratch_words)
}

fn v4(ttl: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0];
    frame.extend([ttl, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 7, 0, 7, 0, 8, 0, 0]);
    frame
}

fn v6(hop_limit: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17];
    frame.push(hop_limit);
    frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend([0, 7, 0, 7, 0, 8, 0xff, 0xff]);
    frame
}

#[test]
fn packets_below_the_bound_are_dropped() {
    for least in [1, 2, 64, 254, 255] {
        let mut harness = guard(&format!("least = {least}"));
        for ttl in [0, 1, 2, 63, 64, 253, 254, 255] {
            for frame in [v4(ttl), v6(ttl)] {
                let out = harness.process(&[Input::at(0, &frame)]).remove(0);
                let expected = if ttl < least { Verdict::Dropped } else { Verdict::Forward };
                assert_eq!((out.verdict, out.bytes), (expected, frame), "{ttl} of {least}");
            }
        }
    }
}

#[test]
fn other_packets_pass_and_broken_ones_are_malformed() {
    let mut harness = guard("");
    let mut arp = v4(1);
    arp[13] = 6;
    let mut broken = v4(255);
    broken[17] = 10;
    for (frame, expected) in [(arp, Verdict::Forward), (broken, Verdict::Malformed)] {
        assert_eq!(harness.process(&[Input::at(0, &frame)])[0].verdict, expected);
    }
}

#[test]
fn mistakes_in_its_table_are_named() {
    let why = try_build(&DEFINITION, "least = 300\nmost = 1", Path::new(".")).err().expect("wrong");
    let why = why.to_string();
    assert!(why.contains("1 to 255") && why.contains("`most`"), "{why}");
}
