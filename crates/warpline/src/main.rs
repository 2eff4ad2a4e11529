//! `warpline`: service chains of network functions, from the command line.
//!
//! `cli` says what can be typed, `chain_file` what can be written, `commands` does it. Messages go to
//! standard error and data to standard output. Exit status: 0 done, 1 the run failed or its packets
//! don't balance, 2 the command line, the chain file or a file that it names is wrong.

#![forbid(unsafe_code)]

mod chain_file;
mod cli;
mod commands;
mod core_keys;
mod demo;
mod device_keys;
mod port_keys;
mod ports;
mod reload;
mod stats_json;
mod summary;
mod watch;
mod writes;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use warpline_engine::sys::HugeAlloc;

#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

/// Why a command ended without doing its work.
pub(crate) enum Failure {
    /// The run failed: exit status 1.
    Run(String),
    /// Something that the user wrote is wrong: exit status 2.
    Usage(String),
}

impl Failure {
    /// What is wrong.
    fn why(&self) -> &str {
        match self {
            Self::Run(why) | Self::Usage(why) => why,
        }
    }
}

fn main() -> ExitCode {
    if let Some(what) = missing_instructions() {
        return fail(
            1,
            &format!("this processor lacks {what}; this program was built for x86-64-v3"),
        );
    }
    let outcome = match cli::Arguments::parse().command {
        cli::Command::Run(arguments) => commands::run::run(&arguments),
        cli::Command::Check { chain, json, device, set } => {
            commands::check::check(&chain, &set, device.as_deref(), json)
        }
        cli::Command::Functions { name } => commands::functions::functions(name.as_deref()),
        cli::Command::Devices { watch: true, json, .. } => commands::meters::watch(json),
        cli::Command::Devices { measure, json, .. } => commands::devices::devices(measure, json),
        cli::Command::Demo { folder } => commands::demo::demo(&folder),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ Failure::Run(_)) => fail(1, failure.why()),
        Err(failure @ Failure::Usage(_)) => fail(2, failure.why()),
    }
}

/// What the program was built for and the processor doesn't have (see .cargo/config.toml).
#[cfg(target_arch = "x86_64")]
fn missing_instructions() -> Option<&'static str> {
    let needs = cfg!(target_feature = "avx2");
    match () {
        () if needs && !is_x86_feature_detected!("avx2") => Some("AVX2"),
        () if needs && !is_x86_feature_detected!("bmi2") => Some("BMI2"),
        () => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn missing_instructions() -> Option<&'static str> {
    None
}

fn fail(status: u8, why: &str) -> ExitCode {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr().lock(), "error: {why}");
    ExitCode::from(status)
}
