//! Work is bounded, and abandoned work is counted; expressions that can't be compiled are reported.

use super::build::*;
use crate::detect::{Buffer, Detector, Limits, Scratch};
use warpline_nids_rules::{PayloadTest, Rule};

fn run(tests: Vec<PayloadTest>, bytes: &[u8]) -> (bool, u64, u64) {
    let rule = Rule { payload: tests, ..rule() };
    let (detector, broken) = Detector::new(&[rule], Limits::default());
    assert_eq!(broken, []);
    let mut scratch = Scratch::new().unwrap();
    let holds = detector.payload_matches(0, Buffer::packet(bytes), &mut scratch);
    (holds, scratch.step_limit_hits, scratch.regex_limit_hits)
}

#[test]
fn steps() {
    let near = |bytes| c(bytes, "within 8");
    let tests = vec![c("a", ""), near("a"), near("a"), near("a"), near("a"), near("b")];
    assert_eq!(run(tests.clone(), &[b'a'; 1400]), (false, 1, 0));
    assert_eq!(run(tests, b"aaaaaaab"), (true, 0, 0));
    // Contents that depend on nothing, or only have to be after another, are not searched
    // repeatedly.
    let apart = vec![c("a", ""), c("a", ""), c("b", "")];
    assert_eq!(run(apart, &[b'a'; 60_000]), (false, 0, 0));
    let behind = vec![c("a", ""), c("a", "distance 0"), c("a", "distance 0"), c("b", "distance 0")];
    assert_eq!(run(behind, &[b'a'; 60_000]), (false, 0, 0));
}

/// Few searches that each go over all of the payload are as much work as many short ones.
#[test]
fn bytes() {
    let bytes = [b'a'; 2900];
    let retried = |expression| vec![c("a", ""), p(expression)];
    assert_eq!(run(retried(r"/x\d+/R"), &bytes), (false, 1, 0));
    assert_eq!(run(retried(r"!/b|a$/R"), &bytes), (false, 1, 0));
    // Those that look at one place are not more than a step.
    for expression in [r"/^x\d+/R", r"/x\d+/AR", r"/^(x|y)[(|]\|/R"] {
        assert_eq!(run(retried(expression), &bytes), (false, 0, 0), "{expression}");
    }
    assert_eq!(run(retried("!/^a/R"), &bytes), (true, 0, 0));
    let near = vec![c("a", ""), c("b", "within 1")];
    assert_eq!(run(near, &bytes), (false, 0, 0));
    // Nor is it too much to go over a long payload once for each test.
    let mut long = vec![b'a'; 60_000];
    long.extend(b"bc");
    let tests = [vec![c("b", ""); 200], vec![p("/c/"), p("!/d/")]].concat();
    assert_eq!(run(tests, &long), (true, 0, 0));
}

#[test]
fn expressions() {
    let bytes = [b"a".repeat(64), b"!".to_vec()].concat();
    assert_eq!(run(vec![p("/(a+)+$/")], &bytes), (false, 0, 1));
    assert_eq!(run(vec![p("!/(a+)+$/")], &bytes), (false, 0, 1));
}

#[test]
fn rules_that_are_broken() {
    let with = |payload| Rule { payload, ..rule() };
    let long = with(vec![c("a", "distance 0"); 257]);
    let deep = with(vec![c("a", "within 9"); 256]);
    let (detector, broken) = Detector::new(
        &[with(vec![p("/a(/")]), long, with(vec![c("a", "")]), deep],
        Limits::default(),
    );
    let messages: Vec<_> =
        broken.iter().map(|broken| (broken.rule, broken.message.as_str())).collect();
    assert_eq!(
        messages,
        [
            (0, "pcre: missing closing parenthesis at byte 2"),
            (1, "257 payload tests; at most 256 can be decided"),
        ]
    );
    let mut scratch = Scratch::new().unwrap();
    let mut holds =
        |rule| detector.payload_matches(rule, Buffer::packet(&[b'a'; 300]), &mut scratch);
    assert_eq!([0, 1, 2, 3, 4].map(&mut holds), [false, false, true, true, false]);
}
