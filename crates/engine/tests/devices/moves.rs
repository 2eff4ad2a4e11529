//! Functions move between devices while packets flow: no packet is lost, doubled or reordered, and
//! each function continues with its state.

use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant as Clock};

use proptest::prelude::*;
use warpline_device::faulty::{Fault, Faulty};
use warpline_device::{Device, Failure, Work, apart};
use warpline_engine::{
    Control, Deployment, Instance, LaunchOptions, OnDevice, PlanOptions, Ports, Settings, Site,
    Streams, run,
};
use warpline_io::{Frame, Live, Next, Sink, SinkError, Source, SourceError};
use warpline_packet::Instant;
use warpline_sched::Mode;

use crate::common::forms::{FORMS, Form, NARROW};
use crate::common::frames::{Input, Traffic};
use crate::common::moving::{Moves, Moving, run_moving};
use crate::common::ports::Frames;
use crate::common::random::config;
use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{assert_same, in_time, reported};
use crate::common::talk::Talk;
use crate::failures::launches as launches_of_one;
use crate::placed::{devices, devices_of_case, host};
use crate::same::{PATIENCE, SMALL, device_lanes};
use crate::two_places::{check_lost, steady};

fn launches() -> LaunchOptions {
    LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() }
}

/// Sites of the functions of `deployment`, of which `device` has those with kernels; or the CPU.
fn sites(
    deployment: &Deployment,
    launches: LaunchOptions,
    device: impl Fn(usize) -> Option<Arc<dyn Device>>,
) -> Vec<Site> {
    let site = |(at, one): (usize, &Instance)| {
        let device = device(at).filter(|_| one.function.kernels().is_some());
        let on = |device| OnDevice { device, launches, is_required: true };
        Site { on_device: device.map(on), ..Site::default() }
    };
    deployment.chain().instances.iter().enumerate().map(site).collect()
}

/// Prints how long lanes took no packets, which no test may depend on.
#[allow(clippy::print_stderr, reason = "a measurement")]
fn print_stall(what: &str, outcome: &crate::common::run::Outcome) {
    let stall = Duration::from_nanos(outcome.report.part.moves.stall_ns_max);
    eprintln!("{what}: a lane stalled {stall:?} at most");
}

#[test]
fn a_chain_that_moves_over_all_devices_and_back_is_the_same() {
    let forms = forms(&["nat", "digest-count", "firewall", "router"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 1400).take(2000), 73, 15);
    let reference = run_forms(&forms, Settings::default(), &inputs);
    let deployment = || try_deploy_on(&forms, &[], |_| None).expect("a chain");
    let all: Vec<_> = devices().into_iter().map(Some).collect();
    // Each device after the CPU and before another device.
    let all: Vec<_> = all.iter().cloned().chain([None]).chain(all.iter().cloned().rev()).collect();
    for (lanes, follows_versions) in [(1, false), (2, true)] {
        let own = deployment();
        let every = inputs.len() / (all.len() + 1);
        let moves: Moves = (1..)
            .zip(&all)
            .map(|(number, device)| (number * every, sites(&own, launches(), |_| device.clone())))
            .collect();
        let (count, settings) =
            (moves.len() as u64, Settings { lanes, slabs: 6, ..Settings::default() });
        let settings = Settings { follows_versions, ..settings };
        let (outcome, refused) = run_moving(own, settings, &inputs, moves);
        let (part, what) = (&outcome.report.part, format!("{lanes} lanes"));
        assert!(
            refused.is_empty() && reported(&outcome).is_empty(),
            "{refused:?} {:?}",
            reported(&outcome)
        );
        assert_eq!(part.moves.count, count, "{what}");
        assert!(part.transfers.launches > 0 || all.len() == 1, "{what}");
        assert!(part.versions.stale.is_none(), "{what}: {:?}", part.versions.stale);
        assert_same(&reference.summary(), &outcome.summary(), &what);
        print_stall(&what, &outcome);
    }
}

/// A lane that moves closes its open launches. It waits for no deadline, here of an hour, and for
/// no more packets, which come only after the move.
#[test]
fn a_lane_that_moves_waits_for_no_open_launch() {
    let forms = forms(&["nat", "digest-count", "firewall", "router"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 700).take(800), 73, 15);
    let reference = run_forms(&forms, Settings::default(), &inputs);
    let hour = Duration::from_secs(3600);
    let launches = LaunchOptions { bytes: 1 << 20, delay: hour, ..launches() };
    for device in host().into_iter().chain(host().as_ref().map(apart)) {
        let own = try_deploy_on(&forms, &[], |_| None).expect("a chain");
        let on =
            |is_there| sites(&own, launches, |_| Some(Arc::clone(&device)).filter(|_| is_there));
        let every = inputs.len() / 6;
        let moves: Moves = (1..=5).map(|at| (at * every, on(at % 2 == 1))).collect();
        let settings = Settings { lanes: 2, slabs: 8, ..Settings::default() };
        let (outcome, refused) = run_moving(own, settings, &inputs, moves);
        assert!(refused.is_empty(), "{refused:?}");
        let part = &outcome.report.part;
        assert!(part.moves.count == 5 && part.transfers.launches > 0, "{:?}", part.moves);
        assert_same(&reference.summary(), &outcome.summary(), "launches that never fill");
    }
}

/// A gateway's functions, traffic and dimensions for moves on a device that misbehaves.
fn gateway_in_motion() -> (Vec<Form>, Vec<Input>, Settings) {
    let names = ["nat:1", "firewall", "router", "nat:2"];
    let forms: Vec<Form> = forms(&names).into_iter().map(steady).collect();
    let inputs = traffic(&forms, Talk::new(71, 60, 1400).take(600), 73, 15);
    let settings = Settings { lanes: 2, batch_packets: 64, slabs: 6, ..Settings::default() };
    (forms, inputs, settings)
}

/// A device that fails before, during or after moves. The CPU continues, and packets that the
/// device alone had are lost and counted. A move to a device that failed is refused.
#[test]
fn a_device_that_fails_while_functions_move_loses_what_it_had() {
    let (forms, inputs, settings) = gateway_in_motion();
    let reference = run_forms(&forms, settings, &inputs);
    let hosts = host().into_iter().chain(host().as_ref().map(apart));
    let (mut runs, mut failed, mut refusals) = (0, 0, 0);
    for (device, first) in hosts.flat_map(|one| [5, 22, 35, 48, 60].map(|at| (one.clone(), at))) {
        for fault in [Fault::Fail(Failure::Lost("it fell off the bus".into())), Fault::Hang] {
            let what = format!("{} from {first} on, {fault:?}", device.description().id);
            // Nothing waits long for a device that hangs while it loads.
            let hangs = fault == Fault::Hang;
            let script = move |number, work: &Work| {
                (number >= first && (work.items > 0 || !hangs)).then(|| fault.clone())
            };
            let faulty: Arc<dyn Device> = Arc::new(Faulty::by_work(Arc::clone(&device), script));
            let mut deployment = try_deploy_on(&forms, &[], |_| None).expect("a chain");
            deployment.set_plan(PlanOptions { mode: Mode::ShareAll, ..PlanOptions::default() });
            let on = |places: &'static [usize]| {
                let device = |at| places.contains(&at).then(|| Arc::clone(&faulty));
                sites(&deployment, launches_of_one(), device)
            };
            let every = inputs.len() / 7;
            let all = [on(&[0, 3]), on(&[]), on(&[2]), on(&[0, 2]), on(&[])];
            let moves: Moves = (1..).zip(all).map(|(at, to)| (at * every, to)).collect();
            let (outcome, refused) = run_moving(deployment, settings, &inputs, moves);
            check_lost(&reference, &outcome, &what);
            let part = &outcome.report.part;
            assert_eq!(part.moves.count + refused.len() as u64, 5, "{what}: {refused:?}");
            (runs, failed) = (runs + 1, failed + u64::from(!reported(&outcome).is_empty()));
            refusals += refused.len();
        }
    }
    assert!(runs == 0 || failed > 3 && refusals > 3, "{failed} and {refusals} of {runs}");
}

/// A device that becomes ten times slower before, during or after moves. They complete, and no
/// packet is lost, doubled or reordered.
#[test]
fn a_device_that_slows_tenfold_while_functions_move_loses_nothing() {
    let (forms, inputs, settings) = gateway_in_motion();
    let reference = run_forms(&forms, settings, &inputs);
    let hosts = host().into_iter().chain(host().as_ref().map(apart));
    for (device, first) in hosts.flat_map(|one| [3, 12, 20, 30].map(|at| (one.clone(), at))) {
        let what = format!("{}, slow from work {first} on", device.description().id);
        let delay = move |number| Duration::from_micros(if number < first { 200 } else { 2000 });
        let script =
            move |number, work: &Work| (work.items > 0).then(|| Fault::Slow(delay(number)));
        let slow: Arc<dyn Device> = Arc::new(Faulty::by_work(device, script));
        let deployment = try_deploy_on(&forms, &[], |_| None).expect("a chain");
        let on = |places: &'static [usize]| {
            let device = |at| places.contains(&at).then(|| Arc::clone(&slow));
            sites(&deployment, launches(), device)
        };
        let every = inputs.len() / 5;
        let all = [on(&[0, 1, 2, 3]), on(&[]), on(&[1, 2]), on(&[])];
        let moves: Moves = (1..).zip(all).map(|(at, to)| (at * every, to)).collect();
        let (outcome, refused) = run_moving(deployment, settings, &inputs, moves);
        let part = &outcome.report.part;
        assert!(refused.is_empty() && reported(&outcome).is_empty(), "{what}: {refused:?}");
        assert!(part.moves.count == 4 && part.transfers.launches > 0, "{what}: {:?}", part.moves);
        assert_same(&reference.summary(), &outcome.summary(), &what);
        print_stall(&what, &outcome);
    }
}

/// A move that cannot be made is refused with the reason, and nothing changes.
#[test]
fn a_device_without_kernels_or_memory_refuses_a_move() {
    let Some(device) = host().as_ref().map(apart) else { return };
    let forms = forms(&["compress-all", "digest-count"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 700).take(600), 73, 15);
    let reference = run_forms(&forms, Settings::default(), &inputs);
    let refuse = Fault::Refuse(Failure::OutOfMemory { wanted: 1, free: None });
    let full: Arc<dyn Device> =
        Arc::new(Faulty::new(Arc::clone(&device), move |_| Some(refuse.clone())));
    let deployment = try_deploy_on(&forms, &[], |_| None).expect("a chain");
    let to = |at: usize, device: &Arc<dyn Device>| {
        let on = OnDevice { device: Arc::clone(device), launches: launches(), is_required: false };
        let mut sites = vec![Site::default(); 2];
        sites[at].on_device = Some(on);
        sites
    };
    let moves = [(100, to(0, &device)), (200, to(1, &full)), (300, to(1, &device))];
    let settings = Settings { slabs: 6, ..Settings::default() };
    let (outcome, refused) = run_moving(deployment, settings, &inputs, moves.into());
    assert_eq!(outcome.report.part.moves.count, 1);
    assert!(refused.len() == 2 && refused[0].contains("no kernels"), "{refused:?}");
    assert!(refused[1].contains("memory"), "{refused:?}");
    assert_same(&reference.summary(), &outcome.summary(), "refused moves");
}

/// A function that was to run on a device and could not at the start hinders no other one.
#[test]
fn a_function_moves_beside_one_that_fell_back_to_the_cpu() {
    let Some(device) = host() else { return };
    let forms = forms(&["digest-count", "firewall"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 700).take(600), 73, 15);
    let reference = run_forms(&forms, Settings::default(), &inputs);
    let refuse = Fault::Refuse(Failure::OutOfMemory { wanted: 1, free: None });
    let full: Arc<dyn Device> =
        Arc::new(Faulty::new(apart(&device), move |_| Some(refuse.clone())));
    let on = |device: &Arc<dyn Device>, is_required| {
        Some(OnDevice { device: Arc::clone(device), launches: launches(), is_required })
    };
    let first = |at: usize| if at == 0 { on(&full, false) } else { None };
    let deployment = try_deploy_on(&forms, &[], first).expect("a chain");
    let mut sites = deployment.sites().to_vec();
    sites[1].on_device = on(&device, true);
    let settings = Settings { slabs: 6, ..Settings::default() };
    let (outcome, refused) = run_moving(deployment, settings, &inputs, [(300, sites)].into());
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(outcome.report.part.moves.count, 1);
    assert!(outcome.report.part.transfers.launches > 0);
    assert_same(&reference.summary(), &outcome.summary(), "a move beside a fallback");
}

/// Gives a frame from time to time, as an interface does.
struct Slow {
    source: Moving,
    next: Clock,
    /// The last frame's.
    time: Instant,
    pipe: (PipeReader, PipeWriter),
}

impl Source for Slow {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if Clock::now() < self.next {
            return Ok(Next::Idle(Duration::from_millis(1)));
        }
        let next = self.source.next();
        if let Ok(Next::Frame(frame)) = &next {
            (self.next, self.time) = (Clock::now() + Duration::from_millis(15), frame.timestamp);
        }
        next
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        Some(self)
    }
}

impl Live for Slow {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        all.push(self.pipe.0.as_raw_fd());
    }

    fn now(&mut self) -> Instant {
        self.time
    }

    fn losses(&mut self, _: &mut dyn FnMut(u16, u64)) {}

    fn events(&mut self, _: &mut dyn FnMut(String)) {}
}

/// Notes for each frame whether the thread of the sender sent it.
struct Noted(Arc<Mutex<Vec<bool>>>);

impl Sink for Noted {
    fn may_wait(&self) -> bool {
        false
    }

    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        let is_own = thread::current().name() == Some("sender");
        self.0.lock().expect("no panic").push(is_own);
        Ok(())
    }
}

/// From a device to the CPU and to the device again.
#[test]
fn lanes_have_threads_of_their_own_while_they_use_a_device() {
    const EACH: usize = 30;
    let Some(device) = host() else { return };
    let forms = forms(&["digest-count"]);
    let inputs = Traffic::new(5, 9, 0, 60).take(3 * EACH);
    let on = OnDevice { device, launches: launches_of_one(), is_required: true };
    let deployment = try_deploy_on(&forms, &[], |_| Some(on.clone())).expect("a chain");
    let moves = [(EACH, vec![Site::default()]), (2 * EACH, deployment.sites().to_vec())];
    let deployment = Arc::new(deployment);
    let (control, is_sender) = (Arc::new(Control::default()), Arc::default());
    let source = Moving::new(Frames::new(&inputs), &control, &deployment, moves.into());
    let time = Instant::from_nanos(inputs[0].nanos);
    let source = Slow { source, next: Clock::now(), time, pipe: pipe().expect("a pipe") };
    let ports = Ports::Shared(Box::new(source), Box::new(Noted(Arc::clone(&is_sender))));
    let report = in_time(move || run(&deployment, &Settings::default(), ports, &control));
    assert_eq!(report.expect("a start").part.moves.count, 2);
    let is_sender = is_sender.lock().expect("no panic");
    let of = |number: usize| &is_sender[number * EACH + EACH / 2..(number + 1) * EACH];
    let count = |number| of(number).iter().filter(|is_sender| **is_sender).count();
    assert_eq!((count(0), count(2)), (EACH / 2, EACH / 2), "{is_sender:?}");
    assert!(count(1) < EACH / 2, "one thread is enough on the CPU: {is_sender:?}");
}

proptest! {
    #![proptest_config(config(6, 10))]

    /// Random chains, which move from random devices to random devices.
    #[test]
    fn every_move_of_a_chain_is_the_same(
        picks in prop::collection::vec((0..FORMS.len() + NARROW.len(), 0usize..6), 1..6),
        moves in prop::collection::vec(
            (0usize..100, [0usize..6, 0..6, 0..6, 0..6, 0..6], device_lanes()),
            1..5,
        ),
        (bytes, delay_us, streams) in (prop_oneof![Just(1usize), 1000usize..20_000], 0u64..3000,
            1usize..5),
        (lanes, batch) in (prop_oneof![Just(1usize), Just(2), Just(4)], 8usize..300),
        (seed, odd, count) in (any::<u64>(), 0usize..40, 200usize..800),
        (mode, packet_len) in (prop::sample::select(&Mode::ALL[..]), 42u32..2000),
        follows_versions in prop::bool::weighted(0.3),
    ) {
        let devices = devices_of_case(seed as usize);
        let form = |at: usize| *FORMS.iter().chain(NARROW).nth(at).expect("a form");
        let forms: Vec<Form> = picks.iter().map(|pick| form(pick.0)).collect();
        let launches = LaunchOptions {
            bytes,
            delay: Duration::from_micros(delay_us),
            streams: Streams::Count(streams),
            ..launches()
        };
        let on = |device| OnDevice { device, launches, is_required: true };
        let first = |place: usize| devices.get(picks[place].1).cloned().map(on);
        let Ok(mut deployment) = try_deploy_on(&forms, &[], first) else { return Ok(()) };
        deployment.set_plan(PlanOptions { mode, packet_len, ..PlanOptions::default() });
        prop_assume!(deployment.chain().multiply() <= 8);
        let inputs = traffic(&forms, Talk::new(seed, 40, 900).take(count), seed, odd);
        let reference = run_forms(&forms, Settings::default(), &inputs);
        let mut moves: Vec<_> = moves
            .iter()
            .map(|(share, to, lanes)| {
                let to = |at: usize| devices.get(to[at]).cloned();
                let launches = LaunchOptions { lanes: *lanes, ..launches };
                (share * inputs.len() / 100, sites(&deployment, launches, to))
            })
            .collect();
        moves.sort_by_key(|(at, _)| *at);
        let (asked, moves) = (moves.len() as u64, Moves::from(moves));
        let settings = Settings { lanes, batch_packets: batch, slabs: 4, ..Settings::default() };
        let settings = Settings { follows_versions, ..settings };
        let (outcome, refused) = run_moving(deployment, settings, &inputs, moves);
        let what = format!("{picks:?} {launches:?} {mode:?} {packet_len}");
        prop_assert!(refused.is_empty(), "{what}: {refused:?}");
        prop_assert!(reported(&outcome).is_empty(), "{what}: {:?}", reported(&outcome));
        let part = &outcome.report.part;
        prop_assert_eq!(part.moves.count, asked, "{}", what);
        prop_assert!(part.versions.stale.is_none(), "{what}: {:?}", part.versions.stale);
        assert_same(&reference.summary(), &outcome.summary(), &what);
    }
}
