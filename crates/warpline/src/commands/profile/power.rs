//! The power of devices, idle and busy, where they have a meter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use warpline_device::Missing;
use warpline_nf::Definition;
use warpline_sched::work_profile::{CPU, Power};

use super::cells::Cell;
use super::measure;
use crate::machine_profile::MachineProfile;
use crate::meters::{Mark, Meter, Watts};

/// How long a device is idle or busy for a reading. NVML averages over a second.
const LENGTH: Duration = Duration::from_millis(2000);

/// The meters of a profile's devices, and the power while all are idle.
pub(super) struct Meters {
    /// By device.
    all: Vec<Meter>,
    idle: Vec<Result<Watts, Missing>>,
}

impl Meters {
    /// Opens the meters of the devices with these names, and reads them while nothing runs.
    pub(super) fn open(devices: &[&str]) -> Self {
        Self::with(devices.iter().map(|id| Meter::of(id)).collect(), LENGTH)
    }

    fn with(mut all: Vec<Meter>, length: Duration) -> Self {
        let is_metered = all.iter().any(|one| !matches!(one, Meter::None(_)));
        let before: Vec<Mark> = all.iter_mut().map(Meter::mark).collect();
        if is_metered {
            thread::sleep(length);
        }
        let idle = all.iter_mut().zip(&before).map(|(one, before)| one.mark().watts_since(before));
        Self { idle: idle.collect(), all }
    }

    /// Keeps each device with a meter busy for a while, and stores its power in `profile`. Returns
    /// a line for each device.
    pub(super) fn read(
        &mut self,
        profile: &mut MachineProfile,
        functions: &[&'static Definition],
        devices: &[&str],
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for device in 0..self.all.len() {
            let busy =
                self.busy(device, &|mark| keep_busy(profile, functions, (device, devices), mark));
            let read = self.idle[device].clone().and_then(|idle| Ok((idle, busy?)));
            match read {
                Ok((idle, busy)) => {
                    profile.set_power(device, power(idle.all, busy.all));
                    lines.push(line(devices[device], idle.all, busy.all));
                    for (name, busy) in busy.domains {
                        let idle = idle.domains.get(&name).copied().unwrap_or(busy);
                        profile.set_domain(&name, power(idle, busy));
                        lines.push(line(&format!("{} {name}", devices[device]), idle, busy));
                    }
                }
                Err(why) => lines.push(format!("{}: unknown: {why}", devices[device])),
            }
        }
        let keep = |device, mark: measure::Mark<'_>| {
            keep_busy(profile, functions, (device, devices), mark)
        };
        if let Some(busy) = self.together(&keep) {
            lines.push(match &busy {
                Ok(watts) => format!("all at once: {watts:.1} W busy"),
                Err(why) => format!("all at once: unknown: {why}"),
            });
            profile.set_busy_together(busy.ok());
        }
        lines
    }

    /// The power of all devices that have a meter while all work. `None` with fewer than two.
    fn together(&mut self, work: &Work<'_>) -> Option<Result<f64, Missing>> {
        let all = self.all.iter().enumerate();
        let metered = all.filter(|(_, meter)| !matches!(meter, Meter::None(_)));
        let devices: Vec<usize> = metered.map(|(device, _)| device).collect();
        let (&first, others) = devices.split_first().filter(|(_, others)| !others.is_empty())?;
        let done = AtomicBool::new(false);
        let watts = thread::scope(|scope| {
            for &device in others {
                let done = &done;
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) && work(device, &mut || ()).is_ok() {}
                });
            }
            let mut marks: Vec<Vec<Mark>> = Vec::new();
            let mut mark = || marks.push(devices.iter().map(|&at| self.all[at].mark()).collect());
            let worked = work(first, &mut mark);
            done.store(true, Ordering::Relaxed);
            worked.map_err(Missing)?;
            let [before, after] = <[Vec<Mark>; 2]>::try_from(marks)
                .map_err(|_| Missing("some chains read no packets".into()))?;
            let watts = after.into_iter().zip(&before).map(|(now, then)| now.watts_since(then));
            watts.map(|watts| Ok(watts?.all)).sum()
        });
        Some(watts)
    }

    /// The power of a device between the two marks that `work` makes.
    fn busy(
        &mut self,
        device: usize,
        work: &dyn Fn(measure::Mark<'_>) -> Result<(), String>,
    ) -> Result<Watts, Missing> {
        let meter = &mut self.all[device];
        if let Meter::None(why) = meter {
            return Err(why.clone());
        }
        let mut marks = Vec::new();
        work(&mut || marks.push(meter.mark())).map_err(Missing)?;
        let [before, after] = <[Mark; 2]>::try_from(marks)
            .map_err(|_| Missing("some chains read no packets".into()))?;
        after.watts_since(&before)
    }
}

/// Keeps a device busy, with a mark at the beginning and at the end.
type Work<'a> = dyn Fn(usize, measure::Mark<'_>) -> Result<(), String> + Sync + 'a;

fn power(idle: f64, busy: f64) -> Power {
    Power { idle_w: Some(idle), busy_w: Some(busy.max(idle)) }
}

fn line(name: &str, idle: f64, busy: f64) -> String {
    format!("{name}: {idle:.1} W idle, {busy:.1} W busy")
}

/// Runs the function that takes the most of a device; on the CPU, on all cores.
fn keep_busy(
    profile: &MachineProfile,
    functions: &[&'static Definition],
    (device, devices): (usize, &[&str]),
    mark: measure::Mark<'_>,
) -> Result<(), String> {
    let alone = profile.work.measurements().filter(|one| one.beside.is_none());
    let own = alone.filter(|one| one.pair.1 == device);
    let most = own.max_by(|a, b| a.figures.share.total_cmp(&b.figures.share));
    let most = most.ok_or("no function was measured on it")?;
    let cores = thread::available_parallelism().map_or(1, usize::from) as u32;
    let others = if device == CPU { cores - 1 } else { 0 };
    let name = &profile.work.functions()[most.pair.0];
    let function = functions.iter().position(|one| one.name == name);
    let function = function.ok_or_else(|| format!("{name} is not in this program"))?;
    let (launch_packets, packet_len) = (most.launch_packets, most.packet_len);
    let beside = (others > 0).then_some((function, others));
    let cell = Cell { pair: (function, device), launch_packets, packet_len, beside, third: None };
    measure::run_for(functions, devices, &cell, LENGTH, mark)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    use warpline_device::power::Rapl;

    use super::*;
    use crate::profile_file;

    /// A tree like that of the powercap interface, with counters that begin again at 10 J. The
    /// domain takes half of the package's energy.
    fn tree(folder: &Path, microjoules: u64) {
        let zones = [("intel-rapl:0", "package-0", 1), ("intel-rapl:0:1", "uncore", 2)];
        for (zone, name, part) in zones {
            let zone = folder.join(zone);
            fs::create_dir_all(&zone).unwrap();
            fs::write(zone.join("name"), format!("{name}\n")).unwrap();
            fs::write(zone.join("energy_uj"), format!("{}\n", microjoules / part)).unwrap();
            fs::write(zone.join("max_energy_range_uj"), "10000000\n").unwrap();
        }
    }

    fn meters(folder: &Path) -> Meters {
        let rapl = Rapl::open_in(folder).map_or_else(Meter::None, Meter::Rapl);
        let none = Meter::None(Missing("none here".into()));
        Meters::with(vec![rapl, none], Duration::ZERO)
    }

    #[test]
    fn power_is_energy_by_time_also_when_a_counter_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 9_000_000);
        let mut meters = meters(folder.path());
        let work = |mark: measure::Mark<'_>| {
            tree(folder.path(), 9_900_000);
            mark();
            // 2 J.
            tree(folder.path(), 1_900_000);
            thread::sleep(Duration::from_millis(100));
            mark();
            tree(folder.path(), 8_900_000);
            Ok(())
        };
        let watts = meters.busy(CPU, &work).unwrap().all;
        assert!((1.0..=20.0).contains(&watts), "2 J in 0.1 s or more: {watts}");
        assert_eq!(meters.busy(1, &|_| unreachable!()), Err(Missing("none here".into())));
        let failed = meters.busy(CPU, &|_| Err("it stopped".into()));
        assert_eq!(failed, Err(Missing("it stopped".into())));
        let unread = meters.busy(CPU, &|_| Ok(()));
        assert_eq!(unread, Err(Missing("some chains read no packets".into())));
        fs::remove_dir_all(folder.path().join("intel-rapl:0")).unwrap();
        let two = |mark: measure::Mark<'_>| {
            mark();
            mark();
            Ok(())
        };
        assert!(meters.busy(CPU, &two).is_err());
    }

    #[test]
    fn all_devices_are_busy_at_once() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        folders.iter().for_each(|folder| tree(folder.path(), 0));
        let meter = |folder: &tempfile::TempDir| {
            Rapl::open_in(folder.path()).map_or_else(Meter::None, Meter::Rapl)
        };
        let all = vec![meter(&folders[0]), Meter::None(Missing("none".into())), meter(&folders[1])];
        let mut meters = Meters { all, idle: Vec::new() };
        let is_busy = AtomicBool::new(false);
        let work = |device: usize, mark: measure::Mark<'_>| {
            assert_ne!(device, 1, "it has no meter");
            if device == 2 {
                is_busy.store(true, Ordering::Release);
                thread::sleep(Duration::from_millis(1));
                return Ok(());
            }
            while !is_busy.load(Ordering::Acquire) {
                thread::yield_now();
            }
            mark();
            let started = Instant::now();
            thread::sleep(Duration::from_millis(50));
            let joules = started.elapsed().as_secs_f64();
            // 1 W, and 3 W.
            tree(folders[0].path(), (joules * 1e6) as u64);
            tree(folders[1].path(), (joules * 3e6) as u64);
            mark();
            Ok(())
        };
        let watts = meters.together(&work).expect("two meters").expect("watts");
        assert!((2.0..=4.01).contains(&watts), "{watts}");
        let failed = meters.together(&|_, _| Err("it stopped".into()));
        assert_eq!(failed, Some(Err(Missing("it stopped".into()))));
        meters.all.truncate(2);
        assert_eq!(meters.together(&work), None);
    }

    #[test]
    fn domains_of_the_cpu_are_in_the_profile() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 0);
        let mut profile =
            MachineProfile::new(profile_file::to_value(&[], None), &["router"]).unwrap();
        let mut meter = Rapl::open_in(folder.path()).unwrap();
        tree(folder.path(), 3_000_000);
        assert_eq!(meter.domains(), BTreeMap::from([("uncore".to_owned(), 1.5)]));
        profile.set_power(CPU, power(10.0, 30.0));
        profile.set_domain("uncore", power(2.0, 1.0));
        let uncore = &profile.to_value()["cpu_power"]["domains"]["uncore"];
        assert_eq!((&uncore["idle_w"], &uncore["busy_w"]), (&2.0.into(), &2.0.into()));
        profile.set_busy_together(Some(55.0));
        assert_eq!(profile.to_value()["busy_together_w"], 55.0);
        assert_eq!(line("cpu uncore", 2.0, 3.25), "cpu uncore: 2.0 W idle, 3.2 W busy");
    }

    #[test]
    fn devices_without_a_meter_are_unknown_and_keep_their_declared_power() {
        let folder = tempfile::tempdir().unwrap();
        let json = profile_file::to_value(&[], None);
        let mut profile = MachineProfile::new(json, &["router"]).unwrap();
        let declared = Power { idle_w: Some(20.0), busy_w: Some(60.0) };
        profile.set_power(CPU, declared);
        let mut none = Meters { all: Vec::new(), idle: Vec::new() };
        assert!(none.read(&mut profile, &[], &["cpu"]).is_empty());
        let mut meters =
            Meters { all: meters(folder.path()).all, idle: meters(folder.path()).idle };
        meters.all.truncate(1);
        let lines = meters.read(&mut profile, &[], &["cpu"]);
        assert!(lines[0].starts_with("cpu: unknown: no RAPL here"), "{lines:?}");
        assert_eq!(profile.work.devices()[0].power, declared);
        assert_eq!(profile.to_value()["cpu_power"]["busy_w"], 60.0);
    }
}
