//! Functions that move while packets flow.

use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PLACED, profile};
use crate::devices::has_host;
use crate::harness::{Demo, LIMIT, output_of, wait};
use crate::stats;

/// A router of 1 Mb/s on the CPU that gets 50, with a device that is much faster.
#[test]
fn an_overload_is_answered_by_a_move() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.write("p.json", profile(0.001, 20.0).to_string());
    let run = demo.start(&format!(
        "run chain.toml {PLACED} --set chain.functions=[\"router\"] --socket s --stats s.json \
         --set placement.policy=latency --set placement.load_gbps=0.0005 --output none \
         --input generate:packets=10000000,size=512,rate_gbps=0.05"
    ));
    let started = Instant::now();
    let status = loop {
        let ended = demo.warpline("ctl status --json --socket s");
        let status: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
        if status["placement"]["total"].as_u64() > Some(0) {
            break status;
        }
        assert!(started.elapsed() < LIMIT, "no proposal: {status:#}");
        thread::sleep(Duration::from_millis(50));
    };
    let text = String::from_utf8(demo.warpline("ctl status --socket s").expect(0).stdout).unwrap();
    assert!(text.contains("\npolicy           latency\n"), "{text}");
    assert!(
        text.contains("1 lane, read ") && text.contains("  router         on host in "),
        "{text}"
    );
    assert!(text.contains(" s (overload): load ") && text.contains(", moved after "), "{text}");
    assert!(text.contains("  router of \"demo\" from cpu to host\n"), "{text}");
    let device = || {
        let functions = demo.warpline("ctl functions --json --socket s").expect(0).stdout;
        let functions: Value = serde_json::from_slice(&functions).expect("JSON");
        functions["chains"][0]["functions"][0]["device"].clone()
    };
    assert_eq!(device(), "host");
    // Now the monitor moves nothing until a policy takes over. That would choose the CPU for the
    // load of the file, and the monitor sees the live one.
    demo.warpline("ctl place router cpu --socket s").expect(0);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(device(), "cpu");
    let text = String::from_utf8(demo.warpline("ctl status --socket s").expect(0).stdout).unwrap();
    assert!(text.contains("latency, but functions stay where `ctl place` put them"), "{text}");
    demo.warpline("ctl policy latency --socket s").expect(0);
    let started = Instant::now();
    while device() != "host" {
        assert!(started.elapsed() < LIMIT, "the monitor does not take over");
        thread::sleep(Duration::from_millis(50));
    }
    demo.warpline("ctl stop --socket s").expect(0);
    let ended = wait(run).expect(0);
    let line = "placement: moved router of \"demo\" from cpu to host (overload, 0.0";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
    let placement = &stats::read(&demo, "s.json")["placement"];
    assert_eq!(placement["proposals"][0], status["placement"]["proposals"][0]);
    let own = &placement["proposals"][0];
    assert_eq!((&placement["policy"], &own["refused"]), (&json!("latency"), &Value::Null));
    assert_eq!(stats::read(&demo, "s.json")["chains"][0]["moves"]["count"], 3);
    assert_eq!(placement["proposals"][1]["reason"], "policy");
    let lanes = number(&stats::read(&demo, "s.json")["chains"][0]["lanes"]);
    is_by_the_load_seen(own, lanes);
}

fn number(of: &Value) -> f64 {
    of.as_f64().expect("a number")
}

/// Checks the figures of a proposal that moved the router: they follow from the rate seen, and not
/// from that of the file.
fn is_by_the_load_seen(own: &Value, lanes: f64) {
    // 12.2 kpps are 50 Mb/s; the first second may have fewer.
    let mpps = number(&own["mpps"]);
    assert!((0.006..0.02).contains(&mpps), "{own:#}");
    // With a tenth of headroom.
    let load = |gbps: f64| mpps * 1.1 * 512.0 * 8.0 / 1e3 / gbps;
    let (after, before) = (number(&own["cost"]["load"]), number(&own["cost_before"]["load"]));
    assert!((after / load(20.0) - 1.0).abs() < 1e-6, "{own:#}");
    assert!((before / load(0.001) * lanes - 1.0).abs() < 1e-6, "{own:#}");
    assert_eq!(
        (&own["deciding"]["function"], &own["moves"][0]["to"]),
        (&json!("router"), &json!("host"))
    );
    assert_eq!(
        (&own["deciding"]["gbps"], &own["deciding"]["before_gbps"]),
        (&json!(20.0), &json!(0.001))
    );
}

/// By its profile a launch of the device takes 10 us. It takes longer, since its lane looks for
/// completions every 50 us.
#[test]
fn the_time_of_launches_moves_a_function() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let mut wrong = profile(1.0, 1.0);
    for (work, us) in [(0, 45), (1, 10)] {
        let work = &mut wrong["measurements"][work];
        (work["latency_us"], work["launch_packets"]) = (us.into(), 1.into());
    }
    demo.write("p.json", wrong.to_string());
    // A packet each 100 us: few launches overlap, and on a busy machine most do.
    let run = demo.start(&format!(
        "run chain.toml {PLACED} --set chain.functions=[\"router\"] --socket s --stats s.json \
         --set placement.policy=latency --set placement.load_gbps=0.041 --output none \
         --input generate:packets=10000000,size=512,rate_gbps=0.041"
    ));
    let started = Instant::now();
    let moved = |text: &str| text.contains("  router of \"demo\" from host to cpu\n");
    loop {
        let text = String::from_utf8(demo.warpline("ctl status --socket s").stdout).unwrap();
        if moved(&text) {
            break;
        }
        assert!(started.elapsed() < 2 * LIMIT, "no move: {text}");
        thread::sleep(Duration::from_millis(200));
    }
    demo.warpline("ctl stop --socket s").expect(0);
    wait(run).expect(0);
    assert_eq!(stats::read(&demo, "s.json")["placement"]["proposals"][0]["reason"], "better");
}

/// The monitor follows another profile at once, and leaves functions that a client placed.
#[test]
fn a_reload_takes_another_profile() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.write("p.json", profile(20.0, 1.0).to_string());
    let port = crate::metrics::free_port();
    let run = demo.start(&format!(
        "run chain.toml {PLACED} --set chain.functions=[\"router\"] --socket s --stats s.json \
         --output none --input generate:packets=10000000,size=512,rate_gbps=0.05 \
         --metrics 127.0.0.1:{port}"
    ));
    let started = Instant::now();
    let text = |command: &str| {
        let ended = demo.warpline(&format!("ctl {command} --socket s"));
        String::from_utf8(ended.stdout).expect("text")
    };
    let json = |command: &str| {
        let text = text(&format!("{command} --json"));
        serde_json::from_str::<Value>(&text).unwrap_or_default()
    };
    let device = || json("functions")["chains"][0]["functions"][0]["device"].clone();
    let wait_for = |expected: &str| {
        while device() != expected {
            assert!(started.elapsed() < LIMIT, "not on {expected}: {:#}", json("status"));
            thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for("cpu");
    assert_eq!(text("reload"), "nothing changed\n");
    let mut other = profile(0.02, 20.0);
    other["devices"][0]["to_device_bytes_per_s"] = json!(2e10);
    demo.write("p.json", other.to_string());
    assert_eq!(text("reload"), "[placement] in place\n");
    wait_for("host");
    // The decision is counted once it is carried out, which is after the move.
    while json("status")["placement"]["total"] != 1 {
        assert!(started.elapsed() < LIMIT, "no decision: {:#}", json("status"));
    }
    let scraped = crate::metrics::scrape(port);
    let count = "warpline_placement_decisions_total{reason=\"profile\",result=\"done\"}";
    assert_eq!(crate::metrics::sample(&scraped, count), 1);
    assert!(scraped.contains("warpline_placement_load_ratio{placement=\"before\"} "), "{scraped}");
    let own = json("status")["placement"]["proposals"][0].clone();
    assert_eq!((&own["reason"], &own["moves"][0]["to"]), (&json!("profile"), &json!("host")));
    assert_eq!(own["deciding"]["before_gbps"], 0.02, "{own:#}");
    // A client placed it, so the next profile moves nothing. Neither does one that is broken.
    text("place router cpu");
    demo.write("p.json", profile(0.01, 20.0).to_string());
    assert_eq!(text("reload"), "[placement] in place\n");
    demo.write("p.json", "{");
    demo.warpline("ctl reload --socket s").expect(1);
    thread::sleep(Duration::from_secs(2));
    assert_eq!((device(), &json("status")["placement"]["total"]), (json!("cpu"), &json!(1)));
    // The policy takes over, by the last profile.
    demo.write("p.json", profile(20.0, 0.01).to_string());
    text("policy throughput");
    wait_for("host");
    text("stop");
    wait(run).expect(0);
    let all = stats::read(&demo, "s.json")["placement"]["proposals"].clone();
    // A machine under load may add decisions of its own.
    let of = |reason: &str| {
        let all = all.as_array().expect("proposals").iter();
        all.filter(|one| one["reason"] == reason).cloned().collect::<Vec<_>>()
    };
    assert_eq!((of("profile").len(), of("policy").len()), (1, 1), "{all:#}");
    assert_eq!(of("policy")[0]["deciding"]["before_gbps"], 0.01, "{all:#}");
}

/// A policy moves one chain, and the other is paused meanwhile. The monitor decides from the
/// devices in force.
#[test]
fn a_move_of_some_chains_is_seen_by_the_monitor() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let profile =
        |cpu_gbps, host_gbps| profile(cpu_gbps, host_gbps).to_string().replace("router", "digest");
    let chain = |name: &str, output: &str| {
        format!(
            "[[chain]]\nname = \"{name}\"\nfunctions = [\"digest\"]\noutput = \"{output}\"\n\
             input = \"generate:packets=100000000,size=512,rate_gbps=0.05\"\n"
        )
    };
    let placement = "[placement]\nprofile = \"p.json\"\nforeign_profile = true\n\
        cpu_devices = true\nload_gbps = 0.05\n";
    demo.write("c.toml", chain("a", "pipe") + &chain("b", "none") + placement);
    demo.write("p.json", profile(20.0, 0.02));
    output_of(Command::new("mkfifo").arg(demo.path("pipe")));
    let reads = Arc::new(AtomicBool::new(true));
    let reader = thread::spawn({
        let (path, reads) = (demo.path("pipe"), Arc::clone(&reads));
        move || {
            let (mut pipe, mut bytes) = (File::open(path).expect("a pipe"), vec![0; 1 << 16]);
            while !reads.load(Ordering::Relaxed) || pipe.read(&mut bytes).expect("bytes") > 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let run = demo.start("run c.toml --socket s --stats s.json");
    let started = Instant::now();
    let wait_for = |device: &str| {
        loop {
            let ended = demo.warpline("ctl functions --json --socket s");
            let all: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
            if all["chains"][0]["functions"][0]["device"] == device {
                return;
            }
            assert!(started.elapsed() < LIMIT, "not on {device}: {all:#}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for("cpu");
    demo.write("p.json", profile(0.001, 20.0));
    // Chain "a" can't move while nothing reads its output. Chain "b" must be ready by its pause.
    let is_half = (0..4).any(|round| {
        reads.store(false, Ordering::Relaxed);
        // The pipe fills.
        thread::sleep(Duration::from_millis(500));
        let policy = demo.start("ctl policy throughput --socket s");
        thread::sleep(Duration::from_secs(1 << round));
        demo.warpline("ctl pause --chain b --socket s").expect(0);
        reads.store(true, Ordering::Relaxed);
        let reported = wait(policy).expect(1).stderr;
        demo.warpline("ctl resume --chain b --socket s").expect(0);
        reported.contains("chain \"b\" is paused; moved before: \"a\"")
    });
    assert!(is_half, "no move failed halfway");
    wait_for("host");
    // By the profile that the monitor has, the device is too slow.
    wait_for("cpu");
    demo.warpline("ctl stop --socket s").expect(0);
    wait(run).expect(0);
    reader.join().expect("no panic");
    let own = stats::read(&demo, "s.json")["placement"]["proposals"][0].clone();
    let moved = (&own["reason"], &own["moves"][0]["from"], &own["moves"][1]);
    assert_eq!(moved, (&json!("overload"), &json!("host"), &Value::Null), "{own:#}");
}
