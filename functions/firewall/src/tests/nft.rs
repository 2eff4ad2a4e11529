//! Rules of `nft -j list ruleset`: chains that packets walk through, and messages about documents.

use serde_json::{Value, json};

use super::super::DEFINITION;
use super::chain_model::{Crossing, Maybe, ModelChains, ModelRule, Pattern, Target};
use super::iptables::{firewall_in, leaves, packet, packets_leave_as_a_walk_says};
use super::traffic::Sent;
use super::{Folder, firewall, reported};
use warpline_verify::try_build;

fn chain_name(number: usize) -> String {
    format!("chain-{number}")
}

pub(super) fn chain(family: &str, name: &str, base: Option<&str>) -> Value {
    let mut chain = json!({"family": family, "table": "fw", "name": name, "handle": 1});
    if let Some(policy) = base {
        chain["type"] = "filter".into();
        chain["hook"] = "forward".into();
        chain["prio"] = 0.into();
        chain["policy"] = policy.into();
    }
    json!({ "chain": chain })
}

pub(super) fn rule(family: &str, chain: &str, handle: usize, expr: &[Value]) -> Value {
    let rule = json!({"family": family, "table": "fw", "chain": chain, "handle": handle,
        "expr": expr});
    json!({ "rule": rule })
}

pub(super) fn document(objects: &[Value]) -> String {
    json!({ "nftables": objects }).to_string()
}

pub(super) fn matches(not: bool, left: Value, right: Value) -> Value {
    json!({"match": {"op": if not { "!=" } else { "==" }, "left": left, "right": right}})
}

pub(super) fn payload(protocol: &str, field: &str) -> Value {
    json!({"payload": {"protocol": protocol, "field": field}})
}

/// Chains in a table of their family, or, every other time, in one of both.
fn text(chains: &ModelChains) -> String {
    let own = if chains.version == 4 { "ip" } else { "ip6" };
    let family = if chains.chains.len().is_multiple_of(2) { own } else { "inet" };
    let mut objects = vec![json!({"metainfo": {"version": "1.0.6"}})];
    for number in 0..chains.chains.len() {
        let policy = if chains.accepts { "accept" } else { "drop" };
        let base = (number == 0).then_some(policy);
        objects.push(chain(family, &chain_name(number), base));
    }
    let mut handle = 0;
    for (number, rules) in chains.chains.iter().enumerate() {
        for model in rules {
            handle += 1;
            for statements in statements(model, chains.version) {
                objects.push(rule(family, &chain_name(number), handle, &statements));
            }
        }
    }
    document(&objects)
}

/// The statements of a rule; of two rules that no packet meets both of where one can't say it.
fn statements(rule: &ModelRule, version: u8) -> Vec<Vec<Value>> {
    let (ip, icmp) = if version == 4 { ("ip", "icmp") } else { ("ip6", "icmpv6") };
    let mut all = vec![json!({"counter": {"packets": 0, "bytes": 0}})];
    for (key, pattern) in ["iifname", "oifname"].into_iter().zip(rule.ways) {
        if let Some((not, Pattern { text, is_start })) = pattern {
            let name = format!("{text}{}", if is_start { "*" } else { "" });
            let right = if not { json!(name) } else { json!({"set": [name]}) };
            all.push(matches(not, json!({"meta": {"key": key}}), right));
        }
    }
    if let Some((not, number)) = rule.protocol {
        let name = [(6, "tcp"), (17, "udp"), (1, "icmp"), (58, "ipv6-icmp")];
        let name = name.iter().find(|(n, _)| *n == number).map(|(_, name)| json!(name));
        let left = json!({"meta": {"key": "l4proto"}});
        all.push(matches(not, left, name.unwrap_or(json!(number))));
    }
    for (field, prefix) in [("saddr", rule.src), ("daddr", rule.dst)] {
        if let Some((not, prefix)) = prefix {
            let prefix = json!({"addr": prefix.address().to_string(), "len": prefix.len()});
            let prefix = json!({ "prefix": prefix });
            let right = if not { prefix } else { json!({ "set": [prefix] }) };
            all.push(matches(not, payload(ip, field), right));
        }
    }
    let mut port = |field: &str, ports: Maybe<(u16, u16)>| {
        if let Some((not, (first, last))) = ports {
            let transport = if first.is_multiple_of(2) { "th" } else { protocol_name(rule) };
            let range = if first == last { json!(first) } else { json!({"range": [first, last]}) };
            all.push(matches(not, payload(transport, field), range));
        }
    };
    port("sport", rule.src_port);
    port("dport", rule.dst_port);
    if let Some((not, (mask, set))) = rule.flags {
        let names = |bits: u8| {
            let all = ["fin", "syn", "rst", "psh", "ack", "urg"];
            let set: Vec<&str> = (0..6).filter(|i| bits >> i & 1 == 1).map(|i| all[i]).collect();
            if set.is_empty() { json!(0) } else { json!(set) }
        };
        let left = json!({"&": [payload("tcp", "flags"), names(mask)]});
        all.push(matches(not, left, names(set)));
    }
    let of_type = |not, kind: u8| matches(not, payload(icmp, "type"), json!(kind));
    let of_code = |not, code: u8| matches(not, payload(icmp, "code"), json!(code));
    let messages = match rule.message {
        None => vec![vec![]],
        Some((not, (kind, None))) => vec![vec![of_type(not, kind)]],
        Some((false, (kind, Some(code)))) => vec![vec![of_type(false, kind), of_code(false, code)]],
        Some((true, (kind, Some(code)))) => {
            vec![vec![of_type(true, kind)], vec![of_type(false, kind), of_code(true, code)]]
        }
    };
    let target = match rule.target {
        Target::Accept => json!({ "accept": null }),
        Target::Drop => json!({"reject": {"type": "tcp reset"}}),
        Target::Return => json!({ "return": null }),
        Target::Jump(to) => json!({"jump": {"target": chain_name(to)}}),
        Target::Goto(to) => json!({"goto": {"target": chain_name(to)}}),
        Target::Nothing => json!({"log": {"prefix": "x"}}),
    };
    let whole = |messages: Vec<Value>| [all.clone(), messages, vec![target.clone()]].concat();
    messages.into_iter().map(whole).collect()
}

fn protocol_name(rule: &ModelRule) -> &'static str {
    if rule.protocol == Some((false, 6)) { "tcp" } else { "udp" }
}

#[test]
fn chains_are_as_a_walk_through_them() {
    for crossing in [Crossing::NoPorts, Crossing::TwoPorts, Crossing::ByRoute] {
        packets_leave_as_a_walk_says(250, crossing, |chains| {
            let text = text(chains);
            let harness = firewall_in(crossing, &text, "rules = \"rules\"\n");
            (text, harness)
        });
    }
}

/// An ICMP message answers one IP version, and nft prints no other condition on it.
#[test]
fn a_rejection_by_icmp_is_for_its_version() {
    let key = json!({"meta": {"key": "l4proto"}});
    let map = |verdict: &Value| json!([["tcp", verdict], ["udp", {"accept": null}]]);
    for (kind, accepted) in [
        (json!({"type": "icmp", "expr": "admin-prohibited"}), [false, true]),
        (json!({"type": "icmpv6", "expr": "port-unreachable"}), [true, false]),
        (json!({"type": "icmpx", "expr": "port-unreachable"}), [false, false]),
        (Value::Null, [false, false]),
    ] {
        let verdict = json!({"reject": kind});
        for statement in
            [verdict.clone(), json!({"vmap": {"key": key, "data": {"set": map(&verdict)}}})]
        {
            let own = rule("inet", "forward", 1, std::slice::from_ref(&statement));
            let text = document(&[chain("inet", "forward", Some("accept")), own]);
            let mut harness = firewall_in(Crossing::NoPorts, &text, "rules = \"rules\"\n");
            let packets = [4, 6].map(|version| Sent { version, ..packet(6, 80) }.input(0));
            let outcomes = harness.process(&packets);
            let found = [0, 1].map(|at: usize| reported(&outcomes[at]) == "accept");
            assert_eq!(found, accepted, "{statement}");
        }
    }
}

/// Sets of interfaces, and maps from them to verdicts.
#[test]
fn interfaces_stand_in_sets_and_maps() {
    let meta = |key: &str| json!({"meta": {"key": key}});
    let accept = json!({ "accept": null });
    let named = json!({"set": {"family": "inet", "table": "fw", "name": "in", "type": "ifname",
        "elem": ["eth1", "wan"]}});
    let map = json!([["eth0", { "accept": null }], ["wan", { "drop": null }]]);
    for (statements, accepted) in [
        (json!([matches(false, meta("iif"), json!({"set": ["eth0", "eth1"]})), accept]), "110"),
        (json!([matches(true, meta("iif"), json!({"set": ["eth0", "eth1"]})), accept]), "001"),
        (json!([matches(false, meta("iifname"), json!("@in")), accept]), "011"),
        (json!([{"vmap": {"key": meta("iifname"), "data": {"set": map}}}]), "100"),
        (json!([matches(false, meta("iifname"), json!("*")), accept]), "111"),
    ] {
        let rules = [chain("inet", "forward", Some("drop")), named.clone()];
        let own = rule("inet", "forward", 1, statements.as_array().unwrap());
        let text = document(&[&rules[..], &[own]].concat());
        let mut harness = firewall_in(Crossing::ByRoute, &text, "rules = \"rules\"\n");
        // They come by eth0, wan and eth1 in turn.
        let inputs = [0; 3].map(|_| packet(6, 80).input(0));
        let outcomes = harness.process(&inputs);
        let reported: String = [0, 2, 1]
            .map(|at: usize| match reported(&outcomes[at]) {
                "accept" => '1',
                _ => '0',
            })
            .iter()
            .collect();
        assert_eq!(reported, accepted, "{statements}");
    }
}

/// The messages about rules in the chain `forward` of an inet table that drops.
pub(super) fn mistakes(objects: &[Value], rules: &[Value], keys: &str) -> Vec<String> {
    let mut all = vec![chain("inet", "forward", Some("drop")), chain("inet", "sub", None)];
    all.extend_from_slice(objects);
    for (handle, statements) in (7..).zip(rules) {
        all.push(rule(
            "inet",
            "forward",
            handle,
            warpline_rule_files::nft_value::list(Some(statements)),
        ));
    }
    mistakes_of(&document(&all), keys)
}

fn mistakes_of(text: &str, keys: &str) -> Vec<String> {
    let folder = Folder::new().with("rules", text);
    match try_build(&DEFINITION, &format!("rules = \"rules\"\n{keys}"), folder.path()) {
        Ok(_) => Vec::new(),
        Err(mistakes) => {
            let line =
                |d: &warpline_nf::Diagnostic| format!("{}:{} {}", d.line, d.column, d.message);
            mistakes.iter().map(line).collect()
        }
    }
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let accept = json!({ "accept": null });
    let dport = |right: Value| matches(false, payload("tcp", "dport"), right);
    let rules = [
        json!([dport(json!(70000)), accept]),
        json!([matches(false, payload("ip", "saddr"), json!("2001:db8::1")), accept]),
        json!([dport(json!("@none")), accept]),
        json!([{"jump": {"target": "nowhere"}}]),
        json!([{"teleport": null}]),
        json!([matches(false, json!({"ct": {"key": "state"}}), json!("new")), accept]),
        json!([matches(false, json!({"meta": {"key": "iifname"}}), json!("eth0")),
            {"jump": {"target": "sub"}}]),
        json!([{"xt": null}]),
        json!([dport(json!({"range": [9, 8]})), accept]),
        json!([matches(false, payload("th", "dport"), json!(53)), {"drop": null}]),
        json!([{"queue": {"num": 1}}]),
    ];
    let reported = mistakes(&[], &rules, "");
    let expected = [
        "handle 7, statement 1: a number that is not a port",
        "handle 8, statement 1: not an IPv4 address",
        "handle 9, statement 1: no set `none`",
        "handle 10: no chain `nowhere` to go to",
        "handle 11, statement 1: not supported: teleport",
        "handle 12, statement 1: `ct state` requires established = true",
        "handle 13, statement 1: not supported: `eth0`: the chain has no [[port]], in a rule that \
         leads to another chain",
        "handle 14, statement 1: not supported: a target of iptables",
        "handle 15, statement 1: a range that ends before it begins",
        "handle 17, statement 1: not supported: queue",
        "handle 16, statement 1: not supported: ports of other protocols than TCP and UDP",
    ];
    assert_eq!(reported.len(), expected.len(), "{reported:#?}");
    for (reported, expected) in reported.iter().zip(expected) {
        assert!(reported.contains(expected), "{reported}: {expected}");
        assert!(reported.starts_with("0:0 `inet fw forward` rule "), "{reported}");
    }
    assert_eq!(mistakes_of("{\"nftables\": [\n{\"a\": }]}", ""), ["2:7 expected value"]);
    assert_eq!(mistakes_of("{\"nftables\": [", "")[0], "1:14 EOF while parsing a list");
    let deep = format!("{{\"nftables\":{}", "[".repeat(100_000));
    assert!(mistakes_of(&deep, "")[0].contains("recursion limit"));
    assert!(mistakes_of("{}", "")[0].contains("has no list `nftables`"));
    assert!(mistakes_of("{\"nftables\": []}", "")[0].contains("has no base chain"));
    let other = [chain("ip", "forward", Some("drop"))];
    assert!(mistakes(&other, &[], "")[0].contains("two base chains for IPv4"));
    let jump = |to: &str| json!([{"jump": {"target": to}}]);
    let cycle = [rule("inet", "sub", 9, &[json!({"jump": {"target": "sub"}})])];
    assert!(mistakes(&cycle, &[jump("sub")], "")[0].contains("leads to itself"));
    assert!(mistakes(&[], &[jump("forward")], "")[0].contains("no chain `forward` to go to"));
    let mut raw = chain("inet", "raw", Some("drop"));
    raw["chain"]["hook"] = "prerouting".into();
    let mut nat = chain("inet", "nat", Some("accept"));
    (nat["chain"]["hook"], nat["chain"]["type"]) = ("postrouting".into(), "nat".into());
    let masquerade = rule("inet", "nat", 8, &[json!({ "masquerade": null })]);
    let drops = rule("inet", "nat", 9, &[json!({ "drop": null })]);
    assert!(mistakes(&[nat.clone(), masquerade], &[], "").is_empty(), "translation is not ours");
    assert!(mistakes(&[nat.clone(), drops], &[], "")[0].contains("of hook postrouting"));
    let far = |to: Value| [nat.clone(), rule("inet", "nat", 9, &[to]), chain("inet", "far", None)];
    let behind = |to| {
        let mut list = far(to).to_vec();
        list[2]["chain"].as_object_mut().unwrap().retain(|key, _| key != "hook" && key != "type");
        list.push(rule("inet", "far", 10, &[json!({ "drop": null })]));
        mistakes(&list, &[], "")
    };
    let map = json!([[1, {"goto": {"target": "far"}}]]);
    let map = json!({"vmap": {"key": {"meta": {"key": "mark"}}, "data": {"set": map}}});
    for to in [json!({"jump": {"target": "far"}}), map] {
        assert!(behind(to)[0].contains("of hook postrouting"), "a drop after a jump");
    }
    let reported = &mistakes(&[raw], &[], "")[0];
    assert!(reported.contains("of hook prerouting, also filters this hook, by its policy"));
}

/// Other base chains are left out if they stop no packet, whatever they lead to.
#[test]
fn base_chains_that_stop_nothing_are_left_out() {
    let base = |hook: &str| {
        let mut base = chain("inet", "other", Some("accept"));
        base["chain"]["hook"] = hook.into();
        base
    };
    let change = |key: Value| json!({"mangle": {"key": key, "value": 1}});
    let mark = json!({"meta": {"key": "mark"}});
    let mangle = change(mark.clone());
    let jump = |to: &str| json!({"jump": {"target": to}});
    let to_sub = jump("sub");
    let by_map = json!({"vmap": {"key": mark, "data": "@ways"}});
    let extension = |kind: &str, name: &str| json!({"xt": {"type": kind, "name": name}});
    let map = |verdict: Value| {
        json!({"map": {"family": "inet", "table": "fw", "name": "ways", "handle": 90,
            "type": "mark", "map": "verdict", "elem": [[1, verdict]]}})
    };
    let varying = |mut map: Value| {
        map["map"]["flags"] = json!(["timeout"]);
        map
    };
    let (own, by) = ("by `inet fw other` rule handle 7", "by `inet fw sub` rule handle 8");
    for (from, map, statement, stop) in [
        (&mangle, None, &mangle, None),
        (&to_sub, None, &mangle, None),
        (&to_sub, None, &to_sub, None),
        (&to_sub, None, &extension("target", "TCPMSS"), None),
        (&to_sub, None, &extension("match", "recent"), None),
        (&to_sub, None, &change(json!({"tcp option": {"name": "maxseg", "field": "size"}})), None),
        (&by_map, Some(map(to_sub.clone())), &mangle, None),
        (&to_sub, None, &json!({ "drop": null }), Some(by)),
        (&to_sub, None, &json!({ "notrack": null }), Some(by)),
        (&to_sub, None, &json!({ "xt": null }), Some(by)),
        (&to_sub, None, &extension("target", "NFQUEUE"), Some(by)),
        (&to_sub, None, &change(payload("ip", "daddr")), Some(by)),
        (&to_sub, None, &change(json!({"ct": {"key": "zone"}})), Some(by)),
        (&to_sub, None, &json!({"something": "new"}), Some(by)),
        (&to_sub, None, &jump("nowhere"), Some(by)),
        (&by_map, Some(map(to_sub.clone())), &json!({ "queue": null }), Some(by)),
        (&by_map, Some(map(json!({ "drop": null }))), &mangle, Some(own)),
        (&by_map, Some(map(jump("nowhere"))), &mangle, Some(own)),
        (&by_map, Some(varying(map(to_sub.clone()))), &mangle, Some(own)),
        (&by_map, None, &mangle, Some(own)),
    ] {
        for hook in ["prerouting", "forward"] {
            let mut list = vec![base(hook), chain("inet", "sub", None)];
            list.extend(map.clone());
            list.push(rule("inet", "other", 7, std::slice::from_ref(from)));
            list.push(rule("inet", "sub", 8, std::slice::from_ref(statement)));
            let reported = mistakes(&list, &[json!([{ "drop": null }])], "");
            match (stop, hook) {
                (None, _) => assert_eq!(reported, [""; 0], "{list:?}"),
                (Some(stop), "prerouting") => {
                    assert!(reported[0].contains(stop), "{reported:?}")
                }
                _ => assert!(reported[0].contains("two base chains"), "{reported:?}"),
            }
        }
    }
}

#[test]
fn skipped_rules_never_accept_more() {
    let (accept, drops) = (json!({ "accept": null }), json!({ "drop": null }));
    let mark = matches(false, json!({"meta": {"key": "mark"}}), json!(1));
    let limit = json!({"limit": {"rate": 5, "per": "minute"}});
    let cases = [
        (json!([mark, accept]), "default"),
        (json!([mark, drops]), "rule"),
        (json!([limit, accept]), "default"),
        (json!([limit, drops]), "rule"),
        (json!([{"xt": null}, accept]), "default"),
        (json!([matches(false, payload("sctp", "dport"), json!(80)), accept]), "default"),
    ];
    for (statements, expected) in cases {
        let reported = mistakes(&[], std::slice::from_ref(&statements), "");
        assert!(
            reported.len() == 1 && reported[0].contains("not supported"),
            "{statements}: {reported:?}"
        );
        let statements = statements.as_array().unwrap();
        let forward = chain("inet", "forward", Some("drop"));
        // Without another rule that accepts, the file would be a mistake.
        let other = [matches(false, payload("udp", "dport"), json!(53)), json!({ "accept": null })];
        let rules = [&statements[..], &other[..]].map(|expr| rule("inet", "forward", 1, expr));
        let text = document(&[&[forward][..], &rules].concat());
        let mut harness = firewall(&text, "unsupported = \"skip\"");
        assert_eq!(leaves(&mut harness, &packet(6, 80)), expected, "{text}");
    }
}

#[test]
fn sets_maps_and_states_are_read() {
    let addresses = json!({"family": "inet", "table": "fw", "name": "hosts", "type": "ipv4_addr",
        "flags": ["interval"], "elem": [{"prefix": {"addr": "192.0.2.0", "len": 24}},
            {"range": ["10.0.0.1", "10.0.0.9"]},
            {"elem": {"val": "198.51.100.1", "comment": "x"}}]});
    let verdicts = json!({"family": "inet", "table": "fw", "name": "ports", "type": "inet_service",
        "map": "verdict", "elem": [[22, {"drop": null}], [{"range": [80, 81]}, {"accept": null}],
            [82, {"jump": {"target": "sub"}}]]});
    let states = json!({"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [
        ["established", {"accept": null}], ["invalid", {"drop": null}]]}}});
    let saddr = |right: &str| matches(false, payload("ip", "saddr"), json!(right));
    let map = json!({"vmap": {"key": payload("tcp", "dport"), "data": "@ports"}});
    let text = document(&[
        json!({ "set": addresses }),
        json!({ "map": verdicts }),
        chain("inet", "forward", Some("drop")),
        chain("inet", "sub", None),
        rule("inet", "forward", 1, &[states]),
        rule("inet", "forward", 2, &[saddr("@hosts"), map]),
        rule("inet", "sub", 3, &[saddr("10.0.0.1"), json!({ "accept": null })]),
    ]);
    let mut harness = firewall(&text, "established = true");
    for (port, expected) in
        [(22, "rule"), (80, "accept"), (81, "accept"), (82, "accept"), (83, "default")]
    {
        assert_eq!(leaves(&mut harness, &packet(6, port)), expected, "{port}");
    }
    let far = Sent { src: 0x0a00_000a, ..packet(6, 80) };
    assert_eq!(leaves(&mut harness, &far), "default", "not in the set");
    let second = Sent { src: 0x0a00_0002, dst: 0x0a00_0003, ..packet(6, 82) };
    assert_eq!(leaves(&mut harness, &second), "default", "not in the chain");
    let sent = packet(6, 80);
    let back =
        Sent { src: sent.dst, dst: sent.src, src_port: 80, dst_port: 1024, flags: 18, ..sent };
    assert_eq!(leaves(&mut harness, &back), "accept", "established");
    let changing = json!({"set": {"family": "inet", "table": "fw", "name": "s", "type": "ipv4_addr",
        "flags": ["timeout"], "elem": []}});
    let reported = mistakes(&[changing], &[json!([saddr("@s"), {"accept": null}])], "");
    assert!(reported[0].contains("not supported: a set that changes"), "{reported:?}");
}

fn state(op: &str, right: Value) -> Value {
    json!({"match": {"op": op, "left": {"ct": {"key": "state"}}, "right": right}})
}

/// `nft -n` prints the kernel's numbers, and a packet never is in two states at once.
#[test]
fn numbers_and_lists_of_names_are_not_guessed() {
    let accept = json!({ "accept": null });
    let keys = "established = true";
    let reported = |statement| mistakes(&[], &[json!([statement, accept])], keys);
    for wrong in [
        state("in", json!(8)),
        state("==", json!(["established", "related"])),
        state("!=", json!({"|": ["established", "related"]})),
        matches(false, json!({"meta": {"key": "nfproto"}}), json!(2)),
    ] {
        assert_eq!(reported(wrong.clone()).len(), 1, "{wrong}");
    }
    for fine in [
        state("in", json!(["established", "related"])),
        state("!=", json!("new")),
        state("!", json!(["established", "related"])),
        state("==", json!({"set": ["established", "related"]})),
        matches(false, json!({"meta": {"key": "nfproto"}}), json!("ipv4")),
    ] {
        assert_eq!(reported(fine.clone()), [""; 0], "{fine}");
    }
}

/// `tcp flags ! syn,rst` and `ct state ! new`: none of these bits is set.
#[test]
fn bits_that_are_not_set_are_read() {
    let accept = json!({ "accept": null });
    let flags = json!({"match": {"op": "!", "left": payload("tcp", "flags"),
        "right": ["syn", "rst"]}});
    let rules = [
        rule("inet", "forward", 1, &[flags, accept.clone()]),
        rule("inet", "forward", 2, &[state("!", json!(["new", "invalid"])), accept]),
    ];
    for (rule, flags, expected) in
        [(0, 2, "default"), (0, 4, "default"), (0, 16, "accept"), (1, 2, "default")]
    {
        let text = document(&[chain("inet", "forward", Some("drop")), rules[rule].clone()]);
        let mut harness = firewall(&text, "established = true\ntcp_loose = true");
        let sent = Sent { flags, ..packet(6, 80) };
        let expected = if rule == 0 && flags == 4 { "invalid" } else { expected };
        assert_eq!(leaves(&mut harness, &sent), expected, "rule {rule}, flags {flags}");
    }
}

#[test]
fn a_set_that_names_itself_ends() {
    let set = |elem: Value| {
        json!({"set": {"family": "inet", "table": "fw", "name": "s", "type": "ipv4_addr",
            "elem": elem}})
    };
    let rule = json!([matches(false, payload("ip", "saddr"), json!("@s")), {"accept": null}]);
    for elem in [json!(["@s"]), json!([{"set": ["@s"]}]), json!([{"elem": {"val": "@s"}}])] {
        let reported = mistakes(&[set(elem)], std::slice::from_ref(&rule), "");
        assert!(reported[0].contains("a set in a named set"), "{reported:?}");
    }
}

/// Linux does not apply the rules of a dormant table.
#[test]
fn dormant_tables_filter_nothing() {
    let table = |name: &str, flags: Value| -> Value {
        json!({"table": {"family": "inet", "name": name, "flags": flags}})
    };
    let of = |name: &str, mut object: Value| {
        let kind = if object.get("rule").is_some() { "rule" } else { "chain" };
        object[kind]["table"] = name.into();
        object
    };
    let verdict = |name: &str| json!({ name: null });
    let text = |flags: Value, others: &[Value]| {
        let dormant = [
            table("old", flags),
            of("old", chain("inet", "forward", Some("drop"))),
            of("old", rule("inet", "forward", 1, &[verdict("drop")])),
        ];
        document(&[&dormant[..], others].concat())
    };
    let own = [
        table("fw", json!("owner")),
        chain("inet", "forward", Some("drop")),
        rule("inet", "forward", 2, &[verdict("accept")]),
    ];
    for flags in [json!("dormant"), json!(["dormant"]), json!(["owner", "dormant"])] {
        let mut harness = firewall(&text(flags.clone(), &own), "");
        assert_eq!(leaves(&mut harness, &packet(6, 80)), "accept", "{flags}");
        let reported = mistakes_of(&text(flags.clone(), &[]), "");
        assert!(
            reported.len() == 1 && reported[0].contains("has no base chain"),
            "{flags}: {reported:?}"
        );
    }
    for flags in [json!([]), json!("owner"), json!(["owner", "persist"])] {
        let reported = mistakes_of(&text(flags.clone(), &own), "");
        assert!(reported[0].contains("two base chains for IPv4"), "{flags}: {reported:?}");
        let mut harness = firewall(&text(flags.clone(), &[]), "");
        assert_eq!(leaves(&mut harness, &packet(6, 80)), "rule", "{flags}");
    }
    // nft 1.0.6 prints other words in place of a single flag.
    let reported = mistakes_of(&text(json!("Lester Gooch #5"), &own), "");
    assert!(
        reported[0].contains("table `inet old`: unknown flag `Lester Gooch #5`"),
        "{reported:?}"
    );
}
