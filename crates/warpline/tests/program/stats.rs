//! What every `--stats` file must be like: the documented keys, their types, sums that balance.

use serde_json::Value;

use crate::harness::Demo;

/// Keys of the file, as `path: type`; `*` stands for any key.
const FORM: &[(&str, &str)] = &[("schema", "whole"), ("seconds", "number"), ("chains", "list")];

const CHAIN: &[(&str, &str)] = &[
    ("name", "string"),
    ("duration", "number"),
    ("ended", "string"),
    ("lanes", "whole"),
    ("seed", "whole"),
    ("cores", "list"),
    ("packets", "table"),
    ("overload", "counts"),
    ("bytes", "table"),
    ("time", "table"),
    ("rate", "table"),
    ("latency_us", "table"),
    ("functions", "list"),
    ("transfers", "table"),
    ("warnings", "strings"),
    ("errors", "strings"),
];

const TABLES: &[(&str, &[(&str, &str)])] = &[
    (
        "packets",
        &[
            ("read", "whole"),
            ("generated", "whole"),
            ("sent", "whole"),
            ("absorbed", "whole"),
            ("dropped", "whole"),
            ("malformed", "whole"),
            ("overload", "whole"),
            ("unwritten", "whole"),
            ("in_flight", "whole"),
            ("balanced", "bool"),
        ],
    ),
    ("bytes", &[("read", "whole"), ("sent", "whole")]),
    ("time", &[("strays", "whole"), ("gaps", "whole"), ("steps_back", "whole")]),
    ("rate", &[("gbps", "number"), ("mpps", "number")]),
    ("latency_us", &[("p50", "number"), ("p95", "number"), ("p99", "number"), ("max", "number")]),
    ("transfers", TRANSFERS),
];

const TRANSFERS: &[(&str, &str)] = &[
    ("to_device_bytes", "whole"),
    ("to_host_bytes", "whole"),
    ("predicted_to_device_bytes", "whole"),
    ("predicted_to_host_bytes", "whole"),
    ("besides_to_device_bytes", "whole"),
    ("besides_to_host_bytes", "whole"),
    ("missing_bytes", "whole"),
    ("predicted_missing_bytes", "whole"),
    ("fetched_bytes", "whole"),
    ("predicted_fetched_bytes", "whole"),
    ("launches", "whole"),
    ("streams", "whole"),
];

const FUNCTION: &[(&str, &str)] = &[
    ("name", "string"),
    ("function", "string"),
    ("device", "string"),
    ("packets_in", "whole"),
    ("packets_out", "whole"),
    ("generated", "whole"),
    ("absorbed", "whole"),
    ("drops", "counts"),
    ("malformed", "counts"),
    ("busy_seconds", "number"),
    ("counters", "counts"),
    ("tables", "table"),
    ("about", "table"),
    ("transfers", "table"),
];

/// Reads a file of statistics: its form must be the documented one and its sums must balance.
#[track_caller]
pub(crate) fn read(demo: &Demo, name: &str) -> Value {
    let stats: Value = serde_json::from_slice(&demo.read(name)).unwrap();
    has_form(&stats, FORM);
    assert_eq!(stats["schema"], 1);
    for chain in stats["chains"].as_array().unwrap() {
        has_form(chain, CHAIN);
        TABLES.iter().for_each(|(table, form)| has_form(&chain[table], form));
        for function in chain["functions"].as_array().unwrap() {
            has_form(function, FUNCTION);
            has_form(&function["transfers"], TRANSFERS);
        }
        balances(chain);
    }
    stats
}

/// Exactly the keys of `form`, each of its type.
#[track_caller]
fn has_form(value: &Value, form: &[(&str, &str)]) {
    let table = value.as_object().unwrap();
    let keys: Vec<&str> = table.keys().map(String::as_str).collect();
    let expected: Vec<&str> = form.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, expected);
    for (key, kind) in form {
        let value = &table[*key];
        let fits = match *kind {
            "whole" => value.is_u64(),
            "number" => value.as_f64().is_some_and(|x| x >= 0.0),
            "string" => value.is_string(),
            "bool" => value.is_boolean(),
            "list" => value.is_array(),
            "table" => value.is_object(),
            "counts" => value.as_object().is_some_and(|t| t.values().all(Value::is_u64)),
            "strings" => value.as_array().is_some_and(|l| l.iter().all(Value::is_string)),
            other => panic!("no such type: {other}"),
        };
        assert!(fits, "{key} is to be a {kind}: {value}");
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
    assert_eq!(count("dropped"), all("drops"));
    assert_eq!(count("malformed"), all("malformed"));
    assert_eq!(count("overload"), sum(&chain["overload"]));
    for (key, _) in TRANSFERS {
        let each = functions.iter().map(|f| whole(&f["transfers"][*key]));
        assert_eq!(each.sum::<u64>(), whole(&chain["transfers"][*key]), "{key}");
    }
}

pub(crate) fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().unwrap().values().map(whole).sum()
}

/// The same without what depends on the clock and on the number of lanes.
pub(crate) fn timeless(mut stats: Value) -> Value {
    stats["seconds"] = Value::Null;
    for chain in stats["chains"].as_array_mut().unwrap() {
        for key in ["duration", "rate", "latency_us", "lanes"] {
            chain[key] = Value::Null;
        }
        for function in chain["functions"].as_array_mut().unwrap() {
            function["busy_seconds"] = Value::Null;
            function["about"]["load_seconds"] = Value::Null;
        }
    }
    stats
}
