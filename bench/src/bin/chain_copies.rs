//! The paper's five chains by the four rules for copies (`AdaptChain`, figures 9 to 16): bytes,
//! rates, the lane's work, latencies and sizes as tables, next to the numbers in the paper's text.
//!
//! `chain_copies [--device ID] [--seconds S] [--rounds N] [--quick] [--bytes]`: on the host's
//! reference device by default; `--bytes` shows bytes alone. A device that shares the host's memory
//! is made to copy. `chain_copies bookkeeping CHAIN MODE PACKETS` does the lane's work alone, to
//! count instructions: `valgrind --tool=callgrind target/release/chain_copies bookkeeping C2
//! adaptive 200000`.

use std::process::ExitCode;

use warpline_bench::chain_copies::{Copies, Options, bookkeeping};
use warpline_sched::Mode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("bookkeeping") => work(&arguments[1..]),
        _ => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("chain_copies: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &[String]) -> Result<(), String> {
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let mut options = if is_quick { Options::quick() } else { Options::full() };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--device" => options.device = Some(value()?.clone()),
            "--seconds" => options.seconds = positive(value()?)?,
            "--rounds" => options.rounds = positive(value()?)?.ceil() as usize,
            "--quick" => {}
            "--bytes" => options.bytes_alone = true,
            _ => {
                return Err(format!(
                    "{argument}: not one of --device, --seconds, --rounds, --quick, --bytes"
                ));
            }
        }
    }
    Copies::open(options)?.print().map_err(|why| why.to_string())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or(format!("{text}: not a number above zero"))
}

fn work(arguments: &[String]) -> Result<(), String> {
    let [chain, mode, packets] = arguments else {
        return Err("bookkeeping takes a chain, a mode and a number of packets".into());
    };
    let mode = Mode::named(mode).ok_or(format!("{mode}: no such mode"))?;
    let packets = positive(packets)? as u64;
    bookkeeping::work(&Copies::open(Options::quick())?, chain, mode, packets)
}
