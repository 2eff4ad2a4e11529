//! Kernels on every device of this machine, and what goes wrong on them.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod common;
mod compilers;
mod cuda_calls;
mod devices;
mod driver;
mod driver_calls;
mod failures;
mod graph_calls;
mod kept_programs;
mod memory;
mod nvml_calls;
mod sanitizers;
#[path = "../stub/mod.rs"]
mod stub;
mod stub_checks;
