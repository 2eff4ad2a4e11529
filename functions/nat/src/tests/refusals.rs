//! Rules that would let in or leave alone more than Linux does: each is refused with its place.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::super::{NatRules, RulePorts, SourceRule, parse_nft};
use super::gateway::{OTHER, SKIP, try_gateway, udp};
use super::model::assert_sent;
use super::rules::{built, iptables, iptables_in, nft_hooks, nft_sets, reported, saddr};
use super::{gateway, ip, sent};
use warpline_nf::{Side, SourceText};

const ALL: &str = "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1";

/// The only report, which skipping leaves out or does not.
fn only(found: &NatRules, can_skip: bool) -> String {
    let all = reported(found);
    let counts = (found.mistakes.count(), found.unsupported.count());
    assert_eq!(counts, if can_skip { (0, 1) } else { (1, 0) }, "{all:?}");
    all[0].clone()
}

fn only_has(found: &NatRules, can_skip: bool, part: &str) {
    let only = only(found, can_skip);
    assert!(only.contains(part), "{only}: {part}");
}

/// A document of nftables.
fn document(objects: &[Value]) -> NatRules {
    let text = json!({ "nftables": objects }).to_string();
    parse_nft(&SourceText::new("rules", text), &RulePorts::default())
}

fn base(family: &str, table: &str, name: &str, hook: &str) -> Value {
    json!({"chain": {"family": family, "table": table, "name": name, "type": "nat", "hook": hook,
        "prio": 100, "policy": "accept"}})
}

fn rule(family: &str, table: &str, chain: &str, expr: &Value) -> Value {
    json!({"rule": {"family": family, "table": table, "chain": chain, "handle": 7, "expr": expr}})
}

fn is(protocol: &str, field: &str, right: Value) -> Value {
    json!({"match": {"op": "==", "left": {"payload": {"protocol": protocol, "field": field}},
        "right": right}})
}

fn meta(key: &str, right: Value) -> Value {
    json!({"match": {"op": "==", "left": {"meta": {"key": key}}, "right": right}})
}

/// A mapping has no state. So one for sources alone would let in new connections.
#[test]
fn a_netmap_of_sources_alone_is_refused() {
    let out = "-A POSTROUTING -s 10.1.1.8/30 -j NETMAP --to 203.0.113.8/30";
    let into = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30";
    let ttl = out.replace("-j", "-m ttl --ttl-lt 5 -j");
    for (rules, line) in [
        (out.to_owned(), 5),
        (format!("{out}\n{OTHER}"), 5),
        (format!("{ALL}\n{out}"), 6),
        (format!("{}\n{out}", into.replace(".8/30", ".12/30")), 6),
    ] {
        let expected = format!("{line}:34 `NETMAP`: lets in new connections from outside");
        only_has(&iptables(&rules), false, &expected);
    }
    for rules in [&ttl, out] {
        let reported = try_gateway(&gateway::saved(&[rules, OTHER]), SKIP).err().unwrap();
        let reported: Vec<_> = reported.iter().map(|reported| &reported.message).collect();
        assert!(
            reported.len() == 1 && reported[0].contains("lets in new connections"),
            "{reported:?}"
        );
    }
    let ports = [("lan", Side::Inside), ("wan", Side::Outside)];
    let vpn = into.replace("-d", "-i vpn0 -d");
    let found = iptables_in(&ports, &format!("{vpn}\n{out}"));
    assert_eq!(
        (found.mistakes.count(), found.unsupported.count()),
        (1, 1),
        "{:?}",
        reported(&found)
    );
    assert_eq!(reported(&iptables(&format!("{into}\n{out}\n{ALL}"))), [""; 0]);
}

/// The order of base chains follows their priority, not that of the file.
#[test]
fn a_second_base_chain_of_a_hook_is_refused() {
    let keep = json!([is("ip", "daddr", json!("8.8.8.8")), {"accept": null}]);
    let hide = json!([saddr(json!("10.1.0.5")), {"snat": {"addr": "203.0.113.1"}}]);
    let two = |families: [&str; 2], second: Value| {
        document(&[
            base(families[0], "a", "post", "postrouting"),
            base(families[1], "b", "late", "postrouting"),
            base("ip", "b", "pre", "prerouting"),
            rule(families[0], "a", "post", &hide),
            rule(families[1], "b", "late", &second),
        ])
    };
    for families in [["ip", "ip"], ["ip", "inet"], ["inet", "inet"]] {
        let [first, second] = families;
        let expected = format!("IPv4, which is not supported: `{first} a post` and `{second} b");
        let found = two(families, keep.clone());
        assert!(reported(&found)[0].contains(&expected), "{:?}", reported(&found));
        assert!(found.unsupported.is_empty());
    }
    assert_eq!(reported(&two(["ip", "ip6"], json!([{"accept": null}]))), [""; 0]);
    // A chain without rules decides nothing.
    let empty = document(&[
        base("ip", "a", "post", "postrouting"),
        base("ip", "b", "late", "postrouting"),
        rule("ip", "a", "post", &hide),
    ]);
    assert_eq!(reported(&empty), [""; 0]);
}

/// The decision of rules about a packet: whether they translate it.
pub(super) fn decision(rules: &[SourceRule], protocol: u8, src: &str, dst: &str) -> Option<bool> {
    let number = |text: &str| match ip(text) {
        IpAddr::V4(address) => (4, u128::from(address.to_bits())),
        IpAddr::V6(address) => (6, address.to_bits()),
    };
    let ((version, src), (_, dst)) = (number(src), number(dst));
    let rule = rules.iter().find(|rule| rule.matches((version, protocol), (src, dst), || 0));
    rule.map(|rule| rule.translates)
}

/// A rule decides about packets of its family, and of that of its conditions.
#[test]
fn rules_hold_for_their_ip_version() {
    let not = |protocol: &str, address: &str| {
        json!({"match": {"op": "!=", "left": {"payload": {"protocol": protocol, "field": "daddr"}},
            "right": address}})
    };
    let hide = json!([{"masquerade": null}]);
    let v4 = ("10.0.0.1", "8.8.8.8");
    let v6 = ("fd00::1", "2001:db8::8");
    for (family, condition, protocol, kept) in [
        ("inet", not("ip", "1.1.1.1"), 17, v4),
        ("inet", not("ip6", "2001:db8::1"), 17, v6),
        ("inet", is("ip", "protocol", json!("udp")), 17, v4),
        ("inet", meta("nfproto", json!("ipv6")), 17, v6),
        ("inet", meta("protocol", json!("ip")), 17, v4),
        ("ip", meta("l4proto", json!("udp")), 17, v4),
        ("ip6", meta("l4proto", json!("udp")), 17, v6),
    ] {
        let keep = json!([condition, {"accept": null}]);
        let mut objects =
            vec![base(family, "a", "post", "postrouting"), rule(family, "a", "post", &keep)];
        for other in ["ip", "ip6"].iter().filter(|_| family != "inet") {
            if *other != family {
                objects.push(base(other, "b", "post", "postrouting"));
                objects.push(rule(other, "b", "post", &hide));
            }
        }
        objects.push(rule(family, "a", "post", &hide));
        let found = document(&objects);
        assert_eq!(reported(&found), [""; 0], "{condition}");
        for packet in [v4, v6] {
            let expected = Some(packet != kept);
            let is = decision(&found.source_rules, protocol, packet.0, packet.1);
            assert_eq!(is, expected, "{family} {condition} {packet:?}");
        }
    }
    let next = json!([is("ip6", "nexthdr", json!("tcp")), {"accept": null}]);
    let chain = base("inet", "a", "post", "postrouting");
    let found = document(&[chain.clone(), rule("inet", "a", "post", &next)]);
    only_has(&found, true, "packets that are not translated");
    // An address to translate to has a version, too.
    let snat = json!([{"snat": {"family": "ip", "addr": "203.0.113.1"}}]);
    let found = document(&[chain, rule("inet", "a", "post", &snat)]);
    assert_eq!(decision(&found.source_rules, 17, v6.0, v6.1), None);
    assert_eq!(decision(&found.source_rules, 17, v4.0, v4.1), Some(true));
    let v4_only = iptables("-A POSTROUTING ! -d 1.1.1.1 -j ACCEPT\n-A POSTROUTING -j MASQUERADE");
    assert_eq!(decision(&v4_only.source_rules, 17, v6.0, v6.1), Some(true));
}

/// A forward of one IP version leaves that of the other in force.
#[test]
fn forwards_of_both_versions_hold() {
    let web = is("tcp", "dport", json!(80));
    let to = |family: &str, addr: &str| json!([web, {"dnat": {"family": family, "addr": addr}}]);
    let found = document(&[
        base("inet", "a", "pre", "prerouting"),
        rule("inet", "a", "pre", &to("ip", "10.0.0.5")),
        rule("inet", "a", "pre", &to("ip6", "fd00::5")),
    ]);
    assert_eq!(reported(&found), [""; 0]);
    let inside: Vec<_> = found.forwards.iter().map(|own| own.inside).collect();
    assert_eq!(inside, [ip("10.0.0.5"), ip("fd00::5")]);
    // A skipped rule of one version holds back none of the other.
    let some = json!([is("ip", "saddr", json!("198.51.100.1")), web, {"accept": null}]);
    let found = document(&[
        base("inet", "a", "pre", "prerouting"),
        rule("inet", "a", "pre", &some),
        rule("inet", "a", "pre", &to("ip6", "fd00::5")),
    ]);
    only_has(&found, true, "packets that are not forwarded");
    assert_eq!(found.forwards.len(), 1);
}

/// A match without options is a condition nevertheless.
#[test]
fn unknown_matches_are_conditions() {
    let keep = "-A POSTROUTING -s 10.1.0.0/16 -m frag -j ACCEPT";
    only_has(
        &iptables(&format!("{keep}\n{ALL}")),
        true,
        "5:34 `frag`: not supported: no such match",
    );
    let into = "-A PREROUTING -p tcp -m tcp --dport 80 -m socket -j DNAT --to-destination 10.1.0.5";
    let found = iptables(into);
    only_has(&found, true, "`socket`: not supported: no such match");
    assert!(found.forwards.is_empty());
    let ttl = "-A POSTROUTING -s 10.1.0.0/16 -m ttl --ttl-lt 5 -j SNAT --to-source 203.0.113.1";
    only_has(&iptables(ttl), true, "`ttl`: not supported: no such match");
    // Options of the next match are read again.
    let two = "-A PREROUTING -p tcp -m ttl --ttl-lt 5 -m tcp --dport 80 --sport 9 -j DNAT \
               --to-destination 10.1.0.5";
    assert_eq!(reported(&iptables(two)).len(), 1);
    let known = "-A PREROUTING -p udp -m udp -m multiport --dports 53,54 -m comment --comment \
                 \"a b\" -j DNAT --to-destination 10.1.0.5";
    assert_eq!(reported(&iptables(known)), [""; 0]);
    let glued = "-A POSTROUTING -s 10.1.0.0/16 -jACCEPT";
    only_has(&iptables(glued), false, "`-jACCEPT`: targets are like `-j ACCEPT`");
}

/// Linux does not apply the rules of a dormant table.
#[test]
fn dormant_tables_have_no_effect() {
    let keep = json!([saddr(json!("10.1.0.5")), {"accept": null}]);
    let to = json!([is("tcp", "dport", json!(80)), {"dnat": {"addr": "10.1.0.5"}}]);
    for flags in [json!("dormant"), json!(["dormant"]), json!(["owner", "dormant"])] {
        let found = document(&[
            json!({"table": {"family": "ip", "name": "a", "flags": flags}}),
            base("ip", "a", "post", "postrouting"),
            base("ip", "a", "pre", "prerouting"),
            rule("ip", "a", "post", &keep),
            rule("ip", "a", "pre", &to),
        ]);
        assert_eq!((found.source_rules.len(), found.forwards.len()), (0, 0), "{flags}");
        assert_eq!(reported(&found), [""; 0]);
    }
    for flags in [json!([]), json!("owner"), json!(["owner", "persist"])] {
        let found = document(&[
            json!({"table": {"family": "ip", "name": "a", "flags": flags}}),
            base("ip", "a", "post", "postrouting"),
            rule("ip", "a", "post", &keep),
        ]);
        assert_eq!(reported(&found), [""; 0], "{flags}");
        assert_eq!(found.source_rules.len(), 1, "{flags}");
    }
    // nft 1.0.6 prints other words in place of a single flag.
    let odd = json!({"table": {"family": "ip", "name": "a", "flags": "Lester Gooch #5"}});
    only_has(&document(&[odd]), false, "table `ip a`: unknown flag `Lester Gooch #5`");
}

/// Linux keeps a port that lies in the range, and looks for a free one otherwise.
#[test]
fn ranges_of_ports_are_not_shifted() {
    let to = |ports: &str, to: &str| {
        format!("-A PREROUTING -p tcp --dport {ports} -j DNAT --to-destination 10.0.0.5:{to}")
    };
    for (ports, target, expected) in [
        ("8000:8010", "80", Some((80, 80))),
        ("8000:8010", "8000-8010", Some((8000, 8010))),
        ("8000:8010", "7000-9000", Some((8000, 8010))),
        ("8000:8010", "80-90", None),
        ("80", "80-81", Some((80, 80))),
        ("79", "80-81", None),
        ("8000:8010", "80-90/8000", Some((80, 90))),
        ("8001:8003", "80-90/8000", Some((81, 83))),
        ("8000:8011", "80-90/8000", None),
        ("7999:8001", "80-90/8000", None),
    ] {
        let found = iptables(&to(ports, target));
        match expected {
            Some(expected) => assert_eq!(found.forwards[0].to, expected, "{ports} {target}"),
            None => only_has(&found, true, "a range of inside ports"),
        }
        assert_eq!(
            (found.forwards.len(), reported(&found).len()),
            match expected {
                Some(_) => (1, 0),
                None => (0, 1),
            }
        );
    }
    only_has(&iptables(&to("80", "80-81 --random")), true, "a range of inside ports");
    let dnat = |first: u16, last: u16| {
        let port = json!({"range": [first, last]});
        json!([is("tcp", "dport", json!({"range": [8000, 8010]})),
            {"dnat": {"addr": "10.0.0.5", "port": port}}])
    };
    only_has(&nft_hooks(&[dnat(80, 90)], &[]), true, "rule handle 3: not supported: a range of");
    assert_eq!(reported(&nft_hooks(&[dnat(8000, 8010)], &[])), [""; 0]);
}

/// Packets that no rule matches pass untranslated here.
#[test]
fn policies_other_than_accept_are_refused() {
    let text = format!("*nat\n:PREROUTING DROP [0:0]\n:POSTROUTING ACCEPT\n{ALL}\nCOMMIT\n");
    let found =
        super::super::parse_iptables(&SourceText::new("rules", text), &RulePorts::default());
    only_has(&found, false, "2:2 `PREROUTING`: not supported: the policy DROP");
    let mut chain = base("ip", "a", "post", "postrouting");
    chain["chain"]["policy"] = json!("drop");
    only_has(&document(&[chain]), false, "`ip a post`: not supported: the policy drop");
}

/// Without state an answer of a host looks like its new connections.
#[test]
fn accepted_packets_of_mapped_hosts_are_refused() {
    let inward = gateway::INWARD;
    let own = "-A POSTROUTING -s 10.1.1.9 -j SNAT --to-source 203.0.113.9";
    let keep = "-A POSTROUTING -s 10.1.0.0/16 -d 8.8.8.0/24 -j ACCEPT";
    let net = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30";
    let near = "-A POSTROUTING -s 10.1.0.0/16 -d 10.1.7.0/24 -j ACCEPT";
    let expected = "`ACCEPT`: not supported: answers of ";
    for rules in
        [&[inward, keep, ALL][..], &[inward, keep, own, ALL], &[net, keep, ALL], &[inward, keep]]
    {
        let found = iptables(&rules.join("\n"));
        only_has(&found, true, expected);
        assert!(found.source_rules.iter().all(|rule| rule.translates));
    }
    for rules in [&[inward, own, keep, ALL][..], &[inward, near, ALL], &[keep, ALL]] {
        assert_eq!(reported(&iptables(&rules.join("\n"))), [""; 0], "{rules:?}");
    }
    let accept = json!([saddr(json!("10.1.1.9")), is("ip", "daddr", json!("8.8.8.8")),
        {"accept": null}]);
    let whole = json!([is("ip", "daddr", json!("203.0.113.9")), {"dnat": {"addr": "10.1.1.9"}}]);
    let all = json!([saddr(json!("10.1.0.5")), {"snat": {"addr": "203.0.113.1"}}]);
    let found = nft_hooks(&[whole], &[accept, all]);
    only_has(&found, true, "`ip nat post` rule handle 3: not supported: answers of 10.1.1.9/32");
    // Skipped, the answers leave from the host's own address.
    let mut nat = try_gateway(&gateway::saved(&[inward, keep, ALL]), SKIP).unwrap();
    let (remote, outside, inside) = (("8.8.8.8", 9), ("203.0.113.9", 53), ("10.1.1.9", 53));
    assert_sent(&sent(&mut nat, 1, &udp(remote, outside)), &udp(remote, inside));
    assert_sent(&sent(&mut nat, 1, &udp(inside, remote)), &udp(outside, remote));
}

/// Conflicts of rules stand at their line, with the text to write instead.
#[test]
fn conflicts_of_rules_have_their_line() {
    let far = "-A PREROUTING -d 203.0.113.1 -p tcp --dport 80 -j DNAT --to-destination 10.9.0.5";
    let web = far.replace("10.9.0.5", "10.1.0.5");
    let more = web.replace("--dport 80", "--dport 70:90");
    let whole = "-A PREROUTING -d 203.0.113.1 -j DNAT --to-destination 10.1.0.5";
    for (rules, expected) in [
        (format!("{far}\n{ALL}"), "rules:4:51: `DNAT`: 10.9.0.5 is not in `inside`"),
        (format!("{web}\n{more}\n{ALL}"), "tcp ports 81-101 of 203.0.113.1 are free"),
        (
            format!("{whole}\n{ALL}"),
            "rules:4:33: `DNAT`: 203.0.113.1/32 overlaps `inside` or `outside`",
        ),
    ] {
        let lines = gateway::saved(&[&rules]);
        let reported = try_gateway(&lines, "").err().map(|all| all.to_string());
        assert!(reported.as_ref().is_some_and(|own| own.contains(expected)), "{reported:?}");
    }
}

/// Ports that are forwarded are not assigned.
#[test]
fn forwards_leave_ports_to_assign() {
    let to = |protocol: &str, ports: &str| {
        format!("-A PREROUTING -p {protocol} --dport {ports} -j DNAT --to-destination 10.1.0.5")
    };
    let few = "leave fewer than 64 ports";
    for (protocol, ports, is_few) in [
        ("tcp", "1:65535", true),
        ("udp", "1024:65472", true),
        ("tcp", "1024:65471", false),
        ("tcp", "1:1023", false),
    ] {
        match built(&format!("{}\n{ALL}", to(protocol, ports)), "") {
            Ok(_) => assert!(!is_few, "{ports}"),
            Err(reported) => {
                assert!(is_few && reported.len() == 1 && reported[0].contains(few), "{reported:?}")
            }
        }
    }
}

/// Skipped, the hosts of `prefix to` get a shared address.
#[test]
fn prefix_to_can_be_skipped() {
    let prefix = |addr: &str, len| json!({"prefix": {"addr": addr, "len": len}});
    let net = json!([saddr(prefix("10.2.1.0", 30)), {"snat": {"flags": "netmap",
        "type_flags": "prefix", "addr": prefix("203.0.113.8", 30)}}]);
    let all = json!([saddr(prefix("10.1.0.0", 16)), {"snat": {"addr": "203.0.113.1"}}]);
    for rules in [[net.clone(), all.clone()], [all, net.clone()]] {
        let found = nft_hooks(&[], &rules);
        only_has(&found, true, "`prefix to`, host by host");
        assert_eq!(found.inside.len(), 2);
        let outside = found.translation.as_ref().and_then(|to| to.outside.clone());
        assert_eq!(outside, Some(super::rules::list(&["203.0.113.1"])));
        assert_eq!(decision(&found.source_rules, 17, "10.2.1.1", "8.8.8.8"), Some(true));
    }
    let found = nft_hooks(&[], &[net]);
    assert_eq!((found.translation, found.mistakes.count()), (None, 0));
}

#[test]
fn reasons_name_the_cause() {
    let none = json!({"set": {"family": "ip", "table": "nat", "name": "none"}});
    let void = json!([meta("l4proto", json!("@none")), {"dnat": {"addr": "10.1.0.5"}}]);
    assert_eq!(reported(&nft_sets(&[], &[none], &[void], &[])), [""; 0]);
    let sctp = "-A PREROUTING -p sctp -m sctp --dport 80 -j DNAT --to-destination 10.1.0.5";
    only_has(&iptables(sctp), true, "`DNAT`: not supported: ports of this protocol");
    let daddr = is("ip", "daddr", json!("203.0.113.9"));
    let some = json!([saddr(json!("198.51.100.1")), daddr, {"dnat": {"addr": "10.1.1.9"}}]);
    let whole = json!([daddr, {"dnat": {"addr": "10.1.1.9"}}]);
    let found = nft_hooks(&[some, whole], &[]);
    let expected = "lets in packets of `ip nat pre` rule handle 3, which is not supported";
    assert!(reported(&found)[0].contains(expected), "{:?}", reported(&found));
    let twice = super::super::parse_iptables(
        &SourceText::new("rules", "*nat\nCOMMIT\n*nat\nCOMMIT\n"),
        &RulePorts::default(),
    );
    let help = twice.mistakes.iter().next().and_then(|reported| reported.help.clone());
    assert!(help.is_some_and(|help| !help.contains("rules_v6")));
}
