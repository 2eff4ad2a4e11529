//! Throughput by packet size with four streams, with as many as measuring finds best, and waiting
//! for each launch as systems without streams do (vGPU-NFV, figure 2).

use warpline_device::Failure;
use warpline_engine::{LaunchOptions, Streams};

use super::{Bench, SIZES, cases, launches};

/// Prints the table.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head("streams", "function,payload_bytes,streams,gbps,mpps,lane_percent,device_percent");
    for case in cases::ALL {
        for len in SIZES {
            let frames = case.load(len);
            let ways = [
                ("4", Streams::Count(4), false),
                ("auto", Streams::Measured, false),
                ("none", Streams::Count(1), true),
            ];
            for (name, streams, sync) in ways {
                let options = LaunchOptions { streams, sync, ..launches() };
                let deployment = bench.cases.deploy(case, 1, false, Some(bench.on(options)));
                let driven = bench.drive(&[deployment], &frames, bench.lanes)?;
                println!(
                    "{},{len},{name},{:.3},{:.4},{:.1},{}",
                    case.name,
                    driven.gbps(),
                    driven.mpps(),
                    driven.lane_share * 100.0,
                    driven.device_percent()
                );
            }
        }
    }
    Ok(())
}
