//! A profile as a file: measurements of functions on devices, with links and power. A paper profile
//! has printed numbers, each with its place, and lists what it assumes.

mod machine;
mod threads;

use std::fmt;

use serde_json::Value;
pub use threads::{FunctionTimes, KernelTime, ThreadTime, ThreadTimes};
use warpline_sched::work_profile::{Beside, Figures, Measurement, Power, WorkProfile};
use warpline_sched::{FieldSpeeds, GatherSpeeds, LinkSpeeds};

use crate::json;

/// The version of the form.
const SCHEMA: u64 = 1;
const KEYS: [&str; 9] = [
    "schema",
    "kind",
    "title",
    "functions",
    "devices",
    "measurements",
    "host",
    "threads",
    "assumed",
];
/// Functions and devices of a file, at most.
const NAMES_MAX: usize = 256;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFile {
    /// The measurements.
    pub work: WorkProfile,
    /// By device: its link; `None` shares the host's memory.
    pub links: Vec<Option<LinkSpeeds>>,
    /// The host's times to gather fields and to put them in their places, if they were measured.
    pub gather: Option<GatherSpeeds>,
    /// The times of a chain's threads besides its functions, if they were measured.
    pub threads: Option<ThreadTimes>,
    /// By device: whether its kernels run on the CPU's own cores.
    pub on_cpu: Vec<bool>,
    /// Its title.
    pub title: String,
    /// Whether its numbers are printed ones.
    pub is_paper: bool,
    /// Assumptions with their reasons.
    pub assumed: Vec<(String, String)>,
}

/// Why a text is no profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFileError(String);

impl fmt::Display for WorkFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WorkFileError {}

type Result<T> = std::result::Result<T, WorkFileError>;

fn fail<T>(why: impl Into<String>) -> Result<T> {
    Err(WorkFileError(why.into()))
}

/// A value with its path, for messages.
#[derive(Clone)]
struct At<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> At<'a> {
    fn get(&self, key: &str) -> Self {
        let path =
            if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        At { value: &self.value[key], path }
    }

    fn list(&self) -> Result<Vec<Self>> {
        let Some(list) = self.value.as_array() else {
            return fail(format!("`{}` must be a list", self.path));
        };
        let at = |(index, value)| At { value, path: format!("{}[{index}]", self.path) };
        Ok(list.iter().enumerate().map(at).collect())
    }

    fn text(&self) -> Result<&'a str> {
        let text = self.value.as_str().filter(|text| !text.is_empty());
        text.map_or_else(|| fail(format!("`{}` must be a text", self.path)), Ok)
    }

    fn number(&self) -> Result<f64> {
        let number = self.value.as_f64();
        number.map_or_else(|| fail(format!("`{}` is missing or not a number", self.path)), Ok)
    }

    fn within(&self, range: std::ops::RangeInclusive<f64>) -> Result<f64> {
        let number = self.number()?;
        let (least, most) = (range.start(), range.end());
        match range.contains(&number) {
            true => Ok(number),
            false => {
                fail(format!("`{}` must be {least} to {most}, found {}", self.path, self.value))
            }
        }
    }

    fn count(&self, most: f64) -> Result<u32> {
        let number = self.within(1.0..=most)?;
        match number.fract() == 0.0 {
            true => Ok(number as u32),
            false => fail(format!("`{}` must be a whole number, found {}", self.path, self.value)),
        }
    }

    /// A truth value; false unless given.
    fn truth(&self) -> Result<bool> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(value) => Ok(*value),
            _ => fail(format!("`{}` must be true or false, found {}", self.path, self.value)),
        }
    }

    fn is_given(&self) -> bool {
        !self.value.is_null()
    }

    fn only(&self, keys: &[&str]) -> Result<()> {
        let place = if self.path.is_empty() { "the profile" } else { &format!("`{}`", self.path) };
        let Some(table) = self.value.as_object() else {
            return fail(format!("{place} must be an object"));
        };
        let unknown = table.keys().find(|key| !keys.contains(&key.as_str()));
        unknown.map_or(Ok(()), |key| {
            fail(format!("{place}: unknown key {key:?}; keys: {}", keys.join(", ")))
        })
    }

    /// The place of a name in a list.
    fn place(&self, names: &[String], kind: &str) -> Result<usize> {
        let name = self.text()?;
        let found = names.iter().position(|own| own == name);
        let unknown =
            || fail(format!("`{}`: no {kind} {name:?}; it has: {}", self.path, names.join(", ")));
        found.map_or_else(unknown, Ok)
    }
}

impl WorkFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The first mistake, with its line or the path of its value.
    pub fn parse(text: &str) -> Result<Self> {
        let mut json = json::parse(text).or_else(fail)?;
        if json["schema"] == machine::SCHEMA {
            json = machine::converted(&json);
        }
        let all = At { value: &json, path: String::new() };
        if json["schema"] != SCHEMA {
            return fail("`schema` must be 1 or 2: not a profile, or of another version");
        }
        all.only(&KEYS)?;
        let functions = names(&all.get("functions"))?;
        let devices = all.get("devices").list()?;
        let device_names: Vec<String> = devices
            .iter()
            .map(|one| Ok(one.get("name").text()?.to_owned()))
            .collect::<Result<_>>()?;
        check_names(&device_names, "devices")?;
        if device_names.first().is_none_or(|name| name != "cpu") {
            return fail("`devices[0]` must be the CPU, named \"cpu\"");
        }
        let mut work = WorkProfile::new(&slices(&functions), &slices(&device_names));
        let mut links = Vec::new();
        for (index, device) in devices.iter().enumerate() {
            device.only(&["name", "idle_w", "busy_w", "link", "runs_on_cpu"])?;
            work.set_power(index, power(device)?);
            links.push(link(device, index)?);
        }
        for one in all.get("measurements").list()? {
            let measured = measurement(&one, &functions, &device_names)?;
            work.merge(&measured).or_else(|why| fail(format!("`{}`: {why}", one.path)))?;
        }
        let assumed = all.get("assumed");
        let assumed = if assumed.is_given() { assumed.list()? } else { Vec::new() };
        let pair = |one: &At<'_>| {
            one.only(&["what", "why"])?;
            Ok((one.get("what").text()?.to_owned(), one.get("why").text()?.to_owned()))
        };
        let threads = threads::read(&all.get("threads"), &functions, &device_names)?;
        let on_cpu = devices.iter().map(|one| one.get("runs_on_cpu").truth());
        let on_cpu = on_cpu.collect::<Result<Vec<_>>>()?;
        if let Some(own) = &threads {
            for device in (1..on_cpu.len()).filter(|&at| on_cpu[at]) {
                work.set_cores(device, own.threads_of(device) as u32);
            }
        }
        let kind = all.get("kind");
        let is_paper = match kind.text()? {
            "paper" => true,
            "measured" => false,
            _ => return fail(format!("`kind` must be measured or paper, found {}", kind.value)),
        };
        let mut assumed = assumed.iter().map(pair).collect::<Result<Vec<_>>>()?;
        if threads.is_none() && !is_paper {
            assumed.push((
                "threads have cores of their own, and reading and sending take no time".into(),
                "The profile has no `threads`; `warpline profile` measures them".into(),
            ));
        }
        Ok(Self {
            work,
            links,
            gather: gather(&all.get("host"))?,
            threads,
            on_cpu,
            title: all.get("title").text()?.to_owned(),
            is_paper,
            assumed,
        })
    }
}

fn slices(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn names(at: &At<'_>) -> Result<Vec<String>> {
    let names =
        at.list()?.iter().map(|one| Ok(one.text()?.to_owned())).collect::<Result<Vec<_>>>()?;
    check_names(&names, &at.path)?;
    Ok(names)
}

fn check_names(names: &[String], path: &str) -> Result<()> {
    if names.is_empty() || names.len() > NAMES_MAX {
        return fail(format!("`{path}` must have 1 to {NAMES_MAX} entries"));
    }
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    twice.map_or(Ok(()), |(_, name)| fail(format!("`{path}`: {name:?} occurs twice")))
}

fn power(device: &At<'_>) -> Result<Power> {
    let watts = |key: &str| {
        let at = device.get(key);
        if at.is_given() { at.within(0.0..=100_000.0).map(Some) } else { Ok(None) }
    };
    let power = Power { idle_w: watts("idle_w")?, busy_w: watts("busy_w")? };
    match power {
        Power { idle_w: Some(idle), busy_w: Some(busy) } if busy < idle => {
            fail(format!("`{}.busy_w` is less than `idle_w`, {idle}", device.path))
        }
        _ => Ok(power),
    }
}

fn link(device: &At<'_>, index: usize) -> Result<Option<LinkSpeeds>> {
    let at = device.get("link");
    if !at.is_given() {
        return Ok(None);
    }
    if index == 0 {
        return fail(format!("`{}`: the CPU has no link", at.path));
    }
    at.only(&["to_device_bytes_per_s", "to_host_bytes_per_s", "each_copy_s"])?;
    Ok(Some(LinkSpeeds {
        device: device.get("name").text()?.to_owned(),
        to_device: at.get("to_device_bytes_per_s").within(1.0..=1e15)?,
        to_host: at.get("to_host_bytes_per_s").within(1.0..=1e15)?,
        each_copy: at.get("each_copy_s").within(0.0..=1.0)?,
    }))
}

fn gather(host: &At<'_>) -> Result<Option<GatherSpeeds>> {
    if !host.is_given() {
        return Ok(None);
    }
    host.only(&["gather_packet_s", "gather_field_s", "put_packet_s", "put_field_s", "byte_s"])?;
    let seconds = |key: &str| host.get(key).within(0.0..=1.0);
    let fields = |way: &str| -> Result<FieldSpeeds> {
        let of = |part: &str| seconds(&format!("{way}_{part}_s"));
        Ok(FieldSpeeds { packet: of("packet")?, field: of("field")? })
    };
    let (gather, put) = (fields("gather")?, fields("put")?);
    Ok(Some(GatherSpeeds { gather, put, byte: seconds("byte_s")? }))
}

fn measurement(at: &At<'_>, functions: &[String], devices: &[String]) -> Result<Measurement> {
    at.only(&[
        "function",
        "device",
        "launch_packets",
        "packet_len",
        "gbps",
        "latency_us",
        "share",
        "seconds",
        "beside",
        "source",
    ])?;
    let or = |key: &str, default: f64, range| {
        let at = at.get(key);
        if at.is_given() { at.within(range) } else { Ok(default) }
    };
    let pair = (
        at.get("function").place(functions, "function")?,
        at.get("device").place(devices, "device")?,
    );
    let figures = Figures {
        bits_per_s: at.get("gbps").within(1e-9..=1e6)? * 1e9,
        latency_ns: or("latency_us", 0.0, 0.0..=1e9)? * 1e3,
        share: or("share", 1.0, 0.0..=1.0)?,
        weight: or("seconds", 1.0, 1e-9..=1e9)?,
    };
    let (launch, len) =
        (at.get("launch_packets").count(1e9)?, at.get("packet_len").count(65_535.0)?);
    let measured = Measurement::alone(pair, launch, len, figures);
    let beside = at.get("beside");
    if !beside.is_given() {
        return Ok(measured);
    }
    beside.only(&["function", "count"])?;
    let function = beside.get("function").place(functions, "function")?;
    let count = beside.get("count").count(1_000.0)?;
    Ok(Measurement { beside: Some(Beside { function, count }), ..measured })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"{"schema": 1, "kind": "measured", "title": "t", "functions": ["nat"],
        "devices": [{"name": "cpu", "idle_w": 20, "busy_w": 90}, {"name": "gpu", "link":
            {"to_device_bytes_per_s": 1e10, "to_host_bytes_per_s": 1e10, "each_copy_s": 1e-6}}],
        "measurements": [
            {"function": "nat", "device": "cpu", "launch_packets": 256, "packet_len": 64,
             "gbps": 5},
            {"function": "nat", "device": "gpu", "launch_packets": 1024, "packet_len": 64,
             "gbps": 50, "latency_us": 12, "beside": {"function": "nat", "count": 1}}]}"#;

    #[test]
    fn a_file_gives_its_measurements() {
        let file = WorkFile::parse(SOUND).expect("sound");
        assert_eq!(file.work.measurements().count(), 2);
        assert_eq!(file.work.devices()[0].power.busy_w, Some(90.0));
        assert!(file.links[0].is_none() && file.links[1].is_some() && !file.is_paper);
        assert_eq!(file.work.alone((0, 0), 256, 64).expect("measured").bits_per_s, 5e9);
        assert!(file.assumed[0].1.contains("no `threads`"), "{:?}", file.assumed);
        let paper = SOUND.replacen("\"measured\"", "\"paper\"", 1);
        assert!(WorkFile::parse(&paper).expect("sound").assumed.is_empty());
    }

    #[test]
    fn mistakes_are_named_by_their_place() {
        let cases = [
            ("\"schema\": 1", "\"schema\": 9", "`schema` must be 1 or 2"),
            ("\"gbps\": 5}", "\"gbps\": -5}", "`measurements[0].gbps` must be"),
            ("\"gbps\": 5}", "\"gbps\": 5e9}", "`measurements[0].gbps` must be"),
            ("\"gbps\": 5}", "\"gpbs\": 5}", "unknown key \"gpbs\""),
            ("\"count\": 1}", "\"count\": 1, \"n\": 2}", "unknown key \"n\""),
            (
                "\"launch_packets\": 256",
                "\"launch_packets\": 0",
                "`measurements[0].launch_packets`",
            ),
            ("\"launch_packets\": 256", "\"launch_packets\": 2.5", "whole number"),
            (
                "\"function\": \"nat\", \"device\": \"cpu\"",
                "\"function\": \"nut\", \"device\": \"cpu\"",
                "no function \"nut\"",
            ),
            ("\"device\": \"cpu\"", "\"device\": \"tpu\"", "no device \"tpu\""),
            ("\"each_copy_s\": 1e-6", "\"each_copy_s\": -1", "each_copy_s` must be"),
            ("\"idle_w\": 20", "\"idle_w\": -20", "`devices[0].idle_w` must be"),
            ("\"idle_w\": 20", "\"idle_w\": 95", "`devices[0].busy_w` is less than"),
            ("\"idle_w\": 20", "\"runs_on_cpu\": \"yes\"", "runs_on_cpu` must be true or false"),
            ("\"measured\"", "\"guessed\"", "`kind` must be measured or paper"),
            ("\"title\"", "\"power\": 3, \"title\"", "the profile: unknown key \"power\""),
            ("[\"nat\"]", "[\"nat\", \"nat\"]", "occurs twice"),
            ("[\"nat\"]", "[]", "`functions` must have"),
            ("{\"name\": \"cpu\"", "{\"name\": \"npu\"", "`devices[0]` must be the CPU"),
            ("\"count\": 1", "\"count\": 0", "beside.count` must be"),
            ("\"title\": \"t\", ", "", "`title` must be a text"),
        ];
        for (from, to, why) in cases {
            let text = SOUND.replacen(from, to, 1);
            assert_ne!(text, SOUND, "{from}");
            let reported = WorkFile::parse(&text).expect_err(why).to_string();
            assert!(reported.contains(why), "{to}: {reported}");
        }
        let reported = WorkFile::parse("{\n\"schema\": 1,,}").expect_err("not JSON").to_string();
        assert!(reported.starts_with("line 2, column 13"), "{reported}");
    }

    #[test]
    fn no_cut_of_a_file_is_taken() {
        for end in 0..SOUND.len() {
            assert!(WorkFile::parse(&SOUND[..end]).is_err(), "{end}");
        }
    }
}
