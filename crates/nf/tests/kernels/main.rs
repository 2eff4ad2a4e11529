//! The kernels of functions beside their `run`, on every device of this machine.

#![deny(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a test names the devices that are not there")]

mod digest;
mod driver;
mod frames;
mod ipsec;
mod router;
mod sanitizers;
mod side;
#[allow(unsafe_code)]
mod sys;
