//! Stateless: every packet leaves as the linear search says.

use super::super::{Policy, RuleSet};
use super::model::decide;
use super::traffic::{self, Sent};
use super::{Draw, firewall, reported};
use warpline_nf::SourceText;
use warpline_rule_files::{Action, Rule, parse_lines};
use warpline_tables::classifier::{Ranges, SearchKey, Space};
use warpline_verify::Input;

fn rules_text(rules: &[Rule]) -> String {
    rules.iter().map(|rule| traffic::text(rule) + "\n").collect()
}

#[test]
fn random_packets_leave_as_a_linear_search_says() {
    let mut seen = std::collections::HashMap::new();
    for (seed, count) in [(1, 1), (2, 3), (3, 10), (4, 63), (5, 64), (6, 65), (7, 129), (8, 400)]
        .into_iter()
        .chain((9..60).map(|seed| (seed, 1 + seed as usize % 12)))
    {
        let mut draw = Draw::new(seed);
        let rules: Vec<Rule> = (1..=count).map(|n| traffic::rule(&mut draw, n, false)).collect();
        let text = rules_text(&rules);
        let read = parse_lines(&SourceText::new("rules", text.as_str()));
        assert!(read.mistakes.is_empty(), "{}", read.mistakes);
        assert_eq!(read.rules, rules, "what was written is read");
        let mut harness = firewall(&text, "");
        for _ in 0..4 {
            let sent: Vec<Sent> = (0..256).map(|_| Sent::drawn(&mut draw)).collect();
            let inputs: Vec<Input> = sent.iter().map(|s| s.input(0)).collect();
            for (sent, outcome) in sent.iter().zip(harness.process(&inputs)) {
                let expected = decide(&rules, sent, false);
                assert_eq!(reported(&outcome), expected, "seed {seed}: {sent:x?}\n{text}");
                *seen.entry(expected).or_insert(0) += 1;
            }
        }
    }
    for reason in ["accept", "rule", "default", "non-ip", "fragment", "snapped", "malformed"] {
        assert!(seen[reason] > 100, "{reason} was hardly tried: {seen:?}");
    }
}

#[test]
fn many_rules_are_found_through_their_summaries() {
    // 5,000 rules are 79 words: two words of summary. The rule that matches is known.
    let text: String = (0..5000u32)
        .map(|i| format!("drop udp from 10.{}.{}.0/24 to any port {i}\n", i >> 8, i & 255))
        .collect();
    let file = parse_lines(&SourceText::new("rules", text));
    let policy = Policy {
        default: Action::Drop,
        non_ip: Action::Drop,
        drop_fragments: false,
        tracked: false,
    };
    let set = RuleSet::build(&file.rules, policy).unwrap();
    for i in 0..5000u32 {
        let src = 0x0a00_0000 | i << 8 | 9;
        let mut key = SearchKey { src, dst: 1, src_port: 5, dst_port: i, kind: 17 };
        assert_eq!(set.first_v4(&key), Some((i, Action::Drop)));
        key.dst_port = i + 1;
        assert_eq!(set.first_v4(&key), None);
    }
}

#[test]
fn the_search_of_nothing_finds_nothing() {
    let space = Space::<u32>::build(&Ranges::default()).unwrap();
    let key = SearchKey { src: 0, dst: u32::MAX, src_port: 0, dst_port: 0, kind: 0 };
    assert_eq!(space.first_match(&key), None);
}

#[test]
fn policies_hold_where_the_rules_are_silent() {
    let mut draw = Draw::new(77);
    let sent: Vec<Sent> = (0..500).map(|_| Sent::drawn(&mut draw)).collect();
    let inputs: Vec<Input> = sent.iter().map(|s| s.input(0)).collect();
    let keys = "default = \"accept\"\nnon_ip = \"accept\"\nfragments = \"drop\"";
    let mut harness = firewall("drop udp from any to any port 53\n", keys);
    let out = harness.process(&inputs);
    let count = |reason| out.iter().filter(|outcome| reported(outcome) == reason).count();
    let arp = sent.iter().filter(|s| s.shape == traffic::Shape::Arp).count();
    let later = |s: &&Sent| matches!(s.shape, traffic::Shape::LaterFragment(_));
    assert_eq!(count("fragment"), sent.iter().filter(later).count());
    assert_eq!((count("default"), count("non-ip")), (0, 0));
    assert!(arp > 0 && count("rule") > 0);
}

#[test]
fn a_cut_ip_header_is_not_what_is_not_ip() {
    let mut harness = firewall("accept from any to any\n", "non_ip = \"accept\"");
    let whole =
        Sent { vlan: false, shape: traffic::Shape::Whole, ..Sent::drawn(&mut Draw::new(5)) };
    for len in 14..34 {
        let mut input = Sent { version: 4, ..whole.clone() }.input(0);
        input.bytes.truncate(len);
        assert_eq!(reported(&harness.process(&[input])[0]), "snapped", "{len} bytes");
    }
}
