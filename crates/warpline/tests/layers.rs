//! Which crate may depend on which. Dependencies point down, and no function knows another.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// The crates from the lowest layer up. A crate depends on crates of lower layers only.
const LAYERS: &[&[&str]] = &[
    &["warpline-io-error"],
    &["warpline-outputs"],
    &[
        "warpline-config",
        "warpline-device",
        "warpline-native",
        "warpline-netlink",
        "warpline-packet",
    ],
    &["warpline-io", "warpline-rule-files", "warpline-sched", "warpline-search", "warpline-tables"],
    &["warpline-nf", "warpline-nids-rules", "warpline-sim"],
    &["warpline-launch", "warpline-rewrite", "warpline-verify"],
    &["warpline-streams", "warpline-testkit"],
    FUNCTIONS,
    &["warpline-functions"],
    &["warpline-engine"],
    &["warpline"],
    &["warpline-bench", "warpline-ttl-guard"],
];

const FUNCTIONS: &[&str] = &[
    "warpline-digest",
    "warpline-firewall",
    "warpline-flow-monitor",
    "warpline-ipcomp",
    "warpline-ipsec",
    "warpline-load-balancer",
    "warpline-nat",
    "warpline-nids",
    "warpline-router",
];

/// Crates that products may not depend on, with those that may.
const RESERVED: &[(&str, &[&str])] = &[
    ("warpline-testkit", &["warpline-bench"]),
    ("warpline-functions", &["warpline", "warpline-bench", "warpline-ttl-guard"]),
    (
        "warpline-device",
        &["warpline-launch", "warpline-engine", "warpline", "warpline-bench", "warpline-testkit"],
    ),
    ("warpline-launch", &["warpline-engine", "warpline-bench"]),
    ("warpline-io", &["warpline-engine", "warpline", "warpline-bench"]),
];

struct Edge {
    from: String,
    to: String,
    is_for_tests: bool,
}

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// Why a dependency is forbidden, if it is.
fn mistake(edge: &Edge) -> Option<String> {
    let Edge { from, to, is_for_tests } = edge;
    let (Some(own), Some(other)) = (layer_of(from), layer_of(to)) else {
        return Some(format!("{from} or {to} has no layer"));
    };
    if other >= own {
        return Some(format!("{from} depends on {to}, which is not below it"));
    }
    let reserved = RESERVED.iter().find(|(name, _)| name == to);
    let is_reserved = reserved.is_some_and(|(_, users)| !users.contains(&from.as_str()));
    (is_reserved && !is_for_tests).then(|| format!("{from} depends on {to}, which few crates may"))
}

/// The dependencies among the workspace's crates, as Cargo sees them.
fn edges() -> (Vec<String>, Vec<Edge>) {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let folder = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(cargo).args(arguments).current_dir(folder).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let mut edges = Vec::new();
    for package in packages {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = name(dependency);
            if to.starts_with("warpline") {
                let is_for_tests = dependency["kind"].as_str() == Some("dev");
                edges.push(Edge { from: name(package), to, is_for_tests });
            }
        }
    }
    (packages.iter().map(name).collect(), edges)
}

#[test]
fn dependencies_point_down() {
    let (crates, edges) = edges();
    let unknown: Vec<_> = crates.iter().filter(|name| layer_of(name).is_none()).collect();
    assert!(unknown.is_empty(), "crates without a layer: {unknown:?}");
    let mistakes: Vec<String> = edges.iter().filter_map(mistake).collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    edges.iter().for_each(|edge| *users.entry(&edge.to).or_default() += 1);
    assert!(FUNCTIONS.iter().all(|name| users.contains_key(name)), "a function that no list has");
}

#[test]
fn forbidden_dependencies_are_found() {
    let cases = [
        ("warpline-nat", "warpline-firewall", true),
        ("warpline-nat", "warpline-firewall", false),
        ("warpline-packet", "warpline-nf", false),
        ("warpline-nf", "warpline-rewrite", true),
        ("warpline-nat", "warpline-engine", true),
        ("warpline-engine", "warpline-functions", false),
        ("warpline-router", "warpline-testkit", false),
        ("warpline-router", "warpline-device", false),
        ("warpline-launch", "warpline-engine", true),
        ("warpline-launch", "warpline-functions", true),
        ("warpline-launch", "warpline-io", false),
        ("warpline-router", "warpline-launch", false),
        ("warpline-stray", "warpline-packet", false),
    ];
    for (from, to, is_for_tests) in cases {
        let edge = Edge { from: from.into(), to: to.into(), is_for_tests };
        assert!(mistake(&edge).is_some(), "{from} on {to}");
    }
    let fine = Edge {
        from: "warpline-engine".into(),
        to: "warpline-functions".into(),
        is_for_tests: true,
    };
    assert_eq!(mistake(&fine), None);
}
