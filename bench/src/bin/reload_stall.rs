//! How long a lane stands still when functions are replaced while packets flow: 10,000 firewall rules, and
//! a million routes, built beside by another thread and put in place again and again.
//!
//! One lane reads, works and sends, as fast as it can; its source notes the time between two calls, which is
//! 32 packets' work. Shown are the longest of those times with reloads and, over as long, without, and of
//! both what is left without the time in which the lane's thread was ready and had no core: the machine
//! may have fewer cores than there is work.

use std::error::Error;
use std::fmt::{Display, Formatter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpline_bench::chains::chain;
use warpline_bench::memory::{Frames, MemorySource};
use warpline_engine::sys::stand_back;
use warpline_engine::{Chain, Control, Ports, Settings, Successor, run};
use warpline_io::{Burst, Given, Next, NullSink, Source, SourceError};
use warpline_nf::router::full_table::{routes, to_text};

const RELOADS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("warpline-reload-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("rules"), rules(10_000)?)?;
    std::fs::write(folder.join("routes"), to_text(&routes(7, 1_000_000, 0)))?;
    let firewall = "rules = \"rules\"\nestablished = true\n";
    measure("firewall", firewall, &folder, "10,000 rules");
    measure("router", "routes = \"routes\"\n", &folder, "1,000,000 routes");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
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

fn measure(function: &str, table: &str, folder: &Path, what: &str) {
    let old = chain(function, table, folder);
    let frames = Arc::new(Frames::generate("packets=16384,size=64,flows=1000,seed=7"));
    let reloading = longest(&old, &frames, |control| {
        let mut kept = Vec::new();
        let mut building = Duration::ZERO;
        for number in 0..RELOADS {
            let started = Instant::now();
            let mut new = chain(function, table, folder);
            new.instances[0].fingerprint = 1 + number as u64;
            building += started.elapsed();
            let successor = Successor::new(&old, new).unwrap_or_else(|why| panic!("{why:?}"));
            assert!(control.reload(&successor), "the one before is over");
            while control.is_reloading() {
                thread::sleep(Duration::from_millis(1));
            }
            kept.push(successor);
            // What was replaced is freed here, as the program does.
            kept.drain(..kept.len() - 1);
        }
        building / RELOADS as u32
    });
    let (gap, elapsed, building) = reloading;
    let (alone, ..) = longest(&old, &frames, |_| {
        thread::sleep(elapsed);
        elapsed
    });
    println!(
        "{what}: longest stall {gap} over {RELOADS} reloads in {:.1} s, {alone} without; built in {:.0} ms",
        elapsed.as_secs_f64(),
        building.as_secs_f64() * 1e3,
    );
}

/// The longest times between two calls of the source.
#[derive(Default)]
struct Longest {
    nanos: AtomicU64,
    /// Of those without the time in which the thread waited for a core.
    on_core_nanos: AtomicU64,
}

impl Display for Longest {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let ms = |nanos: &AtomicU64| nanos.load(Ordering::Relaxed) as f64 / 1e6;
        write!(f, "{:.3} ms ({:.3} ms on a core)", ms(&self.nanos), ms(&self.on_core_nanos))
    }
}

/// Runs `chain` while `meanwhile` does; gives the longest times between two calls of the source, how long
/// `meanwhile` took, and what it gave.
fn longest<T: Send>(
    chain: &Chain,
    frames: &Arc<Frames>,
    meanwhile: impl FnOnce(&Control) -> T + Send,
) -> (Arc<Longest>, Duration, T) {
    let (control, gap) = (Control::default(), Arc::new(Longest::default()));
    let armed = Arc::new(AtomicBool::new(false));
    let source = Timed {
        source: MemorySource::new(Arc::clone(frames), u64::MAX),
        last: Instant::now(),
        waited: 0,
        longest: Arc::clone(&gap),
        armed: Arc::clone(&armed),
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let ports = Ports::PerLane(vec![(Box::new(source), Box::new(NullSink))]);
            run(chain, &Settings::default(), ports, &control).unwrap_or_else(|why| panic!("{why}"));
        });
        // Not what starting costs.
        thread::sleep(Duration::from_millis(500));
        armed.store(true, Ordering::Relaxed);
        let started = Instant::now();
        // On a thread of its own that stands back, as in the program.
        let work = || {
            stand_back();
            meanwhile(&control)
        };
        let result = thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| {
            std::panic::resume_unwind(panic);
        });
        let elapsed = started.elapsed();
        armed.store(false, Ordering::Relaxed);
        control.stop();
        (gap, elapsed, result)
    })
}

/// Nanoseconds in which this thread was ready to run and had no core, as Linux counts them.
fn waited_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A source that notes the longest time between two calls while it is armed.
struct Timed {
    source: MemorySource,
    last: Instant,
    /// Nanoseconds that the thread had waited for a core when that was last asked.
    waited: u64,
    longest: Arc<Longest>,
    armed: Arc<AtomicBool>,
}

impl Source for Timed {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        self.source.next()
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        let now = Instant::now();
        let gap = now - std::mem::replace(&mut self.last, now);
        let nanos = gap.as_nanos() as u64;
        if self.armed.load(Ordering::Relaxed) {
            self.longest.nanos.fetch_max(nanos, Ordering::Relaxed);
            if nanos > self.longest.on_core_nanos.load(Ordering::Relaxed) {
                let waited = waited_nanos();
                let on_core = nanos.saturating_sub(waited - self.waited);
                self.waited = waited;
                self.longest.on_core_nanos.fetch_max(on_core, Ordering::Relaxed);
                // To ask took time, too.
                self.last = Instant::now();
            }
        } else {
            self.waited = 0;
        }
        if self.waited == 0 {
            self.waited = waited_nanos();
            self.last = Instant::now();
        }
        self.source.burst(burst)
    }
}
