//! I4 under load: chains and graphs of stages on one device that is too slow, or fast enough, for
//! the packets that come. With backpressure nothing is lost after the first function. A source that
//! can wait loses nothing at all. Without backpressure, full queues drop, and the sums balance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use warpline_device::{
    Buffer, Description, Device, Failure, HostMemory, Module, Region, Source as Text, Stream,
};
use warpline_engine::{
    Chain, Control, Deployment, Instance, LaunchOptions, OnDevice, Place, PressureOptions,
    Settings, SharedDevice, Site, Streams, Tenant,
};
use warpline_io::{Next, Source, SourceError};
use warpline_packet::LinkType;
use warpline_sched::{PauseMode, Policy, Sharing, Watermarks};
use warpline_testkit::busy::{BUSY, Busy, BusyDevice, Costs};

use crate::common::frames::{Input, START_NANOS};
use crate::common::ports::{Frames, SentFrames};
use crate::common::random::config;
use crate::common::run::{Outcome, run_ports};
use crate::routed::routes;
use crate::same::PATIENCE;

const PACKETS: usize = 3_000;
const LEN: usize = 64;
/// Packets of a launch.
const LAUNCH: usize = 96;
/// Launches of a stage at once.
const STREAMS: u32 = 2;

/// Gives a packet at every so many nanoseconds, by the clock.
struct Paced {
    frames: Frames,
    gap_ns: u64,
    started: Option<Instant>,
}

impl Source for Paced {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let passed = self.started.get_or_insert_with(Instant::now).elapsed().as_nanos() as u64;
        if passed < self.frames.next as u64 * self.gap_ns {
            return Ok(Next::Idle(Duration::from_micros(20)));
        }
        self.frames.next()
    }

    fn drops_when_full(&self) -> bool {
        self.frames.drops_when_full
    }
}

/// Packets with a number each, to destinations in both halves of the addresses.
fn numbered() -> Vec<Input> {
    let frame = |number: usize| {
        let mut bytes = vec![0; LEN];
        bytes[12..14].copy_from_slice(&[8, 0]);
        bytes[14] = 0x45;
        bytes[16..18].copy_from_slice(&(LEN as u16 - 14).to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 253]);
        bytes[26..30].copy_from_slice(&[10, 0, 0, 1]);
        let third = number % 3;
        bytes[30..34].copy_from_slice(&[[10, 1, 1, 1], [172, 16, 0, 1], [198, 51, 100, 7]][third]);
        bytes[34..42].copy_from_slice(&(number as u64).to_be_bytes());
        let nanos = START_NANOS + number as u64 * 1_000;
        Input { bytes, nanos, wire_len: LEN as u32, link: LinkType::ETHERNET, interface: 0 }
    };
    (0..PACKETS).map(frame).collect()
}

/// The numbers of the packets that were sent.
fn numbers(outcome: &Outcome) -> Vec<u64> {
    let number = |bytes: &[u8]| bytes[34..42].try_into().map_or(u64::MAX, u64::from_be_bytes);
    outcome.sent.iter().map(|sent| number(&sent.bytes)).collect()
}

#[derive(Clone, Debug)]
struct Case {
    /// Microseconds of each function for a packet.
    costs_us: Vec<u32>,
    draws: Option<Vec<(usize, usize, usize)>>,
    /// Load as a part of the device's capacity, in percent.
    load: u32,
    can_wait: bool,
    pressure: PressureOptions,
    policy: Option<Policy>,
    /// Lanes, and packets of a batch.
    shape: (usize, usize),
}

/// A device that counts the packets that come for it.
struct Counted {
    inner: Arc<dyn Device>,
    announced: Arc<AtomicU64>,
}

impl Device for Counted {
    fn description(&self) -> &Description {
        self.inner.description()
    }
    fn compile(&self, source: &Text) -> Result<Module, Failure> {
        self.inner.compile(source)
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.inner.allocate(bytes)
    }
    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        self.inner.register(memory)
    }
    fn shared_memory(&self, bytes: usize) -> Option<Arc<dyn HostMemory>> {
        self.inner.shared_memory(bytes)
    }
    fn announce(&self, items: u64) {
        self.announced.fetch_add(items, Ordering::Relaxed);
    }
    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.inner.stream()
    }
    fn graph_stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.inner.graph_stream()
    }
}

fn device_of(case: &Case) -> Vec<Arc<dyn Device>> {
    let busy = BusyDevice::new();
    let cost = |&us: &u32| Costs { kernel_ns: f64::from(us) * 1e3, ..Costs::default() };
    let contexts = case.costs_us.iter().map(|us| busy.context(cost(us)));
    let Some(policy) = case.policy else { return contexts.collect() };
    let tenant = |number: usize| Tenant { name: number.to_string(), slots: 1, memory: None };
    let sharing = Sharing { policy, slice_ns: 1_000_000, ..Sharing::default() };
    let tenants = (0..case.costs_us.len()).map(tenant).collect();
    let shared = SharedDevice::new("busy".into(), sharing, tenants).expect("tenants");
    contexts.enumerate().map(|(number, device)| shared.seat(number, device)).collect()
}

fn deploy(case: &Case) -> Option<Deployment> {
    let instance = |number: usize| Instance {
        name: format!("busy-{number}"),
        definition: &BUSY,
        function: Arc::new(Busy),
        fingerprint: 0,
        place: Place::Only,
    };
    let count = case.costs_us.len();
    let mut chain = Chain::new("load", (0..count).map(instance).collect(), 0).expect("a chain");
    if let Some(draws) = &case.draws {
        chain = chain.with_routes(routes(count, draws)?).expect("a word for routes");
    }
    let launches = LaunchOptions {
        bytes: LAUNCH * LEN,
        delay: Duration::from_micros(200),
        streams: Streams::Count(STREAMS as usize),
        timeout: PATIENCE,
        ..LaunchOptions::default()
    };
    let site = |device: Arc<dyn Device>| Site {
        on_device: Some(OnDevice { device, launches, is_required: true }),
        own_stage: true,
        ..Site::default()
    };
    let sites = device_of(case).into_iter().map(site).collect();
    Some(Deployment::new(Arc::new(chain), sites))
}

/// Runs a case; returns the messages for an operator, too.
fn run_case(case: &Case) -> Option<(Outcome, Vec<String>)> {
    Some(run_deployed(case, deploy(case)?))
}

fn run_deployed(case: &Case, deployment: Deployment) -> (Outcome, Vec<String>) {
    let sum_us: u32 = case.costs_us.iter().sum();
    let gap_ns = u64::from(sum_us) * 1_000 * 100 / u64::from(case.load);
    let frames = Frames { drops_when_full: !case.can_wait, ..Frames::new(&numbered()) };
    let source = Paced { frames, gap_ns, started: None };
    let (lanes, batch_packets) = case.shape;
    let settings =
        Settings { lanes, batch_packets, slabs: 2, pressure: case.pressure, ..Settings::default() };
    let control = Arc::new(Control::default());
    let outcome =
        run_ports(deployment, settings, source, SentFrames::default(), Arc::clone(&control));
    (outcome, control.take_messages())
}

/// Three functions. The second is slow.
fn slow_middle() -> Case {
    Case {
        costs_us: vec![10, 300, 10],
        draws: None,
        load: 200,
        can_wait: false,
        pressure: PressureOptions::default(),
        policy: None,
        shape: (1, 64),
    }
}

/// A tenant's demand is what comes, not what its pauses let through.
#[test]
fn arrivals_count_before_pauses_and_drops() {
    let drops = PressureOptions { mode: PauseMode::Off, ..PressureOptions::default() };
    for pressure in [PressureOptions::default(), drops] {
        let case = Case { pressure, load: 400, ..slow_middle() };
        let deployment = deploy(&case).expect("a chain without routes");
        let counts: Vec<Arc<AtomicU64>> = case.costs_us.iter().map(|_| Arc::default()).collect();
        let counted = |(site, announced): (&Site, &Arc<AtomicU64>)| {
            let on = site.on_device.clone().map(|on| {
                let announced = Arc::clone(announced);
                OnDevice { device: Arc::new(Counted { inner: on.device, announced }), ..on }
            });
            Site { on_device: on, ..site.clone() }
        };
        let sites = deployment.sites().iter().zip(&counts).map(counted).collect();
        let (outcome, _) = run_deployed(&case, deployment.on_sites(sites));
        let part = &outcome.report.part;
        let lost = part.packets.overload;
        assert!(lost > 500, "{lost}");
        let counts: Vec<u64> = counts.iter().map(|one| one.load(Ordering::Relaxed)).collect();
        let has_all = |count: u64| count.abs_diff(PACKETS as u64) <= PACKETS as u64 / 30;
        assert!(has_all(counts[0]) && has_all(counts[1]), "{counts:?} {lost}");
        // Packets that the full queue of the slow stage dropped do not come to the next one.
        match pressure.is_off() {
            true => assert!(counts[2] < counts[1], "{counts:?} {lost}"),
            false => assert!(has_all(counts[2]), "{counts:?} {lost}"),
        }
    }
}

/// A source that loses packets is an event, which names a stage.
#[test]
fn a_source_that_loses_packets_is_reported() {
    let marks = Watermarks::checked(1_500, 1_000, 6_000).expect("marks");
    let pressure = PressureOptions { mode: PauseMode::On(marks), queue: 6_000, downstream: 0 };
    // The report comes 300 ms after the first loss, and the input lasts 1,380 ms.
    let case = |costs_us: [u32; 3], can_wait| {
        let costs_us = costs_us.to_vec();
        Case { costs_us, load: 200, can_wait, pressure, policy: None, ..slow_middle() }
    };
    let is_loss = |reported: &String| {
        reported.starts_with("the input lost ") && reported.contains(", waiting for \"busy-")
    };
    // A slow device at the end is not the output.
    for costs_us in [[10, 900, 10], [10, 10, 900]] {
        let (outcome, messages) = run_case(&case(costs_us, false)).expect("a run");
        assert!(outcome.report.part.packets.overload > 0);
        assert!(messages.iter().any(is_loss), "{messages:?}");
    }
    assert_eq!(run_case(&case([10, 900, 10], true)).expect("a run").1, Vec::<String>::new());
}

fn cases() -> impl Strategy<Value = Case> {
    let marks = (10u32..50).prop_flat_map(|high| (Just(high), 1..=high));
    let on = marks.prop_map(|(high, low)| {
        let marks = Watermarks::checked(i64::from(high) * 100, i64::from(low) * 100, 6_000);
        PauseMode::On(marks.expect("marks"))
    });
    let mode = prop_oneof![3 => on, 1 => Just(PauseMode::Off)];
    (
        prop::collection::vec(1u32..12, 1..5),
        prop::option::of(prop::collection::vec((0usize..6, 0usize..6, 0usize..6), 1..6)),
        50u32..400,
        any::<bool>(),
        mode,
        prop::option::of(prop::sample::select(&Policy::ALL[..])),
        (1usize..3, 8usize..128),
    )
        .prop_map(|(costs_us, draws, load, can_wait, mode, policy, shape)| {
            let pressure = PressureOptions { mode, queue: 6_000, downstream: 0 };
            Case { costs_us, draws, load, can_wait, pressure, policy, shape }
        })
}

proptest! {
    #![proptest_config(config(16, 8))]

    #[test]
    fn nothing_is_lost_after_the_first_function(case in cases()) {
        let Some((outcome, _)) = run_case(&case) else { return Ok(()) };
        let part = &outcome.report.part;
        let inside: u64 = part.stages.iter().map(|stage| stage.drops).sum();
        let at_ingress = part.packets.overload - inside;
        prop_assert!(part.warnings.iter().all(|reported| !reported.contains("fell \
            back")), "{case:?}");
        if !case.pressure.is_off() {
            prop_assert_eq!(inside, 0, "{:?}: {:?}", case, part.stages);
        }
        if case.can_wait {
            prop_assert_eq!(at_ingress, 0, "{:?}", case);
        }
        // Routes may end without a way for some.
        let lost = inside + at_ingress + part.unrouted;
        prop_assert_eq!(outcome.sent.len() as u64 + lost, PACKETS as u64, "{:?}", case);
        let numbers = numbers(&outcome);
        prop_assert!(numbers.is_sorted(), "{:?}: the order of packets", case);
        // A queue holds no more than its mark, what a paused stage has in launches, and a batch
        // each way.
        if let (PauseMode::On(marks), Some(evidence)) = (case.pressure.mode, &part.pressure) {
            let batch = (case.shape.1 * 1_000).div_ceil(LAUNCH) as u32;
            let most = marks.high() + (STREAMS + 2) * 1_000 + 2 * batch;
            for edge in evidence.edges.iter().skip(1) {
                prop_assert!(edge.peak <= most, "{:?}: {:?}, {}", case, edge, most);
            }
        }
    }
}
