//! Whole files: lines, revisions, counts, the other files, and long or random files.

use proptest::prelude::*;

use super::*;
use warpline_config::{Diagnostics, SourceText};

#[test]
fn a_file_is_summed_up() {
    let text = b"\xef\xbb\xbf# comment\r\n#alert ip any any -> any any (sid:9;)\r\n\
        alert ip any any -> any any (msg:\"a\"; \\\r\n   sid:1; rev:1;)\r\n\
        alert http any any -> any any (http.uri; content:\"a\"; tls.sni; sid:2;)\n\
        alert ip any any -> any any (http.host; content:\"a\"; http.uri; sid:3;)\n\
        alert ip any any -> any any (requires:version < 8; new_thing; sid:4;)\n\
        alert ip any any -> any any \\\n (ttl:x; sid:5;)\n\
        alert ip any any -> any any (sid:1; rev:1;)\n\
        alert ip any any -> any any (msg:\"b\"; sid:1; rev:2;)\n";
    let set = read_text(text, Dialect::Suricata);
    let reported = "1 of 7 rules active; 2 need http.*; 1 need tls.*; 1 broken; 1 for another \
                    engine; 2 replaced";
    assert_eq!(set.to_string(), reported);
    assert_eq!((&*set.rules[0].about.msg, set.rules[0].place.line), ("b", 11));
    let broken = set.broken.iter().next().unwrap();
    assert_eq!((broken.line, broken.column), (9, 7));
    let notices: Vec<_> = set.notices.iter().map(|n| n.message.clone()).collect();
    assert_eq!(
        notices,
        [
            "sid 1 is also in a.rules:3: that one counts",
            "sid 1 is also in a.rules:3: this newer one counts"
        ]
    );
    let json = set.to_json();
    assert_eq!(json["needed"], serde_json::json!({"http.*": 2, "tls.*": 1}));
    assert_eq!(json["skipped"], serde_json::json!({"version < 8": 1}));
    let first =
        serde_json::json!({"need": "http.uri", "kind": "buffer", "rules": 2, "sids": [2, 3]});
    assert_eq!(json["held_by"][0], first);
}

#[test]
fn names_with_equal_hashes_are_reported() {
    // Found by trying: the hash has 32 bits.
    let mut seen = std::collections::HashMap::new();
    let mut names =
        (1..400_000u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8));
    let (a, b) = names
        .find_map(|name| {
            let other = seen.insert(draft::hash(draft::NameKind::FlowBit, &name), name.clone());
            other.map(|other| (other, name))
        })
        .unwrap();
    let text = format!(
        "alert ip any any -> any any (flowbits:set,{a}; sid:1;)\nalert ip any any -> any any \
         (flowbits:isset,{b}; sid:2;)"
    );
    let set = read_text(text.as_bytes(), Dialect::Suricata);
    assert_eq!(set.rules.len(), 1);
    assert!(set.broken.to_string().contains("has the same hash as"));
}

#[test]
fn thresholds_are_read() {
    let text = "# none\nthreshold gen_id 1, sig_id 2002087, type both, track by_src, count 3, \
                seconds 5\n\
        event_filter gen_id 0, sig_id 0, type limit, track by_rule, \\\n  count 1, seconds 15\n\
        rate_filter gen_id 1, sig_id 888, track by_src, count 10, seconds 60, new_action drop, \
        timeout 300\n\
        suppress gen_id 1, sig_id 2002087\n\
        suppress gen_id 1, sig_id 2003614, track by_either, ip [$HOME_NET, !10.1.0.0/16]\n\
        suppress gen_id 1, sig_id 1, track by_src\nsuppress gen_id 1, sig_id 1, track by_src, ip \
        $NONE\n\
        threshold gen_id 1, sig_id 1, type backoff, track by_flow, count 1, multiplier 2\n\
        forget it\n";
    let mut mistakes = Diagnostics::default();
    let file = ThresholdFile::read(&SourceText::new("t.config", text), &variables(), &mut mistakes);
    let rate = |track, count, seconds| Rate { track, count, seconds };
    let ids = |gid, sid| Ids { gid, sid };
    let threshold = |ids, how, rate| {
        GlobalFilter::Threshold(GlobalThreshold { ids, threshold: Threshold { how, rate } })
    };
    let filter = RateFilter {
        ids: ids(1, 888),
        rate: rate(Track::Source, 10, 60),
        new_action: Action::Drop,
        timeout_s: 300,
    };
    assert_eq!(
        file.filters,
        [
            threshold(ids(1, 2002087), ThresholdHow::Both, rate(Track::Source, 3, 5)),
            threshold(ids(0, 0), ThresholdHow::Limit, rate(Track::Rule, 1, 15)),
            GlobalFilter::Rate(filter),
        ]
    );
    assert_eq!(file.suppressions.len(), 2);
    assert_eq!(file.suppressions[0], Suppression { ids: ids(1, 2002087), only: None });
    let (end, addresses) = file.suppressions[1].only.as_ref().unwrap();
    assert_eq!((*end, addresses.v4.len()), (SuppressEnd::Either, 3));
    assert!(ids(0, 0).contain(1, 5) && ids(1, 0).contain(1, 5) && !ids(1, 5).contain(3, 5));
    let reported: Vec<_> = mistakes.iter().map(|m| (m.line, m.column)).collect();
    assert_eq!(reported, [(8, 10), (9, 47), (10, 36), (11, 1)]);
}

/// A file of `size` bytes, rules and others.
fn long(size: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(size + 200);
    let mut sid = 0;
    while text.len() < size {
        sid += 1;
        let rule = match sid % 4 {
            0 => {
                format!("alert http any any -> any any (http.uri; content:\"{sid}\"; sid:{sid};)\n")
            }
            1 => format!("alert tcp any any -> any any (content:\"{sid}\"; depth:1; sid:{sid};)\n"),
            _ => format!(
                "alert tcp $HOME_NET any -> any any (content:\"{sid}\"; flowbits:set,{sid}; \
                 sid:{sid};)\n"
            ),
        };
        text.extend_from_slice(rule.as_bytes());
    }
    text
}

#[test]
fn long_files_are_read() {
    let set = read_text(&long(2_000_000), Dialect::Suricata);
    assert_eq!(set.count(), set.rules.len() + set.held.count() + set.broken.count());
    assert!(set.rules.len() > 12_000 && set.held.count() > 6_000);
}

proptest! {
    #[test]
    fn any_text_is_read(parts in prop::collection::vec(part(), 0..40), is_snort: bool) {
        let text: Vec<u8> = parts.concat();
        let dialect = if is_snort { Dialect::Snort } else { Dialect::Suricata };
        let set = read_text(&text, dialect);
        let lines = text.iter().filter(|b| **b == b'\n').count() + 1;
        for reported in set.broken.iter().chain(set.notices.iter()) {
            prop_assert!((1..=lines).contains(&reported.line) && !reported.to_string().is_empty());
        }
        prop_assert!(set.count() <= lines);
    }
}

/// Parts of rules, and bytes of any kind.
fn part() -> impl Strategy<Value = Vec<u8>> {
    const PARTS: &[&str] = &[
        "alert tcp any any -> any any (",
        "sid:1;",
        ")",
        "\n",
        "\\\n",
        "content:",
        "\"",
        "|",
        "!",
        ";",
        ":",
        ",",
        "[",
        "]",
        "$HOME_NET",
        "$LOOP",
        "depth:",
        "5",
        "pcre:\"/a/",
        "byte_test:",
        "byte_math:",
        "bytes 4",
        "flowbits:",
        "isset",
        "|a",
        "dsize:",
        "<>",
        "-",
        "flags:",
        "threshold:",
        "type limit",
        "requires:version",
        ">=",
        "8",
        "ä",
        "xbits:set",
        "track ip_src",
        "metadata:",
        "reference:",
        "fast_pattern:",
        "1,2",
        "isdataat:",
        "relative",
    ];
    prop_oneof![
        9 => prop::sample::select(PARTS).prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ]
}
