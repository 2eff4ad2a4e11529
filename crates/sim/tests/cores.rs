//! Threads that share cores: closed forms, conservation, and the ring before a chain.

mod common;

use common::{cpu_chain, device_chain, gpu};
use warpline_sim::{
    Arrivals, Cost, DeviceSharing, Ended, Outcome, Scenario, StageSite, ThreadWork,
};

const SECOND: u64 = 1_000_000_000;

fn run(scenario: &Scenario) -> Outcome {
    let outcome = scenario.simulate().expect("a sound scenario");
    assert_eq!(outcome.ended, Ended::Drained);
    outcome
}

/// The lane of a chain.
fn on_lane(scenario: &mut Scenario, chain: usize) {
    if let StageSite::Cpu { lane, .. } = &mut scenario.chains[chain].stages[0].place {
        *lane = chain;
    }
}

/// M/D/1 with processor sharing: the mean delay is the service time divided by the idle share.
/// Each packet has a lane of its own but for a few.
#[test]
fn many_lanes_on_a_core_have_the_delay_of_processor_sharing() {
    const LANES: usize = 200;
    const SERVICE_NS: f64 = 10_000.0;
    for load in [0.3, 0.6] {
        let mut scenario = Scenario::new(4 * SECOND, 3);
        (scenario.lanes, scenario.cores) = (LANES, Some(1));
        for number in 0..LANES {
            let mut own = cpu_chain(SERVICE_NS, false);
            own.traffic.arrivals = Arrivals::Poisson(load * 1e9 / SERVICE_NS / LANES as f64);
            scenario.chains.push(own);
            on_lane(&mut scenario, number);
        }
        let outcome = run(&scenario);
        let sum: f64 = outcome.chains.iter().map(|own| own.delay.mean()).sum();
        let (found, exact) = (sum / LANES as f64 / SERVICE_NS, 1.0 / (1.0 - load));
        assert!((found / exact - 1.0).abs() < 0.02, "load {load}: {found}, not {exact}");
    }
}

/// A chain whose reader takes 20 ns a packet, its lane 100, and its sender 30.
fn with_threads(cores: u64, rate: f64, wake_ns: u64) -> Scenario {
    let mut scenario = Scenario::new(SECOND / 5, 1);
    (scenario.threads, scenario.cores) = (2, Some(cores));
    let mut own = cpu_chain(100.0, false);
    own.traffic.arrivals = Arrivals::Constant(rate);
    (own.batch_packets, own.batch_delay_ns) = (256, 20_000);
    own.pressure = warpline_sched::PauseMode::On(warpline_sched::Watermarks::default());
    own.stages[0].launch_packets = 731;
    own.ring = Some(4_096);
    let work = |thread, packet_ns| {
        Some(ThreadWork { thread, cost: Cost::of_packet(packet_ns), wake_ns, busy: None })
    };
    (own.reader, own.sender) = (work(0, 20.0), work(1, 30.0));
    scenario.chains.push(own);
    scenario
}

/// All threads together bound the rate of one core, the lane that of several. On two cores the lane
/// waits while all three threads have work.
#[test]
fn threads_of_a_chain_share_the_cores() {
    for (cores, most_ns, within) in [(1, 150.0, 0.03), (2, 100.0, 0.06), (8, 100.0, 0.03)] {
        let outcome = run(&with_threads(cores, 30e6, 0));
        let own = &outcome.chains[0];
        let found = own.measured.sent as f64 * 1e9 / outcome.measured_ns as f64;
        let off = found * most_ns / 1e9 - 1.0;
        assert!(off.abs() < within, "{cores} cores: {found} packets a second");
        let total = &own.total;
        assert_eq!(total.offered, total.sent + total.held_back + total.dropped(), "{cores}");
    }
    // With little to do none is lost, and each thread wakes for a batch.
    let outcome = run(&with_threads(1, 1e5, 5_000));
    let own = &outcome.chains[0];
    assert_eq!((own.total.held_back, own.total.sent), (0, own.total.offered));
    // A batch has 3 packets: 60 ns of the reader. Then lane and sender, 390 ns, share the core with
    // the reader, which goes to rest.
    let delay_ns = own.delay.mean();
    assert!((delay_ns - 840.0).abs() < 5.0, "{delay_ns}");
}

/// A ring gives a source room, so fewer packets are lost than without, by its size at most.
#[test]
fn a_ring_keeps_its_packets() {
    let lost = |ring, arrivals| {
        let mut scenario = with_threads(2, 30e6, 0);
        (scenario.lasts_ns, scenario.warm_up_ns) = (SECOND / 50, 0);
        scenario.chains[0].ring = ring;
        scenario.chains[0].traffic.arrivals = arrivals;
        let own = run(&scenario).chains.remove(0).total;
        assert_eq!(own.offered, own.sent + own.held_back + own.dropped());
        own.held_back
    };
    let constant = Arrivals::Constant(30e6);
    // The same packets, one by one.
    let steps = Arrivals::Steps(vec![(u64::MAX, 30e6)]);
    let [small, large] = [1_000, 100_000].map(|ring| lost(Some(ring), constant.clone()));
    assert!((98_000..=100_000).contains(&(small - large)), "{small} and {large}");
    let apart = lost(Some(1_000), steps).abs_diff(small);
    assert!(apart <= 2, "{apart}");
    assert_eq!(lost(Some(10_000_000), constant), 0);
}

/// A kernel on the cores shares them with the lane and runs as long as it needs.
#[test]
fn kernels_on_the_cpu_share_its_cores() {
    let rate = |is_on_cores, cores| {
        let mut scenario = Scenario::new(SECOND / 5, 1);
        scenario.devices = vec![gpu(1, DeviceSharing::InOrder)];
        scenario.devices[0].is_on_cores = is_on_cores;
        scenario.cores = Some(cores);
        let mut own = device_chain(&[100.0], 0, 256);
        own.traffic.arrivals = Arrivals::Constant(50e6);
        if let StageSite::Device(work) = &mut own.stages[0].place {
            work.before = Cost::of_packet(100.0);
        }
        scenario.chains.push(own);
        let outcome = run(&scenario);
        outcome.chains[0].measured.sent as f64 / outcome.measured_ns as f64 * 200.0
    };
    let [shared, apart, two] = [rate(true, 1), rate(false, 1), rate(true, 2)];
    assert!((shared - 1.0).abs() < 0.03, "{shared}");
    assert!((apart - 2.0).abs() < 0.06 && (two - 2.0).abs() < 0.06, "{apart}, {two}");
}

/// A packet waits 100 us for its launch, whose kernel takes 20 us. The lane wakes 10 us late, and
/// looks again after 50 us and 10 us, or when the next packet comes.
#[test]
fn a_lane_that_sleeps_notices_deadlines_and_ends_late() {
    let delay_us = |every_us: u64, late: &[u64]| {
        let mut scenario = Scenario::new(SECOND / 5, 1);
        scenario.devices = vec![gpu(1, DeviceSharing::InOrder)];
        scenario.timer_late_ns = late.to_vec();
        let mut own = device_chain(&[20_000.0], 0, 256);
        own.batch_packets = 1;
        own.traffic.arrivals = Arrivals::Constant(1e6 / every_us as f64);
        if let StageSite::Device(work) = &mut own.stages[0].place {
            work.limits.delay_max_ns = 100_000;
        }
        scenario.chains.push(own);
        run(&scenario).chains[0].delay.mean() / 1e3
    };
    for (every_us, late, expected) in
        [(1_000, &[][..], 120.0), (1_000, &[10_000], 170.0), (150, &[10_000], 150.0)]
    {
        let found = delay_us(every_us, late);
        assert!((found - expected).abs() < 1.0, "{every_us} us, {late:?}: {found} us");
    }
    // Half of the timers are 30 us late. They delay the launch, and the look after it.
    let found = delay_us(1_000, &[10_000, 30_000]);
    assert!((found - 190.0).abs() < 5.0, "{found} us");
}

#[test]
fn equal_scenarios_give_equal_bytes() {
    let scenario = || {
        let mut own = with_threads(2, 8e6, 5_000);
        own.chains[0].traffic.arrivals = Arrivals::Poisson(8e6);
        format!("{:?}", run(&own))
    };
    assert_eq!(scenario(), scenario());
    let wrong = |change: fn(&mut Scenario)| {
        let mut own = with_threads(2, 1e6, 0);
        change(&mut own);
        own.simulate().expect_err("a mistake").to_string()
    };
    assert!(wrong(|own| own.cores = Some(0)).contains("need a core"));
    assert!(wrong(|own| own.cores = None).contains("reader or sender"));
    assert!(wrong(|own| own.threads = 1).contains("reader or sender"));
}
