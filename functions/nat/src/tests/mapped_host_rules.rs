//! Rules that give hosts addresses of their own, and what files may not say about them.

use serde_json::json;

use super::rules::{iptables, iptables_in, nft_hooks, nft_with, reported, saddr};
use warpline_nf::Side;

/// A host's own address holds for all that the rules translate of it. Of other files an error says
/// so, and if that is skipped the host has it in both directions.
#[test]
fn other_addresses_of_mapped_hosts_are_not_supported() {
    let inward = "-A PREROUTING -d 203.0.113.9 -j DNAT --to-destination 10.1.1.9\n";
    let own = |conditions: &str| {
        format!("-A POSTROUTING -s 10.1.1.9 {conditions} -j SNAT --to-source 203.0.113.9\n")
    };
    let all = "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1\n";
    let net_in = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30\n";
    let net = "-A POSTROUTING -s 10.1.1.8/30 -d 8.8.8.8 -j NETMAP --to 203.0.113.8/30\n";
    let other = "`SNAT`: not supported: 10.1.1.9/32 has an address of its own for other packets";
    let after = "`SNAT`: not supported: an address of its own after a rule with another one";
    for (rules, expected) in [
        (format!("{inward}{}{all}", own("-d 8.8.8.8")), other),
        (format!("{inward}{}{all}", own("-p tcp")), other),
        (format!("{inward}{all}{}", own("")), after),
        (
            format!("{net_in}{net}{all}"),
            "`SNAT`: not supported: 10.1.1.8/30 has an address of its own for other packets",
        ),
        (
            format!("{net_in}{all}{net}"),
            "`NETMAP`: not supported: an address of its own after a rule",
        ),
        (format!("{inward}{}", own("-p tcp --dport 80")), "a port of the destination"),
        (
            format!("{net_in}{}", net.replace("-d 8.8.8.8", "-m ttl --ttl-lt 5")),
            "`ttl`: not supported: no such match",
        ),
    ] {
        let found = iptables(&rules);
        let reported = reported(&found);
        assert!(found.mistakes.is_empty(), "{reported:?}");
        assert!(reported.len() == 1 && reported[0].contains(expected), "{rules}: {reported:?}");
    }
    for rules in [format!("{inward}{}{}{all}", own(""), own("-p tcp")), format!("{inward}{all}")] {
        assert_eq!(reported(&iptables(&rules)), [""; 0], "{rules}");
    }
}

/// Without state the answers of a host look like its new connections. So an address of its
/// own for some packets is not supported, if no rule decides about the others.
#[test]
fn addresses_for_some_packets_are_not_supported() {
    let inward = "-A PREROUTING -d 203.0.113.9 -j DNAT --to-destination 10.1.1.9\n";
    let own = |conditions: &str| {
        format!("-A POSTROUTING -s 10.1.1.9 {conditions} -j SNAT --to-source 203.0.113.9\n")
    };
    let net_in = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30\n";
    let net = "-A POSTROUTING -s 10.1.1.8/30 -d 8.8.8.8 -j NETMAP --to 203.0.113.8/30\n";
    let other = "-A POSTROUTING -s 10.2.0.0/16 -j SNAT --to-source 203.0.113.1\n";
    let all = "-A POSTROUTING -s 10.1.0.0/16 -d 8.8.8.0/24 -j SNAT --to-source 203.0.113.1\n";
    for (rules, expected) in [
        (format!("{inward}{}{other}", own("-p tcp")), &["6:38 `SNAT`"][..]),
        (format!("{inward}{}{}{other}", own("-p tcp"), own("-p udp")), &["7:38 `SNAT`"]),
        (format!("{inward}{}{other}", own("! -d 8.8.8.0/24")), &["6:47 `SNAT`"]),
        (format!("{net_in}{net}{other}"), &["6:45 `NETMAP`"]),
        (format!("{inward}{}{all}", own("-p tcp")), &["7:48 `SNAT`", "6:38 `SNAT`"]),
        (format!("{inward}{}{}{other}", own("-p tcp"), own("")), &[]),
        (format!("{inward}{}", own("-p tcp")), &[]),
    ] {
        let found = iptables(&rules);
        let reported = reported(&found);
        assert!(
            found.mistakes.is_empty() && reported.len() == expected.len(),
            "{rules}: {reported:?}"
        );
        for (reported, expected) in reported.iter().zip(expected) {
            assert!(reported.starts_with(expected), "{reported:?}: {expected}");
        }
        if let Some(last) = reported.last() {
            assert!(last.contains("an address of its own for some packets only"), "{last}");
        }
        assert!(found.source_rules.iter().all(|rule| rule.translates));
    }
    // With two ports all packets of inside hosts leave by the other one.
    let ports = [("lan", Side::Inside), ("wan", Side::Outside)];
    let rules = format!("{inward}{}{other}", own("-o wan"));
    assert_eq!(reported(&iptables_in(&ports, &rules)), [""; 0]);
    let reported = reported(&iptables_in(&ports, &rules.replace("-o wan", "-o lan")));
    assert!(reported.len() == 1 && reported[0].starts_with("6:38 `SNAT`"), "{reported:?}");
}

/// The same of rules of nftables.
#[test]
fn other_addresses_of_mapped_hosts_are_not_supported_in_nft() {
    let daddr = |right: &str| {
        json!({"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "daddr"}},
            "right": right}})
    };
    let inward = json!([daddr("203.0.113.9"), {"dnat": {"addr": "10.1.1.9"}}]);
    let own = json!([saddr(json!("10.1.1.9")), {"snat": {"addr": "203.0.113.9"}}]);
    let some = json!([saddr(json!("10.1.1.9")), daddr("8.8.8.8"),
        {"snat": {"addr": "203.0.113.9"}}]);
    let ten = json!({"prefix": {"addr": "10.1.0.0", "len": 16}});
    let all = json!([saddr(ten), {"snat": {"addr": "203.0.113.1"}}]);
    let inward = std::slice::from_ref(&inward);
    let other = json!([saddr(json!("10.2.0.1")), {"snat": {"addr": "203.0.113.1"}}]);
    assert_eq!(
        reported(&nft_hooks(inward, &[some.clone(), other])),
        ["0:0 `ip nat post` rule handle 3: not supported: an address of its own for some packets \
          only"]
    );
    assert_eq!(reported(&nft_hooks(inward, &[own.clone(), all.clone()])), [""; 0]);
    let limited = json!([saddr(json!("10.1.1.9")), {"limit": {"rate": 9}},
        {"snat": {"addr": "203.0.113.9"}}]);
    for (rules, expected) in [
        ([some, all.clone()], "10.1.1.9/32 has an address of its own for other packets"),
        ([all.clone(), own], "an address of its own after a rule with another one"),
        ([limited, all], "limit"),
    ] {
        let found = nft_hooks(inward, &rules);
        let reported = reported(&found);
        assert!(reported.len() == 1 && reported[0].contains(expected), "{reported:?}");
        assert_eq!(found.source_rules.iter().filter(|rule| rule.own).count(), 1, "{expected}");
    }
}

/// A rule for packets that leave by another interface translates none, whatever its conditions.
#[test]
fn own_addresses_at_other_interfaces_are_skipped() {
    let ports = [("lan", Side::Inside), ("wan", Side::Outside)];
    let net = "-A POSTROUTING -s 10.1.1.8/30 -o vpn0 -j NETMAP --to 192.168.9.8/30";
    let found = iptables_in(&ports, net);
    assert_eq!((found.unsupported.count(), found.mistakes.count()), (1, 0));
    assert_eq!(found.mapped.len(), 0);
    let net_in = "-A PREROUTING -d 192.168.9.8/30 -j NETMAP --to 10.1.1.8/30";
    let net = format!("{net_in}\n{}", net.replace("-o vpn0", "! -o vpn0"));
    let found = iptables_in(&ports, &net);
    assert_eq!((found.unsupported.count(), found.mapped.len()), (1, 1));
    let daddr = json!({"match": {"op": "==",
        "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": "203.0.113.9"}});
    let inward = json!([daddr, {"dnat": {"addr": "10.1.1.9"}}]);
    for (op, own) in [("==", 0), ("!=", 1)] {
        let vpn = json!({"match": {"op": op, "left": {"meta": {"key": "oifname"}},
            "right": "vpn0"}});
        let rule = json!([saddr(json!("10.1.1.9")), vpn, {"snat": {"addr": "203.0.113.9"}}]);
        let found = nft_with(&ports, std::slice::from_ref(&inward), &[rule]);
        assert_eq!((found.unsupported.count(), found.source_rules.len()), (1, own));
    }
}
