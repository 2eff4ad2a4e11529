//! The running system: lanes, stages, steering, merge and statistics.
//!
//! A [`Chain`] is made of functions, and a [`Deployment`] states where they run. [`run()`] moves
//! packets from a source through lanes to a sink and returns a [`Report`]. To read the code, start
//! at `Lane::breathe` in `lane.rs`.

#![deny(unsafe_code)]

#[cfg(test)]
extern crate self as warpline_engine;

mod bell;
mod build;
mod chain;
mod comments;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod control;
mod cores;
mod crew;
mod cut;
mod demand;
mod deployment;
mod egress;
mod frames_on_way;
mod gather_speeds;
mod huge_pages;
mod idle;
mod ingress;
mod lane;
mod launch_stage;
mod machine;
mod memory;
mod merge;
mod moves;
mod observer;
mod one_thread;
mod peers;
mod planned;
mod pressure;
mod queue;
mod reach;
mod reload;
mod reports;
mod routing;
mod run;
mod settings;
mod snapshots;
mod stage;
#[cfg(test)]
mod stale_crossings;
pub mod stats;
pub mod sys;
mod tenants;
mod threads;
mod timer_lateness;

pub use chain::{
    Chain, ChainError, GROWTH_MAX, INSTANCES_MAX, Instance, MULTIPLY_MAX, Place, lane_of,
};
pub use control::Control;
pub use cores::{CORE_MAX, Cores, CoresError};
pub use crew::try_cores;
pub use cut::StagePlan;
pub use demand::{Demand, demands};
pub use deployment::{Deployment, Site};
pub use egress::Exits;
pub use gather_speeds::gather_speeds;
pub use huge_pages::{Asked, HugePages, try_huge_pages};
pub use ingress::TimeCounts;
pub use machine::{Machine, MachineChain, Member, MemberError};
pub use memory::{LANE_LEN_MAX, LaneNeed};
pub use observer::Observer;
pub use peers::{DOWNSTREAM_MAX, PeerKey, PeerLink, PeerReport, PeerSide, Peers};
pub use planned::{FramesBy, PlanOptions, Planned, planned};
pub use pressure::{PressureOptions, StageCounts};
pub use reload::Successor;
pub use routing::{NO_CHAIN_ROUTE, NO_CHAIN_ROUTE_NAME};
pub use run::{Ports, Report, StartError, run, run_to};
pub use snapshots::{Snapshot, Thread};
pub(crate) use warpline_packet::Steering;

pub use settings::{LANES_MAX, Settings};
pub use tenants::{Background, SharedDevice, SharedReport, Tenant};
pub use timer_lateness::{Wakes, timer_lateness, wake_lateness};
pub use warpline_launch::{
    DEVICE_LOST, DEVICE_LOST_NAME, Followed, LaunchOptions, OnDevice, Reader, StaleRead, Streams,
};
