//! Packets in and out: capture files, the traffic generator, middleware.

#![forbid(unsafe_code)]

mod capture;
pub mod generator;
pub mod middleware;
pub mod per_port;
pub mod port;

pub use capture::{
    BadPace, CaptureFile, CaptureFormat, CaptureReader, Compression, NotWritten, Paced, PcapWriter,
    PcapngWriter,
};
pub use port::{
    BURST_MAX, Burst, FRAME_LEN_MAX, Frame, Given, InterfaceNames, Next, NullSink, Sink, SinkError,
    Source, SourceError, Unwritten, Wrap,
};
