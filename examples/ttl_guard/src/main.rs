//! The program with one function more.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut functions = warpline_functions::FUNCTIONS.to_vec();
    functions.push(&warpline_ttl_guard::DEFINITION);
    warpline::run_with(&functions)
}
