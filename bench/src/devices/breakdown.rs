//! The time of a packet by part: the CPU's work before the device's, copies in, kernels, copies
//! out, and the CPU's work after (AdaptChain, figure 1).
//!
//! Copies and kernels are of a launch of 1 MiB by the device layer, each alone and waited for. The
//! CPU's work for the function is counted by the engine. The work before the device ends when the
//! batch waits for its launch; the work after it starts when the host takes over the device's
//! tables. All by packet, in nanoseconds.

use std::time::Instant;

use warpline_device::Failure;

use super::resident::Resident;
use super::{Bench, LONGEST, cases, launches, nanos_each};
use crate::median;

/// Bytes of the launch.
const BYTES: usize = 1 << 20;

/// Prints the table.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head(
        "breakdown",
        "function,payload_bytes,launch_packets,before_ns,copy_in_ns,kernels_ns,copy_out_ns,\
         after_ns",
    );
    for case in cases::ALL {
        for len in [64, 512, LONGEST] {
            let mut resident = Resident::new(bench, case, len, BYTES)?;
            let [copy_in, kernels, copy_out] = parts(bench, &mut resident)?;
            let each = |seconds| nanos_each(seconds, resident.count);
            let deployment = bench.cases.deploy(case, 1, false, Some(bench.on(launches())));
            let driven = bench.drive(&[deployment], &case.load(len), bench.lanes)?;
            let function = &driven.reports[0].part.functions[0];
            let on_cpu = |nanos: u64| nanos_each(nanos as f64 / 1e9, function.packets_in);
            println!(
                "{},{len},{},{:.1},{:.1},{:.1},{:.1},{:.1}",
                case.name,
                resident.count,
                on_cpu(function.before_ns),
                each(copy_in),
                each(kernels),
                each(copy_out),
                on_cpu(function.busy_ns - function.before_ns)
            );
        }
    }
    Ok(())
}

/// Medians of the parts' seconds, measured in turn for the time of a point.
fn parts(bench: &Bench, resident: &mut Resident) -> Result<[f64; 3], Failure> {
    let mut times: [Vec<f64>; 3] = Default::default();
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < bench.seconds || times[0].is_empty() {
        times[0].push(resident.copy_in()?);
        times[1].push(resident.run()?);
        times[2].push(resident.copy_out()?);
    }
    Ok(times.map(median))
}
