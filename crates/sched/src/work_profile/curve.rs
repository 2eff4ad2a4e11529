//! Figures between measured sizes.

use super::{Figures, Sizes};

/// The figures at one size.
#[derive(Clone, Copy)]
struct Point {
    size: f64,
    /// Of a launch, or of a packet.
    time_ns: f64,
    latency_ns: f64,
    share: f64,
    weight: f64,
}

pub(super) fn figures(sizes: &Sizes, launch_packets: u32, packet_len: u32) -> Option<Figures> {
    let (launch, len) = (f64::from(launch_packets.max(1)), f64::from(packet_len.max(1)));
    let mut lens: Vec<u32> = sizes.keys().map(|&(len, _)| len).collect();
    lens.dedup();
    let over_launches = |own: u32| {
        let points = sizes.range((own, 0)..=(own, u32::MAX)).map(|(&(len, launch), figures)| {
            let (size, len) = (f64::from(launch), f64::from(len));
            point(size, size * len * 8e9 / figures.bits_per_s, figures)
        });
        let points: Vec<Point> = points.collect();
        let at = between(&points, launch);
        let latency_ns =
            if at.size < launch { at.latency_ns * launch / at.size } else { at.latency_ns };
        let time_ns = match launch < at.size {
            true => smaller_ns(&points, launch),
            false => scaled(&at, launch),
        };
        Point { size: f64::from(own), time_ns: time_ns / launch, latency_ns, ..at }
    };
    let points: Vec<Point> = lens.into_iter().map(over_launches).collect();
    (!points.is_empty()).then(|| {
        let at = between(&points, len);
        Figures {
            bits_per_s: len * 8e9 / scaled(&at, len),
            latency_ns: at.latency_ns,
            share: at.share,
            weight: at.weight,
        }
    })
}

fn point(size: f64, time_ns: f64, figures: &Figures) -> Point {
    let &Figures { latency_ns, share, weight, .. } = figures;
    Point { size, time_ns, latency_ns, share, weight }
}

/// The time at `size`. Beyond the largest measurement it grows with the size.
fn scaled(at: &Point, size: f64) -> f64 {
    if at.size < size { at.time_ns * size / at.size } else { at.time_ns }
}

/// The time of a launch that is smaller than all of `points`: on the line of the smallest two, at
/// least in proportion to the smallest, and no more than it.
fn smaller_ns(points: &[Point], launch: f64) -> f64 {
    let first = points[0];
    let in_proportion = first.time_ns * launch / first.size;
    let Some(second) = points.get(1) else { return in_proportion };
    let slope = (second.time_ns - first.time_ns) / (second.size - first.size);
    (first.time_ns - slope * (first.size - launch)).clamp(in_proportion, first.time_ns)
}

/// Linear between the neighbours of `size`; the nearest point outside the measured range, with its
/// own size. `points` is in order and not empty.
fn between(points: &[Point], size: f64) -> Point {
    let after = points.partition_point(|point| point.size <= size);
    if after == 0 {
        return points[0];
    }
    let low = points[after - 1];
    let Some(high) = points.get(after) else { return low };
    let part = (size - low.size) / (high.size - low.size);
    let mix = |low: f64, high: f64| low + (high - low) * part;
    Point {
        size,
        time_ns: mix(low.time_ns, high.time_ns),
        latency_ns: mix(low.latency_ns, high.latency_ns),
        share: mix(low.share, high.share),
        weight: low.weight.min(high.weight),
    }
}
