//! The profile's arithmetic against hand-made cases and formulas written apart.

mod pythia;

use proptest::prelude::*;

use super::*;
use crate::LinkSpeeds;

fn figures(gbps: f64, weight: f64) -> Figures {
    Figures { bits_per_s: gbps * 1e9, latency_ns: 1e9 / gbps, share: 1.0, weight }
}

fn profile(points: &[(usize, u32, u32, f64)]) -> WorkProfile {
    let mut profile = WorkProfile::new(&["a", "b", "c"], &["cpu", "gpu"]);
    for &(device, launch, len, gbps) in points {
        let one = Measurement::alone((0, device), launch, len, figures(gbps, 1.0));
        profile.merge(&one).expect("sound");
    }
    profile
}

#[test]
fn new_evidence_counts_by_its_weight_and_never_loses_all_influence() {
    let mut profile = profile(&[(1, 64, 100, 10.0)]);
    let at = |gbps, weight| Measurement::alone((0, 1), 64, 100, figures(gbps, weight));
    profile.merge(&at(20.0, 3.0)).expect("sound");
    let merged = profile.alone((0, 1), 64, 100).expect("measured");
    assert_eq!((merged.bits_per_s, merged.weight), (17.5e9, 4.0));
    // An hour of old evidence weighs a minute.
    profile.merge(&at(20.0, 3600.0)).expect("sound");
    let before = profile.alone((0, 1), 64, 100).expect("measured").bits_per_s;
    profile.merge(&at(40.0, 60.0)).expect("sound");
    let after = profile.alone((0, 1), 64, 100).expect("measured").bits_per_s;
    assert!((after - (before + 40e9) / 2.0).abs() < 1.0, "{before} {after}");
}

#[test]
fn unsound_measurements_are_refused() {
    let mut profile = profile(&[]);
    let sound = Measurement::alone((0, 1), 64, 100, figures(1.0, 1.0));
    let with = |figures| Measurement { figures, ..sound };
    let cases = [
        (Measurement { pair: (3, 1), ..sound }, Unsound::Function(3)),
        (Measurement { pair: (0, 2), ..sound }, Unsound::Device(2)),
        (sound.beside(5, 1), Unsound::Function(5)),
        (sound.beside(1, 0), Unsound::Beside),
        (Measurement { launch_packets: 0, ..sound }, Unsound::Size),
        (with(Figures { bits_per_s: f64::NAN, ..sound.figures }), Unsound::Figure("throughput")),
        (with(Figures { latency_ns: -1.0, ..sound.figures }), Unsound::Figure("latency")),
        (with(Figures { share: 1.5, ..sound.figures }), Unsound::Figure("share")),
        (with(Figures { weight: 0.0, ..sound.figures }), Unsound::Figure("weight")),
    ];
    for (measurement, reason) in cases {
        assert_eq!(profile.merge(&measurement), Err(reason));
    }
    assert_eq!(profile.measurements().count(), 0);
}

#[test]
fn pairs_are_measured_and_mixes_are_modelled() {
    let mut profile = profile(&[(1, 64, 100, 12.0)]);
    let at = Measurement::alone((0, 1), 64, 100, figures(6.0, 1.0));
    profile.merge(&at.beside(1, 1)).expect("sound");
    let four = Measurement { figures: figures(3.0, 1.0), ..at };
    profile.merge(&four.beside(1, 3)).expect("sound");
    let beside = |function, count| Beside { function, count };
    let of = |others: &[Beside]| {
        let slow = profile.slow_down((0, 1), (64, 100), others);
        (slow.factor, slow.basis)
    };
    assert_eq!(of(&[]), (1.0, Basis::Measured));
    assert_eq!(of(&[beside(1, 1)]), (2.0, Basis::Measured));
    assert_eq!(of(&[beside(1, 2)]), (3.0, Basis::Interpolated));
    assert_eq!(of(&[beside(1, 3)]), (4.0, Basis::Measured));
    assert_eq!(of(&[beside(1, 5)]), (6.0, Basis::Interpolated));
    assert_eq!(of(&[beside(2, 2)]), (3.0, Basis::Assumed));
    assert_eq!(of(&[beside(1, 1), beside(2, 1)]), (3.0, Basis::Assumed));
}

#[test]
fn break_even_gives_a_load_or_the_reason() {
    let link = |speed| LinkSpeeds {
        device: "gpu".into(),
        to_device: speed,
        to_host: speed,
        each_copy: 0.0,
    };
    let points =
        [(0, 256, 64, 5.0), (0, 256, 1500, 10.0), (1, 4096, 64, 4.0), (1, 4096, 1500, 40.0)];
    let both = profile(&points);
    let even = both.break_even(0, 1, None).expect("at 1500 bytes");
    assert_eq!((even.packet_len, even.bits_per_s, even.launch_packets), (1500, 10e9, 4096));
    assert_eq!((even.device_bits_per_s, even.slower_len), (40e9, None));
    let shorter = [&points[..], &[(0, 256, 9000, 80.0), (1, 4096, 9000, 50.0)]].concat();
    let even = profile(&shorter).break_even(0, 1, None).expect("at 1500 bytes");
    assert_eq!((even.packet_len, even.slower_len), (1500, Some(9000)));
    let slow = both.break_even(0, 1, Some(&link(1e9)));
    assert_eq!(slow, Err(NoBreakEven::Copies(0.8)));
    let slower = profile(&[(0, 256, 64, 5.0), (1, 4096, 64, 4.0)]);
    assert_eq!(slower.break_even(0, 1, None), Err(NoBreakEven::Work(0.8)));
    let cpu_only = profile(&points[..2]);
    assert_eq!(cpu_only.break_even(0, 1, None), Err(NoBreakEven::DeviceUnmeasured));
    let device_only = profile(&points[2..]);
    assert_eq!(device_only.break_even(0, 1, None), Err(NoBreakEven::CpuUnmeasured));
}

#[test]
fn power_is_linear_and_may_be_unknown() {
    let power = Power { idle_w: Some(10.0), busy_w: Some(110.0) };
    assert_eq!(power.at(0.25), Some(35.0));
    assert_eq!(power.at(7.0), Some(110.0));
    assert_eq!(Power { busy_w: None, ..power }.at(0.5), None);
}

proptest! {
    #[test]
    fn between_two_sizes_throughput_stays_between_theirs(
        rates in prop::collection::vec(0.1..100.0f64, 2..6), launch in 1u32..5000,
    ) {
        let sizes = rates.iter().zip(6u32..);
        let points: Vec<_> = sizes.map(|(&gbps, at)| (1, 1 << at, 512, gbps)).collect();
        let profile = profile(&points);
        let gbps = |launch| profile.alone((0, 1), launch, 512).expect("measured").bits_per_s / 1e9;
        let below = points.iter().rev().find(|point| point.1 <= launch);
        let above = points.iter().find(|point| point.1 >= launch);
        let slack = 1e-9;
        match (below, above) {
            (Some(low), Some(high)) => {
                let (least, most) = (low.3.min(high.3), low.3.max(high.3));
                prop_assert!((least - slack..=most + slack).contains(&gbps(launch)));
            }
            (Some(last), None) => prop_assert!((gbps(launch) - last.3).abs() < slack),
            (None, _) => {
                let (launch_size, first, second) =
                    (f64::from(launch), 64.0 / rates[0], 128.0 / rates[1]);
                let line = first - (second - first) * (64.0 - launch_size) / 64.0;
                let time = line.min(first).max(first * launch_size / 64.0);
                prop_assert!((gbps(launch) * time / launch_size - 1.0).abs() < slack);
            }
        }
    }

    #[test]
    fn the_knee_is_the_first_size_within_two_percent_of_the_best(
        rates in prop::collection::vec(1.0..1.1f64, 1..6),
    ) {
        let sizes = rates.iter().zip(6u32..);
        let points: Vec<_> = sizes.map(|(&gbps, at)| (1, 1 << at, 512, gbps)).collect();
        let knee = profile(&points).launch_knee((0, 1), 512).expect("measured");
        let grows = |point: &(usize, u32, u32, f64)| {
            points.iter().any(|later| later.1 > point.1 && later.3 / point.3 >= 1.02)
        };
        let expected = points.iter().position(|point| {
            // No size at all brings 2 % more, smaller ones included.
            !grows(point) && points.iter().all(|other| other.3 < 1.02 * point.3)
        });
        prop_assert_eq!(Some(knee), expected.map(|at| points[at].1));
    }

    #[test]
    fn measurements_restore_the_profile(
        rates in prop::collection::vec((0usize..2, 1u32..100, 1u32..100, 0.1..10.0f64), 0..20),
    ) {
        let first = profile(&rates);
        let mut second = profile(&[]);
        for measurement in first.measurements() {
            second.merge(&measurement).expect("sound");
        }
        prop_assert_eq!(first, second);
    }
}
