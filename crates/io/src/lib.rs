//! Packets in and out: capture files, the traffic generator, network interfaces, middleware.
//!
//! All `unsafe` code is in `sys/`.

#![deny(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
mod capture;
pub mod generator;
pub mod interface;
pub mod kernel_forwarding;
mod link_events;
pub mod middleware;
pub mod neighbours;
pub mod per_port;
pub mod port;
pub mod rights;
mod sys;

pub use capture::{
    BadPace, CaptureFile, CaptureFormat, CaptureReader, Compression, Destination, NotWritten,
    Paced, PcapWriter, PcapngWriter, Queued, Roll, Rolling, empty_file, open_pipe,
};
pub use port::{
    BURST_MAX, Burst, FRAME_LEN_MAX, Frame, FrameCount, Given, InterfaceNames, Live, Next,
    NullSink, Sink, SinkError, Source, SourceError, Unwritten, Wrap,
};
pub use sys::wait_readable;
