//! Throughput and latency at full load by launch size, with one chain and with four at once on the
//! same device (Pythia, figures 1 and 2). Each chain has a lane and a context of its own: buffers
//! and streams, not processes.

use std::time::Duration;

use warpline_device::Failure;
use warpline_engine::LaunchOptions;

use super::{Bench, LONGEST, cases, launches};

/// Bytes of launches: of every device, and of those that don't share the host's memory.
const BYTES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
const MORE_BYTES: [usize; 1] = [16 << 20];

/// Long enough that launches are full.
const DELAY: Duration = Duration::from_millis(10);

/// Prints the table.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head("launches", "function,payload_bytes,launch_kib,chains,gbps,mpps,p50_us,p99_us");
    let case = cases::IPSEC_SEAL;
    let frames = case.load(LONGEST);
    let more: &[usize] =
        if bench.device.description().shares_host_memory { &[] } else { &MORE_BYTES };
    for &bytes in BYTES.iter().chain(more) {
        for count in [1, 4] {
            let options = LaunchOptions { bytes, delay: DELAY, ..launches() };
            let deploy = |_| bench.cases.deploy(case, 1, false, Some(bench.on(options)));
            let deployments: Vec<_> = (0..count).map(deploy).collect();
            let driven = bench.drive(&deployments, &frames, 1)?;
            println!(
                "{},{LONGEST},{},{count},{:.3},{:.4},{:.0},{:.0}",
                case.name,
                bytes >> 10,
                driven.gbps(),
                driven.mpps(),
                driven.latency_us(0.5),
                driven.latency_us(0.99)
            );
        }
    }
    Ok(())
}
