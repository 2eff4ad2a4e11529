//! `warpline devices --watch`: readings of each device's meters, once a second until a signal comes
//! or the output is closed. The devices' contexts stay open meanwhile, so the driver's memory for a
//! context counts as in use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use warpline_device::power::{Rapl, Reading, of_device};
use warpline_device::{Description, Missing, find};

use super::devices::{SCHEMA, put, put_reading, size};
use super::{is_heard, say};
use crate::{Failure, watch};

const EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A device and its meter's reading.
type Read<'a> = (&'a Description, Reading);

pub(crate) fn watch(json: bool) -> Result<(), Failure> {
    let stop = watch::stop_flag();
    let found = find();
    if !json {
        found
            .missing
            .iter()
            .try_for_each(|(kind, why)| say(&format!("{kind}: not available: {why}")))?;
    }
    let started = Instant::now();
    let mut cpu = Cpu::open(started);
    let mut next = started;
    while wait_until(next, &stop) {
        let read = |device| (device, of_device(device));
        let devices: Vec<Read> =
            found.devices.iter().map(|device| read(device.description())).collect();
        let now = Instant::now();
        let (seconds, watts) = ((now - started).as_secs_f64(), cpu.watts(now));
        let text = match json {
            true => in_json(seconds, &devices, &watts).to_string(),
            false => in_lines(seconds, &devices, &watts),
        };
        if !is_heard(&text)? {
            break;
        }
        next += EVERY;
    }
    Ok(())
}

/// Says false if the flag was set before.
fn wait_until(moment: Instant, stop: &AtomicBool) -> bool {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if stop.load(Ordering::Relaxed) || left.is_zero() {
            return !stop.load(Ordering::Relaxed);
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

/// The CPU's power: the energy that RAPL counted between two readings, by the time between them.
struct Cpu {
    rapl: Result<Rapl, Missing>,
    last_j: f64,
    last: Instant,
}

impl Cpu {
    fn open(now: Instant) -> Self {
        Self { rapl: Rapl::open(), last_j: 0.0, last: now }
    }

    fn watts(&mut self, now: Instant) -> Result<f64, Missing> {
        let joules = self.rapl.as_mut().map_err(|why| why.clone())?.joules()?;
        let (more, time) = (joules - self.last_j, now - self.last);
        // Right after the opening there is no mean to speak of.
        if time < EVERY / 2 {
            return Err(Missing("it is a mean between two readings".into()));
        }
        (self.last_j, self.last) = (joules, now);
        Ok(more / time.as_secs_f64())
    }
}

fn in_lines(seconds: f64, devices: &[Read], cpu: &Result<f64, Missing>) -> String {
    let width = devices.iter().map(|(device, _)| device.id.len()).max().unwrap_or(0).max(3);
    let line = |id: &str, text: &str| format!("{seconds:>6.1} s  {id:width$}  {text}");
    let own = devices.iter().map(|(device, reading)| line(&device.id, &in_words(device, reading)));
    let cpu = line("cpu", &format!("power {}", said(cpu, watts)));
    own.chain([cpu]).collect::<Vec<_>>().join("\n")
}

fn in_words(device: &Description, reading: &Reading) -> String {
    let Reading { power_w, memory_used, busy, .. } = reading;
    // If all three have the same reason, it is printed once.
    if let (Err(why), Err(memory), Err(busy)) = (power_w, memory_used, busy)
        && [memory, busy] == [why, why]
    {
        return format!("unknown: {why}");
    }
    // `size` prints 0 bytes as unknown, so the least is 1.
    let of = |&used: &u64| format!("{} of {}", size(used.max(1)), size(device.memory));
    let memory = said(memory_used, of);
    let busy = said(busy, |busy| format!("{:.0} %", busy * 1e2));
    format!("power {}, memory in use {memory}, busy {busy}", said(power_w, watts))
}

fn watts(watts: &f64) -> String {
    format!("{watts:.1} W")
}

fn said<T>(value: &Result<T, Missing>, in_words: impl Fn(&T) -> String) -> String {
    value.as_ref().map_or_else(|why| format!("unknown: {why}"), in_words)
}

fn in_json(seconds: f64, devices: &[Read], cpu: &Result<f64, Missing>) -> Value {
    let device = |(device, reading): &Read| {
        let mut object = Map::new();
        object.insert("id".into(), device.id.clone().into());
        put_reading(&mut object, reading);
        Value::from(object)
    };
    let devices: Vec<Value> = devices.iter().map(device).collect();
    let mut meters = Map::new();
    put(&mut meters, "power_w", "power_unknown", cpu);
    let seconds = (seconds * 1e3).round() / 1e3;
    json!({ "schema": SCHEMA, "seconds": seconds, "devices": devices, "cpu": meters })
}

#[cfg(test)]
mod tests {
    use warpline_device::Device;
    use warpline_device::fake::{Fake, Fate};

    use super::*;

    fn fake(id: &str) -> Description {
        let device = Fake::new(|_| Fate::done_after(0));
        Description { id: id.into(), ..device.description().clone() }
    }

    fn missing<T>(why: &str) -> Result<T, Missing> {
        Err(Missing(why.into()))
    }

    #[test]
    fn a_line_a_device_says_what_is_known_and_why_the_rest_is_not() {
        let (first, second, third) = (fake("cuda:0"), fake("cuda:11"), fake("fake"));
        let all = Reading {
            power_w: Ok(312.44),
            energy_j: Ok(5.0),
            memory_used: Ok(384 << 20),
            busy: Ok(0.87),
        };
        let some = Reading { busy: missing("not said"), ..all.clone() };
        let none = of_device(&third);
        let devices = [(&first, all), (&second, some), (&third, none)];
        let expected = [
            "  12.0 s  cuda:0   power 312.4 W, memory in use 384.0 MiB of 1.0 GiB, busy 87 %",
            "  12.0 s  cuda:11  power 312.4 W, memory in use 384.0 MiB of 1.0 GiB, busy unknown: \
             not said",
            "  12.0 s  fake     unknown: no meter is known for this kind of device",
            "  12.0 s  cpu      power unknown: no RAPL here",
        ];
        let lines = in_lines(12.03, &devices, &missing("no RAPL here"));
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        assert_eq!(in_lines(0.0, &[], &Ok(65.0)), "   0.0 s  cpu  power 65.0 W");
    }

    #[test]
    fn a_json_object_has_the_number_or_the_reason() {
        let device = fake("cuda:0");
        let reading = Reading {
            power_w: Ok(99.5),
            energy_j: missing("none"),
            memory_used: Ok(7),
            busy: missing("lost"),
        };
        let value = in_json(1.0004, &[(&device, reading)], &missing("no RAPL"));
        let expected = json!({
            "schema": 1,
            "seconds": 1.0,
            "devices": [{
                "id": "cuda:0", "power_w": 99.5, "energy_unknown": "none", "memory_used_bytes": 7,
                "busy_unknown": "lost",
            }],
            "cpu": { "power_unknown": "no RAPL" },
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn the_cpu_has_no_power_without_time_or_meter() {
        let now = Instant::now();
        let none = Cpu { rapl: missing("no RAPL here"), last_j: 0.0, last: now };
        let said = { none }.watts(now + EVERY);
        assert_eq!(said, missing("no RAPL here"));
    }
}
