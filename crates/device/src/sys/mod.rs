//! All unsafe code: memory shared with devices, foreign libraries.

pub(crate) mod c_library;
pub(crate) mod cuda;
pub(crate) mod host_memory;
mod library;
pub(crate) mod limited;
pub(crate) mod matmul;
pub(crate) mod nvml;
pub(crate) mod opencl;
mod sealed;
pub(crate) mod self_test;
pub(crate) mod signals;
mod vouched;
