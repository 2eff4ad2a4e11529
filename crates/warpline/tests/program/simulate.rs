//! `warpline simulate` and `warpline reproduce`.

use std::fs;

use serde_json::Value;

use crate::devices::has_host;
use crate::harness::Demo;
use crate::pcap::{Record, capture};

const CHAIN: &str = "[chain]\nfunctions = [\"digest\", \"flow_monitor\"]\n\
    [digest]\ndevice = \"gpu-7\"\nmin_payload = 64\n[flow_monitor]\nstage = \"own\"\n";

const PROFILE: &str = r#"{"schema": 1, "kind": "paper", "title": "made up", "functions":
    ["digest", "flow_monitor"], "devices": [{"name": "cpu", "idle_w": 10, "busy_w": 20},
    {"name": "gpu-7"}], "measurements": [
    {"function": "digest", "device": "gpu-7", "launch_packets": 256, "packet_len": 500, "gbps": 4},
    {"function": "flow_monitor", "device": "cpu", "launch_packets": 256, "packet_len": 500,
     "gbps": 2}],
    "assumed": [{"what": "all of it", "why": "a test"}]}"#;

fn demo() -> Demo {
    let demo = Demo::new();
    demo.write("own.toml", CHAIN.replace("min_payload = 64\n", ""));
    demo.write("own.json", PROFILE);
    demo
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

#[test]
fn a_chain_is_simulated_with_devices_that_are_not_here() {
    let demo = demo();
    let run =
        "simulate own.toml --profile own.json --load constant:gbps=8.0,size=500 --seconds 0.2";
    let one = demo.warpline(&format!("{run} --json --trace trace.json")).expect(0);
    let other = demo.warpline(&format!("{run} --json")).expect(0);
    assert_eq!(one.stdout, other.stdout, "equal seeds give equal bytes");
    let out = json(&one.stdout);
    let chain = &out["chains"][0];
    // The slower of two stages, which pauses the source before it.
    let gbps = chain["rate"]["gbps"].as_f64().expect("a rate");
    assert!((gbps / 2.0 - 1.0).abs() < 0.02, "{gbps}");
    assert_eq!(chain["packets"]["in_flight"], 0);
    assert_eq!(chain["packets"]["dropped"], 0);
    assert!(chain["packets"]["held_back"].as_u64() > Some(0));
    // It is paused nearly always, since the packets of its ring fill the queue at once.
    let source = &chain["source"];
    assert!(source["pauses"].as_u64() > Some(20), "{source}");
    let paused = source["paused_seconds"].as_f64().expect("seconds");
    let measured = out["measured_seconds"].as_f64().expect("seconds");
    assert!((0.9..=1.0).contains(&(paused / measured)), "{source}, {measured} s");
    assert_eq!(chain["bottleneck"], "flow_monitor");
    assert_eq!(out["placement"][0].as_str().map(|text| text.contains("gpu-7")), Some(true));
    assert_eq!(out["cpu"]["watts"].as_f64().map(f64::round), Some(20.0));
    let trace = json(&demo.read("trace.json"));
    assert!(trace["traceEvents"].as_array().expect("events").len() > 100);

    let text = String::from_utf8(demo.warpline(run).expect(0).stdout).expect("text");
    for part in [
        "profile: made up (printed numbers)",
        "assumed: all of it. a test",
        "p50",
        "  bottleneck flow_monitor; the source was paused",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let capture = "simulate own.toml --profile own.json --load capture.pcap --json";
    let replayed = json(&demo.warpline(capture).expect(0).stdout);
    assert_eq!(replayed["chains"][0]["packets"]["sent"], 12_703, "{replayed}");
    assert!(replayed["seconds"].as_f64() > Some(18.0), "{replayed}");
}

/// Functions on a device share launches in a run only if the CPU has nothing to do between them.
#[test]
fn simulated_stages_are_those_of_a_run() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let names = ["nat", "load_balancer", "flow_monitor", "nids", "firewall", "digest", "router"];
    let measured = |name: &&str, device: &str| {
        serde_json::json!({
            "function": name, "device": device, "launch_packets": 256, "packet_len": 512,
            "gbps": 20,
        })
    };
    let all: Vec<Value> =
        ["cpu", "host"].iter().flat_map(|d| names.iter().map(|name| measured(name, d))).collect();
    let profile = serde_json::json!({
        "schema": 1, "kind": "measured", "title": "a test", "functions": names,
        "devices": [{ "name": "cpu" }, { "name": "host" }], "measurements": all,
    });
    demo.write("all.json", profile.to_string());
    let mut counts = Vec::new();
    for pair in names.windows(2).flat_map(|two| [[two[0], two[1]], [two[1], two[0]]]) {
        let [one, other] = pair;
        let chain = format!(
            "chain.toml --set chain.functions=[{one:?},{other:?}] --set {one}.device=host \
             --set {other}.device=host"
        );
        let text = demo.warpline(&format!("check {chain}")).expect(0).stdout;
        let text = String::from_utf8(text).expect("text");
        let run = text.lines().filter(|line| line.starts_with("  stage ")).count();
        let load = "--profile all.json --load constant:gbps=1 --seconds 0.001 --json";
        let out = json(&demo.warpline(&format!("simulate {chain} {load}")).expect(0).stdout);
        let simulated = out["chains"][0]["stages"].as_array().expect("a list").len();
        assert_eq!(simulated, run, "{pair:?}: {text}");
        counts.push(run);
    }
    assert!(counts.contains(&1) && counts.contains(&2), "{counts:?}");
}

/// Two chains overload a device. One has three of its four slots.
#[test]
fn tenants_of_the_chain_file_share_devices_that_are_not_here() {
    let demo = demo();
    let chain = |name: &str, tenant: &str| {
        format!("[[chain]]\nname = {name:?}\nfunctions = [\"digest\"]\ntenant = {tenant:?}\n")
    };
    let tenant = |name: &str, slots: u32| {
        format!("[[tenant]]\nname = {name:?}\ndevice = \"gpu-7\"\nslots = {slots}\n")
    };
    let device = "[digest]\ndevice = \"gpu-7\"\n[arbiter]\npolicy = \"equal_share\"\n";
    let chains = chain("north", "gold") + &chain("south", "basic");
    demo.write("tenants.toml", chains + device + &tenant("gold", 3) + &tenant("basic", 1));
    let run = "simulate tenants.toml --profile own.json --load constant:gbps=9,size=500";
    let share = |more: &str| {
        let ended = demo.warpline(&format!("{run} --seconds 0.5 --json {more}")).expect(0);
        let device = json(&ended.stdout)["devices"][0].clone();
        assert_eq!(device["tenant_names"], serde_json::json!(["gold", "basic"]));
        device["tenants"][0].as_f64().expect("a share")
    };
    assert!((share("") - 0.75).abs() < 0.05, "{}", share(""));
    assert!((share("--policy fixed_share --set arbiter.slots=6") - 0.5).abs() < 0.05);
    let text = demo.warpline(&format!("{run} --seconds 0.5")).expect(0).stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("% busy (gold 7"), "{text}");
}

/// The capture's packets to two networks pass both functions, the others flow_monitor only.
const ROUTES: &str = "\n[[route]]\nfrom = \"ingress\"\nto = \"flow_monitor\"\n\
    [[route]]\nfrom = \"ingress\"\nto = \"digest\"\n\
    destination = [\"203.0.113.0/24\", \"198.51.100.0/24\"]\n\
    [[route]]\nfrom = \"digest\"\nto = \"flow_monitor\"\n\
    [[route]]\nfrom = \"flow_monitor\"\nto = \"egress\"\n";

#[test]
fn simulated_packets_take_routes_as_in_a_run() {
    let demo = demo();
    demo.write("routed.toml", CHAIN.replace("min_payload = 64\n", "") + ROUTES);
    let run = "run routed.toml --device cpu --set digest.device=\"cpu\" --input capture.pcap";
    demo.warpline(&format!("{run} --stats stats.json")).expect(0);
    let stats = json(&demo.read("stats.json"));
    let real = stats["chains"][0]["functions"][0]["packets_in"].as_u64().expect("a count");
    let all = stats["chains"][0]["packets"]["read"].as_u64().expect("a count");
    assert!(real > 0 && real < all, "{stats}");
    let simulate = "simulate routed.toml --profile own.json --json";
    let out = json(&demo.warpline(&format!("{simulate} --load capture.pcap")).expect(0).stdout);
    let stages = &out["chains"][0]["stages"];
    let share = stages[0]["share"].as_f64().expect("a share");
    assert!((share - real as f64 / all as f64).abs() < 1e-9, "{share}, not {real} of {all}");
    assert_eq!(stages[1]["share"], 1.0);

    let share = |more: &str| {
        let load = "--load constant:gbps=0.5,size=500 --seconds 0.05";
        let out = json(&demo.warpline(&format!("{simulate} {load} {more}")).expect(0).stdout);
        out["chains"][0]["stages"][0]["share"].as_f64().expect("a share")
    };
    assert_eq!((share(""), share("--share ingress/digest=0.2")), (0.5, 0.2));
    for (arguments, why) in [
        ("capture.pcap --share ingress/digest=0.2", "by their destinations"),
        ("constant:gbps=1 --share ingress/digest", "write FROM/TO=PART"),
        ("constant:gbps=1 --share ingress/digest=2", "write FROM/TO=PART"),
        ("constant:gbps=1 --share ingress/nat=0.2", "no chain has routes between such places"),
        ("constant:gbps=1 --share digest/egress=0.2", "the chain has no such route"),
        ("constant:gbps=1 --share digest/flow_monitor=0.2", "from \"digest\" add up to 0.2"),
    ] {
        let ended = demo.warpline(&format!("{simulate} --load {arguments}")).expect(2);
        assert!(ended.stderr.contains(why), "{arguments}: {}", ended.stderr);
    }
}

#[test]
fn mistakes_of_simulations_are_named() {
    let demo = demo();
    demo.write("other.json", PROFILE.replace("\"digest\"", "\"nat\""));
    demo.write("absurd.json", PROFILE.replace("\"gbps\": 4", "\"gbps\": -4"));
    demo.write("huge.json", PROFILE.replace("\"gbps\": 4", "\"gbps\": 1e300"));
    let hours = [0, 7_200_000_000_000].map(|at_ns| Record::new(at_ns, vec![0; 60]));
    demo.write("hours.pcap", capture(1, &hours));
    let load = "--load constant:gbps=8,size=500";
    for (arguments, why) in [
        (format!("own.toml --profile other.json {load}"), "the profile has no function \"digest\""),
        (format!("own.toml --profile absurd.json {load}"), "`measurements[0].gbps` must be"),
        (format!("own.toml --profile huge.json {load}"), "1000000, found 1e+300\n"),
        (
            "own.toml --profile own.json --load none.pcap".into(),
            "--load none.pcap: no such file or directory\n",
        ),
        (format!("own.toml --profile own.json {load} --seconds 1e300"), "to 3600, found 1e300\n"),
        (format!("own.toml --profile none.json {load}"), "can't read none.json"),
        (format!("own.toml --profile own.toml {load}"), "own.toml: line 1, column 2: not JSON"),
        ("own.toml --profile own.json --load fast".into(), "--load fast: no such load"),
        (format!("own.toml --profile own.json {load} --seconds 0"), "--seconds must be"),
        (format!("own.toml --profile own.json {load} --seconds nan"), "--seconds must be"),
        (
            format!("own.toml --profile own.json {load} --policy fair"),
            "--policy fair: no such policy",
        ),
        (format!("own.toml --profile own.json {load} --placement here"), "--placement here"),
        (format!("own.toml --profile own.json {load} --events 500"), "stopped after 500 events"),
        (
            "own.toml --profile own.json --load poisson:mpps=1e6 --events 500".into(),
            "stopped after 500 events",
        ),
        (
            "own.toml --profile own.json --load hours.pcap".into(),
            "--load hours.pcap: it lasts 7200 s",
        ),
        (
            format!("own.toml --profile own.json {load} --trace missing/t.json"),
            "missing/t.json: no such file or directory",
        ),
        (format!("own.toml --profile own.json {load} --trace own.json"), "reads this file"),
        (
            format!("own.toml --profile own.json {load} --set digest.device=\"tpu\""),
            "no device \"tpu\"",
        ),
    ] {
        let ended = demo.warpline(&format!("simulate {arguments}")).expect(2);
        assert!(ended.stderr.contains(why), "{arguments}: {}", ended.stderr);
    }
    assert_eq!(demo.read("own.json"), PROFILE.as_bytes());
}

#[test]
fn entries_are_reproduced_and_saved() {
    let demo = Demo::new();
    let one = demo.warpline("reproduce simmer-2022/table5 --json --out report").expect(0);
    let out = json(&one.stdout);
    assert_eq!(out["entries"][0]["id"], "simmer-2022/table5");
    assert_eq!(out["entries"][0]["state"], "same shape");
    let report = demo.path("report");
    let text = fs::read_to_string(report.join("report.md")).expect("a report");
    assert!(text.contains("### simmer-2022/table5"), "{text}");
    for file in ["results.csv", "results.json", "simmer-2022-table5.svg"] {
        assert!(report.join(file).metadata().expect(file).len() > 100, "{file}");
    }
    let table = demo.warpline("reproduce adaptchain-2024/fig5").expect(0).stdout;
    let table = String::from_utf8(table).expect("text");
    assert!(table.contains("same shape") && table.contains("paper"), "{table}");
    let live = demo.warpline("reproduce vgpu-nfv-2020 --live").expect(0).stdout;
    let live = String::from_utf8(live).expect("text");
    assert!(
        live.contains("live: tools/bench.sh vgpu") && live.contains("0 of the same shape"),
        "{live}"
    );
    let run = |name: &str, gbps: f64| {
        format!(
            "{{\"figure\": \"figure 4\", \"function\": \"{name}\", \"tenants\": 4, \
             \"gbps\": {gbps}}}"
        )
    };
    let runs = format!("[{}, {}]", run("IPsec", 28.9), run("NIDS", 15.3));
    demo.write("bench.json", format!("{{\"bench\": \"vgpu\", \"runs\": {runs}}}"));
    let read = demo.warpline("reproduce vgpu-nfv-2020 --live --record bench.json --json").expect(0);
    let read = json(&read.stdout);
    let mut all = read["entries"].as_array().expect("a list").iter();
    let four = all.find(|one| one["id"] == "vgpu-nfv-2020/fig4").expect("an entry");
    assert_eq!(four["series"][1]["points"][0]["ours"], 15.3);
    assert_eq!(read["entries"][2]["state"], "not run");
    for (text, why) in [("figure 4\n", "line 1, column 2: not JSON"), ("{}", "has no `runs`")] {
        demo.write("bench.md", text);
        let refused = demo.warpline("reproduce all --live --record bench.md").expect(2).stderr;
        assert!(refused.contains("bench.md") && refused.contains(why), "{refused}");
    }
    demo.write("results.json", demo.read("bench.json"));
    let command = "reproduce vgpu-nfv-2020 --live --record results.json --out .";
    let refused = demo.warpline(command).expect(2).stderr;
    assert!(refused.contains("results.json is both the record and the result"), "{refused}");
    assert_eq!(demo.read("results.json"), demo.read("bench.json"));
    assert!(!demo.path("report.md").exists(), "nothing was written");
    demo.write("file", "");
    let refused = demo.warpline("reproduce all --out file").expect(2).stderr;
    assert!(refused.contains("--out file: "), "{refused}");
    let unknown = demo.warpline("reproduce simmer-2022/fig99").expect(2).stderr;
    assert!(unknown.contains("entries of simmer-2022: table1, table2"), "{unknown}");
}
