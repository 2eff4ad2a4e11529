//! Rules as text, and their meaning. Texts are the manual's own examples where it has some.

mod files;
mod meaning;
mod printed;
mod refused;

use super::*;

/// Variables as a site has them.
fn variables() -> Variables {
    [
        ("HOME_NET", "[192.168.0.0/16,10.0.0.0/8]"),
        ("EXTERNAL_NET", "!$HOME_NET"),
        ("HTTP_PORTS", "[80,8000:8080]"),
        ("LOOP", "[1.1.1.1,$POOL]"),
        ("POOL", "$LOOP"),
        ("NOTHING", "any"),
        ("EMPTY", "!$NOTHING"),
        ("BAD", "10.0.0.300"),
    ]
    .into_iter()
    .collect()
}

/// The rule set of one file.
fn read_text(text: &[u8], dialect: Dialect) -> RuleSet {
    let file = RuleFile { name: "a.rules".into(), bytes: text, dialect };
    read(&[file], &variables(), &Configs::default())
}

/// The rule for IP with these options.
fn options(options: &str, dialect: Dialect) -> Rule {
    let text = format!("alert ip any any -> any any ({options} sid:1;)");
    rule(&text, dialect)
}

fn rule(text: &str, dialect: Dialect) -> Rule {
    let set = read_text(text.as_bytes(), dialect);
    assert_eq!(set.rules.len(), 1, "{text}\n{}\n{set}", set.broken);
    set.rules.into_iter().next().unwrap()
}
