//! How long a lane stands still when functions are replaced while packets flow: 10,000 firewall
//! rules, and a million routes, built beside by another thread and put in place again and again.
//!
//! One lane reads, works and sends, as fast as it can, on the last core that the process may use;
//! everything else is kept off that core where there is another. The lane's source notes the time
//! between two calls, which is 32 packets' work. Shown are the longest of those times: while the
//! other thread builds, while the new function is put in place, while the old one is freed; then,
//! over as long, beside a thread that only counts, and beside none. The difference of the first and
//! the fourth is the cost of building for a lane on a machine with a core for each thread, plus the
//! machine's cost of two busy cores. Times of 0.5 ms and more are shown one by one with their place
//! in a period of 100 ms: where a hypervisor or a container limits how much of its cores a machine
//! may use, it stops them at the same place of that period. `+N` means that the system took the
//! core from the lane N times since the time before, or made it wait for memory. A time without it
//! is not caused by the system: the core itself stood still. A trace of the system's scheduler
//! shows which thread got the core; the thread that reloads is called `reloading`:
//!
//! `perf record -a -e sched:sched_switch -o FILE target/release/reload_stall && tools/who_ran.py
//! FILE lane-0`

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use warpline_bench::chains::deploy;
use warpline_bench::memory::{Frames, MemorySource};
use warpline_engine::sys::{allowed, leave, stand_back};
use warpline_engine::{Chain, Control, Deployment, Ports, Settings, Successor, run};
use warpline_io::{Burst, Given, Next, NullSink, Source, SourceError};
use warpline_router::full_table::{routes, to_text};

const RELOADS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let settings = on_last_core()?;
    let folder = std::env::temp_dir().join(format!("warpline-reload-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("rules"), rules(10_000)?)?;
    std::fs::write(folder.join("routes"), to_text(&routes(7, 1_000_000, 0)))?;
    let firewall = "rules = \"rules\"\nestablished = true\n";
    measure(&settings, "firewall", firewall, &folder, "10,000 rules");
    measure(&settings, "router", "routes = \"routes\"\n", &folder, "1,000,000 routes");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// A lane on the last core that this process may use, and nothing else there if there is another
/// core.
fn on_last_core() -> Result<Settings, Box<dyn Error>> {
    let core = *allowed().last().ok_or("cannot read which cores this process may use")?;
    leave(&[core]);
    Ok(Settings { cores: core.to_string().parse()?, ..Settings::default() })
}

fn rules(count: u32) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for n in 0..count - 1 {
        let (a, b, port) = (n >> 8, n & 255, 1024 + n % 5000);
        writeln!(text, "drop tcp from 172.16.{}.{b}/32 to any port {port}", a & 255)?;
    }
    text.push_str("accept from any to any\n");
    Ok(text)
}

/// Work that runs beside the lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Beside {
    Nothing,
    Building,
    Replacing,
    Freeing,
    Counting,
}

fn measure(settings: &Settings, function: &str, table: &str, folder: &Path, what: &str) {
    let old = deploy(function, table, folder);
    let frames = Arc::new(Frames::generate("packets=16384,size=64,flows=1000,seed=7"));
    let mut building = Duration::ZERO;
    let started = Instant::now();
    let reloading = gaps(settings, &old, &frames, "reloading", |control, gaps| {
        let mut kept = Vec::new();
        for number in 0..RELOADS {
            let started = Instant::now();
            gaps.enter(Beside::Building);
            let new = deploy(function, table, folder);
            let mut chain = Chain::clone(new.chain());
            chain.instances[0].fingerprint = 1 + number as u64;
            let successor =
                Successor::new(&old, chain.into()).unwrap_or_else(|why| panic!("{why:?}"));
            building += started.elapsed();
            gaps.enter(Beside::Replacing);
            assert!(control.reload(&successor), "the one before is over");
            while control.is_reloading() {
                thread::sleep(Duration::from_millis(1));
            }
            gaps.enter(Beside::Freeing);
            kept.push(successor);
            // The replaced deployment is freed here, as the program does.
            kept.drain(..kept.len() - 1);
        }
    });
    let elapsed = started.elapsed();
    let counting = gaps(settings, &old, &frames, "counting", |_, gaps| {
        gaps.enter(Beside::Counting);
        let started = Instant::now();
        while started.elapsed() < elapsed {
            std::hint::black_box(&elapsed);
        }
    });
    let alone = gaps(settings, &old, &frames, "asleep", |_, _| thread::sleep(elapsed));
    println!(
        "{what}: longest stall while building {}, replacing {}, freeing {} ({RELOADS} times in \
         {:.1} s; built in {:.0} ms); beside a thread that counts {}; alone {}",
        reloading.longest(Beside::Building),
        reloading.longest(Beside::Replacing),
        reloading.longest(Beside::Freeing),
        elapsed.as_secs_f64(),
        building.as_secs_f64() * 1e3 / RELOADS as f64,
        counting.longest(Beside::Counting),
        alone.longest(Beside::Nothing),
    );
    for (gaps, name) in [(reloading, "reloading"), (counting, "counting"), (alone, "alone")] {
        gaps.show_long(name);
    }
}

/// Gaps of this length or more are kept one by one.
const LONG: Duration = Duration::from_micros(500);
/// How many of those at most.
const LONG_MAX: usize = 32;

/// The times between two calls of the source.
#[derive(Default)]
struct Gaps {
    beside: AtomicU64,
    /// The longest gap, in nanoseconds, by the work that ran beside the lane.
    longest: [AtomicU64; Beside::Counting as usize + 1],
    long: Mutex<Vec<Long>>,
}

struct Long {
    at: Duration,
    gap: Duration,
    /// How often the lane was interrupted since the one before.
    interruptions: u64,
}

impl Gaps {
    fn enter(&self, beside: Beside) {
        self.beside.store(beside as u64, Ordering::SeqCst);
    }

    /// One that ended just now.
    fn note(&self, gap: Duration, since: Instant, interruptions: impl FnOnce() -> u64) {
        let beside = self.beside.load(Ordering::SeqCst) as usize;
        self.longest[beside].fetch_max(gap.as_nanos() as u64, Ordering::Relaxed);
        if gap >= LONG
            && let Ok(mut long) = self.long.lock()
            && long.len() < LONG_MAX
        {
            long.push(Long { at: since.elapsed(), gap, interruptions: interruptions() });
        }
    }

    fn longest(&self, beside: Beside) -> String {
        let nanos = self.longest[beside as usize].load(Ordering::Relaxed);
        format!("{:.3} ms", nanos as f64 / 1e6)
    }

    fn show_long(&self, name: &str) {
        let Ok(long) = self.long.lock() else { return };
        let one = |Long { at, gap, interruptions }: &Long| {
            let at = at.as_nanos() % 100_000_000;
            let by = if *interruptions == 0 { String::new() } else { format!("+{interruptions}") };
            format!("{:.2}{by} at {:.1}", gap.as_nanos() as f64 / 1e6, at as f64 / 1e6)
        };
        if !long.is_empty() {
            let list: Vec<String> = long.iter().map(one).collect();
            println!("  {name}, ms at ms of 100: {}", list.join(", "));
        }
    }
}

/// Runs `chain` while `meanwhile` does on a thread of this name; gives the times between two calls
/// of the source.
fn gaps(
    settings: &Settings,
    deployment: &Deployment,
    frames: &Arc<Frames>,
    name: &str,
    meanwhile: impl FnOnce(&Control, &Gaps) + Send,
) -> Arc<Gaps> {
    let (control, gaps) = (Control::default(), Arc::new(Gaps::default()));
    let armed = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let source = Timed {
        source: MemorySource::new(Arc::clone(frames), u64::MAX),
        started,
        last: started,
        gaps: Arc::clone(&gaps),
        armed: Arc::clone(&armed),
        interruptions: None,
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let ports = Ports::PerLane(vec![(Box::new(source), Box::new(NullSink))]);
            run(deployment, settings, ports, &control).unwrap_or_else(|why| panic!("{why}"));
        });
        // Not what starting costs.
        thread::sleep(Duration::from_millis(500));
        armed.store(true, Ordering::Relaxed);
        // On a thread of its own that stands back, as in the program.
        let work = || {
            stand_back();
            meanwhile(&control, &gaps);
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name(name.into()).spawn_scoped(scope, work);
            thread.unwrap_or_else(|why| panic!("{why}")).join()
        })
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        armed.store(false, Ordering::Relaxed);
        control.stop();
    });
    gaps
}

/// A source that notes the time between two calls while it is armed.
struct Timed {
    source: MemorySource,
    started: Instant,
    last: Instant,
    gaps: Arc<Gaps>,
    armed: Arc<AtomicBool>,
    /// Of the lane's thread so far, once it is armed.
    interruptions: Option<u64>,
}

/// How often the system took the core from this thread or had it wait for a page: proc(5),
/// `nonvoluntary_ctxt_switches` and `voluntary_ctxt_switches` of `status`, fields 10 and 12 of
/// `stat`.
fn interruptions() -> u64 {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/thread-self/{name}")).unwrap_or_default()
    };
    let (status, stat) = (read("status"), read("stat"));
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    let switches = switches.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
    let behind_name = stat.rsplit(')').next().unwrap_or("");
    let faults = [7, 9].map(|field| behind_name.split_whitespace().nth(field));
    let faults = faults.into_iter().flatten().filter_map(|field| field.parse().ok());
    switches.chain(faults).sum()
}

impl Source for Timed {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        self.source.next()
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        let now = Instant::now();
        let gap = now - std::mem::replace(&mut self.last, now);
        if self.armed.load(Ordering::Relaxed) {
            let before = self.interruptions.get_or_insert_with(interruptions);
            self.gaps.note(gap, self.started, || {
                let now = interruptions();
                now - std::mem::replace(before, now)
            });
            // Not what reading them took.
            self.last = if gap >= LONG { Instant::now() } else { self.last };
        }
        self.source.burst(burst)
    }
}
