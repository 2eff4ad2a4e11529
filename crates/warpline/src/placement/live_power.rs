//! The power that meters show while chains run.

use std::fs;

use warpline_sched::work_profile::CPU;

use crate::meters::{Mark, Meter};

/// The meters of a profile's devices.
pub(super) struct LivePower {
    meters: Vec<Metered>,
    /// Of all cores: ticks in which they worked, and all ticks.
    cores: Option<(u64, u64)>,
}

struct Metered {
    /// Its number in the profile.
    device: usize,
    meter: Meter,
    last: Option<Mark>,
}

/// The mean power of a device in a period, and the part of the time for which it worked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PowerSeen {
    pub(super) device: usize,
    pub(super) watts: f64,
    pub(super) load: f64,
}

impl LivePower {
    /// The meters of devices of these names.
    pub(super) fn open(devices: &[String]) -> Self {
        let all = devices.iter().map(|id| Meter::of(id)).enumerate();
        let metered = all.filter(|(_, meter)| !matches!(meter, Meter::None(_)));
        let with = |(device, meter)| Metered { device, meter, last: None };
        Self { meters: metered.map(with).collect(), cores: None }
    }

    /// The period since the last call. `busy` is the part of the time in which a launch was in
    /// flight, by device; that of the CPU is the part in which its cores worked.
    pub(super) fn read(&mut self, busy: &[f64]) -> Vec<PowerSeen> {
        if self.meters.is_empty() {
            return Vec::new();
        }
        let cores = fs::read_to_string("/proc/stat").ok().and_then(|text| cores(&text));
        let before = std::mem::replace(&mut self.cores, cores);
        let on_cpu = before.zip(cores).and_then(|(old, new)| {
            let all = new.1.checked_sub(old.1).filter(|all| *all > 0)?;
            Some(new.0.saturating_sub(old.0) as f64 / all as f64)
        });
        let seen = self.meters.iter_mut().filter_map(|own| {
            let now = own.meter.mark();
            let watts = own.last.as_ref().map(|then| now.watts_since(then));
            own.last = Some(now);
            let watts = watts?.ok()?.all;
            let load = if own.device == CPU { on_cpu? } else { *busy.get(own.device)? };
            Some(PowerSeen { device: own.device, watts, load })
        });
        seen.collect()
    }
}

/// The ticks of all cores in `/proc/stat`: those in which they worked, and all (proc_stat(5)).
fn cores(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // The time of guests is in that of users.
    let ticks = line.split_whitespace().take(8).map(str::parse);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    let [_, _, _, idle, waiting, ..] = ticks[..] else { return None };
    let all = ticks.iter().sum();
    Some((all - idle - waiting, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_work_while_they_are_neither_idle_nor_waiting() {
        let text = "cpu  10 1 5 80 4 2 3 0 7 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n";
        assert_eq!(cores(text), Some((21, 105)));
        assert_eq!(
            (cores("cpu  10 1 5\n"), cores("cpu  a b c d e\n"), cores("")),
            (None, None, None)
        );
    }

    #[test]
    fn devices_without_a_meter_are_not_read() {
        let mut power = LivePower::open(&["host".into(), "no such".into()]);
        assert!(power.meters.is_empty());
        assert_eq!(power.read(&[1.0, 1.0]), []);
    }
}
