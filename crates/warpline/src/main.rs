//! The program with the functions that it comes with.

use std::process::ExitCode;

fn main() -> ExitCode {
    warpline::run_with(warpline_functions::FUNCTIONS)
}
