//! The time of a chain's threads besides its functions: reading, a lane's own work, and sending.
//! A chain without functions runs in real time at several rates, and Linux reports the processor
//! time of its threads.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warpline_engine::{Machine, Member, Ports, timer_lateness};
use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::{Frame, Sink, SinkError};
use warpline_nf::config::Folder;
use warpline_nf::{Definition, Outputs, SourceText};

use super::measure::stop_after;
use crate::chain_file::{LoadOptions, Loaded, load};

/// Packets a second and their length. With few, threads wake for each batch. With too many they
/// never rest.
const FEW: (f64, u32) = (0.2e6, 1024);
const MANY: [(f64, u32); 2] = [(50e6, 1024), (50e6, 64)];
/// Rates at which a reader rests in different ways.
const RATES: [f64; 4] = [10e3, 30e3, 60e3, 250e3];
const ROUNDS: usize = 3;
const LENGTH: Duration = Duration::from_millis(150);

/// Threads by the names that the engine gives them: reading, a lane, and sending.
const NAMES: [(&str, &str); 3] = [("read", "chain"), ("lane", "lane"), ("send", "sender")];

/// A round: seconds, and what the chain did in them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    seconds: f64,
    packets: f64,
    batches: f64,
    len: f64,
    /// By thread, in the order of [`NAMES`].
    busy_s: [f64; 3],
}

/// The times of threads for the profile, or why they cannot be measured.
///
/// # Errors
/// Linux does not report processor times, or the chain does not run.
pub(super) fn measure(functions: &[&'static Definition]) -> Result<Value, String> {
    let chain = chain(functions)?;
    let few = median(&chain, FEW)?;
    let [long, short] = [median(&chain, MANY[0])?, median(&chain, MANY[1])?];
    let mut all = json!({ "cores": thread::available_parallelism().map_or(1, usize::from) });
    for (at, (name, _)) in NAMES.into_iter().enumerate() {
        let [wake, packet, byte] = costs(at, &few, &long, &short);
        all[name] = json!({ "wake_s": wake, "packet_s": packet, "byte_s": byte });
    }
    let mut rests = Vec::new();
    for rate in RATES {
        let Round { seconds, batches, .. } = median(&chain, (rate, FEW.1))?;
        rests.push(json!({ "packets_per_s": rate, "seconds": seconds / batches }));
    }
    all["rests"] = rests.into();
    all["timer_late_s"] = timer_lateness().iter().map(Duration::as_secs_f64).collect();
    Ok(all)
}

/// Seconds of a thread to wake for a batch, for a packet and for a byte.
fn costs(thread: usize, few: &Round, long: &Round, short: &Round) -> [f64; 3] {
    let packet_s = |of: &Round| of.busy_s[thread] / of.packets;
    let byte = ((packet_s(long) - packet_s(short)) / (long.len - short.len)).max(0.0);
    let packet = (packet_s(long) - byte * long.len).max(0.0);
    let woken = few.busy_s[thread] - few.packets * (packet + byte * few.len);
    [(woken / few.batches).max(0.0), packet, byte]
}

/// The round with the median time of reading a packet.
fn median(chain: &Loaded, load: (f64, u32)) -> Result<Round, String> {
    let mut all = (0..ROUNDS).map(|_| round(chain, load)).collect::<Result<Vec<_>, _>>()?;
    let packet_s = |of: &Round| of.busy_s.iter().sum::<f64>() / of.packets;
    all.sort_by(|one, other| packet_s(one).total_cmp(&packet_s(other)));
    Ok(all[all.len() / 2])
}

fn round(chain: &Loaded, (rate, len): (f64, u32)) -> Result<Round, String> {
    let gbps = rate * f64::from(len) * 8e-9;
    let text = format!("seconds=1000,size={len},flows=1000,payload=text,rate_gbps={gbps:.6}");
    let config = GeneratorConfig::parse(&text).map_err(|why| why[0].to_string())?;
    let ports = Ports::Shared(Box::new(Generator::new(config)), Box::new(Apart));
    let member = Member::new(chain.deployment.clone(), chain.settings, ports);
    let machine = Machine::new(vec![member], Outputs::default(), Vec::new());
    let marks = Mutex::new(Vec::new());
    let mut mark = || {
        let now = (Instant::now(), machine.chains()[0].control.read(), busy());
        marks.lock().expect("no mark fails").push(now);
    };
    let reports = thread::scope(|scope| {
        scope.spawn(|| stop_after(&machine, LENGTH, &mut mark));
        machine.run()
    });
    let report =
        reports.into_iter().next().ok_or("no chain ran")?.map_err(|why| why.to_string())?;
    let marks = marks.into_inner().map_err(|_| "a mark failed")?;
    let [(began, before, busy_before), (ended, after, busy_after)] = &marks[..] else {
        return Err("the chain did not begin to read".into());
    };
    let mut busy_s = [0.0; 3];
    for (own, (_, name)) in busy_s.iter_mut().zip(NAMES) {
        let of = |all: &BTreeMap<String, u64>| all.get(name).copied();
        let used = of(busy_after).zip(of(busy_before)).ok_or("Linux reports no processor times")?;
        *own = used.0.saturating_sub(used.1) as f64 * 1e-9;
    }
    let packets = (after - before) as f64;
    let part = &report.part;
    let batches = part.stages.first().map_or(0, |stage| stage.launches) as f64;
    if packets == 0.0 || batches == 0.0 {
        return Err("no packet was read".into());
    }
    Ok(Round {
        seconds: (*ended - *began).as_secs_f64(),
        packets,
        // Those of the whole run, in proportion.
        batches: batches * packets / part.packets.read.max(1) as f64,
        len: f64::from(len),
        busy_s,
    })
}

/// Nanoseconds that threads of this process ran, by the first word of their names.
fn busy() -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name));
        let (Ok(name), Ok(times)) = (read("comm"), read("schedstat")) else { continue };
        let ran = times.split_whitespace().next().and_then(|ran| ran.parse::<u64>().ok());
        let name = name.split(|byte: char| !byte.is_alphabetic()).next().unwrap_or_default();
        *all.entry(name.to_owned()).or_default() += ran.unwrap_or(0);
    }
    all
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
            batches: packets / 64.0,
            len,
            busy_s: [2e-6 * wakes + (50e-9 + 0.1e-9 * len) * packets, 0.0, 1e-9 * packets],
        };
        let few = round(2e5, 2e5 / 64.0, 1024.0);
        let (long, short) = (round(2e6, 0.0, 1024.0), round(2e6, 0.0, 64.0));
        let near = |found: [f64; 3], expected: [f64; 3]| {
            found.into_iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12)
        };
        assert!(near(costs(0, &few, &long, &short), [2e-6, 50e-9, 0.1e-9]));
        assert!(near(costs(1, &few, &long, &short), [0.0; 3]));
        assert!(near(costs(2, &few, &long, &short), [0.0, 1e-9, 0.0]));
        // No time is negative.
        assert!(costs(0, &long, &short, &few).iter().all(|one| *one >= 0.0));
    }

    #[test]
    fn threads_of_a_chain_are_measured() {
        let chain = chain(&[]).unwrap();
        let Round { packets, batches, busy_s, .. } = round(&chain, FEW).unwrap();
        assert!(packets >= batches && batches > 0.0 && busy_s[0] > 0.0, "{busy_s:?}");
    }
}
