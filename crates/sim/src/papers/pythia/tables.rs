//! Tables I to III as a profile of `sched`, and its prediction for three co-workers from one.

use warpline_sched::work_profile::{Beside, Figures, Measurement, WorkProfile};

use super::figure_4;
use crate::ScenarioError;
#[cfg(test)]
use crate::papers::mutated;
use crate::papers::shape::{Rule, within};
use crate::papers::{ItemResult, Series};

type Result = std::result::Result<ItemResult, ScenarioError>;

const DATA: &str = include_str!("tables.csv");
pub(super) const FUNCTIONS: [&str; 3] = ["DPI", "AES", "MD5"];
pub(super) const DEVICES: [&str; 3] = ["i7-8700K", "UHD630", "GTX1080Ti"];
pub(super) const LAUNCHES: [u32; 3] = [1024, 4096, 16384];
pub(super) const LEN: u32 = 1500;
/// The greatest aggregate of the tables, in Gb/s.
pub(super) const PORT_GBPS: f64 = 27.6;

/// A row of a table.
pub(super) struct Row {
    pub(super) device: usize,
    pub(super) function: usize,
    pub(super) launch: u32,
    pub(super) beside: usize,
    /// Gb/s and slow-down, beside one and three.
    pub(super) one: (Option<f64>, Option<f64>),
    pub(super) three: (Option<f64>, Option<f64>),
}

pub(super) fn rows() -> Vec<Row> {
    let of = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [device, function, launch, beside, one, slow, three, slower] = cells[..] else {
            return None;
        };
        let place = |names: &[&str], name| names.iter().position(|own| *own == name);
        let pair = |gbps: &str, percent: &str| {
            (gbps.parse().ok(), percent.parse().ok().map(|percent: f64| percent / 100.0))
        };
        Some(Row {
            device: place(&DEVICES, device)?,
            function: place(&FUNCTIONS, function)?,
            launch: launch.parse().ok()?,
            beside: place(&FUNCTIONS, beside)?,
            one: pair(one, slow),
            three: pair(three, slower),
        })
    };
    DATA.lines().filter_map(of).collect()
}

fn figures(gbps: f64) -> Figures {
    Figures { bits_per_s: gbps * 1e9, latency_ns: 1e5, share: 1.0, weight: 10.0 }
}

/// Alone and beside one.
pub(super) fn profile() -> WorkProfile {
    let mut profile = WorkProfile::new(&FUNCTIONS, &DEVICES);
    for row in rows() {
        let (Some(gbps), Some(slow_down)) = row.one else { continue };
        let pair = (row.function, row.device);
        let at = |gbps| Measurement::alone(pair, row.launch, LEN, figures(gbps));
        for one in [at(gbps / (1.0 - slow_down)), at(gbps).beside(row.beside, 1)] {
            // The tables' figures are sound.
            let _ = profile.merge(&one);
        }
    }
    profile
}

/// Gb/s of an instance beside `count` others, within its part of the port.
fn predicted(profile: &WorkProfile, row: &Row, count: u32) -> Option<f64> {
    let pair = (row.function, row.device);
    let alone = profile.alone(pair, row.launch, LEN)?.bits_per_s / 1e9;
    let others = [Beside { function: row.beside, count }];
    let slow_down = profile.slow_down(pair, (row.launch, LEN), &others);
    Some((alone / slow_down.factor).min(PORT_GBPS / f64::from(count + 1)))
}

fn table(function: usize) -> Result {
    let profile = profile();
    let mut series: Vec<Series> = DEVICES
        .iter()
        .map(|device| Series::new(format!("{device}, beside three"), "co-worker, batch", "Gb/s"))
        .collect();
    let mut ratios = Vec::new();
    for row in rows().iter().filter(|row| row.function == function) {
        let Some(ours) = predicted(&profile, row, 3) else { continue };
        #[cfg(test)]
        let ours = match mutated::present() {
            Some(mutated::Mutation::MissingDevice) if row.device == 0 => continue,
            Some(mutated::Mutation::SlowKernels) => ours / 50.0,
            Some(mutated::Mutation::FreeKernels) => ours * 50.0,
            _ => ours,
        };
        let at = format!("{}, {}", FUNCTIONS[row.beside], row.launch);
        series[row.device].add(at, row.three.0, ours);
        ratios.extend(row.three.0.map(|paper| ours / paper));
    }
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let off = ratios.iter().map(|ratio| (ratio - 1.0).abs()).sum::<f64>() / ratios.len() as f64;
    let rules = vec![
        within("the least ratio of prediction to table", least, 0.7..=1.1).because(
            "Three co-workers are extrapolated linearly from one. With batches of 16384 the GTX \
             slows more from none to one than from one to three.",
        ),
        within("the greatest ratio of prediction to table", most, 0.9..=1.3),
        within("the mean difference", off, 0.0..=0.1),
        Rule::new(format!("{} rows of 27 are readable", ratios.len()), ratios.len() >= 24),
    ];
    Ok(ItemResult { series, rules })
}

pub(super) fn table_1() -> Result {
    table(0)
}

pub(super) fn table_2() -> Result {
    table(1)
}

pub(super) fn table_3() -> Result {
    table(2)
}

/// The columns of table IV as numbers that the monitor reaches: devices and applications at once.
pub(super) fn table_4() -> Result {
    let mut devices = Series::new("devices at once", "applications", "");
    for functions in [&[0, 1][..], &[0, 1, 0]] {
        devices.add(functions.len(), Some(2.0), figure_4::devices_used(functions)? as f64);
    }
    let used = devices.ours();
    let rules = vec![
        within("devices at once with two applications", used[0], 2.0..=2.0),
        within("devices at once with three applications", used[1], 2.0..=2.0),
    ];
    Ok(ItemResult { series: vec![devices], rules })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_are_read() {
        let rows = rows();
        assert_eq!(rows.len(), 81);
        for function in 0..3 {
            for device in 0..3 {
                let own =
                    rows.iter().filter(|row| (row.function, row.device) == (function, device));
                assert_eq!(own.count(), 9);
            }
        }
    }

    #[test]
    fn throughput_alone_is_the_same_beside_any_function() {
        // A wrong figure of the table would give another throughput alone.
        for row in rows() {
            let (Some(gbps), Some(slow_down)) = row.one else { continue };
            let alone = gbps / (1.0 - slow_down);
            let own = profile().alone((row.function, row.device), row.launch, LEN);
            let mean = own.expect("measured").bits_per_s / 1e9;
            let place = (FUNCTIONS[row.function], DEVICES[row.device], row.launch);
            assert!((alone / mean - 1.0).abs() < 0.08, "{place:?}: {alone}, not {mean}");
        }
    }
}
