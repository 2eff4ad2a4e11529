//! Rates by rule, what a packet costs the lane, and latencies at a fixed load.

use std::sync::Arc;

use warpline_device::Failure;
use warpline_engine::Settings;
use warpline_engine::stats::{FunctionStats, Transfers};
use warpline_sched::Mode;

use super::bytes::Bytes;
use super::chains::{Load, PaperChain, Way};
use super::{ByLen, Copies, MODES, Points, table};
use crate::devices::drive::Driven;
use crate::devices::nanos_each;
use crate::median;
use crate::memory::{MemorySource, PacedSource};

/// Results for a chain, one rule and one length; medians of rounds.
pub struct Point {
    /// Bytes that were copied in the last round.
    pub bytes: Bytes,
    /// Packets, millions a second.
    pub mpps: f64,
    /// CPU nanoseconds of the lane for each packet.
    pub lane_ns: f64,
    /// Those in the functions' own phases, by function.
    pub busy_ns: Vec<f64>,
}

/// Every rule in turn, as often as there are rounds.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(
    copies: &Copies,
    chain: &PaperChain,
    load: &Load,
) -> Result<[Point; MODES.len()], Failure> {
    let mut rounds: [Vec<Point>; MODES.len()] = Default::default();
    for _ in 0..copies.options.rounds {
        for (mode, points) in MODES.into_iter().zip(&mut rounds) {
            points.push(point(copies, chain, load, mode)?);
        }
    }
    Ok(rounds.map(|points| middle(&points)))
}

fn point(copies: &Copies, chain: &PaperChain, load: &Load, mode: Mode) -> Result<Point, Failure> {
    let built = chain.build(&copies.bench.cases, &copies.way(mode), load.len);
    let driven = full(copies, &built, load, &Settings::default())?;
    let part = &driven.reports[0].part;
    chain.check(&part.functions)?;
    let transfers: Vec<Transfers> = part.functions.iter().map(|own| own.transfers).collect();
    let busy = |own: &FunctionStats| nanos_each(own.busy_ns as f64 / 1e9, own.packets_in);
    Ok(Point {
        bytes: Bytes::of(&built, &transfers, part.packets.read, load.len),
        mpps: driven.mpps(),
        lane_ns: driven.lane_ns,
        busy_ns: part.functions.iter().map(busy).collect(),
    })
}

/// With as many packets as it takes.
pub(super) fn full(
    copies: &Copies,
    deployment: &warpline_engine::Deployment,
    load: &Load,
    settings: &Settings,
) -> Result<Driven, Failure> {
    let source = MemorySource::new(Arc::clone(&load.frames), u64::MAX);
    copies.bench.drive_source(deployment, settings, Box::new(source))
}

fn middle(points: &[Point]) -> Point {
    let of = |figure: &dyn Fn(&Point) -> f64| median(points.iter().map(figure).collect());
    let last = &points[points.len() - 1];
    Point {
        bytes: last.bytes.clone(),
        mpps: of(&|point| point.mpps),
        lane_ns: of(&|point| point.lane_ns),
        busy_ns: (0..last.busy_ns.len()).map(|at| of(&|point| point.busy_ns[at])).collect(),
    }
}

/// Prints rates and what a packet costs.
pub fn print(all: &[Points]) {
    let columns = [
        "chain",
        "frame B",
        "per_nf Mpps",
        "share_all / per_nf",
        "local / per_nf",
        "adaptive / per_nf",
        "lane ns: per_nf",
        "share_all",
        "local",
        "adaptive",
    ];
    let row = |chain: &PaperChain, own: &ByLen| {
        let mut row = vec![
            chain.name.to_string(),
            own.load.len.to_string(),
            format!("{:.4}", own.of(Mode::PerNf).mpps),
        ];
        let ratio =
            |mode: &Mode| format!("{:.2}", own.ratio(*mode, Mode::PerNf, |point| point.mpps));
        row.extend(MODES[1..].iter().map(ratio));
        row.extend(own.modes.iter().map(|point| format!("{:.0}", point.lane_ns)));
        row
    };
    let rows =
        all.iter().flat_map(|points| points.by_len.iter().map(move |own| row(points.chain, own)));
    table(
        "Packets a second at full load, and the lane's CPU time a packet",
        &columns,
        &rows.collect::<Vec<_>>(),
    );
}

/// Latencies of a chain by one rule.
pub struct Latency {
    pub chain: &'static str,
    pub mode: Mode,
    pub p50_us: f64,
    pub p95_us: f64,
}

/// The load at which latencies are measured, as a share of the baseline's maximum.
pub const SHARE: f64 = 0.5;

/// Prints latencies of the chains that the paper has, at half of the baseline's maximum load with
/// the longest frames.
///
/// # Errors
/// Failures of the device.
pub(super) fn latencies(copies: &Copies, all: &[Points]) -> Result<Vec<Latency>, Failure> {
    let (mut found, mut rows) = (Vec::new(), Vec::new());
    for points in all.iter().filter(|points| ["C1", "C4"].contains(&points.chain.name)) {
        let Some(own) = points.by_len.last() else { continue };
        let pps = own.of(Mode::PerNf).mpps * 1e6 * SHARE;
        for mode in MODES {
            let way = copies.way(mode);
            let [p50_us, p95_us] =
                paced(copies, points.chain, &way, &own.load, (pps, &Settings::default()))?;
            rows.push(vec![
                points.chain.name.into(),
                own.load.len.to_string(),
                format!("{:.4}", pps / 1e6),
                mode.name().into(),
                format!("{p50_us:.0}"),
                format!("{p95_us:.0}"),
            ]);
            found.push(Latency { chain: points.chain.name, mode, p50_us, p95_us });
        }
    }
    let columns = ["chain", "frame B", "load Mpps", "plan", "p50 us", "p95 us"];
    table("Latency at half the load of per_nf", &columns, &rows);
    Ok(found)
}

/// The 50th and the 95th percentile of latencies in microseconds, with so many packets a second.
pub(super) fn paced(
    copies: &Copies,
    chain: &PaperChain,
    way: &Way<'_>,
    load: &Load,
    (pps, settings): (f64, &Settings),
) -> Result<[f64; 2], Failure> {
    let mut rounds = Vec::new();
    for _ in 0..copies.options.rounds {
        let built = chain.build(&copies.bench.cases, way, load.len);
        let source = PacedSource::new(Arc::clone(&load.frames), pps);
        let driven = copies.bench.drive_source(&built, settings, Box::new(source))?;
        rounds.push([0.5, 0.95].map(|share| driven.latency_us(share)));
    }
    Ok([0, 1].map(|at| median(rounds.iter().map(|own| own[at]).collect())))
}
