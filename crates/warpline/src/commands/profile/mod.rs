//! `warpline profile`: measures every function on every device here, alone and beside others.
//!
//! The profile is written after each measurement, so a run that ends early is continued by the next
//! one of the same kind. Its measurements are merged with those of earlier runs. The times of
//! threads come last: they take most of a minute and are written as one.

mod cells;
mod energy;
mod measure;
mod power;
mod report;
mod threads;
mod work;

use std::fs;
use std::io::{ErrorKind, IsTerminal};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use warpline_device::{Description, Device, Speeds, self_test};
use warpline_engine::gather_speeds;
use warpline_io_error::plain;
use warpline_nf::Definition;
use warpline_nf::config::read_text;
use warpline_sched::work_profile::Measurement;

use self::cells::{Cell, Extent, FULL, QUICK, pairs};
use self::power::Meters;
use super::run::print_message;
use super::{say, say_json};
use crate::machine_profile::{CPU_NAME, LEN_MAX, MachineProfile, Triple, Unfinished};
use crate::{Failure, device_keys, profile_file};

/// A run that takes longer announces its time.
const LONG: Duration = Duration::from_secs(60);

/// Measures and shows the profile.
pub(crate) fn profile(
    functions: &[&'static Definition],
    quick: bool,
    file: &Path,
    json: bool,
) -> Result<(), Failure> {
    let started = Instant::now();
    let old = read(file)?;
    let extent = if quick { QUICK } else { FULL };
    let (machine, ids) = machine();
    let devices: Vec<&str> = [CPU_NAME].into_iter().chain(ids.iter().map(|id| &**id)).collect();
    let on_cpu = |device: &&&str| is_on_cpu(&machine, device);
    let own: Vec<&str> = devices.iter().filter(on_cpu).copied().collect();
    let names: Vec<&str> = functions.iter().map(|one| one.name).collect();
    let mut profile = MachineProfile::new(machine, &names).map_err(Failure::Run)?;
    if let Some(old) = &old {
        let of_file = |why| Failure::Usage(format!("{}: {why}", file.display()));
        profile.add(old).map_err(of_file)?;
    }
    let (runs, skipped) = pairs(functions, &devices);
    let cells = extent.cells(names.len(), &runs);
    let plan = extent.plan(&names, &devices, &cells);
    let mut meters = Meters::open(&devices);
    let left = work(
        &mut profile,
        &Run { functions, devices: devices.clone(), cells, plan, extent, file, started },
    )?;
    let power = meters.read(&mut profile, functions, &devices);
    if left == 0 {
        match threads::measure(functions, &own) {
            Ok(times) => profile.set_threads(times),
            Err(why) => print_message(&format!("warning: times of threads are left out: {why}\n")),
        }
    }
    profile.write(file).map_err(Failure::Run)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if json {
        let mut all = profile.to_value();
        all["break_even"] = report::break_evens_json(&profile);
        all["energy"] = energy::in_json(&profile.work, &report::lens(&profile.work), cores);
        return say_json(&format!("{all:#}"));
    }
    say(&report::text(&profile))?;
    say("\npower")?;
    let energy = energy::lines(&profile.work, &report::lens(&profile.work), cores);
    power.iter().chain(&energy).try_for_each(|line| say(&format!("  {line}")))?;
    skipped.iter().try_for_each(|why| say(&format!("  {why}")))?;
    say(&format!("written to {}", file.display()))?;
    match left {
        0 => Ok(()),
        left => say(&format!("{left} measurements are left; the same command makes them")),
    }
}

/// The profile of earlier runs.
fn read(file: &Path) -> Result<Option<MachineProfile>, Failure> {
    let name = file.display();
    match fs::metadata(file) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(Failure::Usage(format!("{name}: {}", plain(&why)))),
        Ok(_) => {}
    }
    let text = read_text(file, LEN_MAX);
    let text = text.map_err(|why| Failure::Usage(format!("can't read {name}: {why}")))?;
    let help = "--out names another file for this machine";
    let parsed = MachineProfile::parse(&text, false);
    parsed.map(Some).map_err(|why| Failure::Usage(format!("{name}: {why}; {help}")))
}

/// The copy speeds of this machine, and the devices that pass their self-test.
fn machine() -> (Value, Vec<String>) {
    let mut measured: Vec<(&Description, Speeds)> = Vec::new();
    for device in device_keys::all() {
        let about = device.description();
        match speeds(&**device) {
            Ok(speeds) => measured.push((about, speeds)),
            Err(why) => print_message(&format!("warning: {} is left out: {why}\n", about.id)),
        }
    }
    let machine = profile_file::to_value(&measured, gather_speeds());
    (machine, measured.iter().map(|(about, _)| about.id.clone()).collect())
}

/// Whether the kernels of a device run on the CPU, as all functions do there.
fn is_on_cpu(machine: &Value, device: &str) -> bool {
    let mut devices = machine["devices"].as_array().into_iter().flatten();
    device == CPU_NAME || devices.any(|one| one["id"] == device && one["runs_on_cpu"] == true)
}

fn speeds(device: &dyn Device) -> Result<Speeds, warpline_device::Failure> {
    self_test(device)?;
    warpline_device::measure(device)
}

/// A run and its settings.
struct Run<'a> {
    functions: &'a [&'static Definition],
    devices: Vec<&'a str>,
    cells: Vec<Cell>,
    plan: String,
    extent: Extent,
    file: &'a Path,
    started: Instant,
}

/// Makes the measurements that are left. Returns how many are left after the time is up.
fn work(profile: &mut MachineProfile, run: &Run<'_>) -> Result<usize, Failure> {
    let same = profile.unfinished.take().filter(|own| own.plan == run.plan);
    let done = same.map_or(0, |own| own.done as usize).min(run.cells.len());
    let (began, bar) = (Instant::now(), bar(run.cells.len(), done));
    let time_left =
        |at: usize| run.extent.time_left(at - done, began.elapsed(), run.cells.len() - at);
    if time_left(done) > LONG {
        let (left, time) = (run.cells.len() - done, in_words(time_left(done)));
        print_message(&format!("{left} measurements are left, about {time}\n"));
    }
    for (at, cell) in run.cells.iter().enumerate().skip(done) {
        if run.started.elapsed() > Duration::from_secs(run.extent.seconds_max) {
            return Ok(run.cells.len() - at);
        }
        if let Some(bar) = &bar {
            bar.set_message(format!("{} left: {}", in_words(time_left(at)), name(run, cell)));
        }
        let times = (run.extent.rounds, Duration::from_millis(run.extent.round_ms));
        match measure::measure(run.functions, &run.devices, cell, times) {
            Ok(measured) => add(profile, cell, &measured)?,
            Err(why) => print_message(&format!("warning: {}: {why}\n", name(run, cell))),
        }
        let unfinished = Unfinished { plan: run.plan.clone(), done: at as u64 + 1 };
        profile.unfinished = Some(unfinished).filter(|_| at + 1 < run.cells.len());
        profile.write(run.file).map_err(Failure::Run)?;
        bar.iter().for_each(|bar| bar.inc(1));
    }
    bar.iter().for_each(ProgressBar::finish_and_clear);
    Ok(0)
}

fn add(
    profile: &mut MachineProfile,
    cell: &Cell,
    measured: &measure::Measured,
) -> Result<(), Failure> {
    let &Cell { pair, launch_packets, packet_len, beside, third } = cell;
    if let (Some((first, _)), Some(third)) = (beside, third) {
        let (beside, bits_per_s) = ([first, third], measured.figures.bits_per_s);
        profile.set_triple(Triple { pair, launch_packets, packet_len, beside, bits_per_s });
        return Ok(());
    }
    let one = Measurement::alone(pair, launch_packets, packet_len, measured.figures);
    let one = beside.map_or(one, |(function, count)| one.beside(function, count));
    profile.merge(&one, measured.spread).map_err(|why| Failure::Run(why.to_string()))
}

/// A measurement in words.
fn name(run: &Run<'_>, cell: &Cell) -> String {
    let Cell { pair, launch_packets, packet_len, beside, third } = *cell;
    let (function, device) = (run.functions[pair.0].name, run.devices[pair.1]);
    let beside = beside.map(|(other, n)| format!(" beside {n} {}", run.functions[other].name));
    let beside = beside.unwrap_or_default();
    let third =
        third.map_or(String::new(), |third| format!(" and 1 {}", run.functions[third].name));
    format!("{function} on {device}, {launch_packets} x {packet_len} B{beside}{third}")
}

/// A time in seconds or minutes.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// On a terminal, the progress and the time left.
fn bar(cells: usize, done: usize) -> Option<ProgressBar> {
    let template = "{bar:30} {pos}/{len}, {wide_msg}";
    let style = ProgressStyle::with_template(template).ok()?;
    std::io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::new(cells as u64).with_style(style);
        bar.with_position(done as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(launch_packets: u32) -> Cell {
        Cell { pair: (0, 0), launch_packets, packet_len: 64, beside: None, third: None }
    }

    #[test]
    fn a_run_that_ended_early_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machine.json");
        let functions = [warpline_functions::definition("router").unwrap()];
        let mut run = Run {
            functions: &functions,
            devices: vec![CPU_NAME],
            cells: vec![cell(64), cell(256)],
            plan: "a plan".into(),
            extent: Extent { rounds: 1, round_ms: 5, seconds_max: 0, ..QUICK },
            file: &file,
            started: Instant::now() - Duration::from_secs(60),
        };
        let new = || MachineProfile::new(profile_file::to_value(&[], None), &["router"]).unwrap();
        let mut profile = new();
        assert_eq!(work(&mut profile, &run).ok(), Some(2), "no time, no measurement");
        run.extent.seconds_max = 3600;
        // As if the program had been killed after the first.
        profile.unfinished = Some(Unfinished { plan: run.plan.clone(), done: 1 });
        profile.write(&file).unwrap();
        let mut second = new();
        second.add(&read(&file).ok().flatten().unwrap()).unwrap();
        assert_eq!(work(&mut second, &run).ok(), Some(0));
        assert_eq!(second.work.launch_sizes((0, 0)), [256], "the first is not measured again");
        let written = read(&file).ok().flatten().unwrap();
        assert_eq!(written.unfinished, None);
        let figures = written.work.alone((0, 0), 256, 64).unwrap();
        assert!(figures.bits_per_s > 1e6 && figures.weight > 0.0, "{figures:?}");
        // Another plan begins anew, and adds its evidence.
        second.unfinished = Some(Unfinished { plan: "another".into(), done: 2 });
        assert_eq!(work(&mut second, &run).ok(), Some(0));
        assert_eq!(second.work.launch_sizes((0, 0)), [64, 256]);
    }

    #[test]
    fn chains_run_beside_others() {
        let functions = [warpline_functions::definition("router").unwrap()];
        let times = (3, Duration::from_millis(20));
        let [four, three] = [(3, None), (1, Some(0))].map(|(count, third)| Cell {
            beside: Some((0, count)),
            third,
            ..cell(256)
        });
        for cell in [four, three] {
            let measured = measure::measure(&functions, &[CPU_NAME], &cell, times).unwrap();
            assert!(measured.figures.bits_per_s > 1e6 && measured.figures.weight > 0.0);
        }
    }
}
