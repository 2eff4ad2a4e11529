//! Rules of iptables and nftables in the place of keys.

use proptest::prelude::*;
use serde_json::{Value, json};
use warpline_packet::Prefix;

use super::super::DEFINITION;
use super::super::rules::{ForwardRule, prefixes};
use super::super::{NatRules, RulePorts, SourceRule, Translation, parse_iptables, parse_nft};
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, Port, Ports, Resources, Section, Side, SourceText};
use warpline_rewrite::PortSet;
use warpline_rule_files::NumberSet;

pub(super) fn list(texts: &[&str]) -> Vec<Prefix> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

pub(super) fn iptables(rules: &str) -> NatRules {
    iptables_in(&[], rules)
}

/// Rules in a chain with these ports.
pub(super) fn iptables_in(ports: &[(&str, Side)], rules: &str) -> NatRules {
    let text =
        format!("*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\n:OUTPUT ACCEPT\n{rules}\nCOMMIT\n");
    parse_iptables(&SourceText::new("rules", text), &rule_ports(ports))
}

pub(super) fn rule_ports(ports: &[(&str, Side)]) -> RulePorts {
    let port = |&(name, side): &(&str, Side)| Port { name: name.into(), side };
    RulePorts::new(&Ports::new(ports.iter().map(port).collect()))
}

pub(super) fn nft(statements: &[Value]) -> NatRules {
    nft_in(&[], statements)
}

fn nft_in(ports: &[(&str, Side)], statements: &[Value]) -> NatRules {
    nft_with(ports, &[], statements)
}

/// Rules of both hooks.
pub(super) fn nft_hooks(pre: &[Value], post: &[Value]) -> NatRules {
    nft_with(&[], pre, post)
}

pub(super) fn nft_with(ports: &[(&str, Side)], pre: &[Value], post: &[Value]) -> NatRules {
    nft_sets(ports, &[], pre, post)
}

/// Rules of both hooks, and sets that they name.
pub(super) fn nft_sets(
    ports: &[(&str, Side)],
    sets: &[Value],
    pre: &[Value],
    post: &[Value],
) -> NatRules {
    let chain = |name: &str, hook: &str| {
        json!({"chain": {"family": "ip", "table": "nat", "name": name, "type": "nat",
            "hook": hook}})
    };
    let mut objects = vec![chain("post", "postrouting"), chain("pre", "prerouting")];
    objects.extend_from_slice(sets);
    for (chain, statements) in [("post", post), ("pre", pre)] {
        for (handle, expr) in (3..).zip(statements) {
            objects.push(json!({"rule": {"family": "ip", "table": "nat", "chain": chain,
                "handle": handle, "expr": expr}}));
        }
    }
    let text = json!({ "nftables": objects }).to_string();
    parse_nft(&SourceText::new("rules", text), &rule_ports(ports))
}

pub(super) fn saddr(right: Value) -> Value {
    json!({"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}},
        "right": right}})
}

pub(super) fn reported(found: &NatRules) -> Vec<String> {
    let all = found.mistakes.iter().chain(found.unsupported.iter());
    all.map(|d| format!("{}:{} {}", d.line, d.column, d.message)).collect()
}

#[test]
fn both_forms_say_the_same() {
    let outside = Some(list(&["203.0.113.1", "203.0.113.2/31", "203.0.113.4/30", "203.0.113.8"]));
    let ports = Some("1024-5000".parse().unwrap());
    let from = iptables(
        "-A POSTROUTING -s 10.0.0.0/8 -m comment --comment \"x\" -j SNAT \
         --to-source 203.0.113.1-203.0.113.8:1024-5000 --persistent\n\
         [1:2] -A POSTROUTING -s 192.168.0.0/255.255.0.0,10.0.0.0/8 -j SNAT \
         --to-source 203.0.113.1-203.0.113.8:1024-5000 --random\n-A OUTPUT -j DNAT --to 1",
    );
    assert_eq!(reported(&from), [""; 0]);
    assert_eq!(from.inside, list(&["10.0.0.0/8", "192.168.0.0/16"]));
    assert_eq!(from.translation, Some(Translation { outside, ports }));
    let prefix = |addr: &str, len| json!({"prefix": {"addr": addr, "len": len}});
    let snat = json!({"snat": {"addr": {"range": ["203.0.113.1", "203.0.113.8"]},
        "port": {"range": [1024, 5000]}, "flags": ["persistent"]}});
    let same = nft(&[
        json!([saddr(prefix("10.0.0.0", 8)), {"counter": {"packets": 0}}, snat]),
        json!([saddr(json!({"set": [prefix("192.168.0.0", 16)]})), snat]),
    ]);
    assert_eq!(reported(&same), [""; 0]);
    assert_eq!((same.inside, same.translation), (from.inside, from.translation));
    let both = [saddr(prefix("10.0.0.0", 8)), saddr(prefix("10.1.0.0", 16)), snat.clone()];
    assert!(reported(&nft(&[json!(both)]))[0].contains("a second condition on the source"));
    let masquerade = nft(&[json!([saddr(prefix("10.0.0.0", 8)), {"masquerade": null}])]);
    assert_eq!(masquerade.translation, Some(Translation { outside: None, ports: None }));
    let v6 = iptables("-A POSTROUTING -s fd00::/16 -j SNAT --to-source [2001:db8::1]:1024-65535");
    let translation = v6.translation.unwrap();
    assert_eq!(translation.outside, Some(list(&["2001:db8::1"])));
    assert!(iptables("-A POSTROUTING -j MASQUERADE").any_source);
}

#[test]
fn mistakes_and_unsupported_rules_are_reported() {
    for (rules, expected) in [
        ("-A POSTROUTING -s 10.0.0.0/8 -j SNAT", "5:33 `SNAT`: lacks `--to-source`"),
        (
            "-A POSTROUTING ! -s 10.0.0.0/8 -j MASQUERADE",
            "5:18 `-s`: all sources but some can't be translated",
        ),
        (
            "-A POSTROUTING -j SNAT --to-source 203.0.113.9-203.0.113.1",
            "5:36 `203.0.113.9-203.0.113.1`: not a range of addresses",
        ),
        ("-A POSTROUTING -j SNAT --to-source x", "5:36 `x`: not an address to translate to"),
        ("-A POSTROUTING -j MASQUERADE --to-ports 1-9", "5:41 `1-9`: fewer than 64 ports"),
        ("-A POSTROUTING -j elsewhere", "5:19 `elsewhere`: no such target"),
        ("-A PREROUTING -j elsewhere", "5:18 `elsewhere`: no such target"),
        (
            ":own - [0:0]\n-A POSTROUTING -j own\n-A own -g POSTROUTING",
            "7:8 `-g`: chain `POSTROUTING` leads to itself",
        ),
        ("-A POSTROUTING -g x", "5:19 `x`: the table has no such chain"),
        (
            "-A POSTROUTING -s 10.0.0.1/8 -j MASQUERADE",
            "5:19 `10.0.0.1/8`: address has bits set after the prefix length",
        ),
        (
            "-A POSTROUTING -s 10.0.0.0/8 -o eth0 -j MASQUERADE",
            "5:33 `eth0`: not supported: the chain has no [[port]]",
        ),
        (
            "-A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.5",
            "`DNAT`: not supported: a forward of all ports, without `--dport`",
        ),
        (
            "-A PREROUTING -s 192.0.2.1 -p tcp --dport 80 -j DNAT --to-destination 10.0.0.5",
            "`192.0.2.1`: not supported: a forward for some remotes only",
        ),
        (
            "-A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080",
            "`REDIRECT`: not supported: ports of the gateway itself",
        ),
        (
            "-A PREROUTING -i eth0 -p tcp --dport 80 -j DNAT --to-destination 10.0.0.5",
            "`eth0`: not supported: the chain has no [[port]]",
        ),
        (
            "-A PREROUTING -p tcp --dport 80 -j DNAT --to-destination 10.0.0.5-10.0.0.9",
            "not supported: a range of inside hosts",
        ),
        (
            "-A PREROUTING -p tcp --dport 80:90 -j DNAT --to-destination 10.0.0.5:80-81",
            "not supported: a range of inside ports, of which Linux takes a free one",
        ),
        (
            "-A PREROUTING -d 203.0.113.32/28 -p tcp -j NETMAP --to 10.0.9.32/28",
            "`NETMAP`: not supported: a host's own address for some packets only",
        ),
        (
            "-A PREROUTING -p tcp --dport 80 -m multiport --dports 80,443 -j DNAT \
             --to-destination 10.0.0.5",
            "`--dports`: not supported: a second condition on the port",
        ),
        ("-A PREROUTING -j DNAT --to-destination 10.0.0.5", "requires a protocol, `-p`, or one"),
        ("-A PREROUTING -p tcp --dport 80 -j DNAT", "lacks `--to-destination`"),
    ] {
        let reported = reported(&iptables(rules));
        assert!(reported.len() == 1 && reported[0].contains(expected), "{reported:?}: {expected}");
    }
    let two = iptables(
        "-A POSTROUTING -s 10.0.0.0/8 -j SNAT --to-source 203.0.113.1\n\
         -A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.2",
    );
    assert_eq!(
        reported(&two),
        ["6:34 `SNAT`: not supported: rules that translate to different addresses or ports"]
    );
    let oif = json!({"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "eth0"}});
    for (statements, expected) in [
        (
            json!([oif, {"masquerade": null}]),
            "handle 3: not supported: `eth0`: the chain has no [[port]]",
        ),
        (json!([saddr(json!("10.0.0.x")), {"masquerade": null}]), "not an IPv4 address"),
        (json!([{"snat": {}}]), "snat without an address"),
        (json!([{"jump": {"target": "x"}}]), "no chain `ip nat x` to go to"),
        (json!([{"limit": {}}, {"accept": null}]), "packets that are not translated"),
        (json!([{"masquerade": {"port": {"range": [1, 9]}}}]), "fewer than 64 ports"),
        (
            json!([saddr(json!("10.0.0.5")), {"snat": {"flags": "netmap", "type_flags": "prefix",
                "addr": {"prefix": {"addr": "203.0.113.8", "len": 30}}}}]),
            "not supported: `prefix to`, host by host",
        ),
    ] {
        let reported = reported(&nft(std::slice::from_ref(&statements)));
        assert!(reported.len() == 1 && reported[0].contains(expected), "{reported:?}: {expected}");
    }
}

/// A condition on ports holds if all translated packets meet it, in both forms.
#[test]
fn interfaces_are_the_ports_by_which_packets_come() {
    let (lan, wan) = (("lan", Side::Inside), ("wan", Side::Outside));
    let two = vec![lan, wan];
    let outside = vec![lan, wan, ("wan2", Side::Outside)];
    let inside = vec![lan, wan, ("dmz", Side::Inside)];
    let (by_lan, by_wan) = (PortSet::of(&[0]), PortSet::of(&[1]));
    let both = Err("write the same rules for all outside ports (wan, wan2)");
    let others = Err("packets that leave by inside ports keep their source; outside ports: wan");
    for (ports, condition, expected) in [
        (&two, "-o wan", Ok(by_lan)),
        (&two, "! -o lan", Ok(by_lan)),
        (&two, "-o w+", Ok(by_lan)),
        (&two, "-o +", Ok(PortSet::ALL)),
        (&two, "-o lan", others),
        (&two, "! -o wan", others),
        (&two, "-i lan", Ok(by_lan)),
        (&two, "-i wan", Ok(by_wan)),
        (&two, "-i lan -o wan", Ok(by_lan)),
        (&two, "-i lan -o lan", others),
        (&two, "-o eth0", Err("no port of the chain; ports: lan, wan")),
        (&outside, "-o wan", both),
        (&outside, "-o wan+", Ok(PortSet::ALL)),
        (&outside, "-i wan+", Ok(PortSet::of(&[1, 2]))),
        (&inside, "-o wan", Ok(PortSet::ALL)),
        (&inside, "-o dmz", others),
        (&inside, "-o +", Ok(PortSet::ALL)),
        (&inside, "-i lan", Ok(by_lan)),
        (&inside, "! -i wan -o +", Ok(PortSet::of(&[0, 2]))),
    ] {
        let rule = format!("-A POSTROUTING -s 10.0.0.0/8 {condition} -j MASQUERADE");
        let statements = matches_of(condition);
        let mut expr = vec![saddr(json!("10.0.0.5"))];
        expr.extend(statements);
        expr.push(json!({ "masquerade": null }));
        let both = [iptables_in(ports, &rule), nft_in(ports, &[json!(expr)])];
        for found in &both {
            let reported = reported(found);
            assert_eq!(reported.len(), usize::from(expected.is_err()), "{condition}: {reported:?}");
            assert!(found.mistakes.is_empty());
            assert_eq!(found.translation.is_some(), expected != others, "{condition}");
            match expected {
                Ok(came_by) => assert_eq!(found.source_rules[0].came_by, came_by, "{condition}"),
                Err(why) => assert!(reported[0].contains(why), "{reported:?}"),
            }
        }
    }
}

/// Options of iptables as statements of nft.
pub(super) fn matches_of(options: &str) -> Vec<Value> {
    let (mut all, mut op, mut key) = (Vec::new(), "==", "");
    for word in options.split(' ') {
        match word {
            "!" => op = "!=",
            "-i" => key = "iifname",
            "-o" => key = "oifname",
            name => {
                let left = json!({"meta": {"key": key}});
                let right = name.replace('+', "*");
                all.push(json!({"match": {"op": op, "left": left, "right": right}}));
                op = "==";
            }
        }
    }
    all
}

/// Builds a table with these rules. Returns the number of skipped rules, or the mistakes.
pub(super) fn built(rules: &str, keys: &str) -> Result<usize, Vec<String>> {
    let text = format!("*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\n{rules}\nCOMMIT\n");
    let files = [("r", text.as_str())];
    let table = format!("rules = \"r\"\n{keys}");
    let source = SourceText::new("chain.toml", table.as_str());
    let parsed = toml::de::DeTable::parse(&source.text).unwrap();
    let (mut found, mut resources) = (Diagnostics::default(), Resources::default());
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let folder = Folder::Bundled(&files);
    let mut section = Section::new(vec![layer], "nat", folder, &mut found);
    let function = (DEFINITION.build)(&mut section, &mut resources);
    assert_eq!(function.is_some(), found.is_empty());
    if found.is_empty() {
        return Ok(resources.notices().count());
    }
    Err(found.iter().map(|d| d.message.clone()).collect())
}

#[test]
fn rules_take_the_place_of_keys() {
    let snat = "-A POSTROUTING -s 10.0.0.0/8 -j SNAT --to-source 203.0.113.1:1024-9999";
    let masquerade = "-A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE";
    let any = "-A POSTROUTING -j MASQUERADE";
    let outside = "outside = [\"203.0.113.1\"]\n";
    let both = "outside = [\"203.0.113.1\"]\ninside = [\"10.0.0.0/8\"]\n";
    assert_eq!(built(snat, ""), Ok(0));
    assert_eq!(built(masquerade, outside), Ok(0));
    assert_eq!(built(any, both), Ok(0));
    let reported = |rules: &str, keys: &str| built(rules, keys).unwrap_err();
    assert_eq!(reported(snat, "ports = \"1024-9999\""), ["`ports` conflicts with `rules`"]);
    assert_eq!(reported(snat, outside), ["`outside` conflicts with `rules`"]);
    assert_eq!(reported(masquerade, both), ["`inside` conflicts with `rules`"]);
    assert_eq!(reported(masquerade, ""), ["[nat] needs `outside`: the addresses to translate to"]);
    assert_eq!(reported("", ""), ["has no rule that translates sources"]);
    let overlap = "-A POSTROUTING -s 203.0.113.0/24 -j SNAT --to-source 203.0.113.1";
    assert_eq!(
        reported(overlap, ""),
        ["203.0.113.1/32 in `outside` overlaps 203.0.113.0/24 in `inside`"]
    );
    let interface = "-A POSTROUTING -s 10.0.0.0/8 -o eth0 -j MASQUERADE";
    assert_eq!(reported(interface, outside).len(), 1);
    assert_eq!(built(interface, &format!("{outside}unsupported = \"skip\"")), Ok(1));
}

proptest! {
    #[test]
    fn ranges_are_made_of_few_prefixes(first in any::<u32>(), len in 0u32..5000,
        is_v6 in any::<bool>()) {
        let last = first.saturating_add(len);
        let shift = if is_v6 { 90 } else { 0 };
        let (version, low, high) =
            (if is_v6 { 6 } else { 4 }, u128::from(first) << shift, u128::from(last) << shift);
        let made = prefixes(&NumberSet::range(low, high), version);
        let most = if is_v6 { 256 } else { 64 };
        prop_assert!(made.len() <= most);
        let mut next = low;
        for prefix in made {
            let (bits, address) = match prefix.address() {
                std::net::IpAddr::V4(a) => (32, u128::from(a.to_bits())),
                std::net::IpAddr::V6(a) => (128, a.to_bits()),
            };
            prop_assert_eq!(address, next);
            next += 1 << (bits - prefix.len());
        }
        prop_assert_eq!(next, high + 1);
    }
}

#[test]
fn sources_have_a_bound() {
    let rules = |count: u32| -> String {
        let rule = |n: u32| {
            let source = std::net::Ipv4Addr::from(0x0a00_0000 + n);
            format!("-A POSTROUTING -s {source} -j SNAT --to-source 203.0.113.1\n")
        };
        (0..count).map(rule).collect()
    };
    assert_eq!(reported(&iptables(&rules(4096))), [""; 0]);
    let more = reported(&iptables(&rules(4097)));
    assert!(more.len() == 1 && more[0].contains("more than 4096 source prefixes"), "{more:?}");
}

#[test]
fn long_names_of_options_are_read_as_the_short_ones() {
    let not = iptables("-A POSTROUTING ! --source 10.0.0.0/8 -j MASQUERADE");
    assert_eq!((reported(&not).len(), not.inside.len()), (1, 0), "not those that it excepts");
    let long = iptables("-A POSTROUTING --source 10.0.0.0/8 --jump MASQUERADE");
    assert_eq!((reported(&long).len(), long.inside), (0, list(&["10.0.0.0/8"])));
    assert_eq!(reported(&iptables("-A POSTROUTING --goto other")).len(), 1);
}

/// The rules of an office's gateway: forwards, hosts with addresses of their own, and packets that
/// are not translated.
#[test]
fn forwards_maps_and_exceptions_are_the_same_in_both_formats() {
    let from = iptables(
        "-A PREROUTING -d 203.0.113.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination \
         10.0.0.5:8080\n\
         -A PREROUTING -d 203.0.113.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination \
         10.0.0.9:8080\n\
         -A PREROUTING -p udp -m multiport --dports 53,5000:5010 -j DNAT --to-destination \
         10.0.0.6\n\
         -A PREROUTING -d 203.0.113.40/32 -j DNAT --to-destination 10.0.0.40\n\
         -A POSTROUTING -s 10.0.0.40/32 -j SNAT --to-source 203.0.113.40\n\
         -A POSTROUTING -s 10.0.0.0/8 -d 10.0.0.0/8 -j ACCEPT\n\
         -A POSTROUTING -s 10.0.0.0/8 -p gre -j RETURN\n\
         -A POSTROUTING -s 10.0.0.0/8 ! -d 192.168.0.0/16 -j SNAT --to-source 203.0.113.1",
    );
    assert_eq!(reported(&from), [""; 0]);
    let forward = |protocol, outside: Option<&str>, ports, inside: &str, to| ForwardRule {
        protocol,
        outside: outside.map(|text| text.parse().unwrap()),
        ports,
        inside: inside.parse().unwrap(),
        to,
        came_by: PortSet::ALL,
    };
    assert_eq!(
        from.forwards,
        [
            forward(6, Some("203.0.113.1"), (80, 80), "10.0.0.5", (8080, 8080)),
            forward(17, None, (53, 53), "10.0.0.6", (53, 53)),
            forward(17, None, (5000, 5010), "10.0.0.6", (5000, 5010)),
            forward(17, Some("203.0.113.40"), (53, 53), "10.0.0.6", (53, 53)),
            forward(17, Some("203.0.113.40"), (5000, 5010), "10.0.0.6", (5000, 5010)),
        ]
    );
    assert_eq!(from.mapped.len(), 1);
    let ten = list(&["10.0.0.0/8"]);
    let rule = |translates| {
        let version = Some(4);
        SourceRule { sources: ten.clone(), version, translates, ..Default::default() }
    };
    assert_eq!(
        from.source_rules,
        [
            SourceRule { sources: list(&["10.0.0.40/32"]), own: true, ..rule(true) },
            SourceRule { destinations: ten.clone(), ..rule(false) },
            SourceRule { protocol: Some(47), ..rule(false) },
            SourceRule { not_destinations: list(&["192.168.0.0/16"]), ..rule(true) },
        ]
    );
    let is = |protocol: &str, field: &str, right: Value| {
        json!({"match": {"op": "==", "left": {"payload": {"protocol": protocol, "field": field}},
            "right": right}})
    };
    let host = |address: &str| is("ip", "daddr", json!(address));
    let ten = || json!({"prefix": {"addr": "10.0.0.0", "len": 8}});
    let not = json!({"match": {"op": "!=", "left": {"payload": {"protocol": "ip",
        "field": "daddr"}}, "right": {"prefix": {"addr": "192.168.0.0", "len": 16}}}});
    let gre = json!({"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "gre"}});
    let same = nft_hooks(
        &[
            json!([host("203.0.113.1"), is("tcp", "dport", json!(80)),
                {"dnat": {"addr": "10.0.0.5", "port": 8080}}]),
            json!([is("udp", "dport", json!({"set": [53, {"range": [5000, 5010]}]})),
                {"dnat": {"addr": "10.0.0.6"}}]),
            json!([host("203.0.113.40"), {"dnat": {"addr": "10.0.0.40"}}]),
        ],
        &[
            json!([saddr(json!("10.0.0.40")), {"snat": {"addr": "203.0.113.40"}}]),
            json!([saddr(ten()), is("ip", "daddr", ten()), {"accept": null}]),
            json!([saddr(ten()), gre, {"return": null}]),
            json!([saddr(ten()), not, {"snat": {"addr": "203.0.113.1"}}]),
        ],
    );
    assert_eq!(reported(&same), [""; 0]);
    assert_eq!((&same.forwards, &same.mapped), (&from.forwards, &from.mapped));
    assert_eq!(same.source_rules, from.source_rules);
    assert_eq!(same.translation, from.translation);
}
