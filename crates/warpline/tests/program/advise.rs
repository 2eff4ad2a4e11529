//! `warpline advise`.

use serde_json::{Value, json};

use crate::devices::has_host;
use crate::harness::Demo;

/// Bytes of a frame, by default.
const LEN: f64 = 512.0;
/// Packets of a launch on a device that is not here, and its Gb/s with them.
const GPU: [(u64, f64); 3] = [(256, 2.0), (1024, 4.0), (4096, 8.0)];
const GPU_US: f64 = 100.0;
const CPU_GBPS: f64 = 0.9;
const CPU_US: f64 = 20.0;

fn profile() -> String {
    let work = |device: &str, launch_packets: u64, gbps: f64, latency_us: f64| {
        json!({
            "function": "router", "device": device, "launch_packets": launch_packets,
            "packet_len": LEN as u64, "beside": null, "gbps": gbps, "latency_us": latency_us,
            "share": 1.0, "seconds": 1.0, "spread": 0.0,
        })
    };
    let mut works = vec![work("cpu", 256, CPU_GBPS, CPU_US)];
    works.extend(GPU.map(|(packets, gbps)| work("gpu-x", packets, gbps, GPU_US)));
    let device = json!({
        "id": "gpu-x", "name": "a device", "uuid": null, "to_device_bytes_per_s": 1e10,
        "to_host_bytes_per_s": 1e10, "each_copy_s": 1e-7, "shares_host_memory": true,
    });
    let all = json!({
        "schema": 2, "cpu": "none such", "devices": [device], "measurements": works,
    });
    all.to_string()
}

const ADVISE: &str = "advise chain.toml --set chain.functions=[\"router\"] --set chain.lanes=1";
const FOREIGN: &str = "--profile p.json --set placement.foreign_profile=true";

fn demo() -> Demo {
    let demo = Demo::new();
    demo.write("p.json", profile());
    demo
}

fn advice(demo: &Demo, more: &str) -> Value {
    let ended = demo.warpline(&format!("{ADVISE} {FOREIGN} --json {more}")).expect(0);
    serde_json::from_slice(&ended.stdout).expect("JSON")
}

/// The device and launch with the least load of those that keep the delay. The CPU takes packets
/// one by one, and in batches of 256 if it is overloaded. Returns the device, the packets of a
/// launch, the load, and the delay; `None` if no launch of the GPU fills within the delay.
fn expected(gbps: f64, delay_us: f64) -> Option<(&'static str, u64, f64, f64)> {
    let fill_us = |packets: u64| packets as f64 * LEN * 8.0 / (gbps * 1e3);
    if !GPU.iter().any(|(packets, _)| fill_us(*packets) + GPU_US <= delay_us) {
        return None;
    }
    let gpu = GPU.map(|(packets, most)| ("gpu-x", packets, gbps / most, fill_us(packets) + GPU_US));
    let cpu_us = if gbps < CPU_GBPS { CPU_US / 256.0 } else { CPU_US + fill_us(255) };
    let all = gpu.into_iter().chain([("cpu", 0, gbps / CPU_GBPS, cpu_us)]);
    let excess = |us: f64| (us / delay_us - 1.0).max(0.0);
    let order = |one: &(&str, u64, f64, f64)| (excess(one.3), one.2);
    all.min_by(|a, b| order(a).partial_cmp(&order(b)).expect("numbers"))
}

#[test]
fn the_table_follows_from_measurements() {
    let all = advice(&demo(), "");
    let chain = &all["chains"][0];
    assert_eq!(chain["packet_len"], 512);
    let cells = chain["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 70);
    let mut seen = std::collections::BTreeSet::new();
    for cell in cells {
        let [gbps, us] = ["rate_gbps", "delay_us"].map(|key| cell[key].as_f64().expect(key));
        let own = &cell["placement"];
        let misses = |limit: &str| own["missed"].as_array().unwrap().iter().any(|one| one == limit);
        let Some((device, packets, load, best_us)) = expected(gbps, us) else {
            // The smallest launch is closed before it is full.
            let smallest = [Value::Null, json!(GPU[0].0)];
            assert!(smallest.contains(&cell["launch_packets"]), "{cell:#}");
            assert_eq!(misses("delay_us_max"), own["cost"]["delay_us"].as_f64() > Some(us));
            if cell["launch_packets"].is_null() {
                seen.insert(("cpu", 0));
            }
            continue;
        };
        assert_eq!(misses("load_gbps"), load > 1.0, "{cell:#}");
        assert_eq!(misses("delay_us_max"), best_us > us, "{best_us}: {cell:#}");
        if load > 1.0 {
            continue;
        }
        let function = &own["functions"][0];
        assert_eq!((&function["name"], &function["device"]), (&json!("router"), &json!(device)));
        let launch = if device == "cpu" { Value::Null } else { json!(packets) };
        assert_eq!(cell["launch_packets"], launch, "{cell:#}");
        let cost = own["cost"]["load"].as_f64().expect("a load");
        assert!((cost / load - 1.0).abs() < 1e-6, "{cell:#}");
        assert!(own["next"]["worse_by"].is_string() && own["next"]["cost"].is_object());
        seen.insert((device, packets));
    }
    assert_eq!(seen.len(), 4, "each choice is best somewhere: {seen:?}");
}

#[test]
fn divided_flows_are_shown_with_their_lanes() {
    let demo = demo();
    let more = "--set chain.lanes=8 --rate 40gbps --delay 50ms";
    let text = demo.warpline(&format!("{ADVISE} {FOREIGN} {more}")).expect(0).stdout;
    let text = String::from_utf8(text).unwrap();
    let all = advice(&demo, more);
    let own = &all["chains"][0]["cells"][0]["placement"]["functions"][0];
    let lanes = own["device_lanes"].as_u64().expect("lanes");
    assert!((1..8).contains(&lanes), "{own:#}");
    let divided =
        format!("router uses its device in {lanes} of 8 lanes, and the CPU in the others");
    assert!(text.contains(&divided), "{text}");
    assert!(text.contains("A 4096/*") && text.contains("/   the CPU takes a part"), "{text}");
    let text = demo.warpline(&format!("{ADVISE} {FOREIGN} --rate 4gbps --delay 50ms")).expect(0);
    assert!(!String::from_utf8(text.stdout).unwrap().contains(" of its flows"));
}

#[test]
fn a_rate_and_a_delay_give_the_choice_with_its_keys() {
    let demo = demo();
    // 4,096 packets fill in 41.9 ms.
    let one = format!("{ADVISE} {FOREIGN} --rate 400mbps --delay 50ms");
    let text = String::from_utf8(demo.warpline(&one).expect(0).stdout).unwrap();
    for part in [
        "frames of 512 B, by throughput",
        "A   all functions on gpu-x",
        "400 Mb/s, 50 ms: A 4096: load 0.050, delay 42043 us, power unknown",
        "worse by its load",
        "router has 8.00 Gb/s, there 4.00",
        "device = \"gpu-x\"\n    launch_kib = 2048\n    launch_delay_us = ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = demo.warpline(&format!("{ADVISE} {FOREIGN} --delay 1us --rate 20gbps")).expect(0);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("no placement keeps all limits"), "{text}");
    assert!(text.contains("; it misses delay_us_max"), "{text}");
    let cells = |more: &str| advice(&demo, more)["chains"][0]["cells"].as_array().unwrap().len();
    assert_eq!((cells("--rate 1gbps"), cells("--delay 1ms")), (7, 10));
    let latency = advice(&demo, "--rate 100mbps --delay 1s --set placement.policy=latency");
    let own = &latency["chains"][0]["cells"][0]["placement"];
    assert_eq!(
        (&own["policy"], &own["functions"][0]["device"]),
        (&json!("latency"), &json!("cpu"))
    );
}

#[test]
fn virtual_gpus_have_a_scheduler_a_profile_and_five_limits() {
    let demo = demo();
    if !has_host(&demo) {
        return;
    }
    let of = |arena_mib: u32| {
        let more = format!("--rate 1gbps --delay 1ms --set chain.arena_mib={arena_mib}");
        advice(&demo, &more)["vgpu"].clone()
    };
    let small = of(64);
    assert_eq!(small["scheduler"], "best_effort");
    assert_eq!(small["limits"].as_array().map(Vec::len), Some(5));
    let large = of(1200);
    let bytes = |vgpu: &Value| vgpu["memory_bytes"].as_u64().expect("memory");
    // Packets may take half of the memory.
    assert_eq!(bytes(&large) - bytes(&small), 2 * ((1200 - 64) << 20));
    for vgpu in [small, large] {
        let bytes = bytes(&vgpu);
        let fits = |gb: &u64| gb * 1_000_000_000 >= bytes;
        for (number, sizes, total) in [(0, &[1, 2, 4, 8, 16][..], 16), (1, &[4, 5, 8, 10], 40)] {
            let profile = &vgpu["gpus"][number]["profile"];
            let smallest = *sizes.iter().find(|gb| fits(gb)).expect("it fits");
            assert_eq!(profile["memory_gb"], smallest, "{vgpu:#}");
            assert_eq!(profile["machines_max"], total / smallest, "{vgpu:#}");
        }
    }
    let text = |more: &str| {
        let command = format!("{ADVISE} {FOREIGN} --rate 1gbps {more}");
        String::from_utf8(demo.warpline(&command).expect(0).stdout).unwrap()
    };
    let own = text("");
    for part in ["scheduler best_effort: ", " virtual GPUs: at most ", "    5. no unified"] {
        assert!(own.contains(part), "{part}: {own}");
    }
    let about = own.split("virtual GPUs\n").nth(1).expect("virtual GPUs");
    assert!(about.lines().all(|line| line.chars().count() <= 80), "{about}");
    let own = text("--set chain.arena_mib=2048 --set chain.lanes=16");
    let words = own.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" virtual GPUs: no profile here has enough memory 4."), "{own}");
    let none = advice(&demo, "--set chain.functions=[\"ipcomp\"] --rate 1gbps");
    assert_eq!(none["vgpu"], Value::Null, "it has no kernels");
}

#[test]
fn mistakes_are_named() {
    let demo = demo();
    demo.write("broken.json", "{\n\"schema\": }");
    for (more, why) in [
        ("", "`warpline profile --out FILE` makes one; then give --profile FILE"),
        ("--profile none.json", "none.json"),
        ("--profile broken.json", "broken.json: line 2, column 11: not JSON"),
        ("--profile p.json", "the processor is \"none such\" there"),
        ("--profile p.json --rate 400", "--rate 400: write a number and kbps, mbps, gbps or tbps"),
        ("--profile p.json --rate -1mbps", "'-1' found"),
        ("--profile p.json --rate=-1mbps", "--rate -1mbps: write a number and kbps"),
        ("--profile p.json --rate 0gbps", "--rate 0gbps: allowed: from 1kbps to 10tbps"),
        ("--profile p.json --delay 50", "--delay 50: write a number and ns, us, ms or s"),
        ("--profile p.json --delay 2h", "--delay 2h: write a number and ns, us, ms or s"),
        ("--profile p.json --delay 1e9s", "--delay 1e9s: write a number"),
    ] {
        let ended = demo.warpline(&format!("{ADVISE} {more}")).expect(2);
        assert!(ended.stderr.contains(why), "{more}: {}", ended.stderr);
    }
    let ended = demo.warpline("advise none.toml --profile p.json").expect(2);
    assert!(ended.stderr.contains("none.toml"), "{}", ended.stderr);
}
