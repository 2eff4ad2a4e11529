//! The time of a chain's threads: reading, a lane's work, and sending, without functions and with
//! each. Chains run in real time at several rates, and Linux reports the processor time of their
//! threads. Threads that share packets take longer than one that has them alone, and kernels on the
//! CPU have threads of their own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warpline_engine::{Machine, Member, Ports, timer_lateness, wake_lateness};
use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::{Frame, Sink, SinkError};
use warpline_nf::config::Folder;
use warpline_nf::{Definition, Outputs, SourceText};

use super::measure::{STREAMS, stop_after};
use super::work::{BATCH, Where};
use crate::chain_file::{LoadOptions, Loaded, load};
use crate::machine_profile::CPU_NAME;

/// Packets a second and their length. With few, threads wake for each batch. With too many they
/// never rest.
const FEW: (f64, u32) = (0.2e6, 1024);
const MANY: [(f64, u32); 2] = [(50e6, 1024), (50e6, 64)];
/// Rates at which a reader rests in different ways.
const RATES: [f64; 4] = [10e3, 30e3, 60e3, 250e3];
const ROUNDS: usize = 3;
const LENGTH: Duration = Duration::from_millis(150);
/// The same with a function.
const SHORT: Duration = Duration::from_millis(40);
/// Before it, so that all memory was used once.
const WARM_UP: Duration = Duration::from_millis(20);

/// The same with a function. Threads keep up with it, so packets are still in a cache.
const STEADY: [(f64, u32); 2] = [(2e6, 1024), (2e6, 64)];
/// Packets of a launch of small ones, and of large ones.
const LAUNCHES: [u32; 2] = [32, 512];
/// The part of the busiest device thread's time from which another counts as one.
const ALSO_BUSY: f64 = 0.2;

/// Threads by the names that the engine gives them: reading, a lane, and sending.
const NAMES: [(&str, &str); 3] = [("read", "chain"), ("lane", "lane"), ("send", "sender")];

/// A round: seconds, and what the chain did in them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    seconds: f64,
    packets: f64,
    launches: f64,
    len: f64,
    /// By thread, in the order of [`NAMES`].
    busy_s: [f64; 3],
    /// How often each of them rested.
    rests: [f64; 3],
    /// By other threads together, and how many of them.
    others_s: f64,
    others: usize,
}

/// The times of threads for the profile, or why they cannot be measured.
///
/// # Errors
/// Linux does not report processor times, or the chain does not run.
pub(super) fn measure(
    functions: &[&'static Definition],
    devices: &[&str],
) -> Result<Value, String> {
    let chain = chain(functions)?;
    let few = median(&chain, FEW)?;
    let [long, short] = [median(&chain, MANY[0])?, median(&chain, MANY[1])?];
    let mut all = json!({ "cores": thread::available_parallelism().map_or(1, usize::from) });
    let mut wakes_s = [0.0; 3];
    for (at, (name, _)) in NAMES.into_iter().enumerate() {
        let [packet, byte] = costs(at, &long, &short, 0.0);
        wakes_s[at] = wake_cost(at, &few, [packet, byte]);
        all[name] = json!({ "wake_s": wakes_s[at], "packet_s": packet, "byte_s": byte });
    }
    let mut rests = Vec::new();
    for rate in RATES {
        let Round { seconds, launches, .. } = median(&chain, (rate, FEW.1))?;
        rests.push(json!({ "packets_per_s": rate, "seconds": seconds / launches }));
    }
    all["rests"] = rests.into();
    all["functions"] = with_functions(functions, devices, wakes_s).into();
    let wakes = wake_lateness();
    all["wake_late_s"] = wakes.late.as_secs_f64().into();
    all["ring_s"] = wakes.ring.as_secs_f64().into();
    all["timer_late_s"] = timer_lateness().iter().map(Duration::as_secs_f64).collect();
    Ok(all)
}

/// The times with each function on each of `devices`; without those that cannot be measured.
fn with_functions(
    functions: &[&'static Definition],
    devices: &[&str],
    wakes_s: [f64; 3],
) -> Vec<Value> {
    let each = functions.iter().flat_map(|one| devices.iter().map(move |device| (*one, *device)));
    let each = each.filter(|(one, device)| *device == CPU_NAME || one.has_kernels);
    each.filter_map(|(one, device)| with_function(functions, (one, device), wakes_s).ok()).collect()
}

fn with_function(
    functions: &[&'static Definition],
    (one, device): (&'static Definition, &str),
    wakes_s: [f64; 3],
) -> Result<Value, String> {
    let chain = |launch_packets: u32, len: u32| {
        let at = Where { device, launch_packets, packet_len: len, streams: STREAMS };
        super::work::chain(functions, one, at)
    };
    let [small, large] = LAUNCHES;
    let batch = if device == CPU_NAME { BATCH } else { large };
    let [long, short] = STEADY.map(|load| steady(&chain(batch, load.1)?, load));
    let (long, short) = (long?, short?);
    let mut all = json!({ "function": one.name, "device": device });
    let full = MANY.map(|load| quieter(&chain(batch, load.1)?, load));
    let [full_long, full_short] = full;
    let (full_long, full_short) = (full_long?, full_short?);
    for (at, (name, _)) in NAMES.into_iter().enumerate() {
        for (name, long, short) in
            [(name.to_owned(), &long, &short), (format!("full_{name}"), &full_long, &full_short)]
        {
            let [packet, byte] = costs(at, long, short, wakes_s[at]);
            all[name] = json!({ "packet_s": packet, "byte_s": byte });
        }
    }
    if device != CPU_NAME {
        let few = quieter(&chain(small, FEW.1)?, FEW)?;
        let [launch, packet, byte] = kernel_costs(&few, &long, &short);
        all["kernel"] = json!({
            "launch_s": launch, "packet_s": packet, "byte_s": byte, "threads": few.others.max(1),
        });
    }
    Ok(all)
}

/// A round at this load, or at a part of the rate that the chain carries if that is less. A reader
/// that waits for room takes time for it.
fn steady(chain: &Loaded, (rate, len): (f64, u32)) -> Result<Round, String> {
    let all = quieter(chain, (rate, len))?;
    let carried = all.packets / all.seconds;
    match carried < 0.9 * rate {
        true => quieter(chain, (0.3 * carried, len)),
        false => Ok(all),
    }
}

/// The one of two rounds that took less time for a packet: other work on the machine makes both
/// longer.
fn quieter(chain: &Loaded, load: (f64, u32)) -> Result<Round, String> {
    let [one, other] = [round(chain, load, SHORT)?, round(chain, load, SHORT)?];
    let packet_s = |of: &Round| (of.busy_s.iter().sum::<f64>() + of.others_s) / of.packets;
    Ok(if packet_s(&other) < packet_s(&one) { other } else { one })
}

/// Seconds of a device's threads for a launch, a packet and a byte.
fn kernel_costs(few: &Round, long: &Round, short: &Round) -> [f64; 3] {
    let packet_s = |of: &Round| of.others_s / of.packets;
    let byte = ((packet_s(long) - packet_s(short)) / (long.len - short.len)).max(0.0);
    // Two rounds with other numbers of packets for a launch.
    let [one, other] = [few, long].map(|of| (of.packets / of.launches, of.others_s / of.launches));
    let each = ((other.1 - one.1) / (other.0 - one.0)).max(0.0);
    [(one.1 - each * one.0).max(0.0), (each - byte * long.len).max(0.0), byte]
}

/// Seconds of a thread for a packet and for a byte, if it takes `wake_s` for each rest.
fn costs(thread: usize, long: &Round, short: &Round, wake_s: f64) -> [f64; 2] {
    let packet_s =
        |of: &Round| (of.busy_s[thread] - of.rests[thread] * wake_s).max(0.0) / of.packets;
    let byte = ((packet_s(long) - packet_s(short)) / (long.len - short.len)).max(0.0);
    [(packet_s(long) - byte * long.len).max(0.0), byte]
}

/// Seconds of a thread for a rest, if it takes so many for a packet and a byte.
fn wake_cost(thread: usize, few: &Round, [packet, byte]: [f64; 2]) -> f64 {
    let woken_s = few.busy_s[thread] - few.packets * (packet + byte * few.len);
    (woken_s / few.rests[thread].max(1.0)).max(0.0)
}

/// The round with the median time of reading a packet.
fn median(chain: &Loaded, load: (f64, u32)) -> Result<Round, String> {
    let mut all = (0..ROUNDS).map(|_| round(chain, load, LENGTH)).collect::<Result<Vec<_>, _>>()?;
    let packet_s = |of: &Round| of.busy_s.iter().sum::<f64>() / of.packets;
    all.sort_by(|one, other| packet_s(one).total_cmp(&packet_s(other)));
    Ok(all[all.len() / 2])
}

fn round(chain: &Loaded, (rate, len): (f64, u32), length: Duration) -> Result<Round, String> {
    let gbps = rate * f64::from(len) * 8e-9;
    let text = format!("seconds=1000,size={len},flows=1000,payload=text,rate_gbps={gbps:.6}");
    let config = GeneratorConfig::parse(&text).map_err(|why| why[0].to_string())?;
    let ports = Ports::Shared(Box::new(Generator::new(config)), Box::new(Apart));
    let member = Member::new(chain.deployment.clone(), chain.settings, ports);
    let machine = Machine::new(vec![member], Outputs::default(), Vec::new());
    let marks = Mutex::new(Vec::new());
    let mut mark = || {
        if marks.lock().expect("no mark fails").is_empty() {
            thread::sleep(WARM_UP);
        }
        let now = (Instant::now(), machine.chains()[0].control.read(), busy());
        marks.lock().expect("no mark fails").push(now);
    };
    let reports = thread::scope(|scope| {
        scope.spawn(|| stop_after(&machine, length, &mut mark));
        machine.run()
    });
    let report =
        reports.into_iter().next().ok_or("no chain ran")?.map_err(|why| why.to_string())?;
    let marks = marks.into_inner().map_err(|_| "a mark failed")?;
    let [(began, before, busy_before), (ended, after, busy_after)] = &marks[..] else {
        return Err("the chain did not begin to read".into());
    };
    let (mut busy_s, mut rests) = ([0.0; 3], [0.0; 3]);
    for (at, (_, name)) in NAMES.into_iter().enumerate() {
        let named = busy_after.iter().filter(|(_, one)| one.name == name);
        let both = named.filter_map(|(id, after)| Some((after, busy_before.get(id)?)));
        let used = both.map(|(after, before)| {
            let ran_ns = after.ran_ns.saturating_sub(before.ran_ns);
            (ran_ns, after.rests.saturating_sub(before.rests))
        });
        // Another chain of the process has threads with this name, too, but rests.
        let (ran_ns, rested) = used.max().ok_or("Linux reports no processor times")?;
        busy_s[at] = ran_ns as f64 * 1e-9;
        rests[at] = rested as f64;
    }
    let others = others(busy_before, busy_after);
    let busiest = others.iter().copied().fold(0.0, f64::max);
    let packets = (after - before) as f64;
    let part = &report.part;
    let launches = part.stages.first().map_or(0, |stage| stage.launches) as f64;
    if packets == 0.0 || launches == 0.0 {
        return Err("no packet was read".into());
    }
    Ok(Round {
        seconds: (*ended - *began).as_secs_f64(),
        packets,
        // Those of the whole run, in proportion.
        launches: launches * packets / part.packets.read.max(1) as f64,
        len: f64::from(len),
        busy_s,
        rests,
        others: others.iter().filter(|own| **own > ALSO_BUSY * busiest).count(),
        others_s: others.iter().sum(),
    })
}

/// The threads of this process but the one that asks.
type Busy = BTreeMap<OsString, ThreadBusy>;

#[derive(Clone)]
struct ThreadBusy {
    /// The first word of its name.
    name: String,
    ran_ns: u64,
    /// How often it waited.
    rests: u64,
}

fn busy() -> Busy {
    let own = fs::read_link("/proc/thread-self").unwrap_or_default();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let others = tasks.filter(|task| own.file_name() != Some(&*task.file_name()));
    let of = |task: fs::DirEntry| {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).ok();
        let (name, times, status) = (read("comm")?, read("schedstat")?, read("status")?);
        let name = name.split(|byte: char| !byte.is_alphabetic()).next().unwrap_or_default();
        let number = |text: Option<&str>| text.and_then(|text| text.trim().parse().ok());
        let ran_ns = number(times.split_whitespace().next()).unwrap_or(0);
        let waits = |line: &'static str| status.lines().find_map(|one| one.strip_prefix(line));
        let rests = number(waits("voluntary_ctxt_switches:")).unwrap_or(0);
        Some((task.file_name(), ThreadBusy { name: name.to_owned(), ran_ns, rests }))
    };
    others.filter_map(of).collect()
}

/// Seconds of each thread that is none of the chain's.
fn others(before: &Busy, after: &Busy) -> Vec<f64> {
    let is_other = |one: &ThreadBusy| NAMES.iter().all(|(_, own)| *own != one.name);
    let all = after.iter().filter(|(_, one)| is_other(one));
    let ran = |(id, one): (&OsString, &ThreadBusy)| {
        let earlier = before.get(id).map_or(0, |one| one.ran_ns);
        one.ran_ns.saturating_sub(earlier) as f64 * 1e-9
    };
    all.map(ran).collect()
}

/// A chain without functions.
fn chain(functions: &[&'static Definition]) -> Result<Loaded, String> {
    let text = "[chain]\nfunctions = []\nlanes = 1\n".to_owned();
    let source = SourceText::new("the profile's empty chain".to_owned(), text);
    let options = LoadOptions::of(functions);
    let loaded = load(&source, Folder::Bundled(&[]), &options, false);
    let mut chains = loaded.map_err(|mistakes| mistakes.to_string())?;
    chains.pop().ok_or_else(|| "it has no chain".into())
}

/// A sink that takes everything. As it might wait, each thread of the chain keeps its own work.
struct Apart;

impl Sink for Apart {
    fn wants_frames(&self) -> bool {
        false
    }

    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading takes 2 us to wake, 50 ns a packet and 0.1 ns a byte.
    #[test]
    fn times_of_wakes_packets_and_bytes_are_told_apart() {
        let round = |packets: f64, wakes: f64, len: f64| Round {
            seconds: 1.0,
            packets,
            launches: packets / 64.0,
            len,
            busy_s: [2e-6 * wakes + (50e-9 + 0.1e-9 * len) * packets, 0.0, 1e-9 * packets],
            rests: [wakes, wakes, wakes],
            others: 1,
            others_s: 0.0,
        };
        let few = round(2e5, 2e5 / 64.0, 1024.0);
        let (long, short) = (round(2e6, 0.0, 1024.0), round(2e6, 0.0, 64.0));
        let near = |found: [f64; 3], expected: [f64; 3]| {
            found.into_iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12)
        };
        let all = |thread: usize| {
            let [packet, byte] = costs(thread, &long, &short, 0.0);
            [wake_cost(thread, &few, [packet, byte]), packet, byte]
        };
        assert!(near(all(0), [2e-6, 50e-9, 0.1e-9]));
        assert!(near(all(1), [0.0; 3]));
        assert!(near(all(2), [0.0, 1e-9, 0.0]));
        // Rounds with rests give the same.
        let (long, short) = (round(2e6, 9e3, 1024.0), round(2e6, 7e3, 64.0));
        let [packet, byte] = costs(0, &long, &short, 2e-6);
        assert!(near([0.0, packet, byte], [0.0, 50e-9, 0.1e-9]));
        // No time is negative.
        assert!(costs(0, &short, &few, 1.0).iter().all(|one| *one >= 0.0));
        assert_eq!(wake_cost(0, &few, [1.0, 0.0]), 0.0);
    }

    /// A launch takes 9 us, a packet 30 ns and a byte 0.2 ns.
    #[test]
    fn times_of_launches_and_packets_are_told_apart() {
        let round = |launches: f64, of: f64, len: f64| Round {
            seconds: 1.0,
            packets: launches * of,
            launches,
            len,
            busy_s: [0.0; 3],
            rests: [0.0; 3],
            others: 1,
            others_s: launches * (9e-6 + (30e-9 + 0.2e-9 * len) * of),
        };
        let rounds = (round(6e3, 32.0, 1024.0), round(4e3, 512.0, 1024.0), round(4e3, 512.0, 64.0));
        let found = kernel_costs(&rounds.0, &rounds.1, &rounds.2);
        let expected = [9e-6, 30e-9, 0.2e-9];
        let near = found.into_iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12);
        assert!(near, "{found:?}");
        // Launches of one size show no time of a packet.
        let [launch, ..] = kernel_costs(&rounds.1, &rounds.1, &rounds.2);
        assert!(launch > 0.0, "{launch}");
    }

    #[test]
    fn threads_of_a_chain_are_measured() {
        let chain = chain(&[]).unwrap();
        let Round { packets, launches, busy_s, .. } = round(&chain, FEW, LENGTH).unwrap();
        assert!(packets >= launches && launches > 0.0 && busy_s[0] > 0.0, "{busy_s:?}");
    }
}
