//! Figure 4 (a) to (d) of `Pythia` in virtual time. Rates are those of its tables I and II; the
//! power of devices is assumed, since the paper gives none in numbers.

use super::super::*;
use super::{LEN, SECOND, chain, figures, observed};
use crate::work_profile::Power;

const DPI: usize = 0;
const AES: usize = 1;
const UHD: usize = 1;
const GTX: usize = 2;

/// Device, function, Gb/s alone; Gb/s beside one DPI and one AES. Launches of 4,096 packets.
const ROWS: [(usize, usize, f64, [f64; 2]); 4] = [
    (UHD, DPI, 27.6, [13.8, 11.3]),
    (UHD, AES, 11.6, [11.3, 6.6]),
    (GTX, DPI, 18.0, [13.1, 12.9]),
    (GTX, AES, 18.4, [13.3, 13.2]),
];

/// Assumed: idle and busy watts.
const POWER: [(f64, f64); 3] = [(20.0, 95.0), (1.0, 15.0), (55.0, 250.0)];

/// The figure's devices are the GPUs, so no function was measured on the CPU.
fn monitor(policy: PlacementPolicy, functions: &[usize]) -> Monitor {
    let mut profile = WorkProfile::new(&["dpi", "aes"], &["i7-8700K", "UHD 630", "GTX 1080 Ti"]);
    for (device, (idle, busy)) in POWER.into_iter().enumerate() {
        profile.set_power(device, Power { idle_w: Some(idle), busy_w: Some(busy) });
    }
    for (device, function, alone_gbps, beside) in ROWS {
        let at = |gbps| Measurement::alone((function, device), 4096, LEN, figures(gbps, 10.0));
        let pairs = [at(beside[0]).beside(DPI, 1), at(beside[1]).beside(AES, 1)];
        for one in [at(alone_gbps), pairs[0], pairs[1]] {
            profile.merge(&one).expect("sound");
        }
    }
    let limits = PlacementLimits::default();
    let chains = functions.iter().map(|&function| chain(function, 3)).collect();
    Monitor::new(MonitorSettings::default(), limits, policy, profile, chains)
}

/// The devices in use.
fn devices(monitor: &Monitor) -> Vec<usize> {
    let sites = monitor.placement().expect("placed").sites.iter().flatten();
    let mut devices: Vec<usize> = sites.map(|site| site.device).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// One second with so many Gb/s in all, divided evenly.
fn second(monitor: &mut Monitor, chains: usize, at: u64, gbps: f64) -> Vec<usize> {
    let each = vec![observed(gbps / chains as f64); chains];
    monitor.handle_tick(&each, &[], at * SECOND).expect("a placement");
    devices(monitor)
}

/// The load of the figure: 10, 20 and 40 Gb/s, then 10 again.
fn fluctuating(at: u64) -> f64 {
    match at {
        0..20 => 10.0,
        20..30 => 20.0,
        30..40 => 40.0,
        _ => 10.0,
    }
}

fn follows_the_load(functions: &[usize]) {
    let mut monitor = monitor(PlacementPolicy::Energy, functions);
    for at in 0..60 {
        let devices = second(&mut monitor, 2, at, fluctuating(at));
        // From 20 to 40 Gb/s the discrete GPU starts at the second tick. It stops at the second
        // tick after ten seconds without a higher load.
        let expected: &[usize] = if (31..50).contains(&at) { &[UHD, GTX] } else { &[UHD] };
        assert_eq!(devices, expected, "at {at} s");
    }
}

#[test]
fn a_two_dpi_workers_use_the_discrete_gpu_at_40_gbps_only() {
    follows_the_load(&[DPI, DPI]);
}

#[test]
fn b_dpi_and_aes_use_the_discrete_gpu_at_40_gbps_only() {
    follows_the_load(&[DPI, AES]);
}

/// Throughput for 15 seconds, then energy.
fn follows_the_policy(functions: &[usize], gbps: f64) {
    let count = functions.len();
    let mut monitor = monitor(PlacementPolicy::Throughput, functions);
    let mut watts = Vec::new();
    for at in 0..30 {
        if at == 15 {
            monitor.handle_policy(PlacementPolicy::Energy);
        }
        let devices = second(&mut monitor, count, at, gbps);
        assert_eq!(devices.contains(&GTX), at < 15, "at {at} s");
        watts.push(monitor.placement().and_then(|one| one.figures.power_w).expect("known"));
    }
    assert!(watts[15] < watts[14] - 55.0, "{} to {} W", watts[14], watts[15]);
}

#[test]
fn c_one_application_leaves_the_discrete_gpu_when_energy_counts() {
    follows_the_policy(&[AES], 9.0);
}

#[test]
fn d_two_applications_leave_the_discrete_gpu_when_energy_counts() {
    follows_the_policy(&[AES, DPI], 18.0);
}
