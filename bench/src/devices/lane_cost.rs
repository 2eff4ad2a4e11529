//! CPU nanoseconds of a lane for each packet of 1518 bytes: all it does, from the source to the
//! sink, where `digest` is on a device that costs nothing, next to a chain without a function.
//!
//! `busy` is what the engine counts for the function: of `digest`, taking over what the device
//! left, and notes. Neither depends on the bench's device.

use std::sync::Arc;

use warpline_device::Failure;
use warpline_engine::{Chain, Deployment, OnDevice};

use super::idle_device::IdleDevice;
use super::{Bench, cases, launches, nanos_each};
use crate::median;

/// Of a payload whose frame has 1518 bytes.
const LEN: usize = 1476;
const ROUNDS: usize = 5;

/// Prints the table.
///
/// # Errors
/// A chain can't start.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head("lane", "chain,frame_bytes,lane_ns,busy_ns");
    let case = cases::DIGEST;
    let frames = case.load(LEN);
    let device = Arc::new(IdleDevice::new());
    let make: [(&str, &dyn Fn() -> Deployment); 2] = [
        ("no function", &|| Chain::new("empty", Vec::new(), 0).expect("an empty chain").into()),
        ("digest on a device that costs nothing", &|| {
            let on = OnDevice { device: device.clone(), launches: launches(), is_required: true };
            bench.cases.deploy(case, 1, false, Some(on))
        }),
    ];
    let mut times: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, make), [lane, busy]) in make.iter().zip(&mut times) {
            let driven = bench.drive(&[make()], &frames, 1)?;
            lane.push(driven.lane_ns);
            let functions = &driven.reports[0].part.functions;
            let nanos = |one: &warpline_engine::stats::FunctionStats| {
                nanos_each(one.busy_ns as f64 / 1e9, one.packets_in)
            };
            busy.push(functions.iter().map(nanos).fold(0.0, |sum, one| sum + one));
        }
    }
    for ((name, _), times) in make.iter().zip(times) {
        let [lane, busy] = times.map(median);
        println!("{name},{},{lane:.1},{busy:.1}", frames[0].len());
    }
    Ok(())
}
