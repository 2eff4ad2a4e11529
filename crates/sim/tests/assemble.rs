//! Chains and a profile become a scenario, and the scenario gives the profile's rates.

#[path = "common/assembled.rs"]
mod assembled;

use std::sync::Arc;

use assembled::{PROFILE, asked, function, run, sharing};
use warpline_packet::{Access, Field, FieldSet, ReadWrite};
use warpline_sched::placement::PlacementPolicy;
use warpline_sched::{Destination, Policy, Route, RouteFrom, RouteTo, RoutedFunction, Routes};
use warpline_sim::{
    AskedFunction, BatchCost, HopShare, Misdivided, Outcome, StageSite, Ways, WorkFile, trace,
};

fn gbps(outcome: &Outcome) -> f64 {
    (0..outcome.chains.len()).map(|chain| outcome.sent_bps(chain) / 1e9).sum()
}

#[test]
fn rates_are_those_of_the_profile() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let both = |device| vec![function("nat", Some(device)), function("nids", Some(device))];
    for (functions, expected) in [
        (vec![function("nids", Some("cpu"))], 1.0),
        // One lane does both: 1 / (1/4 + 1/1).
        (both("cpu"), 0.8),
        (vec![function("nids", Some("gpu"))], 40.0),
        // One launch has both kernels: 1 / (1/20 + 1/40).
        (both("gpu"), 40.0 / 3.0),
    ] {
        let names: Vec<_> =
            functions.iter().map(|one| (one.name.clone(), one.device.clone())).collect();
        let (_, outcome) = run(&asked(&file, functions, "constant:gbps=60,size=512"));
        let found = gbps(&outcome);
        assert!((found / expected - 1.0).abs() < 0.02, "{names:?}: {found}, not {expected}");
    }
}

#[test]
fn small_launches_take_a_fixed_time_and_a_time_for_each_packet() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let load = "constant:gbps=4,size=512";
    let (_, outcome) = run(&asked(&file, vec![function("nids", Some("gpu"))], load));
    let stage = outcome.chains[0].measured.stages[0];
    // 256 packets take 65.5 us and 1024 take 104.9 us.
    let (packet_ns, fixed_ns) = (51.2, 52_428.8);
    let expected = stage.launches as f64 * fixed_ns + stage.processed as f64 * packet_ns;
    assert!(stage.processed / stage.launches < 200, "the deadline closes launches");
    assert!((stage.work_ns as f64 / expected - 1.0).abs() < 0.01, "{stage:?}, not {expected}");
}

#[test]
fn a_launch_between_two_measured_sizes_has_a_time_between_theirs() {
    // 256 packets take 65.5 us, 512 take 131.1 us and 1024 take 104.9 us.
    let more = r#""measurements": [{"function": "nids", "device": "gpu", "launch_packets": 512,
        "packet_len": 512, "gbps": 16},"#;
    let file = PROFILE.replacen("\"measurements\": [", more, 1);
    let file = WorkFile::parse(&file).expect("sound");
    let asked = asked(&file, vec![function("nids", Some("gpu"))], "constant:gbps=4,size=512");
    let assembled = asked.assemble().expect("sound");
    let StageSite::Device(work) = &assembled.scenario.chains[0].stages[0].place else {
        panic!("a stage on the device")
    };
    let BatchCost::Measured(points) = &work.kernel else { panic!("measured launches") };
    let found: Vec<_> = points.iter().map(|(packets, ps)| (*packets, (ps / 1e6).round())).collect();
    assert_eq!(found, [(256.0, 66.0), (512.0, 131.0), (1024.0, 105.0)]);
}

#[test]
fn lanes_gather_fields_and_put_them_back() {
    let host = r#""host": {"gather_packet_s": 2e-8, "gather_field_s": 1e-8, "put_packet_s": 3e-8,
        "put_field_s": 5e-9, "byte_s": 1e-9}, "functions":"#;
    let with = PROFILE.replacen("\"functions\":", host, 1);
    let of = |text: &str| {
        let file = WorkFile::parse(text).expect("sound");
        let mut nat = function("nat", Some("gpu"));
        let fields = FieldSet::of(&[Field::SrcAddr, Field::DstAddr]);
        nat.access = Access::run_only(ReadWrite::new(fields, FieldSet::of(&[Field::SrcAddr])));
        let asked = asked(&file, vec![nat], "constant:gbps=4,size=512");
        let assembled = asked.assemble().expect("sound");
        let StageSite::Device(work) = &assembled.scenario.chains[0].stages[0].place else {
            panic!("a stage on the device")
        };
        [work.before.packet_ps, work.after.packet_ps].map(|ps| (ps / 1e3).round())
    };
    assert_eq!(of(PROFILE), [0.0, 0.0], "not measured");
    // 20 and twice 10 ns, and 8 bytes; back 30 and 5 ns, and 4 bytes.
    assert_eq!(of(&with), [48.0, 39.0]);
    let wrong = with.replacen("2e-8", "-1", 1);
    let reported = WorkFile::parse(&wrong).expect_err("a negative time").to_string();
    assert!(reported.contains("`host.gather_packet_s` must be 0 to 1"), "{reported}");
}

#[test]
fn divided_flows_use_the_device_in_some_lanes_only() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let mut asked = asked(&file, vec![function("nids", None)], "constant:gbps=200,size=512");
    asked.chains[0].lanes = 8;
    let assembled = asked.assemble().expect("sound");
    let on_gpu =
        |chain: &warpline_sim::ChainModel| matches!(chain.stages[0].place, StageSite::Device(_));
    let lanes: Vec<bool> = assembled.scenario.chains.iter().map(on_gpu).collect();
    let count = lanes.iter().filter(|on_gpu| **on_gpu).count();
    assert!((1..8).contains(&count) && lanes[..count].iter().all(|own| *own), "{lanes:?}");
    let decision = format!("the CPU in {} of 8 lanes", 8 - count);
    assert!(assembled.decisions[0].contains(&decision), "{:?}", assembled.decisions);
    // The GPU carries 40 Gb/s, and each lane on the CPU 1.
    let found = gbps(&assembled.scenario.simulate().expect("sound"));
    let expected = 40.0 + (8 - count) as f64;
    assert!((found / expected - 1.0).abs() < 0.05, "{found}, not {expected}");
}

/// 101 packets come in the 20 us of a batch, which takes 10.1 us: their delays are evenly spaced.
#[test]
fn delays_of_a_batch_are_those_of_its_packets() {
    let text = r#"{"schema": 1, "kind": "measured", "title": "test", "functions": ["nat"],
        "devices": [{"name": "cpu"}], "measurements": [{"function": "nat", "device": "cpu",
            "launch_packets": 256, "packet_len": 512, "gbps": 40.96}]}"#;
    let file = WorkFile::parse(text).expect("sound");
    let asked = asked(&file, vec![function("nat", None)], "constant:mpps=5,size=512");
    let (assembled, outcome) = run(&asked);
    let found = &outcome.json(&assembled.scenario)["chains"][0]["latency_us"];
    for (key, us, within) in
        [("mean", 20.1, 0.01), ("p50", 20.1, 0.03), ("p95", 29.1, 0.03), ("max", 30.1, 0.01)]
    {
        let own = found[key].as_f64().expect("a delay");
        assert!((own / us - 1.0).abs() < within, "{key}: {own}, not {us}");
    }
}

#[test]
fn small_batches_on_the_cpu_take_the_times_of_small_measured_ones() {
    // By the larger two, a batch takes 2 us and 0.5 us for each packet. One packet takes 0.9 us.
    let profile = |sizes: &[(u32, f64)]| {
        let one = |&(packets, us): &(u32, f64)| {
            let gbps = f64::from(packets) * 512.0 * 8.0 / us / 1e3;
            format!(
                "{{\"function\": \"nat\", \"device\": \"cpu\", \"launch_packets\": {packets}, \
                 \"packet_len\": 512, \"gbps\": {gbps}}}"
            )
        };
        let all: Vec<String> = sizes.iter().map(one).collect();
        let text = format!(
            "{{\"schema\": 1, \"kind\": \"measured\", \"title\": \"test\", \
             \"functions\": [\"nat\"], \"devices\": [{{\"name\": \"cpu\"}}], \
             \"measurements\": [{}]}}",
            all.join(", ")
        );
        WorkFile::parse(&text).expect("sound")
    };
    let large = [(256, 130.0), (1024, 514.0)];
    let of = |sizes: &[(u32, f64)], load: &str| {
        let file = profile(sizes);
        let (_, outcome) = run(&asked(&file, vec![function("nat", None)], load));
        let stage = outcome.chains[0].measured.stages[0];
        stage.work_ns as f64 / stage.processed as f64
    };
    let all = [&[(1, 0.9), (16, 9.9)][..], &large].concat();
    let slow = "constant:pps=1000,size=512";
    assert!((of(&large, slow) - 2_500.0).abs() < 1.0, "{}", of(&large, slow));
    assert!((of(&all, slow) - 900.0).abs() < 1.0, "{}", of(&all, slow));
    // Eight packets come in 20 us, which take 0.9 us and seven times 0.6.
    let quick = of(&all, "constant:pps=400000,size=512");
    assert!((570.0..700.0).contains(&quick), "{quick}");
}

#[test]
fn the_first_queue_has_the_length_of_the_engine() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let peak = |least: u64| {
        let functions = vec![function("nids", Some("cpu"))];
        let mut one = asked(&file, functions, "constant:gbps=2,size=512");
        one.chains[0].first_launch_packets = least;
        let (assembled, outcome) = run(&one);
        let stage = &assembled.scenario.chains[0].stages[0];
        let launches = f64::from(outcome.chains[0].pauses.edges[0].peak) / 1e3;
        launches * stage.launch_packets as f64
    };
    // The high mark is 2.8 launches, and one batch of 256 packets may come before the pause.
    assert!((716.0..=1100.0).contains(&peak(1)), "{}", peak(1));
    assert!((2048.0..=2400.0).contains(&peak(732)), "{}", peak(732));
}

/// At low rates deadlines close launches, and packets wait for one at each stage.
#[test]
fn packets_wait_for_a_launch_at_each_stage() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let own_stage = |name: &str| AskedFunction { own_stage: true, ..function(name, Some("gpu")) };
    let delay = |names: &[&str]| {
        let functions = names.iter().map(|name| own_stage(name)).collect();
        let (_, outcome) = run(&asked(&file, functions, "constant:pps=100000,size=512"));
        let stages = &outcome.chains[0].measured.stages;
        assert!(stages.iter().all(|stage| stage.launches > 100), "{names:?}: {stages:?}");
        outcome.chains[0].delay.max() as f64
    };
    let [nat, nids, both] = [&["nat"][..], &["nids"], &["nat", "nids"]].map(delay);
    let part = both / (nat + nids);
    assert!((0.85..1.15).contains(&part), "{both} ns, alone {nat} and {nids}");
}

/// Half of the packets pass nat, all but a tenth pass nids, and that tenth has no route after nat.
fn ways() -> Ways {
    let route = |from, destination: Option<&str>, to| Route {
        from,
        destination: destination.map(|text| text.parse().expect("a prefix")),
        to,
    };
    let functions = ["nat", "nids"]
        .map(|name| RoutedFunction { name: name.into(), ..RoutedFunction::default() });
    let routes = [
        route(RouteFrom::Ingress(None), None, RouteTo::Function(1)),
        route(RouteFrom::Ingress(None), Some("10.0.0.0/8"), RouteTo::Function(0)),
        route(RouteFrom::Function(0), Some("10.128.0.0/9"), RouteTo::Function(1)),
        route(RouteFrom::Function(1), None, RouteTo::Egress),
    ];
    let routes = Routes::new(&functions, 0, &routes).expect("sound");
    Ways::new(Arc::new(routes), 2)
}

#[test]
fn stages_work_on_the_packets_that_are_routed_to_them() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let mut own = ways();
    for packet in 0..10u32 {
        let address = match packet {
            0..5 => 0xc000_0200,
            5 => 0x0a00_0001,
            _ => 0x0aff_0001,
        };
        own.add(Destination::V4(address));
    }
    for device in ["cpu", "gpu"] {
        let functions = vec![function("nat", Some(device)), function("nids", Some(device))];
        let mut one = asked(&file, functions, "constant:gbps=0.5,size=512");
        one.chains[0].ways = Some(own.clone());
        let (assembled, outcome) = run(&one);
        let stages = &assembled.scenario.chains[0].stages;
        let counts = &outcome.chains[0].total;
        let part = |packets: u64| packets as f64 / counts.offered as f64;
        assert!((part(counts.unrouted) - 0.1).abs() < 0.001, "{counts:?}");
        assert_eq!(counts.sent + counts.unrouted, counts.offered);
        match device {
            // A lane passes all functions of a stage: 0.5 / 4 + 0.9 / 1 for a bit.
            "cpu" => {
                assert_eq!((stages.len(), stages[0].share), (1, 1.0));
                let busy = outcome.lane_busy_ns[0] as f64 / outcome.measured_ns as f64;
                assert!((busy / (0.5 * (0.5 / 4.0 + 0.9)) - 1.0).abs() < 0.03, "{busy}");
            }
            // Launches of nids have packets that nat does not get.
            _ => {
                let shares: Vec<f64> = stages.iter().map(|stage| stage.share).collect();
                assert_eq!(shares, [0.5, 0.9]);
                let processed = [0, 1].map(|at| part(counts.stages[at].processed));
                assert!((processed[0] - 0.5).abs() < 0.001, "{processed:?}");
                assert!((processed[1] - 0.9).abs() < 0.001, "{processed:?}");
            }
        }
    }
}

#[test]
fn routes_without_destinations_get_equal_parts_or_stated_ones() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let hop = |from, to, part| HopShare { from, to, part };
    let shares = |given: &[HopShare]| -> Vec<f64> {
        let mut own = ways();
        own.divide(given).expect("routes");
        let functions = vec![function("nat", Some("gpu")), function("nids", Some("gpu"))];
        let mut one = asked(&file, functions, "constant:gbps=0.5,size=512");
        one.chains[0].ways = Some(own);
        let (assembled, _) = run(&one);
        assembled.scenario.chains[0].stages.iter().map(|stage| stage.share).collect()
    };
    assert_eq!(shares(&[]), [0.5, 1.0]);
    let nat = |part| hop(None, RouteTo::Function(0), part);
    assert_eq!(shares(&[nat(0.125)]), [0.125, 1.0]);
    assert_eq!(shares(&[nat(0.5), nat(0.25)]), [0.25, 1.0], "the last one counts");
    let nids = |part| hop(None, RouteTo::Function(1), part);
    let divide = |given: &[HopShare]| ways().divide(given);
    assert_eq!(divide(&[nat(0.5), nids(0.25)]), Err(Misdivided::Sum(None, 0.75)));
    assert_eq!(divide(&[nat(1.5)]), Err(Misdivided::Sum(None, 1.5)));
    let wrong = hop(Some(0), RouteTo::Egress, 0.5);
    assert_eq!(divide(&[nat(0.5), wrong]), Err(Misdivided::NoRoute(1)));
}

#[test]
fn traffic_with_an_end_is_simulated_whole() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let load = "steps:gbps=2@0.01/0@0.02/8@0.01,size=512";
    let mut one = asked(&file, vec![function("nat", Some("gpu"))], load);
    one.lasts_ns = None;
    let (assembled, outcome) = run(&one);
    assert_eq!(assembled.scenario.lasts_ns, 40_000_000);
    let packets = 10e9 / 8.0 / 512.0 * 0.01;
    assert!((outcome.chains[0].total.sent as f64 / packets - 1.0).abs() < 0.001);
}

#[test]
fn paper_profiles_are_sound() {
    let simmer = include_str!("../../../examples/profiles/simmer-2022.json");
    let pythia = include_str!("../../../examples/profiles/pythia-2020.json");
    let [simmer, pythia] = [simmer, pythia].map(|text| WorkFile::parse(text).expect("sound"));
    assert!(simmer.is_paper && pythia.is_paper && !simmer.assumed.is_empty());
    let chain = ["router", "ipsec", "nids"]
        .map(|name| AskedFunction { own_stage: true, ..function(name, Some("a100")) });
    let mut saturated = asked(&simmer, chain.to_vec(), "constant:mpps=1,size=1472");
    saturated.lasts_ns = Some(5_000_000_000);
    let (_, outcome) = run(&saturated);
    // 0.04 + 1.63 + 0.52 us.
    let mpps = outcome.sent_pps(0) / 1e6;
    assert!((mpps * 2.19 - 1.0).abs() < 0.03, "{mpps}");
}

#[test]
fn functions_share_a_stage_unless_one_has_its_own() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let mut functions = vec![function("nat", Some("gpu")), function("nids", Some("gpu"))];
    let stages = |functions: &[AskedFunction]| {
        let one = asked(&file, functions.to_vec(), "constant:gbps=1").assemble().expect("sound");
        let stages = one.scenario.chains[0].stages.iter();
        stages.map(|stage| stage.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(stages(&functions), ["nat, nids"]);
    functions[1].own_stage = true;
    assert_eq!(stages(&functions), ["nat", "nids"]);
    functions[1].own_stage = false;
    functions[0].device = Some("cpu".into());
    assert_eq!(stages(&functions), ["nat", "nids"]);
}

#[test]
fn functions_without_a_device_are_placed() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let mut one = asked(&file, vec![function("nids", None)], "constant:gbps=8,size=512");
    let assembled = one.assemble().expect("sound");
    assert!(assembled.decisions[0].starts_with("chain/nids: gpu (chosen by throughput)"));
    one.placement = PlacementPolicy::CpuOnly;
    let assembled = one.assemble().expect("sound");
    assert!(assembled.decisions[0].starts_with("chain/nids: cpu (chosen by cpu_only)"));
}

#[test]
fn energy_is_spared_also_if_launches_are_not_full() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    // 37 packets come in the millisecond of a launch. Full launches of 1024 would be 0.4 % of the
    // GPU, and take less power than 15 % of the CPU.
    let mut one = asked(&file, vec![function("nids", None)], "constant:gbps=0.15,size=512");
    let mut of = |policy| {
        one.placement = policy;
        let (assembled, outcome) = run(&one);
        let is_on_gpu = assembled.decisions[0].starts_with("chain/nids: gpu");
        let gpu_w = outcome.watts(&assembled.scenario, Some(0)).expect("known");
        let cpu_w = outcome.watts(&assembled.scenario, None).expect("known");
        (is_on_gpu, cpu_w + if is_on_gpu { gpu_w } else { 0.0 })
    };
    let (on_gpu, gpu_w) = of(PlacementPolicy::DeviceOnly);
    let (on_cpu, cpu_w) = of(PlacementPolicy::CpuOnly);
    assert!(on_gpu && !on_cpu && cpu_w + 2.0 < gpu_w, "{cpu_w} {gpu_w}");
    assert_eq!(of(PlacementPolicy::Energy), (false, cpu_w));
}

#[test]
fn bytes_are_those_of_the_plan() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let (_, outcome) = run(&asked(&file, vec![function("nat", Some("gpu"))], "constant:gbps=1"));
    let packets = outcome.chains[0].measured.sent as f64;
    // Two addresses and 16 bytes of the table, of 512.
    let each = outcome.devices[0].to_device_bytes as f64 / packets;
    assert!((20.0..60.0).contains(&each), "{each}");
    let (_, outcome) = run(&asked(&file, vec![function("nids", Some("gpu"))], "constant:gbps=1"));
    let each = outcome.devices[0].to_device_bytes as f64 / outcome.chains[0].measured.sent as f64;
    assert!((500.0..620.0).contains(&each), "{each}");
}

#[test]
fn tenants_and_lanes_share_devices() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let mut one = asked(&file, vec![function("nids", Some("gpu"))], "constant:gbps=60,size=512");
    one.tenants = 2;
    for policy in [None, Some(Policy::BestEffort), Some(Policy::EqualShare)] {
        one.sharing = policy.map(sharing);
        let (assembled, outcome) = run(&one);
        assert_eq!(assembled.origins, [(0, 0), (0, 1)]);
        let share = outcome.device_share(0, 0) / outcome.device_share(0, 1);
        assert!((share - 1.0).abs() < 0.1, "{policy:?}: {share}");
        assert!((gbps(&outcome) / 40.0 - 1.0).abs() < 0.1, "{policy:?}: {}", gbps(&outcome));
    }
    let mut lanes = asked(&file, vec![function("nids", Some("cpu"))], "poisson:gbps=30,size=512");
    lanes.chains[0].lanes = 3;
    let (_, outcome) = run(&lanes);
    assert!((gbps(&outcome) / 3.0 - 1.0).abs() < 0.02, "{}", gbps(&outcome));
}

/// A profile of threads has its own times of reading, of lanes and of kernels on the CPU. Launches
/// then have the bytes of the engine's.
#[test]
fn times_of_threads_with_a_function_replace_others() {
    let each = |packet: f64| format!(r#"{{"packet_s": {packet}, "byte_s": 0}}"#);
    let of = |device: &str, read: f64, lane: f64, kernel: &str| {
        let [read, lane, none] = [read, lane, 0.0].map(each);
        format!(
            r#"{{"function": "nat", "device": "{device}", "read": {read}, "lane": {lane},
                "send": {none}, "full_read": {read}, "full_lane": {lane}, "full_send": {none}
                {kernel}}}"#
        )
    };
    let kernel = r#", "kernel": {"launch_s": 5e-5, "packet_s": 3e-9, "byte_s": 0, "threads": 2}"#;
    let functions = [of("cpu", 9e-8, 3e-6, ""), of("gpu", 7e-8, 6e-8, kernel)].join(", ");
    let time = r#"{"wake_s": 0, "packet_s": 5e-8, "byte_s": 0}"#;
    let threads = format!(
        r#""threads": {{"cores": 8, "read": {time}, "lane": {time}, "send": {time}, "rests": [],
            "timer_late_s": [1e-5], "wake_late_s": 1e-5, "functions": [{functions}]}},"#
    );
    let text = PROFILE.replacen("\"measurements\"", &format!("{threads} \"measurements\""), 1);
    let file = WorkFile::parse(&text).expect("sound");
    let scenario = |device: &str| {
        let one = asked(&file, vec![function("nat", Some(device))], "constant:gbps=1,size=512");
        one.assemble().expect("sound").scenario
    };
    let own = scenario("cpu");
    let reader = own.chains[0].reader.expect("a reader");
    assert_eq!((reader.cost.packet_ps.round(), own.wake_late_ns), (9e4, 10_000));
    let StageSite::Cpu { cost, .. } = &own.chains[0].stages[0].place else { panic!("the CPU") };
    let BatchCost::Measured(points) = cost else { panic!("measured sizes") };
    let (packets, ps) = points[points.len() - 1];
    assert!((ps / packets / 3e6 - 1.0).abs() < 0.02, "{points:?}");
    let own = scenario("gpu");
    assert_eq!(own.device_threads, [2]);
    let StageSite::Device(work) = &own.chains[0].stages[0].place else { panic!("a device") };
    assert_eq!((work.limits.packets_max, work.latency_ns), (2_048, 0));
    let BatchCost::Linear(kernel) = work.kernel else { panic!("a line") };
    // Waking two threads is none of a launch.
    assert_eq!((kernel.launch_ps.round(), kernel.packet_ps.round()), (3e7, 3e3));
    assert_eq!(work.before.packet_ps.round(), 6e4);
}

#[test]
fn missing_functions_and_devices_are_named() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    for (name, device, why) in [
        ("ipsec", Some("cpu"), "no function \"ipsec\"; it has: nat, nids"),
        ("nat", Some("tpu"), "nat: the profile has no device \"tpu\"; it has: cpu, gpu"),
    ] {
        let reported = asked(&file, vec![function(name, device)], "constant:gbps=1").assemble();
        assert!(reported.as_ref().is_err_and(|reported| reported.contains(why)), "{reported:?}");
    }
}

#[test]
fn the_outcome_has_a_form_for_programs() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let mut one = asked(&file, vec![function("nids", Some("gpu"))], "constant:gbps=60,size=512");
    one.sharing = Some(sharing(Policy::BestEffort));
    let mut assembled = one.assemble().expect("sound");
    assembled.scenario.spans_max = 1_000;
    let outcome = assembled.scenario.simulate().expect("sound");
    let json = outcome.json(&assembled.scenario);
    let packets = &json["chains"][0]["packets"];
    let sum: u64 = ["sent", "held_back", "dropped", "in_flight"]
        .iter()
        .map(|key| packets[key].as_u64().expect("a count"))
        .sum();
    assert_eq!(packets["offered"].as_u64(), Some(sum));
    // A device of 10 to 110 W that always has work.
    let watts = json["devices"][0]["watts"].as_f64().expect("known");
    assert!((watts - 110.0).abs() < 2.0, "{watts}");

    let trace: serde_json::Value =
        serde_json::from_str(&trace(&assembled.scenario, &outcome)).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let kernels = events.iter().filter(|event| event["name"] == "kernel" && event["ph"] == "X");
    let mut last = 0.0;
    for kernel in kernels {
        let (begins, lasts) = (kernel["ts"].as_f64(), kernel["dur"].as_f64());
        let (Some(begins), Some(lasts)) = (begins, lasts) else { panic!("{kernel}") };
        assert!(begins >= last - 1e-6, "kernels of a device follow each other");
        last = begins + lasts;
    }
    assert!(last > 0.0);
}
