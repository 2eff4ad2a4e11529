//! Chains of one function with stated costs, one for each tenant of a device, with as many packets
//! as they take: the setup of the vGPU study.

use std::sync::Arc;
use std::time::Duration;

use warpline_device::Device;
use warpline_engine::{
    Background, Chain, Deployment, Instance, LaunchOptions, Machine, Member, OnDevice, Place,
    Ports, Settings, SharedDevice, Site, Streams, Tenant,
};
use warpline_io::NullSink;
use warpline_nf::Outputs;
use warpline_sched::{Policy, Sharing};
use warpline_testkit::busy::{BUSY, Busy, BusyDevice, Costs};

use crate::memory::{Frames, MemorySource};

/// A run of some tenants beside each other.
#[derive(Clone, Copy)]
pub struct Tenants {
    /// Costs of the function.
    pub costs: Costs,
    /// Bytes of each frame.
    pub frame_len: usize,
    /// Packets of a launch.
    pub launch_packets: usize,
    /// Tenants with a chain.
    pub chains: usize,
    /// Tenants with synthetic work instead.
    pub background: usize,
    /// Nanoseconds of a launch of theirs.
    pub background_ns: f64,
    /// Slots of the device.
    pub slots: usize,
    /// Streams of each chain.
    pub streams: usize,
    /// The policy; none leaves the device to its own slices.
    pub policy: Option<Policy>,
    /// How long they run.
    pub lasts: Duration,
}

impl Tenants {
    /// Packets a second of all chains together.
    pub fn run(&self) -> f64 {
        let busy = BusyDevice::new();
        let work = Costs { kernel_ns: self.background_ns, ..Costs::default() };
        let costs = (0..self.chains + self.background)
            .map(|number| if number < self.chains { self.costs } else { work });
        let mut seats: Vec<Arc<dyn Device>> = costs.map(|costs| busy.context(costs)).collect();
        if let Some(policy) = self.policy {
            let tenant = |number| Tenant { name: format!("vm-{number}"), slots: 1, memory: None };
            let tenants = (1..=seats.len()).map(tenant).collect();
            let sharing = Sharing { policy, slots: self.slots, ..Sharing::default() };
            let shared = SharedDevice::new("busy".into(), sharing, tenants).expect("tenants");
            let seat = |(number, device)| shared.seat(number, device);
            seats = seats.into_iter().enumerate().map(seat).collect();
        }
        let background = seats.split_off(self.chains);
        let background: Vec<Background> = background
            .into_iter()
            .map(|device| Background::start(device).expect("background work"))
            .collect();
        let frames = format!("packets=4096,size={},flows=1000,seed=7", self.frame_len);
        let frames = Arc::new(Frames::generate(&frames));
        let member = |device| {
            let source = Box::new(MemorySource::new(Arc::clone(&frames), u64::MAX));
            let ports = Ports::PerLane(vec![(source, Box::new(NullSink))]);
            let settings = Settings { lanes: 1, ..Settings::default() };
            Member::new(Arc::new(self.deploy(device)), settings, ports)
        };
        let members = seats.iter().map(member).collect();
        let machine = Machine::new(members, Outputs::default(), background);
        let reports = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(self.lasts);
                machine.stop();
            });
            machine.run()
        });
        let rate = |report: Result<warpline_engine::Report, _>| {
            let part = report.unwrap_or_else(|why| panic!("{why}")).part;
            let seconds = part.span_ns.map_or(1.0, |(first, last)| (last - first) as f64 / 1e9);
            part.functions[0].packets_out as f64 / seconds
        };
        reports.into_iter().map(rate).sum()
    }

    fn deploy(&self, device: &Arc<dyn Device>) -> Deployment {
        let function = Instance {
            name: "nf".into(),
            definition: &BUSY,
            function: Arc::new(Busy),
            fingerprint: 0,
            place: Place::Only,
        };
        let chain = Chain::new("vm", vec![function], 0).expect("a chain of one");
        let launches = LaunchOptions {
            bytes: self.launch_packets * self.frame_len,
            streams: Streams::Count(self.streams),
            ..LaunchOptions::default()
        };
        let on = OnDevice { device: Arc::clone(device), launches, is_required: true };
        Deployment::new(Arc::new(chain), vec![Site { on_device: Some(on), ..Site::default() }])
    }
}
