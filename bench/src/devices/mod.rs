//! The measurements of `device_run`: functions on a device, by the engine and by the device layer
//! alone.
//!
//! Each measurement is a function in a file of its own, which is given a [`Bench`] and prints a
//! table of comma-separated values. [`cases`] are the functions and their packets, [`drive`] runs
//! chains for a while, [`resident`] has a function's kernels and their packets on a device without
//! an engine.

mod breakdown;
mod buffers;
pub mod cases;
mod conflict;
mod copies;
pub mod drive;
mod graphs;
pub(crate) mod idle_device;
mod lane_cost;
mod launch_sizes;
mod memory;
pub mod resident;
mod rooms;
mod streams;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use warpline_device::{Device, Failure, find};
use warpline_engine::{LaunchOptions, OnDevice};

use cases::Cases;

/// The name of a measurement, and its function.
pub type Measurement = (&'static str, fn(&Bench) -> Result<(), Failure>);

/// All measurements, in the order in which they are made.
pub const MEASUREMENTS: &[Measurement] = &[
    ("copies", copies::measure),
    ("rooms", rooms::measure),
    ("memory", memory::measure),
    ("breakdown", breakdown::measure),
    ("streams", streams::measure),
    ("launches", launch_sizes::measure),
    ("graphs", graphs::measure),
    ("buffers", buffers::measure),
    ("conflict", conflict::measure),
    ("lane", lane_cost::measure),
];

/// Payload lengths in bytes.
const SIZES: [usize; 6] = [64, 128, 256, 512, 1024, 1472];
/// The longest.
const LONGEST: usize = SIZES[5];

/// A device, and how long it is measured.
pub struct Bench {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Seconds of a point.
    pub seconds: f64,
    /// Lanes of a chain, where one is not what is measured.
    pub lanes: usize,
    /// The functions and their packets.
    pub cases: Cases,
}

impl Bench {
    /// The device called `id`, or the first available.
    ///
    /// # Errors
    /// There is none, and why.
    pub fn open(id: Option<&str>, seconds: f64, lanes: usize) -> Result<Self, String> {
        let found = find();
        let device = match id {
            Some(id) => found.open(id).map_err(|missing| missing.to_string())?,
            None => found.devices.into_iter().next().ok_or("there is no device here")?,
        };
        let cases = Cases::new().map_err(|why| format!("files for the functions: {why}"))?;
        Ok(Self { device, seconds, lanes, cases })
    }

    /// Says what follows: the command, where it runs, when, and the names of the columns.
    pub fn head(&self, name: &str, columns: &str) {
        let about = self.device.description();
        println!(
            "# device_run {name} --device {} --seconds {} --lanes {}; {}; {}; {}",
            about.id,
            self.seconds,
            self.lanes,
            about.name,
            about.driver,
            today()
        );
        if about.shares_host_memory {
            println!(
                "# the device shares the host's memory and cores: its times do not apply to a GPU"
            );
        }
        println!("{columns}");
    }

    /// Has a function on the device, with these launches.
    pub fn on(&self, launches: LaunchOptions) -> OnDevice {
        OnDevice { device: Arc::clone(&self.device), launches, is_required: true }
    }
}

/// Default options of launches. A device that shares the cores with the lanes may be slow.
pub(crate) fn launches() -> LaunchOptions {
    LaunchOptions { timeout: Duration::from_secs(120), ..LaunchOptions::default() }
}

/// Nanoseconds of `seconds` that each of `count` takes.
pub(crate) fn nanos_each(seconds: f64, count: u64) -> f64 {
    seconds * 1e9 / count.max(1) as f64
}

/// The date in UTC, as ISO 8601 writes it.
pub(crate) fn today() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    date(now.as_secs() / 86_400)
}

/// The date `days` days after 1970-01-01.
fn date(mut days: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let february = |year| 28 + u64::from(leap(year));
    let mut year = 1970;
    while days >= 337 + february(year) {
        days -= 337 + february(year);
        year += 1;
    }
    let mut month = 1;
    for len in [31, february(year), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < len {
            break;
        }
        days -= len;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let known =
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_453, "2025-12-31")];
        for (days, text) in known {
            assert_eq!(date(days), text);
        }
    }
}
