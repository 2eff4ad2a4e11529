//! Packets in and out: capture files, the traffic generator, middleware.

#![deny(unsafe_code)]

pub mod generator;
pub mod middleware;
pub mod port;

pub use port::{FRAME_LEN_MAX, Frame, Next, Sink, SinkError, Source, SourceError};
