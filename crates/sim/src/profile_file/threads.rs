//! The times of a chain's threads besides its functions.

use super::{At, Result};
use crate::model::Cost;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadTimes {
    /// Cores that all threads share.
    pub cores: u32,
    /// Reading.
    pub read: ThreadTime,
    /// A lane's own work.
    pub lane: ThreadTime,
    /// Sending.
    pub send: ThreadTime,
    /// By packets a second, in ascending order: nanoseconds from one batch of a reader to the next.
    pub rests: Vec<(f64, f64)>,
    /// How late a thread wakes by a timer, in nanoseconds: quantiles at equal distances.
    pub timer_late_ns: Vec<f64>,
    /// How late a thread that rests begins if another wakes it, in nanoseconds.
    pub wake_late_ns: f64,
    /// The time of the other thread for that, in nanoseconds: a part of its time to wake.
    pub ring_ns: f64,
    /// With functions on devices of the CPU, or on the CPU itself.
    pub functions: Vec<FunctionTimes>,
}

/// The times of threads with a function, by the indices of both in the profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionTimes {
    /// The function and the device.
    pub pair: (usize, usize),
    /// Reading.
    pub read: Cost,
    /// The lane's own work with that of the function.
    pub lane: Cost,
    /// Both while the reader never rests.
    pub full: [Cost; 2],
    /// The threads of the device together, if it is none of the CPU.
    pub kernel: Option<KernelTime>,
}

/// The time of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTime {
    /// On all threads together.
    pub cost: Cost,
    /// Threads that divide it.
    pub threads: u32,
}

/// The time of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadTime {
    /// For a batch, without waking.
    pub cost: Cost,
    /// To wake, in nanoseconds.
    pub wake_ns: f64,
}

impl ThreadTimes {
    /// With a function on a device.
    pub(crate) fn with(&self, pair: (usize, usize)) -> Option<&FunctionTimes> {
        self.functions.iter().find(|one| one.pair == pair)
    }

    /// Nanoseconds of reading, of a lane itself and of sending together, for a packet of so many
    /// bytes.
    pub fn packet_ns(&self, packet_len: u32) -> f64 {
        let own = |time: &ThreadTime| time.cost.ps(1, packet_len.into()) / 1e3;
        own(&self.read) + own(&self.lane) + own(&self.send)
    }

    /// Threads of a device.
    pub fn threads_of(&self, device: usize) -> usize {
        let own = self.functions.iter().filter(|one| one.pair.1 == device);
        let threads = own.filter_map(|one| one.kernel.map(|kernel| kernel.threads as usize));
        threads.max().unwrap_or(1)
    }

    /// How long a reader rests at this rate: as at the highest measured one below it.
    pub(crate) fn rest_ns(&self, packets_per_s: f64) -> Option<f64> {
        let below = self.rests.partition_point(|(rate, _)| *rate <= packets_per_s);
        self.rests.get(below.saturating_sub(1)).map(|(_, rest_ns)| *rest_ns)
    }
}

/// Reads them, if the file has them.
pub(super) fn read(
    at: &At<'_>,
    functions: &[String],
    devices: &[String],
) -> Result<Option<ThreadTimes>> {
    if !at.is_given() {
        return Ok(None);
    }
    at.only(&KEYS)?;
    let rest = |one: &At<'_>| {
        one.only(&["packets_per_s", "seconds"])?;
        let rate = one.get("packets_per_s").within(1.0..=1e12)?;
        Ok((rate, one.get("seconds").within(0.0..=1.0)? * 1e9))
    };
    let rests = at.get("rests");
    let mut rests = rests.list()?.iter().map(rest).collect::<Result<Vec<_>>>()?;
    rests.sort_by(|one, other| one.0.total_cmp(&other.0));
    let late = at.get("timer_late_s");
    let timer_late_ns = match late.is_given() {
        true => late.list()?.iter().map(|one| Ok(one.within(0.0..=1.0)? * 1e9)).collect(),
        false => Ok(Vec::new()),
    };
    let timer_late_ns = timer_late_ns?;
    let or_none = |key: &str| match at.get(key) {
        own if own.is_given() => Ok(own.within(0.0..=1.0)? * 1e9),
        _ => Ok(0.0),
    };
    let with = at.get("functions");
    let with = match with.is_given() {
        true => with.list()?.iter().map(|one| of_function(one, functions, devices)).collect(),
        false => Ok(Vec::new()),
    };
    Ok(Some(ThreadTimes {
        functions: with?,
        timer_late_ns,
        wake_late_ns: or_none("wake_late_s")?,
        ring_ns: or_none("ring_s")?,
        cores: at.get("cores").count(4096.0)?,
        read: time(&at.get("read"))?,
        lane: time(&at.get("lane"))?,
        send: time(&at.get("send"))?,
        rests,
    }))
}

fn time(at: &At<'_>) -> Result<ThreadTime> {
    at.only(&["wake_s", "packet_s", "byte_s"])?;
    Ok(ThreadTime { cost: cost(at)?, wake_ns: at.get("wake_s").within(0.0..=1.0)? * 1e9 })
}

fn cost(at: &At<'_>) -> Result<Cost> {
    let ps = |key: &str| Ok(at.get(key).within(0.0..=1.0)? * 1e12);
    Ok(Cost { launch_ps: 0.0, packet_ps: ps("packet_s")?, byte_ps: ps("byte_s")? })
}

fn of_function(at: &At<'_>, functions: &[String], devices: &[String]) -> Result<FunctionTimes> {
    at.only(&OF_FUNCTION)?;
    let of = |key: &str| {
        let at = at.get(key);
        at.only(&["packet_s", "byte_s"])?;
        cost(&at)
    };
    let kernel = at.get("kernel");
    let kernel = match kernel.is_given() {
        true => {
            kernel.only(&["launch_s", "packet_s", "byte_s", "threads"])?;
            let launch_ps = kernel.get("launch_s").within(0.0..=1.0)? * 1e12;
            let cost = Cost { launch_ps, ..cost(&kernel)? };
            Some(KernelTime { cost, threads: kernel.get("threads").count(4096.0)? })
        }
        false => None,
    };
    let pair = (
        at.get("function").place(functions, "function")?,
        at.get("device").place(devices, "device")?,
    );
    let full = [of("full_read")?, of("full_lane")?];
    Ok(FunctionTimes { pair, read: of("read")?, lane: of("lane")?, full, kernel })
}

const OF_FUNCTION: [&str; 9] =
    ["function", "device", "read", "lane", "send", "full_read", "full_lane", "full_send", "kernel"];
const KEYS: [&str; 9] = [
    "cores",
    "read",
    "lane",
    "send",
    "rests",
    "timer_late_s",
    "wake_late_s",
    "ring_s",
    "functions",
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sound() -> Value {
        let each = |packet: f64| json!({ "packet_s": packet, "byte_s": 1e-11 });
        let time = |wake: f64| json!({ "wake_s": wake, "packet_s": 4e-8, "byte_s": 5e-11 });
        json!({
            "cores": 2, "read": time(2e-5), "lane": time(1e-5), "send": time(0.0),
            "rests": [{ "packets_per_s": 1e5, "seconds": 1e-4 },
                { "packets_per_s": 1e4, "seconds": 5e-5 }],
            "functions": [{ "function": "nat", "device": "host", "read": each(9e-8),
                "lane": each(5e-8), "send": each(0.0), "full_read": each(3e-7),
                "full_lane": each(6e-8), "full_send": each(0.0), "kernel":
                { "launch_s": 1e-5, "packet_s": 2e-8, "byte_s": 0.0, "threads": 2 } }],
        })
    }

    fn of(value: &Value) -> Result<Option<ThreadTimes>> {
        read(&At { value, path: "threads".into() }, &["nat".into()], &["cpu".into(), "host".into()])
    }

    #[test]
    fn times_are_read_and_missing_ones_are_no_mistake() {
        assert_eq!(of(&Value::Null), Ok(None));
        let times = of(&sound()).expect("sound").expect("given");
        let read = times.read;
        assert_eq!((times.cores, read.wake_ns.round(), read.cost.packet_ps.round()), (2, 2e4, 4e4));
        let rests = [1.0, 1e4, 9e4, 1e5, 1e9].map(|rate| times.rest_ns(rate).map(f64::round));
        assert_eq!(rests, [5e4, 5e4, 5e4, 1e5, 1e5].map(Some));
        assert!(times.timer_late_ns.is_empty(), "as in older profiles");
        let with = times.with((0, 1)).expect("nat on host");
        let ns = |cost: Cost| cost.ns(1, 0);
        assert_eq!(([with.read, with.lane].map(ns), with.full.map(ns)), ([90, 50], [300, 60]));
        assert_eq!(with.kernel.map(|own| own.cost.ns(100, 0)), Some(12_000));
        assert_eq!([0, 1].map(|device| times.threads_of(device)), [1, 2]);
        assert_eq!((times.with((0, 0)), times.wake_late_ns), (None, 0.0));
        assert_eq!(times.ring_ns, 0.0);
        let mut with_late = sound();
        with_late["timer_late_s"] = json!([2e-5, 4e-5]);
        let late = of(&with_late).expect("sound").expect("given").timer_late_ns;
        assert_eq!(late, [2e-5 * 1e9, 4e-5 * 1e9]);
    }

    #[test]
    fn mistakes_are_named() {
        for (place, value, why) in [
            ("/cores", json!(0), "`threads.cores`"),
            ("/read/wake_s", json!(-1), "`threads.read.wake_s` must be"),
            ("/lane/packet_s", json!("x"), "`threads.lane.packet_s`"),
            ("/send", json!({ "wake_s": 0, "packet_s": 0 }), "`threads.send.byte_s`"),
            ("/rests/0/packets_per_s", json!(0), "`threads.rests[0].packets_per_s`"),
            ("/timer_late_s", json!([0, -1]), "`threads.timer_late_s[1]` must be"),
            ("/rests", json!(3), "`threads.rests` must be a list"),
            ("/ring_s", json!(-1), "`threads.ring_s` must be"),
            ("/wake_late_s", json!(-1), "`threads.wake_late_s` must be"),
            ("/functions/0/device", json!("gpu"), "no device \"gpu\""),
            ("/functions/0/kernel/threads", json!(0), "`threads.functions[0].kernel.threads`"),
            ("/functions/0/read/packet_s", json!(-1), "`threads.functions[0].read.packet_s`"),
            ("/functions/0/full_lane", json!({}), "`threads.functions[0].full_lane.packet_s`"),
        ] {
            let mut wrong = sound();
            wrong["timer_late_s"] = json!([0]);
            (wrong["wake_late_s"], wrong["ring_s"]) = (json!(0), json!(0));
            *wrong.pointer_mut(place).expect("a place") = value;
            let reported = of(&wrong).expect_err(place).to_string();
            assert!(reported.contains(why), "{place}: {reported}");
        }
    }
}
