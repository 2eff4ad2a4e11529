//! Mistakes in the function's table, and the messages about the rules that were built.

use super::run::Temporary;
use crate::DEFINITION;
use warpline_verify::try_build;

const RULES: &str = "alert tcp $HOME_NET any -> any any (content:\"x\"; sid:1;)\n";

/// `LINE:COLUMN MESSAGE` of each mistake in a table.
fn mistakes(table: &str) -> Vec<String> {
    let folder = Temporary::new();
    std::fs::write(folder.0.join("test.rules"), RULES).unwrap();
    let Err(mistakes) = try_build(&DEFINITION, table, &folder.0) else { return Vec::new() };
    mistakes
        .iter()
        .map(|reported| format!("{}:{} {}", reported.line, reported.column, reported.message))
        .collect()
}

#[test]
fn an_unknown_key_is_reported_once() {
    let reported = mistakes("rules = \"test.rules\"\nrulse = 1\nflow = 2\n");
    assert_eq!(reported, ["3:1 [nids] has no key `flow`", "2:1 [nids] has no key `rulse`"]);
}

#[test]
fn invalid_variables_are_reported_with_their_place() {
    let table = "rules = \"test.rules\"\n[variables]\n";
    for (variables, expected) in [
        ("HOME_NET = \"10.0.0.0/88\"", "3:12 `HOME_NET`: `88` is not a prefix length"),
        ("HOME_NET = \"80\"", "3:12 `HOME_NET`: `80` is not an address"),
        ("HTTP_PORTS = \"[80,10.0.0.1]\"", "3:14 `HTTP_PORTS`: `10.0.0.1` is not a port"),
        (
            "FOO = \"banana\"",
            "3:7 `FOO`: neither addresses nor ports: `banana` is not an address, \
             and `banana` is not a port",
        ),
        ("BAR = \"$NOPE\"", "3:7 `BAR`: `$NOPE` is not defined"),
        (
            "BAR = \"!any\"",
            "3:7 `BAR`: neither addresses nor ports: no addresses are left, \
             and no ports are left",
        ),
        ("BAR = \"$BAR\"", "3:7 `BAR`: in `$BAR`: `$BAR` names itself: $BAR -> $BAR"),
        (
            "BAR = \"\"",
            "3:7 `BAR`: neither addresses nor ports: addresses are missing here, \
             and ports are missing here",
        ),
    ] {
        assert_eq!(mistakes(&format!("{table}{variables}\n")), [expected], "{variables}");
    }
    let valid = "HOME_NET = \"any\"\nEXTERNAL_NET = \"any\"\nFOO = \"80:\"\nBAR = \"[$FOO,!81]\"\n\
                 NET = \"[fe80::/10,!$OTHER]\"\nOTHER = \"fe80::1\"\n";
    assert_eq!(mistakes(&format!("{table}{valid}")), [""; 0]);
    let two = mistakes(&format!("{table}B = \"1.2.3\"\nA = \"99999\"\n"));
    assert!(two.len() == 2 && two[0].starts_with("4:5 `A`") && two[1].starts_with("3:5 `B`"));
}

/// The message `name` about a function with these rules.
fn about(rules: &str, name: &str) -> String {
    let folder = Temporary::new();
    std::fs::write(folder.0.join("test.rules"), rules).unwrap();
    let table = "rules = \"test.rules\"\nmatcher = \"dense\"\nflows = 64\n";
    let (function, _) = try_build(&DEFINITION, table, &folder.0).unwrap();
    let lines = function.about().lines;
    lines.into_iter().find(|line| line.0 == name).unwrap().1
}

#[test]
fn the_matcher_is_named_if_a_rule_has_a_literal() {
    let without = about("alert ip any any -> any any (ttl:3; sid:1;)\n", "matcher");
    assert!(without.starts_with("none, as no rule has a literal; 1 group, "), "{without}");
    let with = about(RULES, "matcher");
    assert!(with.starts_with("dense; ") && with.contains(" groups, "), "{with}");
}
