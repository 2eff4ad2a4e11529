//! The fourth chain by the size of batches, which are the paper's units, and of launches: rates,
//! and latencies at a fixed load.
//!
//! The paper's block is called a slab here, of 1 MiB as there. Its size is not one of the settings.

use warpline_device::Failure;
use warpline_engine::{LaunchOptions, Settings};
use warpline_packet::BATCH_DEFAULT;
use warpline_sched::Mode;

use super::chains::{Load, PaperChain, Way};
use super::speed::{SHARE, full, paced};
use super::{Copies, Points, table};
use crate::devices::launches;
use crate::median;

/// Packets of a batch.
const BATCHES: [usize; 5] = [4, 16, 64, 256, 1024];
/// Bytes of a launch.
const LAUNCHES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Results for one size of batches.
pub struct Size {
    pub batch: usize,
    /// Of frames, as they were asked for.
    pub len: usize,
    pub mpps: f64,
    pub p50_us: f64,
    pub p95_us: f64,
}

/// Prints the tables.
///
/// # Errors
/// Failures of the device.
pub(super) fn print(copies: &Copies, all: &[Points]) -> Result<Vec<Size>, Failure> {
    let Some(points) = all.iter().find(|points| points.chain.name == "C4") else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let (mut by_batch, mut by_launch) = (Vec::new(), Vec::new());
    let ends = [points.by_len.first(), points.by_len.last()];
    for own in ends.into_iter().flatten() {
        let pps = own.of(Mode::Adaptive).mpps * 1e6 * SHARE;
        let at = At { copies, chain: points.chain, load: &own.load, pps };
        let usual = at.measure(launches(), BATCH_DEFAULT)?;
        for batch in BATCHES {
            let [mpps, p50_us, p95_us] = at.measure(launches(), batch)?;
            by_batch.push(row(&own.load, batch, [mpps, p50_us, p95_us], usual[0]));
            found.push(Size { batch, len: own.asked, mpps, p50_us, p95_us });
        }
        for bytes in LAUNCHES {
            let options = LaunchOptions { bytes, ..launches() };
            let figures = at.measure(options, BATCH_DEFAULT)?;
            by_launch.push(row(&own.load, bytes >> 10, figures, usual[0]));
        }
    }
    let columns = ["frame B", "batch packets", "Mpps", "/ 256", "p50 us", "p95 us"];
    table("C4, adaptive, by packets of a batch (figure 15)", &columns, &by_batch);
    let columns = ["frame B", "launch KiB", "Mpps", "/ usual", "p50 us", "p95 us"];
    table("C4, adaptive, by bytes of a launch", &columns, &by_launch);
    Ok(found)
}

fn row(load: &Load, size: usize, [mpps, p50, p95]: [f64; 3], usual: f64) -> Vec<String> {
    vec![
        load.len.to_string(),
        size.to_string(),
        format!("{mpps:.4}"),
        format!("{:.2}", mpps / usual),
        format!("{p50:.0}"),
        format!("{p95:.0}"),
    ]
}

struct At<'a> {
    copies: &'a Copies,
    chain: &'a PaperChain,
    load: &'a Load,
    /// The load of latencies, the same for all sizes.
    pps: f64,
}

impl At<'_> {
    /// The rate at full load, and latencies.
    fn measure(&self, launches: LaunchOptions, batch_packets: usize) -> Result<[f64; 3], Failure> {
        let At { copies, chain, load, pps } = *self;
        let settings = Settings { batch_packets, ..Settings::default() };
        let way = Way { launches, ..copies.way(Mode::Adaptive) };
        let mut rates = Vec::new();
        for _ in 0..copies.options.rounds {
            let built = chain.build(&copies.bench.cases, &way, load.len);
            rates.push(full(copies, &built, load, &settings)?.mpps());
        }
        let [p50, p95] = paced(copies, chain, &way, load, (pps, &settings))?;
        Ok([median(rates), p50, p95])
    }
}
