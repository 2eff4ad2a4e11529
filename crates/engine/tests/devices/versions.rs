//! Versions of fields, followed while chains run: each read of a field gets the newest, wherever
//! functions run and by any plan. `engine/src/stale_crossings.rs` has chains with stale reads.

use std::sync::Arc;

use proptest::prelude::*;
use warpline_device::{Device, Wrapped, apart};
use warpline_engine::{Deployment, FramesBy, LaunchOptions, OnDevice, PlanOptions, Settings};
use warpline_sched::Mode;

use crate::common::forms::{ESN, FORMS, Form, NARROW};
use crate::common::frames::Input;
use crate::common::random::config;
use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{assert_same, run_whole};
use crate::common::talk::Talk;
use crate::placed::{has_kernels, host};
use crate::same::{PATIENCE, SMALL};

/// Where functions may be: the CPU, two devices with memories of their own, and one that works in
/// place.
fn places() -> Option<[Option<Arc<dyn Device>>; 4]> {
    let host = host()?;
    let copying = apart(&host);
    let other = Wrapped::new(&copying).called("other").into_device();
    Some([None, Some(copying), Some(other), Some(host)])
}

/// A chain of `forms`, each at the place of its number in `at`.
pub(crate) fn deploy_at(
    forms: &[Form],
    at: &[usize],
    plan: PlanOptions,
) -> Option<Result<Deployment, String>> {
    let places = places()?;
    let launches = LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() };
    let on = |place: usize| {
        let device = places[at[place]].clone()?;
        Some(OnDevice { device, launches, is_required: true })
    };
    let deployment = try_deploy_on(forms, &[], on);
    Some(deployment.map(|mut deployment| {
        deployment.set_plan(plan);
        deployment
    }))
}

/// Runs the chain; no field is stale where it is read. Gives how many were looked at.
fn looks(
    deployment: Deployment,
    settings: Settings,
    forms: &[Form],
    inputs: &[Input],
    what: &str,
) -> u64 {
    let settings = Settings { follows_versions: true, slabs: 6, ..settings };
    let outcome = run_whole(deployment, settings, inputs);
    let versions = &outcome.report.part.versions;
    if let Some(stale) = &versions.stale {
        panic!("{what}: {stale}");
    }
    let reference = run_forms(forms, Settings::default(), inputs);
    assert_same(&reference.summary(), &outcome.summary(), what);
    versions.looks
}

/// Each mode with lanes, packets of a batch, bytes of the frames that the plan is for, and what
/// carries frames.
const WAYS: [(Mode, usize, usize, u32, FramesBy); 5] = [
    (Mode::Adaptive, 1, 256, 1400, FramesBy::Copies),
    (Mode::Adaptive, 2, 7, 64, FramesBy::Kernels),
    (Mode::Local, 4, 64, 1400, FramesBy::Copies),
    (Mode::ShareAll, 2, 16, 512, FramesBy::Kernels),
    (Mode::PerNf, 1, 64, 64, FramesBy::Copies),
];

pub(crate) fn each_way(forms: &[Form], at: &[usize], inputs: &[Input]) {
    let names: Vec<&str> = forms.iter().map(|form| form.name).collect();
    for (mode, lanes, batch_packets, packet_len, frames_by) in WAYS {
        let plan = PlanOptions { mode, packet_len, frames_by, ..PlanOptions::default() };
        let Some(deployment) = deploy_at(forms, at, plan) else { return };
        let what = format!("{names:?} at {at:?}, {plan:?}");
        let deployment = deployment.unwrap_or_else(|why| panic!("{what}: {why}"));
        let settings = Settings { lanes, batch_packets, ..Settings::default() };
        assert!(looks(deployment, settings, forms, inputs, &what) > 0, "{what}");
    }
}

#[test]
fn no_field_of_any_function_is_stale() {
    for form in FORMS.iter().chain(NARROW).chain(&ESN).filter(|form| has_kernels(form)) {
        let inputs = traffic(&[*form], Talk::new(71, 60, 1400).take(300), 73, 15);
        each_way(&[*form], &[1], &inputs);
    }
}

#[test]
fn no_field_is_stale_between_functions_on_one_device_or_two() {
    for (names, at) in [
        (&["digest-count", "router-plain", "digest-count"][..], [1, 0, 1, 0, 0]),
        (&["digest-count", "nat", "router-plain", "digest-count"], [1, 0, 1, 1, 0]),
        (&["nat", "firewall", "digest-count", "router-plain", "router-plain"], [1, 0, 1, 0, 1]),
        (&["digest-count", "open-pieces", "router-plain", "digest-count"], [1, 1, 0, 1, 0]),
        (&["digest-count", "router-plain", "nat", "digest-count"], [1, 1, 2, 1, 0]),
        (&["digest-count", "open-pieces", "router-plain"], [1, 2, 1, 0, 0]),
        (
            &["digest-count", "router-plain", "firewall", "router-plain", "digest-tag"],
            [1, 1, 3, 1, 2],
        ),
        (&["open", "router-plain", "digest-count"], [1, 0, 1, 0, 0]),
        (&["open", "digest-count"], [1, 1, 0, 0, 0]),
        (&["open", "digest-tag", "router-plain"], [1, 1, 1, 0, 0]),
    ] {
        let forms = forms(names);
        let opens = names.iter().position(|name| *name == "open-pieces").unwrap_or(0);
        let inputs = traffic(&forms[opens..], Talk::new(71, 60, 1400).take(400), 73, 15);
        each_way(&forms, &at[..forms.len()], &inputs);
    }
}

/// Up to five functions in any order, and where each is.
pub(crate) fn chains() -> impl Strategy<Value = (Vec<Form>, Vec<usize>)> {
    let form = (0..FORMS.len() + NARROW.len()).prop_map(|at| FORMS.iter().chain(NARROW).nth(at));
    let form = form.prop_map(|form| *form.expect("a form"));
    let place = prop_oneof![2 => Just(0usize), 3 => Just(1), 2 => Just(2), 1 => Just(3)];
    (prop::collection::vec(form, 1..6), prop::collection::vec(place, 5))
}

pub(crate) fn plans() -> impl Strategy<Value = PlanOptions> {
    let mode = (0..Mode::ALL.len()).prop_map(|at| Mode::ALL[at]);
    let frames_by = (0..FramesBy::ALL.len()).prop_map(|at| FramesBy::ALL[at]);
    (mode, 64u32..1500, any::<bool>(), frames_by).prop_map(
        |(mode, packet_len, recoverable, frames_by)| PlanOptions {
            mode,
            packet_len,
            recoverable,
            frames_by,
            ..PlanOptions::default()
        },
    )
}

proptest! {
    #![proptest_config(config(12, 20))]

    #[test]
    fn no_field_of_a_random_chain_is_stale(
        (forms, at) in chains(),
        plan in plans(),
        lanes in 1usize..4,
        batch_packets in 1usize..300,
        seed in any::<u64>(),
    ) {
        let Some(Ok(deployment)) = deploy_at(&forms, &at, plan) else { return Ok(()) };
        let inputs = traffic(&forms, Talk::new(seed, 40, 1400).take(300), seed, 15);
        let settings = Settings { lanes, batch_packets, ..Settings::default() };
        looks(deployment, settings, &forms, &inputs, &format!("{forms:?} at {at:?}, {plan:?}"));
    }
}
