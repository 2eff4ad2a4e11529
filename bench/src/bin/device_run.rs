//! Functions on a device: throughput, latency, loss, where the time goes, and copies.
//!
//! `device_run [MEASUREMENT ...] [--device ID] [--seconds S] [--lanes N] [--check]`: without a
//! name, all measurements run. The default device is the first available of CUDA, OpenCL and the
//! host's reference device. The default is one lane. Each measurement prints a table of
//! comma-separated values. A line before each table gives the command, the device, its driver and
//! the date. Only times from a GPU are more than a trial run.

use std::process::ExitCode;

use warpline_bench::devices::{Bench, MEASUREMENTS};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("device_run: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Seconds of a point.
const SECONDS: f64 = 0.3;

fn run() -> Result<(), String> {
    let (mut names, mut device, mut seconds, mut lanes) = (Vec::new(), None, SECONDS, 1);
    let mut is_check = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--device" => device = Some(value()?),
            "--seconds" => seconds = positive(&value()?)?,
            "--check" => is_check = true,
            "--lanes" => lanes = positive(&value()?)? as usize,
            name if MEASUREMENTS.iter().any(|(own, _)| *own == name) => names.push(argument),
            _ => return Err(format!("{argument}: not one of {}", all_names())),
        }
    }
    let bench = Bench::open(device.as_deref(), seconds, lanes)?;
    if is_check {
        println!("{}", bench.device.description());
        return Ok(());
    }
    let is_meant = |name| names.is_empty() || names.iter().any(|own| own == name);
    for (name, measure) in MEASUREMENTS.iter().filter(|(name, _)| is_meant(*name)) {
        measure(&bench).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or(format!("{text}: not a number above zero"))
}

fn all_names() -> String {
    let names: Vec<&str> = MEASUREMENTS.iter().map(|(name, _)| *name).collect();
    format!("{}, --device, --seconds, --lanes, --check", names.join(", "))
}
