//! `warpline`: service chains of network functions, from the command line.
//!
//! [`run_with`] is the whole program over a list of functions, so a program with its own functions
//! needs three lines. `cli` has the options, `chain_file` reads chain files, and `commands` does
//! the work. Messages go to standard error and data to standard output.
//!
//! Exit status:
//! - 0: done;
//! - 1: the run failed, or packets are unaccounted for;
//! - 2: the command line, the chain file or a file it names is wrong;
//! - 128 plus a signal's number: the signal ended the run, and everything was written (130 after
//!   Ctrl-C, 143 after SIGTERM).

#![forbid(unsafe_code)]

mod bounded;
mod chain_file;
mod chain_order;
mod claims;
mod cli;
mod commands;
mod core_keys;
mod ctl;
mod demo;
mod device_keys;
mod filled;
mod fixed_keys;
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod machine_profile;
mod messages;
mod meters;
mod metrics;
mod moves;
mod offered;
mod outputs_shown;
mod paint;
mod peer_keys;
mod peers_shown;
mod placement;
mod plan_keys;
mod port_keys;
mod port_tables;
mod ports;
mod pressure_keys;
mod process_keys;
mod profile_file;
mod reload;
mod route_mode;
mod route_tables;
mod routes_shown;
mod service;
mod shown;
mod stages_shown;
mod stats_json;
mod summary;
mod table_lists;
mod tenants;
mod tenants_shown;
mod top;
mod trace;
mod watch;
mod writes;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use warpline_engine::sys::{HugeAlloc, end_when_out_of_memory};
use warpline_nf::{Definition, Diagnostic, Diagnostics};

use chain_file::LoadOptions;
use watch::Signals;

#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

/// Why a command ended without doing its work.
pub(crate) enum Failure {
    /// The run failed: exit status 1.
    Run(String),
    /// Something that the user wrote is wrong: exit status 2.
    Usage(String),
    /// The same, by places in files, under a heading.
    Mistakes { heading: String, list: Diagnostics },
    /// An exit status whose reason is printed already.
    Reported(u8),
    /// A signal of this number ended the run, which failed in nothing: exit status 128 and the
    /// number.
    Signal(u8),
}

impl Failure {
    /// One mistake.
    fn mistake(mistake: Diagnostic) -> Self {
        let mut list = Diagnostics::default();
        list.push(mistake);
        Self::Mistakes { heading: String::new(), list }
    }

    /// The message.
    fn why(&self) -> String {
        match self {
            Self::Run(why) | Self::Usage(why) => why.clone(),
            Self::Mistakes { heading, list } if heading.is_empty() => list.to_string(),
            Self::Mistakes { heading, list } => format!("{heading}\n{list}"),
            Self::Signal(_) => "a signal ended it".into(),
            Self::Reported(_) => String::new(),
        }
    }

    /// The status that the program ends with.
    fn status(&self) -> u8 {
        match self {
            Self::Run(_) => 1,
            Self::Usage(_) | Self::Mistakes { .. } => 2,
            Self::Reported(status) => *status,
            Self::Signal(number) => 128 + number,
        }
    }
}

/// Runs the program with the arguments of its command line. Chain files may name `functions`; of
/// two with one name the first counts. The program's own are `warpline_functions::FUNCTIONS`.
///
/// It takes over the process: signals, messages, and the allocator, which is this crate's.
pub fn run_with(functions: &[&'static Definition]) -> ExitCode {
    warpline_nf::note_inherited();
    if let Some(what) = missing_instructions() {
        let why = format!("this processor lacks {what}; this program was built for x86-64-v3");
        return ExitCode::from(fail(1, &why));
    }
    end_when_out_of_memory();
    watch::ignore_size_limit();
    let arguments = match cli::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(why) => return ExitCode::from(not_parsed(&why)),
    };
    let outcome = match arguments.command {
        cli::Command::Run(arguments) => {
            let signals = Signals::catch();
            messages::start(&signals.stops);
            commands::run::run(functions, &arguments, &signals)
        }
        cli::Command::Check { chain, json, verbose, strict, input, device, set } => {
            let set = chain_file::Setting::of_set(&set);
            let options =
                LoadOptions { set: &set, device: device.as_deref(), ..LoadOptions::of(functions) };
            let form = commands::check::Form { is_json: json, is_verbose: verbose };
            let more = Some(input.as_deref()).filter(|_| strict);
            commands::check::check(&chain, &options, form, more)
        }
        cli::Command::Plan(arguments) => commands::plan::plan(functions, &arguments),
        cli::Command::Trace(arguments) => commands::trace::trace(functions, &arguments),
        cli::Command::Advise(arguments) => commands::advise::advise(functions, &arguments),
        cli::Command::Simulate(arguments) => commands::simulate::simulate(functions, &arguments),
        cli::Command::Reproduce(arguments) => commands::reproduce::reproduce(&arguments),
        cli::Command::Functions { name } => {
            commands::functions::functions(functions, name.as_deref())
        }
        cli::Command::Devices { watch: true, json, .. } => commands::meters::watch(json),
        cli::Command::Devices { measure, json, profile, .. } => {
            commands::devices::devices(measure, json, profile.as_deref())
        }
        cli::Command::Profile { quick, out, json } => {
            commands::profile::profile(functions, quick, &out, json)
        }
        cli::Command::Ctl { request, values, socket, chain, count, seconds, json } => {
            let chain = chain.as_deref();
            let asked = ctl::Asked { request, values: &values, chain, count, seconds };
            ctl::ctl(&asked, socket.as_deref(), json, functions)
        }
        cli::Command::Completions { shell } => commands::pages::completions(shell),
        cli::Command::Man => commands::pages::man(),
        cli::Command::Demo { folder } => commands::demo::demo(&folder),
    };
    let status = exit_status(outcome);
    messages::settle();
    ExitCode::from(status)
}

/// The exit status of the program. Prints the reason for a failure.
pub(crate) fn exit_status(outcome: Result<(), Failure>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(failure @ (Failure::Signal(_) | Failure::Reported(_))) => failure.status(),
        Err(failure) => fail(failure.status(), &failure.why()),
    }
}

/// Prints the mistake of the command line, or the help that it asks for; returns the exit status.
fn not_parsed(why: &clap::Error) -> u8 {
    let text = bounded::bounded(&why.to_string()).into_owned();
    let text = shown::shown(&text);
    if why.use_stderr() {
        messages::write(&text);
        return 2;
    }
    // Standard output may be closed.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    0
}

/// An instruction set that the program needs and the processor lacks (see .cargo/config.toml).
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

fn fail(status: u8, why: &str) -> u8 {
    let why = bounded::bounded(why);
    messages::write(&format!("error: {}\n", shown::shown(&why)));
    status
}
