//! The profile of a machine as a file: what `warpline devices --measure --profile FILE` stores, and
//! `[plan] profile` names.

use serde_json::{Value, json};
use warpline_device::{Description, Speeds, apart_id};
use warpline_nf::Section;
use warpline_sched::{FieldSpeeds, GatherSpeeds, LinkSpeeds, Profile};

use crate::device_keys;

/// Version of the file's form; it grows when a meaning changes, not when something is added.
const SCHEMA: u64 = 2;

/// The remedy for an unusable profile.
const HELP: &str = "`warpline devices --measure --profile FILE` makes one of this machine";

/// The copy speeds of devices and the host, as JSON text.
pub(crate) fn to_json(devices: &[(&Description, Speeds)], gather: Option<GatherSpeeds>) -> String {
    format!("{:#}\n", to_value(devices, gather))
}

/// The same as a value.
pub(crate) fn to_value(devices: &[(&Description, Speeds)], gather: Option<GatherSpeeds>) -> Value {
    let device = |(about, speeds): &(&Description, Speeds)| {
        json!({
            "id": about.id,
            "name": about.name,
            "uuid": about.uuid,
            "driver": about.driver,
            "shares_host_memory": about.shares_host_memory,
            "runs_on_cpu": about.runs_on_cpu,
            "to_device_bytes_per_s": speeds.both_in,
            "to_host_bytes_per_s": speeds.both_out,
            "each_copy_s": speeds.each_copy,
        })
    };
    let devices: Vec<Value> = devices.iter().map(device).collect();
    let gather = gather.map(|of| {
        json!({
            "gather_packet_s": of.gather.packet,
            "gather_field_s": of.gather.field,
            "put_packet_s": of.put.packet,
            "put_field_s": of.put.field,
            "byte_s": of.byte,
        })
    });
    json!({ "schema": SCHEMA, "cpu": cpu(), "host": gather, "devices": devices })
}

/// The name of this machine's processor, if the system reports it.
fn cpu() -> Option<String> {
    let all = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let of_name =
        |line: &str| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned());
    all.lines().find_map(of_name)
}

/// The profile that the table's `profile` names; that of a machine of which nothing is known where
/// it names none.
pub(crate) fn read(section: &mut Section<'_>) -> Profile {
    let Some(file) = section.file("profile") else { return Profile::default() };
    let read = warpline_sim::json::parse(&file.text)
        .map_err(|why| format!("{}, {why}", file.name))
        .and_then(|json| of_json(&json).map_err(|why| format!("{}: {why}", file.name)));
    read.unwrap_or_else(|why| {
        section.mistake("profile", format!("`profile`: {why}; {HELP}"));
        Profile::default()
    })
}

fn of_json(json: &Value) -> Result<Profile, String> {
    check_schema(json)?;
    check_machine(json)?;
    speeds(json)
}

/// Whether this program reads the file's version.
///
/// # Errors
/// It does not.
pub(crate) fn check_schema(json: &Value) -> Result<(), String> {
    if json["schema"] != SCHEMA {
        return Err(format!("`schema` is not {SCHEMA}: not a profile, or one of another version"));
    }
    Ok(())
}

/// Whether the file was measured on this machine.
///
/// # Errors
/// The hardware that differs.
pub(crate) fn check_machine(json: &Value) -> Result<(), String> {
    let (there, here) = (json["cpu"].as_str(), cpu());
    if there != here.as_deref() {
        let [there, here] = [there, here.as_deref()].map(|name| name.unwrap_or("unknown"));
        return Err(format!(
            "it was measured on another machine: the processor is {there:?} there and {here:?} here"
        ));
    }
    for device in json["devices"].as_array().into_iter().flatten() {
        let text = |name: &str| device[name].as_str();
        if let (Some(id), Some(name)) = (text("id"), text("name")) {
            check_is_here(id, name, text("uuid"))?;
        }
    }
    Ok(())
}

/// The copy speeds of the file.
///
/// # Errors
/// A value that is missing or impossible.
pub(crate) fn speeds(json: &Value) -> Result<Profile, String> {
    let number = |value: &Value, name: &str| {
        value[name].as_f64().ok_or_else(|| format!("`{name}` is missing or not a number"))
    };
    let rate = |value: &Value, name: &str| {
        let own = number(value, name)?;
        let mistake = "rates must be 1 to 10^15 bytes a second";
        (1.0..=1e15)
            .contains(&own)
            .then_some(own)
            .ok_or_else(|| format!("`{name}`: {mistake}, found {own}"))
    };
    let time = |value: &Value, name: &str| {
        let own = number(value, name)?;
        let is_sound = (0.0..=1.0).contains(&own);
        is_sound
            .then_some(own)
            .ok_or_else(|| format!("`{name}`: times must be 0 to 1 s, found {own}"))
    };
    let mut links = Vec::new();
    for device in json["devices"].as_array().ok_or("`devices` is not a list")? {
        let text =
            |name: &str| device[name].as_str().ok_or_else(|| format!("a device has no `{name}`"));
        let id = text("id")?;
        text("name")?;
        let speeds = |id: String| -> Result<LinkSpeeds, String> {
            Ok(LinkSpeeds {
                device: id,
                to_device: rate(device, "to_device_bytes_per_s")?,
                to_host: rate(device, "to_host_bytes_per_s")?,
                each_copy: time(device, "each_copy_s")?,
            })
        };
        // With `in_place = false` the copies are the same, and the name is another.
        links.extend([speeds(id.to_owned())?, speeds(apart_id(id))?]);
    }
    let gather = match &json["host"] {
        Value::Null => None,
        host => Some(GatherSpeeds {
            gather: FieldSpeeds {
                packet: time(host, "gather_packet_s")?,
                field: time(host, "gather_field_s")?,
            },
            put: FieldSpeeds {
                packet: time(host, "put_packet_s")?,
                field: time(host, "put_field_s")?,
            },
            byte: time(host, "byte_s")?,
        }),
    };
    Ok(Profile { links, gather })
}

/// A device that is not here was not measured here; one that chains don't name does no harm.
fn check_is_here(id: &str, name: &str, uuid: Option<&str>) -> Result<(), String> {
    let Some(here) = device_keys::description(id) else { return Ok(()) };
    if here.name == name && here.uuid.as_deref() == uuid {
        return Ok(());
    }
    let uuid_of = |uuid: Option<&str>| uuid.map(|uuid| format!(" ({uuid})")).unwrap_or_default();
    Err(format!(
        "it was measured on another machine: {id} is {:?}{} there and {:?}{} here",
        name,
        uuid_of(uuid),
        here.name,
        uuid_of(here.uuid.as_deref())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(rate: &str, name: &str) -> Value {
        let device = format!(
            r#"{{"id": "host", "name": {name:?}, "uuid": null, "to_device_bytes_per_s": {rate},
                "to_host_bytes_per_s": 2e10, "each_copy_s": 1e-7}}"#
        );
        let device: Value = serde_json::from_str(&device).expect("JSON");
        json!({ "schema": SCHEMA, "cpu": cpu(), "host": null, "devices": [device] })
    }

    #[test]
    fn a_profile_of_another_machine_is_refused_by_device() {
        let Some(here) = device_keys::description("host") else { return };
        assert_eq!(of_json(&profile("1e10", &here.name)).map(|all| all.links.len()), Ok(2));
        let reported = of_json(&profile("1e10", "another processor")).unwrap_err();
        assert!(reported.contains("another machine: host is \"another processor\""), "{reported}");
    }

    #[test]
    fn files_that_are_no_profiles_are_refused() {
        let name = device_keys::description("host").map(|here| here.name.clone());
        let name = name.unwrap_or_else(|| "none".into());
        for (json, why) in [
            (json!({}), "`schema` is not"),
            (
                json!({ "schema": SCHEMA, "cpu": "none such" }),
                "another machine: the processor is \"none such\"",
            ),
            (json!({ "schema": SCHEMA, "cpu": cpu() }), "`devices` is not a list"),
            (json!({ "schema": SCHEMA, "cpu": cpu(), "devices": [{}] }), "no `id`"),
            (
                json!({ "schema": SCHEMA, "cpu": cpu(), "devices": [], "host": {} }),
                "`gather_packet_s` is missing or not a number",
            ),
            (profile("0", &name), "rates must be 1 to 10^15"),
            (profile("1e-300", &name), "rates must be 1 to 10^15"),
            (profile("\"fast\"", &name), "`to_device_bytes_per_s` is missing or not a number"),
        ] {
            let reported = of_json(&json).unwrap_err();
            assert!(reported.contains(why), "{json}: {reported}");
        }
    }
}
