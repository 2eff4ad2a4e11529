//! Parts that the benches share: the program's allocator, and medians of alternating rounds.
//!
//! A bench is a program in `src/bin`. It prints what it measured and the ratio to a bare loop or a
//! library in the same run; its record (command, machine, date, figures) is committed under
//! `record/`.

#![deny(unsafe_code)]

pub mod busy_chain;
pub mod busy_tenants;
pub mod chain_copies;
pub mod chains;
pub mod devices;
pub mod lane;
pub mod live_moves;
pub mod memory;
pub mod mixed_trace;
pub mod offered;
pub mod payloads;
pub mod placement_search;
pub mod program;
pub mod random_chains;
pub mod record;
mod sys;
pub mod twin;
pub mod twin_causes;
pub mod twin_pauses;

use std::time::Instant;

use warpline_engine::sys::HugeAlloc;

#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

/// Seconds that `work` took.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// The median of `values`; NaN of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs `a` and `b` in turn, `rounds` times after one warm-up of each; gives the medians of their
/// seconds and of the ratio a/b pair by pair.
pub fn compare(rounds: usize, mut a: impl FnMut(), mut b: impl FnMut()) -> (f64, f64, f64) {
    a();
    b();
    let pairs: Vec<(f64, f64)> = (0..rounds).map(|_| (seconds(&mut a), seconds(&mut b))).collect();
    let of = |pick: fn(&(f64, f64)) -> f64| median(pairs.iter().map(pick).collect());
    (of(|p| p.0), of(|p| p.1), of(|p| p.0 / p.1))
}
