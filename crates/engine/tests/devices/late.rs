//! Launches that the engine gives up and the device still completes later. They may change no
//! memory that is in use elsewhere. No other code may change memory that they use in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use warpline_device::{Device, Done, Refused, Step, Stream, Work, Wrapped};
use warpline_engine::{DEVICE_LOST, LaunchOptions, OnDevice, Settings};

use crate::common::forms::Form;
use crate::common::frames::Input;
use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::failures::{launches, loading, loading_in_place};
use crate::placed::{devices, host};

/// A stream that begins works later, by their numbers over all streams.
struct LateStream {
    jobs: Sender<(Work, Duration)>,
    done: Receiver<Done>,
    in_flight: usize,
    submitted: Arc<AtomicU64>,
    delays: Arc<[(u64, Duration)]>,
}

impl LateStream {
    /// `touched` counts works whose memory in place was another when they began than when they were
    /// submitted.
    fn new(
        mut inner: Box<dyn Stream>,
        submitted: Arc<AtomicU64>,
        delays: Arc<[(u64, Duration)]>,
        touched: Arc<AtomicU64>,
    ) -> Self {
        let (jobs, queue) = channel::<(Work, Duration)>();
        let (back, done) = channel();
        std::thread::spawn(move || {
            while let Ok((work, delay)) = queue.recv() {
                let then = delay.is_zero().then(Vec::new).unwrap_or_else(|| in_place(&work));
                std::thread::sleep(delay);
                if !delay.is_zero() && then != in_place(&work) {
                    touched.fetch_add(1, Ordering::Relaxed);
                }
                inner.submit(work).expect("a work that is taken");
                let _ = back.send(inner.wait().expect("a work that ends"));
            }
        });
        Self { jobs, done, in_flight: 0, submitted, delays }
    }
}

impl Stream for LateStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        let number = self.submitted.fetch_add(1, Ordering::Relaxed);
        let delay = self.delays.iter().find(|(own, _)| *own == number);
        let delay = delay.map_or(Duration::ZERO, |(_, delay)| *delay);
        self.jobs.send((work, delay)).expect("a thread that waits");
        self.in_flight += 1;
        Ok(())
    }
    fn poll(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.in_flight -= 1;
        Some(done)
    }
    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// The pieces of work without copies.
fn in_place(work: &Work) -> Vec<Vec<u8>> {
    let copies = work.steps.iter().any(|step| !matches!(step, Step::Call(_)));
    if copies { Vec::new() } else { work.pieces.iter().map(|piece| piece.to_vec()).collect() }
}

/// The host's device, as it is and apart.
fn hosts() -> impl Iterator<Item = Arc<dyn Device>> {
    devices().into_iter().filter(|device| device.description().id.starts_with("host"))
}

/// Runs `forms`, the first on `inner` made late by `delays`, the others on the same device or on
/// `behind`.
fn run_late(
    [inner, behind]: [&Arc<dyn Device>; 2],
    forms: &[Form],
    delays: &[(u64, u64)],
    (settings, launches): (Settings, LaunchOptions),
    inputs: &[Input],
) -> Outcome {
    let is_alone = Arc::ptr_eq(inner, behind);
    let own = if is_alone { forms } else { &forms[..1] };
    let first = match inner.description().shares_host_memory {
        true => loading_in_place(own),
        false => loading(own),
    };
    let late = |&(number, ms)| (first + number, Duration::from_millis(ms));
    let delays: Arc<[_]> = delays.iter().map(late).collect();
    let touched: Arc<AtomicU64> = Arc::default();
    let (submitted, counted) = (Arc::<AtomicU64>::default(), Arc::clone(&touched));
    let device = Wrapped::new(inner).with_streams(move |inner| {
        let (submitted, delays) = (Arc::clone(&submitted), Arc::clone(&delays));
        Box::new(LateStream::new(inner, submitted, delays, Arc::clone(&counted)))
    });
    let device = device.into_device();
    let on = |place: usize| {
        let device = Arc::clone(if place == 0 || is_alone { &device } else { behind });
        Some(OnDevice { device, launches, is_required: true })
    };
    let deployment = try_deploy_on(forms, &[], on).expect("a chain");
    let outcome = run_whole(deployment, settings, inputs);
    // Those that were given up begin about now.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(touched.load(Ordering::Relaxed), 0, "what was given up was used by others");
    outcome
}

/// The first work of the first stage is given up. The packets go on to another stage: on the same
/// device, whose copy back would be late enough to meet what the first does then, or on another in
/// the same memory.
#[test]
fn an_abandoned_launch_changes_nothing_when_it_completes() {
    let all: Vec<_> = hosts().collect();
    let pairs = all.iter().flat_map(|inner| all.iter().map(move |behind| [inner, behind]));
    for pair in pairs {
        let forms = forms(&["digest-count", "decompress", "router-plain"]);
        let inputs = traffic(&forms, Talk::new(5, 4, 300).take(60), 7, 0);
        let settings = Settings { lanes: 1, ..Settings::default() };
        let reference = run_forms(&forms, settings, &inputs).summary();
        let launches =
            LaunchOptions { timeout: Duration::from_millis(300), ..LaunchOptions::default() };
        let delays = [(0, 450), (2, 250)];
        let outcome = run_late(pair, &forms, &delays, (settings, launches), &inputs);
        assert_eq!(reported(&outcome).len(), 1, "{:?}", reported(&outcome));
        assert_same(&reference, &outcome.summary(), "late");
    }
}

/// Memory that a given-up launch has in place is not used again, though many packets follow:
/// neither where it reads nor where it writes frames, whose packets are lost.
#[test]
fn an_abandoned_launch_in_place_keeps_its_memory() {
    let Some(inner) = host() else { return };
    for name in ["digest-count", "router-plain"] {
        let forms = forms(&[name]);
        let inputs = traffic(&forms, Talk::new(5, 40, 900).take(15_000), 7, 0);
        let settings = Settings { lanes: 1, batch_packets: 16, slabs: 2, ..Settings::default() };
        let reference = run_forms(&forms, settings, &inputs);
        let outcome = run_late([&inner; 2], &forms, &[(1, 600)], (settings, launches()), &inputs);
        let drops = &outcome.report.part.functions[0].drops;
        let lost = drops[usize::from(DEVICE_LOST.0)] as usize;
        assert_eq!(lost > 0, name == "router-plain", "{name}: {lost} lost");
        assert!(lost <= 16 && reported(&outcome).len() == 1, "{name}: {lost} lost");
        let (sent, all) = (outcome.sent.len(), reference.sent.len());
        assert!((all..=all + lost).contains(&(sent + lost)), "{name}: {sent} of {all} sent");
    }
}
