//! Laws that hold for any simulation, and closed forms of queues.

mod common;

use common::{Lcg, cpu_chain, device_chain, gpu, queue};
use warpline_sched::{PauseMode, Policy, Sharing, Watermarks};
use warpline_sim::{
    Arrivals, Cost, Crossing, DeviceSharing, Ended, LinkModel, Outcome, Scenario, StageSite,
};

const SECOND: u64 = 1_000_000_000;

fn run(scenario: &Scenario) -> Outcome {
    scenario.simulate().expect("a sound scenario")
}

/// The mean delay of a queue in units of the mean service time.
fn mean_delay(load: f64, is_exponential: bool) -> f64 {
    const SERVICE_NS: f64 = 1_000_000.0;
    let scenario = queue(Arrivals::Poisson(load * 1e9 / SERVICE_NS), SERVICE_NS, is_exponential);
    let outcome = run(&scenario);
    assert_eq!(outcome.ended, Ended::Drained);
    outcome.chains[0].delay.mean() / SERVICE_NS
}

#[test]
fn queues_have_the_delays_of_their_closed_forms() {
    for load in [0.4, 0.7] {
        let exponential = 1.0 / (1.0 - load);
        let constant = 1.0 + load / (2.0 * (1.0 - load));
        for (is_exponential, exact) in [(true, exponential), (false, constant)] {
            let found = mean_delay(load, is_exponential);
            let off = found / exact - 1.0;
            assert!(off.abs() < 0.01, "load {load}, {is_exponential}: {found}, not {exact}");
        }
    }
}

#[test]
fn littles_law_holds_in_any_chain() {
    for seed in 0..30 {
        let scenario = random_scenario(seed);
        let outcome = run(&scenario);
        for (chain, model) in outcome.chains.iter().zip(&scenario.chains) {
            let sent = chain.measured.sent as f64;
            let is_lossy = chain.measured.dropped() + chain.measured.held_back > 0;
            // A source that waits reads packets later than it offers them.
            if is_lossy || model.source_waits || sent < 20_000.0 {
                continue;
            }
            // The integral counts batches from when ingress hands them over.
            let of_batches = chain.packet_ns as f64;
            let delays = chain.delay.mean() * sent;
            let forming = model.batch_packets as f64 * 1e9 / model.traffic.rate().expect("a rate");
            let off = (delays - of_batches).abs() / sent;
            assert!(off <= forming.max(0.02 * chain.delay.mean()), "seed {seed}: {off} ns");
        }
    }
}

/// A chain of one to three stages on one or two devices, beside others.
fn random_scenario(seed: u64) -> Scenario {
    let mut random = Lcg(seed);
    let mut scenario = Scenario::new(SECOND / 20, seed);
    scenario.lanes = 1 + random.below(2) as usize;
    let tenants = 1 + random.below(3) as usize;
    let policies = [Policy::BestEffort, Policy::EqualShare, Policy::FixedShare];
    let policy = policies[random.below(3) as usize];
    let slice_ns = 1_000_000;
    let sharing = match random.below(4) {
        0 => DeviceSharing::InOrder,
        1 => DeviceSharing::Slices { policy, slice_ns, switch_ns: 20_000, slots: 4 },
        2 => {
            let policy = Policy::ALL[random.below(4) as usize];
            let sharing = Sharing { policy, slice_ns, slots: 4, ..Sharing::default() };
            DeviceSharing::Arbiter(sharing, vec![1; tenants])
        }
        _ => DeviceSharing::Instances(vec![2; tenants]),
    };
    let mut device = gpu(tenants, sharing);
    if random.below(2) == 0 {
        device.to_device = Some(LinkModel::of_rate(12e9, 3_000.0));
        device.to_host = Some(LinkModel::of_rate(12e9, 3_000.0));
    }
    scenario.devices.push(device);
    for tenant in 0..tenants {
        let costs: Vec<f64> =
            (0..1 + random.below(3)).map(|_| 50.0 + random.below(800) as f64).collect();
        let mut chain = device_chain(&costs, tenant, 64 << random.below(4));
        let rate = 1e5 + random.below(900_000) as f64;
        chain.traffic.arrivals = match random.below(3) {
            0 => Arrivals::Constant(rate),
            1 => Arrivals::Poisson(rate),
            _ => Arrivals::OnOff { rate: 2.0 * rate, on_ns: 500_000, off_ns: 500_000 },
        };
        chain.batch_packets = 1 << random.below(9);
        chain.pressure = match random.below(3) {
            0 => PauseMode::Off,
            _ => PauseMode::On(Watermarks::default()),
        };
        chain.queue = 3_000 + 1_000 * random.below(6) as u32;
        chain.full_drops = random.below(2) == 0;
        chain.source_waits = random.below(3) == 0;
        chain.signal_ns = 20_000 * random.below(2);
        let lane = random.below(scenario.lanes as u64) as usize;
        for stage in &mut chain.stages {
            stage.share = if random.below(4) == 0 { 0.6 } else { 1.0 };
            if random.below(4) == 0 {
                let cost = Cost::of_packet(100.0);
                stage.place = StageSite::Cpu {
                    lane,
                    cost: cost.into(),
                    is_exponential: random.below(2) == 0,
                };
            } else if let StageSite::Device(work) = &mut stage.place {
                work.lane = lane;
                work.before = Cost::of_packet(random.below(60) as f64);
                work.after = Cost::of_packet(random.below(20) as f64);
                work.to_device = Crossing::FRAMES;
                work.to_host = Crossing::of_packet(random.below(64) as f64);
                work.limits.delay_max_ns = if random.below(2) == 0 { 200_000 } else { u64::MAX };
                work.limits.launches_max = 1 + random.below(4) as usize;
            }
        }
        scenario.chains.push(chain);
    }
    scenario
}

#[test]
fn every_packet_is_counted_once() {
    for seed in 0..120 {
        let scenario = random_scenario(seed);
        let outcome = run(&scenario);
        assert_eq!(outcome.ended, Ended::Drained, "seed {seed}");
        for (chain, model) in outcome.chains.iter().zip(&scenario.chains) {
            let total = &chain.total;
            assert_eq!(total.in_flight(), 0, "seed {seed}: {total:?} of {model:#?}");
            assert!(total.offered > 0 || model.source_waits, "seed {seed}");
            let all = total.sent + total.held_back + total.dropped();
            assert_eq!(total.offered, all, "seed {seed}");
            // A stage works on what was not dropped before it, and no packet twice.
            let mut left = total.offered - total.held_back;
            for (counts, stage) in total.stages.iter().zip(&model.stages) {
                left -= counts.drops;
                let expected = left as f64 * stage.share;
                let off = (counts.processed as f64 - expected).abs();
                assert!(off <= 1.0 + 1e-6 * expected, "seed {seed}: {counts:?}");
            }
            let mut lost_later = 0;
            for counts in total.stages.iter().rev() {
                assert_eq!(counts.wasted, lost_later, "seed {seed}");
                lost_later += counts.drops;
            }
        }
    }
}

#[test]
fn with_pauses_and_room_no_packet_is_lost_inside() {
    for seed in 100..140 {
        let mut scenario = random_scenario(seed);
        for chain in &mut scenario.chains {
            chain.pressure = PauseMode::On(Watermarks::default());
            chain.full_drops = false;
        }
        for chain in &run(&scenario).chains {
            let inside: u64 = chain.total.stages.iter().skip(1).map(|stage| stage.drops).sum();
            assert_eq!(inside, 0, "seed {seed}");
        }
    }
}

#[test]
fn a_queue_stays_below_its_mark_and_its_feeders_launches() {
    let marks = Watermarks::default();
    for signal_ns in [0, 50_000] {
        let mut scenario = Scenario::new(SECOND / 10, 1);
        scenario.devices = vec![gpu(1, DeviceSharing::InOrder); 2];
        let mut chain = device_chain(&[10.0, 500.0], 0, 256);
        if let StageSite::Device(work) = &mut chain.stages[1].place {
            work.device = 1;
        }
        chain.traffic.arrivals = Arrivals::Constant(1e7);
        (chain.pressure, chain.queue, chain.signal_ns) =
            (PauseMode::On(marks), u32::MAX, signal_ns);
        scenario.chains.push(chain);
        let outcome = run(&scenario);
        let own = &outcome.chains[0];
        // The feeder has two launches in flight, one that forms, and what it takes until a signal.
        let most = marks.high() + 4_000 + (signal_ns / 10 * 1_000 / 256) as u32;
        let peak = own.pauses.edges[1].peak;
        assert!((marks.high()..=most).contains(&peak), "{signal_ns}: {peak}");
        assert!(own.total.held_back > 0 && own.total.dropped() == 0, "{signal_ns}");
        assert_eq!(own.pauses.bottleneck(), Some(warpline_sched::NodeId(2)), "{signal_ns}");
    }
}

#[test]
fn a_device_with_work_is_never_idle() {
    let arbiter = |policy| {
        let sharing = Sharing { policy, slots: 3, ..Sharing::default() };
        DeviceSharing::Arbiter(sharing, vec![1; 3])
    };
    let slices = |switch_ns| {
        let (policy, slice_ns) = (Policy::BestEffort, 2_000_000);
        DeviceSharing::Slices { policy, slice_ns, switch_ns, slots: 3 }
    };
    let all = [
        ("in order", DeviceSharing::InOrder, 1.0),
        ("slices", slices(0), 1.0),
        ("slices with switches", slices(100_000), 2_000_000.0 / 2_100_000.0),
        ("best effort", arbiter(Policy::BestEffort), 1.0),
        ("rate proportional", arbiter(Policy::RateProportional), 1.0),
    ];
    for (name, sharing, used) in all {
        let mut scenario = Scenario::new(SECOND, 1);
        scenario.devices.push(gpu(3, sharing));
        for tenant in 0..3 {
            let mut chain = device_chain(&[100.0 * (tenant + 1) as f64], tenant, 1024);
            // Three times what the device can do, so that each tenant always has work.
            chain.traffic.arrivals = Arrivals::Constant(3e7 / (tenant + 1) as f64);
            scenario.chains.push(chain);
        }
        let outcome = run(&scenario);
        let share: f64 = (0..3).map(|tenant| outcome.device_share(0, tenant)).sum();
        assert!((share / used - 1.0).abs() < 0.01, "{name}: {share}, not {used}");
    }
}

#[test]
fn shares_are_those_of_the_policy() {
    let share = |policy, slots: usize, loads: [f64; 2]| {
        let mut scenario = Scenario::new(SECOND, 1);
        let (slice_ns, switch_ns) = (2_000_000, 0);
        let sharing = DeviceSharing::Slices { policy, slice_ns, switch_ns, slots };
        scenario.devices.push(gpu(2, sharing));
        for (tenant, load) in loads.into_iter().enumerate() {
            let mut chain = device_chain(&[100.0], tenant, 1024);
            chain.traffic.arrivals = Arrivals::Constant(load * 1e7);
            chain.queue = 40_000;
            scenario.chains.push(chain);
        }
        let outcome = run(&scenario);
        [0, 1].map(|tenant| outcome.device_share(0, tenant))
    };
    for (policy, slots, loads, expected) in [
        (Policy::BestEffort, 4, [2.0, 2.0], [0.5, 0.5]),
        (Policy::BestEffort, 4, [2.0, 0.2], [0.8, 0.2]),
        (Policy::EqualShare, 4, [2.0, 2.0], [0.5, 0.5]),
        (Policy::EqualShare, 4, [2.0, 0.2], [0.5, 0.2]),
        (Policy::FixedShare, 4, [2.0, 0.2], [0.25, 0.2]),
    ] {
        let found = share(policy, slots, loads);
        for (found, expected) in found.into_iter().zip(expected) {
            let off = (found - expected).abs();
            assert!(off < 0.01, "{policy:?}, {loads:?}: {found}, not {expected}");
        }
    }
}

#[test]
fn instances_have_their_part_of_cores_and_copies() {
    let mut scenario = Scenario::new(SECOND / 10, 1);
    let mut device = gpu(2, DeviceSharing::Instances(vec![1, 3]));
    device.to_device = Some(LinkModel::of_rate(7e9, 0.0));
    scenario.devices.push(device);
    for tenant in 0..2 {
        let mut chain = device_chain(&[100.0], tenant, 256);
        chain.traffic.arrivals = Arrivals::Constant(1e8);
        scenario.chains.push(chain);
    }
    let by_cores = run(&scenario);
    for (tenant, pps) in [1e7 / 7.0, 3e7 / 7.0].into_iter().enumerate() {
        assert!((by_cores.sent_pps(tenant) / pps - 1.0).abs() < 0.01);
    }
    // Frames of 1472 bytes at 1 and 3 GB/s.
    for chain in &mut scenario.chains {
        if let StageSite::Device(work) = &mut chain.stages[0].place {
            (work.to_device, work.kernel) = (Crossing::FRAMES, Cost::of_packet(1.0).into());
        }
    }
    let by_copies = run(&scenario);
    for (tenant, pps) in [1e9 / 1472.0, 3e9 / 1472.0].into_iter().enumerate() {
        assert!((by_copies.sent_pps(tenant) / pps - 1.0).abs() < 0.01);
    }
}

#[test]
fn equal_seeds_give_equal_outcomes_and_others_do_not() {
    for seed in 0..6 {
        let scenario = random_scenario(seed);
        let (one, other) = (run(&scenario), run(&scenario));
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "seed {seed}");
    }
    let mut scenario = queue(Arrivals::Poisson(1e5), 5_000.0, true);
    scenario.lasts_ns = SECOND / 10;
    scenario.warm_up_ns = 0;
    let one = run(&scenario);
    scenario.seed += 1;
    assert_ne!(one, run(&scenario));
}

#[test]
fn a_simulation_ends_after_its_events() {
    let mut scenario = queue(Arrivals::Constant(1e6), 2_000.0, false);
    scenario.events_max = 1_000;
    let outcome = run(&scenario);
    assert_eq!((outcome.ended, outcome.events), (Ended::Events, 1_000));
    let total = &outcome.chains[0].total;
    assert!(total.offered > total.sent);
}

#[test]
fn a_source_that_waits_loses_nothing_and_is_as_fast_as_the_chain() {
    let mut chain = cpu_chain(1_000.0, false);
    chain.traffic.arrivals = Arrivals::Constant(1e7);
    chain.source_waits = true;
    (chain.pressure, chain.queue) = (PauseMode::On(Watermarks::default()), 6_000);
    let mut scenario = Scenario::new(SECOND / 100, 1);
    scenario.chains.push(chain);
    let outcome = run(&scenario);
    let total = &outcome.chains[0].total;
    assert_eq!((total.sent, total.offered), (100_000, 100_000));
    assert!((outcome.sent_pps(0) / 1e6 - 1.0).abs() < 0.01);
}

#[test]
fn mistakes_of_scenarios_are_named() {
    let sound = || {
        let mut scenario = Scenario::new(SECOND / 100, 1);
        scenario.devices.push(gpu(1, DeviceSharing::InOrder));
        scenario.chains.push(device_chain(&[100.0], 0, 64));
        scenario
    };
    assert!(sound().simulate().is_ok());
    type Change = fn(&mut Scenario);
    let cases: [(Change, &str); 10] = [
        (|one| one.lasts_ns = 0, "simulated time"),
        (|one| one.warm_up_ns = one.lasts_ns, "warm-up"),
        (|one| one.chains[0].traffic.arrivals = Arrivals::Constant(-1.0), "packets a second"),
        (|one| one.chains[0].traffic.arrivals = Arrivals::Poisson(f64::NAN), "packets a second"),
        (|one| one.chains[0].stages.clear(), "no stage"),
        (|one| one.chains[0].stages[0].share = 1.5, "share"),
        (|one| on_device(one).kernel = Cost::of_packet(-5.0).into(), "cost"),
        (|one| on_device(one).tenant = 7, "tenant"),
        (|one| on_device(one).lane = 3, "lane"),
        (|one| one.devices[0].sharing = DeviceSharing::Instances(vec![8]), "sevenths"),
    ];
    for (change, word) in cases {
        let mut scenario = sound();
        change(&mut scenario);
        let why = scenario.simulate().expect_err(word).to_string();
        assert!(why.contains(word), "{why}");
    }
}

fn on_device(scenario: &mut Scenario) -> &mut warpline_sim::DeviceWork {
    match &mut scenario.chains[0].stages[0].place {
        StageSite::Device(work) => work,
        StageSite::Cpu { .. } => unreachable!("it is on a device"),
    }
}
