//! Placement: on which device each function of each chain runs, with which launch size. It follows
//! the policies of `Pythia` (section IV) and adds the cost of copies.
//!
//! The work of functions comes from a [`WorkProfile`], with the slow-down beside the other
//! functions on the device. Copies come from the synchronisation plan for these devices
//! ([`Problem::plan`]). Once devices are chosen, the plan is chosen again by the aim that spares
//! the resource with the highest load ([`crate::Aim`]). A function that was never measured on a
//! device stays on the CPU.
//!
//! The *load* of a device is the share of its time that the chains need. A placement carries its
//! chains while no load exceeds 1. Power is linear in the load. A device without functions counts
//! as switched off, the CPU never does.
//!
//! The cores have a load, too. Readers, lanes, senders, and devices whose kernels run on the CPU
//! share them. Such a device is measured while no other one works, so its own load is too low.
//!
//! Functions of one chain on the CPU take turns in a lane, so they do not lengthen each other's
//! delay. On a device they do, since it has several launches at once, and so do other chains'. On
//! the CPU other chains do so only if there are more lanes than cores.
//!
//! The search is exact for up to 20,000 combinations of devices and launch sizes on up to 256
//! combinations of devices. Otherwise it improves the best of three starts step by step, with up to
//! 10 plans, and [`Placement::gap`] bounds the distance from the best placement.
//!
//! Without `delay_ns_max` a launch waits for a millisecond at most. If fewer packets come in its
//! wait than it holds, its figures are those of a launch of these packets.
//!
//! Limits that no placement keeps lead to the placement that exceeds them least, and
//! [`Placement::missed`] names them.

mod bound;
mod evaluate;
mod items;
mod result;
mod search;
mod split;
#[cfg(test)]
mod tests;

use std::fmt;

pub use result::{Decided, Deciding, Missed, Placement, PlacementFigures, RunnerUp, Site};

use crate::work_profile::WorkProfile;
use crate::{Misfit, Problem};

/// The aim of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementPolicy {
    /// The most packets a second.
    Throughput,
    /// The shortest delay that carries the load.
    Latency,
    /// The least power that carries the load.
    Energy,
    /// All functions on the CPU.
    CpuOnly,
    /// On a device if it has a form for one, as fast as possible.
    DeviceOnly,
    /// These devices, by chain and position.
    Fixed(Vec<Vec<usize>>),
}

impl PlacementPolicy {
    /// Its name in chain files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Energy => "energy",
            Self::CpuOnly => "cpu_only",
            Self::DeviceOnly => "device_only",
            Self::Fixed(_) => "fixed",
        }
    }

    /// Whether a function may be divided between the CPU and a device.
    const fn may_split(&self) -> bool {
        matches!(self, Self::Throughput | Self::Latency | Self::Energy)
    }
}

/// A chain to place.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainDemand {
    /// Its functions, as the profile numbers them.
    pub functions: Vec<usize>,
    /// Its plan's input with the same functions. Their devices are ignored.
    pub plan: Problem,
    /// By device of the profile: its link in `plan`. `None` shares the host's memory, as the CPU
    /// does.
    pub links: Vec<Option<usize>>,
    /// Packets that arrive.
    pub packets_per_s: f64,
    /// Bytes of a frame.
    pub packet_len: u32,
    /// Lanes that divide its packets.
    pub lanes: usize,
    /// The time of its reader, its lane itself and its sender together for a packet. 0 if it was
    /// not measured.
    pub threads_ns: f64,
}

/// The input of a placement.
#[derive(Clone, Debug)]
pub struct PlacementProblem<'a> {
    /// The measurements.
    pub profile: &'a WorkProfile,
    /// All chains that share the devices.
    pub chains: &'a [ChainDemand],
    /// The aim.
    pub policy: PlacementPolicy,
    /// The devices that each function may have, by chain and position. `None` leaves the choice.
    pub devices: Option<Vec<Vec<Vec<usize>>>>,
    /// The longest delay of a packet (`delay_us_max`).
    pub delay_ns_max: Option<f64>,
    /// The most power of all devices (`power_w_max`). Unknown power exceeds it.
    pub power_w_max: Option<f64>,
    /// Lanes of all chains that work at the same time.
    pub lanes_max: usize,
    /// Cores of the CPU. Lanes, readers, senders and devices with
    /// [`cores`](crate::work_profile::ProfiledDevice::cores) share them. `usize::MAX` if unknown.
    pub cores: usize,
}

/// Why there is no placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// No device that the policy allows has measurements of this function.
    Unmeasured {
        /// Its chain.
        chain: usize,
        /// Its position.
        position: usize,
    },
    /// Functions, plan, links, or fixed devices of this chain do not fit each other.
    Shape {
        /// The chain.
        chain: usize,
    },
    /// A device has no link in a plan.
    Link(Misfit),
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmeasured { chain, position } => {
                write!(f, "function {position} of chain {chain} has no measurements")
            }
            Self::Shape { chain } => {
                write!(f, "chain {chain}: functions, plan and devices do not fit each other")
            }
            Self::Link(misfit) => misfit.fmt(f),
        }
    }
}

impl std::error::Error for PlacementError {}

impl PlacementProblem<'_> {
    /// The best placement by the policy.
    ///
    /// # Errors
    /// A function cannot run anywhere, or the input does not fit together.
    pub fn place(&self) -> Result<Placement, PlacementError> {
        let items = items::of(self)?;
        let found = search::search(self, &items)?;
        Ok(result::placement(self, &items, found))
    }
}
