//! The synchronisation plan: which fields of packets cross to which device and back, at which
//! function of a chain. It follows `AdaptChain`, section IV, tables I and II, with the conditions
//! they omit.
//!
//! The host's memory and each device's mirror hold a packet, and a field is *current* where its
//! last value is. A function on a device makes one [`PlanStep`]: the crossings to the device before
//! its kernel, and those to the host after it. Functions on the host copy nothing, so each step
//! brings the fields that the host needs until the next one.
//!
//! To the device, where `needs` is what the kernel reads or writes in part:
//!
//! | way | when | copied | mirror |
//! |---|---|---|---|
//! | needed fields | mirror in use | stale fields of `needs` | in use |
//! | all stale fields | mirror in use | stale fields of the frame or of `needs` | in use |
//! | whole frame | the host has all of it, or gets it first from mirrors | the frame | in use |
//! | direct | mirror not in use | `needs` | not in use |
//!
//! To the host, of the fields current on the device alone:
//!
//! | way | when | copied | mirror |
//! |---|---|---|---|
//! | needed fields | mirror in use | fields needed elsewhere before its next function | in use |
//! | all stale fields | mirror in use | all fields that will be needed | given up |
//! | whole frame | the device has all of it | the frame | in use, or given up |
//! | direct | mirror not in use | fields that the kernel wrote | not in use |
//!
//! Metadata are columns of a launch's own table. The columns that kernels need cross with each
//! launch, and those they wrote come back with it. None stays on the device. So metadata are
//! current on the host between any two functions, and cost the same in all plans.
//!
//! If a plan need not be *recoverable* ([`Problem::is_recoverable`]), fields stay current in a
//! mirror alone until they are needed elsewhere. Any packet may have to be fetched from there,
//! because a kernel left it to the host or flagged it. So two rules hold after every phase
//! (`CurrentFields::can_fetch`). At most one mirror has fields that the host lacks. That mirror
//! also has every field that can't be gathered. Then the whole room comes from the mirror, and the
//! host's newer fields are put back over it.
//!
//! With routes a plan follows their graph ([`PlanHops`]). A function has one step for all of its
//! packets, whatever their ways. Before it, a field is current where it is so on every way that
//! leads there, and it is needed later if any way from there needs it. A packet that is not in a
//! mirror in use crosses whole, and one that is routed past a function stays in mirrors as it is.
//! A step costs the same for each packet that passes it.
//!
//! [`Problem::plan`] gives the cheapest of these plans, or the plan of an older system ([`Mode`]).
//! A plan is a shortest path: the sets of current places after a function are nodes, and the ways
//! to cross are edges. An edge takes time of the host and of links, and [`Aim`] weighs them.

mod aim;
mod baselines;
mod cost;
mod dearer;
mod frontier;
mod history;
mod leftover;
mod outlook;
mod problem;
mod search;
mod state;
#[cfg(test)]
mod tests;

use warpline_packet::FieldSet;

pub use aim::{Aim, CopyTimes};
pub use cost::{FieldCosts, LinkCosts, Widths};
pub use dearer::Dearer;
pub use history::{Event, UncrossedField};
pub use leftover::Leftover;
pub use problem::{Misfit, PlanHops, PlannedFunction, Problem, RowBytes, Touch, WholeBytes};

/// By which rule a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The cheapest of all plans (`AdaptChain`), or the one that [`Problem::aim`] prefers to it.
    Adaptive,
    /// Each function takes its own cheapest way, without early copies for later functions
    /// (`AdaptChain` without global optimisation, section III-A 3).
    Local,
    /// Consecutive functions on a device share whole frames, which come back after the last of them
    /// (`Gaviss`).
    ShareAll,
    /// For each function, the fields that it reads are copied to the device and the fields that it
    /// wrote are copied back (`G-NET`).
    PerNf,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Adaptive, Self::Local, Self::ShareAll, Self::PerNf];

    /// Its name in chain files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Local => "local",
            Self::ShareAll => "share_all",
            Self::PerNf => "per_nf",
        }
    }

    /// The mode of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// How a copy's part of the frame crosses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Nothing does.
    #[default]
    Nothing,
    /// Fields, gathered one by one on one side and put in their places on the other.
    Fields,
    /// Fields, gathered. The kernel reads and writes them there, without a frame. Also the way to a
    /// device whose kernel needs no field of the frame.
    Direct,
    /// The whole frame, as it lies in its room.
    Frame,
}

impl Way {
    /// Its name in what people and programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Fields => "fields",
            Self::Direct => "direct",
            Self::Frame => "frame",
        }
    }
}

/// The crossings in one direction at one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Crossing {
    /// How its part of the frame does.
    pub way: Way,
    /// The fields: of the frame, and metadata, which cross with the launch's table. With
    /// [`Way::Frame`] they include all fields of the frame.
    pub fields: FieldSet,
    /// Bytes a packet, `row_bytes` among them.
    pub bytes: f64,
    /// Bytes a packet of the launch's table, whatever the way.
    pub row_bytes: f64,
}

/// The crossings for one function on a device with a memory of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanStep {
    /// The function's position in the chain.
    pub function: usize,
    /// Its device, as [`PlannedFunction::device`] names it.
    pub device: usize,
    /// From mirrors to the host before anything else: the fields that the host lacks of a frame
    /// that crosses whole.
    pub first_to_host: Crossing,
    /// To the device, before the kernel.
    pub to_device: Crossing,
    /// To the device besides, whole: packets that the previous function there flagged and whose
    /// frames changed on the host, so the mirror has the old ones. `bytes` is an average over all
    /// packets.
    pub missing: Crossing,
    /// To the host, after the kernel.
    pub to_host: Crossing,
    /// To the host besides, whole: flagged packets for which `after` needs fields that the host
    /// lacks. `fields` are those, `bytes` is an average over all packets.
    pub flagged: Crossing,
    /// Whether the device's mirror has the packet from here on.
    pub mirror_after: bool,
}

impl PlanStep {
    /// Bytes a packet that cross to the device.
    pub fn to_device_bytes(&self) -> f64 {
        self.to_device.bytes + self.missing.bytes
    }

    /// Bytes a packet that cross to the host.
    pub fn to_host_bytes(&self) -> f64 {
        self.first_to_host.bytes + self.to_host.bytes + self.flagged.bytes
    }
}

/// A plan for a chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In the order of the chain.
    pub steps: Vec<PlanStep>,
    /// Its cost, in ns per packet.
    pub cost_ns: f64,
}

impl Plan {
    /// Bytes a packet that cross to devices.
    pub fn to_device_bytes(&self) -> f64 {
        // A sum of nothing is -0.
        self.steps.iter().map(PlanStep::to_device_bytes).sum::<f64>() + 0.0
    }

    /// Bytes a packet that cross to the host.
    pub fn to_host_bytes(&self) -> f64 {
        self.steps.iter().map(PlanStep::to_host_bytes).sum::<f64>() + 0.0
    }

    /// Bytes a packet that cross, in both directions.
    pub fn bytes(&self) -> f64 {
        self.to_device_bytes() + self.to_host_bytes()
    }

    /// The cost of bytes on links, in ns per packet. The rest is gathering, putting in place and
    /// waiting.
    pub fn link_ns(&self, problem: &Problem) -> f64 {
        let of = |step: &PlanStep| {
            problem.links[step.device].link_ns(step.to_device_bytes(), step.to_host_bytes())
        };
        self.steps.iter().map(of).sum()
    }

    /// The step of function `position`, where it has one.
    pub fn step(&self, position: usize) -> Option<&PlanStep> {
        self.steps.iter().find(|step| step.function == position)
    }
}

impl Problem {
    /// The plan of a mode.
    ///
    /// # Errors
    /// A function is on a device whose link is not known.
    pub fn plan(&self, mode: Mode) -> Result<Plan, Misfit> {
        self.check()?;
        Ok(match mode {
            Mode::Adaptive => search::adaptive(self),
            Mode::Local => baselines::local(self),
            Mode::ShareAll => baselines::share_all(self),
            Mode::PerNf => baselines::per_nf(self),
        })
    }
}
