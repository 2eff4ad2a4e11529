//! Files of rules: every mistake is reported with its place, and nothing is silently ignored.

use proptest::prelude::*;

use super::super::DEFINITION;
use super::{Folder, firewall};
use warpline_nf::config::Layer;
use warpline_nf::{Resources, Section, SourceText};
use warpline_rule_files::{Action, RULES_MAX, parse_classbench, parse_lines};
use warpline_verify::{Harness, build, try_build};

fn mistakes(rules: &str, keys: &str) -> Vec<String> {
    let folder = Folder::new().with("a.rules", rules);
    let table = format!("rules = \"a.rules\"\n{keys}");
    let Err(mistakes) = try_build(&DEFINITION, &table, folder.path()) else { return Vec::new() };
    mistakes.iter().map(|d| format!("{}:{}:{} {}", d.file, d.line, d.column, d.message)).collect()
}

#[test]
fn every_mistake_of_a_file_is_reported() {
    let rules = "# rules\n\
        permit tcp\n\
        accept\n\
        accept tcpp from any\n\
        drop udp from 10.0.0.1/8\n\
        drop udp to any port 70000 # far too high\n\
        drop udp to any port 5-4\n\
        accept icmp type echo-requests\n\
        accept udp type 3\n\
        accept tcp flags syn/ack\n\
        accept tcp from any from any\n\
        accept tcp from\n\
        accept tcp to 10.0.0.1,,10.0.0.2\n\
        accept gre to any port 5\n\
        accept from 10.0.0.1 to 2001:db8::1\n\
        accept tcp from any to any please\n\
        reject tcp from any to any\n\
        accept tcp from !10.0.0.1\n\
        accept tcp from any in eth0\n\
        accept established\n";
    let messages = mistakes(rules, "");
    let expected = [
        "a.rules:2:1 `permit`: not an action",
        "a.rules:3:7 a rule without conditions",
        "a.rules:4:8 `tcpp`: not a protocol, nor `established`, `from` or `to`",
        "a.rules:5:15 `10.0.0.1/8`: address has bits set after the prefix length",
        "a.rules:6:22 `70000`: not a port or range of ports (0 to 65535)",
        "a.rules:7:22 `5-4`: the range ends before it begins",
        "a.rules:8:18 `echo-requests`: not a type (0 to 255)",
        "a.rules:9:12 `type`: `type` requires the protocol icmp or icmpv6, alone",
        "a.rules:10:18 `syn/ack`: a flag before the `/` that is missing after it",
        "a.rules:11:21 `from`: a rule has this once",
        "a.rules:12:16 the line ends where an address is due",
        "a.rules:13:24 `,`: an address is missing here",
        "a.rules:14:1 ports take the protocol tcp, udp or any",
        "a.rules:15:1 matches nothing: it requires IPv4 and IPv6 at once",
        "a.rules:16:28 `please`: not a condition",
        "a.rules:17:1 `reject`: not supported: no such action",
        "a.rules:18:17 `!10.0.0.1`: not supported: no negation",
        "a.rules:19:21 `in`: not supported: no such condition",
        "a.rules:20:8 `established` requires established = true in the firewall's table",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn every_mistake_of_a_filter_is_reported() {
    let good = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0200/0x1200\t\n";
    assert!(mistakes(good, "").is_empty());
    assert!(mistakes(good, "format = \"classbench\"").is_empty());
    let rules = good.to_owned()
        + "10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000\n\
        @10.0.0.0/8 0.0.0.0/0 0 : 65536 80 : 80 0x06/0xFF\n\
        @10.0.0.0/8 0.0.0.0/0 0 65535 80 : 80 0x06/0xFF\n\
        @10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0x0F\n\
        @10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 6\n\
        @10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x11/0xFF 0x0200/0x0200\n\
        @10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x2f/0xFF\n\
        @10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0200/0x0200 1\n\
        @10.0.0.0/8 0.0.0.0/0 0 : 65535 80\n";
    let expected = [
        "a.rules:2:1 `10.0.0.0/8`: a filter begins with `@`",
        "a.rules:3:27 `65536`: not a port (0 to 65535)",
        "a.rules:4:25 `65535`: `:` is due here",
        "a.rules:6:41 `6`: not a value and its mask",
        "a.rules:9:65 `1`: a filter ends before this",
        "a.rules:10:35 the line ends where `:` is due",
        "a.rules:5:41 `0x06/0x0F`: not supported: a protocol mask other than 0x00 and 0xFF",
        "a.rules:7:51 `0x0200/0x0200`: not supported: this mask of flags with this protocol",
        "a.rules:8:1 not supported: ports of a protocol other than TCP and UDP",
    ];
    let mut messages = mistakes(&rules, "");
    let mut expected = expected.map(str::to_owned).to_vec();
    messages.sort();
    expected.sort();
    assert_eq!(messages, expected);
}

#[test]
fn skipped_rules_are_reported() {
    let folder = Folder::new().with("r", "reject tcp from any to any\naccept udp\n");
    let text = "rules = \"r\"\nunsupported = \"skip\"";
    let source = SourceText::new("chain.toml", text);
    let table = toml::de::DeTable::parse(&source.text).unwrap();
    let (mut found, mut resources) = (warpline_nf::Diagnostics::default(), Resources::default());
    let layer = Layer { source: &source, table: table.get_ref(), span: table.span() };
    let disk = warpline_nf::config::Folder::Disk(folder.path());
    let mut section = Section::new(vec![layer], "firewall", disk, &mut found);
    assert!((DEFINITION.build)(&mut section, &mut resources).is_some());
    assert!(found.is_empty());
    let messages = resources.notices().to_string();
    assert!(messages.starts_with("r:1:1: `reject`: not supported: no such action"), "{messages}");
    assert!(mistakes("permit udp\n", "unsupported = \"skip\"").len() == 1, "a mistake stays one");
}

/// A line that is left out or widened never lets more through.
#[test]
fn a_line_that_drops_is_widened() {
    let skip = "unsupported = \"skip\"\ndefault = \"drop\"\n";
    let cases = [
        ("reject tcp from any to any port 80\naccept tcp\n", "rule", "accept"),
        ("queue tcp from any to any port 80\naccept tcp\n", "rule", "accept"),
        ("drop tcp from !10.0.0.0/8 to any port 81\naccept tcp\n", "rule", "rule"),
        ("drop sctp,tcp from any to any port 9\naccept tcp\n", "rule", "rule"),
        ("log tcp\naccept tcp\n", "accept", "accept"),
        ("accept tcp on eth0\naccept tcp to any port 80\n", "accept", "default"),
    ];
    for (rules, to_80, to_81) in cases {
        let folder = Folder::new().with("r", rules);
        let (function, words) =
            build(&DEFINITION, &format!("rules = \"r\"\n{skip}"), folder.path());
        let mut harness = Harness::new(function, words);
        for (port, expected) in [(80, to_80), (81, to_81)] {
            let left = super::iptables::leaves(&mut harness, &super::iptables::packet(6, port));
            assert_eq!(left, expected, "{rules}: {port}");
        }
    }
    let messages = mistakes("accept tcp on eth0\ndrop udp\n", skip);
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("no rule that accepts is left: all 1"), "{messages:?}");
    assert!(
        mistakes("accept tcp on eth0\n", "unsupported = \"skip\"\ndefault = \"accept\"").is_empty()
    );
    let filters = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x04/0x0F\n";
    let messages = mistakes(
        filters,
        "unsupported = \"skip\"\nclassbench_action = \"drop\"\ndefault = \"accept\"",
    );
    assert!(messages.is_empty(), "{messages:?}");
}

#[test]
fn files_that_are_missing_or_wrong_are_reported() {
    let folder = Folder::new().with("binary", [0xff, 0xff, 0]);
    let messages = |table: &str| match try_build(&DEFINITION, table, folder.path()) {
        Ok(_) => String::new(),
        Err(mistakes) => mistakes.to_string(),
    };
    assert!(messages("").contains("[firewall] needs `rules`"), "{}", messages(""));
    assert!(messages("rules = \"none\"").contains("can't read \"none\""));
    assert!(messages("rules = \"binary\"").contains("not UTF-8"));
    assert!(messages("rules = \".\"").contains("it is a folder"));
    assert!(
        messages("rules = \"none\"\nudp_s = 5").contains("`udp_s` requires established = true")
    );
    assert!(messages("rules = \"none\"\nrule = 5").contains("has no key `rule`"));
}

#[test]
fn a_file_of_too_many_rules_is_refused() {
    let rules = "accept udp\n".repeat(RULES_MAX + 1);
    assert_eq!(
        mistakes(&rules, ""),
        [format!("a.rules:{}:1 more than 65536 rules", RULES_MAX + 1)]
    );
    let wrong = "x\n".repeat(RULES_MAX * 2);
    assert_eq!(mistakes(&wrong, "").len(), warpline_nf::LISTED_MAX);
}

#[test]
fn the_largest_file_builds() {
    let rules: String = (0..RULES_MAX)
        .map(|i| {
            format!("accept tcp from 10.{}.{}.0/24 to any port 1-{}\n", i >> 8, i & 255, i % 9)
        })
        .collect();
    // Ports from 1 to 0 don't read: they are the only lines that are mistakes.
    let rules = rules.replace("port 1-0", "port 0");
    drop(firewall(&rules, ""));
}

#[test]
fn the_examples_of_the_manual_read() {
    let manual = super::super::MANUAL;
    let example = manual.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(mistakes(example, "established = true").is_empty());
    for key in DEFINITION.keys {
        assert!(manual.contains(&format!("`{}`", key.name)), "{} is in the manual", key.name);
    }
    for reason in DEFINITION.drops {
        assert!(manual.contains(&format!("`{reason}`")), "{reason} is in the manual");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_reported(
        text in "((accept|drop|reject|tcp|udp|icmp|type|code|flags|from|to|port|any|established|syn\
            |/|,|-|:|@|0x|[0-9.]{1,5}|10\\.0\\.0\\.0/8|::1|#|é|\\PC| |\n|\r|\t){0,4} ){0,30}",
    ) {
        let source = SourceText::new("f", text.as_str());
        for file in [parse_lines(&source), parse_classbench(&source, Action::Drop)] {
            let lines = text.lines().count();
            prop_assert!(file.rules.len() + file.mistakes.count() <= lines);
            // An unsupported rule may leave one that drops its packets.
            prop_assert!(file.unsupported.count() <= lines);
            prop_assert!(file.mistakes.to_string().len() < 100_000);
        }
    }
}
