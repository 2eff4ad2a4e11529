//! Loss, CPU and device use, and delay by launch size and offered load (GPU IDS framework, figures
//! 5 to 8, tables 2 and 3).
//!
//! The load comes from the generator, a thread of its own, in real time; packets that find no room
//! are dropped. The load is given as a share of the chain's rate without a limit, which the
//! generator itself may bound. A launch waits until it is full, as that framework's buffers do: of
//! bytes, or of batches, which are small where packets come slowly. So the mean launch is given
//! too.

use std::time::Duration;

use warpline_device::Failure;
use warpline_engine::LaunchOptions;

use super::drive::Driven;
use super::{Bench, LONGEST, cases, launches};
use crate::median;

/// Bytes of launches.
const BYTES: [usize; 8] =
    [256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20];
/// Offered load.
const SHARES: [f64; 3] = [0.5, 0.9, 1.2];
/// Longer than any launch takes to fill.
const DELAY: Duration = Duration::from_secs(5);
/// A point lasts for so many launches at least.
const LAUNCHES_MIN: f64 = 4.0;

/// Prints the table.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    let config = format!("size={},payload=random,flows=1000", LONGEST + 42);
    // All shares are of it.
    let free = (0..3).map(|_| Ok(run(bench, BYTES[2], &config, 2.0 * bench.seconds)?.gbps()));
    let free = median(free.collect::<Result<_, Failure>>()?);
    bench.head(
        "buffers",
        "function,payload_bytes,launch_kib,mean_kib,share,offered_gbps,gbps,loss_percent,\
         lane_percent,device_percent,p50_us,p99_us",
    );
    println!("# without a rate, launches of {} KiB: {free:.3} Gb/s", BYTES[2] >> 10);
    for bytes in BYTES {
        for share in SHARES {
            let rate = share * free;
            let config = format!("{config},rate_gbps={rate},on_full=drop,ring=0");
            let seconds = bench.seconds.max(LAUNCHES_MIN * 8.0 * bytes as f64 / (rate * 1e9));
            let driven = run(bench, bytes, &config, seconds)?;
            let part = &driven.reports[0].part;
            let packets = &part.packets;
            println!(
                "{},{LONGEST},{},{:.0},{share},{rate:.3},{:.3},{:.2},{:.1},{},{:.0},{:.0}",
                cases::DIGEST.name,
                bytes >> 10,
                part.bytes_read as f64 / 1024.0 / part.transfers.launches.max(1) as f64,
                driven.gbps(),
                100.0 * packets.overload as f64 / packets.read.max(1) as f64,
                driven.lane_share * 100.0,
                driven.device_percent(),
                driven.latency_us(0.5),
                driven.latency_us(0.99)
            );
        }
    }
    Ok(())
}

fn run(bench: &Bench, bytes: usize, config: &str, seconds: f64) -> Result<Driven, Failure> {
    let options = LaunchOptions { bytes, delay: DELAY, ..launches() };
    let deployment = bench.cases.deploy(cases::DIGEST, 1, false, Some(bench.on(options)));
    bench.drive_generated(&deployment, config, seconds)
}
