//! The decisions: state machines that are told what happens and asked what to do.
//!
//! All speak the same way: `handle_*` takes an event, `poll_*` gives a decision, and `poll_timeout` the next moment
//! at which one wants to be asked again. After every event the caller polls until there is nothing more. Time is an
//! argument, in nanoseconds of whatever clock the caller chose, so the engine and a simulation drive the same code.
//!
//! There is no clock, thread, I/O or randomness in here; `clippy.toml` names what is forbidden.
//!
//! [`Batcher`] collects batches into launches for a device; [`StreamCount`] says how many of them to have in flight.

#![forbid(unsafe_code)]

mod batcher;
mod plan;
mod profile;
mod stream_count;

pub use batcher::{Batcher, Closed, Launch, LaunchId, LaunchLimits, Load};
pub use plan::{
    Crossing, Dearer, Event, FieldCosts, Kept, Leftover, LinkCosts, Misfit, Mode, Plan,
    PlannedFunction, Problem, RowBytes, Step, Touch, Way, WholeBytes, Widths,
};
pub use profile::{FieldSpeeds, GatherSpeeds, LinkSpeeds, Profile};
pub use stream_count::StreamCount;
