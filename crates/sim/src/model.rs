//! The input of a simulation: chains, their stages, and the resources that they share.

mod check;

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, PauseMode, Policy, Sharing};

use crate::batch_cost::BatchCost;
use crate::traffic::Traffic;

/// A time in picoseconds: for a launch, for each of its packets, and for each of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// For a launch, or a batch on the CPU.
    pub launch_ps: f64,
    /// For each packet.
    pub packet_ps: f64,
    /// For each byte of frames.
    pub byte_ps: f64,
}

impl Cost {
    /// None.
    pub const NONE: Self = Self { launch_ps: 0.0, packet_ps: 0.0, byte_ps: 0.0 };

    /// So many nanoseconds for each packet.
    pub fn of_packet(packet_ns: f64) -> Self {
        Self { packet_ps: packet_ns * 1e3, ..Self::NONE }
    }

    /// Nanoseconds for so many packets.
    pub(crate) fn ns(&self, packets: u64, bytes: u64) -> u64 {
        (self.ps(packets, bytes) / 1e3).round() as u64
    }

    /// The same in picoseconds.
    pub(crate) fn ps(&self, packets: u64, bytes: u64) -> f64 {
        let Self { launch_ps, packet_ps, byte_ps } = *self;
        launch_ps + packet_ps * packets as f64 + byte_ps * bytes as f64
    }

    pub(crate) fn is_sound(&self) -> bool {
        [self.launch_ps, self.packet_ps, self.byte_ps].iter().all(|one| COST_PS.contains(one))
    }
}

/// Bounds of a cost: up to 1000 seconds.
const COST_PS: std::ops::RangeInclusive<f64> = 0.0..=1e15;

/// Bytes that cross to a device or back: for each packet, and for each byte of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Crossing {
    /// For each packet.
    pub packet: f64,
    /// For each byte.
    pub byte: f64,
    /// Copies that carry them.
    pub copies: u32,
}

impl Crossing {
    /// Nothing crosses.
    pub const NONE: Self = Self { packet: 0.0, byte: 0.0, copies: 0 };
    /// Whole frames in one copy.
    pub const FRAMES: Self = Self { packet: 0.0, byte: 1.0, copies: 1 };

    /// So many bytes of each packet in one copy.
    pub fn of_packet(bytes: f64) -> Self {
        let copies = u32::from(bytes > 0.0);
        Self { packet: bytes, byte: 0.0, copies }
    }

    pub(crate) fn bytes(&self, packets: u64, bytes: u64) -> u64 {
        (self.packet * packets as f64 + self.byte * bytes as f64).round() as u64
    }

    fn is_sound(&self) -> bool {
        let range = 0.0..=1e9;
        range.contains(&self.packet) && range.contains(&self.byte)
    }
}

/// Where a stage works.
#[derive(Clone, Debug, PartialEq)]
pub enum StageSite {
    /// On a lane of the CPU.
    Cpu {
        /// An index of [`Scenario::lanes`].
        lane: usize,
        /// For a batch.
        cost: BatchCost,
        /// Whether times are exponential with this mean.
        is_exponential: bool,
    },
    /// On a device, in launches.
    Device(DeviceWork),
}

impl StageSite {
    pub(crate) fn lane(&self) -> usize {
        match self {
            Self::Cpu { lane, .. } => *lane,
            Self::Device(work) => work.lane,
        }
    }
}

/// The work of a stage on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceWork {
    /// An index of [`Scenario::devices`].
    pub device: usize,
    /// The tenant that it is there.
    pub tenant: usize,
    /// How launches are made.
    pub limits: LaunchLimits,
    /// Whether the arrival times that limits count from are those at this stage. In the engine
    /// those of the first stage are the times at which packets were read.
    pub counts_from_stage: bool,
    /// The lane that does `before` and `after`.
    pub lane: usize,
    /// Before a launch, for each batch.
    pub before: Cost,
    /// Bytes to the device.
    pub to_device: Crossing,
    /// Time of the kernel if it has the whole device.
    pub kernel: BatchCost,
    /// Additional time until the kernel is done, in which others may run.
    pub latency_ns: u64,
    /// Bytes to the host.
    pub to_host: Crossing,
    /// After a launch.
    pub after: Cost,
}

/// The work of a thread besides those of lanes, for a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadWork {
    /// An index of [`Scenario::threads`].
    pub thread: usize,
    /// For a batch.
    pub cost: Cost,
    /// Additional time after a batch if the thread rested before it.
    pub wake_ns: u64,
    /// Of a reader that has not rested for long.
    pub busy: Option<BusyReader>,
}

/// Costs while a reader never rests. Packets are then in other caches, and cores at another speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusyReader {
    /// So long after its last rest.
    pub after_ns: u64,
    /// Of reading.
    pub cost: Cost,
    /// The factor by which the lane after it takes longer.
    pub lane_factor: f64,
}

/// A stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageModel {
    /// Its name.
    pub name: String,
    /// The share of packets that it works on; routes lead others past it.
    pub share: f64,
    /// Packets of a launch, as its queue counts them.
    pub launch_packets: u64,
    /// Where it works.
    pub place: StageSite,
}

/// A chain. Several chains that share a device are tenants.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainModel {
    /// Its name.
    pub name: String,
    /// Its input.
    pub traffic: Traffic,
    /// Packets of a batch, at most.
    pub batch_packets: u64,
    /// How long the first packet of a batch waits for others.
    pub batch_delay_ns: u64,
    /// In order.
    pub stages: Vec<StageModel>,
    /// Whether queues pause the stages before them.
    pub pressure: PauseMode,
    /// Thousandths of a launch that a queue holds.
    pub queue: u32,
    /// Whether a full queue drops even if queues pause stages, as between machines.
    pub full_drops: bool,
    /// Nanoseconds until a pause or its end arrives.
    pub signal_ns: u64,
    /// Whether the source waits while it is paused or the first queue is full. Others lose packets.
    pub source_waits: bool,
    /// Packets that wait before such a source, as in the ring of a port; those beyond are lost.
    /// Without a ring none is lost before the source.
    pub ring: Option<u64>,
    /// The thread that reads, with its time for a batch. Without one reading takes no time.
    pub reader: Option<ThreadWork>,
    /// The same for sending.
    pub sender: Option<ThreadWork>,
    /// The share of packets that are dropped after the last stage, as they have no route.
    pub unrouted: f64,
}

/// How tenants share the kernels of a device.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceSharing {
    /// Kernels run one after the other in the order in which they were submitted.
    InOrder,
    /// The device's own time slices, which preempt kernels.
    Slices {
        /// [`Policy::RateProportional`] is no policy of devices.
        policy: Policy,
        /// Nanoseconds of a slice.
        slice_ns: u64,
        /// Time lost when the tenant changes.
        switch_ns: u64,
        /// Slots of the device, with and without a tenant.
        slots: usize,
    },
    /// Warpline's arbiter grants launches, and preempts none. Each tenant has this many slots.
    Arbiter(Sharing, Vec<usize>),
    /// Instances with cores and copies of their own (MIG): sevenths of the device by tenant.
    Instances(Vec<u32>),
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkModel {
    /// Picoseconds for a byte.
    pub byte_ps: f64,
    /// Nanoseconds for each copy, whatever its size.
    pub copy_ns: f64,
    /// Copies of one direction at a time.
    pub engines: usize,
}

impl LinkModel {
    /// So many bytes a second.
    pub fn of_rate(bytes_per_s: f64, copy_ns: f64) -> Self {
        Self { byte_ps: 1e12 / bytes_per_s, copy_ns, engines: 1 }
    }

    pub(crate) fn ns(&self, bytes: u64, copies: u32) -> u64 {
        (self.byte_ps * bytes as f64 / 1e3 + self.copy_ns * f64::from(copies)).round() as u64
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceModel {
    /// Its name.
    pub name: String,
    /// How its tenants share it.
    pub sharing: DeviceSharing,
    /// Tenants, present from start to end.
    pub tenants: usize,
    /// To the device; `None` shares the host's memory.
    pub to_device: Option<LinkModel>,
    /// To the host.
    pub to_host: Option<LinkModel>,
    /// Its power.
    pub power: Power,
    /// Whether its kernels run on the cores, by a thread of its own. They then run in order.
    pub is_on_cores: bool,
}

/// Everything that a simulation needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The chains.
    pub chains: Vec<ChainModel>,
    /// Their devices.
    pub devices: Vec<DeviceModel>,
    /// Lanes of the CPU. Each does one thing at a time.
    pub lanes: usize,
    /// Threads that read and send.
    pub threads: usize,
    /// Cores that lanes, these threads and kernels on the CPU share; `None` gives each its own.
    pub cores: Option<u64>,
    /// By device on such cores, the threads that divide a kernel's time; one unless given.
    pub device_threads: Vec<usize>,
    /// The same of a lane on such cores.
    pub lane_wake_ns: u64,
    /// How late threads wake by a timer, one of these at random. Readers and lanes then rest as
    /// those of the engine do. Lanes notice deadlines late, and launches that are done when they
    /// look: at their next work, or every [`LOOK_NS`](warpline_sched::LOOK_NS). An empty list means
    /// that all is noticed at once.
    pub timer_late_ns: Vec<u64>,
    /// How late a thread that rests begins if another wakes it.
    pub wake_late_ns: u64,
    /// The time of a reader to wake its lane: a part of its time to wake and to rest again.
    pub ring_ns: u64,
    /// Power of the CPU.
    pub cpu_power: Power,
    /// Traffic comes until then.
    pub lasts_ns: u64,
    /// Rates are measured from here.
    pub warm_up_ns: u64,
    /// Whether they are measured until the last packet left, not until the traffic ends.
    pub measures_drain: bool,
    /// Of random numbers.
    pub seed: u64,
    /// The simulation ends after so many events at the latest.
    pub events_max: u64,
    /// Spans to keep for a trace; 0 keeps none.
    pub spans_max: usize,
}

/// Why a scenario cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(pub String);

impl std::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Events of a simulation, unless stated.
    pub const EVENTS_MAX: u64 = 50_000_000;
    /// The longest simulated time: an hour.
    pub const LASTS_NS_MAX: u64 = 3_600_000_000_000;

    /// Without chains and devices.
    pub fn new(lasts_ns: u64, seed: u64) -> Self {
        Self {
            chains: Vec::new(),
            devices: Vec::new(),
            lanes: 1,
            threads: 0,
            cores: None,
            device_threads: Vec::new(),
            lane_wake_ns: 0,
            timer_late_ns: Vec::new(),
            wake_late_ns: 0,
            ring_ns: 0,
            cpu_power: Power::default(),
            lasts_ns,
            warm_up_ns: lasts_ns / 10,
            measures_drain: false,
            seed,
            events_max: Self::EVENTS_MAX,
            spans_max: 0,
        }
    }

    /// Threads of a device whose kernels run on the cores.
    pub(crate) fn threads_of(&self, device: usize) -> usize {
        self.device_threads.get(device).copied().unwrap_or(1).max(1)
    }
}
