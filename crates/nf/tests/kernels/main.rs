//! The kernels of every function beside its `run`, on every device of this machine.

#![deny(unsafe_code)]

mod driver;
mod side;
#[allow(unsafe_code)]
mod sys;
