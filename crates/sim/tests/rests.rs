//! Threads that rest, in virtual time: readers that nap, threads that another wakes, and kernels
//! that threads divide.

mod common;

use common::{cpu_chain, device_chain, gpu};
use warpline_sched::{PauseMode, Watermarks};
use warpline_sim::{
    Arrivals, BatchCost, BusyReader, ChainModel, ChainOutcome, Cost, DeviceSharing, Scenario,
    StageSite, ThreadWork,
};

const SECOND: u64 = 1_000_000_000;

/// Eight cores, so no thread waits for another, and timers that are so late.
fn scenario(late_ns: u64) -> Scenario {
    let mut own = Scenario::new(SECOND / 5, 1);
    (own.threads, own.cores) = (2, Some(8));
    own.timer_late_ns = vec![late_ns];
    own
}

/// With a reader that takes 100 ns a packet, and `wake_ns` for a rest.
fn read(mut own: ChainModel, rate: f64, wake_ns: u64) -> ChainModel {
    own.traffic.arrivals = Arrivals::Constant(rate);
    own.batch_packets = 256;
    own.ring = Some(4_096);
    own.reader = Some(ThreadWork { thread: 0, cost: Cost::of_packet(100.0), wake_ns, busy: None });
    own
}

fn run(mut scenario: Scenario, chain: ChainModel) -> (ChainOutcome, f64) {
    scenario.chains = vec![chain];
    let mut outcome = scenario.simulate().expect("a sound scenario");
    let seconds = outcome.measured_ns as f64 / 1e9;
    let own = outcome.chains.remove(0);
    assert_eq!(own.total.offered, own.total.sent + own.total.held_back + own.total.dropped());
    (own, seconds)
}

/// A reader naps for 40 us if few packets come and for 80 us if many do. Timers are late. It takes
/// packets that come meanwhile, and its time to wake and to rest is none of the nap.
#[test]
fn a_reader_finds_the_packets_of_a_nap() {
    for (rate, late_us, wake_us, every_us) in [
        // Seldom: each packet wakes it.
        (10e3, 10, 0, 100.0),
        // Each nap has fewer than four.
        (60e3, 10, 0, 50.0),
        // 80 us and 10, and a tenth of the whole for reading.
        (1e6, 10, 0, 100.0),
        (1e6, 15, 13, 120.0),
    ] {
        let wake_ns = wake_us * 1_000;
        let (own, seconds) =
            run(scenario(late_us * 1_000), read(cpu_chain(1.0, false), rate, wake_ns));
        let batches = own.measured.stages[0].launches as f64;
        let found_us = seconds * 1e6 / batches;
        assert!((found_us - every_us).abs() < 0.04 * every_us, "{rate}: {found_us} us");
    }
}

/// Waking the lane is a part of a reader's rest, which it has only if the lane waits. A lane that
/// has work for longer is not woken.
#[test]
fn a_reader_wakes_a_lane_that_waits() {
    let every_us = |lane_ns: f64, rate: f64| {
        let mut own = scenario(10_000);
        own.ring_ns = 18_000;
        let (own, seconds) = run(own, read(cpu_chain(lane_ns, false), rate, 18_000));
        seconds * 1e6 / own.measured.stages[0].launches as f64
    };
    // 80 us, 10, and a tenth for reading: 100, and 120 with waking the lane.
    let (waits, works) = (every_us(1.0, 1e6), every_us(990.0, 1e6));
    assert!((waits - 120.0).abs() < 2.0 && (works - 100.0).abs() < 2.0, "{waits} {works}");
    // Both of two batches wake the lane: 126 us and a quarter for reading.
    let two = every_us(1.0, 2.5e6);
    assert!((two - 84.0).abs() < 2.0, "{two}");
}

/// A reader that always finds packets does not wait for a timer.
#[test]
fn a_busy_reader_is_not_late() {
    let (own, seconds) = run(scenario(50_000), read(cpu_chain(50.0, false), 20e6, 5_000));
    let rate = own.measured.sent as f64 / seconds;
    assert!((rate / 10e6 - 1.0).abs() < 0.02, "{rate}");
}

/// A lane that rests begins late, and so does the sender after it.
#[test]
fn a_thread_that_another_wakes_begins_late() {
    let delay_us = |wake_late_ns| {
        let mut own = scenario(0);
        own.wake_late_ns = wake_late_ns;
        let mut chain = read(cpu_chain(1_000.0, false), 1e3, 0);
        chain.sender =
            Some(ThreadWork { thread: 1, cost: Cost::of_packet(1_000.0), wake_ns: 0, busy: None });
        run(own, chain).0.delay.mean() / 1e3
    };
    let (at_once, late) = (delay_us(0), delay_us(20_000));
    assert!((at_once - 2.1).abs() < 0.2 && (late - 42.1).abs() < 0.6, "{at_once} {late}");
}

/// Lanes nap as well: work that comes within 20 us of the last is found after 40 us.
#[test]
fn a_lane_whose_work_comes_soon_naps() {
    let mut own = scenario(0);
    own.cores = None;
    own.threads = 0;
    let mut chain = cpu_chain(1_000.0, false);
    chain.traffic.arrivals = Arrivals::Constant(100e3);
    let (own, _) = run(own, chain);
    // Packets wait for up to 40 us, and for those before them.
    let delay_us = own.delay.mean() / 1e3;
    assert!((15.0..30.0).contains(&delay_us), "{delay_us}");
}

/// Two threads divide a kernel while there is a core for each.
#[test]
fn threads_of_a_device_divide_its_kernels() {
    let rate = |cores, threads: usize| {
        let mut own = Scenario::new(SECOND / 5, 1);
        own.devices = vec![gpu(1, DeviceSharing::InOrder)];
        own.devices[0].is_on_cores = true;
        (own.cores, own.device_threads) = (Some(cores), vec![threads]);
        let mut chain = device_chain(&[100.0], 0, 256);
        chain.traffic.arrivals = Arrivals::Constant(50e6);
        if let StageSite::Device(work) = &mut chain.stages[0].place {
            work.kernel = BatchCost::Linear(Cost::of_packet(100.0));
        }
        let (own, seconds) = run(own, chain);
        own.measured.sent as f64 / seconds / 10e6
    };
    for (cores, threads, expected) in [(1, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 2, 2.0)] {
        let found = rate(cores, threads);
        assert!((found - expected).abs() < 0.05, "{cores} cores, {threads} threads: {found}");
    }
}

/// A reader that never rests, and its lane, have other costs.
#[test]
fn busy_readers_have_costs_of_their_own() {
    let mpps = |rate: f64, after_ns: u64, read_ns: f64| {
        let mut chain = read(cpu_chain(100.0, false), rate, 0);
        chain.pressure = PauseMode::On(Watermarks::default());
        chain.stages[0].launch_packets = 731;
        let busy = BusyReader { after_ns, cost: Cost::of_packet(read_ns), lane_factor: 2.0 };
        chain.reader.iter_mut().for_each(|reader| reader.busy = Some(busy));
        let (own, seconds) = run(scenario(10_000), chain);
        own.measured.sent as f64 / seconds / 1e6
    };
    for (rate, after_ns, read_ns, expected) in [
        // It rests.
        (8e6, SECOND / 1_000, 250.0, 8.0),
        (30e6, SECOND, 250.0, 10.0),
        // The reader takes 250 ns, or the lane 200.
        (30e6, SECOND / 1_000, 250.0, 4.0),
        (30e6, SECOND / 1_000, 100.0, 5.0),
    ] {
        let found = mpps(rate, after_ns, read_ns);
        assert!((found - expected).abs() < 0.03 * expected, "{rate} {after_ns}: {found}");
    }
}
