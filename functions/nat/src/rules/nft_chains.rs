//! Base chains of type nat of `nft -j list ruleset` that packets of the chain meet.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use warpline_nf::SourceText;
use warpline_rule_files::nft::{objects, text};
use warpline_rule_files::nft_tables::Dormant;
use warpline_rule_files::nft_value::short;

use super::NatRules;

/// Family, table and name of a chain or a set.
pub(super) type Name<'a> = (&'a str, &'a str, &'a str);

pub(super) fn name<'a>(object: &'a Value, field: &str) -> Name<'a> {
    (text(object, "family"), text(object, "table"), text(object, field))
}

/// How messages name a chain.
pub(super) fn chain_name((family, table, name): Name<'_>) -> String {
    format!("`{} {} {}`", short(family), short(table), short(name))
}

/// How messages name a rule.
pub(super) fn rule_name(rule: &Value) -> String {
    let handle = rule.get("handle").and_then(Value::as_u64).unwrap_or(0);
    format!("{} rule handle {handle}", chain_name(name(rule, "chain")))
}

pub(super) const HOOKS: [&str; 2] = ["prerouting", "postrouting"];

/// The rules of each chain, by number.
pub(super) struct NatChains<'a> {
    numbers: HashMap<Name<'a>, usize>,
    all: Vec<(Name<'a>, Vec<&'a Value>)>,
}

impl<'a> NatChains<'a> {
    /// The chains of a document.
    pub(super) fn of(document: &'a Value) -> Self {
        let names = objects(document, "chain").map(|chain| name(chain, "name"));
        let (mut numbers, mut all) = (HashMap::new(), Vec::new());
        for own in names {
            numbers.entry(own).or_insert_with(|| {
                all.push((own, Vec::new()));
                all.len() - 1
            });
        }
        for rule in objects(document, "rule") {
            if let Some(&number) = numbers.get(&name(rule, "chain")) {
                all[number].1.push(rule);
            }
        }
        Self { numbers, all }
    }

    pub(super) fn find(&self, name: Name<'_>) -> Option<usize> {
        self.numbers.get(&name).copied()
    }

    pub(super) fn name(&self, number: usize) -> Name<'a> {
        self.all[number].0
    }

    pub(super) fn rules(&self, number: usize) -> &[&'a Value] {
        &self.all[number].1
    }
}

/// The base chains with their hooks. Refuses chains whose order or policy would matter.
pub(super) fn base_chains<'a>(
    document: &'a Value,
    source: &SourceText,
    found: &mut NatRules,
) -> Vec<(Name<'a>, &'a str)> {
    let dormant = Dormant::of(document, source, |mistake| found.mistakes.push(mistake));
    let with_rules: HashSet<_> =
        objects(document, "rule").map(|rule| name(rule, "chain")).collect();
    let (mut hooks, mut order) = (Vec::new(), Vec::new());
    for chain in objects(document, "chain").filter(|chain| text(chain, "type") == "nat") {
        let (own, hook) = (name(chain, "name"), text(chain, "hook"));
        if !HOOKS.contains(&hook) || dormant.has(chain) {
            continue;
        }
        let policy = text(chain, "policy");
        if !matches!(policy, "" | "accept") {
            let (chain, policy) = (chain_name(own), short(policy));
            let why = format!("{chain}: not supported: the policy {policy}");
            found.mistakes.push(source.whole(why));
        }
        hooks.push((own, hook));
        if with_rules.contains(&own) {
            order.push((own, hook));
        }
    }
    for why in HOOKS.iter().filter_map(|hook| second(&order, hook)) {
        found.mistakes.push(source.whole(why));
    }
    hooks
}

/// Reports two chains of one hook that packets of one version meet: their priority would decide.
fn second(order: &[(Name<'_>, &str)], hook: &str) -> Option<String> {
    [(4, "ip"), (6, "ip6")].into_iter().find_map(|(version, family)| {
        let fits = |(own, at): &&(Name<'_>, &str)| *at == hook && [family, "inet"].contains(&own.0);
        let mut all = order.iter().filter(fits).map(|(own, _)| chain_name(*own));
        let (first, second) = (all.next()?, all.next()?);
        Some(format!(
            "two base chains of hook {hook} for IPv{version}, which is not supported: {first} and \
             {second}"
        ))
    })
}
