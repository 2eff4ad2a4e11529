//! The work profile of a machine as a file: `warpline profile` writes it, and `[placement] profile`
//! names it. It is also a file for `[plan] profile`, because it has the speeds of copies.
//!
//! Measurements name functions and devices, so a file may have any part of them.

mod power;
mod triples;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use warpline_io_error::plain;
use warpline_sched::work_profile::{Beside, Figures, Measurement, WorkProfile};
use warpline_sched::{LinkSpeeds, Profile};
use warpline_sim::ThreadTimes;

use crate::profile_file;

pub(crate) use triples::Triple;

/// Bytes that a profile may have.
pub(crate) const LEN_MAX: u64 = 64 << 20;

/// The name of the CPU in the list of devices.
pub(crate) const CPU_NAME: &str = "cpu";

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct MachineProfile {
    /// Functions on devices.
    pub(crate) work: WorkProfile,
    /// Copies.
    pub(crate) speeds: Profile,
    /// When its last measurement was made, in words.
    pub(crate) date: String,
    /// The run that has measurements left.
    pub(crate) unfinished: Option<Unfinished>,
    /// Functions beside two others.
    pub(crate) triples: Vec<Triple>,
    /// The relative spread of measurements, by their circumstances.
    spreads: BTreeMap<Circumstances, f64>,
    /// Hardware and copy speeds, as in the file.
    machine: Value,
}

/// Function and device, launch size and packet length, co-runners.
type Circumstances = (usize, usize, u32, u32, Option<Beside>);

/// A run of `warpline profile` that did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfinished {
    /// The list of measurements that it makes.
    pub(crate) plan: String,
    /// How many of them it made.
    pub(crate) done: u64,
}

fn circumstances(one: &Measurement) -> Circumstances {
    (one.pair.0, one.pair.1, one.launch_packets, one.packet_len, one.beside)
}

impl MachineProfile {
    /// Without measurements of functions. `machine` is of [`profile_file::to_value`].
    ///
    /// # Errors
    /// A copy speed that is impossible.
    pub(crate) fn new(machine: Value, functions: &[&str]) -> Result<Self, String> {
        let mut devices = vec![CPU_NAME];
        devices.extend(ids(&machine));
        Ok(Self {
            work: WorkProfile::new(functions, &devices),
            speeds: profile_file::speeds(&machine)?,
            date: String::new(),
            unfinished: None,
            triples: Vec::new(),
            spreads: BTreeMap::new(),
            machine,
        })
    }

    /// The profile in `text`. It must be of this machine unless `is_foreign`.
    ///
    /// # Errors
    /// The mistake, with its place.
    pub(crate) fn parse(text: &str, is_foreign: bool) -> Result<Self, String> {
        let json = warpline_sim::json::parse(text)?;
        profile_file::check_schema(&json)?;
        if !is_foreign {
            profile_file::check_machine(&json)?;
        }
        let works = json["measurements"].as_array().map_or(&[][..], Vec::as_slice);
        let names = names(works);
        let mut profile = Self::new(json.clone(), &names.iter().map(|n| &**n).collect::<Vec<_>>())?;
        profile.date = json["date"].as_str().unwrap_or("unknown").into();
        check_devices(&json)?;
        ThreadTimes::of_machine(&json).map_err(|why| why.to_string())?;
        profile.read_power(&json)?;
        for (at, work) in works.iter().enumerate() {
            profile.read_work(work).map_err(|why| format!("`measurements[{at}]`: {why}"))?;
        }
        for (at, one) in json["triples"].as_array().into_iter().flatten().enumerate() {
            profile.read_triple(one).map_err(|why| format!("`triples[{at}]`: {why}"))?;
        }
        profile.unfinished = json["unfinished"]["plan"].as_str().map(|plan| Unfinished {
            plan: plan.into(),
            done: json["unfinished"]["done"].as_u64().unwrap_or(0),
        });
        Ok(profile)
    }

    fn read_work(&mut self, work: &Value) -> Result<(), String> {
        let device = text(work, "device")?;
        let unknown = || format!("device {device:?} is not in `devices`");
        let device = self.device(device).ok_or_else(unknown)?;
        let function = |of: &Value| {
            self.function(text(of, "function")?).ok_or_else(|| "an empty `function`".to_owned())
        };
        let beside = match &work["beside"] {
            Value::Null => None,
            other => Some(Beside { function: function(other)?, count: size(other, "count")? }),
        };
        let one = Measurement {
            pair: (function(work)?, device),
            launch_packets: size(work, "launch_packets")?,
            packet_len: size(work, "packet_len")?,
            beside,
            figures: Figures {
                bits_per_s: number(work, "gbps")? * 1e9,
                latency_ns: number(work, "latency_us")? * 1e3,
                share: number(work, "share")?,
                weight: number(work, "seconds")?,
            },
        };
        let spread = match &work["spread"] {
            Value::Null => 0.0,
            _ => number(work, "spread")?,
        };
        if !(0.0..=1e9).contains(&spread) {
            return Err(format!("`spread` must be 0 to 10^9, found {spread:?}"));
        }
        self.merge(&one, spread).map_err(|why| why.to_string())
    }

    /// Whether a device works in the host's memory, so that it has no link.
    pub(crate) fn is_in_place(&self, device: usize) -> bool {
        let id = &self.work.devices()[device].name;
        let about = device_of(&self.machine, id);
        about.is_none_or(|about| about["shares_host_memory"] == true)
    }

    /// Whether the kernels of a device run on the CPU's own cores, by the file.
    pub(crate) fn runs_on_cpu(&self, device: usize) -> bool {
        let id = &self.work.devices()[device].name;
        device_of(&self.machine, id).is_some_and(|about| about["runs_on_cpu"] == true)
    }

    /// The link to a device with a memory of its own.
    pub(crate) fn link(&self, device: usize) -> Option<&LinkSpeeds> {
        let id = &self.work.devices()[device].name;
        let link = self.speeds.links.iter().find(|link| link.device == *id);
        link.filter(|_| !self.is_in_place(device))
    }

    /// The number of a device.
    pub(crate) fn device(&self, id: &str) -> Option<usize> {
        self.work.devices().iter().position(|device| device.name == id)
    }

    /// The number of a function.
    pub(crate) fn function(&self, name: &str) -> Option<usize> {
        self.work.functions().iter().position(|own| own == name)
    }

    /// Adds a measurement with the relative spread of its rounds.
    ///
    /// # Errors
    /// As [`WorkProfile::merge`].
    pub(crate) fn merge(
        &mut self,
        one: &Measurement,
        spread: f64,
    ) -> Result<(), warpline_sched::work_profile::Unsound> {
        self.work.merge(one)?;
        self.spreads.insert(circumstances(one), spread);
        Ok(())
    }

    /// Adds the measurements of an earlier profile of this machine, by weight of evidence.
    ///
    /// # Errors
    /// An entry of it is impossible.
    pub(crate) fn add(&mut self, old: &Self) -> Result<(), String> {
        for one in old.work.measurements() {
            let device = |at: usize| self.device(&old.work.devices()[at].name);
            let function = |at: usize| self.function(&old.work.functions()[at]);
            let Some(pair) = function(one.pair.0).zip(device(one.pair.1)) else { continue };
            let beside = match one.beside {
                None => None,
                Some(Beside { function: other, count }) => match function(other) {
                    Some(function) => Some(Beside { function, count }),
                    None => continue,
                },
            };
            let spread = old.spreads.get(&circumstances(&one)).copied().unwrap_or(0.0);
            let own = Measurement { pair, beside, ..one };
            self.merge(&own, spread).map_err(|why| why.to_string())?;
        }
        self.add_triples(old);
        self.unfinished = old.unfinished.clone();
        self.set_threads(old.machine["threads"].clone());
        self.keep_power(old)
    }

    /// The times of a chain's threads, if the file has them.
    pub(crate) fn threads(&self) -> Option<ThreadTimes> {
        ThreadTimes::of_machine(&self.machine).ok().flatten()
    }

    /// Sets the times of a chain's threads.
    pub(crate) fn set_threads(&mut self, times: Value) {
        self.machine["threads"] = times;
    }

    /// The profile as JSON.
    pub(crate) fn to_value(&self) -> Value {
        let mut all = Map::new();
        all.insert("schema".into(), self.machine["schema"].clone());
        let program = format!("warpline {}", env!("CARGO_PKG_VERSION"));
        all.insert("program".into(), program.into());
        all.insert("date".into(), self.date.clone().into());
        for name in ["cpu", "cpu_power", "busy_together_w", "host", "threads", "devices"] {
            all.insert(name.into(), self.machine[name].clone());
        }
        if let Some(Unfinished { plan, done }) = &self.unfinished {
            all.insert("unfinished".into(), json!({ "plan": plan, "done": done }));
        }
        let works = self.work.measurements().map(|one| self.work_json(&one));
        all.insert("measurements".into(), works.collect());
        if !self.triples.is_empty() {
            let triples = self.triples.iter().map(|one| self.triple_json(one));
            all.insert("triples".into(), triples.collect());
        }
        Value::Object(all)
    }

    fn work_json(&self, one: &Measurement) -> Value {
        let name = |function: usize| self.work.functions()[function].clone();
        let Figures { bits_per_s, latency_ns, share, weight } = one.figures;
        let beside = one.beside.map(
            |Beside { function, count }| json!({ "function": name(function), "count": count }),
        );
        json!({
            "function": name(one.pair.0),
            "device": self.work.devices()[one.pair.1].name,
            "launch_packets": one.launch_packets,
            "packet_len": one.packet_len,
            "beside": beside,
            "gbps": bits_per_s / 1e9,
            "latency_us": latency_ns / 1e3,
            "share": share,
            "seconds": weight,
            "spread": self.spreads.get(&circumstances(one)),
        })
    }

    /// Writes the file. It appears whole under its name, or stays as it was.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn write(&mut self, file: &Path) -> Result<(), String> {
        self.date = now();
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        let text = format!("{:#}\n", self.to_value());
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, file));
        written.map_err(|why| format!("{}: {}", file.display(), plain(&why)))
    }
}

/// A device is listed once.
fn check_devices(json: &Value) -> Result<(), String> {
    let ids: Vec<&str> = [CPU_NAME].into_iter().chain(ids(json)).collect();
    let twice = ids.iter().enumerate().find(|(at, id)| ids[..*at].contains(id));
    twice.map_or(Ok(()), |(_, id)| Err(format!("`devices`: {id:?} occurs twice")))
}

fn text<'a>(of: &'a Value, name: &str) -> Result<&'a str, String> {
    of[name].as_str().ok_or_else(|| format!("`{name}` is missing or not a string"))
}

fn number(of: &Value, name: &str) -> Result<f64, String> {
    of[name].as_f64().ok_or_else(|| format!("`{name}` is missing or not a number"))
}

fn size(of: &Value, name: &str) -> Result<u32, String> {
    let number = of[name].as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("`{name}` is missing or not a whole number"))
}

/// The devices of the JSON of a machine.
fn ids(machine: &Value) -> impl Iterator<Item = &str> {
    machine["devices"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str())
}

fn device_of<'a>(machine: &'a Value, id: &str) -> Option<&'a Value> {
    machine["devices"].as_array()?.iter().find(|one| one["id"] == id)
}

/// The functions of measurements and of their co-runners, each once.
fn names(works: &[Value]) -> Vec<String> {
    let all = works.iter().flat_map(|one| [&one["function"], &one["beside"]["function"]]);
    let mut names: Vec<String> = all.filter_map(Value::as_str).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// The present time, as RFC 3339.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of(since.as_secs())
}

/// Days are counted from 1 March of year 0, so a leap day ends its year.
fn date_of(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + later;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Value {
        profile_file::to_value(&[], None)
    }

    fn measured(function: usize, bits_per_s: f64) -> Measurement {
        let figures = Figures { bits_per_s, latency_ns: 5e4, share: 0.5, weight: 2.0 };
        Measurement::alone((function, 0), 256, 64, figures)
    }

    fn profile() -> MachineProfile {
        let mut profile = MachineProfile::new(machine(), &["nat", "router"]).unwrap();
        profile.merge(&measured(1, 4e9), 0.1).unwrap();
        profile.merge(&measured(1, 2e9).beside(0, 3), 0.2).unwrap();
        profile
    }

    #[test]
    fn a_profile_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machine.json");
        let mut profile = profile();
        profile.unfinished = Some(Unfinished { plan: "quick 12".into(), done: 5 });
        profile.write(&file).unwrap();
        let read = MachineProfile::parse(&fs::read_to_string(&file).unwrap(), false).unwrap();
        assert_eq!(read.to_value(), profile.to_value());
        assert_eq!(read.unfinished, profile.unfinished);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file stays");
    }

    #[test]
    fn evidence_of_two_runs_counts_by_its_weight() {
        let mut old = profile().to_value();
        old["cpu_power"] = json!({ "idle_w": 20.0, "busy_w": 60.0 });
        let none = json!({ "wake_s": 0.0, "packet_s": 0.0, "byte_s": 0.0 });
        old["threads"] =
            json!({ "cores": 2, "read": none, "lane": none, "send": none, "rests": [] });
        let old = MachineProfile::parse(&old.to_string(), false).unwrap();
        let mut new = MachineProfile::new(machine(), &["digest", "nat", "router"]).unwrap();
        new.merge(&measured(2, 8e9), 0.0).unwrap();
        new.add(&old).unwrap();
        assert_eq!(new.work.devices()[0].power.busy_w, Some(60.0), "as the user declared");
        assert_eq!(new.to_value()["cpu_power"]["busy_w"], 60.0);
        assert_eq!(new.to_value()["threads"]["cores"], 2, "until they are measured again");
        let alone = new.work.alone((2, 0), 256, 64).unwrap();
        assert_eq!((alone.bits_per_s, alone.weight), (6e9, 4.0));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let with = |name: &str, value: Value| {
            let mut all = profile().to_value();
            all["measurements"][1][name] = value;
            all.to_string()
        };
        for (text, why) in [
            ("{\n  \"schema\": 2,,".to_owned(), "line 2, column 15: not JSON"),
            ("{\"schema\": 1}".to_owned(), "another version"),
            (with("gbps", json!(0)), "`measurements[1]`: throughput is out of range"),
            (
                with("device", json!("cuda:7")),
                "`measurements[1]`: device \"cuda:7\" is not in `devices`",
            ),
            (
                with("launch_packets", json!(-1)),
                "`measurements[1]`: `launch_packets` is missing or not",
            ),
        ] {
            let reported = MachineProfile::parse(&text, false).unwrap_err();
            assert!(reported.contains(why), "{reported}");
        }
    }

    #[test]
    fn power_that_cannot_be_is_named() {
        for (path, value, why) in [
            ("/cpu_power/idle_w", json!(-1), "`cpu_power.idle_w` must be 0 to 100000 W or null"),
            ("/cpu_power/busy_w", json!(1e9), "`cpu_power.busy_w` must be 0 to 100000 W or null"),
            ("/cpu_power/busy_w", json!("90"), "found \"90\""),
            ("/cpu_power/domains/dram/idle_w", json!(-2), "`cpu_power.domains.dram.idle_w` must"),
            ("/devices/0/busy_w", json!(-5), "`cuda:7.busy_w` must be 0 to 100000"),
            ("/devices/0/each_copy_s", json!(-1), "`each_copy_s`: times must be 0 to 1 s, found"),
            ("/devices/0/to_host_bytes_per_s", json!(0), "`to_host_bytes_per_s`: rates must be"),
            ("/devices/0/id", json!("cpu"), "`devices`: \"cpu\" occurs twice"),
            ("/busy_together_w", json!(-1), "`busy_together_w` must be"),
            ("/threads", json!({ "cores": 0 }), "`threads."),
            ("/measurements/0/spread", json!(-0.5), "`measurements[0]`: `spread` must be"),
            ("/measurements/0/share", json!(1.5), "`measurements[0]`: share is out of range"),
            ("/measurements/0/latency_us", json!(-1), "`measurements[0]`: latency is out of"),
        ] {
            let mut all = profile().to_value();
            let domain = json!({ "idle_w": 1.0, "busy_w": null });
            all["cpu_power"] =
                json!({ "idle_w": 20.0, "busy_w": 60.0, "domains": { "dram": domain } });
            all["devices"] = json!([{ "id": "cuda:7", "name": "A GPU", "idle_w": 5.0,
                "busy_w": 9.0, "shares_host_memory": false, "to_device_bytes_per_s": 1e10,
                "to_host_bytes_per_s": 1e10, "each_copy_s": 1e-6 }]);
            all["busy_together_w"] = json!(70.0);
            assert!(MachineProfile::parse(&all.to_string(), true).is_ok());
            *all.pointer_mut(path).unwrap() = value;
            let reported = MachineProfile::parse(&all.to_string(), true).unwrap_err();
            assert!(reported.contains(why), "{path}: {reported}");
        }
        // Numbers that are none, or too large for any.
        for number in ["NaN", "Infinity", "1e999"] {
            let text = profile().to_value().to_string();
            let text = text.replacen("\"gbps\":", &format!("\"gbps\":{number}, \"x\":"), 1);
            let reported = MachineProfile::parse(&text, true).unwrap_err();
            assert!(reported.contains("line 1, column"), "{number}: {reported}");
        }
    }

    #[test]
    fn a_profile_of_another_machine_needs_leave() {
        let mut all = profile().to_value();
        all["cpu"] = json!("none such");
        let reported = MachineProfile::parse(&all.to_string(), false).unwrap_err();
        assert!(reported.contains("measured on another machine"), "{reported}");
        assert!(MachineProfile::parse(&all.to_string(), true).is_ok());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date_of(seconds), date);
        }
    }
}
