//! Backpressure between stages on a device that falls behind: no packet is lost with it. Without
//! it full queues drop, counted at the stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpline_device::Device;
use warpline_device::fake::{Fake, Fate};
use warpline_engine::{LaunchOptions, OnDevice, PressureOptions, Settings, Streams};
use warpline_packet::kernel_layout;
use warpline_sched::{EdgeId, NodeId, PauseMode, Watermarks};

use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, assert_same, check_balance, run_whole};
use crate::common::talk::Talk;
use crate::scripted::leave_all;

/// Ends the clock's thread, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs two counters, each with its own stage. The second is on a device whose launches take
/// `takes_us` microseconds.
fn run(takes_us: u64, settings: Settings, packets: usize) -> (Outcome, Outcome) {
    run_on(takes_us, settings, packets, |place| (place == 1).then(launches))
}

fn launches() -> LaunchOptions {
    LaunchOptions {
        bytes: 8_000,
        streams: Streams::Count(2),
        delay: Duration::from_micros(200),
        timeout: Duration::from_secs(60),
        ..LaunchOptions::default()
    }
}

/// The same with each counter on the device for which there are launches.
fn run_on(
    takes_us: u64,
    settings: Settings,
    packets: usize,
    launches: impl Fn(usize) -> Option<LaunchOptions>,
) -> (Outcome, Outcome) {
    let forms = forms(&["digest-count", "digest-count"]);
    let inputs = traffic(&forms, Talk::new(3, 40, 600).take(packets), 5, 10);
    let reference = run_forms(&forms, Settings::default(), &inputs);
    let layout = kernel_layout();
    let left = layout.iter().find(|(name, _)| name == "COLUMN_LEFT").expect("a column").1 as usize;
    let fake = Fake::new(move |_| Fate::done_after(takes_us * 1_000))
        .with_kernel("digest_payloads", leave_all(left));
    let device: Arc<dyn Device> = Arc::new(fake.clone());
    let on = |place| {
        let launches = launches(place)?;
        Some(OnDevice { device: Arc::clone(&device), launches, is_required: true })
    };
    let deployment = try_deploy_on(&forms, &[1, 1], on).unwrap_or_else(|why| panic!("{why}"));
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fake.advance(20_000);
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        run_whole(deployment, settings, &inputs)
    });
    (reference, outcome)
}

fn settings(pressure: PressureOptions) -> Settings {
    Settings { batch_packets: 32, slabs: 2, pressure, ..Settings::default() }
}

#[test]
fn a_slow_stage_pauses_the_stage_before_it_and_loses_nothing() {
    let marks = Watermarks::checked(1_500, 1_000, 6_000).expect("marks");
    let pressure = PressureOptions { mode: PauseMode::On(marks), ..PressureOptions::default() };
    let (reference, outcome) = run(400, settings(pressure), 1_200);
    check_balance(&outcome);
    assert_same(&reference.summary(), &outcome.summary(), "with backpressure");
    let part = &outcome.report.part;
    assert_eq!(part.packets.overload, 0);
    let evidence = part.pressure.as_ref().expect("evidence");
    assert!(evidence.nodes[1].pauses > 0, "{evidence:?}");
    assert_eq!(evidence.bottleneck(), Some(NodeId(2)), "{evidence:?}");
    let peak = evidence.edges[EdgeId(1).0].peak;
    // The mark, and a batch of 32 packets beyond it.
    assert!((1_500..6_000).contains(&peak), "{peak}");
}

/// The queue before a first stage on a device holds `queue_batches` before it pauses ingress,
/// however small the launches are. Ingress fills it once more until then.
#[test]
fn the_queue_of_a_first_stage_on_a_device_pauses_ingress_when_it_is_full() {
    let settings = settings(PressureOptions::default());
    let (reference, outcome) = run_on(400, settings, 1_200, |place| (place == 0).then(launches));
    assert_same(&reference.summary(), &outcome.summary(), "a first stage on a device");
    let evidence = outcome.report.part.pressure.as_ref().expect("evidence");
    // 2.8 launches are 8 batches of 32 packets, so a batch is 0.35 of a launch at most.
    let peak = evidence.edges[EdgeId(0).0].peak;
    assert!(peak < 2 * (2_800 + 351), "{peak}: a launch of 8000 bytes has a few packets");
}

/// Its stage has room for hundreds of the shortest packets, and many long ones would wait as long
/// as that.
#[test]
fn the_room_of_a_stage_on_a_device_does_not_raise_the_mark_of_its_queue() {
    let forms = forms(&["digest-count"]);
    let device: Arc<dyn Device> = Arc::new(Fake::new(|_| Fate::done_after(1)));
    let on = |_| {
        let launches = LaunchOptions { bytes: 1 << 20, ..launches() };
        Some(OnDevice { device: Arc::clone(&device), launches, is_required: true })
    };
    let deployment = try_deploy_on(&forms, &[1], on).unwrap_or_else(|why| panic!("{why}"));
    let asked = settings(PressureOptions::default());
    let own = asked.fit(&deployment);
    assert!(own.batches(&deployment) > 20 * asked.queue_batches, "it has room");
    assert_eq!(own.first_launch_packets(), asked.first_launch_packets());
}

#[test]
fn without_backpressure_a_full_queue_drops_at_the_slow_stage() {
    let pressure = PressureOptions { mode: PauseMode::Off, queue: 2_000, downstream: 0 };
    let (_, outcome) = run(400, settings(pressure), 1_200);
    check_balance(&outcome);
    let part = &outcome.report.part;
    let [first, second] = part.stages[..] else { panic!("two stages") };
    assert_eq!(first.drops, 0);
    assert!(second.drops > 0, "{second:?}");
    assert_eq!(part.packets.overload, second.drops);
    assert_eq!((first.wasted, second.wasted), (second.drops, 0));
    assert!(outcome.sent.len() as u64 + second.drops <= part.packets.read);
}
