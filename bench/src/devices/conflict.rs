//! One to three functions on the device. Each has a stage of its own, so that all copy in both
//! directions beside each other; or all are in one stage, which copies once (AdaptChain, figure 3).

use warpline_device::Failure;

use super::{Bench, LONGEST, cases, launches};

/// Prints the table.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head(
        "conflict",
        "function,payload_bytes,functions,stages,gbps,mpps,in_bytes,out_bytes,p50_us,p99_us",
    );
    let case = cases::ROUTER;
    let frames = case.load(LONGEST);
    for (count, own_stage) in [(1, true), (2, true), (3, true), (2, false), (3, false)] {
        let deployment = bench.cases.deploy(case, count, own_stage, Some(bench.on(launches())));
        let stages = deployment.stages().len();
        let driven = bench.drive(&[deployment], &frames, bench.lanes)?;
        let part = &driven.reports[0].part;
        let each = |bytes: u64| bytes as f64 / part.packets.read.max(1) as f64;
        println!(
            "{},{LONGEST},{count},{stages},{:.3},{:.4},{:.0},{:.0},{:.0},{:.0}",
            case.name,
            driven.gbps(),
            driven.mpps(),
            each(part.transfers.to_device_bytes),
            each(part.transfers.to_host_bytes),
            driven.latency_us(0.5),
            driven.latency_us(0.99)
        );
    }
    Ok(())
}
