//! A trace of idle, bursty, small and large traffic: the monitor against each fixed placement.

use std::collections::BTreeMap;

use super::super::*;
use super::{SECOND, chain};
use crate::placement::PlacementFigures;
use crate::work_profile::{CPU, Figures};

/// Frames of the first chain are small, those of the second large.
const LENS: [u32; 2] = [64, 1500];
const LANES: usize = 2;
/// Seconds, and Gb/s of both chains.
const TRACE: [(u64, [f64; 2]); 6] = [
    (60, [0.05, 0.1]),
    (60, [0.1, 30.0]),
    (60, [5.0, 1.0]),
    (60, [0.1, 8.0]),
    (60, [3.0, 30.0]),
    (60, [0.05, 1.0]),
];

/// A router and an inspection on the CPU and on a GPU.
fn profile() -> WorkProfile {
    let mut profile = WorkProfile::new(&["router", "nids"], &["cpu", "gpu"]);
    let mut add = |function: usize, device: usize, launch: u32, gbps: f64, us: f64| {
        let len = LENS[function];
        let figures =
            Figures { bits_per_s: gbps * 1e9, latency_ns: us * 1e3, share: 1.0, weight: 10.0 };
        let one = Measurement::alone((function, device), launch, len, figures);
        profile.merge(&one).expect("sound");
        // Beside another one each is half as fast.
        let figures = Figures { bits_per_s: gbps * 5e8, ..figures };
        let beside = Measurement { figures, ..one }.beside(1 - function, 1);
        profile.merge(&beside).expect("sound");
    };
    add(0, 0, 256, 3.0, 10.0);
    add(1, 0, 256, 6.0, 20.0);
    for (launch, part) in [(256, 0.4), (1024, 0.8), (4096, 1.0)] {
        add(0, 1, launch, 8.0 * part, 60.0 + f64::from(launch) / 40.0);
        add(1, 1, launch, 50.0 * part, 80.0 + f64::from(launch) / 20.0);
    }
    profile
}

fn packets_per_s(gbps: [f64; 2]) -> Vec<f64> {
    gbps.iter().zip(LENS).map(|(gbps, len)| gbps * 1e9 / 8.0 / f64::from(len)).collect()
}

fn chains(rates: &[f64]) -> Vec<ChainDemand> {
    let one = |function: usize| ChainDemand {
        packets_per_s: rates[function],
        packet_len: LENS[function],
        lanes: LANES,
        ..chain(function, 2)
    };
    vec![one(0), one(1)]
}

/// The figures of these devices at these rates, with the best launch sizes.
fn figures(profile: &WorkProfile, devices: &[Vec<usize>], rates: &[f64]) -> PlacementFigures {
    let problem = PlacementProblem {
        profile,
        chains: &chains(rates),
        policy: PlacementPolicy::Fixed(devices.to_vec()),
        devices: None,
        delay_ns_max: None,
        power_w_max: None,
        lanes_max: LANES,
        cores: usize::MAX,
    };
    problem.place().expect("measured").figures
}

/// Packets that were carried, seconds of overload, and delays with packets of all other seconds.
#[derive(Default)]
struct Outcome {
    carried: f64,
    overloaded: usize,
    delays: Vec<(f64, f64)>,
}

impl Outcome {
    fn add(&mut self, figures: &PlacementFigures, rates: &[f64]) {
        let packets: f64 = rates.iter().sum();
        self.carried += packets / figures.load.max(1.0);
        match figures.load > 1.0 {
            true => self.overloaded += 1,
            false => self.delays.push((figures.delay_ns, packets)),
        }
    }

    /// The delay that 95 % of the packets do not exceed.
    fn p95_ns(mut self) -> f64 {
        self.delays.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = self.delays.iter().map(|one| one.1).sum();
        let mut sum = 0.0;
        let mut reached = self.delays.iter().filter(|one| {
            sum += one.1;
            sum >= 0.95 * all
        });
        reached.next().map_or(f64::INFINITY, |one| one.0)
    }
}

fn seconds() -> impl Iterator<Item = Vec<f64>> {
    TRACE.iter().flat_map(|&(count, gbps)| (0..count).map(move |_| packets_per_s(gbps)))
}

fn fixed(devices: [usize; 2]) -> Outcome {
    let (profile, mut outcome) = (profile(), Outcome::default());
    let devices = devices.map(|device| vec![device]);
    seconds().for_each(|rates| outcome.add(&figures(&profile, &devices, &rates), &rates));
    outcome
}

/// Each second runs on the devices that the seconds before decided, by a profile whose CPU is
/// `too_good` times as fast as the true one.
fn monitored(policy: PlacementPolicy, too_good: f64) -> Outcome {
    let limits = PlacementLimits { lanes_max: LANES, ..PlacementLimits::default() };
    let settings = MonitorSettings::default();
    let first = seconds().next().expect("a trace");
    let factors = [0, 1].map(|function| ((function, CPU), too_good));
    let believed = profile().slowed(&BTreeMap::from(factors));
    let mut monitor = Monitor::new(settings, limits, policy, believed, chains(&first));
    let (profile, mut outcome) = (profile(), Outcome::default());
    monitor.handle_tick(&[], &[], 0).expect("a placement");
    for (second, rates) in (1u64..).zip(seconds()) {
        let sites = &monitor.placement().expect("placed").sites;
        let devices: Vec<Vec<usize>> = sites
            .iter()
            .map(|chain| chain.iter().map(|site| site.device_with(1)).collect())
            .collect();
        let found = figures(&profile, &devices, &rates);
        outcome.add(&found, &rates);
        // A chain on a device that is full loses packets.
        let observed = |(&packets_per_s, devices): (&f64, &Vec<usize>)| {
            let load = found.loads[devices[0]];
            let lost = 1.0 - 1.0 / load.max(1.0);
            let carried_per_s = packets_per_s * (1.0 - lost);
            let held = (lost > 0.0).then_some(HeldSource { share: lost, carried_per_s });
            ChainObserved { held, ..ChainObserved::of(packets_per_s, Observed::Starved) }
        };
        let observed: Vec<ChainObserved> = rates.iter().zip(&devices).map(observed).collect();
        monitor.handle_tick(&observed, &[], second * SECOND).expect("a placement");
    }
    outcome
}

const ALL: [[usize; 2]; 4] = [[0, 0], [0, 1], [1, 0], [1, 1]];

#[test]
fn throughput_is_near_that_of_the_best_fixed_placement() {
    let best = ALL.map(|devices| fixed(devices).carried).into_iter().fold(0.0, f64::max);
    for too_good in [1.0, 4.0, 30.0, 500.0] {
        let own = monitored(PlacementPolicy::Throughput, too_good).carried;
        assert!(own >= 0.95 * best, "{too_good}: {own:.0} packets of {best:.0}");
    }
}

/// An overload lasts for the second in which it comes and for two ticks. These seconds are counted
/// apart: their packets wait for a full queue, or are lost.
#[test]
fn latency_is_near_that_of_the_best_fixed_placement() {
    let own = monitored(PlacementPolicy::Latency, 1.0);
    assert!((1..=9).contains(&own.overloaded), "{} seconds, 3 bursts", own.overloaded);
    let own_ns = own.p95_ns();
    let carrying = ALL.map(fixed).into_iter().filter(|one| one.overloaded == 0);
    let best = carrying.map(Outcome::p95_ns).fold(f64::INFINITY, f64::min);
    assert!(best.is_finite() && own_ns <= 1.1 * best, "{own_ns:.0} ns, {best:.0} ns");
}
