//! Functions on devices: loading, copying packets there and back, and launches in flight.
//!
//! A stage on a device takes batches through `before` on the CPU, collects them into launches and
//! gives each launch to a stream. Meanwhile the lane does other work. When the kernels are done,
//! the stage checks the tables they wrote and copies written frames back. It then takes the batches
//! through `after`, in the order in which launches were closed. The CPU does the work that kernels
//! left to it.
//!
//! Nothing on the host is written before all kernels of a launch are done. If anything fails before
//! that, the CPU does the work of the launch with the host's data. If copying frames back fails,
//! the packets of the launch are lost ([`DEVICE_LOST`]). After the first failure the lane does not
//! use the device again. Other lanes do.
//!
//! A device that shares the host's memory works on the packets themselves, without copies. If its
//! kernels write frames, a failure loses the packets of the launch. If they only read, the CPU does
//! the work. Packets that may still be read late are moved to other rooms first.

mod crossings;
mod demand;
mod executor;
mod failed_devices;
mod flying;
mod launch_buffers;
mod launch_target;
mod launches;
mod loaded;
mod mirror;
mod prediction;
mod stage_load;

use std::sync::Arc;
use std::time::Duration;

use warpline_device::{Device, Failure, Stream};
use warpline_packet::{REASONS_MAX, Reason};

pub(crate) use crossings::Crossings;
#[cfg(test)]
pub(crate) use crossings::RoomsThere;
pub use demand::{Demand, demands};
pub(crate) use failed_devices::FailedDevices;
pub(crate) use flying::{Finished, How};
pub(crate) use launch_buffers::Dimensions;
pub(crate) use launch_target::LaunchTarget;
pub(crate) use launches::Launches;
pub(crate) use loaded::{LaunchData, Loaded, can_follow, load};
pub(crate) use mirror::{Mirrors, lane_memory, reach};

/// Where a function runs that does not run on the CPU, and how its launches are made.
#[derive(Clone)]
pub struct OnDevice {
    /// The device.
    pub device: Arc<dyn Device>,
    /// How launches are made; of a segment those of its first function.
    pub launches: LaunchOptions,
    /// Whether the chain can't start if the device can't be used. Otherwise the function then runs
    /// on the CPU.
    pub is_required: bool,
}

impl OnDevice {
    /// A stream for launches.
    ///
    /// # Errors
    /// The device's; it may have no graphs.
    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        match self.launches.graphs {
            true => self.device.graph_stream(),
            false => self.device.stream(),
        }
    }
}

/// How launches are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchOptions {
    /// A launch is closed before it has more bytes of frames than this, unless a single batch does.
    pub bytes: usize,
    /// It is closed when its oldest packet has waited for so long.
    pub delay: Duration,
    /// Launches that may be under way at once, each on a stream of its own.
    pub streams: Streams,
    /// The lane waits for each launch: how systems without streams work.
    pub sync: bool,
    /// Whether each launch goes to the device as one graph, if the device has them
    /// ([`warpline_device::Description::has_graphs`]).
    pub graphs: bool,
    /// A launch that takes longer is given up, and the device with it.
    pub timeout: Duration,
    /// Lanes that use the device, from the first. The others do its work on the CPU.
    pub lanes: usize,
}

/// How many streams a stage has on each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// So many.
    Count(usize),
    /// As many as measuring finds best, up to [`Streams::MEASURED_MAX`].
    Measured,
}

impl Streams {
    /// The most streams that measuring tries: each has buffers of its own, and a device does not do
    /// more at once.
    pub const MEASURED_MAX: usize = 8;

    /// How many there are at most.
    pub const fn most(self) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Measured => Self::MEASURED_MAX,
        }
    }
}

impl Default for LaunchOptions {
    fn default() -> Self {
        Self {
            bytes: 1 << 20,
            delay: Duration::from_micros(100),
            streams: Streams::Count(4),
            sync: false,
            graphs: false,
            timeout: Duration::from_secs(2),
            lanes: usize::MAX,
        }
    }
}

/// The drop reason of packets whose only current copy was on a failed device. It is the last of the
/// reasons that a function may name; no function's list is as long.
pub const DEVICE_LOST: Reason = Reason(REASONS_MAX as u8 - 1);
/// Its name.
pub const DEVICE_LOST_NAME: &str = "device-lost";
