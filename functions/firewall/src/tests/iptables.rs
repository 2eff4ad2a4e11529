//! Rules of iptables-save: packets walk their chains, and mistakes in files are reported.

use super::super::DEFINITION;
use super::chain_model::{Crossing, Maybe, ModelChains, ModelRule, Pattern, Target, revealed};
use super::traffic::{Sent, Shape};
use super::{Draw, Folder, reported};
use warpline_nf::{Diagnostic, Resources};
use warpline_verify::{Harness, Input, build, build_with, try_build};

fn chain_name(number: usize) -> String {
    if number == 0 { "FORWARD".into() } else { format!("user-{number}") }
}

fn text(chains: &ModelChains) -> String {
    let mut text = "# by hand\n*filter\n:INPUT ACCEPT [0:0]\n".to_owned();
    for number in 0..chains.chains.len() {
        let policy = if chains.accepts { "ACCEPT" } else { "DROP" };
        let policy = if number == 0 { policy } else { "-" };
        text += &format!(":{} {policy} [12:345]\n", chain_name(number));
    }
    for (number, rules) in chains.chains.iter().enumerate() {
        for rule in rules {
            text += &format!("-A {}{}\n", chain_name(number), rule_text(rule, chains.version));
        }
    }
    text + "COMMIT\n# done\n"
}

fn rule_text(rule: &ModelRule, version: u8) -> String {
    let mut text = String::new();
    let mut add = |not: bool, option: &str, value: String| {
        text += &format!(" {}{option} {value}", if not { "! " } else { "" });
    };
    for (option, pattern) in ["-i", "-o"].into_iter().zip(rule.ways) {
        if let Some((not, Pattern { text, is_start })) = pattern {
            add(not, option, format!("{text}{}", if is_start { "+" } else { "" }));
        }
    }
    for (option, prefix) in [("-s", rule.src), ("-d", rule.dst)] {
        if let Some((not, prefix)) = prefix {
            add(not, option, prefix.to_string());
        }
    }
    let names = [(6, "tcp"), (17, "udp"), (1, "icmp"), (58, "ipv6-icmp"), (47, "gre")];
    let name = |number| names.iter().find(|(n, _)| *n == number).map(|(_, name)| *name);
    if let Some((not, number)) = rule.protocol {
        add(not, "-p", name(number).map_or(number.to_string(), str::to_owned));
    }
    let mut port = |option: &str, ports: Maybe<(u16, u16)>| {
        if let Some((not, (first, last))) = ports {
            let range = if first == last { first.to_string() } else { format!("{first}:{last}") };
            add(not, option, range);
        }
    };
    port("--sport", rule.src_port);
    port("--dport", rule.dst_port);
    if let Some((not, (mask, set))) = rule.flags {
        let names = |bits: u8| {
            let all = ["FIN", "SYN", "RST", "PSH", "ACK", "URG"];
            let set: Vec<&str> = (0..6).filter(|i| bits >> i & 1 == 1).map(|i| all[i]).collect();
            if set.is_empty() { "NONE".to_owned() } else { set.join(",") }
        };
        add(not, "--tcp-flags", format!("{} {}", names(mask), names(set)));
    }
    if let Some((not, (kind, code))) = rule.message {
        let option = if version == 4 { "--icmp-type" } else { "--icmpv6-type" };
        add(not, option, code.map_or(kind.to_string(), |code| format!("{kind}/{code}")));
    }
    text + &match rule.target {
        Target::Accept => " -m comment --comment \"a \\\"word\\\" -j DROP\" -j ACCEPT".into(),
        Target::Drop => " -j DROP".into(),
        Target::Return => " -j RETURN".into(),
        Target::Jump(to) => format!(" -j {}", chain_name(to)),
        Target::Goto(to) => format!(" -g {}", chain_name(to)),
        Target::Nothing => " -j LOG --log-prefix \"-j \"".into(),
    }
}

fn table(version: u8) -> &'static str {
    if version == 4 { "rules = \"rules\"\n" } else { "rules_v6 = \"rules\"\n" }
}

/// A firewall with these rules of iptables-save, of either version.
fn firewall(rules: &str, version: u8, keys: &str) -> Harness {
    firewall_in(Crossing::NoPorts, rules, &format!("{}{keys}", table(version)))
}

/// A firewall with these rules in a chain with ports.
pub(super) fn firewall_in(crossing: Crossing, rules: &str, table: &str) -> Harness {
    let folder = Folder::new().with("rules", rules);
    let mut resources = crossing.resources();
    let function = build_with(&DEFINITION, table, folder.path(), &mut resources);
    let function = function.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut harness = Harness::new(function, resources.scratch_words());
    harness.set_comes(crossing.comes());
    harness
}

/// Random packets through random chains: whole ones leave as a walk says; one with something hidden
/// is accepted only if it would be whatever is hidden.
pub(super) fn packets_leave_as_a_walk_says(
    rounds: u64,
    crossing: Crossing,
    harness: impl Fn(&ModelChains) -> (String, Harness),
) {
    let mut seen = [0; 4];
    for seed in 0..rounds {
        let mut draw = Draw::new(seed);
        let version = draw.pick(&[4, 6]);
        let chains = ModelChains::drawn(&mut draw, version, crossing);
        let (text, mut harness) = harness(&chains);
        let sent: Vec<Sent> = (0..200)
            .map(|_| Sent::drawn(&mut draw))
            .filter(|sent| sent.version == version && !matches!(sent.shape, Shape::Arp))
            .collect();
        let inputs: Vec<Input> = sent.iter().map(|s| s.input(0)).collect();
        for (number, (sent, outcome)) in (0..).zip(sent.iter().zip(harness.process(&inputs))) {
            let ways = crossing.ways(number);
            let accepted = reported(&outcome) == "accept";
            match sent.shape {
                Shape::LaterFragment(_) if accepted => {
                    let all = revealed(sent);
                    assert!(
                        all.iter().all(|s| chains.accepts(s, ways)),
                        "{seed}: {sent:?}\n{text}"
                    );
                    seen[2] += 1;
                }
                Shape::Whole | Shape::FirstFragment => {
                    let expected = chains.accepts(sent, ways);
                    assert_eq!(accepted, expected, "{seed}: {sent:x?}\n{text}");
                    seen[usize::from(expected)] += 1;
                }
                _ => seen[3] += 1,
            }
        }
    }
    assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
}

#[test]
fn chains_are_as_a_walk_through_them() {
    for crossing in [Crossing::NoPorts, Crossing::TwoPorts, Crossing::ByRoute] {
        packets_leave_as_a_walk_says(250, crossing, |chains| {
            let text = text(chains);
            let harness = firewall_in(crossing, &text, table(chains.version));
            (text, harness)
        });
    }
}

/// The reported about a file of rules in the table `filter`.
fn mistakes(rules: &str, keys: &str) -> Vec<String> {
    let chains = ":FORWARD DROP [0:0]\n:web - [0:0]\n:a - [0:0]\n:b - [0:0]\n";
    mistakes_of(&format!("*filter\n{chains}{rules}\nCOMMIT\n"), keys)
}

fn mistakes_of(file: &str, keys: &str) -> Vec<String> {
    let folder = Folder::new().with("rules", file);
    match try_build(&DEFINITION, &format!("rules = \"rules\"\n{keys}"), folder.path()) {
        Ok(_) => Vec::new(),
        Err(mistakes) => {
            let line = |d: &Diagnostic| format!("{}:{} {}", d.line, d.column, d.message);
            mistakes.iter().map(line).collect()
        }
    }
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let rules = "-A FORWARD -s 10.0.0.1/8 -j ACCEPT\n-A FORWARD -j NOWHERE\n\
        -A FORWARD --dport 80 -j ACCEPT\n-A FORWARD -p tcp --dport 99999 -j DROP\n\
        -A FORWARD -p tcp --dport 80\n-A FORWARD -m state --state NEW -j ACCEPT\n\
        -A FORWARD -m comment --comment \"open\n-A NONE -j DROP\n-I FORWARD -j DROP\n\
        -A FORWARD -s 2001:db8::1 -j DROP\n-A FORWARD -j web -p tcp\n-A FORWARD -p tcp -p udp\n\
        -A FORWARD -p tcp --tcp-flags SYN,ODD SYN -j DROP\n-A FORWARD -j\n\
        -A FORWARD -j NFQUEUE --queue-num 1";
    assert_eq!(
        mistakes(rules, ""),
        [
            "13:4 `NONE`: the table has no such chain",
            "14:1 `-I`: iptables-save prints no such line",
            "6:15 `10.0.0.1/8`: address has bits set after the prefix length",
            "7:15 `NOWHERE`: no such target",
            "8:12 `--dport`: ports take `-p tcp` or `-p udp` before them",
            "9:27 `99999`: not a port or a range of ports (0 to 65535)",
            "11:21 `--state`: requires established = true in the firewall's table",
            "12:33 `\"open`: the quotes are not closed",
            "15:15 `2001:db8::1`: an address of the other family",
            "16:19 `-p`: a rule ends before this",
            "17:19 `-p`: a rule has this once",
            "18:35 `ODD`: not a flag",
            "19:12 `-j`: the line ends without a target",
            "20:15 `NFQUEUE`: this target is not supported",
        ]
    );
    let whole = [
        ("*filter\n:FORWARD DROP [0:0]\n", "2:20 the file ends before the table's `COMMIT`"),
        ("*nat\nCOMMIT\n", "0:0 has no table `filter`"),
        ("*filter\n:INPUT DROP\nCOMMIT", "0:0 has no base chain `FORWARD` in its table `filter`"),
        (
            "*filter\n:FORWARD - [0:0]\nCOMMIT",
            "0:0 has no base chain `FORWARD` in its table `filter`",
        ),
        ("*filter\nCOMMIT\n*filter\nCOMMIT\n", "3:2 `filter`: the file has this table already"),
        (
            "*filter\n:FORWARD DROP\n:web -\n:web -\n-A FORWARD -j web\nCOMMIT",
            "4:2 `web`: the table has this chain already",
        ),
        ("*odd\n", "1:2 `odd`: not a table"),
        ("*filter\n:FORWARD QUEUE\nCOMMIT", "2:10 `QUEUE`: not a policy"),
    ];
    for (file, expected) in whole {
        let reported = mistakes_of(file, "");
        assert!(reported.contains(&expected.to_owned()), "{file:?}: {reported:?}");
    }
    let v6 = "# Generated by ip6tables-save v1.8.9\n*filter\n:FORWARD DROP\nCOMMIT\n";
    let reported = mistakes_of(v6, "");
    assert_eq!(reported, ["0:0 was printed by ip6tables-save: `rules_v6` names such files"]);
    let keys = "default = \"accept\"\nformat = \"iptables\"";
    assert_eq!(mistakes("", keys).len(), 1, "the policy is the chain's");
}

#[test]
fn cycles_depth_and_explosions_end() {
    let cycle = "-A FORWARD -j a\n-A a -p tcp -j b\n-A b -s 10.0.0.0/8 -j a";
    assert_eq!(mistakes(cycle, ""), ["8:1 chain `a` leads to itself"]);
    let mut deep = "*filter\n:FORWARD DROP\n".to_owned();
    let mut twice = deep.clone();
    (0..70).for_each(|n| deep += &format!(":c{n} -\n"));
    (0..40).for_each(|n| twice += &format!(":c{n} -\n"));
    deep += "-A FORWARD -j c0\n";
    twice += "-A FORWARD -j c0\n-A c39 -j ACCEPT\n";
    (0..69).for_each(|n| deep += &format!("-A c{n} -j c{}\n", n + 1));
    for n in 0..39 {
        twice += &format!("-A c{n} -p tcp -j c{}\n-A c{n} -p udp -j c{}\n", n + 1, n + 1);
        twice += &format!("-A c{n} -j c{}\n", n + 1);
    }
    assert!(mistakes_of(&(deep + "COMMIT\n"), "")[0].contains("nest deeper than 64"));
    let reported = mistakes_of(&(twice + "COMMIT\n"), "");
    assert!(reported[0].contains("too many") || reported[0].contains("more than"), "{reported:?}");
    let mut returns = "-A FORWARD -j a\n".to_owned();
    for n in 0..3000 {
        let (high, low) = (n / 256, n % 256);
        returns += &format!(
            "-A a -s 10.0.{high}.{low} -d 10.1.{high}.{low} -p tcp --dport {n} -j RETURN\n"
        );
    }
    let reported = mistakes(&(returns + "-A a -j ACCEPT"), "");
    assert!(reported[0].contains("too many returns"), "{reported:?}");
}

/// A packet of IPv4: addresses 10.0.0.1 and 10.0.0.2.
pub(super) fn packet(protocol: u8, dst_port: u16) -> Sent {
    Sent {
        version: 4,
        src: 0x0a00_0001,
        dst: 0x0a00_0002,
        protocol,
        src_port: 1024,
        dst_port,
        flags: 2,
        message_type: 8,
        code: 0,
        vlan: false,
        shape: Shape::Whole,
        ..Sent::drawn(&mut Draw::new(1))
    }
}

pub(super) fn leaves(harness: &mut Harness, sent: &Sent) -> &'static str {
    reported(&harness.process(&[sent.input(0)])[0])
}

#[test]
fn skipped_rules_never_accept_more() {
    let cases = [
        ("-A FORWARD -i eth0 -j ACCEPT\n", "default", "skip leaves it out"),
        ("-A FORWARD -m limit --limit 5/min -j DROP\n-A FORWARD -j ACCEPT\n", "rule", "drops more"),
        (
            "-A FORWARD -i eth0 -j REJECT --reject-with icmp-port-unreachable\n-A FORWARD -j \
             ACCEPT\n",
            "rule",
            "REJECT drops",
        ),
        (
            "-A FORWARD -m recent --name x -p tcp -j DROP\n-A FORWARD -j ACCEPT\n",
            "rule",
            "drops more",
        ),
        ("-A FORWARD -p tcp -j MARK --set-mark 1\n-A FORWARD -j ACCEPT\n", "accept", "goes on"),
        (
            "-A FORWARD -p tcp -m multiport --ports 80 -j DROP\n-A FORWARD -j ACCEPT\n",
            "rule",
            "drops more",
        ),
        (
            "-A FORWARD -p 132 --dport 80 -j DROP\n-A FORWARD -p tcp -j ACCEPT\n",
            "accept",
            "of sctp alone",
        ),
    ];
    for (rules, expected, why) in cases {
        let reported = mistakes(rules, "");
        assert!(
            reported.len() == 1 && reported[0].contains("not supported"),
            "{rules}: {reported:?}"
        );
        let other = "-A FORWARD -d 203.0.113.0/24 -j ACCEPT\n";
        let file = format!("*filter\n:FORWARD DROP [0:0]\n{rules}{other}COMMIT\n");
        let mut harness = firewall(&file, 4, "unsupported = \"skip\"");
        assert_eq!(leaves(&mut harness, &packet(6, 9)), expected, "{rules}: {why}");
    }
    for rules in [
        "-A FORWARD -i eth0 -j web",
        "-A FORWARD -i eth0 -g web",
        "-A FORWARD -j web\n-A web -m mark --mark 1 -j RETURN",
        "-A FORWARD -j NFQUEUE --queue-num 1",
        "COMMIT\n*raw\n:PREROUTING ACCEPT\n-A PREROUTING -s 10.0.0.0/8 -j DROP",
    ] {
        let reported = mistakes(rules, "unsupported = \"skip\"");
        assert_eq!(reported.len(), 1, "{rules}: {reported:?}");
    }
    let fine =
        "-A web -i eth0 -g a\nCOMMIT\n*nat\n:POSTROUTING ACCEPT\n-A POSTROUTING -j MASQUERADE";
    assert!(mistakes(fine, "").is_empty(), "chains that forwarding never meets are left alone");
}

/// As Linux treats fragments of an accepted protocol, except those refused before the rules.
#[test]
fn a_match_that_reads_a_header_has_no_later_fragment() {
    let cases = [
        ("-p tcp", 6, true),
        ("-p tcp -m comment --comment x", 6, true),
        ("-p tcp -m tcp", 6, false),
        ("-p tcp -m tcp --sport 0:65535 --dport 0:65535", 6, false),
        ("-p tcp -m tcp --tcp-flags NONE NONE", 6, false),
        ("-p tcp --syn", 6, false),
        ("-p tcp -m multiport --dports 0:65535", 6, false),
        ("-p tcp -m multiport ! --dports 81", 6, false),
        ("-p udp", 17, true),
        ("-p udp -m udp", 17, false),
        ("-p udp -m udp --dport 80", 17, false),
        ("-p icmp", 1, true),
        ("-p icmp -m icmp --icmp-type any", 1, false),
        ("-p icmp -m icmp --icmp-type 8", 1, false),
        ("-p icmp -m icmp ! --icmp-type 0", 1, false),
        ("-s 10.0.0.1", 6, true),
        ("-s 10.0.0.1", 1, true),
    ];
    for (rule, protocol, later) in cases {
        let file = format!("*filter\n:FORWARD DROP\n-A FORWARD {rule} -j ACCEPT\nCOMMIT\n");
        let mut harness = firewall(&file, 4, "");
        let whole = packet(protocol, 80);
        assert_eq!(leaves(&mut harness, &whole), "accept", "{rule}");
        let fragment = Sent { shape: Shape::LaterFragment(100), ..whole.clone() };
        let expected = if later { "accept" } else { "default" };
        assert_eq!(leaves(&mut harness, &fragment), expected, "{rule}");
        // A rule that drops has them, whatever it asks.
        let file = format!("*filter\n:FORWARD ACCEPT\n-A FORWARD {rule} -j DROP\nCOMMIT\n");
        assert_eq!(leaves(&mut firewall(&file, 4, ""), &fragment), "rule", "{rule}");
        // So does what a return leaves.
        let file = format!(
            "*filter\n:FORWARD ACCEPT\n:a -\n-A FORWARD -j a\n-A a {rule} -j RETURN\n-A a -j DROP\n\
             COMMIT\n"
        );
        let expected = if later { "accept" } else { "rule" };
        assert_eq!(leaves(&mut firewall(&file, 4, ""), &fragment), expected, "{rule}");
    }
}

#[test]
fn a_file_of_which_no_accept_is_left_is_refused() {
    let skip = "unsupported = \"skip\"";
    let rules = "-A FORWARD -i eth0 -o eth1 -p tcp -j ACCEPT\n-A FORWARD -i eth1 -j ACCEPT\n";
    let reported = mistakes(rules, skip);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("all 2 are not supported"), "{reported:?}");
    assert!(mistakes(&format!("{rules}-A FORWARD -p udp -j ACCEPT\n"), skip).is_empty());
    assert!(mistakes("-A FORWARD -p tcp -j DROP\n", skip).is_empty(), "it never accepted");
    // A rule is one, whatever it asks for.
    let reported = mistakes(rules, "");
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(reported[0].contains("and 1 more in this rule"), "{reported:?}");
}

#[test]
fn ranges_lists_and_words_are_read() {
    let rules = "*filter\n:FORWARD DROP\n-A FORWARD -m iprange ! --src-range 10.0.0.1-10.0.0.9 -j \
                 DROP\n\
        -A FORWARD -m iprange --dst-range 10.0.0.3-10.0.0.9 -j DROP\n\
        -A FORWARD -s 10.0.0.0/255.0.0.0,192.0.2.1 -p tcp -m multiport --dports 22,80:90 -j \
        ACCEPT\n\
        -A FORWARD -p tcp --syn -m multiport ! --dports 1:1000 -j ACCEPT\nCOMMIT\n";
    let mut harness = firewall(rules, 4, "");
    for (port, expected) in [(22, "accept"), (23, "default"), (85, "accept"), (91, "default")] {
        assert_eq!(leaves(&mut harness, &packet(6, port)), expected, "{port}");
    }
    assert_eq!(leaves(&mut harness, &packet(6, 2000)), "accept");
    assert_eq!(leaves(&mut harness, &Sent { flags: 16, ..packet(6, 2000) }), "default");
    assert_eq!(leaves(&mut harness, &Sent { src: 0x0a00_000a, ..packet(6, 22) }), "rule");
    assert_eq!(leaves(&mut harness, &Sent { dst: 0x0a00_0009, ..packet(6, 22) }), "rule");
}

#[test]
fn every_condition_can_be_turned_around() {
    let echo = |message_type, code| Sent { message_type, code, ..packet(1, 0) };
    let cases = [
        ("-p icmp -m icmp ! --icmp-type 3/3", echo(3, 3), echo(3, 4)),
        ("-p icmp -m icmp ! --icmp-type 3", echo(3, 3), echo(8, 0)),
        ("-p icmp -m icmp ! --icmp-type any", echo(3, 3), packet(6, 80)),
        ("! -s 10.0.0.1", packet(6, 80), Sent { src: 9, ..packet(6, 80) }),
        ("! -d 10.0.0.0/30", packet(6, 80), Sent { dst: 9, ..packet(6, 80) }),
        ("! -p tcp", packet(6, 80), packet(17, 80)),
        ("-p tcp ! --sport 1000:1024", packet(6, 80), Sent { src_port: 9, ..packet(6, 80) }),
        ("-p tcp ! --dport 80", packet(6, 80), packet(6, 81)),
        ("-p tcp -m multiport ! --dports 80,443", packet(6, 443), packet(6, 81)),
        ("-p tcp -m multiport ! --ports 80,443", packet(6, 443), packet(6, 81)),
        ("-p tcp ! --syn", packet(6, 80), Sent { flags: 18, ..packet(6, 80) }),
        ("-p tcp ! --tcp-flags SYN,ACK SYN", packet(6, 80), Sent { flags: 18, ..packet(6, 80) }),
        (
            "-m iprange ! --src-range 10.0.0.1-10.0.0.9",
            packet(6, 80),
            Sent { src: 9, ..packet(6, 8) },
        ),
    ];
    for (condition, misses, meets) in cases {
        let file = format!("*filter\n:FORWARD DROP\n-A FORWARD {condition} -j ACCEPT\nCOMMIT\n");
        let mut harness = firewall(&file, 4, "");
        assert_eq!(leaves(&mut harness, &misses), "default", "{condition}");
        let any = condition.contains("any");
        assert_eq!(
            leaves(&mut harness, &meets),
            if any { "default" } else { "accept" },
            "{condition}"
        );
    }
    for rule in ["! -j ACCEPT", "! -m tcp -j ACCEPT", "-m comment ! --comment x -j ACCEPT"] {
        let reported = mistakes(&format!("-A FORWARD {rule}"), "");
        assert!(reported[0].contains("this cannot be negated with `!`"), "{reported:?}");
    }
}

/// For ICMP, type 255 stands for any; for ICMPv6 it is a type (ip6tables has no `any`).
#[test]
fn type_255_is_any_of_icmp_alone() {
    let rule =
        |family: &str| format!("*filter\n:FORWARD DROP\n-A FORWARD {family} -j ACCEPT\nCOMMIT\n");
    let mut harness = firewall(&rule("-p icmp -m icmp --icmp-type 255/3"), 4, "");
    assert_eq!(leaves(&mut harness, &Sent { message_type: 8, code: 0, ..packet(1, 0) }), "accept");
    let mut harness = firewall(&rule("-p ipv6-icmp -m icmp6 --icmpv6-type 255"), 6, "");
    let six = Sent { version: 6, src: 1, dst: 2, ..packet(58, 0) };
    assert_eq!(leaves(&mut harness, &Sent { message_type: 128, ..six.clone() }), "default");
    assert_eq!(leaves(&mut harness, &Sent { message_type: 255, ..six }), "accept");
}

#[test]
fn versions_are_apart() {
    let v4 = "*filter\n:FORWARD ACCEPT\nCOMMIT\n";
    let v6 = "*filter\n:FORWARD ACCEPT\n-A FORWARD -p tcp -j DROP\nCOMMIT\n";
    let six = Sent { version: 6, src: 1, dst: 2, ..packet(6, 80) };
    let mut harness = firewall(v4, 4, "");
    assert_eq!(leaves(&mut harness, &packet(6, 80)), "accept");
    assert_eq!(leaves(&mut harness, &six), "default", "no file says anything of IPv6");
    let folder = Folder::new().with("v4", v4).with("v6", v6);
    let table = "rules = \"v4\"\nrules_v6 = \"v6\"\n";
    let mut harness = Harness::new(build(&DEFINITION, table, folder.path()).0, 0);
    assert_eq!(leaves(&mut harness, &packet(6, 80)), "accept");
    assert_eq!(leaves(&mut harness, &six), "rule");
    assert_eq!(leaves(&mut harness, &Sent { protocol: 17, ..six }), "accept");
}

#[test]
fn states_are_those_of_tracking() {
    let rules = "*filter\n:FORWARD DROP\n-A FORWARD -m conntrack --ctstate INVALID -j DROP\n\
        -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
        -A FORWARD -p tcp --dport 80 -m state --state NEW -j ACCEPT\n\
        -A FORWARD -p icmp -m conntrack ! --ctstate INVALID -j ACCEPT\nCOMMIT\n";
    let mut harness = firewall(rules, 4, "established = true");
    let syn = packet(6, 80);
    let back = Sent { src: syn.dst, dst: syn.src, src_port: 80, dst_port: 1024, ..syn.clone() };
    assert_eq!(leaves(&mut harness, &Sent { flags: 18, ..back.clone() }), "invalid");
    assert_eq!(leaves(&mut harness, &packet(6, 81)), "default");
    assert_eq!(leaves(&mut harness, &syn), "accept");
    assert_eq!(leaves(&mut harness, &Sent { flags: 18, ..back.clone() }), "accept");
    let echo = packet(1, 0);
    assert_eq!(leaves(&mut harness, &Sent { message_type: 0, ..echo.clone() }), "rule");
    assert_eq!(leaves(&mut harness, &echo), "accept");
    // An error about the connection is RELATED, which the third state that is accepted is not.
    let quoted = Sent { flags: 16, ..syn.clone() }.packet();
    let error = Sent { message_type: 3, quoted, src: 9, dst: syn.src, ..packet(1, 0) };
    let plain = rules.replace("ESTABLISHED", "RELATED,ESTABLISHED");
    for (rules, first) in [(rules.replace("-p icmp", "-p udp"), "default"), (plain, "accept")] {
        let mut harness = firewall(&rules, 4, "established = true");
        assert_eq!(leaves(&mut harness, &error), "rule", "about nothing: invalid");
        assert_eq!(leaves(&mut harness, &syn), "accept");
        assert_eq!(leaves(&mut harness, &error), first, "{rules}");
    }
}

/// A redirect about a connection is RELATED in Linux. It passes only if it would pass without the
/// connection, too.
#[test]
fn doubtful_errors_pass_neither_way_alone() {
    let of = |policy: &str, rule: &str| {
        let tracked = "-A FORWARD -m conntrack --ctstate NEW,ESTABLISHED -j ACCEPT\n";
        format!("*filter\n:FORWARD {policy}\n{rule}\n{tracked}COMMIT\n")
    };
    let state = "-A FORWARD -m conntrack --ctstate";
    for (rules, doubtful, error) in [
        (of("ACCEPT", &format!("{state} RELATED -j DROP")), "rule", "rule"),
        (of("DROP", &format!("{state} RELATED -j ACCEPT")), "default", "accept"),
        (of("DROP", &format!("{state} INVALID -j ACCEPT")), "default", "default"),
        (of("DROP", &format!("{state} INVALID,RELATED -j ACCEPT")), "accept", "accept"),
    ] {
        for (version, icmp, doubtful_types, error_type) in
            [(4, 1, &[4, 5][..], 3), (6, 58, &[0, 5, 100, 127], 1)]
        {
            let folder = Folder::new().with("rules", &rules);
            let key = if version == 4 { "rules" } else { "rules_v6" };
            let table = format!("{key} = \"rules\"\nestablished = true\n");
            let (function, words) = build(&DEFINITION, &table, folder.path());
            let mut harness = Harness::new(function, words);
            let sent = |protocol| Sent { version, src: 7, dst: 8, ..packet(protocol, 80) };
            let opener = sent(17);
            assert_eq!(leaves(&mut harness, &opener), "accept");
            let about = |message_type, opener: &Sent| {
                let (quoted, dst) = (opener.packet(), opener.src);
                Sent { message_type, quoted, src: 9, dst, ..sent(icmp) }
            };
            for &message_type in doubtful_types {
                let redirect = about(message_type, &opener);
                assert_eq!(leaves(&mut harness, &redirect), doubtful, "{message_type}: {rules}");
            }
            assert_eq!(leaves(&mut harness, &about(error_type, &opener)), error, "{rules}");
        }
    }
}

#[test]
fn no_way_to_write_a_target_hides_a_rule() {
    for rules in [
        "-A FORWARD -s 10.0.0.0/8 -jDROP",
        "-A FORWARD --jump=DROP",
        "-A FORWARD -p tcp --jum DROP",
        "COMMIT\n*raw\n:PREROUTING ACCEPT\n-A PREROUTING -s 10.0.0.0/8 --jump DROP",
        "COMMIT\n*raw\n:PREROUTING ACCEPT\n-A PREROUTING -jDROP",
        "COMMIT\n*raw\n:PREROUTING ACCEPT\n-A PREROUTING -m comment --comment \"x -j DROP",
        "COMMIT\n*raw\n:PREROUTING ACCEPT\n:MARK -\n-A PREROUTING -j MARK\n-A MARK -jDROP",
        "COMMIT\n*raw\n:PREROUTING ACCEPT\n:DROP -\n-A PREROUTING -j DROP",
        "COMMIT\n*raw\n:PREROUTING ACCEPT\n:NFQUEUE -\n-A PREROUTING -j NFQUEUE",
        "COMMIT\n*mangle\n:FORWARD DROP\n:INPUT DROP\n-A FORWARD -j MARK",
    ] {
        let reported = mistakes(rules, "unsupported = \"skip\"");
        assert_eq!(reported.len(), 1, "{rules}: {reported:?}");
    }
    let harmless = "COMMIT\n*mangle\n:INPUT DROP\n:FORWARD ACCEPT\n:own -\n-A FORWARD -j own\n\
        -A own -d 224.0.0.0/24 -j RETURN\n-A own -p udp -j CHECKSUM\n-A own -j ACCEPT";
    assert_eq!(mistakes(harmless, "unsupported = \"skip\""), [""; 0]);
    for rules in [
        "-A FORWARD -m recent --rcheck --jump DROP\n",
        "-A FORWARD --jump DROP\n",
        ":LOG - [0:0]\n-A FORWARD -j LOG\n-A LOG -j DROP\n",
        ":MARK - [0:0]\n-A FORWARD -j MARK\n-A MARK -j DROP\n",
    ] {
        let file = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n");
        let mut harness = firewall(&file, 4, "unsupported = \"skip\"");
        assert_eq!(leaves(&mut harness, &packet(6, 9)), "rule", "{rules}");
    }
}

#[test]
fn interfaces_that_cannot_be_opened_are_reported() {
    let accept = "-A FORWARD -s 10.0.0.0/8 -j ACCEPT\n";
    let reported = |crossing: &dyn Fn() -> Resources, rules: &str, keys: &str| {
        let file = format!("*filter\n:FORWARD DROP\n:web -\n{rules}{accept}COMMIT\n");
        let folder = Folder::new().with("rules", file);
        let mut resources = crossing();
        let keys = format!("rules = \"rules\"\n{keys}");
        match build_with(&DEFINITION, &keys, folder.path(), &mut resources) {
            Ok(_) => (Vec::new(), resources.presumes_crossing()),
            Err(mistakes) => {
                let line = |d: &Diagnostic| format!("{}:{} {}", d.line, d.column, d.message);
                (mistakes.iter().map(line).collect(), false)
            }
        }
    };
    let none = || Crossing::NoPorts.resources();
    let two = || Crossing::TwoPorts.resources();
    let routed = || Crossing::ByRoute.resources();
    let three = || Resources::default().with_ports(routed().ports().clone());
    let lone = |rule: &str| format!("-A FORWARD {rule}\n");
    type Case<'a> = (&'a dyn Fn() -> Resources, &'a str, Option<&'a str>, bool);
    let cases: [Case<'_>; 11] = [
        (&two, "-i eth0 -j ACCEPT", None, false),
        (&two, "-o eth0 -j ACCEPT", None, true),
        (&two, "-i eth+ ! -o w+ -j web", None, true),
        (&routed, "-o eth1 -j ACCEPT", None, false),
        (&three, "-i eth1 -j ACCEPT", None, false),
        (
            &three,
            "-o eth1 -j ACCEPT",
            Some(
                "4:15 `eth1`: not supported: with more than two ports, the router must come before \
                 the rules",
            ),
            false,
        ),
        (
            &two,
            "-i ppp0 -j ACCEPT",
            Some("4:15 `ppp0`: not supported: no port of the chain; ports: eth0, wan"),
            false,
        ),
        (
            &two,
            "! -o ppp+ -j ACCEPT",
            Some("4:17 `ppp+`: not supported: no port of the chain; ports: eth0, wan"),
            false,
        ),
        (
            &none,
            "-i eth0 -j ACCEPT",
            Some("4:15 `eth0`: not supported: the chain has no [[port]]"),
            false,
        ),
        (&two, "-i eth0 -i wan -j ACCEPT", Some("4:20 `-i`: a rule has this once"), false),
        (&two, "-i", Some("4:12 `-i`: the line ends where its value is due"), false),
    ];
    for (ports, rule, mistake, presumes) in cases {
        let expected: Vec<String> = mistake.into_iter().map(str::to_owned).collect();
        assert_eq!(reported(ports, &lone(rule), ""), (expected, presumes), "{rule}");
    }
    // Left out, a rule that leads elsewhere could open a way.
    let (jump, _) = reported(&two, &lone("-i ppp0 -j web"), "unsupported = \"skip\"");
    assert_eq!(jump.len(), 1, "{jump:?}");
    let (skipped, _) = reported(&two, &lone("-i ppp0 -j ACCEPT"), "unsupported = \"skip\"");
    assert!(skipped.is_empty(), "{skipped:?}");
}
