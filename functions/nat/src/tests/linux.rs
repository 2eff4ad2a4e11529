//! Random files of rules, against the decisions of Linux by its manual (iptables(8)): the first
//! rule that matches decides about a connection, and answers are translated with it. Rules may lead
//! to other chains.

use std::cell::Cell;
use std::net::Ipv4Addr;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::gateway::{INWARD, OTHER, SKIP, udp};
use super::model::dropped;
use super::{Harness, gateway, ip, sent};
use warpline_testkit::frames::{Body, Datagram};

/// A rule of POSTROUTING, by its parts.
#[derive(Clone, Copy, Debug)]
struct Rule {
    sources: &'static str,
    destination: &'static str,
    is_tcp: bool,
    /// Whether it has a condition that is not supported.
    asks_ttl: bool,
    target: &'static str,
}

const HOST: &str = "10.1.1.9/32";
const EVERY: &str = "10.1.0.0/16";

const OWN: (&str, &str) = (HOST, "SNAT --to-source 203.0.113.9");
const OWN_NET: (&str, &str) = ("10.1.1.8/30", "NETMAP --to 203.0.113.8/30");

fn rule() -> impl Strategy<Value = Rule> {
    let targets =
        [OWN, OWN, (EVERY, "SNAT --to-source 203.0.113.1"), (HOST, "ACCEPT"), (EVERY, "ACCEPT")];
    let destination = select(vec!["", "", "-d 8.8.8.0/24", "! -d 8.8.8.0/24"]);
    let some = || prop::bool::weighted(0.2);
    (select(targets.to_vec()), destination, some(), some()).prop_map(
        |((sources, target), destination, is_tcp, asks_ttl)| Rule {
            sources,
            destination,
            is_tcp,
            asks_ttl,
            target,
        },
    )
}

/// A step of a chain. Jumps and returns have the conditions of a rule.
#[derive(Clone, Debug)]
enum Step {
    Rule(Rule),
    Return(Rule),
    Jump { when: Rule, is_goto: bool, to: Vec<Self> },
}

/// Steps of a chain that is `depth` jumps deep.
fn steps(depth: u32) -> BoxedStrategy<Vec<Step>> {
    let wide = || rule().prop_map(|rule| Rule { sources: EVERY, ..rule });
    let rules = rule().prop_map(Step::Rule);
    let step = match depth {
        0 => prop_oneof![4 => rules, 1 => jump(1)].boxed(),
        1 => prop_oneof![5 => rules, 1 => jump(2), 1 => wide().prop_map(Step::Return)].boxed(),
        _ => prop_oneof![5 => rules, 1 => wide().prop_map(Step::Return)].boxed(),
    };
    prop::collection::vec(step, 1..5).boxed()
}

fn jump(depth: u32) -> BoxedStrategy<Step> {
    let parts = (rule(), prop::bool::weighted(0.3), steps(depth));
    let jump = parts.prop_map(|(when, is_goto, to)| Step::Jump {
        when: Rule { sources: EVERY, ..when },
        is_goto,
        to,
    });
    jump.boxed()
}

/// The fate of a packet in a chain: a rule decides, or it returns.
enum Fate {
    Decided(Option<&'static str>),
    Returns,
}

fn walk(steps: &[Step], packet: &Packet, has_low_ttl: bool) -> Fate {
    let matches = |rule: &Rule| rule.matches(packet) && (has_low_ttl || !rule.asks_ttl);
    for step in steps {
        match step {
            Step::Rule(rule) if matches(rule) => return Fate::Decided(rule.source()),
            Step::Return(when) if matches(when) => return Fate::Returns,
            Step::Jump { when, is_goto, to } if matches(when) => {
                match walk(to, packet, has_low_ttl) {
                    Fate::Returns if !is_goto => {}
                    fate => return fate,
                }
            }
            _ => {}
        }
    }
    Fate::Returns
}

/// The rules of these steps, at any depth.
fn all_rules(steps: &[Step]) -> Vec<&Rule> {
    let mut all = Vec::new();
    for step in steps {
        match step {
            Step::Rule(rule) => all.push(rule),
            Step::Return(_) => {}
            Step::Jump { to, .. } => all.extend(all_rules(to)),
        }
    }
    all
}

fn change_rules(steps: &mut [Step], change: &impl Fn(&mut Rule)) {
    for step in steps {
        match step {
            Step::Rule(rule) => change(rule),
            Step::Return(_) => {}
            Step::Jump { to, .. } => change_rules(to, change),
        }
    }
}

/// Each step with its chain, numbered from 0 for that of the hook, and the chain that it leads to.
fn by_chain<'a>(
    steps: &'a [Step],
    chain: usize,
    chains: &mut usize,
) -> Vec<(usize, &'a Step, usize)> {
    let mut all = Vec::new();
    for step in steps {
        *chains += 1;
        let to = *chains;
        all.push((chain, step, to));
        if let Step::Jump { to: inner, .. } = step {
            all.extend(by_chain(inner, to, chains));
        }
    }
    all
}

impl Rule {
    fn line(&self, chain: &str, target: &str) -> String {
        let protocol = if self.is_tcp { "-p tcp" } else { "" };
        let ttl = if self.asks_ttl { "-m ttl --ttl-lt 5" } else { "" };
        let Self { sources, destination, .. } = self;
        format!("-A {chain} -s {sources} {destination} {protocol} {ttl} {target}")
    }

    /// The same for nftables.
    fn statements(&self, verdict: Value) -> Value {
        let mut all = vec![address("==", "saddr", self.sources)];
        match self.destination.split_once("-d ") {
            Some(("", to)) => all.push(address("==", "daddr", to)),
            Some((_, to)) => all.push(address("!=", "daddr", to)),
            None => {}
        }
        if self.is_tcp {
            all.push(json!({"match": {"op": "==", "left": {"meta": {"key": "l4proto"}},
                "right": "tcp"}}));
        }
        if self.asks_ttl {
            all.push(json!({"match": {"op": "<", "left": {"payload": {"protocol": "ip",
                "field": "ttl"}}, "right": 5}}));
        }
        all.push(verdict);
        json!(all)
    }

    fn verdict(&self) -> Value {
        match self.source() {
            Some(source) => json!({"snat": {"addr": source}}),
            None => json!({"accept": null}),
        }
    }

    fn matches(&self, packet: &Packet) -> bool {
        (self.sources == EVERY || packet.host == "10.1.1.9")
            && match self.destination {
                "" => true,
                "-d 8.8.8.0/24" => packet.to == "8.8.8.8",
                _ => packet.to != "8.8.8.8",
            }
            && (!self.is_tcp || packet.is_tcp)
    }

    /// The source that it gives; `None` if that stays.
    fn source(&self) -> Option<&'static str> {
        match self.target {
            "ACCEPT" => None,
            "SNAT --to-source 203.0.113.1" => Some("203.0.113.1"),
            _ => Some("203.0.113.9"),
        }
    }
}

/// A condition of nftables.
fn address(op: &str, field: &str, prefix: &str) -> Value {
    let (addr, len) = prefix.split_once('/').unwrap();
    let len: u8 = len.parse().unwrap();
    json!({"match": {"op": op, "left": {"payload": {"protocol": "ip", "field": field}},
        "right": {"prefix": {"addr": addr, "len": len}}}})
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    host: &'static str,
    to: &'static str,
    is_tcp: bool,
}

impl Packet {
    fn datagram(&self) -> Datagram {
        let tcp = Body::Tcp { src: 5000, dst: 80, flags: 2 };
        match self.is_tcp {
            true => Datagram::new(ip(self.host), ip(self.to), tcp),
            false => udp((self.host, 5000), (self.to, 53)),
        }
    }
}

fn packets() -> Vec<Packet> {
    let mut all = Vec::new();
    for host in ["10.1.1.9", "10.1.0.1"] {
        for to in ["8.8.8.8", "1.1.1.1"] {
            all.extend([true, false].map(|is_tcp| Packet { host, to, is_tcp }));
        }
    }
    all
}

/// The rule of PREROUTING that gives the host an outside address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inward {
    None,
    Host,
    Net,
}

const INWARD_NET: &str = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30";

/// Rules of POSTROUTING, and that of PREROUTING. Without that for one host the rules of its own
/// address have to be NETMAP.
#[derive(Clone, Debug)]
struct Rules {
    steps: Vec<Step>,
    inward: Inward,
}

fn rules() -> impl Strategy<Value = Rules> {
    let inward = select(vec![Inward::None, Inward::Host, Inward::Host, Inward::Net]);
    (steps(0), inward).prop_map(|(mut steps, inward)| {
        if inward != Inward::Host {
            change_rules(&mut steps, &|rule| {
                if (rule.sources, rule.target) == OWN {
                    (rule.sources, rule.target) = OWN_NET;
                }
            });
        }
        Rules { steps, inward }
    })
}

impl Rules {
    fn iptables(&self) -> String {
        let name = |chain| match chain {
            0 => "POSTROUTING".to_owned(),
            chain => format!("c{chain}"),
        };
        let (mut declared, mut lines) = (Vec::new(), Vec::new());
        for (chain, step, to) in by_chain(&self.steps, 0, &mut 0) {
            lines.push(match step {
                Step::Rule(rule) => rule.line(&name(chain), &format!("-j {}", rule.target)),
                Step::Return(when) => when.line(&name(chain), "-j RETURN"),
                Step::Jump { when, is_goto, .. } => {
                    declared.push(format!(":{} - [0:0]", name(to)));
                    let option = if *is_goto { "-g" } else { "-j" };
                    when.line(&name(chain), &format!("{option} {}", name(to)))
                }
            });
        }
        let inward = match self.inward {
            Inward::None => "",
            Inward::Host => INWARD,
            Inward::Net => INWARD_NET,
        };
        gateway::saved(&[&declared.join("\n"), inward, &lines.join("\n"), OTHER])
    }

    fn nft(&self) -> String {
        let rule = |chain: &str, expr: Value| -> Value {
            json!({"rule": {"family": "ip", "table": "nat", "chain": chain, "expr": expr}})
        };
        let chain = |name: &str, hook: &str| {
            json!({"chain": {"family": "ip", "table": "nat", "name": name, "type": "nat",
                "hook": hook}})
        };
        let mut objects = vec![chain("pre", "prerouting"), chain("post", "postrouting")];
        if self.inward == Inward::Host {
            let to = address("==", "daddr", "203.0.113.9/32");
            objects.push(rule("pre", json!([to, {"dnat": {"addr": "10.1.1.9"}}])));
        }
        let other = json!([address("==", "saddr", "10.2.0.0/16"),
            {"snat": {"addr": "203.0.113.1"}}]);
        let name = |chain| match chain {
            0 => "post".to_owned(),
            chain => format!("c{chain}"),
        };
        for (chain, step, to) in by_chain(&self.steps, 0, &mut 0) {
            let statements = match step {
                Step::Rule(rule) => rule.statements(rule.verdict()),
                Step::Return(when) => when.statements(json!({"return": null})),
                Step::Jump { when, is_goto, .. } => {
                    let target = name(to);
                    objects.push(json!({"chain": {"family": "ip", "table": "nat",
                        "name": target}}));
                    let verb = if *is_goto { "goto" } else { "jump" };
                    when.statements(json!({verb: {"target": target}}))
                }
            };
            objects.push(rule(&name(chain), statements));
        }
        objects.push(rule("post", other));
        json!({ "nftables": objects }).to_string()
    }

    /// The sources that Linux may give a packet, and whether it may be that no rule matches it.
    /// A condition on the time to live may hold or not.
    fn outcomes(&self, packet: &Packet) -> (Vec<Option<&'static str>>, bool) {
        let fates = [true, false].map(|has_low_ttl| walk(&self.steps, packet, has_low_ttl));
        let may_pass = fates.iter().any(|fate| matches!(fate, Fate::Returns));
        let sources = fates.into_iter().filter_map(|fate| match fate {
            Fate::Decided(source) => Some(source),
            Fate::Returns => None,
        });
        (sources.collect(), may_pass)
    }

    fn has_inward(&self) -> bool {
        self.inward != Inward::None
    }

    /// Whether a rule maps the host without one that lets its connections in.
    fn maps_outward_alone(&self) -> bool {
        !self.has_inward() && all_rules(&self.steps).iter().any(|rule| rule.sources == OWN_NET.0)
    }

    /// Checks who can reach the host: without a rule of PREROUTING no remote.
    fn check_inbound(&self, nat: &mut Harness, remote: &str) -> Result<(), TestCaseError> {
        let out = sent(nat, 1, &udp((remote, 9), ("203.0.113.9", 53)));
        let reached = match dropped(&out) {
            None => Some(Ipv4Addr::from(<[u8; 4]>::try_from(&out.bytes[30..34])?).to_string()),
            Some(_) => None,
        };
        let expected = if self.has_inward() { "10.1.1.9" } else { "203.0.113.9" };
        prop_assert!(reached.as_ref().is_none_or(|host| host == expected), "{remote}");
        // Linux knows the connection that a packet answers, whatever its rules say.
        if self.has_inward() {
            prop_assert!(reached.is_some(), "{remote}");
            let out = sent(nat, 1, &udp(("10.1.1.9", 53), (remote, 9)));
            prop_assert_eq!(&out.bytes[26..30], [203, 0, 113, 9], "{}", remote);
        }
        Ok(())
    }

    /// Whether the host has an outside address, and whether rules give it that.
    fn maps(&self, packet: &Packet) -> (bool, bool) {
        let is_own = |rule: &&Rule| rule.source() == Some("203.0.113.9");
        let has_own = packet.host == "10.1.1.9" && all_rules(&self.steps).iter().any(is_own);
        (has_own || packet.host == "10.1.1.9" && self.has_inward(), has_own)
    }

    /// Checks the source of a packet under rules without unsupported parts.
    fn check(&self, packet: &Packet, source: Option<&str>) -> Result<(), TestCaseError> {
        let (sources, may_pass) = self.outcomes(packet);
        let (is_mapped, has_own) = self.maps(packet);
        // Answers of a host with rules of its own need a rule, too.
        prop_assert!(!has_own || !may_pass, "{packet:?}");
        let expected = match sources.first() {
            Some(None) => None,
            _ if is_mapped && !has_own => Some("203.0.113.9"),
            source => source.copied().flatten(),
        };
        prop_assert_eq!(source, expected, "{:?}", packet);
        Ok(())
    }

    /// The same with unsupported parts skipped: no packet keeps its source that Linux translates.
    fn check_skipped(&self, packet: &Packet, source: Option<&str>) -> Result<(), TestCaseError> {
        let (sources, may_pass) = self.outcomes(packet);
        let must = sources.iter().any(Option::is_some) || may_pass && self.maps(packet).0;
        prop_assert!(source.is_some() || !must, "{packet:?}");
        Ok(())
    }
}

/// Checks a file of both formats. Returns how many gateways it makes.
fn check_file(rules: &Rules) -> Result<usize, TestCaseError> {
    let (nft, mut made) = ((rules.inward == Inward::Host).then(|| rules.nft()), 0);
    for text in [rules.iptables()].into_iter().chain(nft) {
        for keys in ["", SKIP] {
            let Ok(mut nat) = gateway::try_gateway(&text, keys) else {
                prop_assert!(keys.is_empty() || rules.maps_outward_alone(), "can be skipped");
                continue;
            };
            made += usize::from(keys.is_empty());
            for packet in packets() {
                let out = sent(&mut nat, 1, &packet.datagram());
                prop_assert_eq!(dropped(&out), None);
                let source = Ipv4Addr::from(<[u8; 4]>::try_from(&out.bytes[26..30])?);
                let source = Some(source.to_string()).filter(|source| source != packet.host);
                match keys {
                    "" => rules.check(&packet, source.as_deref())?,
                    _ => rules.check_skipped(&packet, source.as_deref())?,
                }
            }
            for remote in ["8.8.8.8", "1.1.1.1", "9.9.9.9"] {
                rules.check_inbound(&mut nat, remote)?;
            }
        }
    }
    Ok(made)
}

#[test]
fn files_translate_as_linux_or_more() {
    let (made, config) = (Cell::new(0), Config::with_source_file(file!()));
    let (mut runner, cases) = (TestRunner::new(config.clone()), config.cases as usize);
    let result = runner.run(&rules(), |rules| {
        made.set(made.get() + check_file(&rules)?);
        Ok(())
    });
    result.unwrap_or_else(|why| panic!("{why}\n{runner}"));
    assert!(made.get() >= cases / 16, "only {} files of {cases} are not refused", made.get());
}
