//! Functions count exactly what their definitions declare.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use warpline_functions::FUNCTIONS;
use warpline_packet::Malformed;

use crate::harness::Demo;
use crate::ipsec::{CBC, policies, sa};

/// Tables by function; together they make each function count all that it can.
const TABLES: &[(&str, &str)] = &[
    ("nat", "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.1\"]\n"),
    ("load_balancer", "services = \"services.txt\"\n"),
    ("firewall", "rules = \"firewall.rules\"\nestablished = true\n"),
    ("digest", ""),
    (
        "router",
        "routes = \"routes.txt\"\nmac = \"02:00:00:00:00:01\"\nicmp = \"on\"\n\
        icmp_src_v4 = \"203.0.113.1\"\nneighbours = \"neighbours.txt\"\n",
    ),
    ("ipcomp", "mode = \"compress\"\n"),
    ("ipcomp", "mode = \"decompress\"\n"),
    (
        "flow_monitor",
        "ipfix = \"flows.ipfix\"\nipfix_udp = \"127.0.0.1:9\"\n\
        export = \"uniflow\"\n",
    ),
    (
        "nids",
        "rules = \"sensor.rules\"\nclassification = \"classes.config\"\n\
        [n.variables]\nHOME_NET = \"[10.1.0.0/16]\"\nHTTP_SERVERS = \"any\"\n",
    ),
    (
        "ipsec",
        "sas = \"out.sas\"\npolicies = \"policies\"\nicmp = \"on\"\n\
        icmp_src_v4 = \"203.0.113.1\"\n",
    ),
    ("ipsec", "sas = \"in.sas\"\n"),
];

/// The names counted by each function, over all chains of [`TABLES`].
fn counted(demo: &Demo) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (function, table) in TABLES {
        let chain =
            format!("[chain]\nfunctions = [\"n\"]\n[n]\nfunction = \"{function}\"\n{table}");
        demo.write("c.toml", chain);
        demo.warpline("run c.toml --input generate:packets=9 --quiet --stats s.json").expect(0);
        let stats: Value = serde_json::from_slice(&demo.read("s.json")).unwrap();
        let counters = stats["chains"][0]["functions"][0]["counters"].as_object().unwrap();
        all.entry((*function).into()).or_default().extend(counters.keys().cloned());
    }
    all
}

#[test]
fn functions_count_what_they_declare() {
    let demo = Demo::new();
    for (file, direction) in [("out.sas", "out"), ("in.sas", "in")] {
        demo.write(file, sa("one", direction, 0x1001, CBC, 0));
        fs::set_permissions(demo.path(file), Permissions::from_mode(0o600)).unwrap();
    }
    demo.write("policies", policies(&["one"]));
    let counted = counted(&demo);
    for definition in FUNCTIONS {
        let declared: BTreeSet<String> =
            definition.counters.iter().map(|counter| counter.name.to_owned()).collect();
        assert_eq!(declared.len(), definition.counters.len(), "{}", definition.name);
        assert_eq!(counted[definition.name], declared, "{}", definition.name);
    }
}

#[test]
fn manuals_list_the_counters() {
    let demo = Demo::new();
    let manual = demo.warpline("functions nat").expect(0).stdout;
    let manual = String::from_utf8(manual).unwrap();
    let (_, counters) = manual.split_once("\nCounters\n").unwrap();
    assert!(counters.contains("  bindings-peak "), "{counters}");
    assert!(counters.contains("peak, bindings\n"), "{counters}");
}

#[test]
fn manuals_fit_100_columns() {
    let demo = Demo::new();
    for definition in FUNCTIONS {
        let shown = demo.warpline(&format!("functions {}", definition.name)).expect(0).stdout;
        let shown = String::from_utf8(shown).unwrap();
        for line in shown.lines() {
            assert!(line.chars().count() <= 100, "{}: {line}", definition.name);
        }
    }
}

/// Whether a name has words of lower-case letters and digits, between single separators.
pub(crate) fn is_of_words(name: &str, separator: char) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    name.split(separator).all(is_word)
}

#[test]
fn keys_are_snake_case_and_counters_and_reasons_kebab_case() {
    let demo = Demo::new();
    for definition in FUNCTIONS {
        let shown = demo.warpline(&format!("functions {}", definition.name)).expect(0).stdout;
        let shown = String::from_utf8(shown).unwrap();
        let keys = definition.keys.iter().map(|key| (key.name, '_'));
        let counters = definition.counters.iter().map(|counter| (counter.name, '-'));
        let reasons = definition.drops.iter().map(|reason| (*reason, '-'));
        for (name, separator) in keys.chain(counters).chain(reasons) {
            assert!(is_of_words(name, separator), "{}: {name}", definition.name);
            assert!(shown.contains(name), "{}: {name} is not in the manual", definition.name);
        }
    }
    let malformed = Malformed::ALL.iter().map(|what| what.name());
    assert!(
        malformed.clone().all(|name| is_of_words(name, '-')),
        "{:?}",
        malformed.collect::<Vec<_>>()
    );
}
