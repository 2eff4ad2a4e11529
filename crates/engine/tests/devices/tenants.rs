//! Chains of several tenants on one device, beside each other: each sends the packets that it sends
//! alone, whatever the policy, and whatever happens to the others.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use warpline_device::faulty::{Fault, Faulty};
use warpline_device::{Device, Step, Work, apart};
use warpline_engine::{
    Background, Control, LaunchOptions, OnDevice, Ports, Settings, SharedDevice, StartError,
    Streams, Tenant, run,
};
use warpline_sched::{Policy, Sharing};

use crate::common::forms::Form;
use crate::common::frames::Input;
use crate::common::ports::{Frames, SentFrames};
use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::placed::host;
use crate::same::PATIENCE;

const CHAINS: [&[&str]; 3] =
    [&["digest-count", "router-plain"], &["firewall", "nat"], &["router-plain", "digest-tag"]];

fn settings() -> Settings {
    Settings { lanes: 2, batch_packets: 64, slabs: 6, ..Settings::default() }
}

const LAUNCHES: LaunchOptions = LaunchOptions {
    bytes: 16 << 10,
    delay: Duration::from_micros(100),
    streams: Streams::Count(2),
    sync: false,
    graphs: false,
    timeout: PATIENCE,
    lanes: usize::MAX,
};

fn shared(policy: Policy, memory: Option<u64>) -> SharedDevice {
    let sharing = Sharing { policy, slice_ns: 1_000_000, ..Sharing::default() };
    let tenant = |name: &str| Tenant { name: name.into(), slots: 1, memory };
    let tenants = ["a", "b", "c", "noise"].map(tenant).to_vec();
    SharedDevice::new("host".into(), sharing, tenants).expect("tenants")
}

fn input(number: usize) -> (Vec<Form>, Vec<Input>) {
    let forms = forms(CHAINS[number]);
    let seed = number as u64 + 3;
    let inputs = traffic(&forms, Talk::new(seed, 40, 900).take(600), seed, 12);
    (forms, inputs)
}

fn run_on(device: &Arc<dyn Device>, launches: LaunchOptions, number: usize) -> Outcome {
    let (forms, inputs) = input(number);
    let on = |_| Some(OnDevice { device: Arc::clone(device), launches, is_required: true });
    let deployment = try_deploy_on(&forms, &[], on).unwrap_or_else(|why| panic!("{why}"));
    run_whole(deployment, settings(), &inputs)
}

#[test]
fn tenants_of_a_device_send_the_packets_that_they_send_alone() {
    let Some(host) = host() else { return };
    let references: Vec<_> = (0..3).map(input).collect();
    let references: Vec<_> = references
        .iter()
        .map(|(forms, inputs)| run_forms(forms, settings(), inputs).summary())
        .collect();
    for (policy, device) in Policy::ALL.into_iter().zip([apart(&host), host.clone()].iter().cycle())
    {
        let shared = shared(policy, None);
        let noise = shared.seat(3, Arc::clone(&host));
        let noise = Background::start(noise).expect("background work");
        let outcomes: Vec<Outcome> = thread::scope(|scope| {
            let run = |number| {
                let seat = shared.seat(number, Arc::clone(device));
                scope.spawn(move || run_on(&seat, LAUNCHES, number))
            };
            let started: Vec<_> = (0..3).map(run).collect();
            started.into_iter().map(|one| one.join().expect("a run")).collect()
        });
        noise.stop().expect("background work that ends");
        for (number, (outcome, reference)) in outcomes.iter().zip(&references).enumerate() {
            let what = format!("{policy:?}, chain {number}");
            assert!(reported(outcome).is_empty(), "{what}: {:?}", reported(outcome));
            assert_same(reference, &outcome.summary(), &what);
        }
        let evidence = shared.report().evidence;
        for (outcome, tenant) in outcomes.iter().zip(&evidence.tenants) {
            assert_eq!(tenant.grants, outcome.report.part.transfers.launches, "{policy:?}");
            assert_eq!(tenant.lost, 0, "{policy:?}");
        }
    }
}

/// A launch of one tenant that never ends is given up. The tenant continues by the CPU, and others
/// on the device: the time that they wait for it is not their launches'.
#[test]
fn a_tenant_whose_launch_hangs_stops_no_other() {
    let Some(host) = host() else { return };
    let device = apart(&host);
    for policy in [Policy::BestEffort, Policy::FixedShare] {
        let shared = shared(policy, None);
        // Kernels of launches; those that load functions have no items.
        let hangs = |work: &Work| work.items > 0 && work.steps.iter().any(Step::is_call);
        let hung =
            Faulty::by_work(Arc::clone(&device), move |_, work| hangs(work).then_some(Fault::Hang));
        let hung = shared.seat(1, Arc::new(hung));
        let [first, second] = thread::scope(|scope| {
            let fine = shared.seat(0, Arc::clone(&device));
            let within = |ms| LaunchOptions { timeout: Duration::from_millis(ms), ..LAUNCHES };
            let first = scope.spawn(move || run_on(&fine, within(1_000), 0));
            let second = scope.spawn(move || run_on(&hung, within(1_500), 1));
            [first, second].map(|one| one.join().expect("a run"))
        });
        assert!(reported(&first).is_empty(), "{policy:?}: {:?}", reported(&first));
        let (forms, inputs) = input(0);
        let reference = run_forms(&forms, settings(), &inputs).summary();
        assert_same(&reference, &first.summary(), "the other tenant");
        assert!(!reported(&second).is_empty(), "{policy:?}: the hung device is reported");
        assert!(shared.report().evidence.tenants[1].lost > 0, "{policy:?}");
    }
}

/// Only one of two stages on a shared device makes the lane wait for its launches.
#[test]
fn a_stage_that_waits_lets_the_others_have_their_turn() {
    let Some(host) = host() else { return };
    let (forms, inputs) = input(2);
    let reference = run_forms(&forms, settings(), &inputs).summary();
    for (policy, waiting) in Policy::ALL.into_iter().flat_map(|one| [(one, 0), (one, 1)]) {
        let device = shared(policy, None).seat(0, apart(&host));
        let (done, ended) = mpsc::channel();
        // A lane that waits for its own other stage never ends.
        thread::spawn(move || {
            let on = |position| {
                let launches = LaunchOptions { sync: position == waiting, ..LAUNCHES };
                Some(OnDevice { device: Arc::clone(&device), launches, is_required: true })
            };
            let (forms, inputs) = input(2);
            let deployment = try_deploy_on(&forms, &[0, 1], on).expect("a deployment");
            let _ = done.send(run_whole(deployment, settings(), &inputs).summary());
        });
        let outcome = ended.recv_timeout(Duration::from_secs(60)).expect("the run ends");
        assert_same(&reference, &outcome, &format!("{policy:?}, {waiting}"));
    }
}

#[test]
fn a_chain_beyond_its_quota_can_not_start() {
    let Some(host) = host() else { return };
    let shared = shared(Policy::BestEffort, Some(1 << 20));
    let device = shared.seat(0, apart(&host));
    let forms = forms(CHAINS[0]);
    let on =
        |_| Some(OnDevice { device: Arc::clone(&device), launches: LAUNCHES, is_required: true });
    let deployment = try_deploy_on(&forms, &[], on).expect("a chain");
    let ports = Ports::Shared(Box::new(Frames::default()), Box::new(SentFrames::default()));
    let refused = run(&deployment, &settings(), ports, &Control::default()).expect_err("a refusal");
    let StartError::Device(_, why) = refused else { panic!("{refused}") };
    assert!(why.to_string().contains("memory"), "{why}");
}
