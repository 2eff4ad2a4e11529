//! Deadlines of launches, on devices whose time the test lets pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpline_device::Device;
use warpline_device::fake::{Fake, Fate};
use warpline_engine::{LaunchOptions, OnDevice, Settings, Streams};
use warpline_packet::kernel_layout;

use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::scripted::leave_all;

const BATCHES: u64 = 6;
const BATCH_PACKETS: usize = 32;
const PACKETS: usize = 100;
const LATER_DELAY: Duration = Duration::from_secs(1);

/// The deadline of a later stage counts from the arrival at that stage. Here each packet is older
/// than the deadline when it comes, and packets come one batch after the other.
#[test]
fn a_later_stage_collects_packets_that_an_earlier_one_had_for_long() {
    let forms = forms(&["digest-count", "digest-count"]);
    let inputs = traffic(&forms, Talk::new(3, 40, 600).take(PACKETS), 5, 10);
    let settings = Settings { batch_packets: BATCH_PACKETS, slabs: 16, ..Settings::default() };
    let reference = run_forms(&forms, settings, &inputs);
    let layout = kernel_layout();
    let left = layout.iter().find(|(name, _)| name == "COLUMN_LEFT").expect("a column").1 as usize;
    let passes = Arc::new(AtomicBool::new(false));
    let is_later = Arc::clone(&passes);
    // Of those submitted before time passes, each work takes a millisecond longer than the last.
    let takes_ns =
        move |work: u64| if is_later.load(Ordering::Acquire) { 0 } else { work * 1_000_000 };
    let fake = Fake::new(move |work| Fate::done_after(takes_ns(work)))
        .with_kernel("digest_payloads", leave_all(left));
    let device: Arc<dyn Device> = Arc::new(fake.clone());
    let launches = |place| LaunchOptions {
        bytes: if place == 0 { 1 } else { 64 << 20 },
        streams: Streams::Count(8),
        delay: if place == 0 { Duration::ZERO } else { LATER_DELAY },
        timeout: Duration::from_secs(600),
        ..LaunchOptions::default()
    };
    let on = |place: usize| {
        Some(OnDevice { device: Arc::clone(&device), launches: launches(place), is_required: true })
    };
    let deployment = try_deploy_on(&forms, &[1, 1], on).unwrap_or_else(|why| panic!("{why}"));
    let is_over = AtomicBool::new(false);
    let (outcome, passed) = thread::scope(|scope| {
        let clock = scope.spawn(|| {
            thread::sleep(LATER_DELAY + LATER_DELAY / 3);
            let from = Instant::now();
            passes.store(true, Ordering::Release);
            while !is_over.load(Ordering::Acquire) {
                fake.advance(1_000_000);
                thread::sleep(Duration::from_millis(1));
            }
            from.elapsed()
        });
        let outcome = run_whole(deployment, settings, &inputs);
        is_over.store(true, Ordering::Release);
        (outcome, clock.join().expect("a clock"))
    });
    assert!(reported(&outcome).is_empty(), "{:?}", reported(&outcome));
    assert_same(&reference.summary(), &outcome.summary(), "two stages on devices");
    let functions = &outcome.report.part.functions;
    let [first, second] = [0, 1].map(|place: usize| functions[place].transfers.launches);
    // One for the packets of a work that needed no time, one for those left at the end, and one
    // for each delay that passed on a slow machine.
    let most = 2 + u64::try_from(passed.as_nanos() / LATER_DELAY.as_nanos()).expect("a short test");
    assert!(first >= BATCHES && (1..=most).contains(&second), "{first} launches, then {second}");
}
