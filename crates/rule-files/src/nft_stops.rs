//! Finds rules that keep a packet from being forwarded, or change how it is tracked or what other
//! rules see of it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::iptables::continues;
use crate::nft_value::{Sets, list};

/// Family, table and name of a chain or a map.
type Name<'a> = (&'a str, &'a str, &'a str);

/// Statements of chains that translate by which a packet is not forwarded.
const STOPS: [&str; 7] = ["drop", "reject", "queue", "notrack", "tproxy", "synproxy", "fwd"];
/// Statements of other chains that change nothing for other rules. Sets that rules change are
/// conditions of no rule that is read.
const PASSES: [&str; 11] = [
    "match", "counter", "limit", "quota", "ct count", "log", "set", "accept", "return", "continue",
    "comment",
];

/// The place that a packet comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place<'a> {
    Chain(Name<'a>),
    /// A verdict map that has a name.
    Map(Name<'a>),
}

/// Chains in which a packet may be stopped, or that lead to one, with a rule that does so. Each
/// rule and each map is looked at once.
pub(crate) fn stops<'a, 'r>(
    chains: impl Iterator<Item = (Name<'a>, &'r [&'a Value])> + Clone,
    sets: &Sets<'a>,
    is_nat: bool,
) -> HashMap<Name<'a>, &'a Value>
where
    'a: 'r,
{
    let known: HashSet<Name<'_>> = chains.clone().map(|(chain, _)| chain).collect();
    let mut ways = Ways { known, ..Ways::default() };
    let mut maps = Vec::new();
    for (chain, rules) in chains {
        for &rule in rules {
            let mut leads = Leads { to: Vec::new(), is_nat };
            let statements = list(rule.get("expr"));
            let passes = statements.iter().all(|statement| leads.passes(statement));
            let is_known = ways.take(Place::Chain(chain), Some(rule), leads.to, &mut maps);
            if !passes || !is_known {
                ways.stop(Place::Chain(chain), Some(rule));
                break;
            }
        }
    }
    let mut seen = HashSet::new();
    while let Some(map) = maps.pop() {
        if !seen.insert(map) {
            continue;
        }
        let (family, table, name) = map;
        let mut leads = Leads { to: Vec::new(), is_nat };
        let elements = sets.named((family, table), name);
        let passes = elements.is_ok_and(|all| all.iter().all(|one| leads.element_passes(one)));
        let is_known = ways.take(Place::Map(map), None, leads.to, &mut maps);
        if !passes || !is_known {
            ways.stop(Place::Map(map), None);
        }
    }
    ways.stops()
}

/// How packets go from place to place.
#[derive(Default)]
struct Ways<'a> {
    known: HashSet<Name<'a>>,
    /// By place, those that lead to it, with the rule.
    from: HashMap<Place<'a>, Vec<(Place<'a>, Option<&'a Value>)>>,
    /// Places that stop packets, with the rule.
    stopped: HashMap<Place<'a>, Option<&'a Value>>,
    due: Vec<Place<'a>>,
}

impl<'a> Ways<'a> {
    fn stop(&mut self, place: Place<'a>, rule: Option<&'a Value>) {
        if let Entry::Vacant(entry) = self.stopped.entry(place) {
            entry.insert(rule);
            self.due.push(place);
        }
    }

    /// Adds ways of `place`, and the maps among them to `maps`. Returns whether all chains exist.
    fn take(
        &mut self,
        place: Place<'a>,
        rule: Option<&'a Value>,
        to: Vec<(bool, &'a str)>,
        maps: &mut Vec<Name<'a>>,
    ) -> bool {
        let (Place::Chain((family, table, _)) | Place::Map((family, table, _))) = place;
        let mut all_known = true;
        for (is_map, name) in to {
            let next = (family, table, name);
            all_known &= is_map || self.known.contains(&next);
            maps.extend(is_map.then_some(next));
            let next = if is_map { Place::Map(next) } else { Place::Chain(next) };
            self.from.entry(next).or_default().push((place, rule));
        }
        all_known
    }

    fn stops(mut self) -> HashMap<Name<'a>, &'a Value> {
        while let Some(place) = self.due.pop() {
            let rule = self.stopped.get(&place).copied().flatten();
            for (from, own) in self.from.remove(&place).unwrap_or_default() {
                self.stop(from, rule.or(own));
            }
        }
        let of_chain = |(place, rule): (Place<'a>, Option<&'a Value>)| match place {
            Place::Chain(chain) => Some((chain, rule?)),
            Place::Map(_) => None,
        };
        self.stopped.into_iter().filter_map(of_chain).collect()
    }
}

/// The chains, and the maps, that statements lead to: by name, true for a map.
struct Leads<'a> {
    to: Vec<(bool, &'a str)>,
    is_nat: bool,
}

impl<'a> Leads<'a> {
    /// Whether a packet continues after `statement`, or where it leads.
    fn passes(&mut self, statement: &'a Value) -> bool {
        let Some(fields) = statement.as_object() else { return self.is_nat };
        fields.iter().all(|(name, value)| match name.as_str() {
            "jump" | "goto" => self.goes_to(value),
            "vmap" => match value.get("data") {
                Some(Value::String(name)) => {
                    self.to.push((true, name.trim_start_matches('@')));
                    true
                }
                Some(data) => list(data.get("set")).iter().all(|one| self.element_passes(one)),
                None => false,
            },
            name if self.is_nat => !STOPS.contains(&name),
            "mangle" => changes_nothing_seen(value),
            "xt" => is_passing_extension(value),
            name => PASSES.contains(&name),
        })
    }

    fn goes_to(&mut self, value: &'a Value) -> bool {
        let target = value.get("target").and_then(Value::as_str);
        self.to.extend(target.map(|target| (false, target)));
        target.is_some()
    }

    /// The same for an element of a verdict map: a key and a verdict.
    fn element_passes(&mut self, element: &'a Value) -> bool {
        let [_, verdict] = list(Some(element)) else { return false };
        let fields = verdict.as_object();
        fields.is_some_and(|fields| {
            fields.iter().all(|(name, value)| match name.as_str() {
                "jump" | "goto" => self.goes_to(value),
                name => ["accept", "return", "continue"].contains(&name),
            })
        })
    }
}

/// Whether no condition that is read, and no route, depends on what a `mangle` statement changes.
fn changes_nothing_seen(value: &Value) -> bool {
    let key = value.get("key").unwrap_or(&Value::Null);
    let is_one = |kind: &str, part: &str, allowed: &[&str]| {
        let part = key.get(kind).and_then(|own| own.get(part)).and_then(Value::as_str);
        part.is_some_and(|part| allowed.contains(&part))
    };
    is_one("meta", "key", &["mark", "priority", "nftrace", "secmark"])
        || is_one("ct", "key", &["mark", "label", "secmark"])
        || is_one("payload", "field", &["dscp", "ecn"])
        || key.get("tcp option").is_some()
}

/// Whether an extension of iptables is a condition, or a target after which packets go on.
fn is_passing_extension(value: &Value) -> bool {
    let text = |key| value.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "match" | "watcher" => true,
        "target" => continues(text("name")),
        _ => false,
    }
}
