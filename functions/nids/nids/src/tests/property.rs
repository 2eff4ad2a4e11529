//! Random rules over random streams and datagrams. A rule alerts on a flow exactly if its tests
//! hold for the whole stream up to some packet, and on a datagram exactly if they hold for its
//! payload.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::frames::{ACK, Frame, Talk};
use super::run::run;
use crate::detect::{Buffer, Detector, Limits, Scratch};
use warpline_nids_rules::{Configs, Dialect, RuleFile, Variables};

fn content() -> impl Strategy<Value = String> {
    let place = select(vec![
        "",
        "",
        "",
        "nocase;",
        "offset:2;",
        "depth:6;",
        "offset:1; depth:5;",
        "startswith;",
        "depth:LEN;",
        "offset:2; depth:LEN;",
        "nocase; offset:3; depth:LEN;",
        "distance:1;",
        "distance:0; within:4;",
        "distance:-2;",
        "within:3;",
    ]);
    let text = vec(select(b"abcA".to_vec()), 1..4);
    (prop::bool::weighted(0.2), text, place).prop_map(|(is_negated, text, place)| {
        let not = if is_negated { "!" } else { "" };
        let place = place.replace("LEN", &text.len().to_string());
        format!("content:{not}\"{}\"; {place}", text.escape_ascii())
    })
}

fn test() -> impl Strategy<Value = String> {
    let other = select(vec![
        "isdataat:9;",
        "isdataat:2,relative;",
        "pcre:\"/a.b/s\";",
        "pcre:\"/[bc]a/R\";",
        "byte_test:1,>,97,1;",
        "byte_jump:1,0,relative,post_offset -97;",
    ]);
    prop_oneof![4 => content(), 1 => other.prop_map(str::to_owned)]
}

/// Options of up to `count` rules, each of which has a content.
fn options(count: usize) -> impl Strategy<Value = Vec<String>> {
    let rule = (content(), vec(test(), 0..3)).prop_map(|(first, rest)| first + &rest.concat());
    vec(rule, 1..=count)
}

fn text(protocol: &str, options: &[String]) -> String {
    let rule =
        |(at, options)| format!("alert {protocol} any any -> any any ({options} sid:{at};)\n");
    (1..).zip(options).map(rule).collect()
}

/// Which of the rules hold of some of `seen`, by the detector alone.
fn expected(rules: &str, seen: &[&[u8]]) -> Vec<u32> {
    let file =
        RuleFile { name: "test".into(), bytes: rules.as_bytes(), dialect: Dialect::Suricata };
    let set = warpline_nids_rules::read(&[file], &Variables::default(), &Configs::default());
    let (detector, _) = Detector::new(&set.rules, Limits::default());
    let mut scratch = Scratch::new().unwrap();
    let mut holds = |at: usize| {
        seen.iter().any(|bytes| {
            !bytes.is_empty() && detector.payload_matches(at, Buffer::packet(bytes), &mut scratch)
        })
    };
    let mut sids: Vec<u32> =
        (0..set.rules.len()).filter(|&at| holds(at)).map(|at| set.rules[at].about.sid).collect();
    sids.sort_unstable();
    sids
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    vec(select(b"abcA.\n".to_vec()), 1..40)
}

/// Where a stream is cut, and in which order the pieces come: by places and how much later.
fn cuts() -> impl Strategy<Value = Vec<(usize, usize)>> {
    vec((1..8usize, 0..4usize), 40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn streams(options in options(12), stream in payload(), cuts in cuts(), end in 0..2usize) {
        let mut pieces: Vec<(usize, usize, &[u8])> = Vec::new();
        let mut at = 0;
        for (number, (len, later)) in cuts.iter().enumerate() {
            let to = (at + len).min(stream.len());
            if at < to {
                pieces.push((number + later, at, &stream[at..to]));
            }
            at = to;
        }
        pieces.sort_by_key(|piece| piece.0);
        let mut talk = Talk::new(&Frame::udp(b""));
        let (mut came, mut prefixes) = (vec![false; stream.len()], Vec::new());
        for (_, at, bytes) in pieces {
            let frame = talk.segment(end, ACK, at as i32, bytes);
            talk.frames.push(frame);
            came[at..at + bytes.len()].fill(true);
            let len = came.iter().position(|came| !came).unwrap_or(came.len());
            prefixes.push(&stream[..len]);
        }
        let rules = text("tcp-stream", &options);
        let found: Vec<u32> = run(&rules, "", &talk.frames).sids().into_iter().collect();
        prop_assert_eq!(found, expected(&rules, &prefixes), "{}", rules);
    }

    #[test]
    fn datagrams(options in options(6), payloads in vec(payload(), 1..5)) {
        let frames: Vec<Frame> = payloads.iter().map(|payload| Frame::udp(payload)).collect();
        let rules = text("udp", &options);
        let ran = run(&rules, "", &frames);
        for (at, payload) in payloads.iter().enumerate() {
            let mut found: Vec<u32> =
                ran.alerts.iter().filter(|reported| reported.0 == at).map(|reported| reported.1)
                    .collect();
            found.sort_unstable();
            prop_assert_eq!(found, expected(&rules, &[payload]), "{}", rules);
        }
    }
}
