//! Kernels alone, on packets that lie in the device's memory and are filled in anew between
//! launches, by launch size.
//!
//! Terabits are of payloads (of ESP its text). The output of the last launch is compared with the
//! CPU's output for the same packets. Launches double until one takes longer than a point's time,
//! or the device's memory is used up.

use std::time::Instant;

use warpline_device::Failure;

use super::resident::Resident;
use super::{Bench, LONGEST, cases};
use crate::median;

/// Bytes of frames of the smallest and of the largest launch.
const SMALLEST: usize = 1 << 20;
const LARGEST: usize = 512 << 20;

/// Prints the table.
///
/// # Errors
/// Failures of the device, and wrong output of its kernels.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head("memory", "function,payload_bytes,launch_kib,packets,launches,ms,tbps,mpps");
    for case in cases::ALL {
        let mut bytes = SMALLEST;
        while bytes <= LARGEST {
            let mut resident = match Resident::new(bench, case, LONGEST, bytes) {
                Err(Failure::OutOfMemory { .. }) => break,
                other => other?,
            };
            let times = times(bench, &mut resident)?;
            resident.copy_out()?;
            if !resident.is_right() {
                return Err(Failure::Work(format!("{} is wrong on the device", case.name)));
            }
            let (rounds, seconds) = (times.len(), median(times));
            println!(
                "{},{LONGEST},{},{},{rounds},{:.4},{:.5},{:.3}",
                case.name,
                bytes >> 10,
                resident.count,
                seconds * 1e3,
                (resident.count * 8 * LONGEST as u64) as f64 / seconds / 1e12,
                resident.count as f64 / seconds / 1e6
            );
            if seconds > bench.seconds {
                break;
            }
            bytes *= 2;
        }
    }
    Ok(())
}

/// Seconds of the kernels, round by round, for the time of a point.
fn times(bench: &Bench, resident: &mut Resident) -> Result<Vec<f64>, Failure> {
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed().as_secs_f64() < bench.seconds || times.is_empty() {
        resident.copy_in()?;
        times.push(resident.run()?);
    }
    Ok(times)
}
