//! Functions on devices, as a user asks for them. The reference device needs a C compiler; where
//! there is none, its tests are skipped unless `WARPLINE_REQUIRE_DEVICES` names it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::ends::{signal, wait_until_running};
use crate::harness::{Child, Demo, output_of, wait};
use crate::stats::{self, whole};

/// Whether there is a reference device.
pub(crate) fn has_host(demo: &Demo) -> bool {
    let listed = String::from_utf8(demo.warpline("devices").expect(0).stdout).unwrap();
    let is_there = listed.lines().any(|line| line.starts_with("host"));
    let required = std::env::var("WARPLINE_REQUIRE_DEVICES").unwrap_or_default();
    assert!(is_there || !required.contains("host"), "{listed}");
    is_there
}

/// Devices start threads before interfaces are open.
#[test]
fn no_thread_keeps_a_capability() {
    let demo = Demo::new();
    let is_root = output_of(Command::new("id").arg("-u")).trim() == "0";
    if !is_root || !has_host(&demo) {
        return;
    }
    output_of(Command::new("chmod").args(["-R", "a+rwX"]).arg(demo.path(".")));
    let rights = "--reuid=39999 --clear-groups --inh-caps=+net_raw --ambient-caps=+net_raw";
    let run = "run chain.toml --device host --input af_packet:lo --output none --stats s.json -q";
    let child = Command::new("setpriv")
        .args(rights.split(' '))
        .arg(env!("CARGO_BIN_EXE_warpline"))
        .args(run.split(' '))
        .current_dir(demo.path("."))
        .env("HOME", demo.path("."))
        .stderr(Stdio::piped())
        .spawn();
    let child = Child::of(child.unwrap());
    wait_until_running(&demo, &child, 1);
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
    let rights = |task: &PathBuf| {
        let status = fs::read_to_string(task.join("status")).unwrap();
        let is_shown = |line: &&str| {
            ["Name:", "CapPrm:", "CapAmb:", "NoNewPrivs:"].iter().any(|key| line.starts_with(key))
        };
        status.lines().filter(is_shown).collect::<Vec<_>>().join(" ")
    };
    for task in tasks.iter().map(rights) {
        let has_none = "CapPrm:\t0000000000000000 CapAmb:\t0000000000000000 NoNewPrivs:\t1";
        assert!(task.ends_with(has_none), "{task}");
    }
    signal(&child, "TERM");
    let reported = wait(child).expect(143).stderr;
    assert!(!reported.contains("capabilities"), "{reported}");
}

#[test]
fn the_demo_is_the_same_on_a_device() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let run = |more: &str, output: &str| {
        demo.warpline(&format!("run chain.toml --output {output} --stats s.json {more}")).expect(0);
        (demo.read(output), stats::read(&demo, "s.json"))
    };
    let (on_cpu, _) = run("", "cpu.pcap");
    for more in [
        "--device host",
        "--device host --lanes 4 --set chain.batch_packets=32",
        "--device host --set router.streams=auto --set router.launch_kib=16",
    ] {
        let (on_device, stats) = run(more, "device.pcap");
        assert!(on_device == on_cpu, "{more}");
        let chain = &stats["chains"][0];
        assert!(whole(&chain["transfers"]["launches"]) > 0, "{chain}");
        assert!(whole(&chain["transfers"]["streams"]) > 0, "{chain}");
        let places: Vec<_> = chain["functions"].as_array().unwrap().iter().collect();
        let is_on = |name: &str, device: &str| {
            places.iter().any(|f| f["function"] == name && f["device"] == device)
        };
        assert!(is_on("router", "host") && is_on("ipcomp", "cpu"), "{places:?}");
    }
}

#[test]
fn requests_that_a_device_cannot_serve_are_refused() {
    let demo = Demo::new();
    let refused = |arguments: &str, why: &str| {
        let ended = demo.warpline(&format!("run chain.toml --output none {arguments}")).expect(2);
        assert!(ended.stderr.contains(why), "{arguments}: {}", ended.stderr);
    };
    refused("--device abacus", "no device \"abacus\"");
    refused("--set router.device=abacus", "no device \"abacus\"");
    let streams = "`streams` must be a whole number from 1 to 64 or \"auto\"";
    refused("--set router.streams=many", streams);
    refused("--set router.launch_kib=64", "`launch_kib` requires a `device` other than \"cpu\"");
    refused("--set router.graphs=true", "`graphs` requires a `device` other than \"cpu\"");
    if has_host(&demo) {
        refused("--device host --set router.graphs=true", "`graphs`: host has no graphs");
        refused("--set ipcomp.device=host", "the function has no kernels for \"host\"");
        let known = "devices here: ";
        refused("--device abacus", known);
        let checked = demo.warpline("check chain.toml --device host").expect(0);
        assert!(String::from_utf8_lossy(&checked.stdout).contains("router on host"));
    }
    let checked = demo.warpline("check chain.toml --device abacus").expect(2);
    assert!(checked.stderr.contains("no device \"abacus\""), "{}", checked.stderr);
}

/// Ticks of processor time that a process used.
fn used(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // proc(5): utime and stime are fields 14 and 15. The first field after the name is the third.
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A tick is a hundredth of a second. An engine that doesn't rest uses all 300 ticks of three
/// seconds. The ticks charged to one that rests depend on the machine, and were up to 17 on a
/// virtual one.
const TICKS_MAX: u64 = 60;

#[test]
fn an_engine_that_waits_hardly_works() {
    let demo = Demo::new();
    let device = if has_host(&demo) { "--device host" } else { "" };
    let mut child = demo.start(&format!("run chain.toml --input - --output none {device}"));
    let capture = demo.read("capture.pcap");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&capture[..20_000]).unwrap();
    stdin.flush().unwrap();
    // When it has done what there is to do is not said: the quietest of some windows counts.
    let window = || {
        let before = used(&child);
        sleep(Duration::from_secs(3));
        used(&child) - before
    };
    let ticks = (0..4).map(|_| window()).find(|&ticks| ticks <= TICKS_MAX);
    drop(stdin);
    wait(child).expect(0);
    assert!(ticks.is_some(), "more than {TICKS_MAX} hundredths of a second in each three");
}
