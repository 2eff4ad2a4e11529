//! The device of a stage, and how launches for it are made.

use std::sync::Arc;
use std::time::Duration;

use warpline_device::{Device, Failure, Stream};

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
    pub(crate) fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
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
