//! The cost of submitting a launch step by step, and as one graph, on devices that have graphs: by
//! the device layer alone, and in the engine at full load.
//!
//! `submit_ns` is the time for which submitting a whole launch keeps the CPU, `launch_us` the time
//! until it is done, both medians of launches by the device layer, one after the other, with and
//! without graphs in turn. `lane_ns` is the CPU time of the engine's lanes for each packet.

use std::time::Instant;

use warpline_device::Failure;
use warpline_engine::LaunchOptions;

use super::cases::Case;
use super::resident::Resident;
use super::{Bench, LONGEST, SIZES, cases, launches};
use crate::median;

/// Bytes of launches.
const BYTES: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

/// Prints the table.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head(
        "graphs",
        "function,payload_bytes,launch_kib,steps,graphs,submit_ns,launch_us,gbps,mpps,lane_ns",
    );
    let has_graphs = bench.device.description().has_graphs;
    if !has_graphs {
        println!("# the device has no graphs");
    }
    let ways = if has_graphs { &[false, true][..] } else { &[false] };
    for case in cases::ALL {
        for len in [SIZES[0], LONGEST] {
            for bytes in BYTES {
                measure_launch(bench, case, (len, bytes), ways)?;
            }
        }
    }
    Ok(())
}

fn measure_launch(
    bench: &Bench,
    case: Case,
    (len, bytes): (usize, usize),
    ways: &[bool],
) -> Result<(), Failure> {
    let resident = |&graphs: &bool| {
        let mut resident = Resident::new(bench, case, len, bytes)?;
        if graphs {
            resident.use_graphs(&*bench.device)?;
        }
        Ok(resident)
    };
    let mut residents: Vec<_> = ways.iter().map(resident).collect::<Result<_, Failure>>()?;
    let times = in_turn(bench, &mut residents)?;
    for (&graphs, [submit, whole]) in ways.iter().zip(times) {
        let options = LaunchOptions { bytes, graphs, ..launches() };
        let deployment = bench.cases.deploy(case, 1, false, Some(bench.on(options)));
        let driven = bench.drive(&[deployment], &case.load(len), bench.lanes)?;
        println!(
            "{},{len},{},{},{},{:.0},{:.1},{:.3},{:.4},{:.1}",
            case.name,
            bytes >> 10,
            residents[0].steps(),
            if graphs { "yes" } else { "no" },
            submit * 1e9,
            whole * 1e6,
            driven.gbps(),
            driven.mpps(),
            driven.lane_ns
        );
    }
    Ok(())
}

/// Medians of the seconds that submitting took and of those until the launch was done, for each of
/// `residents`.
fn in_turn(bench: &Bench, residents: &mut [Resident]) -> Result<Vec<[f64; 2]>, Failure> {
    let mut times = vec![[const { Vec::new() }; 2]; residents.len()];
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < bench.seconds || times[0][0].is_empty() {
        for (resident, [submits, wholes]) in residents.iter_mut().zip(&mut times) {
            let [submit, whole] = resident.launch()?;
            submits.push(submit);
            wholes.push(whole);
        }
    }
    Ok(times.into_iter().map(|both| both.map(median)).collect())
}
