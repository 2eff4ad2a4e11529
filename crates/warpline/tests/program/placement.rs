//! `[placement]`: devices by a profile.

mod moves;

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::devices::has_host;
use crate::harness::{Demo, LIMIT, wait};
use crate::stats;

/// A profile in which the router has these Gb/s on the CPU and on the reference device.
fn profile(cpu_gbps: f64, host_gbps: f64) -> Value {
    let work = |device: &str, gbps: f64| {
        json!({
            "function": "router", "device": device, "launch_packets": 256, "packet_len": 512,
            "beside": null, "gbps": gbps, "latency_us": 20, "share": 1.0,
            "seconds": 1.0, "spread": 0.0,
        })
    };
    json!({
        "schema": 2,
        "cpu": "none such",
        "devices": [{
            "id": "host", "name": "a device", "uuid": null, "to_device_bytes_per_s": 1e10,
            "to_host_bytes_per_s": 1e10, "each_copy_s": 1e-7, "shares_host_memory": true,
        }],
        "measurements": [work("cpu", cpu_gbps), work("host", host_gbps)],
    })
}

const LIMITS: &str = "excess over the limits";
const PLACED: &str = "--set placement.profile=p.json --set placement.foreign_profile=true \
    --set placement.cpu_devices=true";

fn check(demo: &Demo, more: &str) -> String {
    let ended = demo.warpline(&format!("check chain.toml {PLACED} {more}")).expect(0);
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn functions_run_where_the_profile_says() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.write("p.json", profile(1.0, 20.0).to_string());
    let text = check(&demo, "");
    assert!(text.contains("placement by throughput, for 10 Gb/s of 512 B frames"), "{text}");
    assert!(text.contains("router         on host, launches of 256 packets within"), "{text}");
    assert!(text.contains("1.00 Gb/s otherwise") && text.contains("worse by its load"), "{text}");
    let unknown = "the cost of nids is unknown: it was never measured on cpu; it counts as 1.00 \
                   Gb/s, the slowest function on cpu";
    assert!(text.contains(unknown), "{text}");
    let run = |more: &str| {
        let command = format!("run chain.toml {PLACED} --output o.pcap --stats s.json {more}");
        demo.warpline(&command).expect(0);
        let stats = stats::read(&demo, "s.json");
        let functions = stats["chains"][0]["functions"].as_array().unwrap().clone();
        let router = functions.into_iter().find(|one| one["name"] == "router").unwrap();
        (router["device"].as_str().unwrap().to_owned(), demo.read("o.pcap"))
    };
    let (device, placed) = run("");
    assert_eq!(device, "host");
    for more in ["--set placement.policy=cpu_only", "--set placement.policy=fixed", "--device cpu"]
    {
        let (device, on_cpu) = run(more);
        assert!(device == "cpu" && on_cpu == placed, "{more}: {device}");
    }
    let text = check(&demo, "--set router.device=cpu");
    assert!(text.contains("router         on cpu, as `device` is not \"auto\""), "{text}");
    let text = check(&demo, "--set placement.cpu_devices=false");
    assert!(text.contains("router         on cpu\n"), "it has the same cores: {text}");
    demo.write("p.json", profile(20.0, 1.0).to_string());
    let text = check(&demo, "");
    assert!(text.contains("router         on cpu\n"), "{text}");
    let text = check(&demo, "--set placement.policy=device_only");
    assert!(text.contains("router         on host"), "{text}");
    let text = check(&demo, "--set placement.delay_us_max=0.001");
    assert!(text.contains("no placement keeps `delay_us_max`"), "{text}");
}

#[test]
fn profiles_that_cannot_be_used_are_mistakes() {
    let demo = Demo::new();
    let refused = |text: &str, why: &str| {
        demo.write("p.json", text);
        let command = "check chain.toml --set placement.profile=p.json";
        let ended = demo.warpline(command).expect(2);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    };
    refused(&profile(1.0, 1.0).to_string(), "the processor is \"none such\" there");
    refused("{\n\"schema\": }", "line 2, column 11: not JSON");
    refused("{\"schema\": 1}", "another version");
}

#[test]
fn no_output_replaces_the_profile() {
    let demo = Demo::new();
    let text = profile(1.0, 1.0).to_string();
    demo.write("p.json", &text);
    for command in [
        "run chain.toml --output p.json",
        "run chain.toml --stats p.json",
        "run chain.toml --alerts p.json",
        "run chain.toml --set flow_monitor.csv=p.json",
        "plan chain.toml --svg p.json",
        "simulate chain.toml --set chain.functions=[\"router\"] --profile other.json \
         --load constant:gbps=1 --trace p.json",
    ] {
        demo.write("other.json", &text);
        let reported = demo.warpline(&format!("{command} {PLACED}")).expect(2).stderr;
        assert!(reported.contains("the file of [placement] and the"), "{command}: {reported}");
        assert_eq!(demo.read("p.json"), text.as_bytes(), "{command}");
    }
}

#[test]
fn without_a_profile_the_command_for_one_is_named() {
    let demo = Demo::new();
    let ended = demo.warpline("check chain.toml").expect(0);
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.contains("`warpline profile --out FILE` makes one"), "{text}");
    let warned = |more: &str| {
        let ended = demo.warpline(&format!("run chain.toml --output o.pcap {more}")).expect(0);
        ended.stderr.contains("warning: no profile")
    };
    assert!(warned("--device auto") && warned("--set router.device=auto"));
    assert!(!warned("") && !warned("--device cpu"));
}

#[test]
fn check_and_plan_have_the_choice_as_json() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.write("p.json", profile(1.0, 20.0).to_string());
    for command in ["check", "plan"] {
        let of = |more: &str| {
            let command = format!("{command} chain.toml --json {more}");
            let ended = demo.warpline(&command).expect(0);
            let all: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
            all["chains"][0]["placement"].clone()
        };
        assert_eq!(of(""), Value::Null, "{command}: there is no profile");
        let own = of(&format!(
            "{PLACED} --set placement.load_gbps=0.05 --set placement.delay_us_max=0.5"
        ));
        assert_eq!((&own["policy"], &own["load_gbps"]), (&json!("throughput"), &json!(0.05)));
        let functions = own["functions"].as_array().expect("functions");
        let router = functions.iter().find(|one| one["name"] == "router").expect("a router");
        assert_eq!((functions.len(), &router["launch_packets"]), (10, &json!(256)), "{own:#}");
        // A packet takes 20 / 256 us in each function, and a launch does not wait for others.
        assert_eq!((&router["device"], &router["cpu_share"]), (&json!("cpu"), &json!(1.0)));
        assert_eq!(own["missed"], json!(["delay_us_max"]), "{own:#}");
        let unknown = own["unknown"].as_array().expect("a list");
        assert_eq!((unknown.len(), &unknown[0]["function"]), (7, &json!("digest")), "{own:#}");
        let next = &own["next"];
        assert_eq!((&next["devices"][6], &next["worse_by"]), (&json!("host"), &json!(LIMITS)));
        let delay_us = next["cost"]["delay_us"].as_f64().expect("a delay");
        let want = 20.0 + 9.0 * 20.0 / 256.0;
        assert!((delay_us - want).abs() < 0.1, "{want}: {next:#}");
        let deciding = &next["deciding"];
        assert_eq!((&deciding["function"], &deciding["chain"]), (&json!(6), &json!(0)));
        assert_eq!((&deciding["gbps"], &deciding["next_gbps"]), (&json!(1.0), &json!(20.0)));
        assert_eq!(own["gap"], Value::Null, "all were tried");
    }
}

/// A function stays on a device that the profile lacks. Its cost is unknown, and not none.
#[test]
fn a_device_that_the_profile_lacks_has_an_unknown_cost() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let mut without = profile(4.0, 20.0);
    without["devices"] = json!([]);
    let measurements = without["measurements"].as_array_mut().unwrap();
    measurements.truncate(1);
    let mut other = measurements[0].clone();
    other["function"] = json!("digest");
    measurements.push(other);
    demo.write("p.json", without.to_string());
    let more = "--set chain.functions=[\"router\",\"digest\"] --set router.device=host \
                --set placement.load_gbps=2";
    let text = check(&demo, more);
    let why = "the profile has no device \"host\"; it counts as 4.00 Gb/s, its best on cpu";
    assert!(text.contains(&format!("the cost of router is unknown: {why}")), "{text}");
    assert!(text.contains("router         on host, as `device` is not \"auto\""), "{text}");
    assert!(text.contains("load 0.500, ") && text.contains("power unknown"), "{text}");
    let ended = demo.warpline(&format!("plan chain.toml --json {PLACED} {more}")).expect(0);
    let all: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let own = &all["chains"][0]["placement"];
    assert_eq!(own["unknown"], json!([{ "function": "router", "why": why }]), "{own:#}");
    let text = check(&demo, &more.replace("device=host", "device=cpu"));
    assert!(!text.contains("unknown: "), "{text}");
}

/// Figures that cannot be are named, and nothing runs.
#[test]
fn impossible_figures_of_a_profile_are_mistakes() {
    let demo = Demo::new();
    for (path, value, why) in [
        ("/cpu_power/busy_w", "-5", "`cpu_power.busy_w` must be 0 to 100000 W or null, found -5"),
        ("/devices/0/idle_w", "1e12", "`host.idle_w` must be 0 to 100000 W or null"),
        ("/devices/0/each_copy_s", "-1", "`each_copy_s`: times must be 0 to 1 s, found -1"),
        ("/measurements/0/gbps", "-4", "`measurements[0]`: throughput is out of range"),
        ("/measurements/0/seconds", "NaN", "not JSON"),
    ] {
        let mut all = profile(1.0, 20.0);
        all["cpu_power"] = json!({ "idle_w": 10, "busy_w": 20 });
        all["devices"][0]["idle_w"] = json!(1);
        *all.pointer_mut(path).expect(path) = json!("VALUE");
        demo.write("p.json", all.to_string().replace("\"VALUE\"", value));
        let ended = demo.warpline(&format!("run chain.toml {PLACED}")).expect(2);
        assert!(ended.stderr.contains("p.json") && ended.stderr.contains(why), "{}", ended.stderr);
    }
}

#[test]
fn a_size_of_the_file_that_bounds_a_launch_is_named() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.write("p.json", profile(1.0, 20.0).to_string());
    let text = check(&demo, "--set router.launch_kib=64");
    let bounded = "on host, launches of 128 packets, as `launch_kib` allows no 256, within ";
    assert!(text.contains(bounded), "{text}");
    let of = |more: &str| {
        let ended = demo.warpline(&format!("plan chain.toml --json {PLACED} {more}")).expect(0);
        let all: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        let functions = all["chains"][0]["placement"]["functions"].as_array().cloned().unwrap();
        functions.into_iter().find(|one| one["name"] == "router").expect("a router")
    };
    let own = of("--set router.launch_kib=64");
    assert_eq!((&own["launch_packets"], &own["launch_kib_packets"]), (&json!(256), &json!(128)));
    assert_eq!(of("--set router.launch_kib=256")["launch_kib_packets"], Value::Null);
}

/// Launches of 64, 1,024 and 4,096 packets, within 40 ms: at 50 Mb/s only the smallest fill.
#[test]
fn launches_follow_the_rate_within_the_delay() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let mut profile = profile(0.001, 20.0);
    let host = profile["measurements"][1].clone();
    profile["measurements"].as_array_mut().unwrap().pop();
    for (packets, gbps) in [(64, 10.0), (1024, 20.0), (4096, 40.0)] {
        let mut own = host.clone();
        (own["launch_packets"], own["gbps"]) = (json!(packets), json!(gbps));
        profile["measurements"].as_array_mut().unwrap().push(own);
    }
    demo.write("p.json", profile.to_string());
    let text = check(&demo, "--set chain.functions=[\"router\"] --set placement.load_gbps=1");
    assert!(text.contains("the next best is host with launches of 1024 packets: load"), "{text}");
    let run = demo.start(&format!(
        "run chain.toml {PLACED} --set chain.functions=[\"router\"] --socket s --output none \
         --set placement.delay_us_max=40000 --set placement.load_gbps=1 \
         --input generate:packets=100000000,size=512,rate_gbps=0.05@3|0.5@100"
    ));
    let started = Instant::now();
    let mut seen = Vec::new();
    // The first may be those of the load in the file.
    while seen.iter().rev().nth(1) != Some(&32.0) {
        let ended = demo.warpline("ctl stats --json --socket s");
        let stats: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
        let kib = stats["chains"][0]["stages"][0]["launch"]["kib"].as_f64();
        seen.extend(kib.filter(|kib| seen.last() != Some(kib)));
        assert!(started.elapsed() < LIMIT, "{seen:?}, {stats:#}");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(seen.len() <= 3 && seen.last() >= Some(&512.0), "{seen:?}");
    demo.warpline("ctl stop --socket s").expect(0);
    let part = wait(run).expect(0);
    assert!(!part.stderr.contains("moved"), "{}", part.stderr);
}

/// Two lanes of 20 Mb/s each, and a device of 30, for 100 Mb/s: a lane and the device carry 50.
#[test]
fn flows_are_divided_between_the_cpu_and_a_device() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.write("p.json", profile(0.02, 0.03).to_string());
    let load =
        "--set chain.lanes=2 --set placement.load_gbps=0.1 --set chain.functions=[\"router\"]";
    let text = check(&demo, load);
    assert!(
        text.contains("the CPU should take 50 % of its flows: 1 of 2 lanes use the CPU"),
        "{text}"
    );
    let run = |more: &str| {
        let command = format!("run chain.toml {load} {more} --output o.pcap --stats s.json");
        demo.warpline(&command).expect(0);
        (demo.read("o.pcap"), stats::read(&demo, "s.json")["chains"][0].clone())
    };
    let (on_cpu, _) = run("--set router.device=cpu");
    let (divided, chain) = run(PLACED);
    assert_eq!(divided, on_cpu);
    assert_eq!(chain["stages"][0]["launch"]["lanes"], 1);
    assert!(chain["transfers"]["launches"].as_u64() > Some(0), "{chain:#}");
    let one = check(
        &demo,
        "--set chain.lanes=1 --set placement.load_gbps=0.1 --set chain.functions=[\"router\"]",
    );
    assert!(!one.contains("of its flows"), "{one}");
}
