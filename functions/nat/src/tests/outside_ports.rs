//! Rules for several outside ports, one for each.

use proptest::prelude::*;
use serde_json::json;
use warpline_nf::Side;

use super::refusals::decision;
use super::rules::{iptables_in, matches_of, nft_with, reported, saddr};

const LAN: (&str, Side) = ("lan", Side::Inside);
const PORTS: [(&str, Side); 3] = [LAN, ("wan", Side::Outside), ("wan2", Side::Outside)];

/// A rule of POSTROUTING: its conditions and whether it translates.
#[derive(Clone, Debug)]
struct Rule {
    source: Option<&'static str>,
    leaves_by: &'static str,
    translates: bool,
}

impl Rule {
    fn line(&self) -> String {
        let source = self.source.map_or(String::new(), |own| format!("-s {own} "));
        let target = if self.translates { "MASQUERADE" } else { "ACCEPT" };
        format!("-A POSTROUTING {source}{} -j {target}\n", self.leaves_by)
    }

    /// Whether it decides about packets from `host` that leave by `port`.
    fn decides(&self, host: &str, port: &str) -> bool {
        self.source.is_none_or(|own| own == host)
            && match self.leaves_by {
                "" | "-o wan+" => true,
                "! -o wan" => port != "wan",
                named => named == format!("-o {port}"),
            }
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    let source = prop::sample::select(vec![None, Some("10.0.0.1"), Some("10.0.0.2")]);
    let leaves_by = prop::sample::select(vec!["-o wan", "-o wan2", "! -o wan", "-o wan+", ""]);
    (source, leaves_by, any::<bool>()).prop_map(|(source, leaves_by, translates)| Rule {
        source,
        leaves_by,
        translates,
    })
}

proptest! {
    /// Rules are supported if those for each outside port are the same, and decide as they do.
    #[test]
    fn rules_for_each_outside_port_decide_as_one(
        mut rules in prop::collection::vec(rule(), 1..4),
        twice in any::<bool>(),
    ) {
        if twice {
            let other = |own: &Rule| Rule {
                leaves_by: match own.leaves_by {
                    "-o wan" => "-o wan2",
                    "-o wan2" | "! -o wan" => "-o wan",
                    named => named,
                },
                ..own.clone()
            };
            let others: Vec<_> = rules.iter().map(other).collect();
            rules.extend(others);
        }
        let lines: String = rules.iter().map(Rule::line).collect();
        let found = iptables_in(&PORTS, &lines);
        prop_assert!(found.mistakes.is_empty());
        let for_port = |port| {
            let own = rules.iter().filter(move |rule| ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
                .iter().any(|host| rule.decides(host, port)));
            own.map(|rule| (rule.source, rule.translates)).collect::<Vec<_>>()
        };
        prop_assert_eq!(found.unsupported.is_empty(), for_port("wan") == for_port("wan2"));
        for host in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            for port in ["wan", "wan2"] {
                let decided = rules.iter().find(|rule| rule.decides(host, port));
                let expected = decided.map(|rule| rule.translates);
                if found.unsupported.is_empty() {
                    let own = decision(&found.source_rules, 17, host, "8.8.8.8");
                    prop_assert_eq!(own, expected, "{} by {}", host, port);
                }
            }
        }
    }
}

/// In both forms; other mistakes are reported once.
#[test]
fn rules_for_one_of_two_outside_ports_are_named() {
    let unknown = "write the same rules for all outside ports (wan, wan2)";
    let inside = "packets that leave by inside ports keep their source; outside ports: wan, wan2";
    for (conditions, expected) in [
        (&["-o wan", "-o wan2"][..], &[][..]),
        (&["-o wan2", "-o wan"], &[]),
        (&["-o wan", "-o wan+", "-o wan2"], &[]),
        (&["-o wan", "-o wan+"], &[unknown]),
        (&["-o wan"], &[unknown]),
        (&["-o lan"], &[inside]),
        (&["-o wan", "-o wan2", "-o lan"], &[inside]),
        (&["-o wan -i lan", "-o wan2 -i lan"], &[]),
        (&["-o wan -i lan", "-o wan2"], &[unknown, unknown]),
        (&["-o wan -o eth9", "-o wan2"], &["no port of the chain"]),
    ] {
        let line = |own: &&str| format!("-A POSTROUTING -s 10.0.0.0/8 {own} -j MASQUERADE\n");
        let lines: String = conditions.iter().map(line).collect();
        let ten = saddr(json!({"prefix": {"addr": "10.0.0.0", "len": 8}}));
        let statements = |own: &&str| {
            let mut all = vec![ten.clone()];
            all.extend(matches_of(own));
            all.push(json!({ "masquerade": null }));
            json!(all)
        };
        let nft: Vec<_> = conditions.iter().map(statements).collect();
        for found in [iptables_in(&PORTS, &lines), nft_with(&PORTS, &[], &nft)] {
            let reported = reported(&found);
            assert_eq!(reported.len(), expected.len(), "{conditions:?}: {reported:?}");
            for (own, expected) in reported.iter().zip(expected) {
                assert!(own.contains(expected), "{conditions:?}: {own}");
            }
        }
    }
}
