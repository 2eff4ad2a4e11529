//! The power of devices, and of domains of the CPU's packages, in a [`MachineProfile`].

use serde_json::{Value, json};
use warpline_sched::work_profile::Power;

use super::{CPU_NAME, MachineProfile, device_of};

/// Watts that a device may need.
const WATTS_MAX: f64 = 100_000.0;

impl MachineProfile {
    /// Takes the power of devices and domains from a file.
    pub(super) fn read_power(&mut self, json: &Value) -> Result<(), String> {
        for device in 0..self.work.devices().len() {
            let id = &self.work.devices()[device].name;
            let power = match id == CPU_NAME {
                true => power(&json["cpu_power"], "cpu_power")?,
                false => power(device_of(json, id).unwrap_or(&Value::Null), id)?,
            };
            self.work.set_power(device, power);
        }
        for (name, one) in json["cpu_power"]["domains"].as_object().into_iter().flatten() {
            power(one, &format!("cpu_power.domains.{name}"))?;
        }
        watts(&json["busy_together_w"], "busy_together_w").map(drop)
    }

    /// Takes over the power that a user declared.
    pub(super) fn keep_power(&mut self, old: &Self) -> Result<(), String> {
        for name in ["cpu_power", "busy_together_w"] {
            self.machine[name] = old.machine[name].clone();
        }
        for device in self.machine["devices"].as_array_mut().into_iter().flatten() {
            let id = device["id"].as_str().unwrap_or_default().to_owned();
            let known = device_of(&old.machine, &id);
            for name in ["idle_w", "busy_w"] {
                if let Some(watts) = known.and_then(|own| own.get(name)) {
                    device[name] = watts.clone();
                }
            }
        }
        let json = self.machine.clone();
        self.read_power(&json)
    }

    /// Sets the measured power of a device.
    pub(crate) fn set_power(&mut self, device: usize, power: Power) {
        let Power { idle_w, busy_w } = power;
        let id = self.work.devices()[device].name.clone();
        if id == CPU_NAME {
            self.machine["cpu_power"] = json!({ "idle_w": idle_w, "busy_w": busy_w });
        } else {
            let devices = self.machine["devices"].as_array_mut().into_iter().flatten();
            for about in devices.filter(|about| about["id"] == *id) {
                (about["idle_w"], about["busy_w"]) = (json!(idle_w), json!(busy_w));
            }
        }
        self.work.set_power(device, power);
    }

    /// Sets the measured power of a domain of the CPU's packages.
    pub(crate) fn set_domain(&mut self, name: &str, power: Power) {
        let Power { idle_w, busy_w } = power;
        self.machine["cpu_power"]["domains"][name] = json!({ "idle_w": idle_w, "busy_w": busy_w });
    }

    /// Sets the power of all devices with a meter while all are busy.
    pub(crate) fn set_busy_together(&mut self, watts: Option<f64>) {
        self.machine["busy_together_w"] = json!(watts);
    }
}

/// The power of a device, or of a domain of the CPU.
fn power(of: &Value, name: &str) -> Result<Power, String> {
    let own = |key: &str| watts(&of[key], &format!("{name}.{key}"));
    Ok(Power { idle_w: own("idle_w")?, busy_w: own("busy_w")? })
}

/// Watts, if they are known.
fn watts(value: &Value, name: &str) -> Result<Option<f64>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let number = value.as_f64().filter(|watts| (0.0..=WATTS_MAX).contains(watts));
    let mistake = || format!("`{name}` must be 0 to {WATTS_MAX} W or null, found {value}");
    number.map(Some).ok_or_else(mistake)
}
