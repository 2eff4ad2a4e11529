//! Throughput by packet size with four streams, and waiting for each launch as systems without streams do (vGPU-NFV,
//! figure 2).

use warpline_device::Failure;
use warpline_engine::LaunchOptions;

use super::{Bench, SIZES, cases, launches};

/// Prints the table.
///
/// # Errors
/// What the device says.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head("streams", "function,payload_bytes,streams,gbps,mpps,lane_percent,device_percent");
    for case in cases::ALL {
        for len in SIZES {
            let frames = case.load(len);
            for (streams, sync) in [(4, false), (1, true)] {
                let options = LaunchOptions { streams, sync, ..launches() };
                let chain = bench.cases.chain(case, 1, false, Some(bench.on(options)));
                let driven = bench.drive(&[chain], &frames, bench.lanes)?;
                println!(
                    "{},{len},{},{:.3},{:.4},{:.1},{}",
                    case.name,
                    if sync { "none".into() } else { streams.to_string() },
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
