//! The kernels of functions beside their `run`, on every device of this machine.

#![deny(unsafe_code)]

mod digest;
mod driver;
mod frames;
mod ipsec;
mod router;
mod sanitizers;
mod side;
#[allow(unsafe_code)]
mod sys;
