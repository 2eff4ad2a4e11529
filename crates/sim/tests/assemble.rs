//! Chains and a profile become a scenario, and the scenario gives the profile's rates.

use warpline_packet::{Access, Field, FieldSet, ReadWrite};
use warpline_sched::placement::PlacementPolicy;
use warpline_sched::{Mode, PauseMode, Policy, Watermarks};
use warpline_sim::{Asked, AskedChain, AskedFunction, Assembled, Load, Outcome, WorkFile, trace};

/// On the CPU nat has 4 and nids 1 Gb/s; on the GPU they have 20 and 40 Gb/s.
const PROFILE: &str = r#"{"schema": 1, "kind": "measured", "title": "test",
    "functions": ["nat", "nids"],
    "devices": [{"name": "cpu", "idle_w": 20, "busy_w": 100},
        {"name": "gpu", "idle_w": 10, "busy_w": 110, "link":
            {"to_device_bytes_per_s": 1e10, "to_host_bytes_per_s": 1e10, "each_copy_s": 1e-6}}],
    "measurements": [
        {"function": "nat", "device": "cpu", "launch_packets": 256, "packet_len": 512, "gbps": 4},
        {"function": "nids", "device": "cpu", "launch_packets": 256, "packet_len": 512, "gbps": 1},
        {"function": "nat", "device": "gpu", "launch_packets": 1024, "packet_len": 512, "gbps": 20},
        {"function": "nids", "device": "gpu", "launch_packets": 256, "packet_len": 512, "gbps": 16},
        {"function": "nids", "device": "gpu", "launch_packets": 1024, "packet_len": 512,
         "gbps": 40}]}"#;

fn function(name: &str, device: Option<&str>) -> AskedFunction {
    let reads = match name {
        "nids" => FieldSet::of(&[Field::Payload]),
        _ => FieldSet::of(&[Field::SrcAddr, Field::DstAddr]),
    };
    AskedFunction {
        name: name.into(),
        kind: name.into(),
        device: device.map(str::to_owned),
        own_stage: false,
        access: Access::run_only(ReadWrite::new(reads, FieldSet::EMPTY)),
    }
}

fn asked<'a>(file: &'a WorkFile, functions: Vec<AskedFunction>, load: &str) -> Asked<'a> {
    let chain = AskedChain {
        name: "chain".into(),
        functions,
        mode: Mode::Adaptive,
        pressure: PauseMode::On(Watermarks::default()),
        queue: 6_000,
        lanes: 1,
        batch_packets: 256,
    };
    Asked {
        file,
        chains: vec![chain],
        load: Load::parse(load).expect(load),
        tenants: 1,
        policy: None,
        placement: PlacementPolicy::Throughput,
        lasts_ns: Some(200_000_000),
        seed: 1,
    }
}

fn run(asked: &Asked<'_>) -> (Assembled, Outcome) {
    let assembled = asked.assemble().expect("sound");
    let outcome = assembled.scenario.simulate().expect("sound");
    (assembled, outcome)
}

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
    assert_eq!(stages(&functions), ["nat+nids"]);
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
        one.policy = policy;
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

#[test]
fn missing_functions_and_devices_are_named() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    for (name, device, why) in [
        ("ipsec", Some("cpu"), "no function \"ipsec\"; it has: nat, nids"),
        ("nat", Some("tpu"), "nat: the profile has no device \"tpu\"; it has: cpu, gpu"),
    ] {
        let told = asked(&file, vec![function(name, device)], "constant:gbps=1").assemble();
        assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{told:?}");
    }
}

#[test]
fn the_outcome_has_a_form_for_programs() {
    let file = WorkFile::parse(PROFILE).expect("sound");
    let mut one = asked(&file, vec![function("nids", Some("gpu"))], "constant:gbps=60,size=512");
    one.policy = Some(Policy::BestEffort);
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

    let trace = trace(&assembled.scenario, &outcome);
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
