//! `[placement]`: devices by a profile.

use serde_json::{Value, json};

use crate::devices::has_host;
use crate::harness::Demo;
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
    assert!(text.contains("nids was never measured"), "{text}");
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
    assert!(text.contains("router         on cpu, as the file says"), "{text}");
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
    refused("{\n\"schema\": }", "line 2, column 11: no JSON");
    refused("{\"schema\": 1}", "another version");
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
