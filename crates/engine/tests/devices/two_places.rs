//! Functions at two places of a chain, either of them on a device: packets, answers and made
//! packets are as on the CPU, whatever fails or is reloaded between the places.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use warpline_device::Device;
use warpline_device::faulty::{Fault, Faulty};
use warpline_engine::{
    Control, DEVICE_LOST, Deployment, LaunchOptions, OnDevice, PlanOptions, Settings, Streams,
    Successor,
};
use warpline_io::{Next, Source, SourceError};
use warpline_packet::wire::checksum;
use warpline_sched::Mode;

use crate::common::forms::{FORMS, Form, PAIRS};
use crate::common::frames::Input;
use crate::common::ports::{Frames, SentFrames};
use crate::common::random::config;
use crate::common::real::{check_chain, forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, assert_same, reported, run_ports, run_whole};
use crate::common::talk::Talk;
use crate::failures::launches;
use crate::placed::{devices, devices_of_case, host};
use crate::same::{PATIENCE, SMALL, ways};
use crate::versions::each_way;

/// Pairs in every mode, alone, within each other and one after the other.
const CHAINS: &[&[&str]] = &[
    &["nat:1", "firewall", "router", "nat:2"],
    &["balancer-dnat:1", "router", "balancer-dnat:2"],
    &["nat:1", "balancer-dnat:1", "digest-count", "router", "balancer-dnat:2", "nat:2"],
    &["balancer-ipip:1", "router", "balancer-ipip:2", "digest-count"],
    &["balancer-mac:1", "router", "balancer-mac:2"],
    &["nat:1", "firewall", "nat:2", "balancer-dnat:1", "router", "balancer-dnat:2"],
];

/// Traffic of a chain in which every seventh packet expires, those of answers among them.
fn expiring(forms: &[Form], count: usize) -> Vec<Input> {
    let mut inputs = traffic(forms, Talk::new(71, 60, 1400).take(count), 73, 15);
    inputs.iter_mut().step_by(7).for_each(expire);
    inputs
}

/// Gives a packet in Ethernet a TTL or hop limit of 1.
pub(crate) fn expire(input: &mut Input) {
    match input.bytes.get(12..15) {
        Some([8, 0, 0x45]) if input.bytes.len() >= 34 => {
            let old = u16::from_be_bytes([input.bytes[22], input.bytes[23]]);
            let sum = u16::from_be_bytes([input.bytes[24], input.bytes[25]]);
            let new = 1 << 8 | old & 0xff;
            input.bytes[22] = 1;
            let sum = checksum::update16(sum, old, new).to_be_bytes();
            input.bytes[24..26].copy_from_slice(&sum);
        }
        Some([0x86, 0xdd, 0x60..=0x6f]) if input.bytes.len() >= 54 => input.bytes[21] = 1,
        _ => {}
    }
}

fn on_one(forms: &[Form], device: &Arc<dyn Device>, launches: LaunchOptions) -> Deployment {
    let on = |_| Some(OnDevice { device: Arc::clone(device), launches, is_required: true });
    try_deploy_on(forms, &[], on).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn both_places_are_the_same_on_devices() {
    for (number, names) in CHAINS.iter().enumerate() {
        let forms = forms(names);
        let inputs = expiring(&forms, 500);
        let reference = run_forms(&forms, Settings::default(), &inputs);
        check_chain(&forms, &reference);
        let answers: u64 = (0..forms.len()).map(|at| reference.counter(at, "icmp-sent")).sum();
        assert!(answers > 3, "{names:?}: {answers} answers");
        for device in devices_of_case(number) {
            let about = device.description();
            // Each chain in two ways, on OpenCL in one; other chains in others.
            let each = if about.id.starts_with("opencl") { 6 } else { 3 };
            for (lanes, batch_packets, launches, plan) in
                ways(about.has_graphs).into_iter().skip((number + names.len()) % each).step_by(each)
            {
                let mut deployment = on_one(&forms, &device, launches);
                deployment.set_plan(plan);
                // Each stage has tables for all of its launches on each lane.
                let lanes = lanes.min(2);
                let settings = Settings { lanes, batch_packets, slabs: 6, ..Settings::default() };
                let settings = settings.fit(&deployment);
                let what = format!("{names:?} on {}, {lanes}, {batch_packets}, {plan:?}", about.id);
                let outcome = run_whole(deployment, settings, &inputs);
                assert!(reported(&outcome).is_empty(), "{what}: {:?}", reported(&outcome));
                assert!(outcome.report.part.transfers.launches > 0, "{what}");
                assert_same(&reference.summary(), &outcome.summary(), &what);
            }
        }
    }
}

#[test]
fn no_field_is_stale_at_either_place() {
    for (names, at) in [
        (CHAINS[0], &[1, 1, 1, 1][..]),
        (CHAINS[0], &[1, 0, 2, 1]),
        (CHAINS[1], &[1, 2, 1]),
        (CHAINS[1], &[0, 1, 3]),
        (CHAINS[2], &[1, 2, 0, 1, 2, 1]),
        (CHAINS[3], &[1, 1, 1, 1]),
        (CHAINS[3], &[0, 0, 2, 1]),
        (CHAINS[4], &[0, 2, 1]),
        (CHAINS[5], &[1, 0, 1, 2, 0, 2]),
    ] {
        let forms = forms(names);
        each_way(&forms, at, &expiring(&forms, 300));
    }
}

/// A device is lost that has one of the places, or a function between them. The CPU continues if
/// the device had written nothing. Packets that the device had are lost and counted. Nothing else
/// changes.
#[test]
fn a_device_lost_at_a_place_or_between_them_loses_what_it_had() {
    let (mut runs, mut fell_back) = (0, 0);
    for (names, of_device) in [
        (CHAINS[0], &[0][..]),
        (CHAINS[0], &[2]),
        (CHAINS[0], &[3]),
        (CHAINS[2], &[0, 5]),
        (CHAINS[3], &[2]),
    ] {
        let forms: Vec<Form> = forms(names).into_iter().map(steady).collect();
        let inputs = expiring(&forms, 600);
        let settings = Settings { lanes: 2, batch_packets: 64, slabs: 6, ..Settings::default() };
        let reference = run_forms(&forms, settings, &inputs);
        let hosts = devices().into_iter().filter(|one| one.description().id.starts_with("host"));
        for (device, first) in hosts.flat_map(|one| [2, 8, 12, 19].map(|at| (one.clone(), at))) {
            let what = format!("{names:?}, {of_device:?}, {}, {first}", device.description().id);
            let fault = Fault::Fail(warpline_device::Failure::Lost("it fell off the bus".into()));
            let script = move |number| (number >= first).then(|| fault.clone());
            let faulty: Arc<dyn Device> = Arc::new(Faulty::new(Arc::clone(&device), script));
            let on = |place: usize| {
                let device = Arc::clone(&faulty);
                let on = OnDevice { device, launches: launches(), is_required: false };
                of_device.contains(&place).then_some(on)
            };
            let mut deployment = try_deploy_on(&forms, &[], on).expect("a chain");
            deployment.set_plan(PlanOptions { mode: Mode::ShareAll, ..PlanOptions::default() });
            let outcome = run_whole(deployment, settings, &inputs);
            (runs, fell_back) = (runs + 1, fell_back + u64::from(!reported(&outcome).is_empty()));
            check_lost(&reference, &outcome, &what);
        }
    }
    assert!(runs == 0 || fell_back > 10, "{fell_back} of {runs}");
}

/// Each packet of `reference` was sent once, in order, but for those that are lost with the device.
pub(crate) fn check_lost(reference: &Outcome, outcome: &Outcome, what: &str) {
    let functions = outcome.report.part.functions.iter();
    let lost: u64 = functions.map(|one| one.drops[usize::from(DEVICE_LOST.0)]).sum();
    let mut expected = reference.sent.iter();
    for packet in &outcome.sent {
        assert!(expected.any(|other| other == packet), "{what}: {packet:?}");
    }
    let missing = reference.sent.len() - outcome.sent.len();
    // Packets that a lost packet would have become, and answers to it.
    assert!(missing as u64 <= 2 * lost, "{what}: {missing} missing, {lost} lost");
    if lost == 0 {
        assert_same(&reference.summary(), &outcome.summary(), what);
    }
}

/// Asks for a reload before one frame.
struct Reloading {
    frames: Frames,
    control: Arc<Control>,
    successor: Option<(usize, Successor)>,
}

impl Source for Reloading {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let due = self.successor.take_if(|(at, _)| *at == self.frames.next);
        let Some((at, successor)) = due else { return self.frames.next() };
        if !self.control.reload(&successor) {
            self.successor = Some((at, successor));
        }
        Ok(Next::Idle(Duration::ZERO))
    }
}

/// Runs `deployment` with a reload to `next` before frame `at`.
pub(crate) fn run_reloading(
    deployment: Deployment,
    next: Deployment,
    (at, settings): (usize, Settings),
    inputs: &[Input],
) -> Outcome {
    let successor = Successor::new(&deployment, next).expect("a chain that can follow");
    assert!(!successor.changed().is_empty());
    let control = Arc::new(Control::default());
    let (frames, control_of) = (Frames::new(inputs), Arc::clone(&control));
    let source = Reloading { frames, control: control_of, successor: Some((at, successor)) };
    run_ports(deployment, settings, source, SentFrames::default(), control)
}

/// Between the places, a router gets other routes and a balancer other backends, while bindings and
/// connections stay; ticks come between the places all the time.
#[test]
fn a_reload_between_places_is_at_one_place_of_the_input() {
    for (names, at, table) in [
        (
            CHAINS[0],
            2,
            "routes = 'other-routes'\nicmp = 'on'\nicmp_src_v4 = '192.0.2.254'\nicmp_rate_pps = \
             1000000\n",
        ),
        (
            CHAINS[2],
            3,
            "routes = 'other-routes'\nicmp = 'on'\nicmp_src_v4 = '192.0.2.254'\nicmp_rate_pps = \
             1000000\n",
        ),
    ] {
        let old = forms(names);
        let old: Vec<Form> = old.into_iter().map(steady).collect();
        let mut new = old.clone();
        new[at].table = table;
        let inputs = expiring(&old, 1000);
        let settings =
            |lanes, batch_packets| Settings { lanes, batch_packets, ..Settings::default() };
        let ways = [(1, 256), (2, 1), (4, 64), (3, 1000)];
        let on_cpu = |forms: &[Form]| try_deploy_on(forms, &[], |_| None).expect("a chain");
        let frame = inputs.len() / 2;
        let reference =
            run_reloading(on_cpu(&old), on_cpu(&new), (frame, settings(1, 256)), &inputs);
        let plain = run_forms(&old, settings(1, 256), &inputs);
        assert!(plain.sent != reference.sent, "{names:?}: the new routes lead elsewhere");
        for (lanes, batch) in ways {
            let way = (frame, settings(lanes, batch));
            let outcome = run_reloading(on_cpu(&old), on_cpu(&new), way, &inputs);
            let what = format!("{names:?}, {lanes} lanes, {batch}");
            assert_same(&reference.summary(), &outcome.summary(), &what);
            for device in host().into_iter().chain(host().as_ref().map(warpline_device::apart)) {
                let launches =
                    LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() };
                let [old, new] = [&old, &new].map(|forms| on_one(forms, &device, launches));
                let outcome = run_reloading(old, new, way, &inputs);
                let what = format!("{what} on {}", device.description().id);
                assert_same(&reference.summary(), &outcome.summary(), &what);
            }
        }
    }
}

/// A router that knows no neighbours, whose routes may be others later, and that answers whatever
/// it answered before.
pub(crate) fn steady(form: Form) -> Form {
    let table = "routes = 'routes'\nicmp = 'on'\nicmp_src_v4 = '192.0.2.254'\n\
                 icmp_rate_pps = 1000000\n";
    if form.function == "router" { Form { table, ..form } } else { form }
}

/// Packets whose fields a device alone has are fetched where it flags them. Fewer of them than the
/// plan expects are nothing to report.
#[test]
fn fewer_fetched_packets_than_expected_are_not_reported() {
    let Some(device) = host().map(|host| warpline_device::apart(&host)) else { return };
    let forms = forms(&["balancer-dnat:1", "nat:1", "digest-tag", "nat:2", "balancer-dnat:2"]);
    let launches = LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() };
    let on = |place| {
        let device = (1..4).contains(&place).then(|| Arc::clone(&device))?;
        Some(OnDevice { device, launches, is_required: true })
    };
    let mut deployment = try_deploy_on(&forms, &[], on).expect("a chain");
    deployment.set_plan(PlanOptions {
        mode: Mode::ShareAll,
        packet_len: 1152,
        ..PlanOptions::default()
    });
    let seed = 16_085_824_770_282_724_685;
    let mut inputs = traffic(&forms, Talk::new(seed, 40, 900).take(300), seed, 10);
    inputs.iter_mut().step_by(5).for_each(expire);
    let outcome = run_whole(deployment, Settings::default(), &inputs);
    let transfers = &outcome.report.part.transfers;
    let fetched = [transfers.fetched_bytes, transfers.predicted_fetched_bytes];
    assert!(fetched[0] > 0 && fetched[0] < fetched[1], "{fetched:?}");
    assert!(reported(&outcome).is_empty(), "{:?}", reported(&outcome));
}

/// Up to four functions, with a pair around some of them and maybe another within.
fn chains() -> impl Strategy<Value = Vec<Form>> {
    let form = (0..FORMS.len()).prop_map(|at| FORMS[at]);
    let pair = prop::sample::select(PAIRS);
    let span = || (0usize..100, 0usize..100);
    (prop::collection::vec(form, 1..5), pair.clone(), prop::option::of(pair), span(), span())
        .prop_map(|(mut all, outer, inner, outside, within)| {
            let (from, to) = put_around(&mut all, outer, outside);
            if let Some(inner) = inner.filter(|inner| *inner != outer) {
                let mut between: Vec<Form> = all.drain(from + 1..to).collect();
                put_around(&mut between, inner, within);
                all.splice(from + 1..from + 1, between);
            }
            all
        })
}

/// Puts both places of a pair somewhere in `all`; gives where they are.
fn put_around(all: &mut Vec<Form>, name: &str, (one, other): (usize, usize)) -> (usize, usize) {
    let from = one % (all.len() + 1);
    let to = from + other % (all.len() + 1 - from);
    let of = |number| forms(&[&format!("{name}:{number}")])[0];
    all.insert(to, of(2));
    all.insert(from, of(1));
    (from, to + 1)
}

proptest! {
    #![proptest_config(config(10, 20))]

    /// Random chains with pairs, with a random device for each place.
    #[test]
    fn every_placement_of_pairs_is_the_same(
        forms in chains(),
        at in prop::collection::vec(0usize..6, 10),
        (lanes, batch) in (prop_oneof![Just(1usize), Just(2), Just(4)], 1usize..300),
        (bytes, streams) in (prop_oneof![Just(1usize), 1000usize..20_000, Just(1 << 20)],
            1usize..6),
        (mode, packet_len) in (prop::sample::select(&Mode::ALL[..]), 42u32..2000),
        seed in any::<u64>(),
    ) {
        let devices = devices_of_case(seed as usize);
        let streams = Streams::Count(streams);
        let timeout = PATIENCE;
        let launches = LaunchOptions { bytes, streams, timeout, ..LaunchOptions::default() };
        let on = |place: usize| {
            let device = Arc::clone(devices.get(at[place])?);
            Some(OnDevice { device, launches, is_required: true })
        };
        let Ok(mut deployment) = try_deploy_on(&forms, &[], on) else { return Ok(()) };
        prop_assume!(deployment.chain().multiply() <= 8);
        deployment.set_plan(PlanOptions { mode, packet_len, ..PlanOptions::default() });
        let mut inputs = traffic(&forms, Talk::new(seed, 40, 900).take(300), seed, 10);
        inputs.iter_mut().step_by(5).for_each(expire);
        let reference = run_forms(&forms, Settings::default(), &inputs);
        let settings = Settings { lanes, batch_packets: batch, ..Settings::default() };
        let outcome = run_whole(deployment, settings, &inputs);
        let names: Vec<_> = forms.iter().map(|form| (form.name, form.at)).collect();
        let what = format!("{names:?} {at:?} {mode:?} {packet_len}");
        prop_assert!(reported(&outcome).is_empty(), "{what}: {:?}", reported(&outcome));
        assert_same(&reference.summary(), &outcome.summary(), &what);
    }
}
