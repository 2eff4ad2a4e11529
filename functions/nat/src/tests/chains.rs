//! Files whose rules lead to other chains, as the tools of gateways write them, beside the same
//! rules without such chains.

use serde_json::{Value, json};

use super::super::{NatRules, parse_nft};
use super::rules::{iptables_in, reported, rule_ports};
use warpline_nf::{Side, SourceText};

const LAN: (&str, Side) = ("lan", Side::Inside);
const DMZ: (&str, Side) = ("dmz", Side::Inside);
const WAN: (&str, Side) = ("wan", Side::Outside);

fn assert_same(found: &NatRules, flat: &NatRules, name: &str) {
    assert_eq!(reported(flat), [""; 0], "{name}");
    let parts = |of: &NatRules| {
        (of.inside.clone(), of.any_source, of.translation.clone(), of.source_rules.clone())
    };
    assert_eq!(parts(found), parts(flat), "{name}");
    assert_eq!((&found.forwards, &found.mapped), (&flat.forwards, &flat.mapped), "{name}");
}

#[test]
fn chains_are_as_their_rules_in_one() {
    for (name, ports, rules, flat) in [
        (
            "a chain for each outside port, as Shorewall",
            &[LAN, WAN][..],
            ":wan_masq - [0:0]\n-A POSTROUTING -o wan -j wan_masq\n\
             -A wan_masq -s 10.1.0.0/16 -j MASQUERADE\n-A wan_masq -s 10.2.0.0/16 -j MASQUERADE",
            "-A POSTROUTING -o wan -s 10.1.0.0/16 -j MASQUERADE\n\
             -A POSTROUTING -o wan -s 10.2.0.0/16 -j MASQUERADE",
        ),
        (
            "published ports, as Docker",
            &[("docker0", Side::Inside), WAN],
            ":DOCKER - [0:0]\n-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER\n\
             -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER\n\
             -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE\n\
             -A DOCKER -i docker0 -j RETURN\n\
             -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination \
             172.17.0.2:80",
            "-A PREROUTING -i wan -p tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80\n\
             -A POSTROUTING -s 172.17.0.0/16 -o wan -j MASQUERADE",
        ),
        (
            "a goto for each zone, as firewalld",
            &[LAN, WAN],
            ":zones - [0:0]\n:pre_lan - [0:0]\n:pre_wan - [0:0]\n:post_lan - [0:0]\n\
             :post_wan - [0:0]\n:post_zones - [0:0]\n:post_allow - [0:0]\n\
             -A PREROUTING -j zones\n-A zones -i lan -g pre_lan\n-A zones -g pre_wan\n\
             -A pre_wan -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5\n\
             -A POSTROUTING -j post_zones\n-A post_zones -o lan -g post_lan\n\
             -A post_zones -g post_wan\n-A post_wan -j post_allow\n\
             -A post_allow ! -o lo -s 10.1.0.0/16 -j MASQUERADE",
            "-A PREROUTING -i wan -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5\n\
             -A POSTROUTING -s 10.1.0.0/16 -j MASQUERADE",
        ),
        (
            "returns by destination and port, with three ports",
            &[LAN, DMZ, WAN],
            ":out - [0:0]\n:no - [0:0]\n-A POSTROUTING ! -d 10.9.0.0/16 -j out\n\
             -A out -d 10.8.0.0/16 -j RETURN\n-A out -i dmz -j RETURN\n\
             -A out -s 10.1.0.0/16 -o wan -j MASQUERADE\n-A out -j RETURN\n-A out -j no\n\
             -A no -j ACCEPT\n-A POSTROUTING -s 10.2.0.0/16 -o wan -j MASQUERADE",
            "-A POSTROUTING ! -d 10.9.0.0/16 ! -d 10.8.0.0/16 ! -i dmz -s 10.1.0.0/16 -o wan \
             -j MASQUERADE\n-A POSTROUTING -s 10.2.0.0/16 -o wan -j MASQUERADE",
        ),
        (
            "no packet leaves by an interface before its route is known",
            &[LAN, WAN],
            ":a - [0:0]\n:b - [0:0]\n-A PREROUTING -j a\n-A a -o wan -j RETURN\n\
             -A a -o wan -p tcp --dport 81 -j DNAT --to-destination 10.1.0.5\n\
             -A a ! -o wan -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5\n\
             -A a ! -o lan -g b\n-A a -p tcp --dport 82 -j DNAT --to-destination 10.1.0.5",
            "-A PREROUTING -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5",
        ),
        (
            "returns of all destinations but some",
            &[LAN, WAN],
            ":a - [0:0]\n-A PREROUTING -j a\n-A a ! -d 203.0.113.0/28 -j RETURN\n\
             -A a ! -d 203.0.113.9 -j RETURN\n\
             -A a -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5",
            "-A PREROUTING -d 203.0.113.9 -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5",
        ),
        (
            "conditions of jumps",
            &[LAN, WAN],
            ":a - [0:0]\n:b - [0:0]\n-A PREROUTING -d 203.0.113.0/28 -p tcp -j a\n\
             -A a -d 203.0.113.0/24 -p udp -j b\n-A a -d 203.0.113.9 -j b\n\
             -A a -d 198.51.100.1 -j b\n-A a -p tcp --dport 80:90 -j b\n\
             -A b -p tcp -d 203.0.113.0/24 --dport 85:95 -j c\n:c - [0:0]\n\
             -A c -d 203.0.113.8/30 -j d\n:d - [0:0]\n\
             -A d -d 203.0.113.9 -j DNAT --to-destination 10.1.0.5",
            "-A PREROUTING -p tcp -d 203.0.113.9 --dport 85:95 -j DNAT --to-destination 10.1.0.5",
        ),
    ] {
        let found = iptables_in(ports, rules);
        assert_eq!(reported(&found), [""; 0], "{name}");
        assert_same(&found, &iptables_in(ports, flat), name);
    }
}

/// A jump or a return that can't be followed exactly is reported. Skipped, it lets in nothing more,
/// and no packet keeps a source that Linux translates.
#[test]
fn what_is_not_followed_is_reported() {
    let all = "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1";
    let web = "-p tcp --dport 80 -j DNAT --to-destination 10.1.0.5";
    let chain = ":a - [0:0]";
    for (rules, expected, sources) in [
        (
            format!("{chain}\n-A POSTROUTING -m ttl --ttl-lt 5 -j a\n-A a -j ACCEPT\n{all}"),
            &[
                "6:19 `ttl`: not supported: no such match",
                "7:9 `ACCEPT`: not supported: the jump to this chain has a condition that is not \
               supported",
            ][..],
            1,
        ),
        (
            format!("{chain}\n-A POSTROUTING -j a\n-A a -p tcp -j RETURN\n-A a -j ACCEPT\n{all}"),
            &[
                "7:13 `-j`: not supported: a return on other than an interface, destinations or an \
               IP version",
                "8:9 `ACCEPT`: not supported: the jump to this chain has a condition that is not \
               supported",
            ],
            1,
        ),
        (
            format!("{chain}\n-A PREROUTING -s 8.8.8.8 -j a\n-A a {web}\n{all}"),
            &["6:18 `8.8.8.8`: not supported: a forward for some remotes only"],
            1,
        ),
        (
            format!("{chain}\n-A PREROUTING -j a\n-A a -p tcp -j RETURN\n-A a {web}\n{all}"),
            &[
                "7:13 `-j`: not supported: a return on other than an interface, destinations or an \
               IP version",
                "8:49 `10.1.0.5`: lets in packets of line 7, which is not supported",
            ],
            1,
        ),
        (
            format!(
                "{chain}\n-A PREROUTING -j a\n-A a -m addrtype --dst-type LOCAL -j RETURN\n\
                 -A a {web}\n{all}"
            ),
            &[
                "7:35 `-j`: not supported: a return on other than an interface, destinations or an \
               IP version",
                "8:49 `10.1.0.5`: lets in packets of line 7, which is not supported",
            ],
            1,
        ),
        (
            format!("{chain}\n-A POSTROUTING -j a\n-A a -j a\n{all}"),
            &["7:6 `-j`: chain `a` leads to itself"],
            1,
        ),
    ] {
        let found = iptables_in(&[], &rules);
        let mut found_reports = reported(&found);
        found_reports.sort();
        assert_eq!(found_reports, expected, "{rules}");
        assert_eq!((found.forwards.len(), found.source_rules.len()), (0, sources), "{rules}");
    }
}

/// A rule after many returns excludes the destinations of each.
#[test]
fn what_rules_take_over_from_returns_is_bounded() {
    let each = |verb: &str| -> String {
        let line = |n: u32| format!("-A a -d 192.0.{}.{} -j {verb}\n", n / 256, n % 256);
        (0..2000).map(line).collect()
    };
    let rules = format!(
        ":a - [0:0]\n-A POSTROUTING -j a\n{}{}-A a -j MASQUERADE",
        each("RETURN"),
        each("ACCEPT")
    );
    let reported = reported(&iptables_in(&[], &rules));
    let expected = "the conditions of jumps list more than 2097152 values";
    assert!(reported.len() == 1 && reported[0].contains(expected), "{reported:?}");
}

/// The rules of OpenWrt: a chain for each zone, a forward with its reflection, and masquerading.
#[test]
fn zones_of_openwrt_are_read() {
    let object = |kind: &str, mut own: Value| {
        own["family"] = json!("inet");
        own["table"] = json!("fw4");
        json!({ kind: own })
    };
    let base = |name: &str, hook: &str| {
        object(
            "chain",
            json!({"name": name, "type": "nat", "hook": hook, "prio": -100,
            "policy": "accept"}),
        )
    };
    let is = |left: Value, right: Value| {
        json!({"match": {"op": "==", "left": left,
        "right": right}})
    };
    let meta = |key: &str, right: &str| is(json!({"meta": {"key": key}}), json!(right));
    let field = |protocol: &str, field: &str, right: Value| {
        is(json!({"payload": {"protocol": protocol, "field": field}}), right)
    };
    let jump = |to: &str| json!({"jump": {"target": to}});
    let net = || json!({"prefix": {"addr": "192.168.1.0", "len": 24}});
    let mut objects = vec![base("dstnat", "prerouting"), base("srcnat", "postrouting")];
    for name in ["dstnat_lan", "srcnat_lan", "dstnat_wan", "srcnat_wan"] {
        objects.push(object("chain", json!({"name": name})));
    }
    for (chain, expr) in [
        ("dstnat", json!([meta("iifname", "br-lan"), jump("dstnat_lan")])),
        ("dstnat", json!([meta("iifname", "eth1"), jump("dstnat_wan")])),
        ("srcnat", json!([meta("oifname", "br-lan"), jump("srcnat_lan")])),
        ("srcnat", json!([meta("oifname", "eth1"), jump("srcnat_wan")])),
        ("srcnat_wan", json!([meta("nfproto", "ipv4"), {"masquerade": null}])),
        (
            "dstnat_wan",
            json!([meta("nfproto", "ipv4"), field("tcp", "dport", json!(8080)),
            {"counter": {"packets": 0, "bytes": 0}},
            {"dnat": {"family": "ip", "addr": "192.168.1.5", "port": 80}}]),
        ),
        // Never matches: the route is not known yet.
        (
            "dstnat_wan",
            json!([meta("oifname", "eth1"), field("tcp", "dport", json!(81)),
            {"dnat": {"family": "ip", "addr": "192.168.1.5", "port": 80}}]),
        ),
        (
            "dstnat_lan",
            json!([field("ip", "saddr", net()), field("ip", "daddr",
            json!("203.0.113.1")), field("tcp", "dport", json!(8080)),
            {"dnat": {"family": "ip", "addr": "192.168.1.5", "port": 80}}]),
        ),
        (
            "srcnat_lan",
            json!([field("ip", "saddr", net()), field("ip", "daddr",
            json!("192.168.1.5")), field("tcp", "dport", json!(80)),
            {"snat": {"family": "ip", "addr": "192.168.1.1"}}]),
        ),
    ] {
        objects.push(object(
            "rule",
            json!({"chain": chain, "handle": objects.len(),
            "expr": expr}),
        ));
    }
    let text = json!({ "nftables": objects }).to_string();
    let ports = [("br-lan", Side::Inside), ("eth1", Side::Outside)];
    let found = parse_nft(&SourceText::new("rules", text), &rule_ports(&ports));
    let flat = iptables_in(
        &ports,
        "-A PREROUTING -i eth1 -p tcp --dport 8080 -j DNAT --to-destination 192.168.1.5:80\n\
         -A POSTROUTING -o eth1 -j MASQUERADE",
    );
    assert_eq!(
        reported(&found),
        [
            "0:0 `inet fw4 dstnat_lan` rule handle 13: not supported: a forward for some remotes \
             only",
            "0:0 `inet fw4 srcnat_lan` rule handle 14: not supported: packets that leave by inside \
          ports keep their source; outside ports: eth1"
        ]
    );
    let mut ipv4 = flat.source_rules;
    ipv4[0].version = Some(4);
    assert_eq!((found.source_rules, found.any_source), (ipv4, true));
    assert_eq!((found.forwards, found.translation), (flat.forwards, flat.translation));
}
