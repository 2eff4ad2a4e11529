//! I2: a function on a device has the same output as on the CPU, for any lanes, batches, launches
//! and streams.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use warpline_device::Device;
use warpline_engine::{
    Deployment, Instance, LaunchOptions, OnDevice, PlanOptions, Settings, Site, Streams,
};
use warpline_sched::Mode;

use crate::common::forms::{ESN, FORMS, Form, NARROW, SEAL_ESN_EDGE};
use crate::common::frames::Input;
use crate::common::random::config;
use crate::common::real::{
    check_chain, check_shows, deploy_forms, forms, run_forms, traffic, try_deploy_on,
};
use crate::common::run::{Outcome, assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::placed::{copies, deploy_on, devices, devices_of_case, has_kernels};
use crate::stub::is_over_stubs;

/// OpenCL on a CPU compiles while it runs, and there is other work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a launch that a test's traffic fills several times: each launch of the default size has
/// tables of up to 64 MiB.
pub(crate) const SMALL: usize = 64 << 10;

/// The plan of a mode, for frames of so many bytes: short ones cross whole, long ones field by
/// field.
fn plan(mode: Mode, packet_len: u32) -> PlanOptions {
    PlanOptions { mode, packet_len, ..PlanOptions::default() }
}

/// Lanes, packets of a batch, and how launches are made: on a device that has graphs every other
/// way with them.
pub(crate) fn ways(has_graphs: bool) -> Vec<(usize, usize, LaunchOptions, PlanOptions)> {
    let default = LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() };
    let one_batch = LaunchOptions { bytes: 1, streams: Streams::Count(2), ..default };
    let patient = LaunchOptions { delay: Duration::from_millis(5), ..default };
    let sync = LaunchOptions { sync: true, bytes: 64 << 10, ..default };
    let at_once = LaunchOptions { delay: Duration::ZERO, streams: Streams::Measured, ..default };
    let with_graphs = |launches| LaunchOptions { graphs: has_graphs, ..launches };
    vec![
        (1, 256, default, plan(Mode::Adaptive, 1500)),
        (1, 1, with_graphs(at_once), plan(Mode::PerNf, 64)),
        (2, 64, with_graphs(one_batch), plan(Mode::ShareAll, 512)),
        (4, 256, patient, plan(Mode::Local, 1500)),
        (2, 1024, with_graphs(sync), plan(Mode::Adaptive, 64)),
        (4, 16, at_once, plan(Mode::Adaptive, 9000)),
    ]
}

pub(crate) fn same_on(devices: &[Arc<dyn Device>], forms: &[Form], count: usize) {
    let inputs = traffic(forms, Talk::new(71, 60, 1400).take(count), 73, 15);
    let reference = run_forms(forms, Settings::default(), &inputs);
    check_chain(forms, &reference);
    if forms.len() == 1 {
        check_shows(forms, &reference);
    }
    devices.iter().for_each(|device| same_as(&reference, device, forms, &inputs));
}

fn same_as(reference: &Outcome, device: &Arc<dyn Device>, forms: &[Form], inputs: &[Input]) {
    let names: Vec<_> = forms.iter().map(|form| form.name).collect();
    let id = &device.description().id;
    // Some of the ways for each chain, the others for other chains: fewer where compiling takes
    // longer, or where the kernels are the host's.
    let each = match &id[..] {
        id if id.starts_with("opencl") || is_over_stubs() => 3,
        _ => 2,
    };
    let first = names.concat().len() % each;
    let ways = ways(device.description().has_graphs).into_iter().skip(first).step_by(each);
    for (lanes, batch_packets, launches, plan) in ways {
        let mut deployment = deploy_on(forms, device, launches);
        deployment.set_plan(plan);
        let instances = deployment.chain().instances.iter();
        let has_kernels: Vec<bool> = instances.map(|one| one.definition.has_kernels).collect();
        let settings = Settings { lanes, batch_packets, slabs: 6, ..Settings::default() };
        let what =
            format!("{names:?} on {id}, {lanes} lanes, {batch_packets}, {launches:?}, {plan:?}");
        let outcome = run_whole(deployment, settings, inputs);
        let part = &outcome.report.part;
        assert!(reported(&outcome).is_empty(), "{what}: {:?}", reported(&outcome));
        assert!(part.transfers.launches > 0, "{what}");
        for (function, is_on_device) in part.functions.iter().zip(has_kernels).take(1) {
            assert_eq!(function.before_ns > 0, is_on_device, "{what}");
            assert!(function.before_ns < function.busy_ns, "{what}");
        }
        assert_eq!(part.transfers.to_device_bytes > 0, copies(device), "{what}");
        assert_eq!(part.transfers.to_host_bytes > 0, copies(device), "{what}");
        assert_same(&reference.summary(), &outcome.summary(), &what);
    }
}

#[test]
fn definitions_say_which_functions_have_kernels() {
    for form in FORMS.iter().chain(NARROW) {
        let deployment = deploy_forms(&[*form]);
        let instance = &deployment.chain().instances[0];
        let has_kernels = instance.function.kernels().is_some();
        assert_eq!(instance.definition.has_kernels, has_kernels, "{}", form.name);
    }
}

#[test]
fn each_function_is_the_same_on_devices() {
    let all = FORMS.iter().chain(NARROW).filter(|form| has_kernels(form));
    for (number, form) in all.enumerate() {
        same_on(&devices_of_case(number), &[*form], 3000);
    }
}

#[test]
fn functions_that_follow_each_other_on_a_device_are_the_same() {
    let chains = [
        &["digest-count", "router-plain"][..],
        &["router", "digest-count"],
        &["nat", "digest-count", "firewall", "router"],
        &["router-plain", "seal"],
        &["open", "router-plain", "digest-count"],
        &["balancer-ipip", "digest-count", "router-plain"],
        &["balancer-mac", "router-plain"],
    ];
    for (number, names) in chains.into_iter().enumerate() {
        same_on(&devices_of_case(number), &forms(names), 2000);
    }
}

/// One [`warpline_engine::Chain`] is shared by all deployments, also by one that runs on the CPU
/// again after a device.
#[test]
fn one_chain_on_two_sites_sends_the_same_packets() {
    let forms = forms(&["nat", "digest-count", "firewall", "router"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 1400).take(2000), 73, 15);
    let chain = Arc::clone(deploy_forms(&forms).chain());
    let run = |sites: Vec<Site>| {
        let deployment = Deployment::new(Arc::clone(&chain), sites);
        run_whole(deployment, Settings::default(), &inputs)
    };
    let on_cpu = run(Vec::new());
    assert_eq!(on_cpu.report.part.transfers.launches, 0);
    let launches = LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() };
    for device in devices() {
        let on = OnDevice { device: Arc::clone(&device), launches, is_required: true };
        let site = |one: &Instance| Site {
            on_device: one.definition.has_kernels.then(|| on.clone()),
            ..Site::default()
        };
        let on_device = run(chain.instances.iter().map(site).collect());
        let id = &device.description().id;
        assert!(on_device.report.part.transfers.launches > 0, "{id}");
        assert_same(&on_cpu.summary(), &on_device.summary(), id);
        assert_same(&on_cpu.summary(), &run(Vec::new()).summary(), "on the CPU after the device");
    }
}

/// Packets that are opened again, with another number, reach later functions on the CPU; all others
/// reach them on the device.
#[test]
fn packets_after_a_repeated_decryption_are_the_same() {
    let [seal, open] = ESN;
    let sealed = |form: Form, count: usize| {
        let inputs = traffic(&[form], Talk::new(71, 60, 300).take(count), 73, 0);
        run_whole(deploy_forms(&[form]), Settings::default(), &inputs).sent
    };
    let mut inputs: Vec<Input> = sealed(seal, 3).into_iter().map(Input::from).collect();
    inputs.extend(sealed(SEAL_ESN_EDGE, 700).into_iter().map(Input::from));
    // No tick closes a batch: in the first the half that is sent begins anew.
    inputs.iter_mut().for_each(|input| input.nanos = 0);
    let forms = [&[open][..], &forms(&["router-plain", "digest-count"])].concat();
    let one_by_one = Settings { batch_packets: 1, ..Settings::default() };
    let reference = run_forms(&forms, one_by_one, &inputs);
    let opened = reference.counter(0, "opened");
    assert!(reference.counter(0, "reopened") == 0 && opened > 600, "{opened}");
    let launches = LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() };
    for device in devices() {
        let deployment = deploy_on(&forms, &device, launches);
        assert_eq!(deployment.stages().len(), 1);
        let outcome = run_whole(deployment, Settings::default(), &inputs);
        let id = &device.description().id;
        assert!(reported(&outcome).is_empty(), "{id}: {:?}", reported(&outcome));
        assert!(outcome.report.part.transfers.launches > 0, "{id}");
        // Those of the first batch; how many more depends on when its numbers were known.
        assert!(outcome.counter(0, "reopened") > 20, "{id}");
        assert!(reference.sent == outcome.sent, "{id}");
        for function in 0..forms.len() {
            let drops = |of: &Outcome| of.report.part.functions[function].drops.to_vec();
            assert_eq!(drops(&reference), drops(&outcome), "{id}");
        }
    }
}

/// Several stages on devices, each of which may have many small batches: together they have memory
/// for so many, and not each for all.
#[test]
fn stages_on_devices_with_small_batches_are_the_same() {
    let Some(host) = crate::placed::host() else { return };
    let other = warpline_device::apart(&host);
    let forms = forms(&["open", "digest-count", "digest-count", "monitor", "digest-count"]);
    let inputs = traffic(&forms, Talk::new(71, 40, 900).take(300), 73, 10);
    let reference = run_forms(&forms, Settings::default(), &inputs);
    for (bytes, streams, batch_packets) in [(1 << 20, 5, 1), (1 << 20, 5, 299), (64 << 20, 64, 7)] {
        let streams = Streams::Count(streams);
        let launches =
            LaunchOptions { bytes, streams, timeout: PATIENCE, ..LaunchOptions::default() };
        for apart in [0, 1, 2] {
            let on = |place: usize| {
                let device = if place % 3 == apart { &other } else { &host };
                Some(OnDevice { device: Arc::clone(device), launches, is_required: true })
            };
            let deployment = try_deploy_on(&forms, &[], on).expect("a chain");
            let settings = Settings { batch_packets, ..Settings::default() };
            let fitted = settings.fit(&deployment);
            let need = fitted.memory(&deployment);
            assert!(need.fits() && need.batches + need.notes <= 1 << 30, "{need}, {fitted:?}");
            if streams == Streams::Count(5) {
                let outcome = run_whole(deployment, settings, &inputs);
                let what = format!("{launches:?}, {settings:?}, {apart}");
                assert!(reported(&outcome).is_empty(), "{what}");
                assert_same(&reference.summary(), &outcome.summary(), &what);
            }
        }
    }
}

/// Random options of launches.
fn launches() -> impl Strategy<Value = LaunchOptions> {
    let bytes = prop_oneof![Just(1usize), 1000usize..20_000, Just(1 << 20)];
    (bytes, 0u64..3000, 1usize..6, prop::bool::weighted(0.2), any::<bool>()).prop_map(
        |(bytes, delay_us, streams, sync, graphs)| LaunchOptions {
            bytes,
            delay: Duration::from_micros(delay_us),
            streams: Streams::Count(streams),
            sync,
            graphs,
            timeout: PATIENCE,
            lanes: usize::MAX,
        },
    )
}

/// Lanes that use the device of a function; all of them in half of the cases.
pub(crate) fn device_lanes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(usize::MAX), 0usize..4]
}

proptest! {
    #![proptest_config(config(12, 20))]

    /// Random chains, with a random device for each function.
    #[test]
    fn every_placement_of_a_chain_is_the_same(
        picks in prop::collection::vec((0..FORMS.len() + NARROW.len(), 0usize..6), 1..6),
        launches in launches(),
        (lanes, batch) in (prop_oneof![Just(1usize), Just(2), Just(4)], 1usize..300),
        (seed, odd, count) in (any::<u64>(), 0usize..40, 0usize..800),
        (mode, packet_len) in (prop::sample::select(&Mode::ALL[..]), 42u32..2000),
        recoverable in prop::bool::weighted(0.3),
        device_lanes in prop::collection::vec(device_lanes(), 6),
    ) {
        let devices = devices_of_case(seed as usize);
        let form = |at: usize| *FORMS.iter().chain(NARROW).nth(at).expect("a form");
        let forms: Vec<Form> = picks.iter().map(|pick| form(pick.0)).collect();
        let on = |place: usize| {
            let device = Arc::clone(devices.get(picks[place].1)?);
            let graphs = launches.graphs && device.description().has_graphs;
            let launches = LaunchOptions { graphs, lanes: device_lanes[place], ..launches };
            Some(OnDevice { device, launches, is_required: true })
        };
        let Ok(mut deployment) = try_deploy_on(&forms, &[], on) else { return Ok(()) };
        deployment.set_plan(PlanOptions { recoverable, ..plan(mode, packet_len) });
        prop_assume!(deployment.chain().multiply() <= 8);
        let inputs = traffic(&forms, Talk::new(seed, 40, 900).take(count), seed, odd);
        let reference = run_forms(&forms, Settings::default(), &inputs);
        let settings = Settings { lanes, batch_packets: batch, ..Settings::default() };
        let outcome = run_whole(deployment, settings, &inputs);
        let what =
            format!("{picks:?} {launches:?} {mode:?} {packet_len} {recoverable} {device_lanes:?}");
        prop_assert!(reported(&outcome).is_empty(), "{what}");
        assert_same(&reference.summary(), &outcome.summary(), &what);
    }
}
