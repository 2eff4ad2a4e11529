//! Requirements of every `--stats` file: the documented keys, their types, sums that balance.

use serde_json::Value;

use crate::counters::is_of_words;
use crate::harness::Demo;

/// The documented form of the file.
const SCHEMA: &str = include_str!("../../../../docs/src/reference/statistics.schema.json");
/// The documented form of answers of `ctl`.
const CONTROL_SCHEMA: &str = include_str!("../../../../docs/src/reference/control.schema.json");

/// Reads a file of statistics: its form must be the documented one and its sums must balance.
#[track_caller]
pub(crate) fn read(demo: &Demo, name: &str) -> Value {
    let stats: Value = serde_json::from_slice(&demo.read(name)).unwrap();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mistake = mismatch(&schema, &schema, &stats, "");
    assert_eq!(mistake, None);
    stats["chains"].as_array().unwrap().iter().for_each(balances);
    stats
}

/// Checks an answer of `ctl` against its documented form.
#[track_caller]
pub(crate) fn check_answer(request: &str, answer: &Value) {
    let schema: Value = serde_json::from_str(CONTROL_SCHEMA).unwrap();
    let form = match request {
        "stop" | "pause" | "resume" => "done",
        "place" | "policy" => "move",
        other => other,
    };
    assert_eq!(mismatch(&schema, &schema["$defs"][form], answer, ""), None, "{request}");
}

/// The pattern of reasons and counters.
const NAME: &str = "^[a-z0-9]+(-[a-z0-9]+)*$";

/// The first difference of `value` from `schema`, if any. Only the keywords of our schema are
/// supported.
fn mismatch(root: &Value, schema: &Value, value: &Value, path: &str) -> Option<String> {
    let wrong = |why: &str| Some(format!("{path}: {why}: {value}"));
    schema.as_object().unwrap().iter().find_map(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" => None,
        "$ref" => {
            let (file, place) = rule.as_str().unwrap().split_once('#').unwrap();
            let other: Option<Value> = match file {
                "" => None,
                "statistics.schema.json" => Some(serde_json::from_str(SCHEMA).unwrap()),
                other => panic!("no file {other}"),
            };
            let root = other.as_ref().unwrap_or(root);
            mismatch(root, root.pointer(place).unwrap(), value, path)
        }
        "const" => {
            if value == rule {
                None
            } else {
                wrong("another constant")
            }
        }
        "enum" => {
            if rule.as_array().unwrap().contains(value) {
                None
            } else {
                wrong("no such choice")
            }
        }
        "minimum" => {
            value.as_f64().filter(|n| *n < rule.as_f64().unwrap()).and_then(|_| wrong("too small"))
        }
        "type" => {
            if has_type(value, rule) {
                None
            } else {
                wrong("another type")
            }
        }
        "anyOf" => {
            let mut all = rule.as_array().unwrap().iter();
            if all.any(|one| mismatch(root, one, value, path).is_none()) {
                None
            } else {
                wrong("no form fits")
            }
        }
        "items" => {
            let items = value.as_array().into_iter().flatten().enumerate();
            items
                .into_iter()
                .find_map(|(at, item)| mismatch(root, rule, item, &format!("{path}/{at}")))
        }
        "required" => {
            let names = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            names
                .into_iter()
                .find(|name| value.get(name).is_none())
                .and_then(|name| wrong(&format!("lacks {name}")))
        }
        "properties" => rule.as_object().unwrap().iter().find_map(|(name, own)| {
            mismatch(root, own, value.get(name)?, &format!("{path}/{name}"))
        }),
        "pattern" => {
            assert_eq!(rule, NAME, "the only pattern that the test knows");
            if value.as_str().is_some_and(|name| is_of_words(name, '-')) {
                None
            } else {
                wrong("no name in kebab-case")
            }
        }
        "propertyNames" => {
            let mut names = value.as_object().into_iter().flatten();
            names.find_map(|(name, _)| mismatch(root, rule, &Value::from(name.as_str()), path))
        }
        "additionalProperties" => {
            let known = schema.get("properties").and_then(Value::as_object);
            let is_more = |name: &String| known.is_none_or(|known| !known.contains_key(name));
            let more = value.as_object().into_iter().flatten().filter(|(name, _)| is_more(name));
            more.into_iter().find_map(|(name, own)| match rule {
                Value::Bool(false) => wrong(&format!("has {name}")),
                rule => mismatch(root, rule, own, &format!("{path}/{name}")),
            })
        }
        other => panic!("the schema has {other}: teach the test"),
    })
}

fn has_type(value: &Value, types: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        other => panic!("no type {other}"),
    };
    match types {
        Value::Array(types) => types.iter().any(|name| is(name.as_str().unwrap())),
        name => is(name.as_str().unwrap()),
    }
}

#[test]
fn a_form_that_is_not_documented_is_found() {
    let demo = Demo::new();
    demo.warpline("run --stats s.json").expect(0);
    let stats = read(&demo, "s.json");
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let changes: [(&str, Value); 6] = [
        ("/chains/0/packets/read", Value::from(-1)),
        ("/chains/0/ended", Value::from("somehow")),
        ("/chains/0/functions/0/drops", serde_json::json!({ "rule": "many" })),
        ("/chains/0/functions/0/counters", serde_json::json!({ "icmp_sent": 1 })),
        ("/chains/0/bytes", serde_json::json!({ "read": 1 })),
        ("/chains/0/rate", serde_json::json!({ "gbps": 1, "mpps": 2, "kpps": 3 })),
    ];
    for (place, value) in changes {
        let mut wrong = stats.clone();
        *wrong.pointer_mut(place).unwrap() = value;
        assert!(mismatch(&schema, &schema, &wrong, "").is_some(), "{place}");
    }
}

/// The sums, of the chain and of each function.
#[track_caller]
fn balances(chain: &Value) {
    let count = |key: &str| whole(&chain["packets"][key]);
    let ends = ["sent", "absorbed", "dropped", "malformed", "overload", "unwritten", "in_flight"];
    assert_eq!(count("read") + count("generated"), ends.map(count).iter().sum::<u64>(), "{chain}");
    assert_eq!(count("in_flight"), 0);
    assert_eq!(chain["packets"]["balanced"], true);
    let functions = chain["functions"].as_array().unwrap();
    for f in functions {
        let lost = sum(&f["drops"]) + sum(&f["malformed"]) + whole(&f["absorbed"]);
        assert_eq!(whole(&f["packets_in"]), whole(&f["packets_out"]) + lost, "{f}");
    }
    let all = |key: &str| functions.iter().map(|f| sum(&f[key])).sum::<u64>();
    let at_ends = sum(&chain["ingress_drops"]) + sum(&chain["egress_drops"]);
    assert_eq!(count("dropped"), all("drops") + at_ends);
    assert_eq!(count("malformed"), all("malformed"));
    assert_eq!(count("overload"), sum(&chain["overload"]));
    for (key, all) in chain["transfers"].as_object().unwrap() {
        let each = functions.iter().map(|f| whole(&f["transfers"][key]));
        assert_eq!(each.sum::<u64>(), whole(all), "{key}");
    }
}

pub(crate) fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().unwrap().values().map(whole).sum()
}

/// The same without values that depend on the clock, on the number of lanes and on memory.
pub(crate) fn timeless(mut stats: Value) -> Value {
    stats["seconds"] = Value::Null;
    for chain in stats["chains"].as_array_mut().unwrap() {
        let of_time = ["duration", "rate", "latency_us", "lanes", "huge_pages"];
        for key in of_time.into_iter().chain(["source", "stages", "bottleneck"]) {
            chain[key] = Value::Null;
        }
        for function in chain["functions"].as_array_mut().unwrap() {
            function["busy_seconds"] = Value::Null;
            function["about"]["load_seconds"] = Value::Null;
        }
    }
    stats
}
