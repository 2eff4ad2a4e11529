//! A rule that is skipped, or that takes no packets, lets no more of them in.

use serde_json::{Value, json};

use super::super::NatRules;
use super::rules::{built, iptables, iptables_in, nft_hooks, nft_sets, reported, saddr};
use warpline_nf::Side;

/// No rule lets in packets of a skipped rule before it.
#[test]
fn rules_after_a_skipped_one_let_in_no_more() {
    let all = "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1";
    let some = "-A PREROUTING -s 198.51.100.1/32 -d 203.0.113.32/28 -j NETMAP --to 10.1.9.32/28";
    let other = "-A PREROUTING -s 198.51.100.1/32 -d 203.0.113.64/28 -j NETMAP --to 10.1.9.64/28";
    let net = "-A POSTROUTING -s 10.1.9.32/28 -j NETMAP --to 203.0.113.32/28";
    let whole = "-A PREROUTING -d 203.0.113.32/28 -j NETMAP --to 10.1.9.32/28";
    let not = "-A PREROUTING -s 198.51.100.7/32 -j ACCEPT";
    let not_web = "-A PREROUTING -d 203.0.113.33/32 -p tcp --dport 80 -j ACCEPT";
    let web = "-A PREROUTING -d 203.0.113.33/32 -p tcp --dport 80:90 -j DNAT --to 10.1.0.5";
    let dns = "-A PREROUTING -d 203.0.113.33/32 -p udp --dport 80 -j DNAT --to 10.1.0.5";
    let any = "-A PREROUTING -p tcp --dport 80 -j DNAT --to 10.1.0.5";
    let web = web.replace("--to ", "--to-destination ");
    let dns = dns.replace("--to ", "--to-destination ");
    let any = any.replace("--to ", "--to-destination ");
    let skip = "unsupported = \"skip\"";
    for rules in [
        &[some, whole][..],
        &[not, whole],
        &[not, &any],
        &[not_web, whole],
        &[not_web, &web],
        &[not_web, &any],
    ] {
        let reported = built(&format!("{}\n{all}", rules.join("\n")), skip).unwrap_err();
        let expected = "lets in packets of line 4, which is not supported";
        assert!(reported.len() == 1 && reported[0].contains(expected), "{rules:?}: {reported:?}");
    }
    for rules in [&[other, whole, net][..], &[not_web, &dns], &[whole, some], &[&web, not_web]] {
        assert_eq!(built(&format!("{}\n{all}", rules.join("\n")), skip), Ok(1), "{rules:?}");
    }
}

/// A large prefix after a forward of every outside address is not supported, as that would become a
/// forward of each address. Skipped, the prefix lets no packet in.
#[test]
fn large_prefixes_after_a_forward_of_all_are_not_supported() {
    let every = "-A PREROUTING -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5\n";
    let net = |len| format!("-A PREROUTING -d 203.0.113.0/{len} -j NETMAP --to 10.1.9.0/{len}\n");
    let one = "-A PREROUTING -d 203.0.113.9 -p udp --dport 80 -j DNAT --to-destination 10.1.0.6\n";
    let all = "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 198.18.0.1";
    let large = "a prefix of more than 64 addresses after a forward without a destination";
    assert_eq!(reported(&iptables(&format!("{every}{}{all}", net(26)))), [""; 0]);
    let found = iptables(&format!("{every}{}{all}", net(25)));
    let expected = format!("6:48 `10.1.9.0/25`: not supported: {large}");
    assert_eq!((reported(&found), found.mistakes.count()), (vec![expected], 0));
    let skip = "unsupported = \"skip\"";
    assert_eq!(built(&format!("{every}{}{all}", net(25)), skip), Ok(1));
    let expected = "lets in packets of line 5, which is not supported";
    let reported = built(&format!("{every}{}{one}{all}", net(25)), skip).unwrap_err();
    assert!(reported.len() == 1 && reported[0].contains(expected), "{reported:?}");
}

/// A rule whose set has no elements takes no packets, and two conditions are not either of them.
#[test]
fn conditions_of_one_rule_hold_together() {
    let is = |protocol: &str, field: &str, right: Value| {
        json!({"match": {"op": "==", "left": {"payload": {"protocol": protocol, "field": field}},
            "right": right}})
    };
    let to = json!({"dnat": {"addr": "10.1.0.5"}});
    let none = json!({"set": {"family": "ip", "table": "nat", "name": "none"}});
    let iif = json!({"match": {"op": "==", "left": {"meta": {"key": "iifname"}},
        "right": "@none"}});
    let web = is("tcp", "dport", json!(80));
    let net = json!({"prefix": {"addr": "10.1.0.0", "len": 16}});
    let all = json!([saddr(net), {"snat": {"addr": "203.0.113.1"}}]);
    let found = nft_sets(
        &[],
        &[none],
        &[
            json!([is("ip", "daddr", json!("@none")), web, to]),
            json!([is("ip", "daddr", json!("203.0.113.9")), saddr(json!("@none")), to]),
            json!([is("tcp", "dport", json!("@none")), to]),
            json!([iif, is("ip", "daddr", json!("203.0.113.9")), to]),
            json!([is("ip", "protocol", json!("udp")), web, to]),
        ],
        &[
            json!([is("ip", "daddr", json!("@none")), {"accept": null}]),
            json!([saddr(json!("@none")), {"accept": null}]),
            json!([saddr(json!("@none")), {"snat": {"addr": "203.0.113.2"}}]),
            json!([iif, {"accept": null}]),
            all,
        ],
    );
    assert_eq!(reported(&found), [""; 0]);
    assert_eq!((found.forwards.len(), found.mapped.len(), found.source_rules.len()), (0, 0, 1));
    for (first, second, what) in [
        (
            is("ip", "daddr", json!("203.0.113.8")),
            is("ip", "daddr", json!("203.0.113.9")),
            "a second condition on the destination",
        ),
        (web.clone(), is("tcp", "dport", json!(443)), "a second condition on the port"),
    ] {
        let found = nft_hooks(&[json!([first, second, web, to])], &[]);
        let reported = reported(&found);
        assert!(reported.len() == 1 && reported[0].contains(what), "{reported:?}");
        assert!(found.forwards.is_empty());
    }
    let not = json!({"match": {"op": "!=", "left": {"payload": {"protocol": "ip",
        "field": "daddr"}}, "right": "203.0.113.9"}});
    let found = nft_hooks(&[json!([not, web, to])], &[]);
    assert!(reported(&found)[0].ends_with("not supported: all destinations but some"));
    let above = json!({"match": {"op": ">", "left": {"payload": {"protocol": "ip",
        "field": "daddr"}}, "right": "203.0.113.9"}});
    let found = nft_hooks(&[json!([above, to])], &[json!([above, {"accept": null}])]);
    assert_eq!(
        (found.unsupported.count(), found.mapped.len(), found.source_rules.len()),
        (2, 0, 0)
    );
}

/// A rule of an interface that is no port of the chain takes none of its packets.
#[test]
fn rules_of_other_interfaces_take_no_packets() {
    let rules = "-A PREROUTING -i eth7 -d 203.0.113.9 -j DNAT --to-destination 10.1.0.6\n\
                 -A PREROUTING -d 203.0.113.9 -j DNAT --to-destination 10.1.0.5";
    let ports = [("lan", Side::Inside), ("wan", Side::Outside)];
    let counts = |found: NatRules| (found.unsupported.count(), found.mistakes.count());
    assert_eq!(counts(iptables_in(&ports, rules)), (1, 0));
    assert_eq!(counts(iptables(rules)), (1, 1));
    let counts_in = |ports: &[(&str, Side)], right: Value| {
        let iif = json!({"match": {"op": "==", "left": {"meta": {"key": "iifname"}},
            "right": right}});
        let daddr = json!({"match": {"op": "==",
            "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": "203.0.113.9"}});
        let whole = [
            json!([iif, {"dnat": {"addr": "10.1.0.6"}}]),
            json!([daddr, {"dnat": {"addr": "10.1.0.5"}}]),
        ];
        let set = json!({"set": {"family": "ip", "table": "nat", "name": "ifs",
            "elem": ["wan", "eth7"]}});
        counts(nft_sets(ports, &[set], &whole, &[]))
    };
    assert_eq!(counts_in(&ports, json!("eth7")), (1, 0));
    assert_eq!(counts_in(&[], json!("eth7")), (1, 1));
    // One of these is a port of the chain.
    assert_eq!(counts_in(&ports, json!({"set": ["wan", "eth7"]})), (1, 1));
    assert_eq!(counts_in(&ports, json!("@ifs")), (1, 1));
}

#[test]
fn rules_after_a_skipped_one_let_in_no_more_in_nft() {
    let daddr = json!({"match": {"op": "==",
        "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": "203.0.113.9"}});
    let whole = json!([daddr, {"dnat": {"addr": "10.1.1.9"}}]);
    let some = json!([saddr(json!("198.51.100.1")), daddr, {"dnat": {"addr": "10.1.1.9"}}]);
    let not = json!([saddr(json!("198.51.100.1")), {"accept": null}]);
    for first in [some, not] {
        let found = nft_hooks(&[first, whole.clone()], &[]);
        let reported = found.mistakes.iter().map(|reported| &reported.message).collect::<Vec<_>>();
        let expected = "lets in packets of `ip nat pre` rule handle 3, which is not supported";
        assert!(reported.len() == 1 && reported[0].contains(expected), "{reported:?}");
        assert_eq!((found.unsupported.count(), found.mapped.len()), (1, 0));
    }
}
