//! I7: for every failure of a device, each packet is processed once: on the CPU from the host's
//! copy, or dropped as lost where the device had the only current copy. The operator gets one
//! warning.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpline_device::faulty::{Fault, Faulty};
use warpline_device::{Device, Failure, Step, Work};
use warpline_engine::{
    Control, DEVICE_LOST, FramesBy, LaunchOptions, OnDevice, PlanOptions, Ports, Settings,
    StartError, Streams, run,
};
use warpline_sched::Mode;

use crate::common::forms::Form;
use crate::common::frames::Input;
use crate::common::ports::{Frames, SentFrames};
use crate::common::real::{deploy_forms, forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::placed::{copies, deploy_on, devices, host};
use crate::same::PATIENCE;
use crate::stub::is_over_stubs;

/// Launches of one batch each, which are given up soon.
pub(crate) fn launches() -> LaunchOptions {
    LaunchOptions {
        bytes: 1,
        delay: Duration::ZERO,
        streams: Streams::Count(3),
        timeout: Duration::from_millis(150),
        ..LaunchOptions::default()
    }
}

fn settings() -> Settings {
    Settings { lanes: 2, batch_packets: 64, slabs: 6, ..Settings::default() }
}

fn input_for(forms: &[Form]) -> Vec<Input> {
    traffic(forms, Talk::new(5, 40, 900).take(2000), 7, 15)
}

fn lost() -> Failure {
    Failure::Lost("it fell off the bus".into())
}

/// The work of launches that fails first. All later works fail too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// The work of this number.
    Work(u64),
    /// This one of the works that write frames in host memory.
    Frames(u64),
}

/// Whether a work of a launch writes frames of a function without findings in host memory. In place
/// each does. On other devices the first work of a launch runs kernels and copies the table back.
/// The last one either copies frames back, or runs the kernel that does.
fn writes_frames(work: &Work, is_copied: bool) -> bool {
    let calls = work.steps.iter().any(|step| matches!(step, Step::Call(_)));
    let is_back = |step: &Step| matches!(step, Step::CopyOut { .. } | Step::RowsOut { .. });
    !is_copied || calls != work.steps.iter().any(is_back)
}

/// A run in which every work from `first` on suffers `fault`, and whether one did. A lane on a busy
/// machine may give up a device that should hang before that.
fn run_faulty(
    device: &Arc<dyn Device>,
    forms: &[Form],
    inputs: &[Input],
    (first, fault): (First, &Fault),
    frames_by: FramesBy,
) -> (Outcome, bool) {
    let is_carried = frames_by == FramesBy::Kernels && !device.description().shares_host_memory;
    let (loaded, fault) = (loading(forms) + u64::from(is_carried), fault.clone());
    let timeout = if matches!(fault, Fault::Hang) { launches().timeout } else { PATIENCE };
    let (is_copied, mut with_frames) = (copies(device), 0);
    let has_failed = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&has_failed);
    let script = move |number: u64, work: &Work| {
        let number = number.checked_sub(loaded)?;
        with_frames += u64::from(writes_frames(work, is_copied));
        let is_reached = match first {
            First::Work(first) => number >= first,
            First::Frames(first) => with_frames > first,
        };
        (fails.fetch_or(is_reached, Ordering::Relaxed) || is_reached).then(|| fault.clone())
    };
    let device: Arc<dyn Device> = Arc::new(Faulty::by_work(Arc::clone(device), script));
    let mut deployment = deploy_on(forms, &device, LaunchOptions { timeout, ..launches() });
    // Whole frames: of fields alone nothing can be lost.
    deployment.set_plan(PlanOptions { mode: Mode::ShareAll, frames_by, ..PlanOptions::default() });
    let outcome = run_whole(deployment, settings(), inputs);
    (outcome, has_failed.load(Ordering::Relaxed))
}

/// Every device, every fault, and from which work on; over stubs every other case.
fn each_case(firsts: &[First], mut case: impl FnMut(&Arc<dyn Device>, &str, &Fault, First)) {
    for device in devices() {
        let cases = faults()
            .into_iter()
            .flat_map(|fault| firsts.iter().map(move |&at| (fault.clone(), at)));
        for ((what, fault), first) in cases.step_by(if is_over_stubs() { 2 } else { 1 }) {
            let what = format!("{what} on {} from {first:?} on", device.description().id);
            case(&device, &what, &fault, first);
        }
    }
}

/// Works before the first launch on a device that copies, to which each form has a stage of its
/// own: those of [`loading_in_place`], and the kernel that writes tables without a packet.
pub(crate) fn loading(forms: &[Form]) -> u64 {
    forms.iter().filter_map(tables).map(|tables| tables + 2).sum()
}

/// Works before the first launch on a device that copies nothing: a table each, and the kernels
/// without a packet.
pub(crate) fn loading_in_place(forms: &[Form]) -> u64 {
    forms.iter().filter_map(tables).map(|tables| tables + 1).sum()
}

/// The tables of a form's kernels. They are large, so they are counted once.
fn tables(form: &Form) -> Option<u64> {
    static COUNTED: Mutex<BTreeMap<[&str; 2], Option<u64>>> = Mutex::new(BTreeMap::new());
    let count = || {
        let deployment = deploy_forms(&[*form]);
        let kernels = deployment.chain().instances[0].function.kernels();
        kernels.map(|kernels| kernels.tables().len() as u64)
    };
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    *counted.entry([form.function, form.table]).or_insert_with(count)
}

fn faults() -> Vec<(&'static str, Fault)> {
    vec![
        ("refused", Fault::Refuse(Failure::Work("no".into()))),
        ("out of memory", Fault::Refuse(Failure::OutOfMemory { wanted: 1, free: None })),
        ("failed", Fault::Fail(Failure::Work("no".into()))),
        ("lost", Fault::Fail(lost())),
        ("hung", Fault::Hang),
    ]
}

/// A function that writes no frames: nothing can be lost, so the run is as any other.
#[test]
fn the_cpu_repeats_a_launch_that_failed_before_any_write() {
    let forms = forms(&["digest-count"]);
    let inputs = input_for(&forms);
    let reference = run_forms(&forms, settings(), &inputs).summary();
    each_case(&[0, 1, 10].map(First::Work), |device, what, fault, first| {
        let (outcome, _) = run_faulty(device, &forms, &inputs, (first, fault), FramesBy::Copies);
        assert_same(&reference, &outcome.summary(), what);
        let reported = reported(&outcome);
        assert!((1..=2).contains(&reported.len()), "{what}: once a lane: {reported:?}");
    });
}

/// Refused works leave frames alone. The packets of a started one are lost if it writes frames.
#[test]
fn frames_half_written_by_a_failed_device_are_lost_and_counted() {
    FramesBy::ALL.into_iter().for_each(failure_while_frames_are_written_by);
}

fn failure_while_frames_are_written_by(frames_by: FramesBy) {
    let forms = forms(&["router-plain"]);
    let inputs = input_for(&forms);
    let reference = run_forms(&forms, settings(), &inputs);
    let firsts = [First::Work(0), First::Work(9), First::Frames(0), First::Frames(3)];
    each_case(&firsts, |device, what, fault, first| {
        if frames_by == FramesBy::Kernels && device.description().shares_host_memory {
            return;
        }
        let what = &format!("{what}, by {}", frames_by.name());
        let (outcome, has_failed) = run_faulty(device, &forms, &inputs, (first, fault), frames_by);
        assert!(has_failed || matches!(fault, Fault::Hang), "{what}: it did not fail");
        let lost = outcome.report.part.functions[0].drops[usize::from(DEVICE_LOST.0)];
        // At most what was under way: three launches of 64 packets on each of two lanes.
        assert!(lost <= 2 * 3 * 64, "{what}: {lost} lost");
        let all = reference.sent.len() as u64;
        assert!(outcome.sent.len() as u64 + lost >= all, "{what}: nothing else is missing");
        let mut expected = reference.sent.iter();
        for packet in &outcome.sent {
            assert!(expected.any(|other| other == packet), "{what}: in order, none twice");
        }
        let is_started = !matches!(fault, Fault::Refuse(_));
        match first {
            First::Frames(_) if has_failed => {
                assert_eq!(lost > 0, is_started, "{what}: {lost} lost");
            }
            First::Work(0) if copies(device) => assert_eq!(lost, 0, "{what}: before any frame"),
            _ => assert!(lost == 0 || is_started, "{what}: {lost} lost"),
        }
    });
}

#[test]
fn a_device_that_can_not_be_used_is_reported_at_the_start() {
    let Some(host) = host() else { return };
    let forms = forms(&["digest-count"]);
    let start_with = |device: Faulty, launches| {
        let device: Arc<dyn Device> = Arc::new(device);
        let deployment = deploy_on(&forms, &device, launches);
        let ports = Ports::Shared(Box::new(Frames::default()), Box::new(SentFrames::default()));
        run(&deployment, &settings(), ports, &Control::default()).expect_err("it can't start")
    };
    let start = |device| start_with(device, launches());
    let compile = Failure::Compile { log: "digest.cl:7: no".into() };
    let broken = Faulty::new(Arc::clone(&host), |_| None);
    broken.fail_compiling(compile.clone());
    assert_eq!(start(broken), StartError::Device("0-digest-count".into(), compile));
    let plain = Faulty::new(Arc::clone(&host), |_| None);
    let none = Failure::Refused("host has no graphs".into());
    let graphs = start_with(plain, LaunchOptions { graphs: true, ..launches() });
    assert_eq!(graphs, StartError::Device("0-digest-count".into(), none));
    let small = Faulty::new(host, |_| None);
    let none = Failure::OutOfMemory { wanted: 5, free: Some(1) };
    small.fail_allocating(none.clone());
    assert_eq!(start(small), StartError::Device("0-digest-count".into(), none));
}

#[test]
fn a_device_that_nobody_insists_on_is_left_for_the_cpu() {
    let Some(host) = host() else { return };
    let forms = forms(&["digest-count"]);
    let inputs = input_for(&forms);
    let broken = Faulty::new(host, |_| None);
    broken.fail_compiling(Failure::Compile { log: "digest.cl:7: no".into() });
    let device: Arc<dyn Device> = Arc::new(broken);
    let on = |_| {
        let (device, launches) = (Arc::clone(&device), launches());
        Some(OnDevice { device, launches, is_required: false })
    };
    let deployment = try_deploy_on(&forms, &[], on).expect("a chain");
    let outcome = run_whole(deployment, settings(), &inputs);
    let reference = run_forms(&forms, settings(), &inputs);
    assert_same(&reference.summary(), &outcome.summary(), "on the CPU");
    let reported = &outcome.report.part.warnings[0];
    assert!(reported.starts_with("0-digest-count runs on the CPU: the kernel text"), "{reported}");
}
