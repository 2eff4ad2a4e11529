//! Chains of functions with stated costs on one shared device, each with a stage of its own, under
//! a stated load: the setup of Simmer.

use std::sync::Arc;
use std::time::Duration;

use warpline_device::Device;
use warpline_engine::{
    Chain, Control, Deployment, Instance, LaunchOptions, OnDevice, Place, Ports, PressureOptions,
    Settings, SharedDevice, Site, StageCounts, Tenant, run,
};
use warpline_io::NullSink;
use warpline_sched::{Policy, Routes, Sharing};
use warpline_testkit::busy::{BUSY, Busy, BusyDevice, Costs};

use crate::memory::Frames;
use crate::offered::Offered;

/// A run of a chain.
#[derive(Clone)]
pub struct Case {
    /// Nanoseconds of each function for a packet.
    pub costs_ns: Vec<f64>,
    /// Routes between the functions.
    pub routes: Option<Arc<Routes>>,
    /// Bytes of each frame.
    pub frame_len: usize,
    /// Packets of a launch.
    pub launch_packets: usize,
    /// Packets a second.
    pub rate_pps: f64,
    /// How long they come.
    pub lasts: Duration,
    /// Pauses, or none.
    pub pressure: PressureOptions,
    /// How the device is shared: by slices of its own, which preempt, or by the arbiter and a
    /// policy.
    pub policy: Option<Policy>,
}

/// Packets and launches of a run.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Seconds from the first packet in to the last one out.
    pub seconds: f64,
    /// Packets offered.
    pub offered: u64,
    /// Packets that left the chain.
    pub sent: u64,
    /// Packets that each function processed.
    pub processed: Vec<u64>,
    /// Packets dropped before each function; those before the first include ingress.
    pub drops: Vec<u64>,
    /// By function.
    pub launches: Vec<u64>,
    /// Device time of each function, as a part of the whole.
    pub shares: Vec<f64>,
}

impl Counted {
    /// Packets a second that left the chain.
    pub fn sent_pps(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    /// Packets lost after some function had worked on them.
    pub fn drops_inside(&self) -> u64 {
        self.drops.iter().skip(1).sum()
    }
}

impl Case {
    /// Runs it.
    pub fn run(&self) -> Counted {
        let busy = BusyDevice::new();
        let count = self.costs_ns.len();
        let context = |&kernel_ns: &f64| busy.context(Costs { kernel_ns, ..Costs::default() });
        let mut seats: Vec<Arc<dyn Device>> = self.costs_ns.iter().map(context).collect();
        if let Some(policy) = self.policy {
            let tenant = |number| Tenant { name: format!("nf-{number}"), slots: 1, memory: None };
            let sharing = Sharing { policy, slots: count, ..Sharing::default() };
            let tenants = (1..=count).map(tenant).collect();
            let shared = SharedDevice::new("busy".into(), sharing, tenants).expect("tenants");
            let seat = |(number, device)| shared.seat(number, device);
            seats = seats.into_iter().enumerate().map(seat).collect();
        }
        let deployment = self.deploy(&seats);
        let frames =
            Frames::generate(&format!("packets=4096,size={},flows=1000,seed=7", self.frame_len));
        let source = Box::new(Offered::new(frames, self.rate_pps, self.lasts));
        let settings = Settings::default();
        // The queue before the first function has room for as many launches as the others.
        let packets = self.launch_packets * self.pressure.queue as usize / 1_000;
        let settings = Settings {
            lanes: 1,
            pressure: self.pressure,
            // Packets that a full queue drops keep their memory until their batch has passed it.
            slabs: 512,
            queue_batches: packets.div_ceil(settings.batch_packets).max(settings.queue_batches),
            ..settings
        };
        let ports = Ports::Shared(source, Box::new(NullSink));
        let report = run(&deployment, &settings, ports, &Control::default()).expect("a run");
        let part = report.part;
        assert!(part.packets.balanced(), "packets are unaccounted for");
        let in_chain: u64 = part.stages.iter().map(|stage: &StageCounts| stage.drops).sum();
        let mut drops: Vec<u64> = part.stages.iter().map(|stage| stage.drops).collect();
        drops[0] += part.packets.overload - in_chain;
        let busy_ns = busy.busy_ns();
        let all: u64 = busy_ns.iter().sum();
        let share = |&ns: &u64| ns as f64 / all.max(1) as f64;
        Counted {
            seconds: part.span_ns.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9),
            offered: part.packets.read,
            sent: part.functions.last().map_or(0, |last| last.packets_out),
            processed: part.functions.iter().map(|function| function.packets_in).collect(),
            drops,
            launches: part.stages.iter().map(|stage| stage.launches).collect(),
            shares: busy_ns.iter().map(share).collect(),
        }
    }

    fn deploy(&self, seats: &[Arc<dyn Device>]) -> Deployment {
        let instance = |number: usize| Instance {
            name: format!("nf-{}", number + 1),
            definition: &BUSY,
            function: Arc::new(Busy),
            fingerprint: 0,
            place: Place::Only,
        };
        let instances = (0..seats.len()).map(instance).collect();
        let mut chain = Chain::new("simmer", instances, 0).expect("a chain of few");
        if let Some(routes) = &self.routes {
            chain = chain.with_routes(Arc::clone(routes)).expect("a word for routes");
        }
        let launches = LaunchOptions {
            bytes: self.launch_packets * self.frame_len,
            ..LaunchOptions::default()
        };
        let site = |device: &Arc<dyn Device>| Site {
            on_device: Some(OnDevice { device: Arc::clone(device), launches, is_required: true }),
            own_stage: true,
            ..Site::default()
        };
        Deployment::new(Arc::new(chain), seats.iter().map(site).collect())
    }
}
