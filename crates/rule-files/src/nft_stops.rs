//! Rules by which a packet that enters a chain is not forwarded, or tracked otherwise.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::nft_value::list;

/// Family, table and name of a chain or a map.
type Name<'a> = (&'a str, &'a str, &'a str);

/// Verdicts and statements that stop a packet so.
const STOPS: [&str; 7] = ["drop", "reject", "queue", "notrack", "tproxy", "synproxy", "fwd"];

/// The first rule that stops packets in chain `first` or in one that it leads to. `rules_of` gives
/// those of a chain, and none if there is no such chain: no packet comes there.
pub(crate) fn first_stop<'a, 'r>(
    first: Name<'a>,
    rules_of: impl Fn(Name<'a>) -> &'r [&'a Value],
    maps: &HashMap<Name<'a>, &'a Value>,
) -> Option<&'a Value>
where
    'a: 'r,
{
    let (family, table, _) = first;
    let (mut due, mut seen) = (vec![first], BTreeSet::from([first]));
    let mut seen_maps = BTreeSet::new();
    while let Some(chain) = due.pop() {
        for &rule in rules_of(chain) {
            let mut found = Found::default();
            found.take(list(rule.get("expr")));
            while let Some(map) = found.maps.pop() {
                if seen_maps.insert(map)
                    && let Some(map) = maps.get(&(family, table, map))
                {
                    found.take(list(map.get("elem")));
                }
            }
            if found.stops {
                return Some(rule);
            }
            let next = found.chains.into_iter().map(|name| (family, table, name));
            due.extend(next.filter(|chain| seen.insert(*chain)));
        }
    }
    None
}

/// The effects of some statements, and of the elements of maps in them.
#[derive(Default)]
struct Found<'a> {
    stops: bool,
    /// Chains that they lead to.
    chains: Vec<&'a str>,
    /// Maps of verdicts that have a name.
    maps: Vec<&'a str>,
}

impl<'a> Found<'a> {
    fn take(&mut self, values: &'a [Value]) {
        values.iter().for_each(|value| self.take_one(value));
    }

    /// No deeper than JSON was read.
    fn take_one(&mut self, value: &'a Value) {
        match value {
            Value::Array(items) => self.take(items),
            Value::Object(fields) => {
                for (name, value) in fields {
                    let text = |key| value.get(key).and_then(Value::as_str);
                    match name.as_str() {
                        "jump" | "goto" => self.chains.extend(text("target")),
                        "vmap" => {
                            let named = text("data").and_then(|data| data.strip_prefix('@'));
                            self.maps.extend(named);
                        }
                        _ => {}
                    }
                    self.stops |= STOPS.contains(&name.as_str());
                    self.take_one(value);
                }
            }
            _ => {}
        }
    }
}
