//! Policies in TOML.

use super::toml_tables::{gcm, sa};
use super::*;
use crate::sa::Action;

#[test]
fn policies() {
    let sas = [
        sa("old", 256, "out", &gcm(1)),
        sa("new", 257, "out", &gcm(2)),
        sa("in", 258, "in", &gcm(3)),
    ];
    let text = r#"
[[policy]]
src = "10.1.0.0/16"
dst = "10.2.0.0/16"
protocol = "udp"
dst_ports = 500
action = "bypass"
[[policy]]
dst = "10.2.0.0/16"
action = "protect"
sa = ["newer", "new", "old"]
[[policy]]
dst = "2001:db8::/32"
action = "protect"
sa = "old"
[[policy]]
src = "0.0.0.0/0"
action = "discard"
"#;
    let database = good(read_texts(&sas.concat(), Some(text), ""));
    let actions: Vec<Action> = database.policies.iter().map(|own| own.action).collect();
    assert_eq!(actions, [Action::Bypass, Action::Protect(1), Action::Protect(0), Action::Discard]);
    assert_eq!(database.policies[0].selector.dst_ports, 500..=500);
    let wrong = [
        (
            "dst = \"10.0.0.0/8\"",
            "1:1 [policy] needs `action`: \"protect\", \"bypass\" or \"discard\"",
        ),
        (
            "dst = \"::/0\"\naction = \"protect\"",
            "1:1 [policy] needs `sa`: the name of the protecting SA, or a list of names",
        ),
        (
            "dst = \"::/0\"\naction = \"protect\"\nsa = []",
            "4:6 `sa` must be the name of an SA, or a list of names",
        ),
        (
            "dst = \"::/0\"\naction = \"bypass\"\nsa = \"new\"",
            "4:6 `sa` requires action = \"protect\"",
        ),
        ("dst = \"::/0\"\naction = \"protect\"\nsa = \"b\"", "1:1 no SA is called b"),
        (
            "dst = \"::/0\"\naction = \"protect\"\nsa = \"in\"",
            "1:1 SA in is inbound and cannot protect packets",
        ),
        (
            "dst = \"::/0\"\naction = \"allow\"",
            "3:10 `action` must be \"protect\", \"bypass\" or \"discard\", found \"allow\"",
        ),
        ("action = \"bypass\"", "1:1 [policy] needs `src`: a prefix; `dst` may take its place"),
    ];
    for (text, reported) in wrong {
        let found = read_texts(&sas.concat(), Some(&format!("[[policy]]\n{text}\n")), "");
        assert_eq!(found.mistakes, [format!("policies:{reported}")]);
    }
    let transport = sas.concat().replace("tunnel", "transport");
    let found = read_texts(
        &transport,
        Some("[[policy]]\ndst = \"::/0\"\naction = \"protect\"\nsa = \"new\""),
        "",
    );
    assert_eq!(found.mistakes, ["policies:1:1 SA new in transport mode is of another IP version"]);
}
