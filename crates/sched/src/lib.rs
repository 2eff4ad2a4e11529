//! Decisions, as state machines without a clock.
//!
//! All have the same interface. `handle_*` takes an event, `poll_*` returns a decision, and
//! `poll_timeout` the next moment to poll. After every event the caller polls until there is no
//! more to do. Time is an argument, in nanoseconds of any clock, so the engine and a simulation
//! drive the same code.
//!
//! This crate has no clock, threads, I/O or randomness; `clippy.toml` lists what is forbidden.
//!
//! [`Batcher`] collects batches into launches for a device. [`StreamCount`] decides how many
//! launches are in flight. [`Arbiter`] shares a device between tenants, and [`VgpuProfile`] checks
//! how many it has room for. [`Backpressure`] pauses the stages before a queue that is nearly full.
//! [`stages()`] divides a chain by the functions that share launches.
//! [`PauseSender`] and [`PauseReceiver`] do so between instances. [`Naps`] decides how a thread
//! without work rests.
//! [`placement`] chooses devices for functions by a [`work_profile`], and [`monitor`] decides again
//! as traffic changes.

#![forbid(unsafe_code)]

mod arbiter;
mod arrivals;
mod backpressure;
mod batcher;
pub mod monitor;
mod naps;
pub mod placement;
mod plan;
mod profile;
mod remote_signals;
mod routes;
mod stages;
mod stream_count;
mod vgpu_profile;
pub mod work_profile;

pub use arbiter::{
    Arbiter, Evidence, Grant, GrantId, MemoryQuota, Policy, QuotaExceeded, Sharing, SharingError,
    Spent, TenantEvidence,
};
pub use arrivals::{Arrivals, Arrived};
pub use backpressure::{
    Admission, Backpressure, EdgeEvidence, EdgeId, GraphError, Inflow, NodeEvidence, NodeId,
    PauseEvidence, PauseMode, Signal, StageGraph, WatermarkError, Watermarks, required_capacity,
};
pub use batcher::{Batcher, Closed, LOOK_NS, Launch, LaunchId, LaunchLimits, Load};
pub use naps::{LONG_NAP_NS, NAP_NS, Naps};
pub use plan::{
    Aim, CopyTimes, Crossing, Dearer, Event, FieldCosts, Leftover, LinkCosts, Misfit, Mode, Plan,
    PlanHops, PlanStep, PlannedFunction, Problem, RowBytes, Touch, UncrossedField, Way, WholeBytes,
    Widths,
};
pub use profile::{FieldSpeeds, GatherSpeeds, LinkSpeeds, Profile};
pub use remote_signals::{
    BODY_LEN as SIGNAL_LEN, Lease, Message, PauseAnswer, PauseReceiver, PauseSender, PauseSignal,
    Reception, SignalCounts, SignalRefusal, VERSION as SIGNAL_VERSION, body as signal_body,
};
pub use routes::{
    Destination, From as RouteFrom, PATHS_MAX, Route, RouteEntry, RouteError, RouteMistake,
    RouteTable, RoutedFunction, Routes, To as RouteTo,
};
pub use stages::{StageMember, stages};
pub use stream_count::StreamCount;
pub use vgpu_profile::{Admitted, Division, Gpu, ProfileError, VgpuProfile};
