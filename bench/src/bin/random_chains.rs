//! Bytes that plans move over random chains, beside the least that single fields would take.
//!
//! `random_chains [--chains N] [--seed S]`. The same seed gives the same chains. Nothing runs:
//! plans are made for the host's reference device as one that copies.

use std::process::ExitCode;

use warpline_bench::random_chains::{Options, print};

fn main() -> ExitCode {
    match options().and_then(|options| print(&options).map_err(|why| why.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("random_chains: {why}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options { chains: 500, seed: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse().ok());
        let value: u32 = value.ok_or(format!("{argument} needs a number"))?;
        match argument.as_str() {
            "--chains" => options.chains = value.max(1),
            "--seed" => options.seed = value,
            _ => return Err(format!("{argument}: not one of --chains, --seed")),
        }
    }
    Ok(options)
}
