//! How late this machine wakes a thread that sleeps.

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
