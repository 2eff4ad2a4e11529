//! A simulation of chains in virtual time. It drives the state machines of `warpline-sched`
//! (batcher, backpressure, arbiter, placement, plan), so a simulated chain decides as a real one
//! does.
//!
//! A [`Scenario`] has chains, devices, lanes and traffic, and [`Scenario::simulate`] runs it. Time
//! is in nanoseconds, events of equal times keep their order, and random numbers come from a seed:
//! equal scenarios give equal outcomes. Packets move in batches and launches, as in the engine, so
//! a simulation has an event for each of these and none for a packet.

#![forbid(unsafe_code)]

mod assemble;
mod batch_cost;
mod chain;
mod cores;
mod device;
mod events;
mod histogram;
pub mod json;
mod load;
mod model;
mod outcome;
pub mod papers;
mod profile_file;
mod random;
mod result_json;
mod run;
mod trace;
mod traffic;
mod ways;

pub use assemble::{
    Asked, AskedChain, AskedFunction, AskedLaunches, AskedSharing, AskedTenant, Assembled,
};
pub use batch_cost::BatchCost;
pub use histogram::Histogram;
pub use load::Load;
pub use model::{
    BusyReader, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork, LinkModel,
    Scenario, ScenarioError, StageModel, StageSite, ThreadWork,
};
pub use outcome::{ChainCounts, ChainOutcome, DeviceOutcome, Ended, Outcome, Span, StageCounts};
pub use profile_file::{
    FunctionTimes, KernelTime, ThreadTime, ThreadTimes, WorkFile, WorkFileError,
};
pub use trace::trace;
pub use traffic::{Arrivals, Size, Traffic};
pub use ways::{HopShare, Misdivided, Ways};
