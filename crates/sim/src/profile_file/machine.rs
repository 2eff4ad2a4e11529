//! The profile that `warpline profile` writes of a machine, in the form of [`super::WorkFile`].

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::threads::{self, ThreadTimes};
use super::{At, Result};

/// The version of its form.
pub(super) const SCHEMA: u64 = 2;

/// The same measurements, links and power. Missing values are left to the reader of
/// [`super::WorkFile`].
pub(super) fn converted(machine: &Value) -> Value {
    let works = machine["measurements"].as_array().map_or(&[][..], Vec::as_slice);
    let names = works.iter().flat_map(|one| [&one["function"], &one["beside"]["function"]]);
    let functions: BTreeSet<&str> = names.filter_map(Value::as_str).collect();
    let mut devices = vec![device("cpu", &machine["cpu_power"], Value::Null)];
    for one in machine["devices"].as_array().map_or(&[][..], Vec::as_slice) {
        let link = match one["shares_host_memory"] == true {
            true => Value::Null,
            false => kept(one, &["to_device_bytes_per_s", "to_host_bytes_per_s", "each_copy_s"]),
        };
        devices.push(device(one["id"].as_str().unwrap_or_default(), one, link));
    }
    let part = |key: &str| machine[key].as_str().unwrap_or("unknown");
    json!({
        "schema": super::SCHEMA,
        "kind": "measured",
        "title": format!("{}, {}", part("cpu"), part("date")),
        "functions": functions,
        "host": machine["host"],
        "threads": threads(&machine["threads"], &functions),
        "devices": devices,
        "measurements": works.iter().map(measurement).collect::<Vec<_>>(),
    })
}

impl ThreadTimes {
    /// Those of a profile that `warpline profile` wrote, if it has them. Devices are numbered from
    /// the CPU on, in the file's order.
    ///
    /// # Errors
    /// The first mistake in them, with the path of its value.
    pub fn of_machine(machine: &Value) -> Result<Option<Self>> {
        let own = converted(machine);
        let names = |list: &Value, of: fn(&Value) -> &Value| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            all.map(|one| of(one).as_str().unwrap_or_default().to_owned()).collect()
        };
        let functions = names(&own["functions"], |name| name);
        let devices = names(&own["devices"], |device| &device["name"]);
        let at = At { value: &own["threads"], path: "threads".to_owned() };
        threads::read(&at, &functions, &devices)
    }
}

/// Without functions that have no other measurement.
fn threads(machine: &Value, functions: &BTreeSet<&str>) -> Value {
    let mut own = machine.clone();
    if let Some(all) = own.get_mut("functions").and_then(Value::as_array_mut) {
        all.retain(|one| one["function"].as_str().is_none_or(|name| functions.contains(name)));
    }
    own
}

fn device(name: &str, about: &Value, link: Value) -> Value {
    let (idle_w, busy_w) = (&about["idle_w"], &about["busy_w"]);
    let on_cpu = &about["runs_on_cpu"];
    json!({
        "name": name, "idle_w": idle_w, "busy_w": busy_w, "link": link, "runs_on_cpu": on_cpu,
    })
}

fn measurement(one: &Value) -> Value {
    let keys = [
        "function",
        "device",
        "launch_packets",
        "packet_len",
        "share",
        "seconds",
        "beside",
        "gbps",
        "latency_us",
    ];
    let mut own = kept(one, &keys);
    let scaled = |key: &str, factor: f64| one[key].as_f64().map(|value| json!(value / factor));
    for (key, value) in
        [("gbps", scaled("bits_per_s", 1e9)), ("latency_us", scaled("latency_ns", 1e3))]
    {
        if let Some(value) = value {
            own[key] = value;
        }
    }
    own
}

fn kept(of: &Value, keys: &[&str]) -> Value {
    let own = keys.iter().map(|&key| (key.to_owned(), of[key].clone()));
    Value::Object(own.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::super::WorkFile;

    const MACHINE: &str = r#"{"schema": 2, "cpu": "A CPU", "date": "2026-11-27T16:00:00Z",
        "host": null, "cpu_power": {"idle_w": 30.0, "busy_w": 90.0}, "devices": [
            {"id": "host", "name": "A CPU", "shares_host_memory": true, "uuid": null,
             "runs_on_cpu": true,
             "to_device_bytes_per_s": 1e10, "to_host_bytes_per_s": 1e10, "each_copy_s": 1e-7},
            {"id": "cuda:0", "name": "A GPU", "shares_host_memory": false, "uuid": "x",
             "to_device_bytes_per_s": 2e10, "to_host_bytes_per_s": 2e10, "each_copy_s": 1e-6}],
        "measurements": [
            {"function": "router", "device": "cpu", "launch_packets": 256, "packet_len": 64,
             "beside": null, "gbps": 4.0, "latency_us": 40.0, "share": 1.0, "seconds": 2.0,
             "spread": 0.1},
            {"function": "router", "device": "cuda:0", "launch_packets": 1024, "packet_len": 64,
             "beside": {"function": "nat", "count": 3}, "bits_per_s": 2e10, "latency_ns": 5e4,
             "share": 0.5, "seconds": 2.0, "spread": null}]}"#;

    #[test]
    fn the_profile_of_a_machine_is_read() {
        let file = WorkFile::parse(MACHINE).expect("sound");
        assert_eq!(file.title, "A CPU, 2026-11-27T16:00:00Z");
        assert_eq!(file.work.functions(), ["nat", "router"]);
        assert_eq!(file.work.devices()[0].power.busy_w, Some(90.0));
        assert_eq!(file.on_cpu, [false, true, false]);
        assert!(file.links[1].is_none() && file.links[2].is_some() && !file.is_paper);
        let all: Vec<_> = file.work.measurements().collect();
        assert_eq!((all.len(), all[0].figures.bits_per_s), (2, 4e9));
        let beside = all[1].figures;
        assert_eq!((beside.bits_per_s, beside.latency_ns, beside.share), (2e10, 5e4, 0.5));
    }

    #[test]
    fn its_mistakes_are_named_as_those_of_the_form() {
        let reported =
            |from, to| WorkFile::parse(&MACHINE.replace(from, to)).expect_err(to).to_string();
        assert!(
            reported("\"gbps\": 4.0", "\"gbps\": -4").contains("`measurements[0].gbps` must be")
        );
        assert!(
            reported("\"id\": \"cuda:0\"", "\"id\": \"cuda:1\"").contains("no device \"cuda:0\"")
        );
        assert!(reported("\"schema\": 2", "\"schema\": 3").contains("`schema` must be 1 or 2"));
        let none = MACHINE.split("\"measurements\"").next().expect("a text").to_owned();
        let none = WorkFile::parse(&(none + "\"measurements\": []}")).expect_err("no measurement");
        assert!(none.to_string().contains("`functions` must have 1 to 256 entries"), "{none}");
    }
}
