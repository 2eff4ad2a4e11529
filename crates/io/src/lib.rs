//! Packets in and out: capture files, the traffic generator, middleware.

#![forbid(unsafe_code)]

mod capture;
pub mod generator;
pub mod middleware;
pub mod port;

pub use capture::{BadPace, CaptureReader, Paced, PcapWriter};
pub use port::{
    BURST_MAX, Burst, FRAME_LEN_MAX, Frame, Given, Next, NullSink, Sink, SinkError, Source,
    SourceError,
};
