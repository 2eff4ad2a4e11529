//! Reassembly: TCP streams ([`flows`]) and fragmented datagrams ([`reassembly`]).

#![forbid(unsafe_code)]

pub mod flows;
mod offload;
pub mod reassembly;

pub use offload::Offload;
