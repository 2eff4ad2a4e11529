//! The outputs of reports: files, pipes and sockets for alerts and flow records.
//!
//! A [`Registry`] has all outputs of a run. Each is an [`Output`] of whole records. With captures
//! as input, an output is written at once: the caller waits for a slow reader, and the first
//! failure ends the output. With network interfaces each output has a bounded queue and a thread.
//! Traffic never waits for a reader. Records without room are counted, and after a failure the
//! thread tries again.

#![forbid(unsafe_code)]

mod descriptor;
mod destination;
mod format;
mod output;
mod queue;
mod registry;
mod stream;

pub use descriptor::{
    LINKS_MAX, STDIN, STDOUT, continued, descriptor_of, is_inherited, link_target, note_inherited,
};
pub use destination::Destination;
pub use format::Format;
pub use output::{ChainEnd, Counts, Output, Writer};
pub use registry::Registry;
