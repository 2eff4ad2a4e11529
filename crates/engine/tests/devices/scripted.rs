//! Launches on a scripted device, whose time is the test's: completions in any order, delays, and
//! time limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use warpline_device::Device;
use warpline_device::fake::{Fake, Fate, Value};
use warpline_engine::{LaunchOptions, Settings, Streams};
use warpline_packet::{LaunchRows, kernel_layout};

use crate::common::forms::Form;
use crate::common::random::config;
use crate::common::real::{forms, run_forms, traffic};
use crate::common::run::{assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::placed::deploy_on;

/// A kernel that leaves each packet to the CPU; `left` is the bytes of a row before the column that
/// marks it.
pub(crate) fn leave_all(left: usize) -> impl Fn(u32, &mut [Value]) + Send + Sync {
    move |_, values| {
        let Value::Number(place) = values[values.len() - 1] else { return };
        let Value::Number(count) = values[values.len() - 2] else { return };
        let [_, Value::Writes(table), ..] = values else { return };
        let count = count as usize;
        let column = left * LaunchRows::rows_for(count);
        table[column..column + count].fill(place as u8 + 1);
    }
}

/// Runs `forms` on a device whose works take `takes_ns`, while time passes; the result is that of
/// the CPU.
fn run_scripted(
    forms: &[Form],
    kernels: &[&'static str],
    settings: Settings,
    launches: LaunchOptions,
    mut takes_ns: impl FnMut(u64) -> u64 + Send + 'static,
) {
    let inputs = traffic(forms, Talk::new(3, 40, 600).take(800), 5, 10);
    let reference = run_forms(forms, settings, &inputs);
    let layout = kernel_layout();
    let left = layout.iter().find(|(name, _)| name == "COLUMN_LEFT").expect("a column").1 as usize;
    let mut fake = Fake::new(move |number| Fate::done_after(takes_ns(number)));
    for name in kernels {
        fake = fake.with_kernel(name, leave_all(left));
    }
    let device: Arc<dyn Device> = Arc::new(fake.clone());
    let deployment = deploy_on(forms, &device, launches);
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fake.advance(20_000);
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        let outcome = run_whole(deployment, settings, &inputs);
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    assert!(reported(&outcome).is_empty(), "{:?}", reported(&outcome));
    assert!(outcome.report.part.transfers.launches > 5, "{:?}", outcome.report.part.transfers);
    assert_same(&reference.summary(), &outcome.summary(), &format!("{settings:?} {launches:?}"));
}

proptest! {
    #![proptest_config(config(8, 10))]

    /// Launches that take anything from nothing to long are complete in another order than they
    /// were started, and go on in that.
    #[test]
    fn launches_complete_in_any_order_and_go_on_in_theirs(
        times in prop::collection::vec(prop_oneof![Just(0u64), 1u64..5_000, Just(40_000u64)],
            7..13),
        (lanes, batch, streams) in (1usize..4, 16usize..100, 1usize..9),
        bytes in prop_oneof![Just(1usize), Just(8000)],
    ) {
        let launches = LaunchOptions {
            bytes,
            streams: Streams::Count(streams),
            delay: Duration::from_micros(200),
            timeout: Duration::from_secs(60),
            ..LaunchOptions::default()
        };
        // The scripted device copies its whole memory for each kernel: let it be small.
        let settings =
            Settings { lanes, batch_packets: batch, slabs: 2, ..Settings::default() };
        let takes = move |number: u64| times[(number as usize) % times.len()];
        run_scripted(&forms(&["digest-count"]), &["digest_payloads"], settings, launches, takes);
    }
}
