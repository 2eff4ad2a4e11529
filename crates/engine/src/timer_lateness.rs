//! How late this machine wakes a thread that sleeps, by a timer or by another thread.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use warpline_sched::LOOK_NS;

use crate::sys::wake_on_time;

const SLEEPS: usize = 501;
const QUANTILES: usize = 20;

/// The times by which a thread oversleeps that looks at a device's launches: quantiles at equal
/// distances, from the smallest. Takes a tenth of a second.
pub fn timer_lateness() -> Vec<Duration> {
    let sleeps = thread::spawn(|| {
        wake_on_time();
        let time = Duration::from_nanos(LOOK_NS);
        let late = |_| {
            let began = Instant::now();
            thread::sleep(time);
            began.elapsed().saturating_sub(time)
        };
        let mut all: Vec<Duration> = (0..SLEEPS).map(late).collect();
        all.sort_unstable();
        (0..QUANTILES).map(|at| all[(2 * at + 1) * SLEEPS / (2 * QUANTILES)]).collect()
    });
    sleeps.join().unwrap_or_default()
}

/// The time of waking a thread that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// How late it begins: the median.
    pub late: Duration,
    /// What waking it takes of the other thread: the median.
    pub ring: Duration,
}

/// Measures them in a tenth of a second.
pub fn wake_lateness() -> Wakes {
    let (rings, heard) = channel::<Instant>();
    let waits = thread::spawn(move || {
        let late = |rung: Instant| rung.elapsed();
        median(heard.iter().map(late).collect())
    });
    let wakes = thread::spawn(move || {
        wake_on_time();
        let ring = |_| {
            thread::sleep(Duration::from_nanos(LOOK_NS));
            let began = Instant::now();
            let _ = rings.send(began);
            began.elapsed()
        };
        median((0..SLEEPS).map(ring).collect())
    });
    let ring = wakes.join().unwrap_or_default();
    Wakes { late: waits.join().unwrap_or_default(), ring }
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}
