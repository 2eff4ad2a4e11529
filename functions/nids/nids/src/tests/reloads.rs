//! New rules while packets flow: waiting rules and one-time tests use the current rules.

use super::frames::{Frame, Talk};
use super::run::Temporary;
use crate::DEFINITION;
use crate::report::Alert;
use warpline_verify::{Harness, Input, try_build};

const OTHER: &str = "alert tcp any any -> any any (content:\"nobody says this\"; sid:1;)\n";

/// Frames under one rule set and then under another: the places of the alerts' frames, and the
/// rules' places among theirs.
fn reloaded(rules: [&str; 2], frames: [&[Frame]; 2]) -> Vec<(usize, u32)> {
    let folder = Temporary::new();
    let build = |rules: &str| {
        std::fs::write(folder.0.join("test.rules"), rules).unwrap();
        let table = "rules = \"test.rules\"\nmatcher = \"dense\"\nflows = 4096\n";
        try_build(&DEFINITION, table, &folder.0).unwrap()
    };
    let (function, scratch_words) = build(rules[0]);
    let mut harness = Harness::new(function, scratch_words);
    let mut reported = Vec::new();
    let all = frames[0].iter().chain(frames[1]).enumerate();
    for (at, frame) in all {
        if at == frames[0].len() {
            harness.reload(build(rules[1]).0).unwrap();
        }
        harness.process(&[Input::at(at as u64 * 1_000_000, &frame.bytes())]);
        let notes = harness.take_notes();
        reported.extend(notes.iter().map(|note| (at, Alert::decode(note).unwrap().rule)));
    }
    reported
}

#[test]
fn both_directions_are_looked_into_again() {
    let rule =
        "alert tcp any any -> any any (content:\"needle\"; content:\"xy\"; distance:0; sid:2;)\n";
    let mut talk = Talk::new(&Frame::udp(b""));
    talk.client(b"a needle");
    talk.server(b"a needle");
    let before = talk.frames.len();
    talk.server(b"..");
    talk.client(b"xy");
    talk.server(b"xy");
    let (before, after) = talk.frames.split_at(before);
    let reported = reloaded([rule, &[OTHER, rule].concat()], [before, after]);
    assert_eq!(reported, [(6, 1), (7, 1)]);
}

#[test]
fn rules_on_addresses_are_asked_once_more() {
    let rule = "alert ip 10.0.0.1 any -> any any (sid:2;)\n";
    let there = Frame::udp(b"abc");
    let new = Frame { ports: [7, 8], ..there.clone() };
    let before = [there.clone()];
    let after = [there.clone().back(), there.clone(), there, new.clone(), new];
    assert_eq!(reloaded([OTHER, rule], [&before, &after]), [(2, 0), (4, 0)]);
    assert_eq!(reloaded([rule, rule], [&before, &after]), [(0, 0), (2, 0), (4, 0)]);
}

#[test]
fn a_rule_that_needs_one_lane_is_named() {
    let folder = Temporary::new();
    let build = |rules: &str| {
        std::fs::write(folder.0.join("test.rules"), rules).unwrap();
        try_build(&DEFINITION, "rules = \"test.rules\"\nflows = 4096\n", &folder.0).unwrap().0
    };
    let counts = "drop tcp any any -> any any (threshold:type both, track by_src, count 3, seconds \
                  9; sid:77;)\n";
    let bits = "alert tcp any any -> any any (content:\"a\"; xbits:set,a,track ip_src; sid:78;)\n";
    for (rules, sid) in [(counts, 77), (bits, 78)] {
        let (divided, whole) = (build(OTHER), build(&[OTHER, rules].concat()));
        let why = whole.succeeds(&*divided).unwrap_err();
        assert!(why.starts_with(&format!("rule {sid} counts over several hosts")), "{why}");
        assert!(divided.succeeds(&*whole).is_ok() && whole.succeeds(&*whole).is_ok());
    }
}
