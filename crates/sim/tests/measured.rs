//! Shares, pauses and rates are of the measured time: nothing works or waits longer than it lasts.

#[path = "common/assembled.rs"]
mod assembled;

use std::sync::Arc;

use assembled::{PROFILE, asked, function, run, sharing};
use warpline_sched::{PauseMode, Policy, Sharing};
use warpline_sim::{
    Arrivals, Asked, AskedFunction, AskedLaunches, AskedSharing, AskedTenant, StageSite, WorkFile,
};

fn file() -> WorkFile {
    WorkFile::parse(PROFILE).expect("sound")
}

fn times_of(lasts_ns: u64) -> [u64; 3] {
    [lasts_ns / 10, lasts_ns, 7 * lasts_ns]
}

#[test]
fn nothing_is_busy_for_longer_than_the_measured_time() {
    let profiles = [
        PROFILE.to_owned(),
        PROFILE.replace("\"gbps\": 40}", "\"gbps\": 40, \"latency_us\": 900}"),
        PROFILE.replace("\"busy_w\": 110", "\"busy_w\": 110, \"runs_on_cpu\": true"),
    ];
    let ways = [(None, 1), (Some(Policy::BestEffort), 2), (Some(Policy::EqualShare), 2)];
    for (profile, text) in profiles.iter().enumerate() {
        let file = WorkFile::parse(text).expect("sound");
        for (policy, tenants) in ways {
            for lasts_ns in times_of(1_000_000) {
                let functions = vec![function("nids", Some("gpu")), function("nat", Some("cpu"))];
                let mut one = asked(&file, functions, "constant:gbps=100");
                (one.sharing, one.tenants) = (policy.map(sharing), tenants);
                one.lasts_ns = Some(lasts_ns);
                let (_, outcome) = run(&one);
                let place = format!("profile {profile}, {policy:?}, {lasts_ns} ns");
                let share: f64 = (0..tenants).map(|own| outcome.device_share(0, own)).sum();
                assert!(share <= 1.0, "{place}: the device {share}");
                for busy_ns in &outcome.lane_busy_ns {
                    assert!(*busy_ns <= outcome.measured_ns, "{place}: a lane {busy_ns}");
                }
                for chain in &outcome.chains {
                    assert_eq!(chain.pauses.elapsed_ns, outcome.measured_ns, "{place}");
                    let mut nodes = chain.pauses.nodes.iter();
                    assert!(nodes.all(|node| node.paused_ns <= outcome.measured_ns), "{place}");
                }
            }
        }
    }
}

/// A device that always has work is busy all the time, also in a short one.
#[test]
fn a_device_with_work_is_busy() {
    let file = file();
    for policy in [None, Some(Policy::BestEffort)] {
        let mut one = asked(&file, vec![function("nids", Some("gpu"))], "constant:gbps=200");
        one.sharing = policy.map(sharing);
        let (_, outcome) = run(&one);
        let share = outcome.device_share(0, 0);
        assert!(share > 0.98, "{policy:?}: {share}");
    }
}

#[test]
fn packets_that_wait_before_a_paused_source_are_offered() {
    // A copy takes up to a second, so the source is paused at the end.
    let slow = PROFILE.replace("\"each_copy_s\": 1e-6", "\"each_copy_s\": 1.0");
    let file = WorkFile::parse(&slow).expect("sound");
    for load in ["constant:gbps=1", "poisson:gbps=1", "constant:gbps=1,ring=0"] {
        let mut one = asked(&file, vec![function("nat", Some("gpu"))], load);
        one.lasts_ns = Some(100_000_000);
        let (_, outcome) = run(&one);
        let offered = outcome.per_second(outcome.chains[0].measured.offered);
        let asked = 1e9 / 8.0 / 512.0;
        assert!((offered / asked - 1.0).abs() < 0.03, "{load}: {offered} of {asked}");
    }
}

/// A source that waits reads packets when there is room. Queues are bounded, so are delays.
#[test]
fn delays_of_a_source_that_waits_do_not_grow_with_time() {
    let file = file();
    let delay = |lasts_ns| {
        let functions = vec![function("nids", Some("cpu"))];
        let mut one = asked(&file, functions, "constant:gbps=50,on_full=wait");
        one.lasts_ns = Some(lasts_ns);
        let (_, outcome) = run(&one);
        outcome.chains[0].delay.quantile(0.5) as f64
    };
    let [short, long] = [50_000_000, 400_000_000].map(delay);
    assert!((long / short - 1.0).abs() < 0.1, "{short} ns and {long} ns");
}

#[test]
fn short_captures_are_measured_until_they_left() {
    let file = file();
    let many = (0..1_000).map(|_| (0, 512)).collect::<Vec<_>>();
    for capture in [vec![(0, 512)], many, vec![(0, 64), (5, 1500)]] {
        let mut one = asked(&file, vec![function("nat", Some("gpu"))], "constant:gbps=1");
        let count = capture.len() as u64;
        one.load.traffic.arrivals = Arrivals::Replay(Arc::from(capture));
        one.lasts_ns = None;
        let (_, outcome) = run(&one);
        let own = &outcome.chains[0];
        assert_eq!((own.measured.sent, own.measured.offered), (count, count));
        assert!(own.delay.quantile(0.5) > 1_000, "{} ns", own.delay.quantile(0.5));
        // The last packet left when the measured time ended.
        assert_eq!(own.delay.max(), outcome.measured_ns);
    }
}

/// Three chains; the first two are one tenant.
fn shared(file: &WorkFile, slots: [usize; 2]) -> Asked<'_> {
    let mut one = asked(file, vec![function("nids", Some("gpu"))], "constant:gbps=60");
    let chain = one.chains[0].clone();
    let tenant =
        |name: &str, slots| Some(AskedTenant { name: name.into(), device: "gpu".into(), slots });
    let tenants = [tenant("gold", slots[0]), tenant("gold", slots[0]), tenant("basic", slots[1])];
    one.chains = vec![chain; 3];
    for (number, (chain, tenant)) in one.chains.iter_mut().zip(tenants).enumerate() {
        (chain.name, chain.tenant) = (format!("chain {number}"), tenant);
    }
    one
}

#[test]
fn tenants_have_their_slots() {
    let file = file();
    for (policy, slots, all, want) in [
        (Policy::EqualShare, [3, 1], None, [0.75, 0.25]),
        (Policy::BestEffort, [1, 1], None, [0.5, 0.5]),
        (Policy::FixedShare, [3, 1], None, [0.75, 0.25]),
        (Policy::FixedShare, [3, 1], Some(8), [0.375, 0.125]),
    ] {
        let mut one = shared(&file, slots);
        one.sharing = Some(AskedSharing { slots: all, ..sharing(policy) });
        let (assembled, outcome) = run(&one);
        assert_eq!(assembled.tenants, [["gold", "basic"]]);
        let shares = [0, 1].map(|tenant| outcome.device_share(0, tenant));
        for (share, want) in shares.iter().zip(want) {
            assert!((share - want).abs() < 0.05, "{policy:?} {slots:?} {all:?}: {shares:?}");
        }
    }
    // Without tenants in the chain file each stage is one, as in a run.
    let mut one = asked(&file, vec![], "constant:gbps=60");
    let stage = |name| AskedFunction { own_stage: true, ..function(name, Some("gpu")) };
    one.chains[0].functions = vec![stage("nids"), stage("nat")];
    one.sharing = Some(sharing(Policy::EqualShare));
    let (assembled, outcome) = run(&one);
    assert_eq!(assembled.tenants, [["nids", "nat"]]);
    let shares = [0, 1].map(|tenant| outcome.device_share(0, tenant));
    assert!(shares[0] < 0.4 && (shares[1] - 0.5).abs() < 0.03, "{shares:?}");
    // A tenant without launches keeps its slots.
    let mut one = shared(&file, [1, 1]);
    let of_devices = vec![("gpu".to_owned(), 4)];
    one.sharing = Some(AskedSharing { of_devices, ..sharing(Policy::FixedShare) });
    let (_, outcome) = run(&one);
    assert!((outcome.device_share(0, 0) - 0.25).abs() < 0.03, "{}", outcome.device_share(0, 0));
    // A chain of that name is no part of the tenant.
    let mut one = shared(&file, [3, 1]);
    (one.chains[0].name, one.chains[0].tenant) = ("gold".into(), None);
    one.sharing = Some(sharing(Policy::EqualShare));
    let (assembled, outcome) = run(&one);
    assert_eq!(assembled.tenants, [["gold", "gold", "basic"]]);
    let shares = [0, 1, 2].map(|tenant| outcome.device_share(0, tenant));
    assert!((shares[1] - 0.6).abs() < 0.05 && (shares[0] - 0.2).abs() < 0.05, "{shares:?}");
    one.chains[1].tenant.as_mut().expect("a tenant").device = "gpu-8".into();
    let why = one.assemble().expect_err("no such device");
    assert!(why.contains("tenant \"gold\": the profile has no device \"gpu-8\""), "{why}");
    // A chain on the CPU has no slot, and copies are tenants of their own.
    let mut one = shared(&file, [1, 1]);
    one.chains[2].functions = vec![function("nat", Some("cpu"))];
    (one.tenants, one.sharing) = (2, Some(sharing(Policy::EqualShare)));
    let (assembled, outcome) = run(&one);
    assert_eq!(assembled.tenants, [["gold 0", "gold 1"]]);
    assert!((outcome.device_share(0, 0) - 0.5).abs() < 0.05, "{}", outcome.device_share(0, 0));
    let most = Sharing::TENANTS_MAX;
    one.tenants = most + 1;
    let why = one.assemble().expect("sound").scenario.simulate().expect_err("too many tenants");
    assert!(why.to_string().contains("tenants"), "{why}");
}

#[test]
fn the_power_of_a_cpu_with_known_cores_counts_them() {
    for tenants in [1, 2, 4] {
        let file = file();
        let mut one = asked(&file, vec![function("nids", Some("cpu"))], "constant:gbps=0.5");
        one.tenants = tenants;
        let mut scenario = one.assemble().expect("sound").scenario;
        scenario.cores = Some(4);
        let outcome = scenario.simulate().expect("sound");
        // A lane is half busy, and the CPU takes 20 to 100 W.
        let watts = outcome.watts(&scenario, None).expect("known");
        let want = 20.0 + 80.0 * 0.5 * tenants as f64 / 4.0;
        assert!((watts - want).abs() < 3.0, "{tenants} tenants: {watts} W, {want}");
    }
}

/// First in, first out, with bursts that fill the queue until it pauses the source. Packets in the
/// ring before it wait, too.
#[test]
fn packets_that_wait_in_the_ring_have_their_whole_delay() {
    let file = file();
    let load = "onoff:kpps=2000,on_us=1000,off_us=1500,size=512";
    let mut one = asked(&file, vec![function("nat", Some("cpu"))], load);
    one.chains[0].batch_packets = 1;
    let (_, outcome) = run(&one);
    let own = &outcome.chains[0];
    assert_eq!((own.measured.held_back, own.measured.offered), (0, own.measured.sent));
    // The CPU takes 1.024 us for each of 2,000 packets, which come 0.5 us apart.
    let exact = |at: f64| (at + 1.0) * 1.024 - at * 0.5;
    for (part, place) in [(0.1, 200.0), (0.5, 1_000.0), (0.95, 1_900.0)] {
        let (found, expected) = (own.delay.quantile(part) as f64 / 1e3, exact(place));
        assert!((found / expected - 1.0).abs() < 0.03, "{part}: {found}, not {expected}");
    }
}

/// A source of 100 Gb/s with a ring of no packets loses what the lane does not take.
#[test]
fn a_ring_of_no_packets_keeps_none() {
    let file = file();
    for ring in [0, 1] {
        let load = format!("constant:gbps=100,size=512,ring={ring}");
        let (_, outcome) = run(&asked(&file, vec![function("nat", Some("cpu"))], &load));
        let own = &outcome.chains[0].total;
        let by_rate = 4e9 / 8.0 / 512.0 * outcome.ends_ns as f64 / 1e9;
        assert!((own.sent as f64 / by_rate - 1.0).abs() < 0.05, "{}, not {by_rate}", own.sent);
    }
}

/// Launches have the sizes, waits and numbers in flight of the chain file.
#[test]
fn keys_of_launches_count() {
    let file = file();
    let work = |launches, pressure: Option<PauseMode>| {
        let nids = AskedFunction { launches, ..function("nids", Some("gpu")) };
        let mut one = asked(&file, vec![nids], "constant:gbps=1,size=512");
        one.chains[0].pressure = pressure.unwrap_or(one.chains[0].pressure);
        let assembled = one.assemble().expect("sound");
        match &assembled.scenario.chains[0].stages[0].place {
            StageSite::Device(work) => {
                let own = &work.limits;
                (own.packets_max, own.delay_max_ns, own.launches_max)
            }
            StageSite::Cpu { .. } => panic!("a stage on the device"),
        }
    };
    let none = AskedLaunches::default();
    assert_eq!(work(none, None), (1024, 100_000, 4));
    assert_eq!(work(none, Some(PauseMode::Off)), (1024, 100_000, 1));
    let all =
        AskedLaunches { bytes: Some(64 << 10), delay_ns: Some(5_000_000), in_flight: Some(2) };
    assert_eq!(work(all, None), (128, 5_000_000, 2));
    assert_eq!(work(all, Some(PauseMode::Off)), (128, 5_000_000, 1));
}

/// A function without a device is placed beside those that have one. If both were free, nids would
/// be on the GPU.
#[test]
fn free_functions_are_placed_beside_fixed_ones() {
    let fast = PROFILE.replacen("\"gbps\": 4}", "\"gbps\": 30}", 1);
    let fast = fast.replacen("\"gbps\": 1}", "\"gbps\": 25}", 1);
    let file = WorkFile::parse(&fast).expect("sound");
    for (nat, expected) in [(Some("gpu"), "nids: cpu"), (None, "nids: gpu")] {
        let functions = vec![function("nat", nat), function("nids", None)];
        let one = asked(&file, functions, "constant:gbps=10,size=512");
        let (assembled, _) = run(&one);
        assert!(assembled.decisions[1].contains(expected), "{:?}", assembled.decisions);
    }
}
