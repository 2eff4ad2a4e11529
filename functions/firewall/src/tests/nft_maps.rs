//! Verdict maps of nftables.

use serde_json::{Value, json};

use super::firewall;
use super::iptables::{leaves, packet};
use super::nft::{chain, document, matches, mistakes, payload, rule};

/// Packets of a `continue` element meet the statements after the map, others leave the rule.
#[test]
fn statements_after_a_verdict_map_are_not_lost() {
    let drops = json!({ "drop": null });
    let map = |first: Value| {
        let set = json!([[22, first], [80, {"accept": null}]]);
        json!({"vmap": {"key": payload("tcp", "dport"), "data": {"set": set}}})
    };
    let continues = || map(json!({ "continue": null }));
    let reported = mistakes(&[], &[json!([continues(), {"counter": null}, drops])], "");
    assert!(reported[0].contains("statement 3: not supported: a statement after"), "{reported:?}");
    for statements in [json!([continues(), {"counter": null}]), json!([map(drops.clone()), drops])]
    {
        let statements = statements.as_array().unwrap();
        let closed = statements[1] == drops;
        let forward = chain("inet", "forward", Some("drop"));
        let text = document(&[forward, rule("inet", "forward", 1, statements)]);
        let mut harness = firewall(&text, "");
        let ends = [22, 80, 443].map(|port| leaves(&mut harness, &packet(6, port)).to_owned());
        assert_eq!(ends, [if closed { "rule" } else { "default" }, "accept", "default"]);
    }
}

/// `*` stands for the values that no other element has.
#[test]
fn a_map_for_all_values_never_opens() {
    let map = |last: &str| {
        let set = json!([[22, {"drop": null}], [80, {"accept": null}], ["*", {last: null}]]);
        json!([{"vmap": {"key": payload("tcp", "dport"), "data": {"set": set}}}])
    };
    for (last, expected) in [("drop", "rule"), ("accept", "default")] {
        let reported = mistakes(&[], &[map(last)], "");
        assert!(reported[0].contains("not supported: `*` in a verdict map"), "{reported:?}");
        let other = [matches(false, payload("udp", "dport"), json!(53)), json!({"accept": null})];
        let text = document(&[
            chain("inet", "forward", Some("drop")),
            rule("inet", "forward", 1, map(last).as_array().unwrap()),
            rule("inet", "forward", 2, &other),
        ]);
        let mut harness = firewall(&text, "unsupported = \"skip\"");
        assert_eq!(leaves(&mut harness, &packet(6, 22)), "rule");
        assert_eq!(leaves(&mut harness, &packet(6, 443)), expected);
    }
}

/// Every element of a verdict map has all that its rule asks for besides.
#[test]
fn verdict_maps_end() {
    let hosts: Vec<Value> =
        (0..20_000).map(|n| json!(format!("10.{}.{}.1", n / 250, n % 250))).collect();
    let ports: Vec<Value> = (0..20_000).map(|n| json!([n, {"accept": null}])).collect();
    let saddr = matches(false, payload("ip", "saddr"), json!({ "set": hosts }));
    let map = json!({"vmap": {"key": payload("tcp", "dport"), "data": {"set": ports}}});
    let reported = mistakes(&[], &[json!([saddr, map])], "");
    assert!(reported[0].contains("verdict maps of more than 4194304 ranges"), "{reported:?}");
}
