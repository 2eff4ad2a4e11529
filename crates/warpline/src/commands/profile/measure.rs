//! One measurement: chains of one function run through the engine, with kernels and copies.

use std::thread;
use std::time::{Duration, Instant};

use warpline_engine::{Cores, Machine, Member, Ports, Report};
use warpline_io::NullSink;
use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_nf::{Definition, Outputs};
use warpline_sched::work_profile::Figures;

use super::cells::Cell;
use super::work::{Where, chain, traffic};
use crate::chain_file::Loaded;

/// Launches in flight at most, as chain files have it by default.
pub(super) const STREAMS: u32 = 4;
/// Rounds after which a small spread is enough, and that spread.
pub(super) const ROUNDS_LEAST: usize = 3;
const SPREAD_SMALL: f64 = 0.02;
/// A chain that reads nothing for so long does not start any more.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Called at the beginning and at the end of a measurement.
pub(super) type Mark<'a> = &'a mut (dyn FnMut() + Send);

/// The median of the rounds, and their relative spread.
pub(super) struct Measured {
    pub(super) figures: Figures,
    pub(super) spread: f64,
}

/// A round: nanoseconds of a packet on the whole path and on the device, and of a launch.
#[derive(Clone, Copy)]
struct Round {
    /// Packets of the chain, which began together with its co-runners.
    packets: f64,
    packet_ns: f64,
    device_ns: f64,
    launch_ns: f64,
    seconds: f64,
}

/// Measures `cell` in up to `rounds` rounds of `length`, after a shorter one to warm up.
///
/// # Errors
/// A chain that cannot be built or run.
pub(super) fn measure(
    functions: &[&'static Definition],
    devices: &[&str],
    cell: &Cell,
    (rounds, length): (usize, Duration),
) -> Result<Measured, String> {
    let device = devices[cell.pair.1];
    let chains = build(functions, device, cell, STREAMS)?;
    once(&chains, cell, length / 2, &mut || {})?;
    let shares_core = cell.beside.is_some() && cell.pair.1 == 0;
    let mut all = Vec::new();
    while all.len() < rounds && !is_steady(&all, shares_core) {
        all.push(once(&chains, cell, length, &mut || {})?);
    }
    let (mut median, spread) = median(&mut all, shares_core);
    if shares_core {
        let alone = once(&chains[..1], cell, length, &mut || {})?;
        median = in_turns(&alone, median.packets);
    }
    // A launch that has the device alone shows its latency.
    let latency_ns = match cell.pair.1 == 0 {
        true => median.launch_ns,
        false => once(&build(functions, device, cell, 1)?, cell, length, &mut || {})?.launch_ns,
    };
    let figures = Figures {
        bits_per_s: f64::from(cell.packet_len) * 8e9 / median.packet_ns,
        latency_ns,
        share: (median.device_ns / median.packet_ns).clamp(0.0, 1.0),
        weight: all.iter().map(|round| round.seconds).sum(),
    };
    Ok(Measured { figures, spread })
}

/// Runs the chains of `cell` for `length`, each on any core. Calls `mark` when all read packets,
/// and before they stop.
///
/// # Errors
/// As [`measure`].
pub(super) fn run_for(
    functions: &[&'static Definition],
    devices: &[&str],
    cell: &Cell,
    length: Duration,
    mark: Mark<'_>,
) -> Result<(), String> {
    let mut chains = build(functions, devices[cell.pair.1], cell, STREAMS)?;
    chains.iter_mut().for_each(|chain| chain.settings.cores = Cores::ANY);
    once(&chains, cell, length, mark).map(drop)
}

/// The median round, and the relative spread. The packets of chains that share a core decide, as
/// [`in_turns`] explains.
fn median(all: &mut [Round], shares_core: bool) -> (Round, f64) {
    let value = |round: &Round| if shares_core { round.packets } else { round.packet_ns };
    all.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let median = all[all.len() / 2];
    let range = value(&all[all.len() - 1]) - value(&all[0]);
    (median, range / value(&median))
}

/// Whether more rounds would hardly change the median.
fn is_steady(all: &[Round], shares_core: bool) -> bool {
    all.len() >= ROUNDS_LEAST && median(&mut all.to_vec(), shares_core).1 <= SPREAD_SMALL
}

/// The figures of a chain that shares a core. It works in turns of some milliseconds, so the times
/// within the function hardly show its co-runners. The packets that it has done in the same time
/// do.
fn in_turns(alone: &Round, packets: f64) -> Round {
    let slower = (alone.packets / packets).max(1.0);
    Round {
        packet_ns: alone.packet_ns * slower,
        device_ns: alone.device_ns * slower,
        launch_ns: alone.launch_ns * slower,
        ..*alone
    }
}

/// The chain of the function, then those of its co-runners.
fn build(
    functions: &[&'static Definition],
    device: &str,
    cell: &Cell,
    streams: u32,
) -> Result<Vec<Loaded>, String> {
    let Cell { pair, launch_packets, packet_len, beside, third } = *cell;
    let (other, count) = beside.unwrap_or((0, 0));
    let all = [pair.0].into_iter().chain((0..count).map(|_| other)).chain(third);
    let at = Where { device, launch_packets, packet_len, streams };
    let chains = all.map(|function| chain(functions, functions[function], at));
    let mut chains = chains.collect::<Result<Vec<Loaded>, _>>()?;
    // On the CPU the functions of a chain take turns on a core.
    if beside.is_some() && pair.1 == 0 {
        let core = first_core();
        chains.iter_mut().for_each(|chain| chain.settings.cores = core);
    }
    Ok(chains)
}

/// Runs the chains side by side for `length`; the figures are of the first. Calls `mark` as
/// [`run_for`].
fn once(chains: &[Loaded], cell: &Cell, length: Duration, mark: Mark<'_>) -> Result<Round, String> {
    let traffic = traffic(cell.packet_len);
    let member = |chain: &Loaded| {
        let config = GeneratorConfig::parse(&traffic).map_err(|why| why[0].to_string())?;
        let source = Box::new(Generator::new(config));
        let ports = Ports::PerLane(vec![(source, Box::new(NullSink))]);
        Ok(Member::new(chain.deployment.clone(), chain.settings, ports))
    };
    let members = chains.iter().map(member).collect::<Result<_, String>>()?;
    let machine = Machine::new(members, Outputs::default(), Vec::new());
    let reports = thread::scope(|scope| {
        scope.spawn(|| stop_after(&machine, length, mark));
        machine.run()
    });
    let mut first = None;
    for report in reports {
        let report = report.map_err(|why| why.to_string())?;
        if let Some(why) = report.part.errors.first() {
            return Err(why.clone());
        }
        first.get_or_insert(report);
    }
    round(&first.ok_or("no chain ran")?, cell.pair.1 == 0)
}

/// Stops the chains `length` after all have begun to read. Calls `mark` at both ends of this time.
pub(super) fn stop_after(machine: &Machine, length: Duration, mark: Mark<'_>) {
    let wait = |until: &dyn Fn() -> bool, most: Duration| {
        let started = Instant::now();
        while !until() && !machine.is_over() && started.elapsed() < most {
            thread::sleep(LOOK_EVERY);
        }
    };
    let all_read = || machine.chains().iter().all(|chain| chain.control.read() > 0);
    wait(&all_read, START_MAX);
    if all_read() {
        mark();
        wait(&|| false, length);
        mark();
    }
    machine.stop();
}

fn round(report: &Report, is_cpu: bool) -> Result<Round, String> {
    let part = &report.part;
    let packets = part.functions.first().map_or(0, |own| own.packets_in) as f64;
    let cpu_ns = part.functions.iter().map(|own| own.busy_ns).sum::<u64>() as f64;
    let stage = part.stages.first().copied().unwrap_or_default();
    let (device_ns, launches) = (stage.device_ns as f64, stage.launches as f64);
    if packets == 0.0 || launches == 0.0 || cpu_ns.max(device_ns) == 0.0 {
        return Err("no packet reached the function".into());
    }
    // The CPU's part and the device's overlap, so the longer one bounds the rate.
    let whole_ns = if is_cpu { cpu_ns } else { cpu_ns.max(device_ns) };
    let on_device = if is_cpu { cpu_ns } else { device_ns };
    Ok(Round {
        packets,
        packet_ns: whole_ns / packets,
        device_ns: on_device / packets,
        launch_ns: on_device / launches,
        seconds: whole_ns * 1e-9,
    })
}

/// The first core that this process may use.
fn first_core() -> Cores {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|list| list.trim().split([',', '-']).next()?.parse().ok());
    first.unwrap_or(Cores::ANY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_chains_that_share_a_core_are_compared_by_packets() {
        let round = |packets, packet_ns| Round {
            packets,
            packet_ns,
            device_ns: packet_ns,
            launch_ns: packet_ns,
            seconds: 1.0,
        };
        let all = [round(1000.0, 10.0), round(4000.0, 12.0), round(2000.0, 15.0)];
        let (by_time, spread) = median(&mut all.clone(), false);
        assert_eq!((by_time.packets, spread), (4000.0, 5.0 / 12.0));
        let (by_packets, spread) = median(&mut all.clone(), true);
        assert_eq!((by_packets.packets, spread), (2000.0, 1.5));
    }

    #[test]
    fn steady_rounds_need_no_more() {
        let round = |packet_ns| Round {
            packets: 1e9 / packet_ns,
            packet_ns,
            device_ns: packet_ns,
            launch_ns: packet_ns,
            seconds: 1.0,
        };
        for (times, expected) in [
            (&[100.0, 100.0][..], false),
            (&[100.0, 101.0, 102.0], true),
            (&[100.0, 101.0, 104.0], false),
            (&[100.0, 101.0, 104.0, 100.0], false),
        ] {
            let all: Vec<Round> = times.iter().copied().map(round).collect();
            assert_eq!([true, false].map(|shared| is_steady(&all, shared)), [expected; 2]);
        }
    }

    #[test]
    fn marks_are_made_while_chains_read() {
        let functions = [warpline_functions::definition("router").unwrap()];
        let cell =
            Cell { pair: (0, 0), launch_packets: 256, packet_len: 64, beside: None, third: None };
        let (mut marks, length) = (Vec::new(), Duration::from_millis(20));
        let mark: Mark<'_> = &mut || marks.push(Instant::now());
        run_for(&functions, &["cpu"], &cell, length, mark).unwrap();
        let [first, last] = marks[..] else { panic!("two marks: {marks:?}") };
        assert!(last - first >= length, "{:?}", last - first);
    }

    #[test]
    fn a_chain_that_shares_a_core_is_slower_by_its_packets() {
        let alone = Round {
            packets: 4000.0,
            packet_ns: 10.0,
            device_ns: 10.0,
            launch_ns: 2560.0,
            seconds: 1.0,
        };
        assert_eq!(in_turns(&alone, 1000.0).packet_ns, 40.0);
        assert_eq!(in_turns(&alone, 1000.0).launch_ns, 10_240.0);
        assert_eq!(in_turns(&alone, 5000.0).packet_ns, 10.0, "never faster than alone");
    }
}
