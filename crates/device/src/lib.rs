//! Devices that run kernels: the host reference device, OpenCL and CUDA. This crate knows no
//! packets.
//!
//! A [`Device`] compiles a [`Source`], allocates [`Buffer`]s and opens [`Stream`]s. A stream takes
//! [`Work`]: copies and kernel calls in order, with the host memory they use. It returns the work
//! when it is done. Submitting never waits, the caller polls for completions, and every error is a
//! [`Failure`].
//!
//! The build needs no library, driver or compiler. A missing one is a [`Missing`] with its reason.
//! All `unsafe` code is in `sys/`.

#![deny(unsafe_code)]

mod apart;
mod buffer;
mod cache;
mod cubin;
mod device;
mod failure;
pub mod fake;
pub mod faulty;
mod find;
mod for_tests;
pub mod host;
mod loads;
mod matmul;
mod measure;
pub mod power;
mod self_test;
mod source;
#[allow(unsafe_code)]
mod sys;
mod work;
mod wrapped;

pub use apart::{apart, apart_id};
pub use buffer::{Buffer, Slice};
pub use cubin::{Figures, figures};
pub use device::{Description, Device, Stream};
pub use failure::{Failure, Missing};
pub use find::{FoundDevices, find, open};
pub use for_tests::devices as devices_for_tests;
pub use loads::{Loading, Loads};
pub use matmul::Matmul;
pub use measure::{Speeds, measure};
pub use self_test::self_test;
pub use source::{Header, Kernel, KernelSpec, Module, PLATFORM, Parameter, Source};
pub use sys::cuda::{compile_for as compile_cuda_for, compile_ptx_for as compile_cuda_ptx_for};
pub use sys::host_memory::{HostMemory, Piece, Region};
pub use work::{Argument, Done, KernelCall, Part, Refused, Rows, Step, Work};
pub use wrapped::Wrapped;
