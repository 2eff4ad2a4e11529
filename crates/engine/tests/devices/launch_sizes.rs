//! Launches that change their size and deadline while a chain runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use warpline_engine::{Deployment, LaunchOptions, Settings};

use crate::common::real::{forms, run_forms, traffic};
use crate::common::run::{assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::placed::{deploy_on, host};
use crate::same::PATIENCE;

/// Launches that only the end of the input closes.
fn large() -> LaunchOptions {
    let delay = Duration::from_secs(1000);
    LaunchOptions { bytes: 64 << 20, delay, timeout: PATIENCE, ..LaunchOptions::default() }
}

#[test]
fn launches_are_closed_at_the_size_and_the_delay_that_are_set() {
    let Some(device) = host() else { return };
    let forms = forms(&["digest-count"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 1400).take(640), 73, 0);
    let settings = Settings { batch_packets: 64, ..Settings::default() };
    let reference = run_forms(&forms, settings, &inputs);
    let launches = |set: Option<(usize, Duration)>| {
        let deployment = deploy_on(&forms, &device, large());
        set.iter().for_each(|&(bytes, delay)| deployment.set_launches(0, bytes, delay));
        assert_eq!(deployment.launches_set(0), set);
        let outcome = run_whole(deployment, settings, &inputs);
        assert_same(&reference.summary(), &outcome.summary(), &format!("{set:?}"));
        outcome.report.part.transfers.launches
    };
    let (long, whole) = (Duration::from_secs(1000), launches(None));
    assert!(launches(Some((1, long))) >= 10, "one for each batch");
    assert!(launches(Some((usize::MAX, Duration::ZERO))) >= whole, "those at hand together");
    assert_eq!(launches(Some((usize::MAX, long))), whole, "no launch is above its first size");
}

#[test]
fn packets_are_the_same_while_launches_change() {
    let Some(device) = host() else { return };
    let forms = forms(&["nat", "digest-count", "firewall", "router"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 1400).take(3000), 73, 15);
    let reference = run_forms(&forms, Settings::default(), &inputs);
    let deployment = Arc::new(deploy_on(&forms, &device, large()));
    let is_over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| change(&deployment, &is_over));
        let settings = Settings { lanes: 2, batch_packets: 64, slabs: 6, ..Settings::default() };
        let outcome = run_whole(Arc::clone(&deployment), settings, &inputs);
        is_over.store(true, Ordering::Release);
        outcome
    });
    assert!(reported(&outcome).is_empty(), "{:?}", reported(&outcome));
    assert_same(&reference.summary(), &outcome.summary(), "changing launches");
}

fn change(deployment: &Deployment, is_over: &AtomicBool) {
    for (bytes, delay_us) in [(1, 0), (64 << 20, 50), (5_000, 0), (30_000, 200)].iter().cycle() {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        for position in 0..deployment.sites().len() {
            deployment.set_launches(position, *bytes, Duration::from_micros(*delay_us));
        }
        thread::sleep(Duration::from_micros(100));
    }
}
