//! `warpline devices`: what this machine has to run kernels on, and why it has not more.

use std::path::Path;

use serde_json::{Map, Value, json};
use warpline_device::power::{Rapl, Reading, of_device};
use warpline_device::{
    Description, Device, Failure as DeviceFailure, Missing, Speeds, find, measure, self_test,
};

use warpline_engine::gather_speeds;

use super::{say, say_json};
use crate::writes::write_file;
use crate::{Failure, profile_file};

/// Version of the JSON form; it grows when a meaning changes, not when something is added.
pub(super) const SCHEMA: u32 = 1;

/// Prints the devices in words or as JSON. Measurements are also written to the file `profile`, if
/// one is named.
pub(crate) fn devices(measured: bool, json: bool, profile: Option<&Path>) -> Result<(), Failure> {
    let found = find();
    let looked: Vec<Looked> =
        found.devices.iter().map(|device| look(&**device, measured)).collect();
    let cpu = Rapl::open();
    profile.map_or(Ok(()), |file| store(&looked, file))?;
    if json {
        say_json(&in_json(&looked, &found.missing, &cpu).to_string())?;
    } else {
        looked.iter().try_for_each(|one| say(&describe(one)))?;
        found
            .missing
            .iter()
            .try_for_each(|(kind, why)| say(&format!("{kind}: not available: {why}")))?;
        say(&format!(
            "cpu energy: {}",
            cpu.as_ref().map_or_else(unknown, |_| "RAPL can be read".into())
        ))?;
    }
    let failed: Vec<&str> =
        looked.iter().filter(|one| one.tested.is_err()).map(Looked::id).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("self-test failed: {}", failed.join(", ")))),
    }
}

/// Writes what was measured to a file.
fn store(looked: &[Looked], file: &Path) -> Result<(), Failure> {
    let speeds = |one: &Looked| Some(*one.speeds.as_ref()?.as_ref().ok()?);
    let measured = looked.iter().filter_map(|one| Some((&one.description, speeds(one)?)));
    let measured: Vec<(&Description, Speeds)> = measured.collect();
    let text = profile_file::to_json(&measured, gather_speeds());
    write_file(file, &text)
}

/// A device, looked at.
struct Looked {
    description: Description,
    tested: Result<(), DeviceFailure>,
    power: Reading,
    speeds: Option<Result<Speeds, DeviceFailure>>,
}

impl Looked {
    fn id(&self) -> &str {
        &self.description.id
    }
}

fn look(device: &dyn Device, measured: bool) -> Looked {
    let description = device.description().clone();
    let tested = self_test(device);
    let power = of_device(&description);
    let speeds = (measured && tested.is_ok()).then(|| measure(device));
    Looked { description, tested, power, speeds }
}

fn describe(looked: &Looked) -> String {
    let Looked { description: device, tested, power, speeds } = looked;
    let mut text = format!("{device}\n  driver     {}\n", device.driver);
    let shared = if device.shares_host_memory { ", the host's" } else { "" };
    let (memory, largest) = (size(device.memory), size(device.buffer_max));
    text += &format!("  memory     {memory}{shared}; largest buffer {largest}\n");
    let (units, items, group) = (device.units, device.group_max, size(device.shared.into()));
    text += &format!("  units      {units}; groups of up to {items} items, with {group} shared\n");
    text += &format!(
        "  power      {}\n",
        power.power_w.as_ref().map_or_else(unknown, |w| format!("{w:.1} W"))
    );
    text += &format!(
        "  energy     {}\n",
        power.energy_j.as_ref().map_or_else(unknown, |j| format!("{j:.1} J counted"))
    );
    match speeds {
        Some(Ok(speeds)) => text += &format!("  copies     {}\n", in_words(speeds)),
        Some(Err(why)) => text += &format!("  copies     not measured: {why}\n"),
        None => {}
    }
    match tested {
        Ok(()) => text += "  self-test  passed\n",
        Err(why) => text += &format!("  self-test  failed: {why}\n"),
    }
    text
}

fn unknown(why: &Missing) -> String {
    format!("unknown: {why}")
}

fn in_words(speeds: &Speeds) -> String {
    let gb = |rate: f64| format!("{:.1} GB/s", rate / 1e9);
    let [copy_in, copy_out] = [speeds.copy_in, speeds.copy_out].map(gb);
    let [both_in, both_out] = [speeds.both_in, speeds.both_out].map(gb);
    let each = speeds.each_copy * 1e6;
    format!(
        "in {copy_in}, out {copy_out}; both at once: in {both_in}, out {both_out}; {each:.2} us \
         each besides"
    )
}

/// Bytes in the binary unit that keeps them short.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0 => "unknown".into(),
        1..0x10_0000 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / 1048576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1073741824.0),
    }
}

fn in_json(looked: &[Looked], missing: &[(String, Missing)], cpu: &Result<Rapl, Missing>) -> Value {
    let devices: Vec<Value> = looked.iter().map(device_in_json).collect();
    let missing: Vec<Value> = missing
        .iter()
        .map(|(kind, why)| json!({ "kind": kind, "reason": why.to_string() }))
        .collect();
    let rapl = cpu.as_ref().err().map(ToString::to_string);
    let cpu = json!({ "energy_unknown": rapl });
    json!({ "schema": SCHEMA, "devices": devices, "missing": missing, "cpu": cpu })
}

fn device_in_json(looked: &Looked) -> Value {
    let Looked { description: device, tested, power, speeds } = looked;
    let mut object = json!({
        "id": device.id,
        "name": device.name,
        "uuid": device.uuid,
        "driver": device.driver,
        "memory_bytes": device.memory,
        "buffer_max_bytes": device.buffer_max,
        "shares_host_memory": device.shares_host_memory,
        "has_graphs": device.has_graphs,
        "units": device.units,
        "group_max": device.group_max,
        "shared_bytes": device.shared,
        "self_test": tested.as_ref().map_or_else(ToString::to_string, |()| "passed".into()),
    });
    if let Value::Object(object) = &mut object {
        put_reading(object, power);
        if let Some(Ok(speeds)) = speeds {
            let Speeds { copy_in, copy_out, both_in, both_out, each_copy } = speeds;
            let rates =
                json!({ "in": copy_in, "out": copy_out, "both_in": both_in, "both_out": both_out });
            object.insert("copies_bytes_per_s".into(), rates);
            object.insert("each_copy_s".into(), json!(each_copy));
        }
        if let Some(Err(why)) = speeds {
            object.insert("copies_unknown".into(), why.to_string().into());
        }
    }
    object
}

pub(super) fn put_reading(object: &mut Map<String, Value>, reading: &Reading) {
    put(object, "power_w", "power_unknown", &reading.power_w);
    put(object, "energy_j", "energy_unknown", &reading.energy_j);
    put(object, "memory_used_bytes", "memory_used_unknown", &reading.memory_used);
    put(object, "busy", "busy_unknown", &reading.busy);
}

/// A number under `name`, or why there is none under `unknown`.
pub(super) fn put<T: Copy + Into<Value>>(
    object: &mut Map<String, Value>,
    name: &str,
    unknown: &str,
    value: &Result<T, Missing>,
) {
    match value {
        Ok(value) => object.insert(name.into(), (*value).into()),
        Err(why) => object.insert(unknown.into(), why.to_string().into()),
    };
}
